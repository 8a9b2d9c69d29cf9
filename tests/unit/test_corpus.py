# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.knaster.inventory.plugins.module_utils._parsers import (
    amd_smi,
    cpuinfo,
    lsblk,
    lscpu,
    meminfo,
    nvidia_smi,
    nvidia_smi_list,
    rocm_smi,
    sysfs_pci,
    xpu_smi,
)
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("KNASTER_CORPUS") or ROOT.parent / "shared" / "corpus")
# The text of a manifest may lie in one folder below, with others of its kind.
MANIFESTS = sorted(CORPUS.glob("*/manifest.yaml")) if CORPUS.is_dir() else []

Sample = dict[str, t.Any]


def samples(*kinds: str) -> list[t.Any]:
    found = [
        pytest.param(path.parent, sample, id=sample["file"])
        for path in MANIFESTS
        for sample in yaml.safe_load(path.read_text(encoding="utf-8"))
        if sample["kind"] in kinds
    ]
    return found or [
        pytest.param(None, {}, marks=pytest.mark.skip(reason=f"there are no recorded outputs in {CORPUS}"), id="none")
    ]


def read(folder: Path, sample: Sample) -> str:
    return (folder / sample["file"]).read_bytes().decode("utf-8", "surrogateescape")


def arguments(sample: Sample) -> dict[str, t.Any]:
    return {"stderr": sample.get("stderr") or "", "rc": sample.get("rc")}


def check_error(expected: Sample, caught: ParseError) -> None:
    assert caught.code == expected["error"]
    if "field" in expected:
        assert caught.field == expected["field"]
    if "bus_id" in expected:
        assert caught.pci_address == nvidia_smi.normalise_address(expected["bus_id"])


@pytest.mark.parametrize(("folder", "sample"), samples("nvidia-smi-csv"))
def test_nvidia_smi(folder: Path, sample: Sample) -> None:
    expected = sample["expected"]
    text = read(folder, sample)
    if "error" in expected:
        with pytest.raises(ParseError) as caught:
            nvidia_smi.parse_query(text, command=sample["command"], **arguments(sample))
        check_error(expected, caught.value)
        return
    cards = nvidia_smi.parse_query(text, command=sample["command"], **arguments(sample))
    healthy = [card for card in cards if card.health is None]
    found = [
        {
            "index": card.index,
            "name": card.name,
            "memory_mib": card.memory_mib,
            "compute_cap": card.compute_cap and "{}.{}".format(*card.compute_cap),
            "driver_version": card.driver,
            "uuid": card.uuid,
            "mig_mode": {True: "Enabled", False: "Disabled"}.get(t.cast("bool", card.mig)),
        }
        for card in healthy
    ]
    assert len(found) == len(expected["gpus"])
    assert [{key: card[key] for key in gpu} for card, gpu in zip(found, expected["gpus"], strict=True)] == expected[
        "gpus"
    ]
    assert len(cards) - len(healthy) == expected.get("unhealthy", 0)


@pytest.mark.parametrize(("folder", "sample"), samples("meminfo"))
def test_meminfo(folder: Path, sample: Sample) -> None:
    expected = dict(sample["expected"])
    if "error" in expected:
        with pytest.raises(ParseError) as caught:
            meminfo.parse(read(folder, sample))
        check_error(expected, caught.value)
        return
    found = meminfo.parse(read(folder, sample))
    assert round(found.total_kb / 1048576, 3) == expected.pop("total_gib")
    assert {key: getattr(found, key) for key in expected} == expected


@pytest.mark.parametrize(("folder", "sample"), samples("cpuinfo", "lscpu"))
def test_cpu(folder: Path, sample: Sample) -> None:
    expected = dict(sample["expected"])
    hints = expected.pop("hints", {})
    text = read(folder, sample)
    if "error" in expected:
        with pytest.raises(ParseError) as caught:
            cpuinfo.parse(text) if sample["kind"] == "cpuinfo" else lscpu.parse(text, **arguments(sample))
        check_error(expected, caught.value)
        return
    found: t.Any = cpuinfo.parse(text) if sample["kind"] == "cpuinfo" else lscpu.parse(text, **arguments(sample))
    if "models" in expected:
        assert list(found.models) == expected.pop("models")
    assert {key: getattr(found, key) for key in expected} == expected
    if "parts" in hints:
        assert dict(found.parts) == hints["parts"]
    if "board" in hints:
        assert found.board == hints["board"]


