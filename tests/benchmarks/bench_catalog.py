# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""How long it takes to load, check and lint a large catalog, beside the time of its YAML parse alone.

Run as ``python tests/benchmarks/bench_catalog.py``. It ends with 1 when the ratio is above the target.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
import typing as t
from pathlib import Path

import yaml
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.load import read_catalog

TARGET = 2.5
MODELS = 500
ROLES = 60
ROUNDS = 9

CLASSES = (("rtx-4090", 24), ("l40s", 48), ("h100-sxm5-80gb", 80), ("rtx-6000-ada", 48), ("l4", 24))


def make_catalog(seed: int = 1) -> tuple[str, str]:
    """Return models.yaml and roles.yaml as people write them, without an error."""
    rng = random.Random(seed)
    models = []
    for number in range(MODELS):
        heads = rng.choice((16, 32, 40, 64))
        size = rng.choice((8, 14, 20, 24))
        engine = "vllm" if number % 4 else "llamacpp"
        model: dict[str, t.Any] = {
            "name": f"model-{number}",
            "kind": "llm",
            "vram_gb": size,
            "min_cc": rng.choice((7.5, 8.0, 8.9)),
            "engines": ["vllm", "llamacpp"],
            "context": 131072,
            "lora": bool(number % 2),
            "aliases": [f"alias-{number}"],
            "description": f"Model number {number}: answers questions, writes code and calls tools",
            "source": f"org-{number % 17}/Model-{number}-Instruct",
            "license": "apache-2.0",
            "capabilities": ["tools"],
            "context_length": 16384,
            "memory": {"layers": 32, "attention_heads": heads, "kv_heads": 8, "weights_gib": size / 2},
            "scaling": {"min": number % 3, "max": 3, "idle_timeout": "30m"},
            "profiles": [],
        }
        if number > 1:
            model["fallbacks"] = [f"model-{number - 1}" if number % 5 else f"alias-{number - 2}"]
        for place, (name, _memory) in enumerate(rng.sample(CLASSES, 2)):
            args = ["--max-model-len", "16384", "--max-num-seqs", "64"]
            if engine == "llamacpp":
                args = ["--ctx-size", "65536", "--parallel", "4"]
            model["profiles"].append(
                {
                    "name": name,
                    "engine": engine,
                    "gpu_class": name,
                    "tp": rng.choice((1, 2, 4)),
                    "args": args,
                    "env": {"HF_HUB_OFFLINE": "1"},
                    "priority": place,
                    "node_selector": {"zone": "a"},
                }
            )
        models.append(model)
    roles = [
        {
            "name": f"role-{number}",
            "needs": {"engine": "vllm", "min_vram_gb": rng.choice((16, 24, 48)), "min_cc": 8.0, "kind": "llm"},
            "prefer": "largest",
            "count": number % 5,
            "slots": [{"name": "chat", "model": f"model-{number + 1}"}, "spare"],
            "priority": number,
            "vm": {"cores": 8, "memory_mib": 32768, "tags": ["gpu"]},
        }
        for number in range(ROLES)
    ]
    dump = yaml.CSafeDumper
    return (
        yaml.dump({"models": models}, Dumper=dump, sort_keys=False, default_flow_style=None),
        yaml.dump({"roles": roles}, Dumper=dump, sort_keys=False, default_flow_style=None),
    )


def measure() -> tuple[float, float, int]:
    """Return the best time of the parse alone, that of the whole load, and the size in bytes."""
    texts = make_catalog()
    with tempfile.TemporaryDirectory() as directory:
        for name, text in zip(("models", "roles"), texts, strict=True):
            Path(directory, f"{name}.yaml").write_text(text, encoding="utf-8")
        parse, load = [], []
        for _round in range(ROUNDS):
            start = time.perf_counter()
            for text in texts:
                yaml.load(text, Loader=yaml.CSafeLoader)
            parse.append(time.perf_counter() - start)
            start = time.perf_counter()
            found = read_catalog([directory])
            load.append(time.perf_counter() - start)
        if len(found.catalog.models) != MODELS or len(found.catalog.roles) != ROLES or found.problems:
            raise RuntimeError([str(warning) for warning in found.problems[:3]])
    return min(parse), min(load), sum(len(text) for text in texts)


def main() -> int:
    """Print the figures and say whether they are good enough."""
    parse, load, size = measure()
    print(f"catalog of {MODELS} models and {ROLES} roles, {size / 1024:.0f} KiB")
    print(f"CSafeLoader parse            {parse * 1000:7.1f} ms")
    print(f"load, schema and lint        {load * 1000:7.1f} ms")
    print(f"ratio                        {load / parse:7.2f}    (target <= {TARGET})")
    return 0 if load <= TARGET * parse else 1


if __name__ == "__main__":
    sys.exit(main())
