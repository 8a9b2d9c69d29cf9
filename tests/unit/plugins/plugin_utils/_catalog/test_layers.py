# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Layers: what a later directory changes of an earlier one, what it inherits, and where each key stands."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.layers import difference, overlay
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.load import (
    SHIPPED,
    examine_directories,
    read_catalog,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.plain import plain, plain_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import CatalogError
from hypothesis import given
from hypothesis import strategies as st

if t.TYPE_CHECKING:
    from pathlib import Path

BASE = {
    "name": "m",
    "kind": "llm",
    "source": "org/m",
    "quantization": "bf16",
    "vram_gb": 24,
    "min_cc": 8.0,
    "license": "mit",
    "engines": ["vllm"],
    "context": 8192,
    "memory": {"layers": 32, "attention_heads": 32},
    "slo": {"ttft_p99": "1s", "tpot_p99": "50ms"},
}

TEST_CHANGES: list[tuple[dict[str, t.Any], dict[str, t.Any]]] = [
    ({}, {}),
    ({"context": 4096}, {"context": 4096}),
    ({"context": 0}, {"context": 0}),
    ({"context": None}, {"context": ...}),
    ({"engines": ["sglang"]}, {"engines": ["sglang"]}),
    ({"memory": {"layers": 16, "window": 1024}}, {"memory": {"layers": 16, "attention_heads": 32, "window": 1024}}),
    ({"memory": {"layers": None}}, {"memory": {"attention_heads": 32}}),
    ({"slo": {"ttft_p99": {"a": 1}}}, {"slo": {"ttft_p99": {"a": 1}, "tpot_p99": "50ms"}}),
    ({"slo": None, "scaling": {"min": 1}}, {"slo": ..., "scaling": {"min": 1}}),
    ({"source": "org/m", "quantization": "bf16"}, {}),
    ({"source": "org/m-awq"}, {"source": "org/m-awq", "memory": ..., "quantization": ..., "vram_gb": ..., "min_cc": ..., "license": ...}),
    ({"quantization": "awq", "vram_gb": 12}, {"quantization": "awq", "vram_gb": 12, "memory": ..., "min_cc": ..., "license": ...}),
    ({"quantization": "awq", "memory": {"layers": 32}},
     {"quantization": "awq", "memory": {"layers": 32}, "vram_gb": ..., "min_cc": ..., "license": ...}),
]  # fmt: skip


@pytest.mark.parametrize(("change", "expected"), TEST_CHANGES)
def test_an_entry_changes_the_keys_that_it_has(change: dict[str, t.Any], expected: dict[str, t.Any]) -> None:
    below = copy.deepcopy(BASE)
    found, inherited = overlay(below, {"name": "m", **change})
    assert below == BASE
    assert found == {key: value for key, value in {**BASE, **expected}.items() if value is not ...}
    assert {key for (key, *more) in inherited if not more} == {key for key in found if key not in change} - {"name"}


def test_an_entry_may_replace_the_one_below_it() -> None:
    above = {"name": "m", "kind": "llm", "engines": ["vllm"], "replace": True}
    assert overlay(BASE, above) == (above, frozenset())
    assert overlay(above, {"name": "m", "lora": True})[0] == {
        "name": "m",
        "kind": "llm",
        "engines": ["vllm"],
        "lora": True,
    }


VALUES = st.one_of(
    st.integers(0, 2),
    st.lists(st.integers(0, 1), max_size=2),
    st.dictionaries(st.sampled_from("pq"), st.integers(0, 2)),
)
ENTRIES = st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES).map(lambda entry: {"name": "m", **entry})


@given(ENTRIES, ENTRIES)
def test_a_difference_is_what_makes_one_entry_of_the_other(below: dict[str, t.Any], entry: dict[str, t.Any]) -> None:
    assert overlay(below, difference(below, entry))[0] == entry


def write(directory: Path, **files: str) -> str:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / f"{name}.yaml").write_text(text)
    return str(directory)


def layers(tmp_path: Path, *texts: str) -> list[str]:
    return [write(tmp_path / f"l{number}", models=text) for number, text in enumerate(texts)]


MODELS = """\
models:
  - name: m
    kind: llm
    engines: [vllm]
    context: 8192
    memory: {layers: 32, attention_heads: 32}
    vram_gb: 8
  - {name: other, kind: llm, engines: [vllm], vram_gb: 8}
"""


def test_every_key_tells_its_layer(tmp_path: Path) -> None:
    directories = layers(tmp_path, MODELS, "models:\n  - name: m\n    lora: true\n    memory:\n      window: 1024\n")
    found = read_catalog(directories)
    model = found.catalog.models[0]
    assert (model.lora, model.context, model.memory and model.memory.layers, model.memory and model.memory.window) == (
        True,
        8192,
        32,
        1024,
    )
    below, own = f"{directories[0]}/models.yaml", f"{directories[1]}/models.yaml"
    assert found.sources["models"]["m"] == {
        "file": own,
        "line": 2,
        "replaces": [f"{below}:2"],
        "keys": {
            "name": f"{own}:2",
            "kind": f"{below}:3",
            "engines": f"{below}:4",
            "context": f"{below}:5",
            "memory": f"{own}:5",
            "vram_gb": f"{below}:7",
            "lora": f"{own}:3",
            "memory.layers": f"{below}:6",
            "memory.attention_heads": f"{below}:6",
            "memory.window": f"{own}:5",
        },
    }


