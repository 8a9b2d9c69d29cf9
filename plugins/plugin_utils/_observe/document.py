# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What is asked of the replicas, and what becomes of the answers: compared with the catalog, kept in a file, shown."""

from __future__ import annotations

import json
import typing as t
from collections import Counter

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.rules import is_simulated
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.views import Names
from ansible_collections.knaster.inventory.plugins.plugin_utils._observe.replicas import (
    FAILED,
    READY,
    STATES,
    DriftFinder,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.columns import format_columns
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import duration, plural

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Catalog

VERSION = 1

# What of a slot is needed to ask its engine; the rest stays on the controller.
_ASKED = (
    "slot",
    "role",
    "replica_of",
    "replica",
    "node",
    "engine",
    "endpoint",
    "paths",
    "model",
    "aliases",
    "source",
    "gpus",
    "shards",
    "startup_timeout",
    "profile",
    "fingerprint",
    "simulated",
)
# Up to so many replicas each gets a line; above it those that are not ready, and how many are.
_SHOWN = 40
_WIDE = 60


def questions(slots: Sequence[Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return of each slot what is needed to ask its engine."""
    return [{key: slot[key] for key in _ASKED if slot.get(key) is not None} for slot in slots]


def with_catalog(replicas: Sequence[Mapping[str, t.Any]], catalog: Catalog) -> list[dict[str, t.Any]]:
    """Return what was observed with what the catalog says of it: drift, simulated, and the model's own name."""
    finder, names = DriftFinder(catalog), Names(catalog)
    found = []
    for replica in replicas:
        one = dict(replica)
        served = one.get("served_model")
        if one.get("model") is None and served is not None:
            model = names.resolve(served)
            one["model"] = one["served_model"] = served if model is None else model.name
        model = names.resolve(one["model"]) if one.get("model") is not None else None
        one["simulated"] = bool(one.get("simulated")) or (model is not None and is_simulated(model))
        drift = finder.find(one)
        shards = one.pop("shards", [])
        one["drift"] = None if drift is None else drift.state
        one["shards"] = shards
        found.append(one)
    return found


def dump_observed(replicas: Sequence[Mapping[str, t.Any]]) -> str:
    """Return the text of the file: JSON with one replica a line, so that a difference reads as what changed."""
    lines = ",\n".join(f"  {json.dumps(one)}" for one in replicas)
    listed = f"[\n{lines}\n ]" if lines else "[]"
    return f'{{"version": {VERSION},\n "replicas": {listed}}}\n'


def count_states(replicas: Sequence[Mapping[str, t.Any]]) -> dict[str, int]:
    """How many replicas are in each state."""
    counts = Counter(one["state"] for one in replicas)
    return {state: counts[state] for state in STATES}


def format_observed(replicas: Sequence[Mapping[str, t.Any]], empty: Sequence[str] = ()) -> str:
    """Return the replicas as a table, those that failed first; of many only those that are not ready."""
    counts = count_states(replicas)
    parts = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    head = plural(len(replicas), "replica") + (f": {parts}" if parts else "")
    if empty:
        head += f"; {plural(len(empty), 'slot')} without a model"
    rank = {state: at for at, state in enumerate((FAILED, "starting", "draining", READY))}
    ordered = sorted(replicas, key=lambda one: rank[one["state"]])
    if len(ordered) > _SHOWN:
        ordered = [one for one in ordered if one["state"] != READY or one.get("drift") == "stale"]
    rows = [_row(one) for one in ordered[:_SHOWN]]
    lines = [head]
    if rows:
        header = ("REPLICA", "STATE", "MODEL", "RUNNING", "WAITING", "IDLE", "DRIFT", "WHY")
        lines += ["", *format_columns(header, rows)]
    if len(ordered) > _SHOWN:
        lines.append(f"and {len(ordered) - _SHOWN} more")
    return "\n".join(lines) + "\n"


def _row(one: Mapping[str, t.Any]) -> tuple[t.Any, ...]:
    idle = one.get("idle_seconds")
    model, served = one.get("model"), one.get("served_model")
    why = one.get("reason")
    if served and model and served != model:
        why = f"it serves {served}"
    told = (one["id"], one["state"], model, one.get("running"), one.get("waiting"))
    return (*map(_short, told), None if idle is None else duration(idle), one.get("drift"), why)


def _short(value: t.Any) -> t.Any:
    return value[: _WIDE - 3] + "..." if isinstance(value, str) and len(value) > _WIDE else value
