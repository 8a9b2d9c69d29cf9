# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Reasons: why a GPU was chosen, why a replica has none, and what the nearest miss was.

Everything here is read off the finished books, so that a plan says the same however it was reached.
"""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import (
    CODE_RANK,
    exact_gib,
    shared_mib,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.replicas import choose_cards
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.roles import (
    LARGEST,
    preference,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import listing, plural, size_text

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import ComputeCap
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import Ask
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.ledger import (
        Ledger,
        Lot,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.replicas import (
        ReplicaPlacer,
        Want,
        Way,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.roles import (
        RolePlacer,
        Turn,
    )


def cap_text(cap: ComputeCap | None) -> str:
    """A compute capability as people write it."""
    return "unknown" if cap is None else f"{cap[0]}.{cap[1]}"


class Tally:
    """How many GPUs (and nodes without GPUs) were refused for which reason, with one lot for each as an example."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.lots: dict[str, list[int]] = {}
        self.would_fit: list[int] = []

    def add(self, code: str, count: int, lot: int | None = None) -> None:
        """Count some GPUs of one lot, or some nodes."""
        if count:
            self.counts[code] = self.counts.get(code, 0) + count
            if lot is not None:
                self.lots.setdefault(code, []).append(lot)

    def ordered(self) -> dict[str, int]:
        """The counts in the fixed order of the codes."""
        return {code: self.counts[code] for code in sorted(self.counts, key=CODE_RANK.__getitem__)}

    def last(self) -> str:
        """The rule that the nearest miss failed; an empty fleet has no GPU at all."""
        return max(self.counts, key=CODE_RANK.__getitem__, default="no_gpu")