def test_a_mistake_is_told_where_it_was_written(tmp_path: Path) -> None:
    wrong = "models:\n  - {name: x, kind: llm, engines: [vllm], vram_gb: 8}\n  - name: m\n    memory:\n      layers: many\n    context_length: 9000\n"
    directories = layers(tmp_path, MODELS.replace("8192", "eight"), wrong)
    texts = [str(problem).replace(f"{tmp_path}/", "") for problem in examine_directories(directories).problems]
    assert texts == [
        'l0/models.yaml:5:14: models[0].context (model m): must be a whole number, not "eight"',
        'l1/models.yaml:5:15: models[1].memory.layers (model m): must be a whole number, not "many"',
    ]
    directories = layers(tmp_path, MODELS, wrong.replace("many", "8"))
    texts = [str(problem).replace(f"{tmp_path}/", "") for problem in examine_directories(directories).problems]
    assert texts == [
        (
            "l1/models.yaml:6:21: models[1].context_length (model m): context_length 9000 is above context 8192, "
            "the longest that the model supports; at most 8192"
        )
    ]


def test_three_layers(tmp_path: Path) -> None:
    texts = (MODELS, "models: [{name: m, context: 4096}]\n", "models: [{name: m, lora: true, memory: {layers: 16}}]\n")
    directories = layers(tmp_path, *texts)
    found = read_catalog(directories)
    model = found.catalog.models[0]
    assert (model.context, model.lora, model.memory and model.memory.layers) == (4096, True, 16)
    source = found.sources["models"]["m"]
    assert source["replaces"] == [f"{directories[0]}/models.yaml:2", f"{directories[1]}/models.yaml:1"]
    assert source["keys"]["context"] == f"{directories[1]}/models.yaml:1"
    assert source["keys"]["memory.attention_heads"] == f"{directories[0]}/models.yaml:6"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("models:\n  - {name: others, scaling: {min: 0}}\n",
         ('l1/models.yaml:2:12: models[0].name (model others): no model of an earlier directory is called "others", '
          "and a new one needs kind; did you mean other?")),
        ("models:\n  - {name: nowhere-near, scaling: {min: 0}}\n",
         "l1/models.yaml:2:5: models[0].kind (model nowhere-near): is required; one of llm, embedding, reranker"),
    ],
)  # fmt: skip
def test_a_change_of_what_nobody_has(tmp_path: Path, text: str, expected: str) -> None:
    found = [
        str(one).replace(f"{tmp_path}/", "") for one in examine_directories(layers(tmp_path, MODELS, text)).problems
    ]
    assert found[0].removesuffix(f"; shipped among the directories adds the models of {SHIPPED}") == expected


def test_roles_gpus_and_engines_have_layers_too(tmp_path: Path) -> None:
    base = write(tmp_path / "base", roles="roles: [{name: r, needs: {engine: vllm, min_cc: 8.0}, count: 2}]\n",
                 engines="engines: [{name: mine, cpu: true}]\n", gpus="gpus: [{name: card, memory_gb: 24}]\n")  # fmt: skip
    site = write(tmp_path / "site", roles="roles: [{name: r, needs: {min_cc: null, kind: llm}}]\n",
                 engines="engines: [{name: mine, lora: false}]\n", gpus="gpus: [{name: card, compute_cap: 8.6}]\n")  # fmt: skip
    catalog = read_catalog([base, site]).catalog
    (role,) = catalog.roles
    assert (role.count, role.needs.engine, role.needs.kind, role.needs.min_cc) == (2, "vllm", "llm", None)
    assert (catalog.engines["mine"].cpu, catalog.engines["mine"].lora) == (True, False)
    assert (catalog.gpus[0].memory_gb, catalog.gpus[0].compute_cap) == ((24,), (8, 6))


def test_engines_and_classes_of_the_shipped_tables_are_changed_the_same_way() -> None:
    shipped = check_catalog([], []).catalog.engines
    changes = [
        {"name": "vllm", "overhead_gib": 3, "max_cc": 12.0, "quantizations": {"awq": {"min_cc": 8.0}, "mxfp4": None}},
        {"name": "tei", "metrics": None, "kinds": ["embedding"]},
        {"name": "sglang", "replace": True, "cpu": True},
    ]
    gpus = [{"name": "rtx-4090", "memory_mib": 24000}]
    catalog = check_catalog([], [], engines=changes, gpus=gpus).catalog
    vllm, tei, sglang = (catalog.engines[name] for name in ("vllm", "tei", "sglang"))
    assert (vllm.overhead_gib, vllm.utilisation, vllm.max_cc) == (3, shipped["vllm"].utilisation, (12, 0))
    assert set(vllm.quantizations) == {*shipped["vllm"].quantizations, "awq"} - {"mxfp4"}
    assert (tei.metrics, tei.kinds, tei.gaps, tei.min_cc) == (None, ("embedding",), shipped["tei"].gaps, (7, 5))
    assert plain(sglang) == {"name": "sglang", "cpu": True}
    assert (catalog.gpus[0].memory_mib, catalog.gpus[0].compute_cap) == (24000, (8, 9))
    document = plain_catalog(catalog)
    again = check_catalog([], [], engines=document["engines"], gpus=document["gpus"]).catalog
    assert (again.engines, again.gpus) == (catalog.engines, catalog.gpus)


