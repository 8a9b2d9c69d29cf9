# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""The catalog that is shipped: it is data, and data has mistakes like code."""

from __future__ import annotations

import pathlib
import re
from collections import Counter
from dataclasses import replace

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils import _gpu_table
from ansible_collections.knaster.inventory.plugins.module_utils._memory.fit import fits_at_all
from ansible_collections.knaster.inventory.plugins.module_utils._memory.need import Gpu
from ansible_collections.knaster.inventory.plugins.module_utils._models.sources import parse_source
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import examine_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.load import read_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.memory import serve, vram_gb
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.plain import plain
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import Shape
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import (
    ask_of_profile,
    gpu_refusal,
    models_fitting,
    models_fitting_cpu,
)

CATALOG = pathlib.Path(__file__).parents[2] / "catalog"
READ = read_catalog([str(CATALOG)])
MODELS = READ.catalog.models
ENGINES = READ.catalog.engines
CARDS = {card.gpu_class: card for card in _gpu_table.models()}
each_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)

# The warnings that are meant, with the model that each is about and why it is shipped all the same.
EXPLAINED = {
    "command-r-v01": "not for commercial use, and kept for those who may",
    "jina-embeddings-v3": "not for commercial use, and kept for those who may",
    "jina-reranker-m0": "not for commercial use, and kept for those who may",
}

# What weights of each kind ask of a GPU of NVIDIA; None where the engine alone decides.
MIN_CC = {
    "bf16": (8, 0),
    "fp16": (7, 5),
    "fp8-w8a8": (7, 5),
    "awq": (7, 5),
    "gptq": (7, 5),
    "mxfp4": (8, 0),
    "nvfp4-w4a4": (10, 0),
    "gguf": None,
}


def shape_of(gpu_class, memory_gb, memory_mib, compute_cap, *, vendor="nvidia"):
    return Shape(
        gpu_class=gpu_class,
        memory_gb=memory_gb,
        memory_mib=memory_mib,
        reserved_mib=None,
        compute_cap=compute_cap,
        vendor=vendor,
        mig=False,
    )


def test_every_warning_is_explained():
    warned = {re.search(r"\(model ([^)]+)\)", str(warning)).group(1) for warning in READ.problems}
    assert warned == set(EXPLAINED)
    assert {warning.code for warning in READ.problems} == {"licence"}


def test_there_is_a_choice():
    assert len(MODELS) >= 70
    assert len({model.source.partition(":")[0] for model in MODELS}) >= 70
    kinds = Counter(model.kind for model in MODELS)
    assert kinds["llm"] >= 50
    assert kinds["embedding"] >= 15
    assert kinds["reranker"] >= 8
    assert {model.quantization for model in MODELS} == set(MIN_CC)
    used = {profile.gpu_class for model in MODELS for profile in model.profiles}
    assert len(used) >= 15
    assert {profile.tp for model in MODELS for profile in model.profiles} == {1, 2, 4, 8}
    assert any(profile.nodes > 1 for model in MODELS for profile in model.profiles)


@each_model
def test_a_model_is_complete_and_never_placed_by_itself(model):
    assert model.scaling is None
    assert model.profiles
    assert bool(model.license) is not ("licence not traced" in model.source_note)
    assert model.source_note
    assert model.memory.weights_gib
    assert parse_source(model.source).repo
    assert ("embeddings" in model.capabilities) is (model.kind == "embedding")
    if model.kind == "llm":
        assert model.context
        assert model.context_length
        assert model.memory.kv_bytes_per_token


@each_model
def test_the_capability_follows_from_the_weights(model):
    assert model.min_cc == MIN_CC[model.quantization]
    assert (parse_source(model.source).quant is not None) is (model.quantization == "gguf")


@each_model
def test_its_size_follows_from_the_memory_facts(model):
    assert model.vram_gb is None
    size = vram_gb(model, ENGINES)
    assert size >= model.memory.weights_gib * 1024**3 / 1000**3
    assert read_back(size, model) is None, "what documents say of it is read back as what follows from the facts"


def read_back(size, model):
    catalog = {"models": [{**plain(model), "vram_gb": size}]}
    return examine_catalog(catalog, open_engines=True)[0].models[0].vram_gb


def test_its_size_never_promises_too_much():
    # A GPU of 16 GB under error correction: the one that leaves the least of what its box says.
    a2 = next(card for card in CARDS.values() if card.gpu_class == "a2")
    checked = 0
    for model in MODELS:
        size = vram_gb(model, ENGINES)
        if size > a2.memory_gb:
            continue
        gpu = Gpu(15356 * size / a2.memory_gb, 492 * size / a2.memory_gb)
        served = [serve(model, name, ENGINES[name]) for name in model.engines]
        assert any(fits_at_all(one.case(gpu)) is not False for one in served), model.name
        checked += 1
    assert checked > 40


