# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What its vendor's tool, the PCI scan, the GPU table, the last profile and the user say of one GPU, joined into one.

A GPU is recognised by its PCI address. One that a VM holds is invisible to the tool: the scan still has it, and the table
knows what it is. The user's word wins over what was read, what was read over the table, and the last profile speaks only
where all of these are silent.

The tools for AMD and Intel name the same GPU in their own ways from version to version. Where table and size leave one
GPU only, it has the name of the table, so that it is the same GPU when no tool can see it.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.module_utils import _gpu_table
from ansible_collections.knaster.inventory.plugins.module_utils._gather.answers import Output, find_output
from ansible_collections.knaster.inventory.plugins.module_utils._gather.holders import Holders
from ansible_collections.knaster.inventory.plugins.module_utils._gather.tools import (
    NO_DEVICES,
    NVIDIA_SMI,
    Report,
    ask_tools,
)
from ansible_collections.knaster.inventory.plugins.module_utils._parsers import meminfo, sysfs_pci
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.gpu import Gpu
from ansible_collections.knaster.inventory.plugins.module_utils._pci import (
    AMD,
    INTEL,
    NVIDIA,
    VENDORS,
    Address,
    parse_device_address,
)

if t.TYPE_CHECKING:
    from ansible_collections.knaster.inventory.plugins.module_utils._parsers.sysfs_pci import Device

# The drivers whose GPUs a vendor's tool lists.
_DRIVERS = {NVIDIA: ("nvidia",), AMD: ("amdgpu",), INTEL: ("i915", "xe")}
# What became of a command that never spoke, or spoke of itself only: the GPUs may be well.
_SILENT = ("absent", "not_asked", "timeout", "command_failed", "unparsable_rows", "not_json", "command_not_found")

_SYSFS, _TABLE, _PREVIOUS, _DECLARED, _MEMINFO = "sysfs", "pci_table", "previous", "declared", "meminfo"
# What the parser of nvidia-smi says of a GPU without memory of its own.
_UNIFIED = "unified"

_MIB = 1 << 20

_Facts = t.Mapping[str, t.Any]
# Whether a GPU works, and what is wrong with it: a code and words.
_Health = t.Tuple[t.Optional[bool], t.Optional[t.Tuple[str, str]]]


@dataclass(frozen=True)
class _Seen:
    """A GPU that a tool, the PCI scan or both of them see, with its number in the profile."""

    index: int
    gpu: t.Optional[Gpu]
    device: t.Optional[Device]

    @property
    def vendor_id(self) -> str:
        return (self.device.vendor_id if self.device else None) or (self.gpu.vendor_id if self.gpu else NVIDIA)

    @property
    def address(self) -> t.Optional[Address]:
        return self.device.address if self.device else self.gpu.address if self.gpu else None

    @property
    def pci_id(self) -> t.Optional[str]:
        if self.device:
            return self.device.pci_id
        return f"{self.gpu.vendor_id}:{self.gpu.device_id}" if self.gpu and self.gpu.device_id else None


