# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._observe.document import dump_observed
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.observe import read_observed
from ansible_collections.knaster.inventory.tests.peers import documents


def test_the_file(tmp_path):
    path, errors = tmp_path / "observed.json", []
    assert read_observed(path, errors) == []
    one = documents.observed({"id": "a.0.b"})
    path.write_text(dump_observed([one, {**one, "id": "\u202e\ud800"}]), encoding="utf-8")
    assert read_observed(path, errors) == [one, {**one, "id": "\u202e\ud800"}]
    path.write_text(dump_observed([]))
    assert read_observed(path, errors) == []
    assert errors == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", ":1: ends in the middle of a value"),
        ("[" * 100_000, ": is nested too deeply"),
        ("[]", ": does not hold a map"),
        ('{"version": 2, "replicas": []}', ":1: version: must be 1, not 2"),
        ('{"version": 1, "replicas": 3}', ":1: replicas: must be a list, not 3"),
        ("\xff", ":1: is not UTF-8 text"),
    ],
)
def test_a_file_that_is_none(tmp_path, text, told):
    path, errors = tmp_path / "observed.json", []
    path.write_text(text, encoding="latin-1")
    assert read_observed(path, errors) == []
    assert len(errors) == 1
    assert errors[0].startswith(f"{path}{told}")
