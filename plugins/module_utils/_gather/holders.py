# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Who has a GPU: a virtual machine or a container by its configuration, running or not, or a process of the host.

Three answers are kept apart: somebody has it, nobody has it, and nobody could be asked.
"""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._parsers import (
    nvidia_smi_processes,
    pve_guests,
)
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError

if t.TYPE_CHECKING:
    from ansible_collections.knaster.inventory.plugins.module_utils._gather.script import Output
    from ansible_collections.knaster.inventory.plugins.module_utils._parsers.sysfs_pci import Device

KINDS = ("vm", "container", "host")
# What a statement of the user, the cluster's files and the tool are called as sources.
_DECLARED, _PVE, _NVIDIA_SMI = "declared", "pve", "nvidia-smi"

Holder = t.Dict[str, t.Any]


class Holders:
    """What is known of the holders of one node's GPUs."""

    def __init__(
        self, outputs: t.Mapping[str, Output], devices: t.Optional[t.Sequence[Device]], notes: t.List[str]
    ) -> None:
        self._guests = _guests(outputs, notes)
        self._processes = _processes(outputs, notes)
        # A part of a GPU that a guest has is a GPU that nobody else can have whole.
        self._parts: t.Dict[str, t.List[str]] = {}
        for device in devices or ():
            if device.physfn:
                self._parts.setdefault(device.physfn, []).append(device.address)
        # On a host of virtual machines nobody is nobody only where all of them could be read.
        self._is_pve = "pve_guests" in outputs

    def add(self, gpu: t.Dict[str, t.Any], declared: t.Mapping[str, t.Any]) -> None:
        """Set the GPU's ``holder`` where it is known, None for nobody, and its source."""
        told = declared.get("holder")
        source: t.Optional[str] = _DECLARED
        if told:
            holder: t.Optional[Holder] = _stated(told)
        else:
            holder, source = self._find(gpu)
            if holder is None and not self._is_nobody(gpu):
                return
        sources = gpu.pop("sources")
        if holder is not None and source:
            sources["holder"] = source
        gpu["holder"] = holder
        gpu["sources"] = sources

    def _find(self, gpu: t.Mapping[str, t.Any]) -> t.Tuple[t.Optional[Holder], t.Optional[str]]:
        address = (gpu.get("pci") or {}).get("address") or ""
        places = [address, *self._parts.get(address, ())]
        guests = [
            guest
            for guest in (self._guests.guests if self._guests else ())
            if any(guest.has(place) for place in places if place)
        ]
        if guests:
            # Several may be configured with one GPU. One that is not ours keeps it from us.
            guest = min(guests, key=lambda guest: guest.ours)
            return {"kind": guest.kind, "id": guest.id, "name": guest.name, "ours": guest.ours}, _PVE
        for process in self._processes or ():
            if process.uuid == gpu.get("uuid"):
                return {"kind": "host", "id": process.pid, "name": process.name, "ours": False}, _NVIDIA_SMI
        return None, None

    def _is_nobody(self, gpu: t.Mapping[str, t.Any]) -> bool:
        if self._is_pve:
            return self._guests is not None and self._guests.whole
        is_seen = (gpu.get("pci") or {}).get("driver", "nvidia") == "nvidia" and gpu.get("vendor") == "nvidia"
        return is_seen and gpu.get("uuid") is not None and self._processes is not None


def _stated(told: t.Mapping[str, t.Any]) -> Holder:
    return {"kind": told.get("kind"), "id": told.get("id"), "name": told.get("name"), "ours": bool(told.get("ours"))}


def _guests(outputs: t.Mapping[str, Output], notes: t.List[str]) -> t.Optional[pve_guests.Guests]:
    output = outputs.get("pve_guests")
    if output is None or output.status == "absent":
        return None
    why = None
    guests = None
    if output.status in ("timeout", "stuck"):
        why = "/etc/pve did not answer in time"
    elif output.rc == 3:
        why = "/etc/pve is empty: the cluster file system does not run"
    else:
        hostname = outputs["hostname"].stdout.strip() if "hostname" in outputs else ""
        try:
            guests = pve_guests.parse(output.stdout, node=hostname.partition(".")[0] or None)
        except ParseError as exc:
            why = str(exc)
        if guests is not None and guests.unreadable:
            files = "1 file" if guests.unreadable == 1 else f"{guests.unreadable} files"
            why = f"{files} of /etc/pve can be read by root only"
        elif guests is not None and not guests.whole:
            why = "the list of virtual machines was cut short"
    if why is not None:
        notes.append(f"gpu holders: not all known ({why})")
    for guest in guests.guests if guests else ():
        notes.extend(
            f"gpu holders: {guest.kind} {guest.id} takes any GPU of the mapping {name}; all of them count as held"
            for name in guest.choices
        )
    return guests


def _processes(outputs: t.Mapping[str, Output], notes: t.List[str]) -> t.Optional[t.List[nvidia_smi_processes.Process]]:
    output = outputs.get("nvidia_smi_processes")
    if output is None or output.status == "absent":
        return None
    why = "did not answer in time"
    if output.status not in ("timeout", "stuck"):
        try:
            return nvidia_smi_processes.parse(output.stdout, stderr=output.stderr, rc=output.rc)
        except ParseError as exc:
            why = str(exc).partition(": ")[2]
    notes.append(f"gpu holders: processes not known (nvidia-smi: {why})")
    return None
