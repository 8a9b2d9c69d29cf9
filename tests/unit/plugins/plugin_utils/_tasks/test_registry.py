# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""From files to files."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.yaml_text import dump_document
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import stop_at
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.outputs import Where, find_document_errors
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.settings import Settings
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.registry import (
    load_slots,
    make_outputs,
    read_slots,
)
from ansible_collections.knaster.inventory.tests.peers import documents

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "peers"))
from slots import HOSTILE, KIND_NAMES, fleet

ROLES = "roles:\n  - {name: chat, needs: {engine: vllm, min_vram_gb: 20}, slots: [main]}\n"
SEAT = {"role": "chat", "replica": 0, "node": "n1", "gpu_index": 0}
NAMES = [name for name in HOSTILE if not name.startswith("os.environ/")]


@pytest.fixture
def where(tmp_path):
    return Where(
        slots=tmp_path / "slots",
        gateway=tmp_path / "gateway",
        prometheus=tmp_path / "prometheus",
        engines=tmp_path / "engines",
    )


@pytest.fixture
def given(tmp_path):
    """A plan, a catalog and machines as files, and the call that reads them."""
    (tmp_path / "catalog").mkdir()
    (tmp_path / "catalog/roles.yaml").write_text(ROLES)
    (tmp_path / "plan.yml").write_text(dump_document(documents.plan(assignments=[SEAT])))
    vm = documents.vm(vmid=9101, config={"ipconfig0": "ip=10.0.0.5/24"})
    (tmp_path / "vms.yml").write_text(dump_document(documents.vms(vm)))
    return lambda **more: read_slots(tmp_path / "plan.yml", [str(tmp_path / "catalog")], tmp_path / "vms.yml", **more)


def write(made):
    for change in made.written:
        change.write()


def test_slots_from_files(given, tmp_path):
    (slot,), warnings, silent = given(registry_domain="gpu.example")
    assert (warnings, silent) == ([], [])
    assert slot["endpoint"] == "http://10.0.0.5:8000"
    (tmp_path / "vms.yml").unlink()
    (slot,), *_unused = given(registry_domain="gpu.example")
    assert slot["endpoint"] == "http://chat-0.gpu.example:8000"


def test_a_role_without_a_slot_is_named(given, tmp_path):
    (tmp_path / "plan.yml").write_text(
        dump_document(
            documents.plan(
                assignments=[SEAT, {**SEAT, "replica": 1, "slots": []}, {**SEAT, "role": "mute", "slots": []}]
            )
        )
    )
    slots, _warnings, silent = given()
    assert [slot["slot"] for slot in slots] == ["chat.0.main"]
    assert silent == ["chat", "mute"]


def test_without_virtual_machines_their_definitions_are_not_read(given, tmp_path):
    (tmp_path / "vms.yml").write_text("vms: 3\n")
    (slot,), *_unused = given(bare_metal=True)
    assert slot["endpoint"] == "http://n1:8000"


def test_without_virtual_machines_a_node_is_asked_where_the_inventory_says(given):
    (slot,), *_unused = given(bare_metal=True, variables_of={"n1": {"ansible_host": "192.0.2.7"}}.__getitem__)
    assert slot["endpoint"] == "http://192.0.2.7:8000"
    (slot,), *_unused = given(bare_metal=True, variables_of=lambda _node: {})
    assert slot["endpoint"] == "http://n1:8000"
    with pytest.raises(InputError, match=r"^n1: "):
        given(bare_metal=True, variables_of=lambda _node: {"knaster_address": "not an address"})


def test_everything_that_is_wrong_is_told_at_once(given, tmp_path):
    (tmp_path / "plan.yml").write_text("version: 7\n")
    (tmp_path / "vms.yml").write_text("vms: 3\n")
    (tmp_path / "catalog/roles.yaml").write_text(ROLES.replace("min_vram_gb", "min_vram"))
    with pytest.raises(InputError) as caught:
        given()
    errors = caught.value.errors
    assert f"{tmp_path}/plan.yml:1: version: must be 1, not 7" in errors
    assert f"{tmp_path}/vms.yml:1: vms: must be a list, not 3" in errors
    assert errors[-1].startswith(f"{tmp_path}/catalog/roles.yaml:2:")


def test_a_plan_that_is_not_there_or_no_yaml(given, tmp_path):
    (tmp_path / "plan.yml").write_text("a: [\n")
    with pytest.raises(InputError, match=r"plan\.yml:2: ends in the middle of a value"):
        given()
    (tmp_path / "plan.yml").unlink()
    with pytest.raises(InputError, match=r"plan\.yml: not found; run placement first"):
        given()


def test_names_never_leave_the_directories_and_all_files_parse(where, tmp_path):
    made = make_outputs(fleet(NAMES), where)
    assert len(made.wanted.texts) > 3 * len(NAMES)
    for path, text in made.wanted.texts.items():
        assert ".." not in path.parts
        assert path.resolve().is_relative_to(tmp_path)
        assert all(len(part.encode()) <= 255 for part in path.parts)
        text.encode("utf-8")
        if path.suffix in (".yaml", ".yml"):
            assert isinstance(yaml.load(text, yaml.CSafeLoader), dict)
        if path.suffix == ".json":
            json.loads(text)
    write(made)
    assert {one["slot"] for one in load_slots(where.slots)} == {one["slot"] for one in made.wanted.slots}
    assert {Path(folder) for folder, _dirs, _files in os.walk(tmp_path)} >= {where.slots, where.gateway}
    assert len(list(tmp_path.iterdir())) == 4


