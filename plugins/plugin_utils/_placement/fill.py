# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Free places: where a replica goes when nothing has to move for it.

Roles look at GPUs in their order of preference. Replicas of models look at nodes: those that hold the weights first, then
the one on which the fewest GPUs are left over, whole on one class and one fabric.
"""

from __future__ import annotations

import typing as t
from heapq import heapify, heappop, heappush

from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import PAIRED
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import (
    LARGEST,
    NODE,
    ROLE,
    Placement,
    Shard,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import natural_key

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Role
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.held_weights import Weights
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.ledger import (
        Ledger,
        Pool,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import Candidate, Request

# Parts that are kept free of what moves while room is made on them.
Reserved = frozenset[int]
NOTHING: Reserved = frozenset()


def preference(role: Role, pool: Pool) -> tuple[float, tuple[int, int]]:
    """Return the sort key of a pool for a role: the smaller, the better."""
    size, cap = pool.shape.memory_gb, pool.shape.compute_cap
    if role.prefer == LARGEST:
        major, minor = cap or (0, 0)
        return (-size if size is not None else 0.0, (-major, -minor))
    return (size if size is not None else float("inf"), cap or (0, 0))


def settle_candidate(candidate: Candidate, ledger: Ledger) -> None:
    """Find the pools that fit a candidate, in order of preference, and for several GPUs the parts of each node."""
    if not candidate.gpus:
        return
    candidate.shared = ledger.shared(candidate.ask)
    role = candidate.request.role
    groups: dict[t.Any, list[int]] = {}
    for at, pool in enumerate(ledger.pools):
        # One GPU of an IOMMU group does not go alone.
        is_tied = candidate.is_single and ledger.passthrough and bool(pool.flags & PAIRED)
        if not is_tied and ledger.refusal(candidate.ask, at) is None:
            groups.setdefault(preference(role, pool) if role is not None else 0, []).append(at)
    candidate.groups = tuple(tuple(groups[key]) for key in sorted(groups))
    candidate.pools = tuple(pool for group in candidate.groups for pool in group)
    candidate.pool_set = frozenset(candidate.pools)
    if candidate.request.kind != ROLE:
        settle_nodes(candidate, ledger)


def settle_nodes(candidate: Candidate, ledger: Ledger) -> None:
    """Find the parts of each node that fit a candidate."""
    if not candidate.gpus:
        candidate.node_parts = {node: [] for node in ledger.cpu_nodes(candidate)}
        return
    parts: dict[int, list[int]] = {}
    for part in sorted(part for pool in candidate.pools for part in ledger.pool_parts[pool]):
        parts.setdefault(ledger.part_node[part], []).append(part)
    candidate.node_parts = parts


class Filler:
    """Fills free places of one ledger."""

    def __init__(self, ledger: Ledger, weights: Weights) -> None:
        self.ledger = ledger
        self.weights = weights
        self._finders: dict[int, Finder] = {}
        self._fabric_keys: dict[str, tuple[t.Any, ...]] = {}

    def fill(self, candidate: Candidate, numbers: list[int]) -> None:
        """Give free places to these replicas, the last of the list first, as far as there are any."""
        request = candidate.request
        if request.kind == ROLE and candidate.gpus and request.spread is None:
            for group in candidate.groups:
                if not numbers:
                    return
                self._fill_group(candidate, group, numbers)
            return
        while numbers:
            placement = self.find(candidate, numbers[-1])
            if placement is None:
                return
            self.ledger.place(placement)
            numbers.pop()

    def find(self, candidate: Candidate, replica: int, reserved: Reserved = NOTHING) -> Placement | None:
        """Return a replica on the best free place outside of what is reserved; nothing is taken."""
        request, ledger = candidate.request, self.ledger
        if request.kind == ROLE and candidate.gpus:
            part = self._best_part(candidate, reserved)
            if part is None:
                return None
            shard = ledger.shard(candidate, ledger.part_node[part], (ledger.part_free[part][-1],))
            return Placement(candidate, replica, (shard,))
        found = self.finder(candidate).find(reserved)
        return None if found is None else Placement(candidate, replica, found[1], found[0])

    def count(self, request: Request, most: int) -> int:
        """Return how many replicas of a request could be placed on what is left; nothing is taken."""
        mark = self.ledger.mark()
        numbers = list(range(most))
        for candidate in request.candidates:
            self.fill(candidate, numbers)
        self.ledger.undo(mark)
        self.ledger.forget()
        return most - len(numbers)

    def finder(self, candidate: Candidate) -> Finder:
        """Return the search that suits a candidate: on the CPU, on one node or over several."""
        found = self._finders.get(candidate.number)
        if found is None:
            kind = OnCpu if not candidate.gpus else OnFabric if candidate.nodes > 1 else OnNode
            found = self._finders[candidate.number] = kind(self, candidate)
        return found

    def fabric_key(self, name: str) -> tuple[t.Any, ...]:
        """Return the natural key of a fabric's name."""
        found = self._fabric_keys.get(name)
        if found is None:
            found = self._fabric_keys[name] = natural_key(name)
        return found

    def has_room(self, candidate: Candidate, node: int) -> bool:
        """Whether a node has memory and disk for a shard, and a hard spread leaves it."""
        return (
            self.has_memory(candidate, node)
            and self.has_disk(candidate, node)
            and self.ledger.is_spread(candidate, node)
        )

    def has_memory(self, candidate: Candidate, node: int) -> bool:
        """Whether a node has the memory that a shard on it takes."""
        need, ledger = candidate.memory_mib, self.ledger
        if candidate.shared and node in ledger.fleet.unified_nodes:
            gpus = ledger.choose_gpus(candidate.node_parts.get(node, ()), candidate.gpus) or ()
            need += ledger.shared_of(candidate, gpus)
        return ledger.has_memory(node, need)

    def has_disk(self, candidate: Candidate, node: int) -> bool:
        """Whether the weights have room: they are there already, or there is space, or nobody knows."""
        free = self.ledger.fleet.free_gb[node]
        if candidate.disk_gb is None or free is None or free >= candidate.disk_gb:
            return True
        return node in self.weights.holder_set(candidate.request.name)

    # --- roles

    def parts_in_order(self, candidate: Candidate, pools: tuple[int, ...]) -> Sequence[int]:
        """Return the parts of equally preferred pools: nodes that hold the weights first, then the order of nodes."""
        ledger, role = self.ledger, candidate.request.role
        parts = ledger.open_parts(pools)
        if role is None:
            return parts
        masks = {pool: self.weights.mask(role, ledger.pools[pool].shape_number) for pool in pools}
        if not any(masks.values()):
            return parts
        part_pool, part_node = ledger.part_pool, ledger.part_node
        held: list[int] = []
        rest: list[int] = []
        if len(pools) == 1:
            mask = masks[pools[0]] or b""
            for part in parts:
                (held if mask[part_node[part]] else rest).append(part)
        else:
            for part in parts:
                found = masks[part_pool[part]]
                (held if found and found[part_node[part]] else rest).append(part)
        return held + rest

    def _fill_group(self, candidate: Candidate, pools: tuple[int, ...], numbers: list[int]) -> None:
        ledger = self.ledger
        if not any(ledger.pool_free[pool] for pool in pools):
            return
        part_free, part_node = ledger.part_free, ledger.part_node
        mixed = len(pools) > 1
        empty = 0
        bundle: list[int] = []
        for part in self.parts_in_order(candidate, pools):
            if not part_free[part]:
                empty += 1
                continue
            if not mixed:
                ledger.take_run(candidate, part, numbers)
            elif bundle and part_node[bundle[0]] == part_node[part]:
                bundle.append(part)
                continue
            else:
                self._take_from(candidate, bundle, numbers)
                bundle = [part]
            if not numbers:
                break
        if bundle and numbers:
            self._take_from(candidate, bundle, numbers)
        if empty * 2 > len(ledger.open_parts(pools)):
            ledger.shrink(pools)

    def _take_from(self, candidate: Candidate, parts: list[int], numbers: list[int]) -> None:
        """Take from several parts of one node in the order of GPU indices."""
        ledger = self.ledger
        if len(parts) == 1:
            ledger.take_run(candidate, parts[0], numbers)
            return
        while numbers:
            able = [part for part in parts if self.is_open(candidate, part)]
            if not able:
                return
            part = min(able, key=lambda part: ledger.part_free[part][-1])
            one = [numbers.pop()]
            ledger.take_run(candidate, part, one)

    def is_open(self, candidate: Candidate, part: int, reserved: Reserved = NOTHING) -> bool:
        """Whether a part has a free GPU for a single one, and its node memory; nothing reserved."""
        ledger = self.ledger
        if not ledger.part_free[part] or part in reserved:
            return False
        node, need = ledger.part_node[part], candidate.need(ledger.part_pool[part])
        if need and not ledger.has_memory(node, need):
            return False
        if candidate.request.spread is not None and not ledger.is_spread(candidate, node):
            return False
        return candidate.disk_gb is None or self.has_disk(candidate, node)

    def _best_part(self, candidate: Candidate, reserved: Reserved) -> int | None:
        ledger, request = self.ledger, candidate.request
        open_parts = (
            part
            for group in candidate.groups
            if any(ledger.pool_free[pool] for pool in group)
            for part in self.parts_in_order(candidate, group)
            if self.is_open(candidate, part, reserved)
        )
        spread = request.spread
        if spread is None:
            return next(open_parts, None)
        # The first of equals: the generator is in order of preference.
        return min(
            open_parts,
            key=lambda part: request.domains.get(ledger.domain_of(spread, ledger.part_node[part]), 0),
            default=None,
        )


