# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Roles, one replica a GPU: in order of priority, by preference, then the rescue, then the CPU."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.search import (
    MAX_CHAINS,
    Hop,
    apply_chain,
    apply_move,
    augment,
    find_chain,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Role
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import Ask
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.held_weights import Weights
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.ledger import (
        Ledger,
        Lot,
    )

LARGEST = "largest"


NO_CARD, UNSEEN_CARD = -1, -2


@dataclass(slots=True, kw_only=True, eq=False)
class Seat:
    """One replica of a role and where it is.

    On the CPU ``card`` is ``NO_CARD``; on a node that does not show its GPUs now it is ``UNSEEN_CARD``, and ``unseen``
    is what the last plan says of the GPU. ``memory_mib`` is what the machine has claimed of its node. ``unit`` is the
    turn of the group that shares the GPU.
    """

    turn: int
    replica: int
    node: int
    card: int = NO_CARD
    lot: int = -1
    memory_mib: int = 0
    unseen: Mapping[str, t.Any] | None = None
    risk: str | None = None
    unit: Turn | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Turn:
    """A role when its turn comes: what it asks, in which order it tries what fits, and what it got."""

    number: int
    role: Role
    ask: Ask
    memory_mib: int
    shared: Mapping[int, int] = field(default_factory=dict)
    groups: tuple[tuple[int, ...], ...] = ()
    lots: tuple[int, ...] = ()
    seats: list[Seat] = field(default_factory=list)
    bound_hit: bool = False
    members: tuple[Turn, ...] = ()
    numbers: Sequence[int] = ()
    barred: set[int] = field(default_factory=set)
    reached: tuple[int, ...] = ()

    def need(self, lot: int) -> int:
        """What a replica on a GPU of this lot takes of the memory of its node."""
        return self.memory_mib + self.shared.get(lot, 0)

    def claimed(self, seat: Seat) -> int:
        """What one of its replicas has taken of the memory of its node."""
        return seat.memory_mib + self.shared.get(seat.lot, 0)

    @property
    def missing(self) -> int:
        """How many replicas have no place."""
        return 0 if self.members else max(0, len(self.numbers) - len(self.seats))


def turn_order(roles: Iterable[Role]) -> list[Role]:
    """Roles in the order in which they are placed."""
    return sorted(roles, key=lambda role: (role.priority, role.name))


def preference(role: Role, lot: Lot) -> tuple[float, tuple[int, int]]:
    """The sort key of a lot for a role: the smaller, the better."""
    size, cap = lot.shape.memory_gb, lot.shape.compute_cap
    if role.prefer == LARGEST:
        major, minor = cap or (0, 0)
        return (-size if size is not None else 0.0, (-major, -minor))
    return (size if size is not None else float("inf"), cap or (0, 0))


def make_turn(number: int, role: Role, ask: Ask, memory_mib: int, ledger: Ledger) -> Turn:
    """A role with the lots that fit it, grouped in order of preference."""
    turn = Turn(number=number, role=role, ask=ask, memory_mib=memory_mib, numbers=range(role.count))
    if not role.needs.gpu:
        return turn
    turn.shared = ledger.shared(ask)
    groups: dict[tuple[float, tuple[int, int]], list[int]] = {}
    for at, lot in enumerate(ledger.lots):
        if ledger.refusal(ask, at) is None:
            groups.setdefault(preference(role, lot), []).append(at)
    turn.groups = tuple(tuple(groups[key]) for key in sorted(groups))
    turn.lots = tuple(lot for group in turn.groups for lot in group)
    return turn


