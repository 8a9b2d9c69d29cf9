# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Memory for machines that asked for none: an equal share of what their node has left once everything is placed."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.ledger import Ledger
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.replicas import (
        Shard,
        Want,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.roles import (
        Seat,
        Turn,
    )

# More than this a machine gets only when it asks for it.
SHARE_MIB = 16384


def share_memory(ledger: Ledger, turns: Iterable[Turn], wants: Iterable[Want]) -> None:
    """Give every machine without memory its share, and take it off the node."""
    waiting: dict[int, list[Seat | Shard]] = {}
    for turn in turns:
        for seat in turn.seats:
            if not seat.memory_mib:
                waiting.setdefault(seat.node, []).append(seat)
    for want in wants:
        for replica in want.replicas:
            for shard in replica.shards:
                if not shard.memory_mib:
                    waiting.setdefault(shard.node, []).append(shard)
    for node, machines in waiting.items():
        left = ledger.ram_left[node]
        share = SHARE_MIB if left is None else min(SHARE_MIB, max(0, left) // len(machines))
        for machine in machines:
            machine.memory_mib = share
        ledger.claim(node, share * len(machines))
