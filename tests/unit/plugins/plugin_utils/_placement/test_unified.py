# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""GPUs without memory of their own: what is placed on them and what runs beside them share one pool."""

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import read_nodes

from .helpers import card, make_plan, model, node, places, refusal, role

GIB = 1024


def spark(name, *more, memory_gb=128, **facts):
    """A node whose GPU has the memory of the node, all but 8 GB, which the node keeps."""
    unified = card(0, memory_gb, gpu_class="gb10", compute_cap=12.1, memory_mib=None, unified_memory=True)
    return node(name, unified, *more, memory_gb=memory_gb, memory_mib=memory_gb * GIB, reserve_gb=8) | facts


def left(document, name="a"):
    return next(entry["memory_left_mib"] for entry in document["nodes"] if entry["name"] == name)


BARE = {"passthrough": False}


def test_a_role_on_the_card_takes_memory_of_the_node():
    document = make_plan([spark("a")], [role("chat", 60)], **BARE)
    assert places(document) == {"chat/0": "a:0"}
    assert document["assignments"][0]["unified_memory_mib"] == 60 * GIB
    assert left(document) == 60 * GIB


def test_a_machine_takes_its_own_memory_beside_it():
    document = make_plan([spark("a")], [role("chat", 60, needs={"min_memory_gb": 20})])
    assert document["assignments"][0]["memory_mib"] == 20 * GIB
    assert left(document) == 40 * GIB
    # One that asks for nothing gets a share of what is left.
    document = make_plan([spark("a")], [role("chat", 110)])
    assert document["assignments"][0]["memory_mib"] == 10 * GIB
    assert left(document) == 0


@pytest.mark.parametrize("passthrough", [True, False])
def test_work_without_a_card_lowers_what_the_card_has(passthrough):
    small = role("db", needs={"gpu": False, "gpu_nodes": True, "min_memory_gb": 50}, priority=1)
    nodes = [spark("a")]
    assert places(make_plan(nodes, [small, role("chat", 70)], passthrough=passthrough)) == {
        "db/0": "a",
        "chat/0": "a:0",
    }
    document = make_plan(nodes, [small, role("chat", 71)], passthrough=passthrough)
    assert places(document) == {"db/0": "a"}
    assert refusal(document, "chat")["code"] == "node_memory"
    reason = "1 on nodes without 72704 MiB of memory left for the GPU (at most 71680 MiB)"
    assert refusal(document, "chat")["reason"] == reason
    document = make_plan(nodes, [small | {"priority": 200}, role("chat", 71)], passthrough=passthrough)
    assert places(document) == {"chat/0": "a:0"}
    assert refusal(document, "db")["code"] == "node_memory"


def test_a_node_with_another_card_counts_that_card_apart():
    nodes = [spark("a", card(1, 24))]
    roles = [role("chat", 100, priority=1), role("small", 20, count=2)]
    document = make_plan(nodes, roles, **BARE)
    assert places(document) == {"chat/0": "a:0", "small/0": "a:1"}
    assert left(document) == 20 * GIB


def test_a_node_without_such_a_card_counts_nothing_on_bare_metal():
    nodes = [spark("a"), node("b", 24, memory_gb=16, memory_mib=16 * GIB)]
    document = make_plan(nodes, [role("chat", 24, needs={"min_memory_gb": 64, "gpu_class": "c24"})], **BARE)
    assert places(document) == {"chat/0": "b:0"}
    assert left(document, "b") == 14 * GIB


def test_a_replica_of_a_model_takes_its_part():
    nodes = [spark("a", fabrics=["f"]), spark("b", fabrics=["f"])]
    many = model("big", 160, ("gb10", 1, 2))
    document = make_plan(nodes, models=[many], **BARE)
    assert places(document) == {"big/0": "a:0 b:0"}
    assert [shard["unified_memory_mib"] for shard in document["replicas"][0]["shards"]] == [80 * GIB] * 2
    assert (left(document), left(document, "b")) == (40 * GIB, 40 * GIB)
    eater = role("db", needs={"gpu": False, "gpu_nodes": True, "min_memory_gb": 50})
    document = make_plan(nodes, [eater], [many], **BARE)
    assert places(document) == {"db/0": "a"}
    assert refusal(document, "big")["rejected"] == {"fabric": 1, "node_memory": 1}


def test_what_may_be_kept_is_kept_and_nothing_is_claimed_twice():
    nodes = [spark("a"), spark("b")]
    roles = [role("chat", 80, count=2), role("db", needs={"gpu": False, "gpu_nodes": True, "min_memory_gb": 30})]
    for options in (BARE, {}):
        first = make_plan(nodes, roles, **options)
        assert places(first) == {"chat/0": "a:0", "chat/1": "b:0", "db/0": "a"}
        second = make_plan(nodes, roles, previous=first, **options)
        assert {**second, "changes": 0} == {**first, "changes": 0}
        assert second["changes"]["moves"] == []


def test_what_does_not_fit_any_more_goes():
    nodes = [spark("a")]
    roles = [role("chat", 80)]
    first = make_plan(nodes, roles)
    nodes[0]["memory_mib"] = 80 * GIB
    second = make_plan(nodes, roles, previous=first)
    assert places(second) == {}
    assert [lost["cause"] for lost in second["changes"]["blocked"]] == ["node_memory"]


def test_the_memory_that_a_node_does_not_tell_is_not_counted():
    unknown = spark("a") | {"memory_gb": None, "memory_mib": None}
    document = make_plan([unknown], [role("chat", 100)], **BARE)
    assert places(document) == {"chat/0": "a:0"}
    assert left(document) is None


def test_a_rescue_moves_what_is_in_the_way():
    """The first fits both GPUs and takes the one that the second needs for its memory."""
    nodes = [spark("a", memory_gb=64), node("b", card(0, 64, gpu_class="other", compute_cap=12.1))]
    roles = [role("first", 48, priority=1), role("db", needs={"gpu_class": "gb10", "min_memory_gb": 8}, priority=2)]
    document = make_plan(nodes, roles)
    assert places(document) == {"first/0": "b:0", "db/0": "a:0"}
    assert (
        left(document)
        + sum(
            one["memory_mib"] + one.get("unified_memory_mib", 0)
            for one in document["assignments"]
            if one["node"] == "a"
        )
        == 56 * GIB
    )


def test_a_card_that_shares_is_another_fleet():
    nodes = [spark("a")]
    plain = [spark("a")]
    del plain[0]["gpus"][0]["unified_memory"]
    assert make_plan(nodes)["inputs"]["nodes"] != make_plan(plain)["inputs"]["nodes"]


def test_exact_arithmetic_goes_by_what_the_kernel_has():
    (shape,) = read_nodes([spark("a", memory_mib=124600)]).shapes
    assert (shape.memory_gb, shape.memory_mib) == (128, 124600)
    # A part of the memory of a node that is no more than its size on the box.
    (shape,) = read_nodes([spark("a", memory_mib=260000)]).shapes
    assert shape.memory_mib == 128 * GIB


def test_a_node_written_by_hand_may_leave_the_size_to_its_memory():
    unified = {"index": 0, "name": "Orin (nvgpu)", "compute_cap": 8.7, "unified_memory": True}
    nodes = [{"name": "a", "memory_gb": 64, "gpus": [unified]}]
    assert places(make_plan(nodes, [role("chat", 32)], **BARE)) == {"chat/0": "a:0"}
    assert refusal(make_plan(nodes, [role("chat", 63)], **BARE), "chat")["code"] == "node_memory"
    assert refusal(make_plan(nodes, [role("chat", 65)], **BARE), "chat")["code"] == "vram"
