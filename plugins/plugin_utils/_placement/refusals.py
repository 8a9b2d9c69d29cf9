# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What could not be placed: why, by how little, who competes for what, and which change would place it.

A change is offered as verified only when planning again with it places more of what is short and less of nothing that
goes before it. For fleets that are too large to plan again for each, what the matching proves is verified all the same.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import (
    CORDONED,
    Shape,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.explain import Explainer, cap_text
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import (
    CODE_RANK,
    card_refusal,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.search import find_chain
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import listing, plural, size_text

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
        ComputeCap,
        Role,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.document import Writer
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.explain import Tally
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import Ask
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.replicas import (
        ReplicaPlacer,
        Want,
        Way,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.roles import (
        Seat,
        Turn,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.search import Chain

# How many GPUs are listed, and for how many GPUs in all planning again is worth its time.
LISTED_CARDS = 16
TRIED_CARDS = 20_000

Missing = dict[tuple[str, str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The input of a plan, and how to plan again with some of it changed; the answer is what would be missing."""

    nodes: Sequence[Mapping[str, t.Any]]
    roles: Sequence[Role]
    ask: Callable[[Sequence[Mapping[str, t.Any]], Sequence[Role], str], Missing]


class Refusals:
    """Reads the refusals off a finished plan."""

    def __init__(self, writer: Writer, replicas: ReplicaPlacer, question: Question) -> None:
        self.writer = writer
        self.ledger = writer.ledger
        self.fleet = writer.fleet
        self.placer = writer.placer
        self.replicas = replicas
        self.question = question
        self.explainer = Explainer(self.ledger, writer.owners)
        self.tried = 0
        self.short: list[Turn] = [turn for turn in self.placer.turns if turn.missing]
        self.everybody = self._everybody()
        self.missing: Missing = {("role", turn.role.name): turn.missing for turn in self.short}
        self.missing |= {("model", want.model.name): want.missing for want in writer.wants if want.missing}

    def _everybody(self) -> list[dict[int, list[Seat]]]:
        """Who sits where, whether a plan may move them or not, the highest replicas last."""
        found: list[dict[int, list[Seat]]] = [{} for _lot in self.ledger.lots]
        if not self.short:
            return found
        for turn in self.placer.turns:
            for seat in turn.seats:
                if seat.lot >= 0 and seat.unit is None:
                    found[seat.lot].setdefault(turn.number, []).append(seat)
        return found

    def entries(self) -> list[dict[str, t.Any]]:
        """One entry for each role and each model that is short, in the order in which they are placed."""
        found = [self._role(turn) for turn in self.short]
        found.extend(self._model(want) for want in self.writer.wants if want.missing)
        return found

    # --- roles

    def _role(self, turn: Turn) -> dict[str, t.Any]:
        on_cpu = not turn.role.needs.gpu
        tally = (
            self.explainer.tally_nodes(turn.ask, with_cards=turn.role.needs.gpu_nodes)
            if on_cpu
            else self.explainer.tally_cards(turn.ask)
        )
        entry: dict[str, t.Any] = {
            "role": turn.role.name,
            "wanted": len(turn.numbers),
            "placed": len(turn.seats),
            "missing": turn.missing,
            "code": tally.last(),
            "reason": self.explainer.reason(tally, turn.ask, memory_mib=turn.memory_mib),
            "rejected": tally.ordered(),
        }
        if on_cpu:
            return entry
        nearest = self._nearest(turn.ask, tally)
        if nearest is not None:
            entry["nearest"] = nearest
        closed = self._closed(turn) if "in_use" in tally.counts else ()
        if closed:
            entry["bottleneck"] = self._bottleneck(turn, closed)
        entry["what_would_help"] = self._helps_role(turn, tally)
        return entry

    def _nearest(self, ask: Ask, tally: Tally) -> dict[str, t.Any] | None:
        """The GPU that came nearest: it failed the latest rule, and by the least."""
        code = tally.last()
        lots = tally.lots.get(code, ())
        if not lots:
            return None
        shapes = {at: self.ledger.lots[at].shape for at in lots}
        if code == "vram":
            lot = max(lots, key=lambda at: (shapes[at].memory_gb or 0, -at))
        elif code == "cc_max":
            lot = min(lots, key=lambda at: (shapes[at].compute_cap or (99, 0), at))
        else:
            lot = max(lots, key=lambda at: (shapes[at].compute_cap or (0, 0), -at))
        taken = [
            card
            for cell in self.ledger.lot_cells[lot]
            for card in self.fleet.cells[cell].cards
            if code != "in_use" or card in self.writer.owner
        ]
        if not taken:
            return None
        card = min(taken)
        near: dict[str, t.Any] = {
            "node": self.fleet.names[self.fleet.card_node[card]],
            "gpu_index": self.fleet.card_index[card],
            "code": code,
        }
        near |= self._by_how_much(ask, code, shapes[lot], card)
        return near

    def _by_how_much(self, ask: Ask, code: str, shape: Shape, card: int) -> dict[str, t.Any]:
        if code == "vram":
            return {"need": ask.vram_gb, "have": shape.memory_gb} if ask.vram_gb is not None else {}
        if code == "cc_min":
            floor = max(cap for cap in (ask.min_cc, ask.engine_min_cc) if cap is not None)
            return {"need": cap_text(floor), "have": shape.cap_text}
        if code == "cc_max":
            top = min(cap for cap in (ask.max_cc, ask.engine_max_cc) if cap is not None)
            return {"need": cap_text(top), "have": shape.cap_text}
        if code == "in_use":
            return {"blocked_by": self.writer.owner[card]}
        if code == "external":
            return {"blocked_by": self.fleet.holders.get(card, "somebody")}
        if code == "node_state":
            return {"state": self.fleet.states[self.fleet.card_node[card]]}
        return {}

    def _chain(self, turn: Turn) -> tuple[Chain | None, tuple[int, ...]]:
        """The chain of moves that would seat one more if everybody might be moved, and the lots that were reached."""
        placer = self.placer
        kept = placer.on, placer.dead
        placer.on, placer.dead = self.everybody, set()
        try:
            return find_chain(placer, turn)
        finally:
            placer.on, placer.dead = kept

    def _closed(self, turn: Turn) -> tuple[int, ...]:
        """The lots among which everybody who could make room can only move; () where a free GPU is in reach."""
        chain, reached = self._chain(turn)
        return () if chain is not None or any(self.ledger.lot_free[lot] for lot in reached) else reached

    def _bottleneck(self, turn: Turn, lots: Sequence[int]) -> dict[str, t.Any]:
        names = {name for lot in lots for name in self.writer.owners.get(lot, ())} | {turn.role.name}
        cards = sorted(
            card for lot in lots for cell in self.ledger.lot_cells[lot] for card in self.fleet.cells[cell].cards
        )
        return {
            "roles": sorted(names),
            "wanted": len(cards) + turn.missing,
            "gpu_count": len(cards),
            "gpus": [
                {"node": self.fleet.names[self.fleet.card_node[card]], "gpu_index": self.fleet.card_index[card]}
                for card in cards[:LISTED_CARDS]
            ],
        }

    def _helps_role(self, turn: Turn, tally: Tally) -> list[dict[str, t.Any]]:
        key = ("role", turn.role.name)
        helps = [*self._help_by_nodes(key, tally), *self._help_by_move(turn), *self._help_by_free(turn, tally)]
        helps += self._help_by_card(turn)
        if turn.seats:
            helps.append(
                {
                    "change": {"count": {"role": turn.role.name, "count": len(turn.seats)}},
                    "verified": True,
                    "text": f"count {len(turn.seats)} instead of {len(turn.numbers)}",
                }
            )
        return helps

    def _verified(
        self,
        key: tuple[str, str],
        *,
        nodes: Sequence[Mapping[str, t.Any]] | None = None,
        roles: Sequence[Role] | None = None,
        moves: str = "none",
        whole: bool = False,
        proven: bool = False,
    ) -> bool:
        """Whether planning again on top of this plan, with one change, places more of it, or all that is missing."""
        self.tried += len(self.fleet.card_node) + len(self.fleet.names)
        if self.tried > TRIED_CARDS:
            return proven
        question = self.question
        then = question.ask(
            question.nodes if nodes is None else nodes, question.roles if roles is None else roles, moves
        )
        return then.get(key, 0) < (1 if whole else self.missing[key])

    def _help_by_nodes(self, key: tuple[str, str], tally: Tally) -> Iterable[dict[str, t.Any]]:
        """Nodes that only have to be let in again."""
        names = {
            self.fleet.names[self.ledger.cell_node[cell]]
            for lot in tally.would_fit
            if self.ledger.lots[lot].site.state == CORDONED
            for cell in self.ledger.lot_cells[lot]
            if self.ledger.cell_free[cell]
        }
        for name in sorted(names)[:2]:
            nodes = [{**node, "state": "ready"} if node["name"] == name else node for node in self.question.nodes]
            if self._verified(key, nodes=nodes):
                yield {"change": {"uncordon": name}, "verified": True, "text": f"uncordon {name}"}

    def _help_by_move(self, turn: Turn) -> Iterable[dict[str, t.Any]]:
        """A chain of moves that only the wish to move nothing forbids."""
        chain, _reached = self._chain(turn)
        if chain is None or not chain.hops:
            return
        placer = self.placer
        free = placer.pick(placer.turns[chain.hops[0].turn], chain.end, 1)
        if not free:
            return
        card = free[0]
        moves: list[dict[str, t.Any]] = []
        for hop in chain.hops:
            seat = self.everybody[hop.leaves][hop.turn][-1]
            moves.append(
                {
                    "role": placer.turns[hop.turn].role.name,
                    "replica": seat.replica,
                    "from": self._spot(seat.card),
                    "to": self._spot(card),
                }
            )
            card = seat.card
        text = " and ".join(
            f"move {move['role']}/{move['replica']} from {_spot_text(move['from'])} to {_spot_text(move['to'])}"
            for move in moves
        )
        verified = self._verified(("role", turn.role.name), moves="relocate", proven=not placer.claims_memory)
        yield {"change": {"moves": moves}, "verified": verified, "text": f"{text} (moves: relocate)"}

    def _spot(self, card: int) -> dict[str, t.Any]:
        return {"node": self.fleet.names[self.fleet.card_node[card]], "gpu_index": self.fleet.card_index[card]}

    def _help_by_free(self, turn: Turn, tally: Tally) -> Iterable[dict[str, t.Any]]:
        """A GPU that somebody else holds, or one that a role which comes later could do without."""
        key = ("role", turn.role.name)
        for lot in tally.lots.get("external", ()):
            cards = [card for cell in self.ledger.lot_cells[lot] for card in self.fleet.cells[cell].cards]
            spot = self._spot(min(cards))
            holder = self.fleet.holders.get(min(cards), "somebody")
            if self._verified(key, nodes=self._without_holder(spot)):
                change = {"free": {**spot, "by": holder}}
                yield {"change": change, "verified": True, "text": f"free {_spot_text(spot)}, held by {holder}"}
            return
        if "in_use" not in tally.counts:
            return
        later = [
            each
            for each in self.placer.turns
            if not each.members and each.number != turn.number and any(seat.lot in turn.lots for seat in each.seats)
        ]
        for other in reversed(later):
            count = len(other.numbers) - other.missing - 1
            roles = [
                replace(role, count=count) if role.name == other.role.name else role for role in self.question.roles
            ]
            if self._verified(key, roles=roles):
                change = {"count": {"role": other.role.name, "count": count}}
                yield {
                    "change": change,
                    "verified": True,
                    "text": f"count {count} of {other.role.name}, which frees a GPU",
                }
                return

    def _without_holder(self, spot: Mapping[str, t.Any]) -> list[Mapping[str, t.Any]]:
        return [
            {
                **node,
                "gpus": [{**gpu, "holder": None} if gpu["index"] == spot["gpu_index"] else gpu for gpu in node["gpus"]],
            }
            if node["name"] == spot["node"]
            else node
            for node in self.question.nodes
        ]

    def _help_by_card(self, turn: Turn) -> Iterable[dict[str, t.Any]]:
        """More GPUs of the smallest kind that does; those that go before it and could use them get theirs first."""
        ask = turn.ask
        card = _least_card(ask)
        if card_refusal(ask, _shape(card)) is not None or ask.node is not None:
            return
        others = sum(other.missing for other in self.short if other.number < turn.number and self._wants(other, card))
        for number in sorted({turn.missing, turn.missing + others}):
            node = _new_node([card] * number, selector=ask.selector, memory_mib=turn.memory_mib * number)
            verified = self._verified(
                ("role", turn.role.name),
                nodes=[*self.question.nodes, node],
                whole=True,
                proven=number > turn.missing or not others,
            )
            if verified or number == turn.missing + others:
                yield {
                    "change": {"add_gpus": {"count": number, **_public(card)}},
                    "verified": verified,
                    "text": f"{_number(number)} more {'GPU' if number == 1 else 'GPUs'} {_card_text(ask, card)}",
                }
                return

    def _wants(self, turn: Turn, card: Mapping[str, t.Any]) -> bool:
        """Whether a role that is short could use a new GPU."""
        return card_refusal(turn.ask, _shape(card)) is None

    # --- models

    def _model(self, want: Want) -> dict[str, t.Any]:
        tallies = [self.explainer.tally_shards(want, way, self.replicas) for way in want.ways]
        texts = [
            self._way_text(way, tally, named=len(want.ways) > 1) for way, tally in zip(want.ways, tallies, strict=True)
        ]
        at = max(range(len(tallies)), key=lambda each: (CODE_RANK[tallies[each].last()], -each))
        entry: dict[str, t.Any] = {
            "model": want.model.name,
            "wanted": want.wanted,
            "placed": len(want.replicas),
            "missing": want.missing,
            "code": tallies[at].last(),
            "reason": "; ".join(texts),
            "rejected": tallies[at].ordered(),
        }
        nearest = self._nearest(want.ways[at].ask, tallies[at])
        if nearest is not None:
            entry["nearest"] = nearest
        entry["what_would_help"] = self._helps_model(want, tallies)
        return entry

    def _way_text(self, way: Way, tally: Tally, *, named: bool) -> str:
        profile = way.profile
        head = self.explainer.shard_headline(way, tally)
        counts = self.explainer.reason(tally, way.ask, memory_mib=way.memory_mib)
        text = f"{head}: {counts}" if head else counts
        return f"{profile.name}: {text}" if named else text

    def _helps_model(self, want: Want, tallies: Sequence[Tally]) -> list[dict[str, t.Any]]:
        key = ("model", want.model.name)
        helps: list[dict[str, t.Any]] = []
        for tally in tallies:
            helps.extend(self._help_by_nodes(key, tally))
        way = want.ways[0]
        if way.profile.gpu_class is not None:
            helps.extend(self._help_by_new_nodes(want, way))
        if want.replicas:
            change = {"min": {"model": want.model.name, "min": len(want.replicas)}}
            text = f"scaling.min {len(want.replicas)} instead of {want.wanted}"
            helps.append({"change": change, "verified": True, "text": text})
        return helps

    def _help_by_new_nodes(self, want: Want, way: Way) -> Iterable[dict[str, t.Any]]:
        profile, ask = way.profile, way.ask
        card = _least_card(ask)
        if card_refusal(ask, _shape(card)) is not None:
            return
        key = ("model", want.model.name)
        least = profile.nodes * want.missing
        others = sum(other.missing for other in self.short if self._wants(other, card))
        numbers = sorted({least, least - (-others // profile.gpus_per_node)})
        for number in numbers:
            new = [
                _new_node(
                    [card] * profile.gpus_per_node,
                    selector=ask.selector,
                    memory_mib=way.memory_mib,
                    fabric="\U0010ffff new" if profile.nodes > 1 else None,
                    number=at,
                )
                for at in range(number)
            ]
            verified = self._verified(key, nodes=[*self.question.nodes, *new], whole=True)
            if verified or number == numbers[-1]:
                where = " on one fabric" if profile.nodes > 1 else ""
                cards = plural(profile.gpus_per_node, "GPU")
                change = {"add_nodes": {"count": number, "gpus_per_node": profile.gpus_per_node, **_public(card)}}
                yield {
                    "change": change,
                    "verified": verified,
                    "text": f"{_number(number)} more {'node' if number == 1 else 'nodes'} with {cards}"
                    f"{' each' if number > 1 else ''} {_card_text(ask, card)}{where}",
                }
                return


def _spot_text(spot: t.Any) -> str:
    return f"{spot['node']}:{spot['gpu_index']}"


def _number(count: int) -> str:
    return "one" if count == 1 else str(count)


def _least_card(ask: Ask) -> dict[str, t.Any]:
    """The smallest GPU that an ask accepts, as a profile would list it."""
    floor, top = _cap_range(ask)
    floor = floor or top
    vendors = (ask.vendor,) if ask.vendor else ask.engine_vendors
    card: dict[str, t.Any] = {
        "gpu_class": ask.gpu_class or "any",
        "memory_gb": ask.vram_gb or 1,
        "compute_cap": None if floor is None else cap_text(floor),
        "vendor": vendors[0] if vendors else None,
    }
    for _unused in range(64):
        # Exact arithmetic may want more than the nominal size says.
        if not ask.exact or card_refusal(ask, _shape(card)) != "vram":
            break
        card["memory_gb"] += max(1, card["memory_gb"] // 8)
    return card


def _cap_range(ask: Ask) -> tuple[ComputeCap | None, ComputeCap | None]:
    """The least and the greatest compute capability that an ask accepts."""
    floors = [cap for cap in (ask.min_cc, ask.engine_min_cc) if cap is not None]
    tops = [cap for cap in (ask.max_cc, ask.engine_max_cc) if cap is not None]
    return max(floors, default=None), min(tops, default=None)


def _shape(card: Mapping[str, t.Any]) -> Shape:
    cap = card["compute_cap"]
    major, _dot, minor = (cap or "").partition(".")
    return Shape(
        gpu_class=card["gpu_class"],
        memory_gb=card["memory_gb"],
        memory_mib=int(card["memory_gb"] * 1024 * 0.9375),
        reserved_mib=None,
        compute_cap=(int(major), int(minor)) if cap else None,
        vendor=card["vendor"],
        mig=False,
    )


def _public(card: Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {
        key: value
        for key, value in card.items()
        if value is not None and value != "any" and key in ("gpu_class", "memory_gb", "compute_cap")
    }


def _card_text(ask: Ask, card: Mapping[str, t.Any]) -> str:
    parts = [f"with at least {size_text(card['memory_gb'])} GB"]
    floor, top = _cap_range(ask)
    if floor is not None and top is not None:
        parts.append(f"compute capability {cap_text(floor)} to {cap_text(top)}")
    elif floor is not None:
        parts.append(f"compute capability {cap_text(floor)} or above")
    elif top is not None:
        parts.append(f"compute capability at most {cap_text(top)}")
    if ask.gpu_class:
        parts.append(f"of class {ask.gpu_class}")
    if ask.selector:
        parts.append(f"on a node labelled {listing(f'{key}={value}' for key, value in sorted(ask.selector.items()))}")
    return ", ".join(parts)


def _new_node(
    cards: Sequence[Mapping[str, t.Any]],
    *,
    selector: Mapping[str, str],
    memory_mib: int,
    fabric: str | None = None,
    number: int = 0,
) -> dict[str, t.Any]:
    """A node with new GPUs and as much memory as they need; its name sorts behind every other."""
    return {
        "name": f"\U0010ffff new {number}",
        "memory_gb": None if not memory_mib else memory_mib // 512 + 64,
        "labels": dict(selector),
        "fabrics": [fabric] if fabric else [],
        "gpus": [{"index": index, **card} for index, card in enumerate(cards)],
    }
