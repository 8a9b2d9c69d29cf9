# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.table import format_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.catalog import catalog_of
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import (
    of_type,
    plain_values,
    refusing,
    stop_at,
)

if t.TYPE_CHECKING:
    from collections.abc import Callable


@refusing("The catalog cannot be shown")
def catalog_table(catalog: t.Any, nodes: t.Any = None) -> str:
    """Return a catalog as tables: models, profiles and roles."""
    given = plain_values(catalog=catalog, nodes=nodes or [])
    of_type(given["catalog"], dict, "a catalog, as the lookup knaster.inventory.catalog returns it")
    errors: list[str] = []
    found = catalog_of(given["catalog"], errors)
    stop_at(errors)
    return format_catalog(found, given["nodes"])


class FilterModule:
    def filters(self) -> dict[str, Callable[..., t.Any]]:
        return {"catalog_table": catalog_table}
