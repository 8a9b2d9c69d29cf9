# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The slots as an inventory: their machines as hosts, and groups by what the machines are for."""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.names import (
    group_names,
    machine_name,
    slug,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

KINDS = ("role", "model", "node", "engine", "fabric")


class Host(t.NamedTuple):
    """A machine: its name, its variables, and for each kind of group the names that it is grouped by."""

    name: str
    variables: dict[str, t.Any]
    groups: dict[str, list[str]]


def make_hosts(slots: Iterable[Mapping[str, t.Any]]) -> list[Host]:
    """Return the machines of slots in the order in which they come up, those of other ranks behind that of rank 0."""
    hosts: dict[tuple[str, str], Host] = {}
    taken: set[str] = set()
    for slot in slots:
        shards = slot.get("shards") or [{**slot, "rank": 0, "host": _host_of(slot)}]
        for shard in shards:
            key = (shard["node"], machine_name(shard))
            host = hosts.get(key)
            if host is None:
                # Two machines of one name on two nodes are two hosts.
                name = key[1] if key[1] not in taken else f"{key[1]}.{slug(key[0])}"
                taken.add(name)
                host = hosts[key] = Host(name, _variables(shard), {kind: [] for kind in KINDS})
            _add(host, slot, shard, is_parted=len(shards) > 1)
    return list(hosts.values())


def make_groups(hosts: Iterable[Host]) -> dict[str, list[str]]:
    """Return the hosts of each group."""
    hosts = list(hosts)
    found: dict[str, list[str]] = {}
    for kind in KINDS:
        names = group_names(kind, (name for host in hosts for name in host.groups[kind]))
        for host in hosts:
            for name in host.groups[kind]:
                found.setdefault(names[name], []).append(host.name)
    return found


def _host_of(slot: Mapping[str, t.Any]) -> str:
    endpoint = slot.get("endpoint")
    if endpoint is None:
        return machine_name(slot)
    return str(endpoint).removeprefix("http://").rpartition(":")[0]


def _variables(shard: Mapping[str, t.Any]) -> dict[str, t.Any]:
    host = str(shard["host"]).strip("[]")
    # A node has a host in the inventory already, which says how it is connected to.
    machine = {"ansible_host": host, "knaster_vm": dict(shard["vm"])} if "vm" in shard else {"knaster_host": host}
    return {
        "knaster_node": shard["node"],
        **machine,
        "knaster_slots": [],
    }


def _add(host: Host, slot: Mapping[str, t.Any], shard: Mapping[str, t.Any], *, is_parted: bool) -> None:
    if shard["rank"] == 0:
        host.variables["knaster_slots"].append(dict(slot))
    if is_parted and "vm" not in shard:
        # A node may have a part in several replicas.
        part = {"slot": slot["slot"], "rank": shard["rank"]}
        host.variables.setdefault("knaster_ranks", []).append(part)
    elif is_parted:
        host.variables.update(knaster_rank=shard["rank"], knaster_slot=slot["slot"])
    for kind in KINDS:
        value = shard["node"] if kind == "node" else slot.get(kind)
        if value is not None and value not in host.groups[kind]:
            host.groups[kind].append(value)
