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

from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import (
    DRAINING,
    READY,
    UNREACHABLE,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.document import (
    place_of_replica,
    place_of_seat,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.replicas import (
    Replica,
    Shard,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.roles import (
    NO_CARD,
    UNSEEN_CARD,
    Seat,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.ledger import Ledger
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.replicas import (
        ReplicaPlacer,
        Want,
        Way,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.roles import (
        RolePlacer,
        Turn,
    )

DRAIN, NODE_GONE, CARD_GONE, PROFILE_GONE = "drain", "node_gone", "gpu_gone", "profile"
RESCUE, PREEMPT, REBALANCE = "rescue", "preempt", "rebalance"

Name = tuple[str, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """Where the last plan had one replica."""

    node: str
    index: int | None
    gpu: Mapping[str, t.Any]
    memory_mib: int
    vm: str


class Sticky:
    """Carries the last plan over into a new one."""

    def __init__(
        self,
        previous: Mapping[str, t.Any],
        placer: RolePlacer,
        replicas: ReplicaPlacer,
        wants: Sequence[Want],
        *,
        moves: str,
    ) -> None:
        self.placer = placer
        self.replicas = replicas
        self.wants = wants
        self.ledger: Ledger = placer.ledger
        self.fleet = placer.ledger.fleet
        self.movable = moves != "none"
        self.nodes = {name: number for number, name in enumerate(self.fleet.names)}
        self.roles: dict[tuple[str, int], Prior] = {}
        for one in previous.get("assignments") or ():
            self.roles[str(one.get("role")), int(one.get("replica", 0))] = Prior(
                node=str(one.get("node")),
                index=one.get("gpu_index"),
                gpu=one.get("gpu") or {},
                memory_mib=one.get("memory_mib") or 0,
                vm=str(one.get("vm") or ""),
            )
        self.models: dict[tuple[str, int], Mapping[str, t.Any]] = {
            (str(one.get("model")), int(one.get("replica", 0))): one for one in previous.get("replicas") or ()
        }
        self._adopt()
        self.causes: dict[Name, str] = {}
        self.kept: list[Name] = []
        self.blocked: list[dict[str, t.Any]] = []

    def _adopt(self) -> None:
        """Machines of ours that run and are in no plan count as if they were in the last one."""
        names = {turn.role.name: turn for turn in self.placer.turns if not turn.members}
        for card, machine in self.fleet.ours.items():
            role, _dash, number = machine.rpartition("-")
            if role in names and number.isdecimal() and (role, int(number)) not in self.roles:
                fleet = self.fleet
                self.roles[role, int(number)] = Prior(
                    node=fleet.names[fleet.card_node[card]],
                    index=fleet.card_index[card],
                    gpu={"uuid": fleet.card_uuid[card], "pci_address": fleet.card_pci[card]},
                    memory_mib=0,
                    vm=machine,
                )

    def keep(self) -> None:
        """Put back everything that can stay, in the order of placement."""
        for turn in self.placer.turns:
            if turn.members:
                self._keep_units(turn)
        for turn in self.placer.turns:
            if not turn.members:
                self._keep_role(turn)
        for want in self.wants:
            self._keep_model(want)

    def _keep_units(self, turn: Turn) -> None:
        for number in turn.numbers:
            priors = [self.roles.get((member.role.name, number)) for member in turn.members]
            first = priors[0]
            name = unit_vm(turn, number)
            if first is not None and first.vm == name:
                self._keep_one(turn, number, first)
            elif any(prior is not None and prior.vm != name for prior in priors):
                # They run singly, and nothing that runs is moved only to share.
                turn.barred.add(number)
        for member in turn.members:
            member.barred.update(seat.replica for seat in turn.seats)

    def _keep_role(self, turn: Turn) -> None:
        for number in turn.numbers:
            prior = self.roles.get((turn.role.name, number))
            if prior is not None and number not in turn.barred:
                self._keep_one(turn, number, prior)

    def _keep_one(self, turn: Turn, number: int, prior: Prior) -> None:
        node = self.nodes.get(prior.node)
        if node is None:
            self._leave("role", turn, number, NODE_GONE)
            return
        seat = Seat(turn=turn.number, replica=number, node=node, memory_mib=turn.memory_mib)
        cause = self._sit(turn, seat, prior)
        if cause is None:
            cause = self._remember_memory(turn, seat, prior)
        if cause is not None:
            self._leave("role", turn, number, cause)
            return
        if turn.claimed(seat):
            self.ledger.claim(node, turn.claimed(seat))
        turn.seats.append(seat)
        if seat.card >= 0:
            self.ledger.take(seat.card)
            if self.movable and self.fleet.states[node] == READY and not seat.risk:
                self.placer.on[seat.lot].setdefault(turn.number, []).append(seat)
            else:
                self.placer.fixed.setdefault(seat.lot, {}).setdefault(turn.number, []).append(seat)
        self.kept.append(("role", turn.role.name, number))

    def _leave(self, kind: str, turn: Turn, number: int, cause: str) -> None:
        for name in [member.role.name for member in turn.members] or [turn.role.name]:
            self.causes[kind, name, number] = cause

    def _sit(self, turn: Turn, seat: Seat, prior: Prior) -> str | None:
        """Find the GPU again; returns why it cannot be kept."""
        fleet, node = self.fleet, seat.node
        if prior.index is None:
            return self._sit_on_cpu(turn, seat)
        if not turn.role.needs.gpu:
            return "config"
        if fleet.card_count[node] is None:
            seat.card, seat.unseen = UNSEEN_CARD, {"gpu_index": prior.index, "gpu": dict(prior.gpu)}
            if fleet.states[node] != UNREACHABLE:
                seat.risk = "gpus_unknown"
            return None
        card = self.find_card(node, prior.gpu, prior.index)
        if card is None:
            return CARD_GONE
        seat.card, seat.lot = card, self.ledger.cell_lot[self.ledger.cell_at(card)]
        if card not in self.ledger.cell_free[self.ledger.cell_at(card)]:
            return "in_use"
        cause = self.ledger.refusal_elsewhere(turn.ask, seat.lot)
        if cause == "unhealthy":
            seat.risk = cause
            return None
        return cause

    def _sit_on_cpu(self, turn: Turn, seat: Seat) -> str | None:
        count = self.fleet.card_count[seat.node]
        if turn.role.needs.gpu and not turn.role.cpu_fallback:
            return "config"
        if count and not turn.role.needs.gpu_nodes:
            return "config"
        return self.ledger.site_refusal_elsewhere(turn.ask, seat.node)

    def _remember_memory(self, turn: Turn, seat: Seat, prior: Prior) -> str | None:
        """A machine that asked for nothing keeps the share it got, as far as it is still there."""
        left, need = self.ledger.ram_left[seat.node], turn.claimed(seat)
        if need and not self.ledger.has_memory(seat.node, need) and seat.card != UNSEEN_CARD:
            return "ram"
        if self.ledger.passthrough and not seat.memory_mib:
            seat.memory_mib = prior.memory_mib if left is None else max(0, min(prior.memory_mib, left - need))
        return None

    def find_card(self, node: int, gpu: Mapping[str, t.Any], index: int) -> int | None:
        """The number of a GPU of the last plan on its node, or ``None`` when it is not there any more."""
        fleet = self.fleet
        first, last = fleet.node_cells[node]
        cards = sorted(card for cell in fleet.cells[first:last] for card in cell.cards)
        uuid, address = gpu.get("uuid"), gpu.get("pci_address")
        if uuid is not None:
            for card in cards:
                if fleet.card_uuid[card] == uuid:
                    return card
        if address is not None:
            for card in cards:
                if fleet.card_pci[card] == address:
                    # Another GPU in the same place is another GPU.
                    return card if uuid is None or fleet.card_uuid[card] is None else None
        for card in cards:
            if fleet.card_index[card] == index:
                same = (uuid is None or fleet.card_uuid[card] is None) and (
                    address is None or fleet.card_pci[card] is None
                )
                return card if same else None
        return None

    def _keep_model(self, want: Want) -> None:
        for number in range(want.wanted):
            prior = self.models.get((want.model.name, number))
            if prior is None:
                continue
            replica = self._replica(want, prior, number)
            if isinstance(replica, str):
                self.causes["model", want.model.name, number] = replica
                continue
            self.replicas.take(replica.shards)
            replica.is_fixed = not self.movable or any(
                shard.unseen is not None or self.fleet.states[shard.node] != READY for shard in replica.shards
            )
            want.replicas.append(replica)
            self.kept.append(("model", want.model.name, number))

    def _replica(self, want: Want, prior: Mapping[str, t.Any], number: int) -> Replica | str:
        way = next((way for way in want.ways if way.profile.name == prior.get("profile")), None)
        if way is None:
            return PROFILE_GONE
        shards: list[Shard] = []
        for part in sorted(prior.get("shards") or (), key=lambda part: int(part.get("rank", 0))):
            shard = self._shard(way, part)
            if isinstance(shard, str):
                return shard
            shards.append(shard)
        cards = [card for shard in shards for card in shard.cards]
        if len(set(cards)) < len(cards):
            # A plan that somebody edited names a GPU twice.
            return "in_use"
        profile = way.profile
        if len(shards) != profile.nodes or any(
            len(shard.cards) != (0 if profile.gpu_class is None else profile.gpus_per_node)
            for shard in shards
            if shard.unseen is None
        ):
            return PROFILE_GONE
        fabric = prior.get("fabric")
        if profile.nodes > 1 and any(
            fabric not in self.fleet.fabrics[shard.node] for shard in shards if shard.unseen is None
        ):
            return "fabric"
        return Replica(replica=number, way=way, shards=shards, fabric=fabric if profile.nodes > 1 else None)

    def _shard(self, way: Way, part: Mapping[str, t.Any]) -> Shard | str:
        node = self.nodes.get(str(part.get("node")))
        if node is None:
            return NODE_GONE
        indices, gpus = part.get("gpu_indices") or [], part.get("gpus") or []
        if indices and self.fleet.card_count[node] is None:
            unseen = {"gpu_indices": list(indices), "gpus": [dict(gpu) for gpu in gpus]}
            memory = way.memory_mib or int(part.get("memory_mib") or 0)
            return Shard(node=node, cards=[], unseen=unseen, memory_mib=memory if self.ledger.passthrough else 0)
        cards: list[int] = []
        risk = None
        for at, index in enumerate(indices):
            card = self.find_card(node, gpus[at] if at < len(gpus) else {}, index)
            if card is None:
                return CARD_GONE
            cell = self.ledger.cell_at(card)
            if card not in self.ledger.cell_free[cell]:
                return "in_use"
            cause = self.ledger.refusal_elsewhere(way.ask, self.ledger.cell_lot[cell])
            if cause == "unhealthy":
                risk = cause
            elif cause is not None:
                return cause
            cards.append(card)
        cause = self.ledger.site_refusal_elsewhere(way.ask, node)
        if cause is not None:
            return cause
        shard = self.replicas.shard(way, node, sorted(cards))
        shard.risk = risk
        need = shard.memory_mib + shard.shared_mib
        if need and not self.ledger.has_memory(node, need):
            return "ram"
        if self.ledger.passthrough and not shard.memory_mib:
            left = self.ledger.ram_left[node]
            before = int(part.get("memory_mib") or 0)
            shard.memory_mib = before if left is None else max(0, min(before, left - shard.shared_mib))
        return shard

    def evacuate(self) -> None:
        """Move off draining nodes and broken GPUs what finds a free place, by priority; the rest stays at risk."""
        for turn in self.placer.turns:
            for seat in [seat for seat in turn.seats if self._must_go(seat)]:
                self._evacuate_seat(turn, seat)
        for want in self.wants:
            for replica in list(want.replicas):
                if any(
                    self.fleet.states[shard.node] == DRAINING or shard.risk == "unhealthy" for shard in replica.shards
                ):
                    self._evacuate_replica(want, replica)

    def _must_go(self, seat: Seat) -> bool:
        return self.fleet.states[seat.node] == DRAINING or seat.risk == "unhealthy"

    def _evacuate_seat(self, turn: Turn, seat: Seat) -> None:
        cause = DRAIN if self.fleet.states[seat.node] == DRAINING else "unhealthy"
        turn.seats.remove(seat)
        barred, turn.barred = turn.barred, set()
        self.placer.fill(turn, [seat.replica])
        turn.barred = barred
        found = any(other.replica == seat.replica for other in turn.seats)
        if found:
            if seat.card >= 0:
                self.placer.fixed[seat.lot][turn.number].remove(seat)
                self.ledger.give(seat.card)
            self.ledger.claim(seat.node, -turn.claimed(seat))
            self._leave("role", turn, seat.replica, cause)
        else:
            turn.seats.append(seat)
            for name in [member.role.name for member in turn.members] or [turn.role.name]:
                self.blocked.append({"role": name, "replica": seat.replica, **self._at(seat), "cause": cause})

    def _at(self, seat: Seat) -> dict[str, t.Any]:
        return place_of_seat(self.fleet, seat)

    def _evacuate_replica(self, want: Want, replica: Replica) -> None:
        drains = any(self.fleet.states[shard.node] == DRAINING for shard in replica.shards)
        cause = DRAIN if drains else "unhealthy"
        self.replicas.give(replica.shards)
        want.replicas.remove(replica)
        self.replicas.fill(want, [replica.replica])
        if any(other.replica == replica.replica for other in want.replicas):
            self.causes["model", want.model.name, replica.replica] = cause
            return
        self.replicas.take(replica.shards)
        want.replicas.append(replica)
        place = {"shards": place_of_replica(self.fleet, replica)}
        self.blocked.append({"model": want.model.name, "replica": replica.replica, **place, "cause": cause})

    def changes(self, *, rebalance: bool = False) -> dict[str, t.Any]:
        """What moved and why, what stayed, and what should have moved and could not."""
        moves: list[dict[str, t.Any]] = []
        retained: list[str] = []
        evicted = {
            (name, seat.replica) for seat in self.placer.evicted for name in _names_of(self.placer.turns[seat.turn])
        }
        default = REBALANCE if rebalance else RESCUE
        for turn in self.placer.turns:
            for seat in () if turn.members else turn.seats:
                key = (turn.role.name, seat.replica)
                prior = self.roles.get(key)
                if prior is None:
                    continue
                was = {"node": prior.node} | ({} if prior.index is None else {"gpu_index": prior.index})
                if self._is_same(seat, prior):
                    retained.append(f"{key[0]}/{key[1]}")
                    continue
                cause = self.causes.get(("role", *key)) or (PREEMPT if key in evicted else default)
                moves.append(
                    {"role": key[0], "replica": key[1], "from": was, "to": self._at(seat), "cause": cause}
                    | self._weights_of_seat(turn, seat)
                )
        for want in self.wants:
            for replica in want.replicas:
                self._change_of(want, replica, default, moves, retained)
        return {"moves": moves, "retained": retained, "blocked": [*self.blocked, *self._lost(evicted)]}

    def _change_of(
        self, want: Want, replica: Replica, default: str, moves: list[dict[str, t.Any]], retained: list[str]
    ) -> None:
        key = (want.model.name, replica.replica)
        prior = self.models.get(key)
        if prior is None:
            return
        was = [
            {"node": part.get("node"), "gpu_indices": list(part.get("gpu_indices") or ())}
            for part in prior.get("shards") or ()
        ]
        same = not isinstance(self._cards_of(prior), str) and self._cards_of(prior) == [
            (self.fleet.names[shard.node], tuple(shard.cards) if shard.unseen is None else None)
            for shard in replica.shards
        ]
        if same and replica.way.profile.name == prior.get("profile"):
            retained.append(f"{key[0]}/{key[1]}")
            return
        to = place_of_replica(self.fleet, replica)
        weights = [self.replicas.weights.state(key[0], shard.node) for shard in replica.shards]
        moves.append(
            {
                "model": key[0],
                "replica": key[1],
                "from": was,
                "to": to,
                "cause": self.causes.get(("model", *key)) or default,
                "weights": [{name: value for name, value in state.items() if name != "model"} for state in weights],
            }
        )

    def _cards_of(self, prior: Mapping[str, t.Any]) -> list[tuple[str, tuple[int, ...] | None]]:
        found: list[tuple[str, tuple[int, ...] | None]] = []
        for part in prior.get("shards") or ():
            name = str(part.get("node"))
            node = self.nodes.get(name)
            indices, gpus = part.get("gpu_indices") or [], part.get("gpus") or []
            if node is None or (indices and self.fleet.card_count[node] is None):
                found.append((name, None))
                continue
            cards = [
                self.find_card(node, gpus[at] if at < len(gpus) else {}, index) for at, index in enumerate(indices)
            ]
            found.append((name, tuple(sorted(-1 if card is None else card for card in cards))))
        return found

    def _is_same(self, seat: Seat, prior: Prior) -> bool:
        if self.fleet.names[seat.node] != prior.node:
            return False
        if seat.card == UNSEEN_CARD:
            return True
        if seat.card == NO_CARD or prior.index is None:
            return seat.card == NO_CARD and prior.index is None
        return self.find_card(seat.node, prior.gpu, prior.index) == seat.card

    def _weights_of_seat(self, turn: Turn, seat: Seat) -> dict[str, t.Any]:
        """What has to be copied for the models that the slots are fixed to; without any nobody knows."""
        names = [slot.model for slot in turn.role.slots if slot.model is not None]
        if not names:
            return {}
        states = [self.placer.weights.state(name, seat.node) for name in names]
        return {"weights": next((state for state in states if state["state"] != "held"), states[0])}

    def _lost(self, evicted: Iterable[tuple[str, int]]) -> list[dict[str, t.Any]]:
        """What had a place, cannot stay there, and found no other."""
        lost: list[dict[str, t.Any]] = []
        gone = set(evicted)
        placed = {(turn.role.name, seat.replica) for turn in self.placer.turns for seat in turn.seats}
        for turn in self.placer.turns:
            for number in () if turn.members else turn.numbers:
                key = (turn.role.name, number)
                prior = self.roles.get(key)
                if prior is None or key in placed:
                    continue
                was = {"node": prior.node} | ({} if prior.index is None else {"gpu_index": prior.index})
                cause = PREEMPT if key in gone else self.causes.get(("role", *key), RESCUE)
                lost.append({"role": key[0], "replica": number, **was, "cause": cause, "lost": True})
        for want in self.wants:
            there = {replica.replica for replica in want.replicas}
            for number in range(want.wanted):
                before = self.models.get((want.model.name, number))
                if before is not None and number not in there:
                    shards = [
                        {"node": part.get("node"), "gpu_indices": list(part.get("gpu_indices") or ())}
                        for part in before.get("shards") or ()
                    ]
                    cause = self.causes.get(("model", want.model.name, number), RESCUE)
                    lost.append(
                        {"model": want.model.name, "replica": number, "shards": shards, "cause": cause, "lost": True}
                    )
        return lost


def _names_of(turn: Turn) -> list[str]:
    return [member.role.name for member in turn.members] or [turn.role.name]


def unit_vm(turn: Turn, number: int) -> str:
    """The machine of a unit."""
    return f"{turn.role.name}-{number}"
