# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.properties import (
    comparable,
    parse_drive,
    size_bytes,
)

SAME = [
    ("tags", "b;A,a", "a;b"),
    ("tags", "a b", "b;a"),
    ("sshkeys", "ssh-rsa AAA= me@x\nssh-rsa BBB=\n", "ssh-rsa%20AAA%3D%20me%40x%0Assh-rsa%20BBB%3D"),
    ("nameserver", "1.1.1.1, 8.8.8.8", "1.1.1.1 8.8.8.8"),
    ("hostpci0", "mapping=a,pcie=on", "pcie=1,mapping=a,rombar=1"),
    ("hostpci0", "01:00.0", "host=0000:01:00.0"),
    ("hostpci0", "host=0000:0A:00", "0000:0a:00"),
    ("cpu", "host", "cputype=host,hidden=0"),
    ("agent", True, "enabled=1,type=virtio"),
    ("agent", "1", "1,fstrim_cloned_disks=0"),
    ("memory", 4096, "current=4096"),
    ("cores", "4", 4),
    ("cpulimit", 2.0, "2"),
    ("cpulimit", "1.50", 1.5),
    ("onboot", "yes", 1),
    ("vga", "std", "type=std"),
    ("startup", "1,up=30", "order=1,up=30"),
    ("ipconfig0", "ip=10.0.0.5/24,gw=10.0.0.1", "gw=10.0.0.1,ip=10.0.0.5/24"),
    ("boot", "order=scsi0;net0", "order=scsi0;net0"),
    ("numa0", "cpus=0-3,memory=1024", "memory=1024,cpus=0-3"),
    ("numa", "1", True),
    ("hotplug", "disk,network", "network,disk"),
    ("machine", "q35,viommu=intel", "type=q35,viommu=intel"),
]
OTHER = [
    ("tags", "a", "a;b"),
    ("sshkeys", "ssh-rsa AAA=", "ssh-rsa%20AAB%3D"),
    ("nameserver", "1.1.1.1 8.8.8.8", "8.8.8.8 1.1.1.1"),
    ("hostpci0", "mapping=a,pcie=1", "mapping=a"),
    ("hostpci0", "mapping=a", "mapping=A"),
    ("hostpci0", "mapping=a,rombar=0", "mapping=a"),
    ("cpu", "host", "host,flags=+aes"),
    ("agent", "1", "0"),
    ("memory", 4096, 8192),
    ("boot", "order=scsi0;net0", "order=net0;scsi0"),
    ("numa0", "cpus=0-3,memory=1024", "memory=1024,cpus=0-2"),
    ("ciuser", "01", "1"),
    ("machine", "q35", "pc-q35-9.2"),
]


@pytest.mark.parametrize(("key", "one", "two"), SAME)
def test_the_same_in_other_words(key, one, two):
    assert comparable(key, one) == comparable(key, two)


@pytest.mark.parametrize(("key", "one", "two"), OTHER)
def test_not_the_same(key, one, two):
    assert comparable(key, one) != comparable(key, two)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64G", 64 << 30),
        ("4M", 4 << 20),
        ("528K", 528 << 10),
        ("1.5T", 3 << 39),
        ("100", 100),
        ("", None),
        (None, None),
        ("64g", None),
    ],
)
def test_sizes(text, size):
    assert size_bytes(text) == size


def test_drives():
    new = parse_drive("local-lvm:64,discard=on,backup=1,ssd=off")
    assert (new.storage, new.new_gib, new.size, new.options) == ("local-lvm", 64.0, None, {"discard": "on"})
    have = parse_drive("local-lvm:vm-9101-disk-0,size=64G,discard=on,format=raw")
    assert (have.storage, have.new_gib, have.size, have.options) == ("local-lvm", None, 64 << 30, {"discard": "on"})
    assert parse_drive("local-lvm:cloudinit").is_cloudinit
    assert parse_drive("nfs:9101/vm-9101-cloudinit.qcow2,media=cdrom,size=4M").is_cloudinit
    assert not parse_drive("local:iso/cloudinit-tools.iso,media=cdrom").is_cloudinit
    assert parse_drive("none,media=cdrom").is_empty
    assert parse_drive("local-lvm:base-9000-disk-0/vm-9101-disk-0,size=3G").new_gib is None
