# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import os
import shutil
import subprocess
import typing as t
from urllib.parse import quote

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.pve_guests import (
    LIST_FUNCTION,
    Guest,
    Guests,
    parse,
)
from ansible_collections.knaster.inventory.plugins.module_utils._pci import Address
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.mark import (
    Mark,
    with_mark,
)

if t.TYPE_CHECKING:
    from pathlib import Path

MARK = '#knaster.inventory/1 {"fingerprint"%3A"3fa9","vm"%3A"chat-0"}'


def held(*lines: str, node: str | None = "pve1") -> dict[int, tuple[list[str], list[str]]]:
    """Return of each guest the functions and the slots that it has."""
    found = parse("\n".join([*lines, "end"]), node=node)
    return {guest.id: split(guest) for guest in found.guests}


def split(guest: Guest) -> tuple[list[str], list[str]]:
    """Return the functions and the slots that a guest has."""
    texts = sorted(device.text for device in guest.devices)
    return [text for text in texts if "." in text], [text for text in texts if "." not in text]


TEST_HOSTPCI = [
    pytest.param("0000:01:00", [], ["0000:01:00"], id="all functions"),
    pytest.param("01:00", [], ["0000:01:00"], id="without a domain"),
    pytest.param("01:00.0,pcie=1,x-vga=1", ["0000:01:00.0"], [], id="one function"),
    pytest.param("host=0000:0A:00.1,pcie=1", ["0000:0a:00.1"], [], id="capitals and a key"),
    pytest.param("pcie=1,host=01:00", [], ["0000:01:00"], id="not in front"),
    pytest.param("01:00.0;01:00.1;41:00", ["0000:01:00.0", "0000:01:00.1"], ["0000:41:00"], id="several"),
    pytest.param("1234:f0:43", [], ["1234:f0:43"], id="another domain"),
    pytest.param("00010000:01:00.0", ["10000:01:00.0"], [], id="a long domain"),
    pytest.param("mapping=ada,pcie=1", [], ["0000:41:00"], id="mapping"),
    pytest.param("mapping=parts", ["0000:42:00.0", "0000:42:00.1"], [], id="mapping of functions"),
    pytest.param("mapping=elsewhere", [], [], id="mapping of another node"),
    pytest.param("mapping=none", [], [], id="mapping that is not there"),
    pytest.param("mapping=ada,mdev=nvidia-259", [], ["0000:41:00"], id="a part of a card"),
    pytest.param("none", [], [], id="words"),
    pytest.param("", [], [], id="empty"),
]
MAPPINGS = [
    "map ada",
    "map \tdescription the first",
    "map \tmap id=10de:27b2,iommugroup=21,node=pve1,path=0000:41:00,subsystem-id=10de:181b",
    "map \tmap id=10de:27b2,iommugroup=21,node=pve2,path=0000:99:00,subsystem-id=10de:181b",
    "map parts",
    "map \tmap id=10de:27b2,node=pve1,path=0000:42:00.0;0000:42:00.1",
    "map elsewhere",
    "map \tmap id=10de:27b2,node=pve2,path=0000:43:00",
]


@pytest.mark.parametrize(("value", "addresses", "slots"), TEST_HOSTPCI)
def test_hostpci(value, addresses, slots):
    assert held(*MAPPINGS, "vm 101", f"vm 101 hostpci0: {value}") == {101: (addresses, slots)}


