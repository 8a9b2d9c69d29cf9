# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._replicas.observe import (
    ASKING_ARGUMENT_SPEC,
    find_asking_errors,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.digests import Written
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import collecting
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import find_changes
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.file_action import (
    FLEET_SPEC,
    FileAction,
    Made,
    Options,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import stop_at
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import DRAINING
from ansible_collections.knaster.inventory.plugins.plugin_utils._observe.document import (
    count_states,
    dump_observed,
    format_observed,
    questions,
    with_catalog,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.fleet import read_fleet
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.observe import read_observed
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.registry import load_slots


class ActionModule(FileAction):
    """Queries the engines behind the slots and writes what they do."""

    # The engines are queried from where the task runs.
    _requires_connection = True

    argument_spec: t.ClassVar[dict[str, dict[str, t.Any]]] = {
        **FLEET_SPEC,
        "path": {"type": "path", "required": True},
        "slots_dir": {"type": "path", "required": True},
        **ASKING_ARGUMENT_SPEC,
    }
    refusal = "No replica was queried"

    def make(self, options: Options) -> Made:
        """Query the replicas of the slots."""
        path = options["path"]
        fleet = read_fleet(options["profiles"], options["hosts"], options["catalog"], self.declared(options["hosts"]))
        errors = fleet.errors
        slots: list[dict[str, t.Any]] = []
        with collecting(errors):
            slots = load_slots(options["slots_dir"])
        previous = read_observed(path, errors)
        stop_at([*fleet.all_errors(), *find_asking_errors(options)])
        asked = {
            **{key: options[key] for key in ASKING_ARGUMENT_SPEC},
            "slots": questions(slots),
            "previous": previous,
            "draining": [node["name"] for node in fleet.nodes if node.get("state") == DRAINING],
        }
        answer = self._execute_module(
            module_name="knaster.inventory.replica_info", module_args=asked, task_vars=self.task_vars
        )
        if answer.get("failed"):
            answer.pop("invocation", None)
            return Made(answer)
        replicas = with_catalog(answer["replicas"], fleet.catalog)
        returned = {
            "path": str(path),
            "catalog": options["catalog"],
            "states": count_states(replicas),
            "empty": answer["empty"],
            "table": format_observed(replicas, answer["empty"]),
        }
        text = dump_observed(replicas)
        return Made(returned, find_changes({path: text}), [Written(path, "observed", text)])
