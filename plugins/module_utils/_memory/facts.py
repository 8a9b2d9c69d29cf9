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
    """Facts of a model's files; GiB are 2**30 bytes, and None is not known."""

    weights_gib: t.Optional[float] = None
    kv_bytes_per_token: t.Optional[int] = None
    kv_bytes_per_window_token: t.Optional[int] = None
    window: t.Optional[int] = None
    layers: t.Optional[int] = None
    attention_heads: t.Optional[int] = None
    kv_heads: t.Optional[int] = None
    head_dim: t.Optional[int] = None
