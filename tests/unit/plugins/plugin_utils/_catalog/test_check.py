# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._memory.need import LEAST_CONTEXT
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import (
    check_catalog,
    examine_catalog,
    find_unknown_lists,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import CatalogError

PROFILE = {"name": "p", "gpu_class": "rtx-4090"}
MODEL: dict[str, t.Any] = {
    "name": "chat",
    "kind": "llm",
    "vram_gb": 20,
    "min_cc": 8.0,
    "engines": ["vllm", "llamacpp"],
    "context": 32768,
    "lora": True,
}
SERVED = {**MODEL, "source": "org/chat", "profiles": [PROFILE]}
ROLE: dict[str, t.Any] = {"name": "large", "needs": {"engine": "vllm", "min_vram_gb": 20}}


def changed(base: dict[str, t.Any], **changes: t.Any) -> dict[str, t.Any]:
    document = copy.deepcopy(base)
    document.update(changes)
    return {key: value for key, value in document.items() if value is not ...}


def model(**changes: t.Any) -> dict[str, t.Any]:
    return changed(MODEL, **changes)


def served(profile: dict[str, t.Any] | None = None, **changes: t.Any) -> dict[str, t.Any]:
    return changed(SERVED, profiles=[changed(PROFILE, **(profile or {}))], **changes)


def role(needs: dict[str, t.Any] | None = None, **changes: t.Any) -> dict[str, t.Any]:
    return changed(ROLE, needs=changed(ROLE["needs"], **(needs or {})), **changes)


# What is written, and the one error that it must give: its path, its message and its remedy.
TEST_MODEL_ERRORS: list[tuple[str, t.Any, str]] = [
    (
        "name missing",
        [model(name=...)],
        "models[0].name (model without a name): is required; such as name: qwen3-32b-awq",
    ),
    ("name null", [model(name=None)], "models[0].name (model without a name): must be text, not null"),
    (
        "name with blank",
        [model(name="a b")],
        'models[0].name (model a b): must be a name, not "a b"; letters, digits and . _ : @ + - with a letter or digit first, parts joined by /',
    ),
    (
        "name climbs",
        [model(name="../etc")],
        'models[0].name (model ../etc): must be a name, not "../etc"; letters, digits and . _ : @ + - with a letter or digit first, parts joined by /',
    ),
    ("name number", [model(name=7)], "models[0].name (model without a name): must be text, not 7; write it in quotes"),
    (
        "name twice",
        [model(), model()],
        "models[1].name (model chat): a second model is called chat; the first is at models[0].name",
    ),
    ("kind missing", [model(kind=...)], "models[0].kind (model chat): is required; one of llm, embedding, reranker"),
    (
        "kind unknown",
        [model(kind="lm")],
        'models[0].kind (model chat): must be one of llm, embedding, reranker, not "lm"; did you mean llm?',
    ),
    ("engines missing", [model(engines=...)], "models[0].engines (model chat): a model without profiles needs engines"),
    ("engines empty", [model(engines=[])], "models[0].engines (model chat): no engine can serve this model"),
    (
        "engines text",
        [model(engines="vllm")],
        'models[0].engines (model chat): must be a list, not "vllm"; write it in brackets, as a list',
    ),
    (
        "engine unknown",
        [model(engines=["vlm"])],
        'models[0].engines[0] (model chat): there is no engine "vlm"; did you mean vllm?',
    ),
    (
        "engine twice",
        [model(engines=["vllm", "vllm"])],
        'models[0].engines[1] (model chat): "vllm" appears twice; remove one of the two',
    ),
    (
        "engine and kind",
        [model(engines=["tei"])],
        "models[0].engines[0] (model chat): tei does not serve models of kind llm; it serves",
    ),
    (
        "vram text",
        [model(vram_gb="20")],
        'models[0].vram_gb (model chat): must be a number, not "20"; write it without quotes',
    ),
    ("vram negative", [model(vram_gb=-1)], "models[0].vram_gb (model chat): must be from 0 to 16384, not -1"),
    ("vram MiB", [model(vram_gb=20480)], "models[0].vram_gb (model chat): must be from 0 to 16384, not 20480"),
    ("vram truth", [model(vram_gb=True)], "models[0].vram_gb (model chat): must be a number, not true"),
    ("vram endless", [model(vram_gb=float("inf"))], "models[0].vram_gb (model chat): must be a number, not inf"),
    (
        "cc word",
        [model(min_cc="abc")],
        'models[0].min_cc (model chat): "abc" is not a valid compute capability; write major.minor, such as 8.9',
    ),
    (
        "cc as sm",
        [model(min_cc=89)],
        "models[0].min_cc (model chat): 89 is not a valid compute capability; did you mean 8.9?",
    ),
    (
        "cc digits",
        [model(min_cc=8.95)],
        'models[0].min_cc (model chat): 8.95 is not a valid compute capability; write it in quotes, such as "8.9"',
    ),
    (
        "cc list",
        [model(min_cc=[8, 9])],
        "models[0].min_cc (model chat): a list is not a valid compute capability; write major.minor, such as 8.9",
    ),
    (
        "context text",
        [model(context="32k")],
        'models[0].context (model chat): must be a whole number, not "32k"; write the number alone, without a unit',
    ),
    (
        "context digits",
        [model(context="32768")],
        'models[0].context (model chat): must be a whole number, not "32768"; write it without quotes',
    ),
    (
        "context fraction",
        [model(context=32768.5)],
        "models[0].context (model chat): must be a whole number, not 32768.5",
    ),
    ("lora word", [model(lora="maybe")], 'models[0].lora (model chat): must be true or false, not "maybe"'),
    ("unknown key", [model(vram=1)], 'models[0].vram (model chat): unknown key "vram"; did you mean vram_gb?'),
    ("entry no map", ["chat"], 'models[0] (model without a name): must be a map, not "chat"'),
    ("description list", [model(description=["a"])], "models[0].description (model chat): must be text, not a list"),
    (
        "alias is a name",
        [model(), model(name="b", aliases=["chat"])],
        "models[1].aliases[0] (model b): alias chat of b is already the name of chat (models[0].name)",
    ),
    (
        "alias is own name",
        [model(aliases=["chat"])],
        "models[0].aliases[0] (model chat): alias chat of chat is already the name",
    ),
    (
        "alias of two",
        [model(aliases=["x"]), model(name="b", aliases=["x"])],
        "models[1].aliases[0] (model b): alias x of b is already an alias of chat (models[0].aliases[0])",
    ),
    (
        "alias twice",
        [model(aliases=["x", "x"])],
        'models[0].aliases[1] (model chat): "x" appears twice; remove one of the two',
    ),
    (
        "fallback unknown",
        [model(fallbacks=["chap"])],
        'models[0].fallbacks[0] (model chat): fallback "chap" of chat is no model; did you mean chat?',
    ),
    (
        "fallback to itself",
        [model(fallbacks=["chat"])],
        "models[0].fallbacks[0] (model chat): fallbacks go round in a circle: chat -> chat; take",
    ),
    (
        "fallback to own alias",
        [model(aliases=["x"], fallbacks=["x"])],
        "models[0].fallbacks[0] (model chat): fallbacks go round in a circle: chat -> chat; take",
    ),
    (
        "fallback circle",
        [model(fallbacks=["b"]), model(name="b", fallbacks=["c"]), model(name="c", aliases=["d"], fallbacks=["chat"])],
        (
            "models[0].fallbacks[0] (model chat): fallbacks go round in a circle: chat -> b -> c -> chat "
            "(models[0].fallbacks[0], models[1].fallbacks[0], models[2].fallbacks[0])"
        ),
    ),
    (
        "fallback of another kind",
        [model(fallbacks=["e"]), model(name="e", kind="embedding")],
        "models[0].fallbacks[0] (model chat): a model of kind llm cannot fall back to e, of kind embedding",
    ),
    (
        "context_length",
        [model(context_length=40000)],
        (
            "models[0].context_length (model chat): context_length 40000 is above context 32768, the longest "
            "that the model supports"
        ),
    ),
    (
        "max_output",
        [model(context_length=4096, max_output=8192)],
        "models[0].max_output (model chat): max_output 8192 is above context_length 4096",
    ),
    (
        "max_output without served",
        [model(max_output=40000)],
        "models[0].max_output (model chat): max_output 40000 is above context 32768",
    ),
    (
        "slo word",
        [model(slo={"ttft_p99": "fast"})],
        'models[0].slo.ttft_p99 (model chat): "fast" is not a valid duration; write it such as 500ms',
    ),
    (
        "slo key",
        [model(slo={"ttft_p9": "1s"})],
        'models[0].slo.ttft_p9 (model chat): unknown key "ttft_p9"; did you mean ttft_p99?',
    ),
    (
        "slo no map",
        [model(slo="1s")],
        'models[0].slo (model chat): must be a map, not "1s"; write the number alone, without a unit',
    ),
    (
        "heads",
        [model(memory={"attention_heads": 32, "kv_heads": 5})],
        (
            "models[0].memory.kv_heads (model chat): 32 attention heads cannot share 5 key/value heads evenly; "
            "one of 1, 2, 4, 8, 16, 32"
        ),
    ),
    (
        "memory key",
        [model(memory={"heads": 3})],
        'models[0].memory.heads (model chat): unknown key "heads"; did you mean kv_heads?',
    ),
    (
        "quantization unknown",
        [model(quantization="int7")],
        (
            "models[0].quantization (model chat): must be one of bf16, fp16, fp8, fp8-w8a8, int8-w8a8, w4a16, "
            'w4a8-fp8, awq, gptq, bnb, mxfp4, nvfp4, nvfp4-w4a4, fp-quant, gguf, not "int7"'
        ),
    ),
    (
        "ceiling",
        [model(engines=["vllm"], quantization="int8-w8a8", min_cc=10.0)],
        "models[0].min_cc (model chat): min_cc 10.0 is above what vllm with int8-w8a8 weights runs on; at most 9.9",
    ),
    (
        "priority word",
        [model(placement_priority="high")],
        'models[0].placement_priority (model chat): must be a whole number, not "high"',
    ),
    ("source missing", [served(source=...)], "models[0].source (model chat): a model with profiles needs a source"),
    (
        "source relative",
        [served(source="./chat")],
        'models[0].source (model chat): "./chat" depends on who looks; write an absolute path',
    ),
    (
        "source address",
        [served(source="https://huggingface.co/org/chat")],
        'models[0].source (model chat): "https://huggingface.co/org/chat" is an address, not a hub id; write the id alone, such as org/chat',
    ),
    (
        "source climbs",
        [served(source="/models/../etc")],
        'models[0].source (model chat): "/models/../etc" is not a valid absolute path; write the path without ..',
    ),
    (
        "source words",
        [served(source="org/chat model")],
        'models[0].source (model chat): must be an absolute path or a hub id, not "org/chat model"; write it such as /path/to/weights or org/name',
    ),
]

TEST_PROFILE_ERRORS: list[tuple[str, t.Any, str]] = [
    (
        "profiles no list",
        [model(source="org/a", profiles={"name": "p"})],
        "models[0].profiles (model chat): must be a list, not a map",
    ),
    (
        "profile no map",
        [model(source="org/a", profiles=["p"])],
        'models[0].profiles[0] (model chat): must be a map, not "p"',
    ),
    (
        "name missing",
        [served({"name": ...})],
        "models[0].profiles[0].name (model chat): is required; such as name: rtx-4090",
    ),
    (
        "name twice",
        [changed(SERVED, profiles=[PROFILE, PROFILE])],
        (
            "models[0].profiles[1].name (model chat, profile p): a second profile is called p; the first is at "
            "models[0].profiles[0].name; give each its own name"
        ),
    ),
    (
        "unknown key",
        [served({"tps": 1})],
        'models[0].profiles[0].tps (model chat, profile p): unknown key "tps"; did you mean tp?',
    ),
    (
        "engine unknown",
        [served({"engine": "vlm"})],
        'models[0].profiles[0].engine (model chat, profile p): there is no engine "vlm"; did you mean vllm? An engine of your own is described in engines.yaml',
    ),
    (
        "engine not of the model",
        [served({"engine": "sglang"})],
        (
            "models[0].profiles[0].engine (model chat, profile p): engine sglang is not among the engines of the "
            "model; add it there, or use vllm or llamacpp"
        ),
    ),
    (
        "engine and kind",
        [served({"engine": "tei"}, engines=["tei"], kind="llm")],
        (
            "models[0].profiles[0].engine (model chat, profile p): tei does not serve models of kind llm; it "
            "serves embedding, reranker"
        ),
    ),
    (
        "no class",
        [served({"gpu_class": ...})],
        (
            "models[0].profiles[0].gpu_class (model chat, profile p): vllm needs a GPU, but the profile names no "
            "gpu_class; name the gpu_class, or use one of llamacpp, ollama, tei, infinity, sim"
        ),
    ),
    (
        "class null",
        [served({"gpu_class": None})],
        (
            "models[0].profiles[0].gpu_class (model chat, profile p): vllm needs a GPU, but the profile names no "
            "gpu_class; name the gpu_class, or use one of llamacpp, ollama, tei, infinity, sim"
        ),
    ),
    (
        "class capital",
        [served({"gpu_class": "RTX 4090"})],
        'models[0].profiles[0].gpu_class (model chat, profile p): "RTX 4090" is not a valid GPU class; did you mean rtx-4090?',
    ),
    (
        "cpu over nodes",
        [served({"gpu_class": ..., "engine": "llamacpp", "nodes": 2})],
        (
            "models[0].profiles[0].nodes (model chat, profile p): a profile for the CPU cannot span 2 nodes; "
            "name the gpu_class, or leave nodes out for the CPU"
        ),
    ),
    (
        "cpu with tp",
        [served({"gpu_class": ..., "engine": "llamacpp", "tp": 2})],
        (
            "models[0].profiles[0].tp (model chat, profile p): tp 2 splits the model over GPUs, but there is no "
            "gpu_class; name the gpu_class, or leave tp out for the CPU"
        ),
    ),
    (
        "cpu with GPUs",
        [served({"gpu_class": ..., "engine": "llamacpp", "gpus_per_node": 1})],
        (
            "models[0].profiles[0].gpus_per_node (model chat, profile p): gpus_per_node asks for GPUs, but there "
            "is no gpu_class; name the gpu_class, or leave gpus_per_node out for the CPU"
        ),
    ),
    (
        "GPUs and nodes",
        [served({"tp": 4, "nodes": 2, "gpus_per_node": 4})],
        (
            "models[0].profiles[0].gpus_per_node (model chat, profile p): gpus_per_node 4 x nodes 2 is 8, but tp "
            "x pp is 4; leave gpus_per_node out, or write 2"
        ),
    ),
    (
        "GPUs uneven",
        [served({"tp": 4, "nodes": 3})],
        (
            "models[0].profiles[0].nodes (model chat, profile p): tp x pp is 4, which 3 nodes cannot share "
            "evenly; nodes must divide 4: 1, 2, 4"
        ),
    ),
    (
        "GPUs of copies",
        [served({"tp": 2, "dp": 2, "gpus_per_node": 2})],
        (
            "models[0].profiles[0].gpus_per_node (model chat, profile p): gpus_per_node 2 x nodes 1 is 2, but tp "
            "x pp x dp is 4; leave gpus_per_node out, or write 4"
        ),
    ),
    (
        "copies over nodes",
        [served({"dp": 2, "nodes": 2})],
        (
            "models[0].profiles[0].nodes (model chat, profile p): the 2 copies of dp are on one node, but the "
            "profile has 2; leave nodes out; scaling.min gives more replicas"
        ),
    ),
    (
        "copies for any class",
        [served({"dp": 2, "gpu_class": "any"})],
        (
            "models[0].profiles[0].dp (model chat, profile p): a profile for any class has as many GPUs as one "
            "copy needs, so that dp has no place in it; name the gpu_class, or let scaling.min give more copies"
        ),
    ),
    (
        "copies of an engine that has none",
        [served({"dp": 2, "engine": "llamacpp"})],
        (
            "models[0].profiles[0].dp (model chat, profile p): llamacpp has no dp, which only engines that split "
            "a model by heads have; leave dp out; scaling.min gives more copies"
        ),
    ),
    (
        "experts on the CPU",
        [served({"expert_parallel": True, "engine": "llamacpp", "gpu_class": ...})],
        (
            "models[0].profiles[0].expert_parallel (model chat, profile p): expert_parallel spreads experts over "
            "GPUs, but there is no gpu_class; name the gpu_class, or leave expert_parallel out for the CPU"
        ),
    ),
    (
        "tp and heads",
        [served({"tp": 3}, memory={"attention_heads": 32, "kv_heads": 8})],
        (
            "models[0].profiles[0].tp (model chat, profile p): tp 3 does not divide the 32 attention heads of "
            "chat; one of 1, 2, 4, 8, 16, 32"
        ),
    ),
    (
        "pp and layers",
        [served({"pp": 3}, memory={"layers": 2})],
        "models[0].profiles[0].pp (model chat, profile p): pp 3 is more than the 2 layers of chat; at most 2",
    ),
    (
        "tp of one GPU",
        [served({"engine": "tei", "tp": 2}, engines=["tei"], kind="embedding")],
        (
            "models[0].profiles[0].tp (model chat, profile p): tei cannot spread one model over several GPUs, "
            "but tp is 2; leave tp out; scaling.min gives more copies"
        ),
    ),
    (
        "tp negative",
        [served({"tp": -1})],
        "models[0].profiles[0].tp (model chat, profile p): must be from 0 to 4096, not -1",
    ),
    (
        "old GPU",
        [served({"gpu_class": "gtx-1080"}, vram_gb=6, min_cc=...)],
        (
            "models[0].profiles[0].gpu_class (model chat, profile p): vllm does not run on gtx-1080 (compute "
            "capability 6.1); it needs at least 7.5"
        ),
    ),
    (
        "below min_cc",
        [served({"gpu_class": "rtx-2080-ti"}, vram_gb=6)],
        (
            "models[0].profiles[0].gpu_class (model chat, profile p): rtx-2080-ti has compute capability 7.5, "
            "below min_cc 8.0; name a newer class of GPUs, or lower min_cc of the model"
        ),
    ),
    (
        "above the ceiling",
        [served({"gpu_class": "rtx-5090"}, quantization="int8-w8a8")],
        (
            "models[0].profiles[0].gpu_class (model chat, profile p): vllm with int8-w8a8 weights does not run "
            "on rtx-5090 (compute capability 12.0); it needs at least 7.5, at most 9.9"
        ),
    ),
    (
        "in a gap",
        [served({"gpu_class": "b300-sxm6", "engine": "tei"}, engines=["tei"], kind="embedding")],
        (
            "models[0].profiles[0].gpu_class (model chat, profile p): tei does not run on b300-sxm6 (compute "
            "capability 10.3); it needs at least 7.5, at most 12.1, not 9.1 to 9.9, not 10.1 to 11.9"
        ),
    ),
    (
        "vendor",
        [served({"gpu_class": "rx-7900-xtx", "engine": "tei"}, engines=["tei"], kind="embedding")],
        (
            "models[0].profiles[0].gpu_class (model chat, profile p): tei does not run on GPUs of amd, and "
            "rx-7900-xtx is one; it runs on nvidia"
        ),
    ),
    (
        "too small",
        [served(vram_gb=28)],
        (
            "models[0].profiles[0].gpu_class (model chat, profile p): 28 GB per GPU is more than rtx-4090 has "
            "(24 GB); a larger class of GPUs, or a larger tp"
        ),
    ),
    (
        "too small by two",
        [served({"tp": 2}, vram_gb=49)],
        (
            "models[0].profiles[0].gpu_class (model chat, profile p): 25 GB per GPU is more than rtx-4090 has "
            "(24 GB); a larger class of GPUs, or a larger tp"
        ),
    ),
    (
        "context does not fit",
        [served(vram_gb=..., context_length=32768, memory={"weights_gib": 15, "kv_bytes_per_token": 262144})],
        (
            "models[0].profiles[0].gpu_class (model chat, profile p): chat needs 25.8 GiB a GPU with a context "
            "of 32768, but vllm may use 21.6 GiB of rtx-4090; the largest context here is 15360; or a larger "
            "class of GPUs, or a larger tp"
        ),
    ),
    (
        "args text",
        [served({"args": "--max-model-len 1"})],
        'models[0].profiles[0].args (model chat, profile p): must be a list, not "--max-model-len 1"; write it in brackets, as a list',
    ),
    (
        "args two words",
        [served({"args": ["--max-model-len 8192"]})],
        (
            'models[0].profiles[0].args[0] (model chat, profile p): "--max-model-len 8192" is two words in one '
            'item; the engine would read them as one; an item for each word: ["--max-model-len", "8192"]'
        ),
    ),
    (
        "args truth",
        [served({"args": ["--x", True]})],
        "models[0].profiles[0].args[1] (model chat, profile p): must be text or a number, not true",
    ),
    (
        "args context above",
        [served({"args": ["--max-model-len", 65536]})],
        (
            "models[0].profiles[0].args[1] (model chat, profile p): --max-model-len 65536 is 65536 per request, "
            "more than the 32768 that the model supports; at most 32768"
        ),
    ),
    (
        "args context below",
        [served({"args": ["--max_model_len=8K"]}, context_length=16384)],
        (
            "models[0].profiles[0].args[0] (model chat, profile p): --max-model-len 8K is 8192 per request, "
            "less than context_length 16384; give the engine more, or write context_length: 8192"
        ),
    ),
    (
        "llama.cpp slots",
        [served({"engine": "llamacpp", "args": ["--ctx-size", "8192", "--parallel", "4"]}, context_length=8192)],
        (
            "models[0].profiles[0].args[1] (model chat, profile p): --ctx-size 8192 over 4 slots is 2048 per "
            "request, less than context_length 8192; give the engine more, or write context_length: 2048"
        ),
    ),
    (
        "llama.cpp environment",
        [
            served(
                {"engine": "llamacpp", "env": {"LLAMA_ARG_CTX_SIZE": 8192, "LLAMA_ARG_N_PARALLEL": 2}},
                context_length=8192,
            )
        ],
        (
            "models[0].profiles[0].env.LLAMA_ARG_CTX_SIZE (model chat, profile p): LLAMA_ARG_CTX_SIZE 8192 over "
            "2 slots is 4096 per request, less than context_length 8192; give the engine more, or write "
            "context_length: 4096"
        ),
    ),
    (
        "args tp",
        [served({"args": ["-tp", "2"]})],
        "models[0].profiles[0].args[1] (model chat, profile p): -tp 2 contradicts tp 1 of the profile; leave it out: tp says it",
    ),
    (
        "args dp",
        [served({"args": ["--data-parallel-size", "8"]})],
        (
            "models[0].profiles[0].args[1] (model chat, profile p): --data-parallel-size 8 contradicts dp 1 of "
            "the profile; leave it out: dp says it"
        ),
    ),
    (
        "args dp of SGLang",
        [served({"engine": "sglang", "args": ["--dp-size=2"]}, engines=["sglang"])],
        (
            "models[0].profiles[0].args[0] (model chat, profile p): --dp-size 2 contradicts dp 1 of the profile; "
            "leave it out: dp says it"
        ),
    ),
    (
        "args experts",
        [served({"args": ["--enable-expert-parallel"]})],
        (
            "models[0].profiles[0].args[0] (model chat, profile p): --enable-expert-parallel is what "
            "expert_parallel of a profile says; leave it out, and write expert_parallel: true"
        ),
    ),
    (
        "context in the model's arguments",
        [served(context_length=8192, engine_args={"vllm": ["--seed", "1", "--max-model-len", "4096"]})],
        (
            "models[0].engine_args.vllm[3] (model chat): --max-model-len 4096 is 4096 per request, less than "
            "context_length 8192; give the engine more, or write context_length: 4096"
        ),
    ),
    (
        "context in the model's arguments, slots in the profile's",
        [
            served(
                {"engine": "llamacpp", "args": ["-np", "4"]},
                context_length=8192,
                engine_args={"llamacpp": ["-c=8192"]},
            )
        ],
        (
            "models[0].engine_args.llamacpp[0] (model chat): -c 8192 over 4 slots is 2048 per request, less than "
            "context_length 8192; give the engine more, or write context_length: 2048"
        ),
    ),
    (
        "GPUs in the model's arguments",
        [model(source="a/b", engine_args={"vllm": ["-tp", "2"]})],
        (
            "models[0].engine_args.vllm[1] (model chat): -tp 2 is decided where the model is placed; leave it "
            "out; tp of a profile says it"
        ),
    ),
    (
        "args port",
        [served({"args": ["--port", "9"]})],
        (
            "models[0].profiles[0].args[0] (model chat, profile p): --port is given by the slot that the replica "
            "serves; leave it out: address and names come from the plan, the weights from source"
        ),
    ),
    (
        "env truth",
        [served({"env": {"A": True}})],
        "models[0].profiles[0].env.A (model chat, profile p): must be text or a number, not true; write it in quotes",
    ),
    (
        "env name",
        [served({"env": {"A-B": "1"}})],
        (
            "models[0].profiles[0].env.A-B (model chat, profile p): is not a valid key: it must be letters, "
            "digits and underscores, and not begin with a digit"
        ),
    ),
    (
        "env list",
        [served({"env": ["A=1"]})],
        "models[0].profiles[0].env (model chat, profile p): must be a map, not a list",
    ),
    (
        "selector truth",
        [served({"node_selector": {"ssd": True}})],
        (
            "models[0].profiles[0].node_selector.ssd (model chat, profile p): must be text or a number, not "
            "true; write it in quotes"
        ),
    ),
    (
        "weight",
        [served({"weight": -1})],
        "models[0].profiles[0].weight (model chat, profile p): must be from 0 to 1000000, not -1",
    ),
    (
        "startup",
        [served({"startup_timeout": "soon"})],
        'models[0].profiles[0].startup_timeout (model chat, profile p): "soon" is not a valid duration; write it such as 20m, 90s or 1h30m',
    ),
    (
        "scaling without source",
        [model(scaling={"min": 1})],
        "models[0].source (model chat): a model with scaling needs a source; a path to the weights or a hub id",
    ),
    (
        "on demand without source",
        [model(scaling={"max": 1})],
        "models[0].source (model chat): a model with scaling needs a source",
    ),
    (
        "max below min",
        [served(scaling={"min": 3, "max": 1})],
        "models[0].scaling.max (model chat): max 1 is below min 3; at least 3, or leave max out",
    ),
    (
        "per_node and scaling",
        [served(per_node=1, scaling={"min": 2})],
        (
            "models[0].per_node (model chat): per_node runs one on every node that matches, so there is no number to scale; "
            "remove per_node, or scaling"
        ),
    ),
    (
        "max negative",
        [served(scaling={"max": -1})],
        "models[0].scaling.max (model chat): must be from 0 to 100000, not -1",
    ),
    (
        "idle too short",
        [served(scaling={"max": 1, "idle_timeout": "59s"})],
        (
            "models[0].scaling.idle_timeout (model chat): an idle timeout of 59s would unload a model between "
            "two requests; at least 1m"
        ),
    ),
    (
        "scaling key",
        [served(scaling={"minimum": 1})],
        'models[0].scaling.minimum (model chat): unknown key "minimum"; did you mean min?',
    ),
]

CPU = {"engine": "llamacpp", "gpu": False, "min_vram_gb": ...}

TEST_ROLE_ERRORS: list[tuple[str, t.Any, str]] = [
    (
        "per_node and count",
        [changed(ROLE, per_node=1, count=2)],
        (
            "roles[0].per_node (role large): per_node runs one on every node that matches, so there is no number to count; "
            "remove per_node, or count"
        ),
    ),
    (
        "typo",
        [changed(ROLE, prefers="largest")],
        'roles[0].prefers (role large): unknown key "prefers"; did you mean prefer?',
    ),
    (
        "typo of what is needed",
        [{"name": "large", "need": {"engine": "vllm"}}],
        ('roles[0].need (role large): unknown key "need"; did you mean needs?'),
    ),
    (
        "typo in needs",
        [role({"min_vram": 3})],
        'roles[0].needs.min_vram (role large): unknown key "min_vram"; did you mean min_vram_gb?',
    ),
    (
        "no needs",
        [{"name": "large"}],
        "roles[0].needs (role large): is required; such as needs: {engine: vllm, min_vram_gb: 20}",
    ),
    ("needs text", [changed(ROLE, needs="vllm")], 'roles[0].needs (role large): must be a map, not "vllm"'),
    ("no engine", [role({"engine": ...})], "roles[0].needs.engine (role large): is required; such as engine: vllm"),
    (
        "two engines",
        [role({"engine": ["vllm", "sglang"]})],
        "roles[0].needs.engine (role large): must be text, not a list",
    ),
    (
        "engine unknown",
        [role({"engine": "vlm"})],
        'roles[0].needs.engine (role large): there is no engine "vlm"; did you mean vllm?',
    ),
    (
        "cc word",
        [role({"min_cc": "abc"})],
        'roles[0].needs.min_cc (role large): "abc" is not a valid compute capability; write major.minor, such as 8.9',
    ),
    (
        "name twice",
        [role(), role()],
        "roles[1].name (role large): a second role is called large; the first is at roles[0].name",
    ),
    (
        "name with slash",
        [role(name="a/b")],
        'roles[0].name (role a/b): must be a name, not "a/b"; letters, digits and . _ - with a letter or digit at both ends',
    ),
    (
        "prefer",
        [role(prefer="biggest")],
        'roles[0].prefer (role large): must be one of smallest_fitting, largest, not "biggest"',
    ),
    ("count", [role(count="two")], 'roles[0].count (role large): must be a whole number, not "two"'),
    ("count negative", [role(count=-1)], "roles[0].count (role large): must be from 0 to 100000, not -1"),
    (
        "kind",
        [role({"kind": "embed"})],
        'roles[0].needs.kind (role large): must be one of llm, embedding, reranker, not "embed"; did you mean embedding?',
    ),
    (
        "vendor",
        [role({"vendor": "nvida"})],
        'roles[0].needs.vendor (role large): must be one of nvidia, amd, intel, not "nvida"; did you mean nvidia?',
    ),
    (
        "caps",
        [role({"min_cc": 9.0, "max_cc": 8.9})],
        "roles[0].needs.max_cc (role large): max_cc 8.9 is below min_cc 9.0: no GPU has both",
    ),
    (
        "below the floor",
        [role({"max_cc": 7.0})],
        "roles[0].needs.max_cc (role large): max_cc 7.0 is below 7.5, the least that vllm runs on",
    ),
    (
        "above the ceiling",
        [role({"engine": "tei", "min_cc": 13.0})],
        ("roles[0].needs.min_cc (role large): min_cc 13.0 is above 12.1, the most that tei runs on"),
    ),
    (
        "engine and kind",
        [role({"engine": "tei", "kind": "llm"})],
        "roles[0].needs.kind (role large): tei does not serve models of kind llm",
    ),
    (
        "engine and vendor",
        [role({"engine": "tei", "vendor": "amd"})],
        "roles[0].needs.vendor (role large): tei does not run on GPUs of amd",
    ),
    (
        "class and size",
        [role({"gpu_class": "l4", "min_vram_gb": 48})],
        "roles[0].needs.min_vram_gb (role large): min_vram_gb 48 is more than l4 has (24 GB); at most 24",
    ),
    (
        "class and engine",
        [role({"gpu_class": "gtx-1080", "min_vram_gb": 8})],
        "roles[0].needs.gpu_class (role large): vllm does not run on gtx-1080",
    ),
    (
        "class and cap",
        [role({"gpu_class": "l4", "min_cc": 9.0})],
        "roles[0].needs.gpu_class (role large): l4 has compute capability 8.9, outside",
    ),
    (
        "class and vendor",
        [role({"gpu_class": "l4", "vendor": "amd"})],
        "roles[0].needs.gpu_class (role large): l4 is a GPU of nvidia, but vendor is amd",
    ),
    (
        "cpu and size",
        [role({**CPU, "min_vram_gb": 8})],
        "roles[0].needs.min_vram_gb (role large): min_vram_gb asks for a GPU, but gpu: false asks for none",
    ),
    ("cpu and cap", [role({**CPU, "min_cc": 8.0})], "roles[0].needs.min_cc (role large): min_cc asks for a GPU"),
    (
        "cpu and engine",
        [role({**CPU, "engine": "vllm"})],
        "roles[0].needs.gpu (role large): vllm cannot run without a GPU; one of llamacpp",
    ),
    (
        "fallback and engine",
        [role(cpu_fallback=True)],
        "roles[0].cpu_fallback (role large): vllm cannot run without a GPU, so there is nothing",
    ),
    (
        "gpu_nodes",
        [role({"gpu_nodes": True})],
        "roles[0].needs.gpu_nodes (role large): gpu_nodes admits nodes with GPUs for work on the CPU",
    ),
    (
        "slots",
        [role(slots="chat")],
        'roles[0].slots (role large): must be a whole number or a list, not "chat"; write it in brackets, as a list',
    ),
    ("slot twice", [role(slots=["a", "a"])], "roles[0].slots[1] (role large): a second slot is called a"),
    ("slot number", [role(slots=65)], "roles[0].slots (role large): must be from 0 to 64, not 65"),
    (
        "slot without name",
        [role(slots=[{"model": "chat"}])],
        "roles[0].slots[0].name (role large): is required; such as name: chat",
    ),
    (
        "slot model",
        [role(slots=[{"name": "s", "model": "chap"}])],
        'roles[0].slots[0].model (role large): the model "chap" of slot s does not exist; did you mean chat?',
    ),
    (
        "slot engine",
        [role({"engine": "sglang"}, slots=[{"name": "s", "model": "chat"}])],
        "roles[0].slots[0].model (role large): chat (models[0].name) is not served by sglang; its engines are vllm, llamacpp",
    ),
    (
        "slot kind",
        [role({"kind": "embedding"}, slots=[{"name": "s", "model": "chat"}])],
        "roles[0].slots[0].model (role large): chat (models[0].name) is of kind llm, but the role is for embedding",
    ),
    (
        "slot cap",
        [role({"engine": "vllm", "max_cc": 7.5}, slots=[{"name": "s", "model": "chat"}])],
        "roles[0].slots[0].model (role large): chat (models[0].name) needs compute capability 8.0, above max_cc 7.5",
    ),
    (
        "slot size",
        [role({"gpu_class": "rtx-4080", "min_vram_gb": ...}, slots=[{"name": "s", "model": "chat"}])],
        "roles[0].slots[0].model (role large): chat (models[0].name) needs 20 GB, more than rtx-4080 has (16 GB)",
    ),
    ("vm key", [role(vm={"core": 4})], 'roles[0].vm.core (role large): unknown key "core"; did you mean cores?'),
    (
        "vm template and image",
        [role(vm={"template": 9000, "image": "debian"})],
        ("roles[0].vm.image (role large): a machine is made from a template or from an image"),
    ),
    (
        "vm memory",
        [role(vm={"memory_mib": "16G"})],
        'roles[0].vm.memory_mib (role large): must be a whole number, not "16G"; write the number alone, without a unit',
    ),
    (
        "group caps",
        [role({"min_cc": 9.0}, colocate="g"), role({"max_cc": 8.9}, name="b", colocate="g")],
        "roles[1].needs.max_cc (role b): no GPU has at least 9.0 and at most 8.9, but large (roles[0]) is to share its GPU",
    ),
    (
        "group class",
        [role({"gpu_class": "l4"}, colocate="g"), role({"gpu_class": "l40"}, name="b", colocate="g")],
        "roles[1].needs.gpu_class (role b): gpu_class is l40, not l4, but large (roles[0]) is to share its GPU",
    ),
    (
        "group node",
        [role({"node": "n1"}, colocate="g"), role({"node": "n2"}, name="b", colocate="g")],
        "roles[1].needs.node (role b): node is n2, not n1, but large",
    ),
    (
        "group selector",
        [
            role({"node_selector": {"z": "a"}}, colocate="g"),
            role({"node_selector": {"z": "b"}}, name="b", colocate="g"),
        ],
        "roles[1].needs.node_selector.z (role b): z is b, not a, but large",
    ),
    (
        "group cpu",
        [role(colocate="g"), role(CPU, name="b", colocate="g")],
        "roles[1].needs.gpu (role b): b needs no GPU, but large",
    ),
    (
        "group vm",
        [
            role(colocate="g", vm={"bridge": "vmbr0", "cores": 4}),
            role(name="b", colocate="g", vm={"bridge": "vmbr1", "cores": 8}),
        ],
        "roles[1].vm.bridge (role b): vm.bridge is not that of large, but large (roles[0]) is to share its GPU",
    ),
]


def errors_of(models: t.Any, roles: t.Any = (), **more: t.Any) -> list[str]:
    with pytest.raises(CatalogError) as caught:
        check_catalog(models, roles, **more)
    return [str(problem) for problem in caught.value.errors]


@pytest.mark.parametrize(
    ("models", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in (*TEST_MODEL_ERRORS, *TEST_PROFILE_ERRORS)],
)
def test_model_errors(models: t.Any, expected: str) -> None:
    found = errors_of(models)
    assert len(found) == 1, found
    assert expected in found[0]


@pytest.mark.parametrize(("roles", "expected"), [pytest.param(*case[1:], id=case[0]) for case in TEST_ROLE_ERRORS])
def test_role_errors(roles: t.Any, expected: str) -> None:
    found = errors_of([model()], roles)
    assert len(found) == 1, found
    assert expected in found[0]


# What looks near one of the errors above and is right.
TEST_GOOD: list[tuple[str, t.Any, t.Any]] = [
    ("seven fields", [model()], []),
    ("nothing", None, None),
    ("one on every node", [served(per_node=1)], [changed(ROLE, per_node=1)]),
    (
        "zeros are unknown",
        [model(vram_gb=0, min_cc=0, context=0, context_length=0, max_output=0, memory={"layers": 0})],
        [],
    ),
    ("facts unknown", [{"name": "a", "kind": "llm", "engines": ["vllm"]}], []),
    ("engines of the profiles", [served(engines=...)], []),
    ("capability as text", [model(min_cc="12.1")], []),
    ("whole capability", [model(min_cc=8)], []),
    ("engine as people spell it", [model(engines=["llama.cpp"])], [role({"engine": "llama.cpp"})]),
    ("two fallbacks to one", [model(fallbacks=["b", "c"]), model(name="b", fallbacks=["c"]), model(name="c")], []),
    ("fallback by alias", [model(fallbacks=["x"]), model(name="b", aliases=["x"])], []),
    ("layers need no heads", [served({"engine": "llamacpp", "tp": 3}, memory={"attention_heads": 32})], []),
    ("heads unknown", [served({"tp": 3})], []),
    ("two nodes", [served({"tp": 4, "pp": 2, "nodes": 2, "gpus_per_node": 4})], []),
    ("pp of 0 is 1", [served({"tp": 2, "pp": 0})], []),
    ("cpu", [served({"gpu_class": ..., "engine": "llamacpp"})], []),
    ("simulated, without a GPU", [served({"gpu_class": ..., "engine": "sim"})], []),
    ("off", [model(scaling={"min": 0, "max": 0})], []),
    ("negative min is 0", [model(scaling={"min": -3})], []),
    ("idle of a minute", [served(scaling={"max": 1, "idle_timeout": "1m"})], []),
    ("idle of 0 is the default", [served(scaling={"max": 1, "idle_timeout": 0})], []),
    ("stretched", [served({"args": ["--max-model-len", "65536", "--rope-scaling", "{}"]})], []),
    (
        "shared slots",
        [served({"engine": "llamacpp", "args": ["-c", "8192", "-np", "4", "-kvu"]}, context_length=8192)],
        [],
    ),
    (
        "slots that suffice",
        [served({"engine": "llamacpp", "args": ["-c", "8192", "-np", "4"]}, context_length=2048)],
        [],
    ),
    ("context of the file", [served({"engine": "llamacpp", "args": ["-c", "0"]}, context_length=8192)], []),
    (
        "another engine on an old GPU",
        [served({"engine": "llamacpp", "gpu_class": "gtx-1080"}, vram_gb=6, min_cc=...)],
        [],
    ),
    ("larger tp", [served({"tp": 2}, vram_gb=48)], []),
    ("gguf", [served(source="org/chat-GGUF:Q4_K_M")], []),
    ("gguf file", [served(source="org/chat-GGUF/chat-q4.gguf")], []),
    ("revision", [served(source="org/chat@refs/pr/3")], []),
    ("path", [served(source="/models/org/chat")], []),
    ("numbers in args and env", [served({"args": ["--max-num-seqs", 8], "env": {"OMP_NUM_THREADS": 8}})], []),
    ("slots of all kinds", [model(aliases=["x"])], [role(slots=["a", {"name": "b"}, {"name": "c", "model": "x"}])]),
    ("slots by number", [], [role(slots=2)]),
    ("no slots", [], [role(slots=0)]),
    ("role that is off", [], [role(count=0)]),
    ("cpu role", [], [role({**CPU, "gpu_nodes": True})]),
    ("cpu fallback", [], [role({"engine": "llamacpp", "gpu_nodes": True}, cpu_fallback=True)]),
    (
        "group",
        [],
        [role(colocate="g", vm={"cores": 4}), role({"min_cc": 8.0}, name="b", colocate="g", count=3, vm={"cores": 8})],
    ),
]


@pytest.mark.parametrize(("models", "roles"), [pytest.param(*case[1:], id=case[0]) for case in TEST_GOOD])
def test_good(models: t.Any, roles: t.Any) -> None:
    check_catalog(models, roles)


TEST_WARNINGS: list[tuple[str, t.Any, t.Any, str]] = [
    (
        "capability",
        [model(capabilities=["tool"])],
        [],
        'models[0].capabilities[0] (model chat): "tool" is not a known capability; did you mean tools?',
    ),
    (
        "capability of another kind",
        [model(kind="embedding", capabilities=["tools"])],
        [],
        "models[0].capabilities[0] (model chat): capability tools looks wrong for a model of kind embedding",
    ),
    (
        "licence",
        [model(license="cc-by-nc-4.0")],
        [],
        "models[0].license (model chat): the licence cc-by-nc-4.0 forbids or limits commercial use",
    ),
    ("simulated", [served({"engine": "sim"})], [], "models[0].profiles (model chat): every profile is simulated"),
    (
        "class",
        [served({"gpu_class": "rtx-4091"})],
        [],
        "models[0].profiles[0].gpu_class (model chat, profile p): nothing is known of GPUs of class rtx-4091",
    ),
    (
        "class of a role",
        [],
        [role({"gpu_class": "my-card"})],
        "roles[0].needs.gpu_class (role large): nothing is known of GPUs of class",
    ),
    (
        "adapters",
        [model(kind="embedding", engines=["tei", "infinity"])],
        [],
        "models[0].lora (model chat): lora is true, but tei or infinity serves no adapters",
    ),
    (
        "no size",
        [model(vram_gb=...)],
        [],
        "models[0] (model chat): nothing says how much memory it needs, so it counts as fitting every GPU",
    ),
    (
        "class that begins so",
        [served({"gpu_class": "h100"})],
        [],
        "; did you mean h100-nvl-94gb or h100-pcie-80gb or h100-sxm5-80gb?",
    ),
    ("class by its words", [], [role({"gpu_class": "v100"})], "; did you mean tesla-v100"),
    ("class of a role", [], [role({"gpu_class": "nonesuch"})], "describe it in gpus.yaml, or name one of the table"),
    ("lonely group", [], [role(colocate="g")], "roles[0].colocate (role large): large is the only role of the group g"),
]


@pytest.mark.parametrize(
    ("models", "roles", "expected"), [pytest.param(*case[1:], id=case[0]) for case in TEST_WARNINGS]
)
def test_warnings(models: t.Any, roles: t.Any, expected: str) -> None:
    found = [str(problem) for problem in check_catalog(models, roles).warnings]
    assert len(found) == 1, found
    assert expected.replace("rtx-4091", '"rtx-4091"') in found[0]


def test_a_real_profile_makes_a_model_real() -> None:
    profiles = [changed(PROFILE, engine="sim"), changed(PROFILE, name="real")]
    assert check_catalog([changed(SERVED, profiles=profiles)], []).warnings == ()


def test_one_mistake_is_one_error() -> None:
    wrong = served({"tp": "2", "nodes": 3}, memory={"attention_heads": 5})
    assert errors_of([wrong]) == [
        'models[0].profiles[0].tp (model chat, profile p): must be a whole number, not "2"; write it without quotes'
    ]


def test_everything_at_once_and_counted() -> None:
    with pytest.raises(CatalogError) as caught:
        check_catalog([model(min_cc="abc"), model(), 7], [{"name": "r"}, role(prefer="x")])
    lines = str(caught.value).splitlines()
    assert [line.split(" ")[0].rstrip(":") for line in lines[:-1]] == [
        "models[0].min_cc",
        "models[1].name",
        "models[2]",
        "roles[0].needs",
        "roles[1].prefer",
    ]
    assert lines[-1] == "The catalog has 5 errors."


@pytest.mark.parametrize("wrong", [{"a": 1}, "models", 5, True])
def test_sections_are_lists(wrong: t.Any) -> None:
    assert "models: must be a list, not" in errors_of(wrong)[0]


def test_a_list_that_a_catalog_does_not_have() -> None:
    catalog = {"models": [{"name": "a"}], "rolls": [], "sources": {}, "warnings": [], "directories": []}
    assert [str(problem) for problem in find_unknown_lists(catalog)] == [
        'catalog: "rolls" is not a list of a catalog; did you mean roles?',
    ]
    assert [str(problem) for problem in examine_catalog(catalog)[1]] == [
        "models[0].kind (model a): is required; one of llm, embedding, reranker",
        "models[0].engines (model a): a model without profiles needs engines; such as engines: [vllm]",
    ]


def test_unknown_engines_where_the_table_may_be_elsewhere() -> None:
    found = check_catalog([model(engines=["mine"])], [role({"engine": "mine"})], open_engines=True)
    assert [problem.code for problem in found.warnings] == ["unknown_engine", "unknown_engine"]


def test_own_engines_and_classes() -> None:
    engines = [{"name": "mine", "cpu": True, "min_cc": 8.6, "kinds": ["llm"]}]
    gpus = [{"name": "card", "memory_gb": [16, 24], "compute_cap": 8.0}]
    good = check_catalog(
        [model(engines=["mine"])], [role({"engine": "mine", "gpu": False, "min_vram_gb": ...})], engines=engines
    )
    assert good.catalog.engines["mine"].min_cc == (8, 6)
    wrong = served({"engine": "mine", "gpu_class": "card"}, engines=["mine"])
    assert errors_of([wrong], engines=engines, gpus=gpus) == [
        (
            "models[0].profiles[0].gpu_class (model chat, profile p): mine does not run on card (compute capability 8.0); "
            "it needs at least 8.6"
        )
    ]


TEST_TABLE_ERRORS = [
    (
        {"engines": [{"name": "a", "min_cc": 9.0, "max_cc": 8.0}]},
        "engines[0].max_cc (engine a): max_cc is below min_cc",
    ),
    ({"engines": [{"cpu": True}]}, "engines[0].name (engine without a name): is required; such as name: my-engine"),
    (
        {"engines": [{"name": "a", "health": "health"}]},
        'engines[0].health (engine a): must be a path, not "health"; it begins with /, such as /health',
    ),
    ({"engines": [{"name": "a", "utilisation": 90}]}, "engines[0].utilisation (engine a): must be from 0 to 1, not 90"),
    ({"engines": [{"name": "a"}, {"name": "a"}]}, "engines[1].name (engine a): a second engine is called a"),
    (
        {"engines": [{"name": "a", "quantizations": {"x": {}}}]},
        (
            "engines[0].quantizations.x (engine a): is not a valid key: it must be one of bf16, fp16, fp8, "
            "fp8-w8a8, int8-w8a8, w4a16, w4a8-fp8, awq, gptq, bnb, mxfp4, nvfp4, nvfp4-w4a4, fp-quant, gguf"
        ),
    ),
    (
        {"gpus": [{"name": "a", "memory_gb": "24"}]},
        'gpus[0].memory_gb (GPU class a): must be a number or a list, not "24"',
    ),
    (
        {"gpus": [{"name": "a", "pci_ids": ["10DE:1"]}]},
        'gpus[0].pci_ids[0] (GPU class a): must be a PCI id, not "10DE:1"; vendor and device in hexadecimal, such as 10de:27b2',
    ),
]


@pytest.mark.parametrize(("tables", "expected"), TEST_TABLE_ERRORS)
def test_table_errors(tables: t.Any, expected: str) -> None:
    found = errors_of([], [], **tables)
    assert len(found) == 1, found
    assert expected in found[0]


def test_normalised_values() -> None:
    document = served(
        {
            "tp": 4,
            "pp": 0,
            "nodes": 2,
            "startup_timeout": "1h30m",
            "args": ["--max-num-seqs", 8],
            "min_memory_gb": 64.0,
        },
        scaling={"min": 2, "idle_timeout": "30m"},
        slo={"ttft_p99": "1s", "tpot_p99": "50ms"},
        vram_gb=20.0,
    )
    catalog = check_catalog([document], [role(slots=[{"name": "s", "model": "chat"}, "t"])]).catalog
    found, profile = catalog.models[0], catalog.models[0].profiles[0]
    assert (found.min_cc, found.vram_gb, found.slo) == ((8, 0), 20, {"ttft_p99": 1000, "tpot_p99": 50})
    assert found.scaling is not None
    assert (found.scaling.min, found.scaling.max, found.scaling.idle_timeout) == (2, 2, 1800)
    assert (profile.gpus_per_node, profile.pp, profile.startup_timeout) == (2, 1, 5400)
    assert profile.args == ("--max-num-seqs", "8")
    assert isinstance(profile.min_memory_gb, int)
    assert [(slot.name, slot.model) for slot in catalog.roles[0].slots] == [("s", "chat"), ("t", None)]


def test_what_people_carry_over_from_other_catalogs() -> None:
    """Weights with fractions, Go's durations, capabilities as a map, and a max of 0 beside a min."""
    document = served(
        {"weight": 2.5, "startup_timeout": 1_800_000_000_000},
        scaling={"min": 2, "max": 0, "idle_timeout": "1.5h"},
        capabilities={"tools": True, "vision": False, "reasoning": None},
        slo={"ttft_p99": 500_000_000},
    )
    (found,) = check_catalog([document], []).catalog.models
    (profile,) = found.profiles
    assert (profile.weight, profile.startup_timeout) == (2.5, 1800)
    assert found.scaling is not None
    assert (found.scaling.min, found.scaling.max, found.scaling.idle_timeout) == (2, 2, 5400)
    assert (found.capabilities, found.slo) == (("tools",), {"ttft_p99": 500})
    off = check_catalog([model(scaling={"min": 0, "max": 0})], []).catalog.models[0].scaling
    assert off is not None
    assert off.max == 0


def test_classes_of_the_fleet_are_meant_first() -> None:
    nodes = [{"name": "n", "gpus": [{"gpu_class": "h100-own"}, {"gpu_class": "a10-mine"}]}]
    for written, meant in (("h100", "h100-own or h100-"), ("a10-mne", "a10-mine?"), ("rtx-4091", "rtx-4090?")):
        (warning,) = check_catalog([served({"gpu_class": written})], [], nodes=nodes).warnings
        assert warning.remedy.startswith(f"did you mean {meant}"), written
    assert not check_catalog([served({"gpu_class": "h100-own"})], [], nodes=nodes).warnings


def test_a_slot_names_its_model_by_alias() -> None:
    catalog = check_catalog([model(aliases=["gpt"])], [role(slots=[{"name": "s", "model": "gpt"}])]).catalog
    assert catalog.roles[0].slots[0].model == "chat"


def test_input_is_left_as_it_is() -> None:
    models, roles = [served(scaling={"min": -1})], [role(slots=2)]
    before = copy.deepcopy((models, roles))
    check_catalog(models, roles)
    assert (models, roles) == before


def tight(context: int, kv: int = 1024 * 1024) -> dict[str, t.Any]:
    """A model whose cache leaves room for fewer tokens than it is to serve."""
    facts = {"weights_gib": 15, "kv_bytes_per_token": kv}
    return served(vram_gb=..., context=..., context_length=context, memory=facts)


# The value that is still right, and the first one that is not.
TEST_LIMITS: list[tuple[str, t.Callable[[int], t.Any], int, int]] = [
    ("pp of all layers", lambda pp: served({"pp": pp}, memory={"layers": 3}, vram_gb=...), 3, 4),
    ("served context", lambda context: model(context_length=context), 32768, 32769),
    ("completion of the whole context", lambda output: model(max_output=output), 32768, 32769),
    ("completion of what is served", lambda output: model(context_length=4096, max_output=output), 4096, 4097),
    ("size of the GPU", lambda size: served(vram_gb=size), 24, 25),
    ("a share of two GPUs", lambda size: served({"tp": 2}, vram_gb=size), 48, 49),
    ("context of the arguments", lambda context: served({"args": ["--max-model-len", context]}), 32768, 32769),
    (
        "what each slot has",
        lambda context: served({"engine": "llamacpp", "args": ["-c", "8192", "-np", "2"]}, context_length=context),
        4096,
        4097,
    ),
    ("replicas", lambda most: served(scaling={"max": most}), 100_000, 100_001),
    ("characters of a name", lambda length: model(name="a" * length), 200, 201),
    ("GPUs of a replica", lambda tp: served({"tp": tp}), 4096, 4097),
]


@pytest.mark.parametrize(("make", "last", "first"), [pytest.param(*case[1:], id=case[0]) for case in TEST_LIMITS])
def test_both_sides_of_each_limit(make: t.Callable[[int], t.Any], last: int, first: int) -> None:
    check_catalog([make(last)], [])
    assert len(errors_of([make(first)])) == 1


def test_both_sides_of_the_least_idle_timeout() -> None:
    for seconds, right in ((60, True), (59, False)):
        _catalog, problems = examine_catalog({"models": [served(scaling={"max": 1, "idle_timeout": seconds})]})
        assert (not problems) is right


def test_both_sides_of_the_slots_of_a_role() -> None:
    for count, right in ((64, True), (65, False)):
        for slots in (count, [f"s{index}" for index in range(count)]):
            assert (not examine_catalog({"roles": [role(slots=slots)]})[1]) is right


def test_roles_that_share_a_machine_add_up_its_cores_and_memory() -> None:
    """Roles with the same colocate: their cores and memory_mib add up; every other setting of vm must be the same."""
    sizes = {"cores": (4, 8), "memory_mib": (4096, 8192)}
    others = {
        "disk_gb": (10, 20),
        "storage": ("a", "b"),
        "bridge": ("a", "b"),
        "template": (100, 101),
        "image": ("a", "b"),
        "cloud_init": ({"a": "1"}, {"a": "2"}),
        "tags": (["a"], ["b"]),
    }
    for key, (left, right) in {**sizes, **others}.items():
        roles = [role(colocate="g", vm={key: left}), role(name="b", colocate="g", vm={key: right})]
        found = [str(problem) for problem in examine_catalog({"roles": roles})[1]]
        assert [f"vm.{key} is not that of large" in text for text in found] == ([] if key in sizes else [True])


def test_a_context_is_offered_from_the_least_that_is_worth_serving() -> None:
    """The refusal names the largest context from the least on, and no smaller one."""
    seen = set()
    for kv in range(800_000, 4_000_000, 20_000):
        (message,) = errors_of([tight(65536, kv)])
        named = message.partition("the largest context here is ")[2].partition(";")[0]
        if named:
            seen.add(int(named))
            assert int(named) >= LEAST_CONTEXT
            check_catalog([tight(int(named), kv)], [])
        else:
            assert errors_of([tight(LEAST_CONTEXT, kv)])
    assert min(seen) < LEAST_CONTEXT * 5 // 4


def test_the_largest_context_is_named() -> None:
    wrong = served(vram_gb=..., context_length=32768, memory={"weights_gib": 15, "kv_bytes_per_token": 262144})
    (message,) = errors_of([wrong])
    most = int(message.partition("the largest context here is ")[2].partition(";")[0])
    assert 4096 < most < 32768
    check_catalog([{**wrong, "context_length": most}], [])
    assert errors_of([{**wrong, "context_length": most + 512}])


def test_a_word_that_several_profiles_share_is_told_once_where_it_is_written() -> None:
    profiles = [changed(PROFILE, name=name, gpu_class=name) for name in ("rtx-3090", "rtx-4090", "l4")]
    shared = changed(SERVED, profiles=profiles, context_length=8192, engine_args={"vllm": ["--max-model-len", "4096"]})
    _catalog, problems = examine_catalog({"models": [shared]})
    assert [problem.path for problem in problems if problem.severity == "error"] == ["models[0].engine_args.vllm[1]"]


@pytest.mark.parametrize(
    ("profile", "gpus"),
    [({"dp": 2}, 2), ({"tp": 2, "dp": 4, "gpus_per_node": 8}, 8), ({"tp": 2, "pp": 2, "dp": 2}, 8), ({"dp": 0}, 1)],
)
def test_a_replica_has_the_gpus_of_all_its_copies(profile: dict[str, t.Any], gpus: int) -> None:
    catalog, problems = examine_catalog({"models": [served({**profile, "args": ["-dp", str(profile["dp"] or 1)]})]})
    assert [problem for problem in problems if problem.severity == "error"] == []
    assert catalog.models[0].profiles[0].gpus_per_node == gpus
