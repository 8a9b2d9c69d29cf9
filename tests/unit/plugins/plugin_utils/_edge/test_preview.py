# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible import constants
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import read_text, write_text
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.file_action import FileAction
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.preview import handing_over

CHECKED = {"ansible_check_mode": True}


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(tmp_path / "local"))
    return tmp_path / "knaster/plan.yml"


def test_tasks_of_a_run_in_check_mode_hand_over_and_write_nothing(file):
    with handing_over(CHECKED, only_shown=True) as is_kept:
        assert is_kept
        write_text(file, "plan")
    assert not file.exists()
    with handing_over(CHECKED, only_shown=True):
        assert read_text(file) == "plan"
    # A task that writes all the same sees what is really there.
    with handing_over(CHECKED, only_shown=False) as is_kept:
        assert is_kept
        assert read_text(file) is None


def test_a_task_in_check_mode_by_itself_hands_over_nothing(file):
    with handing_over({}, only_shown=True) as is_kept:
        assert not is_kept
    with handing_over({"ansible_check_mode": False}) as is_kept:
        assert is_kept
        write_text(file, "plan")
    assert file.read_text() == "plan"


def declared(variables):
    action = FileAction.__new__(FileAction)
    action.task_vars = {"hostvars": variables}
    return action.declared(["a", "b", "unknown"])


def test_what_the_inventory_declares_is_read_for_each_node():
    assert declared({"a": {"knaster_state": "draining", "other": 1}, "b": {"knaster_dir": "x"}}) == {
        "a": {"knaster_state": "draining"}
    }


def test_slips_of_all_nodes_are_told_at_once():
    with pytest.raises(InputError) as caught:
        declared({"a": {"knaster_label": {}}, "b": {"knaster_states": "ready"}})
    assert [error.partition(":")[0] for error in caught.value.errors] == ["a", "b"]
