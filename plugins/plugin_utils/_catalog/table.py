# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""A catalog as people want to read it: plain text in columns."""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.memory import vram_gb
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.rules import format_cap
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.columns import format_columns

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
        Catalog,
        Model,
        Profile,
        Role,
    )

SHOWN_NODES = 3

_SERVING = {"always_on": "always on", "on_demand": "on demand", "off": "off", None: "listed"}


class Places(t.Protocol):
    """Names of nodes: by model those with a GPU that it fits, by model and profile those that could run it."""

    @property
    def models(self) -> Mapping[str, Sequence[str]]:
        """Nodes by model."""

    @property
    def profiles(self) -> Mapping[tuple[str, str], Sequence[str]]:
        """Nodes by model and profile."""


def format_catalog(catalog: Catalog, where: Places | None = None) -> str:
    """Return models, profiles and roles as tables; with places, also where each could run."""
    blocks: list[list[str]] = []
    if catalog.models:
        header = ["model", "kind", "GB", "min cc", "engines", "context", "serving", "min", "max"]
        rows = [_model_row(model, catalog) for model in catalog.models]
        if where is not None:
            header.append("fits a GPU of")
            rows = [[*row, _some(where.models[row[0]])] for row in rows]
        blocks.append(["Models", *format_columns(header, rows)])
    pairs = [(model, profile) for model in catalog.models for profile in model.profiles]
    if pairs:
        header = ["model", "profile", "engine", "class", "tp", "pp", "nodes", "priority (higher first)"]
        rows = [_profile_row(model, profile) for model, profile in pairs]
        if where is not None:
            header.append("could run on")
            rows = [[*row, _some(where.profiles[row[0], row[1]])] for row in rows]
        blocks.append(["Profiles", *format_columns(header, rows)])
    if catalog.roles:
        header = ["role", "count", "engine", "needs", "prefer", "slots", "priority (lower first)"]
        blocks.append(["Roles", *format_columns(header, [_role_row(role) for role in catalog.roles])])
    return "\n\n".join("\n".join(block) for block in blocks) or "The catalog is empty."


def _model_row(model: Model, catalog: Catalog) -> list[t.Any]:
    scaling = model.scaling
    return [
        model.name,
        model.kind,
        vram_gb(model, catalog.engines),
        format_cap(model.min_cc) if model.min_cc else None,
        ", ".join(model.engines),
        model.context_length or model.context,
        _SERVING[model.serving],
        scaling.min if scaling else None,
        scaling.max if scaling else None,
    ]


def _profile_row(model: Model, profile: Profile) -> list[t.Any]:
    return [
        model.name,
        profile.name,
        profile.engine,
        profile.gpu_class or "CPU",
        profile.tp,
        profile.pp,
        profile.nodes,
        profile.priority,
    ]


def _role_row(role: Role) -> list[t.Any]:
    return [
        role.name,
        role.count,
        role.needs.engine,
        _needs_text(role),
        role.prefer,
        ", ".join(f"{slot.name} ({slot.model})" if slot.model else slot.name for slot in role.slots) or None,
        role.priority,
    ]


def _needs_text(role: Role) -> str:
    needs = role.needs
    parts = ["no GPU" if not needs.gpu else needs.gpu_class or "a GPU"]
    if needs.vendor:
        parts.append(f"of {needs.vendor}")
    if needs.min_vram_gb is not None:
        parts.append(f"{needs.min_vram_gb:g} GB")
    if needs.min_cc:
        parts.append(f"cc {format_cap(needs.min_cc)} or above")
    if needs.max_cc:
        parts.append(f"cc {format_cap(needs.max_cc)} or below")
    if needs.min_memory_gb is not None:
        parts.append(f"{needs.min_memory_gb:g} GB of RAM")
    if needs.node:
        parts.append(f"on {needs.node}")
    parts += [f"{label}={value}" for label, value in needs.node_selector.items()]
    return ", ".join(parts) + (", else no GPU" if role.cpu_fallback else "")


def _some(names: Sequence[str]) -> str | None:
    """Return the first names and how many more there are; a number of names does not make a table wider."""
    if not names:
        return None
    more = len(names) - SHOWN_NODES
    return ", ".join(names[:SHOWN_NODES]) + (f" and {more} more" if more > 0 else "")
