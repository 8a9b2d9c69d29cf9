# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._models.geometry import (
    GIB,
    Geometry,
    geometry_of_config,
    geometry_of_gguf,
    memory_facts,
)

LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}
# Layers that see everything have few heads of their own size; the others look back 1024 tokens.
GEMMA = {
    "model_type": "gemma4",
    "vision_config": {"num_hidden_layers": 27, "num_attention_heads": 16},
    "text_config": {
        "num_hidden_layers": 60,
        "hidden_size": 5376,
        "num_attention_heads": 32,
        "num_key_value_heads": 16,
        "head_dim": 256,
        "num_global_key_value_heads": 4,
        "global_head_dim": 512,
        "sliding_window": 1024,
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 10,
    },
}

# What the configuration says, and of the geometry what follows from it. The bytes are those that engines report.
TEST_CONFIGS = [
    pytest.param(
        LLAMA,
        {"kv_bytes_per_token": 131072, "kv_heads": 8, "head_dim": 128, "context": 131072, "quantization": "bf16"},
        id="grouped-heads",
    ),
    pytest.param(
        {**LLAMA, "num_key_value_heads": None},
        {"kv_bytes_per_token": 524288, "kv_heads": 32},
        id="a-head-for-each",
    ),
    pytest.param({**LLAMA, "multi_query": True, "num_key_value_heads": None}, {"kv_heads": 1}, id="one-head-for-all"),
    pytest.param(
        {**LLAMA, "num_hidden_layers": 28, "hidden_size": 1024, "num_attention_heads": 16, "head_dim": 128},
        {"kv_bytes_per_token": 114688, "head_dim": 128},
        id="heads-wider-than-their-share",
    ),
    pytest.param(
        {
            "model_type": "deepseek_v3",
            "num_hidden_layers": 61,
            "num_attention_heads": 128,
            "num_key_value_heads": 128,
            "kv_lora_rank": 512,
            "qk_rope_head_dim": 64,
            "quantization_config": {"quant_method": "fp8"},
        },
        {"kv_bytes_per_token": 70272, "kv_heads": None, "attention_heads": 128, "quantization": "fp8-w8a8"},
        id="latent",
    ),
    pytest.param(
        GEMMA,
        {
            "kv_bytes_per_token": 81920,
            "kv_bytes_per_window_token": 819200,
            "window": 1024,
            "attention_heads": 32,
            "layers": 60,
        },
        id="window-and-heads-of-two-sizes",
    ),
    pytest.param(
        {
            "model_type": "gemma3_text",
            "num_hidden_layers": 62,
            "num_attention_heads": 32,
            "num_key_value_heads": 16,
            "head_dim": 128,
            "sliding_window": 1024,
            "sliding_window_pattern": 6,
        },
        {"kv_bytes_per_token": 81920, "kv_bytes_per_window_token": 425984},
        id="window-by-pattern",
    ),
    pytest.param(
        {
            "num_hidden_layers": 24,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "head_dim": 64,
            "sliding_window": 128,
            "layer_types": ["sliding_attention", "full_attention"] * 12,
            "quantization_config": {"quant_method": "mxfp4"},
        },
        {"kv_bytes_per_token": 24576, "kv_bytes_per_window_token": 24576, "quantization": "mxfp4"},
        id="window-every-other-layer",
    ),
    pytest.param(
        {
            "num_hidden_layers": 64,
            "num_attention_heads": 24,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 16,
        },
        {"kv_bytes_per_token": 65536, "kv_bytes_per_window_token": None, "layers": 64},
        id="linear-layers",
    ),
    pytest.param(
        {
            "num_hidden_layers": 48,
            "num_attention_heads": 16,
            "num_key_value_heads": 2,
            "head_dim": 256,
            "full_attention_interval": 4,
        },
        {"kv_bytes_per_token": 24576},
        id="linear-layers-by-interval",
    ),
    pytest.param(
        {**LLAMA, "hybrid_override_pattern": "M-M*-M*"}, {"kv_bytes_per_token": 8192}, id="state-space-layers"
    ),
    pytest.param(
        {**LLAMA, "sliding_window": 4096, "use_sliding_window": False},
        {"kv_bytes_per_token": 131072, "kv_bytes_per_window_token": None, "window": None},
        id="window-that-is-not-used",
    ),
    pytest.param({**LLAMA, "model_type": "xlm-roberta"}, {"kv_bytes_per_token": None, "cached": False}, id="encoder"),
    pytest.param({}, {"layers": None, "kv_bytes_per_token": None, "quantization": None}, id="nothing"),
    pytest.param(
        {"num_hidden_layers": "32", "num_attention_heads": True, "hidden_size": -1, "model_type": 5},
        {"layers": None, "attention_heads": None, "architecture": None},
        id="values-of-another-type",
    ),
    pytest.param(
        {**LLAMA, "model_type": [], "torch_dtype": {}, "layer_types": [[], {}]},
        {"architecture": None, "quantization": None, "kv_bytes_per_token": None},
        id="values-that-are-no-words",
    ),
    pytest.param(
        {**LLAMA, "quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized"}},
        {"quantization": "w4a16"},
        id="compressed-tensors",
    ),
    pytest.param(
        {**LLAMA, "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}},
        {"quantization": "nvfp4-w4a4"},
        id="modelopt",
    ),
    pytest.param(
        {**LLAMA, "quantization_config": {"quant_method": "new"}}, {"quantization": None}, id="unknown-method"
    ),
]


