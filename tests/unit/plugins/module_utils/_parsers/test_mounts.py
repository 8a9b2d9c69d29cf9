# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.mounts import Mount, find, is_shared, parse

TEXT = r"""
/dev/nvme0n1p2 / ext4 rw,relatime 0 0
tmpfs /tmp tmpfs rw 0 0
filer:/export/weights /srv/models nfs4 rw,vers=4.2 0 0
//filer/big\040share /mnt/a\040b cifs rw 0 0
/dev/sdb1 /srv/models/local\134x xfs rw 0 0
"""


def test_parse() -> None:
    assert parse(TEXT) == [
        Mount("/dev/nvme0n1p2", "/", "ext4"),
        Mount("tmpfs", "/tmp", "tmpfs"),
        Mount("filer:/export/weights", "/srv/models", "nfs4"),
        Mount("//filer/big share", "/mnt/a b", "cifs"),
        Mount("/dev/sdb1", "/srv/models/local\\x", "xfs"),
    ]


def test_other_blanks_belong_to_a_path() -> None:
    (mount,) = parse("a /mnt/x\u00a0y\u2028z\x0b ext4 rw 0 0\r\n")
    assert mount.path == "/mnt/x\u00a0y\u2028z\x0b"


@pytest.mark.parametrize("text", ["", "\n", "cat: /proc/mounts: No such file or directory\n", "a b c d 0 0\n"])
def test_errors(text: str) -> None:
    with pytest.raises(ParseError, match=r"^/proc/mounts: there is no mount in the text") as caught:
        parse(text)
    assert caught.value.code == "no_mounts"


TEST_IS_SHARED = [
    ("nfs", True),
    ("nfs4", True),
    ("lustre", True),
    ("ceph", True),
    ("beegfs", True),
    ("gpfs", True),
    ("fuse.sshfs", True),
    ("fuse.glusterfs", True),
    ("fuse.s3fs", True),
    ("9p", True),
    ("virtiofs", True),
    ("smb3", True),
    ("ext4", False),
    ("xfs", False),
    ("zfs", False),
    ("overlay", False),
    ("tmpfs", False),
    ("fuse", False),
    ("fuseblk", False),
    ("fuse.lxcfs", False),
    ("s3fs", False),
    ("", False),
]


@pytest.mark.parametrize(("fstype", "expected"), TEST_IS_SHARED)
def test_is_shared(fstype: str, *, expected: bool) -> None:
    assert is_shared(fstype) is expected


TEST_FIND = [
    ("/srv/models/org/name", "/srv/models"),
    ("/srv/models", "/srv/models"),
    ("/srv/models2", "/"),
    ("/etc", "/"),
    ("/mnt/a b/c", "/mnt/a b"),
]


@pytest.mark.parametrize(("path", "expected"), TEST_FIND)
def test_find(path: str, expected: str) -> None:
    mount = find(path, parse(TEXT))
    assert mount is not None
    assert mount.path == expected


def test_a_later_mount_covers_an_earlier_one() -> None:
    mounts = parse("a /srv ext4 rw 0 0\nfiler:/b /srv nfs rw 0 0\n")
    assert find("/srv/x", mounts) == mounts[1]
    assert find("/home", mounts) is None
