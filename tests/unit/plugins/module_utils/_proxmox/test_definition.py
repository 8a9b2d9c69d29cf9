# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.definition import (
    DefinitionError,
    absent_definition,
    definition,
)

WRONG = [
    ({"vmid": 99}, "vmid: 99 is not a valid VM number (100 to 999999999)"),
    ({"vmid": 1000000000}, "vmid: 1000000000 is not a valid VM number"),
    ({"vmid": True}, "vmid: True is not a valid VM number"),
    ({"name": "a_b"}, "name: 'a_b' is not a valid DNS name"),
    ({"name": "a" * 64}, "is not a valid DNS name"),
    ({"node": "../x"}, "node: '../x' is not a valid node name"),
    ({"node": "pve-0/qemu"}, "is not a valid node name"),
    ({"fingerprint": "f" * 201}, "fingerprint: it has to be one line of at most 200"),
    ({"fingerprint": "a\nb"}, "fingerprint: it has to be one line"),
    ({"config": None}, "config: it has to be a dictionary"),
    ({"config": {"cipassword": "x"}}, "config.cipassword: use the option cipassword"),
    ({"config": {"Cores": 1}}, "config.Cores: not a valid key"),
    ({"config": {"unused0": "x"}}, "config.unused0: not a valid key"),
    ({"config": {"name": "other"}}, "config.name: it is 'other', the option name is 'chat-0'"),
    ({"config": {"cores": [1]}}, "config.cores: it has to be a text"),
    ({"config": {"ciuser": "a\nhookscript: x"}}, "config.ciuser: it may not hold line breaks"),
    ({"config": {"ciuser": " "}}, "config.ciuser: it is empty"),
    ({"config": {"hostpci0": "mapping=a,pcie=1"}}, "config.hostpci0: pcie=1 needs machine: q35"),
    ({"config": {"hostpci0": "pcie=0"}}, "config.hostpci0: it needs either mapping or host"),
    ({"config": {"hostpci0": "host=01:00.0,mapping=a"}}, "config.hostpci0: it needs either mapping or host"),
    ({"config": {"hostpci16": "mapping=a"}}, "config.hostpci16: there are hostpci0 to hostpci15 only"),
    (
        {"config": {"hostpci0": "mapping=a", "hostpci1": "mapping=a"}},
        "config.hostpci1: hostpci0 names the mapping a already",
    ),
    ({"config": {"scsi0": "l:0,import-from=l:import/x"}}, "config.scsi0: use source.image instead of import-from"),
    ({"source": {"template": 9000, "image": "l:import/x"}}, "source: either template or image"),
    ({"source": {"template": "x"}}, "source.template: 'x' is not a valid VM number"),
    ({"source": {"image": "x"}}, "source.image: 'x' is not a valid volume"),
    ({"source": {"image": "l:import/x,size=1"}}, "source.image: 'l:import/x,size=1' is not a valid volume"),
    ({"source": {"image": "l:import/x"}}, "config.scsi0: the image needs a new disk here"),
    ({"source": {"image": "l:import/x", "disk": "net0"}}, "source.disk: 'net0' is not a valid disk"),
    ({"source": {"colour": 1}}, "source.colour: unknown option"),
    ({"mappings": [{"path": "x"}]}, "mappings[0]: it has no id"),
]


@pytest.mark.parametrize(("values", "message"), WRONG)
def test_wrong_definitions(values, message):
    with pytest.raises(DefinitionError) as caught:
        definition({"vmid": 9101, "name": "chat-0", "node": "pve-0", "config": {}, **values})
    assert any(message in error for error in caught.value.errors), caught.value.errors


def test_all_errors_at_once():
    with pytest.raises(DefinitionError) as caught:
        definition({"vmid": 1, "name": "", "node": "", "config": {"lock": "x"}, "source": {"image": "x"}})
    assert len(caught.value.errors) == 6
    with pytest.raises(DefinitionError):
        absent_definition(1, None, "..")


@pytest.mark.parametrize("vmid", [100, 999999999])
@pytest.mark.parametrize("name", ["a", "a" * 63, "a.b-c"])
def test_the_last_that_is_right(vmid, name):
    one = definition({"vmid": vmid, "name": name, "node": "pve-0", "config": {}, "fingerprint": "f" * 200})
    assert (one.vmid, one.name) == (vmid, name)
    assert absent_definition(vmid, None, None).vmid == vmid