def join_gpus(
    outputs: t.Mapping[str, Output],
    *,
    declared: t.Sequence[_Facts],
    previous: t.Optional[t.Sequence[_Facts]],
    notes: t.List[str],
) -> t.Optional[t.List[t.Dict[str, t.Any]]]:
    """Return the node's GPUs in the order of their index, or None where it is not known whether it has any.

    :param declared: facts that a user states, each with ``pci``, the address
    :param previous: the GPUs of the node's last profile
    :param notes: what could not be read is added here
    """
    devices = _scan(outputs, notes)
    found = None if devices is None else sysfs_pci.gpus(devices)
    reports = ask_tools(outputs, None if found is None else {device.vendor_id for device in found}, notes)
    if devices is None or found is None:
        seen = _number(reports)
        nvidia = reports[NVIDIA].error
        if nvidia and nvidia.code != NO_DEVICES and not seen:
            notes.append(f"gpus: unknown (nvidia-smi: {nvidia.reason}; PCI: not read)")
            return None
    else:
        seen = _pair(reports, found, devices)
    host_kib = _host_kib(outputs)
    before = {key: gpu for gpu in previous or () for key in [_key((gpu.get("pci") or {}).get("address"))] if key}
    stated = {_key(fact["pci"]): fact for fact in declared}
    # Of a host without GPUs it does not matter what its VMs could not be asked.
    holders = Holders(outputs, devices, notes if seen else [])
    gpus = []
    for one in seen:
        key = one.address.text if one.address else ""
        facts = stated.pop(key, {})
        gpu = _gpu(one, reports[one.vendor_id], host_kib=host_kib, previous=before.pop(key, {}), declared=facts)
        holders.add(gpu, one.address, facts)
        gpus.append(gpu)
    notes.extend(_open_questions(gpus))
    notes.extend(f"gpu {address}: was there at the last collect and is missing" for address in sorted(before))
    notes.extend(f"gpu {address}: declared, but there is no such GPU" for address in sorted(stated))
    return gpus


def _key(text: t.Any) -> str:
    """Return an address as the kernel writes it; of a text that is not one, the text."""
    address = parse_device_address(text)
    return address.text if address else str(text or "")


def _host_kib(outputs: t.Mapping[str, Output]) -> t.Optional[int]:
    """Return the host's memory in KiB, which is the most that graphics without memory of their own can have."""
    try:
        return meminfo.parse(find_output(outputs, "meminfo", "/proc/meminfo").stdout)
    except ParseError:
        return None


def _scan(outputs: t.Mapping[str, Output], notes: t.List[str]) -> t.Optional[t.List[Device]]:
    output = outputs.get("pci")
    if output is None or output.status == "absent":
        return None
    if output.status != "ok":
        notes.append(f"pci: the scan {output.status}")
        return None
    return sysfs_pci.parse_lines(output.stdout)


def _number(reports: t.Mapping[str, Report]) -> t.List[_Seen]:
    """Return the GPUs of the tools, where there is no scan.

    NVIDIA's keep the numbers that are printed; those that have none and those of other vendors follow them.
    """
    nvidia = sorted(reports[NVIDIA].gpus, key=lambda gpu: -1 if gpu.index is None else gpu.index)
    printed = [_Seen(gpu.index, gpu, None) for gpu in nvidia if gpu.index is not None]
    others = [gpu for vendor in (AMD, INTEL) for gpu in reports[vendor].gpus if not _is_integrated(gpu)]
    follow = [gpu for gpu in nvidia if gpu.index is None] + others
    first = printed[-1].index + 1 if printed else 0
    return printed + [_Seen(number, gpu, None) for number, gpu in enumerate(follow, first)]


def _pair(reports: t.Mapping[str, Report], found: t.Sequence[Device], devices: t.Sequence[Device]) -> t.List[_Seen]:
    """Put what a tool and the scan say of one GPU together, in the order that gives the GPUs their index."""
    ordered = sorted(found, key=lambda device: (device.vendor_id != NVIDIA, device.address))
    left = [gpu for report in reports.values() for gpu in report.gpus]
    by_address: t.Dict[Address, Gpu] = {}
    for vendor, report in reports.items():
        by_address.update(_by_address(report.gpus, [device for device in ordered if device.vendor_id == vendor]))
    pairs: t.List[t.Tuple[t.Optional[Gpu], t.Optional[Device]]] = []
    for device in ordered:
        gpu = by_address.get(device.address)
        if gpu is not None:
            left.remove(gpu)
        pairs.append((gpu, device))
    # A GPU that nvidia-smi knows and the scan does not have: nothing is dropped. The other tools also list graphics
    # that are no GPUs, and a GPU once for each of its parts; what is new of them has a slot of its own.
    slots = {device.address.slot for device in devices}
    for gpu in left:
        is_new = gpu.address is not None and gpu.address.slot not in slots and not _is_integrated(gpu)
        if gpu.vendor_id == NVIDIA or is_new:
            pairs.append((gpu, None))
        if gpu.address is not None:
            slots.add(gpu.address.slot)
    return [_Seen(place, gpu, device) for place, (gpu, device) in enumerate(pairs)]


