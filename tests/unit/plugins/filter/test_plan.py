# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import copy
import json

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.knaster.inventory.plugins.filter.plan import FilterModule
from ansible_collections.knaster.inventory.tests.peers import documents

FILTERS = FilterModule().filters()
PLAN, TABLE, DIFF, WHAT_IF = (FILTERS[name] for name in ("plan", "plan_table", "plan_diff", "what_if"))

# Written by hand, with the original keys of a profile and nothing else.
NODES = [
    {
        "name": "n10",
        "cpu": {"model": "x", "cores": 8, "threads": 16},
        "memory_gb": 64,
        "disks": [],
        "gpus": [
            {
                "index": 0,
                "name": "NVIDIA RTX 4000 Ada Generation",
                "memory_gb": 20,
                "compute_cap": 8.9,
                "driver": "550.163.01",
            },
            {"index": 1, "name": "NVIDIA A40", "memory_gb": 48, "compute_cap": "8.6", "driver": "550.163.01"},
        ],
    },
    {"name": "n2", "cpu": {"model": "y", "cores": 4, "threads": 8}, "memory_gb": 32, "disks": [], "gpus": []},
]
CHAT = {"name": "chat", "needs": {"engine": "vllm", "min_vram_gb": 20, "min_cc": 8.0}, "prefer": "largest"}
GATEWAY = {"name": "gw", "needs": {"engine": "llamacpp", "gpu": False}}
SMALL = {"name": "small", "needs": {"engine": "vllm", "min_vram_gb": 16}, "slots": ["a", "b"]}
MODELS = [
    {"name": "m20", "kind": "llm", "vram_gb": 20, "min_cc": 8.9, "engines": ["vllm"], "context": 32768, "lora": True},
    {"name": "m30", "kind": "llm", "vram_gb": 30, "min_cc": 8.0, "engines": ["vllm"], "context": 32768, "lora": True},
    {"name": "e2", "kind": "embedding", "vram_gb": 2, "min_cc": 7.5, "engines": ["tei"], "context": 512, "lora": False},
]

KEYS = [
    "version",
    "assignments",
    "replicas",
    "unplaced",
    "on_demand",
    "off",
    "nodes",
    "ledger",
    "inputs",
    "changes",
]


def test_plan_document():
    document = PLAN(NODES, [CHAT, GATEWAY, SMALL], MODELS)
    assert list(document) == KEYS
    assert document["assignments"] == [
        {
            "role": "chat",
            "replica": 0,
            "node": "n10",
            "gpu_index": 1,
            "gpu": {"gpu_class": "a40", "memory_gb": 48, "compute_cap": 8.6},
            "engine": "vllm",
            "models_fitting": ["m30"],
            "slots": [],
            "memory_mib": 16384,
            "fingerprint": document["assignments"][0]["fingerprint"],
            "vm": "chat-0",
            "why": {
                "rule": "largest",
                "fitting": 2,
                "text": "48 GB, compute capability 8.6: the largest of 2 GPUs that fit",
            },
        },
        {
            "role": "gw",
            "replica": 0,
            "node": "n2",
            "engine": "llamacpp",
            "models_fitting": [],
            "slots": [],
            "memory_mib": 16384,
            "fingerprint": document["assignments"][1]["fingerprint"],
            "vm": "gw-0",
            "why": {
                "rule": "cpu",
                "text": "no GPU is asked for; spread over the nodes that admit it, the largest memory first",
            },
        },
        {
            "role": "small",
            "replica": 0,
            "node": "n10",
            "gpu_index": 0,
            "gpu": {"gpu_class": "rtx-4000-ada", "memory_gb": 20, "compute_cap": 8.9},
            "engine": "vllm",
            "models_fitting": ["m20"],
            "slots": ["a", "b"],
            "memory_mib": 16384,
            "fingerprint": document["assignments"][2]["fingerprint"],
            "vm": "small-0",
            "why": {
                "rule": "smallest_fitting",
                "fitting": 2,
                "text": "20 GB, compute capability 8.9: the smallest of 2 GPUs that fit",
            },
        },
    ]
    assert document["ledger"] == [
        {"node": "n10", "gpu_index": 0, "state": "used", "by": "small/0"},
        {"node": "n10", "gpu_index": 1, "state": "used", "by": "chat/0"},
    ]
    assert [entry["name"] for entry in document["nodes"]] == ["n2", "n10"]
    assert document["changes"] == {"moves": [], "retained": [], "blocked": []}
    assert json.loads(json.dumps(document)) == document


