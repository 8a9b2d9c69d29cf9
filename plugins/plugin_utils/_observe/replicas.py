# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What was observed of the replicas, against what the catalog wants and says today."""

from __future__ import annotations

import dataclasses
import typing as t
from collections import Counter
from dataclasses import dataclass, field

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
    ALWAYS_ON,
    OFF,
    ON_DEMAND,
    Profile,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.fingerprint import (
    CURRENT,
    REPLAN,
    STALE,
    UNKNOWN,
    Drift,
    find_drift,
    role_fingerprint,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.ways import recorded_way
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.placements import MODEL, placements
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import natural_key

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
        Catalog,
        Model,
    )

READY, STARTING, DRAINING, FAILED = "ready", "starting", "draining", "failed"
STATES = (READY, STARTING, DRAINING, FAILED)
IDLE_SECONDS = 600


class DriftFinder:
    """Whether what runs is what the catalog says today."""

    def __init__(self, catalog: Catalog) -> None:
        self._models = {model.name: model for model in catalog.models}
        self._roles = {role.name: role for role in catalog.roles}
        self._of_role: dict[str, str] = {}

    def find(self, replica: Mapping[str, t.Any]) -> Drift | None:
        """The drift of an observed replica, or of a slot; None: there is nothing to compare it with."""
        recorded = replica.get("fingerprint") or None
        role, model = replica.get("role"), replica.get("model")
        if recorded is None:
            return Drift(state=UNKNOWN)
        if role is not None and self._roles:
            return self._role_drift(str(recorded), str(role))
        if role is None and model is not None and self._models:
            return self._model_drift(str(recorded), str(model), replica.get("profile"))
        told = replica.get("drift")
        return Drift(state=told) if told in (CURRENT, STALE, UNKNOWN) else None

    def _role_drift(self, recorded: str, name: str) -> Drift:
        if name not in self._roles:
            return Drift(state=STALE, changed={"role": REPLAN})
        if name not in self._of_role:
            self._of_role[name] = role_fingerprint(self._roles[name])
        same = self._of_role[name] == recorded
        return Drift(state=CURRENT) if same else Drift(state=STALE, changed={"role": REPLAN})

    def _model_drift(self, recorded: str, name: str, told: t.Any) -> Drift:
        profile_name = told.get("name") if isinstance(told, dict) else told
        model = self._models.get(name)
        way = told if isinstance(told, dict) else None
        profile = None if model is None else recorded_way(model, {**(way or {}), "profile": profile_name, "way": way})
        return find_drift(recorded, _without_defaults(told) if isinstance(told, dict) else None, profile)


def _without_defaults(profile: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """A profile as the catalog's own plain form has it, where somebody wrote out what is at its default."""
    defaults = {item.name: item.default for item in dataclasses.fields(Profile) if item.name != "name"}
    return {
        key: value
        for key, value in profile.items()
        if key != "gpus_per_node" and value not in (None, [], {}) and value != defaults.get(key)
    }


def idle_replicas(replicas: Sequence[Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return the ready replicas without a request for ten minutes, the longest first, with the GPUs they hold."""
    found = [
        {
            "id": one["id"],
            "model": one.get("model"),
            "idle_seconds": one["idle_seconds"],
            "gpus": sum(len(shard["gpu_indices"]) for shard in one["shards"]),
        }
        for one in replicas
        if one["state"] == READY and one.get("idle_seconds") is not None and one["idle_seconds"] >= IDLE_SECONDS
    ]
    return sorted(found, key=lambda one: (-one["idle_seconds"], natural_key(one["id"])))


@dataclass(slots=True, kw_only=True)
class Standing:
    """How a model that wants replicas stands."""

    name: str
    wanted: int
    placed: int = 0
    ready: int = 0
    starting: int = 0
    failed: int = 0
    draining: int = 0

    @property
    def short(self) -> bool:
        """Whether fewer replicas are ready than are wanted."""
        return self.ready < self.wanted

    @property
    def unplaceable(self) -> bool:
        """Whether it is short and nothing more of it is starting."""
        return self.short and not self.starting


@dataclass(slots=True, kw_only=True)
class Models:
    """The models of a fleet by what is wanted of them."""

    standing: list[Standing] = field(default_factory=list)
    on_demand: list[str] = field(default_factory=list)
    off: list[str] = field(default_factory=list)
    simulated: list[str] = field(default_factory=list)


def judge_models(plan: Mapping[str, t.Any], replicas: Sequence[Mapping[str, t.Any]], catalog: Catalog) -> Models:
    """How many replicas of each model are wanted and ready.

    The catalog says what is wanted, for models that it does not have the plan. Where nothing was observed, what has a
    place counts as ready. A replica that has a place and was not observed is still to come.
    """
    placed = Counter(one.name for one in placements(plan) if one.kind == MODEL)
    missing = {one["model"]: one["missing"] for one in plan.get("unplaced") or () if not one.get("role")}
    known: dict[str, Model] = {model.name: model for model in catalog.models}
    kinds = {name: model.serving for name, model in known.items()}
    wanted = {
        name: model.scaling.min
        for name, model in known.items()
        if kinds[name] == ALWAYS_ON and model.scaling is not None
    }
    for name in (*placed, *missing):
        if name not in known:
            wanted[name] = placed[name] + missing.get(name, 0)
    standing = {
        name: Standing(name=name, wanted=wanted[name], placed=placed[name]) for name in sorted(wanted, key=natural_key)
    }
    _observe(standing, replicas)
    on_demand = {name for name, kind in kinds.items() if kind == ON_DEMAND}
    off = {name for name, kind in kinds.items() if kind == OFF}
    on_demand |= {one["model"] for one in plan.get("on_demand") or () if one["model"] not in known}
    off |= {name for name in plan.get("off") or () if name not in known}
    simulated = {model.name for model in catalog.models if model.simulated}
    simulated |= {str(one["model"]) for one in replicas if one.get("simulated") and one.get("model")}
    return Models(
        standing=list(standing.values()),
        on_demand=sorted(on_demand, key=natural_key),
        off=sorted(off, key=natural_key),
        simulated=sorted(simulated, key=natural_key),
    )


def _observe(standing: Mapping[str, Standing], replicas: Sequence[Mapping[str, t.Any]]) -> None:
    if not replicas:
        for one in standing.values():
            one.ready = one.placed
        return
    seen: dict[str, int] = {}
    for replica in replicas:
        # A slot of a role serves what its users load; only a replica of its own counts for a model.
        model = None if replica.get("role") else standing.get(str(replica.get("model")))
        if model is not None:
            seen[model.name] = seen.get(model.name, 0) + 1
            setattr(model, replica["state"], getattr(model, replica["state"]) + 1)
    for one in standing.values():
        one.starting += max(0, one.placed - seen.get(one.name, 0))
