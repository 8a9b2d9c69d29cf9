# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._memory import engines as engine_rows
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import examine_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan

L4 = {"name": "NVIDIA L4", "memory_gb": 24, "memory_mib": 23034, "reserved_mib": 435, "compute_cap": 8.9}
L40S = {"name": "NVIDIA L40S", "memory_gb": 48, "memory_mib": 46068, "reserved_mib": 600, "compute_cap": 8.9}
GEOMETRY = {"kv_bytes_per_token": 131072, "layers": 32, "attention_heads": 32, "kv_heads": 8, "head_dim": 128}


def node(name, *gpus, fabrics=()):
    return {
        "name": name,
        "memory_gb": 256,
        "fabrics": list(fabrics),
        "gpus": [{"index": index, **each} for index, each in enumerate(gpus)],
    }


def entry(weights=15.0, **more):
    return {
        "name": "m",
        "kind": "llm",
        "source": "org/m",
        "engines": ["vllm", "sglang"],
        "context": 131072,
        "memory": {"weights_gib": weights, **GEOMETRY},
        "scaling": {"min": 1, "max": 1},
        **more,
    }


def make(nodes, model, previous=None, **options):
    catalog, problems = examine_catalog({"models": [model]})
    assert not [problem for problem in problems if problem.severity == "error"], problems
    return plan(nodes, (), catalog.models, previous, engines=catalog.engines, **options)


def way_of(document):
    (replica,) = document["replicas"]
    way = {key: value for key, value in replica["way"].items() if key not in ("need_gib", "room", "made_from")}
    return replica["profile"], way, [shard["gpu_indices"] for shard in replica["shards"]]


def test_the_fewest_gpus_then_the_smallest_class():
    nodes = [node("a", L4, L4, L4, L4), node("b", L40S)]
    assert way_of(make(nodes, entry(context_length=8192))) == ("vllm-l4", {}, [[0]])
    assert way_of(make(nodes, entry(30.0, context_length=8192))) == ("vllm-l40s", {}, [[0]])
    assert way_of(make(nodes[:1], entry(30.0, context_length=8192))) == ("vllm-l4-tp2", {"tp": 2}, [[0, 1]])


def test_heads_have_to_divide_and_layers_do_not():
    nodes = [node("a", L4, L4, L4)]
    # Three GPUs would do, and 32 heads cannot be split over them.
    (refused,) = make(nodes, entry(44.0, context_length=8192))["unplaced"]
    assert "too little VRAM" in refused["reason"]
    gguf = entry(44.0, context_length=8192, engines=["llamacpp"], quantization="gguf")
    assert way_of(make(nodes, gguf)) == ("llamacpp-l4-tp3", {"tp": 3}, [[0, 1, 2]])


def test_the_order_of_the_engines_comes_before_the_number_of_gpus():
    nodes = [node("a", L4, L4)]
    model = entry(19.0, engines=["llamacpp", "vllm"], context_length=8192)
    assert way_of(make(nodes, model))[0] == "llamacpp-l4"
    assert way_of(make(nodes, {**model, "engines": ["vllm", "llamacpp"]}))[0] == "vllm-l4-tp2"


def test_over_nodes_only_where_no_node_alone_can_and_on_one_fabric():
    nodes = [node("a", L4, L4, fabrics=["ib"]), node("b", L4, L4, fabrics=["ib"])]
    found = way_of(make(nodes, entry(60.0, context_length=8192)))
    assert found == ("vllm-l4-tp2-pp2", {"tp": 2, "pp": 2, "nodes": 2}, [[0, 1], [0, 1]])
    apart = [{**each, "fabrics": [each["name"]]} for each in nodes]
    assert make(apart, entry(60.0, context_length=8192))["unplaced"][0]["placed"] == 0
    with_large = [*nodes, node("c", L40S, L40S)]
    assert way_of(make(with_large, entry(60.0, context_length=8192)))[0] == "vllm-l40s-tp2"


def test_a_refusal_names_what_the_nearest_way_lacks_and_help_a_gpu_that_does():
    (refused,) = make([node("a", L4)], entry(60.0))["unplaced"]
    assert (
        "vllm-l4: 1 too little VRAM (needs 64.7 GiB, has 20.3, short 44.4 GiB per GPU: weights 61.2, overhead 2.5, kv_cache 1.0)"
        in refused["reason"]
    )
    assert refused["what_would_help"], "nothing was suggested"
    (refused,) = make([], entry(60.0))["unplaced"]
    assert refused["missing"] == 1


# --- context ---


def on_vllm(weights=15.0, **more):
    return entry(weights, engines=["vllm"], **more)


