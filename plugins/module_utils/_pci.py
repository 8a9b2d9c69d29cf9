# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""PCI addresses and ids, the one way in which all rooms read and write them.

The kernel writes ``0000:41:00.0``, and a longer domain only where it needs one (``10000:e1:00.0`` behind a volume
controller). nvidia-smi writes eight digits of domain and capitals, lspci leaves out a domain of 0, and Proxmox VE leaves
out the function where it means the whole slot.
"""

from __future__ import annotations

import re
import typing as t

# The ids of the vendors whose GPUs are placed (https://pci-ids.ucw.cz), and what their entries are called.
NVIDIA, AMD, INTEL = "10de", "1002", "8086"
VENDORS = {NVIDIA: "nvidia", AMD: "amd", INTEL: "intel"}

ALL_FUNCTIONS = -1

_ADDRESS = re.compile(
    r"(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<bus>[0-9a-f]{2}):(?P<slot>[0-9a-f]{2})(?:\.(?P<function>[0-7]))?",
    re.IGNORECASE,
)
_IN_TEXT = re.compile(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
_ID = re.compile(r"(?:0x)?([0-9a-f]{4}):(?:0x)?([0-9a-f]{4})", re.IGNORECASE)


class Address(t.NamedTuple):
    """The place of a PCI device. Addresses sort in the order of the bus, a whole slot before its functions."""

    domain: int
    bus: int
    device: int
    function: int = ALL_FUNCTIONS

    @property
    def text(self) -> str:
        """Write the address as the kernel and Proxmox VE do, without a function where it stands for the whole slot."""
        slot = f"{self.domain:04x}:{self.bus:02x}:{self.device:02x}"
        return slot if self.function == ALL_FUNCTIONS else f"{slot}.{self.function}"

    @property
    def slot(self) -> Address:
        """Return the address of the whole slot, with all its functions."""
        return self._replace(function=ALL_FUNCTIONS)

    @property
    def first(self) -> Address:
        """Return the address of one function, the first one (0) of a whole slot."""
        return self._replace(function=0) if self.function == ALL_FUNCTIONS else self

    def covers(self, other: Address) -> bool:
        """Return whether another address is this one or, where this is a whole slot, lies in it."""
        return self in (other, other.slot)


def parse_address(text: t.Any) -> t.Optional[Address]:
    """Return the address that a text is, or None; a missing domain is 0, a missing function means all of them."""
    match = _ADDRESS.fullmatch(text.strip()) if isinstance(text, str) else None
    if not match:
        return None
    domain, bus, slot, function = match.groups()
    return Address(
        int(domain or "0", 16), int(bus, 16), int(slot, 16), ALL_FUNCTIONS if function is None else int(function)
    )


def parse_device_address(text: t.Any) -> t.Optional[Address]:
    """Return the address of one function, as the kernel and the vendors' tools write it, or None for anything else."""
    address = parse_address(text)
    return None if address is None or address.function == ALL_FUNCTIONS else address


def parse_addresses(text: str) -> t.List[Address]:
    """Return the addresses of a list with semicolons between them; what is not an address is left out."""
    return [address for address in map(parse_address, text.split(";")) if address is not None]


def find_address(text: str) -> t.Optional[Address]:
    """Return the first address with a function that stands somewhere in a text, or None."""
    match = _IN_TEXT.search(text)
    return parse_device_address(match.group()) if match else None


def without_address(text: str) -> str:
    """Return a text without the addresses that ``find_address`` finds in it."""
    return _IN_TEXT.sub("", text)


def parse_id(text: t.Any) -> t.Optional[str]:
    """Return a pair of vendor and device in lower case and without ``0x`` (``10de:26b1``), or None."""
    match = _ID.fullmatch(text.strip()) if isinstance(text, str) else None
    return f"{match.group(1)}:{match.group(2)}".lower() if match else None
