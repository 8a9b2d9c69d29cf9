# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The GPUs of a fleet, each in one state: from the ledger of the plan, with their class from the profiles."""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import (
    READY,
    UNHEALTHY,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.ledger import Ledger
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.inputs import CARD_STATES
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import natural_key

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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
    """Every GPU of the ledger; of a plan without a ledger, every GPU of the profiles."""
    rows = plan.get("ledger")
    if rows is None:
        rows = _rows_without_ledger(fleet, plan)
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
    for one in plan.get("assignments") or ():
        if one.get("gpu_index") is not None:
            yield one["node"], one["gpu_index"], one.get("gpu") or {}
    for one in plan.get("replicas") or ():
        for shard in one["shards"]:
            gpus = shard.get("gpus") or []
            for at, index in enumerate(shard["gpu_indices"]):
                yield shard["node"], index, gpus[at] if at < len(gpus) else {}


def _owners(plan: Mapping[str, t.Any]) -> dict[tuple[str, int], str]:
    found: dict[tuple[str, int], str] = {}
    for one in plan.get("assignments") or ():
        if one.get("gpu_index") is not None:
            key, label = (one["node"], one["gpu_index"]), f"{one['role']}/{one['replica']}"
            found[key] = f"{found[key]}, {label}" if key in found else label
    for one in plan.get("replicas") or ():
        for shard in one["shards"]:
            for index in shard["gpu_indices"]:
                found.setdefault((shard["node"], index), f"{one['model']}/{one['replica']}")
    return found


def _rows_without_ledger(fleet: Fleet, plan: Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """The ledger of a plan that was written by hand, by the same rules."""
    ledger, owners = Ledger(fleet, (), passthrough=True), _owners(plan)
    states: dict[int, str] = {}
    for part in fleet.node_pools:
        states.update(dict.fromkeys(part.gpus, ledger.idle_state(part)))
    rows = []
    for card, (node, index) in enumerate(zip(fleet.gpu_node, fleet.gpu_index, strict=True)):
        key = (fleet.names[node], index)
        row: dict[str, t.Any] = {"node": key[0], "gpu_index": index, "state": states[card]}
        if key in owners:
            row |= {"state": USED, "by": owners.pop(key)}
            if fleet.gpu_flags[card] & UNHEALTHY:
                row["healthy"] = False
        elif row["state"] == "external":
            row["by"] = fleet.holders.get(card)
        rows.append(row)
    rows += [{"node": node, "gpu_index": index, "state": USED, "by": by} for (node, index), by in owners.items()]
    return rows
