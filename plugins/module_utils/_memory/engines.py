# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What each serving engine takes of a GPU beside weights and cache, by its version, and how it counts the cache.

Every constant has its source in the ``source`` of its row; ``vllm#N`` is issue or pull request N of vllm-project/vllm. A
catalog may give constants of its own (``engine_memory``).
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, replace

# How an engine comes to the memory that it may use. POOL: a share of the GPU, in which weights, scratch memory and cache
# have to find room. STATIC: a share for weights and cache alone; what is beside it follows a formula. WHOLE: all of the
# GPU except what the engine leaves free.
POOL, STATIC, WHOLE = "pool", "static", "whole"

# How layers that see only a window are counted. ALL: as if they saw every token. IN_FLIGHT: the window and the tokens of
# one step. CELLS: the window and one micro-batch, rounded up to whole blocks of cells.
ALL, IN_FLIGHT, CELLS = "all", "in_flight", "cells"


class Tier(t.NamedTuple):
    """What an engine sets by itself on GPUs of this many GiB and more: tokens in one step, and sequences at once."""

    least_gib: float
    batched_tokens: int
    sequences: int


@dataclass(frozen=True)
class EngineMemory:
    """The memory of one engine from one version on.

    Scratch memory of a step is the larger of ``logits_factor`` x sequences x vocabulary x 4 bytes (sampling) and
    ``token_factor`` x tokens x (intermediate / tp + hidden) bytes (the layers). ``runtime_gib`` is what driver and
    libraries take on one rank, ``runtime_ranks_gib`` where several talk to each other. ``overhead_gib`` (and
    ``overhead_large_gib`` from ``LARGE_GIB`` on) stand for all of these where the facts of the model do not suffice.
    ``small`` are words in the classes of GPUs that get the lowest tier whatever their size is.
    """

    name: str
    source: str = ""
    since: t.Tuple[int, ...] = ()
    rule: str = POOL
    split: str = "heads"
    windows: str = ALL
    utilisation: float = 0.9
    block: int = 16
    tiers: t.Tuple[Tier, ...] = ()
    small: t.Tuple[str, ...] = ()
    logits_factor: t.Optional[float] = None
    token_factor: t.Optional[float] = None
    # Before prompts were cut into parts one step had to hold the longest prompt.
    whole_prompts: bool = False
    runtime_gib: float = 0.0
    runtime_ranks_gib: float = 0.0
    graphs_gib: float = 0.0
    load_factor: float = 1.02
    overhead_gib: float = 2.5
    overhead_large_gib: t.Optional[float] = None
    # Whether the scratch memory of a step is computed for this engine, and whether a catalog said what it is instead.
    factors: bool = False
    stated: bool = False
    # Engines for texts that are read as a whole keep no cache of them.
    caches: bool = True


# Engines take larger batches, and with them more scratch memory, on GPUs of 70 GiB and more.
LARGE_GIB = 68.0

# What loads larger than its files: weights in MXFP4 are padded for the kernels. gpt-oss-120b has 61.9 GiB in its files and
# loads 64.38, gpt-oss-20b 12.9 and 13.47 (llm-d-incubation/llm-d-planner, empirical results, vLLM 0.11.0 on H100).
LOAD_FACTORS: t.Mapping[str, float] = {"mxfp4": 1.045, "gguf": 1.0}

_VLLM_TIERS = (Tier(160, 16384, 1024), Tier(68, 8192, 1024), Tier(0, 2048, 256))
_VLLM_1 = EngineMemory(
    name="vllm",
    since=(0, 8),
    source=(
        "factors fitted to the memory profiles in llm-d-planner (0.11.0) and in vllm#15815; tiers: vLLM, "
        "EngineArgs.get_batch_defaults; share of the GPU: 0.9 until 0.20"
    ),
    windows=ALL,
    utilisation=0.90,
    tiers=_VLLM_TIERS,
    small=("a100", "a800", "gb10"),
    logits_factor=9.7,
    token_factor=6.0,
    runtime_gib=0.14,
    runtime_ranks_gib=0.55,
    overhead_gib=2.5,
    overhead_large_gib=7.5,
    factors=True,
)
_SGLANG_TIERS = (Tier(160, 16384, 512), Tier(60, 8192, 256), Tier(35, 4096, 32), Tier(20, 2048, 24), Tier(0, 2048, 8))

