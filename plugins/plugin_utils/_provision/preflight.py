# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What would fail, and what is not as the plan has it, found in definitions and clusters before anything is changed."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.names import parse_address
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import natural_key

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.module_utils._pci import Address
    from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.state import (
        Card,
        Cluster,
        Guest,
        Node,
        Storage,
    )

ERROR, WARNING, INFO = "error", "warning", "info"
_SEVERITIES = (ERROR, WARNING, INFO)

# What a machine's options ask of whoever sets them.
VM_PRIVILEGES = (
    "VM.Allocate",
    "VM.Audit",
    "VM.Config.CDROM",
    "VM.Config.CPU",
    "VM.Config.Cloudinit",
    "VM.Config.Disk",
    "VM.Config.HWType",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.Options",
    "VM.PowerMgmt",
)
STORAGE_PRIVILEGES = ("Datastore.AllocateSpace", "Datastore.Audit")
MAPPING_PRIVILEGES = ("Mapping.Audit", "Mapping.Modify", "Mapping.Use")

# Storages on which a new disk takes only what is written to it: their room is a hint, and no limit.
_THIN = frozenset(("lvmthin", "rbd", "zfspool", "cephfs"))
_BRIDGE_CLASS = "06"
# How many parts of a path are the place where a privilege is given for all of its kind.
_ROOTS = {"sdn": 4, "mapping": 3}
# What a node itself needs at the very least; the plan keeps more of it free.
_LEAST_MIB = 2048

