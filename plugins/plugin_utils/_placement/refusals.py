# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What could not be placed: why, by how little, who competes for what, and which change would place it."""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.codes import CODE_RANK
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.explain import Explainer, cap_text
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.help import Helper
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import ROLE

if t.TYPE_CHECKING:
    from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import Shape
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.document import Writer
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.explain import Tally
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import Ask
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.help import Question
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import Candidate, Request

# How many GPUs of a bottleneck are listed.
LISTED_GPUS = 16


class Refusals:
    """Reads the refusals off a finished plan."""

    def __init__(self, writer: Writer, question: Question) -> None:
        self.writer = writer
        self.requests = writer.requests
        self.ledger = writer.ledger
        self.fleet = writer.fleet
        self.explainer = Explainer(writer.search.filler, writer.owners)
        self.helper = Helper(writer, question)

    def entries(self) -> list[dict[str, t.Any]]:
        """Return one entry for each request that is short, in the order of placement."""
        return [self._entry(request) for request in self.requests if request.missing]

    def _entry(self, request: Request) -> dict[str, t.Any]:
        # Work without a GPU is the last resort of a role, and its refusal says nothing of GPUs.
        candidates = request.candidates[:1] if request.kind == ROLE else request.candidates
        tallies = [self.explainer.tally(candidate) for candidate in candidates]
        texts = [
            self._text(candidate, tally, named=len(candidates) > 1)
            for candidate, tally in zip(candidates, tallies, strict=True)
            if not _is_elsewhere(candidate, tally)
        ]
        at = max(range(len(tallies)), key=lambda each: (CODE_RANK[tallies[each].last()], -each))
        entry: dict[str, t.Any] = {
            request.kind: request.name,
            "wanted": len(request.numbers),
            "placed": len(request.placements),
            "missing": request.missing,
            "code": tallies[at].last(),
            "reason": "; ".join(texts),
            "rejected": tallies[at].ordered(),
        }
        nearest = self._nearest(candidates[at].ask, tallies[at]) if candidates[at].gpus else None
        if nearest is not None:
            entry["nearest"] = nearest
        bottleneck = self._bottleneck(request) if any("in_use" in tally.counts for tally in tallies) else None
        if bottleneck is not None:
            entry["bottleneck"] = bottleneck
        entry["what_would_help"] = list(self.helper.helps(request, tallies))
        return entry

    def _text(self, candidate: Candidate, tally: Tally, *, named: bool) -> str:
        head = self.explainer.headline(candidate, tally)
        counts = self.explainer.reason(tally, candidate)
        text = f"{head}: {counts}" if head else counts
        return f"{candidate.profile.name}: {text}" if named and candidate.profile is not None else text

    def _nearest(self, ask: Ask, tally: Tally) -> dict[str, t.Any] | None:
        """Return the GPU that came nearest: it failed the latest rule, and by the least."""
        code = tally.last()
        pools = tally.pools.get(code, ())
        if not pools:
            return None
        shapes = {at: self.ledger.pools[at].shape for at in pools}
        if code == "vram":
            pool = max(pools, key=lambda at: (shapes[at].memory_gb or 0, -at))
        elif code == "cc_max":
            pool = min(pools, key=lambda at: (shapes[at].compute_cap or (99, 0), at))
        else:
            pool = max(pools, key=lambda at: (shapes[at].compute_cap or (0, 0), -at))
        gpu = min(
            (
                gpu
                for part in self.ledger.pool_parts[pool]
                for gpu in self.fleet.node_pools[part].gpus
                if code != "in_use" or gpu in self.writer.owner
            ),
            default=None,
        )
        if gpu is None:
            return None
        return {**self.helper.spot(gpu), "code": code} | self._by_how_much(ask, code, shapes[pool], gpu)

    def _by_how_much(self, ask: Ask, code: str, shape: Shape, gpu: int) -> dict[str, t.Any]:
        if code == "vram":
            size = ask.size_gb
            return {} if size is None or size <= (shape.memory_gb or 0) else {"need": size, "have": shape.memory_gb}
        if code == "cc_min":
            floor = max(cap for cap in (ask.min_cc, ask.engine_min_cc) if cap is not None)
            return {"need": cap_text(floor), "have": shape.cap_text}
        if code == "cc_max":
            top = min(cap for cap in (ask.max_cc, ask.engine_max_cc) if cap is not None)
            return {"need": cap_text(top), "have": shape.cap_text}
        if code == "in_use":
            return {"blocked_by": self.writer.owner[gpu]}
        if code == "external":
            return {"blocked_by": self.fleet.holders.get(gpu, "somebody")}
        if code == "node_state":
            return {"state": self.fleet.states[self.fleet.gpu_node[gpu]]}
        return {}

    def _closed(self, request: Request) -> set[int]:
        """Return the pools among which everybody who could make room can only move; none where a GPU is free there."""
        users: dict[int, set[Candidate]] = {}
        for other in self.requests:
            for placement in other.placements.values():
                for shard in placement.shards:
                    for pool in (shard.pool,) if shard.pool >= 0 else map(self.ledger.pool_at, shard.gpus):
                        users.setdefault(pool, set()).add(placement.candidate)
        reached = {pool for candidate in request.candidates for pool in candidate.pools}
        queue = list(reached)
        for pool in queue:
            for user in users.get(pool, ()):
                for candidate in user.request.candidates:
                    fresh = [target for target in candidate.pools if target not in reached]
                    reached.update(fresh)
                    queue += fresh
        return set() if any(self.ledger.pool_free[pool] for pool in reached) else reached

    def _bottleneck(self, request: Request) -> dict[str, t.Any] | None:
        """Return who together want more GPUs than there are for them, where no free GPU is in reach of any of them."""
        closed = self._closed(request)
        if not closed:
            return None
        short = [
            other
            for other in self.requests
            if other.missing
            and any(candidate.pools for candidate in other.candidates)
            and closed.issuperset(pool for candidate in other.candidates for pool in candidate.pools)
        ]
        names = {name for pool in closed for name in self.writer.owners.get(pool, ())}
        gpus = sorted(
            gpu for pool in closed for part in self.ledger.pool_parts[pool] for gpu in self.fleet.node_pools[part].gpus
        )
        return {
            "roles": sorted(names | {other.name for other in short}),
            "wanted": len(gpus) + sum(other.missing * _gpus_each(other) for other in short),
            "gpu_count": len(gpus),
            "gpus": [self.helper.spot(gpu) for gpu in gpus[:LISTED_GPUS]],
        }


def _is_elsewhere(candidate: Candidate, tally: Tally) -> bool:
    """Return whether a way was computed for a class that the fleet has not, so that nobody asked for it."""
    profile = candidate.profile
    return profile is not None and profile.rank > 0 and set(tally.counts) == {"gpu_class"}


def _gpus_each(request: Request) -> int:
    """Return how many GPUs a replica takes at least."""
    return min(candidate.gpus * candidate.nodes for candidate in request.candidates if candidate.gpus)