# Whole configurations of VMs: their lines, and what they hold.
TEST_CONFIGURATIONS = [
    pytest.param(
        [
            "# two numbers of PCI are told otherwise",
            "hostpci0: 00:1e.1,vendor-id=0x1af4,device-id=0x1041",
            "hostpci1: d0:13.0,pcie=1,sub-device-id=0x0000",
        ],
        ["0000:00:1e.1", "0000:d0:13.0"],
        [],
        id="numbers of PCI",
    ),
    pytest.param(
        ["hostpci0: f1:42.0", "hostpci1: f1:43.0,pcie=1", "hostpci5: 00:44.1,pcie=1"],
        ["0000:00:44.1", "0000:f1:42.0", "0000:f1:43.0"],
        [],
        id="a gap",
    ),
    pytest.param(["hostpci0: f2:43", "hostpci1: 0abc:f2:43"], [], ["0000:f2:43", "0abc:f2:43"], id="domains"),
    pytest.param(
        [
            "args: -cpu 'host,-hypervisor,kvm=off' -device 'vfio-pci,host=0000:99:00.0'",
            "hostpci0: 0000:06:00.0,pcie=1,x-vga=1,romfile=Some_VBIOS_1.bin",
            "hostpci1: 0000:06:00.1,pcie=1,romfile=sound.rom",
            "hostpci2: 0000:06:00.2,pcie=1",
            "ide0: none,media=cdrom",
            "net0: virtio=BC:24:11:00:00:02 bridge=vmbr1",
        ],
        ["0000:06:00.0", "0000:06:00.1", "0000:06:00.2"],
        [],
        id="every function of a slot, and quoted arguments",
    ),
    pytest.param(
        [
            "sockets: 2",
            "machine: q35",
            "hostpci0: 0000:03:00,pcie=1,rombar=1,x-vga=0",
            "efidisk0: data:vm-7-disk-1,efitype=4m,size=4M",
        ],
        [],
        ["0000:03:00"],
        id="a slot among other keys",
    ),
    pytest.param(
        ["hostpci0: mapping=ada", "hostpci1: mapping=parts,mdev=some-model", "hostpci2: mapping=ada"],
        ["0000:42:00.0", "0000:42:00.1"],
        ["0000:41:00"],
        id="a mapping twice",
    ),
    pytest.param(
        [
            "boot: order=scsi0;net0",
            "net0: virtio=BC:24:11:00:00:03,bridge=vmbr2,queues=4",
            "meta: creation-qemu=9.0.2,ctime=1700000000",
        ],
        [],
        [],
        id="nothing",
    ),
]


@pytest.mark.parametrize(("lines", "addresses", "slots"), TEST_CONFIGURATIONS)
def test_configurations(lines, addresses, slots):
    assert held(*MAPPINGS, *(f"vm 101 {line}" for line in lines)) == {101: (addresses, slots)}


def test_the_node_of_the_listing_is_the_one_whose_mappings_count():
    lines = [*MAPPINGS, "node pve2", "vm 101 hostpci0: mapping=ada"]
    assert held(*lines, node="pve1") == {101: ([], ["0000:99:00"])}


def test_a_mapping_of_several_devices_may_take_any_of_them():
    pool = ["map pool", "map \tmap node=pve1,path=0000:01:00", "map \tmap node=pve1,path=0000:02:00"]
    (guest,) = parse("\n".join([*pool, "vm 7 hostpci0: mapping=pool", "end"]), node="pve1").guests
    assert guest.choices == ("pool",)
    assert split(guest) == ([], ["0000:01:00", "0000:02:00"])
    assert guest.has(Address(0, 2, 0, 0))
    assert not guest.has(Address(0, 3, 0, 0))


def test_a_machine_of_ours_has_the_name_that_it_was_planned_with():
    text = "\n".join(["vm 9101", f"vm 9101 {MARK}", "vm 9101 name: renamed", "vm 9101 hostpci0: 01:00", "end"])
    assert parse(text).guests == (Guest("vm", 9101, "chat-0", ours=True, devices=frozenset([Address(0, 1, 0)])),)


def encoded(description: str) -> list[str]:
    """Write a description as the cluster keeps it: control characters, colons and what is beyond ASCII are escaped."""
    return ["#" + quote(line, safe=" !\"#$%&'()*+,-./0123456789;<=>?@[\\]^_`{|}~") for line in description.splitlines()]


def test_the_mark_that_a_machine_is_made_with():
    mark = Mark(vm="llama-70b-0-1", fingerprint="3fa91d2c", own=("hostpci0", "net0"))
    lines = encoded(with_mark("Größe: 4 Karten\n100 % ours", mark))
    assert "%3A" in lines[-1]
    (guest,) = parse("\n".join(["vm 7", *(f"vm 7 {line}" for line in lines), "end"])).guests
    assert (guest.ours, guest.name) == (True, "llama-70b-0-1")


