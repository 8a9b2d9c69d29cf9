# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.formats import (
    numa_problems,
    root_only_keys,
    value_errors,
)


@pytest.mark.parametrize(
    ("key", "right", "wrong"),
    [
        ("cores", "1", "0"),
        ("cpuunits", "262144", "262145"),
        ("cpuunits", "1", "0"),
        ("shares", "50000", "50001"),
        ("memory", "16", "15"),
        ("memory", "current=16", "current=15"),
        ("net0", "virtio,tag=4094", "virtio,tag=4095"),
        ("net0", "virtio,tag=1", "virtio,tag=0"),
        ("net0", "virtio,mtu=65520", "virtio,mtu=65521"),
        ("net0", "virtio=BC:24:11:00:00:01", "virtio=BD:24:11:00:00:01"),
        ("net31", "virtio", "bridge=vmbr0"),
        ("net31", "virtio", "virtio,firewall=maybe"),
        ("ipconfig0", "ip=10.0.0.5/8", "ip=10.0.0.5/7"),
        ("ipconfig0", "ip=10.0.0.5/32", "ip=10.0.0.5/33"),
        ("ipconfig0", "ip6=fd00::5/8", "ip6=fd00::5/7"),
        ("ipconfig0", "ip6=fd00::5/128", "ip6=fd00::5/129"),
        ("ipconfig0", "ip6=auto", "ip=auto"),
        ("ipconfig31", "ip=dhcp,gw=10.0.0.1", "gw=10.0.0.1"),
        ("hostpci15", "mapping=a", None),
        ("hotplug", "0", "2"),
        ("onboot", "1", "2"),
        ("nameserver", "10.0.0.1 fd00::1", "10.0.0.1 dns.example"),
        ("startup", "order=1,up=2,down=3", "order=x"),
        ("sshkeys", "ssh-ed25519%20AAAA%20me%0A", "%0A"),
        ("numa0", "cpus=0-3", "memory=5"),
        ("cicustom", "vendor=local:snippets/a.yaml", "vendor=a.yaml"),
        ("somethingnew", "whatever", None),
    ],
)
def test_values_at_their_limits(key, right, wrong):
    assert value_errors(key, right) == []
    if wrong is not None:
        assert len(value_errors(key, wrong)) == 1


@pytest.mark.parametrize(
    ("key", "count"),
    [("scsi", 31), ("ide", 4), ("net", 32), ("ipconfig", 32), ("usb", 14), ("serial", 4), ("hostpci", 16)],
)
def test_there_are_so_many_of_a_numbered_key(key, count):
    values = {"net": "virtio", "ipconfig": "ip=dhcp", "serial": "socket"}
    assert value_errors(f"{key}{count - 1}", values.get(key, "x")) == []
    assert value_errors(f"{key}{count}", values.get(key, "x")) == [f"there are {key}0 to {key}{count - 1} only"]


def test_what_only_root_may_set():
    config = {
        "args": "-vnc", "cores": "4", "hostpci0": "mapping=a,pcie=1", "hostpci1": "mapping=a,romfile=x.rom", "parallel0": "x",
        "scsi0": "local-lvm:8", "scsi1": "/dev/sdb", "serial0": "socket", "serial1": "/dev/ttyS0", "usb0": "spice",
        "usb1": "host=1-2", "usb2": "mapping=stick", "hostpci2": "host=01:00",
    }  # fmt: skip
    assert root_only_keys(config) == ["args", "hostpci1", "hostpci2", "parallel0", "scsi1", "serial1", "usb1"]


@pytest.mark.parametrize(
    ("more", "problems"),
    [
        ({}, []),
        ({"memory": "current=4096"}, []),
        ({"memory": "4097"}, ["numa0 have 4096 MiB together, and Proxmox VE wants 4097 MiB"]),
        ({"numa": "0", "memory": "4097"}, []),
        ({"sockets": "2"}, ["numa0 name 4 of 8 cores"]),
        ({"numa1": "cpus=4-7"}, ["numa1 has no memory", "numa0, numa1 name 8 of 4 cores"]),
        ({"hotplug": "disk,memory"}, ["numa0 have 4096 MiB together, and Proxmox VE wants 1024 MiB"]),
        ({"hotplug": "memory", "numa": "0"}, ["hotplug of memory needs numa"]),
        ({"numa0": "cpus=0-3,memory=4096,hostnodes=0"}, ["numa0 has hostnodes and no policy"]),
    ],
)
def test_what_a_topology_needs(more, problems):
    config = {"memory": "4096", "cores": "4", "numa": "1", "numa0": "cpus=0-3,memory=4096,hostnodes=0,policy=bind"}
    assert numa_problems({**config, **more}) == problems
