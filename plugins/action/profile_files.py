# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible.plugins.action import ActionBase
from ansible_collections.knaster.inventory.plugins.plugin_utils._files import read_text, write_text
from ansible_collections.knaster.inventory.plugins.plugin_utils._profile_files import (
    ProfileFileError,
    dump_profile,
    load_profiles,
    profile_path,
    unreachable_profile,
)

ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    "directory": {"type": "path", "required": True},
    "hosts": {"type": "list", "elements": "str", "required": True},
    "result": {"type": "str", "required": True},
}


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_diff = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        del tmp
        task_vars = task_vars or {}
        result: dict[str, t.Any] = super().run(task_vars=task_vars)
        _unused, options = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)
        directory = Path(options["directory"]).absolute()
        try:
            texts = self._texts(directory, options, task_vars["hostvars"])
            changes = [
                (path, before, after) for path, after in sorted(texts.items()) if (before := read_text(path)) != after
            ]
            if changes and not self._task.check_mode:
                directory.mkdir(parents=True, exist_ok=True)
                for path, _before, after in changes:
                    write_text(path, after)
        except (OSError, ProfileFileError) as exc:
            result.update(failed=True, msg=str(exc))
            return result
        result.update(changed=bool(changes), files=[str(path) for path, _before, _after in changes])
        if self._task.diff:
            result["diff"] = [
                {"before": before or "", "after": after, "before_header": str(path), "after_header": str(path)}
                for path, before, after in changes
            ]
        return result

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
