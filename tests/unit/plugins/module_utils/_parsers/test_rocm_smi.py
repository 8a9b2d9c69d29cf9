# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._parsers import rocm_smi
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.gpu import Gpu
from ansible_collections.knaster.inventory.plugins.module_utils._pci import AMD, parse_address

VALUES = {
    "Device Name": "Navi 31 [Radeon RX 7900 XT/7900 XTX]",
    "Device ID": "0x744c",
    "Unique ID": "0x5A0000000000001B",
    "PCI Bus": "0000:2F:00.0",
    "VRAM Total Memory (B)": "25753026560",
    "VRAM Total Used Memory (B)": "27856896",
    "Card Series": "Radeon RX 7900 XTX",
    "Card Model": "0x744c",
    "Card Vendor": "Advanced Micro Devices, Inc. [AMD/ATI]",
    "GFX Version": "gfx1100",
}
WHOLE = Gpu(
    AMD,
    index=2,
    name="Radeon RX 7900 XTX",
    memory_mib=24560,
    driver="6.10.5",
    uuid="0x5a0000000000001b",
    address=parse_address("0000:2f:00.0"),
    device_id="744c",
)
NODE = {"card2": VALUES, "system": {"Driver version": "6.10.5"}}


def test_json():
    assert rocm_smi.parse(json.dumps(NODE)) == [WHOLE]


def test_warnings_before_the_json():
    text = "WARNING: AMD GPU device(s) is/are in a low-power state.\n\n" + json.dumps(NODE, indent=4)
    assert rocm_smi.parse(text) == [WHOLE]


def test_text():
    lines = [f"GPU[2]\t\t: {key}: \t\t{value}" for key, value in VALUES.items()]
    text = (
        "===== ROCm System Management Interface =====\n"
        + "\n".join(lines)
        + "\nDriver version: 6.10.5\n===== End ====="
    )
    assert rocm_smi.parse(text) == [WHOLE]


def test_csv():
    rows = [
        "device,Device ID,VRAM Total Memory (B),Card Series,Card Vendor",
        'card1,0x744c,21458059264,Radeon RX 7900 XT,"Advanced Micro Devices, Inc."',
        "card0,0x744c,21458059264,Radeon RX 7900 XT,Advanced Micro Devices, Inc.",
    ]
    # A comma that nothing protects shifts the columns, so that row is left out.
    assert rocm_smi.parse("\n".join(rows)) == [
        Gpu(AMD, index=1, name="Radeon RX 7900 XT", memory_mib=20464, device_id="744c")
    ]


# A value of a row, and the name that it gives; None is a row that cannot be split.
TEST_QUOTES = [
    ('"Radeon, the first"', "Radeon, the first"),
    ('"Radeon ""X"" 7900"', 'Radeon "X" 7900'),
    ('Radeon "X" 7900', 'Radeon "X" 7900'),
    ('"Radeon "X 7900', None),
    ('"Radeon X 7900', None),
]


@pytest.mark.parametrize(("value", "name"), TEST_QUOTES)
def test_a_row_ends_with_its_line_and_a_value_with_its_quote(value, name):
    rows = [
        "device,Device ID,Card Series,Card SKU",
        f"card0,0x744c,{value},D70401",
        'card1,0x744c,"Radeon Y 7900",D70401',
    ]
    assert [(card.index, card.name) for card in rocm_smi.parse("\n".join(rows))] == [
        *([(0, name)] if name else []),
        (1, "Radeon Y 7900"),
    ]


