# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.compare import (
    clone_values,
    compare,
    create_values,
    created_view,
    device_mappings,
    start_limit,
)
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.definition import definition
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.mark import MARK, Mark


def is_done(changes):
    return not (changes.set or changes.delete or changes.resize)


def wanted(source=None, fingerprint="f1", **config):
    return definition(
        {
            "vmid": 9101,
            "name": "chat-0",
            "node": "pve-0",
            "config": config,
            "source": source,
            "fingerprint": fingerprint,
        }
    )


def kept(one, **more):
    """What PVE keeps of a VM that is as defined."""
    return {"name": "chat-0", "tags": "knaster", "description": one.mark.line() + "\n", **more}


def test_a_new_vm():
    one = wanted(
        {"image": "local:import/x.qcow2"},
        scsi0="local-lvm:64,discard=on",
        efidisk0="local-lvm:1,efitype=4m",
        tags="B",
        description="words",
        agent=True,
        gone=None,
        sshkeys="ssh-rsa AAA= a b\n",
    )
    values = create_values(one)
    assert values == {
        "agent": "1",
        "description": f"words\n\n{one.mark.line()}",
        "efidisk0": "local-lvm:1,efitype=4m,format=raw",
        "name": "chat-0",
        "scsi0": "local-lvm:0,discard=on,import-from=local:import/x.qcow2",
        "sshkeys": "ssh-rsa%20AAA%3D%20a%20b",
        "tags": "b;knaster",
    }
    assert created_view(one)["scsi0"] == "local-lvm:64,discard=on,import-from=local:import/x.qcow2"


def test_a_clone():
    one = wanted({"template": 9000}, scsi0="fast:64")
    assert clone_values(one, "pve-0") == {
        "newid": 9101, "name": "chat-0", "full": 1, "storage": "fast", "description": Mark("chat-0").line(),
    }  # fmt: skip
    linked = wanted({"template": 9000, "full": False}, scsi0="fast:64")
    assert clone_values(linked, "pve-7") == {
        "newid": 9101, "name": "chat-0", "full": 0, "target": "pve-0", "description": Mark("chat-0").line(),
    }  # fmt: skip


def test_nothing_to_do():
    one = wanted(cores=4, onboot=0, bios="seabios", memory=512, gone=None, description="words")
    have = kept(one, cores=4, smbios1="uuid=x", vmgenid="y", boot="order=scsi0", meta="z")
    have["description"] = "more words\nwords\n" + one.mark.line() + "\n"
    changes = compare(one, have)
    assert is_done(changes)
    assert (changes.external, changes.attention, changes.before, changes.after) == ([], [], {}, {})


def test_a_mark_without_devices_is_no_change():
    one = wanted(net0="virtio,bridge=vmbr0")
    have = kept(
        one, net0="virtio=BC:24:11:00:00:01,bridge=vmbr0", description=f'{MARK} {{"fingerprint":"f1","vm":"chat-0"}}'
    )
    assert is_done(compare(one, have))


def test_changes():
    one = wanted(
        cores=8, gone=None, net0="virtio,bridge=vmbr1", net1="e1000=bc:24:11:00:00:99,bridge=vmbr0",
        scsi0="l:64,ssd=1", ide2="l:cloudinit", scsi1="l:10", hostpci0="mapping=a", description="new words",
    )  # fmt: skip
    have = kept(
        one, cores=4, gone="x", net0="virtio=BC:24:11:00:00:01,bridge=vmbr0", net1="e1000=BC:24:11:00:00:02,bridge=vmbr0",
        scsi0="l:vm-9101-disk-0,size=32G,discard=on", ide2="none,media=cdrom", description="old\n" + Mark("chat-0", "f0").line(),
    )  # fmt: skip
    changes = compare(one, have)
    assert changes.set == {
        "cores": "8",
        "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr1",
        "net1": "e1000=BC:24:11:00:00:99,bridge=vmbr0",
        "scsi0": "l:vm-9101-disk-0,size=32G,ssd=1",
        "scsi1": "l:10",
        "ide2": "l:cloudinit",
        "hostpci0": "mapping=a",
        "description": f"old\n\nnew words\n\n{one.mark.line()}",
    }
    assert changes.delete == ["gone"]
    assert changes.resize == {"scsi0": "64G"}
    assert changes.after["scsi0"] == "l:vm-9101-disk-0,size=64G,ssd=1"
    assert changes.before["scsi0"] == "l:vm-9101-disk-0,size=32G,discard=on"
    assert changes.devices == ["hostpci0"]
    assert changes.allocates


