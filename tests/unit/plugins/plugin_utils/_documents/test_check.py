# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents import check as check_module
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import (
    Violation,
    check,
    find_violations,
    format_path,
    schema_text,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "peers"))
from slots import KIND_NAMES, fleet

SLOT = fleet(KIND_NAMES)[0]


def without(*keys):
    return {key: value for key, value in SLOT.items() if key not in keys}


# What is changed in a slot, and what is said of it.
TEST_SENTENCES = [
    ({"replica": "0"}, 'replica: must be a whole number, not "0"; write it without quotes'),
    ({"replica": "x"}, 'replica: must be a whole number, not "x"'),
    ({"replica": 1.0}, "replica: must be a whole number, not 1.0"),
    ({"replica": True}, "replica: must be a whole number, not true"),
    ({"replica": -1}, "replica: must be at least 0, not -1"),
    ({"version": 2}, "version: must be 1, not 2"),
    ({"node": 7}, "node: must be text, not 7; write it in quotes"),
    ({"node": None}, "node: must be text, not null"),
    ({"gpus": {}}, "gpus: must be a list, not a map"),
    ({"gpus": ["01"]}, 'gpus[0]: must be a map, not "01"'),
    ({"gpus": [{"index": 0, "gpu_clas": "a"}]}, 'gpus[0].gpu_clas: unknown key "gpu_clas"; did you mean gpu_class?'),
    ({"gpus": [{}]}, "gpus[0].index: is required"),
    ({"kind": "lm"}, 'kind: must be one of llm, embedding, reranker, not "lm"; did you mean llm?'),
    ({"kind": "picture"}, 'kind: must be one of llm, embedding, reranker, not "picture"'),
    ({"memory_fraction": 1.5}, "memory_fraction: must be from 0 to 1, not 1.5"),
    ({"memory_fraction": float("nan")}, "memory_fraction: must be a number, not nan"),
    ({"role": "a", "replica_of": "b"}, "must have only one of the keys role, replica_of"),
    ({"vm": {"name": "a"}, "bare_metal": True}, "must have only one of the keys vm, bare_metal"),
    ({"slot": "a.0.b\n"}, 'slot: must match ^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$, such as "chat.0.main", not "a.0.b\\n"'),
]


@pytest.mark.parametrize(("change", "sentence"), TEST_SENTENCES)
def test_each_mistake_is_a_sentence_with_its_place_and_remedy(change, sentence):
    assert check(
        {**without("role", "replica_of", "vm", "bare_metal"), "role": "a", "bare_metal": True, **change},
        "slot",
        "x.yml",
    ) == [f"x.yml: {sentence}"]


def test_one_of_two_keys_is_needed():
    (found,) = find_violations(without("role", "replica_of"), "slot")
    assert found == Violation((), "oneOf", "must have one of the keys role, replica_of")


def test_a_document_of_another_type_is_one_mistake():
    for document in (None, [], "text", 7):
        assert len(find_violations(document, "slot")) == 1


def test_a_choice_is_told_by_the_branch_that_was_meant():
    def said(slots):
        document = {"roles": [{"name": "a", "slots": slots}]}
        return [text.partition("slots")[2] for text in check(document, "roles", "x") if "slots" in text]

    assert said([5]) == ["[0]: must be text or a map, not 5"]
    assert said([{"nme": "a"}]) == ["[0].name: is required", '[0].nme: unknown key "nme"; did you mean name?']
    assert said(["%"])[0].startswith("[0]: must match ")
    vm = {"roles": [{"name": "a", "vm": {"memory_mib": 7}}]}
    assert "roles[0].vm.memory_mib: must be at most 0 or at least 256, not 7" in map(str, find_violations(vm, "roles"))
    for allowed in (0, 256):
        vm["roles"][0]["vm"]["memory_mib"] = allowed
        assert not [one for one in find_violations(vm, "roles") if "vm" in one.path]


def test_a_secret_is_not_told():
    profile = {"name": "p", "args": ["--api-key sk-1234"], "env": {"HF_TOKEN": ["hf_1234"], "A": ["b"]}}
    text = "\n".join(check({"models": [{"name": "a", "profiles": [profile]}]}, "models", "x"))
    assert "1234" not in text
    assert text.endswith("env.HF_TOKEN: must be text or a number")
    assert "env.A: must be text or a number, not a list\n" in text


def test_mistakes_come_in_the_order_of_their_places_and_many_are_counted():
    document = {**SLOT, "nodes": [1] * 60, "aliases": [2]}
    texts = check(document, "slot", "x")
    assert texts[0].startswith("x: aliases[0]: ")
    assert [text.partition(": ")[2].partition(":")[0] for text in texts[1:50]] == [f"nodes[{at}]" for at in range(49)]
    assert texts[50:] == ["x: and 11 more mistakes"]
    assert len(check({**SLOT, "nodes": [1] * 50}, "slot", "x")) == 50


def test_a_path_reads_as_people_write_it():
    assert format_path(("assignments", 3, "gpu", "uuid")) == "assignments[3].gpu.uuid"
    assert format_path(()) == ""


def test_a_missing_library_is_one_clear_error(monkeypatch):
    monkeypatch.setattr(check_module, "jsonschema", None)
    with pytest.raises(InputError, match="install the Python package jsonschema"):
        check_module._validator.__wrapped__("slot")


def _paths(schema, path=()):
    """Every place in a document that the schema says something of."""
    for name, below in schema.get("properties", {}).items():
        yield (*path, name)
        yield from _paths(below, (*path, name))
    if isinstance(schema.get("items"), dict):
        yield (*path, 0)
        yield from _paths(schema["items"], (*path, 0))


BROKEN = [None, True, -1, 1.5, "", "a\nb", "a b\0", [], [None], {}, {"x": 1}, "x" * 5000]


def test_the_check_and_the_published_schema_agree():
    schema = json.loads(schema_text("slot"))
    validator = jsonschema.Draft202012Validator(schema)
    count = 0
    for path in _paths(schema):
        for wrong in BROKEN:
            document = json.loads(json.dumps(SLOT))
            at = document
            try:
                for key in path[:-1]:
                    at = at[key]
                at[path[-1]] = wrong
            except (KeyError, IndexError, TypeError):
                continue
            count += 1
            assert bool(find_violations(document, "slot")) is not validator.is_valid(document), (path, wrong)
    assert count > 500
