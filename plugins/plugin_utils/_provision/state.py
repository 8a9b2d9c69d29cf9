# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The state of a cluster, from what the modules for Proxmox VE found."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.mark import parse_mapping_mark
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.names import parse_address

if t.TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ansible_collections.knaster.inventory.plugins.module_utils._pci import Address

_MAKING = frozenset(("create", "clone"))
# What stands for a device that goes with the next start.
_REMOVED = "(removed)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A guest that has a GPU in its configuration."""

    vmid: int
    name: str
    running: bool
    ours: bool
    key: str
    certain: bool
    later: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A PCI device of a node."""

    address: Address
    pci_class: str
    pci_id: str
    subsystem_id: str | None
    iommu_group: int | None
    what: str
    mdev: bool = False
    holders: tuple[Holder, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """A storage as a node sees it; ``volumes`` is None where they were not listed."""

    kind: str
    content: tuple[str, ...]
    shared: bool
    active: bool
    free_gb: float | None
    volumes: frozenset[str] | None
    owners: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """A VM or container; ``name`` is that of the mark where it has one.

    ``fleet`` is that of the mark, empty where the mark names none. ``ha`` is the state that high availability is to keep it
    in, empty where it does not look after it; ``ha`` and ``jobs`` are None where they could not be read.
    """

    vmid: int
    kind: str
    name: str
    node: str
    running: bool
    template: bool
    memory_mib: int
    ours: bool
    fingerprint: str = ""
    making: bool = False
    devices: tuple[str, ...] = ()
    own: frozenset[str] | None = None
    marked: bool = False
    fleet: str = ""
    lock: str = ""
    ha: str | None = ""
    jobs: tuple[str, ...] | None = ()
    hardware: Mapping[str, str] = field(default_factory=dict)

    @property
    def owner(self) -> str:
        """Whose it is, in words."""
        return f"belongs to the fleet {self.fleet}" if self.fleet else "is not managed by knaster.inventory"


@dataclass(slots=True, kw_only=True)
class Node:
    """A node; None is what could not be asked. It is away where Proxmox VE itself says so."""

    online: bool
    error: str | None = None
    is_away: bool = False
    cpus: int | None = None
    memory_mib: int | None = None
    bridges: frozenset[str] | None = None
    storages: dict[str, Storage] | None = None
    cards: dict[Address, Card] | None = None


@dataclass(slots=True, kw_only=True)
class Cluster:
    """A cluster; ``error`` says why nothing is known of it.

    ``makers`` are the fleets that made its mappings, and ``parted`` the mappings that hand out parts of GPUs. ``pools`` are
    those that the user may see.
    """

    name: str
    error: str | None = None
    identity: str = ""
    nodes: dict[str, Node] = field(default_factory=dict)
    guests: dict[int, Guest] = field(default_factory=dict)
    mappings: dict[str, list[dict[str, t.Any]]] = field(default_factory=dict)
    makers: dict[str, str | None] = field(default_factory=dict)
    parted: set[str] = field(default_factory=set)
    pools: frozenset[str] = frozenset()
    privileges: dict[str, frozenset[str]] | None = None
    warnings: tuple[str, ...] = ()

    def claim(self, fleet: str, known: Collection[tuple[int, str]]) -> None:
        """Find out which of the VMs with a mark are ours: those of our fleet, and those without one that are known.

        :param known: number and name of the VMs that the file of definitions has
        """
        for vmid, guest in self.guests.items():
            ours = guest.fleet == fleet if guest.fleet else (vmid, guest.name) in known
            self.guests[vmid] = replace(guest, ours=guest.marked and ours)

    @property
    def is_root(self) -> bool:
        """Whether the user may set what Proxmox VE keeps for root; no token is root."""
        return self.identity == "the user root@pam"

    def is_online(self, node: str) -> bool:
        """Return whether a node of this cluster answers."""
        found = self.nodes.get(node)
        return found is not None and found.online

    def privileges_at(self, path: str) -> frozenset[str]:
        """Return what the user may on a path: what is said of the nearest path above it."""
        given = self.privileges or {}
        while path not in given and path not in ("", "/"):
            path = path.rpartition("/")[0] or "/"
        return given.get(path, frozenset())

    def lacking(self, path: str, names: Iterable[str]) -> set[str]:
        """Return those of some privileges that the user does not have on a path."""
        have = self.privileges_at(path)
        if path.startswith("/sdn/zones/localnetwork/"):
            # A virtual network lies in a zone of its own, which its name does not tell.
            bridge = path.rpartition("/")[2]
            zones = [given for other, given in (self.privileges or {}).items() if _is_zone_of(other, bridge)]
            have = have.union(*zones)
        return set() if "*" in have else set(names) - have

    def taken(self) -> Iterable[dict[str, t.Any]]:
        """Yield its guests as ``vm_definitions`` takes them."""
        for guest in self.guests.values():
            if not guest.making:
                yield {"vmid": guest.vmid, "name": guest.name, "cluster": self.name, "ours": guest.ours}

    def mapping_list(self) -> Iterable[dict[str, t.Any]]:
        """Yield the entries of its mappings as ``vm_definitions`` takes them."""
        for name, entries in self.mappings.items():
            for entry in entries:
                yield {"cluster": self.name, "id": name, "node": entry.get("node"), "path": entry.get("path")}


def _is_zone_of(path: str, bridge: str) -> bool:
    parts = path.split("/")[1:]
    return parts[:2] == ["sdn", "zones"] and parts[2:3] != ["localnetwork"] and parts[3:] in ([], [bridge])


def read_state(name: str, answer: Mapping[str, t.Any], cards: Mapping[str, t.Any], *, identity: str = "") -> Cluster:
    """Return the state of a cluster from what ``proxmox_cluster_info`` and ``proxmox_pci_info`` returned."""
    if answer.get("failed") or cards.get("failed") or "nodes" not in answer:
        failed = answer if answer.get("failed") or "nodes" not in answer else cards
        return Cluster(name=name, error=str(failed.get("msg") or "it was not asked"))
    cluster = Cluster(name=name, identity=identity, warnings=(*answer.get("warnings", ()), *cards.get("warnings", ())))
    for one in answer["nodes"]:
        online = one.get("error") is None
        cluster.nodes[str(one["node"])] = Node(
            online=online,
            error=one.get("error"),
            is_away=one.get("status") != "online",
            cpus=one.get("cpus"),
            memory_mib=one.get("memory_mib"),
            storages={} if online else None,
            bridges=frozenset(
                str(bridge["bridge"]) for bridge in answer.get("bridges", ()) if bridge["node"] == one["node"]
            )
            if online
            else None,
        )
    for one in answer.get("storages", ()):
        node = cluster.nodes.get(str(one["node"]))
        if node is not None and node.storages is not None:
            node.storages[str(one["storage"])] = _storage(one)
    # Whoever lost its tag is still known by the mark that was seen when it was looked for GPUs.
    seen = {one.get("vmid"): one for one in cards.get("guests", ())}
    for one in answer.get("vms", ()):
        guest = _guest(one if one.get("mark") else {**one, **seen.get(one.get("vmid"), {})})
        cluster.guests[guest.vmid] = guest
    for one in answer.get("mappings", ()):
        cluster.mappings[str(one["id"])] = [dict(entry) for entry in one.get("entries", ())]
        if one.get("mdev"):
            cluster.parted.add(str(one["id"]))
        cluster.makers[str(one["id"])] = parse_mapping_mark(one.get("description"))
    for one in cards.get("nodes", ()):
        node = cluster.nodes.get(str(one["node"]))
        if node is not None and one.get("error") is None:
            node.cards = {}
    for one in cards.get("devices", ()):
        card = _card(one)
        node = cluster.nodes.get(str(one["node"]))
        if node is not None and node.cards is not None and card is not None:
            node.cards[card.address] = card
    cluster.pools = frozenset(str(name) for name in answer.get("pools", ()))
    given = answer.get("privileges")
    cluster.privileges = None if given is None else {str(path): frozenset(names) for path, names in given.items()}
    return cluster


def _storage(one: Mapping[str, t.Any]) -> Storage:
    volumes = one.get("volumes")
    return Storage(
        kind=str(one.get("type") or ""),
        content=tuple(str(kind) for kind in one.get("content", ())),
        shared=bool(one.get("shared")),
        active=bool(one.get("active")),
        free_gb=one.get("free_gib"),
        volumes=None if volumes is None else frozenset(str(volume["volid"]) for volume in volumes),
        owners=frozenset(int(volume["vmid"]) for volume in volumes or () if volume.get("vmid") is not None),
    )


def _guest(one: Mapping[str, t.Any]) -> Guest:
    mark = one.get("mark") or {}
    return Guest(
        vmid=int(one["vmid"]),
        kind="container" if one.get("kind") == "lxc" else "VM",
        name=str(mark.get("vm") or one.get("name") or ""),
        node=str(one.get("node") or ""),
        running=one.get("status") == "running",
        template=bool(one.get("template")),
        memory_mib=one.get("memory_mib") or 0,
        ours=bool(mark),
        fingerprint=str(mark.get("fingerprint") or ""),
        making=not mark and one.get("lock") in _MAKING,
        devices=tuple(str(device["key"]) for device in one.get("hostpci") or () if device.get("pending") != _REMOVED),
        own=frozenset(str(key) for key in mark["own"]) if mark.get("own") is not None else None,
        marked=bool(mark),
        fleet=str(mark.get("fleet") or ""),
        lock=str(one.get("lock") or ""),
        ha=one.get("ha", ""),
        jobs=None if one.get("jobs", ()) is None else tuple(str(job) for job in one.get("jobs", ())),
        hardware={str(key): str(value) for key, value in (one.get("hardware") or {}).items()},
    )


def _card(one: Mapping[str, t.Any]) -> Card | None:
    address = parse_address(one.get("address"))
    if address is None:
        return None
    name = one.get("device_name") or one.get("pci_id")
    return Card(
        address=address,
        pci_class=str(one.get("class") or ""),
        pci_id=str(one.get("pci_id")),
        subsystem_id=one.get("subsystem_id"),
        iommu_group=one.get("iommu_group"),
        what=f"{address.text} ({name})",
        mdev=bool(one.get("mdev")),
        holders=tuple(
            Holder(
                vmid=int(holder["vmid"]),
                name=str(holder.get("name") or "without a name"),
                running=bool(holder.get("running")),
                ours=bool(holder.get("ours")),
                key=str(holder.get("key")),
                certain=bool(holder.get("certain")),
                later=bool(holder.get("later", True)),
            )
            for holder in one.get("holders", ())
        ),
    )
