# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Planning on top of the last plan: what stays, what moves, why, and what is said of it."""

from __future__ import annotations

import copy

import pytest

from .helpers import card, identified, make_plan, model, node, places, refusal, role, states

CHAT = role("chat", 20)
PAIR = model("pair", 40, ("c24", 2, 1))


def moves(document):
    return [
        (move.get("role") or move["model"], move["replica"], move["cause"]) for move in document["changes"]["moves"]
    ]


def without_changes(document):
    return {key: value for key, value in document.items() if key != "changes"}


def test_a_better_card_moves_nothing():
    first = make_plan([identified("a", 48)], [CHAT])
    second = make_plan([identified("a", 48), identified("b", 24)], [CHAT], previous=first)
    assert places(second) == {"chat/0": "a:0"}
    assert second["assignments"][0]["why"]["rule"] == "kept"
    assert second["changes"] == {"moves": [], "retained": ["chat/0"], "blocked": []}


def test_rebalance_plans_afresh_and_lists_what_moves():
    nodes = [identified("a", 48), identified("b", 24)]
    first = make_plan(nodes[:1], [CHAT])
    second = make_plan(nodes, [CHAT], previous=first, rebalance=True)
    assert without_changes(second) == without_changes(make_plan(nodes, [CHAT]))
    assert second["changes"]["moves"] == [
        {
            "role": "chat",
            "replica": 0,
            "from": {"node": "a", "gpu_index": 0},
            "to": {"node": "b", "gpu_index": 0},
            "cause": "rebalance",
        }
    ]


def test_a_card_is_known_by_what_it_is_and_not_by_its_index():
    first = make_plan([identified("a", 24, 24)], [role("chat", 20, count=2)])
    nodes = [identified("a", 24, 24)]
    for gpu in nodes[0]["gpus"]:
        gpu["index"] += 1
    nodes[0]["gpus"].append(card(0, 80, uuid="GPU-new", pci={"address": "0000:00:01.0"}))
    second = make_plan(nodes, [role("chat", 20, count=2)], previous=first)
    assert places(second) == {"chat/0": "a:1", "chat/1": "a:2"}
    assert moves(second) == []


def test_another_card_in_the_same_slot_is_another_card():
    first = make_plan([identified("a", 24)], [CHAT])
    nodes = [identified("a", 24), identified("b", 24)]
    nodes[0]["gpus"][0]["uuid"] = "GPU-other"
    second = make_plan(nodes, [CHAT], previous=first)
    assert moves(second) == [("chat", 0, "gpu_gone")]
    assert second["changes"]["retained"] == []


def test_a_card_that_lost_its_uuid_is_the_same_card():
    first = make_plan([identified("a", 48)], [CHAT])
    nodes = [identified("a", 48), identified("b", 24)]
    nodes[0]["gpus"][0]["uuid"] = None
    assert make_plan(nodes, [CHAT], previous=first)["changes"]["retained"] == ["chat/0"]


CAUSES = [
    ("a GPU that was taken out", lambda gpus: gpus.pop(0), "gpu_gone"),
    ("a GPU that shrank", lambda gpus: gpus[0].update(memory_gb=16), "vram"),
    (
        "a GPU that a stranger holds",
        lambda gpus: gpus[0].update(holder={"kind": "vm", "id": 9, "ours": False}),
        "external",
    ),
    ("a GPU that was split", lambda gpus: gpus[0].update(mig=True), "mig"),
    ("a GPU that broke", lambda gpus: gpus[0].update(healthy=False), "unhealthy"),
]


@pytest.mark.parametrize(("change", "cause"), [each[1:] for each in CAUSES], ids=[each[0] for each in CAUSES])
def test_only_what_can_not_stay_moves(change, cause):
    nodes = [identified("a", 24, 24)]
    first = make_plan(nodes, [CHAT])
    after = copy.deepcopy(nodes)
    change(after[0]["gpus"])
    second = make_plan(after, [CHAT], previous=first)
    assert places(second) == {"chat/0": "a:1"}
    assert moves(second) == [("chat", 0, cause)]


@pytest.mark.parametrize("healthy", [True, False])
def test_a_card_that_a_stranger_holds_is_not_kept_even_without_another(healthy):
    nodes = [identified("a", 24)]
    first = make_plan(nodes, [CHAT])
    nodes[0]["gpus"][0] |= {"healthy": healthy, "holder": {"kind": "vm", "id": 9, "name": "win", "ours": False}}
    second = make_plan(nodes, [CHAT], previous=first)
    assert second["assignments"] == []
    assert refusal(second, "chat")["missing"] == 1
    assert [(row["state"], row["by"]) for row in second["ledger"]] == [("external", "vm win")]