def test_what_is_read_again_is_what_was_written(where):
    made = make_outputs(fleet(NAMES), where)
    write(made)
    again = sorted(load_slots(where.slots), key=lambda slot: slot["slot"])
    assert again == sorted(made.wanted.slots, key=lambda slot: slot["slot"])


def test_unchanged_files_are_not_named(where):
    write(make_outputs(fleet(KIND_NAMES), where))
    slots = fleet(KIND_NAMES)
    assert make_outputs(slots, where).written == []
    slots[0]["node"] = "elsewhere"
    changed = [change.path for change in make_outputs(slots, where).written]
    assert where.slots / f"{slots[0]['slot']}.yaml" in changed
    assert len(changed) < 5


def test_only_our_own_files_go(where):
    slots = fleet(KIND_NAMES)[2:]
    write(make_outputs(slots, where))
    (where.slots / "mine.yaml").write_text("managed_by: me\n")
    (where.slots / "notes.txt").write_text('managed_by: "knaster.inventory"\n')
    (where.slots / "link.yaml").symlink_to(where.slots / f"{slots[1]['slot']}.yaml")
    gone = where.engines / slots[0]["slot"]
    (gone / "README").write_text("hands off\n")
    (where.engines / "start.sh").write_text((gone / "start.sh").read_text())
    kept = make_outputs(slots[1:], where)
    assert kept.removed == []
    made = make_outputs(slots[1:], where, prune=True)
    assert where.slots / f"{slots[0]['slot']}.yaml" in [change.path for change in made.removed]
    assert {change.path.name for change in made.removed if change.path.parent == gone} == {
        "start.sh",
        "engine.env",
        "compose.yaml",
        f"knaster-{slots[0]['slot']}.service",
    }
    assert len(made.removed) == 5


def test_a_strangers_file_is_not_overwritten(where):
    slots = fleet(KIND_NAMES)[:2]
    where.slots.mkdir()
    (where.slots / f"{slots[0]['slot']}.yaml").write_text("mine: yes\n")
    (where.slots / f"{slots[1]['slot']}.yaml").mkdir()
    with pytest.raises(InputError) as caught:
        make_outputs(slots, where)
    assert len(caught.value.errors) == 2
    assert "conflicts with an unmanaged file; move it" in caught.value.errors[0]
    assert "cannot be read: is a directory; put a file of this name in its place" in caught.value.errors[1]


def test_a_file_that_was_written_anew_by_hand_is_still_ours(where):
    slots = fleet(KIND_NAMES)[:1]
    where.slots.mkdir()
    (where.slots / f"{slots[0]['slot']}.yaml").write_text("version: 1\nmanaged_by: knaster.inventory\n")
    assert len(make_outputs(slots, where).written) > 1


def test_documents_are_held_against_the_schema(where):
    slots = fleet(KIND_NAMES)[:3]
    slots[0]["slot"] = "../../etc/x"
    slots[1] |= {"gpus": [{"index": -1}], "surprise": 1}
    slots[2]["slot"] = slots[1]["slot"]
    with pytest.raises(InputError) as caught:
        stop_at(find_document_errors([*slots, "x"]))
    told = str(caught.value)
    assert "slots[0]: slot: must match " in told
    assert 'not "../../etc/x"' in told
    assert "slots[1]: gpus[0].index: must be at least 0, not -1" in told
    assert 'slots[1]: surprise: unknown key "surprise"; ' in told
    assert f"slots[2]: the slot {slots[1]['slot']} stands twice" in told
    assert 'slots[3]: must be a map, not "x"' in told
    with pytest.raises(InputError) as caught:
        make_outputs([], where, Settings(images={"vllm": 3}, api_key_env="a b"))
    told = str(caught.value)
    assert "images: vllm: expected the name of an image" in told
    assert "api_key_env: 'a b' is not the name of a variable" in told
    assert find_document_errors({"a": 1}) == ["slots: expected a list of documents"]


def test_the_mark_comes_first_whatever_the_order_of_keys(where):
    slot = dict(reversed(fleet(KIND_NAMES)[0].items()))
    (text,) = [text for path, text in make_outputs([slot], where).wanted.texts.items() if path.parent == where.slots]
    assert text.startswith('---\nmanaged_by: "knaster.inventory"\n')
    assert text.endswith("\nversion: 1\n"), "a text that was cut lacks it"


def test_reading_slots(where):
    write(make_outputs(fleet(KIND_NAMES)[:3], where))
    (where.slots / "a.yaml").write_text("x: [\n")
    (where.slots / "b.yaml").write_text("some: thing\n")
    (where.slots / "c.yaml").write_text("managed_by: knaster.inventory\nversion: 2\n")
    (where.slots / "d.yaml").write_bytes(b"\xff\xfe")
    (where.slots / ".e.yaml").write_text("x: [\n")
    with pytest.raises(InputError) as caught:
        load_slots(where.slots)
    assert list(dict.fromkeys(Path(error.partition(":")[0]).name for error in caught.value.errors)) == [
        "a.yaml",
        "c.yaml",
        "d.yaml",
    ]
    with pytest.raises(InputError, match=r"cannot be read: no such file or directory; write the slots first"):
        load_slots(where.engines / "none")
