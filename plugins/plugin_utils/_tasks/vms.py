# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""From files to files: plan, profiles, catalog and the last definitions in, the new definitions out."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.plain import plain_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.digests import Written, read_checked
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError, collecting
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import find_changes
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.yaml_text import dump_document
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.commands import render_commands
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.run import (
    Prepared,
    Run,
    prepare,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.settings import read_settings
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.fleet import (
    read_fleet,
    read_plan,
)

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import FileChange
    from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.state import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What definitions are read from and where they go, ``vms`` being both; ``commands`` only where they are wanted."""

    vms: Path
    plan: Path
    profiles: Path
    hosts: Sequence[str]
    catalog: Sequence[str]
    settings: Mapping[str, t.Any]
    commands: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VmFiles:
    """What a run is going to do, its files, and those of them that do not hold what they should."""

    prepared: Prepared
    files: tuple[Path, ...]
    changes: list[FileChange]
    documents: list[Written]


def make_vm_files(sources: Sources, run: Run, clusters: Mapping[str, Cluster] | None) -> VmFiles:
    """Read everything, and say what is to be done. Nothing is written.

    :param run: what the run is asked to do; its settings are those of the sources
    :param clusters: the state of each cluster; None where nothing is asked of them
    :raises InputError: with everything that is wrong in what is read
    """
    fleet = read_fleet(sources.profiles, sources.hosts, sources.catalog)
    errors = fleet.errors
    plan = read_plan(sources.plan, errors) if run.present else {}
    previous = None
    with collecting(errors):
        previous = read_checked(sources.vms, "vm")
    with collecting(errors):
        run = replace(run, settings=read_settings(sources.settings))
    if errors:
        raise InputError(errors)
    prepared = prepare(
        plan or {},
        plain_catalog(fleet.catalog)["roles"],
        nodes=fleet.nodes,
        previous=[] if previous is None else previous["vms"],
        clusters=clusters,
        run=run,
    )
    texts: dict[Path, str] = {}
    documents = []
    if run.present:
        texts[sources.vms] = dump_document(prepared.definitions.document())
        documents.append(Written(sources.vms, "vm", texts[sources.vms]))
        if sources.commands is not None:
            texts[sources.commands] = render_commands(prepared.definitions.vms)
    return VmFiles(prepared=prepared, files=tuple(texts), changes=find_changes(texts), documents=documents)