def test_a_process_of_the_node_keeps_off_what_is_new_and_may_be_what_was_placed_on_bare_metal():
    nodes = [identified("a", 24, 24)]
    first = make_plan(nodes, [CHAT], passthrough=False)
    for gpu in nodes[0]["gpus"]:
        gpu["holder"] = {"kind": "host", "id": 4711, "name": "python3", "ours": False}
    second = make_plan(nodes, [CHAT], previous=first, passthrough=False)
    assert places(second) == places(first)
    assert second["changes"]["retained"] == ["chat/0"]
    assert states(second) == {"used": 1, "external": 1}
    assert make_plan(nodes, [CHAT], passthrough=False)["assignments"] == []
    # What is passed through is in a machine, and no process of the node can be it.
    assert make_plan(nodes, [CHAT], previous=make_plan([identified("a", 24, 24)], [CHAT]))["assignments"] == []


def test_a_broken_card_without_another_is_kept_and_marked():
    nodes = [identified("a", 24)]
    first = make_plan(nodes, [CHAT])
    nodes[0]["gpus"][0]["healthy"] = False
    second = make_plan(nodes, [CHAT], previous=first)
    assert second["assignments"][0]["at_risk"] == "unhealthy"
    assert second["changes"]["blocked"] == [
        {"role": "chat", "replica": 0, "node": "a", "gpu_index": 0, "cause": "unhealthy"}
    ]


def test_a_draining_node_is_emptied_by_priority_as_far_as_there_is_room():
    nodes = [identified("a", 24, 24), identified("b", 24)]
    roles = [role("first", 20, priority=1), role("second", 20, priority=2)]
    first = make_plan(nodes, roles)
    assert places(first) == {"first/0": "a:0", "second/0": "a:1"}
    nodes[0]["state"] = "draining"
    second = make_plan(nodes, roles, previous=first)
    assert places(second) == {"first/0": "b:0", "second/0": "a:1"}
    assert moves(second) == [("first", 0, "drain")]
    assert [one.get("at_risk") for one in second["assignments"]] == [None, "draining"]
    assert second["changes"]["blocked"] == [
        {"role": "second", "replica": 0, "node": "a", "gpu_index": 1, "cause": "drain"}
    ]
    assert second["unplaced"] == []


def test_a_cordoned_node_keeps_what_it_has_and_gets_nothing_new():
    nodes = [identified("a", 24, 24)]
    first = make_plan(nodes, [CHAT])
    nodes[0]["state"] = "cordoned"
    second = make_plan(nodes, [role("chat", 20, count=2)], previous=first)
    assert places(second) == {"chat/0": "a:0"}
    assert "at_risk" not in second["assignments"][0]
    assert refusal(second, "chat")["code"] == "node_state"


def test_a_lower_count_lets_the_highest_go_and_a_removed_role_all():
    nodes = [identified("a", 24, 24, 24)]
    first = make_plan(nodes, [role("chat", 20, count=3)])
    second = make_plan(nodes, [role("chat", 20, count=1)], previous=first)
    assert places(second) == {"chat/0": "a:0"}
    third = make_plan(nodes, [], previous=second)
    assert places(third) == {}


def test_under_none_a_move_is_offered_and_under_relocate_it_is_made():
    nodes = [identified("a", 80), identified("b", 24)]
    first = make_plan(nodes, [role("chat", 20, prefer="largest")])
    roles = [role("chat", 20, prefer="largest"), role("big", 70)]
    second = make_plan(nodes, roles, previous=first)
    assert places(second) == {"chat/0": "a:0"}
    entry = refusal(second, "big")
    assert "bottleneck" not in entry
    assert entry["what_would_help"][0]["change"] == {"count": {"role": "chat", "count": 0}}
    assert entry["what_would_help"][1] == {
        "change": {
            "moves": [
                {
                    "role": "chat",
                    "replica": 0,
                    "from": {"node": "a", "gpu_index": 0},
                    "to": {"node": "b", "gpu_index": 0},
                }
            ]
        },
        "verified": True,
        "text": "move chat/0 from a:0 to b:0 (moves: relocate)",
    }
    third = make_plan(nodes, roles, previous=second, moves="relocate")
    assert places(third) == {"chat/0": "b:0", "big/0": "a:0"}
    assert moves(third) == [("chat", 0, "rescue")]


