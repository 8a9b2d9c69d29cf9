# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Replicas of models: whole, on one class of GPUs, on one fabric, near their weights where that costs nothing."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import PAIRED
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import natural_key

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
        Model,
        Profile,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import Ask
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.held_weights import Weights
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.ledger import Ledger


@dataclass(slots=True, kw_only=True, eq=False)
class Way:
    """One profile of a model, with what its shards ask and the nodes that have GPUs for them."""

    profile: Profile
    ask: Ask
    memory_mib: int
    shared: Mapping[int, int] = field(default_factory=dict)
    lots: frozenset[int] = frozenset()
    node_cells: dict[int, list[int]] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True, eq=False)
class Want:
    """A model when its turn comes: its ways in order of priority, and the replicas it got."""

    number: int
    model: Model
    ways: tuple[Way, ...]
    replicas: list[Replica] = field(default_factory=list)
    bound_hit: bool = False

    @property
    def wanted(self) -> int:
        """How many replicas it shall always have."""
        return self.model.scaling.min if self.model.scaling else 0

    @property
    def missing(self) -> int:
        """How many replicas have no place."""
        return max(0, self.wanted - len(self.replicas))


@dataclass(slots=True, kw_only=True, eq=False)
class Shard:
    """The part of a replica on one node; without GPUs on the CPU.

    ``shared_mib`` is what its GPUs take of the memory of the node, where they have none of their own. ``unseen`` is what
    the last plan says of the GPUs of a node that does not show them now.
    """

    node: int
    cards: list[int]
    memory_mib: int = 0
    shared_mib: int = 0
    unseen: Mapping[str, t.Any] | None = None
    risk: str | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Replica:
    """One running copy of a model."""

    replica: int
    way: Way
    shards: list[Shard]
    fabric: str | None = None
    is_fixed: bool = False


def want_order(models: Iterable[Model]) -> list[Model]:
    """Models that shall always run, in the order in which they are placed."""
    wanted = [model for model in models if model.scaling is not None and model.scaling.min > 0 and model.profiles]
    return sorted(wanted, key=lambda model: (model.placement_priority, model.name))


def ways_order(profiles: Iterable[Profile]) -> list[Profile]:
    """Profiles in the order in which they are tried: the highest priority first."""
    return sorted(profiles, key=lambda profile: (-profile.priority, profile.name))


def settle_way(way: Way, ledger: Ledger) -> None:
    """Find the lots that fit a way, and the cells of each node."""
    if way.profile.gpu_class is None:
        return
    way.shared = ledger.shared(way.ask)
    way.lots = frozenset(
        at
        for at, lot in enumerate(ledger.lots)
        if lot.shape.gpu_class == way.profile.gpu_class and ledger.refusal(way.ask, at) is None
    )
    cells = sorted(cell for lot in way.lots for cell in ledger.lot_cells[lot])
    for cell in cells:
        way.node_cells.setdefault(ledger.cell_node[cell], []).append(cell)


def choose_cards(ledger: Ledger, cells: Sequence[int], wanted: int) -> list[int] | None:
    """The lowest free GPUs of these cells that make up the number; GPUs of one IOMMU group together or not at all."""
    free = sorted(card for cell in cells for card in ledger.cell_free[cell])
    if len(free) < wanted:
        return None
    pairs = ledger.fleet.pairs
    if not ledger.passthrough or not any(ledger.fleet.card_flags[card] & PAIRED for card in free):
        return free[:wanted]
    there = set(free)
    units: list[tuple[int, ...]] = []
    for card in free:
        unit = pairs.get(card, (card,))
        if card == unit[0] and all(other in there for other in unit):
            units.append(unit)
    best: dict[int, list[int]] = {0: []}
    for unit in units:
        for total in sorted(best, reverse=True):
            best.setdefault(total + len(unit), best[total] + list(unit))
    chosen = best.get(wanted)
    return None if chosen is None else sorted(chosen)


