# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""From files to files: plan, profiles, catalog and the last definitions in, the new definitions out."""

from __future__ import annotations

import os
import secrets
import typing as t
from dataclasses import dataclass, replace
from pathlib import Path

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.load import is_shipped
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.plain import plain_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.digests import Written, read_checked
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError, collecting
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import find_changes
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.vms import vms_document
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.yaml_text import dump_document
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.commands import render_commands
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.findings import make_finding
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.run import (
    Last,
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

    from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import FileChange
    from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.state import Cluster

_FLEET_BYTES = 4


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
    if not errors:
        with collecting(errors):
            run = replace(run, settings=replace(run.settings, fleet=_find_fleet(sources, run, previous, clusters)))
    if errors:
        raise InputError(errors)
    layers = _find_layers(sources)
    remembered = (previous or {}).get("layers") or []
    last = Last(
        vms=(previous or {}).get("vms") or [],
        earlier=(previous or {}).get("earlier") or [],
        is_there=previous is not None,
        lost_layers=tuple(layer for layer in remembered if layer not in layers),
    )
    prepared = prepare(
        plan or {},
        plain_catalog(fleet.catalog)["roles"],
        nodes=fleet.nodes,
        previous=last,
        clusters=clusters,
        run=run,
    )
    texts: dict[Path, str] = {}
    documents = []
    if run.present:
        memory = _memory(prepared, run, last, layers=layers, is_asked=clusters is not None)
        texts[sources.vms] = dump_document(vms_document(list(prepared.definitions.vms), **memory))
        documents.append(Written(sources.vms, "vm", texts[sources.vms]))
        if sources.commands is not None:
            texts[sources.commands] = render_commands(prepared.definitions.vms)
    return VmFiles(prepared=prepared, files=tuple(texts), changes=find_changes(texts), documents=documents)


def remember_addresses(vms: Path, addresses: Mapping[str, str]) -> tuple[list[FileChange], list[Written]]:
    """Put addresses into the file of definitions, by the names of VMs; nothing is written.

    :raises InputError: where the file is missing or wrong
    """
    document = read_checked(vms, "vm")
    if document is None:
        raise InputError([f"{vms}: not found; define the VMs first"])
    for one in document["vms"]:
        if addresses.get(one["name"]):
            one["address"] = addresses[one["name"]]
    text = dump_document(document)
    return find_changes({vms: text}), [Written(vms, "vm", text)]


def _find_fleet(
    sources: Sources, run: Run, previous: Mapping[str, t.Any] | None, clusters: Mapping[str, Cluster] | None
) -> str:
    """Return the fleet of the file of definitions, else that of the settings, else a new one.

    :raises InputError: where both say something else, or marks on a cluster may be ours and nothing says so
    """
    kept, said = str((previous or {}).get("fleet") or ""), run.settings.fleet
    if kept and said and kept != said:
        raise InputError(
            [
                f"{sources.vms}: is of the fleet {kept}, and knaster_fleet is {said}; name another file, or set it to {kept}"
            ]
        )
    if kept or said or clusters is None:
        return kept or said
    fleets = sorted({guest.fleet for cluster in clusters.values() for guest in cluster.guests.values() if guest.fleet})
    if fleets:
        finding = make_finding("fleet_unknown", fleets=", ".join(fleets))
        raise InputError([f"{sources.vms}: {finding.text}; {finding.remedy}"])
    return secrets.token_hex(_FLEET_BYTES)


def _find_layers(sources: Sources) -> list[str]:
    """Return the files of the user's catalog, as seen from the file of definitions, so that a checkout elsewhere is the same."""
    found = []
    for name in sources.catalog:
        directory = Path(name)
        if directory.is_dir() and not is_shipped(name):
            found += [path for path in directory.iterdir() if path.suffix in (".yaml", ".yml")]
    return sorted(os.path.relpath(path, sources.vms.parent) for path in found)


def _memory(prepared: Prepared, run: Run, last: Last, *, layers: Sequence[str], is_asked: bool) -> dict[str, t.Any]:
    """Return what the file of definitions remembers beside them."""
    earlier = list(prepared.earlier) if is_asked else list(last.earlier)
    # A layer that is lost is remembered while there are VMs that it may have wanted.
    kept = sorted({*layers, *prepared.lost_layers})
    return {"fleet": run.settings.fleet, "layers": kept, "earlier": earlier}
