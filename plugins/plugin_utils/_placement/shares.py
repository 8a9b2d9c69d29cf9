# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Memory for VMs that asked for none: an equal share of what their node has left once everything is placed."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.ledger import Ledger
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import Request, Shard

# More than this a VM gets only when it asks for it.
SHARE_MIB = 16384


def share_memory(ledger: Ledger, requests: Iterable[Request]) -> None:
    """Give every VM without memory its share, and take it off the node."""
    waiting: dict[int, list[Shard]] = {}
    for request in requests:
        for placement in request.placements.values():
            for shard in placement.shards:
                if not shard.memory_mib:
                    waiting.setdefault(shard.node, []).append(shard)
    for node, shards in waiting.items():
        left = ledger.ram_left[node]
        share = SHARE_MIB if left is None else min(SHARE_MIB, max(0, left) // len(shards))
        for shard in shards:
            shard.memory_mib = share
        ledger.hold(node, share * len(shards))
