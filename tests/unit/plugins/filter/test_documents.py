# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import datetime as dt

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.knaster.inventory.plugins.filter.documents import FilterModule

FILTERS = FilterModule().filters()


def test_there_and_back():
    document = {"version": 1, "assignments": [{"role": "chat"}]}
    assert FILTERS["from_document"](FILTERS["to_document"](document)) == document


TEST_ERRORS = [
    ("to_document", [1], "to_document: needs a dictionary, found a list"),
    ("to_document", {"when": dt.date(2026, 1, 1)}, "to_document: the document: cannot be used as data"),
    ("to_document", {"x": float("nan")}, "to_document: "),
    ("from_document", 7, "from_document: needs a text, found 7"),
    ("from_document", "- a\n", "from_document: does not hold a map"),
]


@pytest.mark.parametrize(("name", "value", "message"), TEST_ERRORS)
def test_wrong_input_is_one_clear_error(name, value, message):
    with pytest.raises(AnsibleFilterError) as caught:
        FILTERS[name](value)
    assert str(caught.value).startswith(message)
