# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Names that Proxmox VE takes: of machines, of mappings and of GPUs."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import _short_hash

DEFAULT_PREFIX = "kn"

# What PVE takes as a configuration id. It has no limit there; names of files and messages want one.
CONFIG_ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]+")
MAX_ID = 100

_ADDRESS = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7]))?")
_PAIR = re.compile(r"(?:0x)?([0-9a-f]{4}):(?:0x)?([0-9a-f]{4})")


class Address(t.NamedTuple):
    """A PCI address; addresses sort in the order of the bus."""

    domain: int
    bus: int
    slot: int
    function: int

    @property
    def text(self) -> str:
        """The address with its domain, as PVE compares it."""
        return f"{self.path}.{self.function:x}"

    @property
    def path(self) -> str:
        """The address without its function: all functions of the slot."""
        return f"{self.domain:04x}:{self.bus:02x}:{self.slot:02x}"


def parse_address(text: t.Any) -> Address | None:
    """Read a PCI address; a missing domain is 0000, a missing function 0."""
    match = _ADDRESS.fullmatch(text.strip().lower()) if isinstance(text, str) else None
    if match is None:
        return None
    domain, bus, slot, function = (int(part, 16) if part else 0 for part in match.groups())
    return Address(domain, bus, slot, function) if slot < 0x20 else None


def pci_id(text: t.Any) -> str | None:
    """Return a pair of vendor and device as PVE compares it: lower case, without ``0x``."""
    match = _PAIR.fullmatch(text.strip().lower()) if isinstance(text, str) else None
    return f"{match[1]}:{match[2]}" if match else None


def mapping_id(prefix: str, pve_node: str, address: Address) -> str:
    """Return the name of a GPU's mapping: by its place, so that a new GPU in a lower slot renames no other."""
    parts = [prefix, pve_node.lower()]
    if address.domain:
        parts.append(f"{address.domain:04x}")
    parts += [f"{address.bus:02x}", f"{address.slot:02x}"]
    if address.function:
        parts.append(f"{address.function:x}")
    name = "-".join(parts)
    return name if len(name) <= MAX_ID else f"{name[: MAX_ID - 7]}-{_short_hash(name)}"