Found = tuple["str | None", tuple[Shard, ...]]
Rank = tuple[t.Any, ...]


class Finder:
    """Finds the next place for a replica by one candidate, by rankings that are put right as the books change."""

    def __init__(self, filler: Filler, candidate: Candidate) -> None:
        self.filler = filler
        self.ledger = filler.ledger
        self.candidate = candidate
        self.holders = filler.weights.holder_set(candidate.request.name) if candidate.request.model else NOTHING
        self.read = len(self.ledger.touched)
        spread = candidate.request.spread
        self.renews_all = spread is not None and spread.by != NODE

    def find(self, reserved: Reserved = NOTHING) -> Found | None:
        """Return the best place by the books as they are, or ``None``."""
        raise NotImplementedError

    def news(self, known: t.Container[int] | Iterable[int]) -> Iterable[int]:
        """Return the nodes of this candidate whose rank may have changed since the last call."""
        touched = self.ledger.touched
        if self.read == len(touched):
            return ()
        changed = dict.fromkeys(touched[self.read :])
        self.read = len(touched)
        if self.renews_all:
            return list(t.cast("Iterable[int]", known))
        return [node for node in changed if node in t.cast("t.Container[int]", known)]

    def crowd(self, node: int) -> int:
        """Return how many replicas are in the domain of a node; 0 where nobody asked to spread."""
        request = self.candidate.request
        if request.spread is None:
            return 0
        return request.domains.get(self.ledger.domain_of(request.spread, node), 0)

    def shard(self, node: int) -> Shard:
        """Return a shard on a node that has a rank."""
        ledger, candidate = self.ledger, self.candidate
        gpus = ledger.choose_gpus(candidate.node_parts[node], candidate.gpus) or ()
        return ledger.shard(candidate, node, gpus)

    def rank(self, node: int) -> Rank | None:
        """Return (crowd, does not hold the weights, has a broken GPU, free GPUs, node), or ``None`` where nothing can go."""
        ledger, candidate = self.ledger, self.candidate
        part_free = ledger.part_free
        free = 0
        for part in candidate.node_parts[node]:
            free += len(part_free[part])
        if free < candidate.gpus or not self.filler.has_room(candidate, node):
            return None
        if ledger.fleet.pairs and ledger.choose_gpus(candidate.node_parts[node], candidate.gpus) is None:
            return None
        return (self.crowd(node), node not in self.holders, node in ledger.broken, free, node)

    def is_reserved(self, node: int, reserved: Reserved) -> bool:
        """Whether something of a node that a shard would use is kept free."""
        return any(part in reserved for part in self.candidate.node_parts[node])


