# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The plan as a document: plain data in a fixed order of keys, the same however the plan was reached."""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.fingerprint import (
    digest,
    fingerprint,
    role_fingerprint,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.plain import plain
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import (
    EXTERNAL,
    UNHEALTHY,
    shape_of_gpu,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.colocate import memory_fractions
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.explain import owners_by_lot, why_of_lot
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import models_fitting_cpu
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import listing, size_text

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
        Model,
        Role,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import Fleet
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.held_weights import Weights
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.ledger import Ledger
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.replicas import (
        Replica,
        Shard,
        Want,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.roles import (
        RolePlacer,
        Seat,
        Turn,
    )

# What is too little memory to start a machine with.
LEAST_MIB = 2048
LOW_MEMORY = "memory"


def catalog_fingerprint(values: Sequence[Role] | Sequence[Model]) -> str:
    """Of roles or models, whatever order they were given in."""
    return digest(sorted((plain(value) for value in values), key=lambda value: str(value["name"])))


def place_of_seat(fleet: Fleet, seat: Seat) -> dict[str, t.Any]:
    """Node and GPU of a replica of a role."""
    if seat.unseen is not None:
        return {"node": fleet.names[seat.node], "gpu_index": seat.unseen["gpu_index"]}
    if seat.card < 0:
        return {"node": fleet.names[seat.node]}
    return {"node": fleet.names[seat.node], "gpu_index": fleet.card_index[seat.card]}


def place_of_replica(fleet: Fleet, replica: Replica) -> list[dict[str, t.Any]]:
    """Nodes and GPUs of a replica of a model."""
    return [{"node": fleet.names[shard.node], "gpu_indices": indices_of(fleet, shard)} for shard in replica.shards]


def indices_of(fleet: Fleet, shard: Shard) -> list[int]:
    """The indices of a shard's GPUs."""
    if shard.unseen is not None:
        return list(shard.unseen["gpu_indices"])
    return [fleet.card_index[card] for card in shard.cards]


def _without_null(**items: t.Any) -> dict[str, t.Any]:
    return {key: value for key, value in items.items() if value is not None}


class Writer:
    """Turns a finished plan into the document."""

    def __init__(
        self, ledger: Ledger, placer: RolePlacer, wants: Sequence[Want], models: Sequence[Model], weights: Weights
    ) -> None:
        self.ledger = ledger
        self.fleet = ledger.fleet
        self.placer = placer
        self.wants = wants
        self.models = models
        self.weights = weights
        self.owner: dict[int, str] = {}
        others: dict[int, set[str]] = {}
        self.unseen: list[tuple[Seat | Shard, str]] = []
        for turn in placer.turns:
            self._note_seats(turn)
        for want in wants:
            for replica in want.replicas:
                for shard in replica.shards:
                    if shard.unseen is not None:
                        self.unseen.append((shard, f"{want.model.name}/{replica.replica}"))
                    for card in shard.cards:
                        self.owner[card] = f"{want.model.name}/{replica.replica}"
                        others.setdefault(ledger.cell_lot[ledger.cell_at(card)], set()).add(want.model.name)
        self.owners = owners_by_lot(placer, others)

    def _note_seats(self, turn: Turn) -> None:
        name = turn.role.name
        for seat in turn.seats:
            if turn.members:
                continue
            label = f"{name}/{seat.replica}"
            if seat.card >= 0:
                self.owner[seat.card] = f"{self.owner[seat.card]}, {label}" if seat.card in self.owner else label
            elif seat.unseen is not None:
                self.unseen.append((seat, label))

    def assignments(self) -> list[dict[str, t.Any]]:
        """All replicas of roles, in the order in which roles are placed."""
        found: list[dict[str, t.Any]] = []
        for turn in self.placer.turns:
            if turn.seats and not turn.members:
                found.extend(self._assignments_of(turn))
        return found

    def _assignments_of(self, turn: Turn) -> list[dict[str, t.Any]]:
        fleet, role = self.fleet, turn.role
        names, indices, uuids, addresses = fleet.names, fleet.card_index, fleet.card_uuid, fleet.card_pci
        name, engine, made_from = role.name, role.needs.engine, role_fingerprint(role)
        slots = [slot.name for slot in role.slots]
        passthrough = self.ledger.passthrough
        on_lot: dict[int, tuple[dict[str, t.Any], list[str], dict[str, t.Any], bytes | None]] = {}
        found = []
        for seat in turn.seats:
            node, card = seat.node, seat.card
            if card < 0:
                make = self._cpu_assignment if seat.unseen is None else self._unseen_assignment
                found.append(make(turn, seat, made_from, slots))
                continue
            known = on_lot.get(seat.lot)
            if known is None:
                known = on_lot[seat.lot] = self._template(turn, seat.lot)
            looks, fitting, why, mask = known
            gpu: dict[str, t.Any] = {}
            if uuids[card] is not None:
                gpu["uuid"] = uuids[card]
            if addresses[card] is not None:
                gpu["pci_address"] = addresses[card]
            gpu.update(looks)
            one: dict[str, t.Any] = {
                "role": name,
                "replica": seat.replica,
                "node": names[node],
                "gpu_index": indices[card],
                "gpu": gpu,
                "engine": engine,
                "models_fitting": fitting[:],
                "slots": slots[:],
            }
            if passthrough:
                one["memory_mib"] = seat.memory_mib
            if turn.shared and turn.shared.get(seat.lot):
                one["unified_memory_mib"] = (seat.unit or turn).shared[seat.lot]
            held = self._weights_of(turn, fitting, node, mask)
            if held is not None:
                one["weights"] = held
            one["fingerprint"] = made_from
            one["vm"] = f"{name}-{seat.replica}"
            one["why"] = why.copy()
            if seat.unit is not None:
                self._share(one, turn, seat.unit)
            elif role.colocate is not None:
                self._say_single(one, turn, seat)
            self._risk(one, node, seat.risk)
            found.append(one)
        return found

    def _template(self, turn: Turn, lot: int) -> tuple[dict[str, t.Any], list[str], dict[str, t.Any], bytes | None]:
        it = self.ledger.lots[lot]
        shape = it.shape
        needs = turn.role.needs
        return (
            _without_null(gpu_class=shape.gpu_class, memory_gb=shape.memory_gb, compute_cap=shape.cap_number),
            self.weights.fitting(needs.engine, needs.kind, it.shape_number),
            why_of_lot(turn, lot, self.ledger, self.owners),
            self.weights.mask(turn.role, it.shape_number),
        )

    def _share(self, one: dict[str, t.Any], turn: Turn, unit: Turn) -> None:
        """What a member of a unit shares with the others: the machine, and the GPU in parts."""
        others = [member.role.name for member in unit.members if member is not turn]
        fractions = memory_fractions(unit, self.weights.engines)
        one["vm"] = f"{unit.role.name}-{one['replica']}"
        one["colocate"] = {
            "group": unit.role.name,
            "with": [f"{name}/{one['replica']}" for name in others],
            "memory_fraction": fractions[turn.role.name],
        }
        size = size_text(unit.ask.vram_gb or 0)
        one["why"]["rule"] = "colocate"
        one["why"]["text"] += f"; shared with {listing(others)}, together {size} GB"

    def _say_single(self, one: dict[str, t.Any], turn: Turn, seat: Seat) -> None:
        """Why a member of a group does not share its GPU."""
        for unit in self.placer.turns:
            if turn in unit.members and seat.replica in unit.numbers:
                is_free = any(self.ledger.lot_free[lot] for lot in unit.lots)
                why = "kept apart from the unit" if is_free else "no GPU has room for the unit"
                one["why"]["text"] += f"; {why} {unit.role.name}"

    def _risk(self, one: dict[str, t.Any], node: int, risk: str | None = None) -> None:
        state = self.fleet.states[node]
        if risk is not None:
            one["at_risk"] = risk
        elif state in ("draining", "unreachable"):
            one["at_risk"] = state
        elif one.get("memory_mib", LEAST_MIB) < LEAST_MIB:
            one["at_risk"] = LOW_MEMORY

    def _weights_of(self, turn: Turn, fitting: Sequence[str], node: int, mask: bytes | None) -> dict[str, t.Any] | None:
        fixed = [slot.model for slot in turn.role.slots if slot.model is not None]
        if fixed:
            absent = next((name for name in fixed if node not in self.weights.holder_set(name)), fixed[0])
            return self.weights.state(absent, node)
        if mask is None or not mask[node]:
            return None
        held = next(name for name in fitting if node in self.weights.holder_set(name))
        return {"state": "held", "model": held}

    def _unseen_assignment(self, turn: Turn, seat: Seat, made_from: str, slots: list[str]) -> dict[str, t.Any]:
        """A replica on a node that does not show its GPUs now, as the last plan has it."""
        role, fleet, node = turn.role, self.fleet, seat.node
        unseen = seat.unseen or {}
        shape = shape_of_gpu(unseen["gpu"])
        one: dict[str, t.Any] = {
            "role": role.name,
            "replica": seat.replica,
            "node": fleet.names[node],
            "gpu_index": unseen["gpu_index"],
            "gpu": dict(unseen["gpu"]),
            "engine": role.needs.engine,
            "models_fitting": self.weights.fitting_shape(role.needs.engine, role.needs.kind, shape),
            "slots": slots[:],
        }
        if self.ledger.passthrough:
            one["memory_mib"] = seat.memory_mib
        held = self._weights_of(turn, [], node, None)
        if held is not None:
            one["weights"] = held
        one["fingerprint"] = made_from
        one["vm"] = f"{role.name}-{seat.replica}"
        one["why"] = {"rule": "kept", "text": "kept: the GPUs of its node are not known now"}
        if seat.unit is not None:
            self._share(one, turn, seat.unit)
        self._risk(one, node, seat.risk)
        return one

    def _cpu_assignment(self, turn: Turn, seat: Seat, made_from: str, slots: list[str]) -> dict[str, t.Any]:
        role, fleet, node = turn.role, self.fleet, seat.node
        size = turn.memory_mib / 1024 if turn.memory_mib and self.ledger.passthrough else fleet.memory_gb[node]
        one: dict[str, t.Any] = {
            "role": role.name,
            "replica": seat.replica,
            "node": fleet.names[node],
            "engine": role.needs.engine,
            "models_fitting": models_fitting_cpu(self.models, size, engine=role.needs.engine, kind=role.needs.kind),
            "slots": slots[:],
        }
        if self.ledger.passthrough:
            one["memory_mib"] = seat.memory_mib
        held = self._weights_of(turn, [], node, None)
        if held is not None:
            one["weights"] = held
        one["fingerprint"] = made_from
        one["vm"] = f"{role.name}-{seat.replica}"
        rule = "cpu" if not role.needs.gpu else "cpu_fallback"
        what = "no GPU is asked for" if rule == "cpu" else "no GPU that fits can be had"
        one["why"] = {"rule": rule, "text": f"{what}; spread over the nodes that admit it, the largest memory first"}
        self._risk(one, node, seat.risk)
        return one

    def replicas(self) -> list[dict[str, t.Any]]:
        """All replicas of models, in the order in which models are placed."""
        return [self._replica(want, replica) for want in self.wants for replica in want.replicas]

    def _replica(self, want: Want, replica: Replica) -> dict[str, t.Any]:
        fleet, model, profile = self.fleet, want.model, replica.way.profile
        one: dict[str, t.Any] = {
            "id": f"{model.name}-{replica.replica}",
            "model": model.name,
            "replica": replica.replica,
            "engine": profile.engine,
            "profile": profile.name,
            "fingerprint": fingerprint(profile),
        }
        if replica.fabric is not None:
            one["fabric"] = replica.fabric
        if profile.gpu_class is not None:
            one["gpu_class"] = profile.gpu_class
        shards = []
        for rank, shard in enumerate(replica.shards):
            part: dict[str, t.Any] = {
                "rank": rank,
                "node": fleet.names[shard.node],
                "gpu_indices": indices_of(fleet, shard),
                "gpus": [dict(gpu) for gpu in shard.unseen["gpus"]]
                if shard.unseen is not None
                else [self._gpu(card) for card in shard.cards],
                "vm": f"{model.name}-{replica.replica}" + (f"-{rank}" if profile.nodes > 1 else ""),
            }
            if self.ledger.passthrough:
                part["memory_mib"] = shard.memory_mib
            if shard.shared_mib:
                part["unified_memory_mib"] = shard.shared_mib
            if rank == 0:
                part["slots"] = [model.name]
            held = self.weights.state(model.name, shard.node)
            del held["model"]
            part["weights"] = held
            self._risk(part, shard.node, shard.risk)
            shards.append(part)
        one["shards"] = shards
        one["why"] = self._why_replica(want, replica)
        return one

    def _gpu(self, card: int) -> dict[str, t.Any]:
        fleet = self.fleet
        shape = fleet.shapes[fleet.card_shape[card]]
        return _without_null(
            uuid=fleet.card_uuid[card],
            pci_address=fleet.card_pci[card],
            gpu_class=shape.gpu_class,
            memory_gb=shape.memory_gb,
            compute_cap=shape.cap_number,
        )

    def _why_replica(self, want: Want, replica: Replica) -> dict[str, t.Any]:
        holders = self.weights.holder_set(want.model.name)
        held = sum(shard.node in holders for shard in replica.shards)
        place = want.ways.index(replica.way) + 1
        first = (
            "the only profile"
            if len(want.ways) == 1
            else f"profile {place} of {len(want.ways)} (higher priority first)"
        )
        many = len(replica.shards)
        where = (
            f"{held} of {many} nodes hold the weights"
            if many > 1
            else f"the node {'holds' if held else 'does not hold'} the weights"
        )
        return {"rule": "profile", "place": place, "holders": held, "text": f"{first}; {where}"}

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
        states = ["free"] * len(fleet.card_node)
        for cell in fleet.cells:
            state = ledger.cell_state(cell)
            if state != "free":
                for card in cell.cards:
                    states[card] = state
        names = fleet.names
        rows: list[dict[str, t.Any]] = [
            {"node": names[node], "gpu_index": index, "uuid": uuid, "pci_address": address, "state": state}
            for node, index, uuid, address, state in zip(
                fleet.card_node, fleet.card_index, fleet.card_uuid, fleet.card_pci, states, strict=True
            )
        ]
        if None in fleet.card_uuid or None in fleet.card_pci:
            for row in rows:
                for key in ("uuid", "pci_address"):
                    if row[key] is None:
                        del row[key]
        for card, name in owner.items():
            row = rows[card]
            row["state"] = "used"
            row["by"] = name
            if fleet.card_flags[card] & UNHEALTHY:
                row["healthy"] = False
        for card, holder in fleet.holders.items():
            if card not in owner and fleet.card_flags[card] & EXTERNAL:
                rows[card]["by"] = holder
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
            indices = unseen.get("gpu_indices", [unseen.get("gpu_index")])
            gpus = unseen.get("gpus", [unseen.get("gpu")])
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
