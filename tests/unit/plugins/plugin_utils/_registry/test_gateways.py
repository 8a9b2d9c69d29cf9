# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""What gateways are told."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.yaml_text import dump_document
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.gateways import (
    make_gateway,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "peers"))
from slots import HOSTILE, fleet


def slot(name="a.0.x", model="m", **more):
    made = {
        "slot": name,
        "role": "chat",
        "replica": 0,
        "node": "n1",
        "vm": {"name": name.replace(".", "-")},
        "gpus": [{"index": 0}],
        "engine": "vllm",
        "endpoint": f"http://{name.replace('.', '-')}:8000",
        "paths": {"health": "/health"},
        "model": model,
        "kind": "llm",
        "source": "org/m",
    }
    made.update(more)
    return {key: value for key, value in made.items() if value is not None}


def litellm(*slots, **more):
    return make_gateway(slots, "litellm", **more)


def swap(*slots, **more):
    return make_gateway(slots, "llama-swap", **more)


def test_litellm_gets_all_that_the_catalog_says():
    told = {
        "description": "an 8B model",
        "context_length": 16384,
        "max_output": 2048,
        "capabilities": ["tools", "vision", "reasoning", "audio", "own"],
        "weight": 3,
        "routing_profile": "fast",
        "license": "mit",
        "quantization": "awq",
        "lora": True,
        "slo": {"ttft_p99": 500},
        "fabric": "ib-a",
        "startup_timeout": 300,
    }
    (entry,) = litellm(slot(**told))["model_list"]
    assert entry["model_name"] == "m"
    assert entry["litellm_params"] == {
        "model": "hosted_vllm/m",
        "api_base": "http://a-0-x:8000/v1",
        "api_key": "none",
        "weight": 3,
    }
    assert entry["model_info"] == {
        "id": "a.0.x",
        "mode": "chat",
        "description": "an 8B model",
        "max_input_tokens": 16384,
        "max_output_tokens": 2048,
        "max_tokens": 2048,
        "supports_function_calling": True,
        "supports_vision": True,
        "supports_reasoning": True,
        "supports_audio_input": True,
        "capabilities": ["tools", "vision", "reasoning", "audio", "own"],
        "role": "chat",
        "node": "n1",
        "fabric": "ib-a",
        "routing_profile": "fast",
        "license": "mit",
        "quantization": "awq",
        "lora": True,
        "slo": {"ttft_p99": 500},
        "startup_timeout": 300,
    }


@pytest.mark.parametrize(
    ("engine", "kind", "provider", "base", "mode"),
    [
        ("vllm", "llm", "hosted_vllm", "/v1", "chat"),
        ("vllm", "embedding", "hosted_vllm", "/v1", "embedding"),
        ("vllm", "reranker", "hosted_vllm", "/v1", "rerank"),
        ("sglang", "llm", "openai", "/v1", "chat"),
        ("sglang", "reranker", "hosted_vllm", "/v1", "rerank"),
        ("llamacpp", "llm", "openai", "/v1", "chat"),
        ("llamacpp", "reranker", "hosted_vllm", "/v1", "rerank"),
        ("tei", "embedding", "openai", "/v1", "embedding"),
        ("tei", "reranker", "huggingface", "", "rerank"),
        ("infinity", "embedding", "infinity", "", "embedding"),
        ("infinity", "reranker", "infinity", "", "rerank"),
        ("sim", "llm", "openai", "/v1", "chat"),
    ],
)
def test_each_engine_is_asked_its_way(engine, kind, provider, base, mode):
    (entry,) = litellm(slot(engine=engine, kind=kind))["model_list"]
    assert entry["litellm_params"]["model"] == f"{provider}/m"
    assert entry["litellm_params"]["api_base"] == f"http://a-0-x:8000{base}"
    assert entry["model_info"]["mode"] == mode


def test_the_key_is_only_named():
    (entry,) = litellm(slot(), api_key_env="ENGINE_KEY")["model_list"]
    assert entry["litellm_params"]["api_key"] == "os.environ/ENGINE_KEY"


def test_slots_that_nobody_can_ask_are_left_out():
    assert litellm(slot(model=None), slot(endpoint=None), slot(weight=0)) == {"model_list": []}


def test_names_and_fallbacks():
    found = litellm(
        slot("a.0.x", "m", aliases=["n", "o"], fallbacks=["other", "absent"]),
        slot("a.1.x", "m", aliases=["n", "o"], fallbacks=["other", "absent"]),
        slot("b.0.x", "o", fallbacks=["absent"]),
        slot("c.0.x", "other"),
    )
    assert [entry["model_name"] for entry in found["model_list"]] == ["m", "m", "o", "other"]
    # What is a name of its own is no alias; who does not serve cannot step in.
    assert found["router_settings"] == {"model_group_alias": {"n": "m"}, "fallbacks": [{"m": ["other"]}]}


def test_a_model_that_rests_may_take_until_it_is_loaded():
    def timeout(**more):
        return litellm(slot(**more))["model_list"][0]["litellm_params"].get("timeout")

    assert timeout(idle_timeout=600, startup_timeout=1800) == 1800
    assert timeout(idle_timeout=600, startup_timeout=60) == 600
    assert timeout(startup_timeout=1800) is None


