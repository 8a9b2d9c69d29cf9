# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import os
import re
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
    for named in (expected.get("field"), expected.get("bus_id")):
        assert named is None or named in caught.detail


@pytest.mark.parametrize(("folder", "sample"), samples("nvidia-smi-csv"))
def test_nvidia_smi(folder: Path, sample: Sample) -> None:
    expected = sample["expected"]
    text = read(folder, sample)
    if "error" in expected:
        with pytest.raises(ParseError) as caught:
            nvidia_smi.parse_query(text, command=sample["command"], **arguments(sample))
        check_error(expected, caught.value)
        return
    gpus = nvidia_smi.parse_query(text, command=sample["command"], **arguments(sample))
    healthy = [gpu for gpu in gpus if gpu.health is None]
    found = [
        {
            "index": gpu.index,
            "name": gpu.name,
            "memory_mib": gpu.memory_mib,
            "compute_cap": gpu.compute_cap and "{}.{}".format(*gpu.compute_cap),
            "driver_version": gpu.driver,
            "uuid": gpu.uuid,
            "mig_mode": {True: "Enabled", False: "Disabled"}.get(t.cast("bool", gpu.mig)),
        }
        for gpu in healthy
    ]
    assert len(found) == len(expected["gpus"])
    assert [{key: gpu[key] for key in gpu} for gpu, gpu in zip(found, expected["gpus"], strict=True)] == expected[
        "gpus"
    ]
    assert len(gpus) - len(healthy) == expected.get("unhealthy", 0)


@pytest.mark.parametrize(("folder", "sample"), samples("meminfo"))
def test_meminfo(folder: Path, sample: Sample) -> None:
    expected = sample["expected"]
    if "error" in expected:
        with pytest.raises(ParseError) as caught:
            meminfo.parse(read(folder, sample))
        check_error(expected, caught.value)
        return
    assert round(meminfo.parse(read(folder, sample)) / 1048576, 3) == expected["total_gib"]


@pytest.mark.parametrize(("folder", "sample"), samples("cpuinfo", "lscpu"))
def test_cpu(folder: Path, sample: Sample) -> None:
    expected = sample["expected"]
    text = read(folder, sample)
    if "error" in expected:
        with pytest.raises(ParseError) as caught:
            cpuinfo.parse(text) if sample["kind"] == "cpuinfo" else lscpu.parse(text, **arguments(sample))
        check_error(expected, caught.value)
        return
    found = cpuinfo.parse(text) if sample["kind"] == "cpuinfo" else lscpu.parse(text, **arguments(sample))
    known = {key: expected[key] for key in found._fields if key in expected}
    assert known
    assert {key: getattr(found, key) for key in known} == known


@pytest.mark.parametrize(("folder", "sample"), samples("lsblk"))
def test_lsblk(folder: Path, sample: Sample) -> None:
    expected = sample["expected"]
    text = read(folder, sample)
    if "error" in expected:
        with pytest.raises(ParseError) as caught:
            lsblk.parse(text, **arguments(sample))
        check_error(expected, caught.value)
        return
    rows = lsblk.parse(text, **arguments(sample))
    disks = sorted(expected["disks"], key=lambda row: lsblk.natural_key(row["name"]))
    for found, wanted in ((rows, expected["rows"]), (lsblk.disks(rows), disks)):
        # A size without its bytes is written as text there, and is unknown here.
        assert [(row.name, row.size_bytes, row.rotational) for row in found] == [
            (row["name"], None if isinstance(row["size_bytes"], str) else row["size_bytes"], row["rotational"])
            for row in wanted
        ]


# "<address>/<attribute>:<value>" as grep prints it, "<address>/<link> -> <target>" as ls and readlink loops do.
ATTRIBUTE = re.compile(r"(?P<address>[^/\s]+)/(?P<key>[a-z_]+)(?::| -> )(?P<value>.*)$")


def read_listing(text: str) -> list[dict[str, str]]:
    """Return the devices of a listing of ``/sys/bus/pci/devices`` that somebody saved."""
    entries: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        match = ATTRIBUTE.search(line)
        if match:
            entries.setdefault(match["address"], {})[match["key"]] = match["value"]
            continue
        for word in line.split():
            entries.setdefault(word.rpartition("/")[2], {})
    return [{"address": address, **entry} for address, entry in entries.items()]


@pytest.mark.parametrize(("folder", "sample"), samples("sysfs-pci"))
def test_sysfs_pci(folder: Path, sample: Sample) -> None:
    expected = sample["expected"]
    devices = sysfs_pci.parse(read_listing(read(folder, sample)))
    assert devices
    if "devices" in expected:
        assert len(devices) == expected["devices"]
    if "addresses" in expected:
        assert [device.address.text for device in devices] == expected["addresses"]
    if "display_class_addresses" in expected:
        displays = [device for device in devices if (device.class_code or "").startswith("03")]
        assert [device.address.text for device in displays] == expected["display_class_addresses"]
    if "gpus" in expected:
        found = [
            {
                "address": device.address.text,
                "vendor_id": device.vendor_id,
                "device_id": device.device_id,
                "class": f"0x{device.class_code}",
                "driver": device.driver,
                "iommu_group": device.iommu_group,
                "integrated": sysfs_pci.why_not_gpu(device) is not None,
            }
            for device in devices
            if sysfs_pci.why_not_gpu(device) in (None, "integrated")
        ]
        wanted = [{key: value for key, value in gpu.items() if key != "companions"} for gpu in expected["gpus"]]
        assert len(found) == len(wanted)
        assert [{key: gpu[key] for key in one} for gpu, one in zip(found, wanted, strict=True)] == wanted
        assert [gpu.address.text for gpu in sysfs_pci.gpus(devices)] == [
            gpu["address"] for gpu in wanted if not gpu.get("integrated")
        ]


@pytest.mark.parametrize(("folder", "sample"), samples("nvidia-smi-L"))
def test_nvidia_smi_list(folder: Path, sample: Sample) -> None:
    expected = sample["expected"]
    if "error" in expected:
        with pytest.raises(ParseError) as caught:
            nvidia_smi_list.parse(read(folder, sample), **arguments(sample))
        check_error(expected, caught.value)
        return
    gpus = nvidia_smi_list.parse(read(folder, sample), **arguments(sample))
    assert [
        {"index": gpu.index, "name": gpu.name, "mig": [part.name for part in gpu.slices or ()]} for gpu in gpus
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
    gpus = parse(read(folder, sample), **arguments(sample))
    found = [
        {
            "index": gpu.index,
            "card": gpu.index,
            "name": gpu.name,
            "bus": gpu.address and gpu.address.text,
            "vram_mib": gpu.memory_mib,
            "pci_device_id": gpu.device_id and f"0x{gpu.device_id}",
            "driver_version": gpu.driver,
        }
        for gpu in gpus
    ]
    # The expected values keep the bytes that a MiB is read from, and the address as it is printed.
    wanted = [
        {
            key: value.lower() if key == "bus" and value else value
            for key, value in gpu.items()
            if key not in ("vram_bytes", "integrated", "gfx")
        }
        for gpu in expected["gpus"]
    ]
    assert len(found) == len(wanted)
    assert [{key: gpu[key] for key in gpu} for gpu, gpu in zip(found, wanted, strict=True)] == wanted
    if "driver_version" in expected:
        assert {gpu.driver for gpu in gpus} == {expected["driver_version"]}
