# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""How the memory of GPUs is asked about for what a catalog says: the one place where entries become cases.

Whoever checks, plans, explains or starts a model asks here, so that they cannot differ.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass, replace

from ansible_collections.knaster.inventory.plugins.module_utils._memory.engines import engine_memory
from ansible_collections.knaster.inventory.plugins.module_utils._memory.need import (
    LEAST_CONTEXT,
    Case,
    Gpu,
    need,
    usable,
)
from ansible_collections.knaster.inventory.plugins.module_utils._memory.run import read_run
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.capabilities import args_for
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.engines import BUILTIN_ENGINES

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.module_utils._memory.engines import EngineMemory
    from ansible_collections.knaster.inventory.plugins.module_utils._memory.facts import MemoryFacts
    from ansible_collections.knaster.inventory.plugins.module_utils._memory.run import Run
    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Engine, Model, Profile

# What a GPU under error correction with a current driver leaves of the size on its box (an A2 of 16 GB: 15356 MiB, of
# which the driver keeps 492).
_LEFT_OF_NOMINAL = 0.902
_MOST_TRIES = 20
# The rank of adapters with which engines are started that can take some: vLLM's default, and what SGLang is told.
_LORA_RANKS: Mapping[str, int] = {"vllm": 16, "sglang": 64}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Served:
    """A model as it is run, on GPUs that are not chosen yet."""

    facts: MemoryFacts
    run: Run
    engine: EngineMemory
    quantization: str | None = None
    longest: int | None = None
    generates: bool = True

    def case(self, gpu: Gpu) -> Case:
        """Return what one rank of it needs depends on, on such a GPU."""
        return Case(
            self.facts,
            self.run,
            self.engine,
            gpu,
            quantization=self.quantization,
            longest=self.longest,
            generates=self.generates,
        )


def memory_of_engine(name: str, engine: Engine | None) -> EngineMemory:
    """Return the memory of an engine: as it is shipped, or with what a catalog says of it."""
    if engine is None or BUILTIN_ENGINES.get(name) is engine:
        return engine_memory(name)
    return engine_memory(
        name,
        utilisation=engine.utilisation,
        overhead_gib=engine.overhead_gib,
        overhead_large_gib=engine.overhead_large_gib,
    )


def least_context(model: Model) -> int:
    """Return for how many tokens of context a model is served where no argument says it."""
    return model.context_length or min(LEAST_CONTEXT, model.context or LEAST_CONTEXT)


def run_of(model: Model, engine: str, profile: Profile | None = None, args: Sequence[str] = ()) -> Run:
    """Return how an engine runs a model by its profile, or alone by these words of a slot."""
    run = read_run(
        engine,
        # A profile was given all its words when it was read.
        args_for(model, engine, args) if profile is None else profile.args,
        None if profile is None else profile.env,
        context=(profile.context_length if profile is not None else None) or least_context(model),
        sequences=(profile.sequences if profile is not None else None) or model.sequences,
        tp=1 if profile is None else profile.tp,
        pp=1 if profile is None else profile.pp,
    )
    if model.lora and engine in _LORA_RANKS:
        # It is started with room for adapters.
        run = replace(run, lora=True, lora_rank=run.lora_rank or _LORA_RANKS[engine])
    return run


def serve(
    model: Model, name: str, engine: Engine | None, profile: Profile | None = None, args: Sequence[str] = ()
) -> Served | None:
    """Return a model as an engine runs it; None where it is not known how large its weights are."""
    if model.memory is None or model.memory.weights_gib is None:
        return None
    return Served(
        facts=model.memory,
        run=run_of(model, name, profile, args),
        engine=memory_of_engine(name, engine),
        quantization=model.quantization,
        longest=model.context,
        generates=model.kind == "llm",
    )


def needed_and_usable(served: Sequence[Served], gpu: Gpu) -> tuple[float, float]:
    """Return what models on one GPU need together, and what their engines may use of it, in GiB."""
    cases = [one.case(gpu) for one in served]
    return sum(need(case).gib for case in cases), min(map(usable, cases))


def nominal_gb(served: Sequence[Served], beside_gib: float = 0.0) -> int:
    """Return the size on its box of the smallest GPU that carries models, and so much beside them, in whole GB."""
    size = 1
    for _unused in range(_MOST_TRIES):
        # How much an engine takes beside the model depends on the size of the GPU.
        needed, have = needed_and_usable(served, Gpu(size * 1024 * _LEFT_OF_NOMINAL, reserved_mib=0.0))
        needed += beside_gib
        if needed <= have + 1e-6:
            break
        share = max(have, 0.01) / size
        size = max(size + 1, math.ceil(needed / share - 1e-6)) if have > size / 2 else max(size + 1, math.ceil(needed))
    return size


def vram_gb(model: Model, engines: Mapping[str, Engine]) -> float | None:
    """Return the size on its box of the smallest GPU that carries a model alone, under the engine that needs least.

    That is what its entry states, else what follows from its facts, and None where neither is known.
    """
    return computed_vram_gb(model, engines) if model.vram_gb is None else model.vram_gb


def computed_vram_gb(model: Model, engines: Mapping[str, Engine]) -> int | None:
    """Return what ``vram_gb`` is by the facts of a model; None where they are not known."""
    known = [one for one in (serve(model, name, engines.get(name)) for name in model.engines) if one is not None]
    return min((nominal_gb([one]) for one in known), default=None)
