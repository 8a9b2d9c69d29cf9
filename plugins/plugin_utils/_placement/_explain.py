# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Reasons: why a card was chosen, why a replica has none, and what the nearest miss was.

Everything here is read off the finished books, so that a plan says the same however it was reached.
"""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._placement._fit import (
    CODE_RANK,
    exact_gib,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement._roles import (
    LARGEST,
    preference,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog._documents import (
        ComputeCap,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement._fit import (
        Ask,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement._ledger import (
        Ledger,
        Lot,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement._roles import (
        RolePlacer,
        Turn,
    )

# How many names of roles a sentence lists before it only counts the rest.
_LISTED = 3


def cap_text(cap: ComputeCap | None) -> str:
    """A compute capability as people write it."""
    return "unknown" if cap is None else f"{cap[0]}.{cap[1]}"


def size_text(size: float) -> str:
    """A size without a needless fraction."""
    return f"{size:g}" if size == int(size) or size >= 1000 else f"{round(size, 1):g}"


def listing(names: Iterable[str]) -> str:
    """Names in a sentence, the first few of them."""
    known = list(names)
    if len(known) > _LISTED:
        return f"{', '.join(known[:_LISTED])} and {len(known) - _LISTED} more"
    return " and ".join([", ".join(known[:-1]), known[-1]] if len(known) > 1 else known)


def plural(count: int, one: str, many: str | None = None) -> str:
    """A number with its noun."""
    return f"{count} {one if count == 1 else many or one + 's'}"


class Tally:
    """How many cards (and nodes without cards) were refused for which reason, with one lot for each as an example."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.lots: dict[str, list[int]] = {}
        self.would_fit: list[int] = []

    def add(self, code: str, count: int, lot: int | None = None) -> None:
        """Count some cards of one lot, or some nodes."""
        if count:
            self.counts[code] = self.counts.get(code, 0) + count
            if lot is not None:
                self.lots.setdefault(code, []).append(lot)

    def ordered(self) -> dict[str, int]:
        """The counts in the fixed order of the codes."""
        return {code: self.counts[code] for code in sorted(self.counts, key=CODE_RANK.__getitem__)}

    def last(self) -> str:
        """The rule that the nearest miss failed; an empty fleet has no card at all."""
        return max(self.counts, key=CODE_RANK.__getitem__, default="no_gpu")


def tally_cards(ledger: Ledger, ask: Ask) -> Tally:
    """Every card and every node without cards, each under the first rule that refused it."""
    tally = Tally()
    for at in range(len(ledger.lots)):
        code = ledger.refusal(ask, at)
        total, free = ledger.lot_total[at], ledger.lot_free[at]
        if code is None:
            tally.add("in_use", total - free, at)
            tally.add("ram", free, at)
        else:
            tally.add(code, total, at)
            if code == "node_state" and ledger.refusal_elsewhere(ask, at) is None:
                tally.would_fit.append(at)
    for node, count in enumerate(ledger.fleet.card_count):
        if not count:
            tally.add(ledger.site_refusal(ask, node) or ("gpus_unknown" if count is None else "no_gpu"), 1)
    return tally


def tally_cpu(ledger: Ledger, turn: Turn) -> Tally:
    """Every node under the first rule that refused it for work without a card."""
    tally = Tally()
    admitted = turn.role.needs.gpu_nodes
    for node, count in enumerate(ledger.fleet.card_count):
        code = ledger.site_refusal(turn.ask, node)
        if code is None:
            code = "gpus_unknown" if count is None else "config" if count and not admitted else "ram"
        tally.add(code, 1)
    return tally


def reason_text(tally: Tally, ledger: Ledger, ask: Ask, owners: Mapping[int, Sequence[str]], *, memory_mib: int) -> str:
    """The counts as a sentence, each with the values that decided."""
    if not tally.counts:
        return "there are no nodes"
    parts = [_phrase(code, count, tally, ledger, ask, owners, memory_mib) for code, count in tally.ordered().items()]
    return ", ".join(parts)


def _phrase(  # noqa: PLR0911, PLR0917
    code: str, count: int, tally: Tally, ledger: Ledger, ask: Ask, owners: Mapping[int, Sequence[str]], memory_mib: int
) -> str:
    lots = [ledger.lots[at] for at in tally.lots.get(code, ())]
    if code == "cc_min":
        floor = max(cap for cap in (ask.min_cc, ask.engine_min_cc) if cap is not None)
        whose = "" if ask.min_cc == floor else f", the least that {ask.engine} runs on"
        return f"{count} compute capability below {cap_text(floor)}{whose} ({_caps(lots)})"
    if code == "cc_max":
        top = min(cap for cap in (ask.max_cc, ask.engine_max_cc) if cap is not None)
        whose = "" if ask.max_cc == top else f", the most that {ask.engine} runs on"
        return f"{count} compute capability above {cap_text(top)}{whose} ({_caps(lots)})"
    if code == "vram":
        return f"{count} too little VRAM ({_vram(lots, ask)})"
    if code == "in_use":
        names = sorted({name for at in tally.lots.get(code, ()) for name in owners.get(at, ())})
        return f"{count} taken" + (f" (by {listing(names)})" if names else "")
    if code == "node_state":
        return _node_state_phrase(count, tally, ledger, lots)
    if code == "ram":
        have = max((left for left in ledger.ram_left if left is not None), default=0)
        return f"{count} on nodes without {memory_mib} MiB of memory left (at most {max(0, have)} MiB)"
    if code == "gpu_class":
        return f"{count} of another class than {ask.gpu_class}"
    if code == "vendor":
        return f"{count} not of {ask.vendor}"
    if code == "engine":
        return f"{count} that {ask.engine} has no build for"
    if code == "node_pin":
        return f"{count} not on node {ask.node}"
    if code == "selector":
        wanted = ", ".join(f"{key}={value}" for key, value in sorted(ask.selector.items()))
        return f"{count} on nodes without the labels {wanted}"
    if code in _NODE_CODES:
        return f"{plural(count, 'node')} {_PLAIN[code]}"
    return f"{count} {_PLAIN.get(code, code)}"


