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
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import (
    ask_of_profile,
    models_fitting,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.held_weights import Weights
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.ledger import Ledger
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import profile_memory_mib
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.replicas import (
    ReplicaPlacer,
    Want,
    Way,
    choose_cards,
    settle_way,
)

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Names of nodes in natural order: by model those with a GPU that it fits, by profile those that could run it."""

    models: dict[str, list[str]]
    profiles: dict[tuple[str, str], list[str]]


def find_places(catalog: Catalog, nodes: Sequence[t.Any], *, passthrough: bool = True) -> Where:
    """Ask for every model and every profile of a catalog where it could run."""
    fleet = read_nodes(nodes)
    wants = []
    for number, model in enumerate(catalog.models):
        ways = tuple(
            Way(
                profile=profile,
                ask=ask_of_profile(model, profile, catalog.engines, passthrough=passthrough),
                memory_mib=profile_memory_mib(profile),
            )
            for profile in model.profiles
        )
        wants.append(Want(number=number, model=model, ways=ways))
    ledger = Ledger(fleet, [way.ask for want in wants for way in want.ways], passthrough=passthrough)
    placer = ReplicaPlacer(ledger, Weights(fleet, catalog.models, catalog.engines))
    profiles: dict[tuple[str, str], list[str]] = {}
    for want in wants:
        for way in want.ways:
            settle_way(way, ledger)
            found = _nodes_of(placer, want, way)
            profiles[want.model.name, way.profile.name] = [fleet.names[node] for node in sorted(found)]
    fitting = [
        frozenset(models_fitting(catalog.models, shape, engine=None, kind=None, engines=catalog.engines))
        for shape in fleet.shapes
    ]
    models: dict[str, list[str]] = {model.name: [] for model in catalog.models}
    for node, name in enumerate(fleet.names):
        first, last = fleet.node_cells[node]
        shapes = {fleet.cells[cell].shape for cell in range(first, last)}
        if fleet.states[node] == READY:
            for fit in frozenset[str]().union(*(fitting[shape] for shape in shapes)):
                models[fit].append(name)
    return Where(models=models, profiles=profiles)


def _nodes_of(placer: ReplicaPlacer, want: Want, way: Way) -> set[int]:
    """Return the nodes on which a shard could lie, of a replica that is whole on one fabric."""
    ledger, fleet, profile = placer.ledger, placer.ledger.fleet, way.profile
    able = {
        node
        for node in _nodes_with_cards(ledger, way)
        if ledger.has_memory(node, way.memory_mib) and placer.has_disk(want, way, node)
    }
    if profile.nodes == 1:
        return able
    members: dict[str, set[int]] = {}
    for node in able:
        for fabric in fleet.fabrics[node]:
            members.setdefault(fabric, set()).add(node)
    return set().union(*(nodes for nodes in members.values() if len(nodes) >= profile.nodes))


def _nodes_with_cards(ledger: Ledger, way: Way) -> list[int]:
    if way.profile.gpu_class is None:
        return [
            node
            for node in ledger.cpu_order
            if ledger.fleet.card_count[node] == 0 and ledger.site_refusal(way.ask, node) is None
        ]
    wanted = way.profile.gpus_per_node
    return [node for node, cells in way.node_cells.items() if choose_cards(ledger, cells, wanted)]