@each_model
def test_every_profile_runs_on_its_class(model):
    for profile in model.profiles:
        if profile.gpu_class is None:
            assert ENGINES[profile.engine].cpu
            assert profile.min_memory_gb >= model.memory.weights_gib
            continue
        card = CARDS[profile.gpu_class]
        mib = card.printed_mib or card.memory_gb * 1024 * 15 // 16
        shape = shape_of(card.gpu_class, card.memory_gb, mib, card.compute_cap, vendor=card.vendor)
        assert gpu_refusal(ask_of_profile(model, profile, ENGINES, passthrough=True), shape) is None, profile.name
        if model.memory.attention_heads and ENGINES[profile.engine].split == "heads":
            assert model.memory.attention_heads % profile.tp == 0, profile.name


@each_model
def test_the_tightest_profile_comes_first(model):
    priorities = [profile.priority for profile in model.profiles]
    assert priorities == sorted(priorities, reverse=True)
    assert len(set(priorities)) == len(priorities)
    cards = [(p.tp * p.pp, CARDS[p.gpu_class].memory_gb) for p in model.profiles if p.gpu_class]
    assert cards == sorted(cards)


def test_models_of_one_architecture_state_one_geometry():
    by_base = {}
    for model in MODELS:
        base = re.sub(r"-(fp8|gptq|awq|nvfp4|q4|gguf)$", "", model.name)
        facts = (replace(model.memory, weights_gib=None), model.context, model.license)
        assert by_base.setdefault(base, facts) == facts, model.name


# No source has what these are wide inside.
WITHOUT_WIDTHS = {"ministral-3-14b", "granite-4.1-8b"}


@pytest.mark.parametrize("model", [model for model in MODELS if model.kind == "llm"], ids=lambda model: model.name)
def test_the_facts_of_a_model_agree(model):
    facts = model.memory
    assert (facts.window is None) == (facts.kv_bytes_per_window_token is None)
    assert facts.layers
    assert facts.attention_heads
    widths = (facts.vocab, facts.hidden, facts.intermediate)
    assert all(widths) or (model.name in WITHOUT_WIDTHS and not any(widths))
    if facts.kv_heads is None:
        # A latent: key and value are one vector, whose size every layer has.
        assert facts.kv_bytes_per_token % (2 * facts.layers) == 0
        assert facts.head_dim is None
        return
    assert facts.attention_heads % facts.kv_heads == 0
    each = 2 * 2 * facts.kv_heads * facts.head_dim
    windowed = facts.kv_bytes_per_window_token or 0
    if facts.state_bytes:
        assert facts.kv_bytes_per_token == facts.layers // 4 * each
    elif facts.full_kv_heads:
        # Gemma 4: those that see everything have fewer heads, of twice the size.
        layers = windowed // each
        wide = 2 * 2 * facts.full_kv_heads * facts.head_dim * 2
        assert (layers * each, (facts.layers - layers) * wide) == (windowed, facts.kv_bytes_per_token)
    else:
        assert facts.kv_bytes_per_token + windowed == facts.layers * each
        assert windowed % each == 0


def test_every_source_is_in_the_legend():
    text = (CATALOG / "models.yaml").read_text()
    legend = set(re.findall(r"(?:^#   |  )([A-Z])  \w", text, re.MULTILINE))
    for model in MODELS:
        named = set(re.findall(r"(?<![\w-])([A-Z])(?![\w.-])", re.sub(r"\([^)]*\)", "", model.source_note)))
        assert named, model.name
        assert named <= legend, (model.name, named - legend)


def test_roles_find_models_on_the_smallest_card_that_they_accept():
    for role in READ.catalog.roles:
        needs = role.needs
        if not needs.gpu:
            found = models_fitting_cpu(MODELS, needs.min_memory_gb, engine=needs.engine, kind=needs.kind)
        else:
            shape = shape_of("none", needs.min_vram_gb, needs.min_vram_gb * 960, needs.min_cc)
            found = models_fitting(MODELS, shape, engine=needs.engine, kind=needs.kind, engines=ENGINES)
        assert found, role.name


def test_the_stack_is_there():
    kinds = {role.name: (role.needs.kind, role.needs.gpu, role.cpu_fallback) for role in READ.catalog.roles}
    assert kinds == {
        "llm-large": ("llm", True, False),
        "llm-small": ("llm", True, False),
        "embedding": ("embedding", True, True),
        "rerank": ("reranker", True, True),
        "gateway": ("llm", False, False),
    }
    priorities = [role.priority for role in READ.catalog.roles]
    assert priorities == sorted(set(priorities))
