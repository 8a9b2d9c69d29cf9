# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What is done in which order: the one answer that the role and its tests share.

The phases are barriers: all steps of one are done before the first of the next. Within a phase the order does not matter.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.mark import mapping_mark
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.names import (
    mapping_id,
    parse_address,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.orphans import (
    Orphan,
    Orphans,
    find_orphans,
    lost_with,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.preflight import is_mdev
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import natural_key

if t.TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.preflight import Definition
    from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.settings import Allowed
    from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.state import (
        Cluster,
        Guest,
        Holder,
    )

# VMs that are not wanted any more go first, then VMs let go of GPUs that others get: both make room. Mappings come
# before the VMs that name them, and go after those that did.
REMOVE, RELEASE, MAP, MAKE, UNMAP = PHASES = ("remove", "release", "map", "make", "unmap")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call of a module with its arguments. ``host`` is the node of the inventory whose settings of the API are used."""

    phase: str
    host: str
    cluster: str
    text: str
    args: dict[str, t.Any]

    def plain(self) -> dict[str, t.Any]:
        """Return the step as data."""
        return {"text": self.text, **self.args}


def make_steps(
    vms: Sequence[Definition],
    clusters: Mapping[str, Cluster],
    hosts: Mapping[tuple[str, str], str],
    *,
    allowed: Allowed,
    prefix: str,
    fleet: str = "",
    orphans: Orphans | None = None,
    stuck: Collection[tuple[str, str]] = (),
    known: Collection[str] = (),
) -> list[Step]:
    """Return the steps from the state of the clusters to the definitions, phase by phase.

    :param hosts: node of the inventory by cluster and name of the node in PVE
    :param orphans: VMs of ours that are in no plan
    :param stuck: VMs by cluster and name that stay as they are, because something is wrong with them
    :param known: mappings that the last definitions name
    """
    steps: list[Step] = []
    orphans = orphans or find_orphans(vms, clusters, allowed=allowed)
    for name, cluster in sorted(clusters.items()):
        if cluster.error is None:
            planned = [one for one in vms if one["cluster"] == name]
            there = [one for one in planned if cluster.is_online(one["pve_node"]) and (name, one["name"]) not in stuck]
            used = {entry["id"] for one in planned for entry in one["mappings"]}
            maker = _Maker(cluster, there, orphans.going(name), hosts, allowed=allowed, fleet=fleet)
            steps += maker.steps()
            if allowed.prune:
                steps += maker.unused_mappings(prefix, used, known)
    return sorted(steps, key=lambda one: (PHASES.index(one.phase), natural_key(one.host), natural_key(one.text)))


class _Maker:
    def __init__(
        self,
        cluster: Cluster,
        vms: Sequence[Definition],
        going: Mapping[int, Orphan],
        hosts: Mapping[tuple[str, str], str],
        *,
        allowed: Allowed,
        fleet: str,
    ) -> None:
        self.cluster = cluster
        self.vms = vms
        self.going = going
        self.hosts = hosts
        self.allowed = allowed
        self.fleet = fleet
        self.by_vmid = {one["vmid"]: one for one in vms}
        removed = [one for one in cluster.guests.values() if one.ours and cluster.is_online(one.node)]
        self.removed = [guest for guest in removed if self._goes(guest)]

    def steps(self) -> Iterable[Step]:
        """Yield all of them but the removal of mappings."""
        guests = self.cluster.guests
        gone = {guest.vmid for guest in self.removed}
        for guest in self.removed:
            vm = {"vmid": guest.vmid, "name": guest.name, "node": guest.node, "state": "absent", "fleet": guest.fleet}
            # Whoever is made anew elsewhere under its number stays in the jobs that name it.
            vm["purge"] = guest.vmid in self.going
            text = f"{guest.name} ({guest.vmid}) on {guest.node}, with {lost_with(guest)}"
            yield self._step(REMOVE, guest.node, text, vm=vm)
        released = self._released(gone)
        for vmid, keys in released.items():
            guest = guests[vmid]
            text = f"take {', '.join(keys)} from {guest.name} ({vmid})"
            yield self._step(RELEASE, guest.node, text, vm=self._without(guest, keys))
        changed = list(self._mappings())
        yield from changed
        made_before = {step.args["mapping"]["id"] for step in changed}
        for one in self.vms:
            vmid = one["vmid"]
            was_stopped = vmid in released and guests[vmid].running
            vm = {key: one[key] for key in ("vmid", "name", "config", "fingerprint")} | {
                "mappings": [entry | {"made_before": entry["id"] in made_before} for entry in one["mappings"]],
                "fleet": self.fleet,
                "node": one["pve_node"],
                "source": one.get("source") or {},
                "pool": one.get("pool"),
                "state": "present",
                "started": True if one["start"] or was_stopped else None,
                # What a run in check mode would find is still as it was before the steps above.
                "anew": vmid in gone,
            }
            yield self._step(MAKE, one["pve_node"], f"{one['name']} ({vmid}) on {one['pve_node']}", vm=vm)

    def _goes(self, guest: Guest) -> bool:
        """Return whether a VM of ours is removed: nobody wants it any more, or it is on another node than planned."""
        if guest.vmid in self.going:
            return True
        one = self.by_vmid.get(guest.vmid)
        return one is not None and guest.node != one["pve_node"] and guest.name == one["name"] and self.allowed.recreate

    def _released(self, removed: set[int]) -> dict[int, list[str]]:
        """Return the devices that planned VMs have to let go, because another VM gets their GPUs."""
        keys: dict[int, set[str]] = {}
        for one in self.vms:
            cards = self.cluster.nodes[one["pve_node"]].cards or {}
            for entry in one["mappings"]:
                address = parse_address(entry["path"])
                card = cards.get(address) if address is not None else None
                for holder in card.holders if card is not None else ():
                    if self._lets_go(holder, one, removed):
                        keys.setdefault(holder.vmid, set()).add(holder.key)
        return {vmid: sorted(keys[vmid], key=natural_key) for vmid in sorted(keys)}

    def _lets_go(self, holder: Holder, one: Definition, removed: set[int]) -> bool:
        guest = self.cluster.guests.get(holder.vmid)
        return (
            guest is not None
            and guest.ours
            and holder.certain
            and holder.vmid != one["vmid"]
            and holder.vmid in self.by_vmid
            and holder.vmid not in removed
            and (self.allowed.strict or guest.own is None or holder.key in guest.own)
        )

    def _without(self, guest: Guest, keys: Sequence[str]) -> dict[str, t.Any]:
        """Return a VM without its GPUs, standing still; what it is to have comes when it is made what the plan says."""
        one = self.by_vmid[guest.vmid]
        config: dict[str, t.Any] = {key: one["config"][key] for key in one["config"] if not key.startswith("hostpci")}
        config |= dict.fromkeys(keys)
        values: dict[str, t.Any] = {"vmid": guest.vmid, "name": guest.name, "node": guest.node, "config": config}
        values |= {"fingerprint": guest.fingerprint, "fleet": self.fleet, "state": "present", "started": False}
        return values

    def _mappings(self) -> Iterable[Step]:
        entries: dict[str, list[dict[str, t.Any]]] = {}
        parted: set[str] = set()
        for one in self.vms:
            for entry in one["mappings"]:
                entries.setdefault(entry["id"], []).append(entry)
                parted |= {entry["id"]} if is_mdev(one, entry["id"]) else set()
        for name, wanted in sorted(entries.items()):
            nodes = {entry["node"] for entry in wanted}
            there = [_known(entry) for entry in self.cluster.mappings.get(name, ()) if entry.get("node") in nodes]
            is_same = (name in parted) == (name in self.cluster.parted)
            if not is_same or sorted(there, key=str) != sorted((_known(entry) for entry in wanted), key=str):
                ordered = sorted(map(_known, wanted), key=lambda entry: (natural_key(entry["node"]), entry["path"]))
                mapping = {"id": name, "entries": ordered, "mdev": name in parted, "state": "present"}
                if self.fleet and name not in self.cluster.mappings:
                    mapping["description"] = mapping_mark(self.fleet)
                yield self._step(MAP, ordered[0]["node"], f"mapping {name}", mapping=mapping)

    def unused_mappings(self, prefix: str, used: Collection[str], known: Collection[str]) -> Iterable[Step]:
        """Yield the removal of mappings that our fleet named after a GPU, when no planned VM has the GPU."""
        for name, entries in sorted(self.cluster.mappings.items()):
            if name in used or not entries or not all(_is_named_by_us(name, entry, prefix) for entry in entries):
                continue
            maker = self.cluster.makers.get(name)
            if self.fleet and maker != self.fleet and (maker is not None or name not in known):
                continue
            node = str(entries[0]["node"])
            holders = self._holders(name, node) if self.cluster.is_online(node) else None
            # A mapping stays while somebody else uses it, or one of ours that keeps it until its next start.
            if holders is not None and all(map(self._drops, holders)):
                mapping = {"id": name, "entries": [], "state": "absent", "used": bool(holders)}
                yield self._step(UNMAP, node, f"mapping {name}", mapping=mapping)

    def _drops(self, holder: Holder) -> bool:
        """Return whether a VM does not have a GPU any more at the end of the run."""
        if any(guest.vmid == holder.vmid for guest in self.removed):
            return True
        guest = self.cluster.guests.get(holder.vmid)
        if guest is None or not guest.ours or holder.vmid not in self.by_vmid:
            return False
        is_own = guest.own is None or holder.key in guest.own or holder.key in self.by_vmid[holder.vmid]["config"]
        return (is_own or not holder.later) and (not holder.running or self.allowed.stop)

    def _holders(self, name: str, node: str) -> list[Holder]:
        cards = self.cluster.nodes[node].cards or {}
        paths = [parse_address(entry.get("path")) for entry in self.cluster.mappings[name]]
        return [holder for address in paths if address in cards for holder in cards[address].holders]

    def _step(self, phase: str, pve_node: str, text: str, **args: t.Any) -> Step:
        host = self.hosts.get((self.cluster.name, pve_node))
        if host is None:
            # Any node of the inventory that knows this API does: the call goes to the cluster.
            host = min(
                (node for (name, _node), node in self.hosts.items() if name == self.cluster.name), key=natural_key
            )
        return Step(phase=phase, host=host, cluster=self.cluster.name, text=text, args=args)


def _known(entry: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return an entry as the module takes it."""
    keys = ("node", "path", "pci_id", "subsystem_id", "iommu_group")
    return {key: entry[key] for key in keys if entry.get(key) is not None}


def _is_named_by_us(name: str, entry: Mapping[str, t.Any], prefix: str) -> bool:
    address = parse_address(entry.get("path"))
    return address is not None and mapping_id(prefix, str(entry.get("node")), address) == name
