# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""What gateways are told."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.yaml_text import dump_document
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.gateways import make_gateway
from jsonschema import Draft202012Validator

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "peers"))
from slots import HOSTILE, fleet

PEERS = Path(__file__).resolve().parents[4] / "peers"


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


def by_name(found):
    """The entries of each name: id, model that is asked for, order."""
    names = {}
    for entry in found["model_list"]:
        params = entry["litellm_params"]
        told = (entry["model_info"]["id"], params["model"].rpartition("/")[2], params.get("order"))
        names.setdefault(entry["model_name"], []).append(told)
    return names


def test_an_alias_has_the_replicas_and_fallbacks_of_its_model():
    found = litellm(
        slot("a.0.x", "m", aliases=["n", "o"], fallbacks=["other", "absent"]),
        slot("a.1.x", "m", aliases=["n", "o"], fallbacks=["other", "absent"]),
        slot("b.0.x", "o", fallbacks=["absent"]),
        slot("c.0.x", "other"),
    )
    # What is a name of its own is no alias; who does not serve cannot step in.
    assert by_name(found) == {
        "m": [("a.0.x", "m", 1), ("a.1.x", "m", 1), ("c.0.x/m", "other", 2)],
        "n": [("a.0.x/n", "m", 1), ("a.1.x/n", "m", 1), ("c.0.x/n", "other", 2)],
        "o": [("b.0.x", "o", None)],
        "other": [("c.0.x", "other", None)],
    }
    ids = [entry["model_info"]["id"] for entry in found["model_list"]]
    assert len(set(ids)) == len(ids)


def test_what_is_included_overrides_no_setting_of_the_user():
    found = litellm(slot(aliases=["n"], fallbacks=["other"]), slot("a.1.x"), slot("b.0.x", "other"))
    # LiteLLM extends this one key, and replaces every other one that both files have.
    assert list(found) == ["model_list"]


def test_what_has_somebody_else_to_ask_is_given_up_in_time():
    def told(found, name):
        keys = ("num_retries", "cooldown_time", "timeout", "stream_timeout")
        entry = next(one for one in found["model_list"] if one["model_name"] == name)
        params = [entry["litellm_params"].get(key) for key in keys]
        return (*params, entry["model_info"].get("allowed_fails"))

    alone = (None, None, None, None, None)
    assert told(litellm(slot()), "m") == alone
    two = litellm(slot(), slot("a.1.x"), slot("b.0.x", "other"))
    assert told(two, "m") == (4, 5, 600, 60, 0)
    assert told(two, "other") == alone
    assert told(litellm(slot(fallbacks=["other"]), slot("b.0.x", "other")), "m") == (4, 5, 600, 60, 0)
    assert told(litellm(slot(), slot("a.1.x"), request_timeout=59), "m") == (4, 5, 59, 59, 0)
    rests = {"idle_timeout": 600, "startup_timeout": 1800}
    assert told(litellm(slot(**rests), slot("a.1.x", **rests)), "m") == (4, 5, 1800, 1800, 0)


@pytest.mark.parametrize("seconds", [0, -1, 86401, True, "60", 1.5, None])
def test_a_timeout_is_seconds(seconds):
    with pytest.raises(InputError, match="request_timeout: expected seconds from 1 to 86400"):
        litellm(request_timeout=seconds)
    assert litellm(request_timeout=1) == litellm(request_timeout=86400) == {"model_list": []}


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


SCHEMA = Draft202012Validator(json.loads((PEERS / "llama_swap.json").read_text()))
TIMEOUTS = {"connect": 10, "responseHeader": 600}


def spread(*targets):
    return {"strategy": "spillover", "targets": list(targets), "settings": {"spillover": 1}}


def test_llama_swap_of_the_fleet_asks_engines_and_starts_none():
    parts = [
        {"rank": rank, "node": f"n{rank}", "vm": {"name": f"v{rank}"}, "host": f"v{rank}", "gpu_indices": [0]}
        for rank in range(2)
    ]
    found = swap(
        slot(shards=parts, aliases=["n"]),
        slot("a.1.x", shards=parts, aliases=["n"]),
        slot("b.0.x", "other", engine="sim", aliases=["m", "n", "k"]),
        slot("c.0.x", "rests", source=None, idle_timeout=60, startup_timeout=1800),
        api_key_env="ENGINE_KEY",
    )
    key = {"apiKey": "${env.ENGINE_KEY}"}
    # The second replica of a model over several nodes is there as well; a bare name of two peers would be nobody's.
    assert found == {
        "models": {},
        "peers": {
            "a.0.x": {"proxy": "http://a-0-x:8000", "models": ["m"], **key, "timeouts": TIMEOUTS},
            "a.1.x": {"proxy": "http://a-1-x:8000", "models": ["m"], **key, "timeouts": TIMEOUTS},
            "b.0.x": {"proxy": "http://b-0-x:8000", "models": ["other", "k"], **key, "timeouts": TIMEOUTS},
            "c.0.x": {
                "proxy": "http://c-0-x:8000",
                "models": ["rests"],
                **key,
                "timeouts": {"connect": 10, "responseHeader": 1800},
            },
        },
        "selectors": {"m": spread("a.0.x/m", "a.1.x/m"), "n": spread("a.0.x/m", "a.1.x/m")},
    }
    assert list(SCHEMA.iter_errors(found)) == []
    assert swap(slot(), request_timeout=5)["peers"]["a.0.x"]["timeouts"]["responseHeader"] == 5


