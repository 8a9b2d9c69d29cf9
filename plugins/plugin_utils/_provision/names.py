# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Names that Proxmox VE takes: of machines, of mappings and of GPUs."""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils import _pci
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import short_hash

if t.TYPE_CHECKING:
    from ansible_collections.knaster.inventory.plugins.module_utils._pci import Address

DEFAULT_PREFIX = "kn"

# Proxmox VE has no limit for the id of a mapping; names of files and messages want one.
MAX_ID = 100


def parse_address(text: t.Any) -> Address | None:
    """Return the address of a GPU, that of its first function where none is named, or None for other text."""
    address = _pci.parse_address(text)
    return address.first if address else None


def mapping_id(prefix: str, pve_node: str, address: Address) -> str:
    """Return the name of a GPU's mapping: by its place, so that a new GPU in a lower slot renames no other."""
    parts = [prefix, pve_node.lower()]
    if address.domain:
        parts.append(f"{address.domain:04x}")
    parts += [f"{address.bus:02x}", f"{address.device:02x}"]
    if address.function:
        parts.append(f"{address.function:x}")
    name = "-".join(parts)
    return name if len(name) <= MAX_ID else f"{name[: MAX_ID - 7]}-{short_hash(name)}"
