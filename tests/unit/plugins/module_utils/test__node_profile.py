# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._gather import GatherError, Output
from ansible_collections.knaster.inventory.plugins.module_utils._node_profile import (
    installed_gb,
    profile_from_outputs,
    read_outputs,
)

CPUINFO = "".join(
    f"processor\t: {cpu}\nmodel name\t: Example CPU 8\nphysical id\t: 0\nsiblings\t: 4\ncore id\t: {cpu // 2}\ncpu cores\t: 2\n\n"
    for cpu in range(4)
)
LSBLK = json.dumps(
    {
        "blockdevices": [
            {"name": "nvme0n1", "size": 256060514304, "rota": False},
            {"name": "loop0", "size": 4096, "rota": False},
        ]
    }
)
HOST = {
    "hostname": "n1\n",
    "meminfo": "MemTotal:       65842176 kB\nMemFree: 1 kB\n",
    "cpuinfo": CPUINFO,
    "lsblk": LSBLK,
}
NO_GPU = {"nvidia_smi": {"status": "absent", "rc": 127}, "pci": ""}


def profile(outputs, **options):
    return profile_from_outputs(read_outputs(outputs), **options)


def test_a_profile_has_the_keys_of_the_contract_in_their_order():
    assert profile({**HOST, **NO_GPU}, name="pve-1", fabrics=["ib-a"], labels={"zone": 1}, state="cordoned") == {
        "name": "pve-1",
        "hostname": "n1",
        "cpu": {"model": "Example CPU 8", "cores": 2, "threads": 4},
        "memory_gb": 64,
        "memory_mib": 64299,
        "disks": [{"name": "nvme0n1", "size_gb": 256, "rotational": False}],
        "gpus": [],
        "fabrics": ["ib-a"],
        "labels": {"zone": "1"},
        "state": "cordoned",
        "notes": [],
    }
    assert list(profile(HOST)) == [
        "name", "hostname", "cpu", "memory_gb", "memory_mib", "disks", "gpus", "fabrics", "labels", "state", "notes",
    ]  # fmt: skip


def test_a_node_without_any_tool_has_a_profile_of_unknowns_with_their_reasons():
    absent = {"status": "absent", "rc": 127}
    told = profile(
        dict.fromkeys(("meminfo", "cpuinfo", "lscpu", "lsblk", "block", "pci", "nvidia_smi"), absent), name="bare"
    )
    assert {key: told[key] for key in ("cpu", "memory_gb", "memory_mib", "disks", "gpus")} == {
        "cpu": {"model": None, "cores": None, "threads": None},
        "memory_gb": None,
        "memory_mib": None,
        "disks": None,
        "gpus": None,
    }
    assert [note.partition(":")[0] for note in told["notes"]] == ["cpu", "memory", "disks", "gpus"]
    assert all("not there" in note or "not read" in note for note in told["notes"])


def test_lscpu_fills_in_what_cpuinfo_leaves_open():
    outputs = {
        "cpuinfo": "processor\t: 0\nprocessor\t: 1\n",
        "lscpu": "Architecture: aarch64\nCPU(s): 2\nModel name: Cortex-A76\nThread(s) per core: 1\nCore(s) per socket: 2\nSocket(s): 1\n",
    }
    assert profile(outputs)["cpu"] == {"model": "Cortex-A76", "cores": 2, "threads": 2}


def test_disks_come_from_sysfs_where_lsblk_can_not_say_them():
    outputs = {
        "lsblk": {"rc": 1, "stderr": "lsblk: unrecognized option: J"},
        "block": "sda 7814037168 1\nram0 100 0\nzram0 100 0",
    }
    assert profile(outputs)["disks"] == [{"name": "sda", "size_gb": 4001, "rotational": True}]


def test_a_command_that_hung_is_a_note():
    told = profile({**HOST, "lsblk": {"status": "timeout", "rc": 137}, **NO_GPU})
    assert told["disks"] is None
    assert told["notes"] == ["disks: unknown (lsblk: did not answer in time)"]


# What the kernel has of modules that hold this many GB.
TEST_INSTALLED = [
    (65842176, 64),
    (263856740, 256),
    (791214024, 768),
    (16262140, 16),
    (8009296, 8),
    (3884136, 4),
    (1584912384, 1536),
    (24683520, 24),
    (131900000, 128),
    (2113396736, 2048),
    (492404, 1),
]


@pytest.mark.parametrize(("total_kb", "gb"), TEST_INSTALLED)
def test_installed_gb(total_kb, gb):
    assert installed_gb(total_kb) == gb


TEST_READ_ERRORS = [
    ({"lsblk": 7}, ValueError, "lsblk: an output is a text or a dictionary with stdout, not '7'"),
    ({"lsblk": {"stdout": 7}}, ValueError, "lsblk: stdout and stderr are texts, and rc is a number or null"),
    ({"lsblk": {"rc": "x"}}, ValueError, "lsblk: stdout and stderr are texts, and rc is a number or null"),
    ("no frames", GatherError, "the node's answer can not be used: it has no opening frame"),
]


@pytest.mark.parametrize(("data", "error", "message"), TEST_READ_ERRORS)
def test_read_outputs_refuses(data, error, message):
    with pytest.raises(error) as caught:
        read_outputs(data)
    assert str(caught.value) == message


def test_read_outputs_takes_the_ways_in_which_people_save_output():
    assert read_outputs(
        {
            "a": "text",
            "b": {"rc": 3, "stdout": "x", "command": "y"},
            "pci": {"devices": [{"address": "z", "vendor": None}]},
        }
    ) == {
        "a": Output("ok", 0, "text"),
        "b": Output("failed", 3, "x", "", "y"),
        "pci": Output("ok", 0, "address=z"),
    }
