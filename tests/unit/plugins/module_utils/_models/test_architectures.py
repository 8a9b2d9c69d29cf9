# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""The bytes that a token takes, by the published structure of each model.

A is ai-dynamo/aiconfigurator@095f58a, model_configs (copies of config.json); T are the defaults of transformers 5.24.0; P is
what is published elsewhere: Bamba in huggingface/blog (bamba.md, 3 of 32 layers attend, states of 128), Falcon and Qwen3-Omni,
ChatGLM, StarCoder, Kimi-Linear and Granite 4 as public copies of their config.json, MiniMax-Text-01 in arXiv 2501.08313 (7 linear
layers to one that attends). The product on the right is layers x (key and value) x heads x size x 16 bit.
"""

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._models.geometry import (
    geometry_of_config,
    geometry_of_gguf,
    memory_facts,
)


def heads(kind, layers, attention, kept, dim, **more):
    return {
        "model_type": kind,
        "num_hidden_layers": layers,
        "num_attention_heads": attention,
        "num_key_value_heads": kept,
        "head_dim": dim,
        **more,
    }


def latent(kind, layers, attention, **more):
    return {
        "model_type": kind,
        "num_hidden_layers": layers,
        "num_attention_heads": attention,
        "num_key_value_heads": attention,
        "hidden_size": 7168,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        **more,
    }


def delta(kind, layers, attention, kept, values, **more):
    """Return a model of Qwen whose layers are linear but for one in four."""
    return heads(
        kind,
        layers,
        attention,
        kept,
        256,
        layer_types=(["linear_attention"] * 3 + ["full_attention"]) * (layers // 4),
        linear_conv_kernel_dim=4,
        linear_key_head_dim=128,
        linear_num_key_heads=16,
        linear_num_value_heads=values,
        linear_value_head_dim=128,
        **more,
    )


S, F = "sliding_attention", "full_attention"
NANO = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
SUPER = "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME"
NAS = [{"attention": {"n_heads_in_group": 8, "no_op": False}}] * 49 + [
    {"attention": {"n_heads_in_group": None, "no_op": True}}
] * 31
MAMBA = {"mamba_num_heads": 64, "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4}

# name, source, what config.json says of it, bytes in layers that see all, bytes in those that see a window
CONFIGS = [
    ("llama-3.1-8b", "A", heads("llama", 32, 32, 8, None, hidden_size=4096), 32 * 2 * 8 * 128 * 2, None),
    ("llama-3.1-70b", "A", heads("llama", 80, 64, 8, None, hidden_size=8192), 80 * 2 * 8 * 128 * 2, None),
    ("llama-3.1-405b", "A", heads("llama", 126, 128, 8, None, hidden_size=16384), 126 * 2 * 8 * 128 * 2, None),
    (
        "llama-7b, whose file has no such key",
        "T",
        {"model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32, "hidden_size": 4096},
        32 * 2 * 32 * 128 * 2,
        None,
    ),
    (
        "qwen3-0.6b",
        "A",
        heads("qwen3", 28, 16, 8, 128, sliding_window=None, use_sliding_window=False),
        28 * 2 * 8 * 128 * 2,
        None,
    ),
    ("qwen3-8b", "A", heads("qwen3", 36, 32, 8, 128), 36 * 2 * 8 * 128 * 2, None),
    ("qwen3-32b", "A", heads("qwen3", 64, 64, 8, 128), 64 * 2 * 8 * 128 * 2, None),
    ("qwen3-30b-a3b", "A", heads("qwen3_moe", 48, 32, 4, 128), 48 * 2 * 4 * 128 * 2, None),
    ("qwen3-235b-a22b", "A", heads("qwen3_moe", 94, 64, 4, 128), 94 * 2 * 4 * 128 * 2, None),
    ("qwen3-coder-480b", "A", heads("qwen3_moe", 62, 96, 8, 128), 62 * 2 * 8 * 128 * 2, None),
    (
        "qwen3-vl-8b",
        "A",
        {
            "model_type": "qwen3_vl",
            "vision_config": {"depth": 27},
            "text_config": heads("qwen3_vl_text", 36, 32, 8, 128),
        },
        36 * 2 * 8 * 128 * 2,
        None,
    ),
    ("qwen3-next-80b-a3b", "T", heads("qwen3_next", 48, 16, 2, 256), 12 * 2 * 2 * 256 * 2, None),
    ("qwen3.5-27b", "A", {"text_config": delta("qwen3_5_text", 64, 24, 4, 48)}, 16 * 2 * 4 * 256 * 2, None),
    ("qwen3.5-35b-a3b", "A", {"text_config": delta("qwen3_5_moe_text", 40, 16, 2, 32)}, 10 * 2 * 2 * 256 * 2, None),
    ("qwen3.5-122b-a10b", "A", {"text_config": delta("qwen3_5_moe_text", 48, 32, 2, 64)}, 12 * 2 * 2 * 256 * 2, None),
    ("qwen3.5-397b-a17b", "A", {"text_config": delta("qwen3_5_moe_text", 60, 32, 2, 64)}, 15 * 2 * 2 * 256 * 2, None),
    (
        "qwen3-omni-30b-a3b",
        "P",
        {
            "model_type": "qwen3_omni_moe",
            "thinker_config": {"text_config": heads("qwen3_omni_moe_text", 48, 32, 4, 128)},
        },
        48 * 2 * 4 * 128 * 2,
        None,
    ),
    (
        "qwen2.5 with windows from layer 21 on",
        "T",
        heads("qwen2", 28, 28, 4, 128, use_sliding_window=True, max_window_layers=21, sliding_window=32768),
        21 * 2 * 4 * 128 * 2,
        7 * 2 * 4 * 128 * 2,
    ),
    ("deepseek-v3", "A", latent("deepseek_v3", 61, 128), 61 * (512 + 64) * 2, None),
    ("kimi-k2", "A", latent("kimi_k2", 61, 64), 61 * (512 + 64) * 2, None),
    ("kimi-k2.5", "A", {"model_type": "kimi_k25", "text_config": latent("kimi_k2", 61, 64)}, 61 * 576 * 2, None),
    (
        "kimi-linear-48b-a3b",
        "P",
        latent(
            "kimi_linear",
            27,
            32,
            linear_attn_config={
                "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
                "num_heads": 32,
                "head_dim": 128,
                "short_conv_kernel_size": 4,
            },
        ),
        7 * 576 * 2,
        None,
    ),
    (
        "kimi-k3",
        "A",
        {
            "text_config": latent(
                "kimi_linear",
                93,
                96,
                linear_attn_config={
                    "full_attn_layers": [*range(4, 93, 4), 93],
                    "num_heads": 96,
                    "head_dim": 128,
                    "short_conv_kernel_size": 4,
                },
            )
        },
        24 * 576 * 2,
        None,
    ),
    ("glm-5", "A", latent("glm_moe_dsa", 78, 64, index_head_dim=128, index_n_heads=32), 78 * 576 * 2, None),
    (
        "gpt-oss-120b",
        "A",
        heads("gpt_oss", 36, 64, 8, 64, sliding_window=128, layer_types=[S, F] * 18),
        18 * 2 * 8 * 64 * 2,
        18 * 2 * 8 * 64 * 2,
    ),
    (
        "gpt-oss-20b, whose file lists no layers",
        "T",
        heads("gpt_oss", 24, 64, 8, 64, sliding_window=128),
        12 * 2 * 8 * 64 * 2,
        12 * 2 * 8 * 64 * 2,
    ),
    (
        "gemma-2-9b",
        "T",
        heads("gemma2", 42, 16, 8, 256, sliding_window=4096),
        21 * 2 * 8 * 256 * 2,
        21 * 2 * 8 * 256 * 2,
    ),
    (
        "gemma-3-27b",
        "T",
        {"model_type": "gemma3", "text_config": heads("gemma3_text", 62, 32, 16, 128, sliding_window=1024)},
        10 * 2 * 16 * 128 * 2,
        52 * 2 * 16 * 128 * 2,
    ),
    (
        "gemma-3-4b, whose file has no heads",
        "T",
        {
            "model_type": "gemma3",
            "text_config": {
                "model_type": "gemma3_text",
                "num_hidden_layers": 34,
                "hidden_size": 2560,
                "sliding_window": 1024,
            },
        },
        5 * 2 * 4 * 256 * 2,
        29 * 2 * 4 * 256 * 2,
    ),
    (
        "gemma-3n-e4b",
        "T",
        {
            "model_type": "gemma3n",
            "text_config": heads("gemma3n_text", 35, 8, 2, 256, sliding_window=512, num_kv_shared_layers=15),
        },
        4 * 2 * 2 * 256 * 2,
        16 * 2 * 2 * 256 * 2,
    ),
    (
        "gemma-4-26b-a4b",
        "A",
        {
            "text_config": heads(
                "gemma4_text",
                30,
                16,
                8,
                256,
                num_global_key_value_heads=2,
                global_head_dim=512,
                sliding_window=1024,
                layer_types=([S] * 5 + [F]) * 5,
                num_kv_shared_layers=0,
            )
        },
        5 * 2 * 2 * 512 * 2,
        25 * 2 * 8 * 256 * 2,
    ),
    (
        "gemma-4-31b",
        "A",
        {
            "text_config": heads(
                "gemma4_text",
                60,
                32,
                16,
                256,
                num_global_key_value_heads=4,
                global_head_dim=512,
                sliding_window=1024,
                layer_types=([S] * 5 + [F]) * 10,
            )
        },
        10 * 2 * 4 * 512 * 2,
        50 * 2 * 16 * 256 * 2,
    ),
    (
        "command-r7b",
        "T",
        heads("cohere2", 32, 32, 8, 128, sliding_window=4096),
        8 * 2 * 8 * 128 * 2,
        24 * 2 * 8 * 128 * 2,
    ),
    (
        "olmo-3-32b",
        "T",
        heads("olmo3", 64, 40, 8, 128, sliding_window=4096),
        16 * 2 * 8 * 128 * 2,
        48 * 2 * 8 * 128 * 2,
    ),
    (
        "exaone-4.0-32b",
        "T",
        heads("exaone4", 64, 40, 8, 128, sliding_window=4096, sliding_window_pattern="LLLG"),
        16 * 2 * 8 * 128 * 2,
        48 * 2 * 8 * 128 * 2,
    ),
    (
        "llama-4-scout",
        "A",
        {"text_config": heads("llama4_text", 48, 40, 8, 128, attention_chunk_size=8192)},
        12 * 2 * 8 * 128 * 2,
        36 * 2 * 8 * 128 * 2,
    ),
    (
        "mixtral-8x7b",
        "A",
        heads("mixtral", 32, 32, 8, None, hidden_size=4096, sliding_window=None),
        32 * 2 * 8 * 128 * 2,
        None,
    ),
    (
        "mistral-small-3.2",
        "A",
        {"text_config": heads("mistral", 40, 32, 8, 128, sliding_window=None)},
        40 * 2 * 8 * 128 * 2,
        None,
    ),
    ("minimax-m2.7", "A", heads("minimax_m2", 62, 48, 8, 128, attn_type_list=[1] * 62), 62 * 2 * 8 * 128 * 2, None),
    (
        "minimax-text-01",
        "P",
        heads("minimax_text_01", 80, 64, 8, 128, attn_type_list=([0] * 7 + [1]) * 10),
        10 * 2 * 8 * 128 * 2,
        None,
    ),
    (
        "mimo-v2-flash",
        "A",
        heads(
            "mimo_v2_flash",
            48,
            64,
            4,
            192,
            v_head_dim=128,
            swa_num_key_value_heads=8,
            swa_head_dim=192,
            swa_v_head_dim=128,
            sliding_window=128,
            hybrid_layer_pattern=[0, 1, 1, 1, 1] + [0, 1, 1, 1, 1, 1] * 7 + [0],
        ),
        9 * 4 * (192 + 128) * 2,
        39 * 8 * (192 + 128) * 2,
    ),
    (
        "step-3.7-flash",
        "A",
        heads("step3p7", 45, 64, 8, 128, sliding_window=512, layer_types=[F, S, S, S] * 11 + [F]),
        12 * 2 * 8 * 128 * 2,
        33 * 2 * 8 * 128 * 2,
    ),
    (
        "llama-3.3-nemotron-super-49b",
        "A",
        heads("nemotron-nas", 80, 64, None, None, hidden_size=8192, block_configs=NAS),
        49 * 2 * 8 * 128 * 2,
        None,
    ),
    (
        "nemotron-3-nano-30b",
        "A",
        heads("nemotron_h", 52, 32, 2, 128, hybrid_override_pattern=NANO, **MAMBA),
        6 * 2 * 2 * 128 * 2,
        None,
    ),
    (
        "nemotron-3-super-120b",
        "A",
        heads("nemotron_h", 88, 32, 2, 128, hybrid_override_pattern=SUPER, **MAMBA),
        8 * 2 * 2 * 128 * 2,
        None,
    ),
    (
        "bamba-9b",
        "P",
        heads(
            "bamba",
            32,
            32,
            8,
            None,
            hidden_size=4096,
            attn_layer_indices=[9, 18, 27],
            mamba_d_state=128,
            mamba_d_conv=4,
            mamba_n_heads=128,
            mamba_expand=2,
        ),
        3 * 2 * 8 * 128 * 2,
        None,
    ),
    (
        "jamba-1.5-mini",
        "T",
        heads(
            "jamba",
            32,
            32,
            8,
            None,
            hidden_size=4096,
            attn_layer_period=8,
            attn_layer_offset=4,
            mamba_d_state=16,
            mamba_d_conv=4,
            mamba_expand=2,
        ),
        4 * 2 * 8 * 128 * 2,
        None,
    ),
    (
        "granite-4.0-h-small",
        "P",
        heads(
            "granitemoehybrid",
            40,
            32,
            8,
            None,
            hidden_size=4096,
            layer_types=["mamba"] * 5
            + ["attention"]
            + ["mamba"] * 9
            + ["attention"]
            + ["mamba"] * 9
            + ["attention"]
            + ["mamba"] * 9
            + ["attention"]
            + ["mamba"] * 4,
        ),
        4 * 2 * 8 * 128 * 2,
        None,
    ),
    (
        "falcon-40b",
        "P",
        {
            "model_type": "falcon",
            "num_hidden_layers": 60,
            "num_attention_heads": 128,
            "hidden_size": 8192,
            "num_kv_heads": 8,
            "multi_query": True,
            "new_decoder_architecture": True,
        },
        60 * 2 * 8 * 64 * 2,
        None,
    ),
    (
        "falcon-7b",
        "P",
        {
            "model_type": "falcon",
            "num_hidden_layers": 32,
            "num_attention_heads": 71,
            "hidden_size": 4544,
            "multi_query": True,
            "new_decoder_architecture": False,
        },
        32 * 2 * 1 * 64 * 2,
        None,
    ),
    (
        "starcoder",
        "P",
        {"model_type": "gpt_bigcode", "n_layer": 40, "n_head": 48, "n_embd": 6144, "multi_query": True},
        40 * 2 * 1 * 128 * 2,
        None,
    ),
    (
        "chatglm3-6b",
        "P",
        {
            "model_type": "chatglm",
            "num_layers": 28,
            "num_attention_heads": 32,
            "hidden_size": 4096,
            "kv_channels": 128,
            "multi_query_attention": True,
            "multi_query_group_num": 2,
        },
        28 * 2 * 2 * 128 * 2,
        None,
    ),
    (
        "llama-3.2-11b-vision",
        "T",
        {
            "model_type": "mllama",
            "text_config": heads(
                "mllama_text_model",
                40,
                32,
                8,
                None,
                hidden_size=4096,
                cross_attention_layers=[3, 8, 13, 18, 23, 28, 33, 38],
            ),
        },
        32 * 2 * 8 * 128 * 2,
        None,
    ),
]


def config_of(name):
    return next(row[2] for row in CONFIGS if row[0] == name)


@pytest.mark.parametrize(("config", "full", "windowed"), [pytest.param(*row[2:], id=row[0]) for row in CONFIGS])
def test_a_token_takes_what_the_published_structure_says(config, full, windowed):
    found = geometry_of_config(config)
    assert (found.kv_bytes_per_token, found.kv_bytes_per_window_token) == (full, windowed)
    assert (found.window is None) == (windowed is None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("gemma-4-31b", (16, 4)), ("gemma-4-26b-a4b", (8, 2)), ("gemma-3-27b", (16, None)), ("qwen3-8b", (8, None))],
)
def test_layers_that_see_everything_may_have_heads_of_their_own(name, expected):
    found = geometry_of_config(config_of(name))
    assert (found.kv_heads, found.full_kv_heads) == expected
    assert memory_facts(found, 1 << 30).get("full_kv_heads") == expected[1]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # llama.cpp logs 598.5 MiB for four sequences of the first (lmstudio-ai/lmstudio-bug-tracker#1862).
        pytest.param(delta("qwen3_5_text", 64, 24, 4, 48), int(598.5 * 1024**2 / 4), id="gated-delta-rule"),
        pytest.param(config_of("nemotron-3-nano-30b"), 23 * (3 * (4096 + 2 * 8 * 128) + 4096 * 128) * 4, id="mamba-2"),
        pytest.param(config_of("jamba-1.5-mini"), 28 * (3 * 8192 + 8192 * 16) * 4, id="mamba-1"),
        pytest.param(config_of("bamba-9b"), 29 * (3 * (8192 + 2 * 128) + 8192 * 128) * 4, id="mamba-2-by-expansion"),
        pytest.param(config_of("minimax-text-01"), 70 * 64 * 128 * 128 * 4, id="lightning-attention"),
        pytest.param(
            config_of("kimi-linear-48b-a3b"), 20 * (3 * 3 * 32 * 128 + 32 * 128 * 128) * 4, id="kimi-delta-attention"
        ),
        pytest.param(config_of("llama-3.1-8b"), 0, id="none"),
        pytest.param(config_of("granite-4.0-h-small"), None, id="of-unknown-size"),
    ],
)
def test_recurrent_state_of_one_sequence_in_32_bit(config, expected):
    assert geometry_of_config(config).state_bytes == expected


def test_sparse_attention_keeps_an_index_beside_the_cache():
    told = latent("deepseek_v32", 61, 128, index_head_dim=128, index_n_heads=64)
    assert geometry_of_config(told).index_bytes_per_token == 61 * (128 + 4)
    shared = {
        **told,
        "num_hidden_layers": 8,
        "indexer_types": ["full", "full", *["shared"] * 3, "full", "shared", "shared"],
    }
    assert geometry_of_config(shared).index_bytes_per_token == 3 * (128 + 4)


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({**heads("new_model", 32, 32, None, 128)}, id="heads-of-an-unknown-architecture"),
        pytest.param({"num_hidden_layers": 32, "num_attention_heads": 32, "hidden_size": 4096}, id="no-architecture"),
        pytest.param(heads("deepseek_v4", 43, 64, 1, 512, compress_ratios=[0, 4, 128]), id="compressed-cache"),
        pytest.param(
            heads("minimax_m3", 60, 64, 4, 128, sparse_attention_config={"sparse_index_dim": 128}), id="index"
        ),
        pytest.param(
            heads("llama", 32, 32, 8, 128, layer_types=["full_attention", "of-tomorrow"] * 16), id="kind-of-layer"
        ),
        pytest.param(heads("nemotron_h", 3, 32, 2, 128, hybrid_override_pattern="M?*"), id="letter"),
        pytest.param({**latent("deepseek_v3", 61, 128), "qk_rope_head_dim": None}, id="part-of-a-latent"),
        pytest.param(
            {
                "model_type": "chatglm",
                "num_layers": 28,
                "num_attention_heads": 32,
                "hidden_size": 4096,
                "multi_query_attention": True,
            },
            id="groups",
        ),
    ],
)
def test_what_is_in_no_file_and_no_table_is_unknown(config):
    found = geometry_of_config(config)
    assert (found.kv_bytes_per_token, found.kv_bytes_per_window_token) == (None, None)


def gguf(name, layers, attention, kept, key, **facts):
    values = {
        "block_count": layers,
        "attention.head_count": attention,
        "attention.head_count_kv": kept,
        "attention.key_length": key,
        "attention.value_length": key,
        **{word.replace("__", "."): value for word, value in facts.items()},
    }
    return {"general.architecture": name, **{f"{name}.{word}": value for word, value in values.items()}}


WINDOW = "attention__sliding_window"
# The patterns are those of llama.cpp (src/models, set_swa_pattern).
GGUFS = [
    ("gemma2-9b", gguf("gemma2", 42, 16, 8, 256, **{WINDOW: 4096}), 21 * 8 * 512 * 2, 21 * 8 * 512 * 2),
    ("gemma2 without the length of its window", gguf("gemma2", 42, 16, 8, 256), 21 * 8 * 512 * 2, 21 * 8 * 512 * 2),
    ("gemma3-27b", gguf("gemma3", 62, 32, 16, 128, **{WINDOW: 1024}), 10 * 16 * 256 * 2, 52 * 16 * 256 * 2),
    ("gpt-oss-120b", gguf("gpt-oss", 36, 64, 8, 64, **{WINDOW: 128}), 18 * 8 * 128 * 2, 18 * 8 * 128 * 2),
    ("cohere2-7b", gguf("cohere2", 32, 32, 8, 128, **{WINDOW: 4096}), 8 * 8 * 256 * 2, 24 * 8 * 256 * 2),
    ("gemma3n-e4b", gguf("gemma3n", 35, 8, 2, 256, **{WINDOW: 512}), 4 * 2 * 512 * 2, 16 * 2 * 512 * 2),
    ("llama4-scout", gguf("llama4", 48, 40, 8, 128), 12 * 8 * 256 * 2, 36 * 8 * 256 * 2),
    (
        "smallthinker, whose first layer sees all",
        gguf("smallthinker", 5, 12, 2, 128, **{WINDOW: 4096}),
        2 * 2 * 256 * 2,
        3 * 2 * 256 * 2,
    ),
    ("exaone4-32b", gguf("exaone4", 64, 40, 8, 128, **{WINDOW: 4096}), 16 * 8 * 256 * 2, 48 * 8 * 256 * 2),
    ("exaone4-1.2b", gguf("exaone4", 30, 32, 8, 64), 30 * 8 * 128 * 2, None),
    (
        "phi3, whose window llama.cpp takes no notice of",
        gguf("phi3", 32, 32, 32, 96, **{WINDOW: 2047}),
        32 * 32 * 192 * 2,
        None,
    ),
    ("qwen3.5 without the interval", gguf("qwen35", 64, 24, 4, 256), 16 * 4 * 512 * 2, None),
    (
        "gemma4 with heads by layer",
        gguf(
            "gemma4",
            6,
            32,
            [16, 16, 16, 16, 16, 4],
            512,
            attention__key_length_swa=256,
            attention__value_length_swa=256,
            attention__sliding_window_pattern=[True] * 5 + [False],
            **{WINDOW: 1024},
        ),
        4 * 1024 * 2,
        5 * 16 * 512 * 2,
    ),
    (
        "kimi-linear",
        gguf("kimi-linear", 4, 32, [0, 0, 0, 1], 576, attention__kv_lora_rank=512, rope__dimension_count=64),
        576 * 2,
        None,
    ),
]


@pytest.mark.parametrize(("facts", "full", "windowed"), [pytest.param(*row[1:], id=row[0]) for row in GGUFS])
def test_gguf_files_follow_the_pattern_of_their_architecture(facts, full, windowed):
    found = geometry_of_gguf(facts)
    assert (found.kv_bytes_per_token, found.kv_bytes_per_window_token) == (full, windowed)


def test_gguf_tells_state_vocabulary_and_widths():
    facts = gguf(
        "qwen35",
        64,
        24,
        4,
        256,
        embedding_length=5120,
        feed_forward_length=17408,
        ssm__conv_kernel=4,
        ssm__inner_size=6144,
        ssm__state_size=128,
        ssm__group_count=16,
    )
    found = geometry_of_gguf({**facts, "tokenizer.ggml.tokens": {"length": 248320}})
    assert found.state_bytes == int(598.5 * 1024**2 / 4)
    assert (found.vocab, found.hidden, found.intermediate) == (248320, 5120, 17408)
    assert geometry_of_gguf(gguf("rwkv-hybrid", 4, 8, [0, 0, 0, 4], 64)).state_bytes is None
