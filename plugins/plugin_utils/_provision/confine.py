# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""How far an error reaches: to its VM, its node or its cluster. Everything else goes on."""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.findings import (
    ERROR,
    Finding,
    make_finding,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.names import parse_address

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.state import Cluster, Holder

# An error that keeps VMs from being removed is about nothing that is made.
_ABOUT_REMOVAL = frozenset(("prune_refused",))

Definition = t.Mapping[str, t.Any]


def stuck_vms(vms: Sequence[Definition], findings: Iterable[Finding]) -> set[tuple[str, str]]:
    """Return cluster and name of the VMs that stay as they are, because something is wrong with them or around them."""
    errors = [one for one in findings if one.severity == ERROR and one.code not in _ABOUT_REMOVAL]
    return {(vm["cluster"], vm["name"]) for vm in vms if any(_reaches(error, vm) for error in errors)}


def _reaches(error: Finding, vm: Definition) -> bool:
    if error.vm:
        return bool(error.vm == vm["name"] and error.cluster in ("", vm["cluster"]))
    if error.node:
        return bool(error.node == vm["node"])
    # What is wrong with no VM, such as an address of one that is not planned, keeps none from being made.
    return error.code != "definition" and error.cluster in ("", vm["cluster"])


def find_stuck(
    vms: Sequence[Definition], clusters: Mapping[str, Cluster], findings: Sequence[Finding]
) -> list[Finding]:
    """Return an error for each VM that waits for a GPU of a VM that stays as it is, and for those that wait for these."""
    found: list[Finding] = []
    while True:
        stuck = stuck_vms(vms, [*findings, *found])
        more = [
            one for vm in vms if (vm["cluster"], vm["name"]) not in stuck for one in _waits(vm, clusters, vms, stuck)
        ]
        if not more:
            return found
        found += more


def _waits(
    vm: Definition, clusters: Mapping[str, Cluster], vms: Sequence[Definition], stuck: set[tuple[str, str]]
) -> Iterable[Finding]:
    cluster = clusters.get(vm["cluster"])
    node = cluster.nodes.get(vm["pve_node"]) if cluster is not None else None
    names = {one["vmid"]: one["name"] for one in vms if one["cluster"] == vm["cluster"]}
    for entry in vm["mappings"]:
        address = parse_address(entry["path"])
        card = (node.cards or {}).get(address) if node is not None and address is not None else None
        for holder in card.holders if card is not None else ():
            if holder.vmid != vm["vmid"] and (vm["cluster"], names.get(holder.vmid)) in stuck:
                yield _stuck(vm, holder, card.address.text if card is not None else "")


def _stuck(vm: Definition, holder: Holder, gpu: str) -> Finding:
    place = {"cluster": vm["cluster"], "node": vm["node"], "vm": vm["name"]}
    return make_finding("gpu_held.stuck", place=place, holder=f"{holder.name} (VM {holder.vmid})", gpu=gpu)
