# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Replicas of roles, of models and units of roles are placed, kept, moved, preempted, refused and helped alike."""

from __future__ import annotations

import random

import pytest

from .helpers import card, identified, make_plan, model, node, places, refusal, role


def l4(index, size, cap=8.9):
    return card(index, size, gpu_class="l4", compute_cap=cap, uuid=f"u{index}")


def member(name, vram, engine="vllm", **more):
    return role(name, vram, engine=engine, colocate="g", **more)


CHAT, EMBED, ASR = member("chat", 10), member("embed", 4, "tei"), member("asr", 2)


def moved(document):
    return [(each.get("role") or each["model"], each["replica"]) for each in document["changes"]["moves"]]


# --- groups that share a GPU


@pytest.mark.parametrize("cards", [1, 2])
def test_who_joins_a_running_group_finds_room_beside_it_and_what_runs_stays(cards):
    nodes = [node("n1", *(l4(at, 24) for at in range(cards)))]
    first = make_plan(nodes, [CHAT, EMBED])
    second = make_plan(nodes, [CHAT, EMBED, ASR], previous=first)
    assert places(second) == {"asr/0": "n1:0", "chat/0": "n1:0", "embed/0": "n1:0"}
    assert {one["vm"] for one in second["assignments"]} == {"g-0"}
    assert second["changes"] == {"moves": [], "retained": ["chat/0", "embed/0"], "blocked": []}
    assert second["unplaced"] == []


def test_who_does_not_fit_beside_a_running_group_runs_singly_or_is_refused():
    large = member("large", 20)
    for cards, at in ((2, {"large/0": "n1:1"}), (1, {})):
        nodes = [node("n1", *(l4(at, 24) for at in range(cards)))]
        first = make_plan(nodes, [CHAT, EMBED])
        second = make_plan(nodes, [CHAT, EMBED, large], previous=first)
        assert places(second) == {"chat/0": "n1:0", "embed/0": "n1:0"} | at
        assert second["changes"]["moves"] == []
        assert [entry["role"] for entry in second["unplaced"]] == ([] if at else ["large"])


def test_a_newcomer_takes_no_memory_that_something_running_has():
    nodes = [node("n1", l4(0, 24), l4(1, 24), memory_gb=32)]
    needs = {"min_memory_gb": 8}
    group = [member("chat", 10, needs=needs), member("embed", 4, "tei", needs=needs)]
    alone = role("alone", 20, priority=500, needs={"min_memory_gb": 12})
    first = make_plan(nodes, [*group, alone])
    second = make_plan(nodes, [*group, member("asr", 2, needs=needs), alone], previous=first)
    assert places(second) == places(first)
    assert refusal(second, "asr")["missing"] == 1


def test_who_leaves_a_group_renames_nothing():
    nodes = [node("n1", l4(0, 24), l4(1, 24))]
    first = make_plan(nodes, [CHAT, EMBED])
    second = make_plan(nodes, [CHAT], previous=first)
    assert [(one["node"], one["gpu_index"], one["vm"]) for one in second["assignments"]] == [("n1", 0, "g-0")]
    third = make_plan(nodes, [CHAT, EMBED], previous=second)
    assert {one["vm"] for one in third["assignments"]} == {"g-0"}
    assert third["changes"]["moves"] == []


def test_joins_and_leaves_stop_double_and_rename_nothing():
    for seed in range(60):
        rand = random.Random(seed)
        nodes = [
            node(f"n{at}", *(l4(index, rand.choice((24, 48))) for index in range(rand.randint(1, 3))), memory_gb=64)
            for at in range(rand.randint(1, 3))
        ]
        pool = [
            member(f"r{at}", rand.choice((2, 4, 8, 12)), rand.choice(("vllm", "tei")), count=rand.randint(1, 2))
            for at in range(4)
        ]
        there = rand.sample(pool, rand.randint(1, 3))
        document = make_plan(nodes, there)
        for _unused in range(4):
            before = {(one["role"], one["replica"]): one for one in document["assignments"]}
            there = rand.sample(pool, rand.randint(1, 4))
            document = make_plan(nodes, there, previous=document)
            vms = {}
            for one in document["assignments"]:
                spot = (one["node"], one["gpu_index"])
                assert vms.setdefault(one["vm"], spot) == spot, seed
                was = before.get((one["role"], one["replica"]))
                assert was is None or (was["node"], was["gpu_index"], was["vm"]) == (*spot, one["vm"]), seed
            counts = {each["name"]: each.get("count", 1) for each in there}
            now = {(one["role"], one["replica"]) for one in document["assignments"]}
            assert now >= {key for key in before if key[1] < counts.get(key[0], 0)}, seed


