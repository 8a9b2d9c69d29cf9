# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Fragmentation: small things scattered so that no node has enough free GPUs together are moved out of the way.

To place several GPUs at once as well as possible is a hard problem; this is a bounded search that never costs anybody a
place. It looks at the nodes that lack the fewest GPUs first, moves what sits there to GPUs that suit it as well, and
takes everything back where that is not enough.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.replicas import (
    Replica,
    Shard,
    choose_cards,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.search import find_chain

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.replicas import (
        ReplicaPlacer,
        Want,
        Way,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.roles import (
        RolePlacer,
        Seat,
    )

# How many nodes (or sets of nodes on one fabric) are tried for one replica, how many other nodes for a shard that is in
# the way, and how deep one thing may be moved for another.
MAX_TRIES, MAX_TARGETS, MAX_DEPTH = 48, 6, 3
# How many single moves are tried for one replica, and how many may come to nothing in one plan.
MAX_STEPS, MAX_WASTED = 120, 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A shard that may be moved to another node."""

    want: Want
    replica: Replica
    shard: Shard


class Repair:
    """Makes room for a replica by moving what may be moved."""

    def __init__(self, placer: RolePlacer, replicas: ReplicaPlacer, wants: Sequence[Want]) -> None:
        self.placer = placer
        self.replicas = replicas
        self.wants = wants
        self.ledger = placer.ledger
        self.stuck: set[int] = set()
        self.steps = 0
        self.wasted = 0
        self.seats: dict[int, list[Seat]] | None = None
        self.held: dict[int, list[Held]] = {}
        self.moved: list[tuple[Replica, list[Shard], Shard]] = []

    def make_room(self, want: Want, number: int) -> Replica | None:
        """A place for this replica, with its GPUs taken, or ``None`` when the search found none."""
        if not any(self.ledger.lot_free):
            return None
        self.steps = 0
        found = self._search(want, number)
        if found is None:
            self.wasted += self.steps
            want.bound_hit = want.bound_hit or self._is_spent()
        return found

    def _is_spent(self) -> bool:
        return self.steps >= MAX_STEPS or self.wasted >= MAX_WASTED

    def _search(self, want: Want, number: int) -> Replica | None:
        if self._is_spent():
            return None
        self._look_around()
        for way in want.ways:
            if way.profile.gpu_class is None:
                continue
            for tries, (nodes, fabric) in enumerate(self._targets(way)):
                if tries == MAX_TRIES or self._is_spent():
                    want.bound_hit = True
                    break
                shards = self._try(want, way, nodes)
                if shards is not None:
                    return Replica(replica=number, way=way, shards=shards, fabric=fabric)
        return None

    def _look_around(self) -> None:
        """Note what may be moved from each node."""
        if self.seats is None:
            self.seats = {}
            for users in self.placer.on:
                for found in users.values():
                    for seat in found:
                        self.seats.setdefault(seat.node, []).append(seat)
        self.held = {}
        for want in self.wants:
            for replica in want.replicas:
                if not replica.is_fixed:
                    for shard in replica.shards:
                        if shard.cards:
                            self._note(Held(want=want, replica=replica, shard=shard))

    def _note(self, held: Held) -> None:
        self.held.setdefault(held.shard.node, []).append(held)

    def _free(self, way: Way, node: int) -> int:
        return sum(len(self.ledger.cell_free[cell]) for cell in way.node_cells[node])

    def _movable(self, way: Way, node: int) -> int:
        """How many GPUs of this way on a node are held by something that may be moved."""
        seats = (self.seats or {}).get(node, ())
        cards = [seat.card for seat in seats if seat.node == node]
        cards += [card for held in self.held.get(node, ()) for card in held.shard.cards]
        cell_at, cell_lot = self.ledger.cell_at, self.ledger.cell_lot
        return sum(cell_lot[cell_at(card)] in way.lots for card in cards)

    def _targets(self, way: Way) -> Iterable[tuple[tuple[int, ...], str | None]]:
        """Nodes that would do if they were emptied, those that lack the fewest GPUs first."""
        wanted = way.profile.gpus_per_node
        lacking: dict[int, tuple[int, int]] = {}
        for node in way.node_cells:
            free = self._free(way, node)
            if free >= wanted or free + self._movable(way, node) >= wanted:
                lacking[node] = (max(0, wanted - free), node)
        order = sorted(lacking, key=lacking.__getitem__)
        if way.profile.nodes == 1:
            for node in order:
                yield (node,), None
            return
        fabrics: dict[str, list[int]] = {}
        for node in order:
            for fabric in self.ledger.fleet.fabrics[node]:
                fabrics.setdefault(fabric, []).append(node)
        found = []
        for fabric, nodes in fabrics.items():
            for chosen in _sets(nodes, way.profile.nodes):
                cost = sum(lacking[node][0] for node in chosen)
                found.append((cost, self.replicas.fabric_key(fabric), chosen, fabric))
        for _cost, _key, chosen, fabric in sorted(found):
            yield chosen, fabric

    def _try(self, want: Want, way: Way, nodes: tuple[int, ...]) -> list[Shard] | None:
        """Empty these nodes as far as needed and take them; everything is put back where that fails."""
        placer, ledger = self.placer, self.ledger
        ledger.journal, placer.moves, self.moved = [], [], []
        is_done = self._clear_all(want, way, nodes, MAX_DEPTH)
        placer.avoid = frozenset()
        if not is_done:
            self._undo((0, 0, 0))
        for what, number, _mib in ledger.journal:
            self.replicas.touched.append(number if what == "claim" else ledger.fleet.card_node[number])
        ledger.journal = placer.moves = None
        if not is_done:
            return None
        self.stuck.clear()
        self.seats = None
        shards = []
        for node in nodes:
            cards = choose_cards(ledger, way.node_cells[node], way.profile.gpus_per_node) or []
            shards.append(self.replicas.shard(way, node, cards))
        self.replicas.take(shards)
        return shards

    def _mark(self) -> tuple[int, int, int]:
        return len(self.ledger.journal or ()), len(self.placer.moves or ()), len(self.moved)

    def _undo(self, mark: tuple[int, int, int]) -> None:
        """Put back everything that was moved since a mark."""
        for what, number, _mib in (self.ledger.journal or [])[mark[0] :]:
            self.replicas.touched.append(number if what == "claim" else self.ledger.fleet.card_node[number])
        for replica, shards, new in reversed(self.moved[mark[2] :]):
            replica.shards = shards
            self.held[new.node] = [held for held in self.held[new.node] if held.shard is not new]
        del self.moved[mark[2] :]
        self.placer.move_back(mark[1])
        self.ledger.take_back(mark[0])

    def _clear_all(self, want: Want, way: Way, nodes: Sequence[int], depth: int) -> bool:
        """Make room for one shard on each of these nodes."""
        outer = self.placer.avoid
        for node in nodes:
            # What is moved off one node may go to another of them only while that has more than it needs.
            for _unused in range(64):
                if self._has_room(want, way, node):
                    break
                tight = [each for each in nodes if each == node or self._free(way, each) <= way.profile.gpus_per_node]
                self.placer.avoid = outer | {cell for each in tight for cell in way.node_cells[each]}
                if not self._move_one(want, way, node, depth):
                    self.placer.avoid = outer
                    return False
        self.placer.avoid = outer
        return all(self._has_room(want, way, node) for node in nodes)

    def _move_one(self, want: Want, way: Way, node: int, depth: int) -> bool:
        """Move one thing off a node: first what takes one GPU, the last placed first, then the smallest shard."""
        failed: set[int] = set()
        for seat in reversed((self.seats or {}).get(node, ())):
            if seat.node != node or seat.lot not in way.lots or seat.turn in self.stuck or seat.turn in failed:
                continue
            if self._is_spent():
                return False
            self.steps += 1
            if self.placer.move_off(seat):
                (self.seats or {}).setdefault(seat.node, []).append(seat)
                return True
            failed.add(seat.turn)
            if self._is_stuck(seat):
                self.stuck.add(seat.turn)
        if depth == 0:
            return False
        there = [held for held in self.held.get(node, ()) if self._is_there(held, node, way)]
        there.sort(key=lambda held: (len(held.shard.cards), held.want is want))
        return any(self._move_shard(held, depth - 1) for held in there)

    def _is_there(self, held: Held, node: int, way: Way) -> bool:
        cell_at, cell_lot = self.ledger.cell_at, self.ledger.cell_lot
        return (
            held.shard.node == node
            and any(held.shard is shard for shard in held.replica.shards)
            and any(cell_lot[cell_at(card)] in way.lots for card in held.shard.cards)
        )

    def _is_stuck(self, seat: Seat) -> bool:
        """Whether no free GPU at all is in reach of a role, on whatever node."""
        kept, self.placer.avoid = self.placer.avoid, frozenset()
        chain, _reached = find_chain(self.placer, self.placer.turns[seat.turn])
        self.placer.avoid = kept
        return chain is None

    def _has_room(self, want: Want, way: Way, node: int) -> bool:
        return (
            choose_cards(self.ledger, way.node_cells[node], way.profile.gpus_per_node) is not None
            and self.replicas.has_memory(way, node)
            and self.replicas.has_disk(want, way, node)
        )

    def _move_shard(self, held: Held, depth: int) -> bool:
        """Move one shard to another node of its fabric, the best that has room, else one that can be cleared."""
        if self._is_spent():
            return False
        self.steps += 1
        way, replica, shard = held.replica.way, held.replica, held.shard
        fabrics, avoid = self.ledger.fleet.fabrics, self.placer.avoid
        others = {each.node for each in replica.shards}
        nodes = []
        for node in way.node_cells:
            if node in others or (replica.fabric is not None and replica.fabric not in fabrics[node]):
                continue
            if any(cell in avoid for cell in way.node_cells[node]):
                continue
            lacks = max(0, way.profile.gpus_per_node - self._free(way, node))
            nodes.append((lacks, self._free(way, node), node))
        nodes.sort()
        for lacks, _free, node in nodes[:MAX_TARGETS]:
            mark = self._mark()
            if lacks and (not depth or not self._clear_all(held.want, way, (node,), depth)):
                self._undo(mark)
                continue
            if not self._has_room(held.want, way, node):
                continue
            cards = choose_cards(self.ledger, way.node_cells[node], way.profile.gpus_per_node) or []
            new = self.replicas.shard(way, node, cards)
            self.replicas.take([new])
            self.replicas.give([shard])
            self.moved.append((replica, replica.shards, new))
            replica.shards = [new if each is shard else each for each in replica.shards]
            self._note(Held(want=held.want, replica=replica, shard=new))
            return True
        return False


def _sets(nodes: Sequence[int], size: int) -> Iterable[tuple[int, ...]]:
    """The first nodes, and the sets that leave out one of them for the next few."""
    if len(nodes) < size:
        return
    first = tuple(nodes[:size])
    yield first
    for other in nodes[size : size + MAX_TARGETS]:
        for at in range(size - 1, -1, -1):
            yield (*first[:at], *first[at + 1 :], other)
