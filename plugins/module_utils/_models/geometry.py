# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What a model takes in memory, from what its own files say of it.

The cache is counted in 16 bit. What a file does not say is None, and nothing is guessed from the name of a model.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

# One value of the cache in 16 bit, and two of them for a token: key and value.
_BYTES = 2
_PAIR = 2

# These read a text as a whole and keep no cache.
_ENCODERS = frozenset(
    ("bert", "roberta", "xlm-roberta", "mpnet", "modernbert", "nomic_bert", "new", "gte", "deberta-v2", "distilbert",
     "electra", "camembert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2")
)  # fmt: skip

_FULL = frozenset(("full_attention", "attention", "full", "global"))
_WINDOWED = frozenset(("sliding_attention", "chunked_attention", "sliding", "local"))

_QUANTIZATIONS = {
    "fp8": "fp8-w8a8",
    "fbgemm_fp8": "fp8-w8a8",
    "awq": "awq",
    "gptq": "gptq",
    "mxfp4": "mxfp4",
    "bitsandbytes": "bnb",
    # formats of compressed-tensors
    "float-quantized": "fp8-w8a8",
    "int-quantized": "int8-w8a8",
    "pack-quantized": "w4a16",
    "nvfp4-pack-quantized": "nvfp4-w4a4",
    # algorithms of modelopt
    "nvfp4": "nvfp4-w4a4",
}
_DTYPES = {"bfloat16": "bf16", "float16": "fp16"}

_MAX_LAYERS = 10_000

GIB = 1024**3
# A loaded checkpoint takes a little more than its files.
LOAD_FACTOR = 1.02


@dataclass(frozen=True)
class Geometry:
    """How a model is built, as far as memory depends on it."""

    architecture: t.Optional[str] = None
    context: t.Optional[int] = None
    layers: t.Optional[int] = None
    attention_heads: t.Optional[int] = None
    kv_heads: t.Optional[int] = None
    head_dim: t.Optional[int] = None
    kv_bytes_per_token: t.Optional[int] = None
    kv_bytes_per_window_token: t.Optional[int] = None
    window: t.Optional[int] = None
    quantization: t.Optional[str] = None
    cached: bool = True


