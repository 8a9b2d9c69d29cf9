# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Ways to run models that name no class of GPUs: which are found, in which order, and when they are kept."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._memory import engines as engine_rows
from ansible_collections.knaster.inventory.plugins.module_utils._memory.run import read_run
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import examine_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.fingerprint import CURRENT, fingerprint
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.memory import run_of
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.ways import recorded_way
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import check
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import read_nodes
from ansible_collections.knaster.inventory.plugins.plugin_utils._observe.replicas import DriftFinder
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.ways import with_ways
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import Options
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.engines import engine_commands
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.slots import make_slots
from hypothesis import given
from hypothesis import strategies as st

# Qwen3-8B in 16 bit.
MEMORY = {
    "weights_gib": 15.26,
    "kv_bytes_per_token": 147456,
    "layers": 36,
    "attention_heads": 32,
    "kv_heads": 8,
    "head_dim": 128,
    "vocab": 151936,
    "hidden": 4096,
    "intermediate": 12288,
}
MIB = {"l4": 23034, "rtx-4060-ti-16gb": 16380, "rtx-3090": 24576, "h100-sxm5-80gb": 81559, None: None}


def gpus(gpu_class, count, first=0, **more):
    sizes = {"l4": 24, "rtx-4060-ti-16gb": 16, "rtx-3090": 24, "h100-sxm5-80gb": 80}
    caps = {"rtx-3090": 8.6, "h100-sxm5-80gb": 9.0}
    one = {"gpu_class": gpu_class, "memory_gb": sizes.get(gpu_class), "memory_mib": MIB.get(gpu_class)}
    known = {key: value for key, value in one.items() if value is not None}
    return [
        {"index": index, **known, "compute_cap": caps.get(gpu_class, 8.9), **more}
        for index in range(first, first + count)
    ]


def node(name, cards, **more):
    return {"name": name, "memory_gb": 256, "gpus": cards, **more}


def catalog_of(**more):
    entry = {
        "name": "m",
        "kind": "llm",
        "source": "org/m",
        "engines": ["vllm"],
        "context": 40960,
        "memory": MEMORY,
        "scaling": {"min": 1},
        **more,
    }
    catalog, problems = examine_catalog({"models": [{key: value for key, value in entry.items() if value is not None}]})
    assert [problem.message for problem in problems if problem.severity == "error"] == []
    return catalog


def planned(nodes, previous=None, *, replan_ways=False, **more):
    catalog = catalog_of(**more)
    made = plan(nodes, (), catalog.models, previous, replan_ways=replan_ways, engines=catalog.engines)
    assert check(made, "plan", "plan") == []
    return made


def ways_of(nodes, **more):
    catalog = catalog_of(**more)
    (model,) = with_ways(catalog.models, read_nodes(nodes), Options(engines=catalog.engines))
    return [profile.name for profile in sorted(model.profiles, key=lambda one: (-one.priority, one.rank, one.name))]


def the_way(made):
    (replica,) = made["replicas"]
    return replica["way"]


# --- which, and in which order


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        ({}, "vllm-l4-tp2"),
        # Heads, key/value heads and the width of layers have to be shared evenly.
        ({"attention_heads": 30, "kv_heads": 6}, "vllm-l4-tp2"),
        ({"attention_heads": 40, "kv_heads": 5, "head_dim": 128, "intermediate": 12290}, "vllm-l4-tp5"),
        ({"attention_heads": 40, "kv_heads": 8, "weights_gib": 62.0}, "vllm-l4-tp4"),
    ],
)
def test_a_model_is_spread_over_numbers_that_its_heads_allow(facts, name):
    memory = {**MEMORY, "weights_gib": 30.0, **facts}
    assert ways_of([node("a", gpus("l4", 6))], memory=memory, context_length=8192)[0] == name


def test_gpus_of_which_nothing_is_known_but_their_size_carry_models_too():
    unknown = [{"index": index, "memory_gb": 24, "compute_cap": 8.9, "vendor": "nvidia"} for index in (0, 1)]
    made = planned([node("a", unknown)], context_length=8192)
    assert made["replicas"][0]["profile"] == "vllm-24gb"
    assert "gpu_class" not in made["replicas"][0]
    again = planned([node("a", unknown)], made, context_length=8192)
    assert again["replicas"] == made["replicas"]


def test_a_refusal_tells_what_is_lacking_and_nothing_of_gpus_that_nobody_has():
    made = planned([node("a", gpus("l4", 1))], memory={**MEMORY, "weights_gib": 50.0}, context_length=8192)
    (refused,) = made["unplaced"]
    assert refused["code"] == "vram"
    assert "needs 54.2 GiB, has 20.2, short 33.9 GiB per GPU: weights 51.0" in refused["reason"]
    assert "another class" not in refused["reason"]


# --- the context


