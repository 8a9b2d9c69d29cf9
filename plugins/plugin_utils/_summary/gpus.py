# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The GPUs of a fleet, each in one state: from the ledger of the plan, with their class from the profiles."""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.engines import BUILTIN_ENGINES
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.placements import placements
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import READY, UNHEALTHY
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import models_fitting
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.ledger import Ledger
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.inputs import CARD_STATES
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import natural_key

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Catalog
    from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import Fleet

FREE, USED = "free", "used"
UNKNOWN_CLASS = "unknown"

# The class of a GPU, and whether it is broken.
_Look = tuple[str, bool]


class Card(t.NamedTuple):
    """A GPU and its one state; ``by`` is who has it, and ``broken`` is that its own health says so."""

    node: str
    gpu_index: int
    gpu_class: str
    state: str
    by: str | None
    broken: bool


def list_cards(fleet: Fleet, plan: Mapping[str, t.Any]) -> list[Card]:
    """Return every GPU of the plan's ledger; without a plan, every GPU of the profiles."""
    rows = plan["ledger"] if plan else _rows_without_plan(fleet)
    known = _Known(fleet, plan)
    found = []
    for row in rows:
        gpu_class, broken = known.of(row)
        state, by = row["state"], row.get("by")
        found.append(
            Card(
                node=row["node"],
                gpu_index=row["gpu_index"],
                gpu_class=gpu_class,
                state=state,
                by=None if by is None else str(by),
                broken=broken or state == "unhealthy" or row.get("healthy") is False,
            )
        )
    return found


def count_cards(cards: Sequence[Card]) -> dict[str, dict[str, int]]:
    """How many GPUs of each class are in which state; the total is the sum of the states."""
    found: dict[str, dict[str, int]] = {}
    for card in cards:
        counts = found.get(card.gpu_class)
        if counts is None:
            counts = found[card.gpu_class] = {"total": 0, **dict.fromkeys(CARD_STATES, 0)}
        counts["total"] += 1
        counts[card.state] += 1
    return {name: found[name] for name in sorted(found, key=natural_key)}


def free_blocks(fleet: Fleet, cards: Iterable[Card]) -> tuple[set[str], dict[str, tuple[set[str], set[str]]]]:
    """The ready nodes with every GPU free; and for each class the nodes that have it, and those of them that are
    ready with every GPU of that class free.
    """
    ready = {name for name, state in zip(fleet.names, fleet.states, strict=True) if state == READY}
    has: dict[str, set[str]] = {}
    taken: dict[str, set[str]] = {}
    for card in cards:
        has.setdefault(card.gpu_class, set()).add(card.node)
        if card.state != FREE:
            taken.setdefault(card.gpu_class, set()).add(card.node)
    by_class = {name: (nodes, (nodes & ready) - taken.get(name, set())) for name, nodes in has.items()}
    whole = (set[str]().union(*has.values()) & ready) - set[str]().union(*taken.values())
    return whole, by_class


def list_fitting(fleet: Fleet, catalog: Catalog) -> dict[tuple[str, int], tuple[str, ...]]:
    """Return the models of a catalog that fit each GPU, by node and index; GPUs that are alike share one list."""
    engines = catalog.engines or BUILTIN_ENGINES
    fits = [
        tuple(models_fitting(catalog.models, shape, engine=None, kind=None, engines=engines)) for shape in fleet.shapes
    ]
    return {
        (fleet.names[node], index): fits[shape]
        for node, index, shape in zip(fleet.gpu_node, fleet.gpu_index, fleet.gpu_shape, strict=True)
    }


class _Known:
    """What is known of a GPU: by its uuid or address where both sides know it, else by its index."""

    def __init__(self, fleet: Fleet, plan: Mapping[str, t.Any]) -> None:
        self._by_index: dict[tuple[str, int], tuple[str | None, _Look]] = {}
        self._by_identity: dict[tuple[str, str], _Look] = {}
        for node, index, shape, flags, uuid, address in zip(
            fleet.gpu_node,
            fleet.gpu_index,
            fleet.gpu_shape,
            fleet.gpu_flags,
            fleet.gpu_uuid,
            fleet.gpu_pci,
            strict=True,
        ):
            look = (fleet.shapes[shape].gpu_class or UNKNOWN_CLASS, bool(flags & UNHEALTHY))
            self._add(fleet.names[node], index, uuid, address, look)
        # A node that shows no GPUs now may still have some in the plan.
        for node_name, index, gpu in _planned_gpus(plan):
            told = {key: value for key, value in gpu.items() if isinstance(value, str)}
            look = (told.get("gpu_class", UNKNOWN_CLASS), False)
            self._add(node_name, index, told.get("uuid"), told.get("pci_address"), look)

    def _add(self, node: str, index: int, uuid: str | None, address: str | None, look: _Look) -> None:
        self._by_index.setdefault((node, index), (uuid, look))
        for identity in (uuid, address):
            if identity:
                self._by_identity.setdefault((node, identity), look)

    def of(self, row: Mapping[str, t.Any]) -> _Look:
        """Its class, and whether its profile says that it is broken."""
        node, uuid, address = row["node"], row.get("uuid"), row.get("pci_address")
        there = self._by_index.get((node, row["gpu_index"]))
        if there is not None and (uuid is None or there[0] is None or there[0] == uuid):
            return there[1]
        for identity in (uuid, address):
            known = self._by_identity.get((node, identity)) if isinstance(identity, str) else None
            if known is not None:
                return known
        return UNKNOWN_CLASS, False


def _planned_gpus(plan: Mapping[str, t.Any]) -> Iterable[tuple[str, int, Mapping[str, t.Any]]]:
    for one in placements(plan):
        for part in one.parts:
            for index, gpu in zip(part.gpu_indices, part.gpus, strict=False):
                yield part.node, index, gpu


def _rows_without_plan(fleet: Fleet) -> list[dict[str, t.Any]]:
    """Return the ledger of a fleet on which nothing is planned, by the rules of the planner."""
    ledger = Ledger(fleet, (), passthrough=True)
    states: dict[int, str] = {}
    for part in fleet.node_pools:
        states.update(dict.fromkeys(part.gpus, ledger.idle_state(part)))
    return [
        {"node": fleet.names[node], "gpu_index": index, "state": states[card], "by": fleet.holders.get(card)}
        for card, (node, index) in enumerate(zip(fleet.gpu_node, fleet.gpu_index, strict=True))
    ]
