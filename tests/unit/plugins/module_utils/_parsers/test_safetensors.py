# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json
import struct

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.safetensors import (
    MAX_HEADER_BYTES,
    Header,
    header_length,
    parse,
)


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


TWO = {
    "__metadata__": {"format": "pt"},
    "a": tensor("BF16", [2, 3], 0, 12),
    "b": tensor("F8_E4M3", [5], 12, 17),
    "s": tensor("F32", [], 17, 21),
}


def parse_document(document, spare=0):
    header = document if isinstance(document, bytes) else json.dumps(document).encode()
    return parse(header, 8 + len(header) + 21 + spare)


def test_tensors_are_summed_by_type():
    expected = Header(tensors=3, tensor_bytes=21, values={"BF16": 6, "F32": 1, "F8_E4M3": 5})
    assert parse_document(TWO) == expected
    assert parse_document(TWO, spare=9) == expected


def test_types_of_less_than_a_byte_and_of_a_later_version():
    found = parse_document({"a": tensor("F4", [3, 3], 0, 5), "b": tensor("F5_NEW", [7], 5, 9)})
    assert (found.tensor_bytes, found.values) == (9, {"F4": 9, "F5_NEW": 7})


def test_a_file_without_tensors():
    assert parse_document({}) == Header(tensors=0, tensor_bytes=0, values={})


TEST_BROKEN = [
    (b"{", "not_json"),
    (b"\xff\xfe", "not_json"),
    (b"[" * 100_000, "not_json"),
    ([], "not_safetensors"),
    ({"a": 5}, "not_safetensors"),
    ({"a": {}}, "not_safetensors"),
    ({"a": tensor("BF16", [2], 0, 5)}, "not_safetensors"),
    ({"a": tensor("BF16", [2.5], 0, 5)}, "not_safetensors"),
    ({"a": tensor("BF16", [-2, -1], 0, 4)}, "not_safetensors"),
    ({"a": tensor("BF16", [True], 0, 2)}, "not_safetensors"),
    ({"a": tensor("BF16", None, 0, 2)}, "not_safetensors"),
    ({"a": tensor(["BF16"], [1], 0, 2)}, "not_safetensors"),
    ({"a": tensor("BF16", [1], 4, 2)}, "not_safetensors"),
    ({"a": {"dtype": "BF16", "shape": [1], "data_offsets": [0]}}, "not_safetensors"),
    ({"a": tensor("BF16", [50], 0, 100)}, "truncated"),
]


@pytest.mark.parametrize(("document", "code"), TEST_BROKEN)
def test_broken_headers(document, code):
    with pytest.raises(ParseError) as caught:
        parse_document(document)
    assert caught.value.code == code


TEST_LENGTHS = [
    (struct.pack("<Q", 100), 108, 100),
    (struct.pack("<Q", 100), 107, "truncated"),
    (b"\0\0", 2, "truncated"),
    (struct.pack("<Q", 0), 8, "not_safetensors"),
    (struct.pack("<Q", MAX_HEADER_BYTES + 1), 10**12, "not_safetensors"),
    (b"version ", 134, "not_safetensors"),
]


@pytest.mark.parametrize(("first", "size", "expected"), TEST_LENGTHS)
def test_header_length(first, size, expected):
    if isinstance(expected, int):
        assert header_length(first, size) == expected
    else:
        with pytest.raises(ParseError) as caught:
            header_length(first, size)
        assert caught.value.code == expected


@pytest.mark.parametrize("shape", [[1 << 40, 1 << 40], [9 * 10**4000], [10**18] * 10**5])
def test_numbers_that_no_file_has(shape):
    with pytest.raises(ParseError) as caught:
        parse_document({"a": tensor("F4", shape, 0, 0)}, spare=10)
    assert caught.value.code == "not_safetensors"
