# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What changed between two plans, as data and as lines that a person reads."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Mapping

Place = tuple[tuple[str, tuple[int, ...]], ...]


def diff_plans(plan: Mapping[str, t.Any], previous: Mapping[str, t.Any] | None) -> dict[str, t.Any]:
    """What was added, removed, moved and changed in its profile or needs, and what became short or whole."""
    now, then = _placed(plan), _placed(previous or {})
    added = [_entry(name, now[name]) for name in now if name not in then]
    removed = [_entry(name, then[name]) for name in then if name not in now]
    moved = [
        {"name": name, "from": _places(then[name]), "to": _places(now[name])}
        for name in now
        if name in then and _identity(now[name]) != _identity(then[name])
    ]
    changed = [
        {"name": name, "from": then[name]["fingerprint"], "to": now[name]["fingerprint"]}
        for name in now
        if name in then and now[name].get("fingerprint") != then[name].get("fingerprint")
    ]
    short_now, short_then = _short(plan), _short(previous or {})
    short = [
        {"name": name, "missing": missing, "before": short_then.get(name, 0)}
        for name, missing in short_now.items()
        if missing != short_then.get(name, 0)
    ]
    satisfied = [{"name": name, "before": before} for name, before in short_then.items() if name not in short_now]
    result: dict[str, t.Any] = {
        "added": added,
        "removed": removed,
        "moved": moved,
        "changed": changed,
        "short": short,
        "satisfied": satisfied,
    }
    result["lines"] = _lines(result)
    result["empty"] = not result["lines"]
    return result


def _placed(plan: Mapping[str, t.Any]) -> dict[str, dict[str, t.Any]]:
    found: dict[str, dict[str, t.Any]] = {}
    for one in plan.get("assignments") or ():
        index = one.get("gpu_index")
        spot = {"node": one["node"], "gpu_indices": [] if index is None else [index], "gpus": [one.get("gpu") or {}]}
        found[f"{one['role']}/{one['replica']}"] = {"spots": [spot], "fingerprint": one.get("fingerprint", "")}
    for one in plan.get("replicas") or ():
        spots = [
            {"node": shard["node"], "gpu_indices": shard["gpu_indices"], "gpus": shard.get("gpus") or []}
            for shard in one["shards"]
        ]
        found[f"{one['model']}/{one['replica']}"] = {"spots": spots, "fingerprint": one.get("fingerprint", "")}
    return found


def _identity(entry: Mapping[str, t.Any]) -> list[t.Any]:
    """Where something is, by the GPUs themselves: an index may change while the GPU stays."""
    return [
        (
            spot["node"],
            [
                gpu.get("uuid") or gpu.get("pci_address") or index
                for gpu, index in zip(spot["gpus"], spot["gpu_indices"], strict=False)
            ],
        )
        for spot in entry["spots"]
    ]


def _places(entry: Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    return [{"node": spot["node"], "gpu_indices": list(spot["gpu_indices"])} for spot in entry["spots"]]


def _entry(name: str, entry: Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {"name": name, "at": _places(entry)}


def _short(plan: Mapping[str, t.Any]) -> dict[str, int]:
    return {str(one.get("role") or one.get("model")): one["missing"] for one in plan.get("unplaced") or ()}


def place_text(places: t.Iterable[Mapping[str, t.Any]]) -> str:
    """node:0,1 + node2:0 for a place on GPUs, the node alone for one on the CPU."""
    return " + ".join(
        f"{place['node']}:{','.join(map(str, place['gpu_indices']))}" if place["gpu_indices"] else str(place["node"])
        for place in places
    )


def _lines(result: Mapping[str, t.Any]) -> list[str]:
    lines = [f"- {one['name']} at {place_text(one['at'])}" for one in result["removed"]]
    lines += [
        f"~ {one['name']} moves from {place_text(one['from'])} to {place_text(one['to'])}" for one in result["moved"]
    ]
    lines += [f"~ {one['name']} is made from another profile or other needs" for one in result["changed"]]
    lines += [f"+ {one['name']} at {place_text(one['at'])}" for one in result["added"]]
    lines += [f"! {one['name']} is short of {one['missing']} (was {one['before']})" for one in result["short"]]
    lines += [f"= {one['name']} has all that it wants (was short of {one['before']})" for one in result["satisfied"]]
    return lines
