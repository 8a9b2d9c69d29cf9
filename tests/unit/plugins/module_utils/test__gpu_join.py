# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._gpu_join import join_gpus
from ansible_collections.knaster.inventory.plugins.module_utils._node_profile import read_outputs

L4 = {
    "address": "0000:01:00.0",
    "class": "0x030200",
    "vendor": "0x10de",
    "device": "0x27b8",
    "subsystem_vendor": "0x10de",
    "subsystem_device": "0x16ee",
    "iommu_group": 16,
    "numa_node": 0,
}
ADA = {
    "address": "0000:41:00.0",
    "class": "0x030000",
    "vendor": "0x10de",
    "device": "0x27b2",
    "subsystem_vendor": "0x10de",
    "subsystem_device": "0x181b",
    "iommu_group": 21,
    "numa_node": 1,
}
SOUND = {"address": "0000:41:00.1", "class": "0x040300", "vendor": "0x10de", "device": "0x22bc", "iommu_group": 21, "driver": "snd_hda_intel"}  # fmt: skip
AMD = {"address": "0000:03:00.0", "class": "0x030000", "vendor": "0x1002", "device": "0x744c", "driver": "amdgpu"}

SMI = "0, NVIDIA L4, 23034, 8.9, 570.86.15\n1, NVIDIA RTX 4000 Ada Generation, 20475, 8.9, 570.86.15\n"
IDENTITY = "0, GPU-aaaa, 00000000:01:00.0, [N/A], 500\n1, GPU-bbbb, 00000000:41:00.0, [N/A], 480\n"
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\n"
ABSENT = {"status": "absent", "rc": 127}
HANGS = {"status": "timeout", "rc": 137}


def bound(device, driver):
    return {**device, "driver": driver}


def collect(*, devices=None, previous=None, declared=(), **outputs):
    if devices is not None:
        outputs["pci"] = {"devices": devices}
    notes = []
    gpus = join_gpus(read_outputs(outputs), declared=declared, previous=(previous or {}).get("gpus"), notes=notes)
    return {"gpus": gpus, "notes": notes}


def brief(told):
    return [
        (gpu["index"], gpu["gpu_class"], gpu["memory_gb"], gpu["compute_cap"], gpu["healthy"]) for gpu in told["gpus"]
    ]


def healthy_node():
    return collect(
        devices=[bound(ADA, "nvidia"), SOUND, bound(L4, "nvidia")], nvidia_smi=SMI, nvidia_smi_identity=IDENTITY
    )


def test_a_card_that_both_see():
    told = healthy_node()
    assert told["notes"] == []
    assert told["gpus"][1] == {
        "index": 1,
        "name": "NVIDIA RTX 4000 Ada Generation",
        "memory_gb": 20,
        "memory_mib": 20475,
        "compute_cap": 8.9,
        "driver": "570.86.15",
        "gpu_class": "rtx-4000-ada",
        "vendor": "nvidia",
        "uuid": "GPU-bbbb",
        "pci": {
            "address": "0000:41:00.0",
            "id": "10de:27b2",
            "subsystem_id": "10de:181b",
            "iommu_group": 21,
            "iommu_peers": [{"address": "0000:41:00.1", "class": "0x040300", "driver": "snd_hda_intel"}],
            "driver": "nvidia",
            "numa_node": 1,
        },
        "mig": False,
        "healthy": True,
        "reserved_mib": 480,
        "sources": {"memory": "nvidia-smi", "compute_cap": "nvidia-smi"},
    }


def test_a_card_that_is_passed_through_keeps_its_facts():
    before = healthy_node()
    vms = [bound(ADA, "vfio-pci"), bound(SOUND, "vfio-pci"), bound(L4, "vfio-pci")]
    after = collect(devices=vms, nvidia_smi={"rc": 6, "stdout": "No devices were found\n"}, previous=before)
    same = (
        "index",
        "name",
        "memory_gb",
        "memory_mib",
        "compute_cap",
        "gpu_class",
        "vendor",
        "uuid",
        "driver",
        "healthy",
    )
    assert [[gpu[key] for key in same] for gpu in after["gpus"]] == [
        [gpu[key] for key in same] for gpu in before["gpus"]
    ]
    assert after["gpus"][0]["sources"] == {
        "memory": "pci_table", "compute_cap": "pci_table", "memory_mib": "previous", "driver": "previous",
        "uuid": "previous", "reserved_mib": "previous",
    }  # fmt: skip
    assert after["gpus"][0]["pci"]["driver"] == "vfio-pci"


