# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._gather.answers import read_outputs
from ansible_collections.knaster.inventory.plugins.module_utils._gather.join import join_gpus

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


def test_without_a_scan_a_lost_gpu_takes_no_number_of_another():
    lost = "Unable to determine the device handle for GPU 0000:0B:00.0: GPU is lost.  Reboot the system to recover this GPU\n"
    smi = SMI.replace("1, NVIDIA RTX", "2, NVIDIA RTX") + lost
    told = collect(nvidia_smi={"rc": 15, "stdout": smi}, amd_smi=AMD_SMI)
    assert [(gpu["index"], gpu["vendor"], gpu["healthy"]) for gpu in told["gpus"]] == [
        (0, "nvidia", True),
        (2, "nvidia", True),
        (3, "nvidia", False),
        (4, "amd", True),
    ]


OTHER = {
    "nvidia_smi": "0, Tesla T4, 15360, 7.5, 570.1\n",
    "nvidia_smi_identity": "0, GPU-1, 00000000:77:00.0, [N/A], 5\n",
}
TEST_MISSING = [
    (bound(L4, "nvidia"), OTHER, False, "bound to the nvidia driver but missing from nvidia-smi"),
    (bound(L4, "vfio-pci"), OTHER, True, None),
    (AMD, {"amd_smi": json.dumps([{"gpu": 0, "bus": {"bdf": "0000:99:00.0"}}])}, None, "bound to the amdgpu driver but missing from amd-smi"),
    (AMD, {"amd_smi": ABSENT}, True, None),
]  # fmt: skip


@pytest.mark.parametrize(("device", "tools", "healthy", "text"), TEST_MISSING)
def test_a_gpu_that_its_driver_has_and_its_tool_does_not_list(device, tools, healthy, text):
    gpu = collect(devices=[device], **tools)["gpus"][0]
    assert (gpu["healthy"], gpu.get("health", {}).get("text")) == (healthy, text)


# What became of nvidia-smi, and what it means for a GPU that its driver holds.
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


@pytest.mark.parametrize("size", ["[N/A]", "[Not Supported]"])
def test_a_part_that_the_table_does_not_know_has_the_memory_of_its_host(size):
    text = f"0, Orin (nvgpu), {size}, 8.7, 540.4.0\n"
    (gpu,) = collect(nvidia_smi=text, meminfo="MemTotal: 65842176 kB\n")["gpus"]
    assert (gpu["memory_gb"], gpu["memory_mib"], gpu["unified_memory"], gpu["healthy"]) == (64, None, True, True)
    assert gpu["sources"]["memory"] == "meminfo"
    (gpu,) = collect(nvidia_smi=text)["gpus"]
    assert (gpu["memory_gb"], gpu["unified_memory"], gpu["healthy"]) == (None, True, True)
    (gpu,) = collect(nvidia_smi=f"0, NVIDIA L4, {size}, 8.9, 540.4.0\n", meminfo="MemTotal: 65842176 kB\n")["gpus"]
    assert ("unified_memory" in gpu, gpu["healthy"]) == (False, None)


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
    # Both sizes of this GPU share name and PCI id.
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
    assert told["notes"] == ["gpu 0000:99:00.0: declared, but there is no such GPU"]


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


def test_a_declared_state_of_a_card_is_told():
    told = collect(
        devices=[bound(L4, "vfio-pci"), bound(ADA, "vfio-pci")],
        nvidia_smi=ABSENT,
        declared=[{"pci": "0000:01:00.0", "state": "cordoned"}, {"pci": "0000:41:00.0", "state": None}],
    )
    assert [gpu.get("state", "not told") for gpu in told["gpus"]] == ["cordoned", "not told"]


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


