# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What a model takes of a GPU on each rank, term by term, with the source of every term.

Everything is per GPU and rank, in GiB. Memory of several GPUs is never added. A term that is not known is no zero: it stays
unknown, and the sum of the others is a lower bound that says so.
"""

from __future__ import annotations

import functools
import math
import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.module_utils._memory.engines import (
    ALL,
    CELLS,
    IN_FLIGHT,
    LARGE_GIB,
    LOAD_FACTORS,
    POOL,
    STATIC,
    EngineMemory,
    Tier,
)
from ansible_collections.knaster.inventory.plugins.module_utils._memory.run import (
    ALL_LAYERS,
    SLOTTED,
    Run,
    cache_share,
    keeps_weights,
    only_adds,
    uncomputed_arguments,
    unknown_arguments,
)

if t.TYPE_CHECKING:
    from ansible_collections.knaster.inventory.plugins.module_utils._memory.facts import MemoryFacts

GIB = 1024**3

# The least context that makes a model of use where the catalog does not say what one request may take.
LEAST_CONTEXT = 4096

# Where a term comes from: arithmetic on facts, a number that somebody wrote, one that was measured, a constant that holds
# for want of facts, or nowhere.
COMPUTED, STATED, MEASURED, DEFAULT, UNKNOWN = "computed", "stated", "measured", "default", "unknown"
EXACT, LOWER = "exact", "lower"

# What a driver keeps of a GPU for itself when nobody measured it; covers every GPU that was looked at.
_RESERVED_MIB, _RESERVED_SHARE = 400, 0.006

# How many adapters an engine keeps on the GPU, and of which rank, where nothing says so (vLLM 0.33 and SGLang 0.5.23).
_LORAS: t.Mapping[str, int] = {"vllm": 1, "sglang": 8}
_LORA_RANK = 16


@dataclass(frozen=True)
class Gpu:
    """A GPU as its tool prints it; ``reserved_mib`` is what the driver keeps, where that was measured."""

    memory_mib: float
    reserved_mib: t.Optional[float] = None
    gpu_class: str = ""

    @functools.cached_property
    def total_gib(self) -> float:
        """What programs can have of it, in GiB."""
        reserved = self.reserved_mib
        if reserved is None:
            reserved = _RESERVED_MIB + _RESERVED_SHARE * self.memory_mib
        return (self.memory_mib - reserved) / 1024


@dataclass(frozen=True)
class Term:
    """One part of what a rank takes: GiB, or None where it is not known; ``note`` says how it comes about."""

    name: str
    gib: t.Optional[float]
    source: str
    note: str = ""


@dataclass(frozen=True)
class Need:
    """All terms of one rank, and what could not be counted.

    ``warnings`` name arguments that could not be computed or are not known.
    """

    terms: t.Tuple[Term, ...]
    warnings: t.Tuple[str, ...] = ()
    limited: bool = False

    @property
    def gib(self) -> float:
        """The sum of what is known."""
        return sum(term.gib for term in self.terms if term.gib is not None)

    @property
    def unknown(self) -> t.Tuple[str, ...]:
        """The names of the terms that are not known."""
        return tuple(term.name for term in self.terms if term.gib is None)

    @property
    def bound(self) -> str:
        """``lower`` where more than the sum may be taken, else ``exact``."""
        return LOWER if self.limited or self.unknown else EXACT

    def term(self, name: str) -> t.Optional[Term]:
        """Return the term of this name, or None where there is none."""
        return next((term for term in self.terms if term.name == name), None)


@dataclass(frozen=True)
class Case:
    """Everything that a need depends on.

    ``longest`` is the context that the model supports, which an engine takes where the run says none. ``generates`` is
    false for embedding models and rerankers, which sample nothing.
    """

    facts: MemoryFacts
    run: Run
    engine: EngineMemory
    gpu: Gpu
    quantization: t.Optional[str] = None
    longest: t.Optional[int] = None
    generates: bool = True

    @functools.cached_property
    def context(self) -> t.Optional[int]:
        """The tokens of one request."""
        return self.run.context or self.longest

    @functools.cached_property
    def tier(self) -> Tier:
        """What the engine sets by itself on this GPU."""
        tiers = self.engine.tiers or (Tier(0, 2048, 256),)
        if any(word in self.gpu.gpu_class for word in self.engine.small):
            return tiers[-1]
        return next((tier for tier in tiers if self.gpu.total_gib >= tier.least_gib), tiers[-1])

    @functools.cached_property
    def batched_tokens(self) -> int:
        """The tokens of one step."""
        if self.run.batched_tokens:
            return self.run.batched_tokens
        if self.engine.whole_prompts and self.context:
            return max(self.tier.batched_tokens, min(self.context, 32768))
        return self.tier.batched_tokens

    @functools.cached_property
    def rates(self) -> t.Optional[t.Tuple[float, float]]:
        """The GiB of a token on one rank, in layers that see all and in those that see a window; None is not known."""
        return _rates(self)

    @functools.cached_property
    def pool_gib(self) -> t.Optional[float]:
        """The cache that an argument states, by its bytes or by its tokens; None where none does."""
        if self.run.cache_bytes:
            return self.run.cache_bytes / GIB
        if self.run.cache_tokens and self.rates is not None:
            return self.run.cache_tokens * sum(self.rates)
        return None

    @property
    def max_sequences(self) -> int:
        """The sequences that the engine runs at once at most."""
        return self.run.max_sequences or self.tier.sequences


def need(case: Case) -> Need:
    """Return what one rank takes, with weights first; the largest rank where they are not equal."""
    uncomputed = uncomputed_arguments(case.run) if case.run.other else ()
    terms = [_weights(case), *_cache(case), *_scratch(case, case.context), *_lora(case), *_vision(case)]
    if any(not only_adds(option) for option in uncomputed):
        # What is known for sure is that the weights have to be there, unless it is them that were moved.
        kept = 1 if all(keeps_weights(option) for option in uncomputed) else 0
        why = f"{', '.join(uncomputed)} changes it in a way that is not computed"
        terms = [term if place < kept else Term(term.name, None, UNKNOWN, why) for place, term in enumerate(terms)]
    warnings = [f"{option} changes memory in a way that is not computed" for option in uncomputed]
    if case.run.other:
        warnings += [f"nothing is known of {option}" for option in unknown_arguments(case.run)]
    return Need(tuple(terms), tuple(warnings), limited=bool(uncomputed))


def usable(case: Case) -> float:
    """Return what the terms together may take of the GPU, in GiB."""
    run, total = case.run, case.gpu.total_gib
    if case.engine.rule == STATIC or (case.engine.rule == POOL and run.cache_bytes):
        return total
    share = case.engine.utilisation
    if case.engine.rule == POOL and run.utilisation is not None:
        share = run.utilisation
    return share * total - (run.reserve_bytes or 0) / GIB


def scratch_gib(case: Case, context: int) -> float:
    """Return what a step takes beside weights and cache where requests have so many tokens."""
    return sum(term.gib or 0.0 for term in _scratch(case, context))


class Cache(t.NamedTuple):
    """What the cache takes on one rank, in GiB; None is not known. The padding of an engine that does not pad is 0."""

    attention: t.Optional[float]
    padding: float
    state: t.Optional[float]

    @property
    def gib(self) -> t.Optional[float]:
        """All of it; a state that is not known is left out, as from any lower bound."""
        return None if self.attention is None else self.attention + self.padding + (self.state or 0.0)


def cache(case: Case, context: t.Optional[int], sequences: int) -> Cache:
    """Return what so many sequences of so many tokens keep on one rank."""
    return Cache(
        _attention_gib(case, context, sequences),
        _padding_gib(case, context, sequences),
        _state_gib(case, sequences),
    )


# --- weights ---------------------------------------------------------------------------------------------------------


def _weights(case: Case) -> Term:
    facts, run = case.facts, case.run
    if facts.weights_gib is None:
        return Term("weights", None, UNKNOWN, "the size of the weights is not known")
    factor = LOAD_FACTORS.get(case.quantization or "", case.engine.load_factor)
    size = facts.weights_gib
    note = f"{size:g} GiB in files x {factor:g} over {run.tp * run.pp} rank(s)"
    if run.cpu_moe_layers:
        if facts.expert_gib is None or not facts.layers:
            return Term("weights", None, UNKNOWN, "experts stay in main memory, and their size is not known")
        size -= facts.expert_gib * min(run.cpu_moe_layers, facts.layers) / facts.layers
        note += f", experts of {min(run.cpu_moe_layers, facts.layers)} layers in main memory"
    part = _layers_on_gpu(case)
    if part is None:
        return Term("weights", None, UNKNOWN, "some layers stay in main memory, and it is not known of how many")
    gib = size * part * factor * _rank_share(case)
    if run.cpu_offload_gib:
        gib = max(0.0, gib - run.cpu_offload_gib)
        note += f", {run.cpu_offload_gib:g} GiB in main memory"
    return Term("weights", gib, COMPUTED, note)


def _layers_on_gpu(case: Case) -> t.Optional[float]:
    """Return the share of the layers that is on GPUs; the output layer counts as one."""
    layers = case.run.gpu_layers
    if layers is None or layers >= ALL_LAYERS:
        return 1.0
    if case.facts.layers is None:
        return None
    return min(1.0, layers / (case.facts.layers + 1))


def _rank_share(case: Case) -> float:
    """Return the share of the largest rank: layers are not cut in two, heads are spread evenly."""
    run = case.run
    if case.engine.split == "none":
        return 1.0
    parts = run.pp if case.engine.split == "heads" else run.tp * run.pp
    share = 1 / parts
    if case.facts.layers and parts > 1:
        share = min(1.0, math.ceil(case.facts.layers / parts) / case.facts.layers)
    return share / run.tp if case.engine.split == "heads" else share


# --- cache -----------------------------------------------------------------------------------------------------------


def _cache(case: Case) -> t.Iterator[Term]:
    run, note = case.run, ""
    if not case.engine.caches:
        return
    if case.pool_gib is not None:
        option = "--kv-cache-memory-bytes" if run.cache_bytes else "--max-total-tokens"
        yield Term("kv_cache", case.pool_gib, STATED, option)
        return
    attention, padding, state = cache(case, case.context, run.sequences)
    if attention is not None:
        note = f"{run.sequences} x {case.context or 0} tokens, {run.cache_k or '16 bit'}"
        yield Term("kv_cache", attention, COMPUTED, note)
    else:
        yield Term("kv_cache", None, UNKNOWN, _why_no_cache(case))
    if padding:
        yield Term("kv_padding", padding, COMPUTED, "layers of several kinds are padded to groups of one size")
    if state is None:
        yield Term("state", None, UNKNOWN, "some layers keep no cache, and what they keep is not known")
    elif state:
        yield Term("state", state, COMPUTED, f"recurrent state of {run.sequences} sequence(s)")


def _why_no_cache(case: Case) -> str:
    if _bytes_per_token(case.facts) is None:
        return "how the model is built is not known"
    if case.context is None:
        return "it is not known how long a request may be"
    return f"nothing is known of a cache of type {case.run.cache_k}"


def _bytes_per_token(facts: MemoryFacts) -> t.Optional[t.Tuple[int, int]]:
    """Return the bytes of a token in 16 bit over all ranks: in layers that see all, and in those that see a window."""
    if facts.kv_bytes_per_token is not None or facts.kv_bytes_per_window_token is not None:
        full, windowed = facts.kv_bytes_per_token or 0, facts.kv_bytes_per_window_token or 0
        # Of a window whose length is not known nothing can be saved.
        return (full, windowed) if facts.window else (full + windowed, 0)
    if facts.layers and facts.kv_heads and facts.head_dim:
        return 2 * facts.layers * facts.kv_heads * facts.head_dim * 2, 0
    return None


def _rates(case: Case) -> t.Optional[t.Tuple[float, float]]:
    """Return the GiB of a token on one rank: in layers that see all, and in those that see a window."""
    facts = case.facts
    rates, part = _bytes_per_token(facts), _layers_on_gpu(case)
    if rates == (0, 0) or case.run.cache_on_host or not case.engine.caches:
        return 0.0, 0.0
    share = cache_share(case.run, latent=facts.kv_heads is None)
    if rates is None or share is None or part is None:
        return None
    each = share * part * _layer_share(case) / GIB
    index = (facts.index_bytes_per_token or 0) * part * _layer_share(case) / GIB
    full = rates[0] * each / _head_split(case, facts.full_kv_heads or facts.kv_heads)
    return full + index, rates[1] * each / _head_split(case, facts.kv_heads)


def _attention_gib(case: Case, context: t.Optional[int], sequences: int) -> t.Optional[float]:
    rates = case.rates
    if rates is None or rates == (0.0, 0.0):
        return None if rates is None else 0.0
    if context is None:
        return None
    tokens, windowed = _tokens(case, context, sequences)
    return rates[0] * tokens + rates[1] * windowed


def _tokens(case: Case, context: int, slots: int) -> t.Tuple[int, int]:
    """Return the tokens that all sequences together keep: in layers that see all, and in those that see a window."""
    run, block, window = case.run, case.engine.block, case.facts.window or 0
    if run.engine in SLOTTED or case.engine.windows == CELLS:
        cells, shared = _padded(context, block), run.unified
        seen = window * slots if shared else window
        within = _padded(min(context, seen + (case.batched_tokens if block > 1 else 0)), block)
        streams = 1 if shared else slots
        return cells * streams, (cells if run.full_windows else within) * streams
    if case.engine.windows == ALL or run.full_windows:
        return context * slots, context * slots
    return context * slots, min(context, window - 1 + case.batched_tokens) * slots


def _padded(tokens: int, block: int) -> int:
    return -(-tokens // block) * block


def _head_split(case: Case, heads: t.Optional[int]) -> int:
    """Return over how many ranks so many heads of the cache are split; a latent has none and is kept whole."""
    if case.engine.split != "heads":
        return 1
    return min(case.run.tp, heads) if heads else 1


def _layer_share(case: Case) -> float:
    share = _rank_share(case)
    return share * case.run.tp if case.engine.split == "heads" else share


def _padding_gib(case: Case, context: t.Optional[int], sequences: int) -> float:
    """Return what is lost because layers that see all and layers that see a window share pages in groups of one size.

    The size of a group is the smaller number of layers of one kind, or the larger where it is less than half more
    (kv_cache_utils of vLLM: a model of 8 and 9 layers is padded to 9 and 9).
    """
    facts = case.facts
    full, windowed = facts.kv_bytes_per_token, facts.kv_bytes_per_window_token
    if case.engine.rule != POOL or case.engine.windows != IN_FLIGHT or case.run.full_windows or case.rates is None:
        return 0.0
    if not (full and windowed and facts.layers and facts.window and context):
        return 0.0
    each = (full + windowed) / facts.layers
    layers = (round(full / each), round(windowed / each))
    if min(layers) < 1 or abs(layers[0] * each - full) > 1:
        # Layers of two widths are brought to one page in another way, which pads nothing.
        return 0.0
    size = max(layers) if max(layers) < 1.5 * min(layers) else min(layers)
    extra = [_padded(count, size) - count for count in layers]
    tokens, within = _tokens(case, context, sequences)
    return case.rates[1] / layers[1] * (extra[0] * tokens + extra[1] * within)


def _state_gib(case: Case, sequences: int) -> t.Optional[float]:
    facts = case.facts
    if not case.engine.caches:
        return 0.0
    if facts.state_bytes is None:
        return None if _some_layers_keep_no_cache(facts) else 0.0
    part = _layers_on_gpu(case)
    if part is None:
        return None
    return facts.state_bytes * sequences * part * _rank_share(case) / GIB


def _some_layers_keep_no_cache(facts: MemoryFacts) -> bool:
    """Return whether the cache is smaller than that of all layers: the others keep something else, or share a cache."""
    rates = _bytes_per_token(facts)
    if rates is None or not (facts.layers and facts.kv_heads and facts.head_dim) or rates == (0, 0):
        return False
    return sum(rates) < 2 * facts.layers * facts.kv_heads * facts.head_dim * 2


# --- what is taken beside weights and cache --------------------------------------------------------------------------


def _scratch(case: Case, context: t.Optional[int]) -> t.Iterator[Term]:
    engine = case.engine
    if engine.stated or not engine.factors:
        yield _overhead(case)
    elif engine.rule == STATIC:
        yield _static_reserve(case)
    elif engine.rule == POOL:
        yield from _pool_scratch(case)
    else:
        yield from _whole_scratch(case, context)


def _overhead(case: Case) -> Term:
    engine = case.engine
    # Larger batches are the engine's default on large GPUs; who has smaller ones does not pay for them.
    small_steps = case.batched_tokens <= 2048 if engine.tiers else (case.run.batched_tokens or 8192) <= 2048
    large = case.gpu.total_gib >= LARGE_GIB and not small_steps
    gib = engine.overhead_gib
    if large and engine.overhead_large_gib is not None:
        gib = engine.overhead_large_gib
    return Term("overhead", gib, STATED if engine.stated else DEFAULT, engine.source)


def _pool_scratch(case: Case) -> t.Iterator[Term]:
    facts, engine, run = case.facts, case.engine, case.run
    if not (facts.vocab and facts.hidden and facts.intermediate) or not (engine.logits_factor and engine.token_factor):
        yield _overhead(case)
        return
    tokens = case.batched_tokens
    sequences = min(case.max_sequences, tokens) if case.generates else 0
    logits = engine.logits_factor * sequences * facts.vocab * 4
    layers = engine.token_factor * tokens * (facts.intermediate / run.tp + facts.hidden)
    note = f"{sequences} sequences, {tokens} tokens a step"
    yield Term("activation", max(logits, layers) / GIB, COMPUTED, note)
    ranks = run.tp * run.pp
    yield Term("runtime", engine.runtime_gib if ranks == 1 else engine.runtime_ranks_gib, DEFAULT, engine.source)
    if engine.graphs_gib and not run.eager:
        yield Term("graphs", engine.graphs_gib, DEFAULT, engine.source)


def _static_reserve(case: Case) -> Term:
    """Return what SGLang leaves beside weights and cache: by its formula, or what --mem-fraction-static leaves."""
    run, total = case.run, case.gpu.total_gib
    if run.utilisation is not None:
        return Term("activation", (1 - run.utilisation) * total, STATED, "--mem-fraction-static")
    graphs = 0 if run.eager else 2 * (run.graph_sequences or case.tier.sequences)
    mib = 512 + 1.5 * max(case.batched_tokens, 2048) + 1024 * run.tp * run.pp / 8 + graphs
    if total > 60:
        mib = max(mib, 10240.0)
    return Term("activation", mib / 1024, COMPUTED, f"{case.batched_tokens} tokens a step; {case.engine.source}")


def _whole_scratch(case: Case, context: t.Optional[int]) -> t.Iterator[Term]:
    """Yield the compute buffer of llama.cpp, and what it leaves free."""
    facts, run = case.facts, case.run
    if not (facts.vocab and facts.hidden) or (run.flash_attention is False and not facts.attention_heads):
        yield _overhead(case)
        return
    step = case.batched_tokens
    # In 32 bit: the logits of a micro-batch and its input; or while it attends four of its inputs, the mask, and without
    # flash attention the scores of every head.
    output = step * (facts.vocab + facts.hidden) * 4
    cells = _padded(context or 0, case.engine.block)
    attend = 4 * step * facts.hidden * 4 + step * cells * 4
    attend += step * cells * (4 * (facts.attention_heads or 0) if run.flash_attention is False else 2)
    yield Term("activation", max(output, attend) / GIB, COMPUTED, f"micro-batches of {step} tokens")
    yield Term("runtime", case.engine.runtime_gib, DEFAULT, case.engine.source)


def _lora(case: Case) -> t.Iterator[Term]:
    facts, run = case.facts, case.run
    if not run.lora:
        return
    count, rank = run.loras or _LORAS.get(run.engine, 1), run.lora_rank or _LORA_RANK
    if not (facts.layers and facts.hidden and facts.intermediate and facts.attention_heads and facts.head_dim):
        yield Term("lora", None, UNKNOWN, "how the model is built is not known")
        return
    asked, kept = facts.attention_heads * facts.head_dim, (facts.kv_heads or facts.attention_heads) * facts.head_dim
    # Two matrices for each of q, k, v, o, gate, up and down, in 16 bit; kept whole on every rank.
    width = 7 * facts.hidden + 2 * asked + 2 * kept + 3 * facts.intermediate
    gib = count * rank * facts.layers * width * 2 / GIB
    yield Term("lora", gib, COMPUTED, f"{count} adapter(s) of rank {rank}")


def _vision(case: Case) -> t.Iterator[Term]:
    facts = case.facts
    if not (facts.parts or facts.vision_gib) or case.run.images is False or case.run.engine in SLOTTED:
        return
    names = " and ".join(facts.parts) or "images and sound"
    if case.facts.vision_gib is None:
        yield Term("vision", None, UNKNOWN, f"what {names} take while they work is not known")
    else:
        yield Term("vision", case.facts.vision_gib, STATED, names)
