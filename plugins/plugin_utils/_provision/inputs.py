# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What definitions are made from, looked at before it is used."""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.settings import (
    LAST_VMID,
    LEAST_VMID,
)

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LISTS = ("roles", "nodes", "taken", "mappings")


def find_input_errors(given: Mapping[str, t.Any]) -> list[str]:
    """Return one text for each input that is no document and cannot be used."""
    errors = [f"{name}: must be a list of maps" for name in _LISTS if not _is_list_of_maps(given.get(name))]
    return errors or _vmid_errors("taken", given.get("taken") or [])


def _vmid_errors(name: str, entries: Sequence[Mapping[str, t.Any]]) -> list[str]:
    return [
        f"{name}[{at}].vmid: must be a whole number from {LEAST_VMID} to {LAST_VMID}, and is {one.get('vmid')!r}"
        for at, one in enumerate(entries)
        if isinstance(one.get("vmid"), bool)
        or not isinstance(one.get("vmid"), int)
        or not LEAST_VMID <= one["vmid"] <= LAST_VMID
    ]


def _is_list_of_maps(value: t.Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(item, dict) for item in value))
