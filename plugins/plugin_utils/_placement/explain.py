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

from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.codes import BY_NAME, CODE_RANK
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fill import preference
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import (
    exact_gib,
    shared_mib,
    terms_gib,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import LARGEST, ROLE
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import listing, plural, size_text

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import ComputeCap, Role
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fill import Filler
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import Ask
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.ledger import (
        Ledger,
        Pool,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.work import Candidate, Request


def cap_text(cap: ComputeCap | None) -> str:
    """A compute capability as people write it."""
    return "unknown" if cap is None else f"{cap[0]}.{cap[1]}"


class Tally:
    """How many GPUs (and nodes without GPUs) were refused for which reason, with the pools as examples."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.pools: dict[str, list[int]] = {}
        self.would_fit: list[int] = []

    def add(self, code: str, count: int, pool: int | None = None) -> None:
        """Count some GPUs of one pool, or some nodes."""
        if count:
            self.counts[code] = self.counts.get(code, 0) + count
            if pool is not None:
                self.pools.setdefault(code, []).append(pool)

    def ordered(self) -> dict[str, int]:
        """Return the counts in the fixed order of the codes."""
        return {code: self.counts[code] for code in sorted(self.counts, key=CODE_RANK.__getitem__)}

    def last(self) -> str:
        """Return the rule that the nearest miss failed; an empty fleet has no GPU at all."""
        return max(self.counts, key=CODE_RANK.__getitem__, default="no_gpu")


class Explainer:
    """Counts refusals on finished books and puts them into words."""

    def __init__(self, filler: Filler, owners: Mapping[int, Sequence[str]]) -> None:
        self.filler = filler
        self.ledger = filler.ledger
        self.fleet = filler.ledger.fleet
        self.owners = owners

    def tally(self, candidate: Candidate) -> Tally:
        """Count every GPU, and every node without GPUs, under the first rule that refused it."""
        ledger, ask, tally = self.ledger, candidate.ask, Tally()
        if not candidate.gpus:
            self._tally_nodes(candidate, tally)
            return tally
        free_parts: dict[int, list[int]] = {}
        for at in range(len(ledger.pools)):
            code = ledger.refusal(ask, at)
            total, free = ledger.pool_total[at], ledger.pool_free[at]
            if code is not None:
                tally.add(code, total, at)
                if code == "node_state" and ledger.refusal_to_stay(ask, at) is None:
                    tally.would_fit.append(at)
                continue
            tally.add("in_use", total - free, at)
            if free:
                for part in ledger.pool_parts[at]:
                    if ledger.part_free[part]:
                        free_parts.setdefault(ledger.part_node[part], []).append(part)
        for node, parts in free_parts.items():
            code = self._refusal_by_node(candidate, node, parts)
            for part in parts:
                tally.add(code, len(ledger.part_free[part]), ledger.part_pool[part])
        for node, count in enumerate(self.fleet.gpu_count):
            if not count:
                tally.add(ledger.node_refusal(ask, node) or ("gpus_unknown" if count is None else "no_gpu"), 1)
        return tally

    def _refusal_by_node(self, candidate: Candidate, node: int, parts: Sequence[int]) -> str:
        """Return why free GPUs of a node do not do together."""
        ledger, filler = self.ledger, self.filler
        if ledger.choose_gpus(parts, candidate.gpus) is None:
            return "block"
        need = candidate.memory_mib + max(
            candidate.gpus * candidate.shared.get(ledger.part_pool[at], 0) for at in parts
        )
        if not ledger.has_memory(node, need):
            return "node_memory"
        if not filler.has_disk(candidate, node):
            return "disk"
        if not ledger.is_spread(candidate, node):
            return "spread"
        return "fabric" if candidate.nodes > 1 else "node_memory"

    def _tally_nodes(self, candidate: Candidate, tally: Tally) -> None:
        for node, count in enumerate(self.fleet.gpu_count):
            code = self.ledger.node_refusal(candidate.ask, node)
            if code is None and count is None:
                code = "gpus_unknown"
            if code is None and count and not candidate.gpu_nodes:
                code = "config"
            if code is None and not self.ledger.is_spread(candidate, node):
                code = "spread"
            if code is None and not self.filler.has_disk(candidate, node):
                code = "disk"
            tally.add(code or "node_memory", 1)

    def headline(self, candidate: Candidate, tally: Tally) -> str:
        """Return what one replica over several GPUs needs together, against what is there."""
        ledger = self.ledger
        if not candidate.gpus or candidate.request.kind == ROLE:
            return ""
        free = {
            node: sum(len(ledger.part_free[part]) for part in parts) for node, parts in candidate.node_parts.items()
        }
        able = sorted(node for node, count in free.items() if count >= candidate.gpus)
        total = sum(free.values())
        size_gb = candidate.ask.size_gb
        size = "" if size_gb is None else f" of at least {size_text(size_gb)} GB"
        if candidate.nodes > 1:
            blocks: dict[str, int] = {}
            for node in able:
                for fabric in self.fleet.fabrics[node]:
                    blocks[fabric] = blocks.get(fabric, 0) + 1
            told = listing(f"{name}: {blocks[name]}" for name in sorted(blocks, key=lambda name: (-blocks[name], name)))
            most = plural(max(blocks.values(), default=0), "node")
            return (
                f"needs {candidate.nodes} nodes with {plural(candidate.gpus, 'GPU')}{size} on one fabric;"
                f" {plural(total, 'GPU')} free but the largest block on one fabric is {most}"
                + (f" ({told})" if told else "")
            )
        if candidate.gpus > 1 and ("block" in tally.counts or not able):
            found = max(free.values(), default=0)
            nodes = sum(count > 0 for count in free.values())
            scattered = f" ({plural(total, 'GPU')} free on {plural(nodes, 'node')})" if nodes > 1 else ""
            return f"needs {candidate.gpus} GPUs{size} on one node, found {found}{scattered}"
        return ""

    def reason(self, tally: Tally, candidate: Candidate) -> str:
        """The counts as a sentence, each with the values that decided."""
        if not tally.counts:
            return "there are no nodes"
        ask, memory_mib = candidate.ask, candidate.memory_mib
        return ", ".join(
            self._disk_phrase(count, tally, candidate.disk_gb)
            if code == "disk"
            else self._phrase(code, count, tally, ask, memory_mib)
            for code, count in tally.ordered().items()
        )

    def _disk_phrase(self, count: int, tally: Tally, disk_gb: float | None) -> str:
        """Return how much room the weights need against the most that is free on a node where it does not suffice."""
        ledger, pools = self.ledger, tally.pools.get("disk", ())
        nodes = {ledger.part_node[part] for at in pools for part in ledger.pool_parts[at]} or range(
            len(self.fleet.names)
        )
        need = disk_gb or 0
        have = max(
            (free for node in nodes if (free := self.fleet.free_gb[node]) is not None and free < need), default=0
        )
        what = f"{count} on nodes" if pools else plural(count, "node")
        return f"{what} without {size_text(need)} GB of disk space (at most {size_text(have)} GB)"

    def _phrase(self, code: str, count: int, tally: Tally, ask: Ask, memory_mib: int) -> str:
        pools = [self.ledger.pools[at] for at in tally.pools.get(code, ())]
        if code in ("cc_min", "cc_max"):
            return f"{count} {_cap_phrase(code, ask)} ({_caps(pools)})"
        if code == "vram":
            return f"{count} {BY_NAME[code].phrase} ({_vram(pools, ask)})"
        if code == "in_use":
            names = sorted({name for at in tally.pools.get(code, ()) for name in self.owners.get(at, ())})
            return f"{count} {BY_NAME[code].phrase}" + (f" (by {listing(names)})" if names else "")
        if code == "node_state":
            return self._node_state_phrase(count, tally, pools)
        if code == "node_memory":
            have = max((left for left in self.ledger.ram_left if left is not None), default=0)
            what = plural(count, "node") if not pools else f"{count} on nodes"
            shared = max((shared_mib(ask, pool.shape) for pool in pools if pool.shape.unified), default=0)
            whose = " for the VM and its GPU" if shared and memory_mib else " for the GPU" if shared else ""
            return f"{what} without {memory_mib + shared} MiB of memory left{whose} (at most {max(0, have)} MiB)"
        if code == "selector":
            wanted = ", ".join(f"{key}={value}" for key, value in sorted(ask.selector.items()))
            return f"{count} {BY_NAME[code].phrase} {wanted}"
        if BY_NAME[code].of_node:
            return f"{plural(count, 'node')} {BY_NAME[code].phrase}"
        named = {
            "gpu_class": f"of another class than {ask.gpu_class}",
            "vendor": f"not of {ask.vendor}",
            "engine": f"that {ask.engine} has no build for",
            "node_pin": f"not on node {ask.node}",
        }
        return f"{count} {named.get(code) or BY_NAME[code].phrase}"

    def _node_state_phrase(self, count: int, tally: Tally, pools: Sequence[Pool]) -> str:
        ledger = self.ledger
        fitting = sum(ledger.pool_total[at] for at in tally.would_fit)
        shown = [ledger.pools[at] for at in tally.would_fit] or pools
        states = " or ".join(sorted({pool.domain.state for pool in shown})) or "not ready"
        if not fitting:
            return f"{count} on nodes that are {states}"
        nodes = sorted({ledger.part_node[part] for at in tally.would_fit for part in ledger.pool_parts[at]})
        names = listing(self.fleet.names[node] for node in nodes)
        what = "fits but its node is" if fitting == 1 else "fit but their nodes are"
        rest = f", {count - fitting} more on such nodes" if count > fitting else ""
        return f"{plural(fitting, 'GPU')} {what} {states} ({names}){rest}"


def _cap_phrase(code: str, ask: Ask) -> str:
    """Which bound on the compute capability was not met, and whose it is."""
    if code == "cc_min":
        bound, own = max(cap for cap in (ask.min_cc, ask.engine_min_cc) if cap is not None), ask.min_cc
        return f"{BY_NAME[code].phrase} {cap_text(bound)}" + ("" if own == bound else f", the least for {ask.engine}")
    bound, own = min(cap for cap in (ask.max_cc, ask.engine_max_cc) if cap is not None), ask.max_cc
    return f"{BY_NAME[code].phrase} {cap_text(bound)}" + ("" if own == bound else f", the most for {ask.engine}")


def _caps(pools: Sequence[Pool]) -> str:
    return ", ".join(
        cap_text(cap) for cap in sorted({pool.shape.compute_cap for pool in pools}, key=lambda cap: cap or (0, 0))
    )


def _vram(pools: Sequence[Pool], ask: Ask) -> str:
    best = max(pools, key=lambda pool: pool.shape.memory_gb or 0)
    have = best.shape.memory_gb or 0
    if ask.vram_gb is not None and have < ask.vram_gb:
        return f"{size_text(have)} < {size_text(ask.vram_gb)} GB"
    need_gib, have_gib = exact_gib(ask, best.shape)
    short = f"needs {need_gib:.1f} GiB, has {have_gib:.1f}, short {need_gib - have_gib:.1f} GiB per GPU"
    return f"{short}: {', '.join(f'{name} {gib:.1f}' for name, gib in terms_gib(ask, best.shape).items())}"


def why_of_pool(
    request: Request, role: Role, pool: int, ledger: Ledger, owners: Mapping[int, Sequence[str]]
) -> dict[str, t.Any]:
    """Return why a replica of a role sits on this pool, from who has what in the finished plan."""
    candidate = request.candidates[0]
    shape = ledger.pools[pool].shape
    mine = preference(role, ledger.pools[pool])
    better = [at for at in candidate.pools if preference(role, ledger.pools[at]) < mine]
    fitting = sum(ledger.pool_total[at] for at in candidate.pools)
    taken = sum(ledger.pool_total[at] - ledger.pool_free[at] for at in better)
    free = sum(ledger.pool_free[at] for at in better)
    size = "unknown memory" if shape.memory_gb is None else f"{size_text(shape.memory_gb)} GB"
    what = "largest" if role.prefer == LARGEST else "smallest"
    gpu = f"{size}, compute capability {cap_text(shape.compute_cap)}"
    why: dict[str, t.Any] = {"rule": role.prefer, "fitting": fitting}
    if pool not in candidate.pool_set:
        why["rule"] = "kept"
        code = ledger.refusal(candidate.ask, pool) or ""
        state = ledger.pools[pool].domain.state
        why["text"] = f"{gpu}: kept, {'its node is ' + state if code == 'node_state' else 'the GPU is ' + code}"
    elif not better:
        only = "the only GPU that fits" if fitting == 1 else f"the {what} of {fitting} GPUs that fit"
        why["text"] = f"{gpu}: {only}"
    elif not free:
        who = listing(
            sorted({name for at in better for name in owners.get(at, ()) if name != role.name}) or [role.name]
        )
        why["better_taken"] = taken
        why["text"] = f"{gpu}: {what} of {fitting} GPUs that fit, after {taken} taken by {who}"
    elif (candidate.memory_mib or candidate.shared) and not any(
        ledger.part_free[part] and ledger.has_memory(ledger.part_node[part], candidate.need(at))
        for at in better
        for part in ledger.pool_parts[at]
    ):
        why["better_taken"] = taken
        need = candidate.need(pool)
        why["text"] = f"{gpu}: {what} of {fitting} GPUs that fit on a node with {need} MiB of memory left"
    elif request.spread is not None:
        why["text"] = f"{gpu}: {what} of {fitting} GPUs that fit where the fewest replicas are"
    else:
        why["rule"] = "kept"
        why["text"] = f"{gpu}: kept, though {plural(free, 'free GPU')} would be preferred by {role.prefer}"
    return why
