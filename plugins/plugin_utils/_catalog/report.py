# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""What people see of a check: one text for each problem."""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import (
    SECTIONS,
    examine_catalog,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.load import examine_directories
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import ERROR, Problem
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import suggest


def find_problems(catalog: dict[str, t.Any] | list[str], *, nodes: t.Any = ()) -> list[Problem]:
    """Return every problem of a catalog, given as plain lists by section or as directories.

    With node profiles, a pin to a node whose labels contradict the selector beside it is among them.
    """
    if not isinstance(catalog, dict):
        return examine_directories(catalog, nodes=nodes).problems
    strange = [
        Problem(
            severity=ERROR,
            code="unknown_key",
            path=key,
            message=f"a catalog has no list {key}",
            remedy=suggest(key, SECTIONS),
        )
        for key in catalog
        if key not in (*SECTIONS, "directories", "sources", "warnings")
    ]
    _catalog, problems = examine_catalog(catalog, nodes=nodes)
    return [*strange, *problems]


def list_problems(catalog: dict[str, t.Any] | list[str], *, nodes: t.Any = (), warnings: bool = False) -> list[str]:
    """Return one text for each error, and for each warning where they are wanted."""
    found = find_problems(catalog, nodes=nodes)
    return [str(problem) for problem in found if warnings or problem.severity == ERROR]
