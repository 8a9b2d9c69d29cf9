# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.lsblk import (
    BlockDevice,
    disks,
    natural_key,
    parse,
)


def document(*rows: dict[str, object]) -> str:
    return json.dumps({"blockdevices": list(rows)})


def device(name: str, size: int | None, *, rota: bool | None, kind: str | None = None) -> BlockDevice:
    return BlockDevice(name, size, rota, kind)


TEST_PARSE = [
    pytest.param(
        document({"name": "sda", "size": 407379968, "rota": True}), [device("sda", 407379968, rota=True)], id="typed"
    ),
    pytest.param(
        document({"name": "sda", "size": "407379968", "rota": "1"}, {"name": "sdb", "size": "1", "rota": "0"}),
        [device("sda", 407379968, rota=True), device("sdb", 1, rota=False)],
        id="strings: the text 0 is false",
    ),
    pytest.param(
        document({"name": "sda", "size": "223.6G", "rota": "0"}),
        [BlockDevice("sda", None, rotational=False)],
        id="rounded size: no number is made up",
    ),
    pytest.param(
        '{"blockdevices": [{"name":"zram0", "size":0B, "rota":false}, {"name":"sdb", "size":1.8T, "rota":true}]}',
        [
            BlockDevice("zram0", 0, rotational=False),
            BlockDevice("sdb", None, rotational=True),
        ],
        id="bare sizes of a faulty version",
    ),
    pytest.param(
        document({"name": "loop0", "size": None, "rota": None}), [BlockDevice("loop0")], id="null is unknown, not 0"
    ),
    pytest.param(
        document({"kname": "sda", "type": "disk", "size": 5}),
        [device("sda", 5, rota=None, kind="disk")],
        id="no name, no rota",
    ),
    pytest.param(
        document({"name": "sda", "size": 5, "rota": False, "children": [{"name": "sda1", "size": 4, "rota": False}]}),
        [device("sda", 5, rota=False)],
        id="children are left out",
    ),
    pytest.param(document(), [], id="no device at all"),
    pytest.param(
        "\ufeff" + document({"name": "sda", "size": 5, "rota": False}).replace(" ", "\r\n"),
        [device("sda", 5, rota=False)],
        id="BOM, CRLF",
    ),
    pytest.param(
        "lsblk: dm-0: failed to get device path\n"
        + document({"name": "sda", "size": 5, "rota": False})
        + "\nlsblk: done\n",
        [device("sda", 5, rota=False)],
        id="warnings around",
    ),
    pytest.param(
        document({"size": 5}, {"name": 7}, {"name": "sda", "size": -1, "rota": "maybe"}),
        [BlockDevice("sda")],
        id="odd rows",
    ),
]


@pytest.mark.parametrize(("stdout", "expected"), TEST_PARSE)
def test_parse(stdout: str, expected: list[BlockDevice]) -> None:
    assert parse(stdout) == expected


TEST_ERRORS = [
    ("", "lsblk: unknown column: ROTA", 1, "command_failed"),
    ("", "lsblk: invalid option -- 'J'", 1, "command_failed"),
    ("", "", 0, "command_failed"),
    ("lsblk: failed to access sysfs directory: /sys/dev/block\n", "", 1, "command_failed"),
    ("sh: lsblk: not found\n", "", 127, "command_not_found"),
    ("", "bash: lsblk: command not found", 127, "command_not_found"),
    ("NAME SIZE ROTA\nsda 240057409536 0\n", "", 0, "not_json"),
    ('{"blockdevices": [', "", 0, "not_json"),
    ('{"lscpu": []}', "", 0, "not_json"),
    ("{" * 100000, "", 0, "not_json"),
]


@pytest.mark.parametrize(("stdout", "stderr", "rc", "code"), TEST_ERRORS)
def test_errors(stdout: str, stderr: str, rc: int, code: str) -> None:
    with pytest.raises(ParseError, match=r"^lsblk: ") as caught:
        parse(stdout, stderr=stderr, rc=rc)
    assert caught.value.code == code


def test_an_error_beside_valid_output_is_no_error() -> None:
    assert parse(document(), stderr="lsblk: /dev/nope: not a block device", rc=32) == []


TEST_DISKS = [
    (["nvme10n1", "sdb", "nvme2n1", "sda"], ["nvme2n1", "nvme10n1", "sda", "sdb"]),
    (["loop0", "zram0", "ram1", "sr0", "fd0", "zd16", "nbd0", "rbd0", "dm-0", "md127", "md_d0", "drbd0"], []),
    (["mmcblk0rpmb", "mmcblk0boot0", "mmcblk0boot1", "mmcblk0", "mmcblk0p1"], ["mmcblk0"]),
    (["sda", "sda1", "sda15", "nvme0n1", "nvme0n1p1", "vda", "vda1"], ["nvme0n1", "sda", "vda"]),
    (["nvme0n1", "nvme0c0n1"], ["nvme0n1"]),
    (["xvda", "hda", "dasda", "pmem0", "cciss!c0d0"], ["cciss!c0d0", "dasda", "hda", "pmem0", "xvda"]),
]


@pytest.mark.parametrize(("names", "expected"), TEST_DISKS)
def test_disks(names: list[str], expected: list[str]) -> None:
    assert [row.name for row in disks([BlockDevice(name) for name in names])] == expected


@pytest.mark.parametrize("kind", ["part", "lvm", "rom", "loop", "raid1", "crypt", "mpath"])
def test_what_says_that_it_is_no_disk_is_none(kind: str) -> None:
    assert disks([BlockDevice("sda", type=kind)]) == []


def test_natural_key() -> None:
    assert sorted(["nvme10n1", "sda", "nvme2n2", "nvme2n1", "md"], key=natural_key) == [
        "md",
        "nvme2n1",
        "nvme2n2",
        "nvme10n1",
        "sda",
    ]