def test_memory_facts_count_in_a_group_too():
    facts = {
        "weights_gib": 21.0,
        "kv_bytes_per_token": 131072,
        "layers": 32,
        "attention_heads": 32,
        "kv_heads": 8,
    }
    big = model("big", 10, engine="vllm", memory=facts)
    nodes = [node("n1", l4(0, 24) | {"memory_mib": 23034})]
    slots = [{"name": "a", "model": "big"}]
    alone = make_plan(nodes, [role("a", engine="vllm", slots=slots)], [big])
    assert alone["assignments"] == []
    shared = [role("a", engine="vllm", slots=slots, colocate="g"), member("embed", 2, "tei")]
    assert "a/0" not in places(make_plan(nodes, shared, [big]))


# --- memory of what moves


@pytest.mark.parametrize("memory", [30, 32])
def test_what_moves_gives_back_its_memory_before_it_asks_for_room(memory):
    nodes = [node("pve", l4(0, 80, 9.0), l4(1, 24), memory_gb=64)]
    roles = [
        role("chat", 20, engine="vllm", prefer="largest", priority=1, needs={"min_memory_gb": memory}),
        role("big", 70, engine="vllm", needs={"min_memory_gb": 8}),
    ]
    assert places(make_plan(nodes, roles)) == {"chat/0": "pve:1", "big/0": "pve:0"}


def test_a_vm_leaves_a_broken_gpu_for_the_free_one_beside_it():
    nodes = [identified("n1", l4(0, 24), l4(1, 24), memory_gb=64)]
    chat = role("chat", 20, needs={"min_memory_gb": 40})
    first = make_plan(nodes, [chat])
    nodes[0]["gpus"][0]["healthy"] = False
    second = make_plan(nodes, [chat], previous=first)
    assert places(second) == {"chat/0": "n1:1"}
    assert second["changes"]["blocked"] == []


# --- several GPUs


def test_a_replica_goes_to_a_node_without_a_fabric_so_that_one_over_two_nodes_fits():
    nodes = [node("n2", 24, 24, 24, fabrics=["ib"]), node("n3", 24, 24, fabrics=["ib"]), node("n5", 24, 24, 24)]
    models = [
        model("a", 20, ("c24", 2, 1)),
        model("b", 40, {"name": "p", "engine": "other", "gpu_class": "c24", "tp": 4, "nodes": 2}),
    ]
    document = make_plan(nodes, models=models)
    assert places(document)["a/0"].startswith("n5:")
    assert len(places(document)) == 2


def test_shards_change_their_fabric_so_that_one_more_fits():
    nodes = [
        node("n5", 24, 24, fabrics=["ib-a"]),
        node("n6", 24, 24, fabrics=["ib-b"]),
        node("n7", 24, 24, 24, 24, fabrics=["ib-a", "ib-b"]),
    ]
    profile = {"name": "p", "engine": "other", "gpu_class": "c24", "tp": 4, "nodes": 2}
    document = make_plan(nodes, models=[model("m", 40, profile, replicas=2)])
    assert len(document["replicas"]) == 2
    assert {one["fabric"] for one in document["replicas"]} == {"ib-a", "ib-b"}


