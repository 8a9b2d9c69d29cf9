# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._memory.run import (
    Run,
    cache_share,
    read_run,
    uncomputed_arguments,
    unknown_arguments,
    write_run,
)

SPELLINGS = [
    ("vllm", ["--max-model-len", "8192"], {"context": 8192}),
    ("vllm", ["--max_model_len=8192"], {"context": 8192}),
    ("vllm", ["--max-model-len=8k"], {"context": 8000}),
    ("vllm", ["--max-model-len", "8K"], {"context": 8192}),
    ("vllm", ["--max-model-len", "25.6k"], {"context": 25600}),
    ("vllm", ["--max-model-len", "auto"], {"context": None}),
    ("vllm", ["--max-model-len", "-1"], {"context": None}),
    ("vllm", ["-tp", "2", "-pp=2", "-dp", "3"], {"tp": 2, "pp": 2, "dp": 3}),
    ("vllm", ["--tensor_parallel_size", "4"], {"tp": 4}),
    ("vllm", ["--gpu-memory-utilization=.95"], {"utilisation": 0.95}),
    ("vllm", ["--kv-cache-dtype", "fp8_e4m3"], {"cache_k": "fp8_e4m3", "cache_v": "fp8_e4m3"}),
    ("vllm", ["--kv-cache-memory-bytes", "10G"], {"cache_bytes": 10 * 1024**3}),
    ("vllm", ["--cpu-offload-gb", "8.5"], {"cpu_offload_gib": 8.5}),
    (
        "vllm",
        ["--max-num-seqs", "16", "--max-num-batched-tokens", "2048"],
        {"max_sequences": 16, "batched_tokens": 2048},
    ),
    ("vllm", ["--enforce-eager"], {"eager": True}),
    ("vllm", ["--enforce-eager", "--no-enforce-eager"], {"eager": False}),
    (
        "vllm",
        ["--enable-lora", "--max-loras", "4", "--max-lora-rank", "64"],
        {"lora": True, "loras": 4, "lora_rank": 64},
    ),
    ("vllm", ["--limit-mm-per-prompt", '{"image": 0, "video": 0}'], {"images": False}),
    ("vllm", ["--language-model-only"], {"images": False}),
    ("vllm", ["--disable-hybrid-kv-cache-manager"], {"full_windows": True}),
    ("vllm", ["--max-model-len", "1000", "--max-model-len", "2000"], {"context": 2000}),
    ("sglang", ["--context-length", "8192", "--mem-fraction-static", "0.8"], {"context": 8192, "utilisation": 0.8}),
    ("sglang", ["--tp", "2", "--max-running-requests", "8"], {"tp": 2, "max_sequences": 8}),
    ("sglang", ["--chunked-prefill-size=4096", "--disable-cuda-graph"], {"batched_tokens": 4096, "eager": True}),
    ("llamacpp", ["-c", "32768", "-np", "4"], {"context": 8192, "sequences": 4}),
    ("llamacpp", ["-c", "32768", "-np", "4", "-kvu"], {"context": 32768, "sequences": 4, "unified": True}),
    ("llamacpp", ["--ctx_size", "4096"], {"context": 4096, "sequences": 1}),
    ("llamacpp", ["-ngl", "20", "-ub", "1024"], {"gpu_layers": 20, "batched_tokens": 1024}),
    ("llamacpp", ["-ngl", "all", "--cpu-moe"], {"gpu_layers": 999, "cpu_moe_layers": 999}),
    ("llamacpp", ["--n-gpu-layers", "auto"], {"gpu_layers": None}),
    ("llamacpp", ["--n-cpu-moe", "12"], {"cpu_moe_layers": 12}),
    ("llamacpp", ["-ctk", "q8_0", "-ctv", "q4_0"], {"cache_k": "q8_0", "cache_v": "q4_0"}),
    ("llamacpp", ["-fa", "off"], {"flash_attention": False}),
    ("llamacpp", ["-fa", "--jinja"], {"flash_attention": True, "other": ("--jinja",)}),
    ("llamacpp", ["--swa-full", "--no-kv-offload"], {"full_windows": True, "cache_on_host": True}),
    ("tei", ["--max-batch-tokens", "65536"], {"batched_tokens": 65536}),
    ("infinity", ["--batch-size", "64"], {"other": ("--batch-size", "64")}),
    ("unheard-of", ["--max-model-len", "8"], {"context": None, "other": ("--max-model-len", "8")}),
]


