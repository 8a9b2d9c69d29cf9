# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Short ways to write nodes and catalogs for tests of placement."""

from __future__ import annotations

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan

CAPS = {16: 7.5, 20: 8.9, 24: 8.6, 32: 12.0, 48: 8.6, 80: 9.0}


def card(index, size, **more):
    gpu = {
        "index": index,
        "gpu_class": f"c{size}",
        "vendor": "nvidia",
        "memory_gb": size,
        "compute_cap": CAPS.get(size, 8.0),
    }
    return gpu | more


def node(name, *sizes, **more):
    """A node with GPUs of these sizes; a size may also be a whole GPU."""
    gpus = [size if isinstance(size, dict) else card(at, size) for at, size in enumerate(sizes)]
    return {"name": name, "memory_gb": 256, "gpus": gpus} | more


def identified(name, *sizes, **more):
    """The same with UUIDs and PCI addresses."""
    made = node(name, *sizes, **more)
    for gpu in made["gpus"]:
        gpu.setdefault("uuid", f"GPU-{name}-{gpu['index']}")
        gpu.setdefault("pci", {"address": f"0000:{gpu['index'] + 1:02x}:00.0"})
    return made


def role(name, vram=None, *, engine="other", prefer="smallest_fitting", **more):
    needs = {"engine": engine} | ({} if vram is None else {"min_vram_gb": vram}) | more.pop("needs", {})
    return {"name": name, "needs": needs, "prefer": prefer} | more


def model(name, vram, *profiles, replicas=1, engine="other", **more):
    """A model with profiles (gpu_class, tp, nodes)."""
    made = {"name": name, "kind": "llm", "vram_gb": vram, "engines": [engine], "source": f"org/{name}"}
    if profiles:
        made["profiles"] = [profile(engine, each) if isinstance(each, tuple) else each for each in profiles]
        made["scaling"] = {"min": replicas}
    return made | more


def profile(engine, each):
    gpu_class, cards, nodes = each
    return {
        "name": f"{gpu_class}-{cards}-{nodes}",
        "engine": engine,
        "gpu_class": gpu_class,
        "tp": cards,
        "pp": nodes,
        "nodes": nodes,
    }


def make_plan(nodes, roles=(), models=(), previous=None, **options):
    found = check_catalog(list(models), list(roles), open_engines=True).catalog
    return plan(nodes, found.roles, found.models, previous, engines=found.engines, **options)


def places(document):
    """name/replica -> node:indices."""
    found = {}
    for one in document["assignments"]:
        index = one.get("gpu_index")
        found[f"{one['role']}/{one['replica']}"] = one["node"] + ("" if index is None else f":{index}")
    for one in document["replicas"]:
        found[f"{one['model']}/{one['replica']}"] = " ".join(
            f"{shard['node']}:{','.join(map(str, shard['gpu_indices']))}" for shard in one["shards"]
        )
    return found


def refusal(document, name):
    return next(entry for entry in document["unplaced"] if name in (entry.get("role"), entry.get("model")))


def states(document):
    found = {}
    for row in document["ledger"]:
        found[row["state"]] = found.get(row["state"], 0) + 1
    return found