MI300X = {
    "address": "0000:05:00.0", "class": "0x120000", "vendor": "0x1002", "device": "0x74a1", "driver": "amdgpu",
    "numa_node": 1, "mem_info_vram_total": 206141652992,
}  # fmt: skip
AMD_SMI = json.dumps(
    [
        {
            "gpu": 0,
            "asic": {"market_name": "MI300X", "asic_serial": "0x5D0000000000001B"},
            "vram": {"size": {"value": 196592, "unit": "MB"}},
            "bus": {"bdf": "0000:05:00.0"},
            "driver": {"name": "amdgpu", "version": "6.10.5"},
        }
    ]
)
ROCM_SMI = json.dumps(
    {
        "card0": {
            "Card Series": "Aqua Vanjaram [Instinct MI300X]",
            "PCI Bus": "0000:05:00.0",
            "VRAM Total Memory (B)": "206141652992",
            "Unique ID": "0x5d0000000000001b",
        },
        "system": {"Driver version": "6.10.5"},
    }
)
FLEX = {"address": "0000:4d:00.0", "class": "0x038000", "vendor": "0x8086", "device": "0x56c0", "driver": "i915"}
XPU_SMI = json.dumps(
    {
        "device_list": [
            {"device_id": 0, "device_name": "Intel(R) UHD Graphics 770", "pci_bdf_address": "0000:00:02.0"},
            {
                "device_id": 1,
                "device_name": "Intel(R) Data Center GPU Flex 170",
                "pci_bdf_address": "0000:4d:00.0",
                "pci_device_id": "0x56c0",
                "uuid": "00000000-0000-004d-0000-000856c08086",
            },
        ]
    }
)


def test_amd():
    told = collect(devices=[MI300X], nvidia_smi=ABSENT, amd_smi=AMD_SMI)
    assert told["notes"] == []
    assert told["gpus"] == [
        {
            "index": 0,
            "name": "AMD Instinct MI300X",
            "memory_gb": 192,
            "memory_mib": 196592,
            "compute_cap": None,
            "driver": "6.10.5",
            "gpu_class": "mi300x",
            "vendor": "amd",
            "uuid": "0x5d0000000000001b",
            "pci": {
                "address": "0000:05:00.0",
                "id": "1002:74a1",
                "subsystem_id": None,
                "iommu_group": None,
                "iommu_peers": [],
                "driver": "amdgpu",
                "numa_node": 1,
            },
            "mig": False,
            "healthy": True,
            "sources": {"memory": "amd-smi"},
        }
    ]


def without_sources(told):
    return [{key: value for key, value in gpu.items() if key != "sources"} for gpu in told["gpus"]]


# What became of amd-smi where rocm-smi speaks.
@pytest.mark.parametrize("first", [ABSENT, HANGS, {"rc": 1, "stdout": "Traceback"}, "[{"])
def test_another_tool_tells_the_same_card(first):
    told = collect(devices=[MI300X], nvidia_smi=ABSENT, amd_smi=first, rocm_smi=ROCM_SMI)
    assert without_sources(told) == without_sources(collect(devices=[MI300X], nvidia_smi=ABSENT, amd_smi=AMD_SMI))
    assert told["gpus"][0]["sources"] == {"memory": "rocm-smi"}


@pytest.mark.parametrize("first", [ABSENT, {"rc": 1, "stdout": "Traceback"}, json.dumps([{"gpu": 0, "bus": {"bdf": "0000:05:00.0"}}])])  # fmt: skip
def test_where_no_tool_tells_the_size_the_driver_does(first):
    (gpu,) = collect(devices=[MI300X], nvidia_smi=ABSENT, amd_smi=first)["gpus"]
    assert [gpu[key] for key in ("name", "memory_gb", "memory_mib", "driver", "uuid", "healthy")] == [
        "AMD Instinct MI300X", 192, 196592, None, None, True,
    ]  # fmt: skip
    assert gpu["sources"] == {"memory": "sysfs"}


def test_the_size_tells_apart_what_shares_a_pci_id():
    (gpu,) = collect(devices=[{**AMD, "mem_info_vram_total": "21458059264"}], nvidia_smi=ABSENT)["gpus"]
    assert [gpu[key] for key in ("name", "memory_gb", "gpu_class")] == ["AMD Radeon RX 7900 XT", 20, "rx-7900-xt"]


def test_an_amd_card_that_is_passed_through_keeps_its_facts():
    before = collect(devices=[MI300X], nvidia_smi=ABSENT, amd_smi=AMD_SMI)
    vfio = {key: value for key, value in MI300X.items() if key != "mem_info_vram_total"}
    gone = {"rc": 255, "stderr": "driver not initialized (amdgpu not found in modules)"}
    after = collect(devices=[bound(vfio, "vfio-pci")], nvidia_smi=ABSENT, amd_smi=gone, previous=before)
    assert after["gpus"][0].pop("pci")["driver"] == "vfio-pci"
    before["gpus"][0].pop("pci")
    assert without_sources(after) == without_sources(before)
    lost = collect(devices=[bound(vfio, "vfio-pci")], nvidia_smi=ABSENT)["gpus"][0]
    assert [lost[key] for key in ("name", "memory_gb", "gpu_class", "memory_mib", "uuid")] == [
        "AMD Instinct MI300X", 192, "mi300x", None, None,
    ]  # fmt: skip