def wide_and_narrow(**more):
    wide = {"name": "wide", "engine": "other", "gpu_class": "c24", "tp": 2, "nodes": 2, "priority": 20}
    narrow = {"name": "narrow", "engine": "other", "gpu_class": "c24", "tp": 2, "priority": 10}
    nodes = [node("n1", 24, 24, 24, fabrics=["ib"]), node("n2", 24, fabrics=["ib"])]
    b = {"name": "p", "engine": "other", "gpu_class": "c24", "tp": 2, "nodes": 2}
    return nodes, [model("a", 20, wide, narrow), model("b", 20, b, **more)]


def test_counts_go_before_profile_priority_and_the_concession_stands_in_why():
    document = make_plan(*[(nodes := wide_and_narrow())[0]], models=nodes[1])
    assert {one["model"]: one["profile"] for one in document["replicas"]} == {"a": "narrow", "b": "p"}
    why = document["replicas"][0]["why"]
    assert why["conceded_to"] == "b"
    assert why["text"].endswith("a better profile gave way to b")
    again = make_plan(nodes[0], models=nodes[1], previous=document)
    assert again["replicas"] == document["replicas"]


def test_a_profile_gives_way_to_nothing_of_a_worse_priority():
    nodes, models = wide_and_narrow(placement_priority=101)
    document = make_plan(nodes, models=models)
    assert {one["model"]: one["profile"] for one in document["replicas"]} == {"a": "wide"}


def test_a_profile_gives_way_to_no_cpu_profile_and_no_shorter_context():
    cpu = {"name": "cpu", "engine": "llamacpp", "min_memory_gb": 1}
    gpu = {"name": "gpu", "engine": "llamacpp", "gpu_class": "c24", "priority": 20}
    short = gpu | {"name": "short", "gpu_class": "c48", "priority": 10, "args": ["-c", "1024"]}
    long = gpu | {"args": ["-c", "8192"]}
    b = model("b", 20, gpu | {"name": "p"}, engine="llamacpp")
    for other in (cpu, short):
        nodes = [node("n1", 24), node("n2", *([48] if other is short else []))]
        a = model("a", 20, long, other, engine="llamacpp")
        document = make_plan(nodes, models=[a, b])
        assert {one["model"]: one["profile"] for one in document["replicas"]} == {"a": "gpu"}


# --- moves and preemption


def test_relocate_moves_a_model_for_a_role():
    nodes = [node("g1", 24), node("g2", 24, labels={"z": "a"})]
    served = model("m", 20, {"name": "p", "engine": "other", "gpu_class": "c24", "node_selector": {"z": "a"}})
    first = make_plan(nodes, models=[served])
    served["profiles"][0].pop("node_selector")
    new = role("new", 20, needs={"node_selector": {"z": "a"}})
    kept = make_plan(nodes, [new], [served], previous=first)
    assert places(kept) == {"m/0": "g2:0"}
    moves = [each["change"] for each in refusal(kept, "new")["what_would_help"] if "moves" in each["change"]]
    assert moves[0]["moves"][0]["model"] == "m"
    second = make_plan(nodes, [new], [served], previous=first, moves="relocate")
    assert places(second) == {"new/0": "g2:0", "m/0": "g1:0"}
    assert moved(second) == [("m", 0)]


def test_the_smallest_that_makes_room_moves():
    nodes = [node("a", 24, 24, 24, 24, labels={"z": "a"}), node("b", 24, 24)]
    there = {"node_selector": {"z": "a"}}
    first = make_plan(nodes, [role("r", 20, needs=there)], [model("m", 40, on_a("c24", 2))])
    roles, models = [role("r", 20)], [model("m", 40, ("c24", 2, 1)), model("n", 40, on_a("c24", 2))]
    models[0]["profiles"][0]["name"] = "p"
    second = make_plan(nodes, roles, models, first, moves="relocate")
    assert moved(second) == [("r", 0)]
    assert second["unplaced"] == []


def on_a(gpu_class, tp):
    return {"name": "p", "engine": "other", "gpu_class": gpu_class, "tp": tp, "node_selector": {"z": "a"}}


