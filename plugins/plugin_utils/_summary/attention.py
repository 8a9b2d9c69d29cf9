# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What an operator should act on, the worst first, each with what to do about it."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.fingerprint import (
    RESTART,
    ROUTER,
    STALE,
    UNKNOWN,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.placements import placements
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import (
    CORDONED,
    DRAINING,
    READY,
    UNREACHABLE,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._observe.replicas import (
    FAILED,
    DriftFinder,
    idle_replicas,
    judge_models,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.document import (
    LOW_MEMORY,
    catalog_fingerprint,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.gpus import USED, list_cards
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import (
    duration,
    listing,
    natural_key,
    plural,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.fingerprint import Drift
    from ansible_collections.knaster.inventory.plugins.plugin_utils._observe.replicas import Models
    from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.gpus import Card
    from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.inputs import Inputs

ERROR, WARNING, INFO = "error", "warning", "info"
SEVERITIES = (ERROR, WARNING, INFO)

# Every code with its severity, in the order in which an operator should look.
CODES: Mapping[str, str] = {
    "unplaced": ERROR,
    "replica_failed": ERROR,
    "node_lost": ERROR,
    "gpu_broken_in_use": ERROR,
    "node_unreachable": WARNING,
    "plan_outdated": WARNING,
    "node_still_used": WARNING,
    "other_model": WARNING,
    "too_little_memory": WARNING,
    "gpu_broken": WARNING,
    "gpu_unknown": WARNING,
    "gpus_unknown": WARNING,
    "stale": WARNING,
    "short": WARNING,
    "idle": INFO,
    "unknown_fingerprint": INFO,
    "node_drained": INFO,
    "node_cordoned": INFO,
    "gpu_external": INFO,
    "gpu_split": INFO,
    "simulated": INFO,
}
_RANK = {code: (SEVERITIES.index(severity), at) for at, (code, severity) in enumerate(CODES.items())}
_DRIFT_REMEDY = {
    RESTART: "restart its engine to make it what the catalog says",
    ROUTER: "only the router has to learn it: write the registry again",
}
_REPLAN = "plan again and re-create it when it may stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the inputs of a summary come to, which attention and the summary itself are drawn from."""

    inputs: Inputs
    cards: Sequence[Card]
    replicas: Sequence[Mapping[str, t.Any]]
    drifts: Mapping[str, Drift | None]
    models: Models
    idle: Sequence[Mapping[str, t.Any]]
    outdated: Sequence[str]
    profiles: Mapping[str, Mapping[str, t.Any]]


def read_facts(inputs: Inputs) -> Facts:
    """Return what the inputs of a summary come to; replicas are in the natural order of their ids."""
    observed = sorted(inputs.replicas, key=lambda one: natural_key(one["id"]))
    finder = DriftFinder(inputs.catalog)
    return Facts(
        inputs=inputs,
        cards=list_cards(inputs.fleet, inputs.plan),
        replicas=observed,
        drifts={one["id"]: finder.find(one) for one in observed},
        models=judge_models(inputs.plan, observed, inputs.catalog),
        idle=idle_replicas(observed),
        outdated=_outdated(inputs),
        profiles={profile["name"]: profile for profile in inputs.nodes},
    )


Finding = tuple[str, str, str]


def list_attention(facts: Facts) -> list[dict[str, str]]:
    """Return everything that somebody should look at: ``severity``, ``code``, ``subject`` and what to do as ``text``."""
    found: list[Finding] = []
    for look in (_unplaced, _replicas, _nodes, _cards, _plan, _models):
        found += look(facts)
    found.sort(key=lambda one: (_RANK[one[0]], natural_key(one[1]), one[2]))
    return [{"severity": CODES[code], "code": code, "subject": subject, "text": text} for code, subject, text in found]


def _unplaced(facts: Facts) -> Iterable[Finding]:
    for one in facts.inputs.plan.get("unplaced") or ():
        name = str(one.get("role") or one.get("model"))
        is_ = "is" if one["missing"] == 1 else "are"
        text = f"{one['missing']} of {one['wanted']} {is_} not placed: {one['reason']}"
        helps = one.get("what_would_help")
        yield "unplaced", name, f"{text}. Suggested changes: {helps[0]['text']}" if helps else text


def _replicas(facts: Facts) -> Iterable[Finding]:
    for one in facts.replicas:
        name = one["id"]
        served, model = one.get("served_model"), one.get("model")
        if one["state"] == FAILED:
            reason = one.get("reason") or "it does not answer"
            yield "replica_failed", name, f"{_at(one)}{reason}; look at the engine's log there, or restart it"
        elif served and model and served != model:
            yield "other_model", name, f"{_at(one)}it serves {served}, the slot says {model}; restart it with its model"
        yield from _drift(name, facts.drifts[name])
    for each in facts.idle:
        told = f"no requests for {duration(each['idle_seconds'])}"
        holds = f" and it holds {plural(each['gpus'], 'GPU')}" if each["gpus"] else ""
        yield "idle", each["id"], f"{told}{holds}; stop it, or lower what is wanted of it, where that is not meant"


def _at(replica: Mapping[str, t.Any]) -> str:
    node = replica.get("node") or next((shard.get("node") for shard in replica.get("shards") or ()), None)
    return f"on {node}: " if node else ""


def _drift(name: str, drift: Drift | None) -> Iterable[Finding]:
    if drift is None:
        return
    if drift.state == STALE:
        told = listing(drift.changed)
        what = f"{told} changed in the catalog since it was made" if told else "the catalog changed since it was made"
        remedy = _DRIFT_REMEDY.get(drift.asks or "", _REPLAN)
        yield "stale", name, f"{what}; it keeps running. To bring it up to date: {remedy}"
    elif drift.state == UNKNOWN:
        yield "unknown_fingerprint", name, "its config fingerprint is not recorded; provision it again to record it"


def _nodes(facts: Facts) -> Iterable[Finding]:
    fleet, holds = facts.inputs.fleet, _on_nodes(facts.inputs.plan)
    kept = "plan again" if facts.outdated else "no other place is free for it: free one, add one, or lower a count"
    for name, state, count in zip(fleet.names, fleet.states, fleet.gpu_count, strict=True):
        here = holds.get(name, [])
        if state == UNREACHABLE:
            if here:
                text = f"it cannot be reached and has {listing(here)}; bring it back, or take it out of the inventory"
                yield "node_lost", name, f"{text} and plan again to place them elsewhere"
            else:
                yield "node_unreachable", name, "it cannot be reached; nothing is planned on it. Collect it again"
        elif state == DRAINING:
            if here:
                yield "node_still_used", name, f"it is being drained and still has {listing(here)}; {kept}"
            else:
                yield "node_drained", name, "nothing of the plan is on it any more; it can be taken down"
        elif state == CORDONED:
            yield (
                "node_cordoned",
                name,
                "it keeps its work and gets nothing new; set knaster_state to ready to use it",
            )
        if count is None and state != UNREACHABLE:
            notes = facts.profiles[name].get("notes")
            why = f" ({notes[0]})" if isinstance(notes, list) and notes else ""
            yield "gpus_unknown", name, f"its GPUs could not be detected{why}; fix that and collect it again"
    for placed in placements(facts.inputs.plan):
        for part in placed.parts:
            if part.entry.get("at_risk") == LOW_MEMORY:
                left = f"{part.entry.get('memory_mib')} MiB"
                text = f"on {part.node} only {left} of memory are left for it; give the role min_memory_gb, or less to others"
                yield "too_little_memory", placed.label_of(part), text


def _on_nodes(plan: Mapping[str, t.Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in placements(plan):
        for node in one.nodes:
            found.setdefault(node, []).append(one.label)
    return found


def _cards(facts: Facts) -> Iterable[Finding]:
    """One finding for each node and kind of trouble, so that a node of eight GPUs is not eight lines."""
    states = dict(zip(facts.inputs.fleet.names, facts.inputs.fleet.states, strict=True))
    by_node: dict[tuple[str, str], list[Card]] = {}
    for card in facts.cards:
        code = _card_code(card, states.get(card.node, READY), facts)
        if code is not None:
            by_node.setdefault((code, card.node), []).append(card)
    for (code, node), cards in by_node.items():
        which = f"{'GPU' if len(cards) == 1 else 'GPUs'} {', '.join(str(card.gpu_index) for card in cards)}"
        yield code, node, _card_text(code, which, node, cards, facts)


def _card_code(card: Card, node_state: str, facts: Facts) -> str | None:
    if card.broken:
        return "gpu_broken_in_use" if card.state == USED else "gpu_broken"
    if card.state == "external":
        return "gpu_external"
    if card.state == "unknown" and node_state != UNREACHABLE:
        return "gpu_split" if (_gpu(facts, card) or {}).get("mig") else "gpu_unknown"
    return None


def _gpu(facts: Facts, card: Card) -> Mapping[str, t.Any] | None:
    gpus = (facts.profiles.get(card.node) or {}).get("gpus") or ()
    return next((gpu for gpu in gpus if gpu.get("index") == card.gpu_index), None)


def _card_text(code: str, which: str, node: str, cards: Sequence[Card], facts: Facts) -> str:
    one = len(cards) == 1
    is_, it = ("is", "it") if one else ("are", "them")
    owners = listing(dict.fromkeys(card.by for card in cards if card.by))
    if code == "gpu_external":
        return f"{which} {is_} external: in use by {owners or 'another VM or process'}, and not planned with"
    if code == "gpu_split":
        return f"{which} {is_} MIG-partitioned and not planned with; undo that to use {it} whole"
    health = next((gpu.get("health") for card in cards if (gpu := _gpu(facts, card)) and gpu.get("health")), None)
    told = f" ({health['text']})" if isinstance(health, dict) and health.get("text") else ""
    if code == "gpu_unknown":
        return (
            f"nothing is known of the health of {which}{told}, so nothing new goes there; look at {it}, collect again"
        )
    if code == "gpu_broken_in_use":
        return f"{which} {is_} broken{told} and {'has' if one else 'have'} {owners}; drain {node} to move that away"
    return f"{which} {is_} broken{told}; reset or replace {it}"


def _outdated(inputs: Inputs) -> list[str]:
    """Return what a plan was made from and that is not the same any more."""
    made_from, catalog = inputs.plan.get("inputs") or {}, inputs.catalog
    now = {"nodes": inputs.fleet.fingerprint}
    if catalog.models or catalog.roles:
        now |= {"roles": catalog_fingerprint(catalog.roles), "models": catalog_fingerprint(catalog.models)}
    return [key for key, value in now.items() if made_from.get(key) not in (None, value)]


def _plan(facts: Facts) -> Iterable[Finding]:
    if facts.outdated:
        yield "plan_outdated", "plan", f"{listing(facts.outdated)} changed since the plan was made; plan again"


def _models(facts: Facts) -> Iterable[Finding]:
    reported = {str(one.get("model")) for one in facts.inputs.plan.get("unplaced") or () if not one.get("role")}
    for one in facts.models.standing:
        if one.short and one.name not in reported:
            parts = [f"{one.starting} starting"] if one.starting else []
            parts += [f"{one.failed} failed"] if one.failed else []
            parts += [f"{one.draining} draining"] if one.draining else []
            told = f" ({', '.join(parts)})" if parts else ""
            if one.placed < one.wanted:
                remedy = "plan again"
            else:
                remedy = "wait for it" if one.starting and not one.failed else "see its replicas"
            yield "short", one.name, f"{one.ready} of {plural(one.wanted, 'replica')} ready{told}; {remedy}"
    for name in facts.models.simulated:
        yield "simulated", name, "its engine only simulates: what it answers is not from a model"
