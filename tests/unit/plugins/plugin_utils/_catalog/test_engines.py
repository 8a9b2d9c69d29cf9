# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.engines import (
    BUILTIN_ENGINES,
    KINDS,
    QUANTIZATIONS,
    SPELLINGS,
    SPLITS,
    VENDORS,
    engine_table,
)

TEST_RUNS: list[tuple[str, str | None, tuple[int, int], bool]] = [
    ("vllm", None, (7, 0), False),
    ("vllm", None, (7, 5), True),
    ("vllm", None, (12, 1), True),
    ("vllm", "int8-w8a8", (9, 0), True),
    ("vllm", "int8-w8a8", (10, 0), False),
    ("vllm", "mxfp4", (7, 5), False),
    ("vllm", "mxfp4", (8, 0), True),
    ("vllm", "fp8-w8a8", (7, 0), False),
    ("vllm", "fp8-w8a8", (7, 5), True),
    ("sglang", "fp8-w8a8", (7, 5), False),
    ("sglang", "fp8-w8a8", (8, 6), True),
    ("vllm", "fp8", (8, 6), True),
    ("vllm", "nvfp4-w4a4", (9, 0), False),
    ("vllm", "nvfp4-w4a4", (10, 3), True),
    ("vllm", "awq", (7, 5), True),
    ("sglang", None, (7, 5), False),
    ("sglang", None, (8, 0), True),
    ("llamacpp", None, (5, 0), True),
    ("llamacpp", None, (3, 7), False),
    ("ollama", None, (5, 0), True),
    ("tei", None, (8, 9), True),
    ("tei", None, (10, 0), True),
    ("tei", None, (10, 3), False),
    ("tei", None, (12, 1), True),
    ("tei", None, (12, 2), False),
    ("infinity", None, (3, 0), True),
    ("sim", None, (1, 0), True),
]


@pytest.mark.parametrize(("engine", "quantization", "cap", "expected"), TEST_RUNS)
def test_runs_on(engine: str, quantization: str | None, cap: tuple[int, int], expected: object) -> None:
    assert BUILTIN_ENGINES[engine].runs_on(cap, quantization) is expected


@pytest.mark.parametrize("engine", BUILTIN_ENGINES.values(), ids=str)
def test_the_table_is_well_formed(engine: t.Any) -> None:
    assert engine.split in SPLITS
    assert set(engine.kinds) <= set(KINDS)
    assert set(engine.vendors) <= set(VENDORS)
    assert set(engine.quantizations) <= set(QUANTIZATIONS)
    assert engine.default_port
    assert engine.health.startswith("/")
    assert BUILTIN_ENGINES[engine.name] is engine


def test_spellings_lead_to_engines() -> None:
    assert set(SPELLINGS.values()) <= set(BUILTIN_ENGINES)
    assert not set(SPELLINGS) & set(BUILTIN_ENGINES)


def test_ports_differ_where_engines_may_share_a_machine() -> None:
    ports = [engine.default_port for name, engine in BUILTIN_ENGINES.items() if name != "sim"]
    assert len(set(ports)) == len(ports)


def test_own_engines_come_on_top() -> None:
    mine = BUILTIN_ENGINES["vllm"].__class__(name="vllm", min_cc=(9, 0))
    table = engine_table([mine])
    assert table["vllm"] is mine
    assert list(table) == list(BUILTIN_ENGINES)
