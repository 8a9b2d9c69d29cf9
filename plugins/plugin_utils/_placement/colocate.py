# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Roles that share a GPU: unit k holds the k-th replicas of a group's members and is placed like one role."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.roles import (
    Seat,
    Turn,
    make_turn,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
        Engine,
        Role,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import Ask
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.ledger import Ledger

# A role that stands for the members, what they ask together, their replica numbers, and their names.
Unit = tuple["Role", "Ask", range, tuple[str, ...]]

# What a process on a GPU takes besides what its engine is known to take: the context of the driver.
_DEFAULT_OVERHEAD_GB = 0.5
_UTILISATION = 0.92


def overhead_gb(role: Role, engines: Mapping[str, Engine]) -> float:
    """What the engine of one member takes of a shared GPU beside what the member asks for."""
    engine = engines.get(role.needs.engine)
    known = engine.overhead_gib if engine is not None else None
    return _DEFAULT_OVERHEAD_GB if known is None else known


def unit_ask(asks: Sequence[tuple[Role, Ask]], engines: Mapping[str, Engine]) -> Ask | None:
    """What a unit asks of its GPU, or ``None`` where no GPU can serve all members."""
    sizes = [ask.vram_gb for _role, ask in asks]
    selector: dict[str, str] = {}
    for _role, ask in asks:
        for key, value in ask.selector.items():
            if selector.setdefault(key, value) != value:
                return None
    if None in sizes or any(len({value for value in values if value}) > 1 for values in _exclusive(asks)):
        return None
    return replace(
        asks[0][1],
        engines=(),
        kind=None,
        vendor=next((ask.vendor for _role, ask in asks if ask.vendor), None),
        gpu_class=next((ask.gpu_class for _role, ask in asks if ask.gpu_class), None),
        node=next((ask.node for _role, ask in asks if ask.node), None),
        min_cc=max((ask.min_cc for _role, ask in asks if ask.min_cc), default=None),
        max_cc=min((ask.max_cc for _role, ask in asks if ask.max_cc), default=None),
        engine_min_cc=max((ask.engine_min_cc for _role, ask in asks if ask.engine_min_cc), default=None),
        engine_max_cc=min((ask.engine_max_cc for _role, ask in asks if ask.engine_max_cc), default=None),
        engine_gaps=tuple(gap for _role, ask in asks for gap in ask.engine_gaps),
        engine_vendors=_common_vendors(asks),
        vram_gb=sum(size for size in sizes if size) + sum(overhead_gb(role, engines) for role, _ask in asks),
        exact=(),
        selector=selector,
    )


def _exclusive(asks: Sequence[tuple[Role, Ask]]) -> Iterable[tuple[str | None, ...]]:
    """What a GPU or node has one of: members that name different ones cannot share."""
    yield tuple(ask.vendor for _role, ask in asks)
    yield tuple(ask.gpu_class for _role, ask in asks)
    yield tuple(ask.node for _role, ask in asks)


def _common_vendors(asks: Sequence[tuple[Role, Ask]]) -> tuple[str, ...]:
    known = [set(ask.engine_vendors) for _role, ask in asks if ask.engine_vendors]
    if not known:
        return ()
    return tuple(sorted(set.intersection(*known))) or ("none",)


def group_members(roles: Iterable[tuple[Role, Ask]]) -> dict[str, list[tuple[Role, Ask]]]:
    """The members of each group in the order in which roles are placed; a group of one shares nothing."""
    groups: dict[str, list[tuple[Role, Ask]]] = {}
    for role, ask in roles:
        if role.colocate and role.needs.gpu and role.count:
            groups.setdefault(role.colocate, []).append((role, ask))
    return {name: members for name, members in groups.items() if len(members) > 1}


def units_of(group: str, members: Sequence[tuple[Role, Ask]], engines: Mapping[str, Engine]) -> list[Unit]:
    """The units of a group, those with the same members together: a role that stands for them, and their numbers."""
    found: list[Unit] = []
    start = 0
    for end in sorted({role.count for role, _ask in members}):
        there = [(role, ask) for role, ask in members if role.count >= end]
        ask = unit_ask(there, engines) if len(there) > 1 else None
        if ask is not None:
            first = there[0][0]
            vm = {key: value for role, _ask in there for key, value in role.vm.items()}
            for key in ("cores", "memory_mib"):
                sizes = [int(role.vm[key]) for role, _ask in there if role.vm.get(key)]
                if sizes:
                    vm[key] = sum(sizes)
            stand_in = replace(
                first,
                name=group,
                count=end - start,
                slots=tuple(slot for role, _ask in there for slot in role.slots),
                cpu_fallback=False,
                colocate=None,
                vm=vm,
            )
            found.append((stand_in, ask, range(start, end), tuple(role.name for role, _ask in there)))
        start = end
    return found


def make_unit(number: int, unit: Unit, members: Mapping[str, Turn], ledger: Ledger) -> Turn:
    """The turn of the units of one group with the same members."""
    role, ask, numbers, names = unit
    there = tuple(members[name] for name in names)
    turn = make_turn(number, role, ask, sum(member.memory_mib for member in there), ledger)
    turn.members, turn.numbers = there, numbers
    return turn


def expand_units(turns: Iterable[Turn]) -> None:
    """Give every member its seat on the GPU of its unit, once nothing moves any more."""
    for turn in turns:
        for member in turn.members:
            for seat in turn.seats:
                member.seats.append(
                    Seat(
                        turn=member.number,
                        replica=seat.replica,
                        node=seat.node,
                        card=seat.card,
                        lot=seat.lot,
                        memory_mib=seat.memory_mib,
                        unseen=seat.unseen,
                        risk=seat.risk,
                        unit=turn,
                    )
                )
            member.seats.sort(key=lambda seat: seat.replica)


def memory_fractions(turn: Turn, engines: Mapping[str, Engine]) -> dict[str, float]:
    """The share of the GPU for each member's engine; together they leave what no engine may use."""
    parts = {member.role.name: (member.ask.vram_gb or 0) + overhead_gb(member.role, engines) for member in turn.members}
    total = sum(parts.values())
    return {name: int(part / total * _UTILISATION * 100) / 100 for name, part in parts.items()}
