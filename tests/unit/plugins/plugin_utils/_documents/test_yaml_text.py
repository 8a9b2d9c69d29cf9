# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
import yaml
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.yaml_text import (
    DocumentError,
    _load_lines,
    dump_document,
    load_document,
)
from hypothesis import given
from hypothesis import strategies as st

PLAN = {
    "version": 1,
    "inputs": {"nodes": "34961185a93d6b25"},
    "assignments": [{"role": "chat", "gpu": {"compute_cap": 8.9, "uuid": None}}, {"role": "no", "ok": True}],
    "unplaced": [],
    "off": ["old-model", "plain", "yes", "null"],
    "no": "on",
}
TEXT = """---
version: 1
inputs: {"nodes": "34961185a93d6b25"}
assignments:
  - {"role": "chat", "gpu": {"compute_cap": 8.9, "uuid": null}}
  - {"role": "no", "ok": true}
unplaced: []
"off":
  - "old-model"
  - plain
  - "yes"
  - "null"
"no": "on"
"""


def test_a_document_has_one_entry_a_line():
    assert dump_document(PLAN) == TEXT
    assert load_document(TEXT) == yaml.safe_load(TEXT) == PLAN


def test_a_document_that_was_edited_by_hand_is_read_as_yaml():
    text = "# mine\nversion: 1\nassignments:\n- role: chat\n  gpu: {compute_cap: 8.9}\n"
    assert load_document(text) == {"version": 1, "assignments": [{"role": "chat", "gpu": {"compute_cap": 8.9}}]}


TEST_ERRORS = [
    ("- a\n- b\n", "does not hold a map"),
    ("", "is empty"),
    ("---\na: [\n", "ends in the middle of a value"),
    ("a: !!python/object/apply:os.system [ls]\n", "is not valid YAML: "),
]


@pytest.mark.parametrize(("text", "message"), TEST_ERRORS)
def test_what_is_no_document(text, message):
    with pytest.raises(DocumentError) as caught:
        load_document(text)
    assert str(caught.value).startswith(message)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_any_document_comes_back(document):
    text = dump_document(document)
    assert load_document(text) == document
    if document:
        assert _load_lines(text) == document, "the slow way was taken"


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])),
        st.lists(st.text(st.characters(exclude_categories=["Cs"]))),
        max_size=4,
    )
)
def test_any_text_in_a_document_is_the_same_in_yaml(document):
    assert yaml.safe_load(dump_document(document)) == document
