# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""The set of placed roles is the best one by priority, judged by two algorithms that share nothing with the planner."""

from __future__ import annotations

import itertools
import random

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan

INSTANCES = 2400
BATCHES = 12


def make_instance(seed):
    """Single-GPU roles without memory or groups; labels and pins included, up to 12 roles and 16 GPUs."""
    rand = random.Random(seed)
    nodes = []
    cards = rand.randint(1, 16)
    while cards:
        here = min(cards, rand.randint(1, 4))
        cards -= here
        gpus = [
            {
                "index": index,
                "gpu_class": f"c{size}",
                "vendor": "nvidia",
                "memory_gb": size,
                "compute_cap": rand.choice((8.0, 8.6, 9.0)),
                "healthy": rand.random() > 0.05,
            }
            for index, size in enumerate(rand.choices((16, 24, 48, 80), k=here))
        ]
        labels = {"zone": rand.choice("ab")} if rand.random() < 0.7 else {}
        nodes.append({"name": f"n{len(nodes)}", "memory_gb": 64, "gpus": gpus, "labels": labels})
    roles = []
    for at in range(rand.randint(1, 12)):
        needs = {"engine": "other", "min_vram_gb": rand.choice((8, 16, 20, 24, 40, 48, 80))}
        if rand.random() < 0.4:
            needs["min_cc"] = rand.choice((8.0, 8.6, 9.0))
        if rand.random() < 0.2:
            needs["max_cc"] = 9.0 if needs.get("min_cc") == 9.0 else 8.6
        if rand.random() < 0.2:
            needs["node_selector"] = {"zone": rand.choice("ab")}
        if rand.random() < 0.1:
            needs["node"] = rand.choice(nodes)["name"]
        roles.append(
            {
                "name": f"r{at:02d}",
                "needs": needs,
                "prefer": rand.choice(("largest", "smallest_fitting")),
                "count": rand.choice((1, 1, 1, 2, 3)),
                "priority": rand.choice((10, 20, 30)),
            }
        )
    return nodes, roles


def takes(role, node, gpu):
    needs = role["needs"]
    return (
        gpu["healthy"]
        and needs["min_vram_gb"] <= gpu["memory_gb"]
        and needs.get("min_cc", 0) <= gpu["compute_cap"] <= needs.get("max_cc", 99)
        and needs.get("node") in (None, node["name"])
        and all(node["labels"].get(key) == value for key, value in needs.get("node_selector", {}).items())
    )


def in_order(roles):
    return sorted(roles, key=lambda role: (role["priority"], role["name"]))


def best_counts(nodes, roles):
    """How many of each role the best set has: replica by replica, each by an augmenting path over single GPUs."""
    cards = [(node, gpu) for node in nodes for gpu in node["gpus"]]
    holder = {}

    def seat(replica, seen):
        for card, (node, gpu) in enumerate(cards):
            if card not in seen and takes(replica[0], node, gpu):
                seen.add(card)
                if card not in holder or seat(holder[card], seen):
                    holder[card] = replica
                    return True
        return False

    return [sum(seat((role, number), set()) for number in range(role["count"])) for role in in_order(roles)]


def best_counts_by_trying(nodes, roles):
    """The same by trying every vector of counts, the lexicographically greatest first, with Hall's condition."""
    ordered = in_order(roles)
    cards = [(node, gpu) for node in nodes for gpu in node["gpus"]]
    reach = [{card for card, (node, gpu) in enumerate(cards) if takes(role, node, gpu)} for role in ordered]

    def holds(counts):
        wanted = [at for at, count in enumerate(counts) if count]
        return all(
            sum(counts[at] for at in some) <= len(set().union(*(reach[at] for at in some)))
            for size in range(1, len(wanted) + 1)
            for some in itertools.combinations(wanted, size)
        )

    for counts in itertools.product(*(range(role["count"], -1, -1) for role in ordered)):
        if holds(counts):
            return list(counts)
    raise AssertionError


def planned_counts(nodes, roles, **options):
    catalog = check_catalog(None, roles, open_engines=True).catalog
    document = plan(nodes, catalog.roles, catalog.models, **options)
    counts = dict.fromkeys((role["name"] for role in in_order(roles)), 0)
    for one in document["assignments"]:
        counts[one["role"]] += 1
    return list(counts.values()), document


@pytest.mark.parametrize("batch", range(BATCHES))
def test_placed_set_is_optimal(batch):
    for seed in range(batch, INSTANCES, BATCHES):
        nodes, roles = make_instance(seed)
        counts, document = planned_counts(nodes, roles)
        assert counts == best_counts(nodes, roles), seed
        missing = {entry["role"]: entry["missing"] for entry in document["unplaced"]}
        assert missing == {
            role["name"]: role["count"] - count
            for role, count in zip(in_order(roles), counts, strict=True)
            if count < role["count"]
        }
        greedy_counts, greedy = planned_counts(nodes, roles, rescue=False)
        if greedy_counts == [role["count"] for role in in_order(roles)]:
            assert document == greedy, seed


def test_the_rescue_is_needed_and_greedy_is_not_enough():
    better = 0
    for seed in range(300):
        nodes, roles = make_instance(seed)
        better += planned_counts(nodes, roles)[0] != planned_counts(nodes, roles, rescue=False)[0]
    assert better > 30


@pytest.mark.parametrize("batch", range(4))
def test_judges_agree(batch):
    checked = 0
    for seed in range(batch, 400, 4):
        nodes, roles = make_instance(seed)
        if len(roles) <= 7:
            assert best_counts(nodes, roles) == best_counts_by_trying(nodes, roles)
            checked += 1
    assert checked > 20
