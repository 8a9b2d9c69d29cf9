# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""The simulator of Proxmox VE takes what its table of the API has, and nothing else."""

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.tests.peers import pve_cluster as peer
from ansible_collections.knaster.inventory.tests.peers.pve_sim import HANDLERS, TABLE, Call, Fail, PveSim, read_table

PATHS, CPU_MODELS = read_table(TABLE)
VM = "/nodes/pve-0/qemu"
MAP = "id=10de:26b1,node=pve-0,path=0000:41:00.0"
UNKNOWN = "property is not defined in schema and the schema does not allow additional properties"


@pytest.fixture
def sim():
    return PveSim(peer.seed())


def test_what_is_in_the_table_is_simulated_and_nothing_else():
    assert {(method, path) for path, methods in PATHS.items() for method in methods} == set(HANDLERS)


def refused(sim, method, path, **values):
    with pytest.raises(Fail) as caught:
        sim.dispatch(method, path, values, Call("root@pam"))
    assert (caught.value.status, caught.value.message) == (400, "Parameter verification failed.\n")
    return caught.value.errors


# A value that is at its limit, and one that is behind it with what is said of it.
TEST_LIMITS = [
    ("cores", "1", "0", "value must have a minimum value of 1"),
    ("cores", "2", "two", "type check ('integer') failed - got 'two'"),
    ("cpulimit", "128", "128.5", "value must have a maximum value of 128"),
    ("onboot", "1", "yes", "type check ('boolean') failed - got 'yes'"),
    ("bios", "ovmf", "bios", "value 'bios' does not have a value in the enumeration 'seabios, ovmf'"),
    ("description", "x" * 8192, "x" * 8193, "value may only be 8192 characters long"),
    ("name", "chat-0", "chat_0", "invalid format - value does not look like a valid DNS name\n"),
    ("memory", "16", "15", "invalid format - format error\nmemory.current: value must have a minimum value of 16\n"),
    ("scsi30", "local-lvm:8", None, None),
    ("scsi31", None, "local-lvm:8", UNKNOWN),
    (
        "scsi0",
        "local-lvm:8,ssd=on",
        "local-lvm:8,ssd=maybe",
        "invalid format - format error\nscsi0.ssd: type check ('boolean') failed - got 'maybe'\n",
    ),
    ("scsi0", None, "local-lvm:8,colour=red", f"invalid format - format error\nscsi0.colour: {UNKNOWN}\n"),
    ("scsi0", None, "ssd=1", "invalid format - format error\nscsi0.file: property is missing and it is not optional\n"),
    (
        "net0",
        "virtio=BC:24:11:00:00:01,bridge=vmbr0",
        "virtio=BC:24:11,bridge=vmbr0",
        "invalid format - format error\nnet0.macaddr: invalid format - value does not look like a valid unicast MAC address\n\n",
    ),
    (
        "net0",
        "model=virtio,bridge=vmbr0,mtu=65520",
        "model=virtio,bridge=vmbr0,mtu=65521",
        "invalid format - format error\nnet0.mtu: value must have a maximum value of 65520\n",
    ),
    ("cpu", "host", "custom-cpu", "invalid format - Custom cputype 'cpu' not found\n"),
    ("machine", "q35", "q36", "invalid format - format error\nmachine.type: value does not match the regex pattern\n"),
    ("colour", None, "red", UNKNOWN),
]


@pytest.mark.parametrize(("key", "right", "wrong", "text"), TEST_LIMITS)
def test_a_parameter_of_a_vm(sim, key, right, wrong, text):
    if right is not None:
        sim.dispatch("POST", VM, {"vmid": "9101", key: right}, Call("root@pam"))
        sim.sweep(now=float("inf"))
        assert key in sim.state["guests"]["9101"]["config"]
    if wrong is not None:
        assert refused(sim, "POST", VM, vmid="9102", **{key: wrong}) == {key: text}
        assert "9102" not in sim.state["guests"]


def test_a_number_of_a_vm(sim):
    assert refused(sim, "POST", VM) == {"vmid": "property is missing and it is not optional"}
    assert refused(sim, "POST", VM, vmid="99") == {"vmid": "invalid format - value does not look like a valid VM ID\n"}
    assert refused(sim, "POST", VM, vmid="1000000000") == {
        "vmid": "invalid format - value does not look like a valid VM ID\n"
    }
    sim.dispatch("POST", VM, {"vmid": "100"}, Call("root@pam"))


def test_a_mapping(sim):
    path = "/cluster/mapping/pci"
    assert refused(sim, "POST", path, id="card-0") == {"map": "property is missing and it is not optional"}
    assert refused(sim, "POST", path, id="0-card", map=[MAP]) == {
        "id": "invalid format - invalid configuration ID '0-card'\n"
    }
    assert refused(sim, "POST", path, id="card-0", map=[MAP + ",colour=red"]) == {
        "map[0]": f"invalid format - format error\nmap[0].colour: {UNKNOWN}\n"
    }
    sim.dispatch("POST", path, {"id": "card-0", "map": [MAP]}, Call("root@pam"))
    assert sim.state["mapping"]["pci"]["card-0"]["map"] == [MAP]


@pytest.mark.parametrize(("disk", "is_known"), [("scsi30", True), ("scsi31", False), ("ide3", True), ("ide4", False)])
def test_the_names_of_disks(disk, *, is_known):
    (properties,) = [PATHS[path]["PUT"]["parameters"]["properties"] for path in PATHS if path.endswith("/resize")]
    assert (disk in properties["disk"]["enum"]) is is_known


def test_what_is_not_in_the_table(sim):
    for method, path in (("GET", "/cluster/nextid"), ("DELETE", "/nodes"), ("GET", "/")):
        with pytest.raises(Fail) as caught:
            sim.dispatch(method, path, {}, Call("root@pam"))
        assert caught.value.status == 501


def test_who_may_call(sim):
    token = f"{peer.USER}!{peer.TOKEN}"
    sim.state["acl"] = [{"who": token, "path": "/vms/9000", "privs": ["VM.Clone"]}]
    clone = ("POST", f"{VM}/9000/clone", {"newid": "9101"})
    with pytest.raises(Fail, match=r"/vms/9101|/pool/") as caught:
        sim.dispatch(*clone, Call(token))
    assert caught.value.status == 403
    with pytest.raises(Fail) as caught:
        sim.dispatch("POST", "/access/ticket", {"username": "root@pam", "password": peer.PASSWORD}, Call(token))
    assert caught.value.status == 403
    sim.state["acl"].append({"who": token, "path": "/vms/9101", "privs": ["VM.Allocate", "VM.Config.Disk"]})
    sim.state["acl"].append({"who": token, "path": "/storage", "privs": ["Datastore.AllocateSpace"]})
    sim.dispatch(*clone, Call(token))
    assert "9101" in sim.state["guests"]