class Ranking:
    """Nodes by rank; the last entry of a rank is the node."""

    def __init__(self, rank: t.Callable[[int], Rank | None], nodes: Iterable[int]) -> None:
        self.rank = rank
        self.ranks = {node: found for node in nodes if (found := rank(node)) is not None}
        self.heap = list(self.ranks.values())
        heapify(self.heap)

    def renew(self, node: int) -> None:
        """Look at a node again."""
        rank = self.rank(node)
        if rank is None:
            self.ranks.pop(node, None)
        elif self.ranks.get(node) != rank:
            self.ranks[node] = rank
            heappush(self.heap, rank)

    def best(self, wanted: int, is_out: t.Callable[[int], bool] | None = None) -> list[Rank]:
        """Return the best nodes that are not out, fewer where there are no more."""
        found: list[Rank] = []
        aside: list[Rank] = []
        while self.heap and len(found) < wanted:
            rank = heappop(self.heap)
            if self.ranks.get(rank[-1]) != rank or (found and rank in found):
                continue
            (aside if is_out is not None and is_out(rank[-1]) else found).append(rank)
        for rank in (*found, *aside):
            heappush(self.heap, rank)
        return found


class OnNode(Finder):
    """All of a replica on one node."""

    def __init__(self, filler: Filler, candidate: Candidate) -> None:
        super().__init__(filler, candidate)
        self.ranking = Ranking(self.rank, candidate.node_parts)

    def find(self, reserved: Reserved = NOTHING) -> Found | None:
        """Return the node with the best rank."""
        for node in self.news(self.candidate.node_parts):
            self.ranking.renew(node)
        is_out = None if not reserved else lambda node: self.is_reserved(node, reserved)
        for rank in self.ranking.best(1, is_out):
            return None, (self.shard(rank[-1]),)
        return None


