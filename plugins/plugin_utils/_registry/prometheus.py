# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The slots as Prometheus wants them: targets with labels, and rules that watch what the catalog promises."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.quote import (
    clean,
    go_template_text,
    promql_text,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import plural

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Seconds after which what was observed says nothing of today.
_OLD = 86400
_WINDOW = re.compile(r"[1-9][0-9]{0,5}[smhd]", re.ASCII)

_LABELS = ("role", "node", "fabric", "engine", "slot", "kind", "routing_profile")

# Where an engine keeps each latency, as histograms in seconds; of two names the newer one first.
_HISTOGRAMS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("vllm", "ttft_p99"): ("vllm:time_to_first_token_seconds",),
    ("vllm", "tpot_p99"): ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
    ("sglang", "ttft_p99"): ("sglang:time_to_first_token_seconds",),
    ("sglang", "tpot_p99"): ("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"),
    # One answer, no stream: the first token is the whole of it.
    ("tei", "ttft_p99"): ("te_request_duration",),
    ("infinity", "ttft_p99"): ("http_request_duration_seconds",),
}
_ALERTS: Mapping[str, tuple[str, str]] = {
    "ttft_p99": ("KnasterSlowFirstToken", "time to the first token"),
    "tpot_p99": ("KnasterSlowTokens", "time for each further token"),
}


