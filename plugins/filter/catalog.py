# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible.module_utils.basic import missing_required_lib
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.load import YAML_IMPORT_ERROR
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.report import list_problems
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.catalog import catalog_directories
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import (
    plain_values,
    refusing,
)

if t.TYPE_CHECKING:
    from collections.abc import Callable


@refusing("The catalog cannot be checked")
def catalog_errors(catalog: t.Any, nodes: t.Any = None, *, warnings: bool = False) -> list[str]:
    if YAML_IMPORT_ERROR:
        raise AnsibleFilterError(missing_required_lib("PyYAML")) from YAML_IMPORT_ERROR
    given = plain_values(catalog=catalog, nodes=nodes or [])
    written = given["catalog"] if isinstance(given["catalog"], dict) else catalog_directories(given["catalog"])
    return list_problems(written, nodes=given["nodes"], warnings=bool(warnings))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., t.Any]]:
        return {"catalog_errors": catalog_errors}
