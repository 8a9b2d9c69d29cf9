# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Whether something fits: one predicate with reason codes in a fixed order, for everybody who asks.

The plan, the lists of models that fit, the table and the explanations all call ``gpu_refusal`` (a GPU by itself)
and ``Ledger.refusal`` (a GPU where it is). What cannot be seen on a GPU (others hold it, memory of the node) is added by
those who keep the books, with the codes that come later in the same order.
"""

from __future__ import annotations

import math
import typing as t
from collections import Counter
from dataclasses import dataclass, field

from ansible_collections.knaster.inventory.plugins.module_utils._memory.fit import Fit, fit
from ansible_collections.knaster.inventory.plugins.module_utils._memory.need import Gpu, need
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.engines import BUILTIN_ENGINES
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import ANY_CLASS
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.memory import (
    Served,
    needed_and_usable,
    nominal_gb,
    serve,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import (
    EXTERNAL,
    GPU_CORDONED,
    HEALTH_UNKNOWN,
    IOMMU,
    PAIRED,
    READY,
    UNHEALTHY,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
        CapWindow,
        ComputeCap,
        Engine,
        Model,
        Profile,
        Role,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import (
        Number,
        Shape,
    )


_NO_GPU = Gpu(0)
# A part of the need that is smaller is not told, in GiB.
_LEAST_TOLD = 0.05
_PLAIN_WEIGHTS = frozenset(("bf16", "fp16"))
_WITHOUT_CC = frozenset(("amd", "intel"))
# What a driver may take more of a GPU without making what runs there move, as a share of it.
_SLACK = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What one GPU, and the node around it, must offer. ``None`` asks nothing.

    ``exact`` are the models whose memory is computed for each GPU, ``beside_gib`` what others take of it; ``vram_gb`` is a
    size that was stated. ``known_gib`` is what a way of the last plan was found to need: it stays while the GPU has that,
    whatever would be computed today.
    """

    engines: tuple[str, ...] = ()
    kind: str | None = None
    vendor: str | None = None
    gpu_class: str | None = None
    min_cc: ComputeCap | None = None
    max_cc: ComputeCap | None = None
    # Whether the floor is only that of 16-bit weights, which GPUs of makers without compute capabilities run as well.
    is_plain: bool = False
    engine_min_cc: ComputeCap | None = None
    engine_max_cc: ComputeCap | None = None
    engine_gaps: tuple[CapWindow, ...] = ()
    engine_vendors: tuple[str, ...] = ()
    vram_gb: Number | None = None
    exact: tuple[Served, ...] = ()
    beside_gib: float = 0.0
    known_gib: float | None = None
    engine: str = ""
    node: str | None = None
    selector: Mapping[str, str] = field(default_factory=dict)
    whole_group: bool = False
    passthrough: bool = True
    # What was computed already, by GPU.
    computed: dict[Gpu, tuple[float, float]] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def size_gb(self) -> Number | None:
        """The size of the smallest GPU that does, as its box has it: as stated or, without that, by the facts."""
        if self.vram_gb is not None or not self.exact:
            return self.vram_gb
        return nominal_gb(self.exact, self.beside_gib)


def gpu_refusal(ask: Ask, shape: Shape, *, engine: str | None = None, kind: str | None = None) -> str | None:  # noqa: C901, PLR0911, PLR0912
    """Why a GPU of this shape does not do, or ``None``: the first rule that fails, in the order of the table of codes.

    ``engine`` and ``kind`` are what a role on that GPU already decided, where it is a model that asks.
    """
    if engine is not None and ask.engines and engine not in ask.engines:
        return "engine"
    if shape.vendor is not None and ask.engine_vendors and shape.vendor not in ask.engine_vendors:
        return "engine"
    if kind is not None and ask.kind is not None and kind != ask.kind:
        return "kind"
    if ask.vendor is not None and shape.vendor is not None and shape.vendor != ask.vendor:
        return "vendor"
    if ask.gpu_class is not None and shape.gpu_class != ask.gpu_class:
        return "gpu_class"
    if shape.mig or (shape.virtual and ask.passthrough):
        return "mig"
    cap = shape.compute_cap
    if cap is None:
        # A floor that was asked for cannot be shown to hold; what an engine needs in general is no reason to refuse.
        if ask.min_cc is not None and not (ask.is_plain and shape.vendor in _WITHOUT_CC):
            return "cc_min"
        if ask.max_cc is not None:
            return "cc_max"
    else:
        if (ask.min_cc is not None and cap < ask.min_cc) or (ask.engine_min_cc is not None and cap < ask.engine_min_cc):
            return "cc_min"
        if (ask.max_cc is not None and cap > ask.max_cc) or (ask.engine_max_cc is not None and cap > ask.engine_max_cc):
            return "cc_max"
        if any(cap in gap for gap in ask.engine_gaps):
            return "engine"
    if shape.memory_gb is None:
        return "memory_unknown" if ask.vram_gb is not None or ask.exact else None
    if ask.vram_gb is not None and shape.memory_gb < ask.vram_gb:
        return "vram"
    if ask.exact and short_gib(ask, shape) > 0:
        return "vram"
    return None