def test_plan_takes_nothing_at_all():
    document = PLAN([], [], [])
    assert [document[key] for key in KEYS[1:8]] == [[]] * 7
    assert PLAN([])["unplaced"] == []
    assert PLAN([], [CHAT])["unplaced"][0]["reason"] == "there are no nodes"


def test_plan_can_be_read_back_and_changes_nothing():
    first = PLAN(NODES, [CHAT, GATEWAY], MODELS)
    before = copy.deepcopy((NODES, CHAT, MODELS, first))
    second = PLAN(NODES, [CHAT, GATEWAY], MODELS, previous=first)
    assert {**second, "changes": None} == {**first, "changes": None}
    assert second["changes"]["retained"] == ["chat/0", "gw/0"]
    assert (NODES, CHAT, MODELS, first) == before


def test_a_fingerprint_is_only_of_what_planning_reads():
    first = PLAN(NODES, [CHAT], MODELS)["inputs"]
    other = copy.deepcopy(NODES)
    other[0]["gpus"][0]["driver"] = "580.1"
    other[0] |= {"notes": ["x"], "storage": [{"path": "/", "free_gb": 7}]}
    assert PLAN(other, [CHAT], MODELS)["inputs"] == first
    other[0]["gpus"][0]["memory_gb"] = 24
    again = PLAN(other, [{**CHAT, "count": 2}], MODELS)["inputs"]
    assert (again["nodes"] != first["nodes"], again["roles"] != first["roles"]) == (True, True)
    assert again["models"] == first["models"]


TEST_ERRORS = [
    ("nodes", [1], "nodes[0]: a node profile is a dictionary, this is a number."),
    ("nodes", {"a": 1}, "nodes: a list of node profiles is needed, this is a dictionary."),
    ("nodes", [{"gpus": []}], "nodes[0]: the profile has no name. Every profile needs 'name', the inventory name."),
    (
        "nodes",
        [{"name": "a"}, {"name": "a"}],
        "nodes[1]: the name a is already taken by nodes[0]. Each node may be given once.",
    ),
    (
        "nodes",
        [{"name": "a", "state": "off"}],
        "node a: state 'off' must be one of ready, cordoned, draining, unreachable.",
    ),
    ("nodes", [{"name": "a", "gpus": 2}], "node a: 'gpus' is a list of GPUs (or null: not known), this is a number."),
    ("nodes", [{"name": "a", "gpus": [{}]}], "node a, gpus[0]: a GPU needs 'index', a whole number; this is None."),
    ("nodes", [{"name": "a", "gpus": [{"index": 0}, {"index": 0}]}], "node a: two GPUs have the index 0."),
    (
        "nodes",
        [{"name": "a", "gpus": [{"index": 0, "compute_cap": "abc"}]}],
        "node a, GPU 0: compute_cap is written like 8.9, this is 'abc'.",
    ),
    (
        "nodes",
        [{"name": "a", "gpus": [{"index": 0, "memory_gb": "24"}]}],
        "node a, GPU 0: memory_gb is a number, or null where it is not known; this is '24'.",
    ),
    ("nodes", [{"name": "a", "labels": [1]}], "node a: 'labels' is a dictionary, this is a list."),
    ("nodes", [{"name": "a", "fabrics": "ib"}], "node a: 'fabrics' is a list of names, this is 'ib'."),
    (
        "nodes",
        [{"name": "a", "weights": ["x"]}],
        "node a: 'weights' is a list of dictionaries with name and path (or null: not asked).",
    ),
    ("nodes", [{"name": "a", "gpus": [{"index": 0, "uuid": 7}]}], "node a, GPU 0: uuid is a text, this is 7."),
    (
        "nodes",
        [{"name": "a", "gpus": [{"index": 0, "pci": "x"}]}],
        "node a, GPU 0: 'pci' is a dictionary, this is a text.",
    ),
    ("moves", "all", 'moves: must be one of none, relocate, preempt, not "all"'),
    ("previous", [1], "previous: must be a map, not a list"),
    ("previous", documents.plan() | {"version": 2}, "previous: version: must be 1, not 2"),
    ("previous", documents.plan() | {"assignments": [1]}, "previous: assignments[0]: must be a map, not 1"),
]


