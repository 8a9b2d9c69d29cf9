# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What if a node is lost: planning without it, on top of the plan that is there."""

from __future__ import annotations

import typing as t
from collections import Counter

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.engines import BUILTIN_ENGINES
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import read_nodes, without
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.diff import place_text
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import paused_collector, place
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.ways import with_ways
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import Options
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import (
    listing,
    natural_key,
    plural,
    size_text,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
        Engine,
        Model,
        Role,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import Placed


def what_if_lost(
    document: Mapping[str, t.Any],
    nodes: Sequence[Mapping[str, t.Any]],
    roles: Sequence[Role],
    models: Sequence[Model],
    *,
    lost: Sequence[str | Sequence[str]] | None = None,
    moves: str = "none",
    passthrough: bool = True,
    engines: Mapping[str, Engine] = BUILTIN_ENGINES,
) -> list[dict[str, t.Any]]:
    """For each node (or set of nodes that fail together) what is lost, what has another place, and what stays short.

    :param lost: names, or lists of names; without it every node that has something, in turn
    :raises InputError: when a node is in no profile
    """
    there = _by_node(document)
    asked: Sequence[str | Sequence[str]] = _by_name(there) if lost is None else lost
    fleet, options = read_nodes(nodes), Options(moves=moves, passthrough=passthrough, engines=engines)
    models = with_ways(models, fleet, options, document)
    known = {*fleet.names}
    were = Counter({str(one.get("role") or one.get("model")): one["missing"] for one in document.get("unplaced") or ()})
    answers = []
    for each in asked:
        names = [each] if isinstance(each, str) else list(each)
        unknown = [name for name in names if name not in known]
        if unknown:
            raise InputError([f"{listing(unknown)}: no such node in the profiles"])
        with paused_collector():
            after = place(without(fleet, names), roles, models, document, options)
        answers.append(_answer(names, [name for node in names for name in there.get(node, ())], were, after))
    return answers


def _by_name(names: Iterable[str]) -> list[str]:
    """Names in natural order."""
    return sorted(names, key=natural_key)


def _by_node(document: Mapping[str, t.Any]) -> dict[str, list[str]]:
    """The names of what sits on each node."""
    found: dict[str, list[str]] = {}
    for one in document.get("assignments") or ():
        found.setdefault(one["node"], []).append(f"{one['role']}/{one['replica']}")
    for one in document.get("replicas") or ():
        for shard in one["shards"]:
            name = f"{one['model']}/{one['replica']}"
            on = found.setdefault(shard["node"], [])
            if name not in on:
                on.append(name)
    return found


def _answer(names: list[str], hit: list[str], were: Mapping[str, int], after: Placed) -> dict[str, t.Any]:
    short = [
        {"name": name, "missing": missing, "before": were[name]}
        for (_kind, name), missing in after.missing.items()
        if missing > were[name]
    ]
    moves = [] if after.previous is None else after.previous.changes(after.search)["moves"]
    states = [state for move in moves for state in _states(move) if state["state"] != "held"]
    copy_gb, copy_unknown = sum(state.get("gb", 0) for state in states), sum("gb" not in state for state in states)
    return {
        "nodes": names,
        "hit": list(dict.fromkeys(hit)),
        "moves": moves,
        "short": short,
        "copy_gb": copy_gb,
        "copy_unknown": copy_unknown,
        "survives": not short,
        "text": _text(names, hit, moves, short, copy_text(copy_gb, copy_unknown)),
    }


def copy_text(known_gb: float, unknown: int) -> str:
    """Return how much has to be copied: the known sizes together, and whether that is all; nothing for nothing."""
    if not unknown:
        return f"{size_text(known_gb)} GB" if known_gb else ""
    return f"at least {size_text(known_gb)} GB" if known_gb else "an unknown amount"


def _states(move: Mapping[str, t.Any]) -> Iterable[Mapping[str, t.Any]]:
    weights = move.get("weights") or []
    return [weights] if isinstance(weights, dict) else weights


def _text(
    names: list[str],
    hit: list[str],
    moves: Sequence[Mapping[str, t.Any]],
    short: Sequence[Mapping[str, t.Any]],
    copy: str,
) -> str:
    head = " and ".join(names)
    if not hit:
        return f"{head}: yes, nothing of this plan runs there"
    told = [f"{_name(move)} to {_to(move)}" for move in moves]
    parts = [f"{plural(len(moves), 'replica')} can go elsewhere ({listing(told)})"] if moves else []
    if copy:
        parts.append(f"{copy} of weights to copy")
    if short:
        parts.insert(0, "short of " + listing(f"{each['missing'] - each['before']} {each['name']}" for each in short))
    return f"{head}: {'no' if short else 'yes'}, {', '.join(parts)}"


def _name(move: Mapping[str, t.Any]) -> str:
    return f"{move.get('role') or move.get('model')}/{move['replica']}"


def _to(move: Mapping[str, t.Any]) -> str:
    to = move["to"]
    places = (
        to
        if isinstance(to, list)
        else [{"node": to["node"], "gpu_indices": [to[k] for k in ("gpu_index",) if k in to]}]
    )
    return place_text(places)
