# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The books: which GPU is free, who has which, and how much memory each node has left.

GPUs of one shape on nodes that no request tells apart form a ``Pool``; those of a pool on one node are its node pools,
here called parts. Whether something fits is decided once for a pool; within a pool any free GPU will do, and the order of
nodes and indices decides which.
"""

from __future__ import annotations

import typing as t
from bisect import bisect_left, insort
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import (
    EXTERNAL,
    GPU_CORDONED,
    HEALTH_UNKNOWN,
    OF_HOST,
    PAIRED,
    READY,
    UNHEALTHY,
    UNREACHABLE,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import (
    flag_refusal,
    gpu_refusal,
    node_refusal,
    shared_mib,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import (
    FABRIC,
    NODE,
    Placement,
    Shard,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import (
        Fleet,
        NodePool,
        Shape,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import Ask
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import Candidate, Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """What a need can ask of a node: its state, its name where some need pins to it, the labels that some need names."""

    state: str
    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """GPUs that no need tells apart: one shape, one placement domain, the same flags."""

    shape: Shape
    shape_number: int
    domain: Domain
    flags: int


class Ledger:
    """The state of a plan in the making. Everything that is taken or given back goes through here, and can be undone."""

    def __init__(self, fleet: Fleet, asks: Iterable[Ask], *, passthrough: bool) -> None:
        self.fleet = fleet
        self.passthrough = passthrough
        self.domains: list[Domain] = []
        self.pools: list[Pool] = []
        self.pool_parts: list[list[int]] = []
        self.pool_total: list[int] = []
        self.pool_free: list[int] = []
        self.part_pool: list[int] = []
        self.part_free: list[list[int]] = []
        self.part_node: list[int] = [part.node for part in fleet.node_pools]
        # A node with a broken GPU comes after all others.
        self.broken: set[int] = {part.node for part in fleet.node_pools if part.flags & UNHEALTHY}
        # On bare metal nothing is set apart, but where a GPU and what runs beside it share one memory.
        self.ram_left: list[int | None] = [
            left if passthrough or node in fleet.unified_nodes else None for node, left in enumerate(fleet.usable_mib)
        ]
        self.node_domain: list[int] = []
        # Nodes on which something was taken or given back, in order, for those who keep rankings.
        self.touched: list[int] = []
        # What may be moved: single GPUs by pool and candidate, all else together, everything by node once somebody asked.
        self.movable: list[dict[int, dict[int, Placement]]] = []
        self.large: dict[tuple[int, int], Placement] = {}
        self._by_node: dict[int, dict[tuple[int, int], Placement]] | None = None
        self._journal: list[tuple[str, t.Any]] | None = None
        self._cpu_order: list[int] | None = None
        self._open: dict[tuple[int, ...], list[int]] = {}
        self._settle(list(asks))
        self.movable = [{} for _pool in self.pools]
        self._shared_pools = [at for at, pool in enumerate(self.pools) if pool.shape.unified]

    def _settle(self, asks: Sequence[Ask]) -> None:
        pinned = {ask.node for ask in asks if ask.node is not None}
        named = sorted({key for ask in asks for key in ask.selector})
        fleet = self.fleet
        domain_numbers: dict[tuple[str, str, tuple[str | None, ...]], int] = {}
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
            number = domain_numbers.get(key)
            if number is None:
                number = domain_numbers[key] = len(self.domains)
                seen = {label: value for label, value in zip(named, told, strict=False) if value is not None}
                self.domains.append(Domain(state=state, name=key[1], labels=seen))
            self.node_domain.append(number)
        pool_numbers: dict[tuple[int, int, int], int] = {}
        for at, part in enumerate(fleet.node_pools):
            pool_key = (part.shape, self.node_domain[part.node], part.flags)
            pool = pool_numbers.get(pool_key)
            if pool is None:
                pool = pool_numbers[pool_key] = len(self.pools)
                domain = self.domains[pool_key[1]]
                self.pools.append(
                    Pool(shape=fleet.shapes[part.shape], shape_number=part.shape, domain=domain, flags=part.flags)
                )
                self.pool_parts.append([])
                self.pool_total.append(0)
            self.pool_parts[pool].append(at)
            self.pool_total[pool] += len(part.gpus)
            self.part_pool.append(pool)
            self.part_free.append(part.gpus[::-1])
        self.pool_free = list(self.pool_total)

    # --- rules

    def refusal(self, ask: Ask, pool: int) -> str | None:
        """Return why nothing of this pool can be had for this ask, before anybody takes a GPU."""
        it = self.pools[pool]
        return (
            node_refusal(ask, name=it.domain.name, state=it.domain.state, labels=it.domain.labels)
            or gpu_refusal(ask, it.shape)
            or flag_refusal(ask, it.flags)
        )

    def refusal_to_stay(self, ask: Ask, pool: int) -> str | None:
        """Return why what is on a GPU of this pool may not stay, whatever the state of its node.

        That nothing is known of a GPU's health, or that it is cordoned, keeps new things off it, and is no reason to take away
        what it has. Nor is a process of the node where what is placed runs on the node itself: it is most likely that.
        """
        it = self.pools[pool]
        flags = it.flags & ~(HEALTH_UNKNOWN | GPU_CORDONED)
        if flags & OF_HOST and not self.passthrough:
            flags &= ~EXTERNAL
        return (
            node_refusal(ask, name=it.domain.name, state=READY, labels=it.domain.labels)
            or gpu_refusal(ask, it.shape)
            # A broken GPU may be kept for want of another; one that a stranger has may not, broken or well.
            or flag_refusal(ask, flags & EXTERNAL or flags)
        )

    def node_refusal(self, ask: Ask, node: int, *, state: str | None = None) -> str | None:
        """Return why nothing of this ask may go to a node, by its own state or as if it were in another."""
        domain = self.domains[self.node_domain[node]]
        return node_refusal(ask, name=self.fleet.names[node], state=state or domain.state, labels=domain.labels)

    def idle_state(self, part: NodePool) -> str:
        """Return the one state of the GPUs of a node pool that nobody of ours has."""
        if part.flags & EXTERNAL:
            return "external"
        if part.flags & UNHEALTHY:
            return "unhealthy"
        fleet, shape = self.fleet, self.fleet.shapes[part.shape]
        is_part = shape.mig or (shape.virtual and self.passthrough)
        if part.flags & HEALTH_UNKNOWN or fleet.states[part.node] == UNREACHABLE or is_part:
            return "unknown"
        return "free"

    # --- orders

    @property
    def cpu_order(self) -> list[int]:
        """Ready nodes in the order in which they get work without GPUs: those without GPUs first, then by size."""
        if self._cpu_order is None:
            fleet = self.fleet
            self._cpu_order = sorted(
                (node for node, state in enumerate(fleet.states) if state == READY),
                key=lambda node: (
                    fleet.gpu_count[node] != 0,
                    fleet.memory_gb[node] is None,
                    -(fleet.memory_gb[node] or 0),
                    node,
                ),
            )
        return self._cpu_order

    def cpu_nodes(self, candidate: Candidate) -> list[int]:
        """Return where a candidate may run without a GPU, in order: nodes with GPUs only where it admits them."""
        count = self.fleet.gpu_count
        return [
            node
            for node in self.cpu_order
            if (count[node] == 0 or (candidate.gpu_nodes and count[node]))
            and self.node_refusal(candidate.ask, node) is None
        ]

    def _part_rank(self, part: int) -> tuple[bool, int]:
        return (self.part_node[part] in self.broken, part)

    def open_parts(self, pools: tuple[int, ...]) -> list[int]:
        """Return the parts of these pools that may have free GPUs, in the order of nodes."""
        parts = self._open.get(pools)
        if parts is None:
            parts = sorted((part for pool in pools for part in self.pool_parts[pool]), key=self._part_rank)
            self._open[pools] = parts
        return parts

    def shrink(self, pools: tuple[int, ...]) -> None:
        """Forget parts without a free GPU; they come back when a GPU of theirs is given back."""
        self._open[pools] = [part for part in self._open[pools] if self.part_free[part]]

    def part_at(self, gpu: int) -> int:
        """Return the part of a GPU."""
        fleet = self.fleet
        first, last = fleet.node_span[fleet.gpu_node[gpu]]
        shape, flags = fleet.gpu_shape[gpu], fleet.gpu_flags[gpu]
        for at in range(first, last):
            part = fleet.node_pools[at]
            if part.shape == shape and part.flags == flags:
                return at
        raise LookupError(gpu)

    def pool_at(self, gpu: int) -> int:
        """Return the pool of a GPU."""
        return self.part_pool[self.part_at(gpu)]

    def domain_of(self, spread: Spread, node: int) -> t.Any:
        """Return the domain of a node over which replicas spread; nodes without one are one domain together."""
        if spread.by == NODE:
            return node
        if spread.by == FABRIC:
            return next(iter(self.fleet.fabrics[node]), None)
        return self.fleet.labels[node].get(spread.label or "")

    def is_spread(self, candidate: Candidate, node: int) -> bool:
        """Whether a hard spread leaves room for a replica on a node."""
        spread = candidate.request.spread
        if spread is None or not spread.hard:
            return True
        return not candidate.request.domains.get(self.domain_of(spread, node))

    # --- GPUs and memory

    def has_memory(self, node: int, memory_mib: int) -> bool:
        """Whether a node can still give this much memory; one that does not say how much it has can."""
        left = self.ram_left[node]
        return left is None or left >= memory_mib

    def shared(self, ask: Ask) -> Mapping[int, int]:
        """Return what an ask takes of the memory of the node, by pool of GPUs that have none of their own."""
        if not self._shared_pools:
            return {}
        return {pool: shared_mib(ask, self.pools[pool].shape) for pool in self._shared_pools}

    def choose_gpus(self, parts: Sequence[int], wanted: int) -> tuple[int, ...] | None:
        """Return the lowest free GPUs of these parts that make up the number; an IOMMU group goes together or not at all."""
        free = sorted(gpu for part in parts for gpu in self.part_free[part])
        if len(free) < wanted:
            return None
        fleet = self.fleet
        if not self.passthrough or not any(fleet.gpu_flags[gpu] & PAIRED for gpu in free):
            return tuple(free[:wanted])
        there = set(free)
        best: dict[int, list[int]] = {0: []}
        for gpu in free:
            group = fleet.pairs.get(gpu, (gpu,))
            if gpu == group[0] and there.issuperset(group):
                for total in sorted(best, reverse=True):
                    best.setdefault(total + len(group), best[total] + list(group))
        chosen = best.get(wanted)
        return None if chosen is None else tuple(sorted(chosen))

    def shard(self, candidate: Candidate, node: int, gpus: tuple[int, ...]) -> Shard:
        """Return a shard of a candidate on GPUs of a node; nothing is taken."""
        if candidate.is_single:
            pool = self.pool_at(gpus[0])
            return Shard(node, gpus, candidate.memory_mib, candidate.shared.get(pool, 0), pool)
        return Shard(node, gpus, candidate.memory_mib, self.shared_of(candidate, gpus))

    def shared_of(self, candidate: Candidate, gpus: Iterable[int]) -> int:
        """Return what these GPUs take of the memory of their node."""
        return sum(candidate.shared.get(self.pool_at(gpu), 0) for gpu in gpus) if candidate.shared else 0

    def take_free(self, part: int) -> int:
        """Take the first free GPU of a part."""
        gpu = self.part_free[part].pop()
        self.pool_free[self.part_pool[part]] -= 1
        self._note("take", gpu)
        return gpu

    def take(self, gpus: Iterable[int]) -> None:
        """Take these GPUs."""
        for gpu in gpus:
            self._take(gpu)
            self._note("take", gpu)

    def give(self, gpus: Iterable[int]) -> None:
        """Give these GPUs back."""
        for gpu in gpus:
            self._give(gpu)
            self._note("give", gpu)

    def _take(self, gpu: int) -> None:
        self.touched.append(self.fleet.gpu_node[gpu])
        part = self.part_at(gpu)
        self.part_free[part].remove(gpu)
        self.pool_free[self.part_pool[part]] -= 1

    def _give(self, gpu: int) -> None:
        self.touched.append(self.fleet.gpu_node[gpu])
        part = self.part_at(gpu)
        free, pool = self.part_free[part], self.part_pool[part]
        if not free:
            for pools, parts in self._open.items():
                if pool in pools:
                    at = bisect_left(parts, self._part_rank(part), key=self._part_rank)
                    if at == len(parts) or parts[at] != part:
                        parts.insert(at, part)
        insort(free, gpu, key=lambda number: -number)
        self.pool_free[pool] += 1

    # --- placements

    def place(self, placement: Placement) -> None:
        """Put a replica where it says, with its GPUs and memory."""
        for shard in placement.shards:
            self.take(shard.gpus)
        self.seat(placement)

    def remove(self, placement: Placement) -> None:
        """Give back what a replica has."""
        self.unseat(placement)
        for shard in placement.shards:
            self.give(shard.gpus)

    def seat(self, placement: Placement) -> None:
        """Put a replica on GPUs that are taken already."""
        self._seat(placement)
        self._note("seat", placement)

    def unseat(self, placement: Placement) -> None:
        """Take a replica off its GPUs, which stay taken."""
        self._unseat(placement)
        self._note("unseat", placement)

    def _seat(self, placement: Placement) -> None:
        request = placement.candidate.request
        request.placements[placement.replica] = placement
        for shard in placement.shards:
            self._claim(shard.node, shard.memory_mib + shard.shared_mib)
            self.touched.append(shard.node)
        if request.spread is not None or not placement.candidate.gpus:
            self._count(placement, 1)
        if not placement.is_fixed:
            self._index(placement)

    def _unseat(self, placement: Placement) -> None:
        candidate = placement.candidate
        del candidate.request.placements[placement.replica]
        for shard in placement.shards:
            self._claim(shard.node, -shard.memory_mib - shard.shared_mib)
            self.touched.append(shard.node)
        if candidate.request.spread is not None or not candidate.gpus:
            self._count(placement, -1)
        if placement.is_fixed:
            return
        pool = placement.shards[0].pool
        if pool >= 0:
            del self.movable[pool][candidate.number][placement.replica]
        else:
            del self.large[candidate.request.number, placement.replica]
        if self._by_node is not None:
            for shard in placement.shards:
                del self._by_node[shard.node][candidate.request.number, placement.replica]

    def _index(self, placement: Placement) -> None:
        candidate = placement.candidate
        pool = placement.shards[0].pool
        if pool >= 0:
            self.movable[pool].setdefault(candidate.number, {})[placement.replica] = placement
        else:
            self.large[candidate.request.number, placement.replica] = placement
        if self._by_node is not None:
            for shard in placement.shards:
                self._by_node.setdefault(shard.node, {})[candidate.request.number, placement.replica] = placement

    def _count(self, placement: Placement, by: int) -> None:
        candidate = placement.candidate
        request = candidate.request
        for shard in placement.shards:
            if not candidate.gpus:
                request.load[shard.node] = request.load.get(shard.node, 0) + by
            if request.spread is not None:
                domain = self.domain_of(request.spread, shard.node)
                request.domains[domain] = request.domains.get(domain, 0) + by

    def take_run(self, candidate: Candidate, part: int, numbers: list[int]) -> None:
        """Place as many of these replicas on one part as it has free GPUs and its node memory."""
        free, node, pool = self.part_free[part], self.part_node[part], self.part_pool[part]
        wanted = min(len(free), len(numbers))
        need, left = candidate.need(pool), self.ram_left[node]
        if need and left is not None:
            wanted = min(wanted, left // need)
        shared = need - candidate.memory_mib
        if self._journal is not None or self._by_node is not None:
            for _unused in range(wanted):
                shard = Shard(node, (self.take_free(part),), candidate.memory_mib, shared, pool)
                self.seat(Placement(candidate, numbers.pop(), (shard,)))
            return
        # The same for many at once.
        if wanted <= 0:
            return
        self._claim(node, wanted * need)
        self.touched.append(node)
        self.pool_free[pool] -= wanted
        placements, memory = candidate.request.placements, candidate.memory_mib
        movable = self.movable[pool].setdefault(candidate.number, {})
        for _unused in range(wanted):
            replica = numbers.pop()
            placement = Placement(candidate, replica, (Shard(node, (free.pop(),), memory, shared, pool),))
            placements[replica] = movable[replica] = placement

    def occupants(self, node: int) -> Iterable[Placement]:
        """Return what may be moved off a node."""
        if self._by_node is None:
            self._by_node = {}
            single = (placement for users in self.movable for found in users.values() for placement in found.values())
            for placement in (*single, *self.large.values()):
                for shard in placement.shards:
                    self._by_node.setdefault(shard.node, {})[placement.request.number, placement.replica] = placement
        return self._by_node.get(node, {}).values()

    def hold(self, node: int, memory_mib: int) -> None:
        """Set memory of a node aside, or give it back with a negative number."""
        self._claim(node, memory_mib)
        self.touched.append(node)
        self._note("hold", (node, memory_mib))

    def _release(self, held: tuple[int, int]) -> None:
        self._claim(held[0], -held[1])
        self.touched.append(held[0])

    def _claim(self, node: int, memory_mib: int) -> None:
        left = self.ram_left[node]
        if left is not None and memory_mib:
            self.ram_left[node] = left - memory_mib

    # --- taking back

    def _note(self, what: str, thing: t.Any) -> None:
        if self._journal is not None:
            self._journal.append((what, thing))

    def mark(self) -> int:
        """Return a point to which ``undo`` can go back; from now on every change is noted."""
        if self._journal is None:
            self._journal = []
        return len(self._journal)

    def undo(self, mark: int) -> None:
        """Take back everything since a mark."""
        journal, self._journal = self._journal or [], None
        undoing: dict[str, t.Callable[[t.Any], None]] = {
            "take": self._give,
            "give": self._take,
            "seat": self._unseat,
            "unseat": self._seat,
            "hold": self._release,
        }
        for what, thing in reversed(journal[mark:]):
            undoing[what](thing)
        self._journal = journal[:mark]

    def forget(self) -> None:
        """Stop noting changes: they stand."""
        self._journal = None