def test_preempt_takes_a_card_from_what_comes_later():
    nodes = [identified("a", 24)]
    first = make_plan(nodes, [role("late", 20, priority=200)])
    roles = [role("late", 20, priority=200), role("early", 20, priority=1)]
    for kind in ("none", "relocate"):
        assert places(make_plan(nodes, roles, previous=first, moves=kind)) == {"late/0": "a:0"}
    document = make_plan(nodes, roles, previous=first, moves="preempt")
    assert places(document) == {"early/0": "a:0"}
    assert document["changes"]["blocked"] == [
        {"role": "late", "replica": 0, "node": "a", "gpu_index": 0, "cause": "preempt", "lost": True}
    ]
    same = [role("late", 20, priority=1), role("early", 20, priority=1)]
    assert places(make_plan(nodes, same, previous=first, moves="preempt")) == {"late/0": "a:0"}


def test_replicas_of_models_stay_move_and_say_what_to_copy():
    held = [{"name": "org/pair", "path": "/m/org/pair", "size_gb": 41}]
    nodes = [identified("a", 24, 24, weights=held), identified("b", 24, 24, weights=[])]
    first = make_plan(nodes, models=[PAIR])
    assert places(first) == {"pair/0": "a:0,1"}
    nodes[0]["state"] = "draining"
    second = make_plan(nodes, models=[PAIR], previous=first)
    assert places(second) == {"pair/0": "b:0,1"}
    assert second["changes"]["moves"] == [
        {
            "model": "pair",
            "replica": 0,
            "from": [{"node": "a", "gpu_indices": [0, 1]}],
            "to": [{"node": "b", "gpu_indices": [0, 1]}],
            "cause": "drain",
            "weights": [{"state": "copy", "gb": 41}],
        }
    ]
    nodes[1]["state"] = "unreachable"
    third = make_plan(nodes, models=[PAIR], previous=second)
    assert places(third) == {"pair/0": "b:0,1"}
    assert third["replicas"][0]["shards"][0]["at_risk"] == "unreachable"


def test_a_changed_profile_is_stale_and_moves_nothing():
    nodes = [identified("a", 24, 24), identified("b", 24, 24)]
    first = make_plan(nodes, models=[PAIR])
    changed = copy.deepcopy(PAIR)
    changed["profiles"][0]["env"] = {"A": "1"}
    second = make_plan(nodes, models=[changed], previous=first)
    assert places(second) == places(first)
    assert second["replicas"][0]["fingerprint"] != first["replicas"][0]["fingerprint"]


def test_a_running_machine_of_ours_that_is_in_no_plan_is_adopted():
    nodes = [identified("a", 24, 48)]
    nodes[0]["gpus"][1]["holder"] = {"kind": "vm", "id": 101, "name": "chat-0", "ours": True}
    assert places(make_plan(nodes, [CHAT], previous={})) == {"chat/0": "a:1"}
    assert places(make_plan(nodes, [CHAT])) == {"chat/0": "a:0"}


def test_a_machine_that_asked_for_no_memory_keeps_its_share():
    nodes = [identified("a", 24, 24, memory_gb=32)]
    first = make_plan(nodes, [CHAT])
    second = make_plan(nodes, [role("chat", 20, count=2)], previous=first)
    assert first["assignments"][0]["memory_mib"] == 16384
    assert [one["memory_mib"] for one in second["assignments"]] == [16384, 32 * 1024 - 2048 - 16384]
    small = make_plan([identified("a", 24, 24, memory_gb=4)], [role("chat", 20, count=2)])
    assert [(one["memory_mib"], one["at_risk"]) for one in small["assignments"]] == [(1024, "memory")] * 2


def test_work_without_a_card_stays_on_its_node():
    gateway = role("gw", engine="llamacpp", needs={"gpu": False})
    first = make_plan([node("b", memory_gb=64)], [gateway])
    second = make_plan([node("a", memory_gb=512), node("b", memory_gb=64)], [gateway], previous=first)
    assert places(second) == {"gw/0": "b"}


def test_inputs_are_not_changed():
    nodes, roles = [identified("a", 24, 24)], [CHAT]
    first = make_plan(nodes, roles, [PAIR])
    before = copy.deepcopy((nodes, roles, PAIR, first))
    make_plan(nodes, roles, [PAIR], previous=first, moves="preempt")
    assert (nodes, roles, PAIR, first) == before
