# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The GPUs that ``amd-smi static`` reports, as JSON or as its indented text.

Format: https://rocm.docs.amd.com/projects/amdsmi/en/latest/how-to/amdsmi-cli-tool.html (versions 23.4 to 26).

The top level of the JSON is a list of GPUs, or in newer versions a dictionary with the list in it. Sizes are a number
with a unit beside it, or in old versions a number whose key names the unit.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import replace

from ansible_collections.knaster.inventory.plugins.module_utils._parsers import vendor_tools
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.gpu import Gpu, Slice
from ansible_collections.knaster.inventory.plugins.module_utils._pci import AMD, parse_device_address

_SOURCE = "amd-smi"

_TEXT_GPU = re.compile(r"^GPU:[ \t]*([0-9]{1,4})[ \t]*$", re.ASCII)
_TEXT_VALUE = re.compile(r"^(?P<indent>[ \t]+)(?P<key>[A-Z][A-Z0-9_]*):[ \t]*(?P<value>.*)$")
_SIZE = re.compile(r"([0-9]{1,9})(?:\.[0-9]+)?\s*([KMGT]i?B)?", re.IGNORECASE | re.ASCII)
# The tool writes MB and means MiB.
_UNITS_MIB = {"": 1.0, "k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024}

Section = t.Mapping[str, t.Any]


def parse(stdout: str, *, stderr: str = "", rc: t.Optional[int] = 0) -> t.List[Gpu]:
    """Return the GPUs of an output.

    :raises ParseError: with the codes of ``vendor_tools.failure``, ``not_json`` for JSON that is cut short
    """
    if re.search(r"^GPU:", stdout, re.MULTILINE):
        entries: t.Any = _read_text(stdout) or None
    else:
        entries = vendor_tools.load_json(stdout, _SOURCE, stderr=stderr, rc=rc)
        if isinstance(entries, dict):
            entries = entries.get("gpu_data", [entries])
    gpus = [_gpu(entry) for entry in entries] if isinstance(entries, list) else []
    found = vendor_tools.once_each(gpus)
    if not found:
        raise vendor_tools.failure(
            _SOURCE, stdout, stderr=stderr, rc=rc, code="no_devices" if entries == [] else "unparsable_rows"
        )
    return [replace(gpu, slices=_slices(gpu, found)) if gpu.mig else gpu for gpu in found]


def _slices(gpu: Gpu, gpus: t.Sequence[Gpu]) -> t.Tuple[Slice, ...]:
    """Return the parts of a GPU: the tool lists them as GPUs of their own, in one slot."""
    parts = [
        other
        for other in gpus
        if other is gpu or (gpu.address and other.address and gpu.address.slot == other.address.slot)
    ]
    return tuple(one for part in parts for one in part.slices or ())


def _read_text(text: str) -> t.List[t.Dict[str, t.Any]]:
    """Turn the indented text into what the JSON would be: of each GPU its sections, of each section its values."""
    gpus: t.List[t.Dict[str, t.Any]] = []
    section: t.Dict[str, t.Any] = {}
    depth = 0
    for line in text.replace("\r", "").replace("\0", "").split("\n"):
        head = _TEXT_GPU.match(line)
        if head:
            gpus.append({"gpu": head.group(1)})
            section, depth = {}, 0
            continue
        match = _TEXT_VALUE.match(line)
        if not match or not gpus:
            # A line of another form ends the GPU before it: what follows may be of anything.
            if line.strip() and not line[:1].isspace():
                section = {}
            continue
        indent, key, value = len(match.group("indent")), match.group("key").lower(), match.group("value").strip()
        if not depth or indent <= depth:
            depth = indent
            section = gpus[-1].setdefault(key, {})
        elif isinstance(section, dict):
            section.setdefault(key, value)
    return gpus


def _gpu(entry: t.Any) -> t.Optional[Gpu]:
    if not isinstance(entry, dict):
        return None
    number = vendor_tools.index(entry.get("gpu"))
    asic, bus, driver, vram = (_section(entry, key) for key in ("asic", "bus", "driver", "vram"))
    modes = _section(entry, "partition")
    mode = vendor_tools.partition_mode(_first(modes, "accelerator_partition", "compute_partition"))
    if number is None or not (asic or bus or driver or vram):
        return None
    size, uuid = _memory_mib(vram), vendor_tools.identity(asic.get("asic_serial"))
    is_divided = vendor_tools.is_divided(mode)
    return Gpu(
        AMD,
        index=number,
        name=vendor_tools.product(asic.get("market_name")),
        memory_mib=size,
        driver=vendor_tools.word(_first(driver, "version", "driver_version")),
        uuid=uuid,
        address=parse_device_address(bus.get("bdf")),
        device_id=vendor_tools.device_id(asic.get("device_id")),
        mig=is_divided,
        slices=(Slice(str(mode).lower(), size and int(size / 1024 + 0.5), uuid),) if is_divided else None,
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
