# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible.errors import AnsibleFilterError
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import to_plain
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.options import find_plan_errors
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.definitions import make_definitions
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.inputs import (
    find_input_errors,
    previous_vms,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.settings import (
    Settings,
    SettingsError,
    read_settings,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.table import format_results

if t.TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def vm_definitions(
    plan: t.Any,
    roles: t.Any = None,
    previous: t.Any = None,
    taken: t.Any = None,
    *,
    nodes: t.Any = None,
    settings: t.Any = None,
    mappings: t.Any = None,
) -> list[dict[str, t.Any]]:
    given: dict[str, t.Any] = {}
    errors: list[str] = []
    values = {"plan": plan, "roles": roles, "previous": previous, "taken": taken, "nodes": nodes, "mappings": mappings}
    for name, value in {**values, "settings": settings}.items():
        try:
            given[name] = to_plain(value, name)
        except TypeError as exc:
            errors.append(str(exc))
    if errors:
        raise AnsibleFilterError(_message(errors))
    options = Settings()
    try:
        options = read_settings(given.pop("settings"))
    except SettingsError as exc:
        errors += exc.errors
    errors += find_plan_errors(given["plan"], "plan")
    errors += find_input_errors(given)
    if errors:
        raise AnsibleFilterError(_message(errors))
    made = make_definitions(
        given["plan"] or {},
        given["roles"] or [],
        nodes=given["nodes"] or [],
        previous=previous_vms(given["previous"]),
        taken=given["taken"] or [],
        mappings=given["mappings"] or [],
        settings=options,
    )
    if made.errors:
        raise AnsibleFilterError(_message(made.errors))
    return list(made.vms)


def vm_table(hostvars: t.Any, results: t.Any, hosts: t.Any = ()) -> str:
    names = to_plain(results, "results")
    found: list[dict[str, t.Any]] = []
    for host in to_plain(hosts, "hosts"):
        # The variables as they are: templating every value of every host would cost more than all the rest.
        values = hostvars.raw_get(host) if hasattr(hostvars, "raw_get") else hostvars[host]
        for name in [names] if isinstance(names, str) else names:
            results = (values.get(name) or {}).get("results") or []
            registered = to_plain([_without_exception(one) for one in results], name)
            found += [{**one, "host": host} for one in registered if isinstance(one, dict) and not one.get("skipped")]
    return format_results(found)


def _without_exception(result: t.Any) -> t.Any:
    """Return what a task registered without the object that ansible-core puts beside the message of a failure."""
    if not isinstance(result, Mapping):
        return result
    return {key: value for key, value in result.items() if key != "exception"}


def _message(errors: Sequence[str]) -> str:
    if len(errors) == 1:
        return f"The virtual machines cannot be defined: {errors[0]}"
    lines = "\n".join(f"- {error}" for error in errors)
    return f"The virtual machines cannot be defined, {len(errors)} errors:\n{lines}"


class FilterModule:
    def filters(self) -> dict[str, Callable[..., t.Any]]:
        return {"vm_definitions": vm_definitions, "vm_table": vm_table}
