# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog import check as check_module
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.engines import BUILTIN_ENGINES
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.load import read_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.plain import (
    plain_cap,
    plain_catalog,
)

SHIPPED = Path(check_module.__file__).parents[3] / "catalog"

FULL: dict[str, t.Any] = {
    "models": [
        {"name": "m", "kind": "llm", "vram_gb": 20, "min_cc": 8.9, "engines": ["vllm"], "context": 8192, "lora": True,
         "aliases": ["a"], "description": "d", "source": "o/m",
         "profiles": [{"name": "p", "gpu_class": "l4", "tp": 2, "args": ["-x"], "env": {"A": "1"}, "startup_timeout": 60}],
         "scaling": {"min": 1, "max": 2, "idle_timeout": 600}, "fallbacks": ["n"], "routing_profile": "fast",
         "slo": {"ttft_p99": 500}, "context_length": 4096, "max_output": 1024, "capabilities": ["tools"], "license": "mit",
         "quantization": "awq", "memory": {"layers": 32}, "placement_priority": 5, "source_note": "card"},
        {"name": "n", "kind": "llm", "engines": ["mine"]},
    ],
    "roles": [
        {"name": "r", "needs": {"engine": "vllm", "min_vram_gb": 20, "min_cc": 8.0, "max_cc": 12.1, "node_selector": {"z": "a"}},
         "prefer": "largest", "count": 2, "slots": ["s", {"name": "t", "model": "m"}], "priority": 1, "colocate": "g",
         "vm": {"cores": 4, "tags": ["x"]}},
        {"name": "q", "needs": {"engine": "llamacpp", "gpu": False, "gpu_nodes": True}, "colocate": "h"},
        {"name": "u", "needs": {"engine": "llamacpp", "gpu": False}, "colocate": "h"},
    ],
    "gpus": [{"name": "card", "vendor": "amd", "memory_gb": [16, 24]}],
    "engines": [{"name": "mine", "min_cc": 8.0, "quantizations": {"awq": {"min_cc": 8.9}}, "kinds": ["llm", "reranker"]}],
}  # fmt: skip


def check(document: dict[str, t.Any]) -> dict[str, t.Any]:
    found = check_catalog(document["models"], document["roles"], gpus=document["gpus"], engines=document["engines"])
    return plain_catalog(found.catalog)


def test_what_is_normalised_stays_as_it_is() -> None:
    assert check(FULL) == FULL
    json.dumps(check(FULL))
    yaml.safe_dump(check(FULL))


def test_the_shipped_catalog_round_trips() -> None:
    document = plain_catalog(read_catalog([str(SHIPPED)]).catalog)
    assert document["models"]
    assert check(document) == document


def test_defaults_and_unknown_are_left_out() -> None:
    written = {
        "name": "m",
        "kind": "llm",
        "engines": ["vllm"],
        "vram_gb": 0,
        "lora": False,
        "aliases": [],
        "placement_priority": 100,
    }
    assert check({"models": [written], "roles": [], "gpus": [], "engines": []})["models"] == [
        {"name": "m", "kind": "llm", "engines": ["vllm"]}
    ]


def test_a_shipped_engine_that_is_described_again_is_kept() -> None:
    document = {"models": [], "roles": [], "gpus": [], "engines": [{"name": "vllm", "min_cc": 8.0}]}
    assert check(document)["engines"] == [{"name": "vllm", "min_cc": 8.0}]
    assert BUILTIN_ENGINES["vllm"].min_cc == (7, 5)


@pytest.mark.parametrize(("cap", "expected"), [((8, 9), 8.9), ((12, 0), 12.0), ((10, 10), "10.10")])
def test_capabilities(cap: tuple[int, int], expected: float | str) -> None:
    assert plain_cap(cap) == expected
