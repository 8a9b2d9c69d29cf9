# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import check_given
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.catalog import catalog_of_lists
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import (
    plain_values,
    refusing,
    stop_at,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import find_node_errors
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.diff import diff_plans
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.options import find_moves_errors
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.table import format_plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.what_if import what_if_lost

if t.TYPE_CHECKING:
    from collections.abc import Callable


@refusing("The plan cannot be made")
def plan_filter(
    nodes: t.Any,
    roles: t.Any = None,
    models: t.Any = None,
    previous: t.Any = None,
    moves: str = "none",
    *,
    rebalance: bool = False,
    rescue: bool = True,
    replan_ways: bool = False,
    passthrough: bool = True,
    gpus: t.Any = None,
    engines: t.Any = None,
) -> dict[str, t.Any]:
    """Return the plan of a fleet as a plan document."""
    given = plain_values(nodes=nodes, roles=roles, models=models, previous=previous, gpus=gpus, engines=engines)
    errors = [*find_moves_errors(moves), *check_given(given["previous"], "plan", "previous")]
    catalog = catalog_of_lists(given, errors)
    if errors:
        stop_at([*errors, *find_node_errors(given["nodes"])])
    return plan(
        given["nodes"],
        catalog.roles,
        catalog.models,
        given["previous"],
        moves=moves,
        rebalance=bool(rebalance),
        rescue=bool(rescue),
        replan_ways=bool(replan_ways),
        passthrough=bool(passthrough),
        engines=catalog.engines,
    )


@refusing("The plan cannot be shown")
def plan_table(
    plan: t.Any, nodes: t.Any = None, models: t.Any = None, gpus: t.Any = None, engines: t.Any = None
) -> str:
    """Return a plan as a table; with nodes and models also the models that fit each GPU."""
    given = plain_values(plan=plan, nodes=nodes or [], models=models, gpus=gpus, engines=engines)
    errors = check_given(given["plan"], "plan", "plan")
    catalog = catalog_of_lists(given, errors)
    stop_at([*errors, *find_node_errors(given["nodes"])])
    return format_plan(given["plan"] or {}, given["nodes"], catalog.models, engines=catalog.engines)


@refusing("The plans cannot be compared")
def plan_diff(plan: t.Any, previous: t.Any = None) -> dict[str, t.Any]:
    """Return what changes from one plan to the next."""
    given = plain_values(plan=plan, previous=previous)
    stop_at(error for name, document in given.items() for error in check_given(document, "plan", name))
    return diff_plans(given["plan"] or {}, given["previous"])


@refusing("The question cannot be answered")
def what_if(
    plan: t.Any,
    nodes: t.Any,
    roles: t.Any = None,
    models: t.Any = None,
    lost: t.Any = None,
    *,
    moves: str = "none",
    passthrough: bool = True,
    gpus: t.Any = None,
    engines: t.Any = None,
) -> list[dict[str, t.Any]]:
    """Return one answer for each node, or set of nodes, that might be lost."""
    given = plain_values(plan=plan, nodes=nodes, roles=roles, models=models, lost=lost, gpus=gpus, engines=engines)
    errors = [*check_given(given["plan"], "plan", "plan"), *find_moves_errors(moves)]
    catalog = catalog_of_lists(given, errors)
    stop_at([*errors, *find_node_errors(given["nodes"])])
    return what_if_lost(
        given["plan"] or {},
        given["nodes"],
        catalog.roles,
        catalog.models,
        lost=given["lost"],
        moves=moves,
        passthrough=bool(passthrough),
        engines=catalog.engines,
    )


class FilterModule:
    """Plans, and what is made of them."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"plan": plan_filter, "plan_table": plan_table, "plan_diff": plan_diff, "what_if": what_if}
