# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What a Proxmox VE cluster has, read for a look before anything is changed. A node that is away costs only its own part."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._pci import parse_addresses
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.client import Pve, PveError, join
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.guests import (
    Guest,
    GuestDevices,
    PassedDevice,
    is_vm,
    parse_tag_list,
    read_guest_devices,
    read_guests,
)
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.hardware import PciDevice, read_devices
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.mappings import parse_entry, read_mappings
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.mark import TAG, Mark

# What a start and a removal depend on.
_HARDWARE = re.compile(
    r"(?:ide|sata|scsi|virtio|net|numa)\d+\Z|(?:bios|boot|cores|efidisk0|hotplug|machine|memory|numa|protection|sockets|tpmstate0|vcpus)\Z"
)
_MIB = 1024**2
_GIB = 1024**3


def read_nodes(api: Pve) -> t.List[t.Dict[str, t.Any]]:
    """Return the nodes of the cluster, and why one cannot be asked."""
    nodes = [row for row in api.rows("/nodes") if row.get("node")]
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
    """Return the nodes that were asked for; one that the cluster does not have is reported and not left out."""
    if not names:
        return nodes
    known = {node["node"]: node for node in nodes}
    missing = {"status": "missing", "cpus": None, "memory_mib": None, "error": "the cluster has no node of this name"}
    return [known.get(name, {"node": name, **missing}) for name in dict.fromkeys(names)]


def _guest_plain(guest: Guest) -> t.Dict[str, t.Any]:
    return {
        "vmid": int(guest["vmid"]),
        "kind": str(guest.get("type", "qemu")),
        "name": guest.get("name"),
        "node": guest.get("node"),
        "status": guest.get("status"),
        "lock": guest.get("lock"),
        "template": str(guest.get("template", 0)) == "1",
        "tags": parse_tag_list(guest),
        "memory_mib": _whole(guest.get("maxmem"), _MIB),
        "mark": None,
        "hostpci": None,
        "hardware": None,
        "ha": None,
        "jobs": [],
    }


def mark_plain(mark: t.Optional[Mark]) -> t.Optional[t.Dict[str, t.Any]]:
    """Return a mark as data."""
    if mark is None:
        return None
    own = None if mark.own is None else list(mark.own)
    return {"vm": mark.vm, "fleet": mark.fleet or None, "fingerprint": mark.fingerprint, "own": own}


def _devices_plain(found: GuestDevices) -> t.Dict[str, t.Any]:
    devices = [
        {
            "key": device.key,
            "value": device.now,
            "pending": None if device.now == device.later else device.later or "(removed)",
        }
        for device in found.devices
    ]
    hardware = {key: text for key, text in sorted(found.config.items()) if _HARDWARE.match(key)}
    return {"mark": mark_plain(found.mark), "hostpci": devices, "hardware": hardware}


def read_cluster(
    api: Pve,
    *,
    nodes: t.Sequence[str] = (),
    vmids: t.Sequence[int] = (),
    content: t.Sequence[str] = (),
) -> t.Dict[str, t.Any]:
    """Return nodes, storages, bridges, VMs, mappings, own privileges and version.

    :param vmids: numbers whose VMs are looked into although they do not carry the collection's tag
    :param content: kinds of content that are listed for each storage that may hold them
    """
    warnings: t.List[str] = []
    version = api.get("/version")
    privileges = api.get("/access/permissions")
    chosen = _chosen(read_nodes(api), nodes)
    resources, jobs = _read_ha(api, warnings), _read_jobs(api, warnings)
    guests = []
    for guest in read_guests(api):
        plain = _guest_plain(guest)
        if resources is not None:
            plain["ha"] = resources.get(plain["vmid"], "")
        plain["jobs"] = None if jobs is None else jobs.get(plain["vmid"], [])
        looked_for = TAG in plain["tags"] or not plain["name"] or plain["template"] or plain["vmid"] in vmids
        if is_vm(guest) and looked_for:
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
            storages.extend(_read_storages(api, node["node"], content, warnings))
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
        "pools": sorted(str(row["poolid"]) for row in api.rows("/pools") if row.get("poolid")),
        "privileges": {
            str(path): sorted(str(name) for name, given in found.items() if given)
            for path, found in sorted(privileges.items())
            if isinstance(found, dict)
        }
        if isinstance(privileges, dict)
        else None,
        "warnings": warnings,
    }