def test_ours_of_before_goes_and_others_stay():
    one = wanted(hostpci0="mapping=a")
    mark = Mark("chat-0", "f0", ("hostpci0", "hostpci1", "net1"))
    have = kept(
        one, hostpci0="mapping=a", hostpci1="mapping=b", hostpci2="mapping=c", net1="virtio=BC:24:11:00:00:01", serial0="socket",
        usb0="spice", scsi3="l:vm-9101-disk-9,size=1G", tags="knaster;x", description=mark.line(),
    )  # fmt: skip
    changes = compare(one, have, inherited={"serial0", "hostpci2"})
    assert changes.delete == ["hostpci1", "net1"]
    assert [item["key"] for item in changes.external] == ["hostpci2", "scsi3", "usb0", "tags"]
    assert set(changes.set) == {"description"}
    strict = compare(one, have, inherited={"serial0"}, strict=True)
    assert strict.delete == ["hostpci1", "hostpci2", "net1", "scsi3", "usb0"]
    assert strict.set["tags"] == "knaster"


def test_a_password_is_sent_once_and_never_shown():
    one = definition({"vmid": 9101, "name": "chat-0", "node": "pve-0", "config": {}, "cipassword": "hunter2"})
    assert "hunter2" not in repr(one)
    first = compare(one, kept(one))
    assert first.set == {"cipassword": "hunter2"}
    assert first.after == {"cipassword": "(not shown)"}
    assert "hunter2" not in str(created_view(one))
    assert is_done(compare(one, kept(one, cipassword="**********")))


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        ({}, 30),
        ({"memory": "16384"}, 30),
        ({"memory": 65536}, 64),
        ({"memory": "current=65536", "hostpci0": "mapping=a"}, 256),
        (
            {"memory": "524288", "hostpci0": "mapping=a", "hostpci1": "mapping=b", "net0": "virtio", "net1": "virtio"},
            2058,
        ),
    ],
)
def test_the_limit_of_a_start_grows_as_that_of_pve(config, limit):
    assert start_limit(config) == limit


def test_mappings_of_devices():
    assert device_mappings(
        {"hostpci0": "pcie=1,mapping=a", "hostpci1": "01:00.0", "hostpci2": None, "net0": "virtio"}
    ) == {"hostpci0": "a"}


MIB = 1024**2
# Storages round up to their own units: up to 64 MiB more are the size that was asked for.
TEST_SIZES = [
    pytest.param(64 * 1024 * MIB, [], {}, id="as defined"),
    pytest.param(64 * 1024 * MIB + 64 * MIB, [], {}, id="rounded up by 64 MiB"),
    pytest.param(64 * 1024 * MIB + 64 * MIB + 1024, ["disk_larger"], {}, id="more than rounded up"),
    pytest.param(64 * 1024 * MIB - 1024, [], {"scsi0": "64G"}, id="smaller"),
]


@pytest.mark.parametrize(("size", "attention", "resize"), TEST_SIZES)
def test_a_disk_is_as_large_as_defined_or_rounded_up(size, attention, resize):
    one = wanted(scsi0="l:64")
    changes = compare(one, kept(one, scsi0=f"l:vm-9101-disk-0,size={size // 1024}K"))
    assert ([item["code"] for item in changes.attention], changes.resize) == (attention, resize)