def geometry_of_config(config: t.Mapping[str, t.Any]) -> Geometry:
    """Read a ``config.json``; of a model with several parts the one that writes text counts."""
    text = config
    for key in ("text_config", "llm_config", "language_config"):
        part = config.get(key)
        if isinstance(part, dict) and _whole(part, "num_hidden_layers"):
            text = part
            break
    layers = _layers(text, "num_hidden_layers", "n_layer", "num_layers")
    heads = _whole(text, "num_attention_heads", "n_head")
    kind = _word(text, "model_type") or _word(config, "model_type")
    base = Geometry(
        architecture=kind,
        context=_whole(text, "max_position_embeddings", "n_positions", "seq_length"),
        layers=layers,
        attention_heads=heads,
        quantization=_quantization(config, text),
    )
    if kind in _ENCODERS:
        return _replaced(base, cached=False)
    if not layers or not heads:
        return base
    latent = _whole(text, "kv_lora_rank")
    if latent:
        width = latent + (_whole(text, "qk_rope_head_dim") or 0)
        return _replaced(base, kv_bytes_per_token=layers * width * _BYTES)
    hidden = _whole(text, "hidden_size", "n_embd")
    dim = _whole(text, "head_dim") or (hidden // heads if hidden else None)
    kv_heads = _whole(text, "num_key_value_heads") or (1 if text.get("multi_query") is True else heads)
    if not dim:
        return _replaced(base, kv_heads=kv_heads)
    window = _whole(text, "sliding_window", "attention_chunk_size")
    full, windowed = _layers_by_kind(text, layers, windows=window is not None)
    each = _PAIR * kv_heads * dim * _BYTES
    # The layers that see everything may have heads of another number and size than the others.
    wide_heads = _whole(text, "num_global_key_value_heads") or kv_heads
    wide = _PAIR * wide_heads * (_whole(text, "global_head_dim") or dim) * _BYTES if windowed else each
    return _replaced(
        base,
        kv_heads=kv_heads,
        head_dim=dim,
        kv_bytes_per_token=full * wide or None,
        kv_bytes_per_window_token=windowed * each or None,
        window=window if windowed else None,
    )


def geometry_of_gguf(facts: t.Mapping[str, t.Any]) -> Geometry:
    """Read the facts of a GGUF header."""
    name = facts.get("general.architecture")
    if not isinstance(name, str):
        return Geometry(quantization="gguf")
    own = {key[len(name) + 1 :]: value for key, value in facts.items() if key.startswith(f"{name}.")}
    layers = _layers(own, "block_count")
    heads = _largest(own.get("attention.head_count"))
    base = Geometry(
        architecture=name,
        context=_whole(own, "context_length"),
        layers=layers,
        attention_heads=heads,
        quantization="gguf",
    )
    if name in _ENCODERS:
        return _replaced(base, cached=False)
    if not layers or not heads:
        return base
    latent = _whole(own, "attention.kv_lora_rank")
    if latent:
        width = latent + (_whole(own, "rope.dimension_count") or 0)
        return _replaced(base, kv_bytes_per_token=layers * width * _BYTES)
    hidden = _whole(own, "embedding_length")
    key = _whole(own, "attention.key_length") or (hidden // heads if hidden else None)
    value = _whole(own, "attention.value_length") or key
    per_layer = own.get("attention.head_count_kv", heads)
    if not key or not value:
        return base
    if isinstance(per_layer, list):
        # One number for each layer, 0 where a layer keeps a state of fixed size instead of a cache.
        counts = [one for one in per_layer if isinstance(one, int) and not isinstance(one, bool) and one >= 0]
    else:
        counts = [_whole(own, "attention.head_count_kv") or heads] * layers
        interval = _whole(own, "full_attention_interval")
        if interval:
            counts = counts[: layers // interval]
    pattern = own.get("attention.sliding_window_pattern")
    window = _whole(own, "attention.sliding_window")
    windowed = 0
    if window and isinstance(pattern, list) and len(pattern) == len(counts):
        windowed = sum(count for count, is_windowed in zip(counts, pattern) if is_windowed)
    each = (key + value) * _BYTES
    return _replaced(
        base,
        kv_heads=max(counts, default=0) or None,
        head_dim=key,
        kv_bytes_per_token=(sum(counts) - windowed) * each or None,
        kv_bytes_per_window_token=windowed * each or None,
        window=window if windowed else None,
    )


def memory_facts(geometry: Geometry, weight_bytes: int) -> t.Dict[str, t.Any]:
    """Return what the catalog writes as ``memory`` of a model, without what is not known."""
    facts: t.Dict[str, t.Any] = {"weights_gib": round(weight_bytes / GIB, 2)}
    for key in (
        "kv_bytes_per_token",
        "kv_bytes_per_window_token",
        "window",
        "layers",
        "attention_heads",
        "kv_heads",
        "head_dim",
    ):
        value = getattr(geometry, key)
        if value:
            facts[key] = value
    return facts


def per_gpu(
    geometry: Geometry, weight_bytes: int, *, context: t.Optional[int], cards: t.Iterable[int]
) -> t.List[t.Dict[str, t.Any]]:
    """Return what each of so many GPUs has to hold, for those numbers that the heads can be split over."""
    rows = []
    for count in sorted(set(cards)):
        if count < 1 or (count > 1 and (geometry.attention_heads or 1) % count):
            continue
        weights = weight_bytes * LOAD_FACTOR / count / GIB
        cache = _cache_gib(geometry, context, count)
        rows.append(
            {
                "gpus": count,
                "weights_gib": round(weights, 2),
                "kv_cache_gib": None if cache is None else round(cache, 2),
                "total_gib": None if cache is None else round(weights + cache, 2),
            }
        )
    return rows


def _cache_gib(geometry: Geometry, context: t.Optional[int], count: int) -> t.Optional[float]:
    if not geometry.cached:
        return 0.0
    everywhere, windowed = geometry.kv_bytes_per_token, geometry.kv_bytes_per_window_token
    if context is None or (everywhere is None and windowed is None):
        return None
    # Heads can be split as long as there are some; a latent (no heads) is kept whole by every GPU.
    split = min(count, geometry.kv_heads) if geometry.kv_heads else 1
    size = (everywhere or 0) * context + (windowed or 0) * min(context, geometry.window or context)
    return size / split / GIB


def _replaced(geometry: Geometry, **changes: t.Any) -> Geometry:
    return Geometry(**{**geometry.__dict__, **changes})


def _whole(values: t.Mapping[str, t.Any], *keys: str) -> t.Optional[int]:
    """Return the first of these values that is a whole number above zero."""
    for key in keys:
        value = values.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 1 << 40:
            return value
    return None


def _layers(values: t.Mapping[str, t.Any], *keys: str) -> t.Optional[int]:
    """Return a number of layers; more than any model has is a mistake, and would be counted one by one."""
    layers = _whole(values, *keys)
    return layers if layers is not None and layers <= _MAX_LAYERS else None


def _word(values: t.Mapping[str, t.Any], key: str) -> t.Optional[str]:
    value = values.get(key)
    return value if isinstance(value, str) else None


def _largest(value: t.Any) -> t.Optional[int]:
    values = value if isinstance(value, list) else [value]
    numbers = [one for one in values if isinstance(one, int) and not isinstance(one, bool) and one > 0]
    return max(numbers, default=None)


def _layers_by_kind(text: t.Mapping[str, t.Any], layers: int, *, windows: bool) -> t.Tuple[int, int]:
    """Return how many layers cache every token, and how many only those inside a window."""
    kinds = text.get("layer_types") or text.get("layers_block_type")
    pattern = text.get("hybrid_override_pattern")
    if isinstance(kinds, list) and kinds:
        full = sum(1 for kind in kinds if isinstance(kind, str) and kind in _FULL)
        windowed = sum(1 for kind in kinds if isinstance(kind, str) and kind in _WINDOWED)
        return (full, windowed) if windows else (full + windowed, 0)
    if isinstance(pattern, str) and pattern:
        return pattern.count("*"), 0
    interval = _whole(text, "full_attention_interval")
    if interval:
        return layers // interval, 0
    every = _whole(text, "sliding_window_pattern", "_sliding_window_pattern")
    if windows and every and every > 1:
        full = layers // every
        return full, layers - full
    # A window that is switched off, or of which it is not said where it holds: every layer counts in full.
    return layers, 0


def _quantization(config: t.Mapping[str, t.Any], text: t.Mapping[str, t.Any]) -> t.Optional[str]:
    how = config.get("quantization_config") or text.get("quantization_config")
    if isinstance(how, dict):
        for key in ("format", "quant_algo", "quant_method"):
            word = (_word(how, key) or "").lower()
            if word in _QUANTIZATIONS:
                return _QUANTIZATIONS[word]
        return None
    for values in (text, config):
        for key in ("dtype", "torch_dtype"):
            dtype = _word(values, key)
            if dtype in _DTYPES:
                return _DTYPES[dtype]
    return None