def _by_address(gpus: t.Sequence[Gpu], devices: t.Sequence[Device]) -> t.Dict[Address, Gpu]:
    """Return the GPUs of one vendor's tool by their address."""
    if any(gpu.address for gpu in gpus):
        # Of a GPU in parts the first one speaks.
        return {gpu.address: gpu for gpu in reversed(gpus) if gpu.address}
    # An old tool that prints no address: it counts the GPUs of its driver in the order of their addresses.
    driven = [device for device in devices if device.driver in _DRIVERS[device.vendor_id or ""]]
    ordered = sorted(gpus, key=lambda gpu: gpu.index or 0)
    return dict(zip([device.address for device in driven], ordered)) if len(driven) == len(gpus) else {}


def _is_integrated(gpu: Gpu) -> bool:
    """Return whether it is the graphics of a processor, which a tool lists beside GPUs."""
    address = gpu.address or Address(-1, 0, 0)
    device = sysfs_pci.Device(address, vendor_id=gpu.vendor_id, device_id=gpu.device_id, class_code="030000")
    return sysfs_pci.why_not_gpu(device) is not None


def _gpu(
    seen: _Seen, report: Report, *, host_kib: t.Optional[int], previous: _Facts, declared: _Facts
) -> t.Dict[str, t.Any]:
    """Return the entry of a profile for one GPU."""
    read, device = seen.gpu or Gpu(seen.vendor_id), seen.device
    if (previous.get("pci") or {}).get("id") not in (None, seen.pci_id):
        previous = {}  # another GPU in the same slot
    values = _Values(declared, previous, seen.gpu is not None)
    pci_id, board = seen.pci_id, device.subsystem_id if device else None
    virtual = _gpu_table.is_virtual(declared.get("name") or read.name or previous.get("name"))
    if virtual:
        pci_id = board = None  # they are of the GPU that it is a part of
    models = _gpu_table.candidates(name=read.name, pci_id=pci_id, subsystem_id=board)
    shares_host = bool(models) and all(model.unified for model in models)
    mib, shared_mib, tool = _memory(read, device, report.tool, host_kib, shares_host=shares_host)
    # A size that was stated or seen before tells apart what shares a PCI id; what is printed now tells it best.
    size = None if mib is not None else declared.get("memory_gb") or previous.get("memory_gb")
    model = _gpu_table.find(name=read.name, pci_id=pci_id, subsystem_id=board, memory_mib=mib, memory_gb=size)
    printed = model.names[0] if model and read.vendor_id != NVIDIA else read.name
    name = values.pick("name", printed or previous.get("name"), _table_name(pci_id, board))
    nominal: t.Optional[int] = None
    if mib is not None:
        nominal = _gpu_table.nominal_memory_gb(name, pci_id, mib, subsystem_id=board)
    elif shared_mib:
        nominal = int(shared_mib / 1024 + 0.5)
    elif read.memory_state == _UNIFIED and not models:
        nominal, tool = (meminfo.installed_gb(host_kib) if host_kib else None), _MEMINFO
    # Where several GPUs are possible, the table still answers if all of them agree.
    of_all = _gpu_table.nominal_memory_gb(name, pci_id, subsystem_id=board)
    capability = _gpu_table.compute_cap(name, seen.pci_id, subsystem_id=board)
    gpu: t.Dict[str, t.Any] = {
        "index": seen.index,
        "name": name,
        "memory_gb": values.pick(
            "memory_gb", nominal, model.memory_gb if model else of_all, source="memory", tool=tool
        ),
        "memory_mib": mib if seen.gpu or mib else values.last("memory_mib"),
        "compute_cap": _as_number(values.pick("compute_cap", read.compute_cap, capability, source="compute_cap")),
        "driver": values.now_or_last("driver", read.driver),
        "gpu_class": _gpu_table.gpu_class(name, pci_id=pci_id, subsystem_id=board, memory_mib=mib, memory_gb=size),
        "vendor": VENDORS[seen.vendor_id],
        "uuid": read.uuid or values.last("uuid"),
        "pci": _pci(seen),
        "mig": _mig(seen, model, values),
    }
    if read.slices is not None:
        gpu["mig_slices"] = [
            {"name": part.name, "memory_gb": part.memory_gb, "uuid": part.uuid} for part in read.slices
        ]
    if not _gpu_table.is_known(name, pci_id=pci_id):
        gpu["known"] = False
    if virtual:
        gpu["vgpu"] = True
    unified = mib is None and (read.memory_state == _UNIFIED or bool(model and model.unified))
    gpu["healthy"], health = _stated_health(declared) or _health(seen, report, has_memory=mib is not None or unified)
    if health:
        gpu["health"] = dict(zip(("code", "text"), health))
    if declared.get("state") is not None:
        gpu["state"] = declared["state"]
    if unified:
        gpu["unified_memory"] = True
    number = values.now_or_last("smi_index", read.index)
    if number is not None and number != seen.index:
        gpu["smi_index"] = number
    reserved = values.now_or_last("reserved_mib", read.reserved_mib)
    if reserved is not None:
        gpu["reserved_mib"] = reserved
    gpu["sources"] = values.sources
    return gpu


