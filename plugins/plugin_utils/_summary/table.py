# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The summary as text: what needs action first, then what there is; for a few GPUs also what each could run."""

from __future__ import annotations

import textwrap
import typing as t
from collections import Counter

from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.attention import INFO
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.gpus import list_cards, list_fitting
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.inputs import CARD_STATES
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.columns import format_columns
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import duration, listing, plural, size_text

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Catalog
    from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.inputs import Inputs

# Up to here each GPU gets a line of its own; above it, only its class is counted.
CARDS_SHOWN = 24
# How many findings of one kind are told one by one, and how many fabrics and idle replicas are listed.
_TOLD = 5
_LISTED = 10
_WIDE = 48

_CLASSES = ("CLASS", "GPUS", *(state.upper() for state in CARD_STATES))
_FABRICS = ("FABRIC", "NODES", "WITH WEIGHTS", "FREE NODES", "FREE BY CLASS", "MODELS PRESENT")
_CARDS = ("NODE", "GPU", "CLASS", "STATE", "WHO", "MODELS THAT FIT")
_TITLES = {
    "replica_failed": "failed",
    "node_lost": "lost",
    "gpu_broken_in_use": "broken, in use",
    "node_unreachable": "unreachable",
    "plan_outdated": "outdated",
    "node_still_used": "still used",
    "other_model": "other model",
    "too_little_memory": "little memory",
    "gpu_broken": "broken",
    "gpu_unknown": "health unknown",
    "gpus_unknown": "GPUs unknown",
    "unknown_fingerprint": "unknown fingerprint",
    "node_drained": "drained",
    "node_cordoned": "cordoned",
    "gpu_external": "external",
    "gpu_split": "split",
}


def format_summary(summary: Mapping[str, t.Any], inputs: Inputs | None = None) -> str:
    """Return the summary as text. With what a small fleet's was made of, also what each of a few GPUs could run."""
    lines = [*_headline(summary), ""]
    cards: list[str] = []
    fits: list[str] = []
    if inputs is not None and 0 < len(inputs.fleet.gpu_node) <= CARDS_SHOWN:
        cards, fits = _cards(inputs)
    for part in (
        _attention(summary["attention"]),
        cards,
        _classes(summary["gpus"]),
        _fabrics(summary["fabrics"]),
        _idle(summary["idle_replicas"]),
        fits,
    ):
        if part:
            lines += [*part, ""]
    return "\n".join(lines[:-1]) + "\n"


def _headline(summary: Mapping[str, t.Any]) -> Iterable[str]:
    nodes, cards = summary["nodes"], _sum_cards(summary["gpus"])
    yield f"{plural(nodes['total'], 'node')}{_parts(nodes)}, {plural(cards['total'], 'GPU')}{_parts(cards)}"
    told = []
    for key, what, done in (("roles", "role", "fully placed"), ("models", "model", "satisfied")):
        counts = summary[key]
        if counts["total"]:
            told.append(f"{counts['satisfied']} of {plural(counts['total'], what)} {done}")
        rest = [f"{counts[kind]} {kind.replace('_', ' ')}" for kind in ("on_demand", "off") if counts.get(kind)]
        if rest:
            told.append(f"models {', '.join(rest)}")
    total = sum(summary["replicas"].values())
    if total:
        told.append(f"{plural(total, 'replica')} observed{_parts(summary['replicas'])}")
    if told:
        yield "; ".join(told)


