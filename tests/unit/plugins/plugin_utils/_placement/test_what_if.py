# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""What the loss of a node means: what has to be copied is known, known in part or not known, and never 0 for unknown."""

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.what_if import what_if_lost

from .helpers import make_plan, model, node

ONE = ("c24", 1, 1)


def lost(weights_on_b, *models):
    nodes = [node("a", 24, 24, weights=weights_on_b or []), node("b", 24, 24, weights=weights_on_b)]
    found = check_catalog(list(models), [], open_engines=True).catalog
    first = make_plan(nodes, models=models)
    assert {shard["node"] for one in first["replicas"] for shard in one["shards"]} == {"a"}
    (answer,) = what_if_lost(first, nodes, (), found.models, lost=["a"], engines=found.engines)
    return answer


SIZED = model("sized", 20, ONE, memory={"weights_gib": 10})
OTHER = model("unsized", 20, ONE)


@pytest.mark.parametrize(
    ("weights", "models", "gb", "unknown", "told"),
    [
        ([], [SIZED], 10.7, 0, ", 10.7 GB of weights to copy"),
        ([], [OTHER], 0, 1, ", an unknown amount of weights to copy"),
        ([], [SIZED, OTHER], 10.7, 1, ", at least 10.7 GB of weights to copy"),
        (None, [SIZED], 0, 1, ", an unknown amount of weights to copy"),
        ([{"name": "org/unsized", "path": "/m/u", "size_gb": None}], [OTHER], 0, 0, ""),
    ],
)
def test_what_has_to_be_copied_is_never_zero_where_it_is_not_known(weights, models, gb, unknown, told):
    answer = lost(weights, *models)
    assert (answer["copy_gb"], answer["copy_unknown"]) == (gb, unknown)
    assert answer["text"].partition(")")[2] == told


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        ([], "the node does not hold the weights"),
        (None, "it is not known whether the node holds the weights"),
        ([{"name": "org/m", "path": "/m/m"}], "the node holds the weights"),
    ],
)
def test_weights_that_nobody_asked_for_are_not_told_as_missing(weights, text):
    document = make_plan([node("a", 24, weights=weights)], models=[model("m", 20, ONE)])
    assert text in document["replicas"][0]["why"]["text"]


def test_of_several_nodes_those_that_nobody_asked_are_counted():
    nodes = [
        node("a", 24, fabrics=["f"], weights=[{"name": "org/m", "path": "/m/m"}]),
        node("b", 24, fabrics=["f"], weights=None),
    ]
    document = make_plan(nodes, models=[model("m", 40, ("c24", 1, 2))])
    assert "1 of 2 nodes hold the weights, of 1 it is not known" in document["replicas"][0]["why"]["text"]