def mappings_plain(mappings: t.Mapping[str, t.Mapping[str, t.Any]]) -> t.List[t.Dict[str, t.Any]]:
    """Return mappings with the parts of their entries by our names."""
    plain = []
    for name, mapping in sorted(mappings.items()):
        entries = []
        for text in mapping["map"]:
            parts = parse_entry(text)
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
        mdev = str(mapping.get("mdev", 0)) == "1"
        plain.append({"id": name, "description": mapping.get("description"), "mdev": mdev, "entries": entries})
    return plain


def _read_ha(api: Pve, warnings: t.List[str]) -> t.Optional[t.Dict[int, str]]:
    """Return the wished state of each VM that high availability looks after, None where that cannot be read."""
    try:
        rows = api.rows("/cluster/ha/resources")
    except PveError as exc:
        warnings.append(f"It is not known which VMs high availability looks after: {exc}")
        return None
    found = {}
    for row in rows:
        match = re.match(r"vm:(\d+)\Z", str(row.get("sid", "")))
        if match:
            found[int(match.group(1))] = str(row.get("state") or "started")
    return found


def _read_jobs(api: Pve, warnings: t.List[str]) -> t.Optional[t.Dict[int, t.List[str]]]:
    """Return the jobs for backup and replication that name each VM, as words, None where they cannot be read."""
    found: t.Dict[int, t.List[str]] = {}
    try:
        for row in api.rows("/cluster/backup"):
            for vmid in re.findall(r"\d+", str(row.get("vmid") or "")):
                found.setdefault(int(vmid), []).append(f"backup {row.get('id')}")
        for row in api.rows("/cluster/replication"):
            if re.match(r"\d+\Z", str(row.get("guest", ""))):
                found.setdefault(int(str(row["guest"])), []).append(f"replication {row.get('id')}")
    except PveError as exc:
        warnings.append(f"It is not known which jobs name which VMs: {exc}")
        return None
    return found


def _read_storages(api: Pve, node: str, content: t.Sequence[str], warnings: t.List[str]) -> t.List[t.Dict[str, t.Any]]:
    storages = []
    for item in api.rows(join("nodes", node, "storage")):
        kinds = sorted(part for part in str(item.get("content", "")).split(",") if part)
        volumes: t.Optional[t.List[t.Dict[str, t.Any]]] = None
        active = str(item.get("active", 1)) == "1" and str(item.get("enabled", 1)) == "1"
        try:
            for kind in content:
                if active and kind in kinds:
                    volumes = (volumes or []) + _read_content(api, node, str(item.get("storage")), kind)
        except PveError as exc:
            # One storage that does not answer says nothing about the node.
            volumes = None
            warnings.append(f"The storage {item.get('storage')} of {node} could not be listed: {exc}")
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
    return [
        {"volid": str(item["volid"]), "content": kind, "size_gib": _gib(item.get("size")), "vmid": item.get("vmid")}
        for item in api.rows(join("nodes", node, "storage", storage, "content"), content=kind)
        if item.get("volid")
    ]


def _read_bridges(api: Pve, node: str) -> t.List[t.Dict[str, t.Any]]:
    found = [
        {"node": node, "bridge": str(item["iface"]), "active": str(item.get("active", 0)) == "1"}
        for item in api.rows(join("nodes", node, "network"), type="any_bridge")
        if item.get("iface")
    ]
    return sorted(found, key=lambda item: str(item["bridge"]))


