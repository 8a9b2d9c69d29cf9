# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Playbooks and roles as a user runs them: variables that move or change what is done, and nodes that give no answer."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.knaster.inventory.tests.peers.hub import HubHandler, closed_port, serving
from ansible_collections.knaster.inventory.tests.peers.weights import write_safetensors
from yaml import safe_load as from_yaml

ANSWERS = Path(__file__).parents[3] / "examples/home_lab/answers"
ROLES = """roles:
  - {name: large, needs: {engine: vllm}, count: 3, slots: [main]}
"""
INVENTORY = """all:
  vars:
    ansible_connection: local
    ansible_python_interpreter: "{{{{ ansible_playbook_python }}}}"
    knaster_catalog: ["{{{{ inventory_dir }}}}/catalog"]
  hosts:
    pve-ada: {{knaster_answer_file: "{answers}/pve-ada.txt"}}
    pve-twin: {{knaster_answer_file: "{answers}/pve-twin.txt"}}
"""


@pytest.fixture
def site(tmp_path):
    (tmp_path / "catalog").mkdir()
    (tmp_path / "catalog/roles.yaml").write_text(ROLES)
    (tmp_path / "inventory.yml").write_text(INVENTORY.format(answers=ANSWERS))
    return tmp_path


def run(site, *arguments, fails=False):
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "inventory.yml", *arguments]
    env = {**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_HOME": str(site / "home")}
    done = subprocess.run(command, cwd=site, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert bool(done.returncode) == fails, done.stdout + done.stderr
    return done.stdout + done.stderr


def told_losses(site):
    """How many nodes the page says the loss of."""
    return (site / "elsewhere/report.html").read_text().count("<tr data-loss=")


def test_one_variable_moves_all_files_and_the_report_asks_for_as_many_losses_as_it_is_told(site):
    more = (
        (site / "inventory.yml")
        .read_text()
        .replace("  vars:\n", "  vars:\n    knaster_dir: '{{ inventory_dir }}/elsewhere'\n", 1)
    )
    (site / "inventory.yml").write_text(more)
    run(site, "knaster.inventory.site", "-e", "report_losses=0")
    assert told_losses(site) == 0
    run(site, "knaster.inventory.summary", "-e", "report_losses=1")
    assert told_losses(site) == 1
    run(site, "knaster.inventory.summary")
    assert told_losses(site) == 2
    run(site, "knaster.inventory.provision", "-e", "provision_state=rendered")
    run(site, "knaster.inventory.gather_script")
    assert "nodes known: 2" in run(site, "knaster.inventory.catalog")
    assert "rtx-3090" in run(site, "knaster.inventory.fits", "-e", "fits_models=qwen3-8b-awq")
    names = {path.name for path in (site / "elsewhere").iterdir()}
    assert names >= {"profiles", "plan.yml", "vms.yml", "vms.sh", "slots", "report.html", "gather.sh"}
    assert not (site / "knaster").exists()
    one_by_one = run(site, "knaster.inventory.what_if", "-e", "what_if_nodes=pve-ada,pve-twin")
    assert re.search(r"^pve-ada: ", one_by_one, re.MULTILINE)
    assert re.search(r"^pve-twin: ", one_by_one, re.MULTILINE)
    together = run(site, "knaster.inventory.what_if", "-e", json.dumps({"what_if_nodes": ["pve-ada", "pve-twin"]}))
    assert re.search(r"^pve-ada and pve-twin: ", together, re.MULTILINE) or "pve-ada, pve-twin: " in together
    assert not re.search(r"^pve-twin: ", together, re.MULTILINE)


def test_variables_of_the_inventory_reach_the_roles_of_playbooks(site):
    (site / "group_vars").mkdir()
    variables = {
        "provision_state": "rendered",
        "placement_hosts": "pve-ada",
        "provision_hosts": "pve-ada",
        "report_hosts": "pve-ada",
        "report_page_file": "",
    }
    (site / "group_vars/all.yml").write_text(json.dumps(variables))
    run(site, "knaster.inventory.site", "-e", "site_provision=true")
    assert "pve-twin" not in (site / "knaster/plan.yml").read_text()
    assert (site / "knaster/vms.sh").is_file(), "nothing was asked of Proxmox VE"
    assert json.loads((site / "knaster/summary.json").read_text())["nodes"]["total"] == 1
    assert not (site / "knaster/report.html").exists()


def test_a_node_whose_answer_cannot_be_read_stops_neither_itself_nor_others(site):
    (site / "broken.txt").write_text("no answer\n")
    text = (site / "inventory.yml").read_text().replace(f"{ANSWERS}/pve-twin.txt", f"{site}/broken.txt")
    (site / "inventory.yml").write_text(text)
    (site / "play.yml").write_text(
        "- hosts: all\n  gather_facts: false\n  roles: [knaster.inventory.collect]\n"
        "  tasks:\n    - ansible.builtin.debug: {msg: 'goes on with {{ inventory_hostname }}'}\n"
    )
    shown = run(site, "play.yml")
    assert "goes on with pve-twin" in shown
    assert "goes on with pve-ada" in shown
    assert json.loads((site / "knaster/profiles/pve-twin.json").read_text())["state"] == "unreachable"
    assert json.loads((site / "knaster/profiles/pve-ada.json").read_text())["gpus"]


def compared(text):
    """What a run says, without the order in which hosts answer."""
    return sorted(line for line in text.splitlines() if not line.startswith("PLAY RECAP"))


def files_of(site):
    return {path.relative_to(site): path.read_text() for path in (site / "knaster").rglob("*") if path.is_file()}


def test_check_mode_shows_from_an_empty_folder_what_the_run_then_does(site):
    checked = run(site, "knaster.inventory.site", "--check", "--diff")
    assert not (site / "knaster").exists()
    assert compared(checked) == compared(run(site, "knaster.inventory.site", "--diff"))
    again = run(site, "knaster.inventory.site", "--check", "--diff")
    assert "changed=0" in again
    assert re.search(r"changed=[1-9]", again) is None


def test_a_drain_needs_no_collecting_and_its_preview_is_true(site):
    run(site, "knaster.inventory.site")
    before = files_of(site)
    text = (site / "inventory.yml").read_text()
    (site / "inventory.yml").write_text(text.replace("pve-ada: {", "pve-ada: {knaster_state: draining, "))
    checked = run(site, "knaster.inventory.placement", "--check", "--diff")
    assert files_of(site) == before
    assert "AT RISK (draining)" in checked
    assert compared(checked) == compared(run(site, "knaster.inventory.placement", "--diff"))
    # Without collecting the profile still says what it said, and the summary what the inventory says.
    assert json.loads((site / "knaster/profiles/pve-ada.json").read_text())["state"] == "ready"
    assert "1 draining" in run(site, "knaster.inventory.summary")
    (site / "inventory.yml").write_text(text)
    assert "AT RISK" not in run(site, "knaster.inventory.placement")


def places_of(site):
    plan = from_yaml((site / "knaster/plan.yml").read_text())
    return {(one["role"], one["replica"]): (one["node"], one.get("gpu_index")) for one in plan["assignments"]}


def test_one_gpu_is_cordoned_by_the_inventory(site):
    text = (site / "inventory.yml").read_text()
    cordoned = "knaster_gpus: [{pci: '0000:01:00.0', state: cordoned}], "
    (site / "inventory.yml").write_text(text.replace("pve-ada: {", "pve-ada: {" + cordoned))
    run(site, "knaster.inventory.site")
    profile = json.loads((site / "knaster/profiles/pve-ada.json").read_text())
    assert [gpu.get("state") for gpu in profile["gpus"]] == ["cordoned"]
    assert {node for node, _index in places_of(site).values()} == {"pve-twin"}
    (refusal,) = from_yaml((site / "knaster/plan.yml").read_text())["unplaced"]
    assert refusal["rejected"]["gpu_cordoned"] == 1
    assert {"uncordon_gpu": {"node": "pve-ada", "gpu_index": 0}} in [
        each["change"] for each in refusal["what_would_help"]
    ]


@pytest.mark.parametrize("lost", [["plan.yml"], ["plan.yml", "plan.previous.yml"], ["plan.yml", "slots"]])
def test_a_lost_plan_moves_nothing_that_runs(site, lost):
    run(site, "knaster.inventory.site", "-e", "placement_hosts=pve-ada")
    run(site, "knaster.inventory.site")
    before = places_of(site)
    for name in lost:
        path = site / "knaster" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    # Planned afresh, what comes first by name would take the largest GPU.
    (site / "catalog/roles.yaml").write_text(ROLES + "  - {name: first, priority: 1, needs: {engine: vllm}}\n")
    told = run(site, "knaster.inventory.placement")
    assert "plan.yml: not found; what runs is taken from" in told
    after = places_of(site)
    kept = {name: place for name, place in before.items() if name[0] == "large"}
    if "slots" in lost:
        # The plan before the last knew one node only.
        kept = {name: place for name, place in kept.items() if place[0] == "pve-ada"}
    assert kept
    assert kept.items() <= after.items()
    (site / "knaster/plan.yml").unlink()
    assert "not found" not in run(site, "knaster.inventory.placement", "-e", "placement_fresh=true")


def test_a_slip_in_what_the_inventory_declares_plans_nothing(site):
    run(site, "knaster.inventory.inventory")
    text = (site / "inventory.yml").read_text()
    (site / "inventory.yml").write_text(
        text.replace("pve-ada: {", "pve-ada: {knaster_state: drained, ").replace(
            "pve-twin: {", "pve-twin: {knaster_label: {}, "
        )
    )
    told = run(site, "knaster.inventory.placement", fails=True)
    assert "pve-twin: knaster_label: nothing reads this variable; did you mean knaster_labels?" in told
    (site / "inventory.yml").write_text(text.replace("pve-ada: {", "pve-ada: {knaster_state: drained, "))
    told = run(site, "knaster.inventory.placement", fails=True)
    assert 'pve-ada: knaster_state: must be one of ready, cordoned, draining, not "drained"' in told
    assert not (site / "knaster/plan.yml").exists()


def test_a_filter_tells_each_mistake_once(site):
    roles = [{"name": "a"}, {"name": "b", "needs": {"engine": "vllm", "min_vram": 20}}]
    expression = "{{ [] | knaster.inventory.plan(roles, moves='q') }}"
    tasks = [{"ansible.builtin.debug": {"msg": expression}, "vars": {"roles": roles}}]
    (site / "play.yml").write_text(json.dumps([{"hosts": "pve-ada", "gather_facts": False, "tasks": tasks}]))
    shown = run(site, "play.yml", fails=True).replace("\\n", "\n")
    told = shown[shown.index("The plan cannot be made") :].partition("\nfatal")[0].partition("Origin:")[0]
    for mistake in ("moves:", "roles[0].needs", "roles[1].needs.min_vram"):
        assert told.count(mistake) == 1, shown


def test_sources_are_asked_for_where_it_is_wanted_and_what_was_not_checked_is_said(site):
    held = site / "models/acme/held"
    held.mkdir(parents=True)
    write_safetensors(held / "model.safetensors", {"w": ("U8", [1], 1)})
    model = "{{name: {name}, kind: llm, engines: [vllm], vram_gb: 10, source: {source}}}"
    entries = [
        model.format(name=name, source=source)
        for name, source in (("held", held), ("gone", site / "none"), ("hub", "acme/hub"), ("known", "acme/whole"))
    ]
    (site / "catalog/models.yaml").write_text("models:\n" + "".join(f"  - {entry}\n" for entry in entries))
    assert "Sources of models" not in run(site, "knaster.inventory.catalog")
    with serving(HubHandler) as hub:
        asked = ["-e", "catalog_check_sources=true", "-e", f"catalog_endpoint={hub.url}"]
        told = run(site, "knaster.inventory.catalog", *asked, fails=True)
        assert re.search(rf"^{held} +held +yes +on pve-ada, pve-twin$", told, re.MULTILINE)
        assert "There are sources that cannot be had: 2" in told
        assert "model gone: " in told
        assert "model hub: acme/hub: " in told
        # Nothing is placed for a model that cannot be had.
        told = run(site, "knaster.inventory.site", *asked, fails=True)
        assert "Make the plan" not in told
    (site / "catalog/models.yaml").write_text(f"models:\n  - {entries[0]}\n  - {entries[3]}\n")
    told = run(site, "knaster.inventory.sources", "-e", f"catalog_endpoint=http://127.0.0.1:{closed_port()}")
    assert "Not checked:\nmodel known: acme/whole: Nothing listens" in told
