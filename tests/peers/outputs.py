# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Outputs of tools with what is right for each, as a manifest beside them lists them, and what the parsers make of them.

An entry of a manifest has ``file``, ``kind`` and ``expected``, and may have ``command``, ``rc`` and ``stderr``. What is
expected holds only what the text can tell: a parser that finds a key more is not wrong for it.
"""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import yaml
from ansible_collections.knaster.inventory.plugins.module_utils._parsers import (
    amd_smi,
    cpuinfo,
    lsblk,
    lscpu,
    meminfo,
    mounts,
    nvidia_smi,
    nvidia_smi_list,
    nvidia_smi_processes,
    pve_guests,
    rocm_smi,
    sysfs_pci,
    xpu_smi,
)
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError
from ansible_collections.knaster.inventory.plugins.module_utils._pci import ALL_FUNCTIONS

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable

OUTPUTS = Path(__file__).resolve().parents[1] / "unit" / "fixtures" / "outputs"

_FOR_THE_READER = (
    "arch", "arch_family", "architecture", "available_kb", "board", "cpus_present", "hardware", "hugepages_total",
    "hugepagesize_kb", "implementer", "machine", "models", "not_gpus", "part_names", "parts", "sockets",
)  # fmt: skip
# "<address>/<attribute>:<value>" as grep prints it, "<address>/<link> -> <target>" as ls and readlink loops do.
_ATTRIBUTE = re.compile(r"(?P<address>[^/\s]+)/(?P<key>[a-z_]+)(?::| -> )(?P<value>.*)$")

Sample = dict[str, t.Any]
Plain = dict[str, t.Any]


def read_manifest(path: Path) -> list[Sample]:
    """Return the entries of a manifest, each with the ``path`` of its text."""
    entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [{**entry, "path": path.parent / entry["file"]} for entry in entries]


def look(sample: Sample) -> tuple[Plain, Plain]:
    """Return what the parser of a sample finds and what is right, in the same form and with the same keys."""
    text = sample["path"].read_bytes().decode("utf-8", "surrogateescape")
    finder = FINDERS[sample["kind"]]
    try:
        found = finder(text, sample)
    except ParseError as error:
        named = {key: sample["expected"].get(key) for key in ("field", "bus_id")}
        found = {"error": error.code, **{key: value for key, value in named.items() if str(value) in error.detail}}
    wanted = _wanted(sample)
    return _narrow(found, wanted), wanted


def _narrow(found: t.Any, wanted: t.Any) -> t.Any:
    """Keep of what was found the keys that are wanted; a list keeps its length, and an error all of itself."""
    if isinstance(found, dict) and isinstance(wanted, dict) and ("error" in found) == ("error" in wanted):
        return {key: _narrow(found[key], wanted[key]) for key in wanted if key in found}
    if isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        return [_narrow(one, other) for one, other in zip(found, wanted, strict=True)]
    return found


def _wanted(sample: Sample) -> Plain:
    """Return what is expected in the words of the parsers."""
    wanted = dict(sample["expected"])
    wanted.update(wanted.pop("hints", {}))
    if sample["kind"] == "nvidia-smi-csv" and "gpus" in wanted:
        wanted.setdefault("unhealthy", 0)
    if sample["kind"] == "lsblk" and "rows" in wanted:
        # A size without its bytes is written as text there, and is unknown here.
        for name in ("rows", "disks"):
            wanted[name] = [{**row, "size_bytes": _whole(row["size_bytes"])} for row in wanted[name]]
        wanted["disks"] = sorted(wanted["disks"], key=lambda row: lsblk.natural_key(row["name"]))
    if sample["kind"] in _VENDOR_TOOLS and "gpus" in wanted:
        driver = {"driver_version": wanted.pop("driver_version")} if "driver_version" in wanted else {}
        wanted["gpus"] = [_vendor_card(card | driver) for card in wanted["gpus"]]
    # What is in a manifest for the reader or for parsers that are not here.
    for key in _FOR_THE_READER:
        wanted.pop(key, None)
    if sample["kind"] == "sysfs-pci" and "gpus" in wanted:
        wanted["gpus"] = [{key: gpu[key] for key in gpu if key != "companions"} for gpu in wanted["gpus"]]
    return wanted


def _whole(size: object) -> int | None:
    return size if isinstance(size, int) else None


def _vendor_card(card: Plain) -> Plain:
    """Return a wanted GPU with its address as the kernel writes it, without the bytes that its MiB are made of."""
    return {
        key: value.lower() if key == "bus" and value else value
        for key, value in card.items()
        if key not in ("vram_bytes", "integrated", "gfx")
    }


def _arguments(sample: Sample) -> dict[str, t.Any]:
    return {"stderr": sample.get("stderr") or "", "rc": sample.get("rc", 0)}


def _find_smi(text: str, sample: Sample) -> Plain:
    cards = nvidia_smi.parse_query(text, command=sample["command"], **_arguments(sample))
    healthy = [card for card in cards if card.health is None]
    return {
        "unhealthy": len(cards) - len(healthy),
        "gpus": [
            {
                "index": card.index,
                "name": card.name,
                "memory_mib": card.memory_mib,
                "compute_cap": card.compute_cap and "{}.{}".format(*card.compute_cap),
                "driver_version": card.driver,
                "uuid": card.uuid,
                "mig_mode": None if card.mig is None else "Enabled" if card.mig else "Disabled",
            }
            for card in healthy
        ],
    }


def _find_listed(text: str, sample: Sample) -> Plain:
    cards = nvidia_smi_list.parse(text, **_arguments(sample))
    return {
        "gpus": [
            {"index": card.index, "name": card.name, "mig": [part.name for part in card.slices or ()]} for card in cards
        ]
    }


def _find_processes(text: str, sample: Sample) -> Plain:
    return {"processes": [one._asdict() for one in nvidia_smi_processes.parse(text, **_arguments(sample))]}


def _find_memory(text: str, _sample: Sample) -> Plain:
    total_kib = meminfo.parse(text)
    return {"total_kb": total_kib, "total_gib": round(total_kib / 1048576, 3)}


def _find_cpu(text: str, sample: Sample) -> Plain:
    found = cpuinfo.parse(text) if sample["kind"] == "cpuinfo" else lscpu.parse(text, **_arguments(sample))
    return found._asdict()


def _find_disks(text: str, sample: Sample) -> Plain:
    rows = lsblk.parse(text, **_arguments(sample))

    def plain(found: Iterable[lsblk.BlockDevice]) -> list[Plain]:
        return [{"name": row.name, "size_bytes": row.size_bytes, "rotational": row.rotational} for row in found]

    return {"rows": plain(rows), "disks": plain(lsblk.disks(rows))}


def _find_pci(text: str, _sample: Sample) -> Plain:
    entries: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        match = _ATTRIBUTE.search(line)
        if match:
            entries.setdefault(match["address"], {})[match["key"]] = match["value"]
        for word in () if match else line.split():
            entries.setdefault(word.rpartition("/")[2], {})
    devices = sysfs_pci.parse({"address": address, **entry} for address, entry in entries.items())
    # Parts of a processor are displays, and no GPUs that anything can be placed on.
    placed = {gpu.address for gpu in sysfs_pci.gpus(devices)}
    return {
        "devices": len(devices),
        "addresses": [device.address.text for device in devices],
        "display_class_addresses": [
            device.address.text for device in devices if str(device.class_code).startswith("03")
        ],
        "gpus": [
            {
                "address": gpu.address.text,
                "vendor_id": gpu.vendor_id,
                "device_id": gpu.device_id,
                "class": f"0x{gpu.class_code}",
                "driver": gpu.driver,
                "iommu_group": gpu.iommu_group,
                "integrated": gpu.address not in placed,
            }
            for gpu in devices
            if sysfs_pci.why_not_gpu(gpu) in (None, "integrated")
        ],
    }


def _find_mounts(text: str, _sample: Sample) -> Plain:
    return {
        "mounts": [
            {"source": one.source, "path": one.path, "fstype": one.fstype, "shared": mounts.is_shared(one.fstype)}
            for one in mounts.parse(text)
        ]
    }


def _find_guests(text: str, _sample: Sample) -> Plain:
    found = pve_guests.parse(text)
    return {
        "node": found.node,
        "whole": found.whole,
        "unreadable": found.unreadable,
        "guests": [
            {
                "kind": guest.kind,
                "id": guest.id,
                "name": guest.name,
                "ours": guest.ours,
                "addresses": [device.text for device in sorted(guest.devices) if device.function != ALL_FUNCTIONS],
                "slots": [device.text for device in sorted(guest.devices) if device.function == ALL_FUNCTIONS],
            }
            for guest in found.guests
        ],
    }


_VENDOR_TOOLS = {"amd-smi": amd_smi.parse, "rocm-smi": rocm_smi.parse, "xpu-smi": xpu_smi.parse}


def _find_vendor_cards(text: str, sample: Sample) -> Plain:
    cards = _VENDOR_TOOLS[sample["kind"]](text, **_arguments(sample))
    return {
        "gpus": [
            {
                "index": card.index,
                "card": card.index,
                "name": card.name,
                "bus": card.address and card.address.text,
                "vram_mib": card.memory_mib,
                "pci_device_id": card.device_id and f"0x{card.device_id}",
                "driver_version": card.driver,
            }
            for card in cards
        ]
    }


FINDERS: dict[str, Callable[[str, Sample], Plain]] = {
    "nvidia-smi-csv": _find_smi,
    "nvidia-smi-L": _find_listed,
    "smi-processes": _find_processes,
    "meminfo": _find_memory,
    "cpuinfo": _find_cpu,
    "lscpu": _find_cpu,
    "lsblk": _find_disks,
    "sysfs-pci": _find_pci,
    "mounts": _find_mounts,
    "pve-guests": _find_guests,
    **dict.fromkeys(_VENDOR_TOOLS, _find_vendor_cards),
}
