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
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.catalog import describe_catalog


class ActionModule(FileAction):
    """Checks a catalog and says what is in it."""

    _supports_diff = False

    argument_spec: t.ClassVar[dict[str, dict[str, t.Any]]] = FLEET_SPEC
    refusal = "The catalog cannot be used"

    def make(self, options: Options) -> Made:
        """Check the catalog."""
        found = describe_catalog(**options, declared=self.declared(options["hosts"]))
        return Made(
            {
                "catalog": options["catalog"],
                "models": found.models,
                "roles": found.roles,
                "nodes": found.nodes,
                "table": found.table,
                "catalog_warnings": list(found.warnings),
            }
        )
