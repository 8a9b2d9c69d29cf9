# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What definitions are made from, looked at before it is used."""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import check, find_violations

if t.TYPE_CHECKING:
    from collections.abc import Mapping


def previous_vms(previous: t.Any) -> list[dict[str, t.Any]]:
    """Return the last definitions, from the document of the file or from a list of them."""
    return list((previous.get("vms") if isinstance(previous, dict) else previous) or [])


def find_input_errors(given: Mapping[str, t.Any]) -> list[str]:
    """Return one text for each thing that makes C(plan), C(previous), C(roles), C(nodes), C(taken) or C(mappings) unusable.

    What a role says of its VMs is left to who reads it.
    """
    lists = {name: given[name] for name in ("roles", "nodes", "taken", "mappings") if given[name] is not None}
    errors = [str(one) for one in find_violations(lists, "provision") if one.path[2:3] != ("vm",)]
    previous = given["previous"]
    if previous:
        document = {"version": 1, "managed_by": "knaster.inventory", "vms": previous}
        errors += check(previous if isinstance(previous, dict) else document, "vm", "previous")
    return errors + (check(given["plan"], "plan", "plan") if given["plan"] else [])
