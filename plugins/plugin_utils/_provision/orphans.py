# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""VMs of ours that the plan does not have: which of them go, and why the others stay.

Only what a catalog does not want any more goes. What lost its place is still wanted, and what somebody else looks after is
not ours to remove.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field, replace

from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.compare import is_disk
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.properties import is_drive
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.findings import Finding, make_finding
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import dns_label, natural_key, plural

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.settings import Allowed
    from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.state import Cluster, Guest

# A run that nobody gave a number removes no more than one in so many of the VMs.
MOST_SHARE = 3

Subject = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is wanted beside the definitions that could be made, and how far a removal may go.

    :ivar missing: how many replicas have no place, by kind (C(role), C(model)) and name
    :ivar subjects: who is in a VM, by its name, as far as an earlier run knew
    :ivar unmade: names of VMs that the plan has and that could not be defined
    :ivar lost_layers: files of the catalog that the last definitions were made from and that were not read now
    :ivar is_remembered: whether there is a file of definitions, which tells what was read last time
    :ivar most: how many VMs may be removed, None for a share of all
    :ivar is_absent: whether all are to go, whatever is wanted
    """

    missing: Mapping[Subject, int] = field(default_factory=dict)
    subjects: Mapping[str, tuple[Subject, ...]] = field(default_factory=dict)
    unmade: frozenset[str] = frozenset()
    lost_layers: tuple[str, ...] = ()
    is_remembered: bool = True
    most: int | None = None
    is_absent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """A VM of ours that is not in the plan, what is found about it, and whether it goes."""

    cluster: str
    guest: Guest
    key: str
    goes: bool = False
    facts: Mapping[str, t.Any] = field(default_factory=dict)

    def finding(self) -> Finding:
        """Return what is said of it."""
        guest = self.guest
        place = {"cluster": self.cluster, "node": guest.node, "vm": guest.name}
        return make_finding(self.key, place=place, vmid=guest.vmid, there=guest.node, **self.facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphans:
    """All of them, and what keeps all of them from going."""

    found: tuple[Orphan, ...] = ()
    refusals: tuple[Finding, ...] = ()

    def of(self, cluster: str) -> dict[int, Orphan]:
        """Return those of a cluster, by number."""
        return {one.guest.vmid: one for one in self.found if one.cluster == cluster}

    def going(self, cluster: str) -> dict[int, Orphan]:
        """Return those of a cluster that go, by number."""
        return {one.guest.vmid: one for one in self.found if one.goes and one.cluster == cluster}


def find_orphans(
    vms: Sequence[Mapping[str, t.Any]],
    clusters: Mapping[str, Cluster],
    *,
    allowed: Allowed,
    wish: Wish | None = None,
) -> Orphans:
    """Return the VMs of ours that are in no definition.

    :param wish: what is wanted beside the definitions; None asks for no share of all, and knows of nothing else
    """
    names = {one["name"]: one["cluster"] for one in vms}
    planned = {(one["cluster"], one["vmid"]) for one in vms}
    found = []
    told = wish or Wish()
    for name, cluster in sorted(clusters.items()):
        guests = [guest for guest in cluster.guests.values() if guest.ours and (name, guest.vmid) not in planned]
        doubled = _doubled(cluster.guests.values())
        for guest in guests:
            if guest.name not in told.unmade and guest.name not in doubled:
                moved = guest.name in names and names[guest.name] != name
                found.append(_orphan(name, guest, allowed=allowed, wish=told, moved=moved))
    if not told.is_absent:
        found = _keep_lost(found, told)
    refusals = _refusals(found, clusters, wish) if allowed.prune and wish is not None and not wish.is_absent else ()
    if refusals:
        found = [replace(one, key="orphan", goes=False) if one.goes else one for one in found]
    return Orphans(found=tuple(found), refusals=tuple(refusals))


def _doubled(guests: Iterable[Guest]) -> set[str]:
    """Return the names that several VMs carry: which of them is the right one is not known."""
    names = [guest.name for guest in guests if guest.ours]
    return {name for name in names if names.count(name) > 1}


def _orphan(cluster: str, guest: Guest, *, allowed: Allowed, wish: Wish, moved: bool) -> Orphan:
    if guest.hardware.get("protection") == "1":
        return Orphan(cluster=cluster, guest=guest, key="orphan.protected")
    if guest.lock:
        return Orphan(cluster=cluster, guest=guest, key="orphan.locked", facts={"lock": guest.lock})
    if moved and not allowed.recreate:
        return Orphan(cluster=cluster, guest=guest, key="orphan.moved")
    if not moved and not allowed.prune:
        return Orphan(cluster=cluster, guest=guest, key="orphan")
    if not wish.is_absent and (guest.ha is None or guest.jobs is None):
        return Orphan(cluster=cluster, guest=guest, key="orphan.unknown")
    if not wish.is_absent and guest.ha:
        return Orphan(cluster=cluster, guest=guest, key="orphan.ha", facts={"state": guest.ha})
    key = "needs_stop.orphan" if guest.running and not allowed.stop else "orphan.pruned"
    return Orphan(cluster=cluster, guest=guest, key=key, goes=key == "orphan.pruned", facts={"along": lost_with(guest)})


def lost_with(guest: Guest) -> str:
    """Return what is lost together with a VM, in words."""
    disks = sorted((key for key, text in guest.hardware.items() if is_drive(key) and is_disk(text)), key=natural_key)
    words = [f"its disks ({', '.join(disks)})" if disks else "its disks"]
    words += [f"its place in {job}" for job in guest.jobs or ()]
    words += ["its place in high availability"] if guest.ha else []
    return ", ".join(words)


def _keep_lost(found: Sequence[Orphan], wish: Wish) -> list[Orphan]:
    """Keep as many of each role or model as have no place now, those that run first."""
    left = dict(wish.missing)
    kept: dict[int, Orphan] = {}
    order = sorted(range(len(found)), key=lambda at: (not found[at].guest.running, natural_key(found[at].guest.name)))
    for at in order:
        one = found[at]
        subject = next((who for who in _subjects(one.guest.name, wish) if left.get(who, 0) > 0), None)
        if subject is not None:
            left[subject] -= 1
            facts = {"what": " ".join(subject), "missing": wish.missing[subject]}
            kept[at] = replace(one, key="orphan.lost", goes=False, facts=facts)
    return [kept.get(at, one) for at, one in enumerate(found)]


def _subjects(name: str, wish: Wish) -> Iterable[Subject]:
    """Who is in a VM: as an earlier run knew, else those whose VMs have such names."""
    if name in wish.subjects:
        return wish.subjects[name]
    return [who for who in wish.missing if re.fullmatch(rf"{re.escape(dns_label(who[1]))}-\d+(?:-\d+)?", name)]


def _refusals(found: Sequence[Orphan], clusters: Mapping[str, Cluster], wish: Wish | None) -> list[Finding]:
    """Return why nothing is removed although it may be: something looks like a mistake."""
    count = sum(one.goes or one.key == "needs_stop.orphan" for one in found)
    total = sum(guest.ours for cluster in clusters.values() for guest in cluster.guests.values())
    if not count or wish is None:
        return []
    refusals = []
    if not wish.is_remembered:
        refusals.append(make_finding("prune_refused.memory", count=plural(count, "VM")))
    if wish.lost_layers:
        refusals.append(
            make_finding("prune_refused.layer", count=plural(count, "VM"), layers=", ".join(wish.lost_layers))
        )
    if wish.most is None and count * MOST_SHARE > total:
        refusals.append(make_finding("prune_refused.share", count=count, total=total))
    elif wish.most is not None and count > wish.most:
        refusals.append(make_finding("prune_refused.most", count=count, most=wish.most))
    return refusals
