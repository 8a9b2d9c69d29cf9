# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""A fleet of Proxmox VE nodes as profiles and as the simulator's seed, and a run of provisioning in process.

The run takes the order of the role and calls what its modules call, so that faults can be tried by the hundred without a
playbook for each.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.client import Pve, Settings
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.cluster import read_cluster, read_pci
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.definition import (
    absent_definition,
    definition,
)
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.mappings import (
    ensure_mapping,
    mapping_wanted,
)
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.vm import (
    VmOptions,
    ensure_vm,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.run import Last, Run, prepare
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.settings import Allowed, read_settings
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.state import read_state

sys.path.insert(0, str(Path(__file__).parent))

TOKEN = "auto@pve!knaster"
SECRET = "11111111-2222-3333-4444-555555555555"
IMAGE = "local:import/debian-13.qcow2"
# What the guide tells people to give the token.
ACL = [
    {"path": "/", "privs": ["Sys.Audit"]},
    {"path": "/mapping/pci", "privs": ["Mapping.Audit", "Mapping.Modify", "Mapping.Use"]},
    {"path": "/pool", "privs": ["Pool.Audit"]},
    {"path": "/sdn/zones/localnetwork", "privs": ["SDN.Audit", "SDN.Use"]},
    {"path": "/storage", "privs": ["Datastore.AllocateSpace", "Datastore.Audit"]},
    {
        "path": "/vms",
        "privs": [
            "VM.Allocate",
            "VM.Audit",
            "VM.Clone",
            "VM.Config.CDROM",
            "VM.Config.CPU",
            "VM.Config.Cloudinit",
            "VM.Config.Disk",
            "VM.Config.HWType",
            "VM.Config.Memory",
            "VM.Config.Network",
            "VM.Config.Options",
            "VM.PowerMgmt",
        ],
    },
]


def make_node(name, cards, memory_gb=256, threads=64):
    """A node with GPUs: the profile that collecting it gives, and the hardware that PVE reports."""
    gpus, devices = (
        [],
        [{"id": "0000:00:00.0", "class": "0x060000", "vendor": "0x8086", "device": "0x4650", "iommugroup": 0}],
    )
    for index in range(cards):
        bus = f"0000:{0x41 + index:02x}:00"
        pci = {
            "address": f"{bus}.0",
            "id": "10de:26b1",
            "subsystem_id": "10de:16a1",
            "iommu_group": 30 + index,
            "iommu_peers": [{"address": f"{bus}.1", "class": "0x040300", "driver": "snd_hda_intel"}],
            "numa_node": index % 2,
        }
        gpu = {"index": index, "name": "NVIDIA L40S", "memory_gb": 48, "compute_cap": 8.9, "driver": None, "pci": pci}
        gpus.append(gpu | {"gpu_class": "l40s", "vendor": "nvidia", "healthy": True, "uuid": f"GPU-{name}-{index}"})
        common = {
            "vendor": "0x10de",
            "subsystem_vendor": "0x10de",
            "subsystem_device": "0x16a1",
            "iommugroup": 30 + index,
        }
        devices.append(
            {**common, "id": f"{bus}.0", "class": "0x030200", "device": "0x26b1", "device_name": "AD102GL [L40S]"}
        )
        devices.append({**common, "id": f"{bus}.1", "class": "0x040300", "device": "0x22ba"})
    cpu = {"model": "x", "cores": threads // 2, "threads": threads}
    profile = {
        "name": name,
        "hostname": name,
        "cpu": cpu,
        "memory_gb": memory_gb,
        "memory_mib": memory_gb * 1024 - 2048,
    }
    profile |= {"disks": [], "gpus": gpus, "fabrics": [], "labels": {}, "state": "ready"}
    node = {"status": "online", "cpus": threads, "memory_gb": memory_gb, "bridges": ["vmbr0"], "pci": devices}
    return profile, node


@dataclass
class Fleet:
    """Nodes of one cluster, what runs there already, and the roles that are wanted."""

    nodes: int = 3
    cards: int = 2
    roles: list = field(default_factory=list)
    defaults: dict = field(default_factory=lambda: {"image": IMAGE, "disk_gb": 32})
    guests: dict = field(default_factory=dict)
    task_delay: float = 0.0
    cluster: str = "sim"
    name: str = "lab"
    more: dict = field(default_factory=dict)
    by_node: dict = field(default_factory=dict)

    def __post_init__(self):
        names = [f"pve-{at}" for at in range(self.nodes)]
        made = {name: make_node(name, self.cards) for name in names}
        self.profiles = [profile for profile, _node in made.values()]
        self.hardware = {name: node for name, (_profile, node) in made.items()}
        self.forget()

    def forget(self):
        """Lose the file of definitions."""
        self.previous, self.earlier, self.is_remembered, self.lost_layers = [], [], False, ()

    def seed(self):
        """What the simulator begins with."""
        volumes = {IMAGE.partition(":")[2]: 3}
        return {
            "settings": {"task_delay": self.task_delay, "strict_mapping": True},
            "tokens": {TOKEN: {"secret": SECRET}},
            "users": {"root@pam": {"password": "secret"}, "auto@pve": {"password": "passwd"}},
            "acl": [{"who": who, **entry} for entry in ACL for who in (TOKEN, "auto@pve")],
            "nodes": self.hardware,
            "storages": {
                "local": {
                    "type": "dir",
                    "content": ["import", "iso"],
                    "total_gb": 100,
                    "used_gb": 10,
                    "volumes": volumes,
                },
                "local-lvm": {"type": "lvmthin", "content": ["images"], "total_gb": 4000, "used_gb": 0, "volumes": {}},
            },
            "guests": self.guests,
        }

    def plan(self):
        """The plan of the roles."""
        catalog = check_catalog(None, self.roles).catalog
        found = plan(self.profiles, catalog.roles, catalog.models, engines=catalog.engines)
        assert not found["unplaced"], found["unplaced"]
        return found

    def settings(self):
        """The settings of the run."""
        nodes = {
            profile["name"]: {"cluster": self.cluster, **self.by_node.get(profile["name"], {})}
            for profile in self.profiles
        }
        return read_settings({"defaults": self.defaults, "nodes": nodes, "fleet": self.name, **self.more})


def write_project(directory, fleet, url, ca_file):
    """Write what a user has for the fleet: profiles, catalog and inventory, with one API for all nodes."""
    profiles, catalog = directory / "knaster" / "profiles", directory / "catalog"
    for path in (profiles, catalog):
        path.mkdir(parents=True, exist_ok=True)
    for profile in fleet.profiles:
        (profiles / f"{profile['name']}.json").write_text(json.dumps(profile))
    (catalog / "roles.yaml").write_text(json.dumps({"roles": fleet.roles}))
    (catalog / "models.yaml").write_text(json.dumps({"models": []}))
    host, port = url.rpartition("/")[2].split(":")
    api = {
        "knaster_pve_api_host": host,
        "knaster_pve_api_port": int(port),
        "knaster_pve_vm": fleet.defaults,
        "knaster_pve_api_user": TOKEN.partition("!")[0],
        "knaster_pve_api_token_id": TOKEN.partition("!")[2],
        "knaster_pve_api_token_secret": SECRET,
        "knaster_pve_ca_path": str(ca_file),
    }
    local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    nodes = {"hosts": {profile["name"]: {} for profile in fleet.profiles}, "vars": api}
    inventory = {"all": {"hosts": {"localhost": local}, "children": {"nodes": nodes}}}
    (directory / "inventory.yml").write_text(json.dumps(inventory))


def api_of(url, ca_file, *, password=False, read_only=False, **more):
    """A client of the simulator."""
    host, port = url.rpartition("/")[2].split(":")
    login = {"user": "auto@pve", "password": "passwd"} if password else {"token_id": "knaster", "token_secret": SECRET}
    settings = Settings(
        host=host, port=int(port), user=login.pop("user", "auto@pve"), ca_path=ca_file, timeout=20, **login
    )
    return Pve(settings, read_only=read_only, **more)


@dataclass
class Outcome:
    """What a run found and did."""

    prepared: object
    results: list = field(default_factory=list)

    @property
    def changed(self):
        """Whether a step changed something, or would."""
        return [result for _step, result in self.results if result["changed"]]


class PreflightError(Exception):
    """A run that ended before its first change."""

    def __init__(self, findings):
        super().__init__("\n".join(one.line() for one in findings))
        self.findings = findings


def look(api, fleet, cluster="sim"):
    """The state of the cluster, as the role reads it."""
    vmids = [one["vmid"] for one in (*fleet.previous, *fleet.earlier)]
    answer = read_cluster(api, vmids=vmids, content=["images", "import", "iso", "snippets"])
    return read_state(cluster, answer, read_pci(api, gpus_only=False), identity=f"the token {api.settings.identity}")


def provision(
    api, fleet, *, plan_document=None, allowed=None, check_mode=False, present=True, strict=False, most=None, keep=False
):
    """One run: look, define, check, and do the steps in their order.

    With ``keep`` what is not in the way of an error is done, as the role does; without it an error is raised.
    """
    cluster = look(api, fleet)
    prepared = prepare(
        plan_document if plan_document is not None else fleet.plan(),
        fleet.roles,
        nodes=fleet.profiles,
        previous=Last(
            vms=fleet.previous, earlier=fleet.earlier, is_there=fleet.is_remembered, lost_layers=fleet.lost_layers
        ),
        clusters={fleet.cluster: cluster},
        run=Run(settings=fleet.settings(), allowed=allowed or Allowed(), present=present, most=most),
    )
    if prepared.errors and not keep:
        raise PreflightError(prepared.errors)
    fleet.previous, fleet.earlier, fleet.is_remembered = list(prepared.definitions.vms), list(prepared.earlier), True
    outcome = Outcome(prepared)
    for step in prepared.steps:
        outcome.results.append((step, run_step(api, step, allowed or Allowed(), check_mode=check_mode, strict=strict)))
    return outcome


def run_step(api, step, allowed, *, check_mode=False, strict=False):
    """What the module of a step does."""
    if "mapping" in step.args:
        mapping = step.args["mapping"]
        present = mapping["state"] == "present"
        wanted = mapping_wanted(
            mapping["id"],
            mapping["entries"],
            description=mapping.get("description"),
            present=present,
            mdev=mapping.get("mdev"),
        )
        return ensure_mapping(api, wanted, check_mode=check_mode)
    vm = step.args["vm"]
    present = vm["state"] == "present"
    wanted = definition(vm) if present else absent_definition(vm["vmid"], vm["name"], vm["node"], vm["fleet"])
    options = VmOptions(
        present=present,
        started=vm.get("started"),
        allow_stop=allowed.stop,
        strict=strict,
        purge=vm.get("purge", True),
        made_before=frozenset(one["id"] for one in vm.get("mappings", ()) if one["made_before"]),
        check_mode=check_mode,
        task_limit=20.0,
        start_limit=20.0,
        stop_limit=20.0,
    )
    return ensure_vm(api, wanted, options)
