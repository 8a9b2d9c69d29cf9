# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What would help: the smallest change of each kind that was tried on top of the plan and is enough.

In this order: a limit raised, a count or minimum lowered, moves, a GPU freed, GPUs in an existing node, nodes on an existing
fabric, nodes on a new one. A change is data that ``apply_change`` can apply; it is offered when planning again with it
places everything that is missing, and nothing that goes before it loses by it. What was not tried is not offered.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace
from functools import partial

from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import (
    CORDONED,
    GPU_CORDONED,
    READY,
    Shape,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.explain import cap_text
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import gpu_refusal
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import ROLE
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import listing, plural, size_text

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
        ComputeCap,
        Model,
        Role,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.document import Writer
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.explain import Tally
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import Ask
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import Placed
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import Candidate, Request

# For how many GPUs and nodes in all planning again is worth its time, and for how many the rest of a trial counts.
TRIED_GPUS, TRIAL_GPUS = 20_000, 100
# What may move when a change is applied is not known when it is offered: it has to be enough either way.
TRIED_MOVES = ("none", "relocate")
# How many nodes, fabrics and other requests are tried for one kind of help: at least three, in small fleets more.
MIN_PLACES, SHARE_OF_TRIALS = 3, 0.1
# The names of what is new: they sort behind every other.
NEW_NODE, NEW_FABRIC = "\U0010ffff new", "new"

Change = dict[str, t.Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What a plan is made from, so that some of it can be changed."""

    nodes: Sequence[Mapping[str, t.Any]]
    roles: Sequence[Role]
    models: Sequence[Model]
    moves: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a plan was made from, and how to plan again on top of it, with some of that changed, up to one request."""

    trial: Trial
    ask: Callable[[Trial, Request | None], Placed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Purchase:
    """Something to add: how many GPUs each, how many at least and at most, and how a number is written as a change."""

    gpus: int
    least: int
    most: int
    make: Callable[[int], Change]


def apply_change(trial: Trial, change: Change) -> Trial:
    """Return the input of a plan with a change applied."""
    ((kind, what),) = change.items()
    if kind == "uncordon":
        return replace(trial, nodes=_with_node(trial.nodes, what, lambda node: {**node, "state": READY}))
    if kind in ("uncordon_gpu", "free"):
        key = {"uncordon_gpu": "state", "free": "holder"}[kind]
        return replace(
            trial,
            nodes=_with_node(
                trial.nodes,
                what["node"],
                lambda node: {
                    **node,
                    "gpus": [{**gpu, key: None} if gpu["index"] == what["gpu_index"] else gpu for gpu in node["gpus"]],
                },
            ),
        )
    if kind == "max_cc":
        cap = tuple(map(int, what["max_cc"].split(".")))
        return replace(trial, roles=_with_role(trial.roles, what["role"], lambda role: _with_needs(role, max_cc=cap)))
    if kind == "gpu_nodes":
        return _with_gpu_nodes(trial, what)
    if kind == "spread":
        return _with_soft_spread(trial, what)
    if kind == "count":
        return replace(
            trial, roles=_with_role(trial.roles, what["role"], lambda role: replace(role, count=what["count"]))
        )
    if kind == "min":
        return replace(
            trial,
            models=[
                replace(model, scaling=replace(model.scaling, min=what["min"]))
                if model.name == what["model"] and model.scaling is not None
                else model
                for model in trial.models
            ],
        )
    if kind == "moves":
        return replace(trial, moves="relocate")
    gpu = {key: what[key] for key in ("gpu_class", "memory_gb", "compute_cap", "vendor") if key in what}
    if kind == "add_gpus":
        return replace(
            trial, nodes=_with_node(trial.nodes, what["node"], lambda node: _grown(node, what["count"], gpu))
        )
    known = sum(str(node["name"]).startswith(NEW_NODE) for node in trial.nodes)
    new = [
        {
            "name": f"{NEW_NODE} {known + number}",
            "memory_gb": what.get("node_memory_gb"),
            "labels": dict(what.get("labels", {})),
            "fabrics": [what["fabric"]] if "fabric" in what else [],
            "gpus": [{"index": index, **gpu} for index in range(what["gpus_per_node"])],
        }
        for number in range(what["count"])
    ]
    return replace(trial, nodes=[*trial.nodes, *new])


def _with_node(
    nodes: Sequence[Mapping[str, t.Any]], name: str, edit: Callable[[Mapping[str, t.Any]], Mapping[str, t.Any]]
) -> list[Mapping[str, t.Any]]:
    return [edit(node) if node["name"] == name else node for node in nodes]


def _grown(node: Mapping[str, t.Any], count: int, gpu: Mapping[str, t.Any]) -> Mapping[str, t.Any]:
    gpus = list(node.get("gpus") or ())
    first = max((each["index"] for each in gpus), default=-1) + 1
    return {**node, "gpus": [*gpus, *({"index": first + at, **gpu} for at in range(count))]}


def _with_role(roles: Sequence[Role], name: str, edit: Callable[[Role], Role]) -> list[Role]:
    return [edit(role) if role.name == name else role for role in roles]


def _with_needs(role: Role, **changed: t.Any) -> Role:
    return replace(role, needs=replace(role.needs, **changed))


def _with_gpu_nodes(trial: Trial, what: Mapping[str, t.Any]) -> Trial:
    if "role" in what:
        roles = _with_role(trial.roles, what["role"], lambda role: _with_needs(role, gpu_nodes=True))
        return replace(trial, roles=roles)
    models = [
        replace(
            model,
            profiles=tuple(
                replace(profile, gpu_nodes=True) if profile.name == what["profile"] else profile
                for profile in model.profiles
            ),
        )
        if model.name == what["model"]
        else model
        for model in trial.models
    ]
    return replace(trial, models=models)


def _with_soft_spread(trial: Trial, what: Mapping[str, t.Any]) -> Trial:
    def soften(entry: t.Any) -> t.Any:
        if entry.name != what.get("role", what.get("model")):
            return entry
        return replace(entry, spread={**entry.spread, "hard": False})

    if "role" in what:
        return replace(trial, roles=[soften(role) for role in trial.roles])
    return replace(trial, models=[soften(model) for model in trial.models])


class Helper:
    """Finds what would help those that are short in a finished plan."""

    def __init__(self, writer: Writer, question: Question) -> None:
        self.search = writer.search
        self.requests = writer.requests
        self.ledger = writer.ledger
        self.fleet = writer.fleet
        self.question = question
        self.missing = {request.name: request.missing for request in self.requests if request.missing}
        # What a trial costs, and what was spent on trials.
        self.cost, self.tried = len(self.fleet.gpu_node) + len(self.fleet.names) + TRIAL_GPUS, 0
        self.places = max(MIN_PLACES, int(TRIED_GPUS / self.cost * SHARE_OF_TRIALS))
        self._has_fixed = any(each.is_fixed for other in self.requests for each in other.placements.values())
        self._is_relocated = False
        self._relocated: Placed | None = None

    def helps(self, request: Request, tallies: Sequence[Tally]) -> Iterator[dict[str, t.Any]]:
        """Return the changes that would place all that a request is short of, in the order of the module."""
        own, moves = self._own_count(request), self._moves(request)
        finders = (
            self._limits(request, tallies),
            self._counts(request),
            own,
            moves,
            self._holders(request, tallies),
            self._purchases(request),
        )
        for found in finders:
            # One's own count needs no trial, and of the moves there is one for all.
            if found in (own, moves) or self._can_try():
                for change, text in found:
                    yield {"change": change, "verified": True, "text": text}

    def spot(self, gpu: int) -> dict[str, t.Any]:
        """Return node and index of a GPU."""
        return {"node": self.fleet.names[self.fleet.gpu_node[gpu]], "gpu_index": self.fleet.gpu_index[gpu]}

    def _try(self, request: Request, change: Change) -> bool:
        """Whether a change was tried and is enough; a fleet that is too large to try says no."""
        for moves in TRIED_MOVES:
            placed = self._ask(change, request, moves)
            if placed is None or not self._is_enough(request, placed):
                return False
        return True

    def _can_try(self) -> bool:
        """Whether planning once more is worth its time."""
        return self.tried + self.cost <= TRIED_GPUS

    def _ask(self, change: Change, request: Request | None, moves: str = "none") -> Placed | None:
        """Return the plan with a change, up to a request; ``None`` where that would take too long."""
        if not self._can_try():
            return None
        self.tried += self.cost
        trial = apply_change(replace(self.question.trial, moves=moves), change)
        return self.question.ask(trial, request)

    def _is_enough(self, request: Request, placed: Placed) -> bool:
        """Whether all of a request is placed, and nothing that goes before it lost a place."""
        for other in placed.search.requests:
            if other.kind == request.kind and other.name == request.name and not other.members:
                return not other.missing
            if other.missing > self.missing.get(other.name, 0):
                return False
        return False

    # --- a limit raised

    def _limits(self, request: Request, tallies: Sequence[Tally]) -> Iterator[tuple[Change, str]]:
        ledger = self.ledger
        for tally in tallies:
            names = {
                self.fleet.names[ledger.part_node[part]]
                for pool in tally.would_fit
                if ledger.pools[pool].domain.state == CORDONED
                for part in ledger.pool_parts[pool]
                if ledger.part_free[part]
            }
            for name in sorted(names)[: self.places]:
                yield from self._if_enough(request, {"uncordon": name}, f"uncordon {name}")
            for gpu in self._gpus_of(tally, "gpu_cordoned")[: self.places]:
                if self.fleet.gpu_flags[gpu] & GPU_CORDONED:
                    spot = self.spot(gpu)
                    yield from self._if_enough(request, {"uncordon_gpu": spot}, f"uncordon {_spot_text(spot)}")
        yield from self._higher_cap(request, tallies)
        for candidate, tally in zip(request.candidates, tallies, strict=False):
            if "config" in tally.counts:
                change = {request.kind: request.name}
                if candidate.profile is not None:
                    change["profile"] = candidate.profile.name
                yield from self._if_enough(request, {"gpu_nodes": change}, f"gpu_nodes: true for {request.name}")
        if request.spread is not None and request.spread.hard and not request.per_node:
            yield from self._if_enough(
                request, {"spread": {request.kind: request.name, "hard": False}}, f"hard: false for {request.name}"
            )

    def _higher_cap(self, request: Request, tallies: Sequence[Tally]) -> Iterator[tuple[Change, str]]:
        role = request.role
        if role is None or role.needs.max_cc is None:
            return
        caps = {
            self.ledger.pools[pool].shape.compute_cap for tally in tallies for pool in tally.pools.get("cc_max", ())
        }
        for cap in sorted(cap for cap in caps if cap is not None)[: self.places]:
            change = {"max_cc": {"role": role.name, "max_cc": cap_text(cap)}}
            found = list(self._if_enough(request, change, f"max_cc {cap_text(cap)} of {role.name}"))
            if found:
                yield from found
                return

    def _if_enough(self, request: Request, change: Change, text: str) -> Iterator[tuple[Change, str]]:
        if self._try(request, change):
            yield change, text

    def _gpus_of(self, tally: Tally, code: str) -> list[int]:
        parts = (part for pool in tally.pools.get(code, ()) for part in self.ledger.pool_parts[pool])
        return sorted(gpu for part in parts for gpu in self.fleet.node_pools[part].gpus)

    # --- a count lowered

    def _counts(self, request: Request) -> Iterator[tuple[Change, str]]:
        """Another request that could do with less, the last that has what this one could use."""
        pools = {pool for candidate in request.candidates for pool in candidate.pools}
        nodes = {self.ledger.part_node[part] for pool in pools for part in self.ledger.pool_parts[pool]}
        others = [
            other
            for other in reversed(self.requests)
            if other is not request and other.placements and not (other.members or other.per_node)
        ]
        others.sort(key=lambda other: self._distance(other, pools, nodes))
        best: tuple[int, Change, str] | None = None
        for other in others[: self.places]:
            placed = len(other.placements)
            most = placed if best is None else min(placed, best[0] - 1)
            change = self._lowered(other, placed - most)
            if most < 1 or not self._try(request, change):
                continue
            number = self._smallest(request, 1, most, partial(self._fewer, other))
            change = self._lowered(other, placed - number)
            what = "frees a GPU" if number == 1 else f"frees {number} replicas"
            best = number, change, f"{_count_text(other, placed - number)}, which {what}"
        if best is not None:
            yield best[1:]

    def _own_count(self, request: Request) -> Iterator[tuple[Change, str]]:
        """What is placed is enough for itself."""
        if request.placements and not request.per_node:
            placed = len(request.placements)
            word = "count" if request.kind == ROLE else "scaling.min"
            yield self._lowered(request, placed), f"{word} {placed} instead of {len(request.numbers)}"

    def _distance(self, other: Request, pools: set[int], nodes: set[int]) -> int:
        """Return how near a request is to what another could use: 0 has such GPUs, 1 is on their nodes, 2 is elsewhere."""
        shards = [shard for placement in other.placements.values() for shard in placement.shards]
        if any(self.ledger.pool_at(gpu) in pools for shard in shards for gpu in shard.gpus):
            return 0
        return 1 if any(shard.node in nodes for shard in shards) else 2

    def _lowered(self, request: Request, count: int) -> Change:
        key = "count" if request.kind == ROLE else "min"
        return {key: {request.kind: request.name, key: count}}

    def _fewer(self, request: Request, number: int) -> Change:
        return self._lowered(request, len(request.placements) - number)

    def _smallest(self, request: Request, least: int, most: int, make: Callable[[int], Change]) -> int:
        """Return the smallest number that is enough, where the greatest is."""
        while least < most:
            middle = (least + most) // 2
            if not self._try(request, make(middle)):
                least = middle + 1
            else:
                most = middle
        return most

    # --- moves, and GPUs that others hold

    def _moves(self, request: Request) -> Iterator[tuple[Change, str]]:
        """What the planner would move for it; for all that are short it is tried at once."""
        if request.is_proven and not self._has_fixed:
            return
        if not self._is_relocated:
            self._is_relocated = True
            self._relocated = self._ask({"moves": []}, None)
        placed = self._relocated
        if placed is None or placed.previous is None or not self._is_enough(request, placed):
            return
        moves = [
            {key: value for key, value in move.items() if key not in ("cause", "weights")}
            for move in placed.previous.changes(placed.search)["moves"]
        ]
        text = " and ".join(
            f"move {move.get('role') or move['model']}/{move['replica']} from {_places_text(move['from'])}"
            f" to {_places_text(move['to'])}"
            for move in moves
        )
        if moves:
            yield {"moves": moves}, f"{text} (moves: relocate)"

    def _holders(self, request: Request, tallies: Sequence[Tally]) -> Iterator[tuple[Change, str]]:
        for tally in tallies:
            for gpu in self._gpus_of(tally, "external")[: self.places]:
                spot, holder = self.spot(gpu), self.fleet.holders.get(gpu, "somebody")
                change = {"free": {**spot, "by": holder}}
                found = list(self._if_enough(request, change, f"free {_spot_text(spot)}, held by {holder}"))
                if found:
                    yield from found
                    return

    # --- GPUs and nodes to add

    def _purchases(self, request: Request) -> Iterator[tuple[Change, str]]:
        """The smallest purchase of the first kind that is enough: in a node, on a fabric, on a new one."""
        candidates = [each for each in request.candidates if _least_gpu(each.ask) is not None and each.ask.node is None]
        for kind in (self._in_nodes, self._on_fabrics, self._anew):
            best: tuple[tuple[t.Any, ...], Change, str] | None = None
            for candidate in candidates:
                for purchase in kind(request, candidate):
                    gpus = max(1, purchase.gpus)
                    most = purchase.most if best is None else min(purchase.most, best[0][0] // gpus)
                    number = self._number(request, purchase, most)
                    if number is None:
                        continue
                    change = purchase.make(number)
                    ((_kind, what),) = change.items()
                    key = (number * gpus, what.get("memory_gb", 0), what.get("node_memory_gb", 0))
                    if best is None or key < best[0]:
                        best = key, change, _purchase_text(change, candidate.ask)
            if best is not None:
                yield best[1:]
                return

    def _number(self, request: Request, purchase: Purchase, most: int) -> int | None:
        """Return the smallest number of a purchase that is enough, or ``None`` where the most that makes sense is not."""
        least = purchase.least
        if least > most:
            return None
        if self._try(request, purchase.make(least)):
            return least
        if most == least or not self._try(request, purchase.make(most)):
            return None
        return self._smallest(request, least + 1, most, purchase.make)

    def _others(self, request: Request) -> int:
        """How many GPUs those that are short and go before it could want of new ones."""
        return sum(
            other.missing * max((each.gpus * each.nodes for each in other.candidates), default=0)
            for other in self.requests
            if other.missing and other is not request
        )

    def _in_nodes(self, request: Request, candidate: Candidate) -> Iterable[Purchase]:
        """GPUs in a node that is there: those with memory for what is missing first, of these the one that lacks the fewest."""
        if not candidate.gpus:
            return
        ledger, fleet, ask = self.ledger, self.fleet, candidate.ask
        lacking = []
        for node, state in enumerate(fleet.states):
            if state != READY or fleet.gpu_count[node] is None or ledger.node_refusal(ask, node) is not None:
                continue
            if candidate.nodes > 1 and not fleet.fabrics[node]:
                continue
            free = sum(len(ledger.part_free[part]) for part in self._parts(candidate, node))
            rounds = request.missing if candidate.nodes == 1 else 1
            has_memory = ledger.has_memory(node, rounds * candidate.memory_mib)
            lacking.append((not has_memory, max(1, rounds * candidate.gpus - free), node))
        gpu, others = _least_gpu(ask) or {}, self._others(request)
        for _lacks_memory, lack, node in sorted(lacking)[: self.places]:
            make = partial(_add_gpus, fleet.names[node], gpu)
            yield Purchase(gpus=1, least=lack, most=lack + others, make=make)

    def _parts(self, candidate: Candidate, node: int) -> Iterable[int]:
        first, last = self.fleet.node_span[node]
        return (part for part in range(first, last) if self.ledger.part_pool[part] in candidate.pool_set)

    def _on_fabrics(self, request: Request, candidate: Candidate) -> Iterable[Purchase]:
        """Nodes on a fabric that is there: the one with the most nodes that could take part first."""
        if candidate.nodes == 1:
            return
        able = {name: 0 for names in self.fleet.fabrics for name in names}
        for node in candidate.node_parts:
            free = sum(len(self.ledger.part_free[part]) for part in candidate.node_parts[node])
            for fabric in self.fleet.fabrics[node]:
                able[fabric] += free // candidate.gpus
        wanted = candidate.nodes * request.missing
        for fabric in sorted(able, key=lambda name: (-able[name], self.search.filler.fabric_key(name)))[: self.places]:
            yield from self._nodes(request, candidate, max(1, wanted - able[fabric]), wanted, fabric)

    def _anew(self, request: Request, candidate: Candidate) -> Iterable[Purchase]:
        """Nodes of their own, on a fabric of their own where a replica needs one."""
        each = candidate.nodes if candidate.gpus else 1
        fabric = None
        if candidate.nodes > 1:
            known = {name for names in self.fleet.fabrics for name in names}
            fabric = NEW_FABRIC
            while fabric in known:
                fabric += "-"
        if candidate.is_single and request.kind == ROLE and request.spread is None:
            yield from self._one_node(request, candidate)
            return
        least = each if candidate.nodes > 1 else 1
        yield from self._nodes(request, candidate, least, each * request.missing, fabric)

    def _one_node(self, request: Request, candidate: Candidate) -> Iterator[Purchase]:
        """One node with as many GPUs as are missing."""
        most = request.missing + self._others(request)
        for beside in self._beside(candidate):
            yield Purchase(gpus=1, least=request.missing, most=most, make=partial(_add_one_node, candidate, beside))

    def _nodes(
        self, request: Request, candidate: Candidate, least: int, most: int, fabric: str | None
    ) -> Iterator[Purchase]:
        most = max(least, most) + -(-self._others(request) // max(1, candidate.gpus))
        for beside in self._beside(candidate):
            make = partial(_add_nodes, candidate, beside, fabric, gpus=candidate.gpus)
            yield Purchase(gpus=candidate.gpus, least=least, most=most, make=make)

    def _beside(self, candidate: Candidate) -> list[int]:
        """Return what others may take of a new node's memory for each GPU, in MiB: nothing, then what those that are short do."""
        theirs = max(each.memory_mib for other in self.requests if other.missing for each in other.candidates)
        return [0, theirs] if theirs > candidate.memory_mib else [0]


def _add_nodes(candidate: Candidate, beside_mib: int, fabric: str | None, count: int, gpus: int) -> Change:
    what: dict[str, t.Any] = {"count": count, "gpus_per_node": gpus}
    if candidate.gpus:
        what |= _least_gpu(candidate.ask) or {}
    memory = max(candidate.memory_mib * (gpus // candidate.gpus if candidate.gpus else 1), beside_mib * gpus)
    if memory:
        what["node_memory_gb"] = _node_gb(memory)
    if candidate.ask.selector:
        what["labels"] = dict(candidate.ask.selector)
    if fabric is not None:
        what["fabric"] = fabric
    return {"add_nodes": what}


def _add_one_node(candidate: Candidate, beside_mib: int, gpus: int) -> Change:
    return _add_nodes(candidate, beside_mib, None, 1, gpus)


def _node_gb(memory_mib: int) -> int:
    """Return how many GB of memory a node has that can give away so much: with its reserve, and what GPUs there share."""
    return -(-memory_mib // 972) + 3


def _add_gpus(node: str, gpu: Mapping[str, t.Any], number: int) -> Change:
    return {"add_gpus": {"count": number, "node": node, **gpu}}


def _purchase_text(change: Change, ask: Ask) -> str:
    """Return a purchase in words."""
    ((kind, what),) = change.items()
    count, plain = what["count"], "one" if what["count"] == 1 else str(what["count"])
    if kind == "add_gpus":
        return f"{plain} more {'GPU' if count == 1 else 'GPUs'} in {what['node']}, {_gpu_text(ask, what)}"
    has = []
    if what["gpus_per_node"]:
        has.append(f"{plural(what['gpus_per_node'], 'GPU')}{' each' if count > 1 else ''} {_gpu_text(ask, what)}")
    if "node_memory_gb" in what:
        has.append(f"{what['node_memory_gb']} GB of memory")
    labels = listing(f"{key}={value}" for key, value in sorted(what.get("labels", {}).items()))
    fabric = what.get("fabric")
    return "".join(
        (
            f"{plain} more {'node' if count == 1 else 'nodes'}",
            f" with {' and '.join(has)}" if has else "",
            f", on a node labelled {labels}" if labels else "",
            "" if fabric is None else " on one new fabric" if fabric.strip("-") == NEW_FABRIC else f" on {fabric}",
        )
    )


def _count_text(request: Request, count: int) -> str:
    return f"{'count' if request.kind == ROLE else 'scaling.min'} {count} of {request.name}"


def _spot_text(spot: Mapping[str, t.Any]) -> str:
    return f"{spot['node']}:{spot['gpu_index']}"


def _places_text(places: t.Any) -> str:
    if isinstance(places, dict):
        return _spot_text(places) if "gpu_index" in places else places["node"]
    return " + ".join(
        f"{place['node']}:{','.join(map(str, place['gpu_indices']))}" if place["gpu_indices"] else place["node"]
        for place in places
    )


def _least_gpu(ask: Ask) -> dict[str, t.Any] | None:
    """Return the smallest GPU that an ask accepts, as a profile would list it; ``None`` where there is none."""
    floor, top = _cap_range(ask)
    vendors = (ask.vendor,) if ask.vendor else ask.engine_vendors
    gpu: dict[str, t.Any] = {"memory_gb": ask.size_gb or 1}
    if ask.gpu_class is not None:
        gpu["gpu_class"] = ask.gpu_class
    if floor is not None or top is not None:
        gpu["compute_cap"] = cap_text(floor if floor is not None else top)
    if vendors:
        gpu["vendor"] = vendors[0]
    for _unused in range(64):
        # Exact arithmetic may want more than the nominal size says.
        if not ask.exact or gpu_refusal(ask, _shape(gpu)) != "vram":
            break
        gpu["memory_gb"] += max(1, gpu["memory_gb"] // 8)
    return gpu if gpu_refusal(ask, _shape(gpu)) is None else None


def _cap_range(ask: Ask) -> tuple[ComputeCap | None, ComputeCap | None]:
    """Return the least and the greatest compute capability that an ask accepts."""
    floors = [cap for cap in (ask.min_cc, ask.engine_min_cc) if cap is not None]
    tops = [cap for cap in (ask.max_cc, ask.engine_max_cc) if cap is not None]
    return max(floors, default=None), min(tops, default=None)


def _shape(gpu: Mapping[str, t.Any]) -> Shape:
    cap = gpu.get("compute_cap")
    major, _dot, minor = (cap or "").partition(".")
    return Shape(
        gpu_class=gpu.get("gpu_class"),
        memory_gb=gpu["memory_gb"],
        memory_mib=int(gpu["memory_gb"] * 1024 * 0.9375),
        reserved_mib=None,
        compute_cap=(int(major), int(minor)) if cap else None,
        vendor=gpu.get("vendor"),
        mig=False,
    )


def _gpu_text(ask: Ask, gpu: Mapping[str, t.Any]) -> str:
    parts = [f"with at least {size_text(gpu['memory_gb'])} GB"]
    floor, top = _cap_range(ask)
    if floor is not None and top is not None:
        parts.append(f"compute capability {cap_text(floor)} to {cap_text(top)}")
    elif floor is not None:
        parts.append(f"compute capability {cap_text(floor)} or above")
    elif top is not None:
        parts.append(f"compute capability at most {cap_text(top)}")
    if ask.gpu_class:
        parts.append(f"of class {ask.gpu_class}")
    return ", ".join(parts)
