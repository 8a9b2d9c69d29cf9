# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Outputs of tools with what is right for each, as a manifest beside them lists them, and what the parsers make of them.

An entry of a manifest has ``file``, ``kind`` and ``expected``, and may have ``command``, ``rc`` and ``stderr``. What is
expected holds only what the text can tell: a parser that finds a key more is not wrong for it.
"""

from __future__ import annotations

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

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable

OUTPUTS = Path(__file__).resolve().parents[1] / "unit" / "fixtures" / "outputs"

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
        found = {"error": error.code, "field": error.field, "bus_id": error.pci_address}
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
    if "bus_id" in wanted:
        wanted["bus_id"] = nvidia_smi.normalise_address(wanted["bus_id"])
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
    for key in ("implementer", "part_names", "hardware", "machine", "arch", "not_gpus"):
        wanted.pop(key, None)
    return wanted


def _whole(size: object) -> int | None:
    return size if isinstance(size, int) else None


def _vendor_card(card: Plain) -> Plain:
    """Return a wanted GPU with its address as the kernel writes it, without the bytes that its MiB are made of."""
    return {
        key: value.lower() if key == "bus" and value else value
        for key, value in card.items()
        if key not in ("vram_bytes", "integrated")
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
        "gpus": [{"index": card.index, "name": card.name, "mig": [part.name for part in card.slices]} for card in cards]
    }


def _find_processes(text: str, sample: Sample) -> Plain:
    return {"processes": [vars(one) for one in nvidia_smi_processes.parse(text, **_arguments(sample))]}


def _find_memory(text: str, _sample: Sample) -> Plain:
    found = meminfo.parse(text)
    return {**vars(found), "total_gib": round(found.total_kb / 1048576, 3)}


def _find_cpu(text: str, sample: Sample) -> Plain:
    found = cpuinfo.parse(text) if sample["kind"] == "cpuinfo" else lscpu.parse(text, **_arguments(sample))
    as_plain = {"models": list, "parts": dict}
    return {key: as_plain[key](value) if key in as_plain else value for key, value in vars(found).items()}


def _find_disks(text: str, sample: Sample) -> Plain:
    rows = lsblk.parse(text, command=sample["command"], **_arguments(sample))

    def plain(found: Iterable[lsblk.BlockDevice]) -> list[Plain]:
        return [{"name": row.name, "size_bytes": row.size_bytes, "rotational": row.rotational} for row in found]

    return {"rows": plain(rows), "disks": plain(lsblk.disks(rows))}


def _find_pci(text: str, _sample: Sample) -> Plain:
    devices = sysfs_pci.parse_text(text)
    # Parts of a processor are displays, and no GPUs that anything can be placed on.
    placed = {gpu.address for gpu in sysfs_pci.gpus(devices)}
    return {
        "devices": len(devices),
        "addresses": [device.address for device in devices],
        "display_class_addresses": [device.address for device in devices if device.is_display],
        "gpus": [
            {
                "address": gpu.address,
                "vendor_id": gpu.vendor_id,
                "device_id": gpu.device_id,
                "class": f"0x{gpu.class_code}",
                "driver": gpu.driver,
                "iommu_group": gpu.iommu_group,
                "companions": [device.address for device in gpu.companions],
                "integrated": gpu.address not in placed,
            }
            for gpu in sysfs_pci.displays(devices)
        ],
    }


def _find_mounts(text: str, _sample: Sample) -> Plain:
    return {
        "mounts": [
            {"source": one.source, "path": one.path, "fstype": one.fstype, "shared": one.is_shared}
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
                "addresses": sorted(guest.addresses),
                "slots": sorted(guest.slots),
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
                "bus": card.pci_address,
                "vram_mib": card.memory_mib,
                "gfx": card.gfx,
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
