# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Who has a GPU: a VM or a container by its configuration, running or not, or a process of the host.

Three answers are kept apart: somebody has it, nobody has it, and nobody could be asked.
"""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._gather.answers import Output, find_output
from ansible_collections.knaster.inventory.plugins.module_utils._parsers import (
    nvidia_smi_processes,
    pve_guests,
)
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError

if t.TYPE_CHECKING:
    from ansible_collections.knaster.inventory.plugins.module_utils._parsers.sysfs_pci import Device
    from ansible_collections.knaster.inventory.plugins.module_utils._pci import Address

# What a statement of the user, the cluster's files and the tool are called as sources.
_DECLARED, _PVE, _NVIDIA_SMI = "declared", "pve", "nvidia-smi"
# How the script's listing ends where /etc/pve has no configurations.
_NO_CLUSTER_FILES = 3

_Holder = t.Dict[str, t.Any]


class Holders:
    """What is known of the holders of one node's GPUs."""

    def __init__(
        self, outputs: t.Mapping[str, Output], devices: t.Optional[t.Sequence[Device]], notes: t.List[str]
    ) -> None:
        self._guests = _guests(outputs, notes)
        self._processes = _processes(outputs, notes)
        # A part of a GPU that a guest has is a GPU that nobody else can have whole.
        self._parts = [(device.physfn, device.address) for device in devices or () if device.physfn]
        # On a host of VMs nobody is nobody only where all of them could be read.
        self._is_pve = "pve_guests" in outputs

    def add(self, gpu: t.Dict[str, t.Any], address: t.Optional[Address], declared: t.Mapping[str, t.Any]) -> None:
        """Set the GPU's ``holder`` where it is known, None for nobody, and its source."""
        found = self._find(gpu, address, declared)
        if found is None and not self._is_nobody(gpu):
            return
        sources = gpu.pop("sources")
        gpu["holder"], gpu["sources"] = None, sources
        if found is not None:
            gpu["holder"], sources["holder"] = found

    def _find(
        self, gpu: t.Mapping[str, t.Any], address: t.Optional[Address], declared: t.Mapping[str, t.Any]
    ) -> t.Optional[t.Tuple[_Holder, str]]:
        stated = declared.get("holder")
        if stated:
            known = {key: stated.get(key) for key in ("kind", "id", "name")}
            return {**known, "ours": bool(stated.get("ours"))}, _DECLARED
        places = [address, *(part for whole, part in self._parts if whole == address)] if address else []
        guests = self._guests.guests if self._guests else ()
        having = [guest for guest in guests if any(guest.has(place) for place in places)]
        if having:
            # Several may be configured with one GPU. One that is not ours keeps it from us.
            guest = min(having, key=lambda guest: guest.ours)
            return {"kind": guest.kind, "id": guest.id, "name": guest.name, "ours": guest.ours}, _PVE
        for process in self._processes or ():
            if process.uuid == gpu.get("uuid"):
                return {"kind": "host", "id": process.pid, "name": process.name, "ours": False}, _NVIDIA_SMI
        return None

    def _is_nobody(self, gpu: t.Mapping[str, t.Any]) -> bool:
        if self._is_pve:
            return self._guests is not None and self._guests.whole
        is_seen = (gpu.get("pci") or {}).get("driver", "nvidia") == "nvidia" and gpu.get("vendor") == "nvidia"
        return is_seen and gpu.get("uuid") is not None and self._processes is not None


def _guests(outputs: t.Mapping[str, Output], notes: t.List[str]) -> t.Optional[pve_guests.Guests]:
    guests, why = None, None
    try:
        output = find_output(outputs, "pve_guests", "/etc/pve")
        if output.rc == _NO_CLUSTER_FILES:
            why = "/etc/pve is empty: the cluster file system does not run"
        else:
            hostname = outputs["hostname"].stdout.strip() if "hostname" in outputs else ""
            guests = pve_guests.parse(output.stdout, node=hostname.partition(".")[0] or None)
    except ParseError as exc:
        why = None if exc.code in ("not_asked", "absent") else str(exc)
    if guests is not None and guests.unreadable:
        files = "1 file" if guests.unreadable == 1 else f"{guests.unreadable} files"
        why = f"{files} of /etc/pve can be read by root only"
    elif guests is not None and not guests.whole:
        why = "the list of VMs was cut short"
    if why is not None:
        notes.append(f"gpu holders: not all known ({why})")
    for guest in guests.guests if guests else ():
        notes.extend(
            f"gpu holders: {guest.kind} {guest.id} takes any GPU of the mapping {name}; all of them count as held"
            for name in guest.choices
        )
    return guests


def _processes(outputs: t.Mapping[str, Output], notes: t.List[str]) -> t.Optional[t.List[nvidia_smi_processes.Process]]:
    try:
        output = find_output(outputs, "nvidia_smi_processes", _NVIDIA_SMI)
        return nvidia_smi_processes.parse(output.stdout, stderr=output.stderr, rc=output.rc)
    except ParseError as exc:
        if exc.code not in ("not_asked", "absent"):
            notes.append(f"gpu holders: processes not known ({exc})")
    return None