def test_no_text_becomes_a_variable_of_litellm():
    (entry,) = litellm(slot(description="os.environ/HOME", node="os.environ/HOME", capabilities=["os.environ/HOME"]))[
        "model_list"
    ]
    info = entry["model_info"]
    assert (info["description"], info["node"], info["capabilities"]) == (" os.environ/HOME",) * 2 + (
        [" os.environ/HOME"],
    )
    with pytest.raises(InputError) as caught:
        litellm(slot(model="os.environ/A"), slot("b.0.x", aliases=["os.environ/B"]))
    assert len(caught.value.errors) == 2
    assert "rename the model" in caught.value.errors[0]


def test_llama_swap():
    found = swap(
        slot(
            aliases=["n"],
            description="x",
            idle_timeout=600,
            startup_timeout=1800,
            capabilities=["tools", "vision"],
            context_length=8192,
            max_output=100,
            routing_profile="fast",
            profile={"name": "p", "env": {"A": "b c"}},
        ),
        slot("a.1.x", aliases=["n"]),
        slot("b.0.x", "other", kind="reranker", aliases=["m", "n", "k"], startup_timeout=60),
        slot("c.0.x", "none", source=None),
    )
    assert found["healthCheckTimeout"] == 1800
    first = found["models"]["m"]
    assert first == {
        "cmd": "/usr/bin/env 'A=b c' vllm serve org/m --host 0.0.0.0 --port 8000 --served-model-name m n --max-model-len 8192",
        "proxy": "http://a-0-x:8000",
        "checkEndpoint": "/health",
        "name": "m",
        "description": "x",
        "ttl": 600,
        "capabilities": {"in": ["text", "image"], "out": ["text"], "tools": True, "context": 8192},
        "metadata": {"slot": "a.0.x", "role": "chat", "node": "n1", "max_output": 100, "routing_profile": "fast"},
        "aliases": ["n"],
    }
    assert list(found["models"]) == ["m", "a.1.x", "other"]
    assert found["peers"] == {"c.0.x": {"proxy": "http://c-0-x:8000", "models": ["none"]}}
    assert found["models"]["a.1.x"]["unlisted"] is True
    assert found["models"]["a.1.x"]["useModelName"] == "m"
    assert found["models"]["a.1.x"]["ttl"] == 0
    assert found["models"]["other"]["aliases"] == ["k"]
    assert found["models"]["other"]["capabilities"] == {"in": ["text"], "reranker": True}
    assert found["groups"]["a-0-x"] == {"swap": False, "exclusive": False, "persistent": True, "members": ["m"]}


def test_llama_swap_on_one_machine():
    found = swap(slot(), slot("b.0.x", "other"), vm="b-0-x")
    assert list(found["models"]) == ["other"]
    assert found["models"]["other"]["proxy"] == "http://127.0.0.1:8000"
    assert swap(slot(), vm="none") == {"healthCheckTimeout": 15, "models": {}}


def test_llama_swap_on_one_node_of_bare_metal():
    bare = {"vm": None, "bare_metal": True, "gpus": [{"index": 1, "uuid": "GPU-a"}]}
    slots = [
        slot(node="rack_1", **bare),
        slot("b.0.x", "other", node="n2", **bare),
        slot("c.0.x", "m", node="n2", **bare),
    ]
    for name in ("rack_1", "rack-1"):
        found = swap(*slots, vm=name)
        assert list(found["models"]) == ["m"]
        assert found["models"]["m"]["proxy"] == "http://127.0.0.1:8000"
        assert found["models"]["m"]["cmd"].startswith("/usr/bin/env CUDA_VISIBLE_DEVICES=GPU-a vllm serve")
        assert list(found["groups"]) == ["rack-1"]
    groups = {name: group["members"] for name, group in swap(*slots)["groups"].items()}
    assert groups == {"rack-1": ["m"], "n2": ["other", "c.0.x"]}
    assert len(litellm(*slots)["model_list"]) == 3


def test_llama_swap_only_asks_what_it_can_not_start():
    parts = [
        {"rank": rank, "node": f"n{rank}", "vm": {"name": f"v{rank}"}, "host": f"v{rank}", "gpu_indices": [0]}
        for rank in range(2)
    ]
    found = swap(
        slot(shards=parts, aliases=["n"]),
        slot("b.0.x", "m", aliases=["n", "k"], engine="sim"),
        slot("c.0.x", "k"),
        api_key_env="ENGINE_KEY",
    )
    assert list(found["models"]) == ["k"]
    assert found["peers"] == {
        "a.0.x": {"proxy": "http://a-0-x:8000", "models": ["m", "n"], "apiKey": "${env.ENGINE_KEY}"}
    }
    assert "peers" not in swap(slot(shards=parts), vm="a-0-x")


def test_llama_swap_gives_sglang_its_key_by_a_macro():
    found = swap(slot(engine="sglang"), api_key_env="ENGINE_KEY")
    assert found["models"]["m"]["cmd"].endswith("--api-key ${env.SGLANG_API_KEY}")


@pytest.mark.parametrize("form", ["litellm", "llama-swap"])
def test_hostile_names_stay_text(form):
    names = [name for name in HOSTILE if not name.startswith("os.environ/")]
    slots = fleet(names)
    found = make_gateway(slots, form)
    text = dump_document(found)
    assert yaml.load(text, yaml.CSafeLoader) == found
    if form == "litellm":
        assert len(found["model_list"]) == sum("model" in slot and "endpoint" in slot for slot in slots)
    else:
        assert "${" not in text
        assert all(shlex.split(model["cmd"]) for model in found["models"].values())


def test_another_gateway_is_not_known():
    with pytest.raises(InputError, match='format: must be one of litellm, llama-swap, not "nginx"'):
        make_gateway([], "nginx")
