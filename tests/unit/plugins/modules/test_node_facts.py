# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.knaster.inventory.plugins.modules import node_facts


def run(capsys, **args):
    with patch_module_args(args), pytest.raises(SystemExit) as caught:
        node_facts.main()
    return caught.value.code, json.loads(capsys.readouterr().out)


def test_the_module_in_place_collects_this_machine(capsys):
    code, result = run(capsys, name="here", labels={"zone": "a"}, state="cordoned")
    node = result["ansible_facts"]["knaster_node"]
    assert (code, result["changed"]) == (0, False)
    assert (node["name"], node["labels"], node["state"]) == ("here", {"zone": "a"}, "cordoned")
    with open("/proc/meminfo", encoding="ascii") as stream:
        assert node["memory_mib"] == int(stream.readline().split()[1]) // 1024


def test_the_module_reads_a_saved_answer(capsys, tmp_path):
    saved = tmp_path / "n7.txt"
    saved.write_text("@x begin knaster-gather 1\n@x open hostname\no n7\n@x close hostname ok 0\n@x finish\n")
    _code, result = run(capsys, answer=str(saved))
    assert result["ansible_facts"]["knaster_node"]["name"] == "n7"


TEST_ERRORS = [
    ({"weight_dirs": ["models"]}, "'models' is not an absolute path on one line"),
    ({"answer": "/nowhere/x.txt"}, "[Errno 2] No such file or directory: '/nowhere/x.txt'"),
    ({"state": "off"}, "value of state must be one of: ready, cordoned, draining, got: off"),
    ({"gpus": [{"memory_gb": 8}]}, "missing required arguments: pci found in gpus"),
]


@pytest.mark.parametrize(("args", "message"), TEST_ERRORS)
def test_wrong_options_fail(capsys, args, message):
    code, result = run(capsys, **args)
    assert (code, result["failed"], result["msg"]) == (1, True, message)


def test_a_shell_that_never_ends_fails(capsys, monkeypatch):
    monkeypatch.setattr(node_facts, "run_script", _never)
    code, result = run(capsys, timeout=1)
    assert (code, result["msg"]) == (1, "Command '['/bin/sh']' timed out after 20 seconds")


def _never(timeout, weight_dirs):
    raise node_facts.subprocess.TimeoutExpired(["/bin/sh"], 20 * timeout)
