# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Which GPUs can be had at all, and how much memory models take of them."""

from __future__ import annotations

import pytest

from .helpers import card, make_plan, model, node, places, refusal, role, states


def grouped(index, *peers):
    """A GPU in an IOMMU group with these peers, (address, class) each."""
    pci = {"address": f"0000:0{index}:00.0", "iommu_peers": [{"address": peer[0], "class": peer[1]} for peer in peers]}
    return card(index, 24, pci=pci)


TEST_GROUPS = [
    ("audio of the same GPU", [("0000:00:00.1", "0x040300")], True),
    ("a bridge", [("0000:02:01.0", "0x060400")], True),
    ("a network GPU", [("0000:05:00.0", "0x020000")], False),
    ("a display that is no GPU of the node", [("0000:06:00.0", "0x030000")], False),
]


@pytest.mark.parametrize(
    ("peers", "is_placed"), [each[1:] for each in TEST_GROUPS], ids=[each[0] for each in TEST_GROUPS]
)
def test_a_card_is_passed_through_only_without_strangers(peers, is_placed):
    nodes = [node("a", grouped(0, *peers))]
    document = make_plan(nodes, [role("chat", 20)])
    assert bool(document["assignments"]) is is_placed
    if not is_placed:
        assert refusal(document, "chat")["rejected"] == {"iommu_group": 1}
        assert places(make_plan(nodes, [role("chat", 20)], passthrough=False)) == {"chat/0": "a:0"}


def test_cards_of_one_group_go_to_one_machine():
    first, second = grouped(0, ("0000:01:00.0", "0x030000")), grouped(1, ("0000:00:00.0", "0x030000"))
    nodes = [node("a", first, second, card(2, 24, pci={"address": "0000:02:00.0"}))]
    assert places(make_plan(nodes, [role("chat", 20, count=3)])) == {"chat/0": "a:2"}
    assert places(make_plan(nodes, models=[model("m", 40, ("c24", 2, 1))])) == {"m/0": "a:0,1"}
    assert places(make_plan(nodes, models=[model("m", 20, ("c24", 1, 1), replicas=2)])) == {"m/0": "a:2"}
    assert places(make_plan(nodes, models=[model("m", 60, ("c24", 3, 1))])) == {"m/0": "a:0,1,2"}


def test_every_card_is_in_one_state():
    stranger = {"kind": "container", "name": "db", "ours": False}
    gpus = [
        card(0, 24),
        card(1, 24, healthy=False),
        card(2, 24, healthy=None),
        card(3, 24, holder=stranger),
        card(4, 80, mig=True),
        card(5, 24, holder={"kind": "vm", "id": 7, "ours": True}),
    ]
    document = make_plan([node("a", *gpus)])
    assert [row["state"] for row in document["ledger"]] == [
        "free",
        "unhealthy",
        "unknown",
        "external",
        "unknown",
        "free",
    ]
    assert document["ledger"][3]["by"] == "container db"
    placed = make_plan([node("a", *gpus)], [role("chat", 20, count=6)])
    assert [row["state"] for row in placed["ledger"]] == ["used", "unhealthy", "unknown", "external", "unknown", "used"]
    assert refusal(placed, "chat")["rejected"] == {
        "mig": 1,
        "unhealthy": 1,
        "health_unknown": 1,
        "external": 1,
        "in_use": 2,
    }


def test_a_card_without_known_memory_gets_nothing_that_asks_for_memory():
    nodes = [node("a", card(0, None))]
    assert refusal(make_plan(nodes, [role("chat", 20)]), "chat")["code"] == "memory_unknown"
    assert places(make_plan(nodes, [role("any")])) == {"any/0": "a:0"}


def test_nodes_without_cards_and_with_unknown_ones_are_two_things():
    nodes = [node("a"), {"name": "b", "gpus": None}, {"name": "c"}]
    entry = refusal(make_plan(nodes, [role("chat", 20)]), "chat")
    assert entry["rejected"] == {"no_gpu": 1, "gpus_unknown": 2}
    assert entry["reason"] == "1 node without a GPU, 2 nodes with unknown GPUs"
    gateway = role("gw", engine="llamacpp", needs={"gpu": False}, count=2)
    assert places(make_plan(nodes, [gateway])) == {"gw/0": "a", "gw/1": "a"}


def test_work_without_cards_spreads_before_it_doubles():
    nodes = [node("a", memory_gb=32), node("b", memory_gb=256), node("c", 24, memory_gb=512), node("d", memory_gb=None)]
    gateway = role("gw", engine="llamacpp", needs={"gpu": False, "min_memory_gb": 20}, count=5)
    assert places(make_plan(nodes, [gateway])) == {"gw/0": "b", "gw/1": "a", "gw/2": "d", "gw/3": "b", "gw/4": "d"}
    admitted = role("gw", engine="llamacpp", needs={"gpu": False, "gpu_nodes": True}, count=5)
    assert places(make_plan(nodes, [admitted])) == {"gw/0": "b", "gw/1": "a", "gw/2": "d", "gw/3": "c", "gw/4": "b"}