# What became of amd-smi, and what it means for a GPU that amdgpu holds.
TEST_AMD_HEALTH = [
    (HANGS, None, "timeout"),
    (AMD_SMI.replace("0000:05", "0000:06"), None, "not_listed"),
    ({"rc": 1, "stderr": "Traceback"}, True, None),
    (ABSENT, True, None),
]


@pytest.mark.parametrize(("amd", "healthy", "code"), TEST_AMD_HEALTH)
def test_health_of_an_amd_card(amd, healthy, code):
    gpu = collect(devices=[MI300X], nvidia_smi=ABSENT, amd_smi=amd)["gpus"][0]
    assert (gpu["healthy"], gpu.get("health", {}).get("code")) == (healthy, code)


def test_parts_of_a_card_are_no_cards():
    (entry,) = json.loads(AMD_SMI)
    part = {**entry, "gpu": 1, "bus": {"bdf": "0000:05:00.1"}, "vram": {"size": 24574}}
    told = collect(devices=[MI300X], nvidia_smi=ABSENT, amd_smi=json.dumps([entry, part]))
    assert [gpu["memory_gb"] for gpu in told["gpus"]] == [192]


def test_trouble_of_a_tool_without_a_card_for_it_is_none():
    broken = {"rc": 255, "stderr": "driver not initialized (amdgpu not found in modules)"}
    assert collect(devices=[bound(L4, "vfio-pci")], nvidia_smi=ABSENT, amd_smi=broken)["notes"] == []
    assert collect(devices=[MI300X], nvidia_smi=ABSENT, amd_smi=broken)["notes"][0].startswith("amd-smi: ")


def test_intel():
    uhd = {"address": "0000:00:02.0", "class": "0x030000", "vendor": "0x8086", "device": "0x4680", "driver": "i915"}
    told = collect(devices=[uhd, FLEX], nvidia_smi=ABSENT, xpu_smi=XPU_SMI)
    (gpu,) = told["gpus"]
    assert [gpu[key] for key in ("index", "smi_index", "name", "memory_gb", "memory_mib", "uuid", "vendor")] == [
        0, 1, "Intel Data Center GPU Flex 170", 16, None, "00000000-0000-004d-0000-000856c08086", "intel",
    ]  # fmt: skip
    assert gpu["sources"] == {"memory": "pci_table"}
    assert told["notes"] == []


def test_without_a_scan_other_vendors_follow():
    told = collect(nvidia_smi=SMI, amd_smi=AMD_SMI, xpu_smi=XPU_SMI)
    assert [(gpu["index"], gpu["vendor"], gpu["gpu_class"]) for gpu in told["gpus"]] == [
        (0, "nvidia", "l4"),
        (1, "nvidia", "rtx-4000-ada"),
        (2, "amd", "mi300x"),
        (3, "intel", "flex-170"),
    ]
    alone = collect(nvidia_smi=ABSENT, amd_smi=AMD_SMI)
    assert [(gpu["index"], gpu["vendor"]) for gpu in alone["gpus"]] == [(0, "amd")]


def test_cards_of_amd_without_addresses_are_counted_in_the_order_of_the_driver():
    others = [bound({**MI300X, "address": "0000:01:00.0"}, "vfio-pci"), {**MI300X, "address": "0000:09:00.0"}]
    text = json.dumps({f"card{n}": {"Card Series": "MI300X", "Unique ID": f"0x{n + 1:016x}"} for n in (0, 1)})
    told = collect(devices=[others[0], MI300X, others[1]], nvidia_smi=ABSENT, rocm_smi=text)
    assert [gpu["uuid"] for gpu in told["gpus"]] == [None, "0x0000000000000001", "0x0000000000000002"]


GIB = 1 << 30
STRIX = {"address": "0000:c3:00.0", "class": "0x030000", "vendor": "0x1002", "device": "0x1586", "driver": "amdgpu"}
# GiB that the firmware carved out, that the driver lends and that the host has; and the size.
TEST_SHARED = [(0.5, 124, 125, 124), (96, 16, 32, 96), (0.5, 200, 125, 125), (64, 32, None, 64), (0.5, 62, None, 62)]


