# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.fingerprint import (
    Drift,
    find_drift,
    fingerprint,
    role_fingerprint,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.plain import plain

if t.TYPE_CHECKING:
    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
        Profile,
        Role,
    )


def profile(**written: t.Any) -> Profile:
    document = {"name": "m", "kind": "llm", "engines": ["vllm", "sglang"], "source": "o/m"}
    document["profiles"] = [{"name": "p", "gpu_class": "l4", **written}]
    return check_catalog([document], []).catalog.models[0].profiles[0]


def role(needs: dict[str, t.Any] | None = None, **written: t.Any) -> Role:
    return check_catalog([], [{"name": "r", "needs": {"engine": "vllm", **(needs or {})}, **written}]).catalog.roles[0]


def test_a_fingerprint_stays_what_it_is() -> None:
    """Whoever changes this makes every running replica stale."""
    assert fingerprint(profile()) == "40f9469947d32971"
    assert (
        fingerprint(profile(tp=2, args=["--max-num-seqs", 8], env={"A": "1"}, min_memory_gb=64)) == "768c60b04e925b34"
    )
    assert (
        role_fingerprint(role({"min_vram_gb": 20, "min_cc": 8.9}, slots=["a"], vm={"cores": 4})) == "c78cfc9451f153c8"
    )


TEST_SAME = [
    ({}, {"engine": "vllm", "tp": 1, "pp": 0, "nodes": 1, "args": [], "env": {}, "weight": 1, "priority": 0}),
    ({}, {"startup_timeout": "20m", "gpus_per_node": 1, "min_memory_gb": 0, "node_selector": None}),
    ({"startup_timeout": "90s"}, {"startup_timeout": "1m30s"}),
    ({"startup_timeout": 90}, {"startup_timeout": "90s"}),
    ({"min_memory_gb": 64}, {"min_memory_gb": 64.0}),
    ({"env": {"A": "1", "B": "2"}}, {"env": {"B": 2, "A": 1}}),
    ({"tp": 2, "gpus_per_node": 2}, {"tp": 2}),
]


@pytest.mark.parametrize(("left", "right"), TEST_SAME)
def test_same_fingerprint(left: dict[str, t.Any], right: dict[str, t.Any]) -> None:
    assert fingerprint(profile(**left)) == fingerprint(profile(**right))


TEST_CHANGES: list[tuple[dict[str, t.Any], dict[str, str], str]] = [
    ({"args": ["--max-num-seqs", "8"]}, {"args": "restart"}, "restart"),
    ({"env": {"A": "1"}}, {"env": "restart"}, "restart"),
    ({"weight": 2}, {"weight": "router"}, "router"),
    ({"startup_timeout": "5m"}, {"startup_timeout": "router"}, "router"),
    ({"name": "q"}, {"name": "router"}, "router"),
    ({"gpu_class": "l40s"}, {"gpu_class": "replan"}, "replan"),
    ({"engine": "sglang"}, {"engine": "replan"}, "replan"),
    ({"tp": 2}, {"tp": "replan"}, "replan"),
    ({"tp": 2, "nodes": 2}, {"tp": "replan", "nodes": "replan"}, "replan"),
    ({"node_selector": {"zone": "a"}}, {"node_selector": "replan"}, "replan"),
    ({"min_disk_gb": 5}, {"min_disk_gb": "replan"}, "replan"),
    ({"priority": 5}, {"priority": "replan"}, "replan"),
    ({"weight": 2, "args": ["-x"]}, {"args": "restart", "weight": "router"}, "restart"),
]


@pytest.mark.parametrize(("change", "changed", "asks"), TEST_CHANGES)
def test_stale(change: dict[str, t.Any], changed: dict[str, str], asks: str) -> None:
    before, after = profile(), profile(**change)
    for old, new in ((before, after), (after, before)):
        drift = find_drift(fingerprint(old), plain(old), new)
        assert drift == Drift(state="stale", changed=changed)
        assert drift.asks == asks


def test_current() -> None:
    drift = find_drift(fingerprint(profile(tp=2)), plain(profile(tp=2)), profile(tp=2))
    assert (drift.state, drift.changed, drift.asks) == ("current", {}, None)


@pytest.mark.parametrize("recorded", [None, ""])
def test_unknown_is_not_stale(recorded: str | None) -> None:
    assert find_drift(recorded, None, profile()) == Drift(state="unknown")


def test_a_profile_that_is_gone_or_was_not_recorded() -> None:
    stale = Drift(state="stale", changed={"profile": "replan"})
    assert find_drift("0" * 16, None, None) == stale
    assert find_drift("0" * 16, None, profile()) == stale
    assert find_drift("0" * 16, plain(profile()), profile()) == stale


def test_what_a_role_is_made_of() -> None:
    base = role_fingerprint(role())
    assert role_fingerprint(role(prefer="largest", count=3, priority=1, colocate="g")) == base
    others = [role({"min_vram_gb": 8}), role({"engine": "sglang"}), role(slots=["a"]), role(vm={"cores": 2})]
    assert len({base, *(role_fingerprint(other) for other in others)}) == 5