def test_a_model_that_one_move_would_place_is_offered_that_move():
    nodes = [node("n1", 48, 48), node("n2", 48)]
    first = make_plan(nodes, [role("a", 40, needs={"node": "n1"})])
    document = make_plan(nodes, [role("a", 40)], [model("m", 80, ("c48", 2, 1))], previous=first)
    helps = refusal(document, "m")["what_would_help"]
    assert [next(iter(each["change"])) for each in helps] == ["count", "moves", "add_gpus"]
    assert helps[1]["text"] == "move a/0 from n1:0 to n2:0 (moves: relocate)"
    assert helps[2]["change"]["add_gpus"] == {"count": 1, "node": "n1", "memory_gb": 40, "gpu_class": "c48"}


@pytest.mark.parametrize("spans", [1, 3])
def test_preempt_takes_places_of_models_for_models(spans):
    nodes = [node(f"n{at}", *[80] * 8, fabrics=["ib"]) for at in range(spans)]
    profile = ("c80", 8, spans)
    low, high = model("low", 600, profile, placement_priority=100), model("high", 600, profile, placement_priority=1)
    first = make_plan(nodes, models=[low])
    kept = make_plan(nodes, models=[low, high], previous=first)
    helps = [each["change"] for each in refusal(kept, "high")["what_would_help"]]
    assert helps[0] == {"min": {"model": "low", "min": 0}}
    second = make_plan(nodes, models=[low, high], previous=first, moves="preempt")
    assert [one["model"] for one in second["replicas"]] == ["high"]
    assert [(each["model"], each["cause"], each["lost"]) for each in second["changes"]["blocked"]] == [
        ("low", "preempt", True)
    ]
    equal = model("high", 600, profile, placement_priority=100)
    assert [
        one["model"] for one in make_plan(nodes, models=[low, equal], previous=first, moves="preempt")["replicas"]
    ] == ["low"]


def test_preempt_takes_the_place_of_a_model_for_a_role():
    nodes = [node("n1", 24, 24)]
    low = model("low", 40, ("c24", 2, 1), placement_priority=100)
    first = make_plan(nodes, models=[low])
    second = make_plan(nodes, [role("chat", 20, priority=1)], [low], previous=first, moves="preempt")
    assert list(places(second)) == ["chat/0"]
    same = make_plan(nodes, [role("chat", 20, priority=100)], [low], previous=first, moves="preempt")
    assert list(places(same)) == ["low/0"]


# --- help


def test_help_is_the_least_number_of_gpus():
    roles = [
        role("a", 8, priority=1),
        role("b", 8),
        role("c", 8, priority=1, count=5, needs={"node_selector": {"zone": "z"}}),
    ]
    helps = refusal(make_plan([], roles), "b")["what_would_help"]
    assert [each["change"] for each in helps] == [{"add_nodes": {"count": 1, "gpus_per_node": 2, "memory_gb": 8}}]


def test_one_gpu_in_a_node_that_lacks_one_is_enough():
    document = make_plan([node("a", 24, 24, 24), node("b", 24)], models=[model("m", 40, ("c24", 2, 1), replicas=2)])
    helps = refusal(document, "m")["what_would_help"]
    assert helps[-1]["change"] == {"add_gpus": {"count": 1, "node": "a", "memory_gb": 20, "gpu_class": "c24"}}


def test_one_node_on_a_fabric_that_is_there_is_enough():
    nodes = [node(f"n{at}", 24, fabrics=["ib"]) for at in range(3)]
    document = make_plan(nodes, models=[model("m", 20, ("c24", 1, 2), replicas=2)])
    helps = refusal(document, "m")["what_would_help"]
    # A second GPU in one node does not help: a replica has one shard on a node, and all three would have to differ.
    assert helps[-1]["change"] in (
        {"add_gpus": {"count": 1, "node": "n0", "memory_gb": 10, "gpu_class": "c24"}},
        {"add_nodes": {"count": 1, "gpus_per_node": 1, "memory_gb": 10, "gpu_class": "c24", "fabric": "ib"}},
    )


