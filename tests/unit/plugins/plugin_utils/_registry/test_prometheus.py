# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""What Prometheus is told. tools/check_consumers.sh loads the same with promtool and lets the alerts fire."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.prometheus import (
    find_window_errors,
    make_rules,
    make_targets,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "peers"))
from slots import fleet


def slot(**more):
    made = {
        "slot": "a.0.x",
        "role": "chat",
        "replica": 0,
        "node": "n1",
        "vm": {"name": "v"},
        "gpus": [],
        "engine": "vllm",
        "endpoint": "http://v:8000",
        "paths": {"metrics": "/metrics"},
        "model": "m",
        "slo": {"ttft_p99": 500, "tpot_p99": 50},
    }
    made.update(more)
    return {key: value for key, value in made.items() if value is not None}


def test_targets_have_labels_for_what_is_known():
    (target,) = make_targets(
        [
            slot(
                kind="llm",
                fabric="ib-a",
                routing_profile="fast",
                simulated=True,
                gpus=[{"index": 0, "gpu_class": "l4"}] * 2,
            )
        ]
    )
    assert target == {
        "targets": ["v:8000"],
        "labels": {
            "model": "m",
            "role": "chat",
            "node": "n1",
            "fabric": "ib-a",
            "engine": "vllm",
            "slot": "a.0.x",
            "kind": "llm",
            "routing_profile": "fast",
            "vm": "v",
            "replica": "0",
            "gpu_class": "l4",
            "simulated": "true",
        },
    }


def test_a_model_that_the_catalog_lost_is_still_a_label():
    (target,) = make_targets([slot(model=None, role=None, replica_of="m")])
    assert target["labels"]["model"] == "m"
    assert "role" not in target["labels"]


def test_slots_without_metrics_are_no_targets():
    assert make_targets([slot(paths={"health": "/"}), slot(paths=None), slot(endpoint=None)]) == []
    (target,) = make_targets([slot(paths={"metrics": "/own"}, endpoint="http://[fd00::5]:8000")])
    assert target["targets"] == ["[fd00::5]:8000"]
    assert target["labels"]["__metrics_path__"] == "/own"


def test_an_alert_for_each_model_engine_and_latency():
    rules = make_rules(
        [slot(), slot(slot="a.1.x"), slot(engine="sglang"), slot(engine="tei"), slot(engine="llamacpp"), slot(slo=None)]
    )
    group = group_of(rules, "knaster-slo")
    assert [(rule["labels"]["engine"], rule["labels"]["slo"]) for rule in group["rules"]] == [
        ("sglang", "tpot_p99"),
        ("sglang", "ttft_p99"),
        ("tei", "ttft_p99"),
        ("vllm", "tpot_p99"),
        ("vllm", "ttft_p99"),
    ]
    rule = group["rules"][-1]
    assert rule["alert"] == "KnasterSlowFirstToken"
    assert rule["expr"] == (
        'histogram_quantile(0.99, sum by (model, le) (rate(vllm:time_to_first_token_seconds_bucket{model="m", engine="vllm"}[5m]))) > 0.5'
    )
    assert group["rules"][-2]["expr"].endswith("> 0.05")
    assert (
        rule["annotations"]["summary"]
        == "{{ $labels.model }}: 99th percentile of time to the first token is above 500 ms"
    )


def group_of(rules, name):
    return next(group for group in rules["groups"] if group["name"] == name)


def test_engines_are_watched_without_a_promise():
    rests = {"idle_timeout": 600, "model": "rests"}
    slots = [slot(slo=None), slot(slot="a.1.x"), slot(slot="b.0.x", model="o.k"), slot(slot="c.0.x", **rests)]
    slots += [slot(slot="d.0.x", model=None), slot(slot="e.0.x", model="dark", paths={"health": "/"})]
    down, *short = group_of(make_rules(slots), "knaster-engines")["rules"]
    assert down["alert"] == "KnasterEngineDown"
    # What rests is down most of the time, and what is no target is never up.
    assert down["expr"] == 'up{slot!="", model!="", on_demand=""} == 0'
    assert [target["labels"].get("on_demand") for target in make_targets(slots)[:4]] == [None, None, None, "true"]
    assert [(rule["expr"], rule["labels"]) for rule in short] == [
        ('(sum(up{slot!="", model="m", on_demand=""}) or vector(0)) < 2', {"severity": "warning", "model": "m"}),
        ('(sum(up{slot!="", model="o.k", on_demand=""}) or vector(0)) < 1', {"severity": "warning", "model": "o.k"}),
    ]


def test_a_fleet_that_serves_nothing_still_has_its_summary_watched():
    for none in ([], [slot(slo=None, model=None)]):
        (group,) = make_rules(none)["groups"]
        assert group["name"] == "knaster-fleet"
        assert [rule["alert"] for rule in group["rules"]] == ["KnasterStale", "KnasterUnplaceable", "KnasterSummaryOld"]


def test_windows():
    assert find_window_errors("10m") == []
    for wrong in ("5 minutes", "", "5m]) or vector(1)", None, 5):
        assert len(find_window_errors(wrong)) == 1


def test_hostile_names_stay_text():
    slots = fleet()
    assert json.loads(json.dumps(make_targets(slots)).encode())
    for rule in group_of(make_rules(slots), "knaster-slo")["rules"]:
        assert "\n" not in rule["expr"]
        assert "{{" not in rule["labels"]["model"].replace('{{"{{"}}', "")
        assert rule["annotations"]["summary"].startswith("{{ $labels.model }}: ")


def test_a_slot_on_bare_metal_has_no_machine_as_a_label():
    (slot,) = (one for one in fleet(["phi-4b"], bare_metal=True) if one["name"] == "first")
    (target,) = make_targets([slot])
    assert "vm" not in target["labels"]
    assert target["labels"]["node"] == "phi-4b"
    assert target["targets"] == ["phi-4b:8000"]
