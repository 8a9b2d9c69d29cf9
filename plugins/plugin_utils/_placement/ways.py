# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Any way that fits: ways to run models for which the catalog names no class of GPUs.

Engines in the order of the entry, then the fewest GPUs, then the smallest class; over nodes only where no node alone can.
A way that the last plan recorded is kept while it fits: another constant of ours, or a few MiB of another driver, makes no
other way, and a changed key of the catalog does.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from dataclasses import dataclass, replace

from ansible_collections.knaster.inventory.plugins.module_utils import _gpu_table
from ansible_collections.knaster.inventory.plugins.module_utils._memory.ask import gpu_of_class
from ansible_collections.knaster.inventory.plugins.module_utils._memory.fit import fit
from ansible_collections.knaster.inventory.plugins.module_utils._memory.need import EXACT, Gpu
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import ANY_CLASS
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.memory import serve
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.ways import (
    FOUND,
    made_from,
    make_way,
    recorded_way,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import Shape
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import (
    ask_of_profile,
    gpu_refusal,
    short_gib,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import natural_key

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.module_utils._memory.facts import MemoryFacts
    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Model, Profile
    from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import Fleet
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import Options

# The least context that a way may have where the entry leaves it open, and the step in which it is given.
_LEAST_CONTEXT, _CONTEXT_STEP = 8192, 1024
# Engines that one replica can use over several nodes.
_OVER_NODES = frozenset(("vllm", "sglang", "llamacpp"))
_TABLE_COUNTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A class of GPUs as a fleet has it: its smallest GPU, how many one node has at most, and nodes by fabric and count."""

    name: str
    shape: Shape
    most: int
    on_fabric: Mapping[str, Sequence[int]]

    def nodes_with(self, gpus: int) -> int:
        """Return how many nodes of one fabric have so many of these GPUs."""
        return max((sum(count >= gpus for count in counts) for counts in self.on_fabric.values()), default=0)


def with_ways(
    models: Sequence[Model],
    fleet: Fleet,
    options: Options,
    previous: Mapping[str, t.Any] | None = None,
) -> list[Model]:
    """Return models with a profile for each way that they can run; those whose profiles are written stay as they are."""
    kept: dict[str, list[Mapping[str, t.Any]]] = {}
    if previous is not None and not options.replan_ways:
        for one in previous.get("replicas") or ():
            if one.get("way") is not None:
                kept.setdefault(one["model"], []).append(one)
    if not any(model.is_open for model in models):
        return [*models]
    offers = _offers(fleet)
    return [
        _with_ways(model, _Finder(model, offers, options), kept.get(model.name, ())) if model.is_open else model
        for model in models
    ]


def _with_ways(model: Model, finder: _Finder, recorded: Sequence[Mapping[str, t.Any]]) -> Model:
    """Return a model with its ways, those that only the last plan has first, each open profile among the written ones."""
    ways: dict[str, Profile] = {}
    bases = [profile for profile in model.profiles if profile.gpu_class == ANY_CLASS]
    for base in bases or (None,):
        kept = {way.name: way for one in recorded if (way := finder.recorded(one)) is not None}
        mine = {name: way for name, way in kept.items() if base is None or name.startswith(f"{base.name}-")}
        computed = {way.name: way for way in finder.find(base)}
        first = [way for name, way in mine.items() if name not in computed]
        for way in (*first, *(mine.get(name, way) for name, way in computed.items())):
            ways.setdefault(way.name, replace(way, rank=len(ways)))
    written = [profile for profile in model.profiles if profile.gpu_class != ANY_CLASS]
    return replace(model, profiles=(*written, *ways.values()))


def _offers(fleet: Fleet) -> list[Offer]:
    """Return the classes of a fleet, the smallest first."""
    smallest: dict[str, Shape] = {}
    counts: dict[str, Counter[int]] = {}
    for pool in fleet.node_pools:
        shape = fleet.shapes[pool.shape]
        if shape.mig or shape.memory_gb is None:
            continue
        # GPUs that nobody knows are told apart by their size.
        name = shape.gpu_class or f"{shape.memory_gb:g}gb"
        known = smallest.setdefault(name, shape)
        if (shape.memory_mib or 0) < (known.memory_mib or 0):
            smallest[name] = shape
        counts.setdefault(name, Counter())[pool.node] += len(pool.gpus)
    offers = []
    for name, shape in smallest.items():
        on_fabric: dict[str, list[int]] = {}
        for node, count in counts[name].items():
            for fabric in fleet.fabrics[node]:
                on_fabric.setdefault(fabric, []).append(count)
        offers.append(Offer(name=name, shape=shape, most=max(counts[name].values()), on_fabric=on_fabric))
    return sorted(offers, key=_size_of)


def _size_of(offer: Offer) -> tuple[float, list[t.Any]]:
    shape = offer.shape
    return shape.memory_mib or (shape.memory_gb or 0) * 1024, t.cast("list[t.Any]", natural_key(offer.name))


class _Finder:
    """Finds the ways of one model."""

    def __init__(self, model: Model, offers: Sequence[Offer], options: Options) -> None:
        self.model, self.offers = model, offers
        self.engines, self.passthrough = options.engines, options.passthrough

    def recorded(self, replica: Mapping[str, t.Any]) -> Profile | None:
        """Return the way of a replica of the last plan with what it needed then; None where the catalog changed since."""
        way = recorded_way(self.model, replica)
        record = replica["way"]
        if way is None or made_from(self.model, way, self.engines) != record.get("made_from"):
            return None
        return replace(way, found={key: record[key] for key in FOUND if key in record})

    def find(self, base: Profile | None) -> list[Profile]:
        """Return all ways in order of preference; where there is none, what comes nearest to one."""
        engines = [base.engine] if base is not None else [name for name in self.model.engines if name in self.engines]
        # Offers are in the order of their size, which stays among equals.
        found = [way for name in engines for way in sorted(self._on_one_node(name, base), key=lambda each: each.tp)]
        found = found or [way for name in engines for way in self._over_nodes(name, base)]
        if found:
            return found
        nearest = [way for name in engines for way in self._nearest(name, base)]
        return [*nearest[:1], *(way for name in engines for way in self._of_table(name, base))][:2]

    def _on_one_node(self, engine: str, base: Profile | None) -> Iterator[Profile]:
        for offer in self.offers:
            for count in self._counts(engine, base, offer.most):
                way = self._way(engine, offer.shape, base, tp=count)
                refusal = self._refusal(way, offer.shape)
                if refusal is None:
                    yield self._with_context(way, offer.shape)
                if refusal != "vram":
                    break

    def _over_nodes(self, engine: str, base: Profile | None) -> Iterator[Profile]:
        if engine not in _OVER_NODES:
            return
        for offer in self.offers:
            counts = self._counts(engine, base, offer.most)
            if not counts:
                continue
            for nodes in range(2, offer.nodes_with(counts[-1]) + 1):
                way = self._way(engine, offer.shape, base, tp=counts[-1], pp=nodes, nodes=nodes)
                refusal = self._refusal(way, offer.shape)
                if refusal is None:
                    yield self._with_context(way, offer.shape)
                if refusal != "vram":
                    break

    def _nearest(self, engine: str, base: Profile | None) -> list[Profile]:
        """Return the ways that lack least, so that a refusal can say of what."""
        tried = []
        for offer in self.offers:
            counts = self._counts(engine, base, offer.most)
            way = self._way(engine, offer.shape, base, tp=counts[-1] if counts else 1)
            ask = ask_of_profile(self.model, way, self.engines, passthrough=self.passthrough)
            tried.append((self._refusal(way, offer.shape) != "vram", short_gib(ask, offer.shape), way))
        return [way for _other, _short, way in sorted(tried, key=lambda each: each[:2])]

    def _of_table(self, engine: str, base: Profile | None) -> list[Profile]:
        """Return the way on the smallest GPU that is known to do, so that help can name it."""
        known = [(gpu, one) for one in _gpu_table.models() if (gpu := gpu_of_class(one)) is not None]
        for count in self._counts(engine, base, _TABLE_COUNTS):
            for gpu, one in sorted(known, key=lambda each: (each[0].memory_mib, each[1].gpu_class)):
                shape = Shape(
                    gpu_class=one.gpu_class,
                    memory_gb=one.memory_gb,
                    memory_mib=gpu.memory_mib,
                    reserved_mib=None,
                    compute_cap=one.compute_cap,
                    vendor=one.vendor,
                    mig=False,
                )
                way = self._way(engine, shape, base, tp=count)
                if self._refusal(way, shape) is None:
                    return [self._with_context(way, shape)]
        return []

    def _counts(self, engine: str, base: Profile | None, most: int) -> list[int]:
        """Return over how many GPUs of one node the engine can spread the model, in order."""
        if base is not None and base.tp > 1:
            return [base.tp] if base.tp <= most else []
        known, facts = self.engines.get(engine), self.model.memory
        split = known.split if known is not None else "none"
        if split == "layers":
            return [*range(1, min(most, (facts.layers if facts else None) or 1) + 1)]
        if split == "none" or facts is None or not facts.attention_heads:
            return [1] if most else []
        return [count for count in range(1, most + 1) if _splits(facts, count)]

    def _way(self, engine: str, shape: Shape, base: Profile | None, *, tp: int, pp: int = 1, nodes: int = 1) -> Profile:
        model, context = self.model, None
        if model.context_length is None and model.kind == "llm":
            context = min(_LEAST_CONTEXT, model.context or _LEAST_CONTEXT)
        sequences = model.sequences if model.sequences > 1 else None
        return make_way(
            model,
            engine,
            shape.gpu_class or ANY_CLASS,
            base,
            label=shape.gpu_class or f"{shape.memory_gb or 0:g}gb",
            tp=tp,
            pp=pp,
            nodes=nodes,
            context_length=context,
            sequences=sequences,
        )

    def _refusal(self, way: Profile, shape: Shape) -> str | None:
        ask = ask_of_profile(self.model, way, self.engines, passthrough=self.passthrough)
        return gpu_refusal(ask, shape)

    def _with_context(self, way: Profile, shape: Shape) -> Profile:
        """Return a way with the largest context that fits, where the entry leaves it open."""
        if way.context_length is None or shape.memory_mib is None:
            return way
        served = serve(self.model, way.engine, self.engines.get(way.engine), way)
        if served is None:
            return way
        found = fit(served.case(Gpu(shape.memory_mib, shape.reserved_mib, shape.gpu_class or "")))
        largest = found.largest_context
        # Where not all is known no more is promised than what is of use.
        if found.need.bound != EXACT or largest is None or largest < way.context_length:
            return way
        longest = largest if largest == self.model.context else largest // _CONTEXT_STEP * _CONTEXT_STEP
        return replace(way, context_length=max(way.context_length, longest))


def _splits(facts: MemoryFacts, count: int) -> bool:
    """Return whether so many GPUs share heads, key/value heads and the width of layers evenly."""
    heads, kept, width = facts.attention_heads or 1, facts.kv_heads or 1, facts.intermediate or 0
    return heads % count == 0 and (kept % count == 0 or count % kept == 0) and width % count == 0
