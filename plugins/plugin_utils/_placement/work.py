# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.
"""What is placed, and where: one kind of work for roles, for groups of roles that share a GPU, and for models.

A ``Request`` wants replicas. Each runs by one of its ``Candidate`` s (a role has one with a GPU and perhaps one without,
a model one for each profile) and becomes a ``Placement`` of one or more ``Shard`` s.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.memory import run_of
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import (
    ask_of_profile,
    ask_of_role,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
        Engine,
        Model,
        Profile,
        Role,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import Number
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import Ask

ROLE, MODEL = "role", "model"
LARGEST = "largest"
NODE, FABRIC, LABEL = "node", "fabric", "label"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Over what the replicas of a request spread; ``hard`` allows one in each domain and no more."""

    by: str = NODE
    label: str | None = None
    hard: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a plan is made, as one value.

    ``moves`` is what may happen to what runs, ``rebalance`` replans from scratch, ``reassign`` searches for moves where
    nothing is free, and ``passthrough`` says that what is placed runs in VMs. ``replan_ways`` computes afresh how models
    run that have no profiles.
    """

    engines: Mapping[str, Engine]
    moves: str = "none"
    rebalance: bool = False
    reassign: bool = True
    passthrough: bool = True
    replan_ways: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class Candidate:
    """One way to run a replica: what each GPU must offer, how many on how many nodes, and the pools that do.

    ``gpus`` is the number on each node, 0 on the CPU. ``groups`` are the pools in order of preference, equals together;
    ``shared`` is what a GPU without memory of its own takes of its node, in MiB by pool.
    """

    number: int
    rank: int
    request: Request
    ask: Ask
    gpus: int = 1
    nodes: int = 1
    memory_mib: int = 0
    disk_gb: Number | None = None
    gpu_nodes: bool = False
    context: int = 0
    profile: Profile | None = None
    shared: Mapping[int, int] = field(default_factory=dict)
    groups: tuple[tuple[int, ...], ...] = ()
    pools: tuple[int, ...] = ()
    pool_set: frozenset[int] = frozenset()
    node_parts: Mapping[int, list[int]] = field(default_factory=dict)

    @property
    def is_single(self) -> bool:
        """Whether a replica is one GPU."""
        return self.gpus == 1 and self.nodes == 1

    def need(self, pool: int) -> int:
        """Return what a replica on one GPU of this pool takes of the memory of its node, in MiB."""
        return self.memory_mib + self.shared.get(pool, 0)


@dataclass(slots=True, kw_only=True, eq=False)
class Request:
    """Replicas of one role, unit or model: what they want, in which order, and what they got.

    ``priority`` is the number that people write (lower goes first) and ``number`` the place in the order of placement.
    ``domains`` and ``load`` count its replicas by what they spread over, and those without a GPU by node.
    ``members`` are the roles of a unit. ``excluded`` are replicas that sit in a unit. ``is_proven`` says that no arrangement
    has room for more, ``bound_hit`` that the search gave up before it knew, ``is_spent`` that
    it used up what it may.
    """

    number: int
    kind: str
    name: str
    priority: int
    numbers: Sequence[int]
    role: Role | None = None
    model: Model | None = None
    spread: Spread | None = None
    per_node: bool = False
    candidates: tuple[Candidate, ...] = ()
    placements: dict[int, Placement] = field(default_factory=dict)
    domains: dict[t.Any, int] = field(default_factory=dict)
    load: dict[int, int] = field(default_factory=dict)
    members: tuple[Request, ...] = ()
    excluded: set[int] = field(default_factory=set)
    bound_hit: bool = False
    is_spent: bool = False
    is_proven: bool = False

    @property
    def missing(self) -> int:
        """How many replicas have no place."""
        return 0 if self.members else max(0, len(self.numbers) - len(self.placements))

    def free_numbers(self) -> list[int]:
        """Return the replica numbers that have no place yet, the lowest last so that it is popped first."""
        if not self.placements and not self.excluded:
            return list(reversed(self.numbers))
        return [number for number in reversed(self.numbers) if self._is_open(number)]

    def _is_open(self, number: int) -> bool:
        return number not in self.placements and number not in self.excluded

    def names(self) -> list[str]:
        """Return the names under which the plan lists it: of a unit those of its members."""
        return [member.name for member in self.members] or [self.name]

    def alternatives(self, candidate: Candidate, whom: Request) -> list[Candidate]:
        """Return how a replica may run that moves to make room for somebody, best first.

        A profile of a lower priority only for work of the same or a better priority, and never the CPU or a shorter
        context in place of what it has.
        """
        if len(self.candidates) == 1:
            return [candidate]
        may_concede = whom.priority <= self.priority
        return [
            other
            for other in self.candidates
            if other is candidate
            or (
                other.gpus > 0
                and other.context >= candidate.context
                and (may_concede or other.rank < candidate.rank or not candidate.gpus)
            )
        ]


@dataclass(slots=True, eq=False)
class Shard:
    """The part of a replica on one node; without GPUs on the CPU.

    ``memory_mib`` is what its VM takes of the node and ``shared_mib`` what its GPUs take, where they have no memory of their
    own. ``pool`` is that of a single GPU. ``unseen`` is what the last plan says of GPUs that the node does not show now.
    """

    node: int
    gpus: tuple[int, ...]
    memory_mib: int = 0
    shared_mib: int = 0
    pool: int = -1
    unseen: Mapping[str, t.Any] | None = None
    risk: str | None = None


@dataclass(slots=True, eq=False)
class Placement:
    """One replica and where it is.

    ``is_fixed`` keeps it there, ``is_kept`` says that the last plan had it, ``conceded`` names whom it made room for by running
    in a way of a lower priority, and ``unit`` is the request of the group that shares the GPU.
    """

    candidate: Candidate
    replica: int
    shards: tuple[Shard, ...]
    fabric: str | None = None
    is_fixed: bool = False
    is_kept: bool = False
    conceded: str | None = None
    unit: Request | None = None

    @property
    def request(self) -> Request:
        """Whose replica it is."""
        return self.candidate.request


def role_order(roles: Iterable[Role]) -> list[Role]:
    """Return roles in the order in which they are placed."""
    return sorted(roles, key=lambda role: (role.priority, role.name))


def model_order(models: Iterable[Model]) -> list[Model]:
    """Return models that shall always run, in the order in which they are placed."""
    wanted = [model for model in models if model.per_node or (model.scaling and model.scaling.min)]
    return sorted(wanted, key=lambda model: (model.placement_priority, model.name))


def role_memory_mib(role: Role) -> int:
    """Return what the VM of a role takes of its node; 0 where the role does not say."""
    asked = role.vm.get("memory_mib")
    return int(asked) if asked else int((role.needs.min_memory_gb or 0) * 1024)


def profile_memory_mib(profile: Profile) -> int:
    """Return what the VM of a shard takes of its node; 0 where the profile does not say."""
    return int((profile.min_memory_gb or 0) * 1024)


def request_of_role(role: Role, ask: Ask, *, name: str | None = None, numbers: Sequence[int] | None = None) -> Request:
    """Return the request of a role, or of a unit where a role stands for it under another name."""
    request = Request(
        number=0,
        kind=ROLE,
        name=name or role.name,
        priority=role.priority,
        numbers=range(role.count) if numbers is None else numbers,
        role=role,
        spread=spread_of(role),
        per_node=bool(role.per_node),
    )
    ways = [1] if role.needs.gpu else []
    if role.cpu_fallback or not role.needs.gpu:
        ways.append(0)
    request.candidates = tuple(
        Candidate(
            number=0,
            rank=rank,
            request=request,
            ask=ask,
            gpus=gpus,
            memory_mib=role_memory_mib(role),
            gpu_nodes=role.needs.gpu_nodes,
        )
        for rank, gpus in enumerate(ways)
    )
    return request


def request_of_model(model: Model, options: Options, *, wanted: int) -> Request:
    """Return the request of a model: its profiles, the highest priority first."""
    request = Request(
        number=0,
        kind=MODEL,
        name=model.name,
        priority=model.placement_priority,
        numbers=range(wanted),
        model=model,
        spread=spread_of(model),
        per_node=bool(model.per_node),
    )
    request.candidates = tuple(
        Candidate(
            number=0,
            rank=rank,
            request=request,
            ask=ask_of_profile(model, profile, options.engines, passthrough=options.passthrough),
            gpus=0 if profile.gpu_class is None else profile.gpus_per_node,
            nodes=profile.nodes,
            memory_mib=profile_memory_mib(profile),
            disk_gb=profile.min_disk_gb,
            gpu_nodes=profile.gpu_nodes,
            context=run_of(model, profile.engine, profile).context or 0,
            profile=profile,
        )
        for rank, profile in enumerate(sorted(model.profiles, key=lambda each: (-each.priority, each.rank, each.name)))
    )
    return request


def ask_of(role: Role, models: Mapping[str, Model], options: Options) -> Ask:
    """Return what a role asks of its GPU."""
    return ask_of_role(role, models, options.engines, passthrough=options.passthrough)


def spread_of(entry: Role | Model) -> Spread | None:
    """Return over what the replicas of an entry spread; one on each node is a hard spread over nodes."""
    if entry.per_node:
        return Spread(hard=True)
    if not entry.spread:
        return None
    if isinstance(entry.spread, str):
        return Spread(by=entry.spread)
    return Spread(**entry.spread)
