# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import contextlib
import typing as t
from pathlib import Path

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.digests import Written
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.catalog import catalog_directories
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.file_action import (
    FileAction,
    Made,
    absolute,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import stop_at, to_plain
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.outputs import Where, find_document_errors
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.registry import Outputs, make_outputs, read_slots


class ActionModule(FileAction):
    argument_spec: t.ClassVar[dict[str, dict[str, t.Any]]] = {
        "path": {"type": "path", "required": True},
        "plan": {"type": "path"},
        "catalog": {"type": "list", "elements": "path", "default": []},
        "documents": {"type": "list", "elements": "dict"},
        "vms": {"type": "path"},
        "registry_domain": {"type": "str", "default": ""},
        "bare_metal": {"type": "bool", "default": False},
        "gateway": {"type": "path"},
        "prometheus": {"type": "path"},
        "engines": {"type": "path"},
        "images": {"type": "dict", "default": {}},
        "api_key_env": {"type": "str", "default": "", "no_log": False},
        "prune": {"type": "bool", "default": False},
    }
    argument_rules: t.ClassVar[dict[str, t.Any]] = {
        "mutually_exclusive": [("plan", "documents")],
        "required_one_of": [("plan", "documents")],
    }
    refusal = "No slot was written. Invalid input"

    def make(self, options: dict[str, t.Any], task_vars: dict[str, t.Any]) -> Made:
        del task_vars
        where = Where(
            slots=Path(options["path"]).absolute(),
            gateway=absolute(options["gateway"]),
            prometheus=absolute(options["prometheus"]),
            engines=absolute(options["engines"]),
        )
        plan = absolute(options["plan"])
        warnings: list[str] = []
        catalog: list[str] = []
        if plan is not None:
            catalog = catalog_directories(options["catalog"])
            slots, warnings = read_slots(
                plan,
                catalog,
                absolute(options["vms"]),
                registry_domain=options["registry_domain"],
                bare_metal=options["bare_metal"],
            )
        else:
            slots = to_plain(options["documents"], "documents")
            stop_at(find_document_errors(slots))
        made = make_outputs(
            slots,
            where,
            prune=options["prune"],
            images=to_plain(options["images"], "images"),
            api_key_env=options["api_key_env"],
        )
        returned: dict[str, t.Any] = {"path": str(where.slots), "catalog": catalog, "catalog_warnings": warnings}
        for key, changes in (("files", made.written), ("removed", made.removed)):
            returned[key] = [str(change.path) for change in changes]
        wanted = made.wanted
        returned |= {"slots": len(wanted.slots), "file_count": len(wanted.texts)}
        returned |= {"without_command": wanted.without_command, "summary": _summary(made)}
        documents = [Written(path, "slot", text) for path, text in wanted.texts.items() if path.parent == where.slots]
        return Made(returned, [*made.written, *made.removed], documents)

    def put(self, made: Made, options: dict[str, t.Any]) -> None:
        super().put(made, options)
        engines = absolute(options["engines"])
        if engines is None:
            return
        removed = [change.path for change in made.changes if change.after is None]
        emptied = {parent for path in removed for parent in path.parents if engines in parent.parents}
        for directory in sorted(emptied, reverse=True):
            # What another put there stays, and so does its directory.
            with contextlib.suppress(OSError):
                directory.rmdir()


def _summary(made: Outputs) -> str:
    wanted = made.wanted
    serving = [slot for slot in wanted.slots if slot.get("model") is not None]
    models = len({slot["model"] for slot in serving})
    lines = [f"{len(wanted.slots)} slots, {len(serving)} of them serve one of {models} models."]
    lines += [
        f"{len(made.written)} of {len(wanted.texts)} files written, {len(made.removed)} removed.",
    ]
    for reason, slots in sorted(wanted.without_command.items()):
        some = ", ".join(slots[:3]) + (f" and {len(slots) - 3} more" if len(slots) > 3 else "")
        lines.append(f"No start command, {reason}: {some}")
    return "\n".join(lines) + "\n"
