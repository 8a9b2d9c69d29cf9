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
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.engines import BUILTIN_ENGINES
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import ANY_CLASS, Profile
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.fingerprint import digest
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.plain import plain

if t.TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Engine, Model

# What a way holds beside its name, engine and class of GPUs; what is at its default is not recorded.
_RECORDED = ("tp", "pp", "nodes", "context_length", "sequences")
# What is found out of a way when it is made: what each of its GPUs needs in GiB, and the requests that find room.
FOUND = ("need_gib", "room")
# What of an entry a way is made from, beside the GPUs: another value makes another way.
_MADE_FROM = (
    *("kind", "source", "quantization", "memory", "vram_gb", "min_cc", "engine_args"),
    *("context", "context_length", "sequences"),
)


def make_way(
    model: Model,
    engine: str,
    gpu_class: str,
    base: Profile | None = None,
    *,
    label: str | None = None,
    tp: int = 1,
    pp: int = 1,
    nodes: int = 1,
    context_length: int | None = None,
    sequences: int | None = None,
) -> Profile:
    """Return the profile of a way.

    :param base: the profile for any class that it is made from, which carries arguments and needs
    :param label: what the GPUs are called in its name, where they are of no class that is known
    :param context_length: what one request may use where the entry leaves it to the way
    """
    size = (f"-tp{tp}" if tp > 1 else "") + (f"-pp{pp}" if pp > 1 else "")
    return replace(
        base or Profile(name="", engine=engine, args=args_for(model, engine)),
        name=f"{base.name if base else engine}-{label or gpu_class}{size}",
        gpu_class=gpu_class,
        tp=tp,
        pp=pp,
        nodes=nodes,
        gpus_per_node=tp * pp // nodes,
        context_length=context_length,
        sequences=sequences,
    )


def is_way(model: Model, profile: Profile) -> bool:
    """Return whether a profile was computed, and is none that the catalog has."""
    return not any(one.name == profile.name for one in model.profiles if one.gpu_class != ANY_CLASS)


def record_way(
    model: Model, profile: Profile, engines: Mapping[str, Engine], found: Mapping[str, float]
) -> dict[str, t.Any]:
    """Return what a plan records of a way. Words of the command line stay in the catalog, since they may be secret."""
    known = {key: value for key in _RECORDED if (value := getattr(profile, key)) not in (None, 1)}
    return {**known, **found, "made_from": made_from(model, profile, engines)}


def made_from(model: Model, profile: Profile, engines: Mapping[str, Engine]) -> str:
    """Return the fingerprint of all that a catalog says about a way; what is shipped of engines is not in it."""
    document, base, engine = plain(model), _base_of(model, profile.name), engines.get(profile.engine)
    own = engine is not None and BUILTIN_ENGINES.get(profile.engine) is not engine
    return digest(
        {
            "model": {key: document[key] for key in _MADE_FROM if key in document},
            "profile": {} if base is None else plain(base),
            "engine": plain(engine) if own else {},
        }
    )


def recorded_way(model: Model, entry: Mapping[str, t.Any]) -> Profile | None:
    """Return the profile of a replica of a plan or of a slot as the catalog says it today; None where it says none.

    :param entry: with C(profile) (a name), C(engine), C(gpu_class) and, for a way that was computed, C(way)
    """
    written = next((one for one in model.profiles if one.name == entry.get("profile")), None)
    way, gpu_class = entry.get("way"), entry.get("gpu_class") or ANY_CLASS
    if written is not None or way is None:
        return written
    base = _base_of(model, str(entry.get("profile")))
    engine = str(entry.get("engine") or "vllm")
    if (base is None) is bool(model.profiles) or (base is None and engine not in model.engines):
        return None
    if base is not None and base.engine != engine:
        return None
    known = {key: way[key] for key in _RECORDED if way.get(key) is not None}
    # What the entry says itself today is no longer the way's.
    known["context_length"] = known.get("context_length") if model.context_length is None else None
    known["sequences"] = model.sequences if model.sequences > 1 else None
    return replace(make_way(model, engine, gpu_class, base, **known), name=str(entry.get("profile")))


def _base_of(model: Model, name: str) -> Profile | None:
    """Return the profile for any class that a way of this name was made from."""
    bases = [one for one in model.profiles if one.gpu_class == ANY_CLASS and name.startswith(f"{one.name}-")]
    return max(bases, key=lambda one: len(one.name), default=None)
