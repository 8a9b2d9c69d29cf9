# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog._documents import Catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._plain import to_plain
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary._inputs import (
    find_input_errors,
    read_catalog_lists,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary._summary import summarise

if t.TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def fleet_summary(nodes: t.Any, plan: t.Any, replicas: t.Any = None, catalog: t.Any = None) -> dict[str, t.Any]:
    given, found = _read(nodes=nodes, plan=plan, replicas=replicas, catalog=catalog)
    return summarise(given["nodes"], given["plan"], given["replicas"], found)


def _read(**values: t.Any) -> tuple[dict[str, t.Any], Catalog]:
    """What was given as plain data, and the catalog; or one error with everything that is wrong."""
    given: dict[str, t.Any] = {}
    errors: list[str] = []
    for name, value in values.items():
        try:
            given[name] = to_plain(value, name)
        except TypeError as exc:
            errors.append(str(exc))
    catalog = Catalog()
    if not errors:
        catalog, errors = read_catalog_lists(given["catalog"])
        errors = [*find_input_errors(given["nodes"], given["plan"], given["replicas"]), *errors]
    if errors:
        raise AnsibleFilterError(_message(errors))
    return given, catalog


def _message(errors: Sequence[str]) -> str:
    if len(errors) == 1:
        return f"The fleet can not be summed up: {errors[0]}"
    return f"The fleet can not be summed up, {len(errors)} errors:\n" + "\n".join(f"- {error}" for error in errors)


class FilterModule:
    """The fleet in one object, and what is made of it."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        return {"fleet_summary": fleet_summary}
