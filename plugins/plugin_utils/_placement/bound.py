# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What moves cannot do, whatever is tried: a bound by a flow of GPUs over pools.

Every GPU moves for itself, and nodes, fabrics, memory and disks do not count, so the bound is never too low. Where it is less
than a replica takes, no arrangement has room for it, and nothing needs to be searched.
"""

from __future__ import annotations

import typing as t
from collections import deque

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.ledger import Ledger
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import (
        Candidate,
        Placement,
        Request,
    )

# A step: who moves, from which pool, and by which candidate it then runs.
Step = tuple[int, int, int]


class Flow:
    """GPUs by pool and by who may move off them, in one state of the books."""

    def __init__(self, ledger: Ledger, candidates: Mapping[int, Candidate], whom: Request) -> None:
        self.ledger = ledger
        self.candidates = candidates
        self.whom = whom
        self.free = list(ledger.pool_free)
        self.users: dict[int, dict[int, int]] = {}
        self._ways: dict[int, list[Candidate]] = {}
        self._large: dict[int, dict[int, int]] | None = None

    def can_free(self, candidate: Candidate) -> bool:
        """Return whether as many GPUs of its pools as a replica takes could be free at once."""
        wanted = candidate.gpus * candidate.nodes
        for counts_large in (False, True):
            if counts_large:
                self._count_large()
            while wanted > 0:
                came, end = self._find_path(candidate)
                if end is None:
                    break
                wanted -= self._push(came, end, wanted)
            if wanted <= 0:
                return True
        return wanted <= self._left_over(came)

    def _find_path(self, candidate: Candidate) -> tuple[dict[int, Step | None], int | None]:
        """Return how each pool was reached, breadth first, and the first of them with a free GPU."""
        came: dict[int, Step | None] = dict.fromkeys(candidate.pools)
        queue = deque(came)
        while queue:
            pool = queue.popleft()
            if self.free[pool]:
                return came, pool
            for number, count in self._users_of(pool).items():
                for into in self._ways_of(number) if count else ():
                    for target in into.pools:
                        if target not in came:
                            came[target] = (number, pool, into.number)
                            queue.append(target)
        return came, None

    def _push(self, came: Mapping[int, Step | None], end: int, wanted: int) -> int:
        """Move as many GPUs along a path as it carries; returns how many became free at its start."""
        path = list(self._steps(came, end))
        amount = min([wanted, self.free[end], *(self._users_of(leaves)[number] for number, leaves, _into, _to in path)])
        self.free[end] -= amount
        for number, leaves, into, to in path:
            self._users_of(leaves)[number] -= amount
            there = self._users_of(to)
            there[into] = there.get(into, 0) + amount
        return amount

    def _steps(self, came: Mapping[int, Step | None], end: int) -> Iterator[tuple[int, int, int, int]]:
        step = came[end]
        while step is not None:
            yield (*step, end)
            end = step[1]
            step = came[end]

    def _users_of(self, pool: int) -> dict[int, int]:
        users = self.users.get(pool)
        if users is None:
            users = {number: len(found) for number, found in self.ledger.movable[pool].items()}
            for number, count in (self._large or {}).get(pool, {}).items():
                users[number] = users.get(number, 0) + count
            self.users[pool] = users
        return users

    def _ways_of(self, number: int) -> list[Candidate]:
        ways = self._ways.get(number)
        if ways is None:
            occupant = self.candidates[number]
            ways = self._ways[number] = occupant.request.alternatives(occupant, self.whom)
        return ways

    def _count_large(self) -> None:
        """Count the GPUs of replicas over several, too: each as if it could move alone."""
        if self._large is not None:
            return
        self._large = {}
        for placement in self.ledger.large.values():
            for pool in self._pools_of(placement):
                counts = self._large.setdefault(pool, {})
                number = placement.candidate.number
                counts[number] = counts.get(number, 0) + 1
        for pool, users in self.users.items():
            for number, count in self._large.get(pool, {}).items():
                users[number] = users.get(number, 0) + count

    def _left_over(self, reached: Mapping[int, t.Any]) -> int:
        """Return how many GPUs would be free where replicas on these pools ran in their smallest way."""
        return sum(
            _gpus(placement.candidate) - min(map(_gpus, self._ways_of(placement.candidate.number)))
            for placement in self.ledger.large.values()
            if any(pool in reached for pool in self._pools_of(placement))
        )

    def _pools_of(self, placement: Placement) -> Iterable[int]:
        return (self.ledger.pool_at(gpu) for shard in placement.shards for gpu in shard.gpus)


def _gpus(candidate: Candidate) -> int:
    return candidate.gpus * candidate.nodes
