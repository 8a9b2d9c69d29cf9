# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Traps that people met elsewhere, each as the smallest input of ours that meets the same one."""

from __future__ import annotations

from .helpers import card, identified, make_plan, model, node, places, refusal, role, states


def test_a_card_that_is_too_new_is_counted_and_not_denied():
    document = make_plan([node("a", 32)], [role("chat", needs={"max_cc": 9.0})])
    entry = refusal(document, "chat")
    assert entry["rejected"] == {"cc_max": 1}
    assert entry["reason"] == "1 compute capability above 9.0 (12.0)"
    assert entry["nearest"] == {"node": "a", "gpu_index": 0, "code": "cc_max", "need": "9.0", "have": "12.0"}


def test_plan_and_list_of_models_agree_and_say_what_is_short():
    facts = {"weights_gib": 210.0}
    big = model("big", 100, ("c119", 2, 2), memory=facts, engine="vllm")
    big["profiles"][0] |= {"tp": 2, "pp": 1, "nodes": 2}
    gpu = card(0, 119, memory_mib=124600, reserved_mib=0, compute_cap=12.1)
    nodes = [node("a", gpu, fabrics=["f"]), node("b", dict(gpu), fabrics=["f"])]
    document = make_plan(nodes, [role("any", engine="vllm")], [big])
    entry = refusal(document, "big")
    assert entry["code"] == "vram"
    assert "needs 114.6 GiB, has 111.9, short 2.7 GiB per GPU" in entry["reason"]
    assert document["assignments"][0]["models_fitting"] == []


def test_a_cordoned_node_is_no_capacity():
    cordoned, ready = node("a", 80, state="cordoned"), node("b", 80)
    chat = role("chat", 70)
    assert places(make_plan([cordoned, ready], [chat])) == {"chat/0": "b:0"}
    entry = refusal(make_plan([cordoned], [chat]), "chat")
    assert entry["reason"] == "1 GPU fits but its node is cordoned (a)"
    assert entry["what_would_help"][0] == {"change": {"uncordon": "a"}, "verified": True, "text": "uncordon a"}


def test_an_unreachable_node_keeps_what_it_has():
    nodes = [identified("a", 24), identified("b", 24)]
    chat = role("chat", 20, needs={"node": "b"})
    first = make_plan(nodes, [chat])
    chat = role("chat", 20)
    nodes[1]["state"] = "unreachable"
    second = make_plan(nodes, [chat], previous=first)
    assert places(second) == {"chat/0": "b:0"}
    assert second["assignments"][0]["at_risk"] == "unreachable"
    unseen = {"name": "b", "state": "unreachable", "gpus": None}
    third = make_plan([nodes[0], unseen], [chat], previous=second)
    assert places(third) == {"chat/0": "b:0"}
    assert third["assignments"][0]["gpu"]["uuid"] == "GPU-b-0"
    assert [row["state"] for row in third["ledger"]] == ["free", "used"]
    nodes[1]["state"] = "ready"
    fourth = make_plan(nodes, [chat], previous=third)
    assert places(fourth) == {"chat/0": "b:0"}
    assert fourth["changes"] == {"moves": [], "retained": ["chat/0"], "blocked": []}
    gone = make_plan(nodes[:1], [chat], previous=fourth)
    assert places(gone) == {"chat/0": "a:0"}
    assert gone["changes"]["moves"][0]["cause"] == "node_gone"


def test_fourteen_small_leave_two_together_for_the_large_one():
    nodes = [node("a", *[24] * 8), node("b", *[24] * 8)]
    document = make_plan(nodes, [role("small", 20, count=14)], [model("big", 40, ("c24", 2, 1))])
    assert len(document["assignments"]) == 14
    assert places(document)["big/0"] == "b:6,7"
    assert document["unplaced"] == []


def test_unequal_nodes_have_one_documented_answer():
    a = node("a", card(0, 24, compute_cap=8.9, holder={"kind": "container", "name": "x", "ours": False}))
    b = node("b", card(0, 16, compute_cap=8.9), card(1, 16, compute_cap=8.9))
    for nodes in ([a, b], [b, a]):
        assert places(make_plan(nodes, [role("chat", 4)])) == {"chat/0": "b:0"}


