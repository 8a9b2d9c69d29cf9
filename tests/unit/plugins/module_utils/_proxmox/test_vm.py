# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.vm import (
    MARK,
    DefinitionError,
    Mark,
    absent_definition,
    clone_values,
    comparable,
    compare,
    create_values,
    created_view,
    definition,
    device_mappings,
    parse_drive,
    parse_mark,
    plain_description,
    size_bytes,
    start_limit,
    with_mark,
)


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


def test_mark():
    mark = Mark("chat-0", "f1", ("hostpci0", "net0"))
    assert mark.line() == 'knaster.inventory/1 {"fingerprint":"f1","own":["hostpci0","net0"],"vm":"chat-0"}'
    text = with_mark("words\nof the user", mark)
    assert parse_mark(text) == mark
    assert plain_description(text) == "words\nof the user"
    assert parse_mark(f'{MARK} {{"fingerprint":"f1","vm":"chat-0"}}') == Mark("chat-0", "f1", None)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "words",
        MARK,
        f"{MARK} ",
        f"{MARK} {{",
        f"{MARK} []",
        f'{MARK} {{"vm":1}}',
        f' {MARK} {{"vm":"a"}}',
        f'{MARK}0 {{"vm":"a"}}',
    ],
)
def test_no_mark(text):
    assert parse_mark(text) is None


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


WRONG = [
    ({"vmid": 99}, "vmid: 99 is no number from 100 to 999999999"),
    ({"vmid": True}, "vmid: True is no number"),
    ({"name": "a_b"}, "name: 'a_b' is no DNS name"),
    ({"name": "a" * 64}, "is no DNS name"),
    ({"node": "../x"}, "node: '../x' is no name of a node"),
    ({"node": "pve-0/qemu"}, "is no name of a node"),
    ({"fingerprint": "a\nb"}, "fingerprint: it has to be one line"),
    ({"config": None}, "config: it has to be a dictionary"),
    ({"config": {"cipassword": "x"}}, "config.cipassword: use the option cipassword"),
    ({"config": {"Cores": 1}}, "config.Cores: this is no key"),
    ({"config": {"unused0": "x"}}, "config.unused0: this is no key"),
    ({"config": {"name": "other"}}, "config.name: it is 'other', the option name is 'chat-0'"),
    ({"config": {"cores": [1]}}, "config.cores: it has to be a text"),
    ({"config": {"ciuser": "a\nhookscript: x"}}, "config.ciuser: it may not hold line breaks"),
    ({"config": {"ciuser": " "}}, "config.ciuser: it is empty"),
    ({"config": {"hostpci0": "mapping=a,pcie=1"}}, "config.hostpci0: pcie=1 needs machine: q35"),
    ({"config": {"hostpci0": "pcie=0"}}, "config.hostpci0: it needs either mapping or host"),
    ({"config": {"hostpci0": "host=01:00.0,mapping=a"}}, "config.hostpci0: it needs either mapping or host"),
    ({"config": {"hostpci16": "mapping=a"}}, "config.hostpci16: a VM has hostpci0 to hostpci15"),
    (
        {"config": {"hostpci0": "mapping=a", "hostpci1": "mapping=a"}},
        "config.hostpci1: hostpci0 names the mapping a already",
    ),
    ({"config": {"scsi0": "l:0,import-from=l:import/x"}}, "config.scsi0: use source.image instead of import-from"),
    ({"source": {"template": 9000, "image": "l:import/x"}}, "source: either template or image"),
    ({"source": {"template": "x"}}, "source.template: 'x' is no number"),
    ({"source": {"image": "x"}}, "source.image: 'x' is no volume"),
    ({"source": {"image": "l:import/x,size=1"}}, "source.image: 'l:import/x,size=1' is no volume"),
    ({"source": {"image": "l:import/x"}}, "config.scsi0: the image needs a new disk here"),
    ({"source": {"image": "l:import/x", "disk": "net0"}}, "source.disk: 'net0' is no disk"),
    ({"source": {"colour": 1}}, "source.colour: this is not known"),
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
    assert not changes.any
    assert (changes.external, changes.attention, changes.before, changes.after) == ([], [], {}, {})


def test_a_mark_without_devices_is_no_change():
    one = wanted(net0="virtio,bridge=vmbr0")
    have = kept(
        one, net0="virtio=BC:24:11:00:00:01,bridge=vmbr0", description=f'{MARK} {{"fingerprint":"f1","vm":"chat-0"}}'
    )
    assert not compare(one, have).any


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
    assert not compare(one, kept(one, cipassword="**********")).any


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
