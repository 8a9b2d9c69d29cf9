# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import find_changes
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.file_action import (
    FileAction,
    Made,
    Options,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import raw_variables
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.profiles import (
    dump_profile,
    load_profiles,
    profile_path,
    unreachable_profile,
)


class ActionModule(FileAction):
    """Writes the profiles that a task registered."""

    argument_spec: t.ClassVar[dict[str, dict[str, t.Any]]] = {
        "directory": {"type": "path", "required": True},
        "hosts": {"type": "list", "elements": "str", "required": True},
        "result": {"type": "str", "required": True},
    }
    refusal = "No profile was saved"

    def make(self, options: Options) -> Made:
        """Take the profiles of this run, and the last ones of nodes that gave no answer.

        The file of a node that gave no answer stays as it is where it cannot be read; the others are saved.
        """
        directory, texts = options["directory"], {}
        warnings: list[str] = []
        for name in sorted(options["hosts"]):
            result = raw_variables(self.task_vars["hostvars"], name).get(options["result"]) or {}
            profile = result.get("ansible_facts", {}).get("knaster_node")
            if profile is None:
                for last in load_profiles(directory, [name], warnings):
                    profile = unreachable_profile(name, last)
            if profile is not None:
                texts[profile_path(directory, name)] = dump_profile(profile)
        changes = find_changes(texts)
        return Made({"files": [str(change.path) for change in changes], "warnings": warnings}, changes)
