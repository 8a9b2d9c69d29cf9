# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""How near the bounded search for several GPUs at once comes to the best that there is."""

from __future__ import annotations

import random
from functools import cache

from .helpers import identified, make_plan, model, node, places, refusal, role

INSTANCES = 600
SIZES = (24, 48)


def make_instance(seed):
    """Small roles first, then models over one to four GPUs of one class."""
    rand = random.Random(seed)
    nodes = [
        node(f"n{at}", *rand.choices(SIZES, k=rand.choice((2, 4, 4))), fabrics=rand.choice((["f"], ["g"], ["f", "g"])))
        for at in range(rand.randint(2, 4))
    ]
    roles = [
        role(
            f"r{at}",
            rand.choice((16, 24, 40, 48)),
            prefer=rand.choice(("largest", "smallest_fitting")),
            count=rand.randint(1, 3),
        )
        for at in range(rand.randint(1, 3))
    ]
    models = []
    for at in range(rand.randint(1, 3)):
        size = rand.choice(SIZES)
        cards, spans = rand.choice(((1, 1), (2, 1), (2, 1), (3, 1), (4, 1), (1, 2), (2, 2)))
        models.append(model(f"m{at}", 16, (f"c{size}", cards, spans), replicas=rand.randint(1, 2)))
    return nodes, roles, models


def best_counts(nodes, roles, models):
    """The lexicographically best counts, by trying every arrangement of the kinds of GPUs on nodes."""
    free = tuple(tuple(sum(gpu["memory_gb"] == size for gpu in each["gpus"]) for size in SIZES) for each in nodes)
    fabrics = [each["fabrics"] for each in nodes]

    def take(state, at, kind, number):
        row = list(state[at])
        row[kind] -= number
        return (*state[:at], tuple(row), *state[at + 1 :])

    def spread(state, kind, number, left, allowed):
        if not left:
            yield state
            return
        for place, at in enumerate(allowed):
            if state[at][kind] >= number:
                yield from spread(take(state, at, kind, number), kind, number, left - 1, allowed[place + 1 :])

    def options(state, item):
        if item[0] == "role":
            for kind, size in enumerate(SIZES):
                if size >= item[1]:
                    yield from spread_any(state, kind)
        else:
            _model, kind, number, spans = item
            if spans == 1:
                for at in range(len(state)):
                    yield from spread(state, kind, number, 1, [at])
            else:
                for fabric in ("f", "g"):
                    allowed = [at for at in range(len(state)) if fabric in fabrics[at]]
                    yield from spread(state, kind, number, spans, allowed)

    def spread_any(state, kind):
        for at in range(len(state)):
            if state[at][kind]:
                yield take(state, at, kind, 1)

    @cache
    def feasible(state, items):
        if not items:
            return True
        return any(feasible(after, items[1:]) for after in set(options(state, items[0])))

    chosen, counts = [], []
    for each in sorted(roles, key=lambda each: each["name"]):
        item = ("role", each["needs"]["min_vram_gb"])
        counts.append(add(chosen, item, each["count"], free, feasible))
    for each in models:
        (profile,) = each["profiles"]
        kind = SIZES.index(int(profile["gpu_class"][1:]))
        item = ("model", kind, profile["tp"], profile["nodes"])
        counts.append(add(chosen, item, each["scaling"]["min"], free, feasible))
    return counts


def add(chosen, item, wanted, free, feasible):
    for count in range(wanted):
        # The largest first makes the search short; the set is what counts.
        items = sorted([*chosen, item], key=lambda each: (each[0] == "role", [-part for part in each[1:]]))
        if not feasible(free, tuple(items)):
            return count
        chosen.append(item)
    return wanted


def planned_counts(nodes, roles, models, **options):
    document = make_plan(nodes, roles, models, **options)
    counts = {each["name"]: 0 for each in [*roles, *models]}
    for one in document["assignments"]:
        counts[one["role"]] += 1
    for one in document["replicas"]:
        counts[one["model"]] += 1
    return list(counts.values())


def measure(instances=INSTANCES, **options):
    """(share that reaches the optimum, mean number of replicas that are missing against it)."""
    reached, gap = 0, 0
    for seed in range(instances):
        instance = make_instance(seed)
        best, found = best_counts(*instance), planned_counts(*instance, **options)
        assert found <= best, seed
        reached += found == best
        gap += max(0, sum(best) - sum(found))
    return reached / instances, gap / instances


def test_the_search_comes_near_the_optimum():
    share, gap = measure()
    plain, _gap = measure(200, rescue=False)
    assert share >= 0.98
    assert gap <= 0.02
    assert plain < share


def test_scattered_roles_are_moved_together():
    nodes = [node("a", 24, 24, labels={"zone": "a"}), node("b", 24, 24)]
    roles = [role("pin", 20, needs={"node_selector": {"zone": "a"}}, priority=1), role("free", 20, priority=2)]
    first = [role("pin", 20, needs={"node": "a"}), role("pun", 20, needs={"node": "b"})]
    assert places(make_plan(nodes, roles, [model("m", 40, ("c24", 2, 1))]))["m/0"] == "b:0,1"
    entry = refusal(make_plan(nodes, first, [model("m", 40, ("c24", 2, 1))]), "m")
    assert entry["reason"] == (
        "needs 2 GPUs of at least 20 GB on one node, found 1 (2 GPUs free on 2 nodes):"
        " 2 taken (by pin and pun), 2 on nodes with too few free GPUs together"
    )
    assert entry["code"] == "block"


def test_what_runs_is_not_moved_together_unless_it_may():
    nodes = [identified("a", 24, 24), identified("b", 24, 24)]
    pinned = [role("one", 20, needs={"node": "a"}), role("two", 20, needs={"node": "b"})]
    first = make_plan(nodes, pinned)
    roles = [role("one", 20), role("two", 20)]
    models = [model("m", 40, ("c24", 2, 1))]
    assert places(make_plan(nodes, roles, models, previous=first)) == {"one/0": "a:0", "two/0": "b:0"}
    moved = make_plan(nodes, roles, models, previous=first, moves="relocate")
    assert len(places(moved)) == 3
    assert [move["cause"] for move in moved["changes"]["moves"]] == ["rescue"]
