# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.places import add_places, places_of_slots

GPU = {"index": 1, "uuid": "GPU-1", "vendor": "nvidia", "gpu_class": "l4", "memory_gb": 24, "compute_cap": 8.9}
KEPT = {key: GPU[key] for key in ("uuid", "gpu_class", "memory_gb", "compute_cap")}
CHAT = {"slot": "r.0.chat", "role": "r", "replica": 0, "node": "a", "vm": {"name": "r-0"}, "gpus": [GPU]}
ON_CPU = {"slot": "c.2.x", "role": "c", "replica": 2, "node": "b"}
MODEL = {
    "slot": "m.0.m",
    "replica_of": "m",
    "replica": 0,
    "node": "a",
    "fabric": "ib",
    "gpus": [GPU],
    "profile": {"name": "wide", "tp": 1},
    "shards": [
        {"rank": 0, "node": "a", "host": "m-0-0", "gpu_indices": [1]},
        {"rank": 1, "node": "b", "host": "m-0-1", "gpu_indices": [0]},
    ],
}


def test_a_role_with_two_slots_has_one_place():
    assert places_of_slots([CHAT, {**CHAT, "slot": "r.0.other"}, ON_CPU]) == {
        "assignments": [
            {"role": "r", "replica": 0, "node": "a", "vm": "r-0", "gpu_index": 1, "gpu": KEPT},
            {"role": "c", "replica": 2, "node": "b", "vm": ""},
        ],
        "replicas": [],
    }


def test_a_replica_over_nodes_has_all_its_shards():
    (found,) = places_of_slots([MODEL])["replicas"]
    assert found == {
        "model": "m",
        "replica": 0,
        "profile": "wide",
        "fabric": "ib",
        "shards": [
            {"rank": 0, "node": "a", "gpu_indices": [1], "gpus": [KEPT]},
            {"rank": 1, "node": "b", "gpu_indices": [0]},
        ],
    }
    (alone,) = places_of_slots([{key: value for key, value in MODEL.items() if key != "shards"}])["replicas"]
    assert alone["shards"] == found["shards"][:1]


def test_what_is_no_slot_of_a_plan_has_no_place():
    assert places_of_slots([{"slot": "x", "node": "a"}, {**CHAT, "replica": None}]) == {
        "assignments": [],
        "replicas": [],
    }


def test_an_older_plan_adds_other_work_on_other_gpus():
    places = places_of_slots([CHAT, MODEL])
    same = {"role": "r", "replica": 0, "node": "z", "gpu_index": 7}
    on_taken = {"role": "s", "replica": 0, "node": "b", "gpu_index": 0}
    on_free = {"role": "s", "replica": 1, "node": "b", "gpu_index": 1}
    on_cpu = {"role": "s", "replica": 2, "node": "a"}
    other = {"model": "o", "replica": 0, "shards": [{"node": "a", "gpu_indices": [0, 2]}]}
    beside = {"model": "o", "replica": 1, "shards": [{"node": "a", "gpu_indices": [0, 1]}]}
    made = add_places(places, {"assignments": [same, on_taken, on_free, on_cpu], "replicas": [other, beside]})
    assert made["assignments"] == [*places["assignments"], on_free, on_cpu]
    assert made["replicas"] == [*places["replicas"], other]
    assert add_places(places, {}) == places
