# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The plan as a table that a person reads: who sits where and why, and what could not be placed."""

from __future__ import annotations

import typing as t
from collections import Counter

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.engines import BUILTIN_ENGINES
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import read_nodes
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import models_fitting
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.columns import format_columns
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import natural_key, plural, size_text

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
        Engine,
        Model,
    )

_PLACED = ("NODE", "CARD", "WHAT", "ENGINE", "MODELS", "WHY")
_GROUPED = ("WHAT", "PLACED", "CARDS", "CLASS", "ENGINE", "NODES")
_FITTING = ("NODE", "CARD", "CLASS", "STATE", "MODELS THAT FIT")
_ORDER = (
    "Roles are placed by priority (lower first), then models by placement_priority (lower first),"
    " each by the profile with the highest priority (higher first)."
)
_NAMES_SHOWN = 3
# Beyond what a person reads line by line, alike placements share a line.
_LINES_SHOWN = 200
_AT_RISK = "AT RISK ("


def format_plan(
    plan: Mapping[str, t.Any],
    nodes: Sequence[Mapping[str, t.Any]] = (),
    models: Sequence[Model] = (),
    *,
    engines: Mapping[str, Engine] = BUILTIN_ENGINES,
) -> str:
    """The whole plan as text; without a role or replica in it, what each GPU could run.

    Above 200 lines of placements those of one role or model on one class share a line, and only what is at risk is
    told one by one.
    """
    lines: list[str] = []
    placed = [*_placed_roles(plan), *_placed_replicas(plan)]
    unplaced = plan.get("unplaced") or []
    if placed:
        if len(placed) > _LINES_SHOWN:
            lines += [*format_columns(_GROUPED, _groups(plan)), ""]
            placed = [row for row in placed if row[1][-1].startswith(_AT_RISK)]
        placed.sort(key=lambda row: row[0])
        if placed:
            lines += [*format_columns(_PLACED, [row[1] for row in placed]), ""]
    elif not unplaced and nodes:
        lines += [*_what_fits(plan, nodes, models, engines), ""]
    if unplaced:
        lines += ["Could not be placed:", *(line for entry in unplaced for line in _refusal(entry)), ""]
    lines += _rest(plan)
    if placed or unplaced:
        lines.append(_ORDER)
    return "\n".join(lines) + "\n"


Row = tuple[tuple[t.Any, ...], tuple[t.Any, ...]]


def _placed_roles(plan: Mapping[str, t.Any]) -> Iterable[Row]:
    for one in plan.get("assignments") or ():
        index = one.get("gpu_index")
        gpu = one.get("gpu") or {}
        card = "CPU" if index is None else _card(index, gpu)
        why = (one.get("why") or {}).get("text", "")
        if one.get("at_risk"):
            why = f"{_AT_RISK}{one['at_risk']}): {why}"
        row = (
            one["node"],
            card,
            f"{one['role']}/{one['replica']}",
            one.get("engine"),
            _few(one.get("models_fitting")),
            why,
        )
        yield ((natural_key(one["node"]), -1 if index is None else index, one["role"], one["replica"]), row)


def _placed_replicas(plan: Mapping[str, t.Any]) -> Iterable[Row]:
    for one in plan.get("replicas") or ():
        for shard in one["shards"]:
            indices = shard["gpu_indices"]
            gpus = shard.get("gpus") or [{}]
            card = f"{_span(indices)}: {_look(gpus[0])}" if indices else "CPU"
            name = f"{one['model']}/{one['replica']}" + (f" rank {shard['rank']}" if len(one["shards"]) > 1 else "")
            why = (one.get("why") or {}).get("text", "")
            risk = f"{_AT_RISK}{shard['at_risk']}): " if shard.get("at_risk") else ""
            row = (shard["node"], card, name, one.get("engine"), one["model"], f"{risk}{one['profile']}: {why}")
            key = (natural_key(shard["node"]), indices[0] if indices else -1, one["model"], one["replica"])
            yield key, row


