# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""A catalog from its files to text: directories and saved profiles in, tables and warnings out."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.table import format_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.could_run import find_places
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.fleet import read_fleet

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.declared import Variables


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogReport:
    """How much there is in a catalog, and its tables; ``nodes`` of the fleet are those whose GPUs are known."""

    models: int
    roles: int
    nodes: int
    table: str
    warnings: tuple[str, ...]


def describe_catalog(
    profiles: Path, hosts: Sequence[str], catalog: Sequence[str], declared: Mapping[str, Variables] | None = None
) -> CatalogReport:
    """Describe a catalog, held against the nodes of a fleet.

    :param profiles: the directory of saved profiles
    :param hosts: the nodes of the fleet
    :param catalog: directories, the later one changing entries of the earlier by name
    :param declared: the variables of the inventory by node
    :raises InputError: with everything that is wrong in catalog and profiles
    """
    fleet = read_fleet(profiles, hosts, catalog, declared)
    # A node whose GPUs are not known could run anything or nothing.
    nodes = [node for node in fleet.nodes if node.get("gpus") is not None]
    errors = fleet.all_errors()
    if errors:
        raise InputError(errors)
    found = fleet.catalog
    return CatalogReport(
        models=len(found.models),
        roles=len(found.roles),
        nodes=len(nodes),
        table=format_catalog(found, find_places(found, nodes) if nodes else None),
        warnings=fleet.warnings,
    )
