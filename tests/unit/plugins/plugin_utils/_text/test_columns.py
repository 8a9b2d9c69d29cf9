# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

from ansible_collections.knaster.inventory.plugins.plugin_utils._text.columns import format_columns


def test_numbers_stand_to_the_right_and_unknown_is_a_dash():
    assert format_columns(("NODE", "GB", "WHAT"), [("a", 8, "x"), ("longer", None, None), ("b", 1024, "y y")]) == [
        "NODE      GB  WHAT",
        "a          8  x",
        "longer     -  -",
        "b       1024  y y",
    ]


def test_text_of_data_keeps_to_its_cell():
    assert format_columns(("A",), [("x\n\x1b[2Jy\r",)]) == ["A", "x??[2Jy?"]


def test_a_table_without_rows_is_its_header():
    assert format_columns(("A", "B"), []) == ["A  B"]
