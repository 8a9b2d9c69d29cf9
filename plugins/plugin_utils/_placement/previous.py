# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The last plan: what still fits stays where it is, and only what cannot stay looks for another place.

A GPU is recognised by its UUID and PCI address on its node, by its index only where neither is known. A node that does
not show its GPUs now (it cannot be reached, or its tool is broken) keeps what it had: not knowing is no reason to move.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass
from itertools import pairwise

from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import (
    DRAINING,
    READY,
    UNREACHABLE,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.colocate import unit_vm
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.document import place_of
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import (
    ROLE,
    Placement,
    Shard,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.ledger import Ledger
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.search import Search
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import (
        Candidate,
        Options,
        Request,
    )

DRAIN, NODE_GONE, GPU_GONE, PROFILE_GONE = "drain", "node_gone", "gpu_gone", "profile"
RESCUE, PREEMPT, REBALANCE = "rescue", "preempt", "rebalance"

Name = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class PriorShard:
    """Where the last plan had the part of a replica on one node."""

    node: str
    indices: tuple[int, ...]
    gpus: tuple[Mapping[str, t.Any], ...]
    memory_mib: int

    @property
    def spot(self) -> dict[str, t.Any]:
        """Node and indices as the document has them."""
        return {"node": self.node, "gpu_indices": list(self.indices)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """Where the last plan had one replica."""

    shards: tuple[PriorShard, ...]
    vm: str = ""
    profile: str | None = None
    fabric: str | None = None
    conceded: str | None = None


class Previous:
    """Carries the last plan over into a new one."""

    def __init__(
        self, document: Mapping[str, t.Any], ledger: Ledger, requests: Sequence[Request], options: Options
    ) -> None:
        self.ledger = ledger
        self.fleet = ledger.fleet
        self.options = options
        self.nodes = {name: number for number, name in enumerate(self.fleet.names)}
        self.priors = _read(document)
        self.causes: dict[Name, str] = {}
        self.blocked: list[dict[str, t.Any]] = []
        self.evicted: set[Name] = set()
        self._gpus_on: dict[int, list[int]] = {}
        self._refusals: dict[tuple[int, int], str | None] = {}
        self._kept: set[Placement] = set()
        if self.fleet.ours:
            self._adopt(requests)

    def _adopt(self, requests: Sequence[Request]) -> None:
        """Take VMs of ours that run and are in no plan as if they were in the last one."""
        fleet = self.fleet
        by_vm: dict[str, list[int]] = {}
        for gpu, name in sorted(fleet.ours.items()):
            by_vm.setdefault(name, []).append(gpu)
        for request in requests:
            group = request.role.colocate if request.role is not None else None
            for number in request.numbers:
                key = (request.kind, request.name, number)
                if key in self.priors:
                    continue
                for vms, profile in _vm_names(request, group, number):
                    found = [by_vm.get(vm, []) for vm in vms]
                    if all(found):
                        self.priors[key] = Prior(
                            shards=tuple(self._prior_shard(gpus) for gpus in found), vm=vms[0], profile=profile
                        )
                        break

    def _prior_shard(self, gpus: Sequence[int]) -> PriorShard:
        fleet = self.fleet
        return PriorShard(
            fleet.names[fleet.gpu_node[gpus[0]]],
            tuple(fleet.gpu_index[gpu] for gpu in gpus),
            tuple({"uuid": fleet.gpu_uuid[gpu], "pci_address": fleet.gpu_pci[gpu]} for gpu in gpus),
            0,
        )

    def vm_of(self, request: Request, number: int) -> str | None:
        """Return the VM of a replica of a role in the last plan, or ``None`` where it had none."""
        prior = self.priors.get((request.kind, request.name, number))
        return None if prior is None else prior.vm

    def numbers_of(self, request: Request) -> list[int]:
        """Return the replicas of a request that the last plan had."""
        return sorted(number for kind, name, number in self.priors if (kind, name) == (request.kind, request.name))

    # --- staying

    def keep(self, requests: Sequence[Request]) -> None:
        """Put back everything that can stay: what shares a GPU first, then in the order of placement."""
        for request in sorted(requests, key=lambda each: not each.members):
            for number in list(request.numbers) if not request.per_node else self.numbers_of(request):
                names = request.names()
                prior = next(
                    (
                        found
                        for name in names
                        if (found := self.priors.get((request.kind, name, number))) is not None
                        and (not request.members or found.vm == unit_vm(request.name, number))
                    ),
                    None,
                )
                if prior is None or number in request.excluded:
                    continue
                placement = self._placement(request, number, prior)
                if isinstance(placement, str):
                    self._leave(request, number, placement)
                else:
                    self.ledger.place(placement)
                    self._kept.add(placement)
            for member in request.members:
                member.excluded.update(request.placements)

    def _leave(self, request: Request, number: int, cause: str) -> None:
        for name in request.names():
            self.causes[request.kind, name, number] = cause

    def _placement(self, request: Request, number: int, prior: Prior) -> Placement | str:
        candidate = self._candidate(request, prior)
        if candidate is None:
            return "config" if request.kind == ROLE else PROFILE_GONE
        shards: list[Shard] = []
        for part in prior.shards:
            shard = self._shard(candidate, part)
            if isinstance(shard, str):
                return shard
            shards.append(shard)
        gpus = [gpu for shard in shards for gpu in shard.gpus]
        if len(set(gpus)) < len(gpus):
            # A plan that somebody edited names a GPU twice.
            return "in_use"
        seen = [shard for shard in shards if shard.unseen is None]
        if len(shards) != candidate.nodes or any(len(shard.gpus) != candidate.gpus for shard in seen):
            return PROFILE_GONE
        fabric = prior.fabric if candidate.nodes > 1 else None
        if candidate.nodes > 1 and any(fabric not in self.fleet.fabrics[shard.node] for shard in seen):
            return "fabric"
        is_fixed = self.options.moves == "none" or any(
            shard.unseen is not None or shard.risk is not None or self.fleet.states[shard.node] != READY
            for shard in shards
        )
        return Placement(candidate, number, tuple(shards), fabric, is_fixed, is_kept=True, conceded=prior.conceded)

    def _candidate(self, request: Request, prior: Prior) -> Candidate | None:
        """Return the way in which a replica runs, where the request still has it."""
        has_gpus = any(part.indices for part in prior.shards)
        for candidate in request.candidates:
            if candidate.profile is not None:
                if candidate.profile.name == prior.profile:
                    return candidate
            elif bool(candidate.gpus) is has_gpus:
                return candidate
        return None

    def _shard(self, candidate: Candidate, part: PriorShard) -> Shard | str:
        """Find the GPUs of a shard again; returns why it cannot be kept."""
        node, ledger, fleet = self.nodes.get(part.node), self.ledger, self.fleet
        if node is None:
            return NODE_GONE
        if part.indices and fleet.gpu_count[node] is None:
            unseen = {"gpu_indices": list(part.indices), "gpus": [dict(gpu) for gpu in part.gpus]}
            risk = None if fleet.states[node] == UNREACHABLE else "gpus_unknown"
            memory = candidate.memory_mib or (part.memory_mib if ledger.passthrough else 0)
            return Shard(node, (), memory, unseen=unseen, risk=risk)
        if not part.indices and fleet.gpu_count[node] and not candidate.gpu_nodes:
            return "config"
        gpus: list[int] = []
        risk = None
        for at, index in enumerate(part.indices):
            gpu = self.find_gpu(node, part.gpus[at] if at < len(part.gpus) else {}, index)
            if gpu is None:
                return GPU_GONE
            at_part = ledger.part_at(gpu)
            if gpu not in ledger.part_free[at_part]:
                return "in_use"
            cause = self._refusal(candidate, ledger.part_pool[at_part])
            if cause == "unhealthy":
                risk = cause
            elif cause is not None:
                return cause
            gpus.append(gpu)
        cause = None if gpus else ledger.node_refusal(candidate.ask, node, state=READY)
        if cause is not None:
            return cause
        shard = Shard(node, (), candidate.memory_mib)
        if gpus and len(gpus) == candidate.gpus:
            shard = ledger.shard(candidate, node, tuple(sorted(gpus)))
        shard.risk = risk
        need = shard.memory_mib + shard.shared_mib
        if need and not ledger.has_memory(node, need):
            return "node_memory"
        if ledger.passthrough and not shard.memory_mib:
            # A VM that asked for nothing keeps the share it got, as far as it is still there.
            left = ledger.ram_left[node]
            shard.memory_mib = part.memory_mib if left is None else max(0, min(part.memory_mib, left - need))
        return shard

    def _refusal(self, candidate: Candidate, pool: int) -> str | None:
        key = candidate.number, pool
        if key not in self._refusals:
            self._refusals[key] = self.ledger.refusal_to_stay(candidate.ask, pool)
        return self._refusals[key]

    def find_gpu(self, node: int, gpu: Mapping[str, t.Any], index: int) -> int | None:
        """Return the number of a GPU of the last plan on its node, or ``None`` when it is not there any more."""
        fleet = self.fleet
        gpus = self._gpus_on.get(node)
        if gpus is None:
            first, last = fleet.node_span[node]
            gpus = self._gpus_on[node] = sorted(each for part in fleet.node_pools[first:last] for each in part.gpus)
        uuid, address = gpu.get("uuid"), gpu.get("pci_address")
        if uuid is not None:
            for each in gpus:
                if fleet.gpu_uuid[each] == uuid:
                    return each
        if address is not None:
            for each in gpus:
                if fleet.gpu_pci[each] == address:
                    # Another GPU in the same place is another GPU.
                    return each if uuid is None or fleet.gpu_uuid[each] is None else None
        for each in gpus:
            if fleet.gpu_index[each] == index:
                same = (uuid is None or fleet.gpu_uuid[each] is None) and (
                    address is None or fleet.gpu_pci[each] is None
                )
                return each if same else None
        return None

    def join(self, growing: Iterable[Mapping[int, Sequence[Request]]]) -> None:
        """Let newcomers join the units that run, as far as their GPU and their node have room beside them."""
        for units in growing:
            for number, stages in units.items():
                for before, after in pairwise(stages):
                    if not self._grow(before, after, number):
                        break

    def _grow(self, before: Request, after: Request, number: int) -> bool:
        placement = before.placements.get(number)
        if placement is None:
            return False
        (shard,), candidate = placement.shards, after.candidates[0]
        if shard.pool < 0 or self.ledger.refusal(candidate.ask, shard.pool) is not None:
            return False
        self.ledger.remove(placement)
        grown = self.ledger.shard(candidate, shard.node, shard.gpus)
        grown.memory_mib = grown.memory_mib or shard.memory_mib
        if not self.ledger.has_memory(shard.node, grown.memory_mib + grown.shared_mib):
            self.ledger.place(placement)
            return False
        t.cast("list[int]", before.numbers).remove(number)
        t.cast("list[int]", after.numbers).append(number)
        self.ledger.place(Placement(candidate, number, (grown,), None, placement.is_fixed, is_kept=True))
        for member in after.members:
            member.excluded.add(number)
        return True

    # --- going

    def evacuate(self, search: Search) -> None:
        """Move off draining nodes and broken GPUs what finds another place, by priority; the rest stays at risk."""
        for request in search.requests:
            for placement in list(request.placements.values()):
                drains = any(self.fleet.states[shard.node] == DRAINING for shard in placement.shards)
                if drains or any(shard.risk == "unhealthy" for shard in placement.shards):
                    self._evacuate(search, placement, DRAIN if drains else "unhealthy")

    def _evacuate(self, search: Search, placement: Placement, cause: str) -> None:
        request = placement.request
        # What moves gives back what it has before it looks for another place.
        self.ledger.remove(placement)
        search.place(request, [placement.replica])
        if placement.replica in request.placements:
            request.placements[placement.replica].is_kept = True
            self._leave(request, placement.replica, cause)
            return
        self.ledger.place(placement)
        for name in request.names():
            self.blocked.append(
                {request.kind: name, "replica": placement.replica, **_at(place_of(self.fleet, placement), request)}
                | {"cause": cause}
            )

    # --- telling

    def changes(self, search: Search) -> dict[str, t.Any]:
        """Return what moved and why, what stayed, and what should have moved and could not."""
        moves: list[dict[str, t.Any]] = []
        retained: list[str] = []
        lost: list[dict[str, t.Any]] = []
        evicted = {(each.request.kind, name, each.replica) for each in search.evicted for name in each.request.names()}
        default = REBALANCE if self.options.rebalance else RESCUE
        for request in search.requests:
            for number in () if request.members else self._told(request):
                key = (request.kind, request.name, number)
                prior = self.priors.get(key)
                if prior is None:
                    continue
                was = [part.spot for part in prior.shards]
                placement = request.placements.get(number)
                if placement is None:
                    cause = PREEMPT if key in evicted else self.causes.get(key, RESCUE)
                    lost.append(
                        {request.kind: request.name, "replica": number, **_at(was, request)}
                        | {"cause": cause, "lost": True}
                    )
                elif placement in self._kept or self._is_same(placement, prior):
                    retained.append(f"{request.name}/{number}")
                else:
                    cause = self.causes.get(key) or (PREEMPT if key in evicted else default)
                    moves.append(
                        {request.kind: request.name, "replica": number, "from": _shape(was, request)}
                        | {"to": _shape(place_of(self.fleet, placement), request), "cause": cause}
                        | self._weights_of(search, placement)
                    )
        return {"moves": moves, "retained": retained, "blocked": [*self.blocked, *lost]}

    def _told(self, request: Request) -> Iterable[int]:
        return self.numbers_of(request) if request.per_node else request.numbers

    def _is_same(self, placement: Placement, prior: Prior) -> bool:
        if placement.candidate.profile is not None and placement.candidate.profile.name != prior.profile:
            return False
        if len(placement.shards) != len(prior.shards):
            return False
        for shard, part in zip(placement.shards, prior.shards, strict=True):
            if self.fleet.names[shard.node] != part.node:
                return False
            if shard.unseen is not None:
                continue
            found = [
                self.find_gpu(shard.node, part.gpus[at] if at < len(part.gpus) else {}, index)
                for at, index in enumerate(part.indices)
            ]
            if sorted(-1 if gpu is None else gpu for gpu in found) != sorted(shard.gpus):
                return False
        return True

    def _weights_of(self, search: Search, placement: Placement) -> dict[str, t.Any]:
        """Return what has to be copied; for a role of the models that its slots are fixed to, if any."""
        weights, request = search.filler.weights, placement.request
        if request.role is None:
            states = [weights.state(request.name, shard.node) for shard in placement.shards]
            return {"weights": [{name: value for name, value in each.items() if name != "model"} for each in states]}
        names = [slot.model for slot in request.role.slots if slot.model is not None]
        if not names:
            return {}
        states = [weights.state(name, placement.shards[0].node) for name in names]
        return {"weights": next((state for state in states if state["state"] != "held"), states[0])}


def _read(document: Mapping[str, t.Any]) -> dict[Name, Prior]:
    priors: dict[Name, Prior] = {}
    for one in document.get("assignments") or ():
        index = one.get("gpu_index")
        shard = PriorShard(
            one["node"],
            () if index is None else (index,),
            () if index is None else (one.get("gpu") or {},),
            one.get("memory_mib") or 0,
        )
        priors[ROLE, one["role"], one["replica"]] = Prior(shards=(shard,), vm=one.get("vm") or "")
    for one in document.get("replicas") or ():
        shards = tuple(
            PriorShard(
                part["node"],
                tuple(part.get("gpu_indices") or ()),
                tuple(part.get("gpus") or ()),
                part.get("memory_mib") or 0,
            )
            for part in sorted(one.get("shards") or (), key=lambda part: part.get("rank", 0))
        )
        priors["model", one["model"], one["replica"]] = Prior(
            shards=shards,
            profile=one.get("profile"),
            fabric=one.get("fabric"),
            conceded=(one.get("why") or {}).get("conceded_to"),
        )
    return priors


def _vm_names(request: Request, group: str | None, number: int) -> Iterable[tuple[list[str], str | None]]:
    """Return the names that the VMs of a replica may have, with the profile that they would be of."""
    name = f"{request.name}-{number}"
    if request.kind == ROLE:
        yield [name], None
        if group is not None:
            yield [unit_vm(group, number)], None
        return
    for candidate in request.candidates:
        profile = t.cast("t.Any", candidate.profile).name
        yield [name] if candidate.nodes == 1 else [f"{name}-{rank}" for rank in range(candidate.nodes)], profile


def _shape(spots: Sequence[dict[str, t.Any]], request: Request) -> t.Any:
    """Return places as the document lists them: of a role one with its index, of a model a list."""
    if request.kind != ROLE:
        return list(spots)
    spot = spots[0]
    return {"node": spot["node"]} | ({"gpu_index": spot["gpu_indices"][0]} if spot["gpu_indices"] else {})


def _at(spots: Sequence[dict[str, t.Any]], request: Request) -> dict[str, t.Any]:
    shaped = _shape(spots, request)
    return shaped if request.kind == ROLE else {"shards": shaped}