def test_llama_swap_on_one_machine():
    here = {"vm": {"name": "box"}}
    found = swap(
        slot(
            **here,
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
        slot("b.0.x", "other", kind="reranker", aliases=["m", "n", "k"], startup_timeout=60, **here),
        slot("c.0.x", "none", source=None, **here),
        slot("d.0.x", "elsewhere"),
        vm="box",
    )
    assert found["healthCheckTimeout"] == 1800
    cmd = "/usr/bin/env 'A=b c' vllm serve org/m --host 127.0.0.1 --port 8000 --served-model-name m n --max-model-len 8192"
    assert found["models"]["m"] == {
        "cmd": cmd,
        "proxy": "http://127.0.0.1:8000",
        "checkEndpoint": "/health",
        "name": "m",
        "description": "x",
        "ttl": 600,
        "capabilities": {"in": ["text", "image"], "out": ["text"], "tools": True, "context": 8192},
        "metadata": {"slot": "a.0.x", "role": "chat", "node": "n1", "max_output": 100, "routing_profile": "fast"},
        "aliases": ["n"],
    }
    assert list(found["models"]) == ["m", "other"]
    assert found["models"]["other"]["aliases"] == ["k"]
    assert found["models"]["other"]["capabilities"] == {"in": ["text"], "reranker": True}
    assert found["models"]["other"]["ttl"] == 0
    assert found["groups"] == {
        "box": {"swap": False, "exclusive": False, "persistent": True, "members": ["m", "other"]}
    }
    assert list(SCHEMA.iter_errors(found)) == []
    assert swap(slot(), vm="none") == {"healthCheckTimeout": 15, "models": {}}


def test_a_second_replica_on_a_machine_takes_its_share():
    here = {"vm": {"name": "box"}, "aliases": ["n"]}
    found = swap(slot(**here), slot("a.1.x", endpoint="http://box:8001", **here), vm="box")
    assert {key: (one["unlisted"], one["useModelName"]) for key, one in found["models"].items()} == {
        "a.0.x": (True, "m"),
        "a.1.x": (True, "m"),
    }
    assert found["selectors"] == {"m": spread("a.0.x", "a.1.x"), "n": spread("a.0.x", "a.1.x")}
    assert found["groups"]["box"]["members"] == ["a.0.x", "a.1.x"]
    assert list(SCHEMA.iter_errors(found)) == []


def test_llama_swap_on_one_node_of_bare_metal():
    bare = {"vm": None, "bare_metal": True, "gpus": [{"index": 1, "uuid": "GPU-a"}]}
    slots = [
        slot(node="rack_1", **bare),
        slot("b.0.x", "other", node="n2", **bare),
        slot("c.0.x", "m", node="n2", **bare),
    ]
    for name in ("rack_1",):
        found = swap(*slots, vm=name)
        assert list(found["models"]) == ["m"]
        assert found["models"]["m"]["proxy"] == "http://127.0.0.1:8000"
        assert "CUDA_VISIBLE_DEVICES=GPU-a" in found["models"]["m"]["cmd"].partition(" vllm serve")[0]
        assert list(found["groups"]) == ["rack_1"]
    assert list(swap(*slots, vm="n2")["models"]) == ["other", "m"]
    assert set(swap(*slots)["peers"]) == {"a.0.x", "b.0.x", "c.0.x"}
    assert len(litellm(*slots)["model_list"]) == 3


def test_llama_swap_gives_sglang_its_key_by_a_macro():
    found = swap(slot(engine="sglang"), api_key_env="ENGINE_KEY", vm="a-0-x")
    assert found["models"]["m"]["cmd"].endswith("--api-key ${env.SGLANG_API_KEY}")


@pytest.mark.parametrize("form", ["litellm", "llama-swap"])
def test_hostile_names_stay_text(form):
    names = [name for name in HOSTILE if not name.startswith("os.environ/")]
    slots = fleet(names)
    found = make_gateway(slots, form)
    text = dump_document(found)
    assert yaml.load(text, yaml.CSafeLoader) == found
    serving = {slot["slot"] for slot in slots if "model" in slot and "endpoint" in slot}
    if form == "litellm":
        assert {entry["model_info"]["id"].partition("/")[0] for entry in found["model_list"]} == serving
        return
    assert "${" not in text
    assert set(found["peers"]) == serving
    assert list(SCHEMA.iter_errors(found)) == []
    machines = {slot["vm"]["name"] for slot in slots}
    on_machines = [make_gateway(slots, form, vm=name) for name in sorted(machines)]
    assert [error for made in on_machines for error in SCHEMA.iter_errors(made)] == []
    commands = [model["cmd"] for made in on_machines for model in made["models"].values()]
    assert commands
    assert all(shlex.split(command) for command in commands)


def test_another_gateway_is_not_known():
    with pytest.raises(InputError, match='format: must be one of litellm, llama-swap, not "nginx"'):
        make_gateway([], "nginx")
