# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Small fleets: when moves one by one make no room, everything that may be moved is arranged anew, by trying.

The hardest goes first, what it has before all else, and states that were seen to fail are not tried again. Where this comes
to its end without a place, there is none: the refusal is proven.
"""

from __future__ import annotations

import itertools
import typing as t
from collections import Counter
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import Placement, Shard

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fill import Filler
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import Candidate

# Of how many replicas and how many node pools an arrangement is made at most, and how many steps it may take.
MAX_ITEMS, MAX_PARTS, MAX_TRIALS = 40, 48, 1500


@dataclass(frozen=True, slots=True)
class Item:
    """A replica that needs a place: the ways in which it may run, best first, and where it is now."""

    run: Sequence[Candidate]
    replica: int
    now: Placement | None


class Arrangement:
    """Tries arrangements of items on one ledger; what it finds is placed there."""

    def __init__(self, filler: Filler, items: Sequence[Item]) -> None:
        self.filler = filler
        self.ledger = filler.ledger
        self.items = sorted(items, key=_hardness)
        self.left = MAX_TRIALS
        self.failed: set[t.Any] = set()
        self.spread = {item.run[0].request.number: item.run[0].request for item in items if item.run[0].request.spread}
        every = [candidate for item in items for candidate in item.run]
        self.nodes_alike = not self.spread and all(candidate.disk_gb is None for candidate in every)

    def find(self) -> bool:
        """Place all items, or nothing; ``left`` is 0 when that was given up."""
        return self._place_from(0)

    def _place_from(self, at: int) -> bool:
        if at == len(self.items):
            return True
        state = (at, self._state())
        if state in self.failed:
            return False
        ledger, item = self.ledger, self.items[at]
        for placement in self._options(item):
            if self.left <= 0:
                return False
            self.left -= 1
            mark = ledger.mark()
            ledger.place(placement)
            if self._place_from(at + 1):
                return True
            ledger.undo(mark)
        self.failed.add(state)
        return False

    def _state(self) -> t.Any:
        ledger = self.ledger
        spread = tuple(tuple(request.domains.items()) for request in self.spread.values())
        return tuple(map(len, ledger.part_free)), tuple(ledger.ram_left), spread

    def _options(self, item: Item) -> Iterator[Placement]:
        """Return the places that an item could have now: its own first, and of nodes that are alike only one."""
        now = item.now
        if now is not None and self._is_free(now):
            yield now
        for candidate in item.run:
            seen = set()
            shards = {node: self._shards(candidate, node) for node in candidate.node_parts}
            nodes = [node for node, found in shards.items() if found]
            for chosen, fabric in self._sets(candidate, nodes):
                look = (fabric, tuple(sorted(map(self._signature, chosen)))) if self.nodes_alike else chosen
                if look not in seen:
                    seen.add(look)
                    for parts in itertools.product(*(shards[node] for node in chosen)):
                        yield Placement(candidate, item.replica, parts, fabric)

    def _is_free(self, now: Placement) -> bool:
        ledger = self.ledger
        return all(
            all(gpu in ledger.part_free[ledger.part_at(gpu)] for gpu in shard.gpus)
            and ledger.has_memory(shard.node, shard.memory_mib + shard.shared_mib)
            and ledger.is_spread(now.candidate, shard.node)
            for shard in now.shards
        )

    def _sets(self, candidate: Candidate, nodes: Sequence[int]) -> Iterator[tuple[tuple[int, ...], str | None]]:
        if candidate.nodes == 1:
            yield from (((node,), None) for node in nodes)
            return
        fabrics = self.ledger.fleet.fabrics
        for fabric in sorted({name for node in nodes for name in fabrics[node]}, key=self.filler.fabric_key):
            members = [node for node in nodes if fabric in fabrics[node]]
            yield from ((chosen, fabric) for chosen in itertools.combinations(members, candidate.nodes))

    def _signature(self, node: int) -> t.Any:
        ledger = self.ledger
        first, last = ledger.fleet.node_span[node]
        parts = tuple(sorted((ledger.part_pool[part], len(ledger.part_free[part])) for part in range(first, last)))
        return parts, ledger.ram_left[node] or 0, ledger.fleet.fabrics[node]

    def _shards(self, candidate: Candidate, node: int) -> list[Shard]:
        """Return the shards that a candidate could have on a node: one for each way to divide it among the kinds there."""
        ledger, filler = self.ledger, self.filler
        if not (filler.has_disk(candidate, node) and ledger.is_spread(candidate, node)):
            return []
        if candidate.gpus:
            shards = [ledger.shard(candidate, node, gpus) for gpus in self._divisions(candidate, node)]
        else:
            shards = [Shard(node, (), candidate.memory_mib)]
        return [each for each in shards if ledger.has_memory(node, each.memory_mib + each.shared_mib)]

    def _divisions(self, candidate: Candidate, node: int) -> Iterator[tuple[int, ...]]:
        """Return free GPUs of a node that would do, those with the lowest numbers first; of equal GPUs the lowest."""
        ledger = self.ledger
        free = {part: ledger.part_free[part] for part in candidate.node_parts[node] if ledger.part_free[part]}
        first = ledger.choose_gpus(tuple(free), candidate.gpus)
        if first is None:
            return
        yield first
        if len(free) == 1 or ledger.fleet.pairs:
            return
        for parts in itertools.combinations_with_replacement(free, candidate.gpus):
            counts = Counter(parts)
            if all(len(free[part]) >= count for part, count in counts.items()):
                gpus = tuple(sorted(gpu for part, count in counts.items() for gpu in free[part][-count:]))
                if gpus != first:
                    yield gpus


def _hardness(item: Item) -> tuple[t.Any, ...]:
    """Return the sort key that puts first what has the fewest places."""
    least = min(candidate.gpus * candidate.nodes for candidate in item.run)
    memory = max(candidate.memory_mib for candidate in item.run)
    pools = len({pool for candidate in item.run for pool in candidate.pools})
    first = item.run[0]
    return (-least, -memory, pools, first.request.number, item.replica)
