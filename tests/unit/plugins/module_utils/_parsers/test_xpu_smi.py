# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._parsers import xpu_smi
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.gpu import Gpu
from ansible_collections.knaster.inventory.plugins.module_utils._pci import INTEL, parse_address

FLEX = {
    "device_function_type": "physical",
    "device_id": 0,
    "device_name": "Intel(R) Data Center GPU Flex 170",
    "device_type": "GPU",
    "pci_bdf_address": "0000:4D:00.0",
    "pci_device_id": "0x56c0",
    "uuid": "00000000-0000-004d-0000-000856c08086",
    "vendor_name": "Intel(R) Corporation",
}
WHOLE = Gpu(
    INTEL,
    index=0,
    name="Intel(R) Data Center GPU Flex 170",
    uuid="00000000-0000-004d-0000-000856c08086",
    address=parse_address("0000:4d:00.0"),
    device_id="56c0",
)


@pytest.mark.parametrize("document", [{"device_list": [FLEX]}, FLEX], ids=["all", "one device"])
def test_json(document):
    assert xpu_smi.parse(json.dumps(document, indent=4)) == [WHOLE]


def test_sizes_and_the_id_in_a_name():
    device = {
        "device_id": "1",
        "device_name": "Intel(R) Graphics [0xe211]",
        "memory_physical_size_byte": "25669140480",
        "driver_version": "I915_24.1",
        "uuid": "00000000-0000-0000-0000-000000000000",
    }
    assert xpu_smi.parse(json.dumps({"device_list": [device, FLEX]})) == [
        WHOLE,
        Gpu(INTEL, index=1, name="Intel(R) Graphics [0xe211]", memory_mib=24480, driver="I915_24.1", device_id="e211"),
    ]


TABLE = """
+-----------+----------------------------------------------------------+
| Device ID | Device Information                                       |
+-----------+----------------------------------------------------------+
| 0         | Device Name: Intel(R) Arc(TM) A770 Graphics              |
|           | SOC UUID: 00000000-0000-0003-0000-000856a08086           |
|           | PCI BDF Address: 0000:03:00.0                            |
|           | Memory Physical Size: 15473.00 MiB                       |
+-----------+----------------------------------------------------------+
| 1         | Device Name: Intel(R) Graphics                           |
|           | Vendor Name: Intel(R) Corp"""


def test_table_that_is_cut():
    assert xpu_smi.parse(TABLE) == [
        Gpu(
            INTEL,
            index=0,
            name="Intel(R) Arc(TM) A770 Graphics",
            memory_mib=15473,
            uuid="00000000-0000-0003-0000-000856a08086",
            address=parse_address("0000:03:00.0"),
        ),
        Gpu(INTEL, index=1, name="Intel(R) Graphics"),
    ]


TEST_ERRORS = [
    ("", "", 127, "command_not_found"),
    ("", "sh: xpu-smi: not found", 127, "command_not_found"),
    ('{"device_list": []}', "", 0, "no_devices"),
    ("Error: No device discovered", "", 1, "no_devices"),
    ('{"error": "Device not found", "errno": 3}', "", 1, "no_devices"),
    ('{"error": "Level Zero Initialization Error", "errno": 1}', "", 1, "command_failed"),
    ('{"error": "Level Zero Initialization Error", "errno": 1}', "", 0, "unparsable_rows"),
    (json.dumps({"device_list": [FLEX]}, indent=4)[:-20], "", 0, "not_json"),
    ('{"device_list": {"device_id": 0}}', "", 0, "unparsable_rows"),
    ('{"device_list": [{"device_id": 0, "device_type": "GPU"}]}', "", 0, "unparsable_rows"),
    ("| Device ID | Device Information |", "", 0, "unparsable_rows"),
    # A line of a device whose first line is missing.
    ("|           | Device Name: Intel(R) Graphics |", "", 0, "unparsable_rows"),
    ("", "", 0, "command_failed"),
]  # fmt: skip


@pytest.mark.parametrize(("stdout", "stderr", "rc", "code"), TEST_ERRORS)
def test_errors(stdout, stderr, rc, code):
    with pytest.raises(ParseError) as caught:
        xpu_smi.parse(stdout, stderr=stderr, rc=rc)
    assert (caught.value.source, caught.value.code) == ("xpu-smi", code)
