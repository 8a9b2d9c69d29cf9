# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""How long a summary takes as the fleet grows, from data and from files, and how long it takes to ask many replicas.

Run as ``python tests/benchmarks/bench_summary.py``; ``--large`` adds 10,000 nodes from files. Only ratios carry over to
another machine: a summary is measured against the plan that it is of, and asking against the limits that were set. It ends
with 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
import typing as t
from pathlib import Path

from ansible_collections.knaster.inventory.plugins.module_utils._replicas.observe import Asking, observe
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.yaml_text import dump_document
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import read_nodes
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan as make_plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.inputs import Inputs
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.metrics import format_metrics
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.summary import summarise
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.table import format_summary
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.report import (
    Sources,
    Targets,
    make_fleet_report,
)
from ansible_collections.knaster.inventory.tests.peers import engines
from ansible_collections.knaster.inventory.tests.peers.fleet import fleet

ROUNDS = 3


def best(work: t.Callable[..., object], *arguments: t.Any) -> float:
    """The shortest of a few rounds, in seconds."""
    times = []
    for _unused in range(ROUNDS):
        began = time.perf_counter()
        work(*arguments)
        times.append(time.perf_counter() - began)
    return min(times)


def inputs_of(nodes: list[dict[str, t.Any]], plan: dict[str, t.Any], catalog: t.Any) -> Inputs:
    """What a summary is made of, of a plan that needs no check."""
    return Inputs(nodes=nodes, fleet=read_nodes(nodes), plan=plan, replicas=(), catalog=catalog)


def sum_up(nodes: list[dict[str, t.Any]], plan: dict[str, t.Any], catalog: t.Any) -> dict[str, t.Any]:
    """Read the profiles and sum them up."""
    return summarise(inputs_of(nodes, plan, catalog))


def told(what: str, value: float, most: float) -> bool:
    """Print a figure beside its target."""
    good = value <= most
    print(f"{what}: {value:.2f} (at most {most:g}) {'ok' if good else 'MISSED'}")
    return good


def from_data(sizes: list[int]) -> bool:
    """Summary, table and metrics against the plan, and how they grow."""
    results = []
    for nodes in sizes:
        made = fleet(nodes, busy=0.05, dense=True)
        found = check_catalog(made["models"], made["roles"]).catalog
        document = make_plan(made["nodes"], found.roles, found.models)
        seconds = best(make_plan, made["nodes"], found.roles, found.models)
        took = best(sum_up, made["nodes"], document, found)
        inputs = inputs_of(made["nodes"], document, found)
        summary = summarise(inputs)
        text = best(format_summary, summary, inputs)
        metrics = best(format_metrics, summary)
        cards = len(document["ledger"])
        print(f"{nodes:,} nodes, {cards:,} GPUs: plan {seconds:.2f} s, summary {took:.2f} s", end="")
        print(f" ({1e6 * took / cards:.1f} us a GPU), table {text:.3f} s, metrics {metrics:.3f} s")
        lines = format_summary(summary, inputs).count("\n")
        results.append((took / seconds, lines, took / cards))
    good = told("summary against its plan, times", results[-1][0], 5)
    good &= told("lines of the table", max(row[1] for row in results), 80)
    return good & told("growth of the time a GPU", results[-1][2] / results[0][2], 3)


def from_files(nodes: int) -> bool:
    """The whole of ``fleet_report``: files read, losses asked, page rendered."""
    made = fleet(nodes, busy=0.05)
    found = check_catalog(made["models"], made["roles"]).catalog
    document = make_plan(made["nodes"], found.roles, found.models)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("profiles", "catalog"):
            (folder / part).mkdir()
        for node in made["nodes"]:
            (folder / f"profiles/{node['name']}.json").write_text(json.dumps(node, indent=1))
        for key in ("roles", "models"):
            (folder / f"catalog/{key}.yaml").write_text(json.dumps({key: made[key]}))
        del document["changes"]
        (folder / "plan.yml").write_text(dump_document(document))
        sources = Sources(
            profiles=folder / "profiles",
            hosts=[node["name"] for node in made["nodes"]],
            catalog=[str(folder / "catalog")],
            plan=folder / "plan.yml",
            observed=None,
            slots=None,
        )
        targets = Targets(summary=folder / "s.json", metrics=folder / "f.prom", page=folder / "r.html")
        for losses in (0, None):
            began = time.perf_counter()
            report = make_fleet_report(sources, targets, title="", losses=losses, passthrough=True)
            took = time.perf_counter() - began
            sizes = ", ".join(f"{change.path.name} {len(change.after) / 2**20:.2f} MiB" for change in report.changes)
            print(f"{nodes:,} nodes from files, losses {losses}: {took:.1f} s ({sizes})")
    return told(f"report of {nodes:,} nodes from files with losses, seconds", took, 60)


def ask(count: int, hanging: int) -> bool:
    """Many replicas at once, of which some never answer."""
    asking = Asking(timeout=2, concurrency=32)
    with contextlib.ExitStack() as stack:
        live = [stack.enter_context(engines.serve(engines.Engine("vllm"))) for _unused in range(20)]
        dead = [stack.enter_context(engines.serve_raw(engines.RAW["silent"])) for _unused in range(4)]
        slots = [
            {
                "slot": f"s.{at}",
                "engine": "vllm",
                "model": "org/model",
                "endpoint": (dead if at < hanging else live)[at % 4],
            }
            for at in range(count)
        ]
        began = time.perf_counter()
        found = observe(slots, asking=asking)
        took = time.perf_counter() - began
    ready = sum(one["state"] == "ready" for one in found.replicas)
    print(f"{count} slots asked, {hanging} of them never answer: {took:.2f} s, {ready} ready")
    worst = -(-hanging // asking.concurrency) * asking.timeout
    return (
        told(f"{count} slots beside the time of those that hang, seconds", took - worst, count / 25)
        and ready == count - hanging
    )


def main() -> int:
    """Run all."""
    parser = argparse.ArgumentParser(description="measure summaries")
    parser.add_argument("--large", action="store_true", help="also sum up 10,000 nodes from files")
    args = parser.parse_args()
    results = [
        from_data([1_000, 10_000]),
        from_files(1_000),
        ask(200, 0),
        ask(200, 20),
        ask(2_000, 20),
    ]
    if args.large:
        results.append(from_files(10_000))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
