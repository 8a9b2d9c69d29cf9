# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Where a catalog lies, as a playbook names it."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import shorten

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
    """Return absolute paths for one directory or a list of them, seen from the user's current directory."""
    found: list[str] = []
    for item in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(item, (list, tuple)):
            found += as_directories(item)
        elif isinstance(item, (str, os.PathLike)) and str(item):
            found.append(os.path.abspath(os.path.expanduser(str(item))))
        else:
            raise TypeError(f"expected the path of a directory, found {shorten(repr(item))}")
    return found
