# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What all actions from files to files on the controller have in common."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field
from pathlib import Path

from ansible.module_utils.basic import missing_required_lib
from ansible.plugins.action import ActionBase
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.load import YAML_IMPORT_ERROR
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.digests import Written, remember
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError

if t.TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import FileChange

# Options that say where a fleet is read from.
FLEET_SPEC: dict[str, dict[str, t.Any]] = {
    "profiles": {"type": "path", "required": True},
    "hosts": {"type": "list", "elements": "str", "required": True},
    "catalog": {"type": "list", "elements": "path", "default": []},
}


@dataclass(slots=True)
class Made:
    """The files that have to change, and what the task returns beside that; with ``failed`` in it nothing is written."""

    returned: dict[str, t.Any]
    changes: list[FileChange] = field(default_factory=list)
    # Those of its files that are read again, whether they change or not.
    documents: list[Written] = field(default_factory=list)


class FileAction(ActionBase):
    """Reads files, writes files, in check mode none; bad input is told whole and nothing is written then."""

    _supports_check_mode = True
    _supports_diff = True
    _requires_connection = False

    argument_spec: t.ClassVar[dict[str, dict[str, t.Any]]] = {}
    argument_rules: t.ClassVar[dict[str, t.Any]] = {}
    # What is said before the mistakes.
    refusal: t.ClassVar[str] = "Nothing was written. Invalid input"

    def make(self, options: dict[str, t.Any], task_vars: dict[str, t.Any]) -> Made:
        """Work out what the files are to hold. Nothing is written here.

        :raises InputError: with everything that is wrong in what was read
        """
        raise NotImplementedError

    def put(self, made: Made, options: dict[str, t.Any]) -> None:
        """Write what has to change."""
        del options
        for change in made.changes:
            change.write()

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Run the task."""
        del tmp
        result: dict[str, t.Any] = super().run(task_vars=task_vars or {})
        _unused, options = self.validate_argument_spec(argument_spec=self.argument_spec, **self.argument_rules)
        if YAML_IMPORT_ERROR:
            return {**result, "failed": True, "msg": missing_required_lib("PyYAML")}
        try:
            made = self.make(options, task_vars or {})
            if not (self._task.check_mode or made.returned.get("failed")):
                self.put(made, options)
                remember(made.documents)
        except InputError as exc:
            msg = f"{self.refusal}: {len(exc.errors)}\n{exc}"
            return {**result, "failed": True, "errors": list(exc.errors), "msg": msg}
        except (OSError, TypeError) as exc:
            return {**result, "failed": True, "msg": str(exc)}
        result.update(made.returned)
        if not result.get("failed"):
            result["changed"] = bool(made.changes)
            if self._task.diff and self._supports_diff:
                result["diff"] = diff_of(made.changes)
        return result


def diff_of(changes: Iterable[FileChange]) -> list[dict[str, str]]:
    """What ``--diff`` shows of all files."""
    return [change.diff() for change in changes]


def absolute(value: str | None) -> Path | None:
    """Return a path option against the directory that the command was called in; nothing is None."""
    return Path(value).absolute() if value else None
