# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""However a tool writes a PCI address, it is the same address, everywhere."""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._parsers import (
    nvidia_smi,
    pve_guests,
    sysfs_pci,
    xpu_smi,
)
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.nvidia_smi_text import IDENTITY_COLUMNS
from ansible_collections.knaster.inventory.plugins.module_utils._pci import (
    ALL_FUNCTIONS,
    Address,
    find_address,
    parse_address,
    parse_device_address,
)
from hypothesis import given
from hypothesis import strategies as st

DEVICES = st.builds(
    Address,
    st.one_of(st.just(0), st.integers(0, 0xFFFF), st.integers(0, 0xFFFFFFFF)),
    st.integers(0, 0xFF),
    st.integers(0, 0x1F),
    st.integers(0, 7),
)


def forms(address: Address) -> t.Iterator[str]:
    """Yield an address in each way that a tool writes it."""
    domain, bus, slot, function = address
    for digits in range(4, 9):
        text = f"{domain:0{digits}x}:{bus:02x}:{slot:02x}.{function}"
        # The kernel and Proxmox VE; nvidia-smi writes eight digits and capitals.
        yield from (text, text.upper())
    if domain == 0:
        yield f"{bus:02x}:{slot:02x}.{function}"


@given(address=DEVICES)
def test_every_form_is_the_same_address(address: Address) -> None:
    for text in forms(address):
        assert parse_address(text) == parse_device_address(text) == find_address(f"of GPU {text}: lost") == address
    slot = parse_address(address.slot.text)
    assert slot == address.slot == Address(*address[:3], ALL_FUNCTIONS)
    assert parse_device_address(address.slot.text) is None
    assert slot.covers(address)


@given(address=DEVICES)
def test_every_tool_names_the_same_device(address: Address) -> None:
    domain, bus, slot, function = address
    row = f"0, GPU-1, {domain:08X}:{bus:02X}:{slot:02X}.{function}, [N/A], 5"
    (gpu,) = nvidia_smi.parse_query(row, columns=IDENTITY_COLUMNS)
    (device,) = sysfs_pci.parse_lines(f"address={address.text} class=0x030000")
    (other,) = xpu_smi.parse(f'{{"device_id": 0, "pci_bdf_address": "{address.text}"}}')
    (guest,) = pve_guests.parse(f"vm 100 hostpci0: {address.text}\nend").guests
    assert gpu.address == device.address == other.address == address
    assert guest.devices == {address}
    assert guest.has(device.address)


@given(addresses=st.lists(DEVICES, unique=True))
def test_addresses_sort_as_the_texts_of_eight_digits_do(addresses: list[Address]) -> None:
    texts = {address: f"{address.domain:08x}{address.text.partition(':')[2]}" for address in addresses}
    assert sorted(addresses) == sorted(addresses, key=lambda address: texts[address])
