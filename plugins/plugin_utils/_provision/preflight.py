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

from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.findings import (
    ERROR,
    WARNING,
    Finding,
    make_finding,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.names import parse_address
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.settings import Allowed
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import natural_key, plural

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.module_utils._pci import Address
    from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.state import (
        Card,
        Cluster,
        Guest,
        Node,
    )

# What a VM's options ask of whoever sets them.
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


def find_problems(
    vms: Sequence[Definition], clusters: Mapping[str, Cluster], *, allowed: Allowed | None = None
) -> list[Finding]:
    """Return what a comparison of definitions with the state of their clusters finds, the worst first.

    :param clusters: the state of each cluster by its name; one that is missing was not asked
    """
    found: list[Finding] = []
    by_cluster: dict[str, list[Definition]] = {name: [] for name in clusters}
    for one in vms:
        by_cluster.setdefault(one["cluster"], []).append(one)
    for name, there in by_cluster.items():
        if name in clusters:
            found += _Check(clusters[name], there, allowed or Allowed()).run()
        else:
            place = {"cluster": name, "node": there[0]["node"]}
            found.append(make_finding("cluster_unknown", place=place, vms=plural(len(there), "VM")))
    return sorted(found, key=Finding.order)


@dataclass(slots=True)
class _Check:
    """The checks of one cluster."""

    cluster: Cluster
    vms: list[Definition]
    allowed: Allowed
    found: list[Finding] = field(default_factory=list)

    def run(self) -> list[Finding]:
        if self.cluster.error is not None:
            self.add("cluster_unreachable", "", error=self.cluster.error)
            return self.found
        reachable = self._reachable()
        self._privileges(reachable)
        for one in reachable:
            self._number(one)
            self._source(one)
            self._bridge(one)
            self._cards(one)
            self._cores(one)
            self._drift(one)
        self._storages(reachable)
        self._room(reachable)
        self._memory(reachable)
        self._doubled()
        self._orphans()
        return self.found

    def add(self, finding: str, about: Definition | str, severity: str | None = None, /, **facts: object) -> None:
        """Add a finding about a VM, or about a node."""
        place = {"vm": about["name"], "node": about["node"]} if isinstance(about, dict) else {"node": about}
        place["cluster"] = self.cluster.name
        self.found.append(make_finding(finding, severity=severity, place=place, **facts))

    def _node(self, one: Definition) -> Node:
        return self.cluster.nodes[one["pve_node"]]

    def _reachable(self) -> list[Definition]:
        """The VMs whose nodes answer."""
        by_node: dict[str, list[Definition]] = {}
        for one in self.vms:
            by_node.setdefault(one["pve_node"], []).append(one)
        for name, there in by_node.items():
            node = self.cluster.nodes.get(name)
            if node is None:
                known = ", ".join(sorted(self.cluster.nodes, key=natural_key))
                self.add("node_unknown", there[0]["node"], node=name, known=known)
            elif not node.online:
                self.add("node_offline", there[0]["node"], count=len(there))
        return [one for one in self.vms if self.cluster.is_online(one["pve_node"])]

    # Privileges

    def _privileges(self, vms: Sequence[Definition]) -> None:
        if self.cluster.privileges is None:
            return
        asked: dict[str, set[str]] = {}
        for path, names in (pair for one in vms for pair in self._needed(one)):
            asked.setdefault(path, set()).update(names)
        lacking: dict[str, tuple[set[str], list[str]]] = {}
        for path, wanted in asked.items():
            missing = self.cluster.lacking(path, wanted)
            if missing:
                root = "/".join(path.split("/")[: _ROOTS.get(path.split("/")[1], 2)]) or "/"
                everything, paths = lacking.setdefault(root, (set(), []))
                everything |= missing
                paths.append(path)
        for root, (everything, paths) in sorted(lacking.items()):
            first = max(paths, key=lambda path: (path.count("/"), natural_key(path)))
            where = first if len(paths) == 1 else f"{first} and {len(paths) - 1} more below {root}"
            who = self.cluster.identity or "the user"
            self.add("privileges", "", who=who, names=", ".join(sorted(everything)), where=where, root=root)

    def _needed(self, one: Definition) -> Iterable[tuple[str, Sequence[str]]]:
        """The privileges that a VM asks for, by path."""
        yield f"/vms/{one['vmid']}", VM_PRIVILEGES
        yield f"/nodes/{one['pve_node']}", ("Sys.Audit",)
        for entry in one["mappings"]:
            yield f"/mapping/pci/{entry['id']}", MAPPING_PRIVILEGES
            yield "/mapping/pci", ("Mapping.Modify",)
        for storage in _storages_of(one):
            yield f"/storage/{storage}", STORAGE_PRIVILEGES
        bridge = _bridge_of(one)
        if bridge is not None:
            yield f"/sdn/zones/localnetwork/{bridge}", ("SDN.Use",)
        template = (one.get("source") or {}).get("template")
        if template is not None and one["vmid"] not in self.cluster.guests:
            yield f"/vms/{template}", ("VM.Clone",)
        if "startup" in one["config"]:
            yield "/", ("Sys.Modify",)

    # One VM

    def _number(self, one: Definition) -> None:
        guest = self.cluster.guests.get(one["vmid"])
        if guest is not None and not guest.ours and not guest.making:
            name = guest.name or "without a name"
            self.add("vmid_taken", one, vmid=one["vmid"], kind=guest.kind, name=name, node=guest.node)
        elif guest is not None and guest.ours and guest.node != one["pve_node"]:
            key = "wrong_node"
            if self.allowed.recreate:
                key = "needs_stop.moved" if guest.running and not self.allowed.stop else "recreated"
            self.add(key, one, vmid=one["vmid"], there=guest.node, planned=one["pve_node"])
        for other in self.cluster.guests.values():
            if other.name == one["name"] and other.vmid != one["vmid"] and not other.ours:
                self.add("name_taken", one, kind=other.kind, vmid=other.vmid, node=other.node)

    def _source(self, one: Definition) -> None:
        source = one.get("source") or {}
        if one["vmid"] in self.cluster.guests:
            return
        if not source:
            self.add("no_source", one)
        if "template" in source:
            self._template(one, source["template"])
        if "image" in source:
            self._image(one, str(source["image"]))

    def _template(self, one: Definition, number: int) -> None:
        template = self.cluster.guests.get(number)
        if template is None or not template.template:
            self.add("template_missing" if template is None else "template_missing.vm", one, template=number)
        elif template.node != one["pve_node"]:
            there = self.cluster.nodes.get(template.node)
            local = sorted(
                name
                for name, storage in ((there.storages if there else None) or {}).items()
                if not storage.shared and number in storage.owners
            )
            if local:
                facts = {"there": template.node, "storages": ", ".join(local), "node": one["pve_node"]}
                self.add("template_elsewhere", one, template=number, **facts)

    def _image(self, one: Definition, image: str) -> None:
        storages = self._node(one).storages
        name = image.partition(":")[0]
        volumes = storages[name].volumes if storages and name in storages else None
        if image.startswith("/"):
            if self.cluster.identity != "the user root@pam":
                self.add("image_path", one, image=image)
        elif storages is not None and name not in storages:
            self.add("image_missing.storage", one, image=image, storage=name, node=one["pve_node"])
        elif volumes is not None and image not in volumes:
            self.add("image_missing", one, image=image, node=one["pve_node"])

    def _bridge(self, one: Definition) -> None:
        bridge, known = _bridge_of(one), self._node(one).bridges
        if bridge is not None and known is not None and bridge not in known:
            self.add(
                "bridge_missing", one, node=one["pve_node"], bridge=bridge, known=", ".join(sorted(known)) or "none"
            )

    def _cores(self, one: Definition) -> None:
        threads = self._node(one).cpus
        cores = int(one["config"].get("cores", 1)) * int(one["config"].get("sockets", 1))
        if threads is not None and cores > threads:
            self.add("cores", one, cores=cores, node=one["pve_node"], threads=threads)

    # GPUs

    def _cards(self, one: Definition) -> None:
        cards = self._node(one).cards
        if cards is None:
            return
        mine = {address.slot for entry in one["mappings"] if (address := parse_address(entry["path"])) is not None}
        for entry in one["mappings"]:
            address = parse_address(entry["path"])
            card = cards.get(address) if address is not None else None
            if card is not None:
                self._card(one, entry, card, mine)
            elif address is not None:
                self.add("gpu_missing", one, node=one["pve_node"], gpu=address.text)

    def _card(self, one: Definition, entry: Mapping[str, t.Any], card: Card, mine: set[Address]) -> None:
        gpu = card.address.text
        for what, planned, there in (
            ("id", entry["pci_id"], card.pci_id),
            ("subsystem", entry.get("subsystem_id"), card.subsystem_id),
            ("IOMMU group", entry.get("iommu_group"), card.iommu_group),
        ):
            if planned != there and not (what == "IOMMU group" and there is None):
                self.add("gpu_changed", one, gpu=gpu, what=what, there=_shown(there), planned=_shown(planned))
        if card.iommu_group is None:
            self.add("iommu_off", one, gpu=gpu)
        else:
            for other in (self._node(one).cards or {}).values():
                is_bridge = other.pci_class.startswith(_BRIDGE_CLASS)
                if other.iommu_group == card.iommu_group and other.address.slot not in mine and not is_bridge:
                    self.add("group_shared", one, group=card.iommu_group, gpu=gpu, other=other.what)
        self._holders(one, card)

    def _holders(self, one: Definition, card: Card) -> None:
        """Who has the GPU now: a VM of others keeps it, one of ours lets it go where it may."""
        planned = {other["vmid"] for other in self.vms}
        mine = next((holder for holder in card.holders if holder.vmid == one["vmid"]), None)
        for holder in card.holders:
            if holder.vmid == one["vmid"]:
                continue
            # A VM that has its GPU already is not kept from running by another one that stands still.
            severity = WARNING if mine is not None and (mine.running or not holder.running) else ERROR
            facts = {"holder": f"{holder.name} (VM {holder.vmid})", "gpu": card.address.text}
            guest = self.cluster.guests.get(holder.vmid)
            if not holder.certain:
                self.add("gpu_pool", one, **facts)
            elif not holder.ours or guest is None or not guest.ours:
                state = "runs with" if holder.running else "is configured with"
                self.add("gpu_held.external", one, severity, state=state, **facts)
            elif guest.own is not None and holder.key not in guest.own and not self.allowed.strict:
                self.add("gpu_held.manual", one, severity, vmid=holder.vmid, key=holder.key, **facts)
            elif holder.vmid not in planned and not self.allowed.prune:
                self.add("gpu_held.orphan", one, severity, **facts)
            elif holder.running and not self.allowed.stop:
                self.add("needs_stop.holder", one, **facts)

    # What differs from the definitions

    def _drift(self, one: Definition) -> None:
        guest = self.cluster.guests.get(one["vmid"])
        if guest is None:
            self.add("missing", one, vmid=one["vmid"])
            return
        if not guest.ours:
            return
        if not guest.fingerprint:
            self.add("unknown", one)
        elif guest.fingerprint != one["fingerprint"]:
            self.add("stale", one, there=guest.fingerprint, planned=one["fingerprint"])
        for key in guest.devices:
            if key not in one["config"] and guest.own is not None and key not in guest.own:
                kind = "external_device.strict" if self.allowed.strict else "external_device"
                self.add(kind, one, key=key, vmid=guest.vmid)
        for entry in one["mappings"]:
            there = [other for other in self.cluster.mappings.get(entry["id"], ()) if other["node"] == entry["node"]]
            if not any(_says_the_same(entry, other) for other in there):
                self.add("mapping_stale" if there else "mapping_missing", one, mapping=entry["id"], node=entry["node"])

    def _doubled(self) -> None:
        """A VM that was cloned by hand has the mark too, and nothing tells whether its owner still wants it."""
        by_name: dict[str, list[Guest]] = {}
        for guest in self.cluster.guests.values():
            if guest.ours:
                by_name.setdefault(guest.name, []).append(guest)
        for name, guests in by_name.items():
            if len(guests) > 1:
                self.add("doubled", guests[0].node, vmids=" and ".join(str(one.vmid) for one in guests), name=name)

    def _orphans(self) -> None:
        planned = {one["vmid"] for one in self.vms}
        for guest in self.cluster.guests.values():
            if guest.ours and guest.vmid not in planned:
                key = "orphan"
                if self.allowed.prune:
                    key = "needs_stop.orphan" if guest.running and not self.allowed.stop else "orphan.pruned"
                self.add(key, guest.node, name=guest.name, vmid=guest.vmid, there=guest.node)

    # Room

    def _storages(self, vms: Sequence[Definition]) -> None:
        for one in vms:
            known = self._node(one).storages
            for name in _storages_of(one) if known is not None else ():
                storage = (known or {}).get(name)
                facts = {"storage": name, "node": one["pve_node"]}
                if storage is None:
                    self.add("storage_missing", one, known=", ".join(sorted(known or ())) or "none", **facts)
                elif not storage.active:
                    self.add("storage_inactive", one, **facts)
                elif "images" not in storage.content:
                    self.add("storage_content", one, known=", ".join(storage.content) or "none", **facts)

    def _room(self, vms: Sequence[Definition]) -> None:
        """New disks, all of a storage together."""
        asked: dict[tuple[str, str], list[tuple[Definition, float]]] = {}
        for one in vms:
            for name, size in _disks_of(one) if one["vmid"] not in self.cluster.guests else ():
                storage = (self._node(one).storages or {}).get(name)
                if storage is not None:
                    asked.setdefault(("" if storage.shared else one["pve_node"], name), []).append((one, size))
        for (_node, name), disks in sorted(asked.items()):
            first, size = disks[0][0], sum(size for _one, size in disks)
            storage = (self._node(first).storages or {})[name]
            if storage.free_gb is not None and size > storage.free_gb:
                key = "storage_full.thin" if storage.kind in _THIN else "storage_full"
                count = plural(len({one["name"] for one, _size in disks}), "VM")
                free = f"{storage.free_gb:.0f}"
                self.add(key, first["node"], vms=count, storage=name, asked=f"{size:g}", free=free)

    def _memory(self, vms: Sequence[Definition]) -> None:
        for name, node in sorted(self.cluster.nodes.items()):
            ours = [one for one in vms if one["pve_node"] == name]
            if not ours or node.memory_mib is None:
                continue
            here, planned = ({one["vmid"] for one in vms} for vms in (ours, self.vms))
            others = [
                guest.memory_mib
                for guest in self.cluster.guests.values()
                if guest.node == name
                and guest.running
                and guest.vmid not in here
                # What is removed first takes no memory then.
                and not (guest.ours and self.allowed.prune and guest.vmid not in planned)
            ]
            running = {guest.vmid for guest in self.cluster.guests.values() if guest.running}
            asked = sum(int(one["config"]["memory"]) for one in ours if one["start"] or one["vmid"] in running)
            used = asked + sum(others)
            if used + _LEAST_MIB > node.memory_mib:
                beside = f", {plural(len(others), 'other running guest')} {sum(others)} MiB" if others else ""
                facts = {"reserve": _LEAST_MIB, "total": node.memory_mib}
                severity = ERROR if used > node.memory_mib else WARNING
                self.add("memory", ours[0]["node"], severity, asked=asked, others=beside, **facts)


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
