# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What could not be placed, each with its reason, the nearest miss and what would help."""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._placement._explain import (
    reason_text,
    tally_cards,
    tally_cpu,
)

if t.TYPE_CHECKING:
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement._document import (
        Writer,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement._explain import (
        Tally,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement._replicas import (
        ReplicaPlacer,
        Want,
        Way,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement._roles import (
        Turn,
    )


class Refusals:
    """Reads the refusals off a finished plan."""

    def __init__(self, writer: Writer, replicas: ReplicaPlacer) -> None:
        self.writer = writer
        self.ledger = writer.ledger
        self.replicas = replicas

    def entries(self) -> list[dict[str, t.Any]]:
        """One entry for each role and each model that is short, in the order in which they are placed."""
        found = [self._role(turn) for turn in self.writer.placer.turns if turn.missing]
        found.extend(self._model(want) for want in self.writer.wants if want.missing)
        return found

    def _role(self, turn: Turn) -> dict[str, t.Any]:
        tally = tally_cards(self.ledger, turn.ask) if turn.role.needs.gpu else tally_cpu(self.ledger, turn)
        entry: dict[str, t.Any] = {
            "role": turn.role.name,
            "wanted": turn.role.count,
            "placed": len(turn.seats),
            "missing": turn.missing,
            "code": tally.last(),
            "reason": reason_text(tally, self.ledger, turn.ask, self.writer.owners, memory_mib=turn.memory_mib),
            "rejected": tally.ordered(),
        }
        return entry

    def _model(self, want: Want) -> dict[str, t.Any]:
        texts = []
        tallies = []
        for way in want.ways:
            tally = self._tally(want, way)
            tallies.append(tally)
            text = reason_text(tally, self.ledger, way.ask, self.writer.owners, memory_mib=way.memory_mib)
            texts.append(f"{way.profile.name}: {text}")
        return {
            "model": want.model.name,
            "wanted": want.wanted,
            "placed": len(want.replicas),
            "missing": want.missing,
            "code": tallies[0].last(),
            "reason": "; ".join(texts),
            "rejected": tallies[0].ordered(),
        }

    def _tally(self, want: Want, way: Way) -> Tally:
        tally = tally_cards(self.ledger, way.ask)
        del want
        return tally
