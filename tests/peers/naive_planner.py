# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""The rules of placement written plainly: one scan over all GPUs for each replica, no structure, no rescue.

Slow on purpose and short on purpose: it is what the planner is compared with. Input is plain data, complete and valid.
It tells where everything is, not why.
"""

from __future__ import annotations

import re

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.engines import BUILTIN_ENGINES


def natural(name):
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)], name


def cap(value):
    major, _dot, minor = str(value).partition(".")
    return int(major), int(minor or 0)


def engine_takes(engine, gpu):
    known = BUILTIN_ENGINES.get(engine)
    if known is None:
        return True
    it = cap(gpu["compute_cap"])
    if gpu["vendor"] not in known.vendors or any(gap.low <= it <= gap.high for gap in known.gaps):
        return False
    return (known.min_cc is None or it >= known.min_cc) and (known.max_cc is None or it <= known.max_cc)


def card_does(needs, gpu):
    it = cap(gpu["compute_cap"])
    return (
        engine_takes(needs["engine"], gpu)
        and needs.get("gpu_class") in (None, gpu["gpu_class"])
        and not gpu["mig"]
        and it >= cap(needs.get("min_cc", 0))
        and ("max_cc" not in needs or it <= cap(needs["max_cc"]))
        and gpu["memory_gb"] >= needs.get("min_vram_gb", 0)
    )


def has_labels(node, selector):
    return all(node["labels"].get(key) == value for key, value in selector.items())


def holds(node, model):
    return any(entry["name"].lower() == model["source"].lower() for entry in node["weights"] or [])


def models_on(needs, gpu, models):
    return [
        model
        for model in models
        if needs["engine"] in model["engines"]
        and needs.get("kind") in (None, model["kind"])
        and model["vram_gb"] <= gpu["memory_gb"]
        and cap(model["min_cc"]) <= cap(gpu["compute_cap"])
        and engine_takes(needs["engine"], gpu)
    ]


def memory_of_role(role):
    return role.get("vm", {}).get("memory_mib") or int(role["needs"].get("min_memory_gb", 0) * 1024)


class Naive:
    def __init__(self, nodes, models):
        self.nodes = sorted((n for n in nodes if n["state"] == "ready"), key=lambda n: natural(n["name"]))
        self.models = models
        self.free = [
            (at, gpu)
            for at, node in enumerate(self.nodes)
            for gpu in sorted(node["gpus"] or [], key=lambda gpu: gpu["index"])
            if gpu["healthy"] and not gpu["holder"]
        ]
        self.broken = [any(gpu["healthy"] is False for gpu in n["gpus"] or []) for n in self.nodes]
        self.ram = [n["memory_mib"] - max(2048, -int(-n["memory_mib"] * 0.05 // 1)) for n in self.nodes]
        self.assignments = []
        self.replicas = []
        self.missing = {}

    def role(self, role):
        needs, asked = role["needs"], memory_of_role(role)
        sign = -1 if role["prefer"] == "largest" else 1
        on_cpu = {}
        for replica in range(role["count"]):
            spot = None
            if needs.get("gpu", True):
                spot = self._best_card(needs, asked, sign)
            if spot is not None:
                at, gpu = self.free.pop(spot)
                self.ram[at] -= asked
                self.assignments.append((role["name"], replica, self.nodes[at]["name"], gpu["index"]))
            elif not needs.get("gpu", True) or role.get("cpu_fallback"):
                at = self._cpu_node(needs, asked, on_cpu)
                if at is None:
                    self._miss(role["name"])
                    continue
                on_cpu[at] = on_cpu.get(at, 0) + 1
                self.ram[at] -= asked
                self.assignments.append((role["name"], replica, self.nodes[at]["name"], None))
            else:
                self._miss(role["name"])

    def _best_card(self, needs, asked, sign):
        best = None
        for spot, (at, gpu) in enumerate(self.free):
            node = self.nodes[at]
            if (
                not card_does(needs, gpu)
                or self.ram[at] < asked
                or not has_labels(node, needs.get("node_selector", {}))
            ):
                continue
            if needs.get("node") not in (None, node["name"]):
                continue
            it = cap(gpu["compute_cap"])
            held = any(holds(node, model) for model in models_on(needs, gpu, self.models))
            key = (sign * gpu["memory_gb"], sign * it[0], sign * it[1], not held, self.broken[at], at, gpu["index"])
            if best is None or key < best[0]:
                best = key, spot
        return None if best is None else best[1]

    def _cpu_node(self, needs, asked, on_cpu):
        best = None
        for at, node in enumerate(self.nodes):
            if node["gpus"] is None or (node["gpus"] and not needs.get("gpu_nodes")):
                continue
            if self.ram[at] < asked or not has_labels(node, needs.get("node_selector", {})):
                continue
            key = (on_cpu.get(at, 0), bool(node["gpus"]), -node["memory_gb"], at)
            if best is None or key < best:
                best = key
        return None if best is None else best[-1]

    def _miss(self, name):
        self.missing[name] = self.missing.get(name, 0) + 1

    def model(self, model):
        for replica in range(model["scaling"]["min"]):
            for profile in sorted(model["profiles"], key=lambda p: (-p.get("priority", 0), p["name"])):
                found = self._shards(model, profile)
                if found is not None:
                    break
            else:
                self._miss(model["name"])
                continue
            shards = []
            for at, gpus in found:
                self.ram[at] -= int(profile.get("min_memory_gb", 0) * 1024)
                for gpu in gpus:
                    self.free.remove((at, gpu))
                shards.append((self.nodes[at]["name"], tuple(gpu["index"] for gpu in gpus)))
            self.replicas.append((model["name"], replica, profile["name"], tuple(shards)))

    def _shards(self, model, profile):
        ranks = profile["tp"] * profile["pp"]
        wanted = ranks // profile["nodes"]
        needs = {
            "engine": profile["engine"],
            "gpu_class": profile["gpu_class"],
            "min_cc": model["min_cc"],
            "min_vram_gb": -(-model["vram_gb"] // ranks),
        }
        there = {}
        for at, gpu in self.free:
            if card_does(needs, gpu):
                there.setdefault(at, []).append(gpu)
        able = []
        for at, gpus in there.items():
            node = self.nodes[at]
            space = max((place["free_gb"] for place in node["storage"] or []), default=10**9)
            if (
                len(gpus) >= wanted
                and self.ram[at] >= profile.get("min_memory_gb", 0) * 1024
                and has_labels(node, profile.get("node_selector", {}))
                and (holds(node, model) or space >= profile.get("min_disk_gb", 0))
            ):
                able.append((not holds(node, model), self.broken[at], len(gpus), at, gpus[:wanted]))
        able.sort(key=lambda each: each[:4])
        if profile["nodes"] == 1:
            return [able[0][3:]] if able else None
        best = None
        for fabric in {name for each in able for name in self.nodes[each[3]]["fabrics"]}:
            members = [each for each in able if fabric in self.nodes[each[3]]["fabrics"]]
            chosen = members[: profile["nodes"]]
            if len(chosen) == profile["nodes"]:
                key = (*(sum(each[part] for each in chosen) for part in (0, 1)), len(members), natural(fabric))
                if best is None or key < best[0]:
                    best = key, [each[3:] for each in chosen]
        return None if best is None else best[1]


def plan(nodes, roles, models):
    """(assignments, replicas, missing by name): what is where, by the plain rules one after the other."""
    naive = Naive(nodes, models)
    for role in sorted(roles, key=lambda role: (role.get("priority", 100), role["name"])):
        naive.role(role)
    wanted = [model for model in models if model.get("profiles") and model.get("scaling", {}).get("min")]
    for model in sorted(wanted, key=lambda model: (model.get("placement_priority", 100), model["name"])):
        naive.model(model)
    return naive.assignments, naive.replicas, naive.missing
