# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The text of ``/proc/mounts``, as fstab(5) describes it, and which file systems other nodes see too."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError

# Types whose content is the same on every machine that mounts them. What is not named here counts as local: a filer
# taken for a local disk costs one copy, a local disk taken for a filer would make every node believe it has the files.
_SHARED = frozenset(
    (
        "9p", "afs", "beegfs", "ceph", "cephfs", "cifs", "coda", "daos", "dvs", "gfs2", "glusterfs", "gpfs", "juicefs",
        "lizardfs", "lustre", "mmfs", "moosefs", "ncpfs", "nfs", "nfs3", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2",
        "quobyte", "smb3", "smbfs", "sshfs", "virtiofs", "weka", "wekafs",
    )
)  # fmt: skip
# Seen only with a "fuse." in front; the bare word is something else or nothing.
_SHARED_FUSE = frozenset(("ceph-fuse", "gcsfuse", "goofys", "mfs", "rclone", "s3fs", "saunafs", "seaweedfs"))
_BLANKS = re.compile(r"[ \t]+")
_OCTAL = re.compile(r"\\([0-3][0-7]{2})")


class Mount(t.NamedTuple):
    """One mounted file system: what is mounted (``server:/path`` for a filer), where, and its type."""

    source: str
    path: str
    fstype: str


def parse(text: str) -> t.List[Mount]:
    """Return all mounts in the order of the text, where a later one covers an earlier one on the same path.

    :raises ParseError: ``no_mounts`` for a text without any: every running system has one
    """
    mounts = []
    # Only these separate fields and lines: a path may hold any other kind of blank as it is.
    for line in text.replace("\r\n", "\n").split("\n"):
        fields = _BLANKS.split(line.strip(" \t"))
        # device, path, type, options and two numbers; blanks inside a field are written as octal escapes
        if len(fields) != 6 or not fields[1].startswith("/") or not (fields[4] + fields[5]).isdigit():
            continue
        mounts.append(Mount(*(_unescape(field) for field in fields[:3])))
    if not mounts:
        raise ParseError("/proc/mounts", "no_mounts", detail=text.strip()[:80])
    return mounts


def is_shared(fstype: str) -> bool:
    """Return whether a file system of this type shows the same files on other machines."""
    if fstype.startswith("fuse."):
        return fstype[5:] in _SHARED or fstype[5:] in _SHARED_FUSE
    return fstype in _SHARED


def find(path: str, mounts: t.Sequence[Mount]) -> t.Optional[Mount]:
    """Return the mount that an absolute, normalised path lies on (the deepest one, and the last of equals)."""
    best: t.Optional[Mount] = None
    for mount in mounts:
        inside = mount.path in {"/", path} or path.startswith(mount.path + "/")
        if inside and (best is None or len(mount.path) >= len(best.path)):
            best = mount
    return best


def _unescape(field: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match.group(1), 8)), field)
