# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.sysfs_pci import (
    Device,
    gpus,
    parse,
    parse_lines,
    why_not_gpu,
)
from ansible_collections.knaster.inventory.plugins.module_utils._pci import Address, parse_address


def address(text: str) -> Address:
    found = parse_address(text)
    assert found is not None
    return found


def entry(address: str, vendor: str, device: str, class_code: str = "0x030000", **more: object) -> dict[str, object]:
    return {"address": address, "vendor": f"0x{vendor}", "device": f"0x{device}", "class": class_code, **more}


RTX_4000_ADA = entry(
    "0000:01:00.0",
    "10de",
    "27b2",
    subsystem_vendor="0x10de",
    subsystem_device="0x181b",
    driver="../../../../bus/pci/drivers/vfio-pci",
    iommu_group="../../../../kernel/iommu_groups/16",
    numa_node="0\n",
)


def test_parse() -> None:
    (device,) = parse([RTX_4000_ADA])
    assert device == Device(
        address=address("0000:01:00.0"),
        vendor_id="10de",
        device_id="27b2",
        class_code="030000",
        subsystem_vendor_id="10de",
        subsystem_device_id="181b",
        driver="vfio-pci",
        iommu_group=16,
        numa_node=0,
    )
    assert (device.pci_id, device.subsystem_id) == ("10de:27b2", "10de:181b")


def test_what_is_not_told_is_unknown() -> None:
    (device,) = parse(
        [{"address": "0000:01:00.0", "vendor": "zz", "numa_node": "-1", "iommu_group": None, "driver": ""}]
    )
    assert device == Device(address=address("0000:01:00.0"))
    assert (device.pci_id, device.subsystem_id) == (None, None)
    assert why_not_gpu(device) == "not_a_display"


def test_addresses_are_numbers() -> None:
    found = parse(
        [{"address": text} for text in ("10000:00:00.0", "0035:04:00.0", "0000:C1:00.0", "0000:0a:00.0", "", "x")]
    )
    assert [device.address.text for device in found] == [
        "0000:0a:00.0",
        "0000:c1:00.0",
        "0035:04:00.0",
        "10000:00:00.0",
    ]


def test_the_same_address_twice_is_one_device() -> None:
    peer = {"address": "0000:01:00.0", "peer_of": "0000:01:00.1"}
    assert parse([RTX_4000_ADA, peer]) == parse([RTX_4000_ADA]) == parse([peer, RTX_4000_ADA])


TEST_WHY_NOT_GPU = [
    pytest.param(entry("0000:01:00.0", "10de", "27b2"), None, id="NVIDIA"),
    pytest.param(entry("0000:1b:00.0", "10de", "2330", "0x030200"), None, id="NVIDIA without outputs"),
    pytest.param(entry("0000:07:00.0", "10de", "22a3", "0x068000"), "not_a_display", id="NVSwitch"),
    pytest.param(entry("0000:01:00.1", "10de", "22bc", "0x040300"), "not_a_display", id="sound of a GPU"),
    pytest.param(entry("0000:00:05.0", "10de", "03d0"), "integrated", id="NVIDIA chipset"),
    pytest.param(entry("000f:01:00.0", "10de", "2e12"), None, id="unified memory"),
    pytest.param(entry("0000:03:00.0", "1002", "744c"), None, id="AMD"),
    pytest.param(entry("0000:05:00.0", "1002", "740f", "0x038000"), None, id="AMD accelerator, other display"),
    pytest.param(entry("0000:05:00.0", "1002", "74a1", "0x120000"), None, id="AMD accelerator, class of its own"),
    pytest.param(entry("0000:c5:00.0", "1002", "1900"), "integrated", id="AMD processor"),
    pytest.param(entry("0000:00:01.0", "1002", "9874"), "integrated", id="AMD processor, older"),
    pytest.param(entry("0000:c3:00.0", "1002", "1586", "0x038000"), None, id="AMD processor with large graphics"),
    pytest.param(entry("0000:01:05.0", "1002", "515e"), "console", id="AMD on a server board"),
    pytest.param(entry("0000:00:02.0", "8086", "46a6"), "integrated", id="Intel processor"),
    pytest.param(entry("0000:03:00.0", "8086", "56a0"), None, id="Intel GPU"),
    pytest.param(entry("0000:03:00.0", "8086", "e20b"), None, id="Intel GPU, next generation"),
    pytest.param(entry("0000:00:10.0", "8086", "56a0"), None, id="Intel GPU in a guest"),
    pytest.param(entry("0000:4d:00.0", "8086", "0bda", "0x038000"), None, id="Intel accelerator"),
    pytest.param(entry("0000:00:0b.0", "8086", "7d1d", "0x120000"), "not_a_display", id="Intel NPU"),
    pytest.param(
        entry("0000:3b:00.4", "10de", "2235", "0x030200", physfn="../0000:3b:00.0"),
        "virtual_function",
        id="virtual function",
    ),
    pytest.param(entry("0000:02:00.0", "1a03", "2000"), "other_vendor", id="ASPEED"),
    pytest.param(entry("0006:01:00.1", "102b", "0538"), "other_vendor", id="Matrox"),
    pytest.param(entry("0000:00:01.0", "1af4", "1050"), "other_vendor", id="virtio"),
    pytest.param(entry("0000:00:02.0", "1b36", "0100"), "other_vendor", id="QXL"),
    pytest.param(entry("0000:00:02.0", "1234", "1111"), "other_vendor", id="Bochs"),
    pytest.param(entry("0000:00:0f.0", "15ad", "0405"), "other_vendor", id="VMware"),
    pytest.param(entry("0000:00:08.0", "1414", "5353"), "other_vendor", id="Hyper-V"),
]