def short_gib(ask: Ask, shape: Shape) -> float:
    """How many GiB a GPU lacks by exact arithmetic; 0 where it has enough or nothing exact is known."""
    need, have = exact_gib(ask, shape)
    return max(0.0, need - have) if need else 0.0


def exact_gib(ask: Ask, shape: Shape) -> tuple[float, float]:
    """What is needed and what the engine may use of a GPU, in GiB; (0, 0) where nothing exact is known."""
    if shape.memory_mib is None:
        return 0.0, 0.0
    if not ask.exact:
        return 0.0, 0.0
    gpu = Gpu(shape.memory_mib, shape.reserved_mib, shape.gpu_class or "")
    found = ask.computed.get(gpu)
    if found is None and ask.known_gib is not None:
        found = ask.computed[gpu] = ask.known_gib, gpu.total_gib * (1 + _SLACK)
    elif found is None:
        needed, have = needed_and_usable(ask.exact, gpu)
        found = ask.computed[gpu] = needed + ask.beside_gib, have
    return found


def terms_gib(ask: Ask, shape: Shape) -> dict[str, float]:
    """Return what of the need is what, in GiB, the largest first; only what is known and counts."""
    found: Counter[str] = Counter()
    if shape.memory_mib is not None:
        gpu = Gpu(shape.memory_mib, shape.reserved_mib, shape.gpu_class or "")
        for served in ask.exact:
            found.update(
                {term.name: term.gib for term in need(served.case(gpu)).terms if (term.gib or 0) >= _LEAST_TOLD}
            )
    return dict(found.most_common())


def room(ask: Ask, shape: Shape) -> Fit | None:
    """Return how much more than what was asked one model finds on a GPU; None where that is not computed."""
    if len(ask.exact) != 1 or shape.memory_mib is None or ask.beside_gib:
        return None
    return fit(ask.exact[0].case(Gpu(shape.memory_mib, shape.reserved_mib, shape.gpu_class or "")))


def shared_mib(ask: Ask, shape: Shape) -> int:
    """What a placement takes of the memory of its node on a GPU that has none of its own, in MiB."""
    need, _have = exact_gib(ask, shape)
    return math.ceil(max(need, ask.vram_gb or 0) * 1024)


def node_refusal(ask: Ask, *, name: str, state: str, labels: Mapping[str, str]) -> str | None:
    """Why nothing new may go to this node, or ``None``."""
    if state != READY:
        return "node_state"
    if ask.node is not None and ask.node != name:
        return "node_pin"
    for key, value in ask.selector.items():
        if labels.get(key) != value:
            return "selector"
    return None


def flag_refusal(ask: Ask, flags: int) -> str | None:
    """Why a GPU cannot be had as it stands: broken, tied to its IOMMU group, or held by somebody else."""
    if flags & UNHEALTHY:
        return "unhealthy"
    if flags & HEALTH_UNKNOWN:
        return "health_unknown"
    if flags & GPU_CORDONED:
        return "gpu_cordoned"
    if ask.passthrough and (flags & IOMMU or (flags & PAIRED and not ask.whole_group)):
        return "iommu_group"
    if flags & EXTERNAL:
        return "external"
    return None


