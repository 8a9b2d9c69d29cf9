# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import find_changes
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.yaml_text import dump_document
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.profiles import profile_path
from ansible_collections.knaster.inventory.plugins.plugin_utils._observe.document import dump_observed
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.plan import (
    make_plan_file,
    write_plan_file,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.report import (
    Sources,
    Targets,
    make_fleet_report,
)
from ansible_collections.knaster.inventory.tests.peers import documents

CARD = {"index": 0, "name": "NVIDIA L4", "memory_gb": 24, "compute_cap": 8.9}
ROLES = "roles:\n  - {name: chat, count: 2, needs: {engine: vllm, min_vram_gb: 20}, slots: [main]}\n"


@pytest.fixture
def fleet(tmp_path):
    """Three nodes, their plan, and the call that sums them up."""
    (tmp_path / "profiles").mkdir()
    (tmp_path / "catalog").mkdir()
    (tmp_path / "catalog/roles.yaml").write_text(ROLES)
    for name in ("a", "b", "c"):
        (tmp_path / f"profiles/{name}.json").write_text(json.dumps({"name": name, "memory_gb": 64, "gpus": [CARD]}))
    hosts, catalog = ["a", "b", "c"], [str(tmp_path / "catalog")]

    def replan(**changed):
        options = {"fresh": False, "moves": "none", "rebalance": False, "rescue": True, "passthrough": True}
        files = {"profiles": tmp_path / "profiles", "hosts": hosts, "catalog": catalog}
        made = make_plan_file(tmp_path / "plan.yml", **files, **options, **changed)
        for change in find_changes({tmp_path / "plan.yml": made.text}):
            write_plan_file(change)

    def report(*, losses=None, **changed):
        sources = {"profiles": tmp_path / "profiles", "hosts": hosts, "catalog": catalog, "plan": tmp_path / "plan.yml"}
        sources |= {"observed": tmp_path / "observed.json", "slots": tmp_path / "slots", **changed}
        out = tmp_path / "out"
        targets = Targets(summary=out / "summary.json", metrics=out / "fleet.prom", page=out / "report.html")
        return make_fleet_report(Sources(**sources), targets, title="Test <fleet>", losses=losses, passthrough=True)

    report.replan = replan
    replan()
    return report


def test_the_files_hold_the_same_numbers_and_change_once(fleet, tmp_path):
    made = fleet()
    assert [change.path.name for change in made.changes] == ["summary.json", "fleet.prom", "report.html"]
    assert all(change.before is None for change in made.changes)
    for change in made.changes:
        change.write()
    assert json.loads((tmp_path / "out/summary.json").read_text()) == made.summary
    assert 'knaster_gpus{gpu_class="l4",state="used"} 2' in (tmp_path / "out/fleet.prom").read_text()
    page = (tmp_path / "out/report.html").read_text()
    assert "Test &lt;fleet&gt;" in page
    assert fleet().changes == []
    (tmp_path / "out/fleet.prom").write_bytes(b"\xff")
    assert [change.path.name for change in fleet().changes] == ["fleet.prom"]


def test_what_is_not_asked_for_is_not_made(fleet, tmp_path):
    sources = Sources(
        profiles=tmp_path / "profiles",
        hosts=["a", "b", "c"],
        catalog=[str(tmp_path / "catalog")],
        plan=tmp_path / "plan.yml",
        observed=None,
        slots=None,
    )
    nothing = Targets(summary=None, metrics=None, page=None)
    made = make_fleet_report(sources, nothing, title="", losses=0, passthrough=True)
    assert made.changes == []
    assert made.table.startswith("3 nodes (3 ready), 3 GPUs (2 used, 1 free)")


def text_of(made, name):
    return next(change.after for change in made.changes if change.path.name == name)


def test_the_page_says_what_a_loss_would_cost(fleet):
    assert "1 replica can go elsewhere (chat/0 to c:0)" in text_of(fleet(), "report.html")
    assert "can go elsewhere" not in text_of(fleet(losses=0), "report.html")


def test_the_page_says_what_changed(fleet, tmp_path):
    before = text_of(fleet(), "report.html")
    (tmp_path / "catalog/roles.yaml").write_text(ROLES.replace("chat", "talk"))
    assert [one["code"] for one in fleet().summary["attention"]] == ["plan_outdated"]
    fleet.replan()
    page = text_of(fleet(), "report.html")
    assert "chat/0 at a:0" in page
    assert "chat/0 at a:0" not in before


def test_what_was_observed(fleet, tmp_path):
    one = documents.observed({"id": "chat.0.main", "role": "chat", "model": "m", "state": "failed", "reason": "no"})
    (tmp_path / "observed.json").write_text(dump_observed([one, {**one, "id": "old.0.main"}]))
    assert fleet().summary["replicas"]["failed"] == 2
    (tmp_path / "slots").mkdir()
    slot = {
        "version": 1,
        "managed_by": "knaster.inventory",
        "slot": "chat.0.main",
        "name": "main",
        "role": "chat",
        "replica": 0,
        "node": "a",
        "vm": {"name": "chat-0"},
        "gpus": [{"index": 0}],
        "engine": "vllm",
        "endpoint": "http://chat-0:8000",
        "models_fitting": [],
    }
    (tmp_path / "slots/chat.0.main.yaml").write_text(dump_document(slot))
    assert fleet().summary["replicas"]["failed"] == 1


def test_everything_that_is_wrong_is_told_at_once(fleet, tmp_path):
    (tmp_path / "profiles/a.json").write_text("{")
    (tmp_path / "profiles/b.json").write_text(json.dumps({"name": "b", "gpus": 3}))
    (tmp_path / "catalog/roles.yaml").write_text(ROLES.replace("count", "cont"))
    (tmp_path / "plan.yml").write_text("version: 1\nledger: [{node: 3}]\n")
    (tmp_path / "plan.previous.yml").write_text("version: 3\n")
    (tmp_path / "observed.json").write_text('{"version": 1, "replicas": [{}]}')
    (tmp_path / "slots").mkdir()
    (tmp_path / "slots/x.yaml").write_text("[")
    with pytest.raises(InputError) as caught:
        fleet()
    errors = caught.value.errors
    for place in (
        "profiles/a.json:1: ends in the middle of a value",
        "catalog/roles.yaml:2:18: ",
        "plan.previous.yml:1: version: must be 1, not 3",
        "observed.json:1: replicas[0].id: is required",
        "node b: 'gpus' is a list",
        "plan.yml:2: ledger[0].node: must be text, not 3",
    ):
        assert any(place in error for error in errors), place


def test_a_plan_that_is_not_there(fleet, tmp_path):
    (tmp_path / "plan.yml").unlink()
    with pytest.raises(InputError, match="not found; run placement first"):
        fleet()


HOSTILE = [
    "../../etc/x",
    "{{ 7*7 }}",
    "<script>alert(1)</script>",
    ": - #",
    "a\nb",
    '"\\',
    "x" * 60,
    "\u202ertl",
    "\x1b[31m",
    "]]>",
]


def test_hostile_names_of_nodes_stay_names(fleet, tmp_path):
    for name in HOSTILE:
        profile = {
            "name": name,
            "memory_gb": 64,
            "gpus": [{**CARD, "healthy": False}],
            "fabrics": [name],
            "notes": [name],
        }
        profile_path(tmp_path / "profiles", name).write_text(json.dumps(profile))
    ledger = [{"node": name, "gpu_index": 0, "state": "unhealthy"} for name in HOSTILE]
    (tmp_path / "plan.yml").write_text(dump_document(documents.plan(ledger=ledger)))
    made = fleet(hosts=HOSTILE)
    for change in made.changes:
        change.write()
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert {one["subject"] for one in summary["attention"] if one["code"] == "gpu_broken"} == set(HOSTILE)
    assert set(summary["fabrics"]) == set(HOSTILE)
    assert "<script>alert" not in (tmp_path / "out/report.html").read_text()
    assert all(character.isprintable() for line in made.table.split("\n") for character in line)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["fleet.prom", "report.html", "summary.json"]
    if shutil.which("promtool"):
        with (tmp_path / "out/fleet.prom").open() as text:
            done = subprocess.run(["promtool", "check", "metrics"], check=False, stdin=text, capture_output=True)
        assert (done.returncode, done.stdout + done.stderr) == (0, b"")
