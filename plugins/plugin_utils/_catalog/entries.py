# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The checked catalog as values: what was written, normalised, with nothing left to look up or guess.

Sizes are GB as people write them (nominal), GiB and MiB where the name says so; durations are whole seconds; compute
capabilities are (major, minor). ``None`` is always "not said", never zero.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

if t.TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.knaster.inventory.plugins.module_utils._memory.facts import MemoryFacts

ComputeCap = tuple[int, int]

DEFAULT_PRIORITY = 100
DEFAULT_STARTUP = 1200  # seconds
SIMULATOR = "sim"
# The class of a profile that carries arguments for whatever GPUs a model fits.
ANY_CLASS = "any"

ALWAYS_ON = "always_on"
ON_DEMAND = "on_demand"
OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """How many replicas: always-on (min > 0), on demand (min 0, max > 0) or deliberately off (0, 0)."""

    min: int
    max: int
    idle_timeout: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How a model runs on one GPU class, or on the CPU (``gpu_class`` None; then ``gpus_per_node`` is 0).

    ``context_length`` and ``sequences`` are those of a way that was computed, where they are not the model's own. ``rank`` is
    its place among the ways of one priority, and ``found`` what the last plan found out of it.
    """

    name: str
    engine: str = "vllm"
    gpu_class: str | None = None
    tp: int = 1
    pp: int = 1
    dp: int = 1
    expert_parallel: bool = False
    nodes: int = 1
    gpus_per_node: int = 1
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    image: str | None = None
    min_memory_gb: float | None = None
    min_disk_gb: float | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    weight: float = 1
    priority: int = 0
    startup_timeout: int = DEFAULT_STARTUP
    gpu_nodes: bool = False
    context_length: int | None = None
    sequences: int | None = None
    rank: int = 0
    found: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model that placement may list where it fits, and place where it has profiles and scaling."""

    name: str
    kind: str
    vram_gb: float | None = None
    min_cc: ComputeCap | None = None
    engines: tuple[str, ...] = ()
    context: int | None = None
    lora: bool = False
    aliases: tuple[str, ...] = ()
    description: str | None = None
    source: str | None = None
    profiles: tuple[Profile, ...] = ()
    scaling: Scaling | None = None
    engine_args: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fallbacks: tuple[str, ...] = ()
    routing_profile: str | None = None
    slo: Mapping[str, int] = field(default_factory=dict)  # milliseconds
    context_length: int | None = None
    sequences: int = 1
    max_output: int | None = None
    capabilities: tuple[str, ...] = ()
    license: str | None = None
    quantization: str | None = None
    memory: MemoryFacts | None = None
    placement_priority: int = DEFAULT_PRIORITY
    spread: str | Mapping[str, t.Any] | None = None
    per_node: int | None = None
    source_note: str | None = None

    @property
    def serving(self) -> str | None:
        """How the model is served: always on, on demand, deliberately off; None where it is only listed."""
        if self.scaling is None:
            return None
        if self.scaling.min > 0:
            return ALWAYS_ON
        return ON_DEMAND if self.scaling.max > 0 else OFF

    @property
    def is_open(self) -> bool:
        """Whether it is to run, and on which GPUs is left to what there is."""
        wanted = self.per_node or (self.scaling is not None and self.scaling.max > 0)
        open_profiles = not self.profiles or any(profile.gpu_class == ANY_CLASS for profile in self.profiles)
        return bool(wanted and open_profiles)

    @property
    def simulated(self) -> bool:
        """Whether nothing of this model is real: it has profiles, and each runs on the simulator."""
        return bool(self.profiles) and all(profile.engine == SIMULATOR for profile in self.profiles)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A place in the registry where one model can be served; ``model`` is the model it serves, where that is fixed."""

    name: str
    model: str | None = None
    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a role asks of a GPU and of the node around it."""

    engine: str
    min_vram_gb: float | None = None
    min_cc: ComputeCap | None = None
    max_cc: ComputeCap | None = None
    gpu: bool = True
    gpu_class: str | None = None
    vendor: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    min_memory_gb: float | None = None
    kind: str | None = None
    node: str | None = None
    gpu_nodes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A kind of virtual machine with needs. Lower ``priority`` is placed first."""

    name: str
    needs: Needs
    prefer: str = "smallest_fitting"
    count: int = 1
    slots: tuple[Slot, ...] = ()
    priority: int = DEFAULT_PRIORITY
    cpu_fallback: bool = False
    colocate: str | None = None
    spread: str | Mapping[str, t.Any] | None = None
    per_node: int | None = None
    vm: Mapping[str, t.Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapWindow:
    """Compute capabilities from ``low`` to ``high``, both included; None is open."""

    low: ComputeCap | None = None
    high: ComputeCap | None = None

    def __contains__(self, cap: ComputeCap) -> bool:
        return (self.low is None or cap >= self.low) and (self.high is None or cap <= self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What the engine table knows of a serving engine: what it runs on and how it is started and asked.

    ``split`` says how one replica spreads over GPUs: by attention ``heads``, by ``layers``, or not at all (``none``).
    ``gaps`` are capabilities between the floor and the ceiling that it has no build for. ``quantizations`` narrow the
    window for weights of that kind.
    """

    name: str
    cpu: bool = False
    min_cc: ComputeCap | None = None
    max_cc: ComputeCap | None = None
    gaps: tuple[CapWindow, ...] = ()
    quantizations: Mapping[str, CapWindow] = field(default_factory=dict)
    split: str = "heads"
    vendors: tuple[str, ...] = ("nvidia",)
    kinds: tuple[str, ...] = ("llm",)
    lora: bool = True
    overhead_gib: float | None = None
    overhead_large_gib: float | None = None
    utilisation: float | None = None
    default_port: int | None = None
    health: str | None = None
    models: str | None = None
    metrics: str | None = None

    def window(self, quantization: str | None = None) -> CapWindow:
        """Return the floor and the ceiling for weights of this quantisation: the narrower of engine's and weights'."""
        own = CapWindow(low=self.min_cc, high=self.max_cc)
        narrow = self.quantizations.get(quantization) if quantization else None
        if narrow is None:
            return own
        lows = [cap for cap in (own.low, narrow.low) if cap is not None]
        highs = [cap for cap in (own.high, narrow.high) if cap is not None]
        return CapWindow(low=max(lows, default=None), high=min(highs, default=None))

    def runs_on(self, cap: ComputeCap, quantization: str | None = None) -> bool:
        """Return whether the engine has a build for this capability that can read weights of this quantisation."""
        return cap in self.window(quantization) and not any(cap in gap for gap in self.gaps)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuClass:
    """A class of GPUs; ``memory_gb`` lists its nominal sizes, ``memory_mib`` is what its tool prints."""

    name: str
    names: tuple[str, ...] = ()
    vendor: str = "nvidia"
    memory_gb: tuple[float, ...] = ()
    memory_mib: int | None = None
    compute_cap: ComputeCap | None = None
    pci_ids: tuple[str, ...] = ()
    mig: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """A catalog without a single error, in declaration order."""

    models: tuple[Model, ...] = ()
    roles: tuple[Role, ...] = ()
    gpus: tuple[GpuClass, ...] = ()
    engines: Mapping[str, Engine] = field(default_factory=dict)

    def by_name(self) -> dict[str, Model]:
        """Return who answers to each name and alias."""
        aliases = {alias: model for model in self.models for alias in model.aliases}
        return aliases | {model.name: model for model in self.models}
