# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What a node printed becomes its profile: one pure function of text.

Unknown stays ``None``. ``gpus`` is an empty list only where something could look and found none.
"""

from __future__ import annotations

import posixpath
import re
import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._gather.answers import Output, find_output
from ansible_collections.knaster.inventory.plugins.module_utils._gather.join import join_gpus
from ansible_collections.knaster.inventory.plugins.module_utils._parsers import (
    cpuinfo,
    lsblk,
    lscpu,
    meminfo,
    mounts,
)
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError
from ansible_collections.knaster.inventory.plugins.module_utils._weights.judge import (
    judge_weights,
    weights_to_plain,
)
from ansible_collections.knaster.inventory.plugins.module_utils._weights.listing import parse_listing

# What module and action plugin node_facts take.
NODE_ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    "name": {"type": "str"},
    "timeout": {"type": "int", "default": 20},
    "fabrics": {"type": "list", "elements": "str", "default": []},
    "labels": {"type": "dict", "default": {}},
    "state": {"type": "str", "choices": ["ready", "cordoned", "draining"], "default": "ready"},
    "gpus": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "pci": {"type": "str", "required": True},
            "name": {"type": "str"},
            "memory_gb": {"type": "int"},
            "compute_cap": {"type": "str"},
            "healthy": {"type": "bool"},
            "state": {"type": "str", "choices": ["ready", "cordoned"]},
            "holder": {
                "type": "dict",
                "options": {
                    "kind": {"type": "str", "choices": ["vm", "container", "host"], "default": "vm"},
                    "id": {"type": "int"},
                    "name": {"type": "str"},
                    "ours": {"type": "bool", "default": False},
                },
            },
        },
    },
    "reserve_gb": {"type": "float"},
    "weight_dirs": {"type": "list", "elements": "str", "default": []},
    "answer": {"type": "path"},
    "previous": {"type": "dict"},
}

_SECTOR_BYTES = 512
# The available KiB, the share in use and the mount point at the end of a row; the name in front may hold blanks.
_DF_ROW = re.compile(r"\s(\d+)\s+(?:\d+%|-)\s+(/[^\n]*)$")


def profile_from_outputs(
    outputs: t.Mapping[str, Output],
    *,
    name: str | None = None,
    fabrics: t.Sequence[str] = (),
    labels: t.Mapping[str, t.Any] | None = None,
    state: str = "ready",
    reserve_gb: float | None = None,
    gpus: t.Sequence[t.Mapping[str, t.Any]] = (),
    previous: t.Mapping[str, t.Any] | None = None,
) -> dict[str, t.Any]:
    """Return the profile that a node's outputs tell.

    :param outputs: what the gather script printed, by the script's names; any may be absent
    :param name: the node's name; None takes what the node calls itself
    :param reserve_gb: memory that virtual machines leave to the node; None leaves it to placement
    :param gpus: facts about GPUs that a user states, each with ``pci``
    :param previous: the node's last profile
    :returns: plain data, keys in the order of the documentation
    """
    notes: list[str] = []
    hostname = outputs["hostname"].stdout.strip() or None if "hostname" in outputs else None
    cpu = _cpu(outputs, notes)
    memory_gb, memory_mib = _memory(outputs, notes)
    profile: dict[str, t.Any] = {
        "name": name or hostname,
        "hostname": hostname,
        "cpu": cpu,
        "memory_gb": memory_gb,
        "memory_mib": memory_mib,
        "disks": _disks(outputs, notes),
        "gpus": join_gpus(outputs, declared=gpus, previous=(previous or {}).get("gpus"), notes=notes),
        "fabrics": list(fabrics),
        "labels": {str(key): str(value) for key, value in (labels or {}).items()},
        "state": state,
    }
    if reserve_gb is not None:
        profile["reserve_gb"] = reserve_gb
    profile["storage"], profile["weights"] = _storage(outputs, notes)
    profile["notes"] = notes
    return profile


def _cpu(outputs: t.Mapping[str, Output], notes: list[str]) -> dict[str, t.Any]:
    cpu: dict[str, t.Any] = dict.fromkeys(cpuinfo.Cpu._fields)
    errors: list[ParseError] = []
    # /proc/cpuinfo first; lscpu knows names and topology of processors that the kernel describes in numbers only.
    for name, source, parse in (("cpuinfo", "/proc/cpuinfo", cpuinfo.parse), ("lscpu", "lscpu", lscpu.parse)):
        if None not in cpu.values():
            break
        try:
            found = parse(find_output(outputs, name, source).stdout)._asdict()
        except ParseError as exc:
            errors.append(exc)
            continue
        cpu = {key: value or found[key] for key, value in cpu.items()}
    unknown = [key for key, value in cpu.items() if value is None]
    if unknown:
        notes.append(f"cpu: {', '.join(unknown)} unknown" + (f" ({'; '.join(map(str, errors))})" if errors else ""))
    return cpu


def _memory(outputs: t.Mapping[str, Output], notes: list[str]) -> tuple[int | None, int | None]:
    """Return the installed GB and the MiB that the kernel counts."""
    try:
        kib = meminfo.parse(find_output(outputs, "meminfo", "/proc/meminfo").stdout)
    except ParseError as exc:
        notes.append(f"memory: unknown ({exc})")
        return None, None
    return meminfo.installed_gb(kib), kib // 1024


def _disks(outputs: t.Mapping[str, Output], notes: list[str]) -> list[dict[str, t.Any]] | None:
    try:
        output = find_output(outputs, "lsblk", "lsblk")
        rows: t.Sequence[lsblk.BlockDevice] | None = lsblk.parse(output.stdout, stderr=output.stderr, rc=output.rc)
    except ParseError as exc:
        rows = _block_rows(outputs)
        if rows is None:
            notes.append(f"disks: unknown ({exc})")
    return (
        None
        if rows is None
        else [
            {
                "name": disk.name,
                "size_gb": None if disk.size_bytes is None else (disk.size_bytes + 500_000_000) // 1_000_000_000,
                "rotational": disk.rotational,
            }
            for disk in lsblk.disks(rows)
        ]
    )


def _block_rows(outputs: t.Mapping[str, Output]) -> list[lsblk.BlockDevice] | None:
    """Return the script's own listing of /sys/block, which stands in where there is no usable lsblk."""
    output = outputs.get("block")
    if output is None or output.status != "ok":
        return None
    rows = (line.split() for line in output.stdout.splitlines())
    return [
        lsblk.BlockDevice(row[0], int(row[1]) * _SECTOR_BYTES, {"0": False, "1": True}.get(row[2]))
        for row in rows
        if len(row) == 3 and row[1].isdigit()
    ]


