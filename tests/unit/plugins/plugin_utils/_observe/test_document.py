# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json

import jsonschema
import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._replicas.observe import Asking, observe
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import schema_text
from ansible_collections.knaster.inventory.plugins.plugin_utils._observe.document import (
    count_states,
    dump_observed,
    format_observed,
    questions,
    with_catalog,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan as make_plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.slots import make_slots
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.inputs import read_inputs
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.summary import summarise
from ansible_collections.knaster.inventory.tests.peers import engines

SCHEMA = json.loads(schema_text("observed"))
NODES = [
    {
        "name": "n1",
        "memory_gb": 256,
        "gpus": [{"index": at, "gpu_class": "c24", "memory_gb": 24, "compute_cap": 8.9} for at in range(4)],
    }
]
PROFILE = {"name": "p", "gpu_class": "c24", "tp": 2, "args": ["--max-num-seqs", "64"], "startup_timeout": "5m"}
MODEL = {
    "name": "big",
    "kind": "llm",
    "vram_gb": 40,
    "min_cc": 7.5,
    "engines": ["vllm"],
    "context": 8192,
    "lora": False,
    "source": "org/big",
    "aliases": ["large"],
    "scaling": {"min": 1},
    "profiles": [PROFILE],
}
ROLES = [{"name": "chat", "needs": {"engine": "vllm", "min_vram_gb": 20}, "slots": ["main"]}]


@pytest.fixture
def catalog():
    return check_catalog([MODEL], ROLES).catalog


@pytest.fixture
def slots(catalog):
    return make_slots(make_plan(NODES, catalog.roles, catalog.models), catalog)


def test_from_the_plan_to_the_summary(catalog, slots):
    """The slots of a plan, their engines asked, and what that means for the fleet."""
    engine = engines.Engine("vllm", "large", requests=3)
    with engines.serve(engine) as endpoint:
        for slot in slots:
            slot["endpoint"] = endpoint
        first = observe(questions(slots), asking=Asking(timeout=3), now=10**9 - 60)
        assert {one["drift"] for one in with_catalog(first.replicas, catalog)} == {"unknown"}
        # It is seen to be started anew, from what its slot has now.
        engine.started += 10
        found = observe(questions(slots), previous=first.replicas, asking=Asking(timeout=3), now=10**9)
        later = observe(questions(slots), previous=found.replicas, asking=Asking(timeout=3), now=10**9 + 900)
    replicas = with_catalog(later.replicas, catalog)
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(dump_observed(replicas)))
    assert {one["id"]: (one["state"], one["model"], one["served_model"], one["drift"]) for one in replicas} == {
        "chat.0.main": ("ready", "big", "big", "current"),
        "big.0.big": ("ready", "big", "big", "current"),
    }
    plan = make_plan(NODES, catalog.roles, catalog.models)
    summary = summarise(read_inputs(NODES, plan, replicas, catalog))
    assert summary["models"] == {"total": 1, "satisfied": 1, "short": 0, "on_demand": 0, "off": 0}
    assert [(one["id"], one["idle_seconds"], one["gpus"]) for one in summary["idle_replicas"]] == [
        ("big.0.big", 900, 2),
        ("chat.0.main", 900, 1),
    ]
    changed = check_catalog([{**MODEL, "profiles": [{**PROFILE, "args": []}]}], ROLES).catalog
    summary = summarise(read_inputs(NODES, plan, replicas, changed))
    assert summary["stale"] == ["big.0.big"]
    text = next(one["text"] for one in summary["attention"] if one["code"] == "stale")
    assert text.startswith("args changed in the catalog since it was made")
    assert "restart its engine" in text


def test_only_what_is_needed_goes_to_who_asks(slots):
    slots[0] |= {"description": "long", "fallbacks": ["x"], "slo": {"ttft_p99": 3}}
    assert not {"description", "fallbacks", "slo"} & set(questions(slots)[0])
    assert questions([{"slot": "a", "engine": "vllm", "model": None}]) == [{"slot": "a", "engine": "vllm"}]


def test_the_catalog_says_what_is_simulated():
    simulated = {**MODEL, "engines": ["sim"], "profiles": [{"name": "p", "engine": "sim", "gpu_class": "c24"}]}
    found = check_catalog([simulated], []).catalog
    one = {"id": "big.0.big", "model": "big", "state": "ready", "engine": "vllm", "fingerprint": None, "shards": []}
    (entry,) = with_catalog([one], found)
    assert (entry["simulated"], entry["drift"]) == (True, "unknown")
    (other,) = with_catalog([{**one, "model": None, "served_model": "elsewhere"}], found)
    assert (other["model"], other["simulated"]) == ("elsewhere", False)
    assert one["fingerprint"] is None
    assert "drift" not in one


def entry(name, state="ready", **more):
    return {"id": name, "state": state, "model": "m", "running": 1, "waiting": 0, "idle_seconds": 5, **more}


def test_the_table_begins_with_what_failed():
    replicas = [
        entry("a"),
        entry("b", "failed", reason="x\x1b[31m\ny"),
        entry("c", "starting"),
        entry("d", served_model="other"),
    ]
    lines = format_observed(replicas, ["e"]).split("\n")
    assert lines[0] == "4 replicas: 2 ready, 1 starting, 1 failed; 1 slot without a model"
    assert [line.split()[0] for line in lines[3:7]] == ["b", "c", "a", "d"]
    assert "x?[31m?y" in lines[3]
    assert "it serves other" in lines[6]
    assert count_states(replicas) == {"ready": 2, "starting": 1, "draining": 0, "failed": 1}


def test_of_many_only_those_that_need_somebody_are_told():
    replicas = [entry(f"r{at}", "failed" if at % 50 == 0 else "ready") for at in range(200)]
    lines = format_observed(replicas).split("\n")
    assert lines[0] == "200 replicas: 196 ready, 4 failed"
    assert len(lines) == 8
    everything = format_observed([entry(f"r{at}", "failed") for at in range(200)]).split("\n")
    assert everything[-2] == "and 160 more"
    assert format_observed([]) == "0 replicas\n"
