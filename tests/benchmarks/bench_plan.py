# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""How long a plan takes: beside reading its input, beside the plain rules, and as the fleet grows.

Run as ``python tests/benchmarks/bench_plan.py``; ``--large`` adds 100,000 nodes. Only ratios carry over to another machine.
The floor is ``json.loads`` of the input and one walk over its nodes and GPUs. It ends with 1 when a ratio misses its target.
"""

from __future__ import annotations

import argparse
import gc
import json
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

ROUNDS = 3


class Case(t.NamedTuple):
    """One fleet, read from text as a user's would be."""

    nodes: list[dict[str, t.Any]]
    catalog: t.Any
    floor: float
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
    """Make a fleet and measure what reading it costs."""
    made = fleet(nodes, 1, **options)
    catalog = check_catalog(made["models"], made["roles"]).catalog
    text = json.dumps(made["nodes"])
    del made
    best, read = float("inf"), []
    for _unused in range(ROUNDS):
        read = []
        gc.collect()
        begun = time.perf_counter()
        read = json.loads(text)
        walk(read)
        best = min(best, time.perf_counter() - begun)
    return Case(nodes=read, catalog=catalog, floor=best, cards=sum(len(node["gpus"]) for node in read))


def seconds(case: Case, **options: t.Any) -> tuple[float, dict[str, t.Any]]:
    """The best time of a few, and the plan."""
    best, document = float("inf"), {}
    for _unused in range(ROUNDS):
        document = {}
        gc.collect()
        begun = time.perf_counter()
        document = plan(case.nodes, case.catalog.roles, case.catalog.models, engines=case.catalog.engines, **options)
        best = min(best, time.perf_counter() - begun)
    return best, document


def told(name: str, ratio: float, target: float, *, at_least: bool = False) -> bool:
    """Print one ratio beside its target."""
    is_met = ratio >= target if at_least else ratio <= target
    print(
        f"{name:<72} {ratio:10.2f}  ({'at least' if at_least else 'at most'} {target:g}) {'' if is_met else 'MISSED'}"
    )
    return is_met


def against_floor() -> bool:
    """Plans of 10,000 nodes against reading them."""
    is_met = True
    for replicas, roles, target in ((10_000, 24, 0.6), (80_000, 24, 2.0), (80_000, 200, 3.0)):
        case = make_case(10_000, dense=True, replicas=replicas, roles=roles)
        taken, document = seconds(case)
        greedy, plain = seconds(case, rescue=False)
        kept, _again = seconds(case, previous=document)
        placed = len(document["assignments"]) + len(document["replicas"])
        before = len(plain["assignments"]) + len(plain["replicas"])
        name = f"plan / floor: {case.cards:,} GPUs, {replicas:,} replicas wanted, {roles} roles"
        is_met &= told(name, taken / case.floor, target)
        print(
            f"    {taken:.2f} s against {case.floor:.2f} s; {placed:,} placed, plain rules {before:,} in {greedy:.2f} s;"
        )
        print(f"    on top of its own plan {kept:.2f} s = {kept / case.floor:.2f} x floor")
    return is_met


def against_plain_rules() -> bool:
    """The planner against the rules written plainly."""
    case = make_case(1_000, dense=True, replicas=1_000)
    made = fleet(1_000, 1, dense=True, replicas=1_000)
    begun = time.perf_counter()
    naive_plan(**made)
    plain = time.perf_counter() - begun
    taken, _document = seconds(case, rescue=False)
    return told(f"plain rules / plan: {case.cards:,} GPUs, 1,000 replicas", plain / taken, 500, at_least=True)


def growth(sizes: list[int]) -> bool:
    """How much longer ten times the fleet takes."""
    is_met, last = True, 0.0
    for nodes in sizes:
        case = make_case(nodes, replicas=nodes)
        taken, _document = seconds(case)
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
        against_plain_rules(),
        growth([1_000, 10_000, 100_000] if args.large else [1_000, 10_000]),
        memory(),
    ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
