# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""How large and how fast the report of a big fleet is: size, rendering, loading in Chromium, and the first filter result.

Run as ``python tests/benchmarks/bench_report.py [NODES]``; every node has eight GPUs. It ends with 1 when 1,000 nodes miss
a target. Without Chromium only size and rendering are measured.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import tempfile
import time
import typing as t
from pathlib import Path

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.what_if import what_if_lost
from ansible_collections.knaster.inventory.plugins.plugin_utils._report.page import render_report
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.inputs import read_inputs
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.summary import summarise
from ansible_collections.knaster.inventory.tests.peers import documents

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
from chromium import Chromium, find_chromium
from fleet import fleet

ROUNDS = 3
LOSSES = 100
# Bytes and seconds.
MOST_BYTES, MOST_LOAD, MOST_FILTER = 3_000_000, 1.0, 0.1
# From a value in the search field until the result is painted.
FILTER = """new Promise(done => {
  const field = document.getElementById("q");
  const begun = performance.now();
  field.value = %s;
  field.dispatchEvent(new Event("input"));
  requestAnimationFrame(() => { const channel = new MessageChannel();
    channel.port1.onmessage = () => done([performance.now() - begun, document.getElementById("count").textContent]);
    channel.port2.postMessage(0); });
})"""


def make(nodes: int) -> dict[str, t.Any]:
    """A fleet with everything that a report can show: a plan, a last plan, observed replicas and losses."""
    made = fleet(nodes, 1, dense=True, busy=0.05)
    catalog = check_catalog(made["models"], made["roles"]).catalog
    for at, node in enumerate(made["nodes"]):
        node["labels"]["rack"] = f"r{at // 25:03d}"
    document = plan(made["nodes"], catalog.roles, catalog.models, engines=catalog.engines)
    replicas = [
        documents.observed(
            {
                "id": f"{one['role']}.{one['replica']}.main",
                "role": one["role"],
                "state": "failed" if at % 97 == 0 else "starting" if at % 41 == 0 else "ready",
                "running": at % 5,
                "waiting": 0,
                "idle_seconds": 1200 if at % 13 == 0 else 5,
                "served_model": "model-001",
                "shards": [{"node": one["node"], "gpu_indices": [one["gpu_index"]] if "gpu_index" in one else []}],
            }
        )
        for at, one in enumerate(document["assignments"])
    ]
    lost = [node["name"] for node in made["nodes"][:LOSSES]]
    inputs = read_inputs(made["nodes"], document, replicas, catalog)
    return {
        "inputs": inputs,
        "summary": summarise(inputs),
        "previous": {**document, "assignments": document["assignments"][:-50]},
        "losses": what_if_lost(
            document, made["nodes"], catalog.roles, catalog.models, engines=catalog.engines, lost=lost
        ),
    }


def best(action: t.Callable[[], t.Any]) -> tuple[float, t.Any]:
    """The shortest of a few runs, and what the last gave."""
    shortest, value = float("inf"), None
    for _unused in range(ROUNDS):
        begun = time.perf_counter()
        value = action()
        shortest = min(shortest, time.perf_counter() - begun)
    return shortest, value


def in_browser(text: str) -> tuple[float, list[tuple[str, float, str]]]:
    """Seconds until the page has loaded and is painted, and for some searches the seconds until their result is."""
    with tempfile.TemporaryDirectory() as directory, Chromium() as browser:
        page = Path(directory, "report.html")
        page.write_text(text, encoding="utf-8")
        browser.size(1280)
        load, found = float("inf"), []
        for _unused in range(ROUNDS):
            browser.open(page)
            load = min(
                load,
                t.cast("float", browser.run("performance.timing.loadEventEnd - performance.timing.navigationStart")),
            )
            # The first search of a page also makes its index.
            for search in ('"state:failed"', '"model-001"', '"class:h100 state:free"', '"pve-000500"', '""'):
                spent, told = t.cast("tuple[float, str]", browser.run(FILTER % search))
                found.append((search.strip('"'), spent / 1000, told))
        if browser.problems:
            raise SystemExit(f"the page has problems: {browser.problems}")
    names = list(dict.fromkeys(name for name, _spent, _told in found))
    first = found[0]
    rows = [("first: " + first[0], first[1], first[2])]
    for name in names:
        same = [row for row in found if row[0] == name]
        rows.append((name or "(no filter)", min(row[1] for row in same), same[-1][2]))
    return load / 1000, rows


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", nargs="?", type=int, default=1000)
    values = make(parser.parse_args().nodes)
    nodes, plan = values["inputs"].nodes, values["inputs"].plan
    cards = sum(len(node["gpus"]) for node in nodes)
    rest = {key: values[key] for key in ("previous", "losses")}
    spent, text = best(lambda: render_report(values["inputs"], values["summary"], **rest))
    data = text.encode()
    print(f"{len(nodes):,} nodes, {cards:,} GPUs, {len(plan['assignments']):,} replicas of roles")
    print(
        f"size         {len(data):>12,} bytes, {len(gzip.compress(data, mtime=0)):,} with gzip (at most {MOST_BYTES:,})"
    )
    print(f"rendering    {spent:>12.3f} s")
    met = len(data) <= MOST_BYTES
    if find_chromium() is None:
        print("loading      not measured: there is no chromium")
    else:
        load, rows = in_browser(text)
        print(f"loading      {load:>12.3f} s until the load event has run (at most {MOST_LOAD} s)")
        for name, filter_spent, told in rows:
            print(f"filter       {1000 * filter_spent:>12.1f} ms  {name}: {told}")
        met = met and load <= MOST_LOAD and rows[0][1] <= MOST_FILTER
    return 0 if met or len(nodes) > 1000 else 1


if __name__ == "__main__":
    sys.exit(main())
