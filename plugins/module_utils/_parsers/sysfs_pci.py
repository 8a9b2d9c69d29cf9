# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""PCI devices as ``/sys/bus/pci/devices`` describes them, and which of them are GPUs to place something on.

Format: Documentation/ABI/testing/sysfs-bus-pci of the kernel, and for AMD's files its Documentation/gpu/amdgpu.
A GPU that a virtual machine holds is invisible to its vendor's tools; here it stays visible, with its ids, its IOMMU
group and the driver that holds it.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, replace

from ansible_collections.knaster.inventory.plugins.module_utils._parsers import vendor_tools
from ansible_collections.knaster.inventory.plugins.module_utils._pci import (
    AMD,
    INTEL,
    NVIDIA,
    Address,
    parse_device_address,
)

_HEX = re.compile(r"(?:0x)?([0-9a-f]{1,8})", re.IGNORECASE | re.ASCII)
_NATURAL = re.compile(r"[0-9]{1,19}", re.ASCII)
_DISPLAY = "03"
_ACCELERATOR = "12"
_BRIDGES = ("0600", "0604")

# Processors with graphics inside, by device id. The Strix Halo (1586) is not among them: it is large enough for models.
_AMD_INTEGRATED = frozenset(
    (
        "1114", "13c0", "1435", "1506", "150e", "15bf", "15c8", "15d8", "15dd", "15e7", "1636", "1638", "163f", "164c",
        "164d", "164e", "1681", "1900", "1901", "98e4",
    )
)  # fmt: skip
_AMD_INTEGRATED_RANGES = (
    (0x1304, 0x131D),
    (0x9610, 0x9616),
    (0x9640, 0x964F),
    (0x9710, 0x9715),
    (0x9802, 0x980A),
    (0x9830, 0x983F),
    (0x9850, 0x985F),
    (0x9870, 0x9877),
    (0x9900, 0x99A4),
)
# Graphics of server boards that only draw the console.
_AMD_CONSOLE = frozenset(("4750", "4752", "4754", "4758", "515e", "5969"))
_NVIDIA_CHIPSET_RANGES = (
    (0x0240, 0x0247),
    (0x03D0, 0x03D6),
    (0x0530, 0x053E),
    (0x07E0, 0x07E5),
    (0x0840, 0x084F),
    (0x0860, 0x087F),
    (0x08A0, 0x08A5),
)
_INTEL_DISCRETE_RANGES = (
    (0x0201, 0x0210),
    (0x0B69, 0x0B6E),
    (0x0BD0, 0x0BDB),
    (0x4905, 0x4909),
    (0x5690, 0x56C2),
    (0xE202, 0xE223),
)


@dataclass(frozen=True)
class Device:
    """One PCI device; ids are hexadecimal digits in lower case without ``0x``, ``None`` is what is not known.

    ``class_code`` has the six digits of class, subclass and interface. ``vram_bytes`` and ``gtt_bytes`` are what AMD's
    driver says of a GPU's own memory and of the host's that it may use, and ``is_divided`` whether it divides the GPU.
    ``iommu_peers`` are filled in by ``gpus``.
    """

    address: Address
    vendor_id: t.Optional[str] = None
    device_id: t.Optional[str] = None
    class_code: t.Optional[str] = None
    subsystem_vendor_id: t.Optional[str] = None
    subsystem_device_id: t.Optional[str] = None
    driver: t.Optional[str] = None
    iommu_group: t.Optional[int] = None
    numa_node: t.Optional[int] = None
    physfn: t.Optional[Address] = None
    vram_bytes: t.Optional[int] = None
    gtt_bytes: t.Optional[int] = None
    is_divided: t.Optional[bool] = None
    iommu_peers: t.Tuple[Device, ...] = ()

    @property
    def pci_id(self) -> t.Optional[str]:
        """Return ``vendor:device``, None where one of them is not known."""
        return _pair(self.vendor_id, self.device_id)

    @property
    def subsystem_id(self) -> t.Optional[str]:
        """Return ``vendor:device`` of the board that the chip sits on, None where one of them is not known."""
        return _pair(self.subsystem_vendor_id, self.subsystem_device_id)


def parse(devices: t.Iterable[t.Mapping[str, t.Any]]) -> t.List[Device]:
    """Turn what sysfs says into devices, sorted by address, each address once.

    The keys are the names in sysfs: ``address``, ``class``, ``vendor``, ``device``, ``subsystem_vendor``,
    ``subsystem_device``, ``numa_node``, and for the links ``driver``, ``iommu_group``, ``physfn`` their target or its
    last part. Entries without a usable address are left out: there is nothing to know them by.
    """
    merged: t.Dict[Address, t.Dict[str, t.Any]] = {}
    for entry in devices:
        address = parse_device_address(entry.get("address"))
        if address:
            known = merged.setdefault(address, {})
            known.update({key: value for key, value in entry.items() if value not in (None, "")})
    return [_device(address, merged[address]) for address in sorted(merged)]