@pytest.mark.parametrize(("device", "reason"), TEST_WHY_NOT_GPU)
def test_why_not_gpu(device: dict[str, object], reason: str | None) -> None:
    (found,) = parse([device])
    assert why_not_gpu(found) == reason
    assert gpus([found]) == ([found] if reason is None else [])


def test_neighbours_of_a_gpu() -> None:
    devices = parse(
        [
            RTX_4000_ADA,
            entry("0000:01:00.1", "10de", "22bc", "0x040300", driver="snd_hda_intel", iommu_group="16"),
            entry("0000:01:00.2", "10de", "1ad8", "0x0c0330", iommu_group="17"),
            entry("0000:00:01.0", "8086", "460d", "0x060400", driver="pcieport", iommu_group="16"),
            entry("0000:04:00.0", "144d", "a80a", "0x010802", driver="nvme", iommu_group=16),
            entry("0000:05:00.0", "144d", "a80a", "0x010802", driver="nvme"),
        ]
    )
    (gpu,) = gpus(devices)
    # The bridge above is in the group as well, and stays with the host.
    assert [(peer.address.text, peer.driver) for peer in gpu.iommu_peers] == [
        ("0000:01:00.1", "snd_hda_intel"),
        ("0000:04:00.0", "nvme"),
    ]


def test_without_groups_nobody_shares_one() -> None:
    (gpu, _other) = gpus(parse([entry("0000:01:00.0", "10de", "27b2"), entry("0000:02:00.0", "10de", "27b2")]))
    assert gpu.iommu_peers == ()


def test_memory_as_the_driver_of_amd_tells_it() -> None:
    (gpu,) = gpus(
        parse([entry("0000:03:00.0", "1002", "744c", mem_info_vram_total="25753026560", mem_info_gtt_total="0")])
    )
    assert (gpu.vram_bytes, gpu.gtt_bytes) == (25753026560, None)


def test_lines_of_the_gather_script() -> None:
    text = """
address=0000:06:00.0 class=0x030200 vendor=0x10de device=0x15f8 driver=nvidia iommu_group=4
peer_of=0000:06:00.0 address=0000:04:00.0 class=0x010802 iommu_group=4
no device
"""
    (gpu,) = gpus(parse_lines(text))
    assert (gpu.address.text, gpu.pci_id, gpu.driver, gpu.iommu_group) == ("0000:06:00.0", "10de:15f8", "nvidia", 4)
    assert [peer.address.text for peer in gpu.iommu_peers] == ["0000:04:00.0"]
    assert parse_lines("") == []
