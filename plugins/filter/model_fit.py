# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.knaster.inventory.plugins.module_utils._memory.run import CACHE_SHARES
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.gpus import gpu_table
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import CatalogError
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import to_plain
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import ProfileError, read_nodes
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.model_fit import (
    Wanted,
    fit_models,
    format_fits,
    kinds_of_classes,
    kinds_of_fleet,
)

if t.TYPE_CHECKING:
    from collections.abc import Callable


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
    errors: list[str] = []
    given: dict[str, t.Any] = {}
    for name, value in (("models", models), ("nodes", nodes), ("gpus", gpus), ("engines", engines), ("counts", counts)):
        try:
            given[name] = to_plain(list(value) if isinstance(value, tuple) else value, name)
        except TypeError as exc:
            errors.append(str(exc))
    if errors:
        raise AnsibleFilterError(_message(errors))
    entries = [given["models"]] if isinstance(given["models"], dict) else given["models"]
    wanted = Wanted(
        context=_whole("context", context, errors),
        sequences=_whole("sequences", sequences, errors) or 1,
        kv_dtype=kv_dtype,
        engine=engine,
        counts=tuple(_whole("counts", one, errors) or 0 for one in given["counts"] or ()),
    )
    if kv_dtype is not None and str(kv_dtype).lower() not in CACHE_SHARES:
        errors.append(f"kv_dtype must be one of {', '.join(sorted(CACHE_SHARES))}, not {kv_dtype}")
    try:
        catalog = check_catalog(
            entries,
            None,
            gpus=given["gpus"] or (),
            engines=given["engines"] or (),
            open_engines=given["engines"] is None,
        ).catalog
        if engine is not None and engine not in catalog.engines:
            errors.append(f"engine must be one of {', '.join(sorted(catalog.engines))}, not {engine}")
    except CatalogError as exc:
        errors += [str(problem) for problem in exc.errors]
    try:
        fleet = None if given["nodes"] is None else read_nodes(given["nodes"])
    except ProfileError as exc:
        errors += exc.errors
    if errors:
        raise AnsibleFilterError(_message(errors))
    kinds = kinds_of_classes(gpu_table(catalog.gpus)) if fleet is None else kinds_of_fleet(fleet)
    return fit_models(catalog.models, kinds, wanted, catalog.engines)


def model_fit_table(rows: t.Any) -> str:
    try:
        plain = to_plain(rows, "the rows")
        return format_fits(plain)
    except (TypeError, KeyError) as exc:
        raise AnsibleFilterError(f"expected what model_fit returns ({exc})") from exc


def _whole(name: str, value: t.Any, errors: list[str]) -> int | None:
    """Return a whole number above 0, which templates may hand over as text; None where none was given."""
    if value is None or value == "":
        return None
    text = str(value)
    if isinstance(value, bool) or not text.isdecimal() or not 0 < int(text) <= 1 << 31:
        errors.append(f"{name} must be a whole number above 0, not {text[:50]}")
        return None
    return int(text)


def _message(errors: list[str]) -> str:
    return "The question cannot be answered:\n" + "\n".join(errors)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., t.Any]]:
        return {"model_fit": model_fit, "model_fit_table": model_fit_table}
