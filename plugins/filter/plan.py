# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import CatalogError
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import to_plain
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import (
    ProfileError,
    find_node_errors,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.diff import diff_plans
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.options import (
    find_option_errors,
    find_plan_errors,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.table import format_plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.what_if import what_if_lost

if t.TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def plan_filter(
    nodes: t.Any,
    roles: t.Any = None,
    models: t.Any = None,
    previous: t.Any = None,
    moves: str = "none",
    *,
    rebalance: bool = False,
    rescue: bool = True,
    passthrough: bool = True,
    gpus: t.Any = None,
    engines: t.Any = None,
) -> dict[str, t.Any]:
    given: dict[str, t.Any] = {}
    errors: list[str] = []
    for name, value in (
        ("nodes", nodes),
        ("roles", roles),
        ("models", models),
        ("previous", previous),
        ("gpus", gpus),
        ("engines", engines),
    ):
        try:
            given[name] = to_plain(value, name)
        except TypeError as exc:
            errors.append(str(exc))
    if errors:
        raise AnsibleFilterError(_message(errors))
    errors += find_option_errors(given["previous"], moves=moves)
    try:
        catalog = check_catalog(
            given["models"],
            given["roles"],
            gpus=given["gpus"],
            engines=given["engines"],
            open_engines=given["engines"] is None,
        ).catalog
    except CatalogError as exc:
        errors += [str(problem) for problem in exc.errors]
    if errors:
        raise AnsibleFilterError(_message([*errors, *find_node_errors(given["nodes"])]))
    try:
        return plan(
            given["nodes"],
            catalog.roles,
            catalog.models,
            given["previous"],
            moves=moves,
            rebalance=bool(rebalance),
            rescue=bool(rescue),
            passthrough=bool(passthrough),
            engines=catalog.engines,
        )
    except ProfileError as exc:
        raise AnsibleFilterError(_message(exc.errors)) from exc


def plan_table(
    plan: t.Any, nodes: t.Any = None, models: t.Any = None, gpus: t.Any = None, engines: t.Any = None
) -> str:
    try:
        document = to_plain(plan, "plan")
        _check_plan(document, "plan")
        given = check_catalog(
            to_plain(models, "models"),
            None,
            gpus=to_plain(gpus, "gpus"),
            engines=to_plain(engines, "engines"),
            open_engines=engines is None,
        ).catalog
        return format_plan(document or {}, to_plain(nodes, "nodes") or [], given.models, engines=given.engines)
    except (TypeError, ValueError, CatalogError) as exc:
        raise AnsibleFilterError(f"The plan cannot be shown: {exc}") from exc


def plan_diff(plan: t.Any, previous: t.Any = None) -> dict[str, t.Any]:
    try:
        now, then = to_plain(plan, "plan"), to_plain(previous, "previous")
        _check_plan(now, "plan")
        _check_plan(then, "previous")
    except (TypeError, ValueError) as exc:
        raise AnsibleFilterError(f"The plans cannot be compared: {exc}") from exc
    return diff_plans(now or {}, then)


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
    try:
        document, profiles = to_plain(plan, "plan"), to_plain(nodes, "nodes")
        _check_plan(document, "plan")
        errors = [*find_option_errors(None, moves=moves), *find_node_errors(profiles)]
        if errors:
            raise AnsibleFilterError(_message(errors))
        given = check_catalog(
            to_plain(models, "models"),
            to_plain(roles, "roles"),
            gpus=to_plain(gpus, "gpus"),
            engines=to_plain(engines, "engines"),
            open_engines=engines is None,
        ).catalog
        return what_if_lost(
            document or {},
            profiles,
            given.roles,
            given.models,
            lost=to_plain(lost, "lost"),
            moves=moves,
            passthrough=bool(passthrough),
            engines=given.engines,
        )
    except (TypeError, ValueError, LookupError, CatalogError) as exc:
        raise AnsibleFilterError(f"The question cannot be answered: {exc}") from exc


def _check_plan(document: t.Any, name: str) -> None:
    errors = find_plan_errors(document, name)
    if errors:
        raise ValueError(" ".join(errors))


def _message(errors: Sequence[str]) -> str:
    if len(errors) == 1:
        return f"The plan cannot be made: {errors[0]}"
    return f"The plan cannot be made, {len(errors)} errors:\n" + "\n".join(f"- {error}" for error in errors)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., t.Any]]:
        return {"plan": plan_filter, "plan_table": plan_table, "plan_diff": plan_diff, "what_if": what_if}
