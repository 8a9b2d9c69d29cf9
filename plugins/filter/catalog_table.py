# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import CatalogError
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.table import format_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import to_plain
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import ProfileError

if t.TYPE_CHECKING:
    from collections.abc import Callable


def catalog_table(catalog: t.Any, nodes: t.Any = None) -> str:
    try:
        written = to_plain(catalog, "the catalog")
        known = to_plain(nodes or [], "nodes")
        if not isinstance(written, dict):
            raise AnsibleFilterError(
                "catalog_table takes a catalog, as the lookup knaster.inventory.catalog returns it"
            )
        checked = check_catalog(
            written.get("models"),
            written.get("roles"),
            gpus=written.get("gpus"),
            engines=written.get("engines"),
        )
        return format_catalog(checked.catalog, known)
    except (CatalogError, ProfileError, TypeError) as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self) -> dict[str, Callable[..., t.Any]]:
        return {"catalog_table": catalog_table}
