# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The fleet from its files to its files: profiles, plan, catalog and what was observed in; summary, metrics and page out."""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError, collecting
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import find_changes, is_directory
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import read_nodes
from ansible_collections.knaster.inventory.plugins.plugin_utils._report.page import render_report
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.inputs import Inputs, with_known_states
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.metrics import format_metrics
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.summary import summarise
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.table import format_summary
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.fleet import (
    previous_path,
    read_fleet,
    read_plan,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.losses import ask_losses
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.observe import read_observed
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.registry import load_slots

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import FileChange
    from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.declared import Variables
    from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.fleet import FleetFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where a fleet is read from. What was observed and the slots may be absent."""

    profiles: Path
    hosts: Sequence[str]
    catalog: Sequence[str]
    declared: Mapping[str, Variables] | None = None
    plan: Path
    observed: Path | None
    slots: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The files to write; None: not this one."""

    summary: Path | None
    metrics: Path | None
    page: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetReport:
    """The summary of a fleet, as text too, and the files that have to change."""

    summary: dict[str, t.Any]
    table: str
    changes: list[FileChange]
    warnings: tuple[str, ...]


def make_fleet_report(
    sources: Sources, targets: Targets, *, title: str, losses: int | None, passthrough: bool
) -> FleetReport:
    """Sum up a fleet. Nothing is written.

    :param losses: about how many nodes the page says what their loss would cost; None: as many as take seconds
    :raises InputError: with everything that is wrong in what was read
    """
    found = read_fleet(sources.profiles, sources.hosts, sources.catalog, sources.declared)
    errors = found.errors
    plan = read_plan(sources.plan, errors)
    previous = read_plan(previous_path(sources.plan), errors, required=False)
    replicas = _read_replicas(sources, errors)
    fleet = None
    with collecting(errors):
        fleet = read_nodes(with_known_states(found.nodes))
    if errors or plan is None or fleet is None:
        raise InputError(errors)
    inputs = Inputs(nodes=found.nodes, fleet=fleet, plan=plan, replicas=replicas, catalog=found.catalog)
    summary = summarise(inputs)
    texts: dict[Path, str] = {}
    if targets.summary is not None:
        texts[targets.summary] = json.dumps(summary, indent=1) + "\n"
    if targets.metrics is not None:
        texts[targets.metrics] = format_metrics(summary)
    if targets.page is not None:
        answers = _losses(plan, found, limit=losses, passthrough=passthrough)
        texts[targets.page] = render_report(inputs, summary, previous=previous, losses=answers, title=title)
    return FleetReport(
        summary=summary,
        table=format_summary(summary, inputs),
        changes=find_changes(texts),
        warnings=found.warnings,
    )


def _read_replicas(sources: Sources, errors: list[str]) -> list[dict[str, t.Any]]:
    """Return what was observed, without the slots that are gone since."""
    found = [] if sources.observed is None else read_observed(sources.observed, errors)
    if not found or sources.slots is None or not is_directory(sources.slots):
        return found
    known: set[str] = set()
    with collecting(errors):
        known = {slot["slot"] for slot in load_slots(sources.slots)}
    return [one for one in found if one["id"] in known]


def _losses(
    plan: dict[str, t.Any], fleet: FleetFiles, *, limit: int | None, passthrough: bool
) -> list[dict[str, t.Any]] | None:
    if limit == 0:
        return None
    return ask_losses(plan, fleet.nodes, fleet.catalog, limit=limit, passthrough=passthrough)
