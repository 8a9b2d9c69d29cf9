# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What is known of a model's files for exact arithmetic."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass


@dataclass(frozen=True)
class MemoryFacts:
    """Facts of a model's files; GiB are 2**30 bytes, and None is not known.

    All are of the model and none is of an engine: how many layers see every token (``kv_bytes_per_token``) and how many
    only a window (``kv_bytes_per_window_token``), in 16 bit and over all ranks. Where a latent is cached there is one
    for all heads, and ``kv_heads`` is left out. ``index_bytes_per_token`` is what sparse attention keeps beside the cache
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
    head_dim: t.Optional[int] = None
    index_bytes_per_token: t.Optional[int] = None
    state_bytes: t.Optional[int] = None
    vocab: t.Optional[int] = None
    hidden: t.Optional[int] = None
    intermediate: t.Optional[int] = None
    expert_gib: t.Optional[float] = None
    parts: t.Tuple[str, ...] = ()
    vision_gib: t.Optional[float] = None
