# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The options of a plan."""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import shown

VERSION = 1
MOVES = ("none", "relocate", "preempt")


def find_moves_errors(moves: t.Any) -> list[str]:
    """Return what is wrong with the option ``moves``."""
    return [] if moves in MOVES else [f"moves: must be one of {', '.join(MOVES)}, not {shown(moves)}"]
