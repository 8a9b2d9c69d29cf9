# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors


from __future__ import annotations

import typing as t
from pathlib import Path

from ansible.module_utils.basic import missing_required_lib
from ansible.plugins.action import ActionBase
from ansible_collections.knaster.inventory.plugins.module_utils._replicas.observe import (
    ASKING_ARGUMENT_SPEC,
    find_asking_errors,
    find_slot_errors,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.load import YAML_IMPORT_ERROR
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import check
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import collecting
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.catalog import catalog_directories
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import to_plain
from ansible_collections.knaster.inventory.plugins.plugin_utils._observe.document import (
    questions,
    with_catalog,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.fleet import read_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.registry import load_slots

ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    "slots": {"type": "list", "elements": "dict"},
    "slots_dir": {"type": "path"},
    "catalog": {"type": "list", "elements": "path", "default": []},
    "previous": {"type": "list", "elements": "dict", "default": []},
    "draining": {"type": "list", "elements": "str", "default": []},
    **ASKING_ARGUMENT_SPEC,
}


class ActionModule(ActionBase):
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        del tmp
        task_vars = task_vars or {}
        result: dict[str, t.Any] = super().run(task_vars=task_vars)
        _unused, options = self.validate_argument_spec(
            argument_spec=ARGUMENT_SPEC,
            mutually_exclusive=[("slots", "slots_dir")],
            required_one_of=[("slots", "slots_dir")],
        )
        if YAML_IMPORT_ERROR:
            result.update(failed=True, msg=missing_required_lib("PyYAML"))
            return result
        errors: list[str] = []
        catalog, _unused = read_catalog(catalog_directories(options.pop("catalog")), errors)
        slots, previous = _given(options, errors)
        if errors:
            result.update(failed=True, errors=errors)
            result["msg"] = f"No replica was queried. Invalid input: {len(errors)}\n" + "\n".join(errors)
            return result
        asked = {key: options[key] for key in (*ASKING_ARGUMENT_SPEC, "draining")}
        answer = self._execute_module(
            module_name="knaster.inventory.replica_info",
            module_args={**asked, "slots": questions(slots), "previous": previous},
            task_vars=task_vars,
        )
        # What the module was called with is all slots once more.
        answer.pop("invocation", None)
        result.update(answer)
        if not result.get("failed"):
            result["replicas"] = with_catalog(result["replicas"], catalog)
        return result


def _given(options: dict[str, t.Any], errors: list[str]) -> tuple[list[dict[str, t.Any]], list[dict[str, t.Any]]]:
    """Return the slots and what was observed last; what is wrong with them is added to the errors."""
    slots: list[dict[str, t.Any]] = []
    previous: list[dict[str, t.Any]] = []
    with collecting(errors):
        if options["slots_dir"] is not None:
            slots = load_slots(Path(options["slots_dir"]).absolute())
        else:
            slots = to_plain(options["slots"], "slots")
    with collecting(errors):
        previous = to_plain(options["previous"], "previous")
    errors += find_slot_errors(slots)
    if previous:
        errors += check({"version": 1, "replicas": previous}, "observed", "previous")
    errors += find_asking_errors(options)
    return slots, previous
