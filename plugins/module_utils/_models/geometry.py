# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What a model takes in memory, from what its own files say of it.

The cache is counted in 16 bit, recurrent state in 32. What a file does not say and the tables of its architecture do not
know is None, and nothing is guessed from the name of a model.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass, replace

from ansible_collections.knaster.inventory.plugins.module_utils._memory.facts import MemoryFacts
from ansible_collections.knaster.inventory.plugins.module_utils._models.architectures import (
    ATTENTION_EVERY,
    CROSS_LAYERS,
    ENCODERS,
    GGUF_ATTENTION_EVERY,
    GGUF_CACHED_LAYERS,
    GGUF_WINDOW,
    GGUF_WINDOWS,
    HEADS,
    SHARED_LAYERS,
    WINDOW_EVERY,
    WINDOWS,
    Every,
)

# One value of the cache in 16 bit, and one of a recurrent state in 32.
_BYTES = 2
_STATE_BYTES = 4

# What a layer keeps: the cache of all tokens, that of a window, a recurrent state, or nothing of its own.
_ALL, _WINDOW, _STATE, _NONE = "all", "window", "state", "none"
_KINDS = {
    **dict.fromkeys(("full_attention", "attention", "full", "global", "hybrid", "deepseek_sparse_attention"), _ALL),
    **dict.fromkeys(("sliding_attention", "chunked_attention", "sliding", "local"), _WINDOW),
    **dict.fromkeys(("linear_attention", "mamba", "mamba2", "conv", "recurrent", "kda"), _STATE),
    **dict.fromkeys(("moe", "mlp"), _NONE),
}
# The letters of Nemotron-H, whose layers are attention, state space or neither.
_LETTERS = {"*": _ALL, "M": _STATE, "-": _NONE, "E": _NONE}

# With these the cache is compressed, or has an index whose size no source gives: it is not known.
_UNTOLD = ("compress_ratios", "sparse_attention_config")

_PARTS = {
    "vision": ("vision_config", "visual", "vit_config", "vision_tower"),
    "audio": ("audio_config", "audio_encoder_config", "sound_config"),
}

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

# What a geometry and the facts of a catalog have in common, beside the cache.
_SHARED = (
    "kv_bytes_per_window_token",
    "window",
    "layers",
    "attention_heads",
    "kv_heads",
    "full_kv_heads",
    "head_dim",
    "index_bytes_per_token",
    "state_bytes",
    "vocab",
    "hidden",
    "intermediate",
)


@dataclass(frozen=True)
class Geometry:
    """How a model is built, as far as memory depends on it.

    ``state_bytes`` is 0 where it is known that no layer keeps a state. ``cached`` is false for models that keep no cache.
    """

    architecture: t.Optional[str] = None
    context: t.Optional[int] = None
    layers: t.Optional[int] = None
    attention_heads: t.Optional[int] = None
    kv_heads: t.Optional[int] = None
    full_kv_heads: t.Optional[int] = None
    head_dim: t.Optional[int] = None
    kv_bytes_per_token: t.Optional[int] = None
    kv_bytes_per_window_token: t.Optional[int] = None
    window: t.Optional[int] = None
    index_bytes_per_token: t.Optional[int] = None
    state_bytes: t.Optional[int] = None
    vocab: t.Optional[int] = None
    hidden: t.Optional[int] = None
    intermediate: t.Optional[int] = None
    parts: t.Tuple[str, ...] = ()
    quantization: t.Optional[str] = None
    cached: bool = True


# --- config.json -----------------------------------------------------------------------------------------------------