TEST_NOT_MARKS = [
    '#knaster.inventory/1 {"fingerprint"%3A"3fa9"}',
    '#knaster.inventory/1 {"vm"%3A7}',
    '#knaster.inventory/2 {"vm"%3A"chat-0"}',
    "#knaster.inventory/1 chat-0",
    "#knaster.inventory/1 {broken}",
    '#see knaster.inventory/1 {"vm"%3A"chat-0"}',
    '#%0Aknaster.inventory/1 {"vm"%3A"chat-0"}x',
    "name: knaster.inventory/1 {}",
]


@pytest.mark.parametrize("line", TEST_NOT_MARKS)
def test_what_is_no_mark(line):
    assert not parse(f"vm 1 {line}\nvm 1 hostpci0: 01:00\nend").guests[0].ours


def test_a_template_has_nothing_and_a_machine_without_devices_is_listed():
    text = "vm 1\nvm 1 template: 1\nvm 1 hostpci0: 01:00\nvm 2\nvm 2 template: 0\nend"
    assert [guest.id for guest in parse(text).guests] == [2]


DEVICES = [
    "minor 0000:01:00.0 0",
    "minor 0000:41:00.0 1",
    "drm /sys/bus/pci/devices/0000:01:00.0/drm/card1",
    "drm /sys/bus/pci/devices/0000:01:00.0/drm/renderD128",
    "drm /sys/bus/pci/devices/0000:c3:00.0/drm/renderD129",
]
FIRST, SECOND, THIRD = "0000:01:00.0", "0000:41:00.0", "0000:c3:00.0"
TEST_CONTAINERS = [
    (["dev0: /dev/nvidia1,gid=44"], [SECOND]),
    (["dev0: path=/dev/dri/renderD128,gid=104", "dev1: /dev/nvidiactl"], [FIRST]),
    (["lxc.mount.entry: /dev/nvidia0 dev/nvidia0 none bind,optional,create=file"], [FIRST]),
    (["lxc.mount.entry = /dev/dri dev/dri none bind,optional,create=dir"], [FIRST, THIRD]),
    (["lxc.mount.entry: /dev/dri/by-path/pci-0000:C3:00.0-render dev/x none bind"], [THIRD]),
    (["lxc.cgroup2.devices.allow: c 195:* rwm", "lxc.mount.entry: /dev/nvidia1 dev/nvidia1 none bind"], [SECOND]),
    (["lxc.cgroup2.devices.allow: c 195:* rwm"], [FIRST, SECOND]),
    (["lxc.cgroup.devices.allow: c 195:1 rwm", "lxc.cgroup.devices.allow: c 195:255 rwm"], [SECOND]),
    (["lxc.cgroup2.devices.allow: c 226:129 rwm"], [THIRD]),
    (["lxc.cgroup2.devices.allow: c 226:1 rwm"], [FIRST]),
    (["lxc.mount.entry: /dev/nvidia10 dev/nvidia10 none bind"], []),
    (["dev0: /dev/nvidia-uvm"], []),
    (["hostpci0: 01:00"], []),
]


@pytest.mark.parametrize(("lines", "addresses"), TEST_CONTAINERS)
def test_containers(lines, addresses):
    assert held(*DEVICES, "ct 200", *(f"ct 200 {line}" for line in lines)) == {200: (addresses, [])}


def test_a_container_has_a_host_name_and_a_machine_a_name():
    text = "ct 200 hostname: media\nct 200 name: x\nvm 100 name: win\nvm 100 hostname: x\nend"
    assert [(guest.kind, guest.id, guest.name) for guest in parse(text).guests] == [
        ("vm", 100, "win"),
        ("container", 200, "media"),
    ]


def test_what_is_not_whole_says_so():
    assert parse("vm 1\nend").whole
    assert not parse("vm 1").whole
    assert not parse("vm 1\nvmm 2\nend").whole
    assert parse("vm 1\n\nend\n").whole
    assert parse("unreadable qemu-server/1.conf\nunreadable qemu-server/2.conf\nend") == Guests(
        unreadable=2, whole=False
    )


