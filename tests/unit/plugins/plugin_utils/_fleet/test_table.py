# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.table import format_fleet

FLEET = [
    {
        "name": "pve-10",
        "cpu": {"model": "Example CPU", "cores": 16, "threads": 32},
        "memory_gb": 128,
        "disks": [
            {"name": "sda", "size_gb": 4000, "rotational": True},
            {"name": "sdb", "size_gb": 1000, "rotational": False},
        ],
        "gpus": [
            {"index": 0, "gpu_class": "rtx-3090", "memory_gb": 24, "healthy": True},
            {"index": 1, "gpu_class": "rtx-3090", "memory_gb": 24, "healthy": None},
            {"index": 2, "name": "Odd GPU", "memory_gb": None},
        ],
        "state": "cordoned",
        "notes": ["gpu 0000:01:00.0: nvidia-smi:\nno answer"],
    },
    {"name": "pve-2", "gpus": None, "state": "unreachable"},
    {
        "name": "pve-1",
        "cpu": {"model": None, "cores": None},
        "memory_gb": None,
        "disks": [{"name": "sda", "size_gb": None}],
        "gpus": [],
    },
]


def test_a_fleet():
    assert format_fleet(FLEET).splitlines() == [
        "NODE    STATE        CPU          CORES  RAM GB  DISK GB  GPUS",
        "pve-1   ready        -                -       -        -  none",
        "pve-2   unreachable  -                -       -        -  unknown",
        "pve-10  cordoned     Example CPU     16     128     5000  2 x rtx-3090 24 GB (1 of unknown health), 1 x Odd GPU ? GB",
        "",
        "3 nodes (1 cordoned, 1 ready, 1 unreachable), 3 GPUs; GPUs unknown on 1",
        "",
        "What could not be read:",
        "  pve-10: gpu 0000:01:00.0: nvidia-smi: no answer",
    ]


def test_no_fleet():
    assert format_fleet([]).splitlines()[-1] == "0 nodes (), 0 GPUs"
