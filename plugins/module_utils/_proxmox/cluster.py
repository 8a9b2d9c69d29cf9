# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What a Proxmox VE cluster has, read for a look before anything is changed. A node that is away costs only its own part."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.client import Pve, PveError, join
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.pci import (
    Card,
    Device,
    GuestDevices,
    entry_from_text,
    full_address,
    read_cards,
    read_guest_devices,
    read_guests,
    read_mappings,
)
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.vm import TAG

_MIB = 1024**2
_GIB = 1024**3


def read_nodes(api: Pve) -> t.List[t.Dict[str, t.Any]]:
    """The nodes of the cluster and whether they are there."""
    answer = api.get("/nodes")
    nodes = [item for item in answer if isinstance(item, dict) and item.get("node")] if isinstance(answer, list) else []
    return [
        {
            "node": str(item["node"]),
            "status": str(item.get("status", "unknown")),
            "cpus": _whole(item.get("maxcpu")),
            "memory_mib": _whole(item.get("maxmem"), _MIB),
            "error": None if item.get("status") == "online" else f"PVE says that it is {item.get('status', 'unknown')}",
        }
        for item in sorted(nodes, key=lambda item: str(item["node"]))
    ]


def _whole(value: t.Any, unit: int = 1) -> t.Optional[int]:
    return int(value) // unit if isinstance(value, (int, float)) and value else None


def _gib(value: t.Any) -> t.Optional[float]:
    return round(float(value) / _GIB, 3) if isinstance(value, (int, float)) else None


def _chosen(nodes: t.List[t.Dict[str, t.Any]], names: t.Sequence[str]) -> t.List[t.Dict[str, t.Any]]:
    """The nodes that were asked for; one that the cluster does not have is reported and not left out."""
    if not names:
        return nodes
    known = {node["node"]: node for node in nodes}
    missing = {"status": "missing", "cpus": None, "memory_mib": None, "error": "the cluster has no node of this name"}
    return [known.get(name, {"node": name, **missing}) for name in dict.fromkeys(names)]


def _guest_plain(guest: t.Mapping[str, t.Any]) -> t.Dict[str, t.Any]:
    return {
        "vmid": int(guest["vmid"]),
        "kind": str(guest.get("type", "qemu")),
        "name": guest.get("name"),
        "node": guest.get("node"),
        "status": guest.get("status"),
        "lock": guest.get("lock"),
        "template": str(guest.get("template", 0)) == "1",
        "tags": sorted(tag for tag in re.split(r"[;, ]", str(guest.get("tags") or "")) if tag),
        "memory_mib": _whole(guest.get("maxmem"), _MIB),
        "mark": None,
        "hostpci": None,
    }


def _devices_plain(found: GuestDevices) -> t.Dict[str, t.Any]:
    own = None if found.own is None else list(found.own)
    mark = None if found.mark_vm is None else {"vm": found.mark_vm, "fingerprint": found.fingerprint, "own": own}
    devices = [
        {
            "key": device.key,
            "value": device.now,
            "pending": None if device.now == device.later else device.later or "(removed)",
        }
        for device in found.devices
    ]
    return {"mark": mark, "hostpci": devices}


