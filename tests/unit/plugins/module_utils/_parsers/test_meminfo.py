# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.meminfo import installed_gb, parse

TEST_PARSE = [
    pytest.param("MemTotal:       65842524 kB\n", 65842524, id="one line"),
    pytest.param(
        "MemTotal:  125508468 kB\nMemFree: 1 kB\nMemAvailable: 121737812 kB\n",
        125508468,
        id="usual",
    ),
    pytest.param("MemTotal: 16384 kB\r\nMemAvailable: 8192 kB", 16384, id="CRLF, no final newline"),
    pytest.param(
        "        total:    used:    free:\nMem:  260579328 136073216 124506112\nMemTotal:   254472 kB\n",
        254472,
        id="table of an old kernel first",
    ),
    pytest.param(
        "MemTotal: 264026876 kB\nHugePages_Total:    2048\nHugepagesize:  2048 kB\n",
        264026876,
        id="huge pages",
    ),
    pytest.param("MemTotal: 100 kB\nMemAvailable: many kB\n", 100, id="a value that is no number"),
    pytest.param("MemTotal: 100 kB\nMemTotal: 200 kB\n", 100, id="the first counts"),
]


@pytest.mark.parametrize(("text", "expected"), TEST_PARSE)
def test_parse(text: str, expected: int) -> None:
    assert parse(text) == expected


GIB = 1024 * 1024
# Sizes are rounded up to whole GB, from 32 on to even ones, from 64 on to multiples of 4, and so on.
TEST_INSTALLED_GB = [
    (1, 1),
    (15 * GIB, 15),
    (15 * GIB + 1, 16),
    (31 * GIB, 31),
    (31 * GIB + 1, 32),
    (32 * GIB, 32),
    (32 * GIB + 1, 34),
    (33 * GIB, 34),
    (64 * GIB - 1, 64),
    (64 * GIB, 64),
    (64 * GIB + 1, 68),
    (125 * GIB, 128),
    (1023 * GIB, 1024),
    (1024 * GIB + 1, 1088),
]


@pytest.mark.parametrize(("total_kib", "expected"), TEST_INSTALLED_GB)
def test_installed_gb(total_kib: int, expected: int) -> None:
    assert installed_gb(total_kib) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "MemFree: 1 kB\n",
        "MemTotal: 0 kB\n",
        "MemTotal: lots kB\n",
        "MemTotal: -5 kB\n",
        "cat: /proc/meminfo: No such file\n",
    ],
)
def test_errors(text: str) -> None:
    with pytest.raises(ParseError, match=r"^/proc/meminfo: there is no total amount of memory") as caught:
        parse(text)
    assert caught.value.code == "no_memtotal"
