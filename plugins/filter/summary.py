# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import to_plain
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.inputs import (
    SummaryError,
    find_input_errors,
    find_summary_errors,
    read_catalog_lists,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.metrics import format_metrics
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.summary import summarise
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.table import format_summary

if t.TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def fleet_summary(nodes: t.Any, plan: t.Any, replicas: t.Any = None, catalog: t.Any = None) -> dict[str, t.Any]:
    what = "The fleet cannot be summed up"
    given, errors = _plain(nodes=nodes, plan=plan, replicas=replicas, catalog=catalog)
    _stop_at(errors, what)
    found, errors = read_catalog_lists(given["catalog"])
    if errors:
        _stop_at([*find_input_errors(given["nodes"], given["plan"], given["replicas"]), *errors], what)
    try:
        return summarise(given["nodes"], given["plan"], given["replicas"], found)
    except SummaryError as exc:
        _stop(exc.errors, what)


def summary_table(summary: t.Any, nodes: t.Any = None, plan: t.Any = None, catalog: t.Any = None) -> str:
    given, errors = _plain(summary=summary, nodes=nodes, plan=plan, catalog=catalog)
    found = Catalog()
    if not errors:
        found, errors = read_catalog_lists(given["catalog"])
        errors = [
            *find_summary_errors(given["summary"]),
            *find_input_errors(given["nodes"] or [], given["plan"], None),
            *errors,
        ]
    _stop_at(errors, "The summary cannot be shown")
    return format_summary(given["summary"], given["nodes"] or [], given["plan"], found)


def summary_metrics(summary: t.Any) -> str:
    given, errors = _plain(summary=summary)
    _stop_at(errors or find_summary_errors(given["summary"]), "The summary cannot be written as metrics")
    return format_metrics(given["summary"])


def _plain(**values: t.Any) -> tuple[dict[str, t.Any], list[str]]:
    """What was given as plain data, and one sentence for each value that is no data."""
    given: dict[str, t.Any] = {}
    errors: list[str] = []
    for name, value in values.items():
        try:
            given[name] = to_plain(value, name)
        except TypeError as exc:
            errors.append(str(exc))
    return given, errors


def _stop_at(errors: Sequence[str], what: str) -> None:
    """Raise one error with everything that is wrong, if something is."""
    if errors:
        _stop(errors, what)


def _stop(errors: Sequence[str], what: str) -> t.NoReturn:
    """Raise one error with everything that is wrong."""
    if len(errors) == 1:
        raise AnsibleFilterError(f"{what}: {errors[0]}")
    raise AnsibleFilterError(f"{what}, {len(errors)} errors:\n" + "\n".join(f"- {error}" for error in errors))


class FilterModule:
    """The fleet in one object, and what is made of it."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        return {
            "fleet_summary": fleet_summary,
            "summary_table": summary_table,
            "summary_metrics": summary_metrics,
        }
