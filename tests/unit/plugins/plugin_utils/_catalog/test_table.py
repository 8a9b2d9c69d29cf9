# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.table import format_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.could_run import find_places


def node(name: str, *cards: str, **more: t.Any) -> dict[str, t.Any]:
    known = {"rtx-4090": (24, 24564, 8.9), "gtx-1080": (8, 8192, 6.1), "h100": (80, 81559, 9.0)}
    gpus = [
        {
            "index": index,
            "gpu_class": card,
            "memory_gb": known[card][0],
            "memory_mib": known[card][1],
            "compute_cap": known[card][2],
        }
        for index, card in enumerate(cards)
    ]
    return {"name": name, "memory_gb": 64, "gpus": gpus, **more}


NODES = [
    node("n10", "rtx-4090"),
    node("n2", "rtx-4090", "rtx-4090", fabrics=["ib"], labels={"zone": "a"}),
    node("n1", "rtx-4090", "rtx-4090", fabrics=["ib"]),
    node("far", "rtx-4090", "rtx-4090", fabrics=["ib-b"]),
    node("old", "gtx-1080"),
    node("cpu"),
    node("tiny", memory_gb=2),
    node("shut", "rtx-4090", state="cordoned"),
    {"name": "gone", "state": "unreachable", "gpus": None},
]


def model(name: str, *profiles: dict[str, t.Any], **more: t.Any) -> dict[str, t.Any]:
    return {
        "name": name,
        "kind": "llm",
        "vram_gb": 20,
        "engines": ["vllm", "llamacpp"],
        "source": "o/m",
        "profiles": list(profiles),
        **more,
    }


# A profile of a model of 20 GB, and the nodes that could run it.
TEST_PROFILES: list[tuple[dict[str, t.Any], list[str]]] = [
    ({"gpu_class": "rtx-4090"}, ["far", "n1", "n2", "n10"]),
    ({"gpu_class": "rtx-4090", "tp": 2}, ["far", "n1", "n2"]),
    ({"gpu_class": "rtx-4090", "tp": 4}, []),
    ({"gpu_class": "rtx-4090", "tp": 4, "nodes": 2}, ["n1", "n2"]),
    ({"gpu_class": "rtx-4090", "tp": 6, "nodes": 3}, []),
    ({"gpu_class": "rtx-4090", "node_selector": {"zone": "a"}}, ["n2"]),
    ({"gpu_class": "rtx-4090", "min_memory_gb": 65}, []),
    ({"gpu_class": "h100-sxm5-80gb"}, []),
    ({"engine": "llamacpp"}, ["cpu", "tiny"]),
    ({"engine": "llamacpp", "min_memory_gb": 16}, ["cpu"]),
]


@pytest.mark.parametrize(("profile", "expected"), TEST_PROFILES)
def test_where_a_profile_could_run(profile: dict[str, t.Any], expected: list[str]) -> None:
    catalog = check_catalog([model("m", {"name": "p", **profile})], []).catalog
    for nodes in (NODES, NODES[::-1]):
        assert find_places(catalog, nodes).profiles == {("m", "p"): expected}


def test_where_a_model_fits() -> None:
    catalog = check_catalog(
        [model("m"), model("small", vram_gb=6), model("new", min_cc=9.0), model("sharp", vram_gb=6, engines=["vllm"])],
        [],
    ).catalog
    assert find_places(catalog, NODES).models == {
        "m": ["far", "n1", "n2", "n10"],
        "small": ["far", "n1", "n2", "n10", "old"],
        "new": [],
        "sharp": ["far", "n1", "n2", "n10"],
    }


def test_where_agrees_with_the_plan() -> None:
    """A profile that could run somewhere is placed there when the fleet has nothing else; one that could not is not."""
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan

    for profile, expected in TEST_PROFILES:
        catalog = check_catalog([model("m", {"name": "p", **profile}, scaling={"min": 1})], []).catalog
        replicas = plan(NODES, [], catalog.models)["replicas"]
        used = {shard["node"] for replica in replicas for shard in replica["shards"]}
        assert bool(used) == bool(expected)
        assert used <= set(expected)


TABLE = """\
Models
model  kind  GB  min cc  engines         context  serving    min  max  fits a GPU of
small  llm    6  8.0     vllm, llamacpp     8192  on demand    0    2  far, n1, n2 and 1 more
plain  llm    -  -       vllm                  -  listed       -    -  far, n1, n2 and 1 more

Profiles
model  profile  engine    class     tp  pp  nodes  priority (higher first)  could run on
small  gpu     vllm      rtx-4090   2   1      1                        5  far, n1, n2
small  slow     llamacpp  CPU        1   1      1                        0  cpu, tiny

Roles
role   count  engine    needs                                                prefer            slots           priority (lower first)
large      2  vllm      a GPU, of nvidia, 20 GB, cc 8.0 or above, on n1, zone=a  largest           chat (small)                        10
door       1  llamacpp  no GPU, 8 GB of RAM                                     smallest_fitting  -                                  100"""

CATALOG = check_catalog(
    [
        model(
            "small",
            {"name": "gpu", "gpu_class": "rtx-4090", "tp": 2, "priority": 5},
            {"name": "slow", "engine": "llamacpp"},
            vram_gb=6,
            min_cc=8.0,
            context=8192,
            scaling={"max": 2},
        ),
        {"name": "plain", "kind": "llm", "engines": ["vllm"]},
    ],
    [
        {
            "name": "large",
            "needs": {
                "engine": "vllm",
                "vendor": "nvidia",
                "min_vram_gb": 20,
                "min_cc": 8,
                "node": "n1",
                "node_selector": {"zone": "a"},
            },
            "prefer": "largest",
            "count": 2,
            "slots": [{"name": "chat", "model": "small"}],
            "priority": 10,
        },
        {"name": "door", "needs": {"engine": "llamacpp", "gpu": False, "min_memory_gb": 8}},
    ],
).catalog


def test_table() -> None:
    assert [line.split() for line in format_catalog(CATALOG, find_places(CATALOG, NODES)).splitlines()] == [
        line.split() for line in TABLE.splitlines()
    ]


def test_table_without_nodes() -> None:
    text = format_catalog(CATALOG)
    assert "could run on" not in text
    assert "fits a GPU of" not in text
    assert "on demand" in text


def test_empty() -> None:
    assert format_catalog(check_catalog([], []).catalog) == "The catalog is empty."