_NODE_CODES = frozenset(("config", "no_gpu", "gpus_unknown"))
_PLAIN = {
    "config": "with cards, which needs.gpu_nodes would admit",
    "no_gpu": "without a GPU",
    "gpus_unknown": "with unknown GPUs",
    "mig": "split by MIG",
    "memory_unknown": "whose memory is not known",
    "unhealthy": "unhealthy",
    "iommu_group": "that can not be passed through (IOMMU group)",
    "foreign": "held by others",
    "block": "on nodes with too few free cards together",
    "fabric": "on nodes without enough others on one fabric",
    "disk": "on nodes without enough disk space",
}


def _caps(lots: Sequence[Lot]) -> str:
    return ", ".join(
        cap_text(cap) for cap in sorted({lot.shape.compute_cap for lot in lots}, key=lambda cap: cap or (0, 0))
    )


def _vram(lots: Sequence[Lot], ask: Ask) -> str:
    best = max(lots, key=lambda lot: lot.shape.memory_gb or 0)
    have = best.shape.memory_gb or 0
    if ask.vram_gb is not None and have < ask.vram_gb:
        return f"{size_text(have)} < {size_text(ask.vram_gb)} GB"
    need_gib, have_gib = exact_gib(ask, best.shape)
    return f"needs {need_gib:.1f} GiB, has {have_gib:.1f}, short {need_gib - have_gib:.1f} GiB per card"


def _node_state_phrase(count: int, tally: Tally, ledger: Ledger, lots: Sequence[Lot]) -> str:
    fitting = sum(ledger.lot_total[at] for at in tally.would_fit)
    states = " or ".join(sorted({lot.site.state for lot in lots})) or "not ready"
    if fitting:
        names = listing(
            dict.fromkeys(
                ledger.fleet.names[ledger.cell_node[cell]] for at in tally.would_fit for cell in ledger.lot_cells[at]
            )
        )
        what = "fits but its node is" if fitting == 1 else "fit but their nodes are"
        rest = f", {count - fitting} more on such nodes" if count > fitting else ""
        return f"{plural(fitting, 'card')} {what} {states} ({names}){rest}"
    return f"{count} on nodes that are {states}"


def owners_by_lot(placer: RolePlacer, others: Mapping[int, Iterable[str]]) -> dict[int, list[str]]:
    """Who has cards of each lot."""
    found: dict[int, list[str]] = {}
    for lot, users in enumerate(placer.on):
        names = [placer.turns[number].role.name for number, seats in users.items() if seats]
        names.extend(others.get(lot, ()))
        if names:
            found[lot] = sorted(set(names))
    return found


def why_of_lot(turn: Turn, lot: int, ledger: Ledger, owners: Mapping[int, Sequence[str]]) -> dict[str, t.Any]:
    """Why a replica of a role sits on this lot, from who has what in the finished plan."""
    role = turn.role
    shape = ledger.lots[lot].shape
    mine = preference(role, ledger.lots[lot])
    better = [at for at in turn.lots if preference(role, ledger.lots[at]) < mine]
    fitting = sum(ledger.lot_total[at] for at in turn.lots)
    taken = sum(ledger.lot_total[at] - ledger.lot_free[at] for at in better)
    free = sum(ledger.lot_free[at] for at in better)
    size = "unknown memory" if shape.memory_gb is None else f"{size_text(shape.memory_gb)} GB"
    what = "largest" if role.prefer == LARGEST else "smallest"
    card = f"{size}, compute capability {cap_text(shape.compute_cap)}"
    why: dict[str, t.Any] = {"rule": role.prefer, "fitting": fitting}
    if not better:
        only = "the only card that fits" if fitting == 1 else f"the {what} of {fitting} cards that fit"
        why["text"] = f"{card}: {only}"
    elif not free:
        who = listing(
            sorted({name for at in better for name in owners.get(at, ()) if name != role.name}) or [role.name]
        )
        why["better_taken"] = taken
        why["text"] = f"{card}: {what} of {fitting} cards that fit, after {taken} taken by {who}"
    elif turn.memory_mib and not any(
        ledger.cell_free[cell] and ledger.has_memory(ledger.cell_node[cell], turn.memory_mib)
        for at in better
        for cell in ledger.lot_cells[at]
    ):
        why["better_taken"] = taken
        why["text"] = f"{card}: {what} of {fitting} cards that fit on a node with {turn.memory_mib} MiB of memory left"
    else:
        why["rule"] = "kept"
        why["text"] = f"{card}: kept, though {plural(free, 'free card')} would be preferred by {role.prefer}"
    return why
