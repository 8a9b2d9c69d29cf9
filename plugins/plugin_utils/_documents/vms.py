# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The definitions of VMs as they are handed on: the document of their file, or the list that it holds."""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import check

MANAGED_BY = "knaster.inventory"


def vms_document(vms: t.Any) -> dict[str, t.Any]:
    """Return the document of definitions. What is last is one line, so that a text that was cut lacks it."""
    return {"version": 1, "vms": vms, "managed_by": MANAGED_BY}


def vms_of(given: t.Any, where: str, errors: list[str]) -> list[dict[str, t.Any]]:
    """Return the definitions of a document or of a list; nothing is none.

    :param where: what is in front of each error
    :param errors: what is wrong is added here, and there are no definitions then
    """
    if not given:
        return []
    document = given if isinstance(given, dict) else vms_document(given)
    wrong = check(document, "vm", where)
    errors += wrong
    return [] if wrong else list(document["vms"])
