# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""From files to files: plan, profiles, catalog and the last definitions in, the new definitions out."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog._load import (
    examine_directories,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog._plain import (
    plain_catalog,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog._problems import ERROR
from ansible_collections.knaster.inventory.plugins.plugin_utils._document_text import (
    DocumentError,
    dump_document,
    load_document,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._files import read_text
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement._options import (
    find_plan_errors,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._profile_files import (
    ProfileFileError,
    load_profiles,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision._commands import (
    render_commands,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision._inputs import (
    find_input_errors,
    previous_vms,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision._run import (
    Prepared,
    prepare,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision._settings import (
    SettingsError,
    read_settings,
)

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ansible_collections.knaster.inventory.plugins.plugin_utils._provision._preflight import (
        Allowed,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._provision._state import (
        Cluster,
    )


class VmInputError(Exception):
    """What the machines are defined from can not be used; ``errors`` has one text for each thing that is wrong."""

    def __init__(self, errors: Sequence[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = tuple(errors)


@dataclass(frozen=True, slots=True, kw_only=True)
class VmFiles:
    """What a run is going to do, and the texts of its files beside those that are there (None: there is no file)."""

    prepared: Prepared
    files: tuple[tuple[Path, str | None, str], ...]


def make_vm_files(
    path: Path,
    *,
    plan: Path,
    profiles: Path,
    hosts: Sequence[str],
    catalog: Sequence[str],
    settings: Mapping[str, t.Any],
    commands: Path | None,
    clusters: Mapping[str, Cluster] | None,
    allowed: Allowed,
    present: bool,
    only: Sequence[str] | None,
) -> VmFiles:
    """Read everything, and say what is to be done. Nothing is written.

    :param commands: where the definitions go as shell commands, where they are wanted
    :raises VmInputError: with everything that is wrong in what is read
    """
    errors: list[str] = []
    nodes: list[dict[str, t.Any]] = []
    try:
        nodes = load_profiles(profiles, hosts)
    except ProfileFileError as exc:
        errors += exc.errors
        nodes = exc.profiles
    document = (
        _read(plan, errors, missing="there is no plan; run knaster.inventory.placement before") if present else {}
    )
    if isinstance(document, dict):
        errors += [f"{plan}: {error}" for error in find_plan_errors(document, "plan")]
    examined = examine_directories(catalog, nodes=nodes)
    errors += [str(problem) for problem in examined.problems if problem.severity == ERROR]
    roles = plain_catalog(examined.catalog)["roles"]
    previous = _read(path, errors)
    if not errors:
        errors += [f"{path}: {error}" for error in find_input_errors({"previous": previous})]
        errors += [f"{plan}: {error}" for error in find_input_errors({"plan": document})]
    try:
        options = read_settings(settings)
    except SettingsError as exc:
        raise VmInputError([*errors, *exc.errors]) from exc
    if errors:
        raise VmInputError(errors)
    prepared = prepare(
        document or {},
        roles,
        nodes=nodes,
        previous=previous_vms(previous),
        settings=options,
        clusters=clusters,
        allowed=allowed,
        present=present,
        only=None if only is None else frozenset(only),
    )
    texts = []
    if present:
        texts.append((path, read_text(path), dump_document(prepared.definitions.document())))
        if commands is not None:
            texts.append((commands, read_text(commands), render_commands(prepared.definitions.vms)))
    return VmFiles(prepared=prepared, files=tuple(texts))


def _read(path: Path, errors: list[str], *, missing: str | None = None) -> dict[str, t.Any] | None:
    """The document of a file; None where there is none, which is an error where ``missing`` says so."""
    try:
        text = read_text(path)
        if text is not None:
            return load_document(text)
        if missing is not None:
            errors.append(f"{path}: {missing}")
    except (OSError, UnicodeDecodeError) as exc:
        errors.append(f"{path}: can not be read ({exc})")
    except DocumentError as exc:
        errors.append(f"{path}: {exc}; mend the file, or remove it")
    return None
