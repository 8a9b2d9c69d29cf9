# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Arguments at the model and at slots, and what of a model's capabilities a command switches on."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.capabilities import (
    args_for,
    join_args,
    switched_on,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog, examine_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.load import SHIPPED, read_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.plain import plain_catalog

MODEL: dict[str, t.Any] = {
    "name": "chat",
    "kind": "llm",
    "engines": ["vllm", "sglang", "llamacpp"],
    "source": "Qwen/Qwen3-8B",
    "vram_gb": 20,
    "profiles": [
        {"name": "a", "gpu_class": "l4", "args": ["--max-num-seqs", 8, "--seed=1"]},
        {"name": "c", "engine": "llamacpp"},
    ],
}

TEST_JOINED: list[tuple[list[str], list[str], tuple[str, ...]]] = [
    ([], ["--a", "1"], ("--a", "1")),
    (["--b"], ["--a", "1"], ("--b", "--a", "1")),
    (["--a", "2"], ["--a", "1"], ("--a", "2")),
    (["--a=2"], ["--a", "1", "--c"], ("--a=2", "--c")),
    (["--a_b", "2"], ["--a-b=1", "-c", "3"], ("--a_b", "2", "-c", "3")),
    (["--x"], ["--a", "-1", "--x", "5", "6", "--y"], ("--x", "--a", "-1", "--y")),
]


@pytest.mark.parametrize(("own", "more", "joined"), TEST_JOINED)
def test_an_option_that_is_given_is_not_given_twice(own: list[str], more: list[str], joined: tuple[str, ...]) -> None:
    assert join_args(own, more) == joined
    assert join_args(joined, more) == joined


def test_arguments_of_the_model_reach_its_profiles_by_engine() -> None:
    model = {**MODEL, "engine_args": {"vllm": ["--max-num-seqs", 64, "--enforce-eager"], "llama.cpp": ["--jinja"]}}
    catalog = check_catalog([model], []).catalog
    first, second = catalog.models[0].profiles
    assert first.args == ("--max-num-seqs", "8", "--seed=1", "--enforce-eager")
    assert second.args == ("--jinja",)
    document = plain_catalog(catalog)
    assert document["models"][0]["engine_args"] == {
        "vllm": ["--max-num-seqs", "64", "--enforce-eager"],
        "llamacpp": ["--jinja"],
    }
    assert check_catalog(document["models"], []).catalog == catalog


def test_they_are_part_of_what_is_checked() -> None:
    model = {**MODEL, "context": 4096, "engine_args": {"vllm": ["--max-model-len", "8192"]}}
    (problem,) = examine_catalog({"models": [model]})[1]
    assert "--max-model-len 8192 is 8192 per request, more than the 4096 that the model supports" in problem.message


TEST_ERRORS: list[tuple[dict[str, t.Any], str]] = [
    ({"vllm": ["--port", "1"]}, "models[0].engine_args.vllm[0] (model chat): --port is given by the slot"),
    ({"vllm": "--seed 1"}, 'models[0].engine_args.vllm (model chat): must be a list, not "--seed 1"'),
    ({"vllm": ["--seed 1"]}, 'models[0].engine_args.vllm[0] (model chat): "--seed 1" is two words in one item'),
    (
        {"tei": ["--x"]},
        "models[0].engine_args.tei (model chat): engine_args are for tei, which is not among the engines",
    ),
    ({"a b": ["--x"]}, "models[0].engine_args.a b (model chat): is not a valid key: it must be a name"),
]


@pytest.mark.parametrize(("engine_args", "expected"), TEST_ERRORS)
def test_mistakes_in_them(engine_args: dict[str, t.Any], expected: str) -> None:
    (problem,) = examine_catalog({"models": [{**MODEL, "engine_args": engine_args}]})[1]
    assert str(problem).startswith(expected)


def test_a_slot_has_arguments_of_its_own() -> None:
    slots = [{"name": "s", "model": "chat", "args": ["--max-num-seqs", 2]}, "t"]
    role = {"name": "r", "needs": {"engine": "vllm"}, "slots": slots}
    catalog = check_catalog([MODEL], [role]).catalog
    assert [slot.args for slot in catalog.roles[0].slots] == [("--max-num-seqs", "2"), ()]
    document = plain_catalog(catalog)
    assert document["roles"][0]["slots"] == [{"name": "s", "model": "chat", "args": ["--max-num-seqs", "2"]}, "t"]
    wrong = {**role, "slots": [{**slots[0], "args": ["--served-model-name", "x"]}]}  # type: ignore[dict-item]
    (problem,) = examine_catalog({"models": [MODEL], "roles": [wrong]})[1]
    assert problem.path == "roles[0].slots[0].args[0]"


