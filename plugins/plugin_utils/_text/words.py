# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Natural order of names: node2 before node10, and always the same answer for the same set of names."""

from __future__ import annotations

import re

_DIGITS = re.compile(r"(\d+)")

NaturalKey = tuple[tuple[str | int, ...], str]


def natural_key(name: str) -> NaturalKey:
    """A sort key in which runs of digits count as numbers; equal readings (1 and 01) fall back to the text itself."""
    parts: list[str | int] = list(_DIGITS.split(name))
    for at in range(1, len(parts), 2):
        parts[at] = int(parts[at])
    return tuple(parts), name