@pytest.mark.parametrize(("config", "expected"), TEST_CONFIGS)
def test_geometry_of_config(config, expected):
    found = geometry_of_config(config)
    assert {key: getattr(found, key) for key in expected} == expected


def gguf(arch="llama", **facts):
    return {"general.architecture": arch, **{f"{arch}.{key.replace('__', '.')}": value for key, value in facts.items()}}


PLAIN = {
    "block_count": 32,
    "context_length": 131072,
    "embedding_length": 4096,
    "attention__head_count": 32,
    "attention__head_count_kv": 8,
}
TEST_GGUF = [
    pytest.param(gguf(**PLAIN), {"kv_bytes_per_token": 131072, "context": 131072, "head_dim": 128}, id="grouped-heads"),
    pytest.param(
        gguf(**{**PLAIN, "attention__key_length": 192, "attention__value_length": 128}),
        {"kv_bytes_per_token": 32 * 8 * 320 * 2},
        id="keys-and-values-of-two-sizes",
    ),
    pytest.param(
        gguf(**{**PLAIN, "block_count": 4, "attention__head_count_kv": [0, 8, 0, 8]}),
        {"kv_bytes_per_token": 8192, "kv_heads": 8},
        id="heads-by-layer",
    ),
    pytest.param(gguf(**PLAIN, full_attention_interval=4), {"kv_bytes_per_token": 32768}, id="interval"),
    pytest.param(
        gguf(
            **{**PLAIN, "block_count": 4},
            attention__sliding_window=512,
            attention__sliding_window_pattern=[True, True, True, False],
        ),
        {"kv_bytes_per_token": 4096, "kv_bytes_per_window_token": 12288, "window": 512},
        id="window",
    ),
    pytest.param(
        gguf(**PLAIN, attention__sliding_window=512),
        {"kv_bytes_per_token": 131072, "window": None},
        id="window-of-which-the-layers-are-not-told",
    ),
    pytest.param(
        gguf(
            "deepseek2",
            block_count=61,
            attention__head_count=128,
            attention__kv_lora_rank=512,
            rope__dimension_count=64,
        ),
        {"kv_bytes_per_token": 70272, "kv_heads": None},
        id="latent",
    ),
    pytest.param(gguf("bert", **PLAIN), {"cached": False, "kv_bytes_per_token": None}, id="encoder"),
    pytest.param(gguf(**{**PLAIN, "block_count": 1 << 39}), {"layers": None}, id="layers-beyond-reason"),
    pytest.param({}, {"quantization": "gguf", "layers": None}, id="nothing"),
    pytest.param(gguf(block_count=[1], attention__head_count="x"), {"layers": None}, id="values-of-another-type"),
]


@pytest.mark.parametrize(("facts", "expected"), TEST_GGUF)
def test_geometry_of_gguf(facts, expected):
    found = geometry_of_gguf(facts)
    assert {key: getattr(found, key) for key in expected} == expected


def test_memory_facts_leave_out_what_is_not_known():
    assert memory_facts(geometry_of_config(LLAMA), int(14.96 * GIB)) == {
        "weights_gib": 14.96,
        "kv_bytes_per_token": 131072,
        "layers": 32,
        "attention_heads": 32,
        "kv_heads": 8,
        "head_dim": 128,
        "hidden": 4096,
    }
    assert memory_facts(Geometry(), GIB) == {"weights_gib": 1.0}
