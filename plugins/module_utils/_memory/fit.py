# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Whether a model fits a GPU as it is run, and how much more would: context, sequences, tokens of cache."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ansible_collections.knaster.inventory.plugins.module_utils._memory.need import (
    EXACT,
    Case,
    Need,
    need,
    usable,
)
from ansible_collections.knaster.inventory.plugins.module_utils._memory.run import SLOTTED

# No model serves more, and no GPU has room for it.
_MOST_TOKENS = 1 << 26
_MOST_SEQUENCES = 1 << 16


@dataclass(frozen=True)
class Fit:
    """What one rank needs against what it may take of the GPU.

    ``fits`` is None where everything that is known finds room but not everything is known. ``largest_context`` is for the
    asked sequences and ``most_sequences`` for the asked context; both, and ``cache_tokens``, are None where the cache is
    not known, and what they are at most where the need is a lower bound.
    """

    need: Need
    usable_gib: float
    fits: t.Optional[bool]
    largest_context: t.Optional[int] = None
    most_sequences: t.Optional[int] = None
    cache_tokens: t.Optional[int] = None

    @property
    def free_gib(self) -> float:
        """What is left, below zero where something is lacking; at most that where the need is a lower bound."""
        return self.usable_gib - self.need.gib


def fit(case: Case) -> Fit:
    """Return how a model fits a GPU as it is run."""
    found, have = need(case), usable(case)
    fits: t.Optional[bool] = found.gib <= have
    if fits and found.bound != EXACT:
        fits = None
    if "kv_cache" in found.unknown and case.context is not None:
        return Fit(found, have, fits)
    largest = largest_context(case)
    if case.run.cache_bytes and fits:
        fits = largest is None or case.context is None or largest >= case.context
    return Fit(found, have, fits, largest, most_sequences(case), cache_tokens(case))


def largest_context(case: Case) -> t.Optional[int]:
    """Return the most tokens that each of the asked sequences can have; None where the cache is not known.

    Not more than the model supports, where that is known. 0 where not even one token finds room.
    """
    most = case.longest or _MOST_TOKENS
    return _largest(lambda tokens: _room(_with(case, context=tokens)), most)


def most_sequences(case: Case) -> t.Optional[int]:
    """Return how many sequences of the asked context find room at once; None where the cache is not known.

    Not more than the engine runs at once.
    """
    if case.context is None:
        return None
    most = _MOST_SEQUENCES if case.run.engine in SLOTTED else case.max_sequences
    return _largest(lambda count: _room(_with(case, sequences=count)), most)


def cache_tokens(case: Case) -> t.Optional[int]:
    """Return how many tokens the cache holds when requests are as long as asked; None where that is not known."""
    context = case.context
    if context is None:
        return None
    if case.run.engine in SLOTTED:
        return context if case.run.unified else context * case.run.sequences
    one = _room(_with(case, sequences=1))
    two = _room(_with(case, sequences=2))
    if one is None or two is None or one < 0 or one <= two:
        return None if one is None or two is None else 0 if one < 0 else None
    return int((1 + one / (one - two)) * context)


def _with(case: Case, **changes: t.Any) -> Case:
    return replace(case, run=replace(case.run, **changes))


def _room(case: Case) -> t.Optional[float]:
    """Return what is left for this run in GiB, below zero where it lacks; None where the cache is not known."""
    pool = case.run.cache_bytes
    if pool is not None:
        # The pool is what was stated, whatever the GPU has.
        case = _with(case, cache_bytes=None)
        cache = need(case)
        parts = [cache.term(name) for name in ("kv_cache", "kv_padding", "state")]
        known = [part.gib for part in parts if part is not None]
        sizes = [gib for gib in known if gib is not None]
        return pool / 1024**3 - sum(sizes) if len(sizes) == len(known) else None
    found = need(case)
    return None if "kv_cache" in found.unknown else usable(case) - found.gib


def _largest(room: t.Callable[[int], t.Optional[float]], most: int) -> t.Optional[int]:
    """Return the largest number up to ``most`` with room for it; 0 where there is none for 1."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        left = room(middle)
        if left is None:
            return None
        low, high = (middle, high) if left >= 0 else (low, middle - 1)
    return low
