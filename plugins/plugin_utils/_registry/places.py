# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The places that slots tell, for a plan on top of them where the plan itself was lost."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.outputs import Documents

Entry = dict[str, t.Any]


def places_of_slots(slots: Documents) -> dict[str, list[Entry]]:
    """Return what a plan says of the places of slots: ``assignments`` of roles and ``replicas`` of models."""
    assignments: dict[tuple[str, int], Entry] = {}
    replicas: dict[tuple[str, int], Entry] = {}
    for slot in slots:
        number = slot.get("replica")
        if not isinstance(number, int):
            continue
        if slot.get("role"):
            assignments.setdefault((slot["role"], number), _assignment(slot))
        elif slot.get("replica_of"):
            replicas.setdefault((slot["replica_of"], number), _replica(slot))
    return {"assignments": [*assignments.values()], "replicas": [*replicas.values()]}


def add_places(places: Mapping[str, Sequence[Entry]], others: Mapping[str, t.Any]) -> dict[str, list[Entry]]:
    """Return places with those of an older plan that are of other work, on GPUs of which they say nothing."""
    taken = {spot for one in _entries(places) for spot in _spots(one)}
    known = {_name(one) for one in _entries(places)}
    made = {key: [*places[key]] for key in ("assignments", "replicas")}
    for key, entries in made.items():
        entries += [one for one in others.get(key) or () if _name(one) not in known and taken.isdisjoint(_spots(one))]
    return made


def _assignment(slot: Mapping[str, t.Any]) -> Entry:
    made: Entry = {"role": slot["role"], "replica": slot["replica"], "node": slot["node"], "vm": _vm(slot)}
    for gpu in slot.get("gpus") or ():
        made |= {"gpu_index": gpu["index"], "gpu": _identity(gpu)}
    return made


def _replica(slot: Mapping[str, t.Any]) -> Entry:
    gpus = slot.get("gpus") or ()
    first = {"rank": 0, "node": slot["node"], "gpu_indices": [gpu["index"] for gpu in gpus]}
    shards = [{key: shard[key] for key in ("rank", "node", "gpu_indices")} for shard in slot.get("shards") or (first,)]
    # Only the GPUs of the first rank are described.
    shards[0]["gpus"] = [_identity(gpu) for gpu in gpus]
    return {
        "model": slot["replica_of"],
        "replica": slot["replica"],
        "profile": (slot.get("profile") or {}).get("name"),
        "fabric": slot.get("fabric"),
        "shards": shards,
    }


def _identity(gpu: Mapping[str, t.Any]) -> Entry:
    return {key: gpu[key] for key in ("uuid", "gpu_class", "memory_gb", "compute_cap") if gpu.get(key) is not None}


def _vm(slot: Mapping[str, t.Any]) -> str:
    return str((slot.get("vm") or {}).get("name") or "")


def _entries(places: Mapping[str, Sequence[Entry]]) -> list[Entry]:
    return [*places["assignments"], *places["replicas"]]


def _name(one: Mapping[str, t.Any]) -> tuple[t.Any, ...]:
    return one.get("role"), one.get("model"), one["replica"]


def _spots(one: Mapping[str, t.Any]) -> set[tuple[str, int]]:
    if "gpu_index" in one:
        return {(one["node"], one["gpu_index"])}
    return {(shard["node"], index) for shard in one.get("shards") or () for index in shard.get("gpu_indices") or ()}
