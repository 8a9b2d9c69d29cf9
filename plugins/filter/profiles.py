# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.knaster.inventory.plugins.module_utils._gather.answers import read_outputs
from ansible_collections.knaster.inventory.plugins.module_utils._gather.profile import profile_from_outputs
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import (
    of_type,
    plain_values,
    raw_variables,
    refusing,
    stop_at,
    to_plain,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import find_node_errors
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.profiles import unreachable_profile
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.table import format_fleet


@refusing("profile_from_outputs")
def profile_from_outputs_filter(
    outputs: t.Any,
    previous: Mapping[str, t.Any] | None = None,
    declared: list[dict[str, t.Any]] | None = None,
    name: str | None = None,
) -> dict[str, t.Any]:
    """Return the profile of a node from what the gather script, or single tools, printed there."""
    of_type(outputs, (str, Mapping), "the text that the gather script printed, or a dictionary of outputs")
    given = plain_values(outputs=outputs, previous=previous, declared=declared or [])
    return profile_from_outputs(
        read_outputs(given["outputs"]),
        name=None if name is None else str(name),
        gpus=given["declared"],
        previous=given["previous"],
    )


@refusing("node_profiles")
def node_profiles(hostvars: t.Any, hosts: list[str] | None = None) -> list[dict[str, t.Any]]:
    """Return the profile of each host; a host without one is unreachable, with GPUs unknown."""
    of_type(hostvars, Mapping, "hostvars")
    profiles = []
    for name in map(str, hostvars if hosts is None else hosts):
        profile = (raw_variables(hostvars, name).get("ansible_facts") or {}).get("knaster_node")
        profiles.append(unreachable_profile(name) if profile is None else to_plain(profile, f"the profile of {name}"))
    return profiles


@refusing("fleet_table")
def fleet_table(profiles: t.Any) -> str:
    """Return the fleet as a table."""
    found = to_plain(profiles, "profiles")
    stop_at(find_node_errors(found))
    return format_fleet(found)


class FilterModule:
    """Profiles of nodes."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {
            "profile_from_outputs": profile_from_outputs_filter,
            "node_profiles": node_profiles,
            "fleet_table": fleet_table,
        }
