# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""The published schemas say what the code makes and takes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import find_node_errors
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement import fit
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.codes import CODES
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan

SCHEMAS = Path(fit.__file__).parent.parent / "_documents/schemas"
PEERS = Path(__file__).resolve().parents[4] / "peers"


def validator(name):
    schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.fixture(scope="module")
def make_fleet():
    sys.path.insert(0, str(PEERS))
    try:
        import fleet
    finally:
        sys.path.remove(str(PEERS))
    return fleet.fleet


def test_codes_are_those_of_the_predicate():
    schema = validator("plan").schema
    codes = schema["properties"]["unplaced"]["items"]["properties"]["code"]["enum"]
    assert codes == [code.name for code in CODES]


@pytest.mark.parametrize("seed", range(8))
def test_plans_and_profiles(make_fleet, seed):
    made = make_fleet(12, seed, replicas=50, busy=0.1 * (seed % 3), multi=0.5, memory=seed % 2 == 0, selectors=True)
    for role in made["roles"][:4]:
        if role["needs"]["engine"] != "llamacpp":
            role["colocate"] = "desk"
            role["needs"].pop("node_selector", None)
            role["cpu_fallback"] = False
            role["needs"] |= {"min_cc": 8.0}
            role["needs"].pop("max_cc", None)
    found = check_catalog(made["models"], made["roles"]).catalog
    document = plan(made["nodes"], found.roles, found.models)
    assert document["unplaced"]
    validator("plan").validate(document)
    for node in made["nodes"]:
        node["state"] = "draining" if node["name"].endswith("1") else node["state"]
        validator("profile").validate(node)
    again = plan(made["nodes"][:-1], found.roles, found.models, document, moves="preempt")
    assert again["changes"]["retained"]
    validator("plan").validate(again)


TEST_WRONG = [
    {"gpus": []},
    {"name": ""},
    {"name": "a", "state": "off"},
    {"name": "a", "gpus": 2},
    {"name": "a", "gpus": [{}]},
    {"name": "a", "gpus": [{"index": "0"}]},
    {"name": "a", "gpus": [{"index": 0, "compute_cap": "abc"}]},
    {"name": "a", "gpus": [{"index": 0, "memory_gb": "24"}]},
    {"name": "a", "gpus": [{"index": 0, "memory_mib": -1}]},
    {"name": "a", "gpus": [{"index": 0, "healthy": "yes"}]},
    {"name": "a", "gpus": [{"index": 0, "uuid": 7}]},
    {"name": "a", "gpus": [{"index": 0, "pci": "x"}]},
    {"name": "a", "gpus": [{"index": 0, "pci": {"address": 1}}]},
    {"name": "a", "gpus": [{"index": 0, "holder": "x"}]},
    {"name": "a", "labels": [1]},
    {"name": "a", "labels": {"a": [1]}},
    {"name": "a", "fabrics": "ib"},
    {"name": "a", "weights": ["x"]},
    {"name": "a", "storage": [{"free_gb": "1"}]},
    {"name": "a", "memory_gb": "64"},
    {"name": "a", "hostname": 3},
    {"name": "a", "cpu": "x"},
    {"name": "a", "cpu": {"model": ["x"]}},
    {"name": "a", "cpu": {"cores": True}},
    {"name": "a", "disks": ["x"]},
    {"name": "a", "disks": {}},
    {"name": "a", "notes": "x"},
    {"name": "a", "gpus": [{"index": 0, "driver": 3}]},
    {"name": "a", "gpus": [{"index": 0, "health": "x"}]},
]


@pytest.mark.parametrize("profile", TEST_WRONG, ids=str)
def test_the_schema_refuses_what_the_planner_refuses(profile):
    assert len(find_node_errors([profile])) == 1
    assert not validator("profile").is_valid(profile)


TEST_RIGHT = [
    {"name": "a"},
    {"name": "a", "gpus": None, "state": None, "labels": None, "fabrics": None, "weights": None, "storage": None},
    {"name": "a", "gpus": [{"index": 3, "compute_cap": "12.10", "healthy": None, "holder": None, "pci": None}]},
    {"name": "a", "gpus": [{"index": 0, "compute_cap": 9}], "labels": {"a": True, "b": 1.5}, "more": {}},
]


@pytest.mark.parametrize("profile", TEST_RIGHT, ids=str)
def test_the_schema_takes_what_the_planner_takes(profile):
    assert find_node_errors([profile]) == ()
    validator("profile").validate(profile)
