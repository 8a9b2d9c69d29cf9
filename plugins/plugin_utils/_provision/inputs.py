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


def find_input_errors(given: Mapping[str, t.Any]) -> list[str]:
    """Return one text for each thing that makes C(plan), C(roles), C(nodes), C(taken) or C(mappings) unusable.

    What a role says of its VMs is left to who reads it.
    """
    lists = {name: given[name] for name in ("roles", "nodes", "taken", "mappings") if given[name] is not None}
    errors = [str(one) for one in find_violations(lists, "provision") if one.path[2:3] != ("vm",)]
    return errors + (check(given["plan"], "plan", "plan") if given["plan"] else [])
