# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The GPUs that ``amd-smi static`` tells, as JSON or as its indented text.

The top level of the JSON is a list of GPUs, or in newer versions a dictionary with the list in it. Sizes are a number
with a unit beside it, or in old versions a number whose key names the unit.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._parsers import vendor_gpu
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.vendor_gpu import Card

_SOURCE = "amd-smi"

_TEXT_CARD = re.compile(r"^GPU:[ \t]*([0-9]{1,4})[ \t]*$", re.ASCII)
_TEXT_VALUE = re.compile(r"^(?P<indent>[ \t]+)(?P<key>[A-Z][A-Z0-9_]*):[ \t]*(?P<value>.*)$")
_SIZE = re.compile(r"([0-9]{1,9})(?:\.[0-9]+)?\s*([KMGT]i?B)?", re.IGNORECASE | re.ASCII)
# The tool writes MB and means MiB.
_UNITS_MIB = {"": 1.0, "k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024}

Section = t.Mapping[str, t.Any]


def parse(stdout: str, *, stderr: str = "", rc: t.Optional[int] = 0) -> t.List[Card]:
    """Return the GPUs of an output.

    :raises ParseError: with the codes of ``vendor_gpu.failure``, ``not_json`` for JSON that is cut short
    """
    if re.search(r"^GPU:", stdout, re.MULTILINE):
        entries: t.Any = _read_text(stdout) or None
    else:
        entries = vendor_gpu.load_json(stdout, _SOURCE, stderr=stderr, rc=rc)
        if isinstance(entries, dict):
            entries = entries.get("gpu_data", [entries])
    cards = [_card(entry) for entry in entries] if isinstance(entries, list) else []
    found = vendor_gpu.once_each(card for card in cards if card)
    if not found:
        raise vendor_gpu.failure(
            _SOURCE, stdout, stderr=stderr, rc=rc, code="no_devices" if entries == [] else "unparsable_rows"
        )
    return found


def _read_text(text: str) -> t.List[t.Dict[str, t.Any]]:
    """Turn the indented text into what the JSON would be: of each GPU its sections, of each section its values."""
    cards: t.List[t.Dict[str, t.Any]] = []
    section: t.Dict[str, t.Any] = {}
    depth = 0
    for line in text.replace("\r", "").replace("\0", "").split("\n"):
        head = _TEXT_CARD.match(line)
        if head:
            cards.append({"gpu": head.group(1)})
            section, depth = {}, 0
            continue
        match = _TEXT_VALUE.match(line)
        if not match or not cards:
            # A line of another form ends the GPU before it: what follows may be of anything.
            if line.strip() and not line[:1].isspace():
                section = {}
            continue
        indent, key, value = len(match.group("indent")), match.group("key").lower(), match.group("value").strip()
        if not depth or indent <= depth:
            depth = indent
            section = cards[-1].setdefault(key, {})
        elif isinstance(section, dict):
            section.setdefault(key, value)
    return cards


def _card(entry: t.Any) -> t.Optional[Card]:
    if not isinstance(entry, dict):
        return None
    number = vendor_gpu.index(entry.get("gpu"))
    asic, bus, driver, vram = (_section(entry, key) for key in ("asic", "bus", "driver", "vram"))
    partition = _section(entry, "partition")
    if number is None or not (asic or bus or driver or vram):
        return None
    return Card(
        index=number,
        name=vendor_gpu.product(asic.get("market_name")),
        memory_mib=_memory_mib(vram),
        driver=vendor_gpu.word(_first(driver, "version", "driver_version")),
        uuid=vendor_gpu.identity(asic.get("asic_serial")),
        pci_address=vendor_gpu.address(bus.get("bdf")),
        device_id=vendor_gpu.device_id(asic.get("device_id")),
        gfx=vendor_gpu.architecture(asic.get("target_graphics_version")),
        partition=vendor_gpu.partition_mode(_first(partition, "accelerator_partition", "compute_partition")),
    )


def _section(entry: Section, key: str) -> Section:
    section = entry.get(key)
    return section if isinstance(section, dict) else {}


def _first(section: Section, *keys: str) -> t.Any:
    return next((section[key] for key in keys if section.get(key) is not None), None)


def _memory_mib(vram: Section) -> t.Optional[int]:
    size = _first(vram, "size", "size_mb", "vram_size", "vram_size_mb")
    if isinstance(size, dict):
        value, unit = size.get("value"), size.get("unit")
        size = f"{value} {unit if isinstance(unit, str) else ''}" if isinstance(value, (int, float, str)) else None
    match = _SIZE.fullmatch(str(size).strip()) if isinstance(size, (int, float, str)) else None
    if not match:
        return None
    return int(int(match.group(1)) * _UNITS_MIB[(match.group(2) or "")[:1].lower()]) or None