def _storage(
    outputs: t.Mapping[str, Output], notes: list[str]
) -> tuple[list[dict[str, t.Any]] | None, list[dict[str, t.Any]] | None]:
    """Return the directories that were looked into and the models in them; both None when the node was told none."""
    asked = sorted((name for name in outputs if name.startswith("storage_")), key=lambda name: int(name[8:] or 0))
    if not asked:
        return None, None
    try:
        mounted = mounts.parse(find_output(outputs, "mounts", "/proc/mounts").stdout)
    except ParseError:
        mounted = []
    storage: list[dict[str, t.Any]] = []
    weights: list[dict[str, t.Any]] = []
    for name in asked:
        place = _place(outputs[name], mounted)
        storage.append(place)
        weights.extend(_weights(place, outputs[name], outputs.get(f"weights_{name[8:]}"), notes))
    return storage, weights


def _place(output: Output, mounted: t.Sequence[mounts.Mount]) -> dict[str, t.Any]:
    """Return what ``df -Pk`` and the mounts tell of one directory."""
    path = output.command or ""
    match = _DF_ROW.search(output.stdout)
    # A share that does not answer is known from where it should be; a directory that is not there lies on nothing.
    lies_on = match.group(2) if match else posixpath.normpath(path) if output.hangs else None
    mount = mounts.find(lies_on, mounted) if lies_on else None
    shared = mounts.is_shared(mount.fstype) if mount else None
    place: dict[str, t.Any] = {
        "path": path,
        "fstype": mount.fstype if mount else None,
        "shared": shared,
        "free_gb": int(match.group(1)) * 1024 // 1_000_000_000 if match else None,
    }
    if mount and shared:
        place["source"] = mount.source
    return place


def _weights(
    place: t.Mapping[str, t.Any], free: Output, listed: Output | None, notes: list[str]
) -> t.Iterator[dict[str, t.Any]]:
    """Yield the models in one directory.

    :param free: what ``df`` gave; a share that does not even tell its free space was not listed
    """
    path = place["path"]
    if listed is None or listed.hangs or listed.status == "absent":
        stuck = "stuck" in (free.status, listed.status if listed else None)
        left = "; the command hangs in the kernel" if stuck else ""
        notes.append(f"weights: {path} was not listed (did not answer in time){left}")
        return
    if listed.rc and not listed.stdout:
        notes.append(f"weights: {path} cannot be read")
        return
    listing = parse_listing(path, listed.stdout)
    if not listing.whole:
        notes.append(f"weights: {path} was listed in part only")
    for found in judge_weights(listing):
        yield weights_to_plain(found, shared=place["shared"])