def test_the_context_is_the_largest_that_fits_in_whole_steps():
    # 20.21 GiB less weights 15.57, activation 0.77, runtime 0.26 and graphs 1 leave 2.61: 19,036 tokens of 144 KiB.
    assert the_way(planned([node("a", gpus("l4", 1))]))["context_length"] == 18432
    roomy = the_way(planned([node("a", gpus("rtx-3090", 1))]))["context_length"]
    assert 8192 < roomy < 40960
    assert roomy % 1024 == 0
    stated = planned([node("a", gpus("rtx-3090", 1))], context_length=roomy)
    assert the_way(stated).keys() == {"need_gib", "room", "made_from"}
    assert planned([node("a", gpus("rtx-3090", 1))], context_length=roomy + 1024)["replicas"] == []
    # No more than the model supports, to the token.
    assert the_way(planned([node("a", gpus("h100-sxm5-80gb", 1))]))["context_length"] == 40960
    assert the_way(planned([node("a", gpus("h100-sxm5-80gb", 1))], context=5000))["context_length"] == 5000


def test_below_a_context_of_use_a_model_is_refused():
    def fits(weights_gib, **more):
        return bool(
            planned([node("a", gpus("l4", 1))], memory={**MEMORY, "weights_gib": weights_gib}, **more)["replicas"]
        )

    # 8,192 tokens take 1.125 GiB, and 1,024 an eighth of that.
    assert fits(16.7)
    assert not fits(16.8)
    assert fits(17.6, context=1024)
    assert not fits(17.8, context=1024)


def test_of_a_model_that_is_not_known_in_full_no_more_is_promised_than_is_of_use():
    made = planned([node("a", gpus("h100-sxm5-80gb", 1))], memory={**MEMORY, "parts": ["vision"]})
    assert the_way(made)["context_length"] == 8192


@pytest.mark.parametrize("profile", [{"name": "p", "gpu_class": "l4"}, {"name": "p", "engine": "llamacpp"}])
def test_auto_beside_a_profile_that_names_gpus_is_an_error(profile):
    entry = {"name": "m", "kind": "llm", "source": "org/m", "engines": ["vllm", "llamacpp"], "memory": MEMORY}
    _catalog, problems = examine_catalog({"models": [{**entry, "context_length": "auto", "profiles": [profile]}]})
    assert "context_length auto is for models that may run on any GPU" in problems[0].message
    assert problems[0].path.endswith("context_length")


# --- profiles for any GPU


def test_a_profile_for_any_gpu_carries_arguments_and_needs():
    args = ["--max-num-seqs", "64"]
    profiles = [{"name": "steady", "gpu_class": "any", "args": args, "min_memory_gb": 16}]
    made = planned([node("a", gpus("l4", 1))], profiles=profiles, engines=None)
    (replica,) = made["replicas"]
    assert replica["profile"] == "steady-l4"
    assert replica["shards"][0]["memory_mib"] == 16 * 1024
    model = catalog_of(profiles=profiles, engines=None).models[0]
    assert recorded_way(model, replica).args[:2] == tuple(args)


def test_a_number_of_gpus_that_is_written_stays():
    profiles = [{"name": "pair", "gpu_class": "any", "tp": 2}]
    assert ways_of([node("a", gpus("h100-sxm5-80gb", 4))], profiles=profiles, engines=None) == [
        "pair-h100-sxm5-80gb-tp2"
    ]


# --- what is kept


BEFORE = planned([node("a", gpus("rtx-3090", 1))])


@pytest.fixture(name="_other_constants")
def use_other_constants(monkeypatch):
    """Constants under which nothing of before would be computed again."""
    rows = engine_rows.ENGINE_MEMORY["vllm"]
    other = tuple(replace(row, runtime_gib=6.0, utilisation=0.8, load_factor=1.1) for row in rows)
    monkeypatch.setitem(engine_rows.ENGINE_MEMORY, "vllm", other)


@pytest.fixture(name="before")
def plan_before():
    return copy.deepcopy(BEFORE)


@pytest.mark.usefixtures("_other_constants")
def test_another_constant_changes_no_way_and_no_fingerprint(before):
    nodes = [node("a", gpus("rtx-3090", 1))]
    after = planned(nodes, before)
    assert after["replicas"] == before["replicas"]
    assert planned(nodes, after)["replicas"] == before["replicas"]
    assert planned(nodes)["replicas"] == []


