# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""A run of provisioning up to its first change: definitions, findings and steps from a plan and the state of the clusters."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.confine import find_stuck, stuck_vms
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
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.orphans import Wish, find_orphans
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
    inventory that the run is limited to. ``most`` is how many VMs may be removed because they are not wanted any more, None
    for a share of all.
    """

    settings: Settings = field(default_factory=Settings)
    allowed: Allowed = field(default_factory=Allowed)
    present: bool = True
    only: frozenset[str] | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Last:
    """What the file of definitions remembers of the last run: its VMs, those of earlier plans, and what was read then.

    :ivar is_there: whether there is such a file
    :ivar lost_layers: files of the catalog that it names and that were not read now
    """

    vms: Sequence[Mapping[str, t.Any]] = ()
    earlier: Sequence[Mapping[str, t.Any]] = ()
    is_there: bool = False
    lost_layers: tuple[str, ...] = ()

    @property
    def known(self) -> list[Mapping[str, t.Any]]:
        """All VMs that it names."""
        return [*self.earlier, *self.vms]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What a run is going to do. An error among the findings keeps its VM, its node or its cluster from it."""

    definitions: Definitions
    findings: tuple[Finding, ...]
    steps: tuple[Step, ...]
    earlier: tuple[Mapping[str, t.Any], ...] = ()
    lost_layers: tuple[str, ...] = ()

    @property
    def errors(self) -> list[Finding]:
        """The findings that keep something from being done."""
        return [one for one in self.findings if one.severity == ERROR]


def prepare(
    plan: Mapping[str, t.Any],
    roles: Sequence[Mapping[str, t.Any]],
    *,
    nodes: Sequence[Mapping[str, t.Any]],
    previous: Sequence[Mapping[str, t.Any]] | Last,
    clusters: Mapping[str, Cluster] | None,
    run: Run,
) -> Prepared:
    """Make the definitions, compare them with the clusters and put the steps in order.

    :param plan: a plan document
    :param roles: the roles of the catalog, as plain data
    :param nodes: the profiles of the nodes
    :param previous: the last definitions, or all that their file remembers
    :param clusters: the state of each cluster; None where nothing of them is asked and nothing is done to them
    """
    last = previous if isinstance(previous, Last) else Last(vms=previous, is_there=True)
    there = list((clusters or {}).values())
    known = {(int(one["vmid"]), str(one["name"])) for one in last.known}
    for cluster in there:
        cluster.claim(run.settings.fleet, known)
    definitions = make_definitions(
        plan if run.present else {},
        roles,
        nodes=nodes,
        previous=last.known,
        taken=[one for cluster in there for one in cluster.taken()],
        mappings=[one for cluster in there for one in cluster.mapping_list()],
        settings=run.settings,
    )
    findings = definition_findings(definitions)
    if clusters is None:
        return Prepared(definitions=definitions, findings=tuple(findings), steps=())
    allowed = run.allowed if run.present else replace(run.allowed, prune=True)
    wish = _wish(plan, roles, definitions, last, run)
    orphans = find_orphans(definitions.vms, clusters, allowed=allowed, wish=wish)
    names = {(one["cluster"], one["vmid"]): one["name"] for one in last.known}
    places = {place_of(str(node["name"]), run.settings, node): str(node["name"]) for node in reversed(nodes)}
    found = find_problems(definitions.vms, clusters, allowed=allowed, orphans=orphans, last=names)
    found += find_stuck(definitions.vms, clusters, [*findings, *found])
    # What is wrong elsewhere does not keep a run from the nodes that it was limited to.
    findings += [
        one
        for one in found
        if run.only is None or not one.node or places.get((one.cluster, one.node), one.node) in run.only
    ]
    made = make_steps(
        definitions.vms,
        clusters,
        places,
        allowed=allowed,
        prefix=run.settings.mapping_prefix,
        fleet=run.settings.fleet,
        orphans=orphans,
        stuck=stuck_vms(definitions.vms, [*findings, *found]),
        known={entry["id"] for one in last.known for entry in one.get("mappings") or ()},
    )
    steps = [one for one in made if run.only is None or one.host in run.only]
    return Prepared(
        definitions=definitions,
        findings=tuple(sorted(findings, key=Finding.order)),
        steps=tuple(steps),
        earlier=_earlier(definitions, last, clusters),
        lost_layers=last.lost_layers if orphans.found else (),
    )


def definition_findings(definitions: Definitions) -> list[Finding]:
    """Return what is wrong with definitions as findings: each about its VM, where it is about one."""
    return [
        make_finding("definition", place={key: value for key, value in place.items() if value}, error=text)
        for place, text in definitions.problems
    ]


def _wish(
    plan: Mapping[str, t.Any],
    roles: Sequence[Mapping[str, t.Any]],
    definitions: Definitions,
    last: Last,
    run: Run,
) -> Wish:
    missing: dict[tuple[str, str], int] = {}
    groups = {str(role.get("name")): (role.get("colocate") or {}).get("group") for role in roles}
    for one in plan.get("unplaced") or ():
        kind = "role" if "role" in one else "model"
        missing[kind, str(one[kind])] = int(one["missing"])
    subjects = {str(one["name"]): _subjects_of(one) for one in last.known}
    for (kind, name), count in list(missing.items()):
        # Without a word about it from an earlier run, the name of a shared VM tells its group only.
        if kind == "role" and groups.get(name) is not None:
            missing.setdefault(("role", str(groups[name])), count)
    return Wish(
        missing=missing,
        subjects=subjects,
        unmade=definitions.unmade,
        lost_layers=last.lost_layers,
        is_remembered=last.is_there,
        most=run.most,
        is_absent=not run.present,
    )


def _subjects_of(one: Mapping[str, t.Any]) -> tuple[tuple[str, str], ...]:
    if "model" in one:
        return (("model", str(one["model"])),)
    return tuple(("role", str(name)) for name in one.get("roles") or [one["role"]])


def _earlier(definitions: Definitions, last: Last, clusters: Mapping[str, Cluster]) -> tuple[Mapping[str, t.Any], ...]:
    """Return what has to be remembered of VMs that are in no definition now and that may still be there."""
    made = {(one["cluster"], one["vmid"]) for one in definitions.vms}
    found = {}
    for one in last.known:
        cluster = clusters.get(one["cluster"])
        is_gone = cluster is not None and cluster.error is None and one["vmid"] not in cluster.guests
        if (one["cluster"], one["vmid"]) not in made and not (is_gone and one["name"] not in definitions.unmade):
            keys = ("vmid", "name", "node", "cluster", "role", "model", "roles", "replica", "shard", "mappings")
            found[one["cluster"], one["vmid"]] = {key: one[key] for key in keys if key in one}
    return tuple(found[key] for key in sorted(found))
