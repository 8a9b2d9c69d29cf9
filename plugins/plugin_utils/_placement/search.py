# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The rescue: a replica without a GPU may move others to GPUs that suit them as well.

Breadth first over lots, never over single GPUs: from the lots that the replica could use, along the roles that sit
there to the lots that those could use, until one has a free GPU. The shortest chain is applied. When there is none,
the lots that were reached are closed: everybody on them can only move among them. That set is the proof that nothing
but more GPUs, fewer wants or a smaller need can help, and nothing ever enters it again.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

if t.TYPE_CHECKING:
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.roles import (
        RolePlacer,
        Seat,
        Turn,
    )

# How many chains are tried, and how many occupants of a lot are looked at, where memory of nodes makes some impossible.
MAX_CHAINS = 16
MAX_OCCUPANTS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One step of a chain, from its free end: a role moves to ``to`` and leaves a GPU of ``leaves``."""

    turn: int
    leaves: int
    to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """From a lot with a free GPU, role by role, to the lot that the replica in want gets."""

    end: int
    hops: tuple[Hop, ...]


def augment(placer: RolePlacer, turn: Turn, numbers: list[int]) -> bool:
    """Seat as many replicas of a role as one chain allows; returns whether any was."""
    banned: set[Hop] = set()
    for _unused in range(MAX_CHAINS):
        found, reached = find_chain(placer, turn, banned)
        if found is None:
            turn.reached = reached
            if not placer.claims_memory:
                placer.dead.update(reached)
            return False
        failed = apply_chain(placer, turn, numbers, found)
        if failed is None:
            return True
        banned.add(failed)
    turn.bound_hit = True
    return False


def find_chain(
    placer: RolePlacer, turn: Turn, banned: t.Collection[Hop] = (), *, goal: int | None = None
) -> tuple[Chain | None, tuple[int, ...]]:
    """The shortest chain to a free GPU, and the lots that were reached on the way.

    Among equals the mover's preferred target comes first, then the later role. With ``goal`` the chain ends at a GPU
    of that role.
    """
    ledger, dead = placer.ledger, placer.dead
    came: dict[int, Hop | None] = {lot: None for lot in turn.lots if lot not in dead}
    queue = list(came)
    for lot in queue:
        hop = came[lot]
        if goal is not None:
            is_end = bool(placer.on[lot].get(goal))
        else:
            mover = turn if hop is None else placer.turns[hop.turn]
            is_end = bool(ledger.lot_free[lot]) and _has_room(placer, mover, lot)
        if is_end:
            hops: list[Hop] = []
            while hop is not None:
                hops.append(hop)
                hop = came[hop.leaves]
            return Chain(end=lot, hops=tuple(hops)), tuple(queue)
        for number in sorted(placer.on[lot], reverse=True):
            if not placer.on[lot][number]:
                continue
            for target in placer.turns[number].lots:
                if target not in came and target not in dead:
                    step = Hop(turn=number, leaves=lot, to=target)
                    if step not in banned:
                        came[target] = step
                        queue.append(target)
    return None, tuple(queue)


def _has_room(placer: RolePlacer, turn: Turn, lot: int) -> bool:
    """Whether a free GPU of the lot is on a node with enough memory for this role."""
    need = turn.need(lot)
    if not need and not placer.avoid:
        return True
    ledger, avoid = placer.ledger, placer.avoid
    return any(
        ledger.cell_free[cell] and cell not in avoid and ledger.has_memory(ledger.cell_node[cell], need)
        for cell in ledger.pool((lot,))
    )


def apply_chain(placer: RolePlacer, turn: Turn, numbers: list[int], chain: Chain) -> Hop | None:
    """Walk the chain from its free end, as often as every lot on it allows.

    Returns ``None`` when somebody was seated, else the hop that memory made impossible.
    """
    ledger = placer.ledger
    movers = [*(placer.turns[hop.turn] for hop in chain.hops), turn]
    occupied = (len(placer.on[hop.leaves][hop.turn]) for hop in chain.hops)
    wanted = min(len(numbers), ledger.lot_free[chain.end], *occupied)
    done = False
    for first in placer.pick(movers[0], chain.end, wanted):
        seats = _rehearse(placer, movers, chain, first)
        if isinstance(seats, Hop):
            return None if done else seats
        ledger.take(first)
        card, lot = first, chain.end
        for mover, hop, seat in zip(movers, chain.hops, seats, strict=False):
            left = seat.card
            placer.reseat(mover, seat, card, lot)
            card, lot = left, hop.leaves
        ledger.claim(ledger.fleet.card_node[card], turn.need(lot))
        placer.sit(turn, numbers.pop(), card, lot)
        done = True
    return None if done else Hop(turn=movers[0].number, leaves=chain.hops[0].leaves if chain.hops else -1, to=chain.end)


def apply_move(placer: RolePlacer, moved: Seat, chain: Chain) -> Hop | None:
    """Walk the chain once, for a replica that has a GPU and leaves it; returns the hop that memory made impossible."""
    ledger = placer.ledger
    turn = placer.turns[moved.turn]
    movers = [*(placer.turns[hop.turn] for hop in chain.hops), turn]
    first = placer.pick(movers[0], chain.end, 1)
    steps = _rehearse(placer, movers, chain, first[0]) if first else None
    if steps is None or isinstance(steps, Hop):
        return steps or Hop(turn=movers[0].number, leaves=chain.hops[0].leaves if chain.hops else -1, to=chain.end)
    ledger.take(first[0])
    card, lot = first[0], chain.end
    for mover, hop, seat in zip(movers, chain.hops, steps, strict=False):
        left = seat.card
        placer.reseat(mover, seat, card, lot)
        card, lot = left, hop.leaves
    placer.reseat(turn, moved, card, lot)
    return None


def _rehearse(placer: RolePlacer, movers: list[Turn], chain: Chain, first: int) -> list[Seat] | Hop:
    """Who moves, one for each hop: the last seated whose node has memory for who comes after."""
    ledger = placer.ledger
    spent: dict[int, int] = {ledger.fleet.card_node[first]: movers[0].need(chain.end)}
    seats: list[Seat] = []
    for at, hop in enumerate(chain.hops):
        coming = movers[at + 1]
        for seat in reversed(placer.on[hop.leaves][hop.turn][-MAX_OCCUPANTS:]):
            if placer.avoid and ledger.cell_at(seat.card) in placer.avoid:
                continue
            leaving = placer.turns[hop.turn].claimed(seat)
            needed = spent.get(seat.node, 0) - leaving + coming.need(hop.leaves)
            if needed <= 0 or ledger.has_memory(seat.node, needed):
                spent[seat.node] = needed
                seats.append(seat)
                break
        else:
            return hop
    return seats