@pytest.mark.parametrize(("carved_out", "lent", "host", "size"), TEST_SHARED)
def test_memory_of_the_host_counts_once(carved_out, lent, host, size):
    device = {**STRIX, "mem_info_vram_total": int(carved_out * GIB), "mem_info_gtt_total": lent * GIB}
    meminfo = {"meminfo": f"MemTotal: {host * 1048576} kB"} if host else {}
    told = collect(devices=[device], nvidia_smi=ABSENT, rocm_smi=ROCM_SMI.replace("0000:05", "0000:c3"), **meminfo)
    (gpu,) = told["gpus"]
    assert (gpu["unified_memory"], gpu["memory_gb"], gpu["memory_mib"], gpu["gpu_class"]) == (True, size, None, "strix-halo")  # fmt: skip
    assert (gpu["healthy"], gpu["sources"]["memory"]) == (True, "sysfs")


def test_memory_of_the_host_that_nothing_tells_is_unknown():
    told = collect(devices=[STRIX], nvidia_smi=ABSENT, rocm_smi=ROCM_SMI.replace("0000:05", "0000:c3"))
    assert (told["gpus"][0]["memory_gb"], told["gpus"][0]["unified_memory"]) == (None, True)
    assert told["notes"] == ["gpu 0000:c3:00.0: memory unknown; state it in knaster_gpus"]


H100 = {"address": "0000:01:00.0", "class": "0x030200", "vendor": "0x10de", "device": "0x2330", "driver": "nvidia"}
DIVIDED = {
    "devices": [H100, {**H100, "address": "0000:02:00.0"}],
    "nvidia_smi": "0, NVIDIA H100 80GB HBM3, 81559, 9.0, 570.86.15\n1, NVIDIA H100 80GB HBM3, 81559, 9.0, 570.86.15\n",
    "nvidia_smi_identity": "0, GPU-a1, 00000000:01:00.0, Enabled, 500\n1, GPU-b2, 00000000:02:00.0, Disabled, 500\n",
}
LIST = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-a1)
  MIG 3g.40gb     Device  0: (UUID: MIG-1)
  MIG 1g.10gb     Device  1: (UUID: MIG-2)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-b2)
