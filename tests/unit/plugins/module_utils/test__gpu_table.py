# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import itertools
import re

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._gpu_table import (
    candidates,
    compute_cap,
    find,
    gpu_class,
    is_known,
    is_virtual,
    models,
    nominal_memory_gb,
    slug,
)

VENDORS = ("nvidia", "amd", "intel")


def test_the_table_is_large_and_in_order() -> None:
    assert len(models()) >= 150
    keys = [(VENDORS.index(model.vendor), model.gpu_class) for model in models()]
    assert keys == sorted(keys)


def test_every_class_is_one_slug() -> None:
    classes = [model.gpu_class for model in models()]
    assert len(set(classes)) == len(classes)
    assert [label for label in classes if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", label)] == []


@pytest.mark.parametrize("model", models(), ids=lambda model: model.gpu_class)
def test_a_card_is_complete_and_plausible(model) -> None:
    assert model.names
    assert model.pci_ids
    assert len(set(model.pci_ids)) == len(model.pci_ids)
    prefix = {"nvidia": "10de", "amd": "1002", "intel": "8086"}[model.vendor]
    assert [text for text in model.pci_ids if not re.fullmatch(prefix + ":[0-9a-f]{4}", text)] == []
    assert (model.compute_cap is not None) == (model.vendor == "nvidia")
    assert model.memory_gb is not None or model.unified
    if model.printed_mib:
        # What is printed must lead back to the size on the box.
        assert nominal_memory_gb(model.names[0], model.pci_ids[0], model.printed_mib) == model.memory_gb


def test_cards_of_one_id_are_told_apart_or_left_open() -> None:
    """Two GPUs that share an id differ in board or size, or nothing is said about which of them it is."""
    shared = 0
    for one, other in itertools.combinations(models(), 2):
        for pci_id in set(one.pci_ids) & set(other.pci_ids):
            shared += 1
            assert find(pci_id=pci_id) is None
            boards = dict(one.boards).get(pci_id), dict(other.boards).get(pci_id)
            if boards[0] != boards[1]:
                continue
            for model in (one, other):
                found = find(pci_id=pci_id, memory_mib=(model.memory_gb or 0) * 1024)
                assert found is None or found.memory_gb == model.memory_gb
            if one.memory_gb != other.memory_gb:
                assert nominal_memory_gb(pci_id=pci_id) is None
    assert shared >= 10


@pytest.mark.parametrize("model", models(), ids=lambda model: model.gpu_class)
def test_a_card_has_one_class_whoever_tells_it(model) -> None:
    """With its driver a GPU has a name and a size, without only its ids: the class is the same or open."""
    for pci_id in model.pci_ids:
        board = "10de:" + dict(model.boards).get(pci_id, "ffff")
        seen = find(
            name=model.names[0],
            pci_id=pci_id,
            subsystem_id=board,
            memory_mib=model.printed_mib or (model.memory_gb or 0) * 1024,
        )
        hidden = find(pci_id=pci_id, subsystem_id=board)
        assert seen is None or seen is model
        assert hidden is None or hidden is model


TEST_FIND = [
    ({"name": "NVIDIA RTX 4000 Ada Generation"}, "rtx-4000-ada"),
    ({"name": "nvidia rtx 4000 ada generation"}, "rtx-4000-ada"),
    ({"name": "GeForce GTX 1080 Ti"}, "gtx-1080-ti"),
    ({"name": "NVIDIA GeForce GTX 1080 Ti"}, "gtx-1080-ti"),
    ({"name": "A100-PCIE-40GB"}, "a100-pcie-40gb"),
    ({"name": "NVIDIA GH200 120GB"}, "gh200-96gb"),
    ({"name": "Intel(R) Arc(TM) A770 Graphics"}, "arc-a770"),
    ({"name": "Radeon RX 7900 XTX"}, "rx-7900-xtx"),
    ({"pci_id": "10de:27b2"}, "rtx-4000-ada"),
    ({"pci_id": "10DE:27B2", "subsystem_id": "10de:181b"}, "rtx-4000-ada"),
    ({"name": "NVIDIA GeForce RTX 4060 Ti"}, None),
    ({"name": "NVIDIA GeForce RTX 4060 Ti", "memory_mib": 8188}, "rtx-4060-ti-8gb"),
    ({"name": "NVIDIA GeForce RTX 4060 Ti", "memory_mib": 16380}, "rtx-4060-ti-16gb"),
    ({"name": "NVIDIA GeForce RTX 4060 Ti", "memory_gb": 16}, "rtx-4060-ti-16gb"),
    ({"name": "NVIDIA GeForce RTX 4060 Ti", "pci_id": "10de:2805"}, "rtx-4060-ti-16gb"),
    ({"pci_id": "10de:2d04", "memory_mib": 16311}, "rtx-5060-ti-16gb"),
    ({"pci_id": "10de:2d04"}, None),
    ({"pci_id": "10de:25b6"}, None),
    ({"pci_id": "10de:25b6", "subsystem_id": "10de:157e"}, "a2"),
    ({"pci_id": "10de:25b6", "name": "NVIDIA A16"}, "a16"),
    ({"pci_id": "10de:25b6", "memory_mib": 15356}, None),
    ({"pci_id": "10de:1e30", "subsystem_id": "1028:129e"}, "quadro-rtx-8000"),
    ({"pci_id": "10de:1e30", "subsystem_id": "1028:12ba"}, "quadro-rtx-6000"),
    ({"pci_id": "10de:2bb3", "subsystem_id": "17aa:227a"}, "rtx-pro-5000-72gb-blackwell"),
    ({"pci_id": "1002:744c", "memory_mib": 24560}, "rx-7900-xtx"),
    ({"pci_id": "10de:27b2", "name": "Something else"}, "rtx-4000-ada"),
    ({"pci_id": "10de:0000", "name": "NVIDIA L4"}, "l4"),
    ({"name": "GRID T4-16Q"}, None),
    ({}, None),
]


@pytest.mark.parametrize(("known", "expected"), TEST_FIND)
def test_find(known: dict[str, object], expected: str | None) -> None:
    model = find(**known)
    assert (model.gpu_class if model else None) == expected


TEST_GPU_CLASS = [
    ("NVIDIA RTX 4000 Ada Generation", {}, "rtx-4000-ada"),
    ("NVIDIA GeForce RTX 4060 Laptop GPU", {}, "rtx-4060-laptop-gpu"),
    ("GRID T4-16Q", {}, "grid-t4-16q"),
    ("NVIDIA H100L-2-24C", {}, "h100l-2-24c"),
    ("Orin (nvgpu)", {}, "orin-nvgpu"),
    ("NVIDIA GeForce RTX 3060", {}, None),
    ("NVIDIA GeForce RTX 3060", {"memory_gb": 12}, "rtx-3060-12gb"),
    (None, {"pci_id": "10de:27b8"}, "l4"),
    (None, {}, None),
]


@pytest.mark.parametrize(("name", "known", "expected"), TEST_GPU_CLASS)
def test_gpu_class(name: str | None, known: dict[str, object], expected: str | None) -> None:
    assert gpu_class(name, **known) == expected


TEST_NOMINAL = [
    ("NVIDIA RTX 4000 Ada Generation", None, 20475, 20),
    ("NVIDIA L4", None, 23034, 24),
    ("Tesla T4", None, 15360, 16),
    ("Tesla T4", None, 15079, 16),
    ("NVIDIA H100 PCIe", None, 81559, 80),
    ("NVIDIA B200", None, 183359, 180),
    ("Tesla V100-SXM2-32GB", None, 32764, 32),
    ("NVIDIA GeForce RTX 4060 Ti", None, 16380, 16),
    ("NVIDIA GH200 480GB", None, 97871, 96),
    ("NVIDIA A30", None, 2304, 2),
    ("Tesla V100-PCIE-32GB", None, 10240, 10),
    ("NVIDIA H100L-2-24C", None, 24576, 24),
    ("GeForce GTX TITAN X", None, 12206, 12),
    (None, None, 11264, 11),
    (None, "10de:2d04", 8151, 8),
    (None, "10de:27b2", None, 20),
    (None, "10de:25b6", None, 16),
    (None, "10de:2d04", None, None),
    ("NVIDIA GB10", None, None, None),
    (None, None, None, None),
]


@pytest.mark.parametrize(("name", "pci_id", "memory_mib", "expected"), TEST_NOMINAL)
def test_nominal_memory_gb(name: str | None, pci_id: str | None, memory_mib: int | None, expected: int | None) -> None:
    assert nominal_memory_gb(name, pci_id, memory_mib) == expected


def test_what_all_candidates_share_is_known() -> None:
    assert compute_cap(pci_id="10de:2d04") == (12, 0)
    assert compute_cap("NVIDIA GeForce RTX 3060") == (8, 6)
    assert compute_cap(pci_id="1002:744c") is None
    assert {model.printed_mib for model in candidates(pci_id="10de:25b6")} == {15356}
    assert [model.printed_mib for model in candidates(name="NVIDIA L4")] == [23034]
    assert compute_cap("no such GPU") is None


def test_candidates_keep_the_order_of_the_table() -> None:
    assert [model.gpu_class for model in candidates(name="NVIDIA GeForce RTX 3060")] == [
        "rtx-3060-12gb",
        "rtx-3060-8gb",
    ]
    assert candidates(name="no such GPU") == []


@pytest.mark.parametrize(
    ("name", "expected"), [("NVIDIA L4", True), ("NVIDIA GeForce RTX 3060", True), ("GRID T4-16Q", False)]
)
def test_is_known(name: str, *, expected: bool) -> None:
    assert is_known(name) is expected


TEST_SLUG = [
    ("NVIDIA RTX 4000 Ada Generation", "rtx-4000-ada"),
    ("AMD Instinct MI300X", "mi300x"),
    ("AMD Radeon PRO W7900", "w7900"),
    ("Intel(R) Arc(TM) Pro B60 Graphics", "arc-pro-b60"),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-blackwell-server-edition"),
    ("NVIDIA", ""),
]


@pytest.mark.parametrize(("name", "expected"), TEST_SLUG)
def test_slug(name: str, expected: str) -> None:
    assert slug(name) == expected


TEST_VIRTUAL = [
    ("GRID T4-8Q", True),
    ("NVIDIA L40S-24Q", True),
    ("NVIDIA A40-48C", True),
    ("NVIDIA H100L-2-24C", True),
    ("NVIDIA A100-1-5CME", True),
    ("GRID V100D-2B4", True),
    ("NVIDIA RTX6000-Ada-48Q", True),
    ("NVIDIA A100-SXM4-40GB", False),
    ("GRID K520", False),
    ("Tesla T4", False),
    ("", False),
    (None, False),
]


@pytest.mark.parametrize(("name", "expected"), TEST_VIRTUAL)
def test_is_virtual(name, expected):
    assert is_virtual(name) is expected


def test_no_card_of_the_table_is_virtual():
    assert [name for model in models() for name in model.names if is_virtual(name)] == []
