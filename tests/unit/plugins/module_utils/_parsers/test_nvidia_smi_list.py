# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._parsers import nvidia_smi_list
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.gpu import Gpu, Slice
from ansible_collections.knaster.inventory.plugins.module_utils._pci import NVIDIA

TEXT = """\
GPU 0: NVIDIA A30 (UUID: GPU-11111111-0000-0000-0000-000000000001)
  MIG 2g.12gb     Device  0: (UUID: MIG-22222222-0000-0000-0000-000000000001)
  MIG 1g.6gb+me   Device  1: (UUID: MIG-22222222-0000-0000-0000-000000000002)
GPU 1: NVIDIA A30 (UUID: GPU-11111111-0000-0000-0000-000000000002)
"""


def test_slices_belong_to_the_gpu_above():
    assert nvidia_smi_list.parse(TEXT) == [
        Gpu(
            NVIDIA,
            0,
            "NVIDIA A30",
            uuid="GPU-11111111-0000-0000-0000-000000000001",
            slices=(
                Slice("2g.12gb", 12, "MIG-22222222-0000-0000-0000-000000000001"),
                Slice("1g.6gb+me", 6, "MIG-22222222-0000-0000-0000-000000000002"),
            ),
        ),
        Gpu(NVIDIA, 1, "NVIDIA A30", uuid="GPU-11111111-0000-0000-0000-000000000002", slices=()),
    ]


TEST_SLICES = [
    ("  MIG 1g.5gb Device 0: (UUID: MIG-GPU-5c89852c/11/0)", [("1g.5gb", 5, "MIG-GPU-5c89852c/11/0")]),
    ("\tMIG 1c.3g.40gb  Device  0: (UUID: MIG-1)\r", [("1c.3g.40gb", 40, "MIG-1")]),
    ("  MIG 1g.10gb     Device  0: (UUID: MI", []),
    ("  MIG 3g     Device  0: (UUID: MIG-1)", []),
    ("  Device  0: (UUID: MIG-1)", []),
    # Slices of a GPU that could not be read are not those of the GPU before it.
    ("Unable to determine the device handle for gpu 0000:02:00.0: Unknown Error\n  MIG 1g.5gb Device 0: (UUID: MIG-1)", []),
    ("GPU 1: NVIDIA A30 (UUID: \n  MIG 1g.5gb Device 0: (UUID: MIG-1)", []),
]  # fmt: skip


@pytest.mark.parametrize(("line", "slices"), TEST_SLICES)
def test_slices(line, slices):
    (gpu,) = nvidia_smi_list.parse(f"GPU 0: NVIDIA A30 (UUID: GPU-1)\n{line}\n")
    assert [(part.name, part.memory_gb, part.uuid) for part in gpu.slices] == slices


TEST_ERRORS = [
    ("No devices found.", "", 6, "no_devices"),
    ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "", 9, "driver_not_loaded"),
    ("", "sh: nvidia-smi: not found", 127, "command_not_found"),
    ("", "", 0, "no_devices"),
    ("MIG 1g.5gb Device 0: (UUID: MIG-1)", "", 0, "unparsable_rows"),
    ("GPU 0: (UUID: GPU-1)", "", 0, "unparsable_rows"),
    ("0, NVIDIA L4, 23034, 8.9, 570.86.15", "", 0, "unparsable_rows"),
]


@pytest.mark.parametrize(("stdout", "stderr", "rc", "code"), TEST_ERRORS)
def test_errors(stdout, stderr, rc, code):
    with pytest.raises(ParseError) as caught:
        nvidia_smi_list.parse(stdout, stderr=stderr, rc=rc)
    assert (caught.value.source, caught.value.code) == ("nvidia-smi", code)
