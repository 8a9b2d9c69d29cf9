# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""How near the planner comes to the best counts that there are, and whether what it offers as help is enough.

A tenth of the instances by default; all of them with ``KNASTER_FULL=1`` in the environment.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement import search
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.help import Trial, apply_change
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan

from .helpers import make_plan, model, node, role

PEERS = Path(__file__).resolve().parents[4] / "peers"
SHARE = 1 if os.environ.get("KNASTER_FULL") else 10


@pytest.fixture(scope="module")
def judge():
    sys.path.insert(0, str(PEERS))
    try:
        import exact_planner
    finally:
        sys.path.remove(str(PEERS))
    return exact_planner.Judge


def with_memory(seed):
    """Roles of one GPU on nodes whose memory binds."""
    rand = random.Random(f"memory {seed}")
    nodes = [
        node(f"n{at}", *rand.choices((24, 48), k=rand.randint(1, 4)), memory_gb=rand.choice((32, 48, 64, 96)))
        for at in range(rand.randint(2, 5))
    ]
    roles = [
        role(
            f"r{at}",
            rand.choice((16, 24, 40, 48)),
            needs={"min_memory_gb": rand.choice((4, 8, 16, 24, 32))},
            prefer=rand.choice(("largest", "smallest_fitting")),
            count=rand.randint(1, 3),
        )
        for at in range(rand.randint(2, 5))
    ]
    return nodes, roles, []


def with_profiles(seed):
    """Two to six nodes, roles, and models with several profiles over one to four GPUs and one or two nodes."""
    rand = random.Random(f"profiles {seed}")
    nodes = [
        node(
            f"n{at}",
            *rand.choices((24, 48), k=rand.choice((1, 2, 2, 3, 4))),
            fabrics=rand.choice(([], ["f"], ["g"], ["f", "g"])),
        )
        for at in range(rand.randint(2, 6))
    ]
    roles = [
        role(
            f"r{at}",
            rand.choice((16, 24, 40)),
            count=rand.randint(1, 2),
            prefer=rand.choice(("largest", "smallest_fitting")),
        )
        for at in range(rand.randint(0, 3))
    ]
    models = []
    for at in range(rand.randint(1, 4)):
        shapes = rand.sample(
            [(kind, tp, spans) for kind in ("c24", "c48") for tp, spans in ((1, 1), (2, 1), (3, 1), (1, 2), (2, 2))],
            rand.randint(1, 3),
        )
        made = model(f"m{at}", 16, *shapes, replicas=rand.randint(1, 2))
        for profile in made["profiles"]:
            profile["priority"] = rand.randint(0, 2)
        models.append(made)
    return nodes, roles, models


def counts_of(document, roles, models):
    counts = {each["name"]: 0 for each in [*roles, *models]}
    for one in document["assignments"]:
        counts[one["role"]] += 1
    for one in document["replicas"]:
        counts[one["model"]] += 1
    return counts


def measure(make, judge, instances):
    """The share that reaches the optimum, and the seeds that do not."""
    missed = []
    for seed in range(instances):
        nodes, roles, models = make(seed)
        best = judge(nodes).best_counts(roles, models)
        document = make_plan(nodes, roles, models)
        found = counts_of(document, roles, models)
        assert [found[name] for name in best] <= list(best.values()), seed
        if found != best:
            missed.append(seed)
            assert document["changes"].get("bounded"), seed
    return 1 - len(missed) / instances, missed


