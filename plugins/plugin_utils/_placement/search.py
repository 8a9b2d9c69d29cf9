# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Making room: what may be moved is moved to places that suit it as well, so that one more replica fits.

For single GPUs it looks breadth first over pools, never over single GPUs, for a chain of moves that ends at a free GPU. When
there is none and nothing else binds, the pools that were reached are closed: everybody on them can only move among them,
which proves that no arrangement has room. For everything else (several GPUs together, memory of nodes, several profiles)
it empties the nodes that lack the least, moves what sits there in the same way, and takes everything back where that is
not enough. What moves gives back what it holds before room is asked for it. Nobody ever loses a place to a move.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass
from itertools import groupby, islice

from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.arrange import (
    MAX_ITEMS,
    MAX_PARTS,
    Arrangement,
    Item,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.bound import Flow
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fill import (
    NOTHING,
    Ranking,
    members_of_fabrics,
    settle_nodes,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import (
    Placement,
    Shard,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fill import (
        Filler,
        Rank,
        Reserved,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import (
        Candidate,
        Options,
        Request,
    )

# How many occupants of a pool are looked at where memory of nodes lets some of them not make room.
MAX_OCCUPANTS = 64
# How many nodes (or sets of nodes on one fabric) are tried for one replica, and how deep one thing may be moved for another.
MAX_TARGETS, MAX_DEPTH = 48, 3
# How many single moves are tried for one replica, and how many may come to nothing in one plan.
MAX_STEPS, MAX_WASTED = 200, 1000
# How often the same kind of move may fail before it is taken for impossible, while room is made for one replica.
MAX_FAILURES = 6
# How many other nodes of a fabric are tried beside the best.
MAX_OTHERS = 6


@dataclass(frozen=True, slots=True)
class Move:
    """One step of a chain, from its free end: a replica on a pool moves to another and runs there by a candidate."""

    mover: int
    leaves: int
    to: int
    into: int


@dataclass(frozen=True, slots=True)
class Chain:
    """From a pool with a free GPU, move by move, to the pool that the replica in want gets."""

    end: int
    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """For whom room is made, and which requests may lose a replica for it."""

    whom: Request
    droppable: frozenset[int] = frozenset()


class Search:
    """Places requests on one ledger: free places first, then moves, then the CPU."""

    def __init__(self, filler: Filler, requests: Sequence[Request], options: Options) -> None:
        self.filler = filler
        self.ledger = filler.ledger
        self.requests = requests
        self.options = options
        self.candidates = {each.number: each for request in requests for each in request.candidates}
        self.claims_memory = any(each.memory_mib or each.shared for each in self.candidates.values())
        self.evicted: list[Placement] = []
        self._dropped: list[Placement] = []
        # Closed pools, and for what priority they are: work of a better one may make others concede more.
        self._closed: set[int] = set()
        self._closed_for = 0
        self._steps = 0
        self._wasted = 0
        self.is_cut = False
        self._failures: dict[tuple[int, int, int], int] = {}
        self._rankings: dict[int, _Clearing] = {}

    def place(self, request: Request, numbers: list[int] | None = None) -> None:
        """Give places to what a request still wants, or to these replicas, the last of the list first."""
        numbers = request.free_numbers() if numbers is None else numbers
        for _on_gpu, run in groupby(request.candidates, key=lambda each: each.gpus > 0):
            self._place_by(request, list(run), numbers)
        for member in request.members:
            member.excluded.update(request.placements)

    def place_again(self, requests: Sequence[Request]) -> bool:
        """Try once more for those that are short, also at the cost of what comes later; returns whether any got a place."""
        before = {request.number: len(request.placements) for request in requests}
        self._closed.clear()
        for request in requests:
            if request.is_proven or request.is_spent or not request.free_numbers():
                continue
            self.place(request)
            self.preempt(request)
        return any(len(request.placements) > before[request.number] for request in requests)

    def preempt(self, request: Request) -> None:
        """Take the places of replicas that come later, the last of them first."""
        later = [other for other in self.requests[request.number + 1 :] if self._may_lose(other, request)]
        numbers = request.free_numbers()
        gpu_run = [each for each in request.candidates if each.gpus]
        droppable: set[int] = set()
        while numbers and later and gpu_run:
            droppable.add(later.pop().number)
            while numbers and self._make_room(Task(request, frozenset(droppable)), gpu_run, numbers):
                continue

    def _may_lose(self, other: Request, whom: Request) -> bool:
        return any(self._is_droppable(placement, whom) for placement in other.placements.values())

    def _is_droppable(self, placement: Placement, whom: Request) -> bool:
        """What was placed only now may give way to what goes before it; what runs only if its number is higher, too."""
        if placement.is_fixed or placement.request.number <= whom.number:
            return False
        if not placement.is_kept:
            return True
        return self.options.moves == "preempt" and placement.request.priority > whom.priority

    def _place_by(self, request: Request, run: Sequence[Candidate], numbers: list[int]) -> None:
        while numbers:
            for candidate in run:
                self.filler.fill(candidate, numbers)
            if not numbers or not self.options.reassign:
                return
            while numbers and any(self._augment(each, request, numbers) for each in run if each.is_single):
                continue
            if not numbers or not self._make_room(Task(request), run, numbers):
                return

    # --- chains over pools of single GPUs

    def _augment(self, candidate: Candidate, whom: Request, numbers: list[int], reserved: Reserved = NOTHING) -> bool:
        """Seat as many replicas as one chain allows; returns whether any was."""
        if whom.priority < self._closed_for:
            self._closed.clear()
        chain, reached = self._find_chain(candidate, whom, reserved)
        if chain is None:
            if not (self.claims_memory or reserved):
                self._closed.update(reached)
                self._closed_for = whom.priority
            return False
        is_seated = self._apply(candidate, whom, numbers, chain, reserved)
        self.is_cut = self.is_cut or not is_seated
        return is_seated

    def _find_chain(
        self, candidate: Candidate, whom: Request, reserved: Reserved
    ) -> tuple[Chain | None, tuple[int, ...]]:
        """Return the shortest chain to a free GPU, and the pools that were reached on the way.

        Among equals the mover's preferred target comes first, then the later request.
        """
        ledger, closed, candidates = self.ledger, self._closed, self.candidates
        came: dict[int, Move | None] = {pool: None for pool in candidate.pools if pool not in closed}
        queue = list(came)
        for pool in queue:
            move = came[pool]
            mover = candidate if move is None else candidates[move.into]
            if ledger.pool_free[pool] and self._is_open(mover, pool, reserved):
                moves: list[Move] = []
                while move is not None:
                    moves.append(move)
                    move = came[move.leaves]
                return Chain(pool, tuple(moves)), tuple(queue)
            users = ledger.movable[pool]
            for number in sorted(users, reverse=True):
                if not users[number]:
                    continue
                occupant = candidates[number]
                for into in occupant.request.alternatives(occupant, whom):
                    if not into.is_single:
                        continue
                    for target in into.pools:
                        if target not in came and target not in closed:
                            came[target] = Move(number, pool, target, into.number)
                            queue.append(target)
        return None, tuple(queue)

    def _is_open(self, candidate: Candidate, pool: int, reserved: Reserved) -> bool:
        """Whether a candidate could have a free GPU of a pool."""
        if not (reserved or candidate.need(pool) or candidate.request.spread or candidate.disk_gb):
            return True
        return any(self.filler.is_open(candidate, part, reserved) for part in self.ledger.open_parts((pool,)))

    def _apply(self, candidate: Candidate, whom: Request, numbers: list[int], chain: Chain, reserved: Reserved) -> bool:
        """Walk the chain from its free end, as often as every pool on it allows; returns whether anybody was seated."""
        ledger = self.ledger
        movers = [*(self.candidates[move.into] for move in chain.moves), candidate]
        wanted = min(
            len(numbers),
            ledger.pool_free[chain.end],
            *(len(ledger.movable[move.leaves][move.mover]) for move in chain.moves),
        )
        done = False
        for part in self.filler.parts_in_order(movers[0], (chain.end,)):
            while wanted and self.filler.is_open(movers[0], part, reserved):
                leaving = self._rehearse(movers, chain, part, reserved)
                if leaving is None:
                    return done
                gpu, pool = ledger.take_free(part), chain.end
                for mover, move, placement in zip(movers, chain.moves, leaving, strict=False):
                    left = placement.shards[0].gpus[0]
                    ledger.unseat(placement)
                    ledger.seat(_moved(placement, mover, self._shard(mover, gpu, pool), whom))
                    gpu, pool = left, move.leaves
                ledger.seat(Placement(candidate, numbers.pop(), (self._shard(candidate, gpu, pool),)))
                wanted -= 1
                done = True
            if not wanted:
                break
        return done

    def _shard(self, candidate: Candidate, gpu: int, pool: int) -> Shard:
        node = self.ledger.fleet.gpu_node[gpu]
        return Shard(node, (gpu,), candidate.memory_mib, candidate.shared.get(pool, 0), pool)

    def _rehearse(
        self, movers: Sequence[Candidate], chain: Chain, part: int, reserved: Reserved
    ) -> list[Placement] | None:
        """Return who moves, one for each move: the last seated whose node has memory for who comes after, if any has."""
        ledger = self.ledger
        spent: dict[int, int] = {ledger.part_node[part]: movers[0].need(chain.end)}
        leaving: list[Placement] = []
        for at, move in enumerate(chain.moves):
            coming = movers[at + 1]
            found = ledger.movable[move.leaves][move.mover]
            for placement in islice(reversed(found.values()), MAX_OCCUPANTS):
                shard = placement.shards[0]
                if reserved and ledger.part_at(shard.gpus[0]) in reserved:
                    continue
                if coming.request.spread is not None and not ledger.is_spread(coming, shard.node):
                    continue
                if coming.disk_gb is not None and not self.filler.has_disk(coming, shard.node):
                    continue
                needed = spent.get(shard.node, 0) - shard.memory_mib - shard.shared_mib + coming.need(move.leaves)
                if needed <= 0 or ledger.has_memory(shard.node, needed):
                    spent[shard.node] = needed
                    leaving.append(placement)
                    break
            else:
                return None
        return leaving

    # --- emptying nodes

    def _make_room(self, task: Task, run: Sequence[Candidate], numbers: list[int]) -> bool:
        """Place one replica more by emptying nodes; everything is put back where that fails."""
        if self._is_hopeless(run, task):
            task.whom.is_proven = True
            return False
        ledger = self.ledger
        mark = ledger.mark()
        self._steps, self._dropped = 0, []
        found = False
        for depth in range(1, MAX_DEPTH + 1):
            self.is_cut, self._failures = False, {}
            found = self._clear_some(numbers[-1], run, task, NOTHING, depth)
            if found or not self.is_cut or self._is_spent():
                break
        if not found and not task.droppable:
            found = self._arrange(numbers[-1], run, task)
        if found:
            numbers.pop()
            self.evicted.extend(self._dropped)
            self._closed.clear()
        else:
            ledger.undo(mark)
            self._wasted += self._steps
            is_unknown = not task.whom.is_proven and bool(self._steps or self.is_cut)
            task.whom.bound_hit = task.whom.bound_hit or is_unknown
            task.whom.is_spent = task.whom.is_spent or self._is_spent()
        ledger.forget()
        return found

    def _arrange(self, replica: int, run: Sequence[Candidate], task: Task) -> bool:
        """Arrange everything anew with one replica more, where the fleet is small enough to try."""
        ledger = self.ledger
        movable = [each for users in ledger.movable for found in users.values() for each in found.values()]
        movable += ledger.large.values()
        if not movable or len(movable) >= MAX_ITEMS or len(ledger.part_free) > MAX_PARTS:
            return False
        items = [Item(run, replica, None)]
        items += [Item(self._ways_of(each, task), each.replica, each) for each in movable]
        for item in items:
            for candidate in item.run:
                if not candidate.node_parts:
                    settle_nodes(candidate, ledger)
        mark = ledger.mark()
        for placement in movable:
            ledger.remove(placement)
        arrangement = Arrangement(self.filler, items)
        if not arrangement.find():
            ledger.undo(mark)
            task.whom.is_proven = task.whom.is_proven or arrangement.left > 0
            self.is_cut = self.is_cut or arrangement.left <= 0
            return False
        for placement in movable:
            self._note_move(placement, task)
        return True

    def _ways_of(self, placement: Placement, task: Task) -> list[Candidate]:
        """Return how something may run that moves: on GPUs where it has some, else on the CPU."""
        return [
            each
            for each in placement.request.alternatives(placement.candidate, task.whom)
            if bool(each.gpus) is bool(placement.candidate.gpus)
        ]

    def _note_move(self, placement: Placement, task: Task) -> None:
        now = placement.request.placements[placement.replica]
        if now is not placement:
            now.is_kept = placement.is_kept
            now.conceded = _concession(placement, now.candidate, task.whom)

    def _is_spent(self) -> bool:
        return self._steps >= MAX_STEPS or self._wasted >= MAX_WASTED

    def _is_hopeless(self, run: Sequence[Candidate], task: Task) -> bool:
        """Whether it is proven that no moves can make room: not even as many GPUs can be freed, wherever they are."""
        if task.droppable:
            return False
        return all(
            not Flow(self.ledger, self.candidates, task.whom).can_free(candidate)
            if candidate.gpus
            else not candidate.memory_mib
            for candidate in run
        )

    def _clear_some(self, replica: int, run: Sequence[Candidate], task: Task, reserved: Reserved, depth: int) -> bool:
        """Place a replica on nodes that are emptied for it."""
        if depth == 0:
            self.is_cut = True
            return False
        ledger = self.ledger
        for candidate in run:
            for nodes, fabric in self._targets(candidate, reserved):
                if self._is_spent():
                    self.is_cut = True
                    return False
                mark, dropped = ledger.mark(), len(self._dropped)
                if self._clear_all(candidate, nodes, task, reserved, depth):
                    shards = tuple(self._shard_on(candidate, node) for node in nodes)
                    ledger.place(Placement(candidate, replica, shards, fabric))
                    return True
                ledger.undo(mark)
                del self._dropped[dropped:]
        return False

    def _shard_on(self, candidate: Candidate, node: int) -> Shard:
        if not candidate.gpus:
            return Shard(node, (), candidate.memory_mib)
        gpus = self.ledger.choose_gpus(candidate.node_parts[node], candidate.gpus) or ()
        return self.ledger.shard(candidate, node, gpus)

    def _clear_all(
        self, candidate: Candidate, nodes: Sequence[int], task: Task, reserved: Reserved, depth: int
    ) -> bool:
        """Make room for one shard on each of these nodes; what it gets is set aside while others look for a place."""
        ledger = self.ledger
        holds = [(node, self.memory_on(candidate, node)) for node in nodes]
        for node, need in holds:
            if need:
                ledger.hold(node, need)
        # First the nodes that have room already, so that nothing moves there.
        held: list[int] = []
        for node in sorted(nodes, key=lambda node: not self._has_room(candidate, node)):
            while not self._has_room(candidate, node):
                now = reserved.union(candidate.node_parts[node])
                if not self._move_one(candidate, node, task, now, depth):
                    return False
            gpus = ledger.choose_gpus(candidate.node_parts[node], candidate.gpus) or ()
            ledger.take(gpus)
            held += gpus
        if not all(ledger.has_memory(node, 0) and ledger.is_spread(candidate, node) for node in nodes):
            return False
        ledger.give(held)
        for node, need in holds:
            if need:
                ledger.hold(node, -need)
        return True

    def memory_on(self, candidate: Candidate, node: int) -> int:
        """Return what a shard takes of the memory of a node at most."""
        if not candidate.shared or node not in self.ledger.fleet.unified_nodes:
            return candidate.memory_mib
        most = max(candidate.shared.get(self.ledger.part_pool[part], 0) for part in candidate.node_parts[node])
        return candidate.memory_mib + candidate.gpus * most

    def _has_room(self, candidate: Candidate, node: int) -> bool:
        """Whether a node has the GPUs, and has not given away the memory that is set aside."""
        if not self.ledger.has_memory(node, 0):
            return False
        return not candidate.gpus or (self.ledger.choose_gpus(candidate.node_parts[node], candidate.gpus) is not None)

    def _move_one(self, candidate: Candidate, node: int, task: Task, reserved: Reserved, depth: int) -> bool:
        """Move one thing off a node: single GPUs first, then the smallest, the last of the order before others."""
        ledger = self.ledger
        in_the_way = self._in_the_way(candidate, node)
        failed: set[tuple[int, int]] = set()
        for placement in in_the_way:
            kind = (placement.candidate.number, placement.shards[0].pool)
            if kind in failed or self._failures.get((*kind, depth), 0) >= MAX_FAILURES:
                continue
            if self._is_spent():
                self.is_cut = True
                return False
            self._steps += 1
            mark, dropped = ledger.mark(), len(self._dropped)
            ledger.remove(placement)
            if self._settle(placement, task, reserved, depth - 1):
                return True
            ledger.undo(mark)
            del self._dropped[dropped:]
            failed.add(kind)
            self._failures[*kind, depth] = self._failures.get((*kind, depth), 0) + 1
        for placement in sorted(in_the_way, key=lambda each: (-each.request.number, -each.replica)):
            if placement.request.number in task.droppable and self._is_droppable(placement, task.whom):
                ledger.remove(placement)
                self._dropped.append(placement)
                return True
        return False

    def _in_the_way(self, candidate: Candidate, node: int) -> list[Placement]:
        ledger = self.ledger
        lacks_gpus = bool(candidate.gpus) and (ledger.choose_gpus(candidate.node_parts[node], candidate.gpus) is None)
        found = []
        for placement in ledger.occupants(node):
            for shard in placement.shards:
                if shard.node != node:
                    continue
                if lacks_gpus:
                    is_there = any(ledger.pool_at(gpu) in candidate.pool_set for gpu in shard.gpus)
                else:
                    is_there = shard.memory_mib + shard.shared_mib > 0
                if is_there:
                    found.append(placement)
        return sorted(
            found,
            key=lambda each: (
                each.candidate.gpus * each.candidate.nodes,
                -each.request.number,
                -each.replica,
            ),
        )

    def _settle(self, placement: Placement, task: Task, reserved: Reserved, depth: int) -> bool:
        """Find another place for something that was removed."""
        if not self._settle_by(self._ways_of(placement, task), placement.replica, task, reserved, depth):
            return False
        self._note_move(placement, task)
        return True

    def _settle_by(self, run: Sequence[Candidate], replica: int, task: Task, reserved: Reserved, depth: int) -> bool:
        for candidate in run:
            found = self.filler.find(candidate, replica, reserved)
            if found is not None:
                self.ledger.place(found)
                return True
        for candidate in run:
            if candidate.is_single and self._augment(candidate, task.whom, [replica], reserved):
                return True
        return self._clear_some(replica, run, task, reserved, depth)

    def _targets(self, candidate: Candidate, reserved: Reserved) -> Iterator[tuple[tuple[int, ...], str | None]]:
        """Return nodes that would do if they were emptied, those that lack the least first."""
        clearing = self._rankings.get(candidate.number)
        if clearing is None:
            clearing = self._rankings[candidate.number] = _Clearing(self, candidate)
        yield from clearing.targets(reserved)


class _Clearing:
    """The nodes of a candidate by what has to be moved to make room for a shard."""

    def __init__(self, search: Search, candidate: Candidate) -> None:
        self.search = search
        self.ledger = search.ledger
        self.candidate = candidate
        if not candidate.node_parts:
            settle_nodes(candidate, self.ledger)
        self.read = len(self.ledger.touched)
        if candidate.nodes == 1:
            self.rankings = {"": Ranking(self.rank, candidate.node_parts)}
        else:
            members = members_of_fabrics(self.ledger, candidate)
            self.rankings = {fabric: Ranking(self.rank, nodes) for fabric, nodes in members.items()}

    def rank(self, node: int) -> Rank | None:
        """Return (something larger than one GPU has to move, what is lacking, node); ``None`` where nothing helps."""
        ledger, candidate, filler = self.ledger, self.candidate, self.search.filler
        if not filler.has_disk(candidate, node):
            return None
        free = sum(len(ledger.part_free[part]) for part in candidate.node_parts[node])
        single = larger = memory = 0
        for placement in ledger.occupants(node):
            for shard in placement.shards:
                if shard.node == node:
                    memory += shard.memory_mib + shard.shared_mib
                    count = sum(ledger.pool_at(gpu) in candidate.pool_set for gpu in shard.gpus)
                    if shard.pool >= 0:
                        single += count
                    else:
                        larger += count
        lack = max(0, candidate.gpus - free)
        left, need = ledger.ram_left[node], self.search.memory_on(candidate, node)
        lacks_memory = need > 0 and left is not None and left < need
        if single + larger < lack or (lacks_memory and t.cast("int", left) + memory < need):
            return None
        return (lack > single, lack + lacks_memory, node)

    def targets(self, reserved: Reserved) -> Iterator[tuple[tuple[int, ...], str | None]]:
        """Return the sets of nodes in order, as they are now."""
        ledger, candidate = self.ledger, self.candidate
        for node in dict.fromkeys(ledger.touched[self.read :]):
            if node in candidate.node_parts:
                for fabric in ledger.fleet.fabrics[node] if candidate.nodes > 1 else ("",):
                    self.rankings[fabric].renew(node)
        self.read = len(ledger.touched)

        def is_out(node: int) -> bool:
            return any(part in reserved for part in candidate.node_parts[node])

        size = candidate.nodes
        if size == 1:
            best = self.rankings[""].best(MAX_TARGETS, is_out)
            if len(best) == MAX_TARGETS:
                self.search.is_cut = True
            return iter([((rank[-1],), None) for rank in best])
        found = []
        for fabric, ranking in self.rankings.items():
            ranks = ranking.best(size + MAX_OTHERS, is_out)
            for chosen in _sets(ranks, size):
                key = (sum(rank[0] for rank in chosen), sum(rank[1] for rank in chosen))
                found.append((key, self.search.filler.fabric_key(fabric), tuple(rank[-1] for rank in chosen), fabric))
        found.sort()
        if len(found) > MAX_TARGETS:
            self.search.is_cut = True
        return iter([(nodes, fabric) for _key, _fabric_key, nodes, fabric in found[:MAX_TARGETS]])


def _sets(ranks: Sequence[Rank], size: int) -> Iterator[tuple[Rank, ...]]:
    """Return the first nodes, and the sets that leave out one of them for the next few."""
    if len(ranks) < size:
        return
    first = tuple(ranks[:size])
    yield first
    for other in ranks[size:]:
        for at in range(size - 1, -1, -1):
            yield (*first[:at], *first[at + 1 :], other)


def _moved(placement: Placement, into: Candidate, shard: Shard, whom: Request) -> Placement:
    """Return a replica on another GPU."""
    made = Placement(into, placement.replica, (shard,), is_kept=placement.is_kept)
    if into is not placement.candidate or placement.conceded:
        made.conceded = _concession(placement, into, whom)
    return made


def _concession(placement: Placement, into: Candidate, whom: Request) -> str | None:
    """Return for whom a replica runs in a way of a lower priority than it could."""
    if into.rank > placement.candidate.rank:
        return whom.name
    return placement.conceded if into is placement.candidate else None
