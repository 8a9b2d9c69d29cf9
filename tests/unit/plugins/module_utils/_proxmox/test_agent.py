# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.agent import ask_address, pick_address
from ansible_collections.knaster.inventory.tests.peers import pve_cluster as peer

NET = "virtio=BC:24:11:00:00:01,bridge=vmbr0"


def interface(mac, *addresses):
    return {"name": "x", "hardware-address": mac, "ip-addresses": [{"ip-address": address} for address in addresses]}


LOOP = interface("00:00:00:00:00:00", "127.0.0.1", "::1")
BRIDGE = interface("02:42:00:00:00:01", "172.17.0.1")
FIRST = interface("bc:24:11:00:00:01", "fe80::1", "fd00::7", "10.0.0.7")


@pytest.mark.parametrize(
    ("interfaces", "mac", "address"),
    [
        ([LOOP, BRIDGE, FIRST], "BC:24:11:00:00:01", "10.0.0.7"),
        ([LOOP, BRIDGE, FIRST], None, "172.17.0.1"),
        ([LOOP, interface("bc:24:11:00:00:01", "fd00::7"), BRIDGE], "BC:24:11:00:00:01", "fd00::7"),
        ([LOOP, interface("bc:24:11:00:00:01", "169.254.3.4", "fe80::1%eth0")], "BC:24:11:00:00:01", None),
        ([LOOP], None, None),
        ([{"hardware-address": "x"}, "x", {"ip-addresses": ["x", {"ip-address": "none"}]}], None, None),
        (None, None, None),
    ],
)
def test_the_address_that_others_reach(interfaces, mac, address):
    assert pick_address(interfaces, mac) == address


@pytest.fixture
def sim():
    with peer.serving() as found:
        found.state["acl"].append(
            {"who": f"{peer.USER}!{peer.TOKEN}", "path": "/vms/500", "privs": ["VM.GuestAgent.Audit"]}
        )
        found.state["guests"]["500"]["status"] = "running"
        yield found


def test_an_agent_is_asked_until_the_limit(sim):
    api = peer.client(sim)
    assert ask_address(api, "pve-0", 500, NET, 30.0)[0] is None
    asked = len(api.calls)
    assert 10 <= asked <= 12, "each three seconds, and none after the limit"
    sim.state["guests"]["500"]["agent_interfaces"] = [LOOP]
    assert ask_address(api, "pve-0", 500, NET, 0.0) == (None, "its guest agent has no address yet")
    sim.state["guests"]["500"]["agent_interfaces"] = [LOOP, FIRST]
    assert ask_address(api, "pve-0", 500, NET, 0.0) == ("10.0.0.7", None)


def test_without_the_privilege_it_is_asked_once(sim):
    sim.state["acl"].pop()
    api = peer.client(sim)
    address, reason = ask_address(api, "pve-0", 500, NET, 30.0)
    assert address is None
    assert "lacks this privilege" in reason
    assert len(api.calls) == 1
