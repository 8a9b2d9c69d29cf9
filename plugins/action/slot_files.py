# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import contextlib
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
from ansible_collections.knaster.inventory.plugins.plugin_utils._files import write_text
from ansible_collections.knaster.inventory.plugins.plugin_utils._plain import to_plain
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry._outputs import (
    InputError,
    Outputs,
    Where,
    make_outputs,
    read_slots,
)

ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    "path": {"type": "path", "required": True},
    "plan": {"type": "path"},
    "documents": {"type": "list", "elements": "dict"},
    "catalog": {"type": "list", "elements": "path", "default": []},
    "vms": {"type": "path"},
    "registry_domain": {"type": "str", "default": ""},
    "gateway": {"type": "path"},
    "prometheus": {"type": "path"},
    "engines": {"type": "path"},
    "images": {"type": "dict", "default": {}},
    "api_key_env": {"type": "str", "default": "", "no_log": False},
    "prune": {"type": "bool", "default": False},
}


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_diff = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        del tmp
        result: dict[str, t.Any] = super().run(task_vars=task_vars or {})
        _unused, options = self.validate_argument_spec(
            argument_spec=ARGUMENT_SPEC,
            mutually_exclusive=[("plan", "documents")],
            required_one_of=[("plan", "documents")],
        )
        if YAML_IMPORT_ERROR:
            result.update(failed=True, msg=missing_required_lib("PyYAML"))
            return result
        where = Where(
            slots=Path(options["path"]).absolute(),
            gateway=_path(options["gateway"]),
            prometheus=_path(options["prometheus"]),
            engines=_path(options["engines"]),
        )
        warnings: list[str] = []
        try:
            catalog = [] if options["plan"] is None else catalog_directories(options["catalog"])
            if options["plan"] is not None:
                slots, warnings = read_slots(
                    Path(options["plan"]).absolute(),
                    catalog,
                    _path(options["vms"]),
                    registry_domain=options["registry_domain"],
                )
            else:
                slots = to_plain(options["documents"], "documents")
            made = make_outputs(
                slots,
                where,
                prune=options["prune"],
                images=to_plain(options["images"], "images"),
                api_key_env=options["api_key_env"],
            )
            if not self._task.check_mode:
                _write(made, where.engines)
        except InputError as exc:
            result.update(failed=True, errors=list(exc.errors))
            result["msg"] = f"No slot was written. Mistakes in what slots are made from: {len(exc.errors)}\n{exc}"
            return result
        except (OSError, TypeError) as exc:
            result.update(failed=True, msg=str(exc))
            return result
        changed = made.changed
        result.update(changed=bool(changed or made.removed), path=str(where.slots), catalog=catalog)
        result.update(files=[str(path) for path in changed], removed=[str(path) for path in made.removed])
        result.update(slots=len(made.slots), file_count=len(made.after), without_command=made.without_command)
        result.update(catalog_warnings=warnings, summary=_summary(made))
        if self._task.diff:
            result["diff"] = _diff(made)
        return result


def _path(value: str | None) -> Path | None:
    return None if value is None else Path(value).absolute()


def _write(made: Outputs, engines: Path | None) -> None:
    changed = made.changed
    for directory in sorted({path.parent for path in changed}):
        directory.mkdir(parents=True, exist_ok=True)
    for path in changed:
        write_text(path, made.after[path])
    for path in made.removed:
        path.unlink(missing_ok=True)
    if engines is None:
        return
    emptied = {parent for path in made.removed for parent in path.parents if engines in parent.parents}
    for directory in sorted(emptied, reverse=True):
        # What another put there stays, and so does its directory.
        with contextlib.suppress(OSError):
            directory.rmdir()


def _summary(made: Outputs) -> str:
    serving = [slot for slot in made.slots if slot.get("model") is not None]
    models = len({slot["model"] for slot in serving})
    lines = [f"{len(made.slots)} slots, {len(serving)} of them serve one of {models} models."]
    lines += [
        f"{len(made.changed)} of {len(made.after)} files written, {len(made.removed)} removed.",
    ]
    for reason, slots in sorted(made.without_command.items()):
        some = ", ".join(slots[:3]) + (f" and {len(slots) - 3} more" if len(slots) > 3 else "")
        lines.append(f"No start command, {reason}: {some}")
    return "\n".join(lines) + "\n"


def _diff(made: Outputs) -> list[dict[str, str]]:
    changes = [(path, made.before[path] or "", made.after[path]) for path in made.changed]
    changes += [(path, text, "") for path, text in made.removed.items()]
    return [
        {"before": before, "after": after, "before_header": str(path), "after_header": str(path)}
        for path, before, after in changes
    ]
