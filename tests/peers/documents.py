# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Whole documents around the few keys that a test is about."""

from __future__ import annotations

from typing import Any

HASH = "0123456789abcdef"
WHY = {"rule": "strict", "text": "it fits"}
_OBSERVED = (
    "replica",
    "model",
    "node",
    "endpoint",
    "reason",
    "served_model",
    "running",
    "waiting",
    "idle_seconds",
    "requests_total",
    "started",
    "last_moved",
    "first_seen",
    "profile",
    "fingerprint",
    "drift",
)


def plan(**parts: Any) -> dict[str, Any]:
    """A plan whose entries have what they do not say at its simplest."""
    found = {key: list(parts.get(key, [])) for key in ("assignments", "replicas", "unplaced", "on_demand", "off")}
    found["assignments"] = [_assignment(one) for one in found["assignments"]]
    found["replicas"] = [_replica(one) for one in found["replicas"]]
    found["unplaced"] = [_unplaced(one) for one in found["unplaced"]]
    rest = {"nodes": [], "ledger": [], "inputs": dict.fromkeys(("nodes", "roles", "models"), HASH)}
    return {"version": 1, **found, **{key: parts.get(key, value) for key, value in rest.items()}}


def _assignment(one: dict[str, Any]) -> dict[str, Any]:
    vm = f"{one['role']}-{one['replica']}"
    return {"engine": "vllm", "models_fitting": [], "slots": ["main"], "fingerprint": HASH, "vm": vm, "why": WHY, **one}


def _replica(one: dict[str, Any]) -> dict[str, Any]:
    name = f"{one['model']}-{one['replica']}"
    shards = [
        {"rank": at, "gpu_indices": [], "gpus": [], "vm": f"{name}-{at}", "weights": {"state": "unknown"}, **shard}
        for at, shard in enumerate(one["shards"])
    ]
    return {"id": name, "engine": "vllm", "profile": "p", "fingerprint": HASH, "why": WHY, **one, "shards": shards}


def _unplaced(one: dict[str, Any]) -> dict[str, Any]:
    return {"wanted": one["missing"], "placed": 0, "code": "in_use", "reason": "taken", "rejected": {}, **one}


def observed(one: dict[str, Any]) -> dict[str, Any]:
    """An observed replica that is ready unless it says otherwise."""
    return {
        **dict.fromkeys(_OBSERVED),
        "engine": "vllm",
        "state": "ready",
        "simulated": False,
        "shards": [],
        **one,
    }


def vm(**parts: Any) -> dict[str, Any]:
    """The definition of a VM that runs one role."""
    name = parts.get("name", "chat-0")
    config = {"name": name, "memory": 4096, "cores": 2, "machine": "q35", "bios": "ovmf", "description": "", "tags": ""}
    rest = {"vmid": 100, "name": name, "node": "n1", "cluster": "n1", "pve_node": "n1", "replica": 0}
    rest |= {"fingerprint": HASH, "mappings": [], "source": None, "start": True}
    owner = {} if "model" in parts else {"role": "chat"}
    return {**rest, **owner, **parts, "config": {**config, **parts.get("config", {})}}


def vms(*listed: dict[str, Any]) -> dict[str, Any]:
    """The document of these definitions."""
    return {"version": 1, "vms": list(listed), "managed_by": "knaster.inventory"}