class Explainer:
    """Counts refusals on finished books and puts them into words."""

    def __init__(self, ledger: Ledger, owners: Mapping[int, Sequence[str]]) -> None:
        self.ledger = ledger
        self.fleet = ledger.fleet
        self.owners = owners

    def tally_cards(self, ask: Ask) -> Tally:
        """Every GPU and every node without GPUs, each under the first rule that refused it."""
        ledger, tally = self.ledger, Tally()
        for at in range(len(ledger.lots)):
            code: str | None = ledger.refusal(ask, at)
            total, free = ledger.lot_total[at], ledger.lot_free[at]
            if code is None:
                tally.add("in_use", total - free, at)
                tally.add("ram", free, at)
            else:
                tally.add(code, total, at)
                if code == "node_state" and ledger.refusal_elsewhere(ask, at) is None:
                    tally.would_fit.append(at)
        self._add_bare_nodes(tally, ask)
        return tally

    def _add_bare_nodes(self, tally: Tally, ask: Ask) -> None:
        for node, count in enumerate(self.fleet.card_count):
            if not count:
                code = self.ledger.site_refusal(ask, node) or ("gpus_unknown" if count is None else "no_gpu")
                tally.add(code, 1)

    def tally_nodes(self, ask: Ask, *, with_cards: bool) -> Tally:
        """Every node under the first rule that refused it for work without a GPU."""
        tally = Tally()
        for node, count in enumerate(self.fleet.card_count):
            code = self.ledger.site_refusal(ask, node)
            if code is None:
                code = "gpus_unknown" if count is None else "config" if count and not with_cards else "ram"
            tally.add(code, 1)
        return tally

    def tally_shards(self, want: Want, way: Way, replicas: ReplicaPlacer) -> Tally:
        """Every GPU under the first rule that kept it out of a shard."""
        if way.profile.gpu_class is None:
            return self.tally_nodes(way.ask, with_cards=False)
        ledger, tally = self.ledger, Tally()
        for at in range(len(ledger.lots)):
            refused = ledger.refusal(way.ask, at)
            total, free = ledger.lot_total[at], ledger.lot_free[at]
            if refused is not None:
                tally.add(refused, total, at)
                if refused == "node_state" and ledger.refusal_elsewhere(way.ask, at) is None:
                    tally.would_fit.append(at)
                continue
            tally.add("in_use", total - free, at)
        for node, cells in way.node_cells.items():
            free = sum(len(ledger.cell_free[cell]) for cell in cells)
            if not free:
                continue
            if choose_cards(ledger, cells, way.profile.gpus_per_node) is None:
                code = "block"
            elif not replicas.has_memory(way, node):
                code = "ram"
            elif not replicas.has_disk(want, way, node):
                code = "disk"
            else:
                code = "fabric"
            for cell in cells:
                tally.add(code, len(ledger.cell_free[cell]), ledger.cell_lot[cell])
        self._add_bare_nodes(tally, way.ask)
        return tally

    def shard_headline(self, way: Way, tally: Tally) -> str:
        """What one replica needs together, against what is there."""
        profile, ledger = way.profile, self.ledger
        if profile.gpu_class is None:
            return ""
        free = {node: sum(len(ledger.cell_free[cell]) for cell in cells) for node, cells in way.node_cells.items()}
        able = sorted(node for node, count in free.items() if count >= profile.gpus_per_node)
        total = sum(free.values())
        size = "" if way.ask.vram_gb is None else f" of at least {size_text(way.ask.vram_gb)} GB"
        if profile.nodes > 1:
            blocks: dict[str, int] = {}
            for node in able:
                for fabric in self.fleet.fabrics[node]:
                    blocks[fabric] = blocks.get(fabric, 0) + 1
            told = listing(f"{name}: {blocks[name]}" for name in sorted(blocks, key=lambda name: (-blocks[name], name)))
            most = plural(max(blocks.values(), default=0), "node")
            return (
                f"needs {profile.nodes} nodes with {plural(profile.gpus_per_node, 'GPU')}{size} on one fabric;"
                f" {plural(total, 'GPU')} free but the largest block on one fabric is {most}"
                + (f" ({told})" if told else "")
            )
        if profile.gpus_per_node > 1 and ("block" in tally.counts or not able):
            found = max(free.values(), default=0)
            nodes = sum(count > 0 for count in free.values())
            scattered = f" ({plural(total, 'GPU')} free on {plural(nodes, 'node')})" if nodes > 1 else ""
            return f"needs {profile.gpus_per_node} GPUs{size} on one node, found {found}{scattered}"
        return ""

    def reason(self, tally: Tally, ask: Ask, *, memory_mib: int) -> str:
        """The counts as a sentence, each with the values that decided."""
        if not tally.counts:
            return "there are no nodes"
        return ", ".join(self._phrase(code, count, tally, ask, memory_mib) for code, count in tally.ordered().items())

    def _phrase(self, code: str, count: int, tally: Tally, ask: Ask, memory_mib: int) -> str:
        lots = [self.ledger.lots[at] for at in tally.lots.get(code, ())]
        if code in ("cc_min", "cc_max"):
            return f"{count} {_cap_phrase(code, ask)} ({_caps(lots)})"
        if code == "vram":
            return f"{count} too little VRAM ({_vram(lots, ask)})"
        if code == "in_use":
            names = sorted({name for at in tally.lots.get(code, ()) for name in self.owners.get(at, ())})
            return f"{count} taken" + (f" (by {listing(names)})" if names else "")
        if code == "node_state":
            return self._node_state_phrase(count, tally, lots)
        if code == "ram":
            have = max((left for left in self.ledger.ram_left if left is not None), default=0)
            what = plural(count, "node") if not lots else f"{count} on nodes"
            shared = max((shared_mib(ask, lot.shape) for lot in lots if lot.shape.unified), default=0)
            whose = " for the machine and its GPU" if shared and memory_mib else " for the GPU" if shared else ""
            return f"{what} without {memory_mib + shared} MiB of memory left{whose} (at most {max(0, have)} MiB)"
        if code == "selector":
            wanted = ", ".join(f"{key}={value}" for key, value in sorted(ask.selector.items()))
            return f"{count} on nodes without the labels {wanted}"
        if code in _NODE_CODES:
            return f"{plural(count, 'node')} {_PLAIN[code]}"
        named = {
            "gpu_class": f"of another class than {ask.gpu_class}",
            "vendor": f"not of {ask.vendor}",
            "engine": f"that {ask.engine} has no build for",
            "node_pin": f"not on node {ask.node}",
        }
        return f"{count} {named.get(code) or _PLAIN.get(code, code)}"

    def _node_state_phrase(self, count: int, tally: Tally, lots: Sequence[Lot]) -> str:
        ledger = self.ledger
        fitting = sum(ledger.lot_total[at] for at in tally.would_fit)
        shown = [ledger.lots[at] for at in tally.would_fit] or lots
        states = " or ".join(sorted({lot.site.state for lot in shown})) or "not ready"
        if not fitting:
            return f"{count} on nodes that are {states}"
        nodes = sorted({ledger.cell_node[cell] for at in tally.would_fit for cell in ledger.lot_cells[at]})
        names = listing(self.fleet.names[node] for node in nodes)
        what = "fits but its node is" if fitting == 1 else "fit but their nodes are"
        rest = f", {count - fitting} more on such nodes" if count > fitting else ""
        return f"{plural(fitting, 'GPU')} {what} {states} ({names}){rest}"


