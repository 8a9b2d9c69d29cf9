# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Ways to run a model that nobody wrote down: a profile that is made for a class of GPUs, and recorded to be made again."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.capabilities import args_for
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import ANY_CLASS, Profile

if t.TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Model

# What a way holds beside its name, engine and class of GPUs; what is at its default is not recorded.
_RECORDED = ("tp", "pp", "nodes", "context_length", "sequences")


def make_way(
    model: Model,
    engine: str,
    gpu_class: str,
    base: Profile | None = None,
    *,
    tp: int = 1,
    pp: int = 1,
    nodes: int = 1,
    context_length: int | None = None,
    sequences: int | None = None,
) -> Profile:
    """Return the profile of a way.

    :param base: the profile for any class that it is made from, which carries arguments and needs
    :param context_length: what one request may use where the entry leaves it to the way
    """
    size = (f"-tp{tp}" if tp > 1 else "") + (f"-pp{pp}" if pp > 1 else "")
    return replace(
        base or Profile(name="", engine=engine, args=args_for(model, engine)),
        name=f"{base.name if base else engine}-{gpu_class}{size}",
        gpu_class=gpu_class,
        tp=tp,
        pp=pp,
        nodes=nodes,
        gpus_per_node=tp * pp // nodes,
        context_length=context_length,
        sequences=sequences,
    )


def record_way(model: Model, profile: Profile) -> dict[str, t.Any] | None:
    """Return what a plan records of a way; None for a profile that is written in the catalog."""
    if any(written.name == profile.name for written in model.profiles if written.gpu_class != ANY_CLASS):
        return None
    return {key: value for key in _RECORDED if (value := getattr(profile, key)) not in (None, 1)}


def recorded_way(model: Model, entry: Mapping[str, t.Any]) -> Profile | None:
    """Return the profile of a replica of a plan or of a slot as the catalog says it today; None where it says none.

    :param entry: with C(profile) (a name), C(engine), C(gpu_class) and, for a way that was computed, C(way)
    """
    written = next((one for one in model.profiles if one.name == entry.get("profile")), None)
    way, gpu_class = entry.get("way"), entry.get("gpu_class")
    if written is not None or way is None or not gpu_class:
        return written
    base = _base_of(model, str(entry.get("profile")))
    engine = str(entry.get("engine") or "vllm")
    if (base is None) is bool(model.profiles) or (base is None and engine not in model.engines):
        return None
    if base is not None and base.engine != engine:
        return None
    known = {key: way[key] for key in _RECORDED if way.get(key) is not None}
    is_left_open = model.context_length is None and model.kind == "llm"
    if is_left_open is ("context_length" in known) and known.get("sequences", 1) == model.sequences:
        return make_way(model, engine, gpu_class, base, **known)
    # The entry says now what was left to the way, or the other way round.
    return None


def _base_of(model: Model, name: str) -> Profile | None:
    """Return the profile for any class that a way of this name was made from."""
    bases = [one for one in model.profiles if one.gpu_class == ANY_CLASS and name.startswith(f"{one.name}-")]
    return max(bases, key=lambda one: len(one.name), default=None)
