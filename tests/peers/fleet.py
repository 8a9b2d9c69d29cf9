# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""A seeded fleet, roles and models as plain data, in the shape of collected profiles and written catalogs.

``python tests/peers/fleet.py NODES OUT.json`` writes one to a file.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

# gpu_class, printed name, MiB, nominal GB, compute capability, weight in the fleet, usual GPUs a node
CLASSES = [
    ("t4", "Tesla T4", 15360, 16, 7.5, 6, (1, 2, 4)),
    ("rtx-3090", "NVIDIA GeForce RTX 3090", 24576, 24, 8.6, 10, (1, 2, 4)),
    ("rtx-4090", "NVIDIA GeForce RTX 4090", 24564, 24, 8.9, 12, (1, 2, 4, 8)),
    ("rtx-4000-ada", "NVIDIA RTX 4000 Ada Generation", 20475, 20, 8.9, 8, (1, 2, 4)),
    ("rtx-5090", "NVIDIA GeForce RTX 5090", 32607, 32, 12.0, 6, (1, 2, 4, 8)),
    ("l4", "NVIDIA L4", 23034, 24, 8.9, 10, (1, 4, 8)),
    ("a10", "NVIDIA A10", 23028, 24, 8.6, 6, (1, 2, 4)),
    ("rtx-a6000", "NVIDIA RTX A6000", 49140, 48, 8.6, 8, (2, 4, 8)),
    ("l40s", "NVIDIA L40S", 46068, 48, 8.9, 12, (4, 8)),
    ("rtx-pro-6000", "NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, 96, 12.0, 5, (4, 8)),
    ("a100-80gb", "NVIDIA A100-SXM4-80GB", 81920, 80, 8.0, 12, (4, 8)),
    ("h100-80gb", "NVIDIA H100 80GB HBM3", 81559, 80, 9.0, 14, (8,)),
    ("h200", "NVIDIA H200", 143771, 141, 9.0, 6, (8,)),
    ("b200", "NVIDIA B200", 183359, 180, 10.0, 3, (8,)),
    ("v100-32gb", "Tesla V100-PCIE-32GB", 32768, 32, 7.0, 4, (2, 4)),
]
CPUS = [
    ("AMD EPYC 9354 32-Core Processor", 32),
    ("AMD EPYC 7713 64-Core Processor", 64),
    ("Intel(R) Xeon(R) Gold 6430", 32),
    ("AMD Ryzen 9 7950X 16-Core Processor", 16),
]
LLM_GB = (6, 9, 12, 16, 18, 20, 24, 30, 40, 44, 48, 72, 80, 90, 130, 160)
# gpu_class, tp, pp, nodes
SPLITS = [
    ("h100-80gb", 8, 1, 1),
    ("h100-80gb", 4, 1, 1),
    ("h100-80gb", 8, 2, 2),
    ("a100-80gb", 8, 1, 1),
    ("a100-80gb", 4, 1, 1),
    ("l40s", 4, 1, 1),
    ("l40s", 2, 1, 1),
    ("h200", 8, 1, 1),
    ("h200", 8, 4, 4),
    ("rtx-4090", 2, 1, 1),
    ("b200", 8, 1, 1),
    ("a100-80gb", 8, 2, 2),
]
STATES = ("ready", "cordoned", "draining", "unreachable")


def fleet(
    nodes: int,
    seed: int = 1,
    *,
    replicas: int | None = None,
    dense: bool = False,
    roles: int = 24,
    models: int = 40,
    cpu_share: float = 0.1,
    busy: float = 0.0,
    multi: float = 0.03,
    memory: bool = False,
    selectors: bool = False,
) -> dict[str, list]:
    """Make nodes, roles and models.

    dense: every node has eight GPUs; replicas: wanted of all roles together; busy: share of GPUs that others hold;
    multi: replicas of models over several GPUs, as a share of the nodes; memory: roles ask for memory of their node;
    selectors: some roles ask for labels.
    """
    rand = random.Random(f"{seed}/{nodes}/{dense}")
    made_models = _models(rand, models, nodes, multi)
    sources = [model["source"] for model in made_models]
    fabrics = max(1, nodes // 64)
    shared = [rand.sample(sources, min(len(sources), 6)) for _unused in range(fabrics)]
    made = [_node(rand, at, sources, shared, dense=dense, cpu_share=cpu_share, busy=busy) for at in range(nodes)]
    total = nodes if replicas is None else replicas
    return {
        "nodes": made,
        "roles": _roles(rand, roles, total, memory=memory, selectors=selectors),
        "models": made_models,
    }


def _node(rand, at, sources, shared, *, dense, cpu_share, busy):
    cpu, cores = rand.choice(CPUS)
    size = rand.choice((64, 128, 256, 512, 1024, 2048))
    held = []
    gpus = []
    fabrics = []
    if dense or rand.random() > cpu_share:
        first = rand.choices(CLASSES, [each[5] for each in CLASSES])[0]
        count = 8 if dense else rand.choice(first[6])
        second = rand.choice(CLASSES) if rand.random() < (0.02 if dense else 0.05) else None
        for index in range(count):
            look = second if second and index >= count // 2 else first
            gpus.append(_gpu(rand, at, index, look, busy))
        if count == 8:
            fabric = rand.randrange(len(shared))
            fabrics = [f"ib-{fabric:04d}"]
            if rand.random() < 0.5:
                held = list(shared[fabric])
    for source in rand.sample(sources, min(len(sources), rand.choice((0, 1, 3, 6)))):
        if source not in held:
            held.append(source)
    weights = [{"name": source, "path": f"/models/{source}", "size_gb": 20, "shared": False} for source in held]
    return {
        "name": f"pve-{at:06d}",
        "cpu": {"model": cpu, "cores": cores, "threads": 2 * cores},
        "memory_gb": size,
        "memory_mib": int(size * 1024 * 0.98),
        "disks": [
            {"name": f"nvme{disk}n1", "size_gb": rand.choice((256, 960, 1920, 3840)), "rotational": False}
            for disk in range(rand.choice((1, 2, 4)))
        ],
        "gpus": gpus,
        "fabrics": fabrics,
        "labels": {"zone": f"z{at % 4}", "tier": rand.choice(("prod", "prod", "dev"))},
        "state": rand.choices(STATES, (97, 1, 1, 1))[0],
        "storage": [{"path": "/models", "fstype": "xfs", "shared": False, "free_gb": rand.choice((100, 400, 2000))}],
        "weights": weights,
        "notes": [],
    }


def _gpu(rand, at, index, look, busy):
    address = f"0000:{16 + index:02x}:00.0"
    holder = {"kind": "vm", "id": 100 + index, "name": "other", "ours": False} if rand.random() < busy else None
    return {
        "index": index,
        "name": look[1],
        "memory_gb": look[3],
        "memory_mib": look[2],
        "compute_cap": look[4],
        "driver": "580.65.06",
        "gpu_class": look[0],
        "vendor": "nvidia",
        "uuid": f"GPU-{at:08x}-{index:04x}",
        "pci": {
            "address": address,
            "id": "10de:27b2",
            "subsystem_id": "10de:181b",
            "iommu_group": 16 + index,
            "iommu_peers": [],
            "driver": "nvidia",
            "numa_node": index // 4,
        },
        "mig": False,
        "healthy": rand.random() > 0.01,
        "holder": holder,
        "sources": {"memory": "nvidia-smi", "compute_cap": "nvidia-smi"},
    }


def _models(rand, count, nodes, multi):
    made = []
    for at in range(count):
        kind = rand.choices(("llm", "embedding", "reranker"), (7, 2, 1))[0]
        size = rand.choice(LLM_GB) if kind == "llm" else rand.choice((2, 3, 4, 8, 16))
        engines = rand.choice(
            (["vllm"], ["vllm", "sglang"], ["llamacpp"], ["vllm", "llamacpp"])
            if kind == "llm"
            else (["tei"], ["infinity"], ["vllm", "tei"])
        )
        model = {
            "name": f"model-{at:03d}",
            "kind": kind,
            "vram_gb": size,
            "min_cc": rand.choice((7.0, 7.5, 8.0, 8.0, 8.9)),
            "engines": engines,
            "context": 32768,
            "lora": False,
            "source": f"org/model-{at:03d}",
            "placement_priority": rand.choice((10, 20, 30, 40)),
        }
        if kind == "llm" and "vllm" in engines and at % 2 == 0:
            model["min_cc"] = 8.0
            splits = rand.sample(SPLITS, rand.choice((1, 2, 3)))
            model["profiles"] = [
                _profile(rand, place, split, size)
                for place, split in enumerate(splits)
                if _is_large_enough(split, size)
            ]
            if model["profiles"]:
                share = nodes * multi / max(1, count // 2)
                model["scaling"] = {"min": max(1, int(share * rand.choice((0.5, 1, 2))))}
        made.append(model)
    return made


def _is_large_enough(split, size):
    nominal = next(each[3] for each in CLASSES if each[0] == split[0])
    return -(-size // (split[1] * split[2])) <= nominal


def _profile(rand, place, split, size):
    gpu_class, tp, pp, nodes = split
    profile = {
        "name": f"{gpu_class}-tp{tp}pp{pp}",
        "engine": "vllm",
        "gpu_class": gpu_class,
        "tp": tp,
        "pp": pp,
        "nodes": nodes,
        "priority": 10 * (3 - place),
    }
    memory, disk = rand.choice((0, 0, 128)), rand.choice((0, 0, 500))
    if memory:
        profile["min_memory_gb"] = memory
    if disk:
        profile["min_disk_gb"] = disk
    if rand.random() < 0.33:
        profile["node_selector"] = {"tier": "prod"}
    return profile


def _roles(rand, count, total, *, memory, selectors):
    made = []
    shares = [rand.paretovariate(1.2) for _unused in range(count)]
    for at in range(count):
        kind = rand.choices(("llm", "embedding", "reranker"), (5, 3, 2))[0]
        engine = rand.choice(("vllm", "sglang", "llamacpp") if kind == "llm" else ("tei", "infinity"))
        vram = rand.choice((12, 16, 20, 24, 24, 40, 48, 80)) if kind == "llm" else rand.choice((4, 8, 8, 16))
        floor = rand.choice((7.5, 8.0, 8.0, 8.6) if engine != "llamacpp" else (7.0, 7.5, 8.0, 8.9))
        needs = {"engine": engine, "kind": kind, "min_vram_gb": vram, "min_cc": floor}
        if rand.random() < 0.15:
            needs["max_cc"] = rand.choice((8.6, 8.9, 9.0) if floor <= 8.6 else (8.9, 9.0))
        if selectors and rand.random() < 0.3:
            needs["node_selector"] = rand.choice(({"tier": "prod"}, {"zone": "z1"}, {"tier": "dev", "zone": "z2"}))
        if memory and rand.random() < 0.5:
            needs["min_memory_gb"] = rand.choice((8, 16, 48, 96))
        made.append(
            {
                "name": f"{kind}-{at:03d}",
                "needs": needs,
                "prefer": "largest" if kind == "llm" else "smallest_fitting",
                "count": max(1, round(total * shares[at] / sum(shares))),
                "slots": 4,
                "priority": rand.choice((10, 20, 30, 40)),
                "cpu_fallback": kind != "llm" and rand.random() < 0.5,
            }
        )
    return made


def main():
    parser = argparse.ArgumentParser(description="write a seeded fleet as JSON")
    parser.add_argument("nodes", type=int)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dense", action="store_true")
    parser.add_argument("--replicas", type=int)
    parser.add_argument("--roles", type=int, default=24)
    parser.add_argument("--models", type=int, default=40)
    args = parser.parse_args()
    made = fleet(args.nodes, args.seed, replicas=args.replicas, dense=args.dense, roles=args.roles, models=args.models)
    args.out.write_text(json.dumps(made), encoding="utf-8")


if __name__ == "__main__":
    main()