def make_targets(slots: Iterable[Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return a list for C(file_sd): an entry for each slot whose engine has metrics."""
    found = []
    for slot in slots:
        path = (slot.get("paths") or {}).get("metrics")
        if path is None or slot.get("endpoint") is None:
            continue
        labels = {"__metrics_path__": path} if path != "/metrics" else {}
        model = slot.get("model") or slot.get("replica_of")
        labels |= {"model": clean(str(model))} if model is not None else {}
        labels |= {name: clean(str(slot[name])) for name in _LABELS if slot.get(name) is not None}
        if "vm" in slot:
            labels["vm"] = slot["vm"]["name"]
        labels["replica"] = str(slot["replica"])
        classes = dict.fromkeys(str(gpu["gpu_class"]) for gpu in slot.get("gpus") or () if gpu.get("gpu_class"))
        if classes:
            labels["gpu_class"] = clean(", ".join(classes))
        if slot.get("idle_timeout") is not None:
            labels["on_demand"] = "true"
        if slot.get("simulated"):
            labels["simulated"] = "true"
        found.append({"targets": [str(slot["endpoint"]).removeprefix("http://")], "labels": labels})
    return found


def find_window_errors(window: t.Any) -> list[str]:
    """Return what is wrong with a window of time."""
    if isinstance(window, str) and _WINDOW.fullmatch(window):
        return []
    return [f"window: {window!r} is not a duration of Prometheus, such as 5m"]


def make_rules(slots: Iterable[Mapping[str, t.Any]], *, window: str = "5m") -> dict[str, t.Any]:
    """Return a rule file: engines that are down and models that are short, what the summary tells, and what is promised.

    A latency has an alert for each model and engine where it is promised and can be seen.
    """
    promised: dict[tuple[str, str, str], int] = {}
    wanted: dict[str, int] = {}
    for slot in slots:
        for name, limit in (slot.get("slo") or {}).items():
            if slot.get("model") is not None and (slot["engine"], name) in _HISTOGRAMS:
                promised[str(slot["model"]), str(slot["engine"]), name] = limit
        if _is_always_on(slot):
            wanted[str(slot["model"])] = wanted.get(str(slot["model"]), 0) + 1
    rules = [_rule(model, engine, name, limit, window) for (model, engine, name), limit in sorted(promised.items())]
    groups = [
        ("knaster-engines", _engine_rules(wanted, window)),
        ("knaster-fleet", _fleet_rules()),
        ("knaster-slo", rules),
    ]
    return {"groups": [{"name": name, "rules": found} for name, found in groups if found]}


def _is_always_on(slot: Mapping[str, t.Any]) -> bool:
    """Return whether a slot's engine is to be there at any time, and Prometheus asks it."""
    is_target = (slot.get("paths") or {}).get("metrics") is not None and slot.get("endpoint") is not None
    return is_target and slot.get("model") is not None and slot.get("idle_timeout") is None


def _engine_rules(wanted: Mapping[str, int], window: str) -> list[dict[str, t.Any]]:
    """Return the alerts on the targets themselves; only ours have a slot and an engine for a label."""
    if not wanted:
        return []
    rules = [
        _alert(
            "KnasterEngineDown",
            'up{slot!="", model!="", on_demand=""} == 0',
            (window, "critical"),
            "The engine of slot {{ $labels.slot }} does not answer",
            "It serves {{ $labels.model }} on {{ $labels.node }}, at {{ $labels.instance }}.",
        )
    ]
    for model, count in sorted(wanted.items()):
        ready = f'(sum(up{{slot!="", model={promql_text(model)}, on_demand=""}}) or vector(0))'
        short = _alert(
            "KnasterReplicaShort",
            f"{ready} < {count}",
            (window, "warning"),
            f"{{{{ $labels.model }}}}: only {{{{ $value }}}} of {plural(count, 'replica')} answer",
            "Requests for it have fewer engines than the plan has.",
        )
        rules.append({**short, "labels": {**short["labels"], "model": go_template_text(model)}})
    return rules


def _fleet_rules() -> list[dict[str, t.Any]]:
    """Return the alerts on the metrics of the summary, where a node exporter reads these from a file."""
    return [
        _alert(
            "KnasterStale",
            'knaster_replicas_drift{drift="stale"} > 0',
            ("15m", "warning"),
            "{{ $value }} replicas run something else than the catalog says",
            "Restart them, or place them anew: playbook observe names them.",
        ),
        _alert(
            "KnasterUnplaceable",
            "knaster_model_unplaceable > 0",
            ("15m", "warning"),
            "{{ $labels.model }} is short of replicas, and none is starting",
            "The plan says what would help.",
        ),
        _alert(
            "KnasterSummaryOld",
            f'time() - node_textfile_mtime_seconds{{file=~".*knaster[^/]*[.]prom"}} > {_OLD}',
            ("15m", "warning"),
            "What is known of the fleet is {{ $value | humanizeDuration }} old",
            "Playbook observe and summary have not run, or failed.",
        ),
    ]


def _alert(name: str, expr: str, weight: tuple[str, str], summary: str, description: str) -> dict[str, t.Any]:
    """Return an alert; its weight is for how long it has to be so, and its severity."""
    window, severity = weight
    return {
        "alert": name,
        "expr": expr,
        "for": window,
        "labels": {"severity": severity},
        "annotations": {"summary": summary, "description": description},
    }


def _rule(model: str, engine: str, name: str, limit: int, window: str) -> dict[str, t.Any]:
    alert, what = _ALERTS[name]
    matcher = f"{{model={promql_text(model)}, engine={promql_text(engine)}}}"
    # vLLM labels its series with an engine of its own, which Prometheus then keeps as exported_engine.
    quantiles = [
        f"histogram_quantile(0.99, sum by (model, le) (rate({metric}_bucket{matcher}[{window}])))"
        for metric in _HISTOGRAMS[engine, name]
    ]
    joined = quantiles[0] if len(quantiles) == 1 else f"({' or '.join(quantiles)})"
    return {
        "alert": alert,
        "expr": f"{joined} > {limit / 1000:g}",
        "for": window,
        "labels": {"severity": "warning", "model": go_template_text(model), "engine": engine, "slo": name},
        "annotations": {
            "summary": f"{{{{ $labels.model }}}}: 99th percentile of {what} is above {limit} ms",
            "description": f"It is {{{{ $value | humanizeDuration }}}} over the last {window}.",
        },
    }