@pytest.mark.parametrize(("key", "value", "message"), TEST_ERRORS)
def test_plan_errors(key, value, message):
    arguments = {"nodes": NODES, "roles": [CHAT], "models": MODELS} | {key: value}
    with pytest.raises(AnsibleFilterError) as error:
        PLAN(**arguments)
    assert f"The plan cannot be made: {message}" in str(error.value)


def test_plan_errors_come_all_at_once():
    with pytest.raises(AnsibleFilterError) as error:
        PLAN([{"gpus": 3}, {"name": "a", "gpus": [{}]}], [{"name": "x"}], [{"kind": "llm"}], moves="q")
    text = str(error.value)
    assert "The plan cannot be made, 6 errors:" in text
    for part in ("moves:", "roles[0].needs", "models[0].name", "models[0].engines", "nodes[0]:", "node a, gpus[0]"):
        assert part in text


def test_a_card_may_tell_half_characters():
    card = {"index": 0, "name": "NVIDIA A40", "memory_gb": 48, "compute_cap": 8.6, "uuid": "GPU-\udc80"}
    plan = PLAN([{"name": "n", "gpus": [card]}], [{**CHAT, "needs": {"engine": "vllm"}}])
    assert plan["assignments"][0]["gpu"]["uuid"] == "GPU-\udc80"


def test_plan_table():
    document = PLAN(NODES, [CHAT, GATEWAY, {**SMALL, "count": 2}], MODELS)
    lines = TABLE(document).splitlines()
    assert lines[0].split() == ["NODE", "CARD", "WHAT", "ENGINE", "MODELS", "WHY"]
    assert [line.split()[:2] for line in lines[1:4]] == [["n2", "CPU"], ["n10", "0:"], ["n10", "1:"]]
    assert "small: 1 of 2 (in_use): 1 node without a GPU, 2 taken (by chat and small)" in TABLE(document)
    assert "would help: one more GPU in n" in TABLE(document)
    assert "2 GPUs: 2 used" in lines
    assert "lower first" in lines[-1]
    assert "higher first" in lines[-1]


def test_plan_table_without_roles_tells_what_fits():
    lines = TABLE(PLAN(NODES, [], MODELS), NODES, MODELS).splitlines()
    assert lines[0] == "NODE  CARD  CLASS               STATE  MODELS THAT FIT"
    assert lines[1].split() == ["n10", "0", "rtx-4000-ada", "20", "GB", "free", "m20,", "e2"]
    assert lines[2].split() == ["n10", "1", "a40", "48", "GB", "free", "m30,", "e2"]


