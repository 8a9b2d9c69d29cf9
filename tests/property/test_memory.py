# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""What holds of any way to run a model, and of any model."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.knaster.inventory.plugins.module_utils._memory.engines import ENGINE_MEMORY, engine_memory
from ansible_collections.knaster.inventory.plugins.module_utils._memory.facts import MemoryFacts
from ansible_collections.knaster.inventory.plugins.module_utils._memory.fit import fit
from ansible_collections.knaster.inventory.plugins.module_utils._memory.need import Case, Gpu, need, usable
from ansible_collections.knaster.inventory.plugins.module_utils._memory.run import (
    CACHE_SHARES,
    Run,
    read_run,
    uncomputed_arguments,
    unknown_arguments,
    write_run,
)
from ansible_collections.knaster.inventory.plugins.module_utils._models.geometry import (
    geometry_of_config,
    geometry_of_gguf,
)
from hypothesis import given
from hypothesis import strategies as st

ENGINES = st.sampled_from(sorted(ENGINE_MEMORY))
WORDS = st.sampled_from(
    ["--max-model-len", "--max_model_len=8k", "-c", "--ctx-size", "-np", "--parallel", "4", "8192", "-1", "0", "auto", "on",
     "-tp", "-ngl", "all", "-fa", "--kv-cache-dtype", "fp8", "-ctk", "q8_0", "--cpu-moe", "--enforce-eager", "-kvu",
     "--gpu-memory-utilization", "0.9", ".5", "1.5", "--mem-fraction-static", "--jinja", "--seed", "-O3", "--of-tomorrow",
     "--limit-mm-per-prompt", '{"image": 0}', "--max-batch-tokens", "--no-enforce-eager", "--enable-lora", "--", "-", ""]
)  # fmt: skip
ENV = st.dictionaries(
    st.sampled_from(["LLAMA_ARG_CTX_SIZE", "LLAMA_ARG_N_PARALLEL", "OLLAMA_NUM_PARALLEL", "OLLAMA_KV_CACHE_TYPE"]),
    st.sampled_from(["0", "4", "8192", "q8_0", "odd", ""]),
    max_size=3,
)
POSITIVE = st.integers(1, 1 << 20)
FACTS = st.builds(
    MemoryFacts,
    weights_gib=st.none() | st.floats(0.1, 1000),
    kv_bytes_per_token=st.none() | st.integers(1, 1 << 22),
    kv_bytes_per_window_token=st.none() | st.integers(1, 1 << 22),
    window=st.none() | st.integers(1, 1 << 16),
    layers=st.none() | st.integers(1, 200),
    attention_heads=st.none() | st.integers(1, 128),
    kv_heads=st.none() | st.integers(1, 128),
    head_dim=st.none() | st.integers(1, 512),
    state_bytes=st.none() | st.integers(0, 1 << 30),
    vocab=st.none() | st.integers(1, 300_000),
    hidden=st.none() | st.integers(1, 20_000),
    intermediate=st.none() | st.integers(1, 60_000),
)
GPUS = st.builds(Gpu, memory_mib=st.integers(4096, 300_000), gpu_class=st.sampled_from(["", "a100-sxm4-80gb", "l4"]))


def runs(engine):
    """Return runs that set only what the engine has options for."""
    slotted = engine in ("llamacpp", "ollama")
    fields = {
        "vllm": {"utilisation": st.floats(0.01, 1).map(lambda share: round(share, 3)), "cache_bytes": POSITIVE,
                 "cpu_offload_gib": st.floats(0.5, 100).map(lambda size: round(size, 2)), "loras": POSITIVE,
                 "lora_rank": POSITIVE, "max_sequences": POSITIVE, "batched_tokens": POSITIVE},
        "sglang": {"utilisation": st.floats(0.01, 1).map(lambda share: round(share, 3)), "cache_tokens": POSITIVE,
                   "graph_sequences": POSITIVE, "max_sequences": POSITIVE, "batched_tokens": POSITIVE},
        "llamacpp": {"gpu_layers": st.integers(0, 999), "cpu_moe_layers": st.integers(0, 999),
                     "batched_tokens": POSITIVE, "flash_attention": st.booleans()},
        "ollama": {"flash_attention": st.booleans(), "reserve_bytes": POSITIVE},
        "tei": {"batched_tokens": POSITIVE},
    }.get(engine, {})  # fmt: skip
    flags = {
        "vllm": ("full_windows", "lora", "eager"),
        "sglang": ("full_windows", "lora", "eager"),
        "llamacpp": ("unified", "full_windows", "cache_on_host"),
    }.get(engine, ())
    types = st.sampled_from(sorted(CACHE_SHARES))
    both = st.none() | types
    return st.builds(
        Run,
        engine=st.just(engine),
        **({} if engine in ("tei", "infinity", "sim") else {"context": st.none() | POSITIVE}),
        sequences=st.integers(1, 64) if slotted else st.just(1),
        **(
            {"tp": st.integers(1, 8), "pp": st.integers(1, 4), "dp": st.integers(1, 4)}
            if engine in ("vllm", "sglang")
            else {}
        ),
        **({"images": st.none() | st.just(False)} if engine == "vllm" else {}),
        **{name: st.none() | values for name, values in fields.items()},
        **dict.fromkeys(flags, st.booleans()),
        **({"cache_k": both, "cache_v": both} if engine == "llamacpp" else {}),
        other=st.sampled_from([(), ("--seed", "1"), ("--of-tomorrow",)]) if engine != "ollama" else st.just(()),
    ).flatmap(
        lambda run: (
            both.map(lambda one: replace(run, cache_k=one, cache_v=one))
            if engine in ("vllm", "sglang", "ollama")
            else st.just(run)
        )
    )


