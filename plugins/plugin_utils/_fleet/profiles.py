# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The saved profiles of a fleet: one JSON file a node in one directory.

A node that could not be reached keeps what was last known of it, with the state ``unreachable``.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import collecting
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import (
    FileError,
    file_stem,
    is_directory,
    list_names,
    read_document,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import natural_key

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

UNREACHABLE = "unreachable"


def profile_path(directory: Path, name: str) -> Path:
    """Return where the profile of a node is kept."""
    return directory / f"{file_stem(name)}.json"


def dump_profile(profile: Mapping[str, t.Any]) -> str:
    """Return a profile as the text of its file."""
    return json.dumps(profile, indent=1) + "\n"


def unreachable_profile(name: str, last: Mapping[str, t.Any] | None = None) -> dict[str, t.Any]:
    """Return the profile of a node that could not be reached: the last one, or all that is known without it."""
    return {**(last or {"name": name, "gpus": None}), "state": UNREACHABLE}


def list_strays(directory: Path, names: Iterable[str]) -> list[str]:
    """Return the names of profile files that belong to none of these nodes, in order; no directory has none."""
    known = {profile_path(directory, name).name for name in names}
    names = list_names(directory) if is_directory(directory) else ()
    found = {name for name in names if name.endswith(".json") and not name.startswith(".")}
    return sorted(found - known, key=natural_key)


def load_profiles(directory: Path, names: Iterable[str], errors: list[str]) -> list[dict[str, t.Any]]:
    """Return the profiles of the named nodes that can be read; a node without a file is unreachable.

    :param errors: a text for each file that is there and is not the profile of its node is added here
    """
    profiles: list[dict[str, t.Any]] = []
    for name in names:
        path = profile_path(directory, name)
        with collecting(errors):
            profile = read_document(path)
            if profile is None:
                profile = unreachable_profile(name)
            elif profile.get("name") != name:
                raise FileError(path, f"is not the profile of {name}", "restore it, or remove it and collect the node")
            profiles.append(profile)
    return profiles
