# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Clusters of the Proxmox VE simulator for tests, and clients that lose no time waiting for them."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import tempfile

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.client import Settings
from ansible_collections.knaster.inventory.tests.peers.pve_calls import CountedPve
from ansible_collections.knaster.inventory.tests.peers.pve_sim import PveSim

pytest.importorskip("proxmoxer")

USER, TOKEN = "auto@pve", "knaster"
SECRET = "11111111-2222-3333-4444-555555555555"
PASSWORD = "the-root-password"
IMAGE = "local:import/debian-13.qcow2"
# What a token needs for everything that the modules do.
PRIVILEGES = {
    "/": ["Sys.Audit"],
    "/vms": [
        "VM.Allocate", "VM.Audit", "VM.Clone", "VM.Config.CPU", "VM.Config.Memory", "VM.Config.HWType",
        "VM.Config.Options", "VM.Config.Disk", "VM.Config.CDROM", "VM.Config.Cloudinit", "VM.Config.Network",
        "VM.PowerMgmt",
    ],
    "/storage": ["Datastore.AllocateSpace", "Datastore.Audit"],
    "/sdn/zones/localnetwork": ["SDN.Use"],
    "/mapping/pci": ["Mapping.Use", "Mapping.Modify", "Mapping.Audit"],
}  # fmt: skip


def pci(bus: int, group: int) -> dict:
    """A GPU as the hardware API of PVE reports it."""
    return {
        "id": f"0000:{bus:02x}:00.0", "class": "0x030200", "vendor": "0x10de", "device": "0x26b1",
        "subsystem_vendor": "0x10de", "subsystem_device": "0x16a1", "iommugroup": group,
        "vendor_name": "NVIDIA Corporation", "device_name": "AD102GL [RTX 6000 Ada Generation]",
    }  # fmt: skip


def seed(nodes: int = 2, cards: int = 4) -> dict:
    """A cluster with an image, a template (9000 on pve-0) and a VM of somebody else (500 on pve-0)."""
    return {
        "settings": {"task_delay": 0},
        "users": {"root@pam": {"password": PASSWORD}},
        "tokens": {f"{USER}!{TOKEN}": {"secret": SECRET}},
        "acl": [
            {"who": f"{USER}!{TOKEN}", "path": path, "privs": privileges} for path, privileges in PRIVILEGES.items()
        ],
        "nodes": {
            f"pve-{number}": {
                "status": "online", "cpus": 64, "memory_gb": 512, "ip": f"10.0.0.{number + 1}", "bridges": ["vmbr0"],
                "pci": [pci(0x41 + card, 20 + card) for card in range(cards)],
            }
            for number in range(nodes)
        },
        "storages": {
            "local": {
                "type": "dir", "content": ["iso", "import", "snippets"], "path": "/var/lib/vz", "total_gb": 100,
                "used_gb": 10, "volumes": {"import/debian-13.qcow2": 3},
            },
            "local-lvm": {
                "type": "lvmthin", "content": ["images"], "total_gb": 50000, "used_gb": 0,
                "volumes": {"base-9000-disk-0": 3, "vm-500-disk-0": 8},
            },
        },
        "guests": {
            "9000": {
                "node": "pve-0", "status": "stopped", "pending": {},
                "config": {
                    "name": "debian-13", "template": 1, "tags": "golden", "scsi0": "local-lvm:base-9000-disk-0,size=3G", "memory": "2048",
                    "scsihw": "virtio-scsi-pci", "serial0": "socket", "boot": "order=scsi0",
                },
            },
            "500": {
                "node": "pve-0", "status": "stopped", "pending": {},
                "config": {"name": "of-somebody-else", "memory": "1024", "scsi0": "local-lvm:vm-500-disk-0,size=8G"},
            },
        },
    }  # fmt: skip


@functools.lru_cache(maxsize=1)
def certificate_directory() -> str:
    """One certificate for all clusters of a test run."""
    return tempfile.mkdtemp(prefix="pve-certificate-")


@contextlib.contextmanager
def serving(state: dict | None = None, **more):
    """A cluster that answers on loopback; ``sim.url`` and ``sim.port`` say where."""
    sim = PveSim(copy.deepcopy(state or seed()), **more)
    sim.url = sim.start(cert_dir=certificate_directory())
    sim.port = int(sim.url.rsplit(":", 1)[1])
    try:
        yield sim
    finally:
        sim.stop()


class Clock:
    """Time that passes only when somebody waits, and then for the cluster as well."""

    def __init__(self, sim: PveSim | None = None) -> None:
        self.sim = sim
        self.time = 0.0

    def __call__(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        if self.sim is not None:
            self.sim.ahead += seconds


def client(
    sim: PveSim, *, password: str | None = None, lock_limit: float = 60.0, timeout: float = 30.0, **more
) -> CountedPve:
    """A client with the token, or as root with a password."""
    where = {"host": "127.0.0.1", "port": sim.port, "ca_path": sim.ca_file, "timeout": timeout}
    if password is not None:
        settings = Settings(user="root@pam", password=password, **where)
    else:
        settings = Settings(user=USER, token_id=TOKEN, token_secret=SECRET, **where)
    clock = Clock(sim)
    return CountedPve(settings, sleep=clock.sleep, clock=clock, lock_limit=lock_limit, **more)


def changes(sim: PveSim) -> list[tuple[str, str]]:
    """The calls that reached the cluster and that change something, logins left out."""
    return [(call["method"], call["path"]) for call in sim.calls if call["path"] != "/access/ticket"]


def guests(sim: PveSim) -> dict:
    """The end state of all VMs, without what PVE makes up."""
    made_up = ("smbios1", "vmgenid", "meta", "boot")
    found = {}
    for vmid, guest in sorted(sim.state["guests"].items()):
        config = {key: value for key, value in guest["config"].items() if key not in made_up}
        text = json.dumps(config, sort_keys=True)
        for mac in {part for value in config.values() for part in _macs(str(value))}:
            text = text.replace(mac, "MAC")
        found[vmid] = {
            "node": guest["node"], "status": guest["status"], "pending": guest["pending"], "config": json.loads(text),
            "devices": guest.get("devices", []),
        }  # fmt: skip
    return found


def _macs(text: str) -> list[str]:
    return [part.split("=")[1] for part in text.split(",") if part.count(":") == 5 and "=" in part]
