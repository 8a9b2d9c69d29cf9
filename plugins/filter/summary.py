# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import check
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.catalog import catalog_of
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import (
    plain_values,
    refusing,
    stop_at,
    to_plain,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.inputs import read_inputs
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.metrics import format_metrics
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.summary import summarise
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.table import format_summary

if t.TYPE_CHECKING:
    from collections.abc import Callable


@refusing("The fleet cannot be summed up")
def fleet_summary(nodes: t.Any, plan: t.Any, replicas: t.Any = None, catalog: t.Any = None) -> dict[str, t.Any]:
    """Return the summary of a fleet."""
    given = plain_values(nodes=nodes, plan=plan, replicas=replicas, catalog=catalog)
    errors: list[str] = []
    found = catalog_of(given["catalog"], errors)
    return summarise(read_inputs(given["nodes"], given["plan"], given["replicas"], found, errors=errors))


@refusing("The summary cannot be shown")
def summary_table(summary: t.Any, nodes: t.Any = None, plan: t.Any = None, catalog: t.Any = None) -> str:
    """Return the summary of a fleet as text."""
    given = plain_values(summary=summary, nodes=nodes or [], plan=plan, catalog=catalog)
    errors = check(given["summary"], "summary", "summary")
    found = catalog_of(given["catalog"], errors)
    return format_summary(given["summary"], read_inputs(given["nodes"], given["plan"], None, found, errors=errors))


@refusing("The summary cannot be written as metrics")
def summary_metrics(summary: t.Any) -> str:
    """Return the summary of a fleet as metrics of Prometheus."""
    document = to_plain(summary, "summary")
    stop_at(check(document, "summary", "summary"))
    return format_metrics(document)


class FilterModule:
    """The fleet in one object, and what is made of it."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters by name."""
        return {
            "fleet_summary": fleet_summary,
            "summary_table": summary_table,
            "summary_metrics": summary_metrics,
        }
