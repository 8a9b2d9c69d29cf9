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

from ansible_collections.knaster.inventory.plugins.module_utils._gather.join import (
    join_gpus,
    write_pci_lines,
)
from ansible_collections.knaster.inventory.plugins.module_utils._gather.script import (
    Output,
    read_answer,
)
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
    parse_listing,
    weights_to_plain,
)

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


def read_outputs(data: str | t.Mapping[str, t.Any]) -> dict[str, Output]:
    """Return outputs by name from the gather script's text, or from outputs that were saved one by one.

    :param data: the text, or a dictionary whose entries have ``stdout`` and may have ``rc``, ``stderr``, ``command`` and
        ``status``; the entry ``pci`` may have ``devices`` instead
    :raises GatherError: when the text is no answer of the script
    :raises ValueError: when an entry is of another shape; the message names it
    """
    if isinstance(data, str):
        return read_answer(data)
    return {name: _read_output(name, entry) for name, entry in data.items()}


def _read_output(name: str, entry: t.Any) -> Output:
    if isinstance(entry, str):
        return Output("ok", 0, entry)
    if not isinstance(entry, dict):
        raise ValueError(  # noqa: TRY004
            f"{name}: an output is a text or a dictionary with stdout, not {str(entry)[:60]!r}"
        )
    rc = entry.get("rc", 0)
    if name == "pci" and isinstance(entry.get("devices"), list):
        return Output("ok", 0, write_pci_lines(entry["devices"]))
    stdout, stderr = entry.get("stdout", ""), entry.get("stderr", "")
    if not isinstance(stdout, str) or not isinstance(stderr, str) or not isinstance(rc, (int, type(None))):
        raise ValueError(  # noqa: TRY004
            f"{name}: stdout and stderr are texts, and rc is a number or null"
        )
    return Output(str(entry.get("status", "failed" if rc else "ok")), rc, stdout, stderr, entry.get("command"))


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
    hostname = _text(outputs, "hostname").strip() or None
    cpu = _cpu(outputs, notes)
    memory_gb, memory_mib = _memory(outputs, notes)
    profile: dict[str, t.Any] = {
        "name": name or hostname,
        "hostname": hostname,
        "cpu": cpu,
        "memory_gb": memory_gb,
        "memory_mib": memory_mib,
        "disks": _disks(outputs, notes),
    }
    profile["gpus"] = join_gpus(outputs, declared=gpus, previous=(previous or {}).get("gpus"), notes=notes)
    profile["fabrics"] = list(fabrics)
    profile["labels"] = {str(key): str(value) for key, value in (labels or {}).items()}
    profile["state"] = state
    if reserve_gb is not None:
        profile["reserve_gb"] = reserve_gb
    profile["storage"], profile["weights"] = _storage(outputs, notes)
    profile["notes"] = notes
    return profile


def _text(outputs: t.Mapping[str, Output], name: str) -> str:
    output = outputs.get(name)
    return output.stdout if output else ""


def _cpu(outputs: t.Mapping[str, Output], notes: list[str]) -> dict[str, t.Any]:
    model: str | None = None
    cores: int | None = None
    threads: int | None = None
    troubles: list[str] = []
    # /proc/cpuinfo first; lscpu knows names and topology of processors that the kernel describes in numbers only.
    for source, parse in (("cpuinfo", cpuinfo.parse), ("lscpu", lscpu.parse)):
        if None not in (model, cores, threads):
            break
        try:
            cpu = parse(_text(outputs, source))
        except ParseError as exc:
            troubles.append(_why(outputs.get(source), exc))
            continue
        model = model or cpu.model
        cores = cores or cpu.cores
        threads = threads or cpu.threads
    if None in (model, cores, threads):
        unknown = [key for key, value in (("model", model), ("cores", cores), ("threads", threads)) if value is None]
        notes.append(f"cpu: {', '.join(unknown)} unknown" + (f" ({'; '.join(troubles)})" if troubles else ""))
    return {"model": model, "cores": cores, "threads": threads}


def _memory(outputs: t.Mapping[str, Output], notes: list[str]) -> tuple[int | None, int | None]:
    try:
        total_kb = meminfo.parse(_text(outputs, "meminfo")).total_kb
    except ParseError as exc:
        notes.append(f"memory: unknown ({_why(outputs.get('meminfo'), exc)})")
        return None, None
    return meminfo.installed_gb(total_kb), total_kb // 1024


