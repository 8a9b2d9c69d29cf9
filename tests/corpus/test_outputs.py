# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Outputs of real tools on real machines."""

from __future__ import annotations

import re

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._parsers import pve_guests
from ansible_collections.knaster.inventory.tests.peers.outputs import FINDERS, look, read_manifest
from ansible_collections.knaster.inventory.tests.peers.recorded import MANIFESTS, recorded
from ansible_collections.knaster.inventory.tests.property.test_parsers import PARSERS, check_mutations, fixtures

SAMPLES = [sample for path in MANIFESTS for sample in read_manifest(path) if sample["kind"] in FINDERS]
# The tests of the project have other words for two kinds.
KINDS = {"nvidia-smi": "nvidia-smi-csv", "smi-list": "nvidia-smi-L"}
RECORDED = {KINDS.get(sample["kind"], sample["kind"]) for sample in SAMPLES}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample["file"])
def test_what_is_right_for_an_output(sample):
    # How it ended is unknown where the manifest does not say.
    found, wanted = look({"rc": None, **sample})
    assert found == wanted


@pytest.mark.parametrize(
    ("kind", "parse"),
    [
        pytest.param(kind, parse, id=f"{kind}-{parse.__qualname__}")
        for kind, parse in PARSERS
        if KINDS.get(kind, kind) in RECORDED
    ],
)
def test_many_mutations(kind, parse):
    texts = [path.read_bytes().decode("utf-8", "surrogateescape") for path in recorded(KINDS.get(kind, kind))]
    assert texts
    check_mutations(kind, parse, [*fixtures(kind), *texts])


def held(*lines, node):
    found = pve_guests.parse("\n".join([*lines, "end"]), node=node)
    return {guest.id: sorted(device.text for device in guest.devices) for guest in found.guests}


@pytest.mark.parametrize("path", recorded("pve-vmconf"), ids=lambda path: path.name)
def test_every_device_of_a_configuration_is_held(path):
    lines = [f"vm 7 {line}" for line in path.read_text(encoding="utf-8").splitlines()]
    devices = [line for line in lines if re.search(r" hostpci\d: (?!mapping=)", line)]
    (addresses,) = held(*lines, node="pve1").values()
    assert len(addresses) == len(devices)


def test_a_mapping_of_a_configuration():
    (path,) = recorded("pve-mapping-cfg")
    lines = [f"map {line}" for line in path.read_text(encoding="utf-8").splitlines()]
    assert held(*lines, "vm 7 hostpci0: mapping=nvidia-gpu", node="pve") == {7: ["0000:07:00"]}
