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
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet_files import (
    InputError,
    read_fleet,
    read_plan,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._losses import ask_losses

ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    "plan": {"type": "path", "required": True},
    "profiles": {"type": "path", "required": True},
    "hosts": {"type": "list", "elements": "str", "required": True},
    "catalog": {"type": "list", "elements": "path", "default": []},
    "lost": {"type": "list", "elements": "str", "default": []},
    "limit": {"type": "int"},
    "moves": {"type": "str", "choices": ["none", "relocate", "preempt"], "default": "none"},
    "passthrough": {"type": "bool", "default": True},
}


class ActionModule(ActionBase):
    _supports_check_mode = True
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
            answers = _answers(options, catalog)
        except InputError as exc:
            result.update(failed=True, errors=list(exc.errors))
            result["msg"] = f"The question can not be answered. Mistakes in what it is about: {len(exc.errors)}\n{exc}"
            return result
        lines = [one["text"] for one in answers] or ["Nothing is planned on any node."]
        result.update(changed=False, catalog=catalog, answers=answers)
        result["table"] = "May it be lost?\n\n" + "".join(f"{line}\n" for line in lines)
        return result


def _answers(options: dict[str, t.Any], catalog: list[str]) -> list[dict[str, t.Any]]:
    fleet = read_fleet(Path(options["profiles"]).absolute(), options["hosts"], catalog)
    plan = read_plan(Path(options["plan"]).absolute(), fleet.errors)
    errors = fleet.all_errors()
    if errors or plan is None:
        raise InputError(errors)
    try:
        return ask_losses(
            plan,
            fleet.nodes,
            fleet.catalog,
            lost=options["lost"] or None,
            limit=options["limit"],
            moves=options["moves"],
            passthrough=options["passthrough"],
        )
    except LookupError as exc:
        raise InputError([str(exc.args[0])]) from exc
