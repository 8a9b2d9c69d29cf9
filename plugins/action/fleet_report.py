# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.file_action import (
    FLEET_SPEC,
    FileAction,
    Made,
    Options,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.report import (
    Sources,
    Targets,
    make_fleet_report,
)


class ActionModule(FileAction):
    """Sums a fleet up and writes summary, metrics and page."""

    argument_spec: t.ClassVar[dict[str, dict[str, t.Any]]] = {
        **FLEET_SPEC,
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

    def make(self, options: Options) -> Made:
        """Sum the fleet up."""
        made = make_fleet_report(
            Sources(
                profiles=options["profiles"],
                hosts=options["hosts"],
                catalog=options["catalog"],
                declared=self.declared(options["hosts"]),
                plan=options["plan"],
                observed=options["observed"],
                slots=options["slots_dir"],
            ),
            Targets(summary=options["summary"], metrics=options["metrics"], page=options["page"]),
            title=options["title"],
            losses=options["losses"],
            passthrough=options["passthrough"],
        )
        returned = {
            "files": [str(change.path) for change in made.changes],
            "catalog": options["catalog"],
            "catalog_warnings": list(made.warnings),
            "table": made.table,
            "attention": made.summary["attention"],
        }
        return Made(returned, made.changes)