def test_a_card_that_is_passed_through_and_was_never_seen_before():
    told = collect(devices=[bound(ADA, "vfio-pci")], nvidia_smi=ABSENT)
    assert brief(told) == [(0, "rtx-4000-ada", 20, 8.9, True)]
    assert [told["gpus"][0][key] for key in ("uuid", "memory_mib", "driver")] == [None] * 3
    assert told["gpus"][0]["mig"] is False
    assert told["notes"] == []


def test_one_card_passed_through_does_not_shift_the_other():
    identity = "0, GPU-bbbb, 00000000:41:00.0, [N/A], 480\n"
    told = collect(
        devices=[bound(L4, "vfio-pci"), bound(ADA, "nvidia")],
        nvidia_smi="0, NVIDIA RTX 4000 Ada Generation, 20475, 8.9, 570.86.15\n",
        nvidia_smi_identity=identity,
    )
    assert brief(told) == [(0, "l4", 24, 8.9, True), (1, "rtx-4000-ada", 20, 8.9, True)]
    assert told["gpus"][1]["smi_index"] == 0


def test_cards_without_addresses_are_counted_in_the_order_of_the_driver():
    told = collect(devices=[bound(L4, "nvidia"), bound(ADA, "nvidia")], nvidia_smi=SMI)
    assert [(gpu["gpu_class"], gpu["pci"]["address"]) for gpu in told["gpus"]] == [
        ("l4", "0000:01:00.0"),
        ("rtx-4000-ada", "0000:41:00.0"),
    ]


# What became of nvidia-smi, and what it means for a card that its driver holds.
TEST_TROUBLE = [
    ({"rc": 18, "stdout": MISMATCH}, False, "driver_library_mismatch"),
    ({"rc": 9, "stdout": "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"}, False, "driver_not_loaded"),
    (HANGS, None, "timeout"),
    ({"status": "stuck", "rc": 137}, None, "timeout"),
    (ABSENT, None, "absent"),
]  # fmt: skip


@pytest.mark.parametrize(("smi", "healthy", "code"), TEST_TROUBLE)
def test_a_broken_tool_is_never_no_gpu(smi, healthy, code):
    told = collect(devices=[bound(L4, "nvidia")], nvidia_smi=smi)
    assert brief(told) == [(0, "l4", 24, 8.9, healthy)]
    assert told["gpus"][0]["health"]["code"] == code
    assert any("0000:01:00.0" in note for note in told["notes"])


@pytest.mark.parametrize(("smi", "healthy", "code"), TEST_TROUBLE)
def test_without_a_scan_a_broken_tool_leaves_it_unknown(smi, healthy, code):
    told = collect(nvidia_smi=smi)
    assert told["gpus"] is None
    assert told["notes"][-1].startswith("gpus: unknown")


def test_no_devices_is_an_answer():
    assert collect(nvidia_smi={"rc": 6, "stdout": "No devices were found\n"})["gpus"] == []


def test_a_card_that_fell_off_the_bus_stays_and_shifts_nothing():
    told = collect(
        devices=[bound(L4, "nvidia"), bound(ADA, "nvidia")],
        nvidia_smi="0, NVIDIA RTX 4000 Ada Generation, 20475, 8.9, 570.86.15\n",
        nvidia_smi_identity="0, GPU-bbbb, 00000000:41:00.0, [N/A], 480\n",
    )
    assert brief(told) == [(0, "l4", 24, 8.9, False), (1, "rtx-4000-ada", 20, 8.9, True)]
    assert told["gpus"][0]["health"]["code"] == "gpu_lost"


TEST_NO_MEMORY = [
    ("[N/A]", None),
    ("[Not Supported]", None),
    ("[Insufficient Permissions]", None),
    ("[Unknown Error]", False),
]


@pytest.mark.parametrize(("token", "healthy"), TEST_NO_MEMORY)
def test_a_card_without_a_size_is_kept_and_not_trusted(token, healthy):
    told = collect(nvidia_smi=f"0, NVIDIA RTX A4000, {token}, 8.6, 550.54\n")
    assert [(gpu["memory_mib"], gpu["healthy"]) for gpu in told["gpus"]] == [(None, healthy)]


def test_unified_memory():
    told = collect(nvidia_smi="0, NVIDIA GB10, [N/A], 12.1, 580.95.05\n")
    assert [(gpu["memory_mib"], gpu["unified_memory"], gpu["healthy"]) for gpu in told["gpus"]] == [(None, True, True)]


