# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The fleet in one object: what there is, what runs, what is short, and what somebody should act on.

Everything is derived from the same documents that the tables show, and every total is the sum of its parts.
"""

from __future__ import annotations

import typing as t
from collections import Counter

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.engines import BUILTIN_ENGINES
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.fingerprint import STALE, UNKNOWN
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.placements import ROLE, placements
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import NODE_STATES
from ansible_collections.knaster.inventory.plugins.plugin_utils._observe.replicas import STATES
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.held_weights import Weights
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.attention import list_attention, read_facts
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.gpus import count_cards, free_blocks
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import natural_key

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Catalog
    from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import Fleet
    from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.gpus import Card
    from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.inputs import Inputs

VERSION = 1


def summarise(inputs: Inputs) -> dict[str, t.Any]:
    """Return the summary of a fleet. Where nothing was observed, what has a place counts as ready."""
    facts = read_facts(inputs)
    fleet, models, observed = inputs.fleet, facts.models, facts.replicas
    short = sum(one.short for one in models.standing)
    states, observed_states = Counter(fleet.states), Counter(one["state"] for one in observed)
    by_drift = {
        state: [name for name, drift in facts.drifts.items() if drift is not None and drift.state == state]
        for state in (STALE, UNKNOWN)
    }
    return {
        "version": VERSION,
        "nodes": {"total": len(fleet.names), **{state: states[state] for state in NODE_STATES}},
        "gpus": count_cards(facts.cards),
        "fabrics": _fabrics(inputs, facts.cards),
        "replicas": {state: observed_states[state] for state in STATES},
        "models": {
            "total": len(models.standing),
            "satisfied": len(models.standing) - short,
            "short": short,
            "on_demand": len(models.on_demand),
            "off": len(models.off),
        },
        "roles": _roles(inputs),
        "unplaceable": [one.name for one in models.standing if one.unplaceable],
        "idle_replicas": facts.idle,
        "stale": by_drift[STALE],
        "unknown": by_drift[UNKNOWN],
        "simulated": models.simulated,
        "attention": list_attention(facts),
    }


def _roles(inputs: Inputs) -> dict[str, int]:
    """Return how many roles want a place, and how many of them have all that they want; the catalog says what is wanted."""
    placed = Counter(one.name for one in placements(inputs.plan) if one.kind == ROLE)
    missing = {one["role"]: one["missing"] for one in inputs.plan.get("unplaced") or () if one.get("role")}
    wanted = {role.name: role.count for role in inputs.catalog.roles}
    wanted |= {name: placed[name] + missing.get(name, 0) for name in (*placed, *missing) if name not in wanted}
    asked = {name: count for name, count in wanted.items() if count}
    satisfied = sum(placed[name] >= count for name, count in asked.items())
    return {"total": len(asked), "satisfied": satisfied, "short": len(asked) - satisfied}


def _fabrics(inputs: Inputs, cards: Sequence[Card]) -> dict[str, t.Any]:
    fleet = inputs.fleet
    whole, by_class = free_blocks(fleet, cards)
    members: dict[str, list[int]] = {}
    for node, names in enumerate(fleet.fabrics):
        for name in names:
            members.setdefault(name, []).append(node)
    present: dict[int, set[str]] = {}
    for model, nodes in _held(fleet, inputs.catalog).items():
        for node in nodes:
            present.setdefault(node, set()).add(model)
    holding = {node for one in fleet.weights for node in one.nodes}
    found = {}
    for name in sorted(members, key=natural_key):
        nodes = members[name]
        on_it = {fleet.names[node] for node in nodes}
        classes = {gpu_class: len(on_it & free) for gpu_class, (on, free) in by_class.items() if on_it & on}
        models: set[str] = set().union(*(present.get(node, set()) for node in nodes))
        found[name] = {
            "nodes": len(nodes),
            "nodes_with_weights": sum(node in holding for node in nodes),
            "models_present": sorted(models, key=natural_key),
            "models_present_count": len(models),
            "largest_free_block": len(on_it & whole),
            "classes": {gpu_class: classes[gpu_class] for gpu_class in sorted(classes, key=natural_key)},
        }
    return found


def _held(fleet: Fleet, catalog: Catalog) -> dict[str, list[int]]:
    """Return the nodes that hold the weights of each model of the catalog; without a catalog, of whatever lies there."""
    if catalog.models:
        weights = Weights(fleet, catalog.models, catalog.engines or BUILTIN_ENGINES)
        return {model.name: found for model in catalog.models if (found := weights.holders(model.name))}
    held: dict[str, list[int]] = {}
    for one in fleet.weights:
        name = one.entry.get("name") or one.entry.get("path")
        if name:
            held.setdefault(str(name), []).extend(one.nodes)
    return held
