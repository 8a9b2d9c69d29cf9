# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Reads the headers of weight files and the description beside them, and never more than that."""

from __future__ import annotations

import json
import os
import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.module_utils._models.geometry import (
    Geometry,
    geometry_of_config,
    geometry_of_gguf,
)
from ansible_collections.knaster.inventory.plugins.module_utils._parsers import gguf, safetensors
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError

if t.TYPE_CHECKING:
    from ansible_collections.knaster.inventory.plugins.module_utils._weights.judge import Weights

MAX_CONFIG_BYTES = 4 * 1024 * 1024
# Most headers end in the first of these; a large vocabulary needs the second.
_GGUF_READS = (16 * 1024 * 1024, gguf.MAX_HEADER_BYTES)


@dataclass(frozen=True)
class Found:
    """What the files say: the bytes of all tensors, the number of values by type, and how the model is built."""

    weight_bytes: int
    geometry: Geometry
    values: t.Mapping[str, int]


def read_weights(weights: Weights) -> Found:
    """Read the headers of these weights; a file that is no such file, or shorter than it says, is a ParseError."""
    if weights.format == "gguf":
        return _read_gguf(weights)
    directory = weights.path
    geometry = geometry_of_config(
        {
            # ModelOpt says how it quantised in a file of its own.
            **_read_config(os.path.join(directory, "hf_quant_config.json")),
            **_read_config(os.path.join(directory, "config.json")),
        }
    )
    if weights.format != "safetensors":
        return Found(weight_bytes=weights.size_bytes, geometry=geometry, values={})
    total = 0
    values: t.Dict[str, int] = {}
    for name in weights.files:
        header = _read_safetensors(os.path.join(directory, name))
        total += header.tensor_bytes
        for dtype, number in header.values.items():
            values[dtype] = values.get(dtype, 0) + number
    return Found(weight_bytes=total, geometry=geometry, values=dict(sorted(values.items())))


def check_lengths(weights: Weights) -> None:
    """Raise a ParseError where a file is shorter than its own header says, or has none."""
    for name in weights.files:
        if weights.format == "gguf":
            _read_gguf_header(os.path.join(os.path.dirname(weights.path), name))
        elif weights.format == "safetensors":
            _read_safetensors(os.path.join(weights.path, name))


def _read_safetensors(path: str) -> safetensors.Header:
    with open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        length = safetensors.header_length(stream.read(safetensors.LENGTH_BYTES), size)
        return safetensors.parse(stream.read(length), size)


def _read_gguf(weights: Weights) -> Found:
    directory = os.path.dirname(weights.path)
    total = 0
    geometry: t.Optional[Geometry] = None
    for name in weights.files:
        path = os.path.join(directory, name)
        header = _read_gguf_header(path)
        total += max(0, os.path.getsize(path) - header.data_offset)
        # Of a split file the first part has all facts.
        geometry = geometry or geometry_of_gguf(header.facts)
    return Found(weight_bytes=total, geometry=geometry or Geometry(), values={})


def _read_gguf_header(path: str) -> gguf.Header:
    for limit in _GGUF_READS:
        with open(path, "rb") as stream:
            data = stream.read(limit)
        try:
            header = gguf.parse(data)
        except gguf.MoreNeededError:
            if len(data) < limit:
                raise ParseError("gguf", "truncated", detail=path) from None
            continue
        check_gguf_length(header, os.path.getsize(path), path)
        return header
    raise ParseError("gguf", "not_gguf", detail=f"a header of more than {gguf.MAX_HEADER_BYTES} bytes in {path}")


def check_gguf_length(header: gguf.Header, size: int, name: str) -> None:
    """Raise a ParseError where a file of so many bytes is shorter than its table of tensors says."""
    if size < header.least_bytes:
        raise ParseError("gguf", "truncated", detail=f"{name} has {size} of {header.least_bytes} bytes at least")


def _read_config(path: str) -> t.Mapping[str, t.Any]:
    try:
        with open(path, "rb") as stream:
            text = stream.read(MAX_CONFIG_BYTES + 1)
    except FileNotFoundError:
        return {}
    if len(text) > MAX_CONFIG_BYTES:
        raise ParseError("config.json", "too_large", detail=f"more than {MAX_CONFIG_BYTES} bytes")
    try:
        config = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ParseError("config.json", "not_json") from None
    return config if isinstance(config, dict) else {}
