# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import collecting
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.vms import vms_of
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import (
    plain_values,
    raw_variables,
    refusing,
    stop_at,
    to_plain,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.definitions import make_definitions
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.inputs import find_input_errors
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.settings import (
    Settings,
    read_settings,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.table import format_results

if t.TYPE_CHECKING:
    from collections.abc import Callable


@refusing("The VMs cannot be defined")
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
    """Return the definition of each VM of a plan."""
    given = plain_values(
        plan=plan, roles=roles, previous=previous, taken=taken, nodes=nodes, mappings=mappings, settings=settings
    )
    errors: list[str] = []
    options = Settings()
    with collecting(errors):
        options = read_settings(given.pop("settings"))
    last = vms_of(given["previous"], "previous", errors)
    stop_at([*errors, *find_input_errors(given)])
    made = make_definitions(
        given["plan"] or {},
        given["roles"] or [],
        nodes=given["nodes"] or [],
        previous=last,
        taken=given["taken"] or [],
        mappings=given["mappings"] or [],
        settings=options,
    )
    stop_at(made.errors)
    return list(made.vms)


@refusing("The results cannot be shown")
def vm_table(hostvars: t.Any, results: t.Any, hosts: t.Any = ()) -> str:
    """Return what a run did to VMs as a table, from the results that hosts registered."""
    given = plain_values(results=results, hosts=hosts)
    names = [given["results"]] if isinstance(given["results"], str) else given["results"]
    found: list[dict[str, t.Any]] = []
    for host in given["hosts"]:
        for name in names:
            for one in (raw_variables(hostvars, host).get(name) or {}).get("results") or []:
                # ansible-core puts an object that is not data beside the message of a failure.
                told = to_plain({key: one[key] for key in one if key != "exception"}, name)
                found += [] if told.get("skipped") else [{**told, "host": host}]
    return format_results(found)


class FilterModule:
    """VMs of a plan, and what a run did to them."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"vm_definitions": vm_definitions, "vm_table": vm_table}
