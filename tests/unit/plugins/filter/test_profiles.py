# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.knaster.inventory.plugins.filter.profiles import FilterModule
from ansible_collections.knaster.inventory.plugins.module_utils._gather.script import build_script

FILTERS = FilterModule().filters()


def test_profile_from_outputs_of_one_command():
    profile = FILTERS["profile_from_outputs"]({"nvidia_smi": "0, NVIDIA L4, 23034, 8.9, 570.86.15"}, name="n1")
    assert profile["name"] == "n1"
    assert [(gpu["gpu_class"], gpu["memory_gb"], gpu["memory_mib"]) for gpu in profile["gpus"]] == [("l4", 24, 23034)]


def test_profile_from_outputs_of_the_script(tmp_path):
    text = "@x begin knaster-gather 1\n@x open hostname\no n7\n@x close hostname ok 0\n@x finish\n"
    assert FILTERS["profile_from_outputs"](text)["name"] == "n7"


TEST_ERRORS = [
    (
        "profile_from_outputs",
        (7,),
        "profile_from_outputs: needs the text that the gather script printed, or a dictionary of outputs, found 7",
    ),
    (
        "profile_from_outputs",
        (build_script(),),
        "profile_from_outputs: the node's answer cannot be used: it has no opening frame",
    ),
    ("profile_from_outputs", ({"lsblk": 3},), "profile_from_outputs: lsblk: an output is a text or a dictionary"),
    ("profile_from_outputs", ({"lsblk": {1, 2}},), "profile_from_outputs: outputs: cannot be used as data"),
    ("node_profiles", ([],), "node_profiles: needs hostvars, found a list"),
    ("fleet_table", ("x",), "fleet_table: nodes: a list of node profiles is needed, this is a text"),
    ("fleet_table", ([{}],), "fleet_table: nodes[0]: the profile has no name"),
    ("fleet_table", (7,), "fleet_table: nodes: a list of node profiles is needed, this is a number"),
]


@pytest.mark.parametrize(("name", "args", "message"), TEST_ERRORS)
def test_wrong_input_is_one_clear_error(name, args, message):
    with pytest.raises(AnsibleFilterError) as caught:
        FILTERS[name](*args)
    assert str(caught.value).startswith(message)


def test_a_host_without_a_profile_is_unreachable():
    hostvars = {
        "a": {"ansible_facts": {"knaster_node": {"name": "a", "gpus": []}}},
        "b": {"ansible_facts": {}},
        "c": {},
    }
    unreachable = {"gpus": None, "state": "unreachable"}
    assert FILTERS["node_profiles"](hostvars) == [
        {"name": "a", "gpus": []},
        {"name": "b", **unreachable},
        {"name": "c", **unreachable},
    ]
    assert FILTERS["node_profiles"](hostvars, hosts=["c", "x"]) == [
        {"name": "c", **unreachable},
        {"name": "x", **unreachable},
    ]


def test_what_comes_out_shares_nothing_with_what_went_in():
    profile = {"name": "a", "gpus": []}
    (got,) = FILTERS["node_profiles"]({"a": {"ansible_facts": {"knaster_node": profile}}})
    got["gpus"].append(1)
    assert profile == {"name": "a", "gpus": []}
