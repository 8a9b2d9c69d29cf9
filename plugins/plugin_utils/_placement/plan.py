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
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import read_nodes
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.colocate import (
    expand_units,
    group_members,
    make_unit,
    units_of,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.document import (
    Writer,
    catalog_fingerprint,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import (
    ask_of_profile,
    ask_of_role,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.held_weights import Weights
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.ledger import Ledger
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.options import VERSION
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.previous import Sticky
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.refusals import (
    Question,
    Refusals,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.repair import Repair
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.replicas import (
    ReplicaPlacer,
    Want,
    Way,
    settle_way,
    want_order,
    ways_order,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.roles import (
    RolePlacer,
    make_turn,
    turn_order,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.shares import share_memory

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
        Engine,
        Model,
        Profile,
        Role,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import Fleet
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.colocate import Unit
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import Ask
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.refusals import Missing
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.roles import Turn


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
    engines: Mapping[str, Engine] = BUILTIN_ENGINES,
) -> dict[str, t.Any]:
    """Place roles and models on nodes; raises ``ProfileError`` where the profiles cannot be read."""
    options = _Options(moves=moves, rebalance=rebalance, rescue=rescue, passthrough=passthrough, engines=engines)
    with _paused_collector():
        return _plan(nodes, roles, models, previous, options)


@contextmanager
def _paused_collector() -> Iterator[None]:
    """A plan makes many small values and no cycles; collecting while it grows costs as much as planning."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def role_memory_mib(role: Role) -> int:
    """What the machine of a role takes of its node; 0 where the role does not say."""
    asked = role.vm.get("memory_mib")
    if asked:
        return int(asked)
    return int(role.needs.min_memory_gb * 1024) if role.needs.min_memory_gb else 0


def profile_memory_mib(profile: Profile) -> int:
    """What the machine of a shard takes of its node; 0 where the profile does not say."""
    return int(profile.min_memory_gb * 1024) if profile.min_memory_gb else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    moves: str = "none"
    rebalance: bool = False
    rescue: bool = True
    passthrough: bool = True
    engines: Mapping[str, Engine]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """Everything in its place, not yet written down."""

    fleet: Fleet
    placer: RolePlacer
    replicas: ReplicaPlacer
    wants: list[Want]
    loads: list[Want]
    weights: Weights
    sticky: Sticky | None


def _place(
    nodes: t.Any,
    roles: Sequence[Role],
    models: Sequence[Model],
    previous: Mapping[str, t.Any] | None,
    options: _Options,
) -> _Placed:
    engines, passthrough = options.engines, options.passthrough
    fleet = read_nodes(nodes)
    # On bare metal what runs has no memory of its own, but where GPUs and all else share one memory.
    counts_memory = passthrough or bool(fleet.pools)
    by_name = {model.name: model for model in models}
    role_asks = [(role, ask_of_role(role, by_name, engines, passthrough=passthrough)) for role in turn_order(roles)]
    units = {group: units_of(group, members, engines) for group, members in group_members(role_asks).items()}
    on_demand = [
        model
        for model in sorted(models, key=lambda model: model.name)
        if model.scaling is not None and model.profiles and not model.scaling.min and model.scaling.max
    ]
    wants, loads = (
        [
            _want(number, model, engines, passthrough=passthrough, counts_memory=counts_memory)
            for number, model in enumerate(found)
        ]
        for found in (want_order(models), on_demand)
    )
    asks = [ask for _role, ask in role_asks]
    asks += [unit[1] for found in units.values() for unit in found]
    asks += [way.ask for want in wants + loads for way in want.ways]
    ledger = Ledger(fleet, asks, passthrough=passthrough)
    weights = Weights(fleet, models, engines)
    turns = _turns(role_asks, units, ledger, counts_memory=counts_memory)
    for want in wants + loads:
        for way in want.ways:
            settle_way(way, ledger)
    preempt = previous is not None and options.moves == "preempt"
    placer = RolePlacer(ledger, turns, weights, rescue=options.rescue, preempt=preempt)
    replicas = ReplicaPlacer(ledger, weights)
    if options.rescue:
        replicas.repair = Repair(placer, replicas, wants).make_room
    sticky = None
    if previous is not None:
        sticky = Sticky(previous, placer, replicas, wants, moves=options.moves)
        if not options.rebalance:
            sticky.keep()
            sticky.evacuate()
    for turn in turns:
        placer.place(turn)
    for want in wants:
        replicas.place(want)
    if passthrough:
        share_memory(ledger, turns, wants)
    expand_units(turns)
    return _Placed(
        fleet=fleet, placer=placer, replicas=replicas, wants=wants, loads=loads, weights=weights, sticky=sticky
    )


def _plan(
    nodes: t.Any,
    roles: Sequence[Role],
    models: Sequence[Model],
    previous: Mapping[str, t.Any] | None,
    options: _Options,
) -> dict[str, t.Any]:
    placed = _place(nodes, roles, models, previous, options)

    replicas = placed.replicas
    could = [{"model": want.model.name, "could_place": replicas.count(want, _most(want))} for want in placed.loads]
    writer = Writer(placed.placer.ledger, placed.placer, placed.wants, models, placed.weights)
    made = {"assignments": writer.assignments(), "replicas": writer.replicas()}

    def ask_again(others: Sequence[Mapping[str, t.Any]], other_roles: Sequence[Role], moves: str) -> Missing:
        changed = replace(options, moves=moves, rescue=True, rebalance=False)
        return _missing(_place(others, other_roles, models, made, changed))

    question = Question(nodes=nodes, roles=roles, ask=ask_again)
    sticky = placed.sticky
    bounded = [turn.role.name for turn in placed.placer.turns if turn.bound_hit]
    bounded += [want.model.name for want in placed.wants if want.bound_hit]
    changes = (
        {"moves": [], "retained": [], "blocked": []} if sticky is None else sticky.changes(rebalance=options.rebalance)
    )
    return {
        "version": VERSION,
        **made,
        "unplaced": Refusals(writer, replicas, question).entries(),
        "on_demand": could,
        "off": sorted(
            model.name for model in models if model.scaling is not None and model.profiles and model.scaling.max == 0
        ),
        "nodes": writer.nodes(),
        "ledger": writer.ledger_rows(),
        # The last of the file, and one line: a text that was cut lacks it.
        "inputs": {
            "nodes": placed.fleet.fingerprint,
            "roles": catalog_fingerprint(roles),
            "models": catalog_fingerprint(models),
        },
        "changes": changes | ({"bounded": bounded} if bounded else {}),
    }


def _missing(placed: _Placed) -> Missing:
    missing = {("role", turn.role.name): turn.missing for turn in placed.placer.turns if turn.missing}
    return missing | {("model", want.model.name): want.missing for want in placed.wants if want.missing}


def _turns(
    role_asks: Sequence[tuple[Role, Ask]],
    units: Mapping[str, Sequence[Unit]],
    ledger: Ledger,
    *,
    counts_memory: bool,
) -> list[Turn]:
    """One turn for each role, and before the first member of a group one for each kind of unit."""
    order: list[tuple[Role, Ask] | Unit] = []
    begun: set[str] = set()
    for role, ask in role_asks:
        group = role.colocate
        if group is not None and group in units and group not in begun:
            begun.add(group)
            order.extend(units[group])
        order.append((role, ask))
    members: dict[str, Turn] = {}
    turns: list[Turn | None] = []
    for number, entry in enumerate(order):
        if len(entry) == 2:
            role, ask = entry
            turn = make_turn(number, role, ask, role_memory_mib(role) if counts_memory else 0, ledger)
            members[role.name] = turn
            turns.append(turn)
        else:
            turns.append(None)
    return [
        turn if turn is not None else make_unit(number, t.cast("Unit", order[number]), members, ledger)
        for number, turn in enumerate(turns)
    ]


def _most(want: Want) -> int:
    return want.model.scaling.max if want.model.scaling else 0


def _want(number: int, model: Model, engines: Mapping[str, Engine], *, passthrough: bool, counts_memory: bool) -> Want:
    ways = tuple(
        Way(
            profile=profile,
            ask=ask_of_profile(model, profile, engines, passthrough=passthrough),
            memory_mib=profile_memory_mib(profile) if counts_memory else 0,
        )
        for profile in ways_order(model.profiles)
    )
    return Want(number=number, model=model, ways=ways)