def test_memory_of_unequal_cards_is_never_added():
    big = model("big", 40, {"name": "two", "engine": "other", "gpu_class": "x", "tp": 2})
    cards = [card(0, 24, gpu_class="x"), card(1, 16, gpu_class="x"), card(2, 16, gpu_class="x")]
    entry = refusal(make_plan([node("a", *cards)], models=[big]), "big")
    assert entry["reason"].startswith("needs 2 GPUs of at least 20 GB on one node, found 1")
    assert entry["rejected"] == {"vram": 2, "block": 1}


def test_every_replica_is_whole():
    document = make_plan(
        [node("a", *[24] * 4), node("b", *[24] * 2)], models=[model("m", 40, ("c24", 2, 1), replicas=3)]
    )
    assert sorted(places(document).values()) == ["a:0,1", "a:2,3", "b:0,1"]


def test_a_replica_never_spans_two_fabrics():
    nodes = [node("a", *[80] * 4, fabrics=["ib-a"]), node("b", *[80] * 4, fabrics=["ib-b"])]
    big = model("big", 600, ("c80", 4, 2))
    entry = refusal(make_plan(nodes, models=[big]), "big")
    assert entry["code"] == "fabric"
    assert "8 GPUs free but the largest block on one fabric is 1 node (ib-a: 1 and ib-b: 1)" in entry["reason"]
    nodes[1]["fabrics"] = ["ib-b", "ib-a"]
    document = make_plan(nodes, models=[big])
    assert places(document) == {"big/0": "a:0,1,2,3 b:0,1,2,3"}
    assert document["replicas"][0]["fabric"] == "ib-a"


def test_work_without_a_card_asks_for_no_memory_of_one():
    document = make_plan([node("c", memory_gb=128)], [role("gw", engine="llamacpp", needs={"gpu": False})])
    (one,) = document["assignments"]
    assert (one["node"], "gpu_index" in one) == ("c", False)


def test_a_broken_card_in_use_counts_as_used_once():
    nodes = [identified("a", 24, 24, 24, 24)]
    first = make_plan(nodes, [role("chat", 20, count=4)])
    nodes[0]["gpus"][3]["healthy"] = False
    document = make_plan(nodes, [role("chat", 20, count=4)], previous=first)
    assert states(document) == {"used": 4}
    assert [row.get("healthy") for row in document["ledger"]] == [None, None, None, False]
    idle = make_plan(nodes, [role("chat", 20, count=4)])
    assert states(idle) == {"used": 3, "unhealthy": 1}


def test_one_card_is_charged_and_not_its_node():
    document = make_plan([node("a", *[24] * 8)], [role("small", 20, count=8)])
    assert len(document["assignments"]) == 8


def test_a_refusal_says_which_rule_and_by_how_much():
    nodes = [node("n1", 24), node("n2", card(0, 48, compute_cap=12.0)), node("n3", 48)]
    roles = [role("chat", 48, needs={"max_cc": 8.6}, priority=1), role("big", 48, needs={"max_cc": 8.9})]
    entry = refusal(make_plan(nodes, roles), "big")
    assert entry["rejected"] == {"cc_max": 1, "vram": 1, "in_use": 1}
    assert entry["reason"] == (
        "1 compute capability above 8.9 (12.0), 1 too little VRAM (24 < 48 GB), 1 taken (by chat)"
    )
    assert entry["nearest"] == {"node": "n3", "gpu_index": 0, "code": "in_use", "blocked_by": "chat/0"}
    assert entry["bottleneck"] == {
        "roles": ["big", "chat"],
        "wanted": 2,
        "gpu_count": 1,
        "gpus": [{"node": "n3", "gpu_index": 0}],
    }
    texts = [(each["text"], each["verified"]) for each in entry["what_would_help"]]
    assert ("count 0 of chat, which frees a GPU", True) in texts
    assert ("one more GPU in n1, with at least 48 GB, compute capability at most 8.9", True) in texts


def test_weights_are_a_preference_and_never_a_filter():
    held = [{"name": "org/m", "path": "/models/org/m", "size_gb": 16}]
    nodes = [node("a", card(0, 8), weights=held), node("b", 24, weights=[])]
    document = make_plan(nodes, models=[model("m", 24, ("c24", 1, 1))])
    (replica,) = document["replicas"]
    assert replica["shards"][0]["node"] == "b"
    assert replica["shards"][0]["weights"] == {"state": "copy", "gb": 16}
    assert [row["state"] for row in document["ledger"]] == ["free", "used"]
