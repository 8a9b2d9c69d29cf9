# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The summary as a text file for the textfile collector of Prometheus' node exporter."""

from __future__ import annotations

import typing as t
from collections import Counter

from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.attention import CODES
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.inputs import CARD_STATES

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Labels = dict[str, t.Any]
Samples = list[tuple[Labels, float]]


def format_metrics(summary: Mapping[str, t.Any]) -> str:
    """Return the summary in the text format of Prometheus, every metric with its help and type.

    Totals are left out: they are the sums of what is there. No sample carries a time, so equal input gives equal bytes.
    """
    lines: list[str] = []
    for name, what, samples in _metrics(summary):
        if samples:
            lines += [f"# HELP {name} {what}", f"# TYPE {name} gauge"]
            lines += [f"{name}{_labels(labels)} {_number(value)}" for labels, value in samples]
    return "".join(f"{line}\n" for line in lines)


def _metrics(summary: Mapping[str, t.Any]) -> Iterable[tuple[str, str, Samples]]:
    yield "knaster_nodes", "Nodes of the fleet by state.", _by_state(summary["nodes"])
    yield (
        "knaster_gpus",
        "GPUs by class and state; a broken GPU in use counts as used.",
        [
            ({"gpu_class": name, "state": state}, counts[state])
            for name, counts in summary["gpus"].items()
            for state in CARD_STATES
        ],
    )
    yield from _fabrics(summary["fabrics"])
    yield "knaster_replicas", "Observed replicas by state.", _by_state(summary["replicas"])
    yield (
        "knaster_replicas_drift",
        "Observed replicas that are not known to be what the catalog says today.",
        [({"drift": drift}, len(summary[drift])) for drift in ("stale", "unknown")],
    )
    yield (
        "knaster_replica_idle_seconds",
        "Ready replicas without a request for ten minutes or more, at the time of the observation.",
        [({"id": one["id"], "model": one["model"] or ""}, one["idle_seconds"]) for one in summary["idle_replicas"]],
    )
    yield "knaster_models", "Models by what is wanted of them and whether it is there.", _by_state(summary["models"])
    yield (
        "knaster_model_unplaceable",
        "Models that are short and of which nothing more is starting.",
        [({"model": name}, 1) for name in summary["unplaceable"]],
    )
    yield (
        "knaster_model_simulated",
        "Models whose every engine only simulates.",
        [({"model": name}, 1) for name in summary["simulated"]],
    )
    yield "knaster_roles", "Roles by whether all that is wanted has a place.", _by_state(summary["roles"])
    found = Counter(one["code"] for one in summary["attention"])
    yield (
        "knaster_attention",
        "Findings to act on, by severity and code.",
        [({"severity": severity, "code": code}, found[code]) for code, severity in CODES.items()],
    )


def _by_state(counts: Mapping[str, int]) -> Samples:
    return [({"state": state}, count) for state, count in counts.items() if state != "total"]


def _fabrics(fabrics: Mapping[str, t.Any]) -> Iterable[tuple[str, str, Samples]]:
    for key, name, what in (
        ("nodes", "knaster_fabric_nodes", "Nodes on the fabric."),
        ("nodes_with_weights", "knaster_fabric_nodes_with_weights", "Nodes on the fabric that hold weights."),
        ("models_present_count", "knaster_fabric_models_present", "Models that a node on the fabric holds."),
        ("largest_free_block", "knaster_fabric_free_nodes", "Ready nodes on the fabric with every GPU free."),
    ):
        yield name, what, [({"fabric": fabric}, one[key]) for fabric, one in fabrics.items()]
    yield (
        "knaster_fabric_class_free_nodes",
        "Ready nodes on the fabric with every GPU of the class free.",
        [
            ({"fabric": fabric, "gpu_class": name}, count)
            for fabric, one in fabrics.items()
            for name, count in one["classes"].items()
        ],
    )


def _labels(labels: Labels) -> str:
    inner = ",".join(f'{key}="{_escape(str(value))}"' for key, value in labels.items())
    return f"{{{inner}}}"


def _escape(text: str) -> str:
    """A label value: any text but what ends it, on one line, and as UTF-8 can write it."""
    clean = text.encode("utf-8", "replace").decode("utf-8")
    return clean.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