def geometry_of_config(config: t.Mapping[str, t.Any]) -> Geometry:
    """Read a ``config.json``; of a model with several parts the one that writes text counts."""
    text = _text_part(config)
    kind = _word(text, "model_type") or _word(config, "model_type")
    known = HEADS.get(kind or "")
    kinds = _layer_kinds(text, kind)
    layers = _layers(text, "num_hidden_layers", "n_layer", "num_layers") or (len(kinds) if kinds else None)
    base = Geometry(
        architecture=kind,
        context=_whole(text, "max_position_embeddings", "n_positions", "seq_length", "max_seq_len"),
        layers=layers,
        attention_heads=_whole(text, "num_attention_heads", "n_head", "n_heads") or (known.heads if known else None),
        vocab=_whole(text, "vocab_size", "padded_vocab_size") or _whole(config, "vocab_size"),
        hidden=_whole(text, "hidden_size", "n_embd", "d_model"),
        intermediate=_whole(text, "intermediate_size", "ffn_hidden_size", "n_inner", "moe_intermediate_size"),
        parts=tuple(name for name, keys in _PARTS.items() if any(isinstance(config.get(key), dict) for key in keys)),
        quantization=_quantization(config, text),
    )
    if kind in ENCODERS:
        return replace(base, cached=False)
    if not layers or not base.attention_heads or kinds is None or any(text.get(key) for key in _UNTOLD):
        return base
    base = replace(base, state_bytes=_state_of_config(text, kind, base, kinds.count(_STATE)))
    if _whole(text, "kv_lora_rank"):
        return _latent_of_config(text, base, kinds)
    return _heads_of_config(text, kind, base, kinds)


def _text_part(config: t.Mapping[str, t.Any]) -> t.Mapping[str, t.Any]:
    """Return the part that writes text; of a model that speaks it is the one that thinks."""
    thinker = config.get("thinker_config")
    outer = thinker if isinstance(thinker, dict) else config
    for key in ("text_config", "llm_config", "language_config"):
        part = outer.get(key)
        if isinstance(part, dict) and _whole(part, "num_hidden_layers", "n_layer", "num_layers"):
            return part
    return outer


def _layer_kinds(text: t.Mapping[str, t.Any], kind: t.Optional[str]) -> t.Optional[t.List[str]]:
    """Return what each layer keeps; None where the file says it in words that are not known."""
    layers = _layers(text, "num_hidden_layers", "n_layer", "num_layers")
    kinds = _told_kinds(text, layers)
    if kinds is None:
        if not layers:
            return []
        kinds = _attention_by_index(text, kind, layers) or _windows_by_period(text, kind, layers)
    if layers:
        # What comes behind the layers are those that predict further tokens, which a plain run does not load.
        kinds = kinds[:layers]
    if not (_whole(text, "sliding_window", "attention_chunk_size") or WINDOWS.get(kind or "")):
        kinds = [_ALL if one == _WINDOW else one for one in kinds]
    shared = _count(text.get("num_kv_shared_layers", SHARED_LAYERS.get(kind or "", 0)))
    if shared:
        own = max(0, len(kinds) - shared)
        kinds = kinds[:own] + [_NONE] * (len(kinds) - own)
    return None if "" in kinds else kinds


def _told_kinds(text: t.Mapping[str, t.Any], layers: t.Optional[int]) -> t.Optional[t.List[str]]:
    """Return the kinds that the file lists one by one; an empty word is a kind that is not known."""
    for key in ("layer_types", "layers_block_type"):
        words = text.get(key)
        if isinstance(words, list) and words:
            return [_KINDS.get(word, "") if isinstance(word, str) else "" for word in words[:_MAX_LAYERS]]
    pattern = text.get("hybrid_override_pattern")
    if isinstance(pattern, str) and pattern:
        return [_LETTERS.get(letter, "") for letter in pattern[:_MAX_LAYERS]]
    # MiniMax: 1 is attention, 0 is linear. MiMo: 1 is a window, 0 sees all.
    for key, names in (("attn_type_list", (_STATE, _ALL)), ("hybrid_layer_pattern", (_ALL, _WINDOW))):
        numbers = text.get(key)
        if isinstance(numbers, list) and numbers:
            return [names[one] if one in (0, 1) else "" for one in numbers[:_MAX_LAYERS]]
    blocks = text.get("block_configs")
    if isinstance(blocks, list) and blocks and layers:
        return [_ALL if _group_size(block) else _NONE for block in blocks[:layers]]
    return None


def _group_size(block: t.Any) -> t.Optional[int]:
    """Return how many heads share one of the cache in a block of Nemotron NAS; None where it does not attend."""
    attention = block.get("attention") if isinstance(block, dict) else None
    return _whole(attention, "n_heads_in_group") if isinstance(attention, dict) else None


