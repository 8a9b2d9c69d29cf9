# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.knaster.inventory.plugins.filter.provision import FilterModule
from ansible_collections.knaster.inventory.tests.peers import documents

FILTERS = FilterModule().filters()
DEFINE, TABLE = FILTERS["vm_definitions"], FILTERS["vm_table"]
SEAT = {"role": "gateway", "replica": 0, "node": "n1", "memory_mib": 4096}
PLAN = documents.plan(assignments=[SEAT])


def test_plain_data_in_and_out() -> None:
    (one,) = DEFINE(PLAN, [{"name": "gateway", "vm": {"cores": 3}}])
    assert one.__class__ is dict
    assert one["name"] == "gateway-0"
    assert one["config"]["cores"] == 3
    assert DEFINE(PLAN, [], documents.vms({**one, "vmid": 500}))[0]["vmid"] == 500
    assert DEFINE(PLAN, previous=[{**one, "vmid": 500}])[0]["vmid"] == 500
    assert DEFINE({}) == []


def test_all_errors_of_a_call_at_once() -> None:
    with pytest.raises(AnsibleFilterError) as found:
        DEFINE(
            PLAN | {"version": 7},
            roles={"a": 1},
            taken=[{"vmid": "x"}],
            nodes=[1],
            mappings=3,
            settings={"vmid_first": 0, "colour": "red"},
        )
    text = str(found.value)
    assert text.startswith("The VMs cannot be defined, 7 errors:")
    for part in (
        "plan: version: must be 1, not 7",
        "roles: must be a list, not a map",
        "nodes[0]: must be a map, not 1",
        "mappings: must be a list, not 3",
        "settings.colour",
        "settings.vmid_first",
    ):
        assert part in text
    with pytest.raises(AnsibleFilterError, match=r"taken\[0\].vmid"):
        DEFINE(PLAN, taken=[{"vmid": "x"}])
    with pytest.raises(AnsibleFilterError, match="nodes: cannot be used as data"):
        DEFINE(PLAN, nodes=[{1, 2}])
    with pytest.raises(AnsibleFilterError, match="has no memory in the plan"):
        DEFINE(documents.plan(assignments=[{**SEAT, "memory_mib": 0}]))


def test_the_table_reads_what_was_registered() -> None:
    item = {"vm": {"vmid": 9101, "name": "chat-0"}}
    done = {"item": item, "name": "chat-0", "vmid": 9101, "vm_status": "running", "actions": []}
    hostvars = {"n1": {"made": {"results": [done, {"item": item, "skipped": True}]}}, "n2": {}}
    assert TABLE(hostvars, "made", hosts=["n1", "n2"]).splitlines()[1] == "n1    chat-0  9101  running  nothing"
    assert TABLE(hostvars, "made") == ""


def test_the_table_has_a_vm_that_failed() -> None:
    item = {"vm": {"vmid": 9101, "name": "chat-0"}}
    failed = {"item": item, "failed": True, "msg": "no space left", "exception": object()}
    lines = TABLE({"n1": {"made": {"results": [failed]}}}, "made", hosts=["n1"]).splitlines()
    assert lines[1:] == ["n1    chat-0  9101    -  failed", "chat-0: no space left"]