# Values that a version prints, and what the GPU has of them.
TEST_VALUES = [
    ({"Card series": "0x1002", "Card model": "0x1002", "GPU ID": "0x73df"}, {"device_id": "73df"}),
    ({"Card series": "Arcturus [MI100]", "Device ID": "0x738c"}, {"name": "Arcturus [MI100]", "device_id": "738c"}),
    ({"Card model": "0xc1e", "GPU ID": "0x6861"}, {"device_id": "6861"}),
    ({"Card Model": "0x744c"}, {"device_id": "744c"}),
    ({"Card SKU": "D70401", "PCI Bus": "0000:03:00.0"}, {"address": parse_address("0000:03:00.0")}),
    ({"PCI Bus": "0000:03:00.0", "Unique ID": "N/A"}, {"address": parse_address("0000:03:00.0")}),
    ({"PCI Bus": "0000:03:00.0", "Unique ID": "0x0"}, {"address": parse_address("0000:03:00.0")}),
    ({"PCI Bus": "0000:03:00.0", "VRAM Total Memory (B)": "N/A"}, {"address": parse_address("0000:03:00.0")}),
    ({"PCI Bus": "0000:03:00.0", "VRAM Total Memory (B)": 536870912}, {"address": parse_address("0000:03:00.0"), "memory_mib": 512}),
    ({"PCI Bus": "0000:03:00.0", "VRAM Total Memory (B)": True}, {"address": parse_address("0000:03:00.0")}),
    ({"PCI Bus": "0000:03:00.0", "VRAM Total Memory (B)": "1" + "0" * 30}, {"address": parse_address("0000:03:00.0")}),
    ({"PCI Bus": "3", "Device ID": "0x73df"}, {"device_id": "73df"}),
]  # fmt: skip


@pytest.mark.parametrize(("values", "told"), TEST_VALUES)
def test_values(values, told):
    assert rocm_smi.parse(json.dumps({"card0": values})) == [Gpu(AMD, index=0, **told)]


TEST_ERRORS = [
    ("", "", 127, "command_not_found"),
    ("", "bash: rocm-smi: command not found", 1, "command_not_found"),
    ("", "cat: /sys/module/amdgpu/initstate: No such file or directory", 0, "driver_not_loaded"),
    ("ERROR:root:Driver not initialized (amdgpu not found in modules)", "", 1, "driver_not_loaded"),
    ("WARNING: No AMD GPUs specified\n", "", 0, "no_devices"),
    ("{}", "", 0, "unparsable_rows"),
    ('{"system": {"Driver version": "6.3.6"}}', "", 0, "unparsable_rows"),
    # GPUs of another listing have nothing that is of use here.
    ('{"card0": {"Temperature (Sensor edge) (C)": "45.0"}}', "", 0, "unparsable_rows"),
    ('{"card0": {"Device ID": "N/A"}}', "", 0, "unparsable_rows"),
    ('{"card0": "0x744c", "card": {"Device ID": "0x744c"}}', "", 0, "unparsable_rows"),
    ("[]", "", 0, "unparsable_rows"),
    (json.dumps(NODE)[:300], "", 0, "not_json"),
    (json.dumps(NODE, indent=2)[:-9], "", 0, "not_json"),
    ("GPU[0]\t\t: Temperature (Sensor edge) (C): 45.0\n", "", 0, "unparsable_rows"),
    ("device,Card Series\n", "", 0, "unparsable_rows"),
    ("", "", 1, "command_failed"),
]  # fmt: skip


@pytest.mark.parametrize(("stdout", "stderr", "rc", "code"), TEST_ERRORS)
def test_errors(stdout, stderr, rc, code):
    with pytest.raises(ParseError) as caught:
        rocm_smi.parse(stdout, stderr=stderr, rc=rc)
    assert (caught.value.source, caught.value.code) == ("rocm-smi", code)


def test_of_a_line_that_comes_twice_the_first_counts():
    text = """
GPU[0]\t\t: PCI Bus: 0000:03:00.0
GPU[0]\t\t: Card Series: AMD Radeon RX 7900 XTX
GPU[0]\t\t: Card Series: AMD Radeon RX 7900 XT
"""
    (gpu,) = rocm_smi.parse(text)
    assert gpu.name == "AMD Radeon RX 7900 XTX"


TEST_BYTES = [(0, None), ((1 << 20) - 1, None), (1 << 20, 1), ((2 << 20) - 1, 1), (2 << 20, 2)]


@pytest.mark.parametrize(("size", "mib"), TEST_BYTES)
def test_less_than_one_mib_is_a_size_that_the_tool_did_not_get(size, mib):
    (gpu,) = rocm_smi.parse(json.dumps({"card0": {"PCI Bus": "0000:03:00.0", "VRAM Total Memory (B)": str(size)}}))
    assert gpu.memory_mib == mib
