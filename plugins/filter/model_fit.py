# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._memory.run import CACHE_SHARES
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.gpus import gpu_table
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError, collecting
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.catalog import catalog_of_lists
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import plain_values, refusing, stop_at
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import read_nodes
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.model_fit import (
    Kind,
    Wanted,
    fit_models,
    format_fits,
    kinds_of_classes,
    kinds_of_fleet,
)

if t.TYPE_CHECKING:
    from collections.abc import Callable

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Catalog


@refusing("The question cannot be answered")
def model_fit(
    models: t.Any,
    nodes: t.Any = None,
    context: t.Any = None,
    sequences: t.Any = 1,
    kv_dtype: str | None = None,
    *,
    engine: str | None = None,
    counts: t.Any = (1, 2, 4, 8),
    gpus: t.Any = None,
    engines: t.Any = None,
) -> list[dict[str, t.Any]]:
    """Return which GPUs carry these models, for a fleet or for every class that is known."""
    given = plain_values(models=models, nodes=nodes, gpus=gpus, engines=engines, counts=counts)
    if isinstance(given["models"], dict):
        given["models"] = [given["models"]]
    errors: list[str] = []
    catalog = catalog_of_lists({name: given[name] for name in ("models", "gpus", "engines")}, errors)
    wanted = Wanted(
        context=_whole("context", context, errors),
        sequences=_whole("sequences", sequences, errors) or 1,
        kv_dtype=_word("kv_dtype", kv_dtype, CACHE_SHARES, errors),
        engine=_word("engine", engine, catalog.engines, errors),
        counts=tuple(_whole("counts", one, errors) or 0 for one in given["counts"] or ()),
    )
    kinds = _kinds(given["nodes"], catalog, errors)
    stop_at(errors)
    return fit_models(catalog.models, kinds, wanted, catalog.engines)


@refusing("The table cannot be shown")
def model_fit_table(rows: t.Any) -> str:
    """Return what model_fit found as a table."""
    try:
        return format_fits(plain_values(rows=rows)["rows"])
    except (TypeError, KeyError, AttributeError) as exc:
        raise InputError([f"needs what model_fit returns ({exc})"]) from None


def _kinds(nodes: t.Any, catalog: Catalog, errors: list[str]) -> list[Kind]:
    if nodes is None:
        return kinds_of_classes(gpu_table(catalog.gpus))
    with collecting(errors):
        return kinds_of_fleet(read_nodes(nodes))
    return []


def _whole(name: str, value: t.Any, errors: list[str]) -> int | None:
    """Return a whole number above 0, which templates may hand over as text; None where none was given."""
    if value is None or value == "":
        return None
    text = str(value)
    if isinstance(value, bool) or not text.isdecimal() or not 0 < int(text) <= 1 << 31:
        errors.append(f"{name} must be a whole number above 0, not {text[:50]}")
        return None
    return int(text)


def _word(name: str, value: t.Any, known: t.Iterable[str], errors: list[str]) -> str | None:
    """Return one of the words that are known; None where none was given."""
    if value is None or value == "":
        return None
    if str(value) not in known:
        errors.append(f"{name} must be one of {', '.join(sorted(known))}, not {str(value)[:50]}")
        return None
    return str(value)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., t.Any]]:
        return {"model_fit": model_fit, "model_fit_table": model_fit_table}
