# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""A run of provisioning up to its first change: definitions, findings and steps from a plan and the state of the clusters."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.definitions import (
    Definitions,
    make_definitions,
    place_of,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.preflight import (
    ERROR,
    Finding,
    find_problems,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.steps import (
    Step,
    make_steps,
)

if t.TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.preflight import Allowed
    from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.settings import Settings
    from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.state import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What a run is going to do. With an error among the findings there are no steps."""

    definitions: Definitions
    findings: tuple[Finding, ...]
    steps: tuple[Step, ...]

    @property
    def errors(self) -> list[Finding]:
        """The findings that stop the run."""
        return [one for one in self.findings if one.severity == ERROR]


def prepare(
    plan: Mapping[str, t.Any],
    roles: Sequence[Mapping[str, t.Any]],
    *,
    nodes: Sequence[Mapping[str, t.Any]],
    previous: Sequence[Mapping[str, t.Any]],
    settings: Settings,
    clusters: Mapping[str, Cluster] | None,
    allowed: Allowed,
    present: bool = True,
    only: Collection[str] | None = None,
) -> Prepared:
    """Make the definitions, compare them with the clusters and put the steps in order.

    :param clusters: the state of each cluster; None where nothing of them is asked and nothing is done to them
    :param only: the nodes of the inventory that the run is limited to
    :param present: False removes all machines with our mark, whatever the plan says
    """
    there = list((clusters or {}).values())
    definitions = make_definitions(
        plan if present else {},
        roles,
        nodes=nodes,
        previous=previous,
        taken=[one for cluster in there for one in cluster.taken()],
        mappings=[one for cluster in there for one in cluster.mapping_list()],
        settings=settings,
    )
    findings = [
        Finding(severity=ERROR, code="definition", text=text, remedy="Nothing is done before that is right")
        for text in definitions.errors
    ]
    if clusters is None:
        return Prepared(definitions=definitions, findings=tuple(findings), steps=())
    if not present:
        allowed = replace(allowed, prune=True)
    places = {place_of(str(node["name"]), settings, node): str(node["name"]) for node in reversed(nodes)}
    problems = find_problems(definitions.vms, clusters, allowed=allowed)
    if only is not None:
        # What is wrong elsewhere does not keep a run from the nodes that it was limited to.
        problems = [one for one in problems if not one.node or places.get((one.cluster, one.node), one.node) in only]
    findings += problems
    steps: list[Step] = []
    if not any(one.severity == ERROR for one in findings):
        steps = make_steps(definitions.vms, clusters, places, allowed=allowed, prefix=settings.prefix)
        steps = [one for one in steps if only is None or one.host in only]
    return Prepared(definitions=definitions, findings=tuple(findings), steps=tuple(steps))