def _disks(outputs: t.Mapping[str, Output], notes: list[str]) -> list[dict[str, t.Any]] | None:
    output = outputs.get("lsblk")
    try:
        if output is None:
            rows = _block_rows(outputs)
        else:
            rows = lsblk.parse(output.stdout, stderr=output.stderr, rc=output.rc or 0, command=output.command)
    except ParseError as exc:
        try:
            rows = _block_rows(outputs)
        except ParseError:
            notes.append(f"disks: unknown ({_why(output, exc)})")
            return None
    return [
        {
            "name": disk.name,
            "size_gb": None if disk.size_bytes is None else (disk.size_bytes + 500_000_000) // 1_000_000_000,
            "rotational": disk.rotational,
        }
        for disk in lsblk.disks(rows)
    ]


def _block_rows(outputs: t.Mapping[str, Output]) -> list[lsblk.BlockDevice]:
    """Read the script's own listing of /sys/block, which stands in where there is no usable lsblk."""
    output = outputs.get("block")
    if output is None or output.status != "ok":
        raise ParseError("lsblk", "command_not_found")
    rows = []
    for line in output.stdout.splitlines():
        words = line.split()
        if len(words) == 3 and words[1].isdigit():
            rotational = {"0": False, "1": True}.get(words[2])
            rows.append(
                lsblk.BlockDevice(name=words[0], size_bytes=int(words[1]) * _SECTOR_BYTES, rotational=rotational)
            )
    return rows


def _storage(
    outputs: t.Mapping[str, Output], notes: list[str]
) -> tuple[list[dict[str, t.Any]] | None, list[dict[str, t.Any]] | None]:
    """Return the directories that were looked into and the models in them; both None when the node was told none."""
    asked = sorted((name for name in outputs if name.startswith("storage_")), key=lambda name: int(name[8:] or 0))
    if not asked:
        return None, None
    try:
        mounted: list[mounts.Mount] = mounts.parse(_text(outputs, "mounts"))
    except ParseError:
        mounted = []
    storage: list[dict[str, t.Any]] = []
    weights: list[dict[str, t.Any]] = []
    for name in asked:
        output = outputs[name]
        path = output.command or ""
        free_kb, mount_point = _read_df(output.stdout)
        # A share that does not answer is known from where it should be; a directory that is not there lies on nothing.
        hangs = output.status in ("timeout", "stuck")
        lies_on = mount_point or (posixpath.normpath(path) if hangs else None)
        mount = mounts.find(lies_on, mounted) if lies_on else None
        shared = mount.is_shared if mount else None
        place: dict[str, t.Any] = {
            "path": path,
            "fstype": mount.fstype if mount else None,
            "shared": shared,
            "free_gb": None if free_kb is None else free_kb * 1024 // 1_000_000_000,
        }
        if mount and shared:
            place["source"] = mount.source
        storage.append(place)
        listed = outputs.get(f"weights_{name[8:]}")
        if listed is None or listed.status in ("timeout", "stuck", "absent"):
            stuck = "stuck" in (output.status, listed.status if listed else None)
            left = "; what asked for it hangs in the kernel" if stuck else ""
            notes.append(f"weights: {path} was not listed (did not answer in time){left}")
            continue
        if listed.rc and not listed.stdout:
            notes.append(f"weights: {path} cannot be read")
            continue
        listing = parse_listing(path, listed.stdout)
        if not listing.whole:
            notes.append(f"weights: {path} was listed in part only")
        weights.extend(weights_to_plain(found, shared=shared) for found in judge_weights(listing))
    return storage, weights


def _read_df(text: str) -> tuple[int | None, str | None]:
    """Return the free KiB and the mount point that ``df -Pk`` tells of one directory."""
    match = _DF_ROW.search(text)
    return (int(match.group(1)), match.group(2)) if match else (None, None)


def _why(output: Output | None, exc: ParseError) -> str:
    """Return the cause of a value that is not there: what became of the command, else what its text says."""
    if output is None:
        return "not asked"
    if output.status == "absent":
        return f"{exc.source}: not there"
    if output.status in ("timeout", "stuck"):
        return f"{exc.source}: did not answer in time"
    return str(exc)
