# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""What is checked is what the published schemas say to everybody else, and the values have the same fields."""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t
from pathlib import Path

import jsonschema
import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._memory.facts import MemoryFacts
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog import check
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import examine_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
    Engine,
    GpuClass,
    Model,
    Needs,
    Profile,
    Role,
    Scaling,
    Slot,
)

SCHEMAS = Path(check.__file__).parent.parent / "_documents/schemas"
DOCUMENTS: dict[str, dict[str, t.Any]] = {
    name: json.loads((SCHEMAS / f"{name}.json").read_text("utf-8")) for name in check.SECTIONS
}

# What a schema can say of a document by itself; the other codes are about how fields and entries fit together.
NANOSECONDS = re.compile(r"\d+ is not a whole number of (milli)?seconds")
STRUCTURAL = {"wrong_type", "wrong_value", "unknown_key", "missing"}

ODD_VALUES: list[t.Any] = [
    None, True, False, 0, 1, -1, 2, 7.5, 8.9, 20.5, 89, 64.0, 65, 4097, 70000, 10**7, 2**31, 10**12, -(10**7), 0.5,
    "", " ", "a", "A-b", "a b", "a/b", "-a", "a-", "a\nb", "8.9", "8.", "12.1", "89", "0.0", "abc", "true", "x" * 5000,
    "20m", "1h30m", "1h 30m", "90s", "500ms", "20M", "m", "1.5h", "-5m", "30", "1m2h", "1 m",
    "/", "/x", "/a/../b", "/a/..b", "./x", "~/x", "https://x/y", "org/name", "org/name@main", "org/name:Q4_K_M",
    "org/name/file.gguf", "org/name/other", "a..b",
    "llm", "LLM", "nvidia", "largest", "awq", "heads", "vllm", "10de:27b2", "10DE:27B2", "/health",
    [], ["a"], ["a", "a"], ["a", "b"], ["a b"], [""], [1], [1, "a"], [True], [None], [["a"]], [{}], ["-x y"], ["--x=1 2"],
    ["--x", "y z"], ["llm"], ["nvidia", "amd"], ["10de:27b2"], [24, 48], [-1],
    {}, {"a": "b"}, {"a": 1}, {"a": True}, {"a": None}, {"a": []}, {"a-b": "x"}, {"": "x"}, {"name": "a"},
    {"name": "a", "model": "chat"}, {"min": 1, "max": 2}, {"min": -1}, {"layers": 1}, {"awq": {"min_cc": 8.0}},
    {"awq": None}, {"engine": "vllm"}, [{"name": "a"}], [{"name": "a", "model": "chat"}, "b"], [{"model": "chat"}],
]  # fmt: skip

MODEL = {"name": "chat", "kind": "llm", "engines": ["vllm"], "source": "org/chat"}
PROFILE = {"name": "p", "gpu_class": "l4"}
ROLE = {"name": "r", "needs": {"engine": "vllm"}}

# Each record of the language: its section, the fields that the checks read, and a document around a changed record.
RECORDS: dict[str, tuple[str, type | None, t.Any]] = {
    "model": ("models", Model, lambda change: {**MODEL, **change}),
    "profile": ("models", Profile, lambda change: {**MODEL, "profiles": [{**PROFILE, **change}]}),
    "scaling": ("models", Scaling, lambda change: {**MODEL, "scaling": change}),
    "slo": ("models", None, lambda change: {**MODEL, "slo": change}),
    "memory": ("models", MemoryFacts, lambda change: {**MODEL, "memory": change}),
    "role": ("roles", Role, lambda change: {**ROLE, **change}),
    "needs": ("roles", Needs, lambda change: {**ROLE, "needs": {"engine": "vllm", **change}}),
    "slot": ("roles", Slot, lambda change: {**ROLE, "slots": [{"name": "s", **change}]}),
    "vm": ("roles", None, lambda change: {**ROLE, "vm": change}),
    "gpu": ("gpus", GpuClass, lambda change: {"name": "g", **change}),
    "engine": ("engines", Engine, lambda change: {"name": "e", **change}),
    "window": ("engines", None, lambda change: {"name": "e", "quantizations": {"awq": change}}),
}
# What a value has that nobody writes: only the shipped table says it, or a plan finds it out.
NOT_WRITTEN = {"engine": {"gaps"}, "profile": {"rank", "found", "context_length", "sequences"}}
# What is written and is no part of a value: how it lies over an earlier one.
NOT_A_FIELD = {"replace"}