"""
SLICES = [{"name": "3g.40gb", "memory_gb": 40, "uuid": "MIG-1"}, {"name": "1g.10gb", "memory_gb": 10, "uuid": "MIG-2"}]


def test_slices_of_a_divided_card():
    told = collect(**DIVIDED, nvidia_smi_list=LIST)
    assert [(gpu["mig"], gpu["memory_gb"]) for gpu in told["gpus"]] == [(True, 80), (False, 80)]
    assert [gpu.get("mig_slices") for gpu in told["gpus"]] == [SLICES, None]
    # It is the UUID that says which GPU it is.
    swapped = LIST.replace("GPU 0", "GPU 9").replace("GPU 1", "GPU 0")
    assert collect(**DIVIDED, nvidia_smi_list=swapped)["gpus"] == told["gpus"]
    assert collect(**DIVIDED, nvidia_smi_list=LIST.replace("  MIG", "x"))["gpus"][0]["mig_slices"] == []


@pytest.mark.parametrize("listed", [HANGS, {"rc": 255, "stdout": "Failed to initialize NVML: Unknown Error"}])
def test_slices_that_could_not_be_listed(listed):
    told = collect(**DIVIDED, nvidia_smi_list=listed)
    assert [(gpu["mig"], "mig_slices" in gpu) for gpu in told["gpus"]] == [(True, False), (False, False)]
    assert [note.partition(" (")[0] for note in told["notes"]] == ["nvidia-smi: slices not listed"]


def test_the_number_that_a_tool_gave_is_kept():
    cards = [bound(L4, "vfio-pci"), bound(ADA, "nvidia")]
    before = collect(
        devices=cards,
        nvidia_smi="0, NVIDIA RTX 4000 Ada Generation, 20475, 8.9, 570.86.15\n",
        nvidia_smi_identity="0, GPU-bbbb, 00000000:41:00.0, [N/A], 480\n",
    )
    after = collect(devices=[bound(card, "vfio-pci") for card in cards], nvidia_smi=ABSENT, previous=before)
    assert [gpu.get("smi_index") for gpu in before["gpus"]] == [None, 0]
    assert [gpu.get("smi_index") for gpu in after["gpus"]] == [None, 0]
    assert after["gpus"][1]["sources"]["smi_index"] == "previous"


CONFIGURED = """node pve1
map ada
map \tmap id=10de:27b2,node=pve1,path=0000:41:00
vm 101
vm 101 name: windows
vm 101 hostpci0: 01:00,pcie=1
vm 9101
vm 9101 #knaster.inventory/1 {"fingerprint"%3A"3fa9","vm"%3A"chat-0"}
vm 9101 hostpci0: mapping=ada,pcie=1
end"""
BOUND = [bound(L4, "vfio-pci"), bound(ADA, "vfio-pci")]
NO_CARDS = {"rc": 6, "stdout": "No devices were found\n"}


def holders(told):
    return [gpu.get("holder", "not asked") for gpu in told["gpus"]]


def test_holders_are_machines_by_their_configuration():
    told = collect(devices=[*BOUND, bound(AMD, "amdgpu")], nvidia_smi=NO_CARDS, pve_guests=CONFIGURED)
    assert holders(told) == [
        {"kind": "vm", "id": 101, "name": "windows", "ours": False},
        {"kind": "vm", "id": 9101, "name": "chat-0", "ours": True},
        None,
    ]
    assert [gpu["sources"].get("holder") for gpu in told["gpus"]] == ["pve", "pve", None]
    assert list(told["gpus"][0])[-2:] == ["holder", "sources"]
    assert [note for note in told["notes"] if "holder" in note] == []


def test_the_host_name_says_whose_mappings_count():
    text = CONFIGURED.replace("node pve1\n", "")
    told = collect(devices=BOUND, pve_guests=text, hostname="pve1.example.org\n")
    assert holders(told)[1]["id"] == 9101
    assert holders(collect(devices=BOUND, pve_guests=text, hostname="pve2\n"))[1] is None


def test_a_machine_that_is_not_ours_keeps_a_card_that_both_have():
    text = CONFIGURED.replace("01:00,pcie=1", "41:00.0")
    assert holders(collect(devices=BOUND, pve_guests=text)) == [
        None,
        {"kind": "vm", "id": 101, "name": "windows", "ours": False},
    ]


def test_a_part_of_a_card_is_held_and_so_is_the_card():
    part = {**bound(ADA, "vfio-pci"), "address": "0000:41:00.4", "physfn": "../0000:41:00.0"}
    text = CONFIGURED.replace("01:00,pcie=1", "0000:41:00.4").replace("mapping=ada", "none")
    told = collect(devices=[bound(ADA, "nvidia"), part], pve_guests=text)
    assert holders(told) == [{"kind": "vm", "id": 101, "name": "windows", "ours": False}]


TEST_NOT_ASKED = [
    ({"status": "timeout", "rc": 137}, "/etc/pve: did not answer in time"),
    ({"status": "failed", "rc": 3}, "/etc/pve is empty: the cluster file system does not run"),
    ("vm 7\nvm 7 name: x", "the list of VMs was cut short"),
    ("unreadable qemu-server/7.conf\nend", "1 file of /etc/pve can be read by root only"),
    ("what", "/etc/pve: there is no list of VMs and containers in the text: what"),
]


@pytest.mark.parametrize(("output", "why"), TEST_NOT_ASKED)
def test_holders_that_could_not_be_asked_for(output, why):
    told = collect(devices=BOUND, nvidia_smi=NO_CARDS, pve_guests=output)
    assert holders(told) == ["not asked", "not asked"]
    assert told["notes"] == [f"gpu holders: not all known ({why})"]


def test_what_was_found_counts_where_the_rest_could_not_be_read():
    told = collect(devices=BOUND, pve_guests=CONFIGURED.replace("end", "unreadable qemu-server/7.conf\nend"))
    assert [holder["id"] for holder in holders(told)] == [101, 9101]


def test_a_pool_of_cards_counts_as_held():
    text = (
        "map pool\nmap \tmap node=n,path=0000:01:00\nmap \tmap node=n,path=0000:41:00\nvm 7 hostpci0: mapping=pool\nend"
    )
    told = collect(devices=BOUND, pve_guests=text, hostname="n")
    assert [holder["id"] for holder in holders(told)] == [7, 7]
    assert told["notes"] == ["gpu holders: vm 7 takes any GPU of the mapping pool; all of them count as held"]


ASKED = {"nvidia_smi": SMI, "nvidia_smi_identity": IDENTITY}


def test_a_process_of_the_host_has_its_card():
    devices = [bound(L4, "nvidia"), bound(ADA, "nvidia")]
    told = collect(devices=devices, nvidia_smi_processes="GPU-bbbb, 4711, /usr/bin/python3\n", **ASKED)
    assert holders(told) == [None, {"kind": "host", "id": 4711, "name": "/usr/bin/python3", "ours": False}]
    assert told["gpus"][1]["sources"]["holder"] == "nvidia-smi"
    told = collect(devices=devices, nvidia_smi_processes={"rc": 255, "stdout": "what"}, **ASKED)
    assert holders(told) == ["not asked", "not asked"]
    assert told["notes"] == ["gpu holders: processes not known (nvidia-smi: the command failed: what)"]
    assert holders(collect(devices=devices, **ASKED)) == ["not asked", "not asked"]


def test_where_no_machines_were_asked_a_card_that_a_machine_may_have_is_not_nobodys():
    told = collect(devices=[bound(L4, "vfio-pci"), bound(ADA, "nvidia")], nvidia_smi_processes="", **ASKED)
    assert holders(told) == ["not asked", None]


def test_a_holder_is_declared():
    facts = [{"pci": "0000:01:00.0", "holder": {"kind": "vm", "id": 7, "name": "x", "ours": True}}]
    told = collect(devices=BOUND, pve_guests=CONFIGURED, declared=facts)
    assert holders(told)[0] == {"kind": "vm", "id": 7, "name": "x", "ours": True}
    assert told["gpus"][0]["sources"]["holder"] == "declared"
    assert holders(collect(devices=BOUND, declared=[{**facts[0], "holder": None}])) == ["not asked", "not asked"]


T4 = {**L4, "device": "0x1eb8", "subsystem_device": "0x1309"}


def test_a_virtual_card_is_not_the_card_that_it_is_a_part_of():
    told = collect(
        devices=[bound(T4, "nvidia")],
        nvidia_smi="0, GRID T4-8Q, 8192, 7.5, 550.90.07\n",
        nvidia_smi_identity="0, GPU-aaaa, 00000000:01:00.0, [N/A], [N/A]\n",
    )
    assert brief(told) == [(0, "grid-t4-8q", 8, 7.5, True)]
    assert (told["gpus"][0]["vgpu"], told["gpus"][0]["known"]) == (True, False)
    again = collect(devices=[bound(T4, "nvidia")], nvidia_smi=HANGS, previous=told)
    assert brief(again) == [(0, "grid-t4-8q", 8, 7.5, None)]
    assert again["gpus"][0]["vgpu"]
    odd = collect(nvidia_smi="0, NVIDIA L40S-24Q, 24576, 8.9, 550.90.07\n1, NVIDIA L40S-20Q, 20475, 8.9, 550.90.07\n")
    assert [(gpu["gpu_class"], gpu["memory_gb"]) for gpu in odd["gpus"]] == [("l40s-24q", 24), ("l40s-20q", 20)]


def test_a_whole_card_is_not_virtual():
    assert [gpu for gpu in healthy_node()["gpus"] if "vgpu" in gpu] == []


BARE_MI300X = {
    "address": "0000:05:00.0",
    "class": "0x120000",
    "vendor": "0x1002",
    "device": "0x74a1",
    "driver": "amdgpu",
}


def partitioned(number, address, uuid, size):
    return {
        "gpu": number,
        "asic": {"market_name": "AMD Instinct MI300X", "asic_serial": uuid},
        "bus": {"bdf": address},
        "partition": {"accelerator_partition": "CPX", "memory_partition": "NPS4", "partition_id": number},
        "vram": {"size": {"value": size, "unit": "MB"}},
    }


def test_a_card_of_amd_in_parts_is_one_card_that_is_not_whole():
    parts = [partitioned(0, "0000:05:00.0", "0xA1A1", 49152), partitioned(1, "0000:05:00.1", "N/A", "N/A")]
    told = collect(devices=[BARE_MI300X], amd_smi=json.dumps(parts))
    assert len(told["gpus"]) == 1
    assert told["gpus"][0]["mig"] is True
    assert told["gpus"][0]["mig_slices"] == [
        {"name": "cpx", "memory_gb": 48, "uuid": "0xa1a1"},
        {"name": "cpx", "memory_gb": None, "uuid": None},
    ]


@pytest.mark.parametrize(("mode", "expected"), [("SPX", False), ("CPX", True), ("", False)])
def test_the_driver_tells_without_a_tool_that_a_card_of_amd_is_divided(mode, expected):
    told = collect(devices=[{**BARE_MI300X, "current_compute_partition": mode}])
    assert told["gpus"][0]["mig"] is expected
    assert "mig_slices" not in told["gpus"][0]
