# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""The catalog that is shipped: it is data, and data has mistakes like code."""

from __future__ import annotations

import pathlib
import random
import re
from collections import Counter
from dataclasses import replace

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils import _gpu_table
from ansible_collections.knaster.inventory.plugins.module_utils._memory.fit import fits_at_all
from ansible_collections.knaster.inventory.plugins.module_utils._memory.need import Gpu
from ansible_collections.knaster.inventory.plugins.module_utils._models.sources import parse_source
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import examine_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Scaling
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.load import read_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.memory import serve, vram_gb
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.plain import plain
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import Shape, read_nodes
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import (
    ask_of_profile,
    gpu_refusal,
    models_fitting,
    models_fitting_cpu,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.ways import with_ways
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import Options

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


@each_model
def test_a_model_is_complete_and_never_placed_by_itself(model):
    assert model.scaling is None
    # Arguments and what a node without a GPU needs; on GPUs it runs any way that fits.
    assert {profile.gpu_class for profile in model.profiles} in (set(), {None, "any"})
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
def test_a_profile_without_a_gpu_has_room_for_the_weights(model):
    for profile in model.profiles:
        if profile.gpu_class is None:
            assert ENGINES[profile.engine].cpu
            assert profile.min_memory_gb >= model.memory.weights_gib


def gpu(name, memory_gb, memory_mib, compute_cap, vendor="nvidia", **more):
    made = {"name": name, "memory_gb": memory_gb, "memory_mib": memory_mib, "compute_cap": compute_cap}
    return {**made, "vendor": vendor, **more}


def fleet(*nodes):
    """Nodes with these GPUs on one fabric."""
    return [
        {
            "name": f"n{number}",
            "memory_gb": 128,
            "fabrics": ["ib"],
            "gpus": [{"index": index, **each} for index, each in enumerate(gpus)],
        }
        for number, gpus in enumerate(nodes)
    ]


H100 = gpu("NVIDIA H100 80GB HBM3", 80, 81559, 9.0)
# Fleets of which the catalog knows nothing special, with how many of the models find room in each.
FLEETS = {
    "two RTX 5080": (fleet([gpu("NVIDIA GeForce RTX 5080", 16, 16303, 12.0)] * 2), 100),
    "four RX 7900 XTX": (fleet([gpu("Radeon RX 7900 XTX", 24, 24560, None, "amd")] * 4), 110),
    "one GB10": (fleet([gpu("NVIDIA GB10", None, None, 12.1, unified_memory=True)]), 145),
    "eight A10G": (fleet([gpu("NVIDIA A10G", 24, 23028, 8.6)] * 8), 150),
    "3090 and 4060 Ti": (
        fleet([gpu("NVIDIA GeForce RTX 3090", 24, 24576, 8.6), gpu("NVIDIA GeForce RTX 4060 Ti", 16, 16380, 8.9)]),
        95,
    ),
    "two nodes of eight H100": (fleet([H100] * 8, [H100] * 8), 165),
    "one Tesla T4": (fleet([gpu("Tesla T4", 16, 15360, 7.5)]), 55),
    "four Tesla P40": (fleet([gpu("Tesla P40", 24, 23040, 6.1)] * 4), 45),
    "two Arc Pro B60": (fleet([gpu("Intel Arc Pro B60", 24, 24480, None, "intel")] * 2), 40),
    "one MI300X": (fleet([gpu("AMD Instinct MI300X", 192, 196592, None, "amd")]), 115),
}


@pytest.mark.parametrize("name", FLEETS)
def test_every_model_runs_on_any_fleet_or_is_refused_with_what_it_lacks(name):
    nodes, least = FLEETS[name]
    read = read_nodes(nodes)
    wanted = [replace(model, profiles=(), scaling=Scaling(min=1, max=1)) for model in MODELS]
    ways = {model.name: model for model in with_ways(wanted, read, Options(engines=ENGINES))}
    here = {shape.gpu_class: shape for shape in read.shapes}
    runs, refusals = [], {}
    for model in MODELS:
        first = ways[model.name].profiles[0]
        refusal = gpu_refusal(ask_of_profile(model, first, ENGINES, passthrough=True), here[first.gpu_class])
        if refusal is None:
            runs.append(model)
            heads = model.memory.attention_heads
            assert ENGINES[first.engine].split != "heads" or first.tp == 1 or heads % first.tp == 0
        else:
            refusals[model.name] = refusal
    assert len(runs) >= least
    assert set(refusals.values()) <= {"vram", "cc_min", "cc_max", "engine"}
    # By the planner as a user asks it, for some of them.
    sample = random.Random(name)
    for model in sample.sample(runs, 4):
        made = plan(nodes, (), [ways[model.name]], engines=ENGINES)
        (replica,) = made["replicas"]
        assert replica["profile"] == ways[model.name].profiles[0].name
    for model_name in sample.sample(sorted(refusals), min(3, len(refusals))):
        (refused,) = plan(nodes, (), [ways[model_name]], engines=ENGINES)["unplaced"]
        told = {"vram": "GiB", "cc_min": "capability", "cc_max": "capability", "engine": "no build"}
        assert told[refusals[model_name]] in refused["reason"]


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
