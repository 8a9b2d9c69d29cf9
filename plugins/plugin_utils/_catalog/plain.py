# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Values back to plain data, as people would have written them: normalised, and without what is at its default.

``check_catalog`` accepts what comes out of here again and gives the same values.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._memory.facts import MemoryFacts
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.engines import BUILTIN_ENGINES
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
    CapWindow,
    Catalog,
    Engine,
    GpuClass,
    Model,
    Needs,
    Profile,
    Role,
    Scaling,
    Slot,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.gpus import gpu_table
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.layers import difference
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.memory import vram_gb

if t.TYPE_CHECKING:
    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import ComputeCap

_CAP_FIELDS = frozenset(("min_cc", "max_cc", "compute_cap"))

# What a checked value derives from its other fields, what only the shipped table says, and what a plan found out.
_DERIVED = {Profile: frozenset(("gpus_per_node", "rank", "found")), Engine: frozenset(("gaps",))}


def _fields_of(cls: type) -> tuple[tuple[str, t.Any], ...]:
    """Return the fields of a value with their defaults; a field without one is always written."""
    found = []
    for item in dataclasses.fields(cls):
        if item.name in _DERIVED.get(cls, ()):
            continue
        default = item.default if item.default_factory is dataclasses.MISSING else item.default_factory()
        found.append((item.name, default))
    return tuple(found)


_FIELDS: dict[type, tuple[tuple[str, t.Any], ...]] = {
    cls: _fields_of(cls) for cls in (Model, Profile, Scaling, MemoryFacts, Role, Needs, Slot, Engine, GpuClass)
}


def plain_cap(cap: ComputeCap) -> float | str:
    """Return a compute capability as a number where that says it exactly, else as text."""
    return float(f"{cap[0]}.{cap[1]}") if cap[1] < 10 else f"{cap[0]}.{cap[1]}"


def plain(value: t.Any) -> dict[str, t.Any]:
    """Return one value (a model, role, profile, ...) as plain data, without what is at its default."""
    document: dict[str, t.Any] = {}
    for name, default in _FIELDS[type(value)]:
        item = getattr(value, name)
        if item is not default and item != default:
            document[name] = plain_cap(item) if name in _CAP_FIELDS else _plain_item(item)
    return document


def _plain_item(item: t.Any) -> t.Any:
    if isinstance(item, (str, int, float)):
        return item
    if isinstance(item, CapWindow):
        bounds = {"min_cc": item.low, "max_cc": item.high}
        return {name: plain_cap(cap) for name, cap in bounds.items() if cap is not None}
    if type(item) in _FIELDS:
        document = plain(item)
        return document["name"] if list(document) == ["name"] and isinstance(item, Slot) else document
    if isinstance(item, (tuple, list)):
        return [_plain_item(part) for part in item]
    return {key: _plain_item(part) for key, part in item.items()}


def plain_catalog(catalog: Catalog) -> dict[str, t.Any]:
    """Return the lists of a catalog in declaration order; engines are those that the catalog adds to the table."""
    return {
        "models": [_with_size(model, catalog) for model in catalog.models],
        "roles": [plain(role) for role in catalog.roles],
        "gpus": [_over(gpu_table().get(gpu.name), gpu) for gpu in catalog.gpus],
        "engines": [
            _over(BUILTIN_ENGINES.get(name), item)
            for name, item in catalog.engines.items()
            if BUILTIN_ENGINES.get(name) is not item
        ],
    }


def _with_size(model: Model, catalog: Catalog) -> dict[str, t.Any]:
    """Return a model as plain data with the size that follows from its facts, where it states none."""
    document = plain(model)
    if model.vram_gb is None and (size := vram_gb(model, catalog.engines)) is not None:
        first: dict[str, t.Any] = {key: document[key] for key in ("name", "kind") if key in document}
        document = {**first, "vram_gb": size, **document}
    return document


def _over(shipped: GpuClass | Engine | None, value: GpuClass | Engine) -> dict[str, t.Any]:
    """Return a value as what it changes of the shipped one of this name."""
    if shipped is None:
        return plain(value)
    if getattr(shipped, "gaps", ()) != getattr(value, "gaps", ()):  # nobody can write these
        return {**plain(value), "replace": True}
    return difference(plain(shipped), plain(value))
