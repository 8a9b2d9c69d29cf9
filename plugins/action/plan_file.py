# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.digests import Written
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import find_changes
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.file_action import (
    FLEET_SPEC,
    FileAction,
    Made,
    Options,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.fleet import previous_path
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.plan import (
    make_plan_file,
    write_plan_file,
)


class ActionModule(FileAction):
    """Makes the plan of a fleet and writes it."""

    argument_spec: t.ClassVar[dict[str, dict[str, t.Any]]] = {
        **FLEET_SPEC,
        "path": {"type": "path", "required": True},
        "slots_dir": {"type": "path"},
        "smaller": {"type": "bool", "default": False},
        "fresh": {"type": "bool", "default": False},
        "moves": {"type": "str", "choices": ["none", "relocate", "preempt"], "default": "none"},
        "rebalance": {"type": "bool", "default": False},
        "rescue": {"type": "bool", "default": True},
        "passthrough": {"type": "bool", "default": True},
    }
    refusal = "No plan was written"

    def make(self, options: Options) -> Made:
        """Make the plan."""
        path = options.pop("path")
        slots = options.pop("slots_dir")
        made = make_plan_file(path, **options, slots=slots, declared=self.declared(options["hosts"]))
        returned = {
            "path": str(path),
            "catalog": options["catalog"],
            "catalog_warnings": list(made.warnings),
            "warnings": made.notices,
            "table": made.table,
            "unplaced": made.document["unplaced"],
            "changes": made.document["changes"],
        }
        changes = find_changes({path: made.text})
        documents = [Written(path, "plan", made.text)]
        if not options["fresh"]:
            # The last plan was read and found right, and is kept beside this one where this one is another.
            documents += [Written(previous_path(path), "plan", change.before) for change in changes if change.before]
        return Made(returned, changes, documents)

    def put(self, made: Made) -> None:
        """Write the plan, and keep the last one beside it."""
        for change in made.changes:
            write_plan_file(change)
