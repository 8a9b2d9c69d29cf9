# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""The catalog of examples/situations: planned on its nodes, and every engine told what the entry means."""

from __future__ import annotations

import pathlib

import pytest
import yaml
from ansible_collections.knaster.inventory.plugins.filter.profiles import FilterModule
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.load import read_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.commands import command_documents
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.slots import make_slots

ROOT = pathlib.Path(__file__).parents[2]
HERE = ROOT / "examples/situations"
CATALOG = read_catalog([str(ROOT / "catalog"), str(HERE / "catalog")]).catalog
WRITTEN = [entry["name"] for entry in yaml.safe_load((HERE / "catalog/models.yaml").read_text())["models"]]


@pytest.fixture(scope="module")
def made():
    """Return what each model takes and what starts it, by the name of the model."""
    profile = FilterModule().filters()["profile_from_outputs"]
    hosts = yaml.safe_load((HERE / "inventory.yml").read_text())["all"]["hosts"]
    nodes = [profile((ROOT / f"examples/rack/answers/{host}.txt").read_text(), name=host) for host in hosts]
    document = plan(nodes, [], CATALOG.models, engines=CATALOG.engines, passthrough=False)
    assert document["unplaced"] == []
    slots = make_slots(document, CATALOG, bare_metal=True)
    commands = {one["slot"]: one for one in command_documents(slots)}
    return {slot["model"]: (slot, commands[slot["slot"]]) for slot in slots}


def words(made, name):
    return made[name][1]["argv"]


def after(made, name, option):
    given = words(made, name)
    return given[given.index(option) + 1]


def test_every_model_has_its_place(made):
    assert set(made) == set(WRITTEN)


def test_copies_take_their_gpus_and_experts_are_spread(made):
    slot, command = made["qwen3-30b-a3b-fp8"]
    assert (slot["node"], len(slot["gpus"])) == ("h100-1", 4)
    assert after(made, "qwen3-30b-a3b-fp8", "--data-parallel-size") == "4"
    assert "--enable-expert-parallel" in command["argv"]
    assert "--tensor-parallel-size" not in command["argv"]


def test_one_model_has_an_image_of_its_own(made):
    assert made["gpt-oss-20b"][1]["compose"]["image"] == "vllm/vllm-openai:nightly"
    assert made["qwen3-embedding-0.6b"][1]["compose"]["image"] != "vllm/vllm-openai:nightly"


def test_the_engine_depends_on_the_gpu(made):
    slot, command = made["qwen3-8b"]
    assert (slot["engine"], slot["node"], slot["profile"]["weight"]) == ("sglang", "h100-1", 3)
    assert "sglang.launch_server" in command["argv"]


def test_a_draft_model_is_told_in_one_word_or_as_a_file(made):
    assert yaml.safe_load(after(made, "llama-3.1-8b-instruct", "--speculative-config"))["method"] == "eagle3"
    assert after(made, "llama-3.3-70b-instruct-q4", "--model-draft") == "/models/llama-3.2-1b-q8.gguf"
    assert after(made, "llama-3.3-70b-instruct-q4", "--cache-type-k") == "q8_0"


def test_experts_in_main_memory_leave_room_on_a_small_gpu(made):
    assert made["gpt-oss-120b-gguf"][0]["node"] == "rtx-1"
    assert after(made, "gpt-oss-120b-gguf", "--n-cpu-moe") == "30"


def test_pooling_and_pictures(made):
    assert after(made, "qwen3-embedding-0.6b", "--runner") == "pooling"
    assert "--reranking" in words(made, "qwen3-reranker-0.6b-gguf")
    slot, _command = made["gemma-3-12b-it-q4"]
    assert slot["capabilities"] == ["vision"]
    assert after(made, "gemma-3-12b-it-q4", "--mmproj") == "/models/gemma-3-12b-mmproj.gguf"