# --- the catalog that comes with the collection


def test_two_lines_over_the_shipped_catalog_serve_a_model(tmp_path: Path) -> None:
    own = write(tmp_path / "c", models="models:\n  - {name: qwen3-8b, scaling: {min: 1}, fallbacks: [qwen3-4b]}\n",
                roles="roles: [{name: r, needs: {engine: vllm}, slots: [{name: s, model: qwen3-4b-awq}]}]\n")  # fmt: skip
    found = read_catalog([SHIPPED, own])
    assert sorted(model.name for model in found.catalog.models) == ["qwen3-4b", "qwen3-4b-awq", "qwen3-8b"]
    assert sorted(found.sources["models"]) == ["qwen3-4b", "qwen3-4b-awq", "qwen3-8b"]
    assert [role.name for role in found.catalog.roles] == ["r"]
    assert not found.problems
    model = found.catalog.by_name()["qwen3-8b"]
    assert model.is_open
    assert model.scaling is not None
    assert model.scaling.min == 1


def test_all_shipped_models_are_listed_where_the_user_has_none(tmp_path: Path) -> None:
    own = write(tmp_path / "c", roles="roles: []\n")
    found = read_catalog([SHIPPED, own])
    assert found.catalog.roles == ()
    assert len(found.catalog.models) == len(read_catalog([SHIPPED]).catalog.models)


def test_shipped_roles_are_used_where_the_user_has_none_and_it_is_said(tmp_path: Path) -> None:
    own = write(tmp_path / "c", models="models: [{name: qwen3-8b, lora: false}]\n")
    found = read_catalog([SHIPPED, own])
    assert found.catalog.roles == read_catalog([SHIPPED]).catalog.roles
    assert [str(problem) for problem in found.problems] == [
        f"{SHIPPED}/roles.yaml: no directory of yours has a roles.yaml: these roles are used; write one, or roles: [] for none"
    ]
    other = write(tmp_path / "d", roles="roles: [{name: llm-large, needs: {engine: vllm}}]\n")
    (role,) = read_catalog([SHIPPED, own, other]).catalog.roles
    assert role.slots == ()  # nothing of the shipped role of this name


def test_shipped_aliases_give_way(tmp_path: Path) -> None:
    shipped = next(model for model in read_catalog([SHIPPED]).catalog.models if model.aliases)
    alias = shipped.aliases[0]
    entry = "{kind: llm, engines: [vllm], name: "
    for text in (f"{entry}{alias}}}", f"{entry}mine, aliases: [{alias}]}}"):
        own = write(tmp_path / "c", models=f"models:\n  - {text}\n  - {{name: {shipped.name}, lora: false}}\n")
        models = read_catalog([SHIPPED, own]).catalog.by_name()
        assert models[alias].name != shipped.name
        assert alias not in models[shipped.name].aliases
    own = write(tmp_path / "c", models=f"models:\n  - {entry}a, aliases: [x]}}\n  - {entry}b, aliases: [x]}}\n")
    with pytest.raises(CatalogError, match="alias x of b is already an alias of a"):
        read_catalog([SHIPPED, own])


def test_licences_of_shipped_models_are_told_of_those_that_are_used(tmp_path: Path) -> None:
    warned = {problem.entry for problem in read_catalog([SHIPPED]).problems}
    name = min(str(entry).removeprefix("model ") for entry in warned)
    own = write(
        tmp_path / "c", models="models: [{name: x, kind: llm, engines: [vllm], vram_gb: 8}]\n", roles="roles: []\n"
    )
    assert not read_catalog([SHIPPED, own]).problems
    own = write(tmp_path / "c", models=f"models: [{{name: {name}, lora: false}}]\n", roles="roles: []\n")
    assert [problem.entry for problem in read_catalog([SHIPPED, own]).problems] == [f"model {name}"]


def test_a_model_that_nobody_knows_is_told_with_where_the_shipped_ones_are(tmp_path: Path) -> None:
    own = write(
        tmp_path / "c", roles="roles: [{name: r, needs: {engine: vllm}, slots: [{name: s, model: qwen3-8b}]}]\n"
    )
    (problem,) = examine_directories([own]).problems
    assert problem.remedy == f"it must be one that exists; shipped among the directories adds the models of {SHIPPED}"
    assert not examine_directories([SHIPPED, own]).problems
    own = write(tmp_path / "d", models="models: [{name: qwen3-8b, scaling: {min: 0}}]\n")
    problem = examine_directories([own]).problems[0]
    assert (
        problem.remedy == f"one of llm, embedding, reranker; shipped among the directories adds the models of {SHIPPED}"
    )
