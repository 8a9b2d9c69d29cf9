# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Definitions of VMs as they are given: as their document, or as the list that is in it."""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import check_given

MANAGED_BY = "knaster.inventory"


def vms_document(vms: t.Any, **memory: t.Any) -> dict[str, t.Any]:
    """Return the document of definitions. What is last is one line, so that a text that was cut lacks it.

    :param memory: what the next run has to know beside them: C(fleet), C(layers) and C(earlier), without what is empty
    """
    kept = {key: value for key, value in memory.items() if value}
    return {"version": 1, **kept, "vms": vms, "managed_by": MANAGED_BY}


def vms_of(given: t.Any, where: str, errors: list[str]) -> list[dict[str, t.Any]]:
    """Return the definitions that were given; nothing is none. What is wrong is added to the errors, and there are none then."""
    document = vms_document(given) if isinstance(given, list) else given
    found = check_given(document, "vm", where)
    errors += found
    return [] if found or not document else document["vms"]
