# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The state of a cluster, from what the modules for Proxmox VE found."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.names import parse_address

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ansible_collections.knaster.inventory.plugins.module_utils._pci import Address

_MAKING = frozenset(("create", "clone"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A guest that has a GPU in its configuration."""

    vmid: int
    name: str
    running: bool
    ours: bool
    key: str
    certain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A PCI device of a node."""

    address: Address
    pci_class: str
    pci_id: str
    subsystem_id: str | None
    iommu_group: int | None
    what: str
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
    """A VM or container; ``name`` is that of the mark where it is ours."""

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


@dataclass(slots=True, kw_only=True)
class Node:
    """A node; None is what could not be asked."""

    online: bool
    error: str | None = None
    cpus: int | None = None
    memory_mib: int | None = None
    bridges: frozenset[str] | None = None
    storages: dict[str, Storage] | None = None
    cards: dict[Address, Card] | None = None


@dataclass(slots=True, kw_only=True)
class Cluster:
    """A cluster; ``error`` says why nothing is known of it."""

    name: str
    error: str | None = None
    identity: str = ""
    nodes: dict[str, Node] = field(default_factory=dict)
    guests: dict[int, Guest] = field(default_factory=dict)
    mappings: dict[str, list[dict[str, t.Any]]] = field(default_factory=dict)
    privileges: dict[str, frozenset[str]] | None = None
    warnings: tuple[str, ...] = ()

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
            zones = [given for other, given in (self.privileges or {}).items() if other.startswith("/sdn/zones/")]
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
    for one in answer.get("vms", ()):
        guest = _guest(one)
        cluster.guests[guest.vmid] = guest
    for one in answer.get("mappings", ()):
        cluster.mappings[str(one["id"])] = [dict(entry) for entry in one.get("entries", ())]
    for one in cards.get("nodes", ()):
        node = cluster.nodes.get(str(one["node"]))
        if node is not None and one.get("error") is None:
            node.cards = {}
    for one in cards.get("devices", ()):
        card = _card(one)
        node = cluster.nodes.get(str(one["node"]))
        if node is not None and node.cards is not None and card is not None:
            node.cards[card.address] = card
    given = answer.get("privileges")
    cluster.privileges = {str(path): frozenset(names) for path, names in given.items()} if given else None
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
        devices=tuple(str(device["key"]) for device in one.get("hostpci") or ()),
        own=frozenset(str(key) for key in mark["own"]) if mark.get("own") is not None else None,
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
        holders=tuple(
            Holder(
                vmid=int(holder["vmid"]),
                name=str(holder.get("name") or "without a name"),
                running=bool(holder.get("running")),
                ours=bool(holder.get("ours")),
                key=str(holder.get("key")),
                certain=bool(holder.get("certain")),
            )
            for holder in one.get("holders", ())
        ),
    )
