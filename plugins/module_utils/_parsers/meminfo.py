# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The text of ``/proc/meminfo``, as Documentation/filesystems/proc.rst of the kernel describes it."""

from __future__ import annotations

import re

from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError

# The kernel prints "kB" and means KiB.
_TOTAL = re.compile(r"^\s*MemTotal:\s*(?P<kib>0*[1-9][0-9]{0,17})(?:\s*kB)?\s*$", re.MULTILINE | re.ASCII)
_KIB_PER_GIB = 1024 * 1024


def parse(text: str) -> int:
    """Return the memory of a node in KiB as the kernel counts it: firmware and kernel image are not in it.

    :raises ParseError: ``no_memtotal`` without a positive ``MemTotal``
    """
    match = _TOTAL.search(text)
    if not match:
        raise ParseError("/proc/meminfo", "no_memtotal", detail=" ".join(text.split()[:8]))
    return int(match.group("kib"))


def installed_gb(total_kib: int) -> int:
    """Return the installed size in GB (2**30 bytes) for what a kernel has left of it, in KiB.

    The kernel and the firmware keep a few per cent, and modules come in powers of two: the size is rounded up to a
    multiple of the largest power of two that is not above a sixteenth of it.
    """
    sixteenth = total_kib // (16 * _KIB_PER_GIB)
    step = 1 << max(0, sixteenth.bit_length() - 1)
    return -(-total_kib // (step * _KIB_PER_GIB)) * step
