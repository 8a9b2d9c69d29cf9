# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What the script of the report draws from: nodes, GPUs and placements, with everything that repeats said once.

Rows are lists with a fixed place for each value (named in page.js), because ten thousand GPUs with named values would make a
page of many megabytes.
"""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.placements import ROLE, placements
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.gpus import list_fitting
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import natural_key

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.placements import Part, Placement
    from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.inputs import Inputs

# The place of a state in this list is its number in the data. "broken" is a GPU in use that does not work.
CARD_STATES = ("used", "free", "external", "unhealthy", "unknown", "broken")

Card = tuple[str, int]


class Table:
    """Values by number, each kept once."""

    def __init__(self) -> None:
        self.rows: list[t.Any] = []
        self._numbers: dict[t.Any, int] = {}

    def number(self, key: t.Any, row: t.Any) -> int:
        """The number of a row, which is added when its key is new."""
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.rows)
            self.rows.append(row)
        return found


def page_data(inputs: Inputs) -> dict[str, t.Any]:
    """Return everything that the script needs, as plain data."""
    return _Data(inputs).made()


class _Data:
    def __init__(self, inputs: Inputs) -> None:
        self.nodes = inputs.nodes
        self.plan = inputs.plan
        self.fitting = list_fitting(inputs.fleet, inputs.catalog)
        self.kinds, self.lists, self.weights, self.cpus = Table(), Table(), Table(), Table()
        fleet = inputs.fleet
        # A profile written by hand may leave the class to the table of GPUs; it is looked up as the plan does it.
        self.classes: dict[Card, str | None] = {
            (fleet.names[node], index): fleet.shapes[shape].gpu_class
            for node, index, shape in zip(fleet.gpu_node, fleet.gpu_index, fleet.gpu_shape, strict=True)
        }
        # What the plan says of GPUs that it gave out: all that is known of one that no profile shows any more.
        self.planned: dict[Card, Mapping[str, t.Any]] = {}
        self.placed: list[list[t.Any]] = []
        self.on_card: dict[Card, list[int]] = {}
        self.on_node: dict[str, list[int]] = {}
        self.rows: dict[str, list[Mapping[str, t.Any]]] = {}
        for row in self.plan.get("ledger") or ():
            self.rows.setdefault(row["node"], []).append(row)
        for placed in placements(self.plan):
            for part in placed.parts:
                self._add(placed, part)
        self.live = [_live(one) for one in inputs.replicas]
        self.live_on_card: dict[Card, list[int]] = {}
        self.live_on_node: dict[str, list[int]] = {}
        for number, one in enumerate(inputs.replicas):
            for shard in one["shards"]:
                on = self.live_on_node.setdefault(shard["node"], [])
                if number not in on:
                    on.append(number)
                for index in shard["gpu_indices"]:
                    self.live_on_card.setdefault((shard["node"], index), []).append(number)

    def made(self) -> dict[str, t.Any]:
        left = {row["name"]: row for row in self.plan.get("nodes") or ()}
        ordered = sorted(self.nodes, key=lambda node: natural_key(str(node["name"])))
        return {
            "states": list(CARD_STATES),
            "nodes": [self._node(node, left.get(node["name"]) or {}) for node in ordered],
            "kinds": self.kinds.rows,
            "lists": self.lists.rows,
            "weights": self.weights.rows,
            "cpus": self.cpus.rows,
            "placed": self.placed,
            "live": self.live,
        }

    def _list(self, names: Sequence[str] | None) -> int | None:
        return None if names is None else self.lists.number(tuple(names), list(names))

    def _add(self, placed: Placement, part: Part) -> None:
        number = len(self.placed)
        is_role = placed.kind == ROLE
        why = placed.entry["why"]["text"]
        row = _trimmed(
            placed.label_of(part),
            placed.name,
            0 if is_role else 1,
            placed.entry["engine"],
            why if is_role else f"{placed.entry['profile']}: {why}",
            self._list(placed.entry["models_fitting"]) if is_role else None,
            _weights_text(part.entry.get("weights")),
            part.entry.get("memory_mib"),
            part.entry["vm"],
            part.entry.get("at_risk"),
        )
        self.placed.append(row)
        for at, index in enumerate(part.gpu_indices):
            self.on_card.setdefault((part.node, index), []).append(number)
            if at < len(part.gpus):
                self.planned.setdefault((part.node, index), part.gpus[at])
        if not part.gpu_indices:
            self.on_node.setdefault(part.node, []).append(number)

    def _node(self, node: Mapping[str, t.Any], memory: Mapping[str, t.Any]) -> list[t.Any]:
        name = node["name"]
        cpu = node.get("cpu") or {}
        cpu_row = [cpu.get("model"), cpu.get("cores"), cpu.get("threads")]
        weights = node.get("weights")
        return _trimmed(
            name,
            node.get("state") or "ready",
            list(node.get("fabrics") or ()),
            {str(key): str(value) for key, value in (node.get("labels") or {}).items()},
            None if node.get("gpus") is None and name not in self.rows else self._cards(node),
            self.on_node.get(name) or 0,
            self.live_on_node.get(name) or 0,
            self.cpus.number(tuple(cpu_row), cpu_row),
            node.get("memory_gb"),
            memory.get("memory_left_mib"),
            _disks(node),
            None if weights is None else [self._weight(each) for each in weights],
            [
                [each.get("path"), each.get("fstype"), bool(each.get("shared")), each.get("free_gb")]
                for each in node.get("storage") or ()
            ]
            or 0,
            [str(note) for note in node.get("notes") or ()] or 0,
            node.get("hostname") if node.get("hostname") != name else 0,
        )

    def _weight(self, each: Mapping[str, t.Any]) -> int:
        row = [each.get("name"), each.get("size_gb"), bool(each.get("shared")), each.get("path")]
        return self.weights.number(tuple(row), row)

    def _cards(self, node: Mapping[str, t.Any]) -> list[list[t.Any]]:
        """A row for each GPU of the ledger; a GPU that only the profile has (the plan is older) is unknown."""
        gpus = {gpu["index"]: gpu for gpu in node.get("gpus") or ()}
        ledger = {row["gpu_index"]: row for row in self.rows.get(node["name"]) or ()}
        return [
            self._card(node["name"], index, ledger.get(index) or {}, gpus.get(index))
            for index in sorted({*gpus, *ledger})
        ]

    def _card(self, node: str, index: int, row: Mapping[str, t.Any], seen: Mapping[str, t.Any] | None) -> list[t.Any]:
        gpu = self.planned.get((node, index), {}) if seen is None else seen
        state = row.get("state", "unknown")
        if state == "used" and (row.get("healthy") is False or gpu.get("healthy") is False):
            state = "broken"
        gpu_class = self.classes.get((node, index)) or gpu.get("gpu_class")
        kind = [gpu_class, *(gpu.get(key) for key in ("name", "memory_gb", "memory_mib", "compute_cap", "driver"))]
        health = gpu.get("health") or {}
        return _trimmed(
            index,
            CARD_STATES.index(state) if state in CARD_STATES else CARD_STATES.index("unknown"),
            self.kinds.number(tuple(kind), kind),
            self.on_card.get((node, index)) or 0,
            gpu.get("uuid") or row.get("uuid"),
            (gpu.get("pci") or {}).get("address") or row.get("pci_address"),
            self.live_on_card.get((node, index)) or 0,
            _holder(gpu.get("holder")) or (row.get("by") if state == "external" else None),
            health.get("text") or health.get("code"),
            self._list(self.fitting.get((node, index))),
        )


def _trimmed(*values: t.Any) -> list[t.Any]:
    """A row without the values at its end that say nothing."""
    row = list(values)
    while row and row[-1] is None:
        row.pop()
    return row


def _live(one: Mapping[str, t.Any]) -> list[t.Any]:
    return [
        one.get("id"),
        one.get("role"),
        one.get("served_model") or one.get("model") or one.get("replica_of"),
        one.get("state"),
        one.get("reason"),
        one.get("running"),
        one.get("waiting"),
        one.get("idle_seconds"),
        one.get("drift"),
        bool(one.get("simulated")),
    ]


def _weights_text(weights: Mapping[str, t.Any] | None) -> str | None:
    if not weights:
        return None
    if weights["state"] == "copy":
        return f"{weights['gb']:g} GB to copy" if "gb" in weights else "to copy"
    return "on the node" if weights["state"] == "held" else "not known"


def _disks(node: Mapping[str, t.Any]) -> list[list[t.Any]] | None:
    disks = node.get("disks")
    return None if disks is None else [[disk.get("name"), disk.get("size_gb")] for disk in disks]


def _holder(holder: Mapping[str, t.Any] | None) -> str | None:
    """Who holds a GPU, where it is not one of ours."""
    if not holder or holder.get("ours"):
        return None
    return " ".join(str(holder[key]) for key in ("kind", "id", "name") if holder.get(key) is not None) or None
