# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog

PROFILES: list[dict[str, t.Any]] = [
    {
        "name": "p",
        "gpu_class": "l40s",
        "tp": 2,
        "args": ["-x"],
        "env": {"A": "1"},
        "weight": 3,
        "priority": 2,
        "min_memory_gb": 8,
    },
    {"name": "s", "engine": "sim"},
]
MODELS: list[dict[str, t.Any]] = [
    {"name": "zeta", "kind": "llm", "engines": ["vllm"], "aliases": ["gpt", "z"], "fallbacks": ["alpha"], "source": "o/z",
     "vram_gb": 40, "context": 8192, "license": "mit", "capabilities": ["tools"], "profiles": PROFILES, "scaling": {"min": 1}},
    {"name": "alpha", "kind": "llm", "engines": ["vllm"]},
    {"name": "demand", "kind": "llm", "source": "o/d", "profiles": [PROFILES[1]], "scaling": {"max": 2}},
    {"name": "off", "kind": "llm", "engines": ["vllm"], "scaling": {}},
]  # fmt: skip
CATALOG = check_catalog(MODELS, []).catalog


def test_who_answers_to_a_name() -> None:
    models = CATALOG.by_name()
    assert [models[name].name for name in ("zeta", "gpt", "z")] == ["zeta"] * 3
    assert list(models) == ["gpt", "z", "zeta", "alpha", "demand", "off"]


def test_three_ways_of_serving_and_none() -> None:
    assert [model.serving for model in CATALOG.models] == ["always_on", None, "on_demand", "off"]


def test_a_model_is_simulated_when_all_its_profiles_are() -> None:
    assert [model.simulated for model in CATALOG.models] == [False, False, True, False]
