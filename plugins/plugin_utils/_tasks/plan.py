# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""A plan from files to a file: saved profiles, catalog directories and the last plan in, the new plan out."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError, collecting
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import is_directory, write_text
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.placements import placements
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.yaml_text import dump_document
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.diff import diff_plans
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.options import find_moves_errors
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.table import format_plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.places import add_places, places_of_slots
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.fleet import previous_path, read_fleet, read_plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.registry import load_slots
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import listing, natural_key, plural

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import FileChange
    from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.declared import Variables


# What only says how the plan was reached is not of the file: the same fleet gives the same bytes.
_NOT_WRITTEN = "changes"
# One node may go at any time, and a third of a fleet hardly ever does.
_LEAST_MISSING, _MISSING_SHARE = 2, 1 / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """The new plan, and the text that its file is to hold; ``notices`` say what it had to be made from."""

    document: dict[str, t.Any]
    text: str
    table: str
    warnings: tuple[str, ...]
    notices: list[str]


def make_plan_file(
    path: Path,
    *,
    profiles: Path,
    hosts: Sequence[str],
    catalog: Sequence[str],
    declared: Mapping[str, Variables] | None = None,
    slots: Path | None = None,
    smaller: bool = False,
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
    :param slots: the directory of the slots, which tell the places where the file of the plan was lost
    :param smaller: the fleet is meant to have lost more than a third of the nodes that had work
    :param fresh: leave out of account what the file holds now
    :raises InputError: with everything that is wrong in profiles, catalog and the last plan
    """
    fleet = read_fleet(profiles, hosts, catalog, declared)
    nodes, found, errors = fleet.nodes, fleet.catalog, fleet.errors
    last = previous = None if fresh else read_plan(path, errors, required=False)
    notices: list[str] = []
    if previous is None and not fresh and not errors:
        previous, notices = _last_known(path, slots, errors)
    if previous is not None and not smaller:
        errors += _missing_nodes(path, previous, hosts)
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
    lines = [] if last is None else diff_plans(document, last)["lines"]
    return PlanFile(
        document=document,
        text=text,
        table=format_plan(document, nodes, found.models, engines=found.engines)
        + ("\nSince the last plan:\n" + "".join(f"  {line}\n" for line in lines) if lines else ""),
        warnings=fleet.warnings,
        notices=notices,
    )


def _missing_nodes(path: Path, previous: Mapping[str, t.Any], hosts: Sequence[str]) -> list[str]:
    """Return an error where most likely another inventory was meant, since much of what runs would be given up."""
    used = {part.node for one in placements(previous) for part in one.parts}
    missing = used - {*hosts}
    if len(missing) < _LEAST_MISSING or len(missing) <= len(used) * _MISSING_SHARE:
        return []
    told = f"{len(missing)} of the {plural(len(used), 'node')} with work are not in this inventory"
    names = listing(sorted(missing, key=natural_key))
    return [
        f"{path}: {told} ({names}); run with the whole inventory, or say placement_smaller=true where they are gone"
    ]


def _last_known(path: Path, slots: Path | None, errors: list[str]) -> tuple[dict[str, t.Any] | None, list[str]]:
    """Return what is known of a plan whose file is not there, and a text that says so; None where nothing was planned."""
    before = read_plan(previous_path(path), errors, required=False)
    found: list[dict[str, t.Any]] = []
    with collecting(errors):
        found = load_slots(slots) if slots is not None and is_directory(slots) else []
    sources = [str(source) for source, there in ((slots, found), (previous_path(path), before)) if there]
    if not sources:
        return None, []
    told = f"{path}: not found; what runs is taken from {' and '.join(sources)}, and stays where that says"
    return add_places(places_of_slots(found), before or {}), [f"{told}; to plan as if nothing ran, plan afresh"]


def write_plan_file(change: FileChange) -> None:
    """Put a new plan in place of the last one, which is kept beside it so that somebody can ask what changed.

    :raises InputError: when it cannot be written
    """
    if change.before is not None:
        write_text(previous_path(change.path), change.before)
    change.write()
