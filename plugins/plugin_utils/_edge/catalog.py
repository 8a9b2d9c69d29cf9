# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Where a catalog lies, as a playbook names it."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import SECTIONS, examine_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import ERROR
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import shorten, shown, suggest

if t.TYPE_CHECKING:
    from collections.abc import Mapping

# The catalog that comes with the collection.
_SHIPPED = Path(os.path.realpath(__file__)).parents[3] / "catalog"


def catalog_directories(value: t.Any) -> list[str]:
    """Return the directories of the catalog that is meant: those that were named, as absolute paths.

    Without any it is ``catalog`` in the directory that Ansible was called in, else the one that comes with the
    collection. Everything that takes a catalog asks here, so that all of them mean the same one.
    """
    named = as_directories(value)
    if named:
        return named
    own = Path.cwd() / "catalog"
    return [str(own if own.is_dir() else _SHIPPED)]


def as_directories(value: t.Any) -> list[str]:
    """Return absolute paths for one directory or a list of them, seen from the user's current directory.

    :raises InputError: when a value is not a path
    """
    found: list[str] = []
    for item in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(item, (list, tuple)):
            found += as_directories(item)
        elif isinstance(item, (str, os.PathLike)) and str(item):
            found.append(os.path.abspath(os.path.expanduser(str(item))))
        else:
            raise InputError([f"expected the path of a directory, found {shorten(repr(item))}"])
    return found


def catalog_of(lists: t.Any, errors: list[str]) -> Catalog:
    """Return the catalog that the lookup C(catalog) gave, or that was written in its form; nothing is an empty one.

    :param errors: what is wrong is added here
    """
    if not lists:
        return Catalog()
    if not isinstance(lists, dict):
        errors.append(f"catalog: must be a map of lists ({', '.join(SECTIONS)}), found {shown(lists)}")
        return Catalog()
    known = (*SECTIONS, "directories", "sources", "warnings")
    errors += [
        f"catalog: {shown(key)} is not a list of a catalog; {suggest(str(key), SECTIONS)}"
        for key in lists
        if key not in known
    ]
    return catalog_of_lists(lists, errors)


def catalog_of_lists(lists: Mapping[str, t.Any], errors: list[str]) -> Catalog:
    """Return the catalog of the lists C(models), C(roles), C(gpus) and C(engines); any of them may be absent.

    Without a list of engines, an engine that is not built in is no error.

    :param errors: what is wrong is added here
    """
    found, problems = examine_catalog(lists, open_engines=lists.get("engines") is None)
    errors += [str(problem) for problem in problems if problem.severity == ERROR]
    return found