def _cap_phrase(code: str, ask: Ask) -> str:
    """Which bound on the compute capability was not met, and whose it is."""
    if code == "cc_min":
        bound, own = max(cap for cap in (ask.min_cc, ask.engine_min_cc) if cap is not None), ask.min_cc
        return f"compute capability below {cap_text(bound)}" + ("" if own == bound else f", the least for {ask.engine}")
    bound, own = min(cap for cap in (ask.max_cc, ask.engine_max_cc) if cap is not None), ask.max_cc
    return f"compute capability above {cap_text(bound)}" + ("" if own == bound else f", the most for {ask.engine}")


_NODE_CODES = frozenset(("config", "no_gpu", "gpus_unknown"))
_PLAIN = {
    "config": "with GPUs, which needs.gpu_nodes would admit",
    "no_gpu": "without a GPU",
    "gpus_unknown": "with unknown GPUs",
    "mig": "divided or a part of a GPU",
    "memory_unknown": "whose memory is not known",
    "unhealthy": "unhealthy",
    "health_unknown": "of unknown health",
    "iommu_group": "that cannot be passed through (IOMMU group)",
    "external": "held by others",
    "block": "on nodes with too few free GPUs together",
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
    return f"needs {need_gib:.1f} GiB, has {have_gib:.1f}, short {need_gib - have_gib:.1f} GiB per GPU"


def owners_by_lot(placer: RolePlacer, others: Mapping[int, Iterable[str]]) -> dict[int, list[str]]:
    """Who has GPUs of each lot."""
    found: dict[int, list[str]] = {}
    for lot, movable in enumerate(placer.on):
        users = {number for seats in (movable, placer.fixed.get(lot, {})) for number in seats if seats[number]}
        names = [placer.turns[number].role.name for number in users]
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
    if lot not in turn.lots:
        why["rule"] = "kept"
        code = ledger.refusal(turn.ask, lot) or ""
        state = ledger.lots[lot].site.state
        why["text"] = f"{card}: kept, {'its node is ' + state if code == 'node_state' else 'the card is ' + code}"
    elif not better:
        only = "the only GPU that fits" if fitting == 1 else f"the {what} of {fitting} GPUs that fit"
        why["text"] = f"{card}: {only}"
    elif not free:
        who = listing(
            sorted({name for at in better for name in owners.get(at, ()) if name != role.name}) or [role.name]
        )
        why["better_taken"] = taken
        why["text"] = f"{card}: {what} of {fitting} GPUs that fit, after {taken} taken by {who}"
    elif (turn.memory_mib or turn.shared) and not any(
        ledger.cell_free[cell] and ledger.has_memory(ledger.cell_node[cell], turn.need(at))
        for at in better
        for cell in ledger.lot_cells[at]
    ):
        why["better_taken"] = taken
        why["text"] = f"{card}: {what} of {fitting} GPUs that fit on a node with {turn.need(lot)} MiB of memory left"
    else:
        why["rule"] = "kept"
        why["text"] = f"{card}: kept, though {plural(free, 'free card')} would be preferred by {role.prefer}"
    return why
