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

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import find_changes
from ansible_collections.knaster.inventory.plugins.plugin_utils._observe.document import read_observed
from ansible_collections.knaster.inventory.plugins.plugin_utils._report.fitting import fitting_by_card
from ansible_collections.knaster.inventory.plugins.plugin_utils._report.page import render_report
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.inputs import find_input_errors
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.metrics import format_metrics
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.summary import summarise
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.table import format_summary
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.fleet import (
    previous_path,
    read_fleet,
    read_plan,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.losses import ask_losses
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.registry import load_slots

if t.TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import FileChange
    from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.fleet import FleetFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where a fleet is read from. What was observed and the slots may be absent."""

    profiles: Path
    hosts: Sequence[str]
    catalog: Sequence[str]
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
    fleet = read_fleet(sources.profiles, sources.hosts, sources.catalog)
    errors = fleet.errors
    plan = read_plan(sources.plan, errors)
    previous = read_plan(previous_path(sources.plan), errors, required=False)
    replicas = _read_replicas(sources, errors)
    if errors or plan is None:
        raise InputError([*errors, *find_input_errors(fleet.nodes, plan, None)])
    summary = summarise(fleet.nodes, plan, replicas, fleet.catalog)
    texts: dict[Path, str] = {}
    if targets.summary is not None:
        texts[targets.summary] = json.dumps(summary, indent=1) + "\n"
    if targets.metrics is not None:
        texts[targets.metrics] = format_metrics(summary)
    if targets.page is not None:
        texts[targets.page] = render_report(
            fleet.nodes,
            plan,
            summary,
            previous=previous,
            replicas=replicas,
            losses=_losses(plan, fleet, limit=losses, passthrough=passthrough),
            fitting=fitting_by_card(fleet.nodes, fleet.catalog.models, engines=fleet.catalog.engines),
            title=title,
        )
    return FleetReport(
        summary=summary,
        table=format_summary(summary, fleet.nodes, plan, fleet.catalog),
        changes=find_changes(texts),
        warnings=fleet.warnings,
    )


def _read_replicas(sources: Sources, errors: list[str]) -> list[dict[str, t.Any]]:
    """What was observed, without the slots that are gone since."""
    found = read_observed(sources.observed, errors) if sources.observed is not None else None
    if not found or sources.slots is None or not sources.slots.is_dir():
        return found or []
    try:
        known = {slot["slot"] for slot in load_slots(sources.slots)}
    except InputError as exc:
        errors += exc.errors
        return []
    return [one for one in found if one["id"] in known]


def _losses(
    plan: dict[str, t.Any], fleet: FleetFiles, *, limit: int | None, passthrough: bool
) -> list[dict[str, t.Any]] | None:
    if limit == 0:
        return None
    return ask_losses(plan, fleet.nodes, fleet.catalog, limit=limit, passthrough=passthrough)
