# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import struct

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.gguf import (
    MoreNeededError,
    parse,
)
from ansible_collections.knaster.inventory.tests.peers.weights import gguf_header, gguf_text, gguf_value

FACTS = {
    "general.architecture": ("text", "llama"),
    "llama.block_count": ("u32", 32),
    "llama.rope.freq_base": ("f32", 0.5),
    "llama.attention.head_count_kv": ("u32s", [8, 0, 8]),
    "tokenizer.ggml.add_bos_token": ("flag", True),
    "tokenizer.ggml.tokens": ("texts", ["a"] * 5000),
    "tokenizer.ggml.token_type": ("u32s", [1] * 5000),
    "general.tags": ("texts", ["chat", "en"]),
}


def test_facts_and_where_the_data_begins():
    data = gguf_header(FACTS, tensors=[("output.weight", [4096, 128256]), ("norm", [4096])])
    found = parse(data + b"x" * 100)
    assert found.facts == {
        "general.architecture": "llama",
        "llama.block_count": 32,
        "llama.rope.freq_base": 0.5,
        "llama.attention.head_count_kv": [8, 0, 8],
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.tokens": {"length": 5000},
        "tokenizer.ggml.token_type": {"length": 5000},
        "general.tags": ["chat", "en"],
    }
    assert found.tensors == 2
    assert found.data_offset == -(-len(data) // 32) * 32


@pytest.mark.parametrize(
    ("kind", "shape", "size"),
    [
        (0, [4096, 2], 32768),  # F32
        (12, [256, 3], 432),  # Q4_K: 144 bytes for 256 values
        (8, [32], 34),  # Q8_0
        (39, [64, 1], 34),  # MXFP4
        (40, [64], 36),  # NVFP4
        (0, [], 4),
        (999, [4096], 0),  # a type of tomorrow is taken at its offset
    ],
)
def test_the_table_of_tensors_tells_the_least_length(kind, shape, size):
    table = gguf_text("t") + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, 64)
    found = parse(head(tensors=1) + table)
    assert found.least_bytes == found.data_offset + 64 + size


def test_a_file_without_tensors_ends_behind_its_header():
    data = gguf_header(FACTS)
    assert parse(data).least_bytes == len(data)


def test_another_alignment():
    data = gguf_header({"general.alignment": ("u32", 4096)})
    assert parse(data).data_offset == 4096


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.5, 0.99])
def test_a_header_that_goes_on(share):
    data = gguf_header(FACTS, tensors=[("output.weight", [4096])])
    with pytest.raises(MoreNeededError):
        parse(data[: int(len(data) * share)])
    with pytest.raises(MoreNeededError):
        parse(data[:-1])


def head(version=3, tensors=0, keys=0):
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys)


HUGE = struct.pack("<Q", 1 << 62)
TEST_BROKEN = [
    pytest.param(b"GGML" + b"\0" * 100, id="another-format"),
    pytest.param(b"PK", id="another-short-file"),
    pytest.param(head(version=1), id="version-too-old"),
    pytest.param(head(version=3 << 24), id="big-endian"),
    pytest.param(head(tensors=1 << 40), id="too-many-tensors"),
    pytest.param(head(keys=1 << 40), id="too-many-keys"),
    pytest.param(head(keys=1) + HUGE, id="key-too-long"),
    pytest.param(head(keys=1) + gguf_text("k") + struct.pack("<I", 99), id="unknown-type"),
    pytest.param(head(keys=1) + gguf_text("k") + struct.pack("<I", 8) + HUGE, id="text-too-long"),
    pytest.param(head(keys=1) + gguf_text("k") + struct.pack("<II", 9, 4) + HUGE, id="list-too-long"),
    pytest.param(
        head(keys=1) + gguf_text("k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 5, id="lists-in-lists"
    ),
    pytest.param(head(tensors=1) + gguf_text("t") + struct.pack("<I", 1 << 30), id="too-many-dimensions"),
    pytest.param(head(keys=1) + gguf_text("general.alignment") + gguf_value("u32", 0), id="no-alignment"),
    pytest.param(head(keys=1) + gguf_text("general.alignment") + gguf_value("text", "x" * 500), id="alignment-a-text"),
]


@pytest.mark.parametrize("data", TEST_BROKEN)
def test_broken_headers(data):
    with pytest.raises(ParseError) as caught:
        parse(data)
    assert caught.value.code == "not_gguf"
    assert len(str(caught.value)) < 300
