# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What a plan places, walked in one way: replicas of roles and of models, each with its parts on nodes and GPUs.

The plan is one that its schema allows. Both kinds look alike here: a replica of a role has one part.
"""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROLE, MODEL = "role", "model"


class Part(t.NamedTuple):
    """What of a replica is on one node; without GPUs it runs on the CPU.

    ``entry`` is what else the plan says of it (vm, memory_mib, weights, slots, at_risk): a shard, or a role's own entry.
    """

    rank: int
    node: str
    gpu_indices: Sequence[int]
    gpus: Sequence[Mapping[str, t.Any]]
    entry: dict[str, t.Any]


class Placement(t.NamedTuple):
    """One replica of a role or model that has a place, and its entry in the plan."""

    kind: str
    name: str
    replica: int
    parts: tuple[Part, ...]
    entry: dict[str, t.Any]

    @property
    def label(self) -> str:
        """How it is called: ``chat/0``."""
        return f"{self.name}/{self.replica}"

    def label_of(self, part: Part) -> str:
        """Return how one of its parts is called: with its rank where there are several."""
        return f"{self.label} rank {part.rank}" if len(self.parts) > 1 else self.label

    @property
    def nodes(self) -> list[str]:
        """The nodes that it is on, each once, in the order of its parts."""
        return list(dict.fromkeys(part.node for part in self.parts))


def placements(plan: Mapping[str, t.Any]) -> Iterator[Placement]:
    """Yield every replica that a plan places, those of roles first, in the order of the plan."""
    for one in plan.get("assignments") or ():
        index = one.get("gpu_index")
        indices, gpus = ((), ()) if index is None else ((index,), (one.get("gpu") or {},))
        yield Placement(ROLE, one["role"], one["replica"], (Part(0, one["node"], indices, gpus, one),), one)
    for one in plan.get("replicas") or ():
        parts = (
            Part(shard.get("rank", at), shard["node"], shard["gpu_indices"], shard.get("gpus") or (), shard)
            for at, shard in enumerate(one["shards"])
        )
        yield Placement(MODEL, one["model"], one["replica"], tuple(parts), one)
