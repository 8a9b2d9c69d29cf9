# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Traps that people met with other tools, as the smallest catalog of ours that meets the same one."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import CatalogError


def errors_of(models: t.Any, roles: t.Any = (), **more: t.Any) -> list[str]:
    with pytest.raises(CatalogError) as caught:
        check_catalog(models, roles, **more)
    return [str(problem) for problem in caught.value.errors]


def old_card(engine: str) -> dict[str, t.Any]:
    return {
        "name": "small",
        "kind": "llm",
        "vram_gb": 6,
        "engines": ["vllm", "llamacpp"],
        "source": "org/small",
        "profiles": [{"name": "old", "engine": engine, "gpu_class": "gtx-1080"}],
    }


def test_an_old_card_is_refused_before_the_engine_fails_on_it() -> None:
    """Without any min_cc the floor of the engine holds; the same model runs there under another engine."""
    assert errors_of([old_card("vllm")]) == [
        (
            "models[0].profiles[0].gpu_class (model small, profile old): vllm does not run on gtx-1080 (compute capability 6.1); "
            "it needs at least 7.5"
        )
    ]
    check_catalog([old_card("llamacpp")], [])


PINNED = [{"name": "r", "needs": {"engine": "vllm", "node": "b1", "node_selector": {"zone": "a"}}}]


def test_a_selector_that_contradicts_a_pin_names_both() -> None:
    assert errors_of([], PINNED, nodes=[{"name": "b1", "labels": {"zone": "b"}}]) == [
        (
            "roles[0].needs.node_selector.zone (role r): node_selector wants zone: a, but needs.node is b1, which has "
            "zone: b; remove node or the selector, or correct the label of the node"
        )
    ]
    assert "which has no label zone" in errors_of([], PINNED, nodes=[{"name": "b1"}])[0]


@pytest.mark.parametrize(
    "nodes",
    [
        [],
        [{"name": "b1", "labels": {"zone": "a", "rack": 7}}],
        [{"name": "b1", "state": "unreachable", "gpus": None}],
    ],
)
def test_a_pin_that_does_not_contradict(nodes: list[dict[str, t.Any]]) -> None:
    check_catalog([], PINNED, nodes=nodes)


def test_a_pin_to_a_node_that_nobody_knows_is_a_warning() -> None:
    found = check_catalog([], PINNED, nodes=[{"name": "b2", "labels": {"zone": "b"}}]).warnings
    assert [str(problem) for problem in found] == ['roles[0].needs.node (role r): no node is called "b1"; known: b2']


def tight(**changes: t.Any) -> dict[str, t.Any]:
    return {
        "name": "tight",
        "kind": "llm",
        "engines": ["vllm", "llamacpp"],
        "context": 40960,
        "context_length": 40960,
        "source": "org/tight",
        "memory": {"weights_gib": 34, "kv_bytes_per_token": 131072},
        "profiles": [{"name": "three", "gpu_class": "rtx-4090", "tp": 2, **changes}],
    }


def test_the_declared_context_must_fit_and_the_largest_is_named() -> None:
    (message,) = errors_of([tight()])
    assert message.startswith(
        "models[0].profiles[0].gpu_class (model tight, profile three): tight needs 24.8 GiB a GPU with a context of 40960"
    )
    most = int(message.partition("the largest context here is ")[2].partition(";")[0])
    assert 4096 <= most < 40960
    check_catalog([{**tight(), "context_length": most}], [])


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--kv-cache-dtype", "fp8"], "needs 22.3 GiB a GPU with a context of 40960, but vllm may use 21.6 GiB"),
        (["--gpu_memory_utilization=0.97"], "needs 24.8 GiB a GPU with a context of 40960, but vllm may use 22.8 GiB"),
    ],
)
def test_arguments_of_memory_are_computed(args: list[str], told: str) -> None:
    assert told in errors_of([tight(args=args)])[0]
    check_catalog([tight(args=["--kv-cache-dtype", "fp8", "--gpu_memory_utilization=0.97"])], [])


def test_an_argument_that_is_not_computed_leaves_the_weights_and_says_so() -> None:
    (problem,) = check_catalog([tight(args=["--block-size", "32"])], []).warnings
    assert str(problem) == (
        "models[0].profiles[0].args (model tight, profile three): --block-size changes how much memory is needed in a "
        "way that is not computed; the plan counts what is needed at least; try it there"
    )
    heavy = {**tight(args=["--block-size", "32"]), "memory": {"weights_gib": 60, "kv_bytes_per_token": 131072}}
    assert "needs 30.6 GiB a GPU" in errors_of([heavy])[0]


def test_parallel_slots_count() -> None:
    """Eight slots of 16384 need the cache of 131072 tokens."""
    good = {"engine": "llamacpp", "args": ["--ctx-size", "8192"], "tp": 2}
    check_catalog([{**tight(**good), "context_length": 8192}], [])
    wide = {**good, "args": ["--ctx-size", "131072", "--parallel", "8"]}
    assert "with a context of 16384 for each of 8 requests" in errors_of([{**tight(**wide), "context_length": 8192}])[0]


@pytest.mark.parametrize("tp", [1, 2, 4, 8, 16, 32])
def test_sizes_that_divide_the_heads(tp: int) -> None:
    model = {**tight(tp=tp), "memory": {"attention_heads": 32, "kv_heads": 8}}
    check_catalog([model], [])


def test_a_size_that_does_not_is_refused_with_those_that_do() -> None:
    assert errors_of([{**tight(tp=3), "memory": {"attention_heads": 32, "kv_heads": 8}}]) == [
        (
            "models[0].profiles[0].tp (model tight, profile three): tp 3 does not divide the 32 attention heads of tight; "
            "one of 1, 2, 4, 8, 16, 32"
        )
    ]
