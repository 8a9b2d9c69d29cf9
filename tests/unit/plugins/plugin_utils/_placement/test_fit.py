# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._memory.facts import MemoryFacts
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog, examine_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.engines import BUILTIN_ENGINES
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
    Model,
    Profile,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import ask_of_profile
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan

MODEL = Model(
    name="m", kind="llm", engines=("vllm",), context=131072, context_length=8192, memory=MemoryFacts(weights_gib=10.0)
)

# Arguments of the profile, and the context of a request and how many of them a GPU must have room for.
TEST_CONTEXT = [
    ("vllm", (), (8192, 1)),
    ("vllm", ("--max-model-len", "4096"), (4096, 1)),
    ("llamacpp", ("--ctx-size=16384", "--parallel", "4"), (4096, 4)),
    ("llamacpp", ("--parallel", "4"), (8192, 4)),
    ("vllm", ("--kv-cache-dtype", "fp8"), (8192, 1)),
]


@pytest.mark.parametrize(("engine", "args", "room"), TEST_CONTEXT)
def test_the_context_is_that_of_the_arguments(engine, args, room):
    profile = Profile(name="p", engine=engine, gpu_class="l4", args=args)
    (served,) = ask_of_profile(MODEL, profile, BUILTIN_ENGINES, passthrough=True).exact
    assert (served.run.context, served.run.sequences) == room


def placed(model, args, gpu):
    """Whether one replica of a model finds room on one GPU with these arguments, and why not."""
    profile = {"name": "p", "engine": "vllm", "gpu_class": gpu["gpu_class"], "args": args}
    entry = {"kind": "llm", "source": "org/m", "profiles": [profile], "scaling": {"min": 1, "max": 1}, **model}
    catalog = examine_catalog({"models": [{"name": "m", **entry}]})[0]
    made = plan([{"name": "n", "memory_gb": 256, "gpus": [{"index": 0, **gpu}]}], (), catalog.models)
    return made["unplaced"][0]["reason"] if made["unplaced"] else None


RTX_3090 = {"gpu_class": "rtx-3090", "memory_gb": 24, "memory_mib": 24576, "reserved_mib": 346, "compute_cap": 8.6}
QWEN_32B = {"memory": {"weights_gib": 61.02, "kv_bytes_per_token": 262144}, "context_length": 8192}
SMALL = {"memory": {"weights_gib": 15.0, "kv_bytes_per_token": 131072}, "context_length": 8192}


@pytest.mark.parametrize("args", [[], ["--kv-cache-dtype", "fp8"], ["--gpu-memory-utilization", "0.95"]])
def test_an_argument_of_memory_does_not_switch_the_check_off(args):
    assert "too little VRAM (needs 6" in placed(QWEN_32B, args, RTX_3090)
    assert placed(SMALL, args, RTX_3090) is None


def test_a_share_of_the_gpu_that_is_too_small_is_refused():
    assert "too little VRAM (needs 18.8 GiB, has 11.8" in placed(SMALL, ["--gpu-memory-utilization", "0.5"], RTX_3090)


def test_parallel_slots_count_for_the_plan_as_for_the_command():
    model = {
        "memory": {"weights_gib": 18.65, "kv_bytes_per_token": 262144},
        "context_length": 8192,
        "quantization": "gguf",
    }

    def reason(*args):
        profile = {"name": "p", "engine": "llamacpp", "gpu_class": "rtx-3090", "args": list(args)}
        return placed({**model, "profiles": [profile]}, [], RTX_3090)

    assert reason() is None
    assert "needs 28.4 GiB" in reason("--parallel", "4")
    assert reason("--parallel", "4", "--cache-type-k", "q4_0", "--cache-type-v", "q4_0") is None


def test_a_model_in_a_colocate_group_needs_what_it_needs_alone():
    facts = {"weights_gib": 21.0, "kv_bytes_per_token": 131072, "layers": 32, "attention_heads": 32, "kv_heads": 8}
    big = {"name": "big", "kind": "llm", "vram_gb": 10, "engines": ["vllm"], "memory": facts}
    chat = {"name": "a", "needs": {"engine": "vllm"}, "slots": [{"name": "s", "model": "big"}]}
    embed = {"name": "b", "needs": {"engine": "tei", "min_vram_gb": 2}}
    gpu = {"index": 0, "name": "NVIDIA L4", "memory_gb": 24, "memory_mib": 23034, "compute_cap": 8.9}
    for roles in ([chat], [{**chat, "colocate": "g"}, {**embed, "colocate": "g"}]):
        found = examine_catalog({"models": [big], "roles": roles})[0]
        made = plan([{"name": "n", "memory_gb": 64, "gpus": [gpu]}], found.roles, found.models, engines=found.engines)
        reasons = {one["role"]: one["reason"] for one in made["unplaced"]}
        assert "too little VRAM" in reasons["a"]
        assert [one["role"] for one in made["assignments"]] in ([], ["b"])


def l4(name, healthy):
    card = {"index": 0, "name": "NVIDIA L4", "memory_gb": 24, "compute_cap": 8.9, "healthy": healthy}
    return {"name": name, "memory_gb": 64, "gpus": [card]}


def test_a_card_of_unknown_health_gets_nothing_new_and_keeps_what_it_has():
    roles = check_catalog([], [{"name": "chat", "needs": {"engine": "vllm"}, "count": 2}]).catalog.roles
    new = plan([l4("a", None), l4("b", True)], roles, ())
    assert [entry["node"] for entry in new["assignments"]] == ["b"]
    assert new["unplaced"][0]["rejected"] == {"health_unknown": 1, "in_use": 1}
    assert [entry["state"] for entry in new["ledger"]] == ["unknown", "used"]
    before = plan([l4("a", True), l4("b", True)], roles, ())
    after = plan([l4("a", None), l4("b", True)], roles, (), before)
    assert [entry["node"] for entry in after["assignments"]] == ["a", "b"]
    assert after["changes"]["moves"] == []
