# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The registry from its files to its files: plan, catalog and VMs in, slots and what is made of them out."""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.digests import read_checked, read_digests
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError, collecting
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import (
    FileChange,
    FileError,
    is_directory,
    is_file,
    list_names,
    read_text,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.placements import ROLE, placements
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.vms import MANAGED_BY
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.names import inventory_address
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.outputs import (
    SLOT_MARK,
    SLOT_SUFFIX,
    TEXT_MARK,
    Texts,
    Where,
    make_texts,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.slots import make_slots
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.fleet import read_catalog, read_plan

if t.TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.outputs import Documents
    from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.settings import Settings

# How much of a file is looked at for our mark.
_HEAD = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """What is to be on disk, and the files that have to be written or removed for it."""

    wanted: Texts
    written: list[FileChange]
    removed: list[FileChange]


def read_slots(
    plan: Path,
    catalog: Sequence[str],
    vms: Path | None,
    *,
    registry_domain: str = "",
    bare_metal: bool = False,
    variables_of: Callable[[str], Mapping[str, t.Any]] | None = None,
) -> tuple[Documents, list[str], list[str]]:
    """Make the slots of a plan file; also return the warnings of the catalog, and the roles that have a place and no slot.

    :param variables_of: what the inventory says of a node, for its address on bare metal
    :raises InputError: with everything that is wrong
    """
    errors: list[str] = []
    document = read_plan(plan, errors)
    definitions = None
    if vms is not None and not bare_metal:
        with collecting(errors):
            definitions = read_checked(vms, "vm")
    found, warnings = read_catalog(catalog, errors) if catalog else (Catalog(), ())
    addresses = {}
    if document is not None and bare_metal and variables_of is not None:
        addresses = _addresses(document, variables_of, errors)
    if errors or document is None:
        raise InputError(errors)
    machines = [] if definitions is None else definitions["vms"]
    try:
        slots = make_slots(
            document, found, machines, registry_domain=registry_domain, bare_metal=bare_metal, addresses=addresses
        )
    except InputError as exc:
        raise InputError([f"{plan}: {error}" for error in exc.errors]) from exc
    silent = {str(one.name) for one in placements(document) if one.kind == ROLE and not one.parts[0].entry.get("slots")}
    return slots, list(warnings), sorted(silent)


def _addresses(
    plan: Mapping[str, t.Any], variables_of: Callable[[str], Mapping[str, t.Any]], errors: list[str]
) -> dict[str, str]:
    found = {}
    for node in dict.fromkeys(part.node for one in placements(plan) for part in one.parts):
        try:
            address = inventory_address(variables_of(node))
        except ValueError as exc:
            errors.append(f"{node}: {exc}")
            continue
        if address is not None:
            found[node] = address
    return found


def load_slots(directory: Path) -> Documents:
    """Read the slots of a directory in order of their names; files without our mark are not slots.

    :raises InputError: with everything that is wrong
    """
    found: Documents = []
    errors: list[str] = []
    known = read_digests(directory)
    for path in _files_in(directory):
        with collecting(errors):
            document = read_checked(path, "slot", known, managed_by=MANAGED_BY)
            if document is not None:
                found.append(document)
    if errors:
        raise InputError(errors)
    return found


def _files_in(directory: Path) -> list[Path]:
    """Return the files of slots in a directory.

    :raises FileError: when it cannot be read
    """
    try:
        names = list_names(directory)
    except FileError as exc:
        raise FileError(directory, exc.message, "write the slots first") from exc
    found = (directory / name for name in names if name.endswith(SLOT_SUFFIX) and not name.startswith("."))
    return [path for path in found if is_file(path)]


def make_outputs(
    slots: Documents,
    where: Where,
    settings: Settings | None = None,
    *,
    prune: bool = False,
) -> Outputs:
    """Tell what is to be on disk for these slots, and what has to change for it. Nothing is written.

    :param prune: also remove what the collection wrote for slots that are gone
    :raises InputError: with everything that is wrong
    """
    wanted = make_texts(slots, where, settings)
    errors: list[str] = []
    before = {path: _before(path, wanted.marks.get(path), errors) for path in wanted.texts}
    if errors:
        raise InputError(errors)
    written = [
        FileChange(path, before[path], text) for path, text in sorted(wanted.texts.items()) if before[path] != text
    ]
    gone = _gone(where, wanted.texts) if prune else ()
    return Outputs(wanted=wanted, written=written, removed=[FileChange(path, text, None) for path, text in gone])


def _before(path: Path, mark: re.Pattern[str] | None, errors: list[str]) -> str | None:
    """Return what a file holds; a stranger's file in the place of one of ours is an error."""
    try:
        text = read_text(path)
    except InputError as exc:
        errors += exc.errors
        return None
    if text is not None and mark is not None and not mark.search(text[:_HEAD]):
        errors.append(f"{path}: conflicts with an unmanaged file; move it, unmanaged files are never overwritten")
    return text


def _gone(where: Where, wanted: Mapping[Path, str]) -> Iterator[tuple[Path, str]]:
    """Yield the files of slots that are gone, with what they hold: only those that carry our mark."""
    for path in _below(where.slots, 0):
        if path.suffix == SLOT_SUFFIX and path not in wanted:
            yield from _if_ours(path, SLOT_MARK)
    if where.engines is not None:
        for path in _below(where.engines, 2):
            if path not in wanted and path.parent != where.engines:
                yield from _if_ours(path, TEXT_MARK)


def _below(directory: Path, depth: int) -> Iterable[Path]:
    """Yield the plain files of a directory and of those below it, in order; links are not followed."""
    with contextlib.suppress(FileError):
        for path in [directory / name for name in list_names(directory)]:
            if path.is_symlink():
                continue
            if is_file(path):
                yield path
            elif depth and is_directory(path):
                yield from _below(path, depth - 1)


def _if_ours(path: Path, mark: re.Pattern[str]) -> Iterator[tuple[Path, str]]:
    try:
        text = read_text(path) or ""
    except InputError:
        return
    if mark.search(text[:_HEAD]):
        yield path, text
