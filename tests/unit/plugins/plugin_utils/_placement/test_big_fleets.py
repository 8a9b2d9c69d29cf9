# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Fleets of 1,000 nodes whose optimum by priority was proven by an exact solver, and what a flow proves without searching."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement import search
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan

from .helpers import make_plan, model, node, refusal, role

PEERS = Path(__file__).resolve().parents[4] / "peers"
# By model in the order of placement, where not all of it can be had; the rest of a fleet's models is placed whole.
FLEETS = [
    ({"dense": True, "replicas": 6000, "multi": 0.3}, {}),
    ({"dense": True, "replicas": 5000, "multi": 0.5}, {}),
    (
        {"replicas": 3000, "multi": 0.5},
        {"model-036": 6, "model-038": 5, "model-000": 43, "model-002": 0, "model-028": 22},
    ),
]


@pytest.fixture(scope="module")
def fleet():
    sys.path.insert(0, str(PEERS))
    try:
        from fleet import fleet
    finally:
        sys.path.remove(str(PEERS))
    return fleet


@pytest.mark.parametrize(("options", "short"), FLEETS)
def test_models_over_several_gpus_reach_the_proven_optimum(fleet, options, short):
    made = fleet(1000, 1, **options)
    catalog = check_catalog(made["models"], made["roles"]).catalog
    document = plan(made["nodes"], catalog.roles, catalog.models, engines=catalog.engines)
    counts = {one.name: 0 for one in catalog.models if one.scaling and one.scaling.min}
    best = {one.name: short.get(one.name, one.scaling.min) for one in catalog.models if one.name in counts}
    for one in document["replicas"]:
        counts[one["model"]] += 1
    assert all(counts[name] >= 0.97 * most for name, most in best.items())
    assert all(counts[name] <= most for name, most in best.items())
    # What was placed before them lost nothing.
    assert len(document["assignments"]) == sum(one.count for one in catalog.roles)
    given_up = {name for name, most in best.items() if counts[name] < most}
    assert given_up <= set(document["changes"].get("bounded", ()))


def test_a_fleet_that_is_full_is_proven_full_and_nothing_is_searched(fleet, monkeypatch):
    monkeypatch.setattr(search.Search, "_clear_some", None)
    made = fleet(300, 1, dense=True, replicas=2400, multi=0.3)
    catalog = check_catalog(made["models"], made["roles"]).catalog
    document = plan(made["nodes"], catalog.roles, catalog.models, engines=catalog.engines)
    assert len(document["unplaced"]) > 10
    assert "bounded" not in document["changes"]


@pytest.mark.parametrize(("leaving", "placed"), [(1, 0), (2, 1)])
def test_a_flow_counts_how_many_can_leave(monkeypatch, leaving, placed):
    """There is room for all that may leave, but not enough may."""
    nodes = [node("a", 24, 24, 24), node("c", 48, 48, 48, 48)]
    stay = role("stay", 20, priority=1, count=3 - leaving, needs={"gpu_class": "c24"})
    if not placed:
        monkeypatch.setattr(search.Search, "_clear_some", None)
    document = make_plan(nodes, [stay, role("go", 20, count=leaving)], [model("m", 40, ("c24", 2, 1))])
    assert len(document["assignments"]) == 3
    assert [one["model"] for one in document["replicas"]] == ["m"] * placed
    if not placed:
        assert refusal(document, "m")["missing"] == 1
        assert "bounded" not in document["changes"]


@pytest.mark.parametrize(("narrow", "placed"), [(True, 1), (False, 0)])
def test_a_flow_counts_what_a_smaller_way_would_free(narrow, placed):
    """A replica over four GPUs has no other four, but where it may run on two it makes room."""
    ways = [{"name": "wide", "engine": "other", "gpu_class": "c24", "tp": 4, "priority": 20}]
    if narrow:
        ways.append({"name": "narrow", "engine": "other", "gpu_class": "c24", "tp": 2, "priority": 10})
    document = make_plan(
        [node("a", 24, 24, 24, 24)],
        models=[model("a", 40, *ways), model("b", 40, ("c24", 2, 1), placement_priority=100)],
    )
    assert len(document["replicas"]) == 1 + placed
    assert "bounded" not in document["changes"]


@pytest.mark.parametrize(("free", "placed"), [(1, 0), (2, 1)])
def test_a_flow_counts_gpus_of_replicas_over_several(free, placed):
    """A replica over two GPUs makes room only where two others are free."""
    nodes = [node("a", 24, 24, fabrics=["f"]), node("b", *[48] * free)]
    wide = model("a", 40, {"name": "p", "engine": "other", "gpu_class": "c24", "tp": 2, "priority": 20}, ("c48", 2, 1))
    document = make_plan(nodes, models=[wide, model("b", 40, ("c24", 2, 1))])
    assert len(document["replicas"]) == 1 + placed
    assert "bounded" not in document["changes"]
