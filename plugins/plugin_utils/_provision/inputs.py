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


def previous_vms(previous: t.Any) -> list[dict[str, t.Any]]:
    """The last definitions, from the document of the file or from a list of them."""
    return list((previous.get("vms") if isinstance(previous, dict) else previous) or [])


def find_input_errors(given: Mapping[str, t.Any]) -> list[str]:
    """One text for each input that cannot be used."""
    errors = [f"{name}: expected a list of mappings" for name in _LISTS if not _is_list_of_maps(given.get(name))]
    previous = given.get("previous")
    if isinstance(previous, dict) and previous.get("version", 1) != 1:
        errors.append(f"previous: version {previous['version']!r} of the definitions is not known; 1 is")
    elif previous is not None and not _is_list_of_maps(previous.get("vms") if isinstance(previous, dict) else previous):
        errors.append("previous: expected definitions of virtual machines: a list, or a document with vms")
    else:
        errors += _vmid_errors("previous", previous_vms(previous))
    if not errors:
        errors += _vmid_errors("taken", given.get("taken") or [])
    errors += _plan_errors(given.get("plan"))
    return errors


def _vmid_errors(name: str, entries: Sequence[Mapping[str, t.Any]]) -> list[str]:
    return [
        f"{name}[{at}].vmid: must be a whole number from {LEAST_VMID} to {LAST_VMID}, and is {one.get('vmid')!r}"
        for at, one in enumerate(entries)
        if isinstance(one.get("vmid"), bool)
        or not isinstance(one.get("vmid"), int)
        or not LEAST_VMID <= one["vmid"] <= LAST_VMID
    ]


def _plan_errors(plan: t.Any) -> list[str]:
    """What a machine of the plan has to say, so that a plan by hand gets a text and no traceback."""
    if not isinstance(plan, dict):
        return [] if plan is None else ["plan: expected the document of a plan"]
    errors = []
    for at, one in enumerate(_maps(plan.get("assignments"))):
        errors += [
            f"plan.assignments[{at}].{key}: is missing" for key in ("role", "replica", "node", "vm") if key not in one
        ]
    for at, one in enumerate(_maps(plan.get("replicas"))):
        where = f"plan.replicas[{at}]"
        errors += [f"{where}.{key}: is missing" for key in ("model", "replica", "shards") if key not in one]
        for number, shard in enumerate(_maps(one.get("shards"))):
            errors += [f"{where}.shards[{number}].{key}: is missing" for key in ("node", "vm") if key not in shard]
    return errors


def _maps(value: t.Any) -> list[dict[str, t.Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _is_list_of_maps(value: t.Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(item, dict) for item in value))
