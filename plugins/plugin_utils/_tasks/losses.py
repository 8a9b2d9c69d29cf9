# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What the loss of each node would cost, asked of saved files."""

from __future__ import annotations

import typing as t
from collections import Counter

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.placements import placements
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.what_if import what_if_lost
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import natural_key

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Catalog

# The whole fleet is planned anew for each node that is asked about: so many nodes are looked at in all, which takes seconds.
_NODES_LOOKED_AT = 50_000
_LEAST = 10


def nodes_to_ask(plan: Mapping[str, t.Any], total: int, limit: int | None = None) -> list[str]:
    """Return the nodes in use whose loss is asked about, those with the most on them first where there are too many.

    :param total: how many nodes the fleet has
    :param limit: how many to ask about at most; without it, fewer the larger the fleet is
    """
    on = Counter(part.node for one in placements(plan) for part in one.parts)
    most = max(_LEAST, _NODES_LOOKED_AT // max(1, total)) if limit is None else limit
    chosen = sorted(on, key=lambda name: (-on[name], natural_key(name)))[:most]
    return sorted(chosen, key=natural_key)


def ask_losses(
    plan: Mapping[str, t.Any],
    nodes: Sequence[Mapping[str, t.Any]],
    catalog: Catalog,
    *,
    lost: Sequence[str | Sequence[str]] | None = None,
    limit: int | None = None,
    moves: str = "none",
    passthrough: bool = True,
) -> list[dict[str, t.Any]]:
    """Return the answers of ``what_if_lost`` for these nodes, or for those in use.

    :raises InputError: when a node is in no profile
    """
    known = {node["name"] for node in nodes}
    asked = [name for name in nodes_to_ask(plan, len(nodes), limit) if name in known] if lost is None else lost
    return what_if_lost(
        plan,
        nodes,
        catalog.roles,
        catalog.models,
        lost=asked,
        moves=moves,
        passthrough=passthrough,
        engines=catalog.engines,
    )