def _sum_cards(gpus: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return {state: sum(counts[state] for counts in gpus.values()) for state in ("total", *CARD_STATES)}


def _parts(counts: Mapping[str, int]) -> str:
    parts = [f"{count} {state}" for state, count in counts.items() if count and state != "total"]
    return f" ({', '.join(parts)})" if parts else ""


def _attention(found: Sequence[Mapping[str, str]]) -> list[str]:
    if not found:
        return ["Nothing needs action."]
    rows: list[tuple[str, str, str, str]] = []
    for code, count in Counter(one["code"] for one in found).items():
        same = [one for one in found if one["code"] == code]
        title = _TITLES.get(code, code)
        # What is only to be known is one line for all of a kind as soon as there are several.
        told = 0 if same[0]["severity"] == INFO and count > _TOLD else _TOLD
        rows += [(one["severity"].upper(), title, _short(one["subject"]), one["text"]) for one in same[:told]]
        if count > told:
            more = listing(_short(one["subject"]) for one in same[told:])
            rows.append((same[0]["severity"].upper(), title, f"{count - told} {'more' if told else 'in all'}", more))
    rank = {"ERROR": 0, "WARNING": 1, "INFO": 2}
    rows.sort(key=lambda row: rank.get(row[0], 3))
    return ["What needs action, the worst first:", *format_columns(("SEVERITY", "FINDING", "SUBJECT", "ACTION"), rows)]


def _short(text: str) -> str:
    return text if len(text) <= _WIDE else text[: _WIDE - 3] + "..."


def _cards(inputs: Inputs) -> tuple[list[str], list[str]]:
    """Return a few GPUs one by one, and the models that fit each kind of them."""
    fleet, catalog = inputs.fleet, inputs.catalog
    sizes = {
        (fleet.names[node], index): fleet.shapes[shape].memory_gb
        for node, index, shape in zip(fleet.gpu_node, fleet.gpu_index, fleet.gpu_shape, strict=True)
    }
    fitting = list_fitting(fleet, catalog)
    rows: list[tuple[t.Any, ...]] = []
    fits: dict[str, tuple[str, ...]] = {}
    for card in list_cards(fleet, inputs.plan):
        key = (card.node, card.gpu_index)
        size = sizes.get(key)
        look = f"{card.gpu_class} {'?' if size is None else size_text(size)} GB"
        if key in fitting:
            fits.setdefault(look, fitting[key])
        state = f"{card.state}, broken" if card.broken and card.state != "unhealthy" else card.state
        count = len(fitting.get(key, ())) if catalog.models else None
        rows.append((_short(card.node), card.gpu_index, look, state, card.by, count))
    lines = ["What can run here:", *format_columns(_CARDS, rows)]
    return lines, _fits(fits, catalog) if catalog.models else []


def _fits(fits: Mapping[str, Sequence[str]], catalog: Catalog) -> list[str]:
    """The models that fit, by kind of GPU and kind of model."""
    kinds = {model.name: model.kind for model in catalog.models}
    lines: list[str] = []
    for look, names in fits.items():
        lines += [""] if lines else []
        lines.append(f"{plural(len(names), 'model')} {'fits' if len(names) == 1 else 'fit'} {look}:")
        for kind in dict.fromkeys(kinds[name] for name in names):
            listed = ", ".join(name for name in names if kinds[name] == kind)
            lines += textwrap.wrap(
                f"{kind}: {listed}",
                100,
                initial_indent="  ",
                subsequent_indent="    ",
                break_on_hyphens=False,
                break_long_words=False,
            )
    return lines


def _classes(gpus: Mapping[str, Mapping[str, int]]) -> list[str]:
    if not gpus:
        return []
    rows = [(name, *(counts[state] for state in ("total", *CARD_STATES))) for name, counts in gpus.items()]
    return ["GPUs by class:", *format_columns(_CLASSES, rows)]


def _fabrics(fabrics: Mapping[str, t.Any]) -> list[str]:
    if not fabrics:
        return []
    # Those with the largest free block are what somebody who looks for room wants to see.
    names = sorted(fabrics, key=lambda name: -fabrics[name]["largest_free_block"])
    rows: list[tuple[t.Any, ...]] = []
    for name in names[:_LISTED]:
        one = fabrics[name]
        free = [f"{count} {gpu_class}" for gpu_class, count in one["classes"].items() if count]
        models = listing(one["models_present"]) or None
        rows.append(
            (
                _short(name),
                one["nodes"],
                one["nodes_with_weights"],
                one["largest_free_block"],
                ", ".join(free) or None,
                models,
            )
        )
    more = len(names) - _LISTED
    return [
        "Fabrics:",
        *format_columns(_FABRICS, rows),
        *([f"and {more} more with less room"] if more > 0 else []),
    ]


def _idle(idle: Sequence[Mapping[str, t.Any]]) -> list[str]:
    if not idle:
        return []
    rows = [(_short(one["id"]), one["model"], duration(one["idle_seconds"]), one["gpus"]) for one in idle[:_LISTED]]
    more = len(idle) - _LISTED
    return [
        "Idle, the longest first:",
        *format_columns(("REPLICA", "MODEL", "FOR", "GPUS"), rows),
        *([f"and {more} more"] if more > 0 else []),
    ]
