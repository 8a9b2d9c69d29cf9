# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The header of a safetensors file: which tensors it holds and what they take.

A file is eight bytes with the length of its header, the header as JSON, and the tensors one after the other. Format:
https://huggingface.co/docs/safetensors (version 0.7).
"""

from __future__ import annotations

import json
import struct
import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError

# The format itself allows no more.
MAX_HEADER_BYTES = 100_000_000
LENGTH_BYTES = 8
# No tensor has more values, and no file more bytes.
_MOST = 1 << 63

_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64,
    "C64": 64,
}  # fmt: skip


@dataclass(frozen=True)
class Header:
    """What one file holds: the bytes of all tensors, and the number of values by type."""

    tensors: int
    tensor_bytes: int
    values: t.Mapping[str, int]


def header_length(first: bytes, file_size: int) -> int:
    """Return how many bytes the header takes after the first eight, or raise where this is not such a file."""
    if len(first) < LENGTH_BYTES:
        raise ParseError("safetensors", "truncated", detail=f"a file of {file_size} bytes")
    length: int = struct.unpack("<Q", first[:LENGTH_BYTES])[0]
    if not 2 <= length <= MAX_HEADER_BYTES:
        raise ParseError("safetensors", "not_safetensors", detail=f"a header of {length} bytes")
    if LENGTH_BYTES + length > file_size:
        raise ParseError("safetensors", "truncated", detail=f"a header of {length} bytes in a file of {file_size}")
    return length


def parse(header: bytes, file_size: int) -> Header:
    """Return a header.

    :raises ParseError: where a tensor does not lie inside the file or is not as large as its shape says
    """
    try:
        document = json.loads(header.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ParseError("safetensors", "not_json") from None
    if not isinstance(document, dict):
        raise ParseError("safetensors", "not_safetensors", detail="the header is not a map")
    room = file_size - LENGTH_BYTES - len(header)
    total = count = end_of_data = 0
    values: t.Dict[str, int] = {}
    for name, tensor in document.items():
        if name == "__metadata__":
            continue
        dtype, size, end, number = _read_tensor(name, tensor)
        total += size
        count += 1
        end_of_data = max(end_of_data, end)
        values[dtype] = values.get(dtype, 0) + number
    if end_of_data > room:
        raise ParseError("safetensors", "truncated", detail=f"{end_of_data - room} bytes of the tensors are missing")
    return Header(tensors=count, tensor_bytes=total, values=dict(sorted(values.items())))


def _read_tensor(name: str, tensor: t.Any) -> t.Tuple[str, int, int, int]:
    try:
        dtype = tensor["dtype"]
        shape = tensor["shape"]
        begin, end = tensor["data_offsets"]
        whole = all(
            isinstance(one, int) and not isinstance(one, bool) and 0 <= one < _MOST for one in (*shape, begin, end)
        )
    except (TypeError, KeyError, ValueError):
        whole = False
    if not whole or not isinstance(dtype, str) or end < begin:
        raise ParseError("safetensors", "not_safetensors", detail=f"tensor {name[:80]!r} is not described")
    number = 1
    for one in shape:
        number *= one
        if number >= _MOST:
            raise ParseError("safetensors", "not_safetensors", detail=f"tensor {name[:80]!r} is larger than any file")
    bits = _BITS.get(dtype)
    # A type that came later is taken at its word.
    if bits is not None and (number * bits + 7) // 8 != end - begin:
        raise ParseError("safetensors", "not_safetensors", detail=f"tensor {name[:80]!r} is not as large as its shape")
    return dtype, end - begin, end, number
