# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible.errors import AnsibleFilterError
from ansible_collections.knaster.inventory.plugins.module_utils._gather.answers import GatherError, read_outputs
from ansible_collections.knaster.inventory.plugins.module_utils._gather.profile import profile_from_outputs
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import to_plain
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.profiles import unreachable_profile
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.table import format_fleet


def profile_from_outputs_filter(
    outputs: t.Any,
    previous: Mapping[str, t.Any] | None = None,
    declared: list[dict[str, t.Any]] | None = None,
    name: str | None = None,
) -> dict[str, t.Any]:
    if not isinstance(outputs, (str, Mapping)):
        raise AnsibleFilterError(
            "profile_from_outputs takes the text that the gather script printed, or a dictionary of outputs,"
            f" not {type(outputs).__name__}"
        )
    try:
        return profile_from_outputs(
            read_outputs(to_plain(outputs, "outputs")),
            name=None if name is None else str(name),
            gpus=to_plain(declared or [], "declared"),
            previous=to_plain(previous, "previous"),
        )
    except (GatherError, TypeError, ValueError) as exc:
        raise AnsibleFilterError(f"profile_from_outputs: {exc}") from exc


def node_profiles(hostvars: t.Any, hosts: list[str] | None = None) -> list[dict[str, t.Any]]:
    if not isinstance(hostvars, Mapping):
        raise AnsibleFilterError(f"node_profiles takes hostvars, not {type(hostvars).__name__}")
    # Variables as they are, where Ansible gives them: templating every value of every host would cost far more.
    variables = getattr(hostvars, "raw_get", hostvars.get)
    profiles = []
    for name in map(str, hostvars if hosts is None else hosts):
        facts = (variables(name) or {}).get("ansible_facts") or {}
        profile = facts.get("knaster_node")
        if profile is None:
            profiles.append(unreachable_profile(name))
        else:
            profiles.append(to_plain(profile, f"the profile of {name}"))
    return profiles


def fleet_table(profiles: t.Any) -> str:
    try:
        return format_fleet(to_plain(profiles, "profiles"))
    except (AttributeError, KeyError, TypeError) as exc:
        raise AnsibleFilterError(f"fleet_table takes a list of node profiles: {exc!r}") from exc


class FilterModule:
    """Profiles of nodes."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "profile_from_outputs": profile_from_outputs_filter,
            "node_profiles": node_profiles,
            "fleet_table": fleet_table,
        }
