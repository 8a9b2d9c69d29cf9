# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors


from __future__ import annotations

import typing as t
from pathlib import Path

from ansible.module_utils.basic import missing_required_lib
from ansible.plugins.action import ActionBase
from ansible_collections.knaster.inventory.plugins.module_utils._replicas import (
    ASKING_ARGUMENT_SPEC,
    find_asking_errors,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog._edge import (
    catalog_directories,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog._load import (
    YAML_IMPORT_ERROR,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._files import read_text, write_text
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet_files import (
    InputError,
    read_fleet,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._observe._observed import (
    count_states,
    dump_observed,
    format_observed,
    questions,
    read_observed,
    with_catalog,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement._nodes import DRAINING
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry._outputs import (
    InputError as SlotFileError,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry._outputs import (
    load_slots,
)

if t.TYPE_CHECKING:
    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog._documents import (
        Catalog,
    )

ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    "path": {"type": "path", "required": True},
    "slots_dir": {"type": "path", "required": True},
    "profiles": {"type": "path", "required": True},
    "hosts": {"type": "list", "elements": "str", "required": True},
    "catalog": {"type": "list", "elements": "path", "default": []},
    **ASKING_ARGUMENT_SPEC,
}


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        del tmp
        task_vars = task_vars or {}
        result: dict[str, t.Any] = super().run(task_vars=task_vars)
        _unused, options = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)
        if YAML_IMPORT_ERROR:
            result.update(failed=True, msg=missing_required_lib("PyYAML"))
            return result
        path = Path(options["path"]).absolute()
        catalog = catalog_directories(options["catalog"])
        try:
            asked, found = _questions(path, options, catalog)
        except InputError as exc:
            result.update(failed=True, errors=list(exc.errors))
            result["msg"] = f"Nobody was asked. Mistakes in what was to be asked: {len(exc.errors)}\n{exc}"
            return result
        answer = self._execute_module(
            module_name="knaster.inventory.replica_info", module_args=asked, task_vars=task_vars
        )
        if answer.get("failed"):
            answer.pop("invocation", None)
            result.update(answer)
            return result
        replicas = with_catalog(answer["replicas"], found)
        try:
            before, after = read_text(path) or "", dump_observed(replicas)
            if before != after and not self._task.check_mode:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_text(path, after)
        except OSError as exc:
            result.update(failed=True, msg=str(exc))
            return result
        result.update(changed=before != after, path=str(path), catalog=catalog, states=count_states(replicas))
        result.update(empty=answer["empty"], table=format_observed(replicas, answer["empty"]))
        if self._task.diff:
            header = {"before_header": str(path), "after_header": str(path)}
            result["diff"] = {"before": before, "after": after, **header}
        return result


def _questions(path: Path, options: dict[str, t.Any], catalog: list[str]) -> tuple[dict[str, t.Any], Catalog]:
    """What the module is asked with, from the files of the fleet."""
    fleet = read_fleet(Path(options["profiles"]).absolute(), options["hosts"], catalog)
    slots: list[dict[str, t.Any]] = []
    try:
        slots = load_slots(Path(options["slots_dir"]).absolute())
    except SlotFileError as exc:
        fleet.errors.extend(exc.errors)
    previous = read_observed(path, fleet.errors)
    errors = [*fleet.all_errors(), *find_asking_errors(options)]
    if errors:
        raise InputError(errors)
    asked = {
        **{key: options[key] for key in ASKING_ARGUMENT_SPEC},
        "slots": questions(slots),
        "previous": previous or [],
        "draining": [node["name"] for node in fleet.nodes if node.get("state") == DRAINING],
    }
    return asked, fleet.catalog
