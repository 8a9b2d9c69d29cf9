# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What is known of a model's files for exact arithmetic."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, fields

_MOST = 1 << 50


@dataclass(frozen=True)
class MemoryFacts:
    """Facts of a model's files; GiB are 2**30 bytes, and None is not known.

    All are of the model and none is of an engine: how many layers see every token (``kv_bytes_per_token``) and how many
    only a window (``kv_bytes_per_window_token``), in 16 bit and over all ranks. Where a latent is cached there is one
    for all heads, and ``kv_heads`` is left out; ``full_kv_heads`` are those of the layers that see every token, where these
    have another number of them than the others. ``index_bytes_per_token`` is what sparse attention keeps beside the cache
    in a type of its own. ``state_bytes`` is the recurrent state of one sequence in 32 bit. ``expert_gib`` is the part of
    the weights that experts are. ``parts`` are those for images and sound, whose weights are among the weights, and
    ``vision_gib`` is what they take beside that while they work.
    """

    weights_gib: t.Optional[float] = None
    kv_bytes_per_token: t.Optional[int] = None
    kv_bytes_per_window_token: t.Optional[int] = None
    window: t.Optional[int] = None
    layers: t.Optional[int] = None
    attention_heads: t.Optional[int] = None
    kv_heads: t.Optional[int] = None
    full_kv_heads: t.Optional[int] = None
    head_dim: t.Optional[int] = None
    index_bytes_per_token: t.Optional[int] = None
    state_bytes: t.Optional[int] = None
    vocab: t.Optional[int] = None
    hidden: t.Optional[int] = None
    intermediate: t.Optional[int] = None
    expert_gib: t.Optional[float] = None
    parts: t.Tuple[str, ...] = ()
    vision_gib: t.Optional[float] = None


class FactError(ValueError):
    """Facts that somebody wrote cannot be read; the text says which and why."""


def read_facts(raw: t.Mapping[str, t.Any]) -> MemoryFacts:
    """Return the facts that a catalog, or a person, wrote as ``memory``; a null or a zero is not known.

    All faults are told in one FactError.
    """
    known = {field.name for field in fields(MemoryFacts)}
    values: t.Dict[str, t.Any] = {}
    faults: t.List[str] = []
    for key, value in raw.items():
        if key not in known:
            faults.append(f"there is no {key!s:.50}, it must be one of {', '.join(sorted(known))}")
        elif key == "parts":
            if isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value):
                values[key] = tuple(value)
            else:
                faults.append("parts must be a list of words, such as [vision]")
        elif value is not None:
            number = _read_number(value, whole=not key.endswith("_gib"))
            if number is None:
                kind = "a number" if key.endswith("_gib") else "a whole number"
                faults.append(f"{key} must be {kind} that is not below 0, not {value!s:.50}")
            else:
                values[key] = number or (None if key not in ("kv_bytes_per_token", "state_bytes") else 0)
    if faults:
        raise FactError("; ".join(faults))
    return MemoryFacts(**values)


def _read_number(value: t.Any, *, whole: bool) -> t.Union[int, float, None]:
    """Return a number that may have been written as text, as templates do; None where it is none."""
    if isinstance(value, str):
        try:
            value = int(value) if value.isdecimal() else float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _MOST:
        return None
    return None if whole and value != int(value) else int(value) if whole else value