class OnFabric(Finder):
    """Shards on several nodes of one fabric, the fabrics in a heap of their own."""

    def __init__(self, filler: Filler, candidate: Candidate) -> None:
        super().__init__(filler, candidate)
        self.members = members_of_fabrics(self.ledger, candidate)
        self.rankings = {fabric: Ranking(self.rank, nodes) for fabric, nodes in self.members.items()}
        self.keys: dict[str, Rank] = {}
        self.heap: list[Rank] = []
        for fabric in self.members:
            self._push(fabric)

    def _push(self, fabric: str) -> None:
        ranking, nodes = self.rankings[fabric], self.candidate.nodes
        self.keys.pop(fabric, None)
        if len(ranking.ranks) >= nodes:
            best = ranking.best(nodes)
            crowd, absent, broken = (sum(rank[at] for rank in best) for at in range(3))
            key = (crowd, absent, broken, len(ranking.ranks), self.filler.fabric_key(fabric), fabric)
            self.keys[fabric] = key
            heappush(self.heap, key)

    def find(self, reserved: Reserved = NOTHING) -> Found | None:
        """Return the best nodes of the best fabric."""
        changed: dict[str, None] = {}
        for node in self.news(self.candidate.node_parts):
            for fabric in self.ledger.fleet.fabrics[node]:
                self.rankings[fabric].renew(node)
                changed[fabric] = None
        for fabric in changed:
            self._push(fabric)
        if not reserved:
            while self.heap and self.keys.get(self.heap[0][-1]) != self.heap[0]:
                heappop(self.heap)
            fabrics = [self.heap[0][-1]] if self.heap else []
        else:
            fabrics = sorted(self.keys, key=self.keys.__getitem__)
        is_out = None if not reserved else lambda node: self.is_reserved(node, reserved)
        for fabric in fabrics:
            best = self.rankings[fabric].best(self.candidate.nodes, is_out)
            if len(best) == self.candidate.nodes:
                return fabric, tuple(self.shard(rank[-1]) for rank in best)
        return None


class OnCpu(Finder):
    """A node without GPUs: spread first, then where the weights are, then the larger node."""

    def __init__(self, filler: Filler, candidate: Candidate) -> None:
        super().__init__(filler, candidate)
        self.places = {node: place for place, node in enumerate(self.ledger.cpu_nodes(candidate))}
        self.ranking = Ranking(self.rank, self.places)

    def rank(self, node: int) -> Rank | None:
        """Return (crowd, replicas there, does not hold the weights, place in the order of nodes, node)."""
        if not self.filler.has_room(self.candidate, node):
            return None
        load = self.candidate.request.load.get(node, 0)
        return (self.crowd(node), load, node not in self.holders, self.places[node], node)

    def find(self, reserved: Reserved = NOTHING) -> Found | None:
        """Return the node with the best rank."""
        for node in self.news(self.places):
            self.ranking.renew(node)
        for rank in self.ranking.best(1, lambda node: -1 - node in reserved):
            return None, (Shard(rank[-1], (), self.candidate.memory_mib),)
        return None


def members_of_fabrics(ledger: Ledger, candidate: Candidate) -> dict[str, list[int]]:
    """Return the nodes of a candidate by fabric."""
    members: dict[str, list[int]] = {}
    for node in candidate.node_parts:
        for fabric in ledger.fleet.fabrics[node]:
            members.setdefault(fabric, []).append(node)
    return members
