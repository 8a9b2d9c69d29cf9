# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The header of a GGUF file: the facts about the model, where its tensors begin, and how long they are.

Of long lists, such as a vocabulary, only the length is kept. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
(versions 2 and 3).
"""

from __future__ import annotations

import struct
import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError

MAX_HEADER_BYTES = 128 * 1024 * 1024

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MAX_KEYS = 10_000
_MAX_TENSORS = 1_000_000
_MAX_NAME = 65_536
_MAX_STRING = 16 * 1024 * 1024
_MAX_LIST = 16_000_000
_MAX_DIMENSIONS = 8
# Lists up to this length are kept whole: there are some with one value for each layer.
_KEPT = 4096

_SCALARS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
_STRING, _LIST = 8, 9

# Types of tensors by number: how many values a block has, and how many bytes (gguf-py 0.19, GGML_QUANT_SIZES).
_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84),
    11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 16: (256, 66), 17: (256, 74), 18: (256, 98),
    19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4),
    27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17), 40: (64, 36),
    41: (128, 18),
}  # fmt: skip


@dataclass(frozen=True)
class Header:
    """The facts by key, the number of tensors, and the offset of the first tensor in the file.

    ``least_bytes`` is how long the file is at least by its table of tensors; a tensor of a type that is not known counts
    as nothing.
    """

    facts: t.Mapping[str, t.Any]
    tensors: int
    data_offset: int
    least_bytes: int


class MoreNeededError(Exception):
    """The header goes on behind the bytes that were given."""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def take(self, size: int) -> bytes:
        end = self.position + size
        if end > len(self._data):
            raise MoreNeededError
        part = self._data[self.position : end]
        self.position = end
        return part

    def number(self, form: str) -> t.Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def length(self, limit: int, what: str) -> int:
        length: int = self.number("<Q")
        if length > limit:
            raise ParseError("gguf", "not_gguf", detail=f"{length} {what}")
        return length

    def text(self, limit: int) -> str:
        return self.take(self.length(limit, "bytes in one text")).decode("utf-8", "replace")

    def value(self, kind: int, depth: int = 0) -> t.Any:
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind == _STRING:
            return self.text(_MAX_STRING)
        if kind != _LIST or depth > 2:
            raise ParseError("gguf", "not_gguf", detail=f"a value of type {kind}")
        inner: int = self.number("<I")
        count = self.length(_MAX_LIST, "values in one list")
        if inner in _SCALARS and count > _KEPT:
            self.take(count * struct.calcsize(_SCALARS[inner]))
            return {"length": count}
        values = []
        for _unused in range(count):
            one = self.value(inner, depth + 1)
            if count <= _KEPT:
                values.append(one)
        return values if count <= _KEPT else {"length": count}


def parse(data: bytes) -> Header:
    """Return the header at the beginning of a file.

    :raises MoreNeededError: where it does not end in these bytes
    :raises ParseError: ``not_gguf``
    """
    reader = _Reader(data)
    if data[:4] != _MAGIC[: len(data)]:
        raise ParseError("gguf", "not_gguf", detail="it does not begin as a GGUF file does")
    reader.take(4)
    version = reader.number("<I")
    if version not in _VERSIONS:
        raise ParseError("gguf", "not_gguf", detail=f"version {version}")
    tensors = reader.length(_MAX_TENSORS, "tensors")
    keys = reader.length(_MAX_KEYS, "keys")
    facts: t.Dict[str, t.Any] = {}
    for _unused in range(keys):
        key = reader.text(_MAX_NAME)
        facts[key] = reader.value(reader.number("<I"))
    end = 0
    for _unused in range(tensors):
        end = max(end, _end_of_tensor(reader))
    alignment = facts.get("general.alignment", 32)
    if not isinstance(alignment, int) or isinstance(alignment, bool) or not 0 < alignment <= 1 << 20:
        raise ParseError("gguf", "not_gguf", detail=f"an alignment of {alignment!r}"[:100])
    offset = -(-reader.position // alignment) * alignment
    # Without tensors nothing has to follow, not even what would align them.
    return Header(
        facts=facts, tensors=tensors, data_offset=offset, least_bytes=offset + end if end else reader.position
    )


def _end_of_tensor(reader: _Reader) -> int:
    """Read one row of the table of tensors and return where its data end, from the first tensor on."""
    reader.text(_MAX_NAME)
    dimensions = reader.number("<I")
    if dimensions > _MAX_DIMENSIONS:
        raise ParseError("gguf", "not_gguf", detail=f"a tensor of {dimensions} dimensions")
    values = 1
    for _unused in range(dimensions):
        values *= reader.number("<Q")
    values_each, bytes_each = _BLOCKS.get(reader.number("<I"), (1, 0))
    offset: int = reader.number("<Q")
    return offset + -(-values // values_each) * bytes_each
