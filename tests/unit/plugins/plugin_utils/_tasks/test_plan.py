# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json

import pytest
import yaml
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import FileChange, find_changes
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.plan import (
    make_plan_file,
    write_plan_file,
)

OPTIONS = {"fresh": False, "moves": "none", "rebalance": False, "rescue": True, "passthrough": True}
ROLES = "roles:\n  - {name: chat, needs: {engine: vllm, min_vram_gb: 20}}\n"
CARD = {"index": 0, "name": "NVIDIA L4", "memory_gb": 24, "compute_cap": 8.9}


@pytest.fixture
def make(tmp_path):
    """A fleet of two nodes with a GPU each, a catalog with one role, and the call that plans for them."""
    (tmp_path / "profiles").mkdir()
    (tmp_path / "catalog").mkdir()
    (tmp_path / "catalog/roles.yaml").write_text(ROLES)
    for name in ("a", "b"):
        (tmp_path / f"profiles/{name}.json").write_text(json.dumps({"name": name, "memory_gb": 64, "gpus": [CARD]}))

    def call(**changed):
        return make_plan_file(
            tmp_path / "plan.yml",
            **{
                "profiles": tmp_path / "profiles",
                "hosts": ["a", "b"],
                "catalog": [str(tmp_path / "catalog")],
                **OPTIONS,
                **changed,
            },
        )

    return call


def place(made):
    return [(entry["role"], entry["node"]) for entry in made.document["assignments"]]


def test_the_text_is_the_document_without_how_it_was_reached(make):
    made = make()
    assert yaml.safe_load(made.text) == {key: value for key, value in made.document.items() if key != "changes"}
    assert place(made) == [("chat", "a")]
    assert "chat/0" in made.table
    assert "Since the last plan" not in made.table


def test_the_last_plan_is_what_runs_now(make, tmp_path):
    first = make(hosts=["b"])
    (tmp_path / "plan.yml").write_text(first.text)
    assert place(make()) == [("chat", "b")]
    assert place(make(fresh=True)) == [("chat", "a")]
    assert make(hosts=["b"]).text == first.text


def test_what_changed_stands_below_the_table(make, tmp_path):
    (tmp_path / "plan.yml").write_text(make().text)
    (tmp_path / "catalog/roles.yaml").write_text(ROLES.replace("chat", "talk"))
    table = make().table
    assert "Since the last plan:" in table
    assert "chat/0" in table
    assert "talk/0" in table


def test_a_part_of_the_inventory_is_a_warning(make, tmp_path):
    assert make().warnings == ()
    (warning,) = make(hosts=["b"]).warnings
    assert warning.startswith(f"{tmp_path}/profiles: 1 profile of nodes outside the inventory of this run (a.json): ")


def test_a_node_that_was_never_collected_is_no_error(make):
    assert place(make(hosts=["new", "b"])) == [("chat", "b")]


def test_everything_that_is_wrong_is_told_at_once(make, tmp_path):
    (tmp_path / "profiles/a.json").write_text("{")
    (tmp_path / "profiles/b.json").write_text(json.dumps({"name": "b", "gpus": [{"name": "x"}]}))
    (tmp_path / "catalog/roles.yaml").write_text(ROLES.replace("min_vram_gb", "min_vram"))
    (tmp_path / "plan.yml").write_text("version: 7\n")
    with pytest.raises(InputError) as caught:
        make()
    errors = str(caught.value).splitlines()
    assert errors[0].startswith(f"{tmp_path}/profiles/a.json:1: ends in the middle of a value")
    assert errors[1].startswith(
        f'{tmp_path}/catalog/roles.yaml:2:40: roles[0].needs.min_vram (role chat): unknown key "min_vram";'
    )
    assert f"{tmp_path}/plan.yml:1: version: must be 1, not 7" in errors
    assert f"{tmp_path}/plan.yml:1: assignments: is required" in errors
    assert "'index'" in errors[-1]
    assert (tmp_path / "plan.yml").read_text() == "version: 7\n"


def test_a_last_plan_that_is_no_yaml_is_an_error_that_names_the_way_out(make, tmp_path):
    (tmp_path / "plan.yml").write_text("a: [\n")
    with pytest.raises(
        InputError, match=r"plan\.yml:2: .*; correct it, or restore it from version control or a backup"
    ):
        make()
    assert place(make(fresh=True)) == [("chat", "a")]


def test_warnings_are_no_errors(make, tmp_path):
    model = "{name: m, kind: llm, vram_gb: 3, min_cc: 7.5, engines: [vllm], context: 8, license: cc-by-nc-4.0}"
    (tmp_path / "catalog/models.yaml").write_text(f"models:\n  - {model}\n")
    made = make()
    assert len(made.warnings) == 1
    assert "cc-by-nc-4.0" in made.warnings[0]


def test_the_last_plan_that_differs_is_kept_beside_the_new_one(make, tmp_path):
    path, kept = tmp_path / "out/plan.yml", tmp_path / "out/plan.previous.yml"
    first = make(hosts=["b"])
    write_plan_file(FileChange(path, None, first.text))
    assert not kept.exists()
    assert path.read_text() == first.text
    (tmp_path / "plan.yml").write_text(first.text)
    second = make(fresh=True)
    (change,) = find_changes({path: second.text})
    write_plan_file(change)
    assert kept.read_text() == first.text
    assert path.read_text() == second.text != first.text


def test_an_inventory_that_lost_most_nodes_wants_a_word(make, tmp_path):
    catalog = tmp_path / "catalog/roles.yaml"
    for name in ("c", "d", "e", "f"):
        (tmp_path / f"profiles/{name}.json").write_text(json.dumps({"name": name, "memory_gb": 64, "gpus": [CARD]}))
    hosts = ["a", "b", "c", "d", "e", "f"]
    catalog.write_text(ROLES.replace("chat,", "chat, count: 6,"))
    write_plan_file(FileChange(tmp_path / "plan.yml", None, make(hosts=hosts).text))
    # Two of six are a third and no more; one of however many is a node that was given up.
    assert len(place(make(hosts=hosts[2:]))) == 4
    with pytest.raises(InputError) as caught:
        make(hosts=hosts[3:])
    (told,) = caught.value.errors
    assert told.startswith(f"{tmp_path}/plan.yml: 3 of the 6 nodes with work are not in this inventory (a, b and c); ")
    assert len(place(make(hosts=hosts[3:], smaller=True))) == 3
    assert len(place(make(hosts=hosts[3:], fresh=True))) == 3
    catalog.write_text(ROLES.replace("chat,", "chat, count: 2,"))
    write_plan_file(FileChange(tmp_path / "plan.yml", None, make(hosts=["a", "b"], fresh=True).text))
    assert len(place(make(hosts=["b"]))) == 1


def test_what_the_inventory_declares_counts_when_the_plan_is_made(make):
    assert place(make(declared={"a": {"knaster_state": "cordoned"}})) == [("chat", "b")]
    assert place(make(declared={})) == [("chat", "a")]
    with pytest.raises(InputError, match=r"^a: knaster_state: must be one of ready, cordoned, draining"):
        make(declared={"a": {"knaster_state": "off"}})