def _attention_by_index(text: t.Mapping[str, t.Any], kind: t.Optional[str], layers: int) -> t.Optional[t.List[str]]:
    """Return the kinds of a model that attends in some layers and keeps a state, or an image, in the others."""
    linear = text.get("linear_attn_config")
    chosen: t.Optional[t.Iterable[t.Any]] = None
    if isinstance(linear, dict) and isinstance(linear.get("full_attn_layers"), list):
        # Kimi counts its layers from 1.
        chosen = [one - 1 for one in linear["full_attn_layers"] if isinstance(one, int)]
    for key in ("attn_layer_indices", "full_attn_idxs"):
        if isinstance(text.get(key), list):
            chosen = text[key]
    period, offset = _whole(text, "attn_layer_period"), text.get("attn_layer_offset")
    if period and isinstance(offset, int):
        chosen = range(offset, layers, period)
    interval = _whole(text, "full_attention_interval") or ATTENTION_EVERY.get(kind or "")
    if interval:
        chosen = range(interval - 1, layers, interval)
    if chosen is not None:
        attends = set(chosen)
        return [_ALL if layer in attends else _STATE for layer in range(layers)]
    crossing = text.get("cross_attention_layers", CROSS_LAYERS.get(kind or ""))
    if isinstance(crossing, (list, tuple)) and crossing:
        return [_NONE if layer in crossing else _ALL for layer in range(layers)]
    return None


def _windows_by_period(text: t.Mapping[str, t.Any], kind: t.Optional[str], layers: int) -> t.List[str]:
    """Return the kinds of a model that attends everywhere, and in some layers only to a window."""
    full = [_ALL] * layers
    ropes = text.get("no_rope_layers")
    if isinstance(ropes, list) and ropes:
        # Llama 4: the layers with rotary positions see one chunk.
        return [_WINDOW if one else _ALL for one in ropes[:layers]]
    first = text.get("max_window_layers")
    if text.get("use_sliding_window") is True and isinstance(first, int) and not isinstance(first, bool):
        return [_WINDOW if layer >= first else _ALL for layer in range(layers)]
    if text.get("use_sliding_window") is False or ("sliding_window" in text and text["sliding_window"] is None):
        return full
    pattern = text.get("sliding_window_pattern")
    if isinstance(pattern, str) and pattern:
        return [_ALL if pattern[layer % len(pattern)] == "G" else _WINDOW for layer in range(layers)]
    every = (
        _whole(text, "sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers")
        or _whole(text, "no_rope_layer_interval")
        or WINDOW_EVERY.get(kind or "")
    )
    # A window of which it is not said where it holds: every layer counts in full.
    return full if not every else [_ALL if (layer + 1) % every == 0 else _WINDOW for layer in range(layers)]


def _latent_of_config(text: t.Mapping[str, t.Any], base: Geometry, kinds: t.Sequence[str]) -> Geometry:
    rope = _whole(text, "qk_rope_head_dim")
    if rope is None:
        return base
    width = t.cast("int", _whole(text, "kv_lora_rank")) + rope
    attending = kinds.count(_ALL)
    index = None
    size = _whole(text, "index_head_dim")
    if size and _whole(text, "index_n_heads"):
        # A key in 8 bit and a scale of 4 bytes for each 128 of its values (vLLM, DeepseekV32IndexerCache).
        told = text.get("indexer_types")
        own = attending if not isinstance(told, list) else sum(1 for one in told[: len(kinds)] if one == "full")
        index = own * (size + 4 * math.ceil(size / 128))
    return replace(base, kv_bytes_per_token=attending * width * _BYTES, index_bytes_per_token=index)


