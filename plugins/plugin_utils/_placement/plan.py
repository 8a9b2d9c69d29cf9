# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The plan: nodes, roles and models in, one document out. Pure, and the same for any order of what goes in."""

from __future__ import annotations

import gc
import typing as t
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.engines import BUILTIN_ENGINES
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import Fleet, read_nodes
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.colocate import (
    expand_units,
    units_of,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.document import (
    Writer,
    catalog_fingerprint,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fill import Filler, settle_candidate
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.held_weights import Weights
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.help import Question, Trial
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.ledger import Ledger
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.options import VERSION
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.previous import Previous
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.refusals import Refusals
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.search import Search
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.shares import share_memory
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.ways import with_ways
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import (
    Options,
    ask_of,
    model_order,
    request_of_model,
    request_of_role,
    role_order,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
        Engine,
        Model,
        Role,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import Request

# How often what is short is tried once more when everything has its place.
MAX_PASSES = 4


def plan(
    nodes: Sequence[Mapping[str, t.Any]],
    roles: Sequence[Role],
    models: Sequence[Model],
    previous: Mapping[str, t.Any] | None = None,
    *,
    moves: str = "none",
    rebalance: bool = False,
    rescue: bool = True,
    passthrough: bool = True,
    replan_ways: bool = False,
    engines: Mapping[str, Engine] = BUILTIN_ENGINES,
) -> dict[str, t.Any]:
    """Place roles and models on nodes; raises ``ProfileError`` where the profiles cannot be read."""
    options = Options(
        moves=moves,
        rebalance=rebalance,
        reassign=rescue,
        passthrough=passthrough,
        engines=engines,
        replan_ways=replan_ways,
    )
    with paused_collector():
        return _plan(nodes, roles, models, previous, options)


@contextmanager
def paused_collector() -> Iterator[None]:
    """Pause the collector: a plan makes many small values, and collecting while it grows costs as much as planning."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Everything in its place, not yet written down; ``loads`` are the models that are placed on demand."""

    search: Search
    loads: list[Request]
    previous: Previous | None

    @property
    def missing(self) -> dict[tuple[str, str], int]:
        """How many replicas of what have no place."""
        return {(each.kind, each.name): each.missing for each in self.search.requests if each.missing}


def place(
    nodes: t.Any,
    roles: Sequence[Role],
    models: Sequence[Model],
    previous: Mapping[str, t.Any] | None,
    options: Options,
    *,
    last: tuple[str, str] | None = None,
) -> Placed:
    """Give everything its place; with ``last`` only up to that request, which is what a trial wants to know."""
    fleet = nodes if isinstance(nodes, Fleet) else read_nodes(nodes)
    by_name = {model.name: model for model in models}
    singles = [request_of_role(role, ask_of(role, by_name, options)) for role in role_order(roles)]
    wanted = [
        request_of_model(model, options, wanted=model.scaling.min if model.scaling else 0)
        for model in model_order(models)
    ]
    loads = [
        request_of_model(model, options, wanted=model.scaling.max)
        for model in sorted(models, key=lambda model: model.name)
        if not model.per_node and model.scaling and not model.scaling.min and model.scaling.max
    ]
    asks = [each.ask for request in (*singles, *wanted, *loads) for each in request.candidates]
    ledger = Ledger(fleet, asks, passthrough=options.passthrough)
    before = Previous(previous, ledger, [*singles, *wanted], options) if previous is not None else None
    is_kept = before is not None and not options.rebalance
    ordered, growing = _with_units(singles, options, before if is_kept else None)
    requests = [*ordered, *wanted]
    # On bare metal what runs has no memory of its own, but where GPUs and all else share one memory.
    _number(requests, loads, ledger, counts_memory=options.passthrough or bool(fleet.unified_nodes))
    weights = Weights(fleet, models, options.engines)
    search = Search(Filler(ledger, weights), requests, options)
    if before is not None and is_kept:
        before.keep(requests)
        before.join(growing)
        before.evacuate(search)
    for request in requests:
        if request.per_node:
            request.numbers = _numbers_per_node(request, ledger)
    for request in requests:
        search.place(request)
        if before is not None and options.moves == "preempt":
            search.preempt(request)
        if (request.kind, request.name) == last and not request.members:
            expand_units(requests)
            return Placed(search=search, loads=loads, previous=before)
    if options.reassign:
        _place_the_rest(search)
    for request in requests:
        request.placements = {number: request.placements[number] for number in sorted(request.placements)}
    if options.passthrough:
        share_memory(ledger, requests)
    expand_units(requests)
    return Placed(search=search, loads=loads, previous=before)


def _place_the_rest(search: Search) -> None:
    """Try once more for what is short, now that everything has its place: planning again would find no more."""
    for _unused in range(MAX_PASSES):
        short = [each for each in search.requests if not each.is_proven and each.free_numbers()]
        if not short or not search.place_again(search.requests):
            return


def _with_units(
    singles: Sequence[Request], options: Options, before: Previous | None
) -> tuple[list[Request], list[dict[int, list[Request]]]]:
    """Return the roles, and before the first member of a group the units that its members form."""
    groups: dict[str, list[Request]] = {}
    for request in singles:
        role = request.role
        if role is not None and role.colocate and role.needs.gpu and role.count:
            groups.setdefault(role.colocate, []).append(request)
    ordered: list[Request] = []
    growing = []
    for request in singles:
        group = request.role.colocate if request.role is not None else None
        if group in groups and groups[group][0] is request:
            units, may_grow = units_of(
                group, groups[group], options, before.vm_of if before is not None else lambda _request, _number: None
            )
            ordered += units
            growing.append(may_grow)
        ordered.append(request)
    return ordered, growing


def _number(requests: Sequence[Request], loads: Sequence[Request], ledger: Ledger, *, counts_memory: bool) -> None:
    """Give requests and candidates their numbers, and find the pools of each."""
    found = 0
    for number, request in enumerate((*requests, *loads)):
        request.number = number
        for candidate in request.candidates:
            candidate.number = found
            found += 1
            if not counts_memory:
                candidate.memory_mib = 0
            settle_candidate(candidate, ledger)


def _numbers_per_node(request: Request, ledger: Ledger) -> list[int]:
    """Return one replica number for each node that matches: those that are in use, then the lowest others."""
    nodes = {shard.node for placement in request.placements.values() for shard in placement.shards}
    for candidate in request.candidates:
        nodes.update(ledger.part_node[part] for pool in candidate.pools for part in ledger.pool_parts[pool])
        if not candidate.gpus:
            nodes.update(ledger.cpu_nodes(candidate))
    numbers = set(request.placements)
    free = (number for number in range(len(nodes)) if number not in request.placements)
    while len(numbers) < len(nodes):
        numbers.add(next(free))
    return sorted(numbers)


def _plan(
    nodes: t.Any,
    roles: Sequence[Role],
    models: Sequence[Model],
    previous: Mapping[str, t.Any] | None,
    options: Options,
) -> dict[str, t.Any]:
    fleet, written = read_nodes(nodes), models
    models = with_ways(models, fleet, options, previous)
    placed = place(fleet, roles, models, previous, options)
    search = placed.search
    could = [{"model": each.name, "could_place": search.filler.count(each, len(each.numbers))} for each in placed.loads]
    writer = Writer(search, models, written)
    made = {"assignments": writer.assignments(), "replicas": writer.replicas()}

    def ask_again(trial: Trial, request: Request | None) -> Placed:
        changed = replace(options, moves=trial.moves, reassign=True, rebalance=False)
        last = None if request is None else (request.kind, request.name)
        again = search.ledger.fleet if trial.nodes is nodes else trial.nodes
        return place(again, trial.roles, trial.models, made, changed, last=last)

    trial = Trial(nodes=nodes, roles=roles, models=models)
    question = Question(trial=trial, ask=ask_again)
    bounded = [each.name for each in search.requests if each.bound_hit and each.missing]
    nothing: dict[str, t.Any] = {"moves": [], "retained": [], "blocked": []}
    changes = nothing if placed.previous is None else placed.previous.changes(search)
    return {
        "version": VERSION,
        **made,
        "unplaced": Refusals(writer, question).entries(),
        "on_demand": could,
        "off": sorted(model.name for model in models if model.scaling is not None and model.scaling.max == 0),
        "nodes": writer.nodes(),
        "ledger": writer.ledger_rows(),
        # The last of the file, and one line: a text that was cut lacks it.
        "inputs": {
            "nodes": search.ledger.fleet.fingerprint,
            "roles": catalog_fingerprint(roles),
            "models": catalog_fingerprint(written),
        },
        "changes": changes | ({"bounded": bounded} if bounded else {}),
    }
