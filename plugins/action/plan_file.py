# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible.module_utils.basic import missing_required_lib
from ansible.plugins.action import ActionBase
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog._edge import (
    catalog_directories,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog._load import (
    YAML_IMPORT_ERROR,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet_files import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._plan_file import (
    make_plan_file,
    write_plan_file,
)

ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    "path": {"type": "path", "required": True},
    "profiles": {"type": "path", "required": True},
    "hosts": {"type": "list", "elements": "str", "required": True},
    "catalog": {"type": "list", "elements": "path", "default": []},
    "fresh": {"type": "bool", "default": False},
    "moves": {"type": "str", "choices": ["none", "relocate", "preempt"], "default": "none"},
    "rebalance": {"type": "bool", "default": False},
    "rescue": {"type": "bool", "default": True},
    "passthrough": {"type": "bool", "default": True},
}


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_diff = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        del tmp
        result: dict[str, t.Any] = super().run(task_vars=task_vars or {})
        _unused, options = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)
        if YAML_IMPORT_ERROR:
            result.update(failed=True, msg=missing_required_lib("PyYAML"))
            return result
        path = Path(options.pop("path")).absolute()
        options["profiles"] = Path(options["profiles"]).absolute()
        options["catalog"] = catalog_directories(options["catalog"])
        try:
            made = make_plan_file(path, **options)
            changed = made.after != made.before
            if changed and not self._task.check_mode:
                write_plan_file(path, made)
        except InputError as exc:
            result.update(failed=True, errors=list(exc.errors))
            result["msg"] = f"Nothing was planned. Mistakes in what it is made from: {len(exc.errors)}\n{exc}"
            return result
        except OSError as exc:
            result.update(failed=True, msg=str(exc))
            return result
        result.update(changed=changed, path=str(path), catalog=options["catalog"], table=made.table)
        result.update(catalog_warnings=list(made.warnings), unplaced=made.document["unplaced"])
        result["changes"] = made.document["changes"]
        if self._task.diff:
            header = {"before_header": str(path), "after_header": str(path)}
            result["diff"] = {"before": made.before or "", "after": made.after, **header}
        return result
