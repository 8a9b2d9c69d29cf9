# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What the parsers of ``amd-smi``, ``rocm-smi`` and ``xpu-smi`` share: how values look, and what errors say.

These tools print JSON or a text for people. Warnings may stand before the JSON, every number may be a text, and words
like ``N/A`` stand where a value should be.
"""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError, command_error

if t.TYPE_CHECKING:
    from ansible_collections.knaster.inventory.plugins.module_utils._parsers.gpu import Gpu

# No node has more GPUs, and no tool prints longer numbers; what is beyond is not of these tools.
MAX_GPUS = 4096

_NO_VALUE = frozenset(
    ("", "n/a", "na", "none", "null", "unknown", "not supported", "unsupported", "not available", "-")
)

_HEX_ID = re.compile(r"0x0*([0-9a-f]{1,4})", re.IGNORECASE | re.ASCII)
_NUMBER = re.compile(r"([0-9]{1,18})(?:\.[0-9]{1,6})?", re.ASCII)
# An identity of nothing but zeros is one that the GPU does not have.
_UUID = re.compile(r"(?:0x)?(?=[0-9a-fx-]*[1-9a-f])[0-9a-f]{4,32}(?:-[0-9a-f]{1,12}){0,4}", re.IGNORECASE | re.ASCII)
_MIB = 1 << 20
_WHOLE = "SPX"

# Sentences that these tools print instead of GPUs, most telling first.
_ERRORS = tuple(
    (code, re.compile("|".join(patterns), re.IGNORECASE))
    for code, *patterns in (
        (
            "driver_not_loaded",
            r"driver(?: is)? not (?:initiali[sz]ed|loaded)",
            r"not found in modules",
            r"DRIVER_NOT_LOADED",
            r"STATUS_NO_DRV\b",
            r"amdgpu/initstate",
        ),
        (
            "no_devices",
            r"\bno (?:amd |intel )?(?:gpus?|devices?)\b",
            r"\b(?:device|gpu)s? not found\b",
            r"unable to detect any gpu",
        ),
    )
)


def load_json(text: str, source: str, *, stderr: str = "", rc: t.Optional[int] = 0) -> t.Any:
    """Return the first JSON document of a text in which lines may stand before and behind it.

    :raises ParseError: what ``failure`` says where there is none, or it is cut short
    """
    plain = text.replace("\0", "").strip()
    decoder = json.JSONDecoder()
    # What opens further in on a line is a part of a document that is cut, and not the document.
    for match in re.finditer(r"^(?=[\[{])", plain, re.MULTILINE):
        try:
            return decoder.raw_decode(plain, match.start())[0]
        except (ValueError, RecursionError):
            continue
    raise failure(source, text, stderr=stderr, rc=rc, code="not_json")


def failure(
    source: str, stdout: str, *, stderr: str = "", rc: t.Optional[int] = 0, code: str = "unparsable_rows"
) -> ParseError:
    """Return the error for a text that gives no GPU.

    Its code is ``command_not_found``, ``driver_not_loaded``, ``no_devices``, ``command_failed`` or, for a text that
    says none of this, the given one.
    """
    return command_error(source, stdout, stderr, rc, code=code, sentences=_ERRORS)


def word(value: t.Any) -> t.Optional[str]:
    """Return a text without the blanks around it; None for what is no text or only says that there is no value."""
    if not isinstance(value, str):
        return None
    text = value.strip()
    if text.lower().strip("[]<>") in _NO_VALUE or text.lower() == "<redacted>":
        return None
    return text if len(text) <= 200 and text.isprintable() else None


def product(value: t.Any) -> t.Optional[str]:
    """Return a product name; a number in its place is an id of something."""
    text = word(value)
    return None if text is None or re.fullmatch(r"(?:0x)?[0-9a-f]+", text, re.IGNORECASE) else text


def natural(value: t.Any) -> t.Optional[int]:
    """Return a number that may be written as text; None for anything else and for numbers that no GPU has."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    match = _NUMBER.fullmatch(str(value).strip())
    return int(match.group(1)) if match else None


def index(value: t.Any) -> t.Optional[int]:
    """Return the number of a GPU."""
    number = natural(value) if isinstance(value, (int, str)) else None
    return number if number is not None and number < MAX_GPUS else None


def mib_of_bytes(value: t.Any) -> t.Optional[int]:
    """Return whole MiB of a number of bytes; less than one is a size that the tool did not get."""
    number = natural(value)
    return None if number is None else number // _MIB or None


def device_id(value: t.Any) -> t.Optional[str]:
    """Return the four digits of a PCI id that is written with ``0x``."""
    match = _HEX_ID.fullmatch(value.strip()) if isinstance(value, str) else None
    return f"{int(match.group(1), 16):04x}" if match else None


def identity(value: t.Any) -> t.Optional[str]:
    """Return a UUID or the unique number of a chip, in lower case as one tool and another differ in that."""
    text = word(value)
    return text.lower() if text and _UUID.fullmatch(text) else None


def is_divided(mode: t.Optional[str]) -> t.Optional[bool]:
    """Return whether a GPU in this mode is divided into parts; None where the mode is not known."""
    return None if mode is None else mode != _WHOLE


def partition_mode(value: t.Any) -> t.Optional[str]:
    """Return AMD's name of the way in which a GPU is divided: SPX for one that is whole, DPX to CPX for parts."""
    text = word(value)
    return text.upper() if text and re.fullmatch(r"[SDTQC]PX", text, re.IGNORECASE) else None


def once_each(gpus: t.Iterable[t.Optional[Gpu]]) -> t.List[Gpu]:
    """Return GPUs in the order of their index, each index once, the first one that has it."""
    found: t.Dict[int, Gpu] = {}
    for gpu in gpus:
        if gpu is not None and gpu.index is not None and gpu.index < MAX_GPUS:
            found.setdefault(gpu.index, gpu)
    return [found[number] for number in sorted(found)]