def _memory(
    gpu: Gpu, device: t.Optional[Device], tool: str, host_kib: t.Optional[int], *, shares_host: bool
) -> t.Tuple[t.Optional[int], t.Optional[int], str]:
    """Return the MiB of a GPU's own memory, those that it can use of its host's, and who says so.

    :param shares_host: whether it has no memory of its own
    """
    if shares_host and gpu.vendor_id != NVIDIA:
        # Its tools print what the firmware carved out for it, which is not what it can use.
        return None, _shared_mib(device, host_kib and host_kib // 1024), _SYSFS
    if gpu.memory_mib is None and device is not None and device.vram_bytes:
        return device.vram_bytes // _MIB or None, None, _SYSFS
    return gpu.memory_mib, None, tool


def _shared_mib(device: t.Optional[Device], host_mib: t.Optional[int]) -> t.Optional[int]:
    """Return what graphics with memory of the host can use: of two ways to the same memory the larger, never both.

    The firmware carves a part out for them, and the driver lets them use so much of what the host has left.
    """
    if device is None:
        return None
    carved_out, lent = (device.vram_bytes or 0) // _MIB, (device.gtt_bytes or 0) // _MIB
    return max(carved_out, lent if host_mib is None else min(lent, host_mib)) or None


def _mig(seen: _Seen, model: t.Optional[_gpu_table.GpuModel], values: _Values) -> t.Optional[bool]:
    """Return whether a GPU is divided, by whoever knows it; None where nobody does."""
    for read in (seen.gpu.mig if seen.gpu else None, seen.device.is_divided if seen.device else None):
        if read is not None:
            return read
    if model and not model.mig_capable:
        return False
    return t.cast("t.Optional[bool]", values.now_or_last("mig", None))


def _table_name(pci_id: t.Optional[str], board: t.Optional[str]) -> t.Optional[str]:
    """Return the product name that all GPUs share which these ids allow."""
    names = {model.names[0] for model in _gpu_table.candidates(pci_id=pci_id, subsystem_id=board)}
    return names.pop() if len(names) == 1 else None


class _Values:
    """Picks a value by the order of its sources and keeps which source it was."""

    def __init__(self, declared: _Facts, previous: _Facts, is_reported: bool) -> None:  # noqa: FBT001
        self.declared = declared
        self.previous = previous
        self.is_reported = is_reported
        self.sources: t.Dict[str, str] = {}

    def pick(
        self, key: str, read: t.Any, table: t.Any, *, source: t.Optional[str] = None, tool: str = NVIDIA_SMI
    ) -> t.Any:
        """Return the value that the user states, else the one that was read, of the table, or of the last profile."""
        for origin, value in (
            (_DECLARED, self.declared.get(key)),
            (tool, read),
            (_TABLE, table),
            (_PREVIOUS, self.previous.get(key)),
        ):
            if value is not None:
                if source:
                    self.sources[source] = origin
                return value
        return None

    def last(self, key: str) -> t.Any:
        """Return what only the last profile can know."""
        value = self.previous.get(key)
        if value is not None:
            self.sources[key] = _PREVIOUS
        return value

    def now_or_last(self, key: str, read: t.Any) -> t.Any:
        """Return what a tool reports of the GPU now; where none sees it, what the last profile knows."""
        return read if self.is_reported else self.last(key)


def _as_number(capability: t.Any) -> t.Any:
    """Return a compute capability as the number that people write."""
    if isinstance(capability, tuple):
        return float(f"{capability[0]}.{capability[1]}")
    try:
        return float(capability) if isinstance(capability, str) else capability
    except ValueError:
        return None


def _pci(seen: _Seen) -> t.Optional[t.Dict[str, t.Any]]:
    device = seen.device
    if device is None:
        return {"address": seen.address.text} if seen.address else None
    return {
        "address": device.address.text,
        "id": device.pci_id,
        "subsystem_id": device.subsystem_id,
        "iommu_group": device.iommu_group,
        "iommu_peers": [
            {"address": peer.address.text, "class": f"0x{peer.class_code}", "driver": peer.driver}
            for peer in device.iommu_peers
        ],
        "driver": device.driver,
        "numa_node": device.numa_node,
    }


def _stated_health(declared: _Facts) -> t.Optional[_Health]:
    works = declared.get("healthy")
    return None if works is None else (bool(works), None if works else ("declared", "declared unusable"))


def _health(seen: _Seen, report: Report, *, has_memory: bool) -> _Health:
    """Return whether a GPU works: true, false, or None where nothing tells; and what is wrong with it."""
    if seen.gpu is not None:
        if seen.gpu.health:
            return False, seen.gpu.health
        if seen.gpu.memory_state and not has_memory:
            return None, (seen.gpu.memory_state, "nvidia-smi reports no memory")
        return True, None
    if seen.device is None or seen.device.driver not in _DRIVERS[seen.vendor_id]:
        return True, None  # nothing that could see it was asked, and that is how a GPU looks that a VM holds
    missing = f"bound to the {seen.device.driver} driver but missing from {report.tool}"
    if seen.vendor_id != NVIDIA:
        # The other tools are a choice of the user, and Intel's lists only a part of Intel's GPUs.
        if report.error:
            return (None, ("timeout", str(report.error))) if report.code == "timeout" else (True, None)
        return (None, ("not_listed", missing)) if seen.vendor_id == AMD else (True, None)
    if report.error:
        return None if report.code in _SILENT else False, (report.error.code, str(report.error))
    return False, ("gpu_lost", missing)


def _open_questions(gpus: t.Sequence[_Facts]) -> t.Iterator[str]:
    """Yield a note for each thing that is unknown or wrong, with all GPUs that have it."""
    places: t.Dict[str, t.List[str]] = {}
    for gpu in gpus:
        texts = [gpu["health"]["text"]] if gpu.get("health") else []
        if gpu["compute_cap"] is None and gpu["vendor"] == VENDORS[NVIDIA]:
            texts.insert(0, "compute capability unknown; state it in knaster_gpus")
        if gpu["memory_gb"] is None:
            texts.insert(0, "memory unknown; state it in knaster_gpus")
        for text in texts:
            places.setdefault(text, []).append(str((gpu["pci"] or {}).get("address") or gpu["index"]))
    for text, addresses in places.items():
        yield f"gpu {', '.join(addresses)}: {text}"
