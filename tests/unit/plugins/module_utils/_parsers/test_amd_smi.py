# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._parsers import amd_smi
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.gpu import Gpu, Slice
from ansible_collections.knaster.inventory.plugins.module_utils._pci import AMD, parse_address

ENTRY = {
    "gpu": 1,
    "asic": {
        "market_name": "AMD Radeon PRO W7900",
        "vendor_id": "0x1002",
        "device_id": "0x7448",
        "asic_serial": "0x00C1A5E0000000F1",
        "target_graphics_version": "gfx1100",
    },
    "bus": {"bdf": "0000:C3:00.0", "slot_type": "PCIE"},
    "driver": {"name": "amdgpu", "version": "6.12.12"},
    "vram": {"type": "GDDR6", "size": {"value": 46064, "unit": "MB"}},
}
WHOLE = Gpu(
    AMD,
    index=1,
    name="AMD Radeon PRO W7900",
    memory_mib=46064,
    driver="6.12.12",
    uuid="0x00c1a5e0000000f1",
    address=parse_address("0000:c3:00.0"),
    device_id="7448",
)


def entry(**sections):
    return {**ENTRY, **sections}


TEST_SHAPES = [
    pytest.param(json.dumps([ENTRY]), id="list"),
    pytest.param(json.dumps({"gpu_data": [ENTRY]}, indent=4), id="dictionary"),
    pytest.param(json.dumps(ENTRY), id="one GPU alone"),
    pytest.param("WARNING: User is missing the following required groups: render\n" + json.dumps([ENTRY]), id="warning before"),
    pytest.param("[W] permissions\n" + json.dumps([ENTRY]) + "\nlast words", id="words around"),
]  # fmt: skip


@pytest.mark.parametrize("text", TEST_SHAPES)
def test_shapes(text):
    assert amd_smi.parse(text) == [WHOLE]


TEXT = """
GPU: 1
    ASIC:
        MARKET_NAME: AMD Radeon PRO W7900
        DEVICE_ID: 0x7448
        ASIC_SERIAL: 0x00C1A5E0000000F1
        TARGET_GRAPHICS_VERSION: gfx1100
    BUS:
        BDF: 0000:C3:00.0
    DRIVER:
        NAME: amdgpu
        VERSION: 6.12.12
    VRAM:
        TYPE: GDDR6
        SIZE: 46064 MB

GPU: 0
    ASIC:
        MARKET_NAME: N/A
    VBIOS:
        VERSION: 022.001
    VRAM:
        SIZE: N/A
"""


def test_text():
    # The version of the VBIOS is not that of the driver.
    assert amd_smi.parse(TEXT) == [Gpu(AMD, index=0), WHOLE]


TEST_SIZES = [
    ({"size": {"value": 196592, "unit": "MB"}}, 196592),
    ({"size": {"value": "16", "unit": "GB"}}, 16384),
    ({"size": {"value": 24560}}, 24560),
    ({"size": "32752 MB"}, 32752),
    ({"vram_size_mb": 65520}, 65520),
    ({"size": {"value": "N/A", "unit": "MB"}}, None),
    ({"size": "N/A"}, None),
    ({"size": {"value": 0, "unit": "MB"}}, None),
    ({"size": {"value": True}}, None),
    ({"size": [[1]]}, None),
    ({"size": {"value": {"a": 1}, "unit": 7}}, None),
    ("N/A", None),
]


@pytest.mark.parametrize(("vram", "mib"), TEST_SIZES)
def test_sizes(vram, mib):
    assert [gpu.memory_mib for gpu in amd_smi.parse(json.dumps([entry(vram=vram)]))] == [mib]


def test_no_value_is_none():
    unknown = entry(
        asic={"market_name": "0x7448", "asic_serial": "0x0000000000000000", "target_graphics_version": "N/A"},
        bus={"bdf": "N/A"},
        driver={"name": "N/A", "version": "N/A"},
        vram="N/A",
    )
    assert amd_smi.parse(json.dumps([unknown])) == [Gpu(AMD, index=1)]


