# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""A plan from files to a file: saved profiles, catalog directories and the last plan in, the new plan out."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import write_text
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.yaml_text import dump_document
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.diff import diff_plans
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.options import find_moves_errors
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.table import format_plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.fleet import previous_path, read_fleet, read_plan

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import FileChange
    from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.declared import Variables


# What only says how the plan was reached is not of the file: the same fleet gives the same bytes.
_NOT_WRITTEN = "changes"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """The new plan, and the text that its file is to hold."""

    document: dict[str, t.Any]
    text: str
    table: str
    warnings: tuple[str, ...]


def make_plan_file(
    path: Path,
    *,
    profiles: Path,
    hosts: Sequence[str],
    catalog: Sequence[str],
    declared: Mapping[str, Variables] | None = None,
    fresh: bool,
    moves: str,
    rebalance: bool,
    rescue: bool,
    passthrough: bool,
) -> PlanFile:
    """Make the plan that belongs into a file. Nothing is written.

    :param profiles: the directory of saved profiles
    :param hosts: the nodes of the fleet
    :param catalog: directories, the later one changing entries of the earlier by name
    :param declared: the variables of the inventory by node
    :param fresh: leave out of account what the file holds now
    :raises InputError: with everything that is wrong in profiles, catalog and the last plan
    """
    fleet = read_fleet(profiles, hosts, catalog, declared)
    nodes, found, errors = fleet.nodes, fleet.catalog, fleet.errors
    previous = None if fresh else read_plan(path, errors, required=False)
    errors += find_moves_errors(moves)
    if errors:
        raise InputError(fleet.all_errors())
    document = plan(
        nodes,
        found.roles,
        found.models,
        previous,
        moves=moves,
        rebalance=rebalance,
        rescue=rescue,
        passthrough=passthrough,
        engines=found.engines,
    )
    text = dump_document({key: value for key, value in document.items() if key != _NOT_WRITTEN})
    lines = [] if previous is None else diff_plans(document, previous)["lines"]
    return PlanFile(
        document=document,
        text=text,
        table=format_plan(document, nodes, found.models, engines=found.engines)
        + ("\nSince the last plan:\n" + "".join(f"  {line}\n" for line in lines) if lines else ""),
        warnings=fleet.warnings,
    )


def write_plan_file(change: FileChange) -> None:
    """Put a new plan in place of the last one, which is kept beside it so that somebody can ask what changed.

    :raises InputError: when it cannot be written
    """
    if change.before is not None:
        write_text(previous_path(change.path), change.before)
    change.write()
