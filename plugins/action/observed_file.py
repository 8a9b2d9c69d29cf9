# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible_collections.knaster.inventory.plugins.module_utils._replicas.observe import (
    ASKING_ARGUMENT_SPEC,
    find_asking_errors,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.digests import Written
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError, collecting
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import find_changes
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.catalog import catalog_directories
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.file_action import (
    FLEET_SPEC,
    FileAction,
    Made,
)
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

if t.TYPE_CHECKING:
    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Catalog


class ActionModule(FileAction):
    # The engines are asked from where the task runs.
    _requires_connection = True

    argument_spec: t.ClassVar[dict[str, dict[str, t.Any]]] = {
        **FLEET_SPEC,
        "path": {"type": "path", "required": True},
        "slots_dir": {"type": "path", "required": True},
        **ASKING_ARGUMENT_SPEC,
    }
    refusal = "No replica was queried. Invalid input"

    def make(self, options: dict[str, t.Any], task_vars: dict[str, t.Any]) -> Made:
        path = Path(options["path"]).absolute()
        catalog = catalog_directories(options["catalog"])
        asked, found = _questions(path, options, catalog)
        answer = self._execute_module(
            module_name="knaster.inventory.replica_info", module_args=asked, task_vars=task_vars
        )
        if answer.get("failed"):
            answer.pop("invocation", None)
            return Made(answer)
        replicas = with_catalog(answer["replicas"], found)
        returned = {"path": str(path), "catalog": catalog, "states": count_states(replicas), "empty": answer["empty"]}
        returned["table"] = format_observed(replicas, answer["empty"])
        text = dump_observed(replicas)
        return Made(returned, find_changes({path: text}), [Written(path, "observed", text)])


def _questions(path: Path, options: dict[str, t.Any], catalog: list[str]) -> tuple[dict[str, t.Any], Catalog]:
    """What the module is asked with, from the files of the fleet."""
    fleet = read_fleet(Path(options["profiles"]).absolute(), options["hosts"], catalog)
    slots: list[dict[str, t.Any]] = []
    with collecting(fleet.errors):
        slots = load_slots(Path(options["slots_dir"]).absolute())
    previous = read_observed(path, fleet.errors)
    errors = [*fleet.all_errors(), *find_asking_errors(options)]
    if errors:
        raise InputError(errors)
    asked = {
        **{key: options[key] for key in ASKING_ARGUMENT_SPEC},
        "slots": questions(slots),
        "previous": previous,
        "draining": [node["name"] for node in fleet.nodes if node.get("state") == DRAINING],
    }
    return asked, fleet.catalog
