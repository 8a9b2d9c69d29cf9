# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""A fleet from its files: the saved profiles and the directories of the catalog, with everything that is wrong in them."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.load import examine_directories
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import ERROR
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.digests import read_checked
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import collecting
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.declared import (
    find_declared_errors,
    with_declared,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import find_node_errors
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.profiles import list_strays, load_profiles
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import listing, plural

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Catalog
    from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.declared import Variables


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFiles:
    """What could be read, what is wrong with it, and warnings of catalog and profiles."""

    nodes: list[dict[str, t.Any]]
    catalog: Catalog
    errors: list[str]
    warnings: tuple[str, ...]

    def all_errors(self) -> list[str]:
        """Everything that is wrong, what is inside the profiles included."""
        return [*self.errors, *find_node_errors(self.nodes)]


def read_fleet(
    profiles: Path, hosts: Sequence[str], catalog: Sequence[str], declared: Mapping[str, Variables] | None = None
) -> FleetFiles:
    """Read profiles and catalog. What is inside the profiles is left to who reads them next.

    :param profiles: the directory of saved profiles
    :param hosts: the nodes of the fleet
    :param catalog: directories, the later one changing entries of the earlier by name
    :param declared: the variables of the inventory by node; None leaves the profiles as they are
    """
    errors: list[str] = []
    nodes = load_profiles(profiles, hosts, errors)
    if declared is not None:
        wrong = [f"{name}: {error}" for name in hosts for error in find_declared_errors(declared.get(name, {}))]
        errors += wrong
        if not wrong:
            nodes = [with_declared(node, declared.get(node["name"], {})) for node in nodes]
    found, warnings = read_catalog(catalog, errors, nodes=nodes)
    strays = list_strays(profiles, hosts)
    if strays:
        told = f"{plural(len(strays), 'profile')} of nodes outside the inventory of this run ({listing(strays)})"
        remedy = "they are left out; run with the whole inventory, or remove them where the nodes are gone"
        warnings = (*warnings, f"{profiles}: {told}: {remedy}")
    return FleetFiles(nodes=nodes, catalog=found, errors=errors, warnings=warnings)


def read_catalog(
    directories: Sequence[str], errors: list[str], *, nodes: Sequence[t.Any] = ()
) -> tuple[Catalog, tuple[str, ...]]:
    """Read the catalog of directories, and its warnings. What is wrong is added to the errors.

    :param nodes: profiles to hold the catalog against
    """
    examined = examine_directories(directories, nodes=nodes)
    errors += [str(problem) for problem in examined.problems if problem.severity == ERROR]
    return examined.catalog, tuple(str(problem) for problem in examined.problems if problem.severity != ERROR)


def read_plan(path: Path, errors: list[str], *, required: bool = True) -> dict[str, t.Any] | None:
    """Read the plan of a file. What is wrong is added to the errors, and there is no plan then."""
    document = None
    with collecting(errors):
        document = read_checked(path, "plan")
        if document is None and required:
            errors.append(f"{path}: not found; run placement first")
    return document


def previous_path(path: Path) -> Path:
    """Return where the plan before the one of this file is kept."""
    return path.with_name(f"{path.stem}.previous{path.suffix}")
