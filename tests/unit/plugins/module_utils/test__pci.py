# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._pci import (
    ALL_FUNCTIONS,
    Address,
    find_address,
    parse_address,
    parse_device_address,
    parse_id,
    without_address,
)

TEST_ADDRESSES = [
    pytest.param("0000:41:00.0", "0000:41:00.0", id="kernel"),
    pytest.param("10000:e1:00.0", "10000:e1:00.0", id="kernel, behind a volume controller"),
    pytest.param("00000000:0B:00.0", "0000:0b:00.0", id="nvidia-smi"),
    pytest.param("00010000:E1:00.0", "10000:e1:00.0", id="nvidia-smi, behind a volume controller"),
    pytest.param("41:00.0", "0000:41:00.0", id="lspci"),
    pytest.param("41:00", "0000:41:00", id="Proxmox VE, the whole slot without a domain"),
    pytest.param("0000:41:1f", "0000:41:1f", id="Proxmox VE, the whole slot"),
    pytest.param(" 0000:41:00.7\n", "0000:41:00.7", id="the last function, blanks around"),
    pytest.param("000:41:00.0", None, id="three digits of domain"),
    pytest.param("000000000:41:00.0", None, id="nine digits of domain"),
    pytest.param("0000:41:00.8", None, id="the ninth function"),
    pytest.param("0000:1:00.0", None, id="one digit of bus"),
    pytest.param("0000:41:00.", None, id="no function behind the dot"),
    pytest.param("at 0000:41:00.0", None, id="a sentence"),
    pytest.param("[N/A]", None, id="words"),
    pytest.param("", None, id="nothing"),
    pytest.param(None, None, id="no text"),
]


@pytest.mark.parametrize(("text", "expected"), TEST_ADDRESSES)
def test_parse_address(text, expected):
    address = parse_address(text)
    assert (address.text if address else None) == expected
    of_device = parse_device_address(text)
    assert (of_device.text if of_device else None) == (expected if expected and "." in expected else None)


def test_a_slot_covers_its_functions_and_sorts_before_them():
    slot, first, last = Address(0, 0x41, 0), Address(0, 0x41, 0, 0), Address(0, 0x41, 0, 7)
    assert (slot.function, last.slot, slot.first, last.first) == (ALL_FUNCTIONS, slot, first, last)
    assert slot.covers(last)
    assert last.covers(last)
    assert not last.covers(first)
    assert not first.covers(slot)
    assert not slot.covers(Address(0, 0x41, 1, 0))
    later = [Address(0, 0x41, 1, 0), Address(0, 0xC1, 0, 0), Address(0x35, 4, 0, 0), Address(0x10000, 0, 0, 0)]
    assert sorted([*reversed(later), last, first, slot]) == [slot, first, last, *later]


TEST_SENTENCES = [
    ("handle for GPU0000:0B:00.0: Unknown Error", "0000:0b:00.0", "handle for GPU: Unknown Error"),
    ("GPU1: 0000:C1:00.0: GPU is lost", "0000:c1:00.0", "GPU1: : GPU is lost"),
    ("for gpu 00000000:0B:00.0", "0000:0b:00.0", "for gpu "),
    ("the slot 0000:0B:00 is empty", None, "the slot 0000:0B:00 is empty"),
]


@pytest.mark.parametrize(("text", "expected", "rest"), TEST_SENTENCES)
def test_find_address(text, expected, rest):
    address = find_address(text)
    assert (address.text if address else None) == expected
    assert without_address(text) == rest


TEST_IDS = [
    ("10de:26b1", "10de:26b1"),
    (" 0x10DE:0x26B1 ", "10de:26b1"),
    ("10de:26b", None),
    ("10de:26b11", None),
    ("10de", None),
    ("", None),
    (None, None),
]


@pytest.mark.parametrize(("text", "expected"), TEST_IDS)
def test_parse_id(text, expected):
    assert parse_id(text) == expected