Definition = dict[str, t.Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong or to be known, where, and what to do about it."""

    severity: str
    code: str
    text: str
    remedy: str
    cluster: str = ""
    node: str = ""
    vm: str = ""

    def plain(self) -> dict[str, str]:
        """The finding as data."""
        values = {
            "severity": self.severity,
            "code": self.code,
            "cluster": self.cluster,
            "node": self.node,
            "vm": self.vm,
            "text": self.text,
            "remedy": self.remedy,
        }
        return {key: value for key, value in values.items() if value}

    def line(self) -> str:
        """The finding as one line of text."""
        where = self.vm or self.node or self.cluster
        return f"{self.severity.upper()} {f'{where}: ' if where else ''}{self.text}. {self.remedy}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """What the user lets a run do."""

    stop: bool = False
    prune: bool = False
    recreate: bool = False
    strict: bool = False


def find_problems(
    vms: Sequence[Definition], clusters: Mapping[str, Cluster], *, allowed: Allowed | None = None
) -> list[Finding]:
    """Compare definitions with the state of their clusters.

    :param clusters: the state of each cluster by its name; one that is missing was not asked
    """
    found: list[Finding] = []
    by_cluster: dict[str, list[Definition]] = {name: [] for name in clusters}
    for one in vms:
        by_cluster.setdefault(one["cluster"], []).append(one)
    for name, there in sorted(by_cluster.items()):
        cluster = clusters.get(name)
        if cluster is None:
            found.append(
                Finding(
                    severity=ERROR,
                    code="cluster_unknown",
                    cluster=name,
                    node=there[0]["node"],
                    text=f"it is not known how to reach the API for {len(there)} machines",
                    remedy="Set knaster_pve_api_host, user and token of the node, or provision_state to rendered",
                )
            )
            continue
        found += _Check(cluster, there, allowed or Allowed()).run()
    found.sort(
        key=lambda one: (
            _SEVERITIES.index(one.severity),
            one.cluster,
            natural_key(one.node),
            natural_key(one.vm),
            one.code,
            one.text,
        )
    )
    return found


@dataclass(slots=True)
class _Check:
    """The checks of one cluster."""

    cluster: Cluster
    vms: list[Definition]
    allowed: Allowed
    found: list[Finding] = field(default_factory=list)

    def run(self) -> list[Finding]:
        if self.cluster.error is not None:
            text = f"its API cannot be used: {self.cluster.error}"
            remedy = "Check host, user, token and certificate, or leave its nodes out with --limit"
            self.add(ERROR, "cluster_unreachable", text, remedy)
            return self.found
        reachable = self._nodes()
        self._privileges(reachable)
        for one in reachable:
            self._number(one)
            self._source(one)
            self._bridge(one)
            self._cards(one)
            self._cores(one)
            self._drift(one)
        self._storages(reachable)
        self._memory(reachable)
        self._doubled()
        self._orphans()
        return self.found

    def add(
        self, severity: str, code: str, text: str, remedy: str, *, vm: Definition | None = None, node: str = ""
    ) -> None:
        where = {"vm": vm["name"], "node": vm["node"]} if vm is not None else {"node": node}
        self.found.append(
            Finding(severity=severity, code=code, cluster=self.cluster.name, text=text, remedy=remedy, **where)
        )

    def _nodes(self) -> list[Definition]:
        """The machines whose nodes answer."""
        reachable = []
        seen: set[str] = set()
        for one in self.vms:
            node = self.cluster.nodes.get(one["pve_node"])
            if node is not None and node.online:
                reachable.append(one)
            elif one["pve_node"] not in seen:
                seen.add(one["pve_node"])
                count = sum(other["pve_node"] == one["pve_node"] for other in self.vms)
                if node is None:
                    names = ", ".join(sorted(self.cluster.nodes, key=natural_key))
                    text = f"the cluster has no node {one['pve_node']}; it has {names}"
                    self.add(ERROR, "node_unknown", text, "Set knaster_pve_node of the node", node=one["node"])
                else:
                    text = f"the node is offline, so that its machines ({count}) are left as they are"
                    remedy = "Start the node and run again, or plan without it"
                    self.add(WARNING, "node_offline", text, remedy, node=one["node"])
        return reachable

    # Privileges

    def _privileges(self, vms: Sequence[Definition]) -> None:
        if self.cluster.privileges is None or not vms:
            return
        asked: dict[str, set[str]] = {}

        def ask(path: str, *names: str) -> None:
            asked.setdefault(path, set()).update(names)

        for one in vms:
            ask(f"/vms/{one['vmid']}", *VM_PRIVILEGES)
            ask(f"/nodes/{one['pve_node']}", "Sys.Audit")
            for entry in one["mappings"]:
                ask(f"/mapping/pci/{entry['id']}", *MAPPING_PRIVILEGES)
                ask("/mapping/pci", "Mapping.Modify")
            for storage in _storages_of(one):
                ask(f"/storage/{storage}", *STORAGE_PRIVILEGES)
            bridge = _bridge_of(one)
            if bridge is not None:
                ask(f"/sdn/zones/localnetwork/{bridge}", "SDN.Use")
            template = (one.get("source") or {}).get("template")
            if template is not None and one["vmid"] not in self.cluster.guests:
                ask(f"/vms/{template}", "VM.Clone")
            if "startup" in one["config"]:
                ask("/", "Sys.Modify")
        lacking: dict[str, tuple[set[str], list[str]]] = {}
        for path, names in asked.items():
            missing = self.cluster.lacking(path, names)
            if missing:
                root = "/".join(path.split("/")[: _ROOTS.get(path.split("/")[1], 2)]) or "/"
                everything, paths = lacking.setdefault(root, (set(), []))
                everything |= missing
                paths.append(path)
        for root, (everything, paths) in sorted(lacking.items()):
            first = max(paths, key=lambda path: (path.count("/"), natural_key(path)))
            where = first if len(paths) == 1 else f"{first} and {len(paths) - 1} more below {root}"
            self.add(
                ERROR,
                "privileges",
                f"{self.cluster.identity or 'the user'} lacks {', '.join(sorted(everything))} on {where}",
                f"Give a role with them on {root}: see the guide on provisioning for the whole list",
            )

    # One machine

    def _number(self, one: Definition) -> None:
        guest = self.cluster.guests.get(one["vmid"])
        if guest is not None and not guest.ours:
            if not guest.making:
                whose = f"the {guest.kind} {guest.name or 'without a name'} on {guest.node}, which is not ours"
                text = f"vmid {one['vmid']} belongs to {whose}"
                remedy = "Remove the entry of the machine from the file of definitions, so that it gets another number"
                self.add(ERROR, "vmid_taken", text, remedy, vm=one)
        elif guest is not None and guest.node != one["pve_node"]:
            self._elsewhere(one, guest)
        named = [
            other for other in self.cluster.guests.values() if other.name == one["name"] and other.vmid != one["vmid"]
        ]
        for other in named:
            if not other.ours:
                text = f"{other.kind} {other.vmid} on {other.node}, which is not ours, has the same name"
                remedy = "Rename one of the two, or names in the network are ambiguous"
                self.add(WARNING, "name_taken", text, remedy, vm=one)

    def _elsewhere(self, one: Definition, guest: Guest) -> None:
        text = f"machine {one['vmid']} is on {guest.node}, and the plan has it on {one['pve_node']}"
        if not self.allowed.recreate:
            remedy = (
                "Migrate it in Proxmox VE, or set provision_recreate to remove it there with its disks and make it anew"
            )
            self.add(ERROR, "wrong_node", text, remedy, vm=one)
        elif guest.running and not self.allowed.stop:
            self.add(ERROR, "needs_stop", f"{text}, and it runs", "Shut it down, or set provision_allow_stop", vm=one)
        else:
            self.add(INFO, "recreated", text, "It is removed there and made anew here", vm=one)

    def _source(self, one: Definition) -> None:
        source = one.get("source") or {}
        if one["vmid"] in self.cluster.guests:
            return
        if not source:
            text = "it has neither template nor image, so that it gets an empty disk"
            self.add(
                WARNING, "no_source", text, "Set template or image, unless it installs itself from the network", vm=one
            )
        if "template" in source:
            self._template(one, source["template"])
        if "image" in source:
            self._image(one, str(source["image"]))

    def _template(self, one: Definition, number: int) -> None:
        template = self.cluster.guests.get(number)
        if template is None:
            text = f"there is no template {number} in the cluster"
            self.add(ERROR, "template_missing", text, "Make it, or set template to another one", vm=one)
        elif not template.template:
            text = f"machine {number} is no template"
            self.add(ERROR, "template_missing", text, "Turn it into a template, or set template to another one", vm=one)
        elif template.node != one["pve_node"]:
            storages = self.cluster.nodes[template.node].storages if template.node in self.cluster.nodes else None
            local = sorted(
                name
                for name, storage in (storages or {}).items()
                if not storage.shared and template.vmid in storage.owners
            )
            if local:
                where = f"{template.node} with disks on {', '.join(local)}"
                text = f"template {number} is on {where}, which {one['pve_node']} does not share"
                remedy = f"Make a template on {one['pve_node']} and set it as the template of the node, or use a shared storage"
                self.add(ERROR, "template_elsewhere", text, remedy, vm=one)

    def _image(self, one: Definition, image: str) -> None:
        if image.startswith("/"):
            if self.cluster.identity != "the user root@pam":
                text = f"the image {image} is a path on the node, which only root may import and no token"
                self.add(
                    ERROR, "image_path", text, "Put it on a storage with the content import, and name it there", vm=one
                )
            return
        name = image.partition(":")[0]
        node = self.cluster.nodes[one["pve_node"]]
        storage = node.storages.get(name) if node.storages is not None else None
        if node.storages is not None and storage is None:
            text = f"the image {image} is on the storage {name}, which {one['pve_node']} does not have"
            self.add(ERROR, "image_missing", text, "Set image to one that the node has", vm=one)
        elif storage is not None and storage.volumes is not None and image not in storage.volumes:
            text = f"{one['pve_node']} has no image {image}"
            self.add(ERROR, "image_missing", text, "Download it there, or set image to one that the node has", vm=one)

    def _bridge(self, one: Definition) -> None:
        bridge = _bridge_of(one)
        known = self.cluster.nodes[one["pve_node"]].bridges
        if bridge is not None and known is not None and bridge not in known:
            text = f"{one['pve_node']} has no bridge {bridge}; it has {', '.join(sorted(known)) or 'none'}"
            self.add(ERROR, "bridge_missing", text, "Set bridge, or make it and apply the network of the node", vm=one)

    def _cores(self, one: Definition) -> None:
        threads = self.cluster.nodes[one["pve_node"]].cpus
        cores = int(one["config"].get("cores", 1)) * int(one["config"].get("sockets", 1))
        if threads is not None and cores > threads:
            text = f"it has {cores} cores, and {one['pve_node']} has {threads}"
            self.add(
                ERROR,
                "cores",
                text,
                "Lower cores; Proxmox VE does not start a machine with more than its node has",
                vm=one,
            )

    # GPUs

    def _cards(self, one: Definition) -> None:
        node = self.cluster.nodes[one["pve_node"]]
        if node.cards is None or not one["mappings"]:
            return
        mine = {address.slot for entry in one["mappings"] if (address := parse_address(entry["path"])) is not None}
        for entry in one["mappings"]:
            address = parse_address(entry["path"])
            if address is None:
                continue
            card = node.cards.get(address)
            if card is None:
                text = f"{one['pve_node']} has no GPU at {address.text}"
                self.add(ERROR, "gpu_missing", text, "Collect the node again and plan again", vm=one)
                continue
            for what, planned, there in (
                ("id", entry["pci_id"], card.pci_id),
                ("subsystem", entry.get("subsystem_id"), card.subsystem_id),
                ("IOMMU group", entry.get("iommu_group"), card.iommu_group),
            ):
                if planned != there and not (what == "IOMMU group" and there is None):
                    text = f"the GPU at {address.text} has the {what} {_shown(there)}, and was planned with {_shown(planned)}"
                    self.add(ERROR, "gpu_changed", text, "Collect the node again and plan again", vm=one)
            if card.iommu_group is None:
                text = f"the GPU at {address.text} is in no IOMMU group, so that it cannot be passed through"
                remedy = "Switch on VT-d or AMD-Vi in the firmware (and intel_iommu=on for an older kernel), and reboot the node"
                self.add(ERROR, "iommu_off", text, remedy, vm=one)
            else:
                self._group(one, card, node, mine)
            self._holders(one, card)

    def _group(self, one: Definition, card: Card, node: Node, mine: set[Address]) -> None:
        for other in (node.cards or {}).values():
            if (
                other.iommu_group == card.iommu_group
                and other.address.slot not in mine
                and not other.pci_class.startswith(_BRIDGE_CLASS)
            ):
                text = (
                    f"IOMMU group {card.iommu_group} of the GPU at {card.address.text} also holds {other.what}, "
                    "which the node would lose when the machine starts"
                )
                self.add(
                    ERROR,
                    "group_shared",
                    text,
                    "Put the GPU into another slot, or switch on ACS in the firmware",
                    vm=one,
                )

    def _holders(self, one: Definition, card: Card) -> None:
        """Who has the GPU now: a machine of others keeps it, one of ours lets it go where it may."""
        planned = {other["vmid"] for other in self.vms}
        mine = next((holder for holder in card.holders if holder.vmid == one["vmid"]), None)
        for holder in card.holders:
            if holder.vmid == one["vmid"]:
                continue
            # A machine that has its GPU already is not kept from running by another one that stands still.
            severity = WARNING if mine is not None and (mine.running or not holder.running) else ERROR
            what = f"{holder.name} (machine {holder.vmid})"
            guest = self.cluster.guests.get(holder.vmid)
            if not holder.certain:
                text = f"{what} takes one GPU of a mapping that the GPU at {card.address.text} is in"
                self.add(WARNING, "gpu_pool", text, "Take the GPU out of that mapping, or starts can fail", vm=one)
            elif not holder.ours or guest is None or not guest.ours:
                state = "runs with" if holder.running else "is configured with"
                text = f"{what}, which is not ours, {state} the GPU at {card.address.text}"
                remedy = (
                    "Take the GPU from that machine, or collect the node again, so that the plan leaves the GPU alone"
                )
                self.add(severity, "gpu_held", text, remedy, vm=one)
            elif guest.own is not None and holder.key not in guest.own and not self.allowed.strict:
                text = f"somebody gave the GPU at {card.address.text} to {what} by hand"
                remedy = f"Remove it there: qm set {holder.vmid} --delete {holder.key}; or set provision_strict"
                self.add(severity, "gpu_held", text, remedy, vm=one)
            elif holder.vmid not in planned and not self.allowed.prune:
                text = f"{what}, which is in no plan any more, has the GPU at {card.address.text}"
                remedy = "Set provision_prune to remove that machine, or take the GPU from it"
                self.add(severity, "gpu_held", text, remedy, vm=one)
            elif holder.running and not self.allowed.stop:
                text = f"the GPU at {card.address.text} comes from {what}, which runs"
                self.add(ERROR, "needs_stop", text, "Shut that machine down, or set provision_allow_stop", vm=one)

    def _is_pruned(self, guest: Guest) -> bool:
        return self.allowed.prune and guest.vmid not in {one["vmid"] for one in self.vms}

    # What differs from the definitions

    def _drift(self, one: Definition) -> None:
        guest = self.cluster.guests.get(one["vmid"])
        if guest is None:
            self.add(INFO, "missing", f"machine {one['vmid']} is not there", "It is made", vm=one)
            return
        if not guest.ours:
            return
        if guest.fingerprint and guest.fingerprint != one["fingerprint"]:
            text = f"it was made from {guest.fingerprint}, and the plan has {one['fingerprint']}"
            self.add(INFO, "stale", text, "Its settings are changed; what needs a restart waits for one", vm=one)
        elif not guest.fingerprint:
            self.add(
                INFO,
                "unknown",
                "it does not say what it was made from",
                "Its settings are made those of the plan",
                vm=one,
            )
        for key in guest.devices:
            if key not in one["config"] and guest.own is not None and key not in guest.own:
                if self.allowed.strict:
                    self.add(INFO, "external_device", f"{key} was added by somebody else", "It is removed", vm=one)
                else:
                    text = f"{key} was added by somebody else and stays"
                    remedy = f"Remove it with: qm set {guest.vmid} --delete {key}; or set provision_strict"
                    self.add(WARNING, "external_device", text, remedy, vm=one)
        for entry in one["mappings"]:
            there = [other for other in self.cluster.mappings.get(entry["id"], ()) if other["node"] == entry["node"]]
            if there and not any(_says_the_same(entry, other) for other in there):
                text = f"the mapping {entry['id']} does not say what the GPU is now"
                self.add(INFO, "mapping_stale", text, "It is corrected", vm=one)
            elif not there:
                self.add(
                    INFO,
                    "mapping_missing",
                    f"there is no mapping {entry['id']} for {entry['node']}",
                    "It is made",
                    vm=one,
                )

    def _doubled(self) -> None:
        """A machine that was cloned by hand has the mark too, and nothing tells whether its owner still wants it."""
        by_name: dict[str, list[Guest]] = {}
        for guest in self.cluster.guests.values():
            if guest.ours:
                by_name.setdefault(guest.name, []).append(guest)
        for name, guests in by_name.items():
            if len(guests) > 1:
                numbers = " and ".join(str(guest.vmid) for guest in guests)
                text = f"machines {numbers} both carry the mark of {name}"
                remedy = "Take the mark out of the description of the one that was cloned, or remove that machine"
                self.add(ERROR, "doubled", text, remedy, node=guests[0].node)

    def _orphans(self) -> None:
        planned = {one["vmid"] for one in self.vms}
        for guest in self.cluster.guests.values():
            if not guest.ours or guest.vmid in planned:
                continue
            text = f"{guest.name} (machine {guest.vmid} on {guest.node}) carries our mark and is in no plan"
            if not self.allowed.prune:
                remedy = "Set provision_prune to remove it with its disks, or take the mark out of its description to keep it"
                self.add(WARNING, "orphan", text, remedy, node=guest.node)
            elif guest.running and not self.allowed.stop:
                remedy = "Shut it down, or set provision_allow_stop"
                self.add(ERROR, "needs_stop", f"{text}, and it runs", remedy, node=guest.node)
            else:
                self.add(INFO, "orphan", text, "It is removed with its disks", node=guest.node)

    # Room

    def _storage(self, node: str, name: str) -> Storage | None:
        there = self.cluster.nodes.get(node)
        return there.storages.get(name) if there is not None and there.storages is not None else None

    def _storages(self, vms: Sequence[Definition]) -> None:
        asked: dict[tuple[str, str], float] = {}
        users: dict[tuple[str, str], list[Definition]] = {}
        for one in vms:
            node = self.cluster.nodes[one["pve_node"]]
            if node.storages is None:
                continue
            for name in _storages_of(one):
                storage = node.storages.get(name)
                if storage is None:
                    have = ", ".join(sorted(node.storages)) or "none"
                    text = f"{one['pve_node']} has no storage {name}; it has {have}"
                    self.add(ERROR, "storage_missing", text, "Set storage, or give the node that storage", vm=one)
                elif not storage.active:
                    text = f"the storage {name} of {one['pve_node']} is not active"
                    self.add(ERROR, "storage_inactive", text, "Mend it in Proxmox VE and run again", vm=one)
                elif "images" not in storage.content:
                    text = f"the storage {name} takes no disks of machines (content {', '.join(storage.content) or 'none'})"
                    self.add(
                        ERROR,
                        "storage_content",
                        text,
                        "Set storage to another one, or allow the content images there",
                        vm=one,
                    )
            if one["vmid"] not in self.cluster.guests:
                for name, size in _disks_of(one):
                    storage = node.storages.get(name)
                    if storage is not None:
                        key = ("" if storage.shared else one["pve_node"], name)
                        asked[key] = asked.get(key, 0) + size
                        users.setdefault(key, []).append(one)
        for key, size in sorted(asked.items()):
            first = users[key][0]
            storage = self._storage(first["pve_node"], key[1])
            if storage is None or storage.free_gb is None or size <= storage.free_gb:
                continue
            thin = storage.kind in _THIN
            count = len({one["name"] for one in users[key]})
            what = f"the new disks of {count} machines on {key[1]} have {size:g} GB together"
            text = f"{what}, and {storage.free_gb:.0f} GB are free"
            remedy = "It fills up when they are all written to" if thin else "Make room, or lower disk_gb"
            self.add(WARNING if thin else ERROR, "storage_full", text, remedy, node=first["node"])

    def _memory(self, vms: Sequence[Definition]) -> None:
        for name, node in sorted(self.cluster.nodes.items()):
            ours = [one for one in vms if one["pve_node"] == name]
            if not ours or node.memory_mib is None:
                continue
            planned = {one["vmid"] for one in ours}
            others = [
                guest
                for guest in self.cluster.guests.values()
                if guest.node == name
                and guest.running
                and guest.vmid not in planned
                and not (guest.ours and self._is_pruned(guest))
            ]
            wanted = sum(int(one["config"]["memory"]) for one in ours if one["start"] or self._runs(one))
            used = sum(guest.memory_mib or 0 for guest in others)
            if wanted + used + _LEAST_MIB > node.memory_mib:
                beside = f", {len(others)} other running guests {used} MiB" if others else ""
                asked = f"its machines have {wanted} MiB together{beside}, the node itself needs {_LEAST_MIB} MiB"
                text = f"{asked}, and it has {node.memory_mib} MiB"
                remedy = "Stop or shrink other guests, or lower memory in the catalog and plan again"
                severity = ERROR if wanted + used > node.memory_mib else WARNING
                self.add(severity, "memory", text, remedy, node=ours[0]["node"])

    def _runs(self, one: Definition) -> bool:
        guest = self.cluster.guests.get(one["vmid"])
        return guest is not None and guest.running


def _shown(value: t.Any) -> str:
    return "none" if value is None else str(value)


def _bridge_of(one: Definition) -> str | None:
    match = re.search(r"(?:^|,)bridge=([^,]+)", str(one["config"].get("net0", "")))
    return match[1] if match else None


def _disks_of(one: Definition) -> Iterable[tuple[str, float]]:
    """Storage and size in GB of each disk that is made."""
    for key, value in one["config"].items():
        match = re.match(r"([A-Za-z][A-Za-z0-9._-]*):([0-9.]+)(?:,|$)", str(value))
        if match and re.fullmatch(r"(?:scsi|virtio|sata|ide)\d+|efidisk0|tpmstate0", key):
            yield match[1], float(match[2]) if key[-1].isdigit() and not key.startswith(("efi", "tpm")) else 0.0


def _storages_of(one: Definition) -> list[str]:
    names = {name for name, _size in _disks_of(one)}
    cloud = re.match(r"([A-Za-z][A-Za-z0-9._-]*):cloudinit(?:,|$)", str(one["config"].get("ide2", "")))
    return sorted(names | ({cloud[1]} if cloud else set()))


def _says_the_same(entry: Mapping[str, t.Any], other: Mapping[str, t.Any]) -> bool:
    return all(entry.get(key) == other.get(key) for key in ("path", "pci_id", "subsystem_id", "iommu_group"))