@pytest.mark.parametrize("text", ["", "cat: /etc/pve: Input/output error", "node pve1"])
def test_a_text_that_is_no_listing(text):
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert caught.value.code == "no_guests_listed"


SHELLS = [shell for shell in (["dash"], ["bash"], ["busybox", "sh"]) if shutil.which(shell[0])]
SECRETS = ["hunter2", "AAAAB3Nza", "-device vfio", "snapshot-only"]
CONF = f"""{MARK}
#other words hunter2
agent: 1
args: -device vfio-pci,host=99:00.0
cipassword: hunter2
hostpci0: 0000:01:00,pcie=1
name: chat-0
sshkeys: ssh-rsa%20AAAAB3Nza

[PENDING]
hostpci1: 0000:02:00

[snapshot-only]
hostpci0: 0000:03:00
name: older
"""


@pytest.fixture
def etc_pve(tmp_path: Path) -> Path:
    base = tmp_path / "pve"
    for name in ("nodes/pve1/qemu-server", "nodes/pve1/lxc", "mapping"):
        (base / name).mkdir(parents=True)
    (base / "local").symlink_to("nodes/pve1")
    (base / "qemu-server").symlink_to("nodes/pve1/qemu-server")
    (base / "lxc").symlink_to("nodes/pve1/lxc")
    return base


def list_guests(shell: list[str], base: Path, **options) -> subprocess.CompletedProcess[str]:
    script = LIST_FUNCTION + 'list_guests "$1"\n'
    return subprocess.run(
        [*shell, "-c", script, "x", str(base)], capture_output=True, text=True, timeout=30, check=False, **options
    )


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_the_listing_has_what_tells_the_holder_and_nothing_else(shell, etc_pve):
    (etc_pve / "qemu-server/9101.conf").write_text(CONF)
    (etc_pve / "qemu-server/100.conf").write_text("name: win\nhostpci0: mapping=ada\n")
    (etc_pve / "qemu-server/102.conf").write_text("")
    (etc_pve / "lxc/200.conf").write_text(
        "hostname: media\nrootfs: local:hunter2\nmp0: /dev/x\nlxc.cgroup2.devices.allow: c 10:200 rwm\n"
        "dev0: /dev/dri/renderD128\nlxc.environment: TOKEN=hunter2\n"
    )
    (etc_pve / "mapping/pci.cfg").write_text(
        "ada\n\tdescription hunter2\n\tmap id=10de:27b2,node=pve1,path=0000:41:00\n"
    )
    run = list_guests(shell, etc_pve)
    assert (run.returncode, run.stderr) == (0, "")
    assert [secret for secret in SECRETS if secret in run.stdout] == []
    assert "lxc.cgroup2" not in run.stdout
    found = parse(run.stdout, node="other")
    assert found.whole
    assert found.node == "pve1"
    assert [(guest.id, guest.name, guest.ours, split(guest)[1]) for guest in found.guests] == [
        (100, "win", False, ["0000:41:00"]),
        (9101, "chat-0", True, ["0000:01:00"]),
        (200, "media", False, []),
    ]


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_a_cluster_file_system_that_is_not_there(shell, tmp_path):
    assert list_guests(shell, tmp_path).returncode == 3
    assert list_guests(shell, tmp_path / "none").returncode == 3


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_a_host_without_machines(shell, etc_pve):
    run = list_guests(shell, etc_pve)
    assert run.returncode == 0
    assert parse(run.stdout) == Guests(node="pve1")


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv to be somebody else"
)
def test_without_root_it_says_what_can_not_be_read(etc_pve):
    for parent in (etc_pve, *etc_pve.parents):
        if str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    (etc_pve / "qemu-server/9101.conf").write_text(CONF)
    (etc_pve / "qemu-server/9101.conf").chmod(0o640)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    run = list_guests([*nobody, "sh"], etc_pve)
    assert run.returncode == 0
    found = parse(run.stdout)
    assert (found.unreadable, found.whole, found.guests) == (1, False, ())
