# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The question of everybody who serves models: does it fit, on which GPUs, on how many, and how much more would."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.knaster.inventory.plugins.module_utils._memory.fit import Fit, fit, fits_at_all
from ansible_collections.knaster.inventory.plugins.module_utils._memory.need import Case, Gpu, need
from ansible_collections.knaster.inventory.plugins.module_utils._memory.run import read_run

if t.TYPE_CHECKING:
    from ansible_collections.knaster.inventory.plugins.module_utils._gpu_table import GpuModel
    from ansible_collections.knaster.inventory.plugins.module_utils._memory.engines import EngineMemory
    from ansible_collections.knaster.inventory.plugins.module_utils._memory.facts import MemoryFacts

# Error correction takes a sixteenth of a GPU whose printed size nobody noted.
_LEAST_SHARE = 0.9375


@dataclass(frozen=True)
class Question:
    """A model and how it is to be served; ``counts`` are the numbers of GPUs that are tried."""

    facts: MemoryFacts
    engine: EngineMemory
    context: t.Optional[int] = None
    sequences: int = 1
    args: t.Tuple[str, ...] = ()
    env: t.Mapping[str, str] = field(default_factory=dict)
    quantization: t.Optional[str] = None
    longest: t.Optional[int] = None
    generates: bool = True
    counts: t.Tuple[int, ...] = (1, 2, 4, 8)

    def case(self, gpu: Gpu, count: int) -> Case:
        """Return the question for so many of these GPUs."""
        run = read_run(self.engine.name, self.args, self.env, context=self.context, sequences=self.sequences, tp=count)
        return Case(
            self.facts,
            run,
            self.engine,
            gpu,
            quantization=self.quantization,
            longest=self.longest,
            generates=self.generates,
        )

    def possible_counts(self) -> t.Tuple[int, ...]:
        """Return the numbers of GPUs that the engine can spread the model over, in order."""
        counts = sorted({count for count in self.counts if count >= 1})
        if self.engine.split == "none":
            return tuple(count for count in counts if count == 1)
        if self.engine.split == "layers":
            most = self.facts.layers or counts[-1] if counts else 0
            return tuple(count for count in counts if count <= most)
        heads = self.facts.attention_heads
        return tuple(count for count in counts if count == 1 or (heads is not None and heads % count == 0))


@dataclass(frozen=True)
class Answer:
    """How a model fits: the least number of GPUs that carries it, or the one that comes nearest to it."""

    count: int
    fit: Fit


def gpu_of_class(model: GpuModel) -> t.Optional[Gpu]:
    """Return a GPU of the table as it is at least; None where its memory is the host's, or not known."""
    if model.unified:
        return None
    if model.printed_mib is not None:
        return Gpu(model.printed_mib, gpu_class=model.gpu_class)
    if model.memory_gb is not None:
        return Gpu(model.memory_gb * 1024 * _LEAST_SHARE, gpu_class=model.gpu_class)
    return None


def ask(question: Question, gpu: Gpu) -> t.Optional[Answer]:
    """Return how a model fits GPUs of one kind; None where the engine can use none of the numbers that were given.

    The first number that certainly fits, else the first that may, else the largest.
    """
    counts = question.possible_counts()
    chosen = counts[-1] if counts else None
    maybe = False
    for count in counts:
        fits = fits_at_all(question.case(gpu, count))
        if fits:
            chosen = count
            break
        if fits is None and not maybe:
            chosen, maybe = count, True
    return None if chosen is None else Answer(chosen, fit(question.case(gpu, chosen)))


def rank_rows(question: Question) -> t.List[t.Dict[str, t.Any]]:
    """Return what each rank holds of weights and cache for every number of GPUs, whatever the GPUs are."""
    rows = []
    for count in question.possible_counts():
        found = need(question.case(Gpu(0), count))
        held = [term for term in map(found.term, ("kv_cache", "kv_padding", "state")) if term is not None]
        known = [term.gib for term in held if term.gib is not None]
        kept = sum(known) if len(known) == len(held) else None
        part = found.term("weights")
        weights = None if part is None else part.gib
        rows.append(
            {
                "gpus": count,
                "weights_gib": _rounded(weights),
                "kv_cache_gib": _rounded(kept),
                "total_gib": None if weights is None or kept is None else _rounded(weights + kept),
            }
        )
    return rows


def answer_to_plain(answer: Answer) -> t.Dict[str, t.Any]:
    """Return an answer as plain data, every term with its source."""
    found = answer.fit
    return {
        "gpus": answer.count,
        "fits": found.fits,
        "bound": found.need.bound,
        "usable_gib": _rounded(found.usable_gib),
        "needed_gib": _rounded(found.need.gib),
        "free_gib": _rounded(found.free_gib),
        "largest_context": found.largest_context,
        "most_sequences": found.most_sequences,
        "cache_tokens": found.cache_tokens,
        "terms": [
            {"name": term.name, "gib": _rounded(term.gib), "source": term.source, "note": term.note}
            for term in found.need.terms
        ],
        "warnings": list(found.need.warnings),
    }


def table_rows(answers: t.Iterable[t.Mapping[str, t.Any]]) -> t.List[str]:
    """Return a table that a person reads at once: one line for each class of GPUs, in their order."""
    rows: t.List[t.Tuple[str, ...]] = [("GPU", "GPUs", "fits", "free GiB", "largest context", "sequences")]
    for one in answers:
        if one.get("gpus") is None:
            rows.append((str(one["gpu_class"]), "-", "unknown", "-", "-", "-"))
            continue
        fits = {True: "yes", False: "no", None: "maybe"}[one["fits"]]
        figures = [one["free_gib"], one["largest_context"], one["most_sequences"]]
        shown = ["-" if figure is None else f"{figure:,}" for figure in figures]
        rows.append((str(one["gpu_class"]), str(one["gpus"]), fits, *shown))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]


def _rounded(value: t.Optional[float]) -> t.Optional[float]:
    return None if value is None else round(value, 2)
