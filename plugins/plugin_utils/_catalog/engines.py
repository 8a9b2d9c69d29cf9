# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The engine table: what is known of each serving engine, and how a catalog adds to it.

Floors and ceilings are those of the versions named here; what no document or source states is left open.
vLLM 0.33, SGLang 0.5.23, llama.cpp of October 2026 (CUDA 12 build), Ollama with driver 550, text-embeddings-inference
1.9.3, infinity 0.0.78. ``sim`` answers like an engine without loading anything.
"""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
    CapWindow,
    Engine,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

KINDS = ("llm", "embedding", "reranker")
VENDORS = ("nvidia", "amd", "intel")
SPLITS = ("heads", "layers", "none")
QUANTIZATIONS = (
    "bf16",
    "fp16",
    "fp8",
    "fp8-w8a8",
    "int8-w8a8",
    "w4a16",
    "w4a8-fp8",
    "awq",
    "gptq",
    "bnb",
    "mxfp4",
    "nvfp4",
    "nvfp4-w4a4",
    "fp-quant",
    "gguf",
)

# How people spell an engine that the table knows under another name.
SPELLINGS: Mapping[str, str] = {"llama.cpp": "llamacpp", "llama-cpp": "llamacpp", "llama-server": "llamacpp"}

_ALL = ("llm", "embedding", "reranker")

BUILTIN_ENGINES: Mapping[str, Engine] = {
    engine.name: engine
    for engine in (
        Engine(
            name="vllm",
            min_cc=(7, 5),
            quantizations={
                # Kernels for 8-bit integers end before compute capability 10; the 4-bit float ones begin where they do.
                "int8-w8a8": CapWindow(low=(7, 5), high=(9, 9)),
                # Below 8.9 weights in FP8 are used as weights only (vLLM 0.33, fp8.py and marlin_utils_fp8.py).
                "fp8-w8a8": CapWindow(low=(7, 5)),
                "mxfp4": CapWindow(low=(8, 0)),
                "w4a8-fp8": CapWindow(low=(9, 0)),
                "nvfp4-w4a4": CapWindow(low=(10, 0)),
                "fp-quant": CapWindow(low=(10, 0)),
            },
            vendors=("nvidia", "amd"),
            kinds=_ALL,
            overhead_gib=2.5,
            overhead_large_gib=7.5,
            utilisation=0.92,
            default_port=8000,
            health="/health",
            models="/v1/models",
            metrics="/metrics",
        ),
        Engine(
            name="sglang",
            min_cc=(8, 0),
            vendors=("nvidia", "amd"),
            kinds=_ALL,
            overhead_gib=4.0,
            overhead_large_gib=10.0,
            utilisation=1.0,
            default_port=30000,
            health="/health",
            models="/v1/models",
            metrics="/metrics",
        ),
        Engine(
            name="llamacpp",
            cpu=True,
            min_cc=(5, 0),
            split="layers",
            vendors=VENDORS,
            kinds=_ALL,
            # One GiB stays free by the engine's own rule, the rest is its compute buffer.
            overhead_gib=1.8,
            utilisation=1.0,
            default_port=8080,
            health="/health",
            models="/v1/models",
            metrics="/metrics",
        ),
        Engine(
            name="ollama",
            cpu=True,
            min_cc=(5, 0),
            split="layers",
            vendors=("nvidia", "amd"),
            kinds=("llm", "embedding"),
            default_port=11434,
            health="/",
            models="/v1/models",
        ),
        Engine(
            name="tei",
            cpu=True,
            min_cc=(7, 5),
            max_cc=(12, 1),
            # An image is built for one generation and refuses the others.
            gaps=(CapWindow(low=(9, 1), high=(9, 9)), CapWindow(low=(10, 1), high=(11, 9))),
            split="none",
            kinds=("embedding", "reranker"),
            lora=False,
            default_port=3000,
            health="/health",
            models="/info",
            metrics="/metrics",
        ),
        Engine(
            name="infinity",
            cpu=True,
            split="none",
            kinds=("embedding", "reranker"),
            lora=False,
            default_port=7997,
            health="/health",
            models="/models",
            metrics="/metrics",
        ),
        Engine(
            name="sim",
            cpu=True,
            vendors=VENDORS,
            kinds=_ALL,
            overhead_gib=0.0,
            utilisation=1.0,
            default_port=8000,
            health="/health",
            models="/v1/models",
            metrics="/metrics",
        ),
    )
}


def engine_table(engines: Iterable[Engine] = ()) -> dict[str, Engine]:
    """Return the shipped table with these engines added; one of the same name replaces the shipped one."""
    return {**BUILTIN_ENGINES, **{engine.name: engine for engine in engines}}
