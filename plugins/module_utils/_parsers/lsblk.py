# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The output of ``lsblk -J -b -d -o NAME,SIZE,ROTA``, as lsblk(8) of util-linux 2.27 to 2.41 prints it."""

from __future__ import annotations

import json
import re
import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError, command_error

_SOURCE = "lsblk"

# Devices that are no disk by their name. The boot and replay-protected areas of an eMMC call themselves disks.
_NOT_A_DISK = re.compile(
    r"(?:loop|zram|ram|sr|scd|fd|zd|nbd|rbd|drbd|dm-|md|bcache|zvol|mtdblock|nullb|sg)[0-9]"
    r"|md[_/]|mapper/|mmcblk[0-9]+(?:boot[0-9]+|rpmb|gp[0-9]+)$|nvme[0-9]+c[0-9]+n[0-9]+$",
    re.ASCII,
)
_BARE_SIZE = re.compile(r"(\"[A-Za-z-]+\"\s*:\s*)([0-9.,]+[BKMGTPE]i?B?)(?=\s*[,}])")
_EXACT = re.compile(r"([0-9]{1,20})B?", re.ASCII)
_COMPLAINTS = (("command_failed", re.compile(r"^lsblk\S*: |^usage", re.IGNORECASE)),)
_DIGITS = re.compile(r"([0-9]+)", re.ASCII)


@dataclass(frozen=True)
class BlockDevice:
    """One row of the output; None where it does not say. A size is known only where it is printed to the byte."""

    name: str
    size_bytes: t.Optional[int] = None
    rotational: t.Optional[bool] = None
    type: t.Optional[str] = None


def parse(stdout: str, *, stderr: str = "", rc: t.Optional[int] = 0) -> t.List[BlockDevice]:
    """Return all rows in the order of the output; what lies below a device (partitions, volumes) is left out.

    :raises ParseError: ``command_not_found``, ``command_failed`` (nothing on standard output, also an unknown column
        or option) or ``not_json``
    """
    text = stdout.replace("\ufeff", "")
    start = text.find("{")
    if start < 0:
        raise command_error(_SOURCE, text, stderr, rc, code="not_json", sentences=_COMPLAINTS)
    document = _load(text[start:])
    rows = document.get("blockdevices") if isinstance(document, dict) else None
    if not isinstance(rows, list):
        raise ParseError(_SOURCE, "not_json", detail="there is no list of block devices")
    devices = [_device(row) for row in rows if isinstance(row, dict)]
    return [device for device in devices if device is not None]


def disks(rows: t.Iterable[BlockDevice]) -> t.List[BlockDevice]:
    """Return the rows that are real disks, sorted by name with numbers as numbers."""
    known = list(rows)
    names = {row.name for row in known}
    found = [row for row in known if _is_disk(row) and not _is_partition(row.name, names)]
    return sorted(found, key=lambda row: natural_key(row.name))


def natural_key(name: str) -> t.Tuple[t.Tuple[int, int, str], ...]:
    """Return a sort key that puts ``nvme2n1`` before ``nvme10n1``."""
    parts = _DIGITS.split(name)
    return tuple((1, int(part), part) if place % 2 else (0, 0, part) for place, part in enumerate(parts))


def _is_disk(row: BlockDevice) -> bool:
    if row.type is not None and row.type != "disk":
        return False
    return not _NOT_A_DISK.match(row.name)


def _is_partition(name: str, names: t.AbstractSet[str]) -> bool:
    """Return whether a name is that of a partition, for output without types: the disk, "p" after a digit, a number."""
    match = re.fullmatch(r"(.*?)(p?)([0-9]+)", name, re.ASCII | re.DOTALL)
    if not match:
        return False
    parent = match.group(1)
    return parent in names and parent[-1:].isdigit() == bool(match.group(2))


def _load(text: str) -> t.Any:
    decoder = json.JSONDecoder()
    for candidate in (text, _BARE_SIZE.sub(r'\1"\2"', text)):
        try:
            # A warning may stand behind the document, when both outputs went to one file.
            return decoder.raw_decode(candidate)[0]
        except (ValueError, RecursionError) as error:
            problem = error
    raise ParseError(_SOURCE, "not_json", detail=str(problem))


def _device(row: t.Mapping[str, t.Any]) -> t.Optional[BlockDevice]:
    name = row.get("name") or row.get("kname")
    if not isinstance(name, str) or not name.strip():
        return None
    kind = row.get("type")
    return BlockDevice(
        name=name.strip(),
        size_bytes=_size(row.get("size")),
        rotational=_flag(row.get("rota")),
        type=kind if isinstance(kind, str) and kind else None,
    )


def _size(value: t.Any) -> t.Optional[int]:
    """Return a size in bytes; "223.6G" has lost the bytes, and is unknown."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if value >= 0 else None
    match = _EXACT.fullmatch(value.strip()) if isinstance(value, str) else None
    return int(match.group(1)) if match else None


def _flag(value: t.Any) -> t.Optional[bool]:
    """Return a flag: a boolean, or in old versions the text "0" or "1"."""
    text = str(value).strip().lower()
    return {"1": True, "true": True, "0": False, "false": False}.get(text)
