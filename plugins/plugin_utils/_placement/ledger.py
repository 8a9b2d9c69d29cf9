# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The books: which GPU is free, who has which, and how much memory each node has left.

GPUs of one shape on nodes that no role tells apart form a ``Lot``. Whether something fits is decided once per lot;
within a lot any free GPU will do, and the order of nodes and indices decides which.
"""

from __future__ import annotations

import typing as t
from bisect import insort
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import (
    EXTERNAL,
    HEALTH_UNKNOWN,
    OF_HOST,
    READY,
    UNHEALTHY,
    UNREACHABLE,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import (
    card_refusal,
    flag_refusal,
    node_refusal,
    shared_mib,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import (
        Cell,
        Fleet,
        Shape,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What a need can ask of a node: its state, its name where some need pins to it, the labels that some need names."""

    state: str
    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lot:
    """GPUs that no need tells apart: one shape, one kind of site, the same flags."""

    shape: Shape
    shape_number: int
    site: Site
    flags: int


class Ledger:
    """The state of a plan in the making. Everything that is taken or given back goes through here."""

    def __init__(self, fleet: Fleet, asks: Iterable[Ask], *, passthrough: bool) -> None:
        self.fleet = fleet
        self.passthrough = passthrough
        self.sites: list[Site] = []
        self.lots: list[Lot] = []
        self.lot_cells: list[list[int]] = []
        self.lot_total: list[int] = []
        self.lot_free: list[int] = []
        self.cell_lot: list[int] = []
        self.cell_free: list[list[int]] = []
        self.cell_node: list[int] = [cell.node for cell in fleet.cells]
        # On bare metal nothing is set apart, but where a GPU and what runs beside it share one memory.
        self.ram_left: list[int | None] = [
            left if passthrough or node in fleet.pools else None for node, left in enumerate(fleet.usable_mib)
        ]
        self.node_site: list[int] = []
        # While this is a list, every change is noted in it so that it can be taken back.
        self.journal: list[tuple[str, int, int]] | None = None
        self._cpu_order: list[int] | None = None
        self._pools: dict[tuple[int, ...], list[int]] = {}
        self._settle(list(asks))
        self.shared_lots = [at for at, lot in enumerate(self.lots) if lot.shape.unified]

    def _settle(self, asks: Sequence[Ask]) -> None:
        pinned = {ask.node for ask in asks if ask.node is not None}
        named = sorted({key for ask in asks for key in ask.selector})
        fleet = self.fleet
        site_numbers: dict[tuple[str, str, tuple[str | None, ...]], int] = {}
        by_labels: dict[int, tuple[str | None, ...]] = {}
        nothing: tuple[str | None, ...] = ()
        for name, state, labels in zip(fleet.names, fleet.states, fleet.labels, strict=True):
            told = nothing
            if named:
                found = by_labels.get(id(labels))
                if found is None:
                    found = by_labels[id(labels)] = tuple(labels.get(key) for key in named)
                told = found
            key = (state, name if name in pinned else "", told)
            number = site_numbers.get(key)
            if number is None:
                number = site_numbers[key] = len(self.sites)
                seen = {label: value for label, value in zip(named, told, strict=False) if value is not None}
                self.sites.append(Site(state=state, name=key[1], labels=seen))
            self.node_site.append(number)
        lot_numbers: dict[tuple[int, int, int], int] = {}
        for at, cell in enumerate(fleet.cells):
            lot_key = (cell.shape, self.node_site[cell.node], cell.flags)
            lot = lot_numbers.get(lot_key)
            if lot is None:
                lot = lot_numbers[lot_key] = len(self.lots)
                site = self.sites[lot_key[1]]
                self.lots.append(
                    Lot(shape=fleet.shapes[cell.shape], shape_number=cell.shape, site=site, flags=cell.flags)
                )
                self.lot_cells.append([])
                self.lot_total.append(0)
            self.lot_cells[lot].append(at)
            self.lot_total[lot] += len(cell.cards)
            self.cell_lot.append(lot)
            self.cell_free.append(cell.cards[::-1])
        self.lot_free = list(self.lot_total)

    def refusal(self, ask: Ask, lot: int) -> str | None:
        """Why nothing of this lot can be had for this ask, before anybody takes a GPU."""
        it = self.lots[lot]
        return (
            node_refusal(ask, name=it.site.name, state=it.site.state, labels=it.site.labels)
            or card_refusal(ask, it.shape)
            or flag_refusal(ask, it.flags)
        )

    def refusal_elsewhere(self, ask: Ask, lot: int) -> str | None:
        """Why nothing of this lot would do even if its nodes were ready.

        That nothing is known of a GPU's health keeps new things off it, and is no reason to take away what it has. Nor is
        a process of the node where what is placed runs on the node itself: it is most likely that.
        """
        it = self.lots[lot]
        flags = it.flags & ~HEALTH_UNKNOWN
        if flags & OF_HOST and not self.passthrough:
            flags &= ~EXTERNAL
        return (
            node_refusal(ask, name=it.site.name, state=READY, labels=it.site.labels)
            or card_refusal(ask, it.shape)
            # A broken GPU may be kept for want of another; one that a stranger has may not, broken or well.
            or flag_refusal(ask, flags & EXTERNAL or flags)
        )

    def site_refusal(self, ask: Ask, node: int) -> str | None:
        """Why nothing new of this ask may go to a node."""
        site = self.sites[self.node_site[node]]
        return node_refusal(ask, name=self.fleet.names[node], state=site.state, labels=site.labels)

    def site_refusal_elsewhere(self, ask: Ask, node: int) -> str | None:
        """Why nothing of this ask would do on a node even if it were ready."""
        site = self.sites[self.node_site[node]]
        return node_refusal(ask, name=self.fleet.names[node], state=READY, labels=site.labels)

    @property
    def cpu_order(self) -> list[int]:
        """Ready nodes in the order in which they get work without GPUs: those without GPUs first, then by size."""
        if self._cpu_order is None:
            fleet = self.fleet
            self._cpu_order = sorted(
                (node for node, state in enumerate(fleet.states) if state == READY),
                key=lambda node: (
                    fleet.card_count[node] != 0,
                    fleet.memory_gb[node] is None,
                    -(fleet.memory_gb[node] or 0),
                    node,
                ),
            )
        return self._cpu_order

    def pool(self, lots: tuple[int, ...]) -> list[int]:
        """The cells of these lots that may have free GPUs, in the order of nodes."""
        cells = self._pools.get(lots)
        if cells is None:
            if len(lots) == 1:
                cells = list(self.lot_cells[lots[0]])
            else:
                cells = sorted(cell for lot in lots for cell in self.lot_cells[lot])
            self._pools[lots] = cells
        return cells

    def shrink_pool(self, lots: tuple[int, ...]) -> None:
        """Forget cells without a free GPU; they come back when a GPU of theirs is given back."""
        self._pools[lots] = [cell for cell in self._pools[lots] if self.cell_free[cell]]

    def take(self, card: int, memory_mib: int = 0) -> None:
        """Take one named GPU, and memory of its node."""
        if self.journal is not None:
            self.journal.append(("take", card, 0))
        cell = self.cell_at(card)
        self.cell_free[cell].remove(card)
        self.lot_free[self.cell_lot[cell]] -= 1
        if memory_mib:
            self.claim(self.fleet.card_node[card], memory_mib)

    def give(self, card: int, memory_mib: int = 0) -> None:
        """Give one GPU back."""
        if self.journal is not None:
            self.journal.append(("give", card, 0))
        cell = self.cell_at(card)
        free = self.cell_free[cell]
        if not free:
            self._pools.clear()
        insort(free, card, key=lambda number: -number)
        self.lot_free[self.cell_lot[cell]] += 1
        if memory_mib:
            self.claim(self.fleet.card_node[card], -memory_mib)

    def cell_at(self, card: int) -> int:
        """The cell of a GPU."""
        fleet = self.fleet
        first, last = fleet.node_cells[fleet.card_node[card]]
        shape, flags = fleet.card_shape[card], fleet.card_flags[card]
        for at in range(first, last):
            cell = fleet.cells[at]
            if cell.shape == shape and cell.flags == flags:
                return at
        raise LookupError(card)

    def has_memory(self, node: int, memory_mib: int) -> bool:
        """Whether a node can still give this much memory; one that does not say how much it has can."""
        left = self.ram_left[node]
        return left is None or left >= memory_mib

    def shared(self, ask: Ask) -> Mapping[int, int]:
        """What an ask takes of the memory of the node, by lot of GPUs that have none of their own."""
        return {lot: shared_mib(ask, self.lots[lot].shape) for lot in self.shared_lots} if self.shared_lots else {}

    def claim(self, node: int, memory_mib: int) -> None:
        """Take memory of a node, or give it back."""
        left = self.ram_left[node]
        if left is not None:
            if self.journal is not None:
                self.journal.append(("claim", node, memory_mib))
            self.ram_left[node] = left - memory_mib

    def take_back(self, mark: int) -> None:
        """Undo what the journal has noted since it had this length."""
        journal, self.journal = self.journal or [], None
        for what, number, memory_mib in reversed(journal[mark:]):
            if what == "take":
                self.give(number)
            elif what == "give":
                self.take(number)
            else:
                self.claim(number, -memory_mib)
        self.journal = journal[:mark]

    def cell_state(self, cell: Cell) -> str:
        """The one state of the GPUs of a cell that nobody of ours has."""
        if cell.flags & EXTERNAL:
            return "external"
        if cell.flags & UNHEALTHY:
            return "unhealthy"
        fleet, shape = self.fleet, self.fleet.shapes[cell.shape]
        is_part = shape.mig or (shape.virtual and self.passthrough)
        if cell.flags & HEALTH_UNKNOWN or fleet.states[cell.node] == UNREACHABLE or is_part:
            return "unknown"
        return "free"
