# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Roles that share a GPU: unit k holds the k-th replicas of a group's members and is placed like one role.

A unit that runs keeps its GPU, its VM and its members; who is new joins it where there is room beside them, and who runs
singly is not moved to share.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import (
    Placement,
    Shard,
    request_of_role,
)

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
        Engine,
        Role,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import Ask
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import Options, Request

# What a process on a GPU takes besides what its engine is known to take: the context of the driver.
_DEFAULT_OVERHEAD_GB = 0.5
_UTILISATION = 0.92


def overhead_gb(role: Role, engines: Mapping[str, Engine]) -> float:
    """Return what the engine of one member takes of a shared GPU beside what the member asks for."""
    engine = engines.get(role.needs.engine)
    known = engine.overhead_gib if engine is not None else None
    return _DEFAULT_OVERHEAD_GB if known is None else known


def unit_ask(asks: Sequence[tuple[Role, Ask]], engines: Mapping[str, Engine]) -> Ask | None:
    """Return what a unit asks of its GPU, or ``None`` where no GPU can serve all members.

    Where the memory of some is known exactly, the others take what they state beside it.
    """
    if len(asks) == 1:
        return asks[0][1]
    sizes = [ask.vram_gb for _role, ask in asks if ask.vram_gb is not None]
    selector: dict[str, str] = {}
    for _role, ask in asks:
        for key, value in ask.selector.items():
            if selector.setdefault(key, value) != value:
                return None
    if any(ask.vram_gb is None and not ask.exact for _role, ask in asks):
        return None
    if any(len({value for value in values if value}) > 1 for values in _exclusive(asks)):
        return None
    return replace(
        asks[0][1],
        engines=(),
        kind=None,
        vendor=next((ask.vendor for _role, ask in asks if ask.vendor), None),
        gpu_class=next((ask.gpu_class for _role, ask in asks if ask.gpu_class), None),
        node=next((ask.node for _role, ask in asks if ask.node), None),
        min_cc=max((ask.min_cc for _role, ask in asks if ask.min_cc), default=None),
        is_plain=all(ask.is_plain for _role, ask in asks),
        max_cc=min((ask.max_cc for _role, ask in asks if ask.max_cc), default=None),
        engine_min_cc=max((ask.engine_min_cc for _role, ask in asks if ask.engine_min_cc), default=None),
        engine_max_cc=min((ask.engine_max_cc for _role, ask in asks if ask.engine_max_cc), default=None),
        engine_gaps=tuple(gap for _role, ask in asks for gap in ask.engine_gaps),
        engine_vendors=_common_vendors(asks),
        vram_gb=None if len(sizes) < len(asks) else sum(sizes) + sum(overhead_gb(role, engines) for role, _ask in asks),
        exact=tuple(exact for _role, ask in asks for exact in ask.exact),
        beside_gib=sum((ask.vram_gb or 0) + overhead_gb(role, engines) for role, ask in asks if not ask.exact),
        selector=selector,
    )


def _exclusive(asks: Sequence[tuple[Role, Ask]]) -> Iterable[tuple[str | None, ...]]:
    """Return what a GPU or node has one of: members that name different ones cannot share."""
    yield tuple(ask.vendor for _role, ask in asks)
    yield tuple(ask.gpu_class for _role, ask in asks)
    yield tuple(ask.node for _role, ask in asks)


def _common_vendors(asks: Sequence[tuple[Role, Ask]]) -> tuple[str, ...]:
    known = [set(ask.engine_vendors) for _role, ask in asks if ask.engine_vendors]
    if not known:
        return ()
    return tuple(sorted(set.intersection(*known))) or ("none",)


def units_of(
    group: str,
    members: Sequence[Request],
    options: Options,
    running: Callable[[Request, int], str | None],
) -> tuple[list[Request], dict[int, list[Request]]]:
    """Return the units of a group, those with the same members as one request; and by number those that may grow.

    ``running`` tells the VM in which a member ran in the last plan. A unit that may grow is listed with its members as
    they run, then with one newcomer after the other.
    """
    made: dict[tuple[str, ...], Request] = {}
    growing: dict[int, list[Request]] = {}

    def unit(there: Sequence[Request], number: int | None) -> Request | None:
        key = tuple(member.name for member in there)
        if key not in made:
            ask = unit_ask([(_role(member), member.candidates[0].ask) for member in there], options.engines)
            if ask is None:
                return None
            made[key] = _unit_request(group, there, ask)
        if number is not None:
            t.cast("list[int]", made[key].numbers).append(number)
        return made[key]

    for number in range(max((len(member.numbers) for member in members), default=0)):
        there = [member for member in members if number < len(member.numbers)]
        vms = {member.name: running(member, number) for member in there}
        now = [member for member in there if vms[member.name] == unit_vm(group, number)]
        new = [member for member in there if vms[member.name] is None]
        if now:
            while now and (first := unit(now, number)) is None:
                now.pop()
            growing[number] = [first] if first else []
            for member in new:
                grown = unit(_in_order(members, [*now, member]), None)
                if grown is not None:
                    now.append(member)
                    growing[number].append(grown)
        elif len(new) < len(there):
            # They run singly; the unit that they would form is only told of.
            single = unit(there, number) if len(there) > 1 else None
            if single is not None:
                single.excluded.add(number)
        elif len(there) > 1:
            unit(there, number)
    return list(made.values()), growing


def _in_order(members: Sequence[Request], chosen: Sequence[Request]) -> list[Request]:
    return [member for member in members if member in chosen]


def _role(request: Request) -> Role:
    return t.cast("Role", request.role)


def _unit_request(group: str, there: Sequence[Request], ask: Ask) -> Request:
    roles = [_role(member) for member in there]
    stand_in = replace(roles[0], cpu_fallback=False, slots=tuple(slot for role in roles for slot in role.slots))
    request = request_of_role(stand_in, ask, name=group, numbers=[])
    request.members = tuple(there)
    for candidate in request.candidates:
        candidate.memory_mib = sum(member.candidates[0].memory_mib for member in there)
    return request


def unit_vm(group: str, number: int) -> str:
    """Return the name of the VM of a unit."""
    return f"{group}-{number}"


def expand_units(requests: Iterable[Request]) -> None:
    """Give every member its place on the GPU of its unit, once nothing moves any more."""
    for request in requests:
        for member in request.members:
            for placement in request.placements.values():
                (shard,) = placement.shards
                mine = Shard(
                    shard.node, shard.gpus, shard.memory_mib, shard.shared_mib, shard.pool, shard.unseen, shard.risk
                )
                member.placements[placement.replica] = Placement(
                    member.candidates[0], placement.replica, (mine,), unit=request
                )
            member.placements = {number: member.placements[number] for number in sorted(member.placements)}


def memory_fractions(unit: Request, engines: Mapping[str, Engine]) -> dict[str, float]:
    """Return the share of the GPU for each member's engine; together they leave what no engine may use."""
    parts = {
        member.name: (member.candidates[0].ask.size_gb or 0) + overhead_gb(_role(member), engines)
        for member in unit.members
    }
    total = sum(parts.values())
    return {name: int(part / total * _UTILISATION * 100) / 100 for name, part in parts.items()}