def parse_lines(text: str) -> t.List[Device]:
    """Return the devices of the gather script's PCI scan: one a line, as words ``key=value``."""
    return parse(
        {key: value for key, equals, value in (word.partition("=") for word in line.split()) if equals}
        for line in text.splitlines()
    )


def gpus(devices: t.Sequence[Device]) -> t.List[Device]:
    """Return the devices that are GPUs for placement, with what shares their IOMMU groups."""
    return [replace(one, iommu_peers=_peers(one, devices)) for one in devices if why_not_gpu(one) is None]


def _peers(device: Device, devices: t.Sequence[Device]) -> t.Tuple[Device, ...]:
    """Return what else is in the IOMMU group of a device.

    Bridges are left out: the host may keep them when the rest of the group is given away.
    """
    if device.iommu_group is None:
        return ()
    group = [one for one in devices if one.iommu_group == device.iommu_group and one.address != device.address]
    return tuple(one for one in group if (one.class_code or "")[:4] not in _BRIDGES)


def why_not_gpu(device: Device) -> t.Optional[str]:
    """Return in one word why nothing is placed on a device, or ``None`` for a GPU.

    ``not_a_display``, ``other_vendor`` (management controllers and virtual adapters among them), ``console``,
    ``virtual_function`` or ``integrated``.
    """
    # The larger AMD accelerators have no display and are of another class; of other vendors such are no GPUs.
    is_accelerator = device.vendor_id == AMD and (device.class_code or "").startswith(_ACCELERATOR)
    if not (device.class_code or "").startswith(_DISPLAY) and not is_accelerator:
        return "not_a_display"
    if device.vendor_id not in (NVIDIA, AMD, INTEL):
        return "other_vendor"
    if device.vendor_id == AMD and device.device_id in _AMD_CONSOLE:
        return "console"
    if device.physfn:
        return "virtual_function"
    return "integrated" if _is_integrated(device) else None


def _is_integrated(device: Device) -> bool:
    """Return whether these are graphics that are part of a processor or chipset, and too small to serve models."""
    number = int(device.device_id, 16) if device.device_id else -1
    if device.vendor_id == AMD:
        return device.device_id in _AMD_INTEGRATED or _within(number, _AMD_INTEGRATED_RANGES)
    if device.vendor_id == NVIDIA:
        return _within(number, _NVIDIA_CHIPSET_RANGES)
    # All graphics of Intel processors sit on the root bus; GPUs are behind a bridge, in guests on any bus.
    return not _within(number, _INTEL_DISCRETE_RANGES) and device.address[:2] == (0, 0)


def _device(address: Address, entry: t.Mapping[str, t.Any]) -> Device:
    return Device(
        address=address,
        vendor_id=_hex(entry.get("vendor"), 4),
        device_id=_hex(entry.get("device"), 4),
        class_code=_hex(entry.get("class"), 6),
        subsystem_vendor_id=_hex(entry.get("subsystem_vendor"), 4),
        subsystem_device_id=_hex(entry.get("subsystem_device"), 4),
        driver=_last_part(entry.get("driver")),
        iommu_group=_natural(_last_part(entry.get("iommu_group"))),
        # The kernel prints -1 where the firmware does not say.
        numa_node=_natural(entry.get("numa_node")),
        physfn=parse_device_address(_last_part(entry.get("physfn"))),
        vram_bytes=_natural(entry.get("mem_info_vram_total")) or None,
        gtt_bytes=_natural(entry.get("mem_info_gtt_total")) or None,
        is_divided=vendor_tools.is_divided(vendor_tools.partition_mode(entry.get("current_compute_partition"))),
    )


def _hex(value: t.Any, digits: int) -> t.Optional[str]:
    match = _HEX.fullmatch(value.strip()) if isinstance(value, str) else None
    if not match:
        return None
    text = f"{int(match.group(1), 16):0{digits}x}"
    return text if len(text) == digits else None


def _natural(value: t.Any) -> t.Optional[int]:
    is_number = isinstance(value, (int, str)) and not isinstance(value, bool)
    return int(value) if is_number and _NATURAL.fullmatch(str(value).strip()) else None


def _last_part(value: t.Any) -> t.Any:
    return value.rstrip("/").rpartition("/")[2] or None if isinstance(value, str) else value


def _pair(vendor: t.Optional[str], device: t.Optional[str]) -> t.Optional[str]:
    return f"{vendor}:{device}" if vendor and device else None


def _within(number: int, ranges: t.Sequence[t.Tuple[int, int]]) -> bool:
    return any(first <= number <= last for first, last in ranges)
