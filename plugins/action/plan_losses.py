# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.catalog import catalog_directories
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.file_action import (
    FLEET_SPEC,
    FileAction,
    Made,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.fleet import (
    read_fleet,
    read_plan,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.losses import ask_losses


class ActionModule(FileAction):
    _supports_diff = False

    argument_spec: t.ClassVar[dict[str, dict[str, t.Any]]] = {
        **FLEET_SPEC,
        "plan": {"type": "path", "required": True},
        "lost": {"type": "list", "elements": "str", "default": []},
        "limit": {"type": "int"},
        "moves": {"type": "str", "choices": ["none", "relocate", "preempt"], "default": "none"},
        "passthrough": {"type": "bool", "default": True},
    }
    refusal = "The question cannot be answered. Invalid input"

    def make(self, options: dict[str, t.Any], task_vars: dict[str, t.Any]) -> Made:
        del task_vars
        catalog = catalog_directories(options["catalog"])
        answers = _answers(options, catalog)
        lines = [one["text"] for one in answers] or ["Nothing is planned on any node."]
        table = "May it be lost?\n\n" + "".join(f"{line}\n" for line in lines)
        return Made({"catalog": catalog, "answers": answers, "table": table})


def _answers(options: dict[str, t.Any], catalog: list[str]) -> list[dict[str, t.Any]]:
    fleet = read_fleet(Path(options["profiles"]).absolute(), options["hosts"], catalog)
    plan = read_plan(Path(options["plan"]).absolute(), fleet.errors)
    errors = fleet.all_errors()
    if errors or plan is None:
        raise InputError(errors)
    return ask_losses(
        plan,
        fleet.nodes,
        fleet.catalog,
        lost=options["lost"] or None,
        limit=options["limit"],
        moves=options["moves"],
        passthrough=options["passthrough"],
    )
