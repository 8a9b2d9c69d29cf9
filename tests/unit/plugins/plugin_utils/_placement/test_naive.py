# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""The planner without its rescue does what the plain rules say, GPU for GPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan

PEERS = Path(__file__).resolve().parents[4] / "peers"


@pytest.fixture(scope="module")
def peers():
    sys.path.insert(0, str(PEERS))
    try:
        import fleet
        import naive_planner
    finally:
        sys.path.remove(str(PEERS))
    return fleet, naive_planner


@pytest.mark.parametrize("nodes", [3, 10, 30])
@pytest.mark.parametrize("batch", range(4))
def test_same_as_the_plain_rules(peers, nodes, batch):
    fleet, naive_planner = peers
    placed = 0
    for seed in range(batch, 40, 4):
        made = fleet.fleet(
            nodes,
            seed,
            replicas=nodes * (1 + seed % 4),
            roles=12,
            models=20,
            busy=0.2 * (seed % 3),
            multi=0.3 * (1 + seed % 4),
            memory=seed % 2 == 0,
            selectors=seed % 3 == 0,
        )
        assignments, replicas, missing = naive_planner.plan(**made)
        found = check_catalog(made["models"], made["roles"]).catalog
        document = plan(made["nodes"], found.roles, found.models, rescue=False)
        assert sorted(assignments, key=str) == sorted(
            ((one["role"], one["replica"], one["node"], one.get("gpu_index")) for one in document["assignments"]),
            key=str,
        )
        assert replicas == [
            (
                one["model"],
                one["replica"],
                one["profile"],
                tuple((shard["node"], tuple(shard["gpu_indices"])) for shard in one["shards"]),
            )
            for one in document["replicas"]
        ]
        assert missing == {entry.get("role") or entry["model"]: entry["missing"] for entry in document["unplaced"]}
        placed += len(assignments)
    assert placed > 0
