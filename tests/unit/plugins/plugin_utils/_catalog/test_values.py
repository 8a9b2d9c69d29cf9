# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.values import (
    WrongValueError,
    read_compute_cap,
    read_milliseconds,
    read_seconds,
    read_source,
)

TEST_DURATIONS: list[tuple[t.Any, int | None]] = [
    ("20m", 1200),
    ("90s", 90),
    ("1h30m", 5400),
    ("1h 30m", 5400),
    ("2d", 172800),
    ("1d1h1m1s", 90061),
    ("20M", 1200),
    ("2000ms", 2),
    ("1.5h", 5400),
    ("0.5d 1.5m", 43290),
    ("90.0s", 90),
    (1_800_000_000_000, 1800),
    (1_000_000_000, 1),
    (31_622_400, 31_622_400),
    (90, 90),
    (90.0, 90),
    (0, None),
    ("0s", None),
]


@pytest.mark.parametrize(("written", "expected"), TEST_DURATIONS)
def test_durations(written: t.Any, expected: int | None) -> None:
    assert read_seconds(written) == expected


TEST_MILLISECONDS: list[tuple[t.Any, int]] = [
    ("500ms", 500),
    ("2s", 2000),
    ("1s500ms", 1500),
    (500, 500),
    (999_999, 999_999),
    (50_000_000, 50),
    (1_000_000, 1),
    ("0.5s", 500),
    ("1m", 60000),
]


@pytest.mark.parametrize(("written", "expected"), TEST_MILLISECONDS)
def test_milliseconds(written: t.Any, expected: int) -> None:
    assert read_milliseconds(written) == expected


@pytest.mark.parametrize(
    "written",
    [
        "",
        "m",
        "20",
        "20 minutes",
        "-5m",
        "30m1h",
        "500ms",
        1.5,
        -1,
        True,
        [],
        "999999d",
        None,
        "1.5s",
        "0.0001s",
        2_147_483_648,
        999_999_999,
        "1.h",
        ".5h",
    ],
)
def test_no_durations(written: t.Any) -> None:
    with pytest.raises(WrongValueError):
        read_seconds(written)


TEST_CAPS: list[tuple[t.Any, tuple[int, int] | None]] = [
    (8.9, (8, 9)), ("8.9", (8, 9)), (8, (8, 0)), ("12.1", (12, 1)), ("10.10", (10, 10)), (0, None), ("0.0", None),
]  # fmt: skip


@pytest.mark.parametrize(("written", "expected"), TEST_CAPS)
def test_compute_caps(written: t.Any, expected: tuple[int, int] | None) -> None:
    assert read_compute_cap(written) == expected


@pytest.mark.parametrize(
    "source", ["gpt2", "org/name", "org/name@v1.0", "org/n-GGUF/sub/f-q4.gguf", "llama3:8b", "/", "/a/b.c"]
)
def test_sources(source: str) -> None:
    assert read_source(source) == source


def test_a_path_loses_its_last_slash() -> None:
    assert read_source("/models/a/") == "/models/a"