def _groups(plan: Mapping[str, t.Any]) -> list[tuple[t.Any, ...]]:
    """One line for each role or model, class and engine: how many replicas and GPUs, and on which nodes."""
    parts = [
        (one["role"], one, one["node"], 0 if one.get("gpu_index") is None else 1, one.get("gpu") or {})
        for one in plan.get("assignments") or ()
    ] + [
        (one["model"], one, shard["node"], len(shard["gpu_indices"]), (shard.get("gpus") or [{}])[0])
        for one in plan.get("replicas") or ()
        for shard in one["shards"]
    ]
    groups: dict[tuple[str, str, str], list[tuple[int, int, str]]] = {}
    for what, one, node, cards, gpu in parts:
        key = (what, _look(gpu) if cards else "CPU", one.get("engine") or "-")
        groups.setdefault(key, []).append((one["replica"], cards, node))
    return [
        (
            what,
            len({replica for replica, _cards, _node in found}),
            sum(cards for _replica, cards, _node in found),
            look,
            engine,
            _few(sorted({node for _replica, _cards, node in found}, key=natural_key)),
        )
        for (what, look, engine), found in groups.items()
    ]


def _look(gpu: Mapping[str, t.Any]) -> str:
    size = gpu.get("memory_gb")
    return f"{gpu.get('gpu_class') or 'unknown'} {'?' if size is None else size_text(size)} GB"


def _card(index: int, gpu: Mapping[str, t.Any]) -> str:
    return f"{index}: {_look(gpu)}"


def _span(indices: Sequence[int]) -> str:
    """0-3 for a run of indices, 0,2 for others."""
    if len(indices) > 2 and list(indices) == list(range(indices[0], indices[-1] + 1)):
        return f"{indices[0]}-{indices[-1]}"
    return ",".join(map(str, indices))


def _few(names: Sequence[str] | None) -> str:
    known = list(names or ())
    if not known:
        return "-"
    more = len(known) - _NAMES_SHOWN
    return ", ".join(known[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _refusal(entry: Mapping[str, t.Any]) -> Iterable[str]:
    name = entry.get("role") or entry.get("model")
    yield f"  {name}: {entry['missing']} of {entry['wanted']} ({entry['code']}): {entry['reason']}"
    for line in entry.get("what_would_help") or ():
        yield f"    would help{'' if line.get('verified') else ' (not tried)'}: {line['text']}"


def _rest(plan: Mapping[str, t.Any]) -> Iterable[str]:
    on_demand = plan.get("on_demand") or ()
    if on_demand:
        told = ", ".join(f"{one['model']} (room for {one['could_place']})" for one in on_demand)
        yield f"On demand: {told}"
    if plan.get("off"):
        yield f"Off: {', '.join(plan['off'])}"
    states = Counter(row["state"] for row in plan.get("ledger") or ())
    total = sum(states.values())
    parts = ", ".join(
        f"{states[state]} {state}" for state in ("used", "free", "external", "unhealthy", "unknown") if states[state]
    )
    yield f"{plural(total, 'GPU')}{': ' + parts if parts else ''}"


def _what_fits(
    plan: Mapping[str, t.Any],
    nodes: Sequence[Mapping[str, t.Any]],
    models: Sequence[Model],
    engines: Mapping[str, Engine],
) -> list[str]:
    fleet = read_nodes(nodes)
    states = {(row["node"], row["gpu_index"]): row["state"] for row in plan.get("ledger") or ()}
    fits: dict[int, str] = {}
    rows: list[tuple[t.Any, ...]] = []
    alike: dict[tuple[str, str, str], list[int]] = {}
    for node, index, shape in zip(fleet.gpu_node, fleet.gpu_index, fleet.gpu_shape, strict=True):
        look = fleet.shapes[shape]
        if shape not in fits:
            names = models_fitting(models, look, engine=None, kind=None, engines=engines)
            fits[shape] = ", ".join(names) or "-"
        size = "?" if look.memory_gb is None else size_text(look.memory_gb)
        state = states.get((fleet.names[node], index), "unknown")
        known = f"{look.gpu_class or 'unknown'} {size} GB"
        rows.append((fleet.names[node], index, known, state, fits[shape]))
        alike.setdefault((known, state, fits[shape]), []).append(node)
    if len(rows) > _LINES_SHOWN:
        return format_columns(
            ("CLASS", "STATE", "CARDS", "NODES", "MODELS THAT FIT"),
            [(known, state, len(on), len(set(on)), names) for (known, state, names), on in alike.items()],
        )
    return format_columns(_FITTING, rows)