def read_pci(api: Pve, *, nodes: t.Sequence[str] = (), gpus_only: bool = True) -> t.Dict[str, t.Any]:
    """Return the GPUs of nodes, with what shares their IOMMU group, the mappings that name them and the VMs that hold them."""
    warnings: t.List[str] = []
    chosen = _chosen(read_nodes(api), nodes)
    mappings = read_mappings(api)
    hardware: t.Dict[str, t.List[PciDevice]] = {}
    for node in chosen:
        if node["error"] is None:
            try:
                hardware[node["node"]] = read_devices(api, node["node"])
            except PveError as exc:
                node["error"] = str(exc)
    guests = []
    for guest in read_guests(api):
        if is_vm(guest) and guest.get("node") in hardware:
            try:
                guests.append(read_guest_devices(api, guest))
            except PveError as exc:
                warnings.append(
                    f"VM {guest['vmid']} on {guest['node']} could not be read, so it is not known what it holds: {exc}"
                )
    return {
        "devices": [
            _device_plain(device, hardware[node], mappings, guests)
            for node in sorted(hardware)
            for device in hardware[node]
            if device.is_gpu or not gpus_only
        ],
        "guests": [
            {"vmid": guest.vmid, "node": guest.node, **_devices_plain(guest)}
            for guest in guests
            if guest.mark is not None
        ],
        "nodes": [{key: node[key] for key in ("node", "status", "error")} for node in chosen],
        "unreachable": [node["node"] for node in chosen if node["error"] is not None],
        "mappings": mappings_plain(mappings),
        "warnings": warnings,
    }


def _device_plain(
    device: PciDevice,
    others: t.Sequence[PciDevice],
    mappings: t.Mapping[str, t.Mapping[str, t.Any]],
    guests: t.Sequence[GuestDevices],
) -> t.Dict[str, t.Any]:
    names = {}
    for name, mapping in mappings.items():
        entries = [entry for entry in map(parse_entry, mapping["map"]) if entry.get("node") == device.node]
        addresses = [address for entry in entries for address in parse_addresses(entry.get("path", ""))]
        if any(address.covers(device.address) for address in addresses):
            names[name] = len(entries)
    holders = [
        _holder(device, names, guest, passed)
        for guest in guests
        if guest.node == device.node
        for passed in guest.devices
    ]
    in_group = [other for other in others if device.iommu_group is not None and other.iommu_group == device.iommu_group]
    return {
        "node": device.node,
        "address": device.address.text,
        "class": device.pci_class,
        "pci_id": device.pci_id,
        "subsystem_id": device.subsystem_id,
        "vendor_name": device.vendor_name,
        "device_name": device.device_name,
        "gpu": device.is_gpu,
        "mdev": device.mdev,
        "iommu_group": device.iommu_group,
        "group_members": [
            {
                "address": other.address.text,
                "class": other.pci_class,
                "pci_id": other.pci_id,
                "device_name": other.device_name,
            }
            for other in in_group
            if other.address != device.address
        ],
        "mappings": sorted(names),
        "holders": [holder for holder in holders if holder is not None],
    }


def _holder(
    device: PciDevice, names: t.Mapping[str, int], guest: GuestDevices, passed: PassedDevice
) -> t.Optional[t.Dict[str, t.Any]]:
    by_mapping = sorted(passed.mappings & set(names))
    if not by_mapping and not any(address.covers(device.address) for address in passed.addresses):
        return None
    mapping = by_mapping[0] if by_mapping else None
    return {
        "vmid": guest.vmid,
        "name": guest.name,
        "running": guest.running,
        "key": passed.key,
        "mapping": mapping,
        # A mapping with several GPUs of a node gives the VM any of them.
        "certain": mapping is None or names[mapping] == 1,
        "now": guest.running and passed.now is not None,
        "later": passed.later is not None,
        "ours": guest.mark is not None,
    }