@pytest.mark.parametrize(("engine", "args", "expected"), SPELLINGS)
def test_every_spelling_of_an_option_is_read(engine, args, expected):
    run = read_run(engine, args)
    assert {key: getattr(run, key) for key in expected} == expected
    written = write_run(run)
    assert read_run(engine, written.args, written.env) == run


def test_what_entry_and_profile_say_holds_where_no_argument_does():
    run = read_run("llamacpp", ["--parallel", "4"], context=8192)
    assert (run.context, run.sequences) == (8192, 4)
    # M2: the command has to give every slot what the plan counted for it.
    assert write_run(run).args == ("--ctx-size", "32768", "--parallel", "4")
    assert read_run("vllm", [], context=4096, tp=2, pp=3) == Run("vllm", context=4096, tp=2, pp=3)
    assert read_run("vllm", ["-tp", "4"], tp=2).tp == 4
    assert read_run("llamacpp", ["-c", "0"], context=4096).context is None


def test_variables_come_before_the_entry_and_behind_the_arguments():
    env = {"LLAMA_ARG_CTX_SIZE": "8192", "LLAMA_ARG_N_PARALLEL": "2", "LLAMA_ARG_CACHE_TYPE_K": "q8_0"}
    run = read_run("llamacpp", ["-c", "4096"], env, context=1)
    assert (run.context, run.sequences, run.cache_k) == (2048, 2, "q8_0")
    run = read_run(
        "ollama", [], {"OLLAMA_CONTEXT_LENGTH": "8192", "OLLAMA_NUM_PARALLEL": "3", "OLLAMA_KV_CACHE_TYPE": "q8_0"}
    )
    assert (run.context, run.sequences, run.cache_k) == (8192, 3, "q8_0")
    assert write_run(run).env == {
        "OLLAMA_CONTEXT_LENGTH": "8192",
        "OLLAMA_NUM_PARALLEL": "3",
        "OLLAMA_KV_CACHE_TYPE": "q8_0",
    }


@pytest.mark.parametrize(
    ("engine", "args", "uncomputed", "unknown"),
    [
        ("vllm", ["--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--seed", "-1"], (), ()),
        ("vllm", ["--speculative-config", "{}", "--speculative-config.method=mtp"], ("--speculative-config",), ()),
        ("vllm", ["-O3", "--quantization=fp8"], ("-O", "--quantization"), ()),
        ("vllm", ["--max-model-len", "long"], ("--max-model-len",), ()),
        ("vllm", ["--max-model-len"], ("--max-model-len",), ()),
        ("llamacpp", ["--ctx-size", "--cpu-moe", "8192"], ("--ctx-size",), ()),
        ("vllm", ["--gpu-memory-utilization", "90"], ("--gpu-memory-utilization",), ()),
        ("vllm", ["--limit-mm-per-prompt", '{"image": 4}'], ("--limit-mm-per-prompt",), ()),
        ("vllm", ["--of-tomorrow", "1"], (), ("--of-tomorrow",)),
        ("llamacpp", ["--jinja", "-t", "8", "--override-tensor", "exps=CPU"], ("--override-tensor",), ()),
        ("llamacpp", ["-ctk", "q3_k"], ("-ctk",), ()),
        ("sglang", ["--enable-metrics", "--page-size", "64"], ("--page-size",), ()),
        ("tei", ["--dtype", "float32", "--auto-truncate"], ("--dtype",), ()),
        ("unheard-of", ["--anything"], (), ("--anything",)),
    ],
)
def test_what_is_not_computed_and_what_is_not_known_is_named(engine, args, uncomputed, unknown):
    run = read_run(engine, args)
    assert uncomputed_arguments(run) == uncomputed
    assert unknown_arguments(run) == unknown
    written = write_run(run)
    assert read_run(engine, written.args, written.env) == run


def test_the_cache_takes_less_in_a_smaller_type():
    assert cache_share(Run("vllm")) == 1
    assert cache_share(Run("vllm", cache_k="fp8", cache_v="fp8")) == 0.5
    assert cache_share(Run("llamacpp", cache_k="q8_0", cache_v="q4_0")) == (34 / 64 + 18 / 64) / 2
    assert cache_share(Run("llamacpp", cache_k="q8_0", cache_v="q4_0"), latent=True) == 34 / 64
    assert cache_share(Run("vllm", cache_k="of-tomorrow")) is None