def test_the_largest_context_that_fits_is_served_in_steps():
    _name, way, _gpus = way_of(make([node("a", L4)], on_vllm()))
    tokens = way["context_length"]
    assert tokens % 1024 == 0
    assert 8192 < tokens < 131072
    assert way_of(make([node("a", L4)], on_vllm(context_length="auto")))[1] == way
    # One step more does not fit.
    assert make([node("a", L4)], on_vllm(context_length=tokens))["replicas"]
    assert make([node("a", L4)], on_vllm(context_length=tokens + 2048))["unplaced"]
    assert way_of(make([node("a", L40S)], on_vllm(5.0)))[1]["context_length"] == 131072


def test_a_context_below_the_least_is_refused_or_takes_more_gpus():
    tight = on_vllm(17.0)
    (refused,) = make([node("a", L4)], tight)["unplaced"]
    assert refused["code"] == "vram"
    assert way_of(make([node("a", L4, L4)], tight))[0] == "vllm-l4-tp2"
    # A model that supports less is served with what it supports.
    assert way_of(make([node("a", L4)], {**tight, "context": 2048}))[1] == {"context_length": 2048}


def test_so_many_requests_find_room():
    one = way_of(make([node("a", L4)], on_vllm()))[1]["context_length"]
    _name, way, _gpus = way_of(make([node("a", L4)], on_vllm(sequences=2)))
    assert way["sequences"] == 2
    assert way["context_length"] == pytest.approx(one / 2, abs=1024)
    assert make([node("a", L4)], on_vllm(sequences=4))["unplaced"]


# --- kept ---


def test_a_changed_constant_changes_no_way_and_a_changed_key_does(monkeypatch):
    nodes = [node("a", L4)]
    first = make(nodes, entry())
    rows = dict(engine_rows.ENGINE_MEMORY)
    rows["vllm"] = (*rows["vllm"][:-1], replace(rows["vllm"][-1], overhead_gib=2.0))
    monkeypatch.setattr(engine_rows, "ENGINE_MEMORY", rows)
    again = make(nodes, entry(), first)
    assert again["replicas"] == first["replicas"]
    fresh = make(nodes, entry(), first, replan_ways=True)
    assert way_of(fresh)[1]["context_length"] > way_of(first)[1]["context_length"]
    changed = make(nodes, entry(context_length=8192), first)
    assert way_of(changed)[:2] == ("vllm-l4", {})
    assert way_of(make(nodes, entry(engines=["sglang", "vllm"]), first))[0] == "vllm-l4"
    assert way_of(make(nodes, entry(engines=["sglang"]), first))[0] == "sglang-l4"


def test_a_way_that_fits_no_more_is_computed_afresh():
    first = make([node("a", L4)], entry())
    heavier = make([node("a", L4)], entry(15.6), first)
    assert way_of(heavier)[1]["context_length"] < way_of(first)[1]["context_length"]


def test_plan_over_plan_is_a_fixed_point():
    nodes = [node("a", L4, L4), node("b", L40S)]
    first = make(nodes, entry(30.0))
    assert make(nodes, entry(30.0), first)["replicas"] == first["replicas"]


# --- profiles for any class ---


def test_a_profile_for_any_class_carries_arguments():
    wide = {"name": "wide", "gpu_class": "any", "args": ["--kv-cache-dtype", "fp8"], "priority": 5}
    pinned = {"name": "pinned", "gpu_class": "l40s", "priority": 10}
    model = entry(profiles=[wide, pinned], context_length=8192)
    assert way_of(make([node("a", L4)], model))[0] == "wide-l4"
    (replica,) = make([node("a", L4), node("b", L40S)], model)["replicas"]
    assert replica["profile"] == "pinned"
    assert "way" not in replica


def test_what_a_model_needs_has_to_be_known():
    model = entry()
    del model["memory"]
    problems = examine_catalog({"models": [model]})[1]
    assert "nothing says what one needs; write memory with weights_gib" in str(problems[0])
    assert not [one for one in examine_catalog({"models": [{**model, "vram_gb": 20}]})[1] if one.severity == "error"]
    assert way_of(make([node("a", L4)], {**model, "vram_gb": 20}))[0] == "vllm-l4"


def test_the_plan_says_for_how_many_requests_there_is_room():
    nodes = [node("a", L4)]
    (one,) = make(nodes, on_vllm(context_length=4096))["replicas"]
    assert one["why"]["text"].endswith("; room for 5 requests of 4096 tokens")
    # Five and no sixth.
    assert make(nodes, on_vllm(context_length=4096, sequences=5))["replicas"]
    assert make(nodes, on_vllm(context_length=4096, sequences=6))["unplaced"]
    unknown = {**on_vllm(context_length=4096), "memory": {"weights_gib": 15.0}}
    assert "room for" not in make(nodes, unknown)["replicas"][0]["why"]["text"]
