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

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog._engines import (
    BUILTIN_ENGINES,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement._document import (
    Writer,
    catalog_fingerprint,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement._fit import (
    ask_of_profile,
    ask_of_role,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement._ledger import (
    Ledger,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement._nodes import (
    read_nodes,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement._options import (
    VERSION,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement._refusals import (
    Refusals,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement._replicas import (
    ReplicaPlacer,
    Want,
    Way,
    settle_way,
    want_order,
    ways_order,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement._roles import (
    RolePlacer,
    make_turn,
    turn_order,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement._weights import (
    Weights,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog._documents import (
        Engine,
        Model,
        Profile,
        Role,
    )


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
    """Place roles and models on nodes; raises ``ProfileError`` where the profiles can not be read."""
    with _paused_collector():
        return _plan(
            nodes,
            roles,
            models,
            previous,
            moves=moves,
            rebalance=rebalance,
            rescue=rescue,
            passthrough=passthrough,
            engines=engines,
        )


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


def _plan(
    nodes: t.Any,
    roles: Sequence[Role],
    models: Sequence[Model],
    previous: Mapping[str, t.Any] | None,
    *,
    moves: str,
    rebalance: bool,
    rescue: bool,
    passthrough: bool,
    engines: Mapping[str, Engine],
) -> dict[str, t.Any]:
    del previous, moves, rebalance
    fleet = read_nodes(nodes)
    by_name = {model.name: model for model in models}
    role_asks = [(role, ask_of_role(role, by_name, engines, passthrough=passthrough)) for role in turn_order(roles)]
    waiting = [model for model in models if model.scaling is not None and model.profiles and not model.scaling.min]
    on_demand = sorted(
        (model for model in waiting if model.scaling and model.scaling.max), key=lambda model: model.name
    )
    wants = [_want(number, model, engines, passthrough=passthrough) for number, model in enumerate(want_order(models))]
    loads = [_want(number, model, engines, passthrough=passthrough) for number, model in enumerate(on_demand)]
    asks = [ask for _role, ask in role_asks] + [way.ask for want in wants + loads for way in want.ways]
    ledger = Ledger(fleet, asks, passthrough=passthrough)
    weights = Weights(fleet, models, engines)
    turns = [
        make_turn(number, role, ask, role_memory_mib(role) if passthrough else 0, ledger)
        for number, (role, ask) in enumerate(role_asks)
    ]
    for want in wants + loads:
        for way in want.ways:
            settle_way(way, ledger)
    placer = RolePlacer(ledger, turns, weights, rescue=rescue)
    for turn in turns:
        placer.place(turn)
    replicas = ReplicaPlacer(ledger, weights)
    for want in wants:
        replicas.place(want)
    could = [{"model": want.model.name, "could_place": replicas.count(want, _most(want))} for want in loads]
    writer = Writer(ledger, placer, wants, models, weights)
    off = [model.name for model in waiting if model.scaling and not model.scaling.max]
    return {
        "version": VERSION,
        "inputs": {
            "nodes": fleet.fingerprint,
            "roles": catalog_fingerprint(roles),
            "models": catalog_fingerprint(models),
        },
        "assignments": writer.assignments(),
        "replicas": writer.replicas(),
        "unplaced": Refusals(writer, replicas).entries(),
        "on_demand": could,
        "off": sorted(off),
        "nodes": writer.nodes(),
        "ledger": writer.ledger_rows(),
        "changes": {"moves": [], "retained": [], "blocked": []},
    }


def _most(want: Want) -> int:
    return want.model.scaling.max if want.model.scaling else 0


def _want(number: int, model: Model, engines: Mapping[str, Engine], *, passthrough: bool) -> Want:
    ways = tuple(
        Way(
            profile=profile,
            ask=ask_of_profile(model, profile, engines, passthrough=passthrough),
            memory_mib=profile_memory_mib(profile) if passthrough else 0,
        )
        for profile in ways_order(model.profiles)
    )
    return Want(number=number, model=model, ways=ways)