def test_a_fallback_role_takes_cards_first_and_then_the_cpu():
    roles = [
        role("embed", 8, engine="llamacpp", cpu_fallback=True, count=2, priority=1),
        role("chat", 20, priority=2),
    ]
    document = make_plan([node("a", 24), node("b")], roles)
    assert places(document) == {"embed/0": "a:0", "embed/1": "b"}
    assert refusal(document, "chat")["code"] == "in_use"


def test_memory_of_nodes_is_never_promised_twice():
    large = role("large", 20, needs={"min_memory_gb": 40}, count=2)
    document = make_plan([node("a", 24, 24, memory_gb=64), node("b", 24, memory_gb=None)], [large])
    assert places(document) == {"large/0": "a:0", "large/1": "b:0"}
    assert document["nodes"][0]["memory_left_mib"] == 65536 - 3277 - 40960
    entry = refusal(make_plan([node("a", 24, 24, memory_gb=64)], [large]), "large")
    assert (entry["code"], entry["rejected"]) == ("node_memory", {"in_use": 1, "node_memory": 1})


def test_disk_and_memory_that_are_not_known_exclude_nothing():
    profile = {"name": "p", "engine": "other", "gpu_class": "c24", "min_disk_gb": 100, "min_memory_gb": 64}
    small = [{"path": "/m", "free_gb": 10}]
    held = [{"name": "org/m", "path": "/m/org/m", "size_gb": 10}]
    wanted = [model("m", 20, profile)]
    assert places(make_plan([node("a", 24, memory_gb=None)], models=wanted)) == {"m/0": "a:0"}
    larger = [{"path": "/m", "free_gb": 99}]
    entry = refusal(make_plan([node("a", 24, storage=small), node("b", 24, storage=larger)], models=wanted), "m")
    assert (entry["code"], entry["rejected"]) == ("disk", {"disk": 2})
    assert entry["reason"] == "2 on nodes without 100 GB of disk space (at most 99 GB)"
    assert places(make_plan([node("a", 24, storage=small, weights=held)], models=wanted)) == {"m/0": "a:0"}


def test_on_demand_and_off():
    models = [
        model("later", 20, ("c24", 1, 1), scaling={"min": 0, "max": 5}),
        model("off", 20, ("c24", 1, 1), scaling={"min": 0, "max": 0}),
    ]
    document = make_plan([node("a", 24, 24, 24)], [role("chat", 20)], models)
    assert document["on_demand"] == [{"model": "later", "could_place": 2}]
    assert document["off"] == ["off"]
    assert states(document) == {"used": 1, "free": 2}


def test_names_are_in_natural_order():
    nodes = [node(f"n{number}", 24) for number in (10, 9, 1, 2)]
    assert places(make_plan(nodes, [role("chat", 20, count=4)])) == {
        "chat/0": "n1:0",
        "chat/1": "n2:0",
        "chat/2": "n9:0",
        "chat/3": "n10:0",
    }


def test_compute_capabilities_are_not_fractions():
    nodes = [node("a", card(0, 24, compute_cap="12.10")), node("b", card(0, 24, compute_cap=12.1))]
    document = make_plan(nodes, [role("chat", 20, needs={"min_cc": "12.2"})])
    assert places(document) == {"chat/0": "a:0"}
    assert document["assignments"][0]["gpu"]["compute_cap"] == "12.10"


def test_weights_decide_between_equal_cards():
    held = [{"name": "org/m", "path": "/m/org/m", "size_gb": 10}]
    nodes = [node("a", 24, weights=[]), node("b", 24, weights=held)]
    document = make_plan(nodes, [role("chat", 20)], [model("m", 20)])
    assert places(document) == {"chat/0": "b:0"}
    assert document["assignments"][0]["weights"] == {"state": "held", "model": "m"}
    fixed = role("chat", 20, slots=[{"name": "s", "model": "m"}], needs={"node": "a"})
    document = make_plan(nodes, [fixed], [model("m", 20)])
    assert document["assignments"][0]["weights"] == {"state": "copy", "model": "m", "gb": 10}


def test_a_slot_brings_the_needs_of_its_model():
    slots = [{"name": "s", "model": "m"}]
    document = make_plan([node("a", 24, 48)], [role("chat", 8, slots=slots)], [model("m", 40)])
    assert places(document) == {"chat/0": "a:1"}


def test_a_virtual_card_is_used_where_it_is_and_given_to_no_machine():
    for gpu in (card(0, 24, name="NVIDIA L40S-24Q"), card(0, 24, vgpu=True)):
        nodes = [node("a", gpu)]
        document = make_plan(nodes, [role("chat", 20)])
        assert refusal(document, "chat")["rejected"] == {"mig": 1}
        assert refusal(document, "chat")["reason"] == "1 divided or a part of a GPU"
        assert states(document) == {"unknown": 1}
        served = [model("m", 20)]
        document = make_plan(nodes, [role("chat", 20)], served, passthrough=False)
        assert places(document) == {"chat/0": "a:0"}
        assert document["assignments"][0]["models_fitting"] == ["m"]
