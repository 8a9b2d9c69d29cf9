# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The VMs and containers of a Proxmox VE cluster, and the devices that VMs have."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.module_utils._pci import Address, parse_addresses
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.client import Pve, PveError, join
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.mark import Mark, parse_mark
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.properties import natural, parse_option

Guest = t.Mapping[str, t.Any]


@dataclass(frozen=True)
class PassedDevice:
    """One hostpci entry of a VM: what it is now, and what it will be after the next start."""

    key: str
    now: t.Optional[str]
    later: t.Optional[str]

    @property
    def mappings(self) -> t.Set[str]:
        """Return the mappings that it names."""
        return {options["mapping"] for options in self._options() if options.get("mapping")}

    @property
    def addresses(self) -> t.Set[Address]:
        """Return the addresses that it names itself, without a mapping."""
        return {address for options in self._options() for address in parse_addresses(options.get("host", ""))}

    def _options(self) -> t.List[t.Dict[str, str]]:
        return [parse_option(self.key, text) for text in (self.now, self.later) if text]


@dataclass(frozen=True)
class GuestDevices:
    """The passed-through devices of one VM, the mark of the collection that it carries, and its whole configuration.

    ``config`` is what it has after its next start.
    """

    vmid: int
    name: t.Optional[str]
    node: str
    running: bool
    devices: t.Tuple[PassedDevice, ...]
    mark: t.Optional[Mark]
    config: t.Mapping[str, str]


def read_guests(api: Pve) -> t.List[Guest]:
    """Return the VMs and containers of the cluster, by number. PVE may lag with all but number, kind and node."""
    guests = [guest for guest in api.rows("/cluster/resources", type="vm") if "vmid" in guest]
    return sorted(guests, key=lambda guest: int(guest["vmid"]))


def is_vm(guest: Guest) -> bool:
    """Return whether a guest is a VM."""
    return bool(guest.get("type", "qemu") == "qemu")


def parse_tag_list(guest: Guest) -> t.List[str]:
    """Return the tags of a guest, sorted."""
    return sorted(tag for tag in re.split(r"[;, ]", str(guest.get("tags") or "")) if tag)


def read_guest_devices(api: Pve, guest: Guest) -> GuestDevices:
    """Return what a VM has and will have, in one call."""
    now: t.Dict[str, str] = {}
    later: t.Dict[str, str] = {}
    for item in api.rows(join("nodes", str(guest["node"]), "qemu", int(guest["vmid"]), "pending")):
        key = str(item.get("key", ""))
        if "value" in item:
            now[key] = later[key] = str(item["value"])
        if "pending" in item:
            later[key] = str(item["pending"])
        if item.get("delete"):
            later.pop(key, None)
    keys = sorted((key for key in {**now, **later} if re.match(r"hostpci\d+\Z", key)), key=natural)
    return GuestDevices(
        vmid=int(guest["vmid"]),
        name=later.get("name"),
        node=str(guest["node"]),
        running=guest.get("status") == "running",
        devices=tuple(PassedDevice(key, now.get(key), later.get(key)) for key in keys),
        mark=parse_mark(later.get("description", "")),
        config=later,
    )


def mapping_users(api: Pve, mapping: str, nodes: t.Optional[t.AbstractSet[str]] = None) -> t.List[str]:
    """Return the VMs whose configuration names a mapping, as words; those of the given nodes, where some are given."""
    users = []
    for guest in read_guests(api):
        if not is_vm(guest) or (nodes is not None and guest.get("node") not in nodes):
            continue
        try:
            found = read_guest_devices(api, guest)
        except PveError as exc:
            if exc.is_missing:
                continue  # removed since it was listed
            raise
        if any(mapping in device.mappings for device in found.devices):
            users.append(f"VM {found.vmid} ({found.name or 'without name'}) on {found.node}")
    return users
