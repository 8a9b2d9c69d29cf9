# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.views import (
    Names,
    engine_view,
    placement_view,
    serving,
)

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


def test_names() -> None:
    names = Names(CATALOG)
    assert [name and model and model.name for name in ("zeta", "gpt", "z") if (model := names.resolve(name))] == [
        "zeta"
    ] * 3
    assert names.resolve("nobody") is None
    assert names.aliases_of("gpt") == ("gpt", "z")
    assert names.aliases_of("alpha") == names.aliases_of("nobody") == ()
    assert names.declared == ("zeta", "alpha", "demand", "off")
    assert names.ordered == ("alpha", "demand", "off", "zeta")


def test_three_ways_of_serving_and_none() -> None:
    assert [serving(model) for model in CATALOG.models] == ["always_on", None, "on_demand", "off"]


def test_what_placement_needs() -> None:
    assert placement_view(CATALOG.models[0]) == {
        "name": "zeta",
        "kind": "llm",
        "vram_gb": 40,
        "engines": ["vllm"],
        "context": 8192,
        "source": "o/z",
        "profiles": [
            {"name": "p", "gpu_class": "l40s", "tp": 2, "min_memory_gb": 8, "priority": 2},
            {"name": "s", "engine": "sim"},
        ],
        "scaling": {"min": 1, "max": 1},
    }


def test_what_an_engine_needs() -> None:
    model = CATALOG.models[0]
    assert engine_view(model, model.profiles[0]) == {
        "name": "zeta",
        "aliases": ["gpt", "z"],
        "kind": "llm",
        "source": "o/z",
        "context": 8192,
        "capabilities": ["tools"],
        "engine": "vllm",
        "tp": 2,
        "pp": 1,
        "nodes": 1,
        "args": ["-x"],
        "env": {"A": "1"},
        "startup_timeout": 1200,
        "profile": "p",
        "simulated": False,
    }
    assert engine_view(CATALOG.models[2], CATALOG.models[2].profiles[0])["simulated"] is True