def test_help_for_the_second_counts_what_the_first_takes():
    models = [model(f"m{at}", 40, ("c24", 2, 1)) for at in range(2)]
    document = make_plan([node("a", 16)], models=models)
    texts = [refusal(document, name)["what_would_help"][-1] for name in ("m0", "m1")]
    assert [each["change"]["add_gpus"]["count"] for each in texts] == [2, 4]
    assert all(each["verified"] for each in texts)


def test_a_change_has_all_that_its_text_names():
    chat = role("chat", 20, needs={"node_selector": {"zone": "z"}, "min_cc": 8.0, "max_cc": 8.9, "min_memory_gb": 16})
    (help_,) = refusal(make_plan([], [chat]), "chat")["what_would_help"]
    change = help_["change"]["add_nodes"]
    assert change["labels"] == {"zone": "z"}
    assert change["compute_cap"] == "8.0"
    assert change["node_memory_gb"] >= 18
    assert "labelled zone=z" in help_["text"]
    nodes = [node("n1", 24, 24)]
    document = make_plan(nodes, [role("chat", 20, needs={"max_cc": 8.0})])
    assert refusal(document, "chat")["what_would_help"][0]["change"] == {"max_cc": {"role": "chat", "max_cc": "8.6"}}


def test_a_bottleneck_counts_all_that_its_roles_want():
    roles = [role("a", 8, count=3, priority=1), role("b", 8, count=2)]
    document = make_plan([node("n1", 24, 24)], roles)
    assert refusal(document, "a")["bottleneck"]["wanted"] == 5
    assert refusal(document, "b")["bottleneck"]["wanted"] == 5


def test_of_all_nodes_the_one_that_lacks_the_fewest_is_offered():
    """The first that would do is not the best: memory binds on it, so that one of its GPUs would be left over."""
    nodes = [node(f"n{at}", 24, memory_gb=34) for at in range(4)] + [node("z", 48, memory_gb=256)]
    roles = [role("a", 20, priority=1, count=4, needs={"min_memory_gb": 24, "gpu_class": "c24"})]
    roles.append(role("b", 48, count=3, needs={"min_memory_gb": 16}))
    changes = [each["change"] for each in refusal(make_plan(nodes, roles), "b")["what_would_help"]]
    assert {"add_gpus": {"count": 2, "node": "z", "memory_gb": 48}} in changes


def test_a_new_node_has_memory_for_those_that_would_take_it_first():
    nodes = [node(f"n{at}", 24, memory_gb=48) for at in range(2)]
    roles = [
        role("r0", 24, count=2, needs={"min_memory_gb": 32}),
        role("r1", 48, count=3, needs={"min_memory_gb": 32}),
        role("r2", 16, needs={"min_memory_gb": 16}),
        role("r3", 48, needs={"min_memory_gb": 16}),
    ]
    (help_,) = refusal(make_plan(nodes, roles), "r3")["what_would_help"]
    assert help_["change"] == {"add_nodes": {"count": 1, "gpus_per_node": 5, "memory_gb": 48, "node_memory_gb": 172}}
    assert help_["text"] == "one more node with 5 GPUs with at least 48 GB and 172 GB of memory"


def test_nodes_are_offered_on_a_fabric_that_has_none_of_their_kind():
    nodes = [node("n0", 48, fabrics=["ib"]), node("n1", 48, fabrics=["ib"])]
    entry = refusal(make_plan(nodes, models=[model("m", 40, ("c24", 1, 2))]), "m")
    assert entry["what_would_help"][-1]["change"]["add_nodes"]["fabric"] == "ib"


def test_a_count_that_only_holds_memory_is_lowered_too():
    nodes = [node("n", 24, 48, memory_gb=40)]
    roles = [
        role("small", 20, priority=1, prefer="smallest_fitting", needs={"min_memory_gb": 24, "gpu_class": "c24"}),
        role("large", 40, needs={"min_memory_gb": 24}),
    ]
    entry = refusal(make_plan(nodes, roles), "large")
    assert entry["code"] == "node_memory"
    assert entry["what_would_help"][0]["change"] == {"count": {"role": "small", "count": 0}}