def test_the_capability_of_an_old_driver_comes_from_the_table():
    refused = {"rc": 2, "stdout": 'Field "compute_cap" is not a valid field to query.\n'}
    short = {
        "stdout": "0, Tesla T4, 15109, 470.57.02\n",
        "command": "nvidia-smi --query-gpu=index,name,memory.total,driver_version --format=csv,noheader,nounits",
    }
    told = collect(nvidia_smi=refused, nvidia_smi_short=short)
    assert brief(told) == [(0, "tesla-t4", 16, 7.5, True)]
    assert told["gpus"][0]["sources"]["compute_cap"] == "pci_table"


def test_cards_of_one_id_and_two_sizes_are_left_open_until_something_tells():
    # Both sizes of this card share name and PCI id.
    device = {
        "address": "0000:02:00.0",
        "class": "0x030000",
        "vendor": "0x10de",
        "device": "0x2d04",
        "driver": "vfio-pci",
    }
    told = collect(devices=[device], nvidia_smi=ABSENT)
    assert told["gpus"][0]["memory_gb"] is None
    assert "gpu 0000:02:00.0: memory unknown; state it in knaster_gpus" in told["notes"]
    seen = collect(devices=[bound(device, "nvidia")], nvidia_smi="0, NVIDIA GeForce RTX 5060 Ti, 16311, 12.0, 580.1\n")
    assert seen["gpus"][0]["memory_gb"] == 16
    again = collect(devices=[device], nvidia_smi=ABSENT, previous=seen)
    assert (again["gpus"][0]["memory_gb"], again["gpus"][0]["gpu_class"]) == (16, seen["gpus"][0]["gpu_class"])
    stated = collect(devices=[device], nvidia_smi=ABSENT, declared=[{"pci": "0000:02:00.0", "memory_gb": 8}])
    assert (stated["gpus"][0]["memory_gb"], stated["gpus"][0]["sources"]["memory"]) == (8, "declared")


def test_another_card_in_the_slot_inherits_nothing():
    before = healthy_node()
    told = collect(
        devices=[{**ADA, "device": "0x26b9", "driver": "vfio-pci"}, bound(L4, "vfio-pci")],
        nvidia_smi=ABSENT,
        previous=before,
    )
    assert told["gpus"][1]["gpu_class"] == "l40s"
    assert told["gpus"][1]["uuid"] is None


def test_a_card_that_is_missing_is_named():
    told = collect(
        devices=[bound(L4, "nvidia")],
        nvidia_smi=SMI.splitlines()[0],
        nvidia_smi_identity=IDENTITY.splitlines()[0],
        previous=healthy_node(),
    )
    assert told["notes"] == ["gpu 0000:41:00.0: was there at the last collect and is missing"]
    told = collect(devices=[], nvidia_smi=ABSENT, declared=[{"pci": "0000:99:00.0", "memory_gb": 8}])
    assert told["notes"] == ["gpu 0000:99:00.0: declared, but there is no such card"]


def test_vendors_order_the_cards():
    told = collect(devices=[AMD, bound(ADA, "vfio-pci")], nvidia_smi=ABSENT)
    assert [(gpu["index"], gpu["vendor"]) for gpu in told["gpus"]] == [(0, "nvidia"), (1, "amd")]


def test_console_and_processor_graphics_are_no_gpus():
    bmc = {"address": "0000:05:00.0", "class": "0x030000", "vendor": "0x1a03", "device": "0x2000", "driver": "ast"}
    igpu = {"address": "0000:00:02.0", "class": "0x030000", "vendor": "0x8086", "device": "0x4692", "driver": "i915"}
    assert collect(devices=[bmc, igpu], nvidia_smi=ABSENT)["gpus"] == []


def test_declared_unusable():
    told = collect(
        devices=[bound(L4, "vfio-pci")], nvidia_smi=ABSENT, declared=[{"pci": "0000:01:00.0", "healthy": False}]
    )
    assert told["gpus"][0]["healthy"] is False
    assert told["gpus"][0]["health"]["code"] == "declared"


def test_a_card_whose_board_is_not_known_has_what_all_candidates_agree_on():
    # A2 and A16 share this chip: both have 16 GB and the same capability.
    device = {
        "address": "0000:02:00.0",
        "class": "0x030200",
        "vendor": "0x10de",
        "device": "0x25b6",
        "driver": "vfio-pci",
    }
    (gpu,) = collect(devices=[device], nvidia_smi=ABSENT)["gpus"]
    assert (gpu["memory_gb"], gpu["compute_cap"], gpu["sources"]["memory"]) == (16, 8.6, "pci_table")
