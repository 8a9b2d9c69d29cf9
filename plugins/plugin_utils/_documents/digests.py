# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What was checked already: a file beside the documents holds a digest of each that we wrote.

A document that we wrote ourselves and nobody changed needs no check. Another content, another schema or no digest means
the full check, so that the file may be lost, cut or deleted at any time.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import check, schema_text
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import (
    FileError,
    list_names,
    parse_document,
    read_document,
    read_text,
    write_text,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SIDECAR = ".digests.json"


class Written(t.NamedTuple):
    """A document that stands in a file: its path, its kind and its text."""

    path: Path
    kind: str
    text: str


def read_checked(
    path: Path, kind: str, known: dict[str, str] | None = None, *, managed_by: str | None = None
) -> dict[str, t.Any] | None:
    """Return the document of a file as its schema allows it, or None where there is no such file.

    :param known: what ``read_digests`` said of the directory, for who reads many files of it
    :param managed_by: a document that we did not write and that is not managed by this one is none
    :raises InputError: with everything that is wrong: file, line, place and remedy
    """
    text = read_text(path)
    if text is None:
        return None
    document = parse_document(text, path)
    known = read_digests(path.parent) if known is None else known
    if managed_by is not None and document.get("managed_by") != managed_by and path.name not in known:
        return None
    if known.get(path.name) != _digest(kind, text):
        errors = check(document, kind, str(path), text)
        if errors:
            raise InputError(errors)
    return document


def read_digests(directory: Path) -> dict[str, str]:
    """Return the digests of a directory by the name of the file; none where they cannot be read."""
    with contextlib.suppress(FileError):
        found = (read_document(directory / SIDECAR) or {}).get("digests")
        if isinstance(found, dict):
            return {name: digest for name, digest in found.items() if isinstance(digest, str)}
    return {}


def remember(documents: Iterable[Written]) -> None:
    """Note that these documents were written as their schemas ask; what cannot be noted is checked again."""
    by_directory: dict[Path, dict[str, str]] = {}
    for one in documents:
        by_directory.setdefault(one.path.parent, {})[one.path.name] = _digest(one.kind, one.text)
    for directory, found in by_directory.items():
        before = read_digests(directory)
        there = {*list_names(directory)}
        after = {name: digest for name, digest in sorted({**before, **found}.items()) if name in there}
        if after != before:
            with contextlib.suppress(FileError):
                write_text(directory / SIDECAR, json.dumps({"version": 1, "digests": after}, indent=1) + "\n")


def _digest(kind: str, text: str) -> str:
    return hashlib.sha256(f"{kind} {_schema_digest(kind)}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()


@functools.cache
def _schema_digest(kind: str) -> str:
    return hashlib.sha256(schema_text(kind).encode()).hexdigest()