@pytest.mark.parametrize(("folder", "sample"), samples("lsblk"))
def test_lsblk(folder: Path, sample: Sample) -> None:
    expected = sample["expected"]
    text = read(folder, sample)
    if "error" in expected:
        with pytest.raises(ParseError) as caught:
            lsblk.parse(text, command=sample["command"], **arguments(sample))
        check_error(expected, caught.value)
        return
    rows = lsblk.parse(text, command=sample["command"], **arguments(sample))
    disks = sorted(expected["disks"], key=lambda row: lsblk.natural_key(row["name"]))
    for found, wanted in ((rows, expected["rows"]), (lsblk.disks(rows), disks)):
        # A size without its bytes is written as text there, and is unknown here.
        assert [(row.name, row.size_bytes, row.rotational) for row in found] == [
            (row["name"], None if isinstance(row["size_bytes"], str) else row["size_bytes"], row["rotational"])
            for row in wanted
        ]


@pytest.mark.parametrize(("folder", "sample"), samples("sysfs-pci"))
def test_sysfs_pci(folder: Path, sample: Sample) -> None:
    expected = sample["expected"]
    devices = sysfs_pci.parse_text(read(folder, sample))
    assert len(devices) == expected.get("devices", len(devices))
    if "addresses" in expected:
        assert [device.address for device in devices] == expected["addresses"]
    if "display_class_addresses" in expected:
        assert [device.address for device in devices if device.is_display] == expected["display_class_addresses"]
    if "gpus" in expected:
        found = [
            {
                "address": gpu.address,
                "vendor_id": gpu.vendor_id,
                "device_id": gpu.device_id,
                "class": f"0x{gpu.class_code}",
                "driver": gpu.driver,
                "iommu_group": gpu.iommu_group,
                "companions": [device.address for device in gpu.companions],
                "integrated": gpu.is_integrated,
            }
            for gpu in sysfs_pci.displays(devices)
        ]
        assert len(found) == len(expected["gpus"])
        assert [
            {key: gpu[key] for key in wanted} for gpu, wanted in zip(found, expected["gpus"], strict=True)
        ] == expected["gpus"]
        assert [gpu.address for gpu in sysfs_pci.gpus(devices)] == [
            gpu["address"] for gpu in expected["gpus"] if not gpu.get("integrated")
        ]


@pytest.mark.parametrize(("folder", "sample"), samples("nvidia-smi-L"))
def test_nvidia_smi_list(folder: Path, sample: Sample) -> None:
    expected = sample["expected"]
    if "error" in expected:
        with pytest.raises(ParseError) as caught:
            nvidia_smi_list.parse(read(folder, sample), **arguments(sample))
        check_error(expected, caught.value)
        return
    cards = nvidia_smi_list.parse(read(folder, sample), **arguments(sample))
    assert [
        {"index": card.index, "name": card.name, "mig": [part.name for part in card.slices]} for card in cards
    ] == expected["gpus"]


VENDOR_TOOLS = {"amd-smi": amd_smi.parse, "rocm-smi": rocm_smi.parse, "xpu-smi": xpu_smi.parse}


@pytest.mark.parametrize(("folder", "sample"), samples(*VENDOR_TOOLS))
def test_tools_of_other_vendors(folder: Path, sample: Sample) -> None:
    expected = sample["expected"]
    parse = VENDOR_TOOLS[sample["kind"]]
    if "error" in expected:
        with pytest.raises(ParseError) as caught:
            parse(read(folder, sample), **arguments(sample))
        check_error(expected, caught.value)
        return
    cards = parse(read(folder, sample), **arguments(sample))
    found = [
        {
            "index": card.index,
            "card": card.index,
            "name": card.name,
            "bus": card.pci_address,
            "vram_mib": card.memory_mib,
            "gfx": card.gfx,
            "pci_device_id": card.device_id and f"0x{card.device_id}",
            "driver_version": card.driver,
        }
        for card in cards
    ]
    # The expected values keep the bytes that a MiB is read from, and the address as it is printed.
    wanted = [
        {
            key: value.lower() if key == "bus" and value else value
            for key, value in gpu.items()
            if key not in ("vram_bytes", "integrated")
        }
        for gpu in expected["gpus"]
    ]
    assert len(found) == len(wanted)
    assert [{key: card[key] for key in gpu} for card, gpu in zip(found, wanted, strict=True)] == wanted
    if "driver_version" in expected:
        assert {card.driver for card in cards} == {expected["driver_version"]}
