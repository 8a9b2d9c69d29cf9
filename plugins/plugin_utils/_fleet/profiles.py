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

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import file_stem, read_document

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

UNREACHABLE = "unreachable"


class ProfileFileError(InputError):
    """Saved profiles that cannot be read; ``errors`` has one text for each file, ``profiles`` what could be read."""

    def __init__(self, errors: list[str], profiles: list[dict[str, t.Any]]) -> None:
        super().__init__(errors)
        self.profiles = profiles


def profile_path(directory: Path, name: str) -> Path:
    """Return where the profile of a node is kept."""
    return directory / f"{file_stem(name)}.json"


def dump_profile(profile: Mapping[str, t.Any]) -> str:
    """Return a profile as the text of its file."""
    return json.dumps(profile, indent=1) + "\n"


def unreachable_profile(name: str, last: Mapping[str, t.Any] | None = None) -> dict[str, t.Any]:
    """Return the profile of a node that could not be reached: the last one, or all that is known without it."""
    return {**(last or {"name": name, "gpus": None}), "state": UNREACHABLE}


def load_profiles(directory: Path, names: Iterable[str]) -> list[dict[str, t.Any]]:
    """Read the profiles of the named nodes; a node without a file is unreachable.

    :raises ProfileFileError: when a file is there and is no profile of its node
    """
    profiles = []
    errors: list[str] = []
    for name in names:
        path = profile_path(directory, name)
        try:
            profile = read_document(path)
        except InputError as exc:
            errors += exc.errors
            continue
        if profile is None:
            profile = unreachable_profile(name)
        elif profile.get("name") != name:
            errors.append(f"{path}: is not the profile of {name}; restore it, or collect the node again")
            continue
        profiles.append(profile)
    if errors:
        raise ProfileFileError(errors, profiles)
    return profiles
