# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.knaster.inventory.plugins.filter import catalog as plugin
from ansible_collections.knaster.inventory.plugins.filter.catalog import FilterModule

FILTERS = FilterModule().filters()
MODEL = {"name": "m", "kind": "llm", "engines": ["vllm"]}


def test_catalog_errors_of_a_directory(tmp_path, monkeypatch):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "models.yaml").write_text("models:\n  - {name: m, kind: lm, engines: [vllm]}\n")
    monkeypatch.chdir(tmp_path)
    expected = [
        f'{tmp_path}/site/models.yaml:2:21: models[0].kind (model m): must be one of llm, embedding, reranker, not "lm"; did you mean llm?'
    ]
    assert FILTERS["catalog_errors"]("site") == expected
    assert FILTERS["catalog_errors"](["site"]) == expected


def test_catalog_errors_of_no_directory_are_those_of_the_catalog_that_is_meant(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert plugin.catalog_errors([]) == []
    (tmp_path / "catalog").mkdir()
    (tmp_path / "catalog/models.yaml").write_text("models: 3\n")
    (error,) = plugin.catalog_errors([])
    assert error.startswith(f"{tmp_path}/catalog/models.yaml:1:")


def test_catalog_errors_of_data():
    assert FILTERS["catalog_errors"]({"models": [MODEL]}) == []
    assert FILTERS["catalog_errors"]({"roles": [{"name": "r"}]}) == [
        "roles[0].needs (role r): is required; such as needs: {engine: vllm, min_vram_gb: 20}"
    ]


def test_catalog_errors_with_nodes_and_warnings():
    role = {"name": "r", "needs": {"engine": "vllm", "node": "n", "node_selector": {"a": "b"}}}
    assert FILTERS["catalog_errors"]({"roles": [role]}) == []
    assert len(FILTERS["catalog_errors"]({"roles": [role]}, [{"name": "n", "labels": {}}])) == 1
    assert (
        len(FILTERS["catalog_errors"]({"models": [{**MODEL, "vram_gb": 8, "license": "cc-by-nc"}]}, warnings=True)) == 1
    )


def test_sources_are_asked_for_and_answers_are_put_together():
    catalog = {"models": [{**MODEL, "vram_gb": 8, "source": "acme/m"}, {**MODEL, "name": "p", "source": "/models/p"}]}
    asked = FILTERS["catalog_sources"](catalog)
    assert (asked["repositories"], asked["paths"], asked["errors"]) == (["acme/m"], ["/models/p"], [])
    hub = [{"source": "acme/m", "available": True, "text": "Yes."}]
    nodes = {"n1": {"sources": [{"source": "/models/p", "available": False, "text": "No."}]}}
    found = FILTERS["catalog_sources"](catalog, hub, nodes)
    assert found["errors"] == ["model p: /models/p: No."]
    assert found["unchecked"] == []
    # A node that could not be reached returns no sources.
    assert FILTERS["catalog_sources"](catalog, hub, {**nodes, "n2": {"unreachable": True}})["unchecked"] == [
        "model p: /models/p: No. Nodes that did not answer: 1."
    ]


TEST_ERRORS = [
    ("catalog_sources", ([],), "needs a catalog"),
    ("catalog_sources", ({"models": [{"name": "m"}]},), r"models\[0\].kind"),
    ("catalog_sources", ({}, {}, 7), "needs what the module model_source_info returned on each node"),
    ("catalog_errors", (7,), "expected the path of a directory, found 7"),
    ("catalog_errors", ({"models": {1, 2}},), "catalog: cannot be used as data"),
]


@pytest.mark.parametrize(("name", "args", "message"), TEST_ERRORS)
def test_errors(name, args, message):
    with pytest.raises(AnsibleFilterError, match=message):
        FILTERS[name](*args)


def test_without_the_library(monkeypatch):
    monkeypatch.setattr(plugin, "YAML_IMPORT_ERROR", ImportError("yaml"))
    with pytest.raises(AnsibleFilterError, match="PyYAML"):
        FILTERS["catalog_errors"]("catalog")
