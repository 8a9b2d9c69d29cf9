# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.placements import placements

GPU = {"gpu_class": "rtx-3090"}
PLAN = {
    "assignments": [
        {"role": "chat", "replica": 0, "node": "n1", "gpu_index": 1, "gpu": GPU},
        {"role": "chat", "replica": 1, "node": "n1"},
    ],
    "replicas": [
        {
            "model": "big",
            "replica": 0,
            "shards": [
                {"rank": 0, "node": "n1", "gpu_indices": [2, 3], "gpus": [GPU, GPU]},
                {"rank": 1, "node": "n2", "gpu_indices": [], "gpus": []},
                {"rank": 2, "node": "n1", "gpu_indices": [4], "gpus": [GPU]},
            ],
        },
        {"model": "small", "replica": 3, "shards": [{"node": "n2", "gpu_indices": [0]}]},
    ],
}


def test_roles_come_before_models_and_each_part_says_where_it_is():
    found = list(placements(PLAN))
    assert [(one.kind, one.name, one.replica, one.label) for one in found] == [
        ("role", "chat", 0, "chat/0"),
        ("role", "chat", 1, "chat/1"),
        ("model", "big", 0, "big/0"),
        ("model", "small", 3, "small/3"),
    ]
    assert [
        [(part.rank, part.node, list(part.gpu_indices), list(part.gpus)) for part in one.parts] for one in found
    ] == [
        [(0, "n1", [1], [GPU])],
        [(0, "n1", [], [])],
        [(0, "n1", [2, 3], [GPU, GPU]), (1, "n2", [], []), (2, "n1", [4], [GPU])],
        [(0, "n2", [0], [])],
    ]
    assert found[0].entry is found[0].parts[0].entry is PLAN["assignments"][0]
    assert found[2].entry is PLAN["replicas"][0]
    assert found[2].parts[1].entry is PLAN["replicas"][0]["shards"][1]


def test_a_part_is_called_by_its_rank_where_there_are_several():
    chat, _cpu, big, small = placements(PLAN)
    assert [big.label_of(part) for part in big.parts] == ["big/0 rank 0", "big/0 rank 1", "big/0 rank 2"]
    assert small.label_of(small.parts[0]) == "small/3"
    assert chat.label_of(chat.parts[0]) == "chat/0"
    assert big.nodes == ["n1", "n2"]


def test_a_plan_without_placements_has_none():
    assert list(placements({})) == []
    assert list(placements({"assignments": None, "replicas": []})) == []
