# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Whether a model fits a GPU as it is run, and how much more would: context, sequences, tokens of cache."""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.module_utils._memory.engines import WHOLE
from ansible_collections.knaster.inventory.plugins.module_utils._memory.need import (
    EXACT,
    Case,
    Need,
    cache,
    need,
    scratch_gib,
    usable,
)
from ansible_collections.knaster.inventory.plugins.module_utils._memory.run import SLOTTED

# No model serves more, and no GPU has room for it.
_MOST_TOKENS = 1 << 26
_MOST_SEQUENCES = 1 << 16

_CACHE_TERMS = frozenset(("kv_cache", "kv_padding", "state"))
# Those that may depend on the context.
_SCRATCH_TERMS = frozenset(("activation", "runtime", "graphs", "overhead"))


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
    """Return how a model fits a GPU as it is run, with how much more would."""
    found, have = need(case), usable(case)
    fits = _verdict(found, have)
    room = _Room(case, found, have)
    if room.unknown:
        return Fit(found, have, fits)
    largest = room.largest_context()
    if case.pool_gib is not None and fits and case.context is not None:
        # The pool is what was stated, whatever else the GPU has.
        fits = largest >= case.context
    return Fit(found, have, fits, largest, room.most_sequences(), room.cache_tokens())


def fits_at_all(case: Case) -> t.Optional[bool]:
    """Return whether a model fits, as ``fit`` says it, without how much more would."""
    return fit(case).fits if case.pool_gib is not None else _verdict(need(case), usable(case))


def _verdict(found: Need, have: float) -> t.Optional[bool]:
    if found.gib > have:
        return False
    return True if found.bound == EXACT else None


class _Room:
    """What is left of a GPU, or of the pool that was stated, for a cache of any size."""

    def __init__(self, case: Case, found: Need, have: float) -> None:
        self._case = case
        stated = case.pool_gib
        named = "kv_cache" in found.unknown and case.context is not None
        self.unknown = named or cache(case, 1, 1).gib is None
        self._moves = case.engine.rule == WHOLE and stated is None
        taken = [
            term.gib or 0.0
            for term in found.terms
            if term.name not in _CACHE_TERMS and not (self._moves and term.name in _SCRATCH_TERMS)
        ]
        self._room = stated if stated is not None else have - sum(taken)

    def left(self, context: int, sequences: int) -> float:
        """Return what so many sequences of so many tokens leave in GiB, below zero where they lack."""
        taken = cache(self._case, context, sequences).gib or 0.0
        return self._room - taken - (scratch_gib(self._case, context) if self._moves else 0.0)

    def largest_context(self) -> int:
        """Return the most tokens that each of the asked sequences can have, not more than the model supports."""
        sequences = self._case.run.sequences
        return _largest(lambda tokens: self.left(tokens, sequences), self._case.longest or _MOST_TOKENS)

    def most_sequences(self) -> t.Optional[int]:
        """Return how many sequences of the asked context find room, not more than the engine runs at once."""
        context = self._case.context
        if context is None:
            return None
        most = _MOST_SEQUENCES if self._case.run.engine in SLOTTED else self._case.max_sequences
        return _largest(lambda count: self.left(context, count), most)

    def cache_tokens(self) -> t.Optional[int]:
        """Return how many tokens the cache holds where requests are as long as asked; None where they keep nothing."""
        context, run = self._case.context, self._case.run
        if context is None:
            return None
        if run.engine in SLOTTED:
            return context if run.unified else context * run.sequences
        one, two = self.left(context, 1), self.left(context, 2)
        if one <= two:
            return None
        return max(0, int((1 + one / (one - two)) * context))


def _largest(left: t.Callable[[int], float], most: int) -> int:
    """Return the largest number up to ``most`` that leaves something or nothing; 0 where 1 already lacks.

    What is taken grows with the number, so that a straight line through two tries comes near to the answer.
    """
    if left(1) < 0:
        return 0
    low, high = 1, most + 1
    guess = min(most, 1 << 14)
    while high - low > 1:
        guess = min(max(guess, low + 1), high - 1)
        found = left(guess)
        low, high = (guess, high) if found >= 0 else (low, guess)
        target = _crossing(left, guess, found)
        # A target that was already tried is as good as the answer: the next number shows it.
        tried = target == low and guess != low + 1
        guess = low + 1 if tried else min(target, high - 1) if target > low else (low + high) // 2
    return low


def _crossing(left: t.Callable[[int], float], guess: int, found: float) -> int:
    """Return where the line through this try crosses zero, rounded down; 0 where it never does."""
    # The cache of some engines grows in steps of so many tokens.
    step = min(256, guess - 1)
    slope = (found - left(guess - step)) / step if step else 0.0
    return guess + math.floor(found / -slope) if slope < 0 else 0
