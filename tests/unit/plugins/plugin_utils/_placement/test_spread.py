# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Spread over nodes, fabrics and labels, one on every node, CPU profiles on nodes with GPUs, cordoned GPUs."""

from __future__ import annotations

import pytest

from .helpers import card, identified, make_plan, model, node, places, refusal, role

CPU = {"name": "cpu", "engine": "llamacpp", "min_memory_gb": 20}


def nodes_of(document):
    return [one["node"] for one in document["assignments"]] + [
        shard["node"] for one in document["replicas"] for shard in one["shards"]
    ]


@pytest.mark.parametrize("spread", ["node", {"by": "node"}, {"by": "label", "label": "rack"}, {"by": "fabric"}])
def test_replicas_spread_where_the_entry_says_so_and_fill_where_it_does_not(spread):
    nodes = [node(f"n{at}", 24, 24, 24, labels={"rack": f"r{at}"}, fabrics=[f"f{at}"]) for at in range(2)]
    for more, expected in (({}, ["n0"] * 3), ({"spread": spread}, ["n0", "n1", "n0"])):
        assert nodes_of(make_plan(nodes, [role("chat", 20, count=3, **more)])) == expected
        assert nodes_of(make_plan(nodes, models=[model("m", 20, ("c24", 1, 1), replicas=3, **more)])) == expected


def test_a_hard_spread_allows_one_in_each_domain_and_its_help_is_to_soften_it():
    nodes = [node("n0", 24, 24), node("n1", 24, 24)]
    for made in (
        {"roles": [role("chat", 20, count=3, spread={"hard": True})]},
        {"models": [model("chat", 20, ("c24", 1, 1), replicas=3, spread={"hard": True})]},
    ):
        document = make_plan(nodes, **made)
        assert nodes_of(document) == ["n0", "n1"]
        entry = refusal(document, "chat")
        assert (entry["code"], entry["rejected"]) == ("spread", {"in_use": 2, "spread": 2})
        assert next(iter(entry["what_would_help"][0]["change"])) == "spread"


def test_per_node_runs_one_on_every_node_that_matches_and_keeps_its_numbers():
    nodes = [identified(f"n{at}", 24, 24, labels={"edge": "yes"}) for at in range(3)] + [identified("other", 24)]
    agent = role("agent", 8, per_node=1, needs={"node_selector": {"edge": "yes"}})
    first = make_plan(nodes, [agent])
    assert places(first) == {"agent/0": "n0:0", "agent/1": "n1:0", "agent/2": "n2:0"}
    second = make_plan(nodes[1:], [agent], previous=first)
    assert places(second) == {"agent/1": "n1:0", "agent/2": "n2:0"}
    third = make_plan(nodes, [agent], previous=second)
    assert places(third) == places(first)
    assert third["unplaced"] == []


def test_per_node_runs_one_of_a_model_on_every_node_that_matches():
    served = model("m", 20, ("c24", 1, 1), per_node=1)
    served.pop("scaling")
    nodes = [node("n0", 24, 24), node("n1", 24), node("n2", 48)]
    assert places(make_plan(nodes, models=[served])) == {"m/0": "n1:0", "m/1": "n0:0"}


def test_a_node_with_a_broken_gpu_comes_last():
    nodes = [node("n0", 24, 24, card(2, 24, healthy=False)), node("n1", 24, 24, 24)]
    assert nodes_of(make_plan(nodes, [role("chat", 20)])) == ["n1"]
    assert nodes_of(make_plan(nodes, models=[model("m", 20, ("c24", 1, 1))])) == ["n1"]
    assert nodes_of(make_plan(nodes, [role("chat", 20, count=5)])).count("n0") == 2


def test_a_cpu_profile_runs_on_a_node_with_gpus_where_it_says_so():
    nodes = [node("box", 48)]
    entry = refusal(make_plan(nodes, models=[model("m", 8, CPU, engine="llamacpp")]), "m")
    assert (entry["code"], entry["reason"]) == ("config", "1 node with GPUs, which gpu_nodes would admit")
    assert entry["what_would_help"][0]["change"] == {"gpu_nodes": {"model": "m", "profile": "cpu"}}
    document = make_plan(nodes, models=[model("m", 8, CPU | {"gpu_nodes": True}, engine="llamacpp")])
    assert places(document) == {"m/0": "box:"}
    again = make_plan(nodes, models=[model("m", 8, CPU | {"gpu_nodes": True}, engine="llamacpp")], previous=document)
    assert again["replicas"] == document["replicas"]


def test_a_node_takes_a_second_replica_only_when_every_node_that_can_has_one():
    nodes = [node("a", memory_gb=128), node("b", memory_gb=64), node("c", memory_gb=32)]
    gateway = role("gw", engine="llamacpp", needs={"gpu": False, "min_memory_gb": 8}, count=4)
    assert nodes_of(make_plan(nodes, [gateway])) == ["a", "b", "c", "a"]
    served = model("m", 8, CPU | {"min_memory_gb": 8}, engine="llamacpp", replicas=4)
    assert nodes_of(make_plan(nodes, models=[served])) == ["a", "b", "c", "a"]


def test_a_cordoned_gpu_keeps_what_it_has_and_gets_nothing_new():
    nodes = [identified("n0", 24, 24)]
    first = make_plan(nodes, [role("chat", 20)])
    nodes[0]["gpus"][0]["state"] = "cordoned"
    second = make_plan(nodes, [role("chat", 20, count=2)], previous=first)
    assert places(second) == {"chat/0": "n0:0", "chat/1": "n0:1"}
    nodes[0]["gpus"][1]["state"] = "cordoned"
    third = make_plan(nodes, [role("new", 20, priority=1)])
    entry = refusal(third, "new")
    assert entry["rejected"] == {"gpu_cordoned": 2}
    assert entry["what_would_help"][0]["change"] == {"uncordon_gpu": {"node": "n0", "gpu_index": 0}}