class RolePlacer:
    """Places roles on one ledger, and remembers who sits where so that a rescue can move them."""

    def __init__(
        self, ledger: Ledger, turns: Sequence[Turn], weights: Weights, *, rescue: bool = True, preempt: bool = False
    ) -> None:
        self.ledger = ledger
        self.turns = turns
        self.weights = weights
        self.rescue = rescue
        self.preempt = preempt
        self.evicted: list[Seat] = []
        # Who may be moved, by lot and role; and who may not.
        self.on: list[dict[int, list[Seat]]] = [{} for _lot in ledger.lots]
        self.fixed: dict[int, dict[int, list[Seat]]] = {}
        self.dead: set[int] = set()
        self.moved = 0
        # Cells that are to be emptied: nobody moves there, and their occupants are not part of a chain.
        self.avoid: frozenset[int] = frozenset()
        self.moves: list[tuple[Seat, int, int, int, int]] | None = None
        self.claims_memory = any(turn.memory_mib or turn.shared for turn in turns)

    def place(self, turn: Turn) -> None:
        """Fill what a role still wants: free GPUs first, then a rescue, then the CPU."""
        self.fill(turn, free_numbers(turn))
        if self.preempt and turn.role.needs.gpu:
            self._preempt(turn, free_numbers(turn))
        turn.seats.sort(key=lambda seat: seat.replica)
        for member in turn.members:
            member.barred.update(seat.replica for seat in turn.seats)

    def fill(self, turn: Turn, numbers: list[int]) -> None:
        """Give places to these replicas as far as there are any."""
        if turn.role.needs.gpu:
            for group in turn.groups:
                if not numbers:
                    break
                self._fill(turn, group, numbers)
            while numbers and self.rescue and augment(self, turn, numbers):
                continue
        if numbers and (turn.role.cpu_fallback or not turn.role.needs.gpu):
            self._fill_cpu(turn, numbers)

    def _preempt(self, turn: Turn, numbers: list[int]) -> None:
        """Take GPUs of roles that come later by priority, the last of them first."""
        while numbers:
            self.dead.clear()
            _none, reached = find_chain(self, turn)
            victims = [
                number
                for lot in reached
                for number, seats in self.on[lot].items()
                if seats and self.turns[number].role.priority > turn.role.priority
            ]
            if not victims:
                return
            victim = self.turns[max(victims)]
            chain, _reached = find_chain(self, turn, goal=victim.number)
            if chain is None:
                return
            seat = self.on[chain.end][victim.number].pop()
            victim.seats.remove(seat)
            claimed = victim.claimed(seat)
            self.ledger.give(seat.card, claimed)
            if apply_chain(self, turn, numbers, chain) is not None:
                self.ledger.take(seat.card, claimed)
                self.on[seat.lot][victim.number].append(seat)
                victim.seats.append(seat)
                return
            self.evicted.append(seat)

    def sit(self, turn: Turn, replica: int, card: int, lot: int) -> Seat:
        """Note a replica on a GPU that the ledger has already given out."""
        node = self.ledger.fleet.card_node[card]
        seat = Seat(turn=turn.number, replica=replica, node=node, card=card, lot=lot, memory_mib=turn.memory_mib)
        turn.seats.append(seat)
        self.on[lot].setdefault(turn.number, []).append(seat)
        return seat

    def reseat(self, turn: Turn, seat: Seat, card: int, lot: int) -> None:
        """Move a replica to a GPU that the ledger has already given out; the GPU it leaves stays given out."""
        ledger = self.ledger
        old_memory, before, after = seat.memory_mib, turn.claimed(seat), turn.need(lot)
        if before or after:
            ledger.claim(seat.node, -before)
            ledger.claim(ledger.fleet.card_node[card], after)
            seat.memory_mib = turn.memory_mib
        if self.moves is not None:
            self.moves.append((seat, seat.card, seat.lot, seat.node, old_memory))
        stack = self.on[seat.lot][turn.number]
        if stack[-1] is seat:
            stack.pop()
        else:
            stack.remove(seat)
        seat.card, seat.lot, seat.node = card, lot, ledger.fleet.card_node[card]
        self.on[lot].setdefault(turn.number, []).append(seat)
        self.moved += 1

    def move_back(self, mark: int) -> None:
        """Undo the moves noted since there were this many; the ledger takes back its own part."""
        moves, self.moves = self.moves or [], None
        for seat, card, lot, node, memory_mib in reversed(moves[mark:]):
            self.on[seat.lot][seat.turn].remove(seat)
            seat.card, seat.lot, seat.node, seat.memory_mib = card, lot, node, memory_mib
            self.on[lot].setdefault(seat.turn, []).append(seat)
        self.moves = moves[:mark]

    def move_off(self, seat: Seat) -> bool:
        """Move a replica off its cell, if need be along a chain; the GPU it leaves is given back."""
        turn = self.turns[seat.turn]
        card = seat.card
        banned: set[Hop] = set()
        for _unused in range(MAX_CHAINS):
            chain, _reached = find_chain(self, turn, banned)
            if chain is None:
                return False
            failed = apply_move(self, seat, chain)
            if failed is None:
                self.ledger.give(card)
                return True
            banned.add(failed)
        return False

    def pick(self, turn: Turn, lot: int, wanted: int) -> list[int]:
        """The free GPUs of a lot that a role prefers, on nodes with the memory for them."""
        ledger = self.ledger
        cards: list[int] = []
        for cell in self.cells_in_order(turn, (lot,)):
            free = ledger.cell_free[cell]
            if free and cell not in self.avoid:
                room = self._room(turn, ledger.cell_node[cell], lot, min(len(free), wanted - len(cards)))
                cards.extend(free[: -room - 1 : -1])
                if len(cards) >= wanted:
                    break
        return cards

    def cells_in_order(self, turn: Turn, lots: tuple[int, ...]) -> Iterable[int]:
        """The cells of equally preferred lots: nodes that hold the weights first, then the order of nodes."""
        cells = self.ledger.pool(lots)
        masks = {lot: self.weights.mask(turn.role, self.ledger.lots[lot].shape_number) for lot in lots}
        if not any(masks.values()):
            return cells
        cell_lot, cell_node = self.ledger.cell_lot, self.ledger.cell_node
        if len(lots) == 1:
            mask = masks[lots[0]] or b""
            held = [cell for cell in cells if mask[cell_node[cell]]]
            rest = [cell for cell in cells if not mask[cell_node[cell]]] if len(held) < len(cells) else []
        else:
            is_held = {lot: mask or b"" for lot, mask in masks.items()}
            flags = [bool(is_held[cell_lot[cell]]) and bool(is_held[cell_lot[cell]][cell_node[cell]]) for cell in cells]
            held = [cell for cell, flag in zip(cells, flags, strict=True) if flag]
            rest = [cell for cell, flag in zip(cells, flags, strict=True) if not flag]
        return held + rest if held else cells

    def _fill(self, turn: Turn, lots: tuple[int, ...], numbers: list[int]) -> None:
        ledger = self.ledger
        if not any(ledger.lot_free[lot] for lot in lots):
            return
        cell_free, cell_node, cell_lot = ledger.cell_free, ledger.cell_node, ledger.cell_lot
        mixed = len(lots) > 1
        empty = 0
        bundle: list[int] = []
        for cell in self.cells_in_order(turn, lots):
            if not cell_free[cell]:
                empty += 1
                continue
            if mixed:
                if bundle and cell_node[bundle[0]] == cell_node[cell]:
                    bundle.append(cell)
                    continue
                self._take_from(turn, bundle, numbers)
                bundle = [cell]
            else:
                self._take_run(turn, cell, cell_lot[cell], numbers)
            if not numbers:
                break
        if bundle and numbers:
            self._take_from(turn, bundle, numbers)
        if empty * 2 > len(ledger.pool(lots)):
            ledger.shrink_pool(lots)

    def _room(self, turn: Turn, node: int, lot: int, wanted: int) -> int:
        """How many on GPUs of a lot the memory of a node allows."""
        left, need = self.ledger.ram_left[node], turn.need(lot)
        if not need or left is None:
            return wanted
        return max(0, min(wanted, left // need))

    def _take_run(self, turn: Turn, cell: int, lot: int, numbers: list[int]) -> None:
        ledger = self.ledger
        free = ledger.cell_free[cell]
        node = ledger.cell_node[cell]
        wanted = min(len(free), len(numbers))
        need = turn.need(lot)
        if need:
            wanted = self._room(turn, node, lot, wanted)
            if wanted <= 0:
                return
            ledger.claim(node, wanted * need)
        seats, number, memory = turn.seats, turn.number, turn.memory_mib
        on = self.on[lot].setdefault(number, [])
        for _unused in range(wanted):
            seat = Seat(turn=number, replica=numbers.pop(), node=node, card=free.pop(), lot=lot, memory_mib=memory)
            seats.append(seat)
            on.append(seat)
        ledger.lot_free[lot] -= wanted

    def _take_from(self, turn: Turn, cells: list[int], numbers: list[int]) -> None:
        """Take from several cells of one node in the order of GPU indices."""
        ledger = self.ledger
        if len(cells) == 1:
            self._take_run(turn, cells[0], ledger.cell_lot[cells[0]], numbers)
            return
        node = ledger.cell_node[cells[0]] if cells else -1
        for _unused in range(sum(len(ledger.cell_free[cell]) for cell in cells)):
            able = [
                cell for cell in cells if ledger.cell_free[cell] and self._room(turn, node, ledger.cell_lot[cell], 1)
            ]
            if not numbers or not able:
                return
            cell = min(able, key=lambda cell: ledger.cell_free[cell][-1])
            card = ledger.cell_free[cell].pop()
            lot = ledger.cell_lot[cell]
            ledger.lot_free[lot] -= 1
            need = turn.need(lot)
            if need:
                ledger.claim(node, need)
            self.sit(turn, numbers.pop(), card, lot)

    def cpu_nodes(self, turn: Turn) -> list[int]:
        """Where a role may run without a GPU, in order: nodes without GPUs by size, then others where admitted."""
        count, admitted = self.ledger.fleet.card_count, turn.role.needs.gpu_nodes
        return [
            node
            for node in self.ledger.cpu_order
            if (count[node] == 0 or (admitted and count[node])) and self.ledger.site_refusal(turn.ask, node) is None
        ]

    def _fill_cpu(self, turn: Turn, numbers: list[int]) -> None:
        """Spread first: a node takes a second replica only when every node that can has one."""
        ledger = self.ledger
        held: dict[int, int] = {}
        for seat in turn.seats:
            if seat.card == NO_CARD:
                held[seat.node] = held.get(seat.node, 0) + 1
        nodes = [node for node in self.cpu_nodes(turn) if ledger.has_memory(node, turn.memory_mib)]
        level = min((held.get(node, 0) for node in nodes), default=0)
        while numbers and nodes:
            left = []
            for node in nodes:
                if not ledger.has_memory(node, turn.memory_mib):
                    continue
                left.append(node)
                if numbers and held.get(node, 0) <= level:
                    ledger.claim(node, turn.memory_mib)
                    held[node] = held.get(node, 0) + 1
                    turn.seats.append(
                        Seat(turn=turn.number, replica=numbers.pop(), node=node, memory_mib=turn.memory_mib)
                    )
            nodes = left
            level += 1


def free_numbers(turn: Turn) -> list[int]:
    """The replica numbers that nobody sits on yet, the lowest last so that it is popped first."""
    used = {seat.replica for seat in turn.seats} | turn.barred
    return [number for number in reversed(turn.numbers) if number not in used]
