# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors


from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._replicas.observe import (
    ASKING_ARGUMENT_SPEC,
    find_asking_errors,
    find_slot_errors,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import check
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import collecting
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.file_action import (
    CATALOG_SPEC,
    FileAction,
    Made,
    Options,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import (
    stop_at,
    to_plain,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._observe.document import (
    questions,
    with_catalog,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.fleet import read_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.registry import load_slots


class ActionModule(FileAction):
    """Queries engines, and says which of them serve what the catalog says."""

    # The engines are queried from where the task runs.
    _requires_connection = True
    _supports_diff = False

    argument_spec: t.ClassVar[dict[str, dict[str, t.Any]]] = {
        "slots": {"type": "list", "elements": "dict"},
        "slots_dir": {"type": "path"},
        **CATALOG_SPEC,
        "previous": {"type": "list", "elements": "dict", "default": []},
        "draining": {"type": "list", "elements": "str", "default": []},
        **ASKING_ARGUMENT_SPEC,
    }
    argument_rules: t.ClassVar[dict[str, t.Any]] = {
        "mutually_exclusive": [("slots", "slots_dir")],
        "required_one_of": [("slots", "slots_dir")],
    }
    refusal = "No replica was queried"

    def make(self, options: Options) -> Made:
        """Query the replicas."""
        errors: list[str] = []
        catalog, _warnings = read_catalog(options["catalog"], errors)
        slots: list[dict[str, t.Any]] = []
        previous: list[dict[str, t.Any]] = []
        with collecting(errors):
            directory = options["slots_dir"]
            slots = to_plain(options["slots"], "slots") if directory is None else load_slots(directory)
        with collecting(errors):
            previous = to_plain(options["previous"], "previous")
        errors += find_slot_errors(slots)
        if previous:
            errors += check({"version": 1, "replicas": previous}, "observed", "previous")
        stop_at([*errors, *find_asking_errors(options)])
        asked = {key: options[key] for key in (*ASKING_ARGUMENT_SPEC, "draining")}
        answer = self._execute_module(
            module_name="knaster.inventory.replica_info",
            module_args={**asked, "slots": questions(slots), "previous": previous},
            task_vars=self.task_vars,
        )
        # What the module was called with is all slots once more.
        answer.pop("invocation", None)
        if not answer.get("failed"):
            answer["replicas"] = with_catalog(answer["replicas"], catalog)
        return Made(answer)
