# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""The best counts that there are, by trying every arrangement: the judge of the planner on small fleets.

Counts before preferences: request by request in the order of placement the greatest number that keeps all before it.
Input is plain data, complete and valid: ready nodes, roles of one GPU, models with profiles, one priority for each kind.
"""

from __future__ import annotations

import itertools
from functools import cache


class Judge:
    """Kinds of GPUs are their classes; a state is what each node has left: GPUs by kind, and memory."""

    def __init__(self, nodes):
        self.kinds = sorted({gpu["gpu_class"] for node in nodes for gpu in node["gpus"]})
        self.sizes = {gpu["gpu_class"]: gpu["memory_gb"] for node in nodes for gpu in node["gpus"]}
        self.fabrics = [tuple(node.get("fabrics", ())) for node in nodes]
        self.free = tuple((self._free(node), self._memory(node)) for node in nodes)
        self.feasible = cache(self._feasible)

    def _free(self, node):
        return tuple(sum(gpu["gpu_class"] == kind for gpu in node["gpus"]) for kind in self.kinds)

    def _memory(self, node):
        if node["memory_gb"] is None:
            return 10**9
        total = node["memory_gb"] * 1024
        return total - max(2048, -(-total // 20))

    def best_counts(self, roles, models):
        """How many of each, by name in the order of placement."""
        chosen, counts = [], {}
        for name, wanted, item in self._requests(roles, models):
            placed = 0
            while placed < wanted and self.feasible(self.free, self._in_order([*chosen, item])):
                chosen.append(item)
                placed += 1
            counts[name] = placed
        return counts

    def _in_order(self, items):
        # The hardest first makes the search short; the set is what counts.
        return tuple(sorted(items, key=lambda item: (-min(way[1] * way[2] for way in item), -item[0][3], item)))

    def _requests(self, roles, models):
        for role in sorted(roles, key=lambda role: (role.get("priority", 100), role["name"])):
            needs = role["needs"]
            memory = int(needs.get("min_memory_gb", 0) * 1024)
            fits = [kind for kind in self.kinds if self.sizes[kind] >= needs.get("min_vram_gb", 0)]
            yield (
                role["name"],
                role.get("count", 1),
                tuple((kind, 1, 1, memory) for kind in fits) or (("none", 1, 1, 0),),
            )
        for model in sorted(models, key=lambda model: (model.get("placement_priority", 100), model["name"])):
            ways = []
            for profile in model["profiles"]:
                nodes = profile.get("nodes", 1)
                each = profile["tp"] * profile.get("pp", 1) // nodes
                ways.append((profile["gpu_class"], each, nodes, int(profile.get("min_memory_gb", 0) * 1024)))
            yield model["name"], model["scaling"]["min"], tuple(sorted(ways))

    def _feasible(self, state, items):
        if not items:
            return True
        return any(self.feasible(self._canonical(after), items[1:]) for after in set(self._options(state, items[0])))

    def _canonical(self, state):
        """Nodes on the same fabrics can be told apart by nothing but what they have left."""
        groups = {}
        for at, row in enumerate(state):
            groups.setdefault(self.fabrics[at], []).append(row)
        sorted_rows = {fabrics: iter(sorted(rows)) for fabrics, rows in groups.items()}
        return tuple(next(sorted_rows[fabrics]) for fabrics in self.fabrics)

    def _options(self, state, item):
        for kind, each, nodes, memory in item:
            if kind not in self.kinds:
                continue
            place = self.kinds.index(kind)
            able = [at for at, row in enumerate(state) if row[0][place] >= each and row[1] >= memory]
            names = {name for at in able for name in self.fabrics[at]}
            pools = [able] if nodes == 1 else [[at for at in able if name in self.fabrics[at]] for name in names]
            for pool in pools:
                for chosen in itertools.combinations(pool, nodes):
                    yield self._take(state, chosen, place, each, memory)

    def _take(self, state, chosen, place, each, memory):
        rows = list(state)
        for at in chosen:
            free, left = rows[at]
            rows[at] = ((*free[:place], free[place] - each, *free[place + 1 :]), left - memory)
        return tuple(rows)
