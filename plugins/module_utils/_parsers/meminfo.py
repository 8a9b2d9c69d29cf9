# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The text of ``/proc/meminfo``."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError

# The kernel prints "kB" and means KiB. Very old ones print a table in bytes first, whose rows ("Mem:") are not these.
_LINE = re.compile(r"^\s*(?P<key>[A-Za-z][\w()]*):\s*(?P<value>[0-9]{1,18})(?:\s*kB)?\s*$", re.MULTILINE | re.ASCII)


@dataclass(frozen=True)
class MemInfo:
    """Memory of a machine in KiB as the kernel counts it (firmware and kernel image are not in it)."""

    total_kb: int
    available_kb: t.Optional[int] = None
    hugepages_total: t.Optional[int] = None
    hugepagesize_kb: t.Optional[int] = None


def parse(text: str) -> MemInfo:
    """Read the memory counters; without a positive ``MemTotal`` this is ``ParseError`` (``no_memtotal``)."""
    values: t.Dict[str, int] = {}
    for match in _LINE.finditer(text):
        values.setdefault(match.group("key"), int(match.group("value")))
    total = values.get("MemTotal")
    if not total:
        lines = text.split()
        raise ParseError("/proc/meminfo", "no_memtotal", detail=" ".join(lines[:8]))
    return MemInfo(
        total_kb=total,
        available_kb=values.get("MemAvailable"),
        hugepages_total=values.get("HugePages_Total"),
        hugepagesize_kb=values.get("Hugepagesize"),
    )


def installed_gb(total_kb: int) -> int:
    """Return the installed size in GB for what a kernel has left of it.

    The kernel and the firmware keep a few per cent, and modules come in powers of two: the size is rounded up to a
    multiple of the largest power of two that is not above a sixteenth of it.
    """
    sixteenth = total_kb / (16 * 1024 * 1024)
    step = 1
    while step * 2 <= sixteenth:
        step *= 2
    return -(-total_kb // (step * 1024 * 1024)) * step
