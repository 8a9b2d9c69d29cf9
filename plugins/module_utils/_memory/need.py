# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What a model takes of a GPU: weights, KV cache and overhead against what an engine may use.

Everything is per GPU and rank, in GiB. Memory of several GPUs is never added. Where a fact is missing the answer is
``None``, and the declared nominal size alone decides.
"""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from ansible_collections.knaster.inventory.plugins.module_utils._memory.facts import MemoryFacts

GIB = 1024**3

# A loaded checkpoint takes a little more than its files; measured loads stay within two per cent.
_LOAD_FACTOR = 1.02
# The least context that makes a model of use where the catalog does not say what one request may take.
LEAST_CONTEXT = 4096
# What a driver keeps of a GPU for itself when nobody measured it; covers every GPU that was looked at.
_RESERVED_MIB, _RESERVED_SHARE = 400, 0.006
# For an engine of which the table says nothing: what the common ones take at their defaults.
_DEFAULT_UTILISATION, _DEFAULT_OVERHEAD_GIB = 0.9, 2.5
# Engines take larger batches, and with them more scratch memory, on GPUs of 70 GiB and more.
_LARGE_CARD_GIB = 68.0


def kv_gib(facts: MemoryFacts, *, context: int, tp: int, pp: int) -> t.Optional[float]:
    """KV cache of one request of ``context`` tokens on one rank, or ``None`` where the geometry is not known."""
    per_token: float
    if facts.kv_bytes_per_token is not None:
        per_token = facts.kv_bytes_per_token
        # Heads can be split over ranks as long as there are some to split; a latent (no heads) is kept whole.
        split = min(tp, facts.kv_heads) if facts.kv_heads else 1
        per_token /= split
    elif facts.layers and facts.kv_heads and facts.head_dim:
        per_token = 2 * facts.layers * max(1, facts.kv_heads / tp) * facts.head_dim * 2
    else:
        return None
    window = 0.0
    if facts.kv_bytes_per_window_token is not None and facts.window is not None:
        window = facts.kv_bytes_per_window_token * min(context, facts.window)
    return (per_token * context + window) / pp / GIB


def need_gib(facts: MemoryFacts, *, context: int, tp: int = 1, pp: int = 1) -> t.Optional[float]:
    """Weights and least KV cache of one rank; ``None`` where the weights are not known."""
    if facts.weights_gib is None:
        return None
    kv = kv_gib(facts, context=context, tp=tp, pp=pp) or 0.0
    return facts.weights_gib * _LOAD_FACTOR / (tp * pp) + kv


def usable_gib(
    memory_mib: float,
    *,
    reserved_mib: t.Optional[float] = None,
    utilisation: t.Optional[float] = None,
    overhead_gib: t.Optional[float] = None,
    overhead_large_gib: t.Optional[float] = None,
) -> float:
    """What weights and KV cache may take of a GPU under an engine, as the engine table describes it."""
    if reserved_mib is None:
        reserved_mib = _RESERVED_MIB + _RESERVED_SHARE * memory_mib
    total = (memory_mib - reserved_mib) / 1024
    if total >= _LARGE_CARD_GIB and overhead_large_gib is not None:
        overhead_gib = overhead_large_gib
    elif overhead_gib is None:
        overhead_gib = _DEFAULT_OVERHEAD_GIB
    return (_DEFAULT_UTILISATION if utilisation is None else utilisation) * total - overhead_gib
