# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.yaml_text import dump_document
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan as make_plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.fleet import previous_path, read_fleet, read_plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.losses import (
    ask_losses,
    nodes_to_ask,
)
from ansible_collections.knaster.inventory.tests.peers import documents

CARD = {"gpu_class": "c24", "memory_gb": 24, "compute_cap": 8.9}


def fleet(count):
    nodes = [
        {"name": f"n{at}", "memory_gb": 64, "gpus": [{"index": index, **CARD} for index in range(at)]}
        for at in range(count)
    ]
    catalog = check_catalog([], [{"name": "chat", "count": 4, "needs": {"engine": "vllm", "min_vram_gb": 20}}]).catalog
    return nodes, catalog, make_plan(nodes, catalog.roles, catalog.models)


def test_only_nodes_in_use_are_asked_about_the_fullest_first():
    nodes, catalog, plan = fleet(4)
    assert nodes_to_ask(plan, 4) == ["n1", "n2", "n3"]
    assert len(nodes_to_ask(plan, 4, 1)) == 1

    assert nodes_to_ask(plan, 4, 0) == []
    answers = ask_losses(plan, nodes, catalog)
    assert [one["nodes"] for one in answers] == [["n1"], ["n2"], ["n3"]]
    assert [one["survives"] for one in answers] == [True, True, False]


def test_the_larger_the_fleet_the_fewer_are_asked_about():
    plan = documents.plan(assignments=[{"node": f"n{at}", "role": "r", "replica": at} for at in range(3000)])
    assert len(nodes_to_ask(plan, 100)) == 500
    assert len(nodes_to_ask(plan, 1000)) == 50
    assert len(nodes_to_ask(plan, 10**6)) == 10
    replica = {"model": "m", "replica": 0, "shards": [{"node": "a"}, {"node": "b"}]}
    spread = documents.plan(replicas=[replica], assignments=[{"role": "r", "replica": 0, "node": "b"}])
    assert nodes_to_ask(spread, 2, 1) == ["b"]


def test_a_node_that_is_in_no_profile():
    nodes, catalog, plan = fleet(4)
    assert [one["nodes"] for one in ask_losses(plan, nodes[:3], catalog)] == [["n1"], ["n2"]]
    with pytest.raises(InputError, match="n9: no such node in the profiles"):
        ask_losses(plan, nodes, catalog, lost=["n9"])


def test_files(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"name": "a", "gpus": 3}))
    (tmp_path / "roles.yaml").write_text("roles: 3\n")
    found = read_fleet(tmp_path, ["a", "b"], [str(tmp_path)])
    assert [node["name"] for node in found.nodes] == ["a", "b"]
    errors = found.all_errors()
    assert len(errors) == 2
    assert "roles.yaml" in errors[0]
    assert errors[1].startswith("node a: 'gpus' is a list")
    assert str(InputError(errors)) == "\n".join(errors)


def test_plans_of_files(tmp_path):
    path, errors = tmp_path / "plan.yml", []
    assert read_plan(path, errors, required=False) is None
    assert errors == []
    assert read_plan(path, errors) is None
    assert errors == [f"{path}: not found; run placement first"]
    for text, told in (
        ("a: [", ":2: ends in the middle"),
        ("version: 7\n", ":1: version: must be 1, not 7"),
        ("- 1\n", "a map"),
    ):
        path.write_text(text)
        errors.clear()
        assert read_plan(path, errors) is None
        assert any(told in error for error in errors)
    path.write_bytes(b"\xff\xfe")
    errors.clear()
    assert read_plan(path, errors) is None
    assert errors == [f"{path}:1: is not UTF-8 text; save it as UTF-8, or restore it from version control or a backup"]
    errors.clear()
    path.write_text(dump_document(documents.plan()))
    assert read_plan(path, errors) == documents.plan()
    assert errors == []
    assert previous_path(path) == tmp_path / "plan.previous.yml"