def schema_of(record: str) -> dict[str, t.Any]:
    entries: dict[str, dict[str, t.Any]] = {
        section: document["properties"][section]["items"] for section, document in DOCUMENTS.items()
    }
    model, role, engine = entries["models"], entries["roles"], entries["engines"]
    nested = {
        "model": model,
        "profile": model["properties"]["profiles"]["items"],
        "role": role,
        "slot": role["properties"]["slots"]["items"]["anyOf"][1],
        "gpu": entries["gpus"],
        "engine": engine,
        "window": engine["properties"]["quantizations"]["additionalProperties"],
    }
    if record in nested:
        return nested[record]
    return (model if record in model["properties"] else role)["properties"][record]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_schema_is_a_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(DOCUMENTS[name])
    assert not [
        node
        for node in walk(DOCUMENTS[name])
        if node.get("type") and "description" in node and not node["description"].endswith(".")
    ]


def walk(node: t.Any) -> t.Iterator[dict[str, t.Any]]:
    if isinstance(node, dict):
        yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from walk(child)


@pytest.mark.parametrize("record", RECORDS)
def test_same_fields(record: str) -> None:
    properties = schema_of(record)["properties"]
    value = RECORDS[record][1]
    if value:
        fields = {field.name for field in dataclasses.fields(value)} - NOT_WRITTEN.get(record, set())
        assert set(properties) - NOT_A_FIELD == fields
    assert all(field.get("description") or "anyOf" in field for field in properties.values())


@pytest.mark.parametrize("record", RECORDS)
def test_same_verdict(record: str) -> None:
    section, _value, around = RECORDS[record]
    fields = schema_of(record)["properties"]
    validator = jsonschema.Draft202012Validator(DOCUMENTS[section])
    base = {"models": [MODEL]} if section != "models" else {}
    differ = []
    changes = [{field: value} for field in fields for value in ODD_VALUES] + [{"unknown": 1}]
    for change in changes:
        document = around(change)
        schema_says = validator.is_valid({section: [document]})
        _catalog, problems = examine_catalog({**base, section: [document]})
        # That a number of nanoseconds is a whole number of seconds no schema can say.
        wrong = [problem for problem in problems if problem.code in STRUCTURAL]
        checks_say = not [problem for problem in wrong if not NANOSECONDS.match(problem.message)]
        if schema_says != checks_say:
            differ.append((change, "schema accepts" if schema_says else "schema refuses", [str(p) for p in problems]))
    assert not differ, "\n".join(str(item)[:300] for item in differ)


TEST_DEFAULTS = [
    ("models", "profile", "tp", "tp"),
    ("models", "profile", "pp", "pp"),
    ("models", "profile", "nodes", "nodes"),
    ("models", "profile", "weight", "weight"),
    ("models", "profile", "priority", "priority"),
    ("models", "profile", "engine", "engine"),
    ("models", "model", "placement_priority", "placement_priority"),
    ("models", "model", "lora", "lora"),
    ("roles", "role", "prefer", "prefer"),
    ("roles", "role", "count", "count"),
    ("roles", "role", "priority", "priority"),
    ("roles", "role", "cpu_fallback", "cpu_fallback"),
]


@pytest.mark.parametrize(("section", "record", "field", "attribute"), TEST_DEFAULTS)
def test_same_defaults(section: str, record: str, field: str, attribute: str) -> None:
    catalog, _problems = examine_catalog({"models": [{**MODEL, "profiles": [PROFILE]}], "roles": [ROLE]})
    value = {"profile": catalog.models[0].profiles[0], "model": catalog.models[0], "role": catalog.roles[0]}[record]
    assert schema_of(record)["properties"][field]["default"] == getattr(value, attribute)
