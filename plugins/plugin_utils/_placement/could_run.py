# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Which nodes of a fleet could run what a catalog describes, asked of the same predicate that plans.

Nobody else is on the GPUs here: this is what hardware and rules allow, not what is free.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import (
    READY,
    read_nodes,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fill import (
    Filler,
    members_of_fabrics,
    settle_candidate,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import models_fitting
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.held_weights import Weights
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.ledger import Ledger
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import Options, request_of_model

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Catalog
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Names of nodes in natural order: by model those with a GPU that it fits, by profile those that could run it."""

    models: dict[str, list[str]]
    profiles: dict[tuple[str, str], list[str]]


def find_places(catalog: Catalog, nodes: Sequence[t.Any], *, passthrough: bool = True) -> Where:
    """Return for every model and every profile of a catalog where it could run."""
    fleet = read_nodes(nodes)
    options = Options(engines=catalog.engines, passthrough=passthrough)
    candidates = [
        candidate for model in catalog.models for candidate in request_of_model(model, options, wanted=0).candidates
    ]
    ledger = Ledger(fleet, [candidate.ask for candidate in candidates], passthrough=passthrough)
    filler = Filler(ledger, Weights(fleet, catalog.models, catalog.engines))
    profiles: dict[tuple[str, str], list[str]] = {}
    for candidate in candidates:
        settle_candidate(candidate, ledger)
        found = _nodes_of(filler, candidate)
        if candidate.profile is not None:
            key = (candidate.request.name, candidate.profile.name)
            profiles[key] = [fleet.names[node] for node in sorted(found)]
    fitting = [
        frozenset(models_fitting(catalog.models, shape, engine=None, kind=None, engines=catalog.engines))
        for shape in fleet.shapes
    ]
    models: dict[str, list[str]] = {model.name: [] for model in catalog.models}
    for node, name in enumerate(fleet.names):
        first, last = fleet.node_span[node]
        shapes = {part.shape for part in fleet.node_pools[first:last]}
        if fleet.states[node] == READY:
            for fit in frozenset[str]().union(*(fitting[shape] for shape in shapes)):
                models[fit].append(name)
    return Where(models=models, profiles=profiles)


def _nodes_of(filler: Filler, candidate: Candidate) -> set[int]:
    """Return the nodes on which a shard could lie, of a replica that is whole on one fabric."""
    ledger = filler.ledger
    able = {
        node
        for node in _nodes_with_gpus(ledger, candidate)
        if ledger.has_memory(node, candidate.memory_mib) and filler.has_disk(candidate, node)
    }
    if candidate.nodes == 1:
        return able
    members = [able.intersection(nodes) for nodes in members_of_fabrics(ledger, candidate).values()]
    return set().union(*(nodes for nodes in members if len(nodes) >= candidate.nodes))


def _nodes_with_gpus(ledger: Ledger, candidate: Candidate) -> list[int]:
    if not candidate.gpus:
        return ledger.cpu_nodes(candidate)
    return [node for node, parts in candidate.node_parts.items() if ledger.choose_gpus(parts, candidate.gpus)]