def ask_of_role(role: Role, models: Mapping[str, Model], engines: Mapping[str, Engine], *, passthrough: bool) -> Ask:
    """What a role asks of a GPU: its needs, and the needs of the models that its slots are fixed to."""
    needs = role.needs
    slots = [(models[slot.model], slot.args) for slot in role.slots if slot.model is not None and slot.model in models]
    served = [model for model, _args in slots]
    engine = engines.get(needs.engine)
    exact = [serve(model, needs.engine, engine, args=args) for model, args in slots]
    declared = sum(model.vram_gb for model in served if model.vram_gb is not None)
    vram = max((size for size in (needs.min_vram_gb, declared or None) if size is not None), default=None)
    floors = [cap for cap in (needs.min_cc, *(model.min_cc for model in served)) if cap is not None]
    return Ask(
        engines=(needs.engine,),
        kind=needs.kind,
        vendor=needs.vendor,
        gpu_class=needs.gpu_class,
        min_cc=max(floors, default=None),
        max_cc=needs.max_cc,
        is_plain=needs.min_cc is None and all(model.quantization in _PLAIN_WEIGHTS for model in served),
        vram_gb=vram,
        exact=tuple(one for one in exact if one is not None),
        node=needs.node,
        selector=needs.node_selector,
        passthrough=passthrough,
        **_of_engine(needs.engine, engine, [model.quantization for model in served]),
    )


def ask_of_profile(model: Model, profile: Profile, engines: Mapping[str, Engine], *, passthrough: bool) -> Ask:
    """What one GPU of a shard must offer, per rank."""
    ranks = profile.tp * profile.pp
    vram = None if model.vram_gb is None else model.vram_gb if ranks == 1 else math.ceil(model.vram_gb / ranks)
    exact = serve(model, profile.engine, engines.get(profile.engine), profile)
    return Ask(
        engines=(profile.engine,),
        gpu_class=None if profile.gpu_class == ANY_CLASS else profile.gpu_class,
        min_cc=model.min_cc,
        is_plain=model.quantization in _PLAIN_WEIGHTS,
        vram_gb=vram,
        exact=() if exact is None else (exact,),
        known_gib=None if profile.found is None else profile.found.get("need_gib"),
        selector=profile.node_selector,
        whole_group=True,
        passthrough=passthrough,
        **_of_engine(profile.engine, engines.get(profile.engine), (model.quantization,)),
    )


def ask_of_model(model: Model, engine_name: str, engines: Mapping[str, Engine]) -> Ask:
    """What a model asks of a GPU on which a role runs this engine."""
    exact = serve(model, engine_name, engines.get(engine_name))
    return Ask(
        engines=model.engines,
        kind=model.kind,
        min_cc=model.min_cc,
        is_plain=model.quantization in _PLAIN_WEIGHTS,
        vram_gb=model.vram_gb,
        exact=() if exact is None else (exact,),
        # The role has the GPU already, in whatever way.
        passthrough=False,
        **_of_engine(engine_name, engines.get(engine_name), (model.quantization,)),
    )


def models_fitting(
    models: Sequence[Model], shape: Shape, *, engine: str | None, kind: str | None, engines: Mapping[str, Engine]
) -> list[str]:
    """The names of the models that fit a GPU under an engine (``None``: under any of theirs), in catalog order."""
    fitting = []
    for model in models:
        names: Iterable[str] = (engine,) if engine is not None else model.engines or ("",)
        if any(
            gpu_refusal(ask_of_model(model, name, engines), shape, engine=engine, kind=kind) is None for name in names
        ):
            fitting.append(model.name)
    return fitting


def models_fitting_cpu(
    models: Sequence[Model],
    memory_gb: Number | None,
    *,
    engine: str,
    kind: str | None,
    engines: Mapping[str, Engine] = BUILTIN_ENGINES,
) -> list[str]:
    """The names of the models that an engine can serve from main memory of this size, in catalog order."""
    names = []
    for model in models:
        if engine in model.engines and (kind is None or model.kind == kind):
            served = serve(model, engine, engines.get(engine))
            size = model.vram_gb if served is None else needed_and_usable([served], _NO_GPU)[0]
            if memory_gb is None or size is None or size <= memory_gb:
                names.append(model.name)
    return names


def _of_engine(name: str, engine: Engine | None, quantizations: Sequence[str | None]) -> dict[str, t.Any]:
    if engine is None:
        return {"engine": name}
    windows = [engine.window(quantization) for quantization in quantizations or (None,)]
    return {
        "engine": name,
        "engine_min_cc": max((window.low for window in windows if window.low is not None), default=None),
        "engine_max_cc": min((window.high for window in windows if window.high is not None), default=None),
        "engine_gaps": engine.gaps,
        "engine_vendors": engine.vendors,
    }
