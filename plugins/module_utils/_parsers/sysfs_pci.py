# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""PCI devices as ``/sys/bus/pci/devices`` describes them, and which of them are GPUs to place something on.

A GPU that a virtual machine holds is invisible to its vendor's tools; here it stays visible, with its ids, its IOMMU
group and the driver that holds it.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, replace

from ansible_collections.knaster.inventory.plugins.module_utils._parsers import vendor_gpu
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError

NVIDIA, AMD, INTEL = "10de", "1002", "8086"

# Domains have four digits or more: a volume controller makes domains like 10000.
_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE | re.ASCII)
_HEX = re.compile(r"(?:0x)?([0-9a-f]{1,8})", re.IGNORECASE | re.ASCII)
_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
# "<address>/<attribute>:<value>" as grep prints it, "<address>/<link> -> <target>" as ls and readlink loops do.
_ATTRIBUTE = re.compile(
    r"(?P<address>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/(?P<key>[a-z_]+)(?::| -> )(?P<value>.*)$", re.IGNORECASE
)

_DISPLAY = "03"
_ACCELERATOR = "12"
_AUDIO = "0403"
_BRIDGES = ("0600", "0604")

# Processors with graphics inside, by device id. The Strix Halo (1586) is one too, but large enough to serve models.
_AMD_INTEGRATED = frozenset(
    (
        "1114", "13c0", "1435", "1506", "150e", "15bf", "15c8", "15d8", "15dd", "15e7", "1636", "1638", "163f", "164c",
        "164d", "164e", "1681", "1586", "1900", "1901", "98e4",
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
_AMD_LARGE_INTEGRATED = frozenset(("1586",))
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
    driver says of a GPU's own memory and of the host's that it may use, and ``partition`` how it divides the GPU.
    ``companions`` and ``iommu_peers`` are filled in by ``gpus``.
    """

    address: str
    vendor_id: t.Optional[str] = None
    device_id: t.Optional[str] = None
    class_code: t.Optional[str] = None
    subsystem_vendor_id: t.Optional[str] = None
    subsystem_device_id: t.Optional[str] = None
    driver: t.Optional[str] = None
    iommu_group: t.Optional[int] = None
    numa_node: t.Optional[int] = None
    physfn: t.Optional[str] = None
    vram_bytes: t.Optional[int] = None
    gtt_bytes: t.Optional[int] = None
    partition: t.Optional[str] = None
    companions: t.Tuple[Device, ...] = ()
    iommu_peers: t.Tuple[Device, ...] = ()

    @property
    def pci_id(self) -> t.Optional[str]:
        """Give ``vendor:device``."""
        return _pair(self.vendor_id, self.device_id)

    @property
    def subsystem_id(self) -> t.Optional[str]:
        """Give ``vendor:device`` of the board that the chip sits on."""
        return _pair(self.subsystem_vendor_id, self.subsystem_device_id)

    @property
    def slot(self) -> str:
        """Give the address without the function."""
        return self.address.rpartition(".")[0]

    @property
    def is_display(self) -> bool:
        """Tell a display or 3D controller."""
        return (self.class_code or "").startswith(_DISPLAY)

    @property
    def is_integrated(self) -> bool:
        """Tell graphics that are part of a processor or chipset."""
        number = int(self.device_id, 16) if self.device_id else -1
        if self.vendor_id == AMD:
            return self.device_id in _AMD_INTEGRATED or _within(number, _AMD_INTEGRATED_RANGES)
        if self.vendor_id == NVIDIA:
            return _within(number, _NVIDIA_CHIPSET_RANGES)
        if self.vendor_id == INTEL:
            # All graphics of Intel processors sit on the root bus; GPUs are behind a bridge, in guests on any bus.
            return not _within(number, _INTEL_DISCRETE_RANGES) and self.address.startswith("0000:00:")
        return False


def parse(devices: t.Iterable[t.Mapping[str, t.Any]]) -> t.List[Device]:
    """Turn what sysfs says into devices, sorted by address, each address once.

    The keys are the names in sysfs: ``address``, ``class``, ``vendor``, ``device``, ``subsystem_vendor``,
    ``subsystem_device``, ``numa_node``, and for the links ``driver``, ``iommu_group``, ``physfn`` their target or its
    last part. Entries without a usable address are left out: there is nothing to know them by.
    """
    merged: t.Dict[str, t.Dict[str, t.Any]] = {}
    for entry in devices:
        address = _address(entry.get("address"))
        if address:
            known = merged.setdefault(address, {})
            known.update({key: value for key, value in entry.items() if value not in (None, "")})
    found = [_device(address, entry) for address, entry in merged.items()]
    return sorted(found, key=lambda device: address_key(device.address))


def parse_text(text: str) -> t.List[Device]:
    """Read a listing that somebody saved: ``grep -H . */class */vendor ...``, links with ``->``, or addresses only.

    A text without any PCI address is ``ParseError`` (``no_devices_listed``).
    """
    entries: t.Dict[str, t.Dict[str, str]] = {}
    for line in text.replace("\ufeff", "").replace("\r", "").split("\n"):
        match = _ATTRIBUTE.search(line)
        if match:
            entries.setdefault(match.group("address").lower(), {})[match.group("key")] = match.group("value").strip()
            continue
        for word in line.split():
            if _ADDRESS.fullmatch(word.rpartition("/")[2]):
                entries.setdefault(word.rpartition("/")[2].lower(), {})
    if not entries:
        raise ParseError("PCI", "no_devices_listed", detail=text.strip()[:80])
    return parse({"address": address, **entry} for address, entry in entries.items())


def gpus(devices: t.Sequence[Device]) -> t.List[Device]:
    """Give the devices that are GPUs for placement, with their companions and what shares their IOMMU groups."""
    return [with_neighbours(device, devices) for device in devices if why_not_gpu(device) is None]


def displays(devices: t.Sequence[Device]) -> t.List[Device]:
    """Give every graphics device of the three vendors that is no console adapter: GPUs and integrated ones."""
    return [with_neighbours(device, devices) for device in devices if why_not_gpu(device) in (None, "integrated")]


def why_not_gpu(device: Device) -> t.Optional[str]:
    """Say in one word why nothing is placed on a device, or ``None`` for a GPU.

    ``not_a_display``, ``other_vendor`` (management controllers and virtual adapters among them), ``console``,
    ``virtual_function`` or ``integrated``.
    """
    # The larger AMD accelerators have no display and are of another class; of other vendors such are no GPUs.
    is_accelerator = device.vendor_id == AMD and (device.class_code or "").startswith(_ACCELERATOR)
    if not device.is_display and not is_accelerator:
        return "not_a_display"
    if device.vendor_id not in (NVIDIA, AMD, INTEL):
        return "other_vendor"
    if device.vendor_id == AMD and device.device_id in _AMD_CONSOLE:
        return "console"
    if device.physfn:
        return "virtual_function"
    is_large = device.vendor_id == AMD and device.device_id in _AMD_LARGE_INTEGRATED
    return "integrated" if device.is_integrated and not is_large else None


def with_neighbours(device: Device, devices: t.Sequence[Device]) -> Device:
    """Fill in what belongs to a GPU (its sound, its USB port) and what else is in its IOMMU group.

    Bridges are left out of the group: the host may keep them when the rest of a group is given away.
    """
    others = [other for other in devices if other.address != device.address]
    companions = [other for other in others if _belongs_to(other, device)]
    peers = [
        other
        for other in others
        if device.iommu_group is not None
        and other.iommu_group == device.iommu_group
        and (other.class_code or "")[:4] not in _BRIDGES
    ]
    return replace(device, companions=tuple(companions), iommu_peers=tuple(peers))


def address_key(address: str) -> t.Tuple[int, int, int, int]:
    """Give a sort key that orders addresses as numbers."""
    match = _ADDRESS.fullmatch(address)
    if not match:
        return (1 << 32, 0, 0, 0)
    return t.cast("t.Tuple[int, int, int, int]", tuple(int(part, 16) for part in match.groups()))


def _belongs_to(other: Device, device: Device) -> bool:
    if other.slot != device.slot:
        return False
    # The slot of a processor's graphics also holds parts of the processor.
    is_of_card = other.vendor_id == device.vendor_id and not device.is_integrated
    return is_of_card or (other.class_code or "").startswith(_AUDIO)


def _device(address: str, entry: t.Mapping[str, t.Any]) -> Device:
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
        physfn=_address(_last_part(entry.get("physfn"))),
        vram_bytes=_natural(entry.get("mem_info_vram_total")) or None,
        gtt_bytes=_natural(entry.get("mem_info_gtt_total")) or None,
        partition=vendor_gpu.partition_mode(entry.get("current_compute_partition")),
    )


def _address(value: t.Any) -> t.Optional[str]:
    """Write an address as the kernel does, with the shortest domain of at least four digits."""
    match = _ADDRESS.fullmatch(value.strip()) if isinstance(value, str) else None
    if not match:
        return None
    domain, bus, slot, function = match.groups()
    return f"{int(domain, 16):04x}:{bus}:{slot}.{function}".lower()


def _hex(value: t.Any, digits: int) -> t.Optional[str]:
    match = _HEX.fullmatch(value.strip()) if isinstance(value, str) else None
    if not match:
        return None
    text = f"{int(match.group(1), 16):0{digits}x}"
    return text if len(text) == digits else None


def _natural(value: t.Any) -> t.Optional[int]:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if value >= 0 else None
    if not isinstance(value, str) or not _INTEGER.fullmatch(value.strip()):
        return None
    number = int(value)
    return number if number >= 0 else None


def _last_part(value: t.Any) -> t.Any:
    return value.rstrip("/").rpartition("/")[2] or None if isinstance(value, str) else value


def _pair(vendor: t.Optional[str], device: t.Optional[str]) -> t.Optional[str]:
    return f"{vendor}:{device}" if vendor and device else None


def _within(number: int, ranges: t.Sequence[t.Tuple[int, int]]) -> bool:
    return any(first <= number <= last for first, last in ranges)
