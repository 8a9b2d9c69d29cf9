# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.catalog import describe_catalog

MODELS = "models:\n  - {name: chat, kind: llm, vram_gb: 20, engines: [vllm]}\n"
GPU = {"index": 0, "name": "NVIDIA L4", "memory_gb": 24, "compute_cap": 8.9}


@pytest.fixture
def describe(tmp_path):
    """A catalog of one model, and the call that describes it for nodes whose profiles are given."""
    (tmp_path / "profiles").mkdir()
    (tmp_path / "catalog").mkdir()
    (tmp_path / "catalog/models.yaml").write_text(MODELS)

    def call(*profiles, hosts=None):
        for profile in profiles:
            (tmp_path / f"profiles/{profile['name']}.json").write_text(json.dumps(profile))
        names = [profile["name"] for profile in profiles] if hosts is None else hosts
        return describe_catalog(tmp_path / "profiles", names, [str(tmp_path / "catalog")])

    return call


def test_a_node_whose_gpus_are_not_known_is_not_counted(describe):
    found = describe({"name": "a", "gpus": [GPU]}, {"name": "b", "gpus": None}, hosts=["a", "b", "never"])
    assert (found.models, found.roles, found.nodes) == (1, 0, 1)
    assert found.table.splitlines()[2].split()[-1] == "a"


def test_without_nodes_the_table_says_nothing_of_any(describe):
    found = describe({"name": "b", "gpus": None})
    assert found.nodes == 0
    assert "fits a GPU of" not in found.table


def test_all_that_is_wrong_is_told_at_once(describe, tmp_path):
    (tmp_path / "catalog/models.yaml").write_text(MODELS.replace("20", "many"))
    with pytest.raises(InputError) as caught:
        describe({"name": "a", "gpus": 7})
    assert [error.partition(":")[0].rpartition("/catalog/")[2] for error in caught.value.errors] == [
        "models.yaml",
        "node a",
    ]


def test_profiles_of_others_are_told(describe):
    describe({"name": "a", "gpus": [GPU]}, {"name": "b", "gpus": [GPU]})
    assert "1 profile of nodes outside the inventory of this run (b.json)" in describe(hosts=["a"]).warnings[-1]
