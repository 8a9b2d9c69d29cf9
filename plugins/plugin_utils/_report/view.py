# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What the report says in words and tables, in the order in which the page shows it."""

from __future__ import annotations

import typing as t
from collections import Counter

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.placements import ROLE, placements
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.codes import CODES
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.diff import diff_plans
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.what_if import copy_text
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import (
    duration,
    listing,
    natural_key,
    plural,
    size_text,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.inputs import Inputs

# In the order of a bar: what works first, what needs a look last.
BAR_STATES = ("used", "free", "external", "unhealthy", "unknown")
_NODE_STATES = ("ready", "cordoned", "draining", "unreachable")
_SEVERITIES = ("error", "warning", "info")
# How many lines of a long list are open before the rest.
_SHOWN = 12
_REFUSED = {code.name: code.label for code in CODES}


def make_view(
    inputs: Inputs,
    summary: Mapping[str, t.Any],
    *,
    previous: Mapping[str, t.Any] | None,
    losses: Sequence[Mapping[str, t.Any]] | None,
) -> dict[str, t.Any]:
    """Return everything that the template needs beside the data of the picture."""
    plan = inputs.plan
    ordered = sorted(inputs.nodes, key=lambda node: natural_key(str(node["name"])))
    known = _searchable(inputs)
    placed = _placed(plan)
    return {
        "headline": _headline(summary),
        "cards": _card_totals(summary),
        "status": _status(summary),
        "attention": _split([dict(one, known=one["subject"] in known) for one in summary["attention"]]),
        "classes": _classes(summary),
        "class_total": _class_row("all", _card_totals(summary)),
        "fabrics": summary["fabrics"],
        "refusals": [_refusal(one) for one in plan.get("unplaced") or ()],
        "work": _work(placed, plan),
        "placed": placed,
        "on_demand": plan.get("on_demand") or [],
        "off": plan.get("off") or [],
        "changes": None if previous is None else _split(_changes(plan, previous)),
        "losses": None if losses is None else _losses(ordered, placed, losses),
        "idle": _split([_idle(one) for one in summary["idle_replicas"]]),
        "stale": _split(summary["stale"]),
        "unknown": _split(summary["unknown"]),
        "simulated": _split(summary["simulated"]),
        "observed": any(summary["replicas"].values()),
        "inputs": plan.get("inputs") or {},
        "table": _table(ordered, plan, placed),
        "bar_states": BAR_STATES,
    }


def _searchable(inputs: Inputs) -> set[str]:
    """Return what a search of the page finds, so that a name in a sentence can lead there."""
    found = {str(node["name"]) for node in inputs.nodes} | {one["id"] for one in inputs.replicas if one["shards"]}
    for placed in placements(inputs.plan):
        found |= {placed.name, placed.label}
    return found


def _split(rows: list[t.Any]) -> dict[str, t.Any]:
    """The first rows, and the rest where it is more than a few."""
    shown = len(rows) if len(rows) <= _SHOWN + 3 else _SHOWN
    return {"first": rows[:shown], "rest": rows[shown:], "total": len(rows)}


def _card_totals(summary: Mapping[str, t.Any]) -> dict[str, int]:
    totals = dict.fromkeys(("total", *BAR_STATES), 0)
    for counts in summary["gpus"].values():
        for key in totals:
            totals[key] += counts[key]
    return totals


def _headline(summary: Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """The numbers at the top: what is asked for first, then what it is out of, then what is wrong with the rest."""
    nodes, cards, models, replicas = summary["nodes"], _card_totals(summary), summary["models"], summary["replicas"]
    rows = [
        _figure("nodes", "Nodes ready", ("nodes.ready", nodes["ready"]), ("nodes.total", nodes["total"])),
        _figure("cards", "GPUs in use", ("gpus.used", cards["used"]), ("gpus.total", cards["total"])),
        _figure("free", "GPUs free", ("gpus.free", cards["free"]), None),
    ]
    rows[0]["parts"] = _parts("nodes", nodes, _NODE_STATES[1:])
    rows[1]["parts"] = _parts("gpus", cards, BAR_STATES[2:])
    blocks = [each["largest_free_block"] for each in summary["fabrics"].values()]
    if blocks:
        rows[2]["parts"] = [
            {
                "key": "fabrics.largest",
                "value": max(blocks),
                "label": f"whole {'node' if max(blocks) == 1 else 'nodes'} on one fabric",
            }
        ]
    if models["total"] or models["on_demand"] or models["off"]:
        row = _figure(
            "models", "Models served", ("models.satisfied", models["satisfied"]), ("models.total", models["total"])
        )
        row["parts"] = _parts("models", models, ("short", "on_demand", "off"))
        rows.append(row)
    roles = summary.get("roles") or {}
    if roles.get("total"):
        row = _figure("roles", "Roles placed", ("roles.satisfied", roles["satisfied"]), ("roles.total", roles["total"]))
        row["parts"] = _parts("roles", roles, ("short",))
        rows.append(row)
    total = sum(replicas.values())
    if total:
        row = _figure("replicas", "Replicas ready", ("replicas.ready", replicas["ready"]), ("replicas.total", total))
        row["parts"] = _parts("replicas", replicas, ("starting", "draining", "failed"))
        rows.append(row)
    return rows


def _figure(name: str, label: str, first: tuple[str, int], second: tuple[str, int] | None) -> dict[str, t.Any]:
    row: dict[str, t.Any] = {"name": name, "label": label, "key": first[0], "value": first[1], "parts": [], "of": None}
    if second is not None:
        row["of"] = {"key": second[0], "value": second[1]}
    return row


def _parts(group: str, counts: Mapping[str, int], keys: Iterable[str]) -> list[dict[str, t.Any]]:
    return [
        {"key": f"{group}.{key}", "value": counts[key], "label": key.replace("_", " ")} for key in keys if counts[key]
    ]


def _status(summary: Mapping[str, t.Any]) -> dict[str, t.Any]:
    counts = Counter(one["severity"] for one in summary["attention"])
    parts = [
        plural(counts[severity], severity) if severity != "info" else f"{counts[severity]} info"
        for severity in _SEVERITIES
        if counts[severity]
    ]
    level = next((severity for severity in _SEVERITIES if counts[severity]), "ok")
    acted = counts["error"] + counts["warning"]
    text = f"{plural(acted, 'thing')} {'needs' if acted == 1 else 'need'} action" if acted else "Nothing needs action"
    return {"level": level, "text": text, "parts": ", ".join(parts)}


def _class_row(name: str, counts: Mapping[str, int]) -> dict[str, t.Any]:
    return {"name": name, **counts, "bar": _bar(counts)}


def _classes(summary: Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    return [_class_row(name, counts) for name, counts in summary["gpus"].items()]


def _bar(counts: Mapping[str, int]) -> list[dict[str, t.Any]]:
    """The parts of a bar in percent of its whole."""
    total, at, parts = counts["total"] or 1, 0, []
    for state in BAR_STATES:
        if counts[state]:
            start, end = 100 * at / total, 100 * (at + counts[state]) / total
            parts.append({"state": state, "x": f"{start:.2f}", "width": f"{end - start:.2f}", "count": counts[state]})
            at += counts[state]
    return parts


def _refusal(one: Mapping[str, t.Any]) -> dict[str, t.Any]:
    nearest = one.get("nearest")
    bottleneck = one.get("bottleneck")
    return {
        "name": one.get("role") or one.get("model"),
        "kind": "role" if one.get("role") else "model",
        "wanted": one["wanted"],
        "placed": one["placed"],
        "missing": one["missing"],
        "reason": one["reason"],
        "rejected": [
            {"code": code, "count": count, "text": _REFUSED.get(code, code)}
            for code, count in (one.get("rejected") or {}).items()
        ],
        "nearest": None if not nearest else _nearest(nearest),
        "bottleneck": None
        if not bottleneck
        else {
            "text": f"{listing(bottleneck['roles'])} together want {plural(bottleneck['wanted'], 'GPU')};"
            f" {bottleneck['gpu_count']} {'exists' if bottleneck['gpu_count'] == 1 else 'exist'} for them",
            "gpus": [f"{card['node']}:{card['gpu_index']}" for card in bottleneck["gpus"]],
            "more": bottleneck["gpu_count"] - len(bottleneck["gpus"]),
        },
        "help": one.get("what_would_help") or [],
    }


def _nearest(nearest: Mapping[str, t.Any]) -> str:
    where = nearest["node"] + (f":{nearest['gpu_index']}" if "gpu_index" in nearest else "")
    parts = [_REFUSED.get(nearest["code"], nearest["code"])]
    if "need" in nearest and "have" in nearest:
        parts.append(f"needs {nearest['need']}, has {nearest['have']}")
    if nearest.get("blocked_by"):
        parts.append(f"held by {nearest['blocked_by']}")
    return f"{where}: {', '.join(parts)}"


def _placed(plan: Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return a row for each replica of a role and each shard of a model, in the order of the plan."""
    return [
        {
            "name": placed.label_of(part),
            "base": placed.name,
            "kind": placed.kind,
            "node": part.node,
            "indices": list(part.gpu_indices),
            "look": _look(part.gpus),
            "engine": placed.entry["engine"],
            "why": ("" if placed.kind == ROLE else f"{placed.entry['profile']}: ") + placed.entry["why"]["text"],
            "at_risk": part.entry.get("at_risk"),
            "replica": placed.replica,
        }
        for placed in placements(plan)
        for part in placed.parts
    ]


def _look(gpus: Sequence[Mapping[str, t.Any]]) -> str:
    if not gpus:
        return "CPU"
    size = gpus[0].get("memory_gb")
    return f"{gpus[0].get('gpu_class') or 'unknown class'}{'' if size is None else f' {size_text(size)} GB'}"


def _work(placed: Sequence[Mapping[str, t.Any]], plan: Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """A line for each role and model: what it wants, what it has and where."""
    groups: dict[tuple[str, str], list[Mapping[str, t.Any]]] = {}
    for row in placed:
        groups.setdefault((row["kind"], row["base"]), []).append(row)
    missing: dict[tuple[str, str], int] = {}
    for one in plan.get("unplaced") or ():
        key = ("role", one["role"]) if one.get("role") else ("model", one["model"])
        missing[key] = one["missing"]
        groups.setdefault(key, [])
    rows = []
    for key, found in groups.items():
        replicas = len({row["replica"] for row in found})
        nodes = list(dict.fromkeys(row["node"] for row in found))
        rows.append(
            {
                "kind": key[0],
                "name": key[1],
                "placed": replicas,
                "wanted": replicas + missing.get(key, 0),
                "missing": missing.get(key, 0),
                "cards": sum(len(row["indices"]) for row in found),
                "looks": ", ".join(dict.fromkeys(row["look"] for row in found)),
                "engines": ", ".join(dict.fromkeys(row["engine"] for row in found if row["engine"])),
                "nodes": nodes,
                "at_risk": sum(bool(row["at_risk"]) for row in found),
            }
        )
    return rows


_MARKS = {"+": "added", "-": "removed", "~": "moved", "!": "short", "=": "satisfied"}


def _changes(plan: Mapping[str, t.Any], previous: Mapping[str, t.Any]) -> list[dict[str, str]]:
    lines: list[str] = diff_plans(plan, previous)["lines"]
    return [{"kind": _MARKS[line[0]], "mark": line[0], "text": line[2:]} for line in lines]


def _losses(
    nodes: Sequence[Mapping[str, t.Any]],
    placed: Sequence[Mapping[str, t.Any]],
    losses: Sequence[Mapping[str, t.Any]],
) -> dict[str, t.Any]:
    """What each loss costs, the worst first. In a large fleet not every node was asked about."""
    in_use = {row["node"] for row in placed}
    asked = {name for one in losses for name in one["nodes"]} & in_use
    numbers = {str(node["name"]): number for number, node in enumerate(nodes)}
    rows = [
        {
            "nodes": one["nodes"],
            "number": numbers.get(one["nodes"][0]) if len(one["nodes"]) == 1 else None,
            "survives": one["survives"],
            "hit": len(one["hit"]),
            "missing": sum(each["missing"] - each["before"] for each in one["short"]),
            "moves": len(one["moves"]),
            "to_copy": copy_text(one["copy_gb"], one["copy_unknown"]) or "0 GB",
            # The name and "yes" or "no" stand in cells of their own.
            "text": one["text"].partition(": ")[2].partition(", ")[2] or one["text"],
        }
        for one in losses
        if one["hit"]
    ]
    rows.sort(key=lambda row: (row["survives"], -row["missing"], -row["hit"], natural_key(" ".join(row["nodes"]))))
    return _split(rows) | {
        "asked": len(asked),
        "in_use": len(in_use),
        "unused": sum(node["name"] not in in_use for node in nodes),
        "fatal": sum(not row["survives"] for row in rows),
    }


def _idle(one: Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {**one, "for": duration(one["idle_seconds"])}


def _table(
    nodes: Sequence[Mapping[str, t.Any]], plan: Mapping[str, t.Any], placed: Sequence[Mapping[str, t.Any]]
) -> list[dict[str, t.Any]]:
    """The fleet for a reader without a script: a line for each node."""
    states: dict[str, Counter[str]] = {}
    for row in plan.get("ledger") or ():
        states.setdefault(row["node"], Counter())[row["state"]] += 1
    there: dict[str, list[str]] = {}
    for row in placed:
        there.setdefault(row["node"], []).append(row["name"])
    return [
        {
            "name": node["name"],
            "state": node.get("state") or "ready",
            "cards": _cards(node),
            "states": ", ".join(
                f"{states[node['name']][state]} {state}" for state in BAR_STATES if states[node["name"]][state]
            )
            if node["name"] in states
            else "",
            "placed": ", ".join(there.get(node["name"], ())),
        }
        for node in nodes
    ]


def _cards(node: Mapping[str, t.Any]) -> str:
    if node.get("gpus") is None:
        return "not known"
    kinds = Counter(
        f"{gpu.get('gpu_class') or gpu.get('name') or 'unknown'} {size_text(gpu['memory_gb'])} GB"
        if gpu.get("memory_gb") is not None
        else str(gpu.get("gpu_class") or gpu.get("name") or "unknown")
        for gpu in node["gpus"]
    )
    return ", ".join(f"{count} x {kind}" for kind, count in kinds.items()) or "none"