class ReplicaPlacer:
    """Places model replicas on one ledger."""

    def __init__(self, ledger: Ledger, weights: Weights) -> None:
        self.ledger = ledger
        self.repair: Callable[[Want, int], Replica | None] | None = None
        self.weights = weights
        self.touched: list[int] = []
        self._fabric_keys: dict[str, tuple[t.Any, ...]] = {}

    def place(self, want: Want) -> None:
        """Fill what a model still wants."""
        used = {replica.replica for replica in want.replicas}
        self.fill(want, [number for number in range(want.wanted) if number not in used])
        want.replicas.sort(key=lambda replica: replica.replica)

    def fill(self, want: Want, numbers: Iterable[int]) -> None:
        """Place these replicas as far as there is room: for each the way with the highest priority that fits."""
        finders: list[Finder | None] = [None] * len(want.ways)
        for number in numbers:
            for at, way in enumerate(want.ways):
                finder = finders[at]
                if finder is None:
                    finder = finders[at] = self.finder(want, way)
                found = finder.find()
                if found is not None:
                    fabric, shards = found
                    self.take(shards)
                    want.replicas.append(Replica(replica=number, way=way, shards=shards, fabric=fabric))
                    break
            else:
                repaired = self.repair(want, number) if self.repair is not None else None
                if repaired is None:
                    break
                want.replicas.append(repaired)

    def take(self, shards: Iterable[Shard]) -> None:
        """Take the GPUs and the memory of shards."""
        for shard in shards:
            for card in shard.cards:
                self.ledger.take(card)
            self.ledger.claim(shard.node, shard.memory_mib + shard.shared_mib)
            self.touched.append(shard.node)

    def give(self, shards: Iterable[Shard]) -> None:
        """Give the GPUs and the memory of shards back."""
        for shard in shards:
            for card in shard.cards:
                self.ledger.give(card)
            self.ledger.claim(shard.node, -shard.memory_mib - shard.shared_mib)
            self.touched.append(shard.node)

    def count(self, want: Want, most: int) -> int:
        """How many replicas of a model could be placed on what is left; nothing is taken."""
        placed: list[list[Shard]] = []
        finders = [self.finder(want, way) for way in want.ways]
        while len(placed) < most:
            found = next((found for finder in finders if (found := finder.find()) is not None), None)
            if found is None:
                break
            self.take(found[1])
            placed.append(found[1])
        for shards in reversed(placed):
            self.give(shards)
        return len(placed)

    def finder(self, want: Want, way: Way) -> Finder:
        """Return the search that suits a way to run: on the CPU, on one node or over several."""
        if way.profile.gpu_class is None:
            return _OnCpu(self, want, way)
        if way.profile.nodes > 1:
            return _OnFabric(self, want, way)
        return _OnNode(self, want, way)

    def fabric_key(self, name: str) -> tuple[t.Any, ...]:
        """The natural key of a fabric's name."""
        found = self._fabric_keys.get(name)
        if found is None:
            found = self._fabric_keys[name] = natural_key(name)
        return found

    def shard(self, way: Way, node: int, cards: list[int]) -> Shard:
        """A shard of a way on GPUs of a node; nothing is taken."""
        if not way.shared:
            return Shard(node=node, cards=cards, memory_mib=way.memory_mib)
        return Shard(node=node, cards=cards, memory_mib=way.memory_mib, shared_mib=self.shared_mib(way, cards))

    def shared_mib(self, way: Way, cards: Iterable[int]) -> int:
        """What these GPUs take of the memory of their node."""
        cell_at, cell_lot = self.ledger.cell_at, self.ledger.cell_lot
        return sum(way.shared.get(cell_lot[cell_at(card)], 0) for card in cards)

    def has_memory(self, way: Way, node: int) -> bool:
        """Whether a node has the memory that a shard of a way on it takes."""
        need = way.memory_mib
        if node in self.ledger.fleet.pools and way.shared:
            cards = choose_cards(self.ledger, way.node_cells[node], way.profile.gpus_per_node) or ()
            need += self.shared_mib(way, cards)
        return self.ledger.has_memory(node, need)

    def has_disk(self, want: Want, way: Way, node: int) -> bool:
        """Whether the weights have room: they are there already, or there is space, or nobody knows."""
        asked, free = way.profile.min_disk_gb, self.ledger.fleet.free_gb[node]
        return asked is None or free is None or free >= asked or node in self.weights.holder_set(want.model.name)


Found = tuple[str | None, list[Shard]]
Rank = tuple[bool, int, int]


class Finder:
    """Finds the next place for a replica of one model by one way."""

    def __init__(self, placer: ReplicaPlacer, want: Want, way: Way) -> None:
        self.placer = placer
        self.ledger = placer.ledger
        self.want = want
        self.way = way
        self.holders = placer.weights.holder_set(want.model.name)
        self.read = len(placer.touched)

    def find(self) -> Found | None:
        """The best place by the books as they are, or ``None``."""
        raise NotImplementedError

    def news(self) -> list[int]:
        """Nodes of this way on which something was taken or given back since the last call."""
        touched, self.read = self.placer.touched[self.read :], len(self.placer.touched)
        return [node for node in dict.fromkeys(touched) if node in self.way.node_cells]

    def can(self, node: int) -> bool:
        """Whether a node has memory and disk for a shard."""
        way = self.way
        # Without a GPU that shares it with its node, memory is what the way says.
        enough = self.placer.has_memory(way, node) if way.shared else self.ledger.has_memory(node, way.memory_mib)
        return enough and self.placer.has_disk(self.want, self.way, node)

    def cards(self, node: int) -> list[int]:
        """The GPUs that a shard on this node would get."""
        return choose_cards(self.ledger, self.way.node_cells[node], self.way.profile.gpus_per_node) or []

    def shard(self, node: int) -> Shard:
        """A shard on a node that has a rank."""
        return self.placer.shard(self.way, node, self.cards(node))

    def rank(self, node: int) -> Rank | None:
        """(does not hold the weights, free GPUs, node): the smaller, the better; ``None`` where no shard can go."""
        cell_free = self.ledger.cell_free
        free = 0
        for cell in self.way.node_cells[node]:
            free += len(cell_free[cell])
        if free < self.way.profile.gpus_per_node or not self.can(node):
            return None
        if self.ledger.fleet.pairs and not self.cards(node):
            return None
        return (node not in self.holders, free, node)


