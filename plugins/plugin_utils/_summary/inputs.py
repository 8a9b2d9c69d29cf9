# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What a summary is made from, checked in one go: profiles, the plan, what was observed, and the catalog."""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import (
    SECTIONS,
    examine_catalog,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import ERROR
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import (
    NODE_STATES,
    UNREACHABLE,
    find_node_errors,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.options import find_plan_errors

if t.TYPE_CHECKING:
    from collections.abc import Iterable

CARD_STATES = ("used", "unhealthy", "free", "external", "unknown")
# What is asked of an observed replica: the type of each key that is there, None being "not known".
_OBSERVED: dict[str, tuple[type, ...]] = {
    "role": (str,),
    "model": (str,),
    "state": (str,),
    "reason": (str,),
    "node": (str,),
    "served_model": (str,),
    "fingerprint": (str,),
    "drift": (str,),
    "profile": (str, dict),
    "simulated": (bool,),
    "shards": (list,),
    "running": (int, float),
    "waiting": (int, float),
    "idle_seconds": (int, float),
}
# What makes a summary, as far as it is read again.
_MAPS = ("nodes", "gpus", "fabrics", "replicas", "models", "roles")
_LISTS = ("unplaceable", "idle_replicas", "stale", "unknown", "simulated", "attention")
_ENTRIES = {
    "idle_replicas": ("id", "model", "idle_seconds", "gpus"),
    "attention": ("severity", "code", "subject", "text"),
}
_FABRIC = ("nodes", "nodes_with_weights", "models_present", "largest_free_block", "classes")
_SHOWN = 60


class SummaryError(InputError):
    """What cannot be summed up; ``errors`` has one sentence for each thing that is wrong."""


def with_known_states(nodes: t.Any) -> t.Any:
    """Return the profiles with any state that is none of ours taken as unreachable."""
    if not isinstance(nodes, list):
        return nodes
    return [
        {**node, "state": UNREACHABLE}
        if isinstance(node, dict) and node.get("state") not in (None, *NODE_STATES)
        else node
        for node in nodes
    ]


def find_input_errors(nodes: t.Any, plan: t.Any, replicas: t.Any) -> list[str]:
    """One sentence for each thing that makes profiles, plan or observed replicas unusable."""
    return [*find_node_errors(with_known_states(nodes)), *find_document_errors(plan, replicas)]


def find_document_errors(plan: t.Any, replicas: t.Any) -> list[str]:
    """One sentence for each thing that makes the plan or observed replicas unusable."""
    errors: list[str] = []
    about_plan = find_plan_errors(plan, "plan")
    errors += about_plan
    if not about_plan and plan:
        errors += _plan_errors(plan)
    errors += find_replica_errors(replicas)
    return errors


def find_summary_errors(summary: t.Any) -> list[str]:
    """One sentence for each thing that makes a dictionary no summary."""
    if not isinstance(summary, dict):
        return [f"summary: what fleet_summary returns is needed, this is {_shown(summary)}."]
    wrong = [(key, "a dictionary") for key in _MAPS if not isinstance(summary.get(key), dict)]
    wrong += [(key, "a list") for key in _LISTS if not isinstance(summary.get(key), list)]
    errors = [f"summary: {key} is {kind}; take what fleet_summary returns." for key, kind in wrong]
    if errors:
        return errors
    counts = [("nodes", summary["nodes"]), ("models", summary["models"]), ("roles", summary["roles"])]
    counts += [("replicas", summary["replicas"]), *((f"gpus.{name}", one) for name, one in summary["gpus"].items())]
    wanted = {"nodes": ("total",), "models": ("total", "satisfied"), "roles": ("total", "satisfied"), "replicas": ()}
    for name, one in counts:
        keys = wanted.get(name, ("total", *CARD_STATES))
        if not isinstance(one, dict) or not all(_is(one.get(key), int) for key in keys) or not _all_int(one):
            errors.append(f"summary: {name} is a dictionary of counts; take what fleet_summary returns.")
    for key, keys in _ENTRIES.items():
        if not all(isinstance(one, dict) and set(keys) <= set(one) for one in summary[key]):
            errors.append(f"summary: each entry of {key} has {', '.join(keys)}; take what fleet_summary returns.")
    if not all(isinstance(one, dict) and set(_FABRIC) <= set(one) for one in summary["fabrics"].values()):
        errors.append(f"summary: each of fabrics has {', '.join(_FABRIC)}; take what fleet_summary returns.")
    return errors


def _all_int(counts: dict[str, t.Any]) -> bool:
    return all(_is(count, int) for count in counts.values())


def read_catalog_lists(catalog: t.Any) -> tuple[Catalog, list[str]]:
    """Return the catalog that plain lists describe, and one sentence for each mistake in them.

    Without a list of engines, one that the table does not know is no mistake.
    """
    if not catalog:
        return Catalog(), []
    if not isinstance(catalog, dict):
        return Catalog(), [
            f"catalog: a dictionary of lists ({', '.join(SECTIONS)}) is needed, this is {_shown(catalog)}."
        ]
    strange = [key for key in catalog if key not in (*SECTIONS, "directories", "sources", "warnings")]
    errors = [f"catalog: there is no list {_shown(key)}; a catalog has {', '.join(SECTIONS)}." for key in strange]
    found, problems = examine_catalog(catalog, open_engines=catalog.get("engines") is None)
    return found, errors + [str(problem) for problem in problems if problem.severity == ERROR]


def _plan_errors(plan: dict[str, t.Any]) -> Iterable[str]:
    for at, one in enumerate(plan.get("assignments") or ()):
        where = f"plan: assignments[{at}]"
        yield from _key_errors(where, one, role=str, replica=int, node=str)
        if one.get("gpu_index") is not None and not _is(one["gpu_index"], int):
            yield f"{where}: gpu_index is a whole number, this is {_shown(one['gpu_index'])}."
        if not isinstance(one.get("gpu") or {}, dict):
            yield f"{where}: gpu is a dictionary, this is {_shown(one['gpu'])}."
    for at, one in enumerate(plan.get("replicas") or ()):
        where = f"plan: replicas[{at}]"
        yield from _key_errors(where, one, model=str, replica=int, shards=list)
        shards = one.get("shards")
        for number, shard in enumerate(shards if isinstance(shards, list) else ()):
            if not isinstance(shard, dict):
                yield f"{where}.shards[{number}]: a shard is a dictionary, this is {_shown(shard)}."
                continue
            yield from _key_errors(f"{where}.shards[{number}]", shard, node=str, gpu_indices=list)
            gpus = shard.get("gpus") or []
            if not isinstance(gpus, list) or not all(isinstance(gpu, dict) for gpu in gpus):
                yield f"{where}.shards[{number}]: gpus is a list of dictionaries."
    for at, one in enumerate(plan.get("unplaced") or ()):
        where = f"plan: unplaced[{at}]"
        yield from _key_errors(where, one, missing=int)
        if not isinstance(one.get("role") or one.get("model"), str):
            yield f"{where}: it names neither a role nor a model."
    yield from _list_errors(plan)
    yield from _ledger_errors(plan.get("ledger") or [])


def _list_errors(plan: dict[str, t.Any]) -> Iterable[str]:
    on_demand, off = plan.get("on_demand") or [], plan.get("off") or []
    if not isinstance(on_demand, list) or not all(_is((one or {}).get("model"), str) for one in _maps(on_demand)):
        yield "plan: on_demand is a list of dictionaries with a model."
    if not isinstance(off, list) or not all(isinstance(name, str) for name in off):
        yield "plan: off is a list of names."
    if not isinstance(plan.get("inputs") or {}, dict):
        yield "plan: inputs is a dictionary of fingerprints."


def _maps(value: list[t.Any]) -> Iterable[dict[str, t.Any]]:
    return (one if isinstance(one, dict) else {} for one in value)


def _ledger_errors(ledger: list[dict[str, t.Any]]) -> Iterable[str]:
    seen: dict[tuple[t.Any, t.Any], int] = {}
    for at, row in enumerate(ledger):
        node, index, state = row.get("node"), row.get("gpu_index"), row.get("state")
        if not isinstance(node, str) or not _is(index, int):
            yield f"plan: ledger[{at}]: node is a text and gpu_index a whole number."
            continue
        if not isinstance(state, str) or state not in CARD_STATES:
            yield f"plan: ledger[{at}]: state {_shown(state)} is none of {', '.join(CARD_STATES)}."
        first = seen.setdefault((node, index), at)
        if first != at:
            yield f"plan: ledger[{at}]: GPU {index} of {_shown(node)} is in ledger[{first}] already; a GPU has one state."


def find_replica_errors(replicas: t.Any) -> list[str]:
    """One sentence for each thing that makes observed replicas unusable."""
    return list(_replica_errors(replicas))


def _replica_errors(replicas: t.Any) -> Iterable[str]:
    if replicas is None:
        return
    if not isinstance(replicas, (list, tuple)):
        yield f"replicas: a list of observed replicas is needed, this is {_shown(replicas)}."
        return
    seen: dict[str, int] = {}
    for at, one in enumerate(replicas):
        where = f"replicas[{at}]"
        if not isinstance(one, dict):
            yield f"{where}: a replica is a dictionary, this is {_shown(one)}."
            continue
        name = one.get("id")
        if not isinstance(name, str) or not name:
            yield f"{where}: it has no id."
        elif seen.setdefault(name, at) != at:
            yield f"{where}: the id {_shown(name)} is that of replicas[{seen[name]}] already."
        for key, kinds in _OBSERVED.items():
            value = one.get(key)
            if value is not None and not _is(value, *kinds):
                yield f"{where}: {key} cannot be {_shown(value)}."
        seconds: t.Any = one.get("idle_seconds")
        if _is(seconds, int, float) and not 0 <= seconds < float("inf"):
            yield f"{where}: idle_seconds is 0 or more, this is {_shown(seconds)}."
        shards = one.get("shards")
        if isinstance(shards, list) and not all(
            isinstance(shard, dict) and isinstance(shard.get("gpu_indices") or [], list) for shard in shards
        ):
            yield f"{where}: shards is a list of dictionaries with node and gpu_indices."


def _key_errors(where: str, one: dict[str, t.Any], **kinds: type) -> Iterable[str]:
    words = {str: "a text", int: "a whole number", list: "a list"}
    for key, kind in kinds.items():
        if not _is(one.get(key), kind):
            yield f"{where}: {key} is {words[kind]}, this is {_shown(one.get(key))}."


def _is(value: t.Any, *kinds: type) -> bool:
    """Whether a value is of one of these types; a truth value is no number."""
    return isinstance(value, kinds) and (not isinstance(value, bool) or bool in kinds)


def _shown(value: t.Any) -> str:
    text = "null" if value is None else repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
