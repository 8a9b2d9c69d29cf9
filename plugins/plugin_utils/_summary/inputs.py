# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What a summary is made of: profiles, the plan, what was observed, and the catalog, each checked and read once."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import check, check_given
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError, collecting
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import NODE_STATES, UNREACHABLE, read_nodes

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import Fleet

CARD_STATES = ("used", "unhealthy", "free", "external", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """A fleet and what is to run and runs on it. ``nodes`` are its profiles, ``fleet`` is what they say."""

    nodes: Sequence[Mapping[str, t.Any]]
    fleet: Fleet
    plan: Mapping[str, t.Any]
    replicas: Sequence[Mapping[str, t.Any]]
    catalog: Catalog


def read_inputs(
    nodes: t.Any, plan: t.Any, replicas: t.Any = None, catalog: Catalog | None = None, *, errors: Sequence[str] = ()
) -> Inputs:
    """Return what a summary is made of; a state of a node that is not known is taken as unreachable.

    :param plan: the document of a plan; nothing is no plan
    :param replicas: the observed replicas; nothing is none
    :param errors: what is wrong with the rest
    :raises InputError: with everything that is wrong
    """
    found: list[str] = []
    fleet = None
    with collecting(found):
        fleet = read_nodes(with_known_states(nodes))
    found += check_given(plan, "plan", "plan")
    if replicas:
        found += check({"version": 1, "replicas": replicas}, "observed", "observed")
    if fleet is None or found or errors:
        raise InputError([*found, *errors])
    return Inputs(nodes=nodes, fleet=fleet, plan=plan or {}, replicas=replicas or (), catalog=catalog or Catalog())


def with_known_states(nodes: t.Any) -> t.Any:
    """Return the profiles with any state that is not known taken as unreachable."""
    if not isinstance(nodes, list):
        return nodes
    return [
        {**node, "state": UNREACHABLE}
        if isinstance(node, dict) and node.get("state") not in (None, *NODE_STATES)
        else node
        for node in nodes
    ]
