# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""From files to files: plan, profiles, catalog and the last definitions in, the new definitions out."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.plain import plain_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.digests import Written, read_checked
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError, collecting
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import find_changes
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.yaml_text import dump_document
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.commands import render_commands
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.run import (
    Prepared,
    prepare,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.settings import (
    Settings,
    read_settings,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.fleet import (
    read_fleet,
    read_plan,
)

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import FileChange
    from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.preflight import Allowed
    from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.state import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class VmFiles:
    """What a run is going to do, its files, and those of them that do not hold what they should."""

    prepared: Prepared
    files: tuple[Path, ...]
    changes: list[FileChange]
    documents: list[Written]


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
    :raises InputError: with everything that is wrong in what is read
    """
    fleet = read_fleet(profiles, hosts, catalog)
    errors = fleet.errors
    document = read_plan(plan, errors) if present else {}
    previous = None
    with collecting(errors):
        previous = read_checked(path, "vm")
    options = Settings()
    with collecting(errors):
        options = read_settings(settings)
    if errors:
        raise InputError(errors)
    prepared = prepare(
        document or {},
        plain_catalog(fleet.catalog)["roles"],
        nodes=fleet.nodes,
        previous=[] if previous is None else previous["vms"],
        settings=options,
        clusters=clusters,
        allowed=allowed,
        present=present,
        only=None if only is None else frozenset(only),
    )
    texts = {}
    documents = []
    if present:
        texts[path] = dump_document(prepared.definitions.document())
        documents.append(Written(path, "vm", texts[path]))
        if commands is not None:
            texts[commands] = render_commands(prepared.definitions.vms)
    return VmFiles(prepared=prepared, files=tuple(texts), changes=find_changes(texts), documents=documents)
