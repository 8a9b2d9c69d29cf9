# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What would fail, and what is not as the plan has it, found in definitions and clusters before anything is changed."""

from __future__ import annotations

import re
import typing as t
from collections import Counter
from dataclasses import dataclass, field

from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.formats import numa_problems, root_only_keys
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.properties import (
    is_drive,
    parse_drive,
    parse_option,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.findings import (
    ERROR,
    WARNING,
    Finding,
    make_finding,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.names import parse_address
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.orphans import (
    Orphan,
    Orphans,
    find_orphans,
    lost_with,
)
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
STORAGE_PRIVILEGES = ("Datastore.AllocateSpace",)

# Storages on which a new disk takes only what is written to it: their room is a hint, and no limit.
_THIN = frozenset(("lvmthin", "rbd", "zfspool", "cephfs"))
_BRIDGE_CLASS = "06"
# How many parts of a path are the place where a privilege is given for all of its kind.
_ROOTS = {"sdn": 4, "mapping": 3}
# What a node itself needs at the very least; the plan keeps more of it free.
_LEAST_MIB = 2048

Definition = dict[str, t.Any]


def find_problems(
    vms: Sequence[Definition],
    clusters: Mapping[str, Cluster],
    *,
    allowed: Allowed | None = None,
    orphans: Orphans | None = None,
    last: Mapping[tuple[str, int], str] | None = None,
) -> list[Finding]:
    """Return what a comparison of definitions with the state of their clusters finds, the worst first.

    :param clusters: the state of each cluster by its name; one that is missing was not asked
    :param orphans: VMs of ours that are in no plan; without it they are found, and what is wanted is not known
    :param last: names of VMs of the last definitions by cluster and number
    """
    allowed = allowed or Allowed()
    orphans = orphans or find_orphans(vms, clusters, allowed=allowed)
    found: list[Finding] = [*(one.finding() for one in orphans.found), *orphans.refusals]
    by_cluster: dict[str, list[Definition]] = {name: [] for name in clusters}
    for one in vms:
        by_cluster.setdefault(one["cluster"], []).append(one)
    for name, there in by_cluster.items():
        if name in clusters:
            found += _Check(clusters[name], there, allowed, orphans.of(name), last or {}).run()
        else:
            for node, count in Counter(one["node"] for one in there).items():
                place = {"cluster": name, "node": node}
                found.append(make_finding("cluster_unknown", place=place, vms=plural(count, "VM")))
    return sorted(found, key=Finding.order)


@dataclass(slots=True)
class _Check:
    """The checks of one cluster."""

    cluster: Cluster
    vms: list[Definition]
    allowed: Allowed
    orphans: Mapping[int, Orphan]
    last: Mapping[tuple[str, int], str]
    found: list[Finding] = field(default_factory=list)

    def run(self) -> list[Finding]:
        if self.cluster.error is not None:
            self.add("cluster_unreachable", "", error=self.cluster.error)
            return self.found
        reachable = self._reachable()
        self._privileges(reachable)
        for one in reachable:
            self._number(one)
            self._pool(one)
            self._source(one)
            self._bridges(one)
            self._snippets(one)
            self._start(one)
            self._cards(one)
            self._cores(one)
            self._drift(one)
        self._storages(reachable)
        self._room(reachable)
        self._memory(reachable)
        self._doubled()
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
                key = "node_offline" if node.is_away else "node_unreadable"
                self.add(key, there[0]["node"], count=len(there), error=node.error)
        return [one for one in self.vms if self.cluster.is_online(one["pve_node"])]

    # Privileges

    def _privileges(self, vms: Sequence[Definition]) -> None:
        if self.cluster.privileges is None:
            return
        asked: dict[str, set[str]] = {}
        # What is given on a pool counts for the VMs in it.
        pools = {f"/vms/{one['vmid']}": one["pool"] for one in vms if "pool" in one}
        for path, names in (pair for one in vms for pair in self._needed(one)):
            asked.setdefault(path, set()).update(names)
        lacking: dict[str, tuple[set[str], list[str]]] = {}
        for path, wanted in asked.items():
            missing = self.cluster.lacking(path, wanted)
            if missing and path in pools:
                missing &= self.cluster.lacking(f"/pool/{pools[path]}", wanted)
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
        yield "/", ("Sys.Audit",)
        for entry in one["mappings"]:
            yield f"/mapping/pci/{entry['id']}", ("Mapping.Use",)
            yield "/mapping/pci", ("Mapping.Modify",)
        if "pool" in one:
            yield f"/pool/{one['pool']}", ("Pool.Audit",)
        for kind, name in _other_mappings_of(one):
            yield f"/mapping/{kind}/{name}", ("Mapping.Use",)
        for storage in _storages_of(one):
            yield f"/storage/{storage}", STORAGE_PRIVILEGES
        for bridge in _bridges_of(one):
            yield f"/sdn/zones/localnetwork/{bridge}", ("SDN.Use",)
        image = str((one.get("source") or {}).get("image") or "").partition(":")[0]
        either = {"Datastore.Audit", "Datastore.AllocateSpace"}
        if image and not image.startswith("/") and self.cluster.lacking(f"/storage/{image}", either) == either:
            yield f"/storage/{image}", ("Datastore.Audit",)
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
            facts = {"vmid": one["vmid"], "kind": guest.kind, "name": name, "node": guest.node, "owner": guest.owner}
            was_ours = not guest.marked and self.last.get((self.cluster.name, one["vmid"])) == one["name"]
            key = "vmid_taken.mark" if was_ours else "vmid_taken"
            self.add(key, one, line=one["config"].get("description"), **facts)
        elif guest is not None and guest.ours and guest.node != one["pve_node"]:
            key = "wrong_node"
            if self.allowed.recreate:
                key = "needs_stop.moved" if guest.running and not self.allowed.stop else "recreated"
                key = "wrong_node.ha" if guest.ha else key
            facts = {"vmid": one["vmid"], "there": guest.node, "planned": one["pve_node"], "along": lost_with(guest)}
            self.add(key, one, **facts)
        for other in self.cluster.guests.values():
            if other.name == one["name"] and other.vmid != one["vmid"] and not other.ours:
                self.add("name_taken", one, kind=other.kind, vmid=other.vmid, node=other.node, owner=other.owner)

    def _pool(self, one: Definition) -> None:
        pool = one.get("pool")
        if pool is None or one["vmid"] in self.cluster.guests or pool in self.cluster.pools:
            return
        if self.cluster.privileges is None or not self.cluster.lacking(f"/pool/{pool}", ("Pool.Audit",)):
            self.add("pool_missing", one, pool=pool, known=", ".join(sorted(self.cluster.pools)) or "none")

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

    def _is_hidden(self, storage: str) -> bool:
        """Return whether a storage is not shown because the user may not use it; that is told as a privilege."""
        either = {"Datastore.Audit", "Datastore.AllocateSpace"}
        return self.cluster.privileges is not None and self.cluster.lacking(f"/storage/{storage}", either) == either

    def _image(self, one: Definition, image: str) -> None:
        storages = self._node(one).storages
        name = image.partition(":")[0]
        volumes = storages[name].volumes if storages and name in storages else None
        if image.startswith("/"):
            if not self.cluster.is_root:
                self.add("image_path", one, image=image)
        elif storages is not None and name not in storages and not self._is_hidden(name):
            self.add("image_missing.storage", one, image=image, storage=name, node=one["pve_node"])
        elif volumes is not None and image not in volumes:
            self.add("image_missing", one, image=image, node=one["pve_node"])

    def _bridges(self, one: Definition) -> None:
        known = self._node(one).bridges
        for bridge in _bridges_of(one) if known is not None else ():
            # One that the user may not use is not shown; that is told as a privilege.
            hidden = self.cluster.privileges is not None and self.cluster.lacking(
                f"/sdn/zones/localnetwork/{bridge}", ("SDN.Use",)
            )
            if bridge not in (known or ()) and not hidden:
                names = ", ".join(sorted(known or ())) or "none"
                self.add("bridge_missing", one, node=one["pve_node"], bridge=bridge, known=names)

    def _snippets(self, one: Definition) -> None:
        """Files of cloud-init that the VM names: Proxmox VE only looks for them when it starts."""
        storages = self._node(one).storages or {}
        for image in parse_option("cicustom", str(one["config"].get("cicustom", ""))).values():
            name = image.partition(":")[0]
            storage = storages.get(name)
            if storage is None and storages and not self._is_hidden(name):
                self.add("snippet_missing.storage", one, snippet=image, storage=name, node=one["pve_node"])
            elif storage is not None and "snippets" not in storage.content:
                self.add("snippet_missing.content", one, snippet=image, storage=name)
            elif storage is not None and storage.volumes is not None and image not in storage.volumes:
                self.add("snippet_missing", one, snippet=image, node=one["pve_node"])

    def _start(self, one: Definition) -> None:
        """What Proxmox VE only refuses when the VM starts, in what it will have then."""
        guest = self.cluster.guests.get(one["vmid"])
        template = self.cluster.guests.get((one.get("source") or {}).get("template") or 0)
        base = guest.hardware if guest is not None and guest.ours else template.hardware if template else {}
        given = {str(key): str(text) for key, text in one["config"].items()}
        both = {**base, **given}
        for problem in numa_problems(both):
            self.add("numa", one, problem=problem)
        if guest is None and template is not None and "bios" in given:
            there = base.get("bios", "seabios")
            if given["bios"] != there:
                self.add("template_bios", one, template=template.vmid, there=there, bios=given["bios"])
        if not self.cluster.is_root:
            for key in root_only_keys(given):
                self.add("root_only", one, key=key)

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
        if card.mdev and not is_mdev(one, str(entry["id"])):
            self.add("gpu_mdev", one, gpu=gpu, node=one["pve_node"])
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
            elif guest is None or not guest.ours:
                state = "runs with" if holder.running else "is configured with"
                owner = guest.owner if guest is not None else "is not managed by knaster.inventory"
                self.add("gpu_held.external", one, severity, state=state, owner=owner, **facts)
            elif guest.own is not None and holder.key not in guest.own and not self.allowed.strict:
                self.add("gpu_held.manual", one, severity, vmid=holder.vmid, key=holder.key, **facts)
            elif holder.vmid not in planned and holder.vmid not in self.orphans:
                self.add("gpu_held.stuck", one, **facts)
            elif holder.vmid not in planned and not self.orphans[holder.vmid].goes:
                key = "gpu_held.kept" if self.allowed.prune else "gpu_held.orphan"
                self.add(key, one, severity, **facts)
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
                vmids = " and ".join(str(one.vmid) for one in guests)
                self.add("doubled", {"name": name, "node": guests[0].node}, vmids=vmids, name=name)

    # Room

    def _storages(self, vms: Sequence[Definition]) -> None:
        for one in vms:
            known = self._node(one).storages
            for name in _storages_of(one) if known is not None else ():
                storage = (known or {}).get(name)
                facts = {"storage": name, "node": one["pve_node"]}
                if storage is None and self._is_hidden(name):
                    continue
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
            here = {one["vmid"] for one in ours}
            others = [
                guest.memory_mib
                for guest in self.cluster.guests.values()
                if guest.node == name
                and guest.running
                and guest.vmid not in here
                # What is removed first takes no memory then.
                and not (guest.vmid in self.orphans and self.orphans[guest.vmid].goes)
            ]
            running = {guest.vmid for guest in self.cluster.guests.values() if guest.running}
            asked = sum(int(one["config"]["memory"]) for one in ours if one["start"] or one["vmid"] in running)
            used = asked + sum(others)
            if used + _LEAST_MIB > node.memory_mib:
                beside = f", {plural(len(others), 'other running guest')} {sum(others)} MiB" if others else ""
                facts = {"reserve": _LEAST_MIB, "total": node.memory_mib}
                severity = ERROR if used > node.memory_mib else WARNING
                self.add("memory", ours[0]["node"], severity, asked=asked, others=beside, **facts)


def is_mdev(one: Definition, mapping: str) -> bool:
    """Return whether a VM takes a part of the GPU of a mapping, a mediated device."""
    options = [parse_option(key, str(text)) for key, text in one["config"].items() if key.startswith("hostpci")]
    return any(option.get("mapping") == mapping and "mdev" in option for option in options)


def _shown(value: t.Any) -> str:
    return "none" if value is None else str(value)


def _bridges_of(one: Definition) -> list[str]:
    """The bridges of all its networks."""
    texts = [str(text) for key, text in sorted(one["config"].items()) if re.fullmatch(r"net\d+", key)]
    found = (re.search(r"(?:^|,)bridge=([^,]+)", text) for text in texts)
    return list(dict.fromkeys(match[1] for match in found if match))


def _other_mappings_of(one: Definition) -> Iterable[tuple[str, str]]:
    """Kind and name of each mapping of a USB device or of a directory that it uses."""
    for key, text in one["config"].items():
        if re.fullmatch(r"usb\d+", key) and "mapping" in (parts := parse_option(key, str(text))):
            yield "usb", parts["mapping"]
        if re.fullmatch(r"virtiofs\d+", key):
            yield "dir", parse_option(key, str(text)).get("dirid", "")


def _disks_of(one: Definition) -> Iterable[tuple[str, float]]:
    """Storage and size in GB of each disk that is made."""
    for key, value in one["config"].items():
        match = re.match(r"([A-Za-z][A-Za-z0-9._-]*):([0-9.]+)(?:,|$)", str(value))
        if match and re.fullmatch(r"(?:scsi|virtio|sata|ide)\d+|efidisk0|tpmstate0", key):
            yield match[1], float(match[2]) if key[-1].isdigit() and not key.startswith(("efi", "tpm")) else 0.0


def _storages_of(one: Definition) -> list[str]:
    names = {name for name, _size in _disks_of(one)}
    drives = [parse_drive(str(text)) for key, text in one["config"].items() if is_drive(key)]
    return sorted(names | {drive.storage for drive in drives if drive.is_cloudinit and drive.storage})


def _says_the_same(entry: Mapping[str, t.Any], other: Mapping[str, t.Any]) -> bool:
    return all(entry.get(key) == other.get(key) for key in ("path", "pci_id", "subsystem_id", "iommu_group"))
