# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import find_changes
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.file_action import (
    FileAction,
    Made,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.profiles import (
    dump_profile,
    load_profiles,
    profile_path,
    unreachable_profile,
)


class ActionModule(FileAction):
    argument_spec: t.ClassVar[dict[str, dict[str, t.Any]]] = {
        "directory": {"type": "path", "required": True},
        "hosts": {"type": "list", "elements": "str", "required": True},
        "result": {"type": "str", "required": True},
    }
    refusal = "No profile was saved. Mistakes in the profiles that are there"

    def make(self, options: dict[str, t.Any], task_vars: dict[str, t.Any]) -> Made:
        directory = Path(options["directory"]).absolute()
        texts = self._texts(directory, options, task_vars["hostvars"])
        changes = find_changes(dict(sorted(texts.items())))
        return Made({"files": [str(change.path) for change in changes]}, changes)

    def _texts(self, directory: Path, options: dict[str, t.Any], hostvars: t.Any) -> dict[Path, str]:
        """Return what the files are to hold: this run's profiles, and the last ones of nodes that gave no answer."""
        texts = {}
        for name in options["hosts"]:
            # The variables as they are: templating every value of every host would cost more than all the rest.
            result = hostvars.raw_get(name).get(options["result"]) or {}
            profile = result.get("ansible_facts", {}).get("knaster_node")
            if profile is None:
                (last,) = load_profiles(directory, [name])
                profile = unreachable_profile(name, last)
            texts[profile_path(directory, name)] = dump_profile(profile)
        return texts
