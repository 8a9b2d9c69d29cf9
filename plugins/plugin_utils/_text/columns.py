# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Plain text in columns."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Sequence

_GAP = "  "


def format_columns(header: Sequence[str], rows: Sequence[Sequence[t.Any]]) -> list[str]:
    """Return lines of aligned columns; a column of numbers stands to the right, and None is a dash.

    Text of data keeps to its line: a control character becomes a question mark.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    right = [
        bool(rows) and all(isinstance(row[column], (int, float, type(None))) for row in rows)
        for column in range(len(header))
    ]
    widths = [max(len(line[column]) for line in (list(header), *cells)) for column in range(len(header))]
    lines = []
    for line in (list(header), *cells):
        parts = [
            text.rjust(width) if flush else text.ljust(width)
            for text, width, flush in zip(line, widths, right, strict=True)
        ]
        lines.append(_GAP.join(parts).rstrip())
    return lines


def _cell(value: t.Any) -> str:
    if value is None:
        return "-"
    return "".join(character if character.isprintable() else "?" for character in str(value))
