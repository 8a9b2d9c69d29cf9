# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.knaster.inventory.plugins.filter.summary import (
    fleet_summary,
    summary_metrics,
    summary_table,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.fingerprint import (
    fingerprint,
    role_fingerprint,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan as make_plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary import attention
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary import summary as summary_module
from ansible_collections.knaster.inventory.tests.peers import documents

SCHEMA = json.loads(
    (Path(summary_module.__file__).parent.parent / "_documents/schemas/summary.json").read_text(encoding="utf-8")
)
STATES = ("used", "unhealthy", "free", "external", "unknown")


def card(index, size=24, **more):
    return {"index": index, "gpu_class": f"c{size}", "memory_gb": size, "compute_cap": 8.9, "vendor": "nvidia", **more}


def node(name, *cards, **more):
    return {"name": name, "memory_gb": 256, "gpus": list(cards), **more}


def role(name, size=20, **more):
    return {"name": name, "needs": {"engine": "vllm", "min_vram_gb": size}, **more}


def model(name, minimum, maximum=None, *, engine="vllm", tp=1, **more):
    profile = {"name": f"{name}-p", "engine": engine, "gpu_class": "c24", "tp": tp}
    scaling = {"min": minimum} | ({} if maximum is None else {"max": maximum})
    fixed = {"kind": "llm", "vram_gb": 20, "min_cc": 7.5, "engines": [engine], "context": 8192, "lora": False}
    return {"name": name, **fixed, "source": f"org/{name}", "profiles": [profile], "scaling": scaling, **more}


def replica(name, of, state="ready", **more):
    return documents.observed({"id": f"{name}", "model": of, "state": state, **more})


def codes(summary):
    return [(one["code"], one["subject"]) for one in summary["attention"]]


def text_of(summary, code):
    return next(one["text"] for one in summary["attention"] if one["code"] == code)


def planned(nodes, roles=(), models=()):
    found = check_catalog(list(models), list(roles), open_engines=True).catalog
    return make_plan(nodes, found.roles, found.models), {"roles": list(roles), "models": list(models)}


def summed(nodes, roles=(), models=(), replicas=()):
    plan, catalog = planned(nodes, roles, models)
    summary = fleet_summary(nodes, plan, list(replicas), catalog)
    jsonschema.Draft202012Validator(SCHEMA).validate(summary)
    return summary


def test_the_schema_is_one_and_knows_every_code():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    entry = SCHEMA["properties"]["attention"]["items"]["properties"]
    assert entry["code"]["enum"] == list(attention.CODES)
    assert entry["severity"]["enum"] == list(attention.SEVERITIES)


def test_profiles_alone_are_enough():
    summary = fleet_summary([node("a", card(0), card(1, 48))], {})
    assert summary["nodes"] == {"total": 1, "ready": 1, "cordoned": 0, "draining": 0, "unreachable": 0}
    free = {"total": 1, "used": 0, "unhealthy": 0, "free": 1, "external": 0, "unknown": 0}
    assert summary["gpus"] == {"c24": free, "c48": free}
    assert summary["attention"] == []
    assert fleet_summary([], None)["nodes"]["total"] == 0


def test_a_card_that_broke_since_the_plan_was_made():
    plan, catalog = planned([node("a", card(0), card(1))], [role("chat")])
    summary = fleet_summary([node("a", card(0, healthy=False), card(1, healthy=False))], plan, catalog=catalog)
    assert summary["gpus"]["c24"] == {"total": 2, "used": 1, "unhealthy": 0, "free": 1, "external": 0, "unknown": 0}
    assert codes(summary) == [("gpu_broken_in_use", "a"), ("plan_outdated", "plan"), ("gpu_broken", "a")]


def test_every_card_is_in_one_state():
    holder = {"kind": "vm", "id": 100, "name": "games", "ours": False}
    cards = [
        card(0),
        card(1, healthy=False, health={"code": "xid", "text": "fell off the bus"}),
        card(2, holder=holder),
        card(3, healthy=None),
        card(4, mig=True),
        card(5, 48),
        card(6, 48, healthy=False, holder=holder),
    ]
    summary = summed([node("a", *cards)], [role("chat", 40)])
    assert summary["gpus"]["c24"] == {"total": 5, "used": 0, "unhealthy": 1, "free": 1, "external": 1, "unknown": 2}
    assert summary["gpus"]["c48"] == {"total": 2, "used": 1, "unhealthy": 0, "free": 0, "external": 1, "unknown": 0}
    assert codes(summary) == [("gpu_broken", "a"), ("gpu_unknown", "a"), ("gpu_external", "a"), ("gpu_split", "a")]
    assert "fell off the bus" in text_of(summary, "gpu_broken")
    assert "vm games" in text_of(summary, "gpu_external")


def test_a_ledger_is_taken_as_it_is_and_finds_its_cards_by_uuid():
    nodes = [node("a", card(0, 48, uuid="GPU-new"), card(1, 24, uuid="GPU-old"))]
    row = {"node": "a", "gpu_index": 0, "uuid": "GPU-old", "state": "used", "by": "chat/0"}
    summary = fleet_summary(nodes, documents.plan(ledger=[row]))
    assert set(summary["gpus"]) == {"c24"}
    elsewhere = {"node": "gone", "gpu_index": 0, "state": "used"}
    assert fleet_summary(nodes, documents.plan(ledger=[elsewhere]))["gpus"]["unknown"]["used"] == 1


def test_cards_that_a_node_does_not_show_keep_their_class():
    gone = {"name": "a", "gpus": None, "state": "unreachable"}
    gpu = {"uuid": "GPU-1", "gpu_class": "c24", "memory_gb": 24}
    placed = {"role": "chat", "replica": 0, "node": "a", "gpu_index": 0, "gpu": gpu}
    row = {"node": "a", "gpu_index": 0, "state": "used", "by": "chat/0"}
    plan = documents.plan(assignments=[placed], ledger=[row])
    summary = fleet_summary([gone], plan)
    assert summary["gpus"]["c24"]["used"] == 1
    assert ("node_lost", "a") in codes(summary)


def test_another_state_of_a_node_counts_as_unreachable():
    summary = fleet_summary([node("a", card(0), state="on fire")], {})
    assert summary["nodes"]["unreachable"] == 1
    assert summary["gpus"]["c24"]["unknown"] == 1


def test_fabrics():
    weights = [{"name": "org/big", "path": "/models/org/big", "size_gb": 20}]
    half = [{"name": "org/small", "path": "/models/org/small", "state": "partial"}]
    nodes = [
        node("n1", card(0), card(1), fabrics=["ib-a"], weights=weights),
        node("n2", card(0), card(1, 48), fabrics=["ib-a", "ib-b"], weights=half),
        node("n3", card(0), card(1), fabrics=["ib-a"], state="cordoned"),
        node("n4", fabrics=["ib-a"], weights=weights),
        node("n5", card(0)),
        node("n6", fabrics=["ib-a"], weights=[{"name": "org/other", "path": "/models/org/other"}]),
    ]
    summary = summed(nodes, [role("chat", 40)], [model("big", 0, 1), model("small", 0, 0)])
    assert summary["fabrics"]["ib-a"] == {
        "nodes": 5,
        "nodes_with_weights": 3,
        "models_present": ["big"],
        "models_present_count": 1,
        "largest_free_block": 1,
        "classes": {"c24": 2, "c48": 0},
    }
    assert summary["fabrics"]["ib-b"]["largest_free_block"] == 0
    plain = fleet_summary(nodes, {})
    assert plain["fabrics"]["ib-a"]["models_present"] == ["org/big", "org/other"]
    assert plain["fabrics"]["ib-a"]["models_present_count"] == 2


def test_models_by_the_plan():
    models = [model("a", 2), model("b", 1), model("c", 0, 2), model("d", 0, 0), model("e", 1, tp=2)]
    listed = {key: value for key, value in model("f", 1).items() if key not in ("profiles", "scaling", "source")}
    summary = summed([node("n", card(0), card(1), card(2))], models=[*models, listed])
    assert summary["models"] == {"total": 3, "satisfied": 2, "short": 1, "on_demand": 1, "off": 1}
    assert summary["unplaceable"] == ["e"]
    assert ("unplaced", "e") in codes(summary)
    by_plan = fleet_summary([node("n", card(0), card(1), card(2))], planned([node("n", card(0))], models=models)[0])
    assert by_plan["models"] == {"total": 3, "satisfied": 0, "short": 3, "on_demand": 1, "off": 1}


def test_models_by_what_was_observed():
    nodes, models = [node("n", card(0), card(1), card(2))], [model("a", 2), model("b", 1)]
    up = [replica("a.0", "a"), replica("a.1", "a", "starting"), replica("b.0", "b", "failed", reason="refused")]
    summary = summed(nodes, models=models, replicas=up)
    assert summary["replicas"] == {"ready": 1, "starting": 1, "draining": 0, "failed": 1}
    assert summary["models"] == {"total": 2, "satisfied": 0, "short": 2, "on_demand": 0, "off": 0}
    assert summary["unplaceable"] == ["b"]
    assert "refused" in text_of(summary, "replica_failed")
    # What has a place and was not seen is still to come, and a slot of a role is no replica of the model.
    summary = summed(nodes, models=models, replicas=[replica("chat.0.main", "a", role="chat")])
    assert summary["models"]["short"] == 2
    assert summary["unplaceable"] == []


def test_roles():
    summary = summed([node("n", card(0))], [role("chat", count=2), role("rest", 4, count=0), role("gw", 4, count=1)])
    assert summary["roles"] == {"total": 2, "satisfied": 0, "short": 2}
    text = text_of(summary, "unplaced")
    assert text.startswith("1 of 2 is not placed: 1 taken")
    assert "Suggested changes: " in text


def test_what_is_starting_is_waited_for_and_what_failed_is_not():
    nodes, models = [node("n", card(0), card(1))], [model("a", 2)]

    def said(*states):
        return text_of(
            summed(nodes, models=models, replicas=[replica(f"a.{at}", "a", state) for at, state in enumerate(states)]),
            "short",
        )

    assert said("ready", "starting") == "1 of 2 replicas ready (1 starting); wait for it"
    assert said("ready", "failed") == "1 of 2 replicas ready (1 failed); see its replicas"
    assert said("starting", "failed") == "0 of 2 replicas ready (1 starting, 1 failed); see its replicas"


def test_the_catalog_says_how_many_of_a_role_are_wanted():
    nodes = [node("n", card(0), card(1))]
    plan, _catalog = planned(nodes, [role("chat", count=1), role("gone", count=1)])

    def roles(**more):
        return fleet_summary(nodes, plan, catalog={"roles": [role("chat", **more)], "models": []})["roles"]

    assert roles(count=1) == {"total": 2, "satisfied": 2, "short": 0}
    # The plan gave it one, and the catalog wants two today; of a role that it does not have any more the plan is asked.
    assert roles(count=2) == {"total": 2, "satisfied": 1, "short": 1}
    assert roles(count=0) == {"total": 1, "satisfied": 1, "short": 0}


def test_idle_replicas():
    shards = [{"node": "n", "gpu_indices": [0, 1]}, {"node": "m", "gpu_indices": [0, 1]}]
    seen = [
        replica("a", "m1", idle_seconds=600),
        replica("b", "m2", idle_seconds=599),
        replica("c", "m3", idle_seconds=90000, shards=shards),
        replica("d", "m4", "starting", idle_seconds=90000),
        replica("e", "m5", idle_seconds=None),
    ]
    summary = fleet_summary([node("n", card(0))], {}, seen)
    assert summary["idle_replicas"] == [
        {"id": "c", "model": "m3", "idle_seconds": 90000, "gpus": 4},
        {"id": "a", "model": "m1", "idle_seconds": 600, "gpus": 0},
    ]
    assert text_of(summary, "idle").startswith("no requests for 10 minutes; ")


def test_fingerprints_against_the_catalog():
    models, roles = [model("a", 1), model("s", 0, 1, engine="sim")], [role("chat")]
    found = check_catalog(models, roles).catalog
    profile = found.models[0].profiles[0]
    now, was = fingerprint(profile), {"name": "a-p", "engine": "vllm", "gpu_class": "c24", "args": ["--x"]}
    seen = [
        replica("current", "a", profile="a-p", fingerprint=now),
        replica("old", "a", profile=was, fingerprint="0" * 16),
        replica("gone", "a", profile="other", fingerprint="0" * 16),
        replica("never", "a", fingerprint=""),
        replica("role", None, role="chat", fingerprint=role_fingerprint(found.roles[0])),
        replica("old-role", None, role="chat", fingerprint="1" * 16),
        replica("no-role", None, role="lost", fingerprint="1" * 16),
    ]
    summary = summed([node("n", card(0), card(1))], roles, models, seen)
    assert summary["stale"] == ["gone", "no-role", "old", "old-role"]
    assert summary["unknown"] == ["never"]
    assert summary["simulated"] == ["s"]
    texts = {one["subject"]: one["text"] for one in summary["attention"] if one["code"] == "stale"}
    assert "args changed" in texts["old"]
    assert "restart its engine" in texts["old"]
    assert "plan again" in texts["gone"]


def test_without_a_catalog_what_the_observer_found_counts():
    seen = [replica("a", "m", fingerprint="x", drift="stale"), replica("b", "m", fingerprint="x"), replica("c", "m")]
    seen[1]["simulated"] = True
    summary = fleet_summary([node("n", card(0))], {}, seen)
    assert (summary["stale"], summary["unknown"], summary["simulated"]) == (["a"], ["c"], ["m"])


def test_another_model_than_the_slot_says():
    summary = fleet_summary([node("n")], {}, [replica("a", "m", served_model="x", node="n")])
    assert "it serves x, the slot says m" in text_of(summary, "other_model")


def test_nodes_that_need_somebody():
    nodes = [node(name, card(0), state="ready") for name in ("a", "b", "c", "d")]
    plan, catalog = planned(nodes, [role("chat", count=2)])
    for each, state in zip(nodes, ("draining", "unreachable", "draining", "unreachable"), strict=True):
        each["state"] = state
    nodes.append({"name": "e", "gpus": None, "notes": ["nvidia-smi: timeout"]})
    nodes.append(node("f", state="cordoned"))
    summary = fleet_summary(nodes, plan, catalog=catalog)
    assert codes(summary) == [
        ("node_lost", "b"),
        ("node_unreachable", "d"),
        ("plan_outdated", "plan"),
        ("node_still_used", "a"),
        ("gpus_unknown", "e"),
        ("node_drained", "c"),
        ("node_cordoned", "f"),
    ]
    assert "chat/0; plan again" in text_of(summary, "node_still_used")
    assert "nodes changed" in text_of(summary, "plan_outdated")
    assert "timeout" in text_of(summary, "gpus_unknown")


def test_a_plan_that_is_not_of_this_catalog():
    nodes = [node("a", card(0))]
    plan, catalog = planned(nodes, [role("chat")])
    assert fleet_summary(nodes, plan, catalog=catalog)["attention"] == []
    changed = {"roles": [role("chat", 4)], "models": []}
    assert "roles changed" in text_of(fleet_summary(nodes, plan, catalog=changed), "plan_outdated")


def test_the_worst_comes_first_and_the_order_of_input_does_not_matter():
    nodes = [node(f"n{at}", card(0, healthy=at % 3 > 0), state="ready" if at % 4 else "cordoned") for at in range(12)]
    roles, models = [role("a", count=9), role("b", 40)], [model("m", 3)]
    one = summed(nodes, roles, models)
    two = summed(nodes[::-1], roles[::-1], models[::-1])
    assert json.dumps(one) == json.dumps(two)
    severities = [attention.SEVERITIES.index(entry["severity"]) for entry in one["attention"]]
    assert severities == sorted(severities)
    assert {"error", "warning", "info"} == {entry["severity"] for entry in one["attention"]}


def test_nothing_is_changed():
    nodes = [node("a", card(0), state="odd")]
    plan, catalog = planned([node("a", card(0))], [role("chat")])
    given = [nodes, plan, [replica("x", "m")], catalog]
    before = copy.deepcopy(given)
    fleet_summary(*given)
    assert given == before


GPU_ROW = {"node": "a", "gpu_index": 0, "state": "free"}
WRONG = [
    ({"nodes": 3}, ["nodes: a list of node profiles is needed"]),
    ({"nodes": [{"gpus": []}, {"name": "a", "gpus": 2}]}, ["nodes[0]: the profile has no name", "node a: 'gpus'"]),
    ({"plan": [1]}, ["plan: must be a map, not a list"]),
    ({"plan": {**documents.plan(), "version": 7}}, ["plan: version: must be 1, not 7"]),
    ({"plan": documents.plan(ledger=3)}, ["plan: ledger: must be a list, not 3"]),
    (
        {"plan": documents.plan(ledger=[{**GPU_ROW, "state": "odd"}, {**GPU_ROW, "node": 1}])},
        [
            "plan: ledger[0].state: must be one of free, used, external, unhealthy, unknown",
            "plan: ledger[1].node: must be text",
        ],
    ),
    ({"plan": documents.plan(ledger=[GPU_ROW] * 2)}, ["plan: ledger[1]: has the same node and gpu_index as entry 0"]),
    (
        {"plan": documents.plan(assignments=[{"role": "a", "replica": True, "node": 3}])},
        ["plan: assignments[0].node: must be text", "plan: assignments[0].replica: must be a whole number, not true"],
    ),
    (
        {"plan": documents.plan(replicas=[{"model": "a", "replica": 0, "shards": []}])},
        ["plan: replicas[0].shards: must not be empty"],
    ),
    (
        {"plan": documents.plan(unplaced=[{"missing": 1}])},
        ["plan: unplaced[0]: must have one of the keys role, model"],
    ),
    (
        {"plan": documents.plan(off=[3], on_demand=[3])},
        ["plan: off[0]: must be text", "plan: on_demand[0]: must be a map"],
    ),
    ({"replicas": {"id": 1}}, ["observed: replicas: must be a list, not a map"]),
    (
        {
            "replicas": [
                documents.observed({"id": "a", "idle_seconds": -1}),
                documents.observed({"id": "a", "state": 3}),
            ]
        },
        [
            "observed: replicas[0].idle_seconds: must be at least 0, not -1",
            "observed: replicas[1]: has the same id as entry 0",
            "observed: replicas[1].state: must be one of ready, starting, draining, failed, not 3",
        ],
    ),
    ({"catalog": [1]}, ["catalog: must be a map of lists"]),
    ({"catalog": {"modles": []}}, ['catalog: "modles" is not a list of a catalog; did you mean models?']),
    ({"catalog": {"models": [{"name": "a"}]}}, ["models[0]"]),
    ({"nodes": 3, "plan": 2, "replicas": 3, "catalog": 3}, ["nodes:", "plan:", "observed: replicas:", "catalog:"]),
]


@pytest.mark.parametrize(("changed", "told"), WRONG, ids=str)
def test_every_mistake_at_once(changed, told):
    given = {"nodes": [], "plan": {}, "replicas": [], "catalog": {}, **changed}
    with pytest.raises(AnsibleFilterError) as caught:
        fleet_summary(**given)
    for text in told:
        assert text in str(caught.value)
    if len(told) > 1:
        assert f"{len(told)} errors" in str(caught.value)


HOSTILE = [
    "../../etc/x",
    "{{ 7*7 }}",
    "<script>",
    ": - #",
    "a\nb",
    'q"\\',
    "x" * 300,
    "\u202ertl",
    "\ud800",
    "\x1b[31m",
    "\r",
]


@pytest.fixture
def hostile():
    nodes = [node(name, card(0, gpu_class=name, healthy=False), fabrics=[name]) for name in HOSTILE]
    seen = [replica(name, name, idle_seconds=601 + at, fingerprint="") for at, name in enumerate(HOSTILE)]
    return nodes, fleet_summary(nodes, {}, seen)


def test_hostile_names_stay_in_their_line_of_the_table(hostile):
    nodes, summary = hostile
    text = summary_table(summary, nodes)
    assert all(character.isprintable() for line in text.split("\n") for character in line)
    assert max(map(len, text.split("\n"))) < 500
    assert len(text.split("\n")) < 80


METRIC = re.compile(r'[a-z_]+\{([a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*\} -?[0-9.e+-]+')


def test_hostile_names_stay_in_their_label(hostile, tmp_path):
    text = summary_metrics(hostile[1])
    lines = text.split("\n")
    assert lines.pop() == ""
    for line in lines:
        assert line.startswith(("# HELP knaster_", "# TYPE knaster_")) or METRIC.fullmatch(line), line
    path = tmp_path / "fleet.prom"
    path.write_text(text, encoding="utf-8")
    if shutil.which("promtool"):
        with path.open() as stream:
            done = subprocess.run(
                ["promtool", "check", "metrics"], check=False, stdin=stream, capture_output=True, text=True
            )
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_metrics_have_the_numbers_of_the_summary():
    summary = summed([node("a", card(0), card(1, healthy=False))], [role("chat", count=2)], [model("m", 0, 0)])
    text = summary_metrics(summary)
    for line in (
        'knaster_nodes{state="ready"} 1',
        'knaster_gpus{gpu_class="c24",state="used"} 1',
        'knaster_gpus{gpu_class="c24",state="unhealthy"} 1',
        'knaster_roles{state="short"} 1',
        'knaster_models{state="off"} 1',
        'knaster_attention{severity="error",code="unplaced"} 1',
    ):
        assert f"\n{line}\n" in text
    assert 'state="total"' not in text


def test_one_node_says_what_can_run_there():
    nodes = [node("box", card(0), card(1, 8))]
    models = [model("big", 0, 1), model("small", 0, 1, vram_gb=6)]
    plan, catalog = planned(nodes, [], models)
    text = summary_table(fleet_summary(nodes, plan, catalog=catalog), nodes, plan, catalog)
    assert "Nothing needs action." in text
    assert re.search(r"box +0 +c24 24 GB +free +- +2\n", text)
    assert "1 model fits c8 8 GB:\n  llm: small\n" in text
    assert "2 models fit c24 24 GB:\n  llm: big, small\n" in text


def test_a_large_fleet_leads_with_what_needs_action_and_stays_short():
    holder = {"kind": "vm", "id": 100, "name": "games", "ours": False}
    nodes = [
        node(f"n{at}", card(0, healthy=at % 5 > 0), card(1, holder=holder if at % 2 else None), fabrics=[f"f{at % 30}"])
        for at in range(200)
    ]
    text = summary_table(summed(nodes, [role("chat", 40)]), nodes)
    lines = text.split("\n")
    assert len(lines) < 45
    assert lines[0] == "200 nodes (200 ready), 400 GPUs (40 unhealthy, 260 free, 100 external)"
    assert lines[3] == "What needs action, the worst first:"
    assert lines[4].split() == ["SEVERITY", "FINDING", "SUBJECT", "ACTION"]
    assert re.match(r"ERROR +unplaced +chat", lines[5])
    assert any(re.match(r"INFO +external +100 in all", line) for line in lines)
    assert any(re.match(r"WARNING +broken +35 more +n25, n30, n35 and 32 more", line) for line in lines)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (None, "summary: must be a map, not null"),
        ({}, "summary: nodes: is required"),
        ({"gpus": {"a": {"total": 1}}}, r"summary: gpus\.a\.free: is required"),
        ({"attention": [{}]}, r"summary: attention\[0\]\.code: is required"),
        ({"fabrics": {"a": 1}}, r"summary: fabrics\.a: must be a map, not 1"),
    ],
    ids=str,
)
def test_what_is_no_summary_is_refused(changed, told):
    summary = None if changed is None else {**(fleet_summary([], {}) if changed else {}), **changed}
    for make in (summary_table, summary_metrics):
        with pytest.raises(AnsibleFilterError, match=told):
            make(summary)


def test_sums_are_of_the_states():
    summary = summed([node("a", card(0), card(1, 48))], [role("chat")])
    for counts in summary["gpus"].values():
        assert counts["total"] == sum(counts[state] for state in STATES)
