# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._memory.facts import MemoryFacts
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
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

# Arguments of the profile, and the context for which a GPU must have room; None: only the stated size decides.
TEST_CONTEXT = [
    ("vllm", (), 8192),
    ("vllm", ("--max-model-len", "4096"), 4096),
    ("llamacpp", ("--ctx-size=16384", "--parallel", "4"), 16384),
    ("vllm", ("--kv-cache-dtype", "fp8"), None),
    ("vllm", ("--gpu-memory-utilization=0.5",), None),
]


@pytest.mark.parametrize(("engine", "args", "context"), TEST_CONTEXT)
def test_the_context_is_that_of_the_arguments(engine, args, context):
    profile = Profile(name="p", engine=engine, gpu_class="l4", args=args)
    ask = ask_of_profile(MODEL, profile, BUILTIN_ENGINES, passthrough=True)
    assert [exact.context for exact in ask.exact] == ([] if context is None else [context])


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