@pytest.mark.parametrize(("make", "instances", "least"), [(with_memory, 1000, 0.995), (with_profiles, 2000, 0.99)])
def test_the_planner_reaches_the_best_counts(judge, make, instances, least):
    share, missed = measure(make, judge, instances // SHARE)
    assert share >= least, missed


def test_deep_moves_and_arranging_anew_are_both_needed(judge, monkeypatch):
    def share(items, depth):
        monkeypatch.setattr(search, "MAX_ITEMS", items)
        monkeypatch.setattr(search, "MAX_DEPTH", depth)
        return measure(with_profiles, judge, 150)[0]

    shallow, deep, all_ = share(0, 1), share(0, 3), share(40, 3)
    assert shallow < deep < all_


@pytest.mark.parametrize("make", [with_memory, with_profiles])
def test_plan_over_plan_is_a_fixed_point(make):
    for seed in range(1000 // SHARE):
        nodes, roles, models = make(seed)
        first = make_plan(nodes, roles, models)
        for moves in ("none", "relocate", "preempt"):
            second = make_plan(nodes, roles, models, first, moves=moves)
            for document in (first, second):
                document.pop("changes", None)
            assert json.dumps(second) == json.dumps(first), (seed, moves)


def subject(entry):
    kind = "role" if "role" in entry else "model"
    return kind, entry[kind]


class Refused:
    """One refusal of a plan, and what planning again with some change says to it."""

    def __init__(self, nodes, roles, models, document, entry):
        self.nodes, self.document, self.subject = nodes, document, subject(entry)
        self.catalog = check_catalog(models, roles, open_engines=True).catalog
        self.missing = {subject(each): each["missing"] for each in document["unplaced"]}
        ordered = sorted(roles, key=lambda role: role["name"]), sorted(models, key=lambda model: model["name"])
        names = [("role", each["name"]) for each in ordered[0]] + [("model", each["name"]) for each in ordered[1]]
        self.before = names[: names.index(self.subject)]
        self.counts = {name: count for name, count in counts_of(document, roles, models).items() if count}
        self.models = {each["name"]: each for each in models}
        self.roles = {each["name"]: each for each in roles}

    def is_enough(self, change):
        """Whether it is whatever may move when it is applied."""
        return all(self.is_enough_with(change, moves) for moves in ("none", "relocate"))

    def is_enough_with(self, change, moves):
        trial = Trial(nodes=self.nodes, roles=self.catalog.roles, models=self.catalog.models, moves=moves)
        trial = apply_change(trial, change)
        then = plan(trial.nodes, trial.roles, trial.models, self.document, moves=trial.moves)
        missing = {subject(each): each["missing"] for each in then["unplaced"]}
        return self.subject not in missing and all(
            missing.get(name, 0) <= self.missing.get(name, 0) for name in self.before
        )

    def counts_lowered_by(self, number):
        """Each other request with so many replicas fewer."""
        for name, count in self.counts.items():
            if name != self.subject[1] and count >= number:
                kind, key = ("role", "count") if name in self.roles else ("model", "min")
                yield {key: {kind: name, key: count - number}}

    def gpus_of(self):
        """The least GPU of each way to run, with how many a node has and on how many nodes."""
        kind, name = self.subject
        if kind == "role":
            return [({"memory_gb": self.roles[name]["needs"]["min_vram_gb"]}, 1, 1)]
        return [
            (
                {
                    "memory_gb": -(-self.models[name]["vram_gb"] // (one["tp"] * one["pp"])),
                    "gpu_class": one["gpu_class"],
                },
                one["tp"] * one["pp"] // one["nodes"],
                one["nodes"],
            )
            for one in self.models[name]["profiles"]
        ]

    def gpus_added(self, number):
        for gpu, _each, _spans in self.gpus_of():
            for each in self.nodes:
                yield {"add_gpus": {"count": number, "node": each["name"], **gpu}}

    def nodes_added(self, number):
        """So many GPUs on new nodes of each fabric."""
        for fabric in {name for each in self.nodes for name in each.get("fabrics", ())}:
            for gpu, each, spans in self.gpus_of():
                if spans > 1 and number % each == 0:
                    yield {"add_nodes": {"count": number // each, "gpus_per_node": each, "fabric": fabric, **gpu}}


def smaller(refused, entry):
    """What is smaller in the order of help than what is offered, as far as it can be told by number."""
    counts, bought = None, None
    for each in entry["what_would_help"]:
        ((kind, what),) = each["change"].items()
        if kind in ("count", "min") and what.get("role", what.get("model")) != refused.subject[1]:
            counts = refused.counts[what.get("role", what.get("model"))] - what[kind]
        if kind in ("add_gpus", "add_nodes"):
            bought = kind, what["count"] * what.get("gpus_per_node", 1), what.get("fabric")
    fewest = max(refused.counts.values(), default=0) if counts is None else counts - 1
    for number in range(1, fewest + 1):
        yield from refused.counts_lowered_by(number)
    kind, gpus, fabric = bought
    for number in range(1, gpus if kind == "add_gpus" else MOST_GPUS + 1):
        yield from refused.gpus_added(number)
    if kind == "add_nodes":
        for number in range(1, gpus + (fabric == "new")):
            yield from refused.nodes_added(number)


# How many GPUs in one node are tried where a node is offered.
MOST_GPUS = 6


@pytest.mark.parametrize("make", [with_memory, with_profiles])
def test_what_is_offered_is_enough_and_nothing_smaller_is(make):
    left = 1000 if SHARE == 1 else 30
    for seed in range(10_000):
        nodes, roles, models = make(seed)
        document = make_plan(nodes, roles, models)
        for entry in document["unplaced"]:
            refused = Refused(nodes, roles, models, document, entry)
            for each in entry["what_would_help"]:
                assert refused.is_enough(each["change"]), (seed, each)
            for change in smaller(refused, entry):
                assert not refused.is_enough(change), (seed, entry["what_would_help"], change)
            left -= 1
        if left <= 0:
            return
    raise AssertionError
