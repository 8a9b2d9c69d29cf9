# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Whatever a definition says and however PVE rewrites it: once it is so, there is nothing more to do."""

from __future__ import annotations

import os

from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.compare import (
    compare,
    create_values,
)
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.definition import definition
from ansible_collections.knaster.inventory.tests.peers import pve_cluster as peer
from ansible_collections.knaster.inventory.tests.peers.pve_sim import Call, PveSim
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("KNASTER_EXAMPLES") or "300") // 10
FLAG = st.sampled_from(["0", "1", "on", "off", "yes", "no"])
SWITCH = st.sampled_from([True, False, 0, 1, "0", "1", "yes", "off"])


def parts(first, **options):
    """Parts of an option in any order, the first with or without its name."""

    def text(drawn):
        head, chosen, order = drawn
        rest = [
            f"{name.replace('_', '-') if name == 'x_vga' else name}={value}"
            for name, value in chosen.items()
            if value is not None
        ]
        order.shuffle(rest)
        return ",".join([head, *rest])

    chosen = st.fixed_dictionaries({name: st.none() | values for name, values in options.items()})
    return st.tuples(first, chosen, st.randoms(use_true_random=False)).map(text)


DISK_OPTIONS = {
    "discard": st.sampled_from(["on", "ignore"]),
    "iothread": FLAG,
    "ssd": FLAG,
    "backup": FLAG,
    "cache": st.sampled_from(["none", "writeback"]),
}
DISK = parts(st.sampled_from(["local-lvm:8", "local-lvm:10", "local-lvm:10.5", "file=local-lvm:32"]), **DISK_OPTIONS)
NET = parts(
    st.sampled_from(["virtio", "e1000", "model=virtio", "virtio=BC:24:11:00:00:01", "e1000=bc:24:11:00:00:0a"]),
    bridge=st.just("vmbr0"),
    firewall=FLAG,
    mtu=st.sampled_from([1500, 9000]),
)
HOSTPCI = parts(
    st.sampled_from(["mapping=a1", "mapping=b1", "host=0000:41:00.0", "host=41:00.0", "42:00.0"]),
    pcie=FLAG,
    rombar=FLAG,
    x_vga=FLAG,
)
KEYS = {
    "cores": st.integers(1, 8) | st.integers(1, 8).map(str),
    "memory": st.sampled_from([512, 4096, "8192", "current=4096"]),
    "balloon": st.sampled_from([0, "0", 256]),
    "cpu": st.sampled_from(
        ["host", "cputype=host", "x86-64-v2-AES", "host,hidden=0", "host,hidden=1", "host,flags=+aes"]
    ),
    "bios": st.sampled_from(["seabios", "ovmf"]),
    "onboot": SWITCH,
    "numa": SWITCH,
    "tablet": SWITCH,
    "protection": SWITCH,
    "agent": SWITCH
    | st.sampled_from(["enabled=1", "1,fstrim_cloned_disks=1", "enabled=1,type=virtio", "1,freeze-fs=0"]),
    "tags": st.lists(st.sampled_from(["a", "B", "b", "role-x", "Z9"]), min_size=1).map(";".join),
    "description": st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1).filter(str.strip),
    "sshkeys": st.sampled_from(["ssh-ed25519 AAAA a b@c\n", "ssh-rsa AAA+/=\nssh-ed25519 BBBB\n", "ssh-rsa%20AAAA"]),
    "nameserver": st.sampled_from(["1.1.1.1", "1.1.1.1 8.8.8.8", "1.1.1.1,8.8.8.8"]),
    "startup": st.sampled_from(["order=1", "order=1,up=30", "up=30"]),
    "ipconfig0": st.sampled_from(["ip=dhcp", "ip=10.0.0.5/24,gw=10.0.0.1", "gw=10.0.0.1,ip=10.0.0.5/24"]),
    "vga": st.sampled_from(["std", "type=std", "serial0", "virtio,memory=64"]),
    "scsihw": st.sampled_from(["lsi", "virtio-scsi-single"]),
    "scsi0": DISK,
    "scsi1": DISK,
    "virtio3": parts(st.just("local-lvm:4"), backup=FLAG),
    "ide2": st.sampled_from(["local-lvm:cloudinit", "none,media=cdrom", "local-lvm:cloudinit,media=cdrom"]),
    "efidisk0": st.sampled_from(
        ["local-lvm:1", "local-lvm:1,efitype=4m", "local-lvm:1,efitype=4m,pre-enrolled-keys=1"]
    ),
    "tpmstate0": st.sampled_from(["local-lvm:1,version=v2.0", "local-lvm:1"]),
    "net0": NET,
    "net1": NET,
    "hostpci0": HOSTPCI,
    "hostpci1": HOSTPCI,
}


def definitions(extra=()):
    def make(drawn):
        config, fingerprint = drawn
        config = {key: value for key, value in config.items() if value is not None}
        if str(config.get("balloon", "0")) != "0":
            config["memory"] = 4096
        names = [
            str(config.get(key, "")).partition(",")[0].replace("host=", "").replace("0000:", "")
            for key in ("hostpci0", "hostpci1")
        ]
        if names[0] == names[1]:
            config.pop("hostpci1", None)
        return definition(
            {
                "vmid": 9101,
                "name": "chat-0",
                "node": "pve-0",
                "config": {"machine": "q35", **config},
                "fingerprint": fingerprint,
            }
        )

    config = st.fixed_dictionaries({key: st.none() | values for key, values in KEYS.items()})
    return st.tuples(config, st.sampled_from(["f1", "f2"])).map(make)


class Direct:
    """The cluster without HTTP, as root, who may set everything."""

    def __init__(self):
        self.sim = PveSim(peer.seed())

    def send(self, method, path, values=None):
        answer = self.sim.dispatch(method, "/nodes/pve-0/qemu" + path, dict(values or {}), Call("root@pam"))
        self.sim.sweep(now=float("inf"))
        return answer

    def config(self):
        return {key: value for key, value in self.send("GET", "/9101/config").items() if key != "digest"}

    def apply(self, changes):
        values = dict(changes.set)
        if changes.delete:
            values["delete"] = ",".join(changes.delete)
        if values:
            self.send("PUT", "/9101/config", values)
        for disk, size in changes.resize.items():
            self.send("PUT", "/9101/resize", {"disk": disk, "size": size})


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(definitions())
def test_a_new_vm_is_as_defined(wanted):
    peer_ = Direct()
    peer_.send("POST", "", {"vmid": wanted.vmid, **create_values(wanted)})
    changes = compare(wanted, peer_.config(), strict=True)
    assert (changes.set, changes.delete, changes.resize, changes.external, changes.attention) == ({}, [], {}, [], [])


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(definitions(), definitions())
def test_one_round_of_changes_is_enough(before, after):
    peer_ = Direct()
    peer_.send(
        "POST",
        "",
        {"vmid": before.vmid, **{key: value for key, value in create_values(before).items() if key != "protection"}},
    )
    first = compare(after, peer_.config())
    peer_.apply(first)
    config = peer_.config()
    second = compare(after, config)
    assert (second.set, second.delete, second.resize) == ({}, [], {})
    assert second.attention == first.attention
    # What was not in the earlier definition and is of the later one has come, and devices of the earlier one are gone.
    assert {key for key in config if key.startswith("hostpci")} == {
        key for key in after.config if key.startswith("hostpci")
    }
    # A network GPU keeps its address unless the definition says another.
    assert {key for key, value in after.config.items() if key.startswith("net")} <= set(config)