def _heads_of_config(
    text: t.Mapping[str, t.Any], kind: t.Optional[str], base: Geometry, kinds: t.Sequence[str]
) -> Geometry:
    heads, known = t.cast("int", base.attention_heads), HEADS.get(kind or "")
    kept = _kv_heads_of_config(text, kind, heads)
    dim = _whole(text, "head_dim", "attention_head_dim", "kv_channels") or (known.head_dim if known else None)
    if dim is None and base.hidden and base.hidden % heads == 0:
        dim = base.hidden // heads
    blocks = text.get("block_configs")
    if isinstance(blocks, list) and dim:
        groups = [size for size in map(_group_size, blocks[: len(kinds)]) if size]
        each = [2 * (heads // size) * dim * _BYTES for size in groups]
        most = max((heads // size for size in groups), default=None)
        return replace(base, kv_heads=most, head_dim=dim, kv_bytes_per_token=sum(each) or None)
    if kept is None or dim is None:
        return replace(base, kv_heads=kept, head_dim=dim)
    own_window = _whole(text, "swa_num_key_value_heads") is not None
    narrow = _token_bytes(
        _whole(text, "swa_num_key_value_heads") or kept,
        _whole(text, "swa_head_dim") or dim,
        (_whole(text, "swa_v_head_dim") if own_window else None) or _whole(text, "v_head_dim"),
    )
    # The layers that see everything may have heads of another number and size than the others.
    wide_dim, wide_heads = _whole(text, "global_head_dim") or dim, _whole(text, "num_global_key_value_heads") or kept
    wide = _token_bytes(
        wide_heads,
        wide_dim,
        _whole(text, "v_head_dim") if wide_dim == dim else None,
    )
    full, windowed = kinds.count(_ALL), kinds.count(_WINDOW)
    window = _whole(text, "sliding_window", "attention_chunk_size") or WINDOWS.get(kind or "")
    return replace(
        base,
        kv_heads=kept,
        full_kv_heads=wide_heads if windowed and wide_heads != kept else None,
        head_dim=dim,
        kv_bytes_per_token=full * (wide if windowed else _token_bytes(kept, dim, _whole(text, "v_head_dim"))) or None,
        kv_bytes_per_window_token=windowed * narrow or None,
        window=window if windowed else None,
    )


def _token_bytes(heads: int, key: int, value: t.Optional[int]) -> int:
    return heads * (key + (value or key)) * _BYTES


def _kv_heads_of_config(text: t.Mapping[str, t.Any], kind: t.Optional[str], heads: int) -> t.Optional[int]:
    """Return the heads in the cache; None where neither the file nor its architecture says it."""
    if kind in ("falcon", "RefinedWeb", "RefinedWebModel"):
        # FalconConfig: the number counts only in the newer form of the decoder.
        if text.get("new_decoder_architecture") is True or kind == "RefinedWeb":
            return _whole(text, "num_kv_heads", "n_head_kv") or heads
        return 1 if text.get("multi_query", True) is True else heads
    if kind == "gpt_bigcode":
        return 1 if text.get("multi_query", True) is True else heads
    if kind == "chatglm":
        grouped = text.get("multi_query_attention") is True
        return _whole(text, "multi_query_group_num") if grouped else heads
    kept = _whole(text, "num_key_value_heads", "num_kv_heads", "n_kv_heads", "num_query_groups")
    if kept is not None:
        return kept
    if text.get("multi_query") is True:
        return 1
    known = HEADS.get(kind or "")
    if known is None:
        return None
    # A null in the file stands for one of each; only what is not there at all is the default.
    return heads if known.kv_heads is None or "num_key_value_heads" in text else known.kv_heads


def _state_of_config(
    text: t.Mapping[str, t.Any], kind: t.Optional[str], base: Geometry, layers: int
) -> t.Optional[int]:
    """Return the recurrent state of one sequence; None where its size is not known, 0 where there is none."""
    if kind == "falcon_h1":
        # Every layer attends and keeps a state.
        layers = base.layers or 0
    if not layers:
        return 0
    values = _state_values(text, base)
    return None if values is None else values * layers * _STATE_BYTES


def _state_values(text: t.Mapping[str, t.Any], base: Geometry) -> t.Optional[int]:
    """Return how many values one layer keeps: what a convolution looks back on, and the state itself."""
    number = _numbers(text)
    hidden = base.hidden or 0
    delta = number("linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim", "linear_num_key_heads")
    if delta:
        # Gated delta rule (Qwen3-Next and later).
        values, key, value, keys = delta
        look_back = (_whole(text, "linear_conv_kernel_dim") or 4) - 1
        return look_back * (2 * keys * key + values * value) + values * key * value
    linear = text.get("linear_attn_config")
    if isinstance(linear, dict):
        # Kimi delta attention: three convolutions, and a matrix for each head.
        kda = _numbers(linear)("num_heads", "head_dim", "short_conv_kernel_size")
        return None if not kda else 3 * (kda[2] - 1) * kda[0] * kda[1] + kda[0] * kda[1] * kda[1]
    mamba = number("mamba_num_heads", "mamba_head_dim", "ssm_state_size", "n_groups", "conv_kernel")
    if mamba:
        # Mamba 2 as Nemotron-H writes it.
        return _mamba_values(mamba[0] * mamba[1], mamba[2], mamba[3], mamba[4])
    state, kernel = _whole(text, "mamba_d_state"), _whole(text, "mamba_d_conv")
    if state and kernel and hidden:
        inner = _whole(text, "mamba_d_ssm") or (_whole(text, "mamba_expand") or 2) * hidden
        # Mamba 1 (Jamba) has no groups, and its convolution sees nothing of the state.
        groups = (_whole(text, "mamba_n_groups") or 1) if _whole(text, "mamba_n_heads") else 0
        return _mamba_values(inner, state, groups, kernel)
    if isinstance(text.get("attn_type_list"), list) and base.attention_heads and _whole(text, "head_dim"):
        # Lightning attention (MiniMax): a matrix for each head.
        return base.attention_heads * t.cast("int", _whole(text, "head_dim")) ** 2
    length = _whole(text, "conv_L_cache")
    return hidden * (length - 1) if length and hidden else None


def _mamba_values(inner: int, state: int, groups: int, kernel: int) -> int:
    return (kernel - 1) * (inner + 2 * groups * state) + inner * state


def _numbers(values: t.Mapping[str, t.Any]) -> t.Callable[..., t.Optional[t.Tuple[int, ...]]]:
    """Return what gives all of the numbers that are asked for, or None."""

    def all_of(*keys: str) -> t.Optional[t.Tuple[int, ...]]:
        found = [_whole(values, key) for key in keys]
        known = tuple(one for one in found if one is not None)
        return known if len(known) == len(found) else None

    return all_of


# --- GGUF ------------------------------------------------------------------------------------------------------------


def geometry_of_gguf(facts: t.Mapping[str, t.Any]) -> Geometry:
    """Read the facts of a GGUF header."""
    name = facts.get("general.architecture")
    if not isinstance(name, str):
        return Geometry(quantization="gguf")
    own = {key[len(name) + 1 :]: value for key, value in facts.items() if key.startswith(f"{name}.")}
    layers = _layers(own, "block_count")
    base = Geometry(
        architecture=name,
        context=_whole(own, "context_length"),
        layers=layers,
        attention_heads=_largest(own.get("attention.head_count")),
        vocab=_whole(own, "vocab_size") or _length(facts.get("tokenizer.ggml.tokens")),
        hidden=_whole(own, "embedding_length"),
        intermediate=_largest(own.get("feed_forward_length")) or _largest(own.get("expert_feed_forward_length")),
        quantization="gguf",
    )
    if name in ENCODERS:
        return replace(base, cached=False)
    heads = base.attention_heads
    if not layers or not heads:
        return base
    counts = _gguf_heads(name, own, layers, heads)
    base = replace(base, state_bytes=_gguf_state(name, own, counts))
    latent = _whole(own, "attention.kv_lora_rank")
    if latent:
        rope = _whole(own, "rope.dimension_count")
        if rope is None:
            return base
        attending = sum(1 for count in counts if count)
        size = _whole(own, "attention.indexer.key_length")
        return replace(
            base,
            kv_bytes_per_token=attending * (latent + rope) * _BYTES,
            index_bytes_per_token=attending * size * _BYTES if size else None,
        )
    key = _whole(own, "attention.key_length") or (base.hidden // heads if base.hidden else None)
    value = _whole(own, "attention.value_length") or key
    if not key or not value:
        return base
    each = (key + value) * _BYTES
    narrow_key = _whole(own, "attention.key_length_swa") or key
    narrow = (
        (narrow_key + (_whole(own, "attention.value_length_swa") or narrow_key)) * _BYTES if narrow_key != key else each
    )
    windows = _gguf_windows(name, own, len(counts))
    full = sum(count for count, windowed in zip(counts, windows) if not windowed)
    windowed = sum(count for count, windowed in zip(counts, windows) if windowed)
    window = _whole(own, "attention.sliding_window") or GGUF_WINDOW.get(name)
    return replace(
        base,
        kv_heads=max(counts, default=0) or None,
        head_dim=key,
        kv_bytes_per_token=full * each or None,
        kv_bytes_per_window_token=windowed * narrow or None,
        window=window if windowed else None,
    )


def _gguf_heads(name: str, own: t.Mapping[str, t.Any], layers: int, heads: int) -> t.List[int]:
    """Return the heads that each layer has in the cache, 0 where it has none of its own.

    Where the file does not say it llama.cpp takes one for each head (llama-model.cpp).
    """
    told = own.get("attention.head_count_kv", heads)
    if isinstance(told, list):
        counts = [one for one in told[:layers] if isinstance(one, int) and not isinstance(one, bool) and one >= 0]
    else:
        counts = [_whole(own, "attention.head_count_kv") or heads] * layers
        interval = _whole(own, "full_attention_interval") or GGUF_ATTENTION_EVERY.get(name)
        if interval:
            counts = [count if (layer + 1) % interval == 0 else 0 for layer, count in enumerate(counts)]
    shared = _count(own.get("attention.shared_kv_layers"))
    cached = layers - shared if shared else GGUF_CACHED_LAYERS.get(name, layers)
    return [count if layer < cached else 0 for layer, count in enumerate(counts)]


def _gguf_windows(name: str, own: t.Mapping[str, t.Any], layers: int) -> t.List[bool]:
    """Return which layers see only a window."""
    pattern = own.get("attention.sliding_window_pattern")
    window = _whole(own, "attention.sliding_window") or GGUF_WINDOW.get(name)
    if not window or (name == "exaone4" and layers != 64):
        # Of EXAONE 4 only the model with 64 layers has windows (llama.cpp, exaone4.cpp).
        return [False] * layers
    if isinstance(pattern, list) and len(pattern) >= layers:
        return [bool(one) for one in pattern[:layers]]
    every = GGUF_WINDOWS.get(name)
    period = _whole(own, "attention.sliding_window_pattern")
    if period and (every or name.startswith("gemma")):
        every = Every(period, every.dense_first if every else False)
    if every is None:
        return [False] * layers
    dense = 0 if every.dense_first else every.period - 1
    return [layer % every.period != dense for layer in range(layers)]


def _gguf_state(name: str, own: t.Mapping[str, t.Any], counts: t.Sequence[int]) -> t.Optional[int]:
    """Return the recurrent state of one sequence (llama-hparams.cpp, n_embd_r and n_embd_s)."""
    layers = len(counts) if name == "falcon-h1" else sum(1 for count in counts if not count)
    if _count(own.get("attention.shared_kv_layers")) or name in GGUF_CACHED_LAYERS or not layers:
        return 0
    number = _numbers(own)
    mamba = number("ssm.conv_kernel", "ssm.inner_size", "ssm.state_size")
    values: t.Optional[int] = None
    if mamba:
        values = _mamba_values(mamba[1], mamba[2], _whole(own, "ssm.group_count") or 0, mamba[0])
    kda = number("kda.head_dim", "ssm.conv_kernel", "attention.head_count")
    if kda:
        width = kda[0] * kda[2]
        values = 3 * (kda[1] - 1) * width + kda[0] * width
    conv = number("shortconv.l_cache", "embedding_length")
    if conv:
        values = (conv[0] - 1) * conv[1]
    return None if values is None else values * layers * _STATE_BYTES


def _length(value: t.Any) -> t.Optional[int]:
    """Return the length of a list, of which only the length may have been kept."""
    if isinstance(value, list):
        return len(value) or None
    return _whole(value, "length") if isinstance(value, dict) else None


# --- what follows ----------------------------------------------------------------------------------------------------


def facts_of(geometry: Geometry, weight_bytes: int) -> MemoryFacts:
    """Return the facts that a need is computed from; a model without a cache takes 0 bytes a token."""
    return MemoryFacts(
        weights_gib=weight_bytes / GIB,
        kv_bytes_per_token=geometry.kv_bytes_per_token if geometry.cached else 0,
        parts=geometry.parts,
        **{name: getattr(geometry, name) for name in _SHARED},
    )


def memory_facts(geometry: Geometry, weight_bytes: int) -> t.Dict[str, t.Any]:
    """Return what the catalog writes as ``memory`` of a model, without what is not known."""
    facts: t.Dict[str, t.Any] = {"weights_gib": round(weight_bytes / GIB, 2)}
    for key in ("kv_bytes_per_token", *_SHARED):
        value = getattr(geometry, key)
        if value:
            facts[key] = value
    return facts


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


def _count(value: t.Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MAX_LAYERS else 0


def _quantization(config: t.Mapping[str, t.Any], text: t.Mapping[str, t.Any]) -> t.Optional[str]:
    how = config.get("quantization_config") or text.get("quantization_config") or config.get("quantization")
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
