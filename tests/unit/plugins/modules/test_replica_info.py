# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.knaster.inventory.plugins.modules import replica_info
from ansible_collections.knaster.inventory.tests.peers import engines


@pytest.fixture
def run(capsys):
    def run_module(**args):
        with patch_module_args(args), pytest.raises(SystemExit):
            replica_info.main()
        text = capsys.readouterr().out
        return json.loads(text), text

    return run_module


@pytest.mark.parametrize("check_mode", [False, True])
def test_what_was_observed_and_no_key(run, check_mode):
    engine = engines.Engine("vllm", api_key="sesame-open-now")
    with engines.serve(engine) as endpoint:
        slot = {"slot": "chat.0.main", "role": "chat", "engine": "vllm", "endpoint": endpoint, "model": "org/model"}
        empty = {"slot": "free.0.main", "role": "free", "engine": "vllm", "endpoint": engines.closed_endpoint()}
        result, text = run(
            slots=[slot, empty],
            api_keys={"chat": "sesame-open-now"},
            api_key="another-secret-key",
            timeout=3,
            _ansible_check_mode=check_mode,
        )
    assert result["changed"] is False
    assert [(one["id"], one["state"], one["served_model"]) for one in result["replicas"]] == [
        ("chat.0.main", "ready", "org/model")
    ]
    assert result["empty"] == ["free.0.main"]
    assert engine.seen[0][1]["authorization"] == "Bearer sesame-open-now"
    assert "sesame-open-now" not in text
    assert "another-secret-key" not in text


def test_everything_that_is_wrong(run):
    result, text = run(slots=[{"slot": "a"}], timeout=0, concurrency=1000, api_key="with blank")
    assert result["failed"] is True
    assert len(result["errors"]) == 4
    assert "with blank" not in text


def test_slots_from_one_place(run):
    assert run(slots=[], slots_dir="/x")[0]["failed"] is True
    assert run()[0]["failed"] is True
