# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The GPUs that ``xpu-smi discovery`` reports, as JSON or as its table.

Format: https://github.com/intel/xpumanager/blob/master/doc/smi_user_guide.md (versions 1.0 to 1.3).

Graphics of a processor are listed like GPUs, and on such a machine are the first. The list of all devices has no sizes;
what it tells of one device has. Without its list of names the tool writes the PCI id into the name.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._parsers import vendor_tools
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.gpu import Gpu
from ansible_collections.knaster.inventory.plugins.module_utils._pci import INTEL, parse_device_address

_SOURCE = "xpu-smi"

_ROW = re.compile(
    r"^\|\s*(?P<index>[0-9]{0,4})\s*\|\s*(?P<key>[A-Za-z][^:|]{1,40}):\s*(?P<value>[^|]*?)\s*\|?\s*$", re.ASCII
)
_ID_IN_NAME = re.compile(r"\[(0x[0-9a-f]{4})\]", re.IGNORECASE | re.ASCII)
_MEMORY = re.compile(r"([0-9]{1,9})(?:\.[0-9]+)?\s*(MiB|GiB)", re.ASCII)
# The rows of the table by the keys of the JSON.
_KEYS = {
    "device name": "device_name",
    "uuid": "uuid",
    "soc uuid": "uuid",
    "pci bdf address": "pci_bdf_address",
    "pci device id": "pci_device_id",
    "driver version": "driver_version",
    "memory physical size": "memory_physical_size",
}

Values = t.Dict[str, t.Any]


def parse(stdout: str, *, stderr: str = "", rc: t.Optional[int] = 0) -> t.List[Gpu]:
    """Return the devices of an output, graphics of processors among them.

    :raises ParseError: with the codes of ``vendor_tools.failure``, ``not_json`` for JSON that is cut short
    """
    if re.search(r"^\|", stdout, re.MULTILINE):
        entries: t.Any = _read_table(stdout) or None
    else:
        document = vendor_tools.load_json(stdout, _SOURCE, stderr=stderr, rc=rc)
        # Asked for one device the tool prints that device alone.
        entries = document.get("device_list", [document]) if isinstance(document, dict) else None
    gpus = [_gpu(entry) for entry in entries] if isinstance(entries, list) else []
    found = vendor_tools.once_each(gpus)
    if not found:
        raise vendor_tools.failure(
            _SOURCE, stdout, stderr=stderr, rc=rc, code="no_devices" if entries == [] else "unparsable_rows"
        )
    return found


def _read_table(text: str) -> t.List[Values]:
    entries: t.List[Values] = []
    for line in text.replace("\r", "").replace("\0", "").split("\n"):
        match = _ROW.match(line.strip())
        if not match:
            continue
        if match.group("index"):
            entries.append({"device_id": match.group("index")})
        key = _KEYS.get(match.group("key").strip().lower())
        if entries and key:
            entries[-1].setdefault(key, match.group("value"))
    return entries


def _gpu(entry: t.Any) -> t.Optional[Gpu]:
    if not isinstance(entry, dict):
        return None
    number = vendor_tools.index(entry.get("device_id"))
    name = vendor_tools.product(entry.get("device_name"))
    address = parse_device_address(entry.get("pci_bdf_address"))
    if number is None or not (name or address):
        return None
    in_name = _ID_IN_NAME.search(name or "")
    return Gpu(
        INTEL,
        index=number,
        name=name,
        memory_mib=vendor_tools.mib_of_bytes(entry.get("memory_physical_size_byte")) or _memory_mib(entry),
        driver=vendor_tools.word(entry.get("driver_version")),
        uuid=vendor_tools.identity(entry.get("uuid")),
        address=address,
        device_id=vendor_tools.device_id(entry.get("pci_device_id"))
        or vendor_tools.device_id(in_name.group(1) if in_name else None),
    )


def _memory_mib(entry: t.Mapping[str, t.Any]) -> t.Optional[int]:
    match = _MEMORY.fullmatch(vendor_tools.word(entry.get("memory_physical_size")) or "")
    return int(match.group(1)) * (1024 if match.group(2) == "GiB" else 1) or None if match else None
