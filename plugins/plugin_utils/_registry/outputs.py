# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""All files of the registry, from a plan, a catalog and machines on disk (or from documents) to texts; nothing is written."""

from __future__ import annotations

import json
import os
import re
import typing as t
from dataclasses import dataclass, field

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.values import ENV_NAME
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import FileChange, read_text
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.yaml_text import (
    DocumentError,
    dump_document,
    load_document,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.options import find_plan_errors
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.commands import (
    MARK,
    command_documents,
    folder,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.gateways import (
    FORMATS,
    GatewayError,
    make_gateway,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.prometheus import (
    make_rules,
    make_targets,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.quote import clean_document
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.schema import find_shape_errors
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.slots import (
    MANAGED_BY,
    SlotError,
    make_slots,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.fleet import read_catalog

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

Documents = list[dict[str, t.Any]]

_SLOT_SUFFIX = ".yaml"
# A file is ours when this much of its head says so.
_HEAD = 400
_SLOT_MARK = re.compile(rf"^managed_by: \"?{re.escape(MANAGED_BY)}\"?$", re.MULTILINE)
_TEXT_MARK = re.compile(f"^{re.escape(MARK)}$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The directories to write; None is not asked for."""

    slots: Path
    gateway: Path | None = None
    prometheus: Path | None = None
    engines: Path | None = None


@dataclass(slots=True, kw_only=True)
class Outputs:
    """What is to be on disk: new texts beside the old ones (None: there is no such file), and what goes."""

    slots: Documents
    before: dict[Path, str | None] = field(default_factory=dict)
    after: dict[Path, str] = field(default_factory=dict)
    removed: dict[Path, str] = field(default_factory=dict)
    without_command: dict[str, list[str]] = field(default_factory=dict)

    @property
    def changed(self) -> list[Path]:
        """The files that are to be written, in order."""
        return sorted(path for path, text in self.after.items() if self.before[path] != text)

    @property
    def changes(self) -> list[FileChange]:
        """What is to be done: files to write, then files to remove."""
        return [FileChange(path, self.before[path], self.after[path]) for path in self.changed] + [
            FileChange(path, text, None) for path, text in self.removed.items()
        ]


def read_slots(
    plan: Path, catalog: Sequence[str], vms: Path | None, *, registry_domain: str = "", bare_metal: bool = False
) -> tuple[Documents, list[str]]:
    """Make the slots of a plan file; also return what is worth a look in the catalog.

    :raises InputError: with everything that is wrong
    """
    errors: list[str] = []
    document = _read_document(plan, errors, "make the plan first")
    errors += [f"{plan}: {error}" for error in find_plan_errors(document, "plan")]
    machines: Documents = []
    if vms is not None and not bare_metal and read_text(vms) is not None:
        machines = vm_definitions_of(_read_document(vms, errors, ""), errors, str(vms))
    found = Catalog()
    warnings: list[str] = []
    if catalog:
        found, worth = read_catalog(catalog, errors)
        warnings = list(worth)
    if errors:
        raise InputError(errors)
    try:
        slots = make_slots(document, found, machines, registry_domain=registry_domain, bare_metal=bare_metal)
    except SlotError as exc:
        raise InputError([f"{plan}: {error}" for error in exc.errors]) from exc
    return slots, warnings


def vm_definitions_of(given: t.Any, errors: list[str], where: str) -> Documents:
    """Return the list of machines that a document of them or the list itself holds."""
    listed = given.get("vms") if isinstance(given, dict) else given
    if listed is None:
        listed = []
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        errors.append(f"{where}: holds no list of machines; make the definitions again")
        return []
    return listed


def _read_document(path: Path, errors: list[str], remedy: str) -> dict[str, t.Any]:
    try:
        text = read_text(path)
        if text is not None:
            return load_document(text)
        errors.append(f"{path}: is not there; {remedy}")
    except (OSError, UnicodeDecodeError, DocumentError) as exc:
        errors.append(f"{path}: cannot be read ({exc}); mend the file or make it again")
    return {}


def load_slots(directory: Path) -> Documents:
    """Read the slots of a directory in order of their names; files without our mark are not slots.

    :raises InputError: with everything that is wrong
    """
    found: Documents = []
    errors: list[str] = []
    for path in sorted(_files_in(directory, errors)):
        try:
            text = path.read_text(encoding="utf-8")
            document = load_document(text)
        except (OSError, UnicodeDecodeError, DocumentError) as exc:
            errors.append(f"{path}: cannot be read ({exc}); remove it and write the slots again")
            continue
        if document.get("managed_by") != MANAGED_BY:
            continue
        shape = find_shape_errors(document, "slot")
        if shape:
            errors.append(f"{path}: {'; '.join(shape)}; remove it and write the slots again")
        else:
            found.append(document)
    if errors:
        raise InputError(errors)
    return found


def _files_in(directory: Path, errors: list[str]) -> Iterator[Path]:
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.name.endswith(_SLOT_SUFFIX) and not entry.name.startswith(".") and entry.is_file():
                    yield directory / entry.name
    except OSError as exc:
        errors.append(f"{directory}: cannot be read ({exc.strerror or exc}); write the slots first")


def make_outputs(
    slots: Documents,
    where: Where,
    *,
    prune: bool = False,
    images: Mapping[str, str] | None = None,
    api_key_env: str = "",
) -> Outputs:
    """Tell what is to be on disk for these slots.

    :param prune: also remove what the collection wrote for slots that are gone
    :raises InputError: with everything that is wrong
    """
    images = images or {}
    errors = [*find_document_errors(slots), *find_option_errors(images, api_key_env)]
    if errors:
        raise InputError(errors)
    slots = [clean_document(slot) for slot in slots]
    made = Outputs(slots=slots)
    ours: dict[Path, re.Pattern[str]] = {}
    for slot in slots:
        path = where.slots / f"{slot['slot']}{_SLOT_SUFFIX}"
        head = {key: slot[key] for key in ("version", "managed_by")}
        made.after[path], ours[path] = dump_document({**head, **slot}), _SLOT_MARK
    if where.gateway is not None:
        made.after |= _gateway_files(slots, where.gateway, api_key_env, errors)
    if where.prometheus is not None:
        made.after[where.prometheus / "targets.json"] = json.dumps(make_targets(slots), indent=1) + "\n"
        made.after[where.prometheus / "rules.yml"] = dump_document(make_rules(slots))
    if where.engines is not None:
        for command in command_documents(slots, images=images, api_keys=bool(api_key_env)):
            if "reason" in command:
                made.without_command.setdefault(command["reason"], []).append(command["slot"])
                continue
            for name, text in command["files"].items():
                path = where.engines / folder(command) / name
                made.after[path], ours[path] = text, _TEXT_MARK
    for path in made.after:
        made.before[path] = _before(path, ours.get(path), errors)
    if errors:
        raise InputError(errors)
    if prune:
        made.removed = dict(_gone(where, made.after))
    return made


def _gateway_files(slots: Documents, directory: Path, api_key_env: str, errors: list[str]) -> dict[Path, str]:
    found = {}
    for form in FORMATS:
        try:
            found[directory / f"{form}.yaml"] = dump_document(make_gateway(slots, form, api_key_env=api_key_env))
        except GatewayError as exc:
            errors += exc.errors
    return found


def find_option_errors(images: Mapping[str, t.Any], api_key_env: str) -> list[str]:
    """Return what is wrong with the names of images and with that of the variable with the key."""
    errors = []
    if api_key_env and not ENV_NAME.fullmatch(api_key_env):
        errors.append(f"api_key_env: {api_key_env!r} is not the name of a variable; write letters, digits and _")
    errors += [
        f"images: {engine}: expected the name of an image"
        for engine, image in images.items()
        if not isinstance(image, str) or not image
    ]
    return errors


def find_document_errors(slots: t.Any) -> list[str]:
    """Return what is wrong with slot documents: their shape, and ids that stand twice."""
    if not isinstance(slots, list):
        return ["slots: expected a list of documents"]
    errors: list[str] = []
    seen: set[str] = set()
    for index, slot in enumerate(slots):
        if not isinstance(slot, dict):
            errors.append(f"slots[{index}]: expected a document")
            continue
        errors += [f"slots[{index}]: {error}" for error in find_shape_errors(slot, "slot")]
        name = str(slot.get("slot"))
        if name in seen:
            errors.append(f"slots[{index}]: the slot {name} stands twice")
        seen.add(name)
    return errors


def _before(path: Path, mark: re.Pattern[str] | None, errors: list[str]) -> str | None:
    """Return what a file holds; a stranger's file in the place of one of ours is an error."""
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as exc:
        errors.append(f"{path}: is in the way ({exc}); move it")
        return None
    if text is not None and mark is not None and not mark.search(text[:_HEAD]):
        errors.append(f"{path}: is there and is not ours; move it, nothing of others is overwritten")
    return text


def _gone(where: Where, wanted: Mapping[Path, str]) -> Iterator[tuple[Path, str]]:
    """Yield the files of slots that are gone, with what they hold: only those that carry our mark."""
    for path in _below(where.slots, 0):
        if path.suffix == _SLOT_SUFFIX and path not in wanted:
            yield from _if_ours(path, _SLOT_MARK)
    if where.engines is not None:
        for path in _below(where.engines, 2):
            if path not in wanted and path.parent != where.engines:
                yield from _if_ours(path, _TEXT_MARK)


def _below(directory: Path, depth: int) -> Iterable[Path]:
    """Yield the plain files of a directory and of those below it, in order; links are not followed."""
    try:
        with os.scandir(directory) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.is_file(follow_symlinks=False):
            yield directory / entry.name
        elif depth and entry.is_dir(follow_symlinks=False):
            yield from _below(directory / entry.name, depth - 1)


def _if_ours(path: Path, mark: re.Pattern[str]) -> Iterator[tuple[Path, str]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return
    if mark.search(text[:_HEAD]):
        yield path, text
