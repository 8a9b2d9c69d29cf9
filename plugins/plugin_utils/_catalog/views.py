# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Questions to a checked catalog: who answers to a name, and the two views of a model."""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.plain import plain
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.rules import is_simulated

if t.TYPE_CHECKING:
    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
        Catalog,
        Model,
        Profile,
    )

ALWAYS_ON = "always_on"
ON_DEMAND = "on_demand"
OFF = "off"

_FOR_PLACEMENT = (
    "name",
    "kind",
    "vram_gb",
    "min_cc",
    "engines",
    "context",
    "context_length",
    "source",
    "quantization",
    "memory",
    "profiles",
    "scaling",
    "placement_priority",
    "spread",
    "per_node",
)
_FOR_ENGINE = (
    "name",
    "aliases",
    "kind",
    "source",
    "context",
    "context_length",
    "max_output",
    "capabilities",
    "lora",
    "quantization",
)
_PROFILE_FOR_PLACEMENT = frozenset(("args", "env", "weight", "startup_timeout"))
_PROFILE_FOR_ENGINE = ("engine", "tp", "pp", "nodes", "args", "env", "startup_timeout")


class Names:
    """The names of a catalog and who answers to them."""

    def __init__(self, catalog: Catalog) -> None:
        self._models = {model.name: model for model in catalog.models}
        self._owners = {alias: model for model in catalog.models for alias in model.aliases} | self._models

    def resolve(self, name: str) -> Model | None:
        """Return the model of this name or alias."""
        return self._owners.get(name)

    def aliases_of(self, name: str) -> tuple[str, ...]:
        """Return all other names of the model that answers to this one, in declaration order."""
        model = self._owners.get(name)
        return model.aliases if model else ()

    @property
    def declared(self) -> tuple[str, ...]:
        """The names of the models in declaration order."""
        return tuple(self._models)

    @property
    def ordered(self) -> tuple[str, ...]:
        """The names of the models in alphabetical order."""
        return tuple(sorted(self._models))


def serving(model: Model) -> str | None:
    """Return how a model is served: always on, on demand, deliberately off; None where it is only listed."""
    if model.scaling is None:
        return None
    if model.scaling.min > 0:
        return ALWAYS_ON
    return ON_DEMAND if model.scaling.max > 0 else OFF


def placement_view(model: Model) -> dict[str, t.Any]:
    """Return what placement needs of a model: where it may lie and how often, nothing of how it is started."""
    document = plain(model)
    view = {key: document[key] for key in _FOR_PLACEMENT if key in document}
    if "profiles" in view:
        view["profiles"] = [
            {key: value for key, value in profile.items() if key not in _PROFILE_FOR_PLACEMENT}
            for profile in view["profiles"]
        ]
    return view


def engine_view(model: Model, profile: Profile) -> dict[str, t.Any]:
    """Return what an engine needs to serve a model by a profile, with nothing left at a default to guess."""
    document = plain(model)
    view = {key: document[key] for key in _FOR_ENGINE if key in document}
    for key in _PROFILE_FOR_ENGINE:
        value = getattr(profile, key)
        view[key] = list(value) if isinstance(value, tuple) else dict(value) if key == "env" else value
    view["profile"] = profile.name
    view["simulated"] = is_simulated(model)
    return view
