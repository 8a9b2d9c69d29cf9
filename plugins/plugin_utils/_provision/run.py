# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""A run of provisioning up to its first change: definitions, findings and steps from a plan and the state of the clusters."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.definitions import (
    Definitions,
    make_definitions,
    place_of,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.findings import (
    ERROR,
    Finding,
    make_finding,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.preflight import find_problems
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.settings import (
    Allowed,
    Settings,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.steps import (
    Step,
    make_steps,
)

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.state import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run is asked to do.

    With ``present`` false all VMs with our mark are removed, whatever the plan says. ``only`` are the nodes of the
    inventory that the run is limited to.
    """

    settings: Settings = field(default_factory=Settings)
    allowed: Allowed = field(default_factory=Allowed)
    present: bool = True
    only: frozenset[str] | None = None


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
    clusters: Mapping[str, Cluster] | None,
    run: Run,
) -> Prepared:
    """Make the definitions, compare them with the clusters and put the steps in order.

    :param plan: a plan document
    :param roles: the roles of the catalog, as plain data
    :param nodes: the profiles of the nodes
    :param previous: the last definitions
    :param clusters: the state of each cluster; None where nothing of them is asked and nothing is done to them
    """
    there = list((clusters or {}).values())
    definitions = make_definitions(
        plan if run.present else {},
        roles,
        nodes=nodes,
        previous=previous,
        taken=[one for cluster in there for one in cluster.taken()],
        mappings=[one for cluster in there for one in cluster.mapping_list()],
        settings=run.settings,
    )
    findings = [make_finding("definition", error=text) for text in definitions.errors]
    steps: list[Step] = []
    if clusters is not None:
        allowed = run.allowed if run.present else replace(run.allowed, prune=True)
        places = {place_of(str(node["name"]), run.settings, node): str(node["name"]) for node in reversed(nodes)}
        # What is wrong elsewhere does not keep a run from the nodes that it was limited to.
        findings += [
            one
            for one in find_problems(definitions.vms, clusters, allowed=allowed)
            if run.only is None or not one.node or places.get((one.cluster, one.node), one.node) in run.only
        ]
        if not any(one.severity == ERROR for one in findings):
            made = make_steps(definitions.vms, clusters, places, allowed=allowed, prefix=run.settings.mapping_prefix)
            steps = [one for one in made if run.only is None or one.host in run.only]
    return Prepared(definitions=definitions, findings=tuple(findings), steps=tuple(steps))
