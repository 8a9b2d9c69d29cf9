# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import examine_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.sources import (
    format_sources,
    judge_sources,
    source_errors,
    sources_of,
    unchecked_sources,
)

SOURCES = {"a": "acme/whole", "b": "acme/missing", "c": "/models/c", "d": "acme/whole", "e": None}
MODELS = examine_catalog(
    {
        "models": [
            {"name": name, "kind": "llm", "engines": ["vllm"], "vram_gb": 10, **({"source": source} if source else {})}
            for name, source in SOURCES.items()
        ]
    }
)[0].models


def answer(source, available, text="said", remedy=""):
    return {"source": source, "available": available, "text": text, "remedy": remedy}


HERE, AWAY, UNKNOWN = (answer("/models/c", available, str(available)) for available in (True, False, None))


def test_each_source_is_asked_for_once_where_it_is():
    assert sources_of(MODELS) == (("acme/whole", "acme/missing"), ("/models/c",))


def test_a_repository_is_what_the_hub_says_of_it():
    states = judge_sources(MODELS, [answer("acme/whole", True), answer("acme/missing", False, "Gone.", "Look.")], {})
    assert [(one.source, one.models, one.available) for one in states] == [
        ("acme/whole", ("a", "d"), True),
        ("acme/missing", ("b",), False),
        ("/models/c", ("c",), None),
    ]
    assert source_errors(states) == ["model b: acme/missing: Gone. Look."]
    assert unchecked_sources(states) == ["model c: /models/c: no node answered"]


def test_nothing_is_claimed_of_what_nobody_was_asked_for():
    states = judge_sources(MODELS, [], {})
    assert source_errors(states) == []
    assert unchecked_sources(states)[0] == "models a, d: acme/whole: nobody was asked"


@pytest.mark.parametrize(
    ("nodes", "available", "text"),
    [
        ({"n1": [AWAY], "n2": [HERE]}, True, "on n2"),
        ({"n1": None, "n2": [HERE]}, True, "on n2"),
        ({f"n{number}": [HERE] for number in (10, 2, 1, 4)}, True, "on n1, n2, n4 and 1 more"),
        ({"n1": [AWAY], "n2": [AWAY]}, False, "False"),
        ({"n1": [AWAY], "n2": None}, None, "False Nodes that did not answer: 1."),
        ({"n1": [AWAY], "n2": [UNKNOWN]}, None, "False; None"),
        ({"n1": None}, None, "no node answered"),
        ({"n1": []}, None, "no node answered"),
        ({}, None, "no node answered"),
    ],
)
def test_one_node_that_holds_a_path_is_enough_and_only_all_can_say_that_none_does(nodes, available, text):
    state = judge_sources(MODELS, [], nodes)[-1]
    assert (state.source, state.available, state.text) == ("/models/c", available, text)


@pytest.mark.parametrize("value", ["yes", 1, [], {}])
def test_an_answer_of_a_node_may_be_anything(value):
    (state,) = [
        one
        for one in judge_sources(MODELS, [], {"n1": [{"source": "/models/c", "available": value, "text": value}]})
        if one.source == "/models/c"
    ]
    assert state.available is None


def test_what_nodes_say_stays_in_one_line_of_reasonable_length():
    state = judge_sources(MODELS, [], {"n1": [answer("/models/c", False, "a\nb" + "x" * 5000)]})[-1]
    assert state.text.startswith("a b")
    assert len(state.text) < 400


def test_the_table():
    states = judge_sources(MODELS, [answer("acme/whole", True, "Yes.")], {"n1": [HERE]})
    assert format_sources(states).splitlines() == [
        "source        models  can be had   what was said",
        "acme/whole    a, d    yes          Yes.",
        "acme/missing  b       not checked  nobody was asked",
        "/models/c     c       yes          on n1",
    ]
