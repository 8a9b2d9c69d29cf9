# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""What must hold of every summary, whatever the fleet is."""

from __future__ import annotations

import json
from collections import Counter

import jsonschema
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import schema_text
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan as make_plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.inputs import read_inputs
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.metrics import format_metrics
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.summary import summarise
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.table import format_summary
from ansible_collections.knaster.inventory.tests.peers import documents
from ansible_collections.knaster.inventory.tests.peers.fleet import fleet
from hypothesis import given, settings
from hypothesis import strategies as st

VALIDATOR = jsonschema.Draft202012Validator(json.loads(schema_text("summary")))
STATES = ("used", "unhealthy", "free", "external", "unknown")
NODE_STATES = ("ready", "cordoned", "draining", "unreachable")


def add_up(summary, nodes, rows):
    assert summary["nodes"]["total"] == len(nodes) == sum(summary["nodes"][state] for state in NODE_STATES)
    for counts in summary["gpus"].values():
        assert counts["total"] == sum(counts[state] for state in STATES)
        assert min(counts.values()) >= 0
    in_ledger = Counter(row["state"] for row in rows)
    for state in STATES:
        assert sum(counts[state] for counts in summary["gpus"].values()) == in_ledger[state]
    for key in ("models", "roles"):
        assert summary[key]["total"] == summary[key]["satisfied"] + summary[key]["short"]
    assert len(summary["unplaceable"]) <= summary["models"]["short"]


def blocks_of(nodes, rows, fabric, gpu_class=None):
    """The plain count: ready nodes on a fabric that have GPUs, all of them free."""
    found = 0
    for node in nodes:
        if node.get("state", "ready") != "ready" or fabric not in (node.get("fabrics") or ()):
            continue
        mine = {gpu["index"] for gpu in node["gpus"] or () if gpu_class in (None, gpu["gpu_class"])}
        states = [row["state"] for row in rows if row["node"] == node["name"] and row["gpu_index"] in mine]
        found += bool(states) and set(states) == {"free"}
    return found


OBSERVED = st.lists(
    st.fixed_dictionaries(
        {
            "model": st.sampled_from([f"model-{at:03d}" for at in range(40)]),
            "state": st.sampled_from(["ready", "starting", "draining", "failed"]),
            "idle_seconds": st.sampled_from([None, 0, 599, 600, 10**6]),
            "fingerprint": st.sampled_from([None, "", "0" * 16]),
        }
    ),
    max_size=30,
)


@given(seed=st.integers(0, 10**6), count=st.integers(1, 30), busy=st.sampled_from([0.0, 0.2]), seen=OBSERVED)
@settings(max_examples=40, deadline=None)
def test_totals_add_up(seed, count, busy, seen):
    made = fleet(count, seed, replicas=count * 3, busy=busy, multi=0.5)
    found = check_catalog(made["models"], made["roles"]).catalog
    plan = make_plan(made["nodes"], found.roles, found.models)
    replicas = [documents.observed({"id": str(at), **one}) for at, one in enumerate(seen)]
    inputs = read_inputs(made["nodes"], plan, replicas, found)
    summary = summarise(inputs)
    VALIDATOR.validate(summary)
    add_up(summary, made["nodes"], plan["ledger"])
    assert sum(summary["replicas"].values()) == len(replicas)
    assert len(summary["unknown"]) + len(summary["stale"]) == len(replicas)
    assert [one["idle_seconds"] for one in summary["idle_replicas"]] == sorted(
        (one["idle_seconds"] for one in seen if one["state"] == "ready" and (one["idle_seconds"] or 0) >= 600),
        reverse=True,
    )
    for name, fabric in summary["fabrics"].items():
        assert fabric["largest_free_block"] == blocks_of(made["nodes"], plan["ledger"], name)
        assert set(fabric["classes"]) == {
            gpu["gpu_class"] for node in made["nodes"] if name in node["fabrics"] for gpu in node["gpus"]
        }
        for gpu_class, block in fabric["classes"].items():
            assert block == blocks_of(made["nodes"], plan["ledger"], name, gpu_class)
    again = summarise(read_inputs(made["nodes"][::-1], plan, replicas[::-1], found))
    assert json.dumps(again) == json.dumps(summary)
    assert format_summary(summary, inputs)
    assert format_metrics(summary)


def test_a_plan_of_an_older_fleet():
    made = fleet(20, 5, busy=0.1)
    found = check_catalog(made["models"], made["roles"]).catalog
    plan = make_plan(made["nodes"], found.roles, found.models)
    fewer = made["nodes"][3:]
    summary = summarise(read_inputs(fewer, plan, [], found))
    add_up(summary, fewer, plan["ledger"])
    assert "plan_outdated" in {one["code"] for one in summary["attention"]}
