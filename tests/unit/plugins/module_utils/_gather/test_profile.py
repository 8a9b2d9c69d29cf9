# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._gather.answers import (
    GatherError,
    Output,
    read_outputs,
)
from ansible_collections.knaster.inventory.plugins.module_utils._gather.profile import profile_from_outputs
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.meminfo import installed_gb

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
        "storage": None,
        "weights": None,
        "notes": [],
    }
    assert list(profile(HOST)) == [
        "name", "hostname", "cpu", "memory_gb", "memory_mib", "disks", "gpus", "fabrics", "labels", "state", "storage", "weights", "notes",
    ]  # fmt: skip


def test_the_memory_that_is_kept_for_the_node_is_said_only_where_it_was_stated():
    assert "reserve_gb" not in profile(HOST)
    assert profile(HOST, reserve_gb=6.5)["reserve_gb"] == 6.5


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
    assert all("not found" in note or "not read" in note for note in told["notes"])


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
    ("no frames", GatherError, "the node's answer cannot be used: it has no opening frame"),
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


DF = "Filesystem 1024-blocks Used Available Capacity Mounted on\n"
MOUNTS = "/dev/sda1 / ext4 rw 0 0\nnas:/srv/my\\040models /models nfs4 rw 0 0\nnas:/old /old nfs4 rw 0 0\n"


def answer(outputs):
    """Outputs of directories have the directory where others have their command."""
    return profile_from_outputs({"mounts": Output("ok", 0, MOUNTS), **outputs})


def test_models_on_a_share_are_found_with_what_they_lie_on():
    told = answer(
        {
            "storage_0": Output(
                "ok", 0, DF + "nas:/srv/my models 2000 1000 976562500 51% /models\n", "", "/models/llm files"
            ),
            "weights_0": Output("ok", 0, "f 16000000000 ./org/m/model.safetensors\nend", "", "/models/llm files"),
        }
    )
    assert told["storage"] == [
        {"path": "/models/llm files", "fstype": "nfs4", "shared": True, "free_gb": 1000, "source": "nas:/srv/my models"}
    ]
    (found,) = told["weights"]
    assert (found["name"], found["path"], found["size_gb"], found["shared"], found["state"]) == (
        "org/m", "/models/llm files/org/m", 16, True, "complete",
    )  # fmt: skip


def test_a_share_that_is_dead_is_a_note_and_the_next_is_read():
    told = answer(
        {
            "storage_0": Output("stuck", 137, "", "", "/old"),
            "storage_1": Output("failed", 1, "", "df: /none: No such file or directory", "/none"),
            "weights_1": Output("failed", 1, "", "", "/none"),
            "storage_2": Output("ok", 0, DF + "/dev/sda1 2000 1000 900 51% /\n", "", "/srv"),
            "weights_2": Output("ok", 0, "end", "", "/srv"),
        }
    )
    assert [(place["path"], place["fstype"], place["shared"], place["free_gb"]) for place in told["storage"]] == [
        ("/old", "nfs4", True, None),
        ("/none", None, None, None),
        ("/srv", "ext4", False, 0),
    ]
    assert told["weights"] == []
    assert [note for note in told["notes"] if note.startswith("weights")] == [
        "weights: /old was not listed (did not answer in time); the command hangs in the kernel",
        "weights: /none cannot be read",
    ]


def test_a_listing_that_was_cut_off_is_not_taken_for_the_whole():
    listed = Output("failed", 141, "f 5 ./org/m/model-00001-of-00002.safetensors", "", "/srv")
    told = answer({"storage_0": Output("ok", 0, DF + "/dev/sda1 2 1 900 51% /\n", "", "/srv"), "weights_0": listed})
    assert [found["state"] for found in told["weights"]] == ["unknown"]
    assert "weights: /srv was listed in part only" in told["notes"]
