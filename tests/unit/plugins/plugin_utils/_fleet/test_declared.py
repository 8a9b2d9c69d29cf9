# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.declared import (
    find_declared_errors,
    find_slips,
    with_declared,
)

GPU = {"index": 0, "pci": {"address": "0000:41:00.0"}, "memory_gb": 24}
COLLECTED = {
    "name": "n",
    "hostname": "n",
    "state": "draining",
    "labels": {"zone": "a"},
    "fabrics": ["ib"],
    "reserve_gb": 8,
    "gpus": [{**GPU, "state": "cordoned"}],
}
BY_HAND = {key: value for key, value in COLLECTED.items() if key != "hostname"}


def test_the_inventory_of_today_replaces_what_was_declared_when_the_node_was_collected():
    variables = {
        "knaster_state": "cordoned",
        "knaster_labels": {"zone": "b", "fast": True, 1: 2},
        "knaster_fabrics": ["eth"],
        "knaster_reserve_gb": 2.5,
        "knaster_gpus": [{"pci": "41:00", "state": "cordoned"}],
    }
    assert with_declared(COLLECTED, variables) == {
        **COLLECTED,
        "state": "cordoned",
        "labels": {"zone": "b", "fast": "true", "1": "2"},
        "fabrics": ["eth"],
        "reserve_gb": 2.5,
    }


def test_what_is_no_longer_declared_falls_away():
    assert with_declared(COLLECTED, {}) == {
        "name": "n",
        "hostname": "n",
        "state": "ready",
        "labels": {},
        "fabrics": [],
        "gpus": [GPU],
    }


def test_a_profile_by_hand_keeps_what_the_inventory_says_nothing_of():
    assert with_declared(BY_HAND, {}) == BY_HAND
    assert with_declared(BY_HAND, {"knaster_state": "ready"}) == {**BY_HAND, "state": "ready"}
    assert with_declared(BY_HAND, {"knaster_gpus": []})["gpus"] == [GPU]


@pytest.mark.parametrize("state", ["unreachable", "failed"])
def test_a_node_that_could_not_be_asked_stays_so(state):
    assert with_declared({**COLLECTED, "state": state}, {"knaster_state": "ready"})["state"] == state


def test_the_profile_that_is_given_stays_as_it_is():
    given = {**COLLECTED, "gpus": [dict(COLLECTED["gpus"][0])]}
    with_declared(given, {"knaster_state": "ready"})
    assert given == COLLECTED


def test_only_the_gpu_at_the_address_is_cordoned():
    gpus = [GPU, {"index": 1, "pci": {"address": "0000:42:00.0"}}, {"index": 2, "pci": None}, "broken"]
    made = with_declared({**COLLECTED, "gpus": gpus}, {"knaster_gpus": [{"pci": "0000:42:00.0", "state": "cordoned"}]})
    assert made["gpus"] == [gpus[0], {**gpus[1], "state": "cordoned"}, *gpus[2:]]


def test_everything_that_is_wrong_is_told_at_once():
    variables = {
        "knaster_state": "drained",
        "knaster_labels": "zone=a",
        "knaster_fabrics": "ib",
        "knaster_reserve_gb": True,
        "knaster_gpus": [{"pci": "41"}, {"pci": "0000:41:00.0", "state": "off"}],
    }
    assert find_declared_errors(variables) == [
        'knaster_state: must be one of ready, cordoned, draining, not "drained"',
        'knaster_labels: must be a map of names and values, not "zone=a"',
        'knaster_fabrics: must be a list of names, not "ib"',
        "knaster_reserve_gb: must be a number of GB, not true",
        'knaster_gpus[0].pci: must be a PCI address such as 0000:41:00.0, not "41"',
        'knaster_gpus[1].state: must be one of ready, cordoned, not "off"',
    ]
    assert find_declared_errors({"knaster_gpus": {"pci": "0000:41:00.0"}, "knaster_reserve_gb": -1}) == [
        "knaster_reserve_gb: must be a number of GB, not -1",
        "knaster_gpus: must be a list of maps, each with pci, not a map",
    ]
    assert find_declared_errors({}) == []
    assert find_declared_errors({"knaster_reserve_gb": 0, "knaster_state": "ready", "knaster_gpus": []}) == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("knaster_label", "knaster_labels"),
        ("knaster_fabric", "knaster_fabrics"),
        ("knaster_gpu", "knaster_gpus"),
        ("knaster_states", "knaster_state"),
        ("knaster_reserve", "knaster_reserve_gb"),
    ],
)
def test_a_slip_in_a_name_is_told(name, meant):
    assert find_slips([name, meant]) == [f"{name}: nothing reads this variable; did you mean {meant}?"]


def test_other_names_are_no_slips():
    ours = ("knaster_slot", "knaster_slots", "knaster_node", "knaster_rank", "knaster_pve_api_host", "knaster_dir")
    assert find_slips([*ours, "knaster_gpus", "label", "fabric"]) == []
