# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The plan as a document: plain data in a fixed order of keys, the same however the plan was reached."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.module_utils._memory.need import EXACT
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import ANY_CLASS
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.fingerprint import (
    digest,
    fingerprint,
    role_fingerprint,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.plain import plain
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.ways import is_way, record_way
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import (
    EXTERNAL,
    UNHEALTHY,
    shape_of_gpu,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.colocate import memory_fractions, unit_vm
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.explain import why_of_pool
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import (
    exact_gib,
    models_fitting_cpu,
    room,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import listing, plural, size_text

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
        Model,
        Profile,
        Role,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import Fleet
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.search import Search
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import (
        Placement,
        Request,
        Shard,
    )

# What is too little memory to start a machine with.
LEAST_MIB = 2048
LOW_MEMORY = "memory"


def catalog_fingerprint(values: Sequence[Role] | Sequence[Model]) -> str:
    """Of roles or models, whatever order they were given in."""
    return digest(sorted((plain(value) for value in values), key=lambda value: str(value["name"])))


def place_of(fleet: Fleet, placement: Placement) -> list[dict[str, t.Any]]:
    """Return nodes and GPU indices of a replica."""
    return [{"node": fleet.names[shard.node], "gpu_indices": indices_of(fleet, shard)} for shard in placement.shards]


def indices_of(fleet: Fleet, shard: Shard) -> list[int]:
    """Return the indices of a shard's GPUs."""
    if shard.unseen is not None:
        return list(shard.unseen["gpu_indices"])
    return [fleet.gpu_index[gpu] for gpu in shard.gpus]


def _without_null(**items: t.Any) -> dict[str, t.Any]:
    return {key: value for key, value in items.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Template:
    """What replicas of a role have in common in the document, where they run in the same way."""

    gpu: dict[str, t.Any]
    fitting: list[str]
    why: dict[str, t.Any]
    mask: bytes | None = None


class Writer:
    """Turns a finished plan into the document."""

    def __init__(self, search: Search, models: Sequence[Model], written: Sequence[Model]) -> None:
        self.search = search
        self.requests = search.requests
        self.ledger = search.ledger
        self.fleet = search.ledger.fleet
        self.models = models
        self._rooms: dict[tuple[int, int], int] = {}
        self._written = {model.name: model for model in written}
        self.weights = search.filler.weights
        # Who has each GPU, and by pool; what is on GPUs that no profile shows now.
        self.owner: dict[int, str] = {}
        self.owners: dict[int, list[str]] = {}
        self.unseen: list[tuple[Shard, str]] = []
        self._units = [request for request in self.requests if request.members]
        owners: dict[int, set[str]] = {}
        for request in self.requests:
            if not request.members:
                self._note(request, owners)
        self.owners = {pool: sorted(names) for pool, names in owners.items()}

    def _note(self, request: Request, owners: dict[int, set[str]]) -> None:
        owner, name = self.owner, request.name
        on: set[int] = set()
        for placement in request.placements.values():
            label = f"{name}/{placement.replica}"
            for shard in placement.shards:
                if shard.unseen is not None:
                    self.unseen.append((shard, label))
                for gpu in shard.gpus:
                    owner[gpu] = f"{owner[gpu]}, {label}" if gpu in owner else label
                if shard.pool >= 0:
                    on.add(shard.pool)
                else:
                    on.update(self.ledger.pool_at(gpu) for gpu in shard.gpus)
        for pool in on:
            owners.setdefault(pool, set()).add(name)

    def assignments(self) -> list[dict[str, t.Any]]:
        """Return all replicas of roles, in the order in which roles are placed."""
        found: list[dict[str, t.Any]] = []
        for request in self.requests:
            if request.role is not None and not request.members and request.placements:
                found.extend(self._assignments_of(request, request.role))
        return found

    def _assignments_of(self, request: Request, role: Role) -> Iterable[dict[str, t.Any]]:
        fleet = self.fleet
        names, indices, uuids, addresses = fleet.names, fleet.gpu_index, fleet.gpu_uuid, fleet.gpu_pci
        name, engine, made_from = role.name, role.needs.engine, role_fingerprint(role)
        slots = [slot.name for slot in role.slots]
        passthrough = self.ledger.passthrough
        templates: dict[int, _Template] = {}
        for placement in request.placements.values():
            (shard,) = placement.shards
            node, pool = shard.node, shard.pool
            one: dict[str, t.Any] = {"role": name, "replica": placement.replica, "node": names[node]}
            if pool >= 0:
                template = templates.get(pool)
                if template is None:
                    template = templates[pool] = self._template(request, role, pool)
                (number,) = shard.gpus
                gpu: dict[str, t.Any] = {}
                if uuids[number] is not None:
                    gpu["uuid"] = uuids[number]
                if addresses[number] is not None:
                    gpu["pci_address"] = addresses[number]
                gpu.update(template.gpu)
                one["gpu_index"] = indices[number]
                one["gpu"] = gpu
            elif shard.unseen is not None:
                template = self._unseen_template(role, shard.unseen)
                one["gpu_index"] = shard.unseen["gpu_indices"][0]
                one["gpu"] = template.gpu
            else:
                template = self._cpu_template(role, placement)
            one["engine"] = engine
            one["models_fitting"] = template.fitting[:]
            one["slots"] = slots[:]
            if passthrough:
                one["memory_mib"] = shard.memory_mib
            if shard.shared_mib:
                one["unified_memory_mib"] = shard.shared_mib
            held = self._weights_of(role, template, node)
            if held is not None:
                one["weights"] = held
            one["fingerprint"] = made_from
            one["vm"] = f"{name}-{placement.replica}"
            one["why"] = template.why.copy()
            if placement.unit is not None:
                self._share(one, request, placement.unit)
            elif role.colocate is not None and pool >= 0:
                self._say_single(one, request, placement)
            self._risk(one, node, shard.risk)
            yield one

    def _template(self, request: Request, role: Role, pool: int) -> _Template:
        it = self.ledger.pools[pool]
        shape = it.shape
        needs = role.needs
        return _Template(
            gpu=_without_null(gpu_class=shape.gpu_class, memory_gb=shape.memory_gb, compute_cap=shape.cap_number),
            fitting=self.weights.fitting(needs.engine, needs.kind, it.shape_number),
            why=why_of_pool(request, role, pool, self.ledger, self.owners),
            mask=self.weights.mask(role, it.shape_number),
        )

    def _unseen_template(self, role: Role, unseen: Mapping[str, t.Any]) -> _Template:
        """Return the parts of a replica on a node that does not show its GPUs now, as the last plan has them."""
        gpu = dict(unseen["gpus"][0]) if unseen["gpus"] else {}
        needs = role.needs
        return _Template(
            gpu=gpu,
            fitting=self.weights.fitting_shape(needs.engine, needs.kind, shape_of_gpu(gpu)),
            why={"rule": "kept", "text": "kept: the GPUs of its node are not known now"},
        )

    def _cpu_template(self, role: Role, placement: Placement) -> _Template:
        memory, node = placement.candidate.memory_mib, placement.shards[0].node
        size = memory / 1024 if memory and self.ledger.passthrough else self.fleet.memory_gb[node]
        rule = "cpu" if not role.needs.gpu else "cpu_fallback"
        what = "no GPU is asked for" if rule == "cpu" else "no GPU that fits can be had"
        return _Template(
            gpu={},
            fitting=models_fitting_cpu(
                self.models, size, engine=role.needs.engine, kind=role.needs.kind, engines=self.weights.engines
            ),
            why={"rule": rule, "text": f"{what}; spread over the nodes that admit it, the largest memory first"},
        )

    def _share(self, one: dict[str, t.Any], request: Request, unit: Request) -> None:
        """Say what a member of a unit shares with the others: the VM, and the GPU in parts."""
        one["vm"] = unit_vm(unit.name, one["replica"])
        others = [member.name for member in unit.members if member is not request]
        if not others:
            return
        one["colocate"] = {
            "group": unit.name,
            "with": [f"{name}/{one['replica']}" for name in others],
            "memory_fraction": memory_fractions(unit, self.weights.engines)[request.name],
        }
        size = size_text(unit.candidates[0].ask.size_gb or 0)
        one["why"]["rule"] = "colocate"
        one["why"]["text"] += f"; shared with {listing(others)}, together {size} GB"

    def _say_single(self, one: dict[str, t.Any], request: Request, placement: Placement) -> None:
        """Say why a member of a group does not share its GPU."""
        for unit in self._units:
            if request in unit.members and placement.replica in unit.numbers:
                is_free = any(self.ledger.pool_free[pool] for pool in unit.candidates[0].pools)
                why = "kept apart from the unit" if is_free else "no GPU has room for the unit"
                one["why"]["text"] += f"; {why} {unit.name}"
                return

    def _risk(self, one: dict[str, t.Any], node: int, risk: str | None = None) -> None:
        state = self.fleet.states[node]
        if risk is not None:
            one["at_risk"] = risk
        elif state in ("draining", "unreachable"):
            one["at_risk"] = state
        elif one.get("memory_mib", LEAST_MIB) < LEAST_MIB:
            one["at_risk"] = LOW_MEMORY

    def _weights_of(self, role: Role, template: _Template, node: int) -> dict[str, t.Any] | None:
        fixed = [slot.model for slot in role.slots if slot.model is not None]
        if fixed:
            absent = next((name for name in fixed if node not in self.weights.holder_set(name)), fixed[0])
            return self.weights.state(absent, node)
        if template.mask is None or not template.mask[node]:
            return None
        held = next(name for name in template.fitting if node in self.weights.holder_set(name))
        return {"state": "held", "model": held}

    def replicas(self) -> list[dict[str, t.Any]]:
        """Return all replicas of models, in the order in which models are placed."""
        return [
            self._replica(request, placement)
            for request in self.requests
            if request.model is not None
            for placement in request.placements.values()
        ]

    def _replica(self, request: Request, placement: Placement) -> dict[str, t.Any]:
        fleet, name, profile = self.fleet, request.name, t.cast("Profile", placement.candidate.profile)
        one: dict[str, t.Any] = {
            "id": f"{name}-{placement.replica}",
            "model": name,
            "replica": placement.replica,
            "engine": profile.engine,
            "profile": profile.name,
            "fingerprint": fingerprint(profile),
        }
        way = None
        if is_way(self._written[name], profile):
            way = one["way"] = record_way(self._written[name], profile, self.weights.engines, self._found_of(placement))
        if placement.fabric is not None:
            one["fabric"] = placement.fabric
        if profile.gpu_class not in {None, ANY_CLASS}:
            one["gpu_class"] = profile.gpu_class
        shards = []
        for rank, shard in enumerate(placement.shards):
            part: dict[str, t.Any] = {
                "rank": rank,
                "node": fleet.names[shard.node],
                "gpu_indices": indices_of(fleet, shard),
                "gpus": [dict(gpu) for gpu in shard.unseen["gpus"]]
                if shard.unseen is not None
                else [self._gpu(gpu) for gpu in shard.gpus],
                "vm": f"{name}-{placement.replica}" + (f"-{rank}" if profile.nodes > 1 else ""),
            }
            if self.ledger.passthrough:
                part["memory_mib"] = shard.memory_mib
            if shard.shared_mib:
                part["unified_memory_mib"] = shard.shared_mib
            if rank == 0:
                part["slots"] = [name]
            held = self.weights.state(name, shard.node)
            del held["model"]
            part["weights"] = held
            self._risk(part, shard.node, shard.risk)
            shards.append(part)
        one["shards"] = shards
        one["why"] = self._why_replica(request, placement, way)
        return one

    def _found_of(self, placement: Placement) -> dict[str, float]:
        """Return what is found out of a way: what a GPU of it needs, and the requests that find room; kept as it was."""
        kept = t.cast("Profile", placement.candidate.profile).found
        if kept is not None:
            return {**kept}
        fleet, ask = self.fleet, placement.candidate.ask
        shapes = (fleet.shapes[fleet.gpu_shape[gpu]] for shard in placement.shards for gpu in shard.gpus)
        found = {
            "need_gib": round(max((exact_gib(ask, shape)[0] for shape in shapes), default=0.0), 2),
            "room": self._room_of(placement),
        }
        return {key: value for key, value in found.items() if value}

    def _gpu(self, gpu: int) -> dict[str, t.Any]:
        fleet = self.fleet
        shape = fleet.shapes[fleet.gpu_shape[gpu]]
        return _without_null(
            uuid=fleet.gpu_uuid[gpu],
            pci_address=fleet.gpu_pci[gpu],
            gpu_class=shape.gpu_class,
            memory_gb=shape.memory_gb,
            compute_cap=shape.cap_number,
        )

    def _why_replica(self, request: Request, placement: Placement, way: Mapping[str, t.Any] | None) -> dict[str, t.Any]:
        holders = self.weights.holder_set(request.name)
        held = sum(shard.node in holders for shard in placement.shards)
        place, count = placement.candidate.rank + 1, len(request.candidates)
        first = "the only profile" if count == 1 else f"profile {place} of {count} (higher priority first)"
        many = len(placement.shards)
        where = (
            f"{held} of {many} nodes hold the weights"
            if many > 1
            else f"the node {'holds' if held else 'does not hold'} the weights"
        )
        why: dict[str, t.Any] = {"rule": "profile", "place": place, "holders": held, "text": f"{first}; {where}"}
        if way is not None:
            # How many ways there are depends on the fleet, and a line of what stays does not.
            why = {"rule": "way", "holders": held, "text": f"computed as no class of GPUs is named; {where}"}
        why["text"] += self._room_text(placement, self._room_of(placement) if way is None else way.get("room"))
        if placement.conceded is not None:
            why["conceded_to"] = placement.conceded
            why["text"] += f"; a better profile gave way to {placement.conceded}"
        return why

    def _room_text(self, placement: Placement, count: float | None) -> str:
        """Say for how many requests of which length there is room, where that is known."""
        ask = placement.candidate.ask
        tokens = ask.exact[0].run.context if ask.exact else None
        return f"; room for {plural(int(count), 'request')} of {tokens} tokens" if count and tokens else ""

    def _room_of(self, placement: Placement) -> int:
        """Return how many requests find room on the GPUs of a replica; 0 where that is not computed."""
        gpus = placement.shards[0].gpus
        if not gpus:
            return 0
        shape = self.fleet.gpu_shape[gpus[0]]
        key = id(placement.candidate), shape
        if key not in self._rooms:
            found = room(placement.candidate.ask, self.fleet.shapes[shape])
            is_known = found is not None and found.need.bound == EXACT
            self._rooms[key] = (found.most_sequences if found is not None and is_known else None) or 0
        return self._rooms[key]

    def nodes(self) -> list[dict[str, t.Any]]:
        """What is left of each node."""
        fleet = self.fleet
        # What nobody counts is all left.
        left = [
            size if left is None else left for size, left in zip(fleet.usable_mib, self.ledger.ram_left, strict=True)
        ]
        return [
            {"name": name, "state": state, "memory_mib": memory, "memory_left_mib": left[node]}
            for node, (name, state, memory) in enumerate(zip(fleet.names, fleet.states, fleet.memory_mib, strict=True))
        ]

    def ledger_rows(self) -> list[dict[str, t.Any]]:
        """Every GPU in exactly one state."""
        fleet, ledger, owner = self.fleet, self.ledger, self.owner
        states = ["free"] * len(fleet.gpu_node)
        for part in fleet.node_pools:
            state = ledger.idle_state(part)
            if state != "free":
                for gpu in part.gpus:
                    states[gpu] = state
        names = fleet.names
        rows: list[dict[str, t.Any]] = [
            {"node": names[node], "gpu_index": index, "uuid": uuid, "pci_address": address, "state": state}
            for node, index, uuid, address, state in zip(
                fleet.gpu_node, fleet.gpu_index, fleet.gpu_uuid, fleet.gpu_pci, states, strict=True
            )
        ]
        if None in fleet.gpu_uuid or None in fleet.gpu_pci:
            for row in rows:
                for key in ("uuid", "pci_address"):
                    if row[key] is None:
                        del row[key]
        for gpu, name in owner.items():
            row = rows[gpu]
            row["state"] = "used"
            row["by"] = name
            if fleet.gpu_flags[gpu] & UNHEALTHY:
                row["healthy"] = False
        for gpu, holder in fleet.holders.items():
            if gpu not in owner and fleet.gpu_flags[gpu] & EXTERNAL:
                rows[gpu]["by"] = holder
        if self.unseen:
            rows.extend(self._unseen_rows())
            order = {name: node for node, name in enumerate(names)}
            rows.sort(key=lambda row: (order[row["node"]], row["gpu_index"]))
        return rows

    def _unseen_rows(self) -> Iterable[dict[str, t.Any]]:
        """GPUs that no profile shows now, and that the last plan had given out; a shared one once."""
        found: dict[tuple[int, int], dict[str, t.Any]] = {}
        for part, label in self.unseen:
            unseen = part.unseen or {}
            indices, gpus = unseen["gpu_indices"], unseen["gpus"]
            for at, index in enumerate(indices):
                row = found.get((part.node, index))
                if row is not None:
                    row["by"] += f", {label}"
                    continue
                gpu = gpus[at] if at < len(gpus) else {}
                row = {"node": self.fleet.names[part.node], "gpu_index": index}
                row |= {key: gpu[key] for key in ("uuid", "pci_address") if gpu.get(key) is not None}
                found[part.node, index] = row | {"state": "used", "by": label}
        return found.values()