@given(ENGINES.flatmap(runs))
def test_what_is_written_reads_back_as_the_same_run(run):
    written = write_run(run)
    assert read_run(run.engine, written.args, written.env) == run


@given(ENGINES, st.lists(WORDS, max_size=8), ENV)
def test_any_command_line_is_read_and_written_again(engine, args, env):
    run = read_run(engine, args, env, context=4096, sequences=2, tp=2)
    written = write_run(run)
    # Entry and profile say what the engine has no option for.
    said = {"context": run.context, "sequences": run.sequences, "tp": run.tp, "pp": run.pp}
    again = read_run(engine, written.args, written.env, **said)
    assert again == run
    known = set(uncomputed_arguments(run)) | set(unknown_arguments(run))
    # Nothing is named that was not written.
    assert all(any(word.replace("_", "-").startswith(name) for word in args) for name in known)


RUNS = st.builds(read_run, ENGINES, st.lists(WORDS, max_size=6))


@given(FACTS, RUNS, GPUS, st.integers(1, 1 << 18), st.integers(1, 1 << 18))
def test_a_longer_context_never_needs_less_and_what_fits_fits(facts, run, gpu, context, more):
    case = Case(facts, replace(run, context=context), engine_memory(run.engine), gpu)
    longer = replace(case, run=replace(case.run, context=context + more))
    assert need(longer).gib >= need(case).gib - 1e-9
    found = fit(case)
    assert found.free_gib == usable(case) - found.need.gib
    assert found.fits is not True or found.need.bound == "exact"
    if found.fits:
        assert found.largest_context is not None
        assert found.largest_context >= context


SCALARS = st.sampled_from(
    [None, True, False, -1, 0, 1, 2, 7, 64, 1 << 41, 0.5, float("nan"), "", "M*", "LLLG", "full_attention"]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["attention", "n_heads_in_group", "full_attn_layers", "num_heads"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["model_type", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size", "head_dim", "layer_types",
     "sliding_window", "sliding_window_pattern", "block_configs", "linear_attn_config", "attn_layer_period", "kv_lora_rank",
     "attn_layer_offset", "full_attention_interval", "no_rope_layers", "max_window_layers", "use_sliding_window",
     "cross_attention_layers", "num_kv_shared_layers", "hybrid_override_pattern", "attn_type_list", "text_config",
     "thinker_config", "quantization_config", "qk_rope_head_dim", "index_head_dim", "index_n_heads", "indexer_types"]
)  # fmt: skip


@given(st.dictionaries(KEYS, VALUES, max_size=10), st.sampled_from(["llama", "gemma3_text", "jamba", "falcon", ""]))
def test_any_config_is_read_and_no_number_is_below_zero(config, kind):
    found = geometry_of_config({"model_type": kind, "num_hidden_layers": 8, "num_attention_heads": 8, **config})
    for name in ("kv_bytes_per_token", "kv_bytes_per_window_token", "state_bytes", "index_bytes_per_token", "layers"):
        value = getattr(found, name)
        assert value is None or value >= 0


@given(
    st.dictionaries(
        st.sampled_from(["llama.block_count", "llama.attention.head_count", "llama.attention.head_count_kv",
                         "llama.embedding_length", "llama.attention.sliding_window", "llama.ssm.conv_kernel",
                         "llama.attention.sliding_window_pattern", "llama.attention.shared_kv_layers",
                         "tokenizer.ggml.tokens", "llama.feed_forward_length"]), VALUES, max_size=8)
)  # fmt: skip
def test_any_gguf_header_is_read(facts):
    found = geometry_of_gguf({"general.architecture": "llama", **facts})
    assert found.kv_bytes_per_token is None or found.kv_bytes_per_token > 0
