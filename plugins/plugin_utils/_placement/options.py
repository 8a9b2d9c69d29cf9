# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The options of a plan, checked in one go."""

from __future__ import annotations

import typing as t

VERSION = 1
MOVES = ("none", "relocate", "preempt")


def find_option_errors(previous: t.Any, *, moves: t.Any) -> list[str]:
    """One sentence for each option that cannot be used."""
    errors = find_plan_errors(previous, "previous")
    if moves not in MOVES:
        errors.insert(0, f"moves: {moves!r} is none of {', '.join(MOVES)}.")
    return errors


def find_plan_errors(document: t.Any, name: str) -> list[str]:
    """One sentence for each thing that makes a plan unusable; no plan at all is none."""
    if document is None or document == {}:
        return []
    if not isinstance(document, dict):
        return [f"{name}: a plan is a dictionary; leave it out where there is none."]
    if document.get("version") != VERSION:
        return [f"{name}: version {document.get('version')!r} of the plan document is not known; {VERSION} is."]
    return [
        f"{name}: {key} is a list of dictionaries."
        for key in ("assignments", "replicas", "unplaced", "ledger")
        if not _is_list_of_maps(document.get(key))
    ]


def _is_list_of_maps(value: t.Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(item, dict) for item in value))