def read_cluster(
    api: Pve,
    *,
    nodes: t.Sequence[str] = (),
    vmids: t.Sequence[int] = (),
    content: t.Sequence[str] = (),
) -> t.Dict[str, t.Any]:
    """Nodes, storages, bridges, VMs, mappings, own privileges and version.

    :param vmids: Numbers whose VMs are looked into although they do not carry the collection's tag.
    :param content: Kinds of content that are listed for each storage that may hold them.
    """
    warnings: t.List[str] = []
    version = api.get("/version")
    privileges = api.get("/access/permissions")
    chosen = _chosen(read_nodes(api), nodes)
    guests = []
    for guest in read_guests(api):
        plain = _guest_plain(guest)
        if plain["kind"] == "qemu" and (TAG in plain["tags"] or not plain["name"] or plain["vmid"] in vmids):
            try:
                found = read_guest_devices(api, guest)
            except PveError as exc:
                warnings.append(f"VM {plain['vmid']} on {plain['node']} could not be read: {exc}")
            else:
                plain.update(_devices_plain(found), name=plain["name"] or found.name)
        guests.append(plain)
    storages: t.List[t.Dict[str, t.Any]] = []
    bridges: t.List[t.Dict[str, t.Any]] = []
    for node in chosen:
        if node["error"] is not None:
            continue
        try:
            storages.extend(_read_storages(api, node["node"], content))
            bridges.extend(_read_bridges(api, node["node"]))
        except PveError as exc:
            node["error"] = str(exc)
    return {
        "version": str(version.get("version")) if isinstance(version, dict) else None,
        "nodes": chosen,
        "unreachable": [node["node"] for node in chosen if node["error"] is not None],
        "storages": storages,
        "bridges": bridges,
        "vms": guests,
        "mappings": mappings_plain(read_mappings(api)),
        "privileges": {
            str(path): sorted(str(name) for name, given in found.items() if given)
            for path, found in sorted(privileges.items())
            if isinstance(found, dict)
        }
        if isinstance(privileges, dict)
        else {},
        "warnings": warnings,
    }


def mappings_plain(mappings: t.Mapping[str, t.Mapping[str, t.Any]]) -> t.List[t.Dict[str, t.Any]]:
    """Mappings with the parts of their entries by our names."""
    plain = []
    for name, mapping in sorted(mappings.items()):
        entries = []
        for text in mapping["map"]:
            parts = entry_from_text(text)
            group = parts.get("iommugroup", "")
            entries.append(
                {
                    "node": parts.get("node"),
                    "path": parts.get("path"),
                    "pci_id": parts.get("id"),
                    "subsystem_id": parts.get("subsystem-id"),
                    "iommu_group": int(group) if re.match(r"\d+\Z", group) else None,
                }
            )
        plain.append({"id": name, "description": mapping.get("description"), "entries": entries})
    return plain


def _read_storages(api: Pve, node: str, content: t.Sequence[str]) -> t.List[t.Dict[str, t.Any]]:
    answer = api.get(join("nodes", node, "storage"))
    storages = []
    for item in answer if isinstance(answer, list) else []:
        kinds = sorted(part for part in str(item.get("content", "")).split(",") if part)
        volumes: t.Optional[t.List[t.Dict[str, t.Any]]] = None
        active = str(item.get("active", 1)) == "1" and str(item.get("enabled", 1)) == "1"
        for kind in content:
            if active and kind in kinds:
                volumes = (volumes or []) + _read_content(api, node, str(item.get("storage")), kind)
        storages.append(
            {
                "node": node,
                "storage": item.get("storage"),
                "type": item.get("type"),
                "content": kinds,
                "shared": str(item.get("shared", 0)) == "1",
                "active": active,
                "total_gib": _gib(item.get("total")),
                "free_gib": _gib(item.get("avail")),
                "volumes": volumes,
            }
        )
    return sorted(storages, key=lambda item: str(item["storage"]))


def _read_content(api: Pve, node: str, storage: str, kind: str) -> t.List[t.Dict[str, t.Any]]:
    answer = api.get(join("nodes", node, "storage", storage, "content"), content=kind)
    return [
        {"volid": str(item["volid"]), "content": kind, "size_gib": _gib(item.get("size")), "vmid": item.get("vmid")}
        for item in (answer if isinstance(answer, list) else [])
        if isinstance(item, dict) and item.get("volid")
    ]


def _read_bridges(api: Pve, node: str) -> t.List[t.Dict[str, t.Any]]:
    answer = api.get(join("nodes", node, "network"), type="any_bridge")
    found = [
        {"node": node, "bridge": str(item["iface"]), "active": str(item.get("active", 0)) == "1"}
        for item in (answer if isinstance(answer, list) else [])
        if isinstance(item, dict) and item.get("iface")
    ]
    return sorted(found, key=lambda item: str(item["bridge"]))


