# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""How long a plan takes: beside reading its input, beside the plain rules, and as the fleet grows.

Run as ``python tests/benchmarks/bench_plan.py``; ``--large`` adds 100,000 nodes. Only ratios carry over to another machine.
The floor is ``json.loads`` of the input and one walk over its nodes and GPUs, in CPU time like all else, taken in turn with what
is held against it. It ends with 1 when a ratio misses its target.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
import tracemalloc
import typing as t
from pathlib import Path

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
from fleet import fleet
from naive_planner import plan as naive_plan

ROUNDS = 5
# Fleets of 1,000 nodes with models over several GPUs: how many replicas the optimum by priority has, which an exact solver proved,
# and how many times the floor the plan may take.
SEVERAL = (
    ("dense, 6,000 single", {"dense": True, "replicas": 6_000, "multi": 0.3}, 169, 16),
    ("dense, 5,000 single", {"dense": True, "replicas": 5_000, "multi": 0.5}, 284, 15),
    ("mixed, 3,000 single", {"replicas": 3_000, "multi": 0.5}, 138, 21),
)


class Case(t.NamedTuple):
    """One fleet, read from text as a user's would be."""

    text: str
    nodes: list[dict[str, t.Any]]
    catalog: t.Any
    cards: int


def walk(nodes: list[dict[str, t.Any]]) -> int:
    """Look at every node and every GPU once."""
    found = 0
    for node in nodes:
        if node["state"] == "ready":
            for gpu in node["gpus"]:
                if (
                    gpu["healthy"]
                    and gpu["holder"] is None
                    and gpu["memory_gb"] > 0
                    and gpu["compute_cap"]
                    and gpu["uuid"]
                ):
                    found += 1
    return found


def make_case(nodes: int, **options: t.Any) -> Case:
    """Make a fleet."""
    made = fleet(nodes, 1, **options)
    catalog = check_catalog(made["models"], made["roles"]).catalog
    text = json.dumps(made["nodes"])
    del made
    read = json.loads(text)
    return Case(text=text, nodes=read, catalog=catalog, cards=sum(len(node["gpus"]) for node in read))


def floor_of(case: Case) -> float:
    """What reading the input takes, once."""
    gc.collect()
    begun = time.process_time()
    walk(json.loads(case.text))
    return time.process_time() - begun


def planned(case: Case, **options: t.Any) -> tuple[float, dict[str, t.Any]]:
    """What one plan takes, and the plan."""
    gc.collect()
    begun = time.process_time()
    document = plan(case.nodes, case.catalog.roles, case.catalog.models, engines=case.catalog.engines, **options)
    return time.process_time() - begun, document


class Measured(t.NamedTuple):
    """The least and the median of the floor and of plans, taken in turn, and the last plan."""

    floor: float
    least: float
    median: float
    document: dict[str, t.Any]

    @property
    def ratio(self) -> float:
        """Plan against floor."""
        return self.least / self.floor


def measure(case: Case, **options: t.Any) -> Measured:
    """Take floor and plan in turn a few times."""
    floors, times, document = [], [], {}
    for _unused in range(ROUNDS):
        document = {}
        floors.append(floor_of(case))
        taken, document = planned(case, **options)
        times.append(taken)
    return Measured(min(floors), min(times), statistics.median(times), document)


def told(name: str, ratio: float, target: float, *, at_least: bool = False) -> bool:
    """Print one ratio beside its target."""
    is_met = ratio >= target if at_least else ratio <= target
    print(
        f"{name:<72} {ratio:10.2f}  ({'at least' if at_least else 'at most'} {target:g}) {'' if is_met else 'MISSED'}"
    )
    return is_met


def placed_in(document: dict[str, t.Any]) -> int:
    """How many replicas a plan has."""
    return len(document["assignments"]) + len(document["replicas"])


def against_floor() -> bool:
    """Plans of 10,000 nodes against reading them."""
    is_met = True
    for dense, replicas, roles, target, target_kept in (
        (True, 10_000, 24, 0.6, 0.8),
        (False, 10_000, 24, 0.75, 0.8),
        (True, 80_000, 24, 2.0, 3.0),
        (True, 80_000, 200, 3.0, 4.5),
    ):
        case = make_case(10_000, dense=dense, replicas=replicas, roles=roles)
        new, plain = measure(case), measure(case, rescue=False)
        kept = measure(case, previous=new.document)
        name = f"{case.cards:,} GPUs, {replicas:,} replicas wanted, {roles} roles"
        is_met &= told(f"plan / floor: {name}", new.ratio, target)
        is_met &= told(f"on top of its own plan / floor: {name}", kept.ratio, target_kept)
        print(
            f"    {new.least:.2f} s (median {new.median:.2f}) against {new.floor:.2f} s; {placed_in(new.document):,} placed,"
            f" plain rules {placed_in(plain.document):,} in {plain.least:.2f} s"
        )
    return is_met


def several_gpus() -> bool:
    """Models over several GPUs on large fleets: against the proven optimum, and against the floor."""
    is_met = True
    for name, options, best, target in SEVERAL:
        measured = measure(make_case(1_000, **options))
        share = len(measured.document["replicas"]) / best
        is_met &= told(f"placed / proven optimum of {best}: {name}", share, 0.97, at_least=True)
        is_met &= told(f"plan / floor: {name}", measured.ratio, target)
        print(f"    {measured.least:.2f} s (median {measured.median:.2f}) against {measured.floor:.3f} s")
    return is_met


def against_plain_rules() -> bool:
    """The planner against the rules written plainly."""
    case = make_case(1_000, dense=True, replicas=1_000)
    made = fleet(1_000, 1, dense=True, replicas=1_000)
    begun = time.process_time()
    naive_plan(**made)
    plain = time.process_time() - begun
    measured = measure(case, rescue=False)
    return told(f"plain rules / plan: {case.cards:,} GPUs, 1,000 replicas", plain / measured.least, 500, at_least=True)


def growth(sizes: list[int]) -> bool:
    """How much longer ten times the fleet takes."""
    is_met, last = True, 0.0
    for nodes in sizes:
        taken = measure(make_case(nodes, replicas=nodes)).least
        if last:
            is_met &= told(f"growth: {nodes:,} nodes / {nodes // 10:,} nodes", taken / last, 15)
        last = taken
    return is_met


def memory() -> bool:
    """What a plan takes beside its input, the document left out."""
    case = make_case(10_000, dense=True, replicas=10_000)
    tracemalloc.start()
    document = plan(case.nodes, case.catalog.roles, case.catalog.models)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del document
    print(f"memory: document {kept / 2**20:.0f} MiB")
    return told(f"memory beside input and document: {case.cards:,} GPUs, MiB", (peak - kept) / 2**20, 40)


def main() -> int:
    """Run all."""
    parser = argparse.ArgumentParser(description="measure plans")
    parser.add_argument("--large", action="store_true", help="also plan 100,000 nodes")
    args = parser.parse_args()
    results = [
        against_floor(),
        several_gpus(),
        against_plain_rules(),
        growth([1_000, 10_000, 100_000] if args.large else [1_000, 10_000]),
        memory(),
    ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