def test_a_few_mib_of_another_driver_move_nothing_and_a_smaller_gpu_does(before):
    def on(mib):
        return planned([node("a", gpus("rtx-3090", 1, memory_mib=mib))], before)["replicas"]

    assert on(24576 - 90) == before["replicas"]
    assert on(24576 * 15 // 16) == before["replicas"]
    assert on(16384) == []


@pytest.mark.parametrize(
    ("changed", "is_same"),
    [
        ({"description": "x"}, True),
        ({"aliases": ["y"], "placement_priority": 3}, True),
        ({"sequences": 2}, False),
        ({"context": 16384}, False),
        ({"memory": {**MEMORY, "weights_gib": 15.3}}, False),
        ({"engine_args": {"vllm": ["--max-num-seqs", "32"]}}, False),
        ({"source": "org/other"}, False),
        ({"context_length": 8192}, False),
    ],
)
def test_a_key_of_the_catalog_makes_another_way(before, changed, is_same):
    after = planned([node("a", gpus("rtx-3090", 1))], before, **changed)
    assert (the_way(after)["made_from"] == the_way(before)["made_from"]) is is_same
    (was,), (now,) = before["replicas"], after["replicas"]
    # It stays where it is in either case.
    assert now["shards"] == was["shards"]


@pytest.mark.usefixtures("_other_constants")
def test_ways_are_computed_afresh_where_somebody_says_so(before):
    nodes = [node("a", gpus("rtx-3090", 1) + gpus("h100-sxm5-80gb", 1, 1))]
    assert planned(nodes, before)["replicas"][0]["profile"] == "vllm-rtx-3090"
    after = planned(nodes, before, replan_ways=True)
    assert after["replicas"][0]["profile"] == "vllm-h100-sxm5-80gb"


def test_a_better_class_that_is_new_moves_nothing(before):
    after = planned([node("a", gpus("rtx-3090", 1) + gpus("h100-sxm5-80gb", 1, 1))], before)
    assert after["replicas"][0]["shards"] == before["replicas"][0]["shards"]
    assert after["replicas"][0]["fingerprint"] == before["replicas"][0]["fingerprint"]


# --- what follows from a plan


@given(
    engine=st.sampled_from(["vllm", "sglang", "llamacpp"]),
    context=st.none() | st.integers(8192, 32768),
    sequences=st.integers(1, 4),
    count=st.sampled_from([1, 2, 4]),
    args=st.sampled_from([[], ["--kv-cache-dtype", "fp8"]]),
)
def test_the_command_reads_back_as_the_run_that_was_planned(engine, context, sequences, count, args):
    more = {"engines": [engine], "context_length": context, "sequences": sequences, "quantization": "gguf"}
    if engine != "llamacpp":
        del more["quantization"]
        more["engine_args"] = {engine: args}
    nodes = [node("a", gpus("h100-sxm5-80gb", count))]
    memory = {**MEMORY, "weights_gib": 15.26 * count * 3}
    catalog = catalog_of(memory=memory, **more)
    made = plan(nodes, (), catalog.models, passthrough=False, engines=catalog.engines)
    (slot,) = make_slots(made, catalog, bare_metal=True)
    (command,) = engine_commands(slot)
    (model,) = catalog.models
    way = recorded_way(model, made["replicas"][0])
    started = read_run(engine, [str(word) for word in command.argv], command.env, sequences=sequences)
    meant = run_of(model, engine, way)
    # llama.cpp spreads layers over the GPUs that it sees.
    sizes = ("tp", "pp") if engine != "llamacpp" else ()
    names = (*sizes, "context", "sequences", "cache_k", "cache_v", "utilisation", "unified", "batched_tokens")
    assert {name: getattr(started, name) for name in names} == {name: getattr(meant, name) for name in names}
    assert slot["context_length"] == (context or the_way(made)["context_length"])


def test_what_runs_by_a_way_is_current_until_the_catalog_changes(before):
    catalog = catalog_of()
    (slot,) = make_slots(before, catalog)
    assert check(slot, "slot", "slot") == []
    assert slot["fingerprint"] == fingerprint(recorded_way(catalog.models[0], before["replicas"][0]))
    (replica,) = before["replicas"]

    def drift(today):
        seen = {"fingerprint": slot["fingerprint"], "model": "m", "profile": slot["profile"]}
        return DriftFinder(today).find(seen).state

    assert drift(catalog) == CURRENT
    assert replica["fingerprint"] == slot["fingerprint"]
    assert drift(catalog_of(engine_args={"vllm": ["--max-num-seqs", "32"]})) == "stale"


def test_no_word_of_a_command_line_stands_in_a_plan():
    made = planned([node("a", gpus("l4", 1))], engine_args={"vllm": ["--api-key", "sesame"]})
    assert "sesame" not in str(made)


@pytest.mark.parametrize(
    ("weights_gib", "stated", "seconds"), [(15.26, None, 1200), (200.0, None, 1300), (200.0, "5m", 300)]
)
def test_large_weights_take_longer_to_start_where_nobody_says_how_long(weights_gib, stated, seconds):
    profiles = [{"name": "p", "gpu_class": "any", "tp": 8, **({"startup_timeout": stated} if stated else {})}]
    more = {"memory": {**MEMORY, "weights_gib": weights_gib}, "profiles": profiles, "engines": None}
    (slot,) = make_slots(planned([node("a", gpus("h100-sxm5-80gb", 8))], **more), catalog_of(**more))
    assert slot["startup_timeout"] == seconds
