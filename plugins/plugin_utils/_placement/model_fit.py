# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Which GPUs carry a model, how many of them, and how much more would: for a fleet, and for every class that is known."""

from __future__ import annotations

import typing as t
from collections import Counter
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.module_utils._memory.ask import Question, answer_to_plain, ask
from ansible_collections.knaster.inventory.plugins.module_utils._memory.engines import ENGINE_MEMORY
from ansible_collections.knaster.inventory.plugins.module_utils._memory.facts import MemoryFacts
from ansible_collections.knaster.inventory.plugins.module_utils._memory.need import Gpu
from ansible_collections.knaster.inventory.plugins.module_utils._memory.run import cache_arguments
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.gpus import most_mib
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.memory import least_context, memory_of_engine
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.columns import format_columns
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import natural_key

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.module_utils._memory.ask import Answer
    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
        ComputeCap,
        Engine,
        GpuClass,
        Model,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import Fleet

# What an engine gets to see of a GPU of which only the nominal size is known: error correction takes a sixteenth.
_LEAST_SHARE = 0.9375


# Words in the names of classes that engines take as a reason for smaller batches.
_SMALL = frozenset(word for rows in ENGINE_MEMORY.values() for row in rows for word in row.small)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """GPUs that are alike: what is known of one, how many there are, and how many of them one node has at most."""

    gpu_class: str | None
    vendor: str | None
    compute_cap: ComputeCap | None
    memory_mib: float | None
    reserved_mib: float | None = None
    total: int | None = None
    most: int | None = None

    def gpu(self) -> Gpu | None:
        """Return one of them; None where its memory is not known."""
        if self.memory_mib is None:
            return None
        return Gpu(self.memory_mib, self.reserved_mib, self.gpu_class or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked of every model."""

    context: int | None = None
    sequences: int = 1
    kv_dtype: str | None = None
    engine: str | None = None
    counts: tuple[int, ...] = (1, 2, 4, 8)


def kinds_of_fleet(fleet: Fleet) -> list[Kind]:
    """Return the kinds of GPUs of a fleet, by class and memory. Parts of GPUs are left out."""
    on_node = Counter(zip(fleet.gpu_shape, fleet.gpu_node, strict=True))
    kinds = []
    for number, shape in enumerate(fleet.shapes):
        nodes = [count for (other, _node), count in on_node.items() if other == number]
        if shape.mig or shape.virtual or not nodes:
            continue
        mib = shape.memory_mib
        if mib is None and shape.memory_gb is not None and not shape.unified:
            mib = shape.memory_gb * 1024 * _LEAST_SHARE
        kinds.append(
            Kind(
                gpu_class=shape.gpu_class,
                vendor=shape.vendor,
                compute_cap=shape.compute_cap,
                memory_mib=mib,
                reserved_mib=shape.reserved_mib,
                total=sum(nodes),
                most=max(nodes),
            )
        )
    return sorted(kinds, key=lambda kind: (natural_key(kind.gpu_class or ""), kind.memory_mib or 0))


def kinds_of_classes(classes: Mapping[str, GpuClass]) -> list[Kind]:
    """Return a kind for each class of GPUs, in their order."""
    return [
        Kind(gpu_class=name, vendor=one.vendor, compute_cap=one.compute_cap, memory_mib=most_mib(one))
        for name, one in classes.items()
    ]


def fit_models(
    models: Sequence[Model], kinds: Sequence[Kind], wanted: Wanted, engines: Mapping[str, Engine]
) -> list[dict[str, t.Any]]:
    """Return for each model and each kind of GPUs whether it fits, on how many, and with which engine.

    Of the engines of a model the first that certainly fits is taken, else the first that may, else the one that comes
    nearest to it; ``reason`` says why none was counted.
    """
    looks = [_look(kind) for kind in kinds]
    rows = []
    for model in models:
        answers: dict[t.Hashable, dict[str, t.Any]] = {}
        for kind, look in zip(kinds, looks, strict=True):
            if look not in answers:
                answers[look] = _fit_model(model, kind, wanted, engines)
            rows.append({"model": model.name, **_shown(kind), **answers[look]})
    return rows


def _look(kind: Kind) -> t.Hashable:
    """Return all that an answer depends on, so that kinds which differ by their name alone are asked about once."""
    small = frozenset(word for word in _SMALL if word in (kind.gpu_class or ""))
    return kind.vendor, kind.compute_cap, kind.memory_mib, kind.reserved_mib, kind.most, small


def format_fits(rows: Sequence[Mapping[str, t.Any]]) -> str:
    """Return rows as a text that a person reads at once."""
    header = ("model", "GPU", "in fleet", "fits", "GPUs", "engine", "free GiB", "context", "requests", "note")
    fits = {True: "yes", False: "no", None: "maybe"}
    lines = [
        (
            row["model"],
            row["gpu_class"],
            row.get("in_fleet"),
            fits[row["fits"]],
            row["gpus"],
            row["engine"],
            row.get("free_gib"),
            row.get("largest_context"),
            row.get("most_sequences"),
            _note(row),
        )
        for row in rows
    ]
    return "".join(f"{line}\n" for line in format_columns(header, lines))


def _note(row: Mapping[str, t.Any]) -> str:
    """Say why a row is not a plain yes."""
    unknown = [term["name"] for term in row.get("terms") or () if term["gib"] is None]
    return row.get("reason") or (f"unknown: {', '.join(unknown)}" if unknown else "")


def _shown(kind: Kind) -> dict[str, t.Any]:
    shown: dict[str, t.Any] = {"gpu_class": kind.gpu_class, "memory_mib": kind.memory_mib}
    return shown if kind.total is None else {**shown, "in_fleet": kind.total}


def _fit_model(model: Model, kind: Kind, wanted: Wanted, engines: Mapping[str, Engine]) -> dict[str, t.Any]:
    gpu = kind.gpu()
    reasons: list[str] = []
    found: list[tuple[str, Answer]] = []
    for name in (wanted.engine,) if wanted.engine else model.engines:
        reason = _refusal(model, name, engines.get(name), kind)
        answer = None
        if reason is None and gpu is None:
            reason = "its memory is not known"
        elif reason is None and gpu is not None:
            answer = ask(_question(model, name, engines, wanted, kind), gpu)
            reason = None if answer else f"{name} cannot use so many GPUs"
        if answer is not None:
            found.append((name, answer))
        elif reason and reason not in reasons:
            reasons.append(reason)
        if answer is not None and answer.fit.fits:
            break
    if not found:
        refused = gpu is not None or "its memory is not known" not in reasons
        return {"engine": None, "gpus": None, "fits": False if refused else None, "reason": "; ".join(reasons)}
    name, best = min(found, key=lambda pair: _rank(pair[1]))
    return {"engine": name, **answer_to_plain(best)}


def _rank(answer: Answer) -> tuple[int, float]:
    """Put what fits before what may, and of what does not fit the nearest first."""
    fits = answer.fit.fits
    return (0, 0.0) if fits else (1, 0.0) if fits is None else (2, -answer.fit.free_gib)


def _refusal(model: Model, name: str, engine: Engine | None, kind: Kind) -> str | None:
    """Say why this engine cannot run the model on such a GPU, whatever its memory is; None where it can."""
    if name not in model.engines:
        return f"{model.name} is not served by {name}"
    if engine is None:
        return None
    if kind.vendor is not None and kind.vendor not in engine.vendors:
        return f"{name} does not run on GPUs of {kind.vendor}"
    cap = kind.compute_cap
    if cap is not None and model.min_cc is not None and cap < model.min_cc:
        return f"compute capability {cap[0]}.{cap[1]} is below min_cc {model.min_cc[0]}.{model.min_cc[1]}"
    if cap is not None and not engine.runs_on(cap, model.quantization):
        return f"{name} does not run it on compute capability {cap[0]}.{cap[1]}"
    return None


def _question(model: Model, name: str, engines: Mapping[str, Engine], wanted: Wanted, kind: Kind) -> Question:
    args, env = cache_arguments(name, wanted.kv_dtype)
    context = wanted.context or least_context(model)
    return Question(
        facts=model.memory or MemoryFacts(),
        engine=memory_of_engine(name, engines.get(name)),
        context=context,
        sequences=wanted.sequences,
        args=args,
        env=env,
        quantization=model.quantization,
        longest=model.context,
        generates=model.kind == "llm",
        counts=tuple(count for count in wanted.counts if kind.most is None or count <= kind.most),
    )
