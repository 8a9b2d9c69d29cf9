# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.mark import (
    MARK,
    Mark,
    parse_mark,
    plain_description,
    with_mark,
)


def test_mark():
    mark = Mark("chat-0", "f1", ("hostpci0", "net0"))
    assert mark.line() == 'knaster.inventory/1 {"fingerprint":"f1","own":["hostpci0","net0"],"vm":"chat-0"}'
    text = with_mark("words\nof the user", mark)
    assert parse_mark(text) == mark
    assert plain_description(text) == "words\nof the user"
    assert parse_mark(f'{MARK} {{"fingerprint":"f1","vm":"chat-0"}}') == Mark("chat-0", "f1", None)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "words",
        MARK,
        f"{MARK} ",
        f"{MARK} {{",
        f"{MARK} []",
        f'{MARK} {{"vm":1}}',
        f' {MARK} {{"vm":"a"}}',
        f'{MARK}0 {{"vm":"a"}}',
    ],
)
def test_no_mark(text):
    assert parse_mark(text) is None