def read_pci(api: Pve, *, nodes: t.Sequence[str] = (), gpus_only: bool = True) -> t.Dict[str, t.Any]:
    """The GPUs of nodes, with what shares their IOMMU group, the mappings that name them and the VMs that hold them."""
    warnings: t.List[str] = []
    chosen = _chosen(read_nodes(api), nodes)
    mappings = read_mappings(api)
    hardware: t.Dict[str, t.List[Card]] = {}
    for node in chosen:
        if node["error"] is None:
            try:
                hardware[node["node"]] = read_cards(api, node["node"])
            except PveError as exc:
                node["error"] = str(exc)
    holders = []
    for guest in read_guests(api):
        if guest.get("type", "qemu") == "qemu" and guest.get("node") in hardware:
            try:
                holders.append(read_guest_devices(api, guest))
            except PveError as exc:
                warnings.append(
                    f"VM {guest['vmid']} on {guest['node']} could not be read, so it is not known what it holds: {exc}"
                )
    cards = [
        _card_plain(card, hardware[node], mappings, holders)
        for node in sorted(hardware)
        for card in hardware[node]
        if card.is_gpu or not gpus_only
    ]
    return {
        "devices": cards,
        "nodes": [{key: node[key] for key in ("node", "status", "error")} for node in chosen],
        "unreachable": [node["node"] for node in chosen if node["error"] is not None],
        "mappings": mappings_plain(mappings),
        "warnings": warnings,
    }


def _card_plain(
    card: Card,
    others: t.Sequence[Card],
    mappings: t.Mapping[str, t.Mapping[str, t.Any]],
    guests: t.Sequence[GuestDevices],
) -> t.Dict[str, t.Any]:
    names = {}
    for name, mapping in mappings.items():
        paths = [
            part
            for text in mapping["map"]
            for entry in [entry_from_text(text)]
            if entry.get("node") == card.node
            for part in entry.get("path", "").split(";")
        ]
        if any(_names_card(part, card) for part in paths):
            names[name] = len([text for text in mapping["map"] if entry_from_text(text).get("node") == card.node])
    holders = [
        holder
        for guest in guests
        if guest.node == card.node
        for device in guest.devices
        for holder in [_holder(card, names, guest, device)]
        if holder is not None
    ]
    return {
        "node": card.node,
        "address": card.address,
        "class": card.pci_class,
        "pci_id": card.pci_id,
        "subsystem_id": card.subsystem_id,
        "vendor_name": card.vendor_name,
        "device_name": card.device_name,
        "gpu": card.is_gpu,
        "mdev": card.mdev,
        "iommu_group": card.iommu_group,
        "group_members": [
            {
                "address": other.address,
                "class": other.pci_class,
                "pci_id": other.pci_id,
                "device_name": other.device_name,
            }
            for other in others
            if card.iommu_group is not None and other.iommu_group == card.iommu_group and other.address != card.address
        ],
        "mappings": sorted(names),
        "holders": holders,
    }


def _names_card(path: str, card: Card) -> bool:
    address = full_address(path) or ""
    return address in (card.address, card.address.rsplit(".", 1)[0])


def _holder(
    card: Card, names: t.Mapping[str, int], guest: GuestDevices, device: Device
) -> t.Optional[t.Dict[str, t.Any]]:
    by_mapping = sorted(device.names() & set(names))
    by_address = any(_names_card(address, card) for address in device.addresses())
    if not by_mapping and not by_address:
        return None
    mapping = by_mapping[0] if by_mapping else None
    return {
        "vmid": guest.vmid,
        "name": guest.name,
        "running": guest.running,
        "key": device.key,
        "mapping": mapping,
        # A mapping with several GPUs of a node gives the VM any of them.
        "certain": mapping is None or names[mapping] == 1,
        "now": guest.running and device.now is not None,
        "later": device.later is not None,
        "ours": guest.mark_vm is not None,
    }