def test_plan_table_of_a_big_fleet_has_a_line_for_each_kind_of_placement():
    nodes = [{**NODES[0], "name": f"n{number}"} for number in range(150)]
    plan = PLAN(nodes, [{**CHAT, "count": 150}, {**SMALL, "count": 100}])
    lines = TABLE(plan).splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["WHAT", "PLACED", "CARDS", "CLASS", "ENGINE", "NODES"],
        ["chat", "150", "150", "a40", "48", "GB", "vllm", "n0,", "n1,", "n2", "and", "147", "more"],
        ["small", "100", "100", "rtx-4000-ada", "20", "GB", "vllm", "n0,", "n1,", "n2", "and", "97", "more"],
        [],
    ]
    assert "300 GPUs: 250 used, 50 free" in lines
    # What a person has to look at is told one by one.
    nodes[7]["state"] = "unreachable"
    risky = TABLE(PLAN(nodes, [{**CHAT, "count": 150}, {**SMALL, "count": 100}], previous=plan)).splitlines()
    assert [line.split()[0] for line in risky if "AT RISK (unreachable)" in line] == ["n7", "n7"]


def test_plan_table_of_a_big_fleet_tells_what_fits_by_class():
    nodes = [{**NODES[0], "name": f"n{number}"} for number in range(150)]
    lines = TABLE(PLAN(nodes, [], MODELS), nodes, MODELS).splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["CLASS", "STATE", "CARDS", "NODES", "MODELS", "THAT", "FIT"],
        ["rtx-4000-ada", "20", "GB", "free", "150", "150", "m20,", "e2"],
        ["a40", "48", "GB", "free", "150", "150", "m30,", "e2"],
    ]


def test_plan_table_refuses_what_is_no_plan():
    with pytest.raises(AnsibleFilterError, match="plan: must be a map, not a list"):
        TABLE([1])


def test_plan_diff():
    first = PLAN(NODES, [CHAT, SMALL])
    second = PLAN(NODES, [{**CHAT, "needs": {**CHAT["needs"], "min_vram_gb": 10}}, GATEWAY], previous=first)
    assert DIFF(second, first)["lines"] == [
        "- small/0 at n10:0",
        "~ chat/0 is made from another profile or other needs",
        "+ gw/0 at n2",
    ]
    assert DIFF(first, first)["empty"] is True
    assert [entry["name"] for entry in DIFF(first)["added"]] == ["chat/0", "small/0"]
    third = PLAN(NODES[1:], [CHAT], previous=first)
    assert DIFF(third, first)["short"] == [{"name": "chat", "missing": 1, "before": 0}]


def test_plan_diff_knows_cards_and_not_indices():
    nodes = copy.deepcopy(NODES)
    for gpu in nodes[0]["gpus"]:
        gpu["uuid"] = f"GPU-{gpu['name']}"
    first = PLAN(nodes, [CHAT])
    for gpu in nodes[0]["gpus"]:
        gpu["index"] = 1 - gpu["index"]
    assert DIFF(PLAN(nodes, [CHAT], previous=first), first)["moved"] == []


def test_what_if():
    nodes = [*NODES, {"name": "n3", "memory_gb": 64, "gpus": [{"index": 0, "memory_gb": 24, "compute_cap": 8.6}]}]
    document = PLAN(nodes, [CHAT, GATEWAY])
    answers = WHAT_IF(document, nodes, [CHAT, GATEWAY])
    assert [answer["text"] for answer in answers] == [
        "n2: no, short of 1 gw",
        "n10: yes, 1 replica can go elsewhere (chat/0 to n3:0)",
    ]
    assert [answer["survives"] for answer in answers] == [False, True]
    (both,) = WHAT_IF(document, nodes, [CHAT, GATEWAY], lost=[["n10", "n3"]])
    assert both["short"] == [{"name": "chat", "missing": 1, "before": 0}]
    (idle,) = WHAT_IF(document, nodes, [CHAT, GATEWAY], lost=["n3"])
    assert idle["text"] == "n3: yes, nothing of this plan runs there"
    with pytest.raises(AnsibleFilterError, match="n9: no such node in the profiles"):
        WHAT_IF(document, nodes, [CHAT], lost=["n9"])
