# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What all actions from files to files on the controller have in common."""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

from ansible.module_utils.basic import missing_required_lib
from ansible.plugins.action import ActionBase
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.yaml_file import YAML_IMPORT_ERROR
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.digests import Written, remember
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.catalog import catalog_directories
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import raw_variables, stop_at, to_plain
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.preview import handing_over
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.declared import PLANNED, find_slips
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import plural

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import FileChange
    from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.declared import Variables

Options = dict[str, t.Any]

CATALOG_SPEC: dict[str, dict[str, t.Any]] = {"catalog": {"type": "list", "elements": "path", "default": []}}
# Options that say where a fleet is read from.
FLEET_SPEC: dict[str, dict[str, t.Any]] = {
    "profiles": {"type": "path", "required": True},
    "hosts": {"type": "list", "elements": "str", "required": True},
    **CATALOG_SPEC,
}


@dataclass(slots=True)
class Made:
    """The files that have to change, and what the task returns beside that; with ``failed`` in it nothing is written.

    ``documents`` are those of its files that are read again, whether they change or not. Directories below ``swept``
    that removed files leave empty are removed too.
    """

    returned: dict[str, t.Any]
    changes: list[FileChange] = field(default_factory=list)
    documents: list[Written] = field(default_factory=list)
    swept: Path | None = None


class FileAction(ActionBase):
    """Reads files, writes files, in check mode none; bad input is reported whole and nothing is written then."""

    _supports_check_mode = True
    _supports_diff = True
    _requires_connection = False

    argument_spec: t.ClassVar[dict[str, dict[str, t.Any]]] = {}
    argument_rules: t.ClassVar[dict[str, t.Any]] = {}
    # What is said before the errors.
    refusal: t.ClassVar[str] = "Nothing was written"

    def make(self, options: Options) -> Made:
        """Work out what the files are to hold. Nothing is written here.

        :param options: the checked options; each path is absolute, and a catalog is the directories that are meant
        :raises InputError: with everything that is wrong in what was read
        """
        raise NotImplementedError

    def put(self, made: Made) -> None:
        """Write what has to change.

        :raises InputError: when a file cannot be written
        """
        for change in made.changes:
            change.write()
        removed = [change.path for change in made.changes if change.after is None]
        emptied = {parent for path in removed for parent in path.parents if made.swept in parent.parents}
        for directory in sorted(emptied, reverse=True):
            # What another put there stays, and so does its directory.
            with contextlib.suppress(OSError):
                directory.rmdir()

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Run the task."""
        del tmp
        self.task_vars = task_vars or {}
        result: dict[str, t.Any] = super().run(task_vars=self.task_vars)
        _unused, options = self.validate_argument_spec(argument_spec=self.argument_spec, **self.argument_rules)
        if YAML_IMPORT_ERROR:
            return {**result, "failed": True, "msg": missing_required_lib("PyYAML")}
        try:
            with handing_over(self.task_vars, only_shown=self._task.check_mode) as is_kept:
                made = self.make(self._resolve(options))
                if is_kept and not made.returned.get("failed"):
                    self.put(made)
                    remember(made.documents)
        except InputError as exc:
            msg = f"{self.refusal}. Invalid input, {plural(len(exc.errors), 'error')}:\n{exc}"
            return {**result, "failed": True, "errors": list(exc.errors), "msg": msg}
        result.update(made.returned)
        if not result.get("failed"):
            result["changed"] = bool(made.changes)
            if self._task.diff and self._supports_diff:
                result["diff"] = [change.diff() for change in made.changes]
        return result

    def declared(self, hosts: Sequence[str]) -> dict[str, Variables]:
        """Return what the inventory declares of each node, by its variables.

        :raises InputError: for names of variables that are nearly those which are read
        """
        found: dict[str, Variables] = {}
        errors: list[str] = []
        everything = self.task_vars["hostvars"]
        for name in hosts:
            raw = raw_variables(everything, name) if name in everything else {}
            if not PLANNED.isdisjoint(raw):
                # Only these go through templates.
                found[name] = to_plain({key: everything[name][key] for key in PLANNED if key in raw}, name)
            errors += [f"{name}: {slip}" for slip in find_slips(raw)]
        stop_at(errors)
        return found

    def _resolve(self, options: Options) -> Options:
        """Return the options with paths seen from the directory that the command was called in."""
        for name, spec in self.argument_spec.items():
            if spec["type"] == "path":
                options[name] = Path(options[name]).absolute() if options[name] else None
            elif spec is CATALOG_SPEC["catalog"]:
                options[name] = catalog_directories(options[name])
        return options
