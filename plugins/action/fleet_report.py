# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.catalog import catalog_directories
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.file_action import (
    FLEET_SPEC,
    FileAction,
    Made,
    absolute,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.report import (
    Sources,
    Targets,
    make_fleet_report,
)


class ActionModule(FileAction):
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

    def make(self, options: dict[str, t.Any], task_vars: dict[str, t.Any]) -> Made:
        del task_vars
        catalog = catalog_directories(options["catalog"])
        made = make_fleet_report(
            Sources(
                profiles=Path(options["profiles"]).absolute(),
                hosts=options["hosts"],
                catalog=catalog,
                plan=Path(options["plan"]).absolute(),
                observed=absolute(options["observed"]),
                slots=absolute(options["slots_dir"]),
            ),
            Targets(
                summary=absolute(options["summary"]),
                metrics=absolute(options["metrics"]),
                page=absolute(options["page"]),
            ),
            title=options["title"],
            losses=options["losses"],
            passthrough=options["passthrough"],
        )
        returned = {"files": [str(change.path) for change in made.changes], "catalog": catalog, "table": made.table}
        returned |= {"catalog_warnings": list(made.warnings), "attention": made.summary["attention"]}
        return Made(returned, made.changes)