ENGINE_MEMORY: t.Mapping[str, t.Tuple[EngineMemory, ...]] = {
    "vllm": (
        replace(
            _VLLM_1,
            since=(),
            source="vllm#10511 (0.6.4) and vllm#10517: one step holds the longest prompt",
            whole_prompts=True,
            tiers=(Tier(0, 2048, 256),),
            runtime_gib=1.79,
            runtime_ranks_gib=3.58,
        ),
        _VLLM_1,
        replace(
            _VLLM_1,
            since=(0, 11),
            source=_VLLM_1.source
            + "; windowed layers: SlidingWindowSpec and the design page of the hybrid cache manager",
            windows=IN_FLIGHT,
        ),
        replace(
            _VLLM_1,
            since=(0, 21),
            source=_VLLM_1.source + "; graphs are profiled since 0.21 and take 0.39 to 1.03 GiB in llm-d-planner",
            windows=IN_FLIGHT,
            utilisation=0.92,
            graphs_gib=1.0,
        ),
        replace(
            _VLLM_1,
            since=(0, 28),
            source=(
                "vllm#48037: 3.04 GiB for Qwen3-8B on an H100, which is 5.3 times the logits; 0.31.0 logs 0.26 GiB outside "
                "of torch and 0.23 GiB of graphs for Llama-3.1-8B on an A100, other models up to 1.0 GiB of graphs"
            ),
            windows=IN_FLIGHT,
            utilisation=0.92,
            logits_factor=5.3,
            runtime_gib=0.26,
            graphs_gib=1.0,
        ),
    ),
    "sglang": (
        EngineMemory(
            name="sglang",
            since=(0, 5),
            source="SGLang 0.5.23, ServerArgs: how mem_fraction_static is computed where it is not given",
            rule=STATIC,
            utilisation=1.0,
            block=1,
            tiers=_SGLANG_TIERS,
            overhead_gib=4.0,
            overhead_large_gib=10.0,
            factors=True,
        ),
    ),
    "llamacpp": (
        EngineMemory(
            name="llamacpp",
            source=(
                "llama.cpp of October 2026: leaves 1024 MiB free (--fit-target); compute buffer checked against "
                "fedora-copr/logdetective#106; cells of windowed layers: llama-kv-cache-iswa"
            ),
            rule=WHOLE,
            split="layers",
            windows=CELLS,
            utilisation=1.0,
            block=256,
            tiers=(Tier(0, 512, 1),),
            runtime_gib=1.0,
            load_factor=1.0,
            overhead_gib=1.8,
            factors=True,
        ),
    ),
    "ollama": (
        EngineMemory(
            name="ollama",
            source="Ollama runs the library of llama.cpp; no measurement of its own",
            rule=WHOLE,
            split="layers",
            windows=CELLS,
            utilisation=0.9,
            block=256,
            tiers=(Tier(0, 512, 1),),
            load_factor=1.0,
            overhead_gib=2.5,
        ),
    ),
    "tei": (
        EngineMemory(
            name="tei", source="no measurement: the constants for an unknown engine", split="none", caches=False
        ),
    ),
    "infinity": (
        EngineMemory(
            name="infinity", source="no measurement: the constants for an unknown engine", split="none", caches=False
        ),
    ),
    "sim": (
        EngineMemory(name="sim", source="loads nothing", utilisation=1.0, overhead_gib=0.0, overhead_large_gib=0.0),
    ),
}

_VERSION = re.compile(r"\d+", re.ASCII)


def engine_memory(
    name: str,
    version: t.Optional[str] = None,
    *,
    utilisation: t.Optional[float] = None,
    overhead_gib: t.Optional[float] = None,
    overhead_large_gib: t.Optional[float] = None,
) -> EngineMemory:
    """Return the row of an engine: that of the version, or the newest. What a catalog states replaces what is shipped.

    A catalog that states an overhead knows its engine better than the shipped factors do, so they are left out then.
    """
    rows = ENGINE_MEMORY.get(name) or (EngineMemory(name=name, source="nothing is known of this engine"),)
    row = rows[-1]
    if version is not None:
        number = tuple(int(part) for part in _VERSION.findall(version)[:3])
        row = next((one for one in reversed(rows) if one.since <= number), rows[0])
    if utilisation is not None:
        row = replace(row, utilisation=utilisation)
    if overhead_gib is not None or overhead_large_gib is not None:
        least = row.overhead_gib if overhead_gib is None else overhead_gib
        row = replace(
            row,
            overhead_gib=least,
            overhead_large_gib=overhead_large_gib,
            stated=True,
            source="stated by the catalog",
        )
    return row
