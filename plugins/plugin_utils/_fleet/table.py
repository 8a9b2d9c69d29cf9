# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The fleet as a table: one line a node, from the profiles alone."""

from __future__ import annotations

import typing as t
from collections import Counter

from ansible_collections.knaster.inventory.plugins.plugin_utils._text.columns import format_columns
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import natural_key

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HEADER = ("NODE", "STATE", "CPU", "CORES", "RAM GB", "DISK GB", "GPUS")


def format_fleet(profiles: Sequence[Mapping[str, t.Any]]) -> str:
    """Return the table of a fleet, its totals, and below it what could not be read on which node."""
    nodes = sorted(profiles, key=lambda node: natural_key(str(node["name"])))
    lines = format_columns(_HEADER, [_row(node) for node in nodes])
    lines += ["", _totals(nodes)]
    notes = [f"  {node['name']}: {note}" for node in nodes for note in node.get("notes") or ()]
    if notes:
        lines += ["", "What could not be read:", *(line.replace("\n", " ") for line in notes)]
    return "\n".join(lines) + "\n"


def _row(node: Mapping[str, t.Any]) -> tuple[t.Any, ...]:
    cpu = node.get("cpu") or {}
    return (
        node["name"],
        node.get("state", "ready"),
        cpu.get("model"),
        cpu.get("cores"),
        node.get("memory_gb"),
        _disk_gb(node),
        _cards(node),
    )


def _disk_gb(node: Mapping[str, t.Any]) -> int | None:
    sizes = [disk.get("size_gb") for disk in node.get("disks") or ()]
    return None if node.get("disks") is None or None in sizes else sum(map(int, sizes))


def _cards(node: Mapping[str, t.Any]) -> str:
    """Return a node's GPUs by class, with those that do not work beside them: "2 x rtx-3090 24 GB (1 unhealthy)"."""
    gpus = node.get("gpus")
    if gpus is None:
        return "unknown"
    if not gpus:
        return "none"
    kinds: dict[tuple[str, t.Any], Counter[str]] = {}
    for gpu in gpus:
        kind = (str(gpu.get("gpu_class") or gpu.get("name") or "unknown"), gpu.get("memory_gb"))
        healthy = gpu.get("healthy", True)
        kinds.setdefault(kind, Counter())[
            "" if healthy else "of unknown health" if healthy is None else "unhealthy"
        ] += 1
    return ", ".join(
        f"{count.total()} x {kind[0]} {'?' if kind[1] is None else kind[1]} GB{_trouble(count)}"
        for kind, count in kinds.items()
    )


def _trouble(count: Counter[str]) -> str:
    found = [f"{count[word]} {word}" for word in ("unhealthy", "of unknown health") if count[word]]
    return f" ({', '.join(found)})" if found else ""


def _totals(nodes: Sequence[Mapping[str, t.Any]]) -> str:
    states = Counter(str(node.get("state", "ready")) for node in nodes)
    cards = sum(len(node.get("gpus") or ()) for node in nodes)
    open_nodes = sum(node.get("gpus") is None for node in nodes)
    text = (
        f"{len(nodes)} nodes ({', '.join(f'{count} {state}' for state, count in sorted(states.items()))}), {cards} GPUs"
    )
    return text + (f"; GPUs unknown on {open_nodes}" if open_nodes else "")
