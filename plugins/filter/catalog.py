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
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.sources import (
    format_sources,
    judge_sources,
    source_errors,
    sources_of,
    unchecked_sources,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.yaml_file import YAML_IMPORT_ERROR
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.catalog import (
    catalog_directories,
    catalog_of,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import (
    of_type,
    plain_values,
    refusing,
    stop_at,
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


@refusing("The sources cannot be judged")
def catalog_sources(catalog: t.Any, hub: t.Any = None, nodes: t.Any = None) -> dict[str, t.Any]:
    """Return what is to be asked of the sources of a catalog, and what the answers say."""
    given = plain_values(catalog=catalog, hub=hub or [], nodes=nodes or {})
    of_type(given["catalog"], dict, "a catalog, as the lookup knaster.inventory.catalog returns it")
    of_type(given["hub"], list, "the answers of the module model_source_info")
    of_type(given["nodes"], dict, "what the module model_source_info returned on each node")
    errors: list[str] = []
    models = catalog_of(given["catalog"], errors).models
    stop_at(errors)
    repositories, paths = sources_of(models)
    answered = {name: one.get("sources") if isinstance(one, dict) else None for name, one in given["nodes"].items()}
    states = judge_sources(models, given["hub"], answered)
    return {
        "repositories": list(repositories),
        "paths": list(paths),
        "errors": source_errors(states),
        "unchecked": unchecked_sources(states),
        "table": format_sources(states),
    }


class FilterModule:
    def filters(self) -> dict[str, Callable[..., t.Any]]:
        return {"catalog_errors": catalog_errors, "catalog_sources": catalog_sources}
