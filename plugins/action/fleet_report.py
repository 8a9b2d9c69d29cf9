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
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet_report import (
    Sources,
    Targets,
    make_fleet_report,
)

ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    "profiles": {"type": "path", "required": True},
    "hosts": {"type": "list", "elements": "str", "required": True},
    "catalog": {"type": "list", "elements": "path", "default": []},
    "plan": {"type": "path", "required": True},
    "observed": {"type": "path"},
    "slots_dir": {"type": "path"},
    "summary": {"type": "path"},
    "metrics": {"type": "path"},
    "page": {"type": "path"},
    "title": {"type": "str", "default": "GPU fleet"},
    "losses": {"type": "int"},
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
        catalog = catalog_directories(options["catalog"])
        try:
            made = make_fleet_report(
                Sources(
                    profiles=Path(options["profiles"]).absolute(),
                    hosts=options["hosts"],
                    catalog=catalog,
                    plan=Path(options["plan"]).absolute(),
                    observed=_path(options["observed"]),
                    slots=_path(options["slots_dir"]),
                ),
                Targets(
                    summary=_path(options["summary"]),
                    metrics=_path(options["metrics"]),
                    page=_path(options["page"]),
                ),
                title=options["title"],
                losses=options["losses"],
                passthrough=options["passthrough"],
            )
            if not self._task.check_mode:
                for change in made.changes:
                    change.write()
        except InputError as exc:
            result.update(failed=True, errors=list(exc.errors))
            result["msg"] = f"Nothing was written. Mistakes in what it is made from: {len(exc.errors)}\n{exc}"
            return result
        except OSError as exc:
            result.update(failed=True, msg=str(exc))
            return result
        result.update(changed=bool(made.changes), files=[str(change.path) for change in made.changes])
        result.update(catalog=catalog, catalog_warnings=list(made.warnings), table=made.table)
        result["attention"] = made.summary["attention"]
        if self._task.diff:
            result["diff"] = [
                {
                    "before": change.before or "",
                    "after": change.after,
                    "before_header": str(change.path),
                    "after_header": str(change.path),
                }
                for change in made.changes
            ]
        return result


def _path(value: str | None) -> Path | None:
    return Path(value).absolute() if value else None
