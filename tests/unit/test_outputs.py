# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.tests.peers.outputs import FINDERS, OUTPUTS, look, read_manifest

SAMPLES = read_manifest(OUTPUTS / "manifest.yaml")


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample['kind']}/{sample['file']}")
def test_what_is_right_for_an_output(sample):
    found, wanted = look(sample)
    assert found == wanted


def test_every_output_and_every_parser_is_tried():
    assert {sample["file"] for sample in SAMPLES} | {"manifest.yaml"} == {path.name for path in OUTPUTS.iterdir()}
    assert {sample["kind"] for sample in SAMPLES} == set(FINDERS)


# What is wrong in a text has to be seen: the entry that it is changed in, and how.
TEST_NOTICED = [
    ("nvidia-smi-five-columns.txt", "gpus", lambda gpus: gpus[:-1]),
    ("nvidia-smi-five-columns.txt", "gpus", lambda gpus: [{**gpus[0], "memory_mib": 20476}, *gpus[1:]]),
    ("nvidia-smi-lost-card.txt", "unhealthy", lambda number: number - 1),
    ("smi-error-driver.txt", "error", lambda _code: "no_devices"),
    ("lsblk-emmc.json", "disks", lambda _disks: []),
    ("sysfs-pci-host.txt", "devices", lambda number: number + 1),
    ("cpuinfo-x86-hybrid.txt", "cores", lambda number: number + 1),
    ("meminfo-huge.txt", "no_such_key", lambda _nothing: 1),
]


@pytest.mark.parametrize(("file", "key", "change"), TEST_NOTICED)
def test_a_difference_is_noticed(file, key, change):
    sample = next(sample for sample in SAMPLES if sample["file"] == file)
    spoilt = {**sample["expected"], key: change(sample["expected"].get(key))}
    found, wanted = look({**sample, "expected": spoilt})
    assert found != wanted


def test_an_error_where_there_are_cards_is_noticed():
    sample = next(sample for sample in SAMPLES if sample["file"] == "smi-error-driver.txt")
    found, wanted = look({**sample, "expected": {}})
    assert found != wanted
