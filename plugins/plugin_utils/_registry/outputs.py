# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""All files of the registry as texts, from the documents of slots."""

from __future__ import annotations

import json
import re
import typing as t
from dataclasses import dataclass, field

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import check
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.vms import MANAGED_BY
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.yaml_text import dump_document
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.commands import (
    MARK,
    command_documents,
    folder,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.gateways import (
    FORMATS,
    make_gateway,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.prometheus import (
    make_rules,
    make_targets,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.quote import clean_document
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.settings import (
    Settings,
    find_setting_errors,
)

if t.TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Documents = list[dict[str, t.Any]]

SLOT_SUFFIX = ".yaml"
# A file is ours when this much of its head says so.
SLOT_MARK = re.compile(rf"^managed_by: \"?{re.escape(MANAGED_BY)}\"?$", re.MULTILINE)
TEXT_MARK = re.compile(f"^{re.escape(MARK)}$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The directories to write; None is not asked for."""

    slots: Path
    gateway: Path | None = None
    prometheus: Path | None = None
    engines: Path | None = None


@dataclass(slots=True, kw_only=True)
class Texts:
    """What is to be on disk: the texts by file, and of those that may be a stranger's the mark that ours carry."""

    slots: Documents
    texts: dict[Path, str] = field(default_factory=dict)
    marks: dict[Path, re.Pattern[str]] = field(default_factory=dict)
    without_command: dict[str, list[str]] = field(default_factory=dict)
    without_image: dict[str, list[str]] = field(default_factory=dict)


def make_texts(
    slots: Documents,
    where: Where,
    settings: Settings | None = None,
) -> Texts:
    """Return what is to be on disk for these slots, which ``find_document_errors`` found right.

    :param slots: documents that are right, see C(find_document_errors)
    :raises InputError: with everything that is wrong
    """
    settings = settings or Settings()
    errors = find_setting_errors(settings)
    if errors:
        raise InputError(errors)
    slots = [clean_document(slot) for slot in slots]
    made = Texts(slots=slots)
    for slot in slots:
        path = where.slots / f"{slot['slot']}{SLOT_SUFFIX}"
        made.texts[path], made.marks[path] = _slot_text(slot), SLOT_MARK
    if where.gateway is not None:
        made.texts |= _gateway_files(slots, where.gateway, settings, errors)
    if where.prometheus is not None:
        made.texts[where.prometheus / "targets.json"] = json.dumps(make_targets(slots), indent=1) + "\n"
        made.texts[where.prometheus / "rules.yml"] = dump_document(make_rules(slots))
    if where.engines is not None:
        for command in command_documents(slots, settings):
            if "reason" in command:
                made.without_command.setdefault(command["reason"], []).append(command["slot"])
                continue
            if "compose_reason" in command:
                made.without_image.setdefault(command["compose_reason"], []).append(command["slot"])
            for name, text in command["files"].items():
                path = where.engines / folder(command) / name
                made.texts[path], made.marks[path] = text, TEXT_MARK
    if errors:
        raise InputError(errors)
    return made


def _slot_text(slot: Mapping[str, t.Any]) -> str:
    """Return a slot with our mark first, and last what is one line: a text that was cut lacks it."""
    rest = {key: value for key, value in slot.items() if key not in ("managed_by", "version")}
    return dump_document({"managed_by": slot["managed_by"], **rest, "version": slot["version"]})


def _gateway_files(slots: Documents, directory: Path, settings: Settings, errors: list[str]) -> dict[Path, str]:
    found = {}
    for form in FORMATS:
        try:
            made = make_gateway(slots, form, api_key_env=settings.api_key_env, request_timeout=settings.request_timeout)
            found[directory / f"{form}.yaml"] = dump_document(made)
        except InputError as exc:
            errors += [error for error in exc.errors if error not in errors]
    return found


def find_document_errors(slots: t.Any) -> list[str]:
    """Return what is wrong with slot documents: their shape, and ids that stand twice."""
    if not isinstance(slots, list):
        return ["slots: expected a list of documents"]
    errors: list[str] = []
    seen: set[str] = set()
    for index, slot in enumerate(slots):
        errors += check(slot, "slot", f"slots[{index}]")
        name = str(slot.get("slot")) if isinstance(slot, dict) else ""
        if name in seen:
            errors.append(f"slots[{index}]: the slot {name} stands twice")
        seen.add(name)
    return errors
