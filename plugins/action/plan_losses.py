# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.file_action import (
    FLEET_SPEC,
    FileAction,
    Made,
    Options,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import to_plain
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.fleet import (
    read_fleet,
    read_plan,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.losses import ask_losses


class ActionModule(FileAction):
    """Says what the loss of nodes would mean for a plan."""

    _supports_diff = False

    argument_spec: t.ClassVar[dict[str, dict[str, t.Any]]] = {
        **FLEET_SPEC,
        "plan": {"type": "path", "required": True},
        "lost": {"type": "list", "elements": "raw", "default": []},
        "limit": {"type": "int"},
        "moves": {"type": "str", "choices": ["none", "relocate", "preempt"], "default": "none"},
        "passthrough": {"type": "bool", "default": True},
    }
    refusal = "The question cannot be answered"

    def make(self, options: Options) -> Made:
        """Answer the question."""
        fleet = read_fleet(options["profiles"], options["hosts"], options["catalog"], self.declared(options["hosts"]))
        plan = read_plan(options["plan"], fleet.errors)
        errors = [*fleet.all_errors(), *_lost_errors(options["lost"])]
        if errors or plan is None:
            raise InputError(errors)
        answers = ask_losses(
            plan,
            fleet.nodes,
            fleet.catalog,
            lost=to_plain(options["lost"], "lost") or None,
            limit=options["limit"],
            moves=options["moves"],
            passthrough=options["passthrough"],
        )
        lines = [one["text"] for one in answers] or ["Nothing is planned on any node."]
        table = "May it be lost?\n\n" + "".join(f"{line}\n" for line in lines)
        return Made({"catalog": options["catalog"], "answers": answers, "table": table})


def _lost_errors(lost: list[t.Any]) -> list[str]:
    return [
        f"lost[{at}]: must be the name of a node, or a list of names of nodes that are lost together"
        for at, one in enumerate(lost)
        if not isinstance(one, (str, list)) or not one or not all(isinstance(name, str) for name in one)
    ]