class _Ranking:
    """Nodes by rank, put right node by node as the books change."""

    def __init__(self, finder: Finder, nodes: Iterable[int]) -> None:
        self.finder = finder
        self.ranks = {node: rank for node in nodes if (rank := finder.rank(node)) is not None}
        self.heap = list(self.ranks.values())
        heapify(self.heap)

    def renew(self, node: int) -> None:
        """Look at a node again."""
        rank = self.finder.rank(node)
        if rank is None:
            self.ranks.pop(node, None)
        elif self.ranks.get(node) != rank:
            self.ranks[node] = rank
            heappush(self.heap, rank)

    def best(self, wanted: int) -> list[Rank]:
        """The best nodes, fewer where there are no more."""
        found: list[Rank] = []
        while self.heap and len(found) < wanted:
            rank = heappop(self.heap)
            if self.ranks.get(rank[2]) == rank and rank not in found:
                found.append(rank)
        for rank in found:
            heappush(self.heap, rank)
        return found


class _OnNode(Finder):
    """All shards, that is one, on one node."""

    def __init__(self, placer: ReplicaPlacer, want: Want, way: Way) -> None:
        super().__init__(placer, want, way)
        self.ranking = _Ranking(self, way.node_cells)

    def find(self) -> Found | None:
        for node in self.news():
            self.ranking.renew(node)
        for rank in self.ranking.best(1):
            return None, [self.shard(rank[2])]
        return None


class _OnFabric(Finder):
    """Shards on several nodes of one fabric, the fabrics in a heap of their own."""

    def __init__(self, placer: ReplicaPlacer, want: Want, way: Way) -> None:
        super().__init__(placer, want, way)
        members: dict[str, list[int]] = {}
        for node in way.node_cells:
            for fabric in self.ledger.fleet.fabrics[node]:
                members.setdefault(fabric, []).append(node)
        self.rankings = {fabric: _Ranking(self, nodes) for fabric, nodes in members.items()}
        self.keys: dict[str, tuple[t.Any, ...]] = {}
        self.heap: list[tuple[t.Any, ...]] = []
        for fabric in members:
            self._push(fabric)

    def _push(self, fabric: str) -> None:
        ranking, nodes = self.rankings[fabric], self.way.profile.nodes
        self.keys.pop(fabric, None)
        if len(ranking.ranks) >= nodes:
            absent = sum(rank[0] for rank in ranking.best(nodes))
            key = (absent, len(ranking.ranks), self.placer.fabric_key(fabric), fabric)
            self.keys[fabric] = key
            heappush(self.heap, key)

    def find(self) -> Found | None:
        changed: dict[str, None] = {}
        for node in self.news():
            for fabric in self.ledger.fleet.fabrics[node]:
                self.rankings[fabric].renew(node)
                changed[fabric] = None
        for fabric in changed:
            self._push(fabric)
        while self.heap and self.keys.get(self.heap[0][-1]) != self.heap[0]:
            heappop(self.heap)
        if not self.heap:
            return None
        fabric = self.heap[0][-1]
        best = self.rankings[fabric].best(self.way.profile.nodes)
        return fabric, [self.shard(rank[2]) for rank in best]


class _OnCpu(Finder):
    """A node without GPUs: spread first, then where the weights are, then the larger node."""

    def __init__(self, placer: ReplicaPlacer, want: Want, way: Way) -> None:
        super().__init__(placer, want, way)
        load: dict[int, int] = {}
        for replica in want.replicas:
            for shard in replica.shards:
                load[shard.node] = load.get(shard.node, 0) + (0 if shard.cards else 1)
        fleet = self.ledger.fleet
        self.heap = [
            (load.get(node, 0), node not in self.holders, place, node)
            for place, node in enumerate(self.ledger.cpu_order)
            if fleet.card_count[node] == 0 and self.ledger.site_refusal(way.ask, node) is None
        ]
        heapify(self.heap)

    def find(self) -> Found | None:
        while self.heap:
            load, absent, place, node = heappop(self.heap)
            if self.can(node):
                heappush(self.heap, (load + 1, absent, place, node))
                return None, [Shard(node=node, cards=[], memory_mib=self.way.memory_mib)]
        return None
