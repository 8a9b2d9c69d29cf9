# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""What holds of any catalog, however it is written."""

from __future__ import annotations

import copy
import json
import tempfile
import typing as t
from pathlib import Path

import yaml
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog import check
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import (
    check_catalog,
    examine_catalog,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.fingerprint import fingerprint
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.load import examine_directories
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.plain import plain_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import CatalogError
from hypothesis import given, settings
from hypothesis import strategies as st

SCHEMAS = Path(check.__file__).parent.parent / "_documents" / "schemas"
WORDS = st.sampled_from(
    ["", "a", "b", "chat", "vllm", "llamacpp", "tei", "sim", "vlm", "llm", "embedding", "l4", "rtx-4090", "8.9", "20m", "org/a",
     "/m", "--max-model-len", "8192", "--ctx-size", "--parallel", "4", "true", "largest", "nvidia", "awq"]
)  # fmt: skip
SCALARS = st.one_of(
    WORDS,
    st.integers(-3, 40),
    st.sampled_from([8192, 32768, 7.5, 8.9, 12.0]),
    st.booleans(),
    st.none(),
    st.floats(),
    st.text(max_size=5),
)


def fields_of(section: str, *way: str) -> list[str]:
    """Return the keys of a map in a section of the schemas; the way leads from an entry to the map."""
    node = json.loads((SCHEMAS / f"{section}.json").read_text("utf-8"))["properties"][section]["items"]
    for key in way:
        node = node["properties"][key]
    return list(node.get("items", node)["properties"])


MODEL_FIELDS = fields_of("models")
PROFILE_FIELDS = fields_of("models", "profiles")
ROLE_FIELDS = fields_of("roles")
NEEDS_FIELDS = fields_of("roles", "needs")
FIELDS = sorted({*MODEL_FIELDS, *PROFILE_FIELDS, *fields_of("models", "scaling"), *ROLE_FIELDS, *NEEDS_FIELDS})
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5)),
    max_leaves=12,
)


def record(fields: t.Mapping[str, t.Any], **known: st.SearchStrategy[t.Any]) -> st.SearchStrategy[dict[str, t.Any]]:
    """Maps with the fields of a record, most of them well formed where it is known how."""
    return st.fixed_dictionaries({}, optional={name: known.get(name, ANYTHING) for name in fields})


NAMES = st.sampled_from(["a", "b", "c", "chat"])
ENGINES = st.sampled_from(["vllm", "llamacpp", "tei", "sim"])
SMALL = st.integers(1, 8)
PROFILE = record(
    PROFILE_FIELDS,
    name=NAMES, engine=ENGINES, gpu_class=st.sampled_from(["l4", "rtx-4090"]), tp=SMALL, pp=SMALL, nodes=SMALL,
    args=st.lists(WORDS, max_size=4), priority=SMALL, weight=SMALL,
)  # fmt: skip
MODEL = record(
    MODEL_FIELDS,
    name=NAMES, kind=st.sampled_from(["llm", "embedding"]), engines=st.lists(ENGINES, max_size=3), vram_gb=st.integers(0, 90),
    min_cc=st.sampled_from([0, 7.5, 8.9, "12.0"]), aliases=st.lists(NAMES, max_size=2), fallbacks=st.lists(NAMES, max_size=2),
    source=st.just("org/a"), profiles=st.lists(PROFILE, max_size=3),
    scaling=st.fixed_dictionaries({}, optional={"min": st.integers(-2, 3), "max": st.integers(0, 3)}),
    memory=st.fixed_dictionaries({}, optional={"attention_heads": SMALL, "kv_heads": SMALL, "weights_gib": st.integers(1, 60)}),
    context=st.integers(0, 9999), context_length=st.integers(0, 9999),
)  # fmt: skip
ROLE = record(
    ROLE_FIELDS,
    name=NAMES, needs=record(NEEDS_FIELDS, engine=ENGINES, gpu=st.booleans(), min_vram_gb=SMALL), colocate=st.just("g"),
    slots=st.one_of(st.integers(0, 3), st.lists(st.one_of(NAMES, st.fixed_dictionaries({"name": NAMES, "model": NAMES})), max_size=3)),
)  # fmt: skip
SECTIONS = st.fixed_dictionaries(
    {
        "models": st.lists(st.one_of(MODEL, MODEL, ANYTHING), max_size=4),
        "roles": st.lists(st.one_of(ROLE, ANYTHING), max_size=3),
    }
)


@settings(max_examples=300, deadline=None)
@given(SECTIONS)
def test_any_data_is_a_catalog_or_a_list_of_mistakes(sections: dict[str, t.Any]) -> None:
    before = copy.deepcopy(sections)
    _catalog, problems = examine_catalog(sections)
    assert repr(sections) == repr(before)
    assert all(
        problem.message and (problem.remedy or "must " in problem.message) and "\n" not in str(problem)
        for problem in problems
    )
    assert len(set(map(str, problems))) == len(problems)


@settings(max_examples=300, deadline=None)
@given(SECTIONS)
def test_what_is_accepted_stays_as_it_is(sections: dict[str, t.Any]) -> None:
    try:
        catalog = check_catalog(sections["models"], sections["roles"]).catalog
    except CatalogError:
        return
    document = plain_catalog(catalog)
    again = check_catalog(document["models"], document["roles"]).catalog
    assert plain_catalog(again) == document
    prints = [fingerprint(profile) for model in catalog.models for profile in model.profiles]
    assert prints == [fingerprint(profile) for model in again.models for profile in model.profiles]


@settings(max_examples=150, deadline=None)
@given(SECTIONS, st.booleans())
def test_a_file_gives_the_same_as_its_data(sections: dict[str, t.Any], flow: object) -> None:
    with tempfile.TemporaryDirectory() as directory:
        for name, entries in sections.items():
            text = yaml.safe_dump({name: entries}, default_flow_style=bool(flow), sort_keys=False, allow_unicode=True)
            Path(directory, f"{name}.yaml").write_text(text, "utf-8")
        found = examine_directories([directory])
    _catalog, problems = examine_catalog(sections)
    texts = {(problem.code, problem.path, problem.severity) for problem in problems}
    assert {(problem.code, problem.path, problem.severity) for problem in found.problems} == texts
    assert all(problem.place.line and problem.place.column for problem in found.problems)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=60), st.binary(max_size=60), st.lists(st.sampled_from(
    ["models:", "\n", "  ", "- ", "name: a", "kind: llm", "{", "}", "[", "]", ", ", ": ", "&a ", "*a", "<<: ", "!x ", "? ", "|", '"', "#", "---", "\t"]
), max_size=30).map("".join)))  # fmt: skip
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "models.yaml").write_bytes(data)
        found = examine_directories([directory])
    assert all("\n" not in str(problem) and problem.message for problem in found.problems)