TEST_SWITCHES: list[tuple[str, list[str], str, str]] = [
    ("Qwen/Qwen3-8B", ["tools", "reasoning"], "vllm", "--enable-auto-tool-choice --tool-call-parser hermes --reasoning-parser qwen3"),
    ("Qwen/Qwen3-8B", ["tools", "reasoning"], "sglang", "--tool-call-parser qwen --reasoning-parser qwen3"),
    ("Qwen/Qwen3-8B", ["reasoning"], "vllm", "--reasoning-parser qwen3"),
    ("Qwen/Qwen3-8B", [], "vllm", ""),
    ("Qwen/Qwen3-8B-GGUF", ["tools", "reasoning"], "llamacpp", ""),
    ("Qwen/Qwen3-Coder-30B-A3B-Instruct", ["tools"], "vllm", "--enable-auto-tool-choice --tool-call-parser qwen3_coder"),
    ("meta-llama/Llama-4-Scout-17B-16E-Instruct", ["tools", "vision"], "vllm",
     "--enable-auto-tool-choice --tool-call-parser llama4_pythonic"),
    ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", ["reasoning"], "vllm", "--reasoning-parser deepseek_r1"),
    ("/models/my-own", ["tools"], "vllm", ""),
]  # fmt: skip


@pytest.mark.parametrize(("source", "capabilities", "engine", "words"), TEST_SWITCHES)
def test_the_family_of_a_model_tells_its_parsers(source: str, capabilities: list[str], engine: str, words: str) -> None:
    model = {"name": "m", "kind": "llm", "engines": [engine], "source": source, "capabilities": capabilities}
    (made,) = check_catalog([model], []).catalog.models
    assert " ".join(args_for(made, engine)) == words
    named = {**model, "name": source.rpartition("/")[2], "source": "/models/x"}
    assert " ".join(args_for(check_catalog([named], []).catalog.models[0], engine)) == words


def test_a_parser_that_was_chosen_stays() -> None:
    model = {**MODEL, "capabilities": ["tools"], "engine_args": {"vllm": ["--tool-call-parser", "mine"]}}
    (made,) = check_catalog([model], []).catalog.models
    assert made.profiles[0].args[-3:] == ("--tool-call-parser", "mine", "--enable-auto-tool-choice")


TEST_ON: list[tuple[str, str, list[str]]] = [
    ("vllm", "", ["vision"]),
    ("vllm", "--enable-auto-tool-choice --tool-call-parser hermes", ["tools", "vision"]),
    ("vllm", "--tool-call-parser hermes", ["vision"]),
    (
        "vllm",
        "--enable_auto_tool_choice --tool-call-parser=hermes --reasoning-parser qwen3",
        ["tools", "reasoning", "vision"],
    ),
    ("vllm", "--language-model-only", []),
    ("sglang", "--tool-call-parser qwen", ["tools", "vision"]),
    ("llamacpp", "", ["tools", "reasoning"]),
    ("llamacpp", "--mmproj /models/mmproj.gguf", ["tools", "reasoning", "vision"]),
    ("llamacpp", "-mm /models/mmproj.gguf --no-jinja", ["vision"]),
    ("llamacpp", "--mmproj-url=https://example.com/mmproj.gguf", ["tools", "reasoning", "vision"]),
    ("llamacpp", "--mmproj /models/mmproj.gguf --no-mmproj", ["tools", "reasoning"]),
    ("llamacpp", "--no-jinja", []),
    ("ollama", "", ["tools", "reasoning", "vision"]),
]


@pytest.mark.parametrize(("engine", "args", "told"), TEST_ON)
def test_what_is_not_switched_on_is_not_told(engine: str, args: str, told: list[str]) -> None:
    assert list(switched_on(["tools", "reasoning", "vision"], engine, args.split())) == told


def test_every_shipped_model_is_told_as_it_is_started() -> None:
    """Of what the shipped models can do, this and nothing else has no parser in vLLM."""
    silent = set()
    for model in read_catalog([SHIPPED]).catalog.models:
        if "vllm" in model.engines:
            told = switched_on(model.capabilities, "vllm", args_for(model, "vllm"))
            silent |= {(model.name, word) for word in model.capabilities if word not in told}
    assert silent == {("command-r-v01", "tools"), ("deepseek-v3-0324", "reasoning")}
