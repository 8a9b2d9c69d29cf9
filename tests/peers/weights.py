# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Writes weight files as their formats want them, with nothing in the tensors."""

from __future__ import annotations

import json
import struct
import typing as t

if t.TYPE_CHECKING:
    import pathlib
    from collections.abc import Mapping, Sequence

_TYPES = {"u32": 4, "f32": 6, "flag": 7, "text": 8}


def gguf_text(text: str) -> bytes:
    """Return a text as GGUF stores it."""
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _bare(kind: str, value: t.Any) -> bytes:
    if kind == "text":
        return gguf_text(value)
    return struct.pack({"u32": "<I", "f32": "<f", "flag": "<?"}[kind], value)


def gguf_value(kind: str, value: t.Any) -> bytes:
    """Return a value with its type; a kind with an s behind it is a list of that kind."""
    if kind.endswith("s"):
        inner = kind[:-1]
        data = b"".join(_bare(inner, one) for one in value)
        return struct.pack("<IIQ", 9, _TYPES[inner], len(value)) + data
    return struct.pack("<I", _TYPES[kind]) + _bare(kind, value)


def gguf_header(facts: Mapping[str, tuple[str, t.Any]], tensors: Sequence[tuple[str, list[int]]] = ()) -> bytes:
    """Return a header with these facts and descriptions of tensors."""
    data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(facts))
    for key, (kind, value) in facts.items():
        data += gguf_text(key) + gguf_value(kind, value)
    for name, shape in tensors:
        data += gguf_text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, 0)
    return data


def write_gguf(path: pathlib.Path, facts: Mapping[str, tuple[str, t.Any]], tensor_bytes: int) -> None:
    """Write a file whose tensors take so many bytes; they are a hole on the disk."""
    header = gguf_header(facts, tensors=[("output.weight", [8])])
    begin = -(-len(header) // 32) * 32
    with path.open("wb") as stream:
        stream.write(header)
        stream.truncate(begin + tensor_bytes)


def write_safetensors(path: pathlib.Path, tensors: Mapping[str, tuple[str, list[int], int]]) -> None:
    """Write a file with these tensors (type, shape, bytes); they are a hole on the disk."""
    document = {}
    offset = 0
    for name, (dtype, shape, size) in tensors.items():
        document[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    header = json.dumps(document).encode()
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(header)) + header)
        stream.truncate(8 + len(header) + offset)
