# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible.module_utils.basic import missing_required_lib
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import (
    examine_catalog,
    find_unknown_lists,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.load import examine_directories
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import ERROR
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.yaml_file import YAML_IMPORT_ERROR
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.catalog import catalog_directories
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import (
    plain_values,
    refusing,
)

if t.TYPE_CHECKING:
    from collections.abc import Callable


@refusing("The catalog cannot be checked")
def catalog_errors(catalog: t.Any, nodes: t.Any = None, *, warnings: bool = False) -> list[str]:
    """Return what is wrong in a catalog, given as lists by name or as directories, one text for each mistake."""
    if YAML_IMPORT_ERROR:
        raise AnsibleFilterError(missing_required_lib("PyYAML")) from YAML_IMPORT_ERROR
    given = plain_values(catalog=catalog, nodes=nodes or [])
    if isinstance(given["catalog"], dict):
        _catalog, problems = examine_catalog(given["catalog"], nodes=given["nodes"])
        problems = [*find_unknown_lists(given["catalog"]), *problems]
    else:
        problems = examine_directories(catalog_directories(given["catalog"]), nodes=given["nodes"]).problems
    return [str(problem) for problem in problems if warnings or problem.severity == ERROR]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., t.Any]]:
        return {"catalog_errors": catalog_errors}