def test_of_a_gpu_in_parts_the_first_speaks():
    text = json.dumps([entry(), entry(vram={"size": 1}), entry(gpu=0, vram={})])
    assert [(gpu.index, gpu.memory_mib) for gpu in amd_smi.parse(text)] == [(0, None), (1, 46064)]


TEST_ERRORS = [
    ("", "", 127, "command_not_found"),
    ("", "sh: 1: amd-smi: not found", 1, "command_not_found"),
    ("", "ERROR: Unable to get devices, driver not initialized (amdgpu not found in modules)", 255, "driver_not_loaded"),
    ("AMDSMI_STATUS_DRIVER_NOT_LOADED", "", 1, "driver_not_loaded"),
    ("[]", "", 0, "no_devices"),
    ('{"gpu_data": []}', "", 0, "no_devices"),
    ("", "", 0, "command_failed"),
    ("", "", 137, "command_failed"),
    ("Traceback (most recent call last):", "", 1, "command_failed"),
    (json.dumps([ENTRY])[:-40], "", 0, "not_json"),
    (json.dumps([ENTRY, ENTRY], indent=4)[:-40], "", 0, "not_json"),
    ("[" * 100000, "", 0, "not_json"),
    ('{"error": "requires higher privileges", "code": -9}', "", 0, "unparsable_rows"),
    ('[{"gpu": 0}]', "", 0, "unparsable_rows"),
    ('[{"gpu": true, "asic": {"market_name": "x"}}]', "", 0, "unparsable_rows"),
    ('[{"gpu": -1, "asic": {"market_name": "x"}}, 7, null]', "", 0, "unparsable_rows"),
    ("7", "", 0, "not_json"),
    ("GPU: one\n    ASIC:\n        MARKET_NAME: x\n", "", 0, "unparsable_rows"),
]  # fmt: skip


@pytest.mark.parametrize(("stdout", "stderr", "rc", "code"), TEST_ERRORS)
def test_errors(stdout, stderr, rc, code):
    with pytest.raises(ParseError) as caught:
        amd_smi.parse(stdout, stderr=stderr, rc=rc)
    assert (caught.value.source, caught.value.code) == ("amd-smi", code)


TEST_PARTITIONS = [
    ({"accelerator_partition": "CPX", "memory_partition": "NPS4", "partition_id": 0}, "cpx"),
    ({"compute_partition": "dpx", "memory_partition": "NPS1"}, "dpx"),
    ({"accelerator_partition": "SPX"}, ""),
    ({"accelerator_partition": "N/A", "compute_partition": "CPX"}, None),
    ({"accelerator_partition": 7}, None),
    ({"accelerator_partition": "NPS4"}, None),
    ("N/A", None),
]


@pytest.mark.parametrize(("section", "expected"), TEST_PARTITIONS)
def test_partitions(section, expected):
    (gpu,) = amd_smi.parse(json.dumps([entry(partition=section)]))
    slices = (Slice(expected, 45, WHOLE.uuid),) if expected else None
    assert gpu == replace(WHOLE, mig=None if expected is None else bool(expected), slices=slices)


def test_the_parts_of_a_gpu_share_its_slot():
    parts = [
        entry(gpu=number, bus={"bdf": f"0000:03:00.{number}"}, partition={"accelerator_partition": "DPX"})
        for number in (0, 1)
    ]
    other = entry(gpu=2, bus={"bdf": "0000:04:00.0"}, partition={"accelerator_partition": "SPX"})
    found = amd_smi.parse(json.dumps([*parts, other]))
    assert [len(gpu.slices or ()) for gpu in found] == [2, 2, 0]
    assert [gpu.mig for gpu in found] == [True, True, False]


def test_a_partition_in_the_text_for_people():
    (gpu, _other) = amd_smi.parse(TEXT.rstrip() + "\n    PARTITION:\n        ACCELERATOR_PARTITION: QPX\n")
    assert [part.name for part in gpu.slices] == ["qpx"]
