# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What can run here: the models that fit each GPU."""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.engines import BUILTIN_ENGINES
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import read_nodes
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import models_fitting

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Engine, Model


def fitting_by_card(
    nodes: Sequence[Mapping[str, t.Any]],
    models: Sequence[Model],
    *,
    engines: Mapping[str, Engine] = BUILTIN_ENGINES,
) -> dict[tuple[str, int], list[str]]:
    """The models of a catalog that fit a GPU, by node and index. GPUs that look alike share one list."""
    fleet = read_nodes(nodes)
    fits: dict[int, list[str]] = {}
    found: dict[tuple[str, int], list[str]] = {}
    for node, index, shape in zip(fleet.gpu_node, fleet.gpu_index, fleet.gpu_shape, strict=True):
        if shape not in fits:
            fits[shape] = list(models_fitting(models, fleet.shapes[shape], engine=None, kind=None, engines=engines))
        found[fleet.names[node], index] = fits[shape]
    return found
