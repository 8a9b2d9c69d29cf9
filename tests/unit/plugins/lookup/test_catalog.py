# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible.errors import AnsibleLookupError
from ansible_collections.knaster.inventory.plugins.lookup import catalog as plugin

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def lookup():
    return plugin.LookupModule()


def test_one_catalog_of_several_directories(lookup, tmp_path, monkeypatch):
    for name, size in (("base", 20), ("site", 24)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "models.yaml").write_text(
            f"models:\n  - {{name: m, kind: llm, engines: [vllm], vram_gb: {size}, license: cc-by-nc-4.0}}\n"
        )
    monkeypatch.chdir(tmp_path)
    for terms in (["base", "site"], [["base", "site"]]):
        (found,) = lookup.run(terms, {})
        assert list(found) == ["models", "roles", "gpus", "engines", "directories", "sources", "warnings"]
        assert found["directories"] == [f"{tmp_path}/base", f"{tmp_path}/site"]
        assert [model["vram_gb"] for model in found["models"]] == [24]
        assert found["sources"]["models"]["m"] == {
            "file": f"{tmp_path}/site/models.yaml",
            "line": 2,
            "replaces": [f"{tmp_path}/base/models.yaml:2"],
        }
        assert len(found["warnings"]) == 1
        json.dumps(found)


def test_without_a_directory_the_shipped_one_under_the_one_beside_the_command(lookup, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for terms in ([], [[]]):
        (found,) = lookup.run(terms, {})
        assert [Path(each).samefile(ROOT / "catalog") for each in found["directories"]] == [True]
        assert found["models"]
    (tmp_path / "catalog").mkdir()
    model = "{name: own, kind: llm, engines: [vllm]}"
    (tmp_path / "catalog/models.yaml").write_text(f"models: [{model}, {{name: qwen3-8b, lora: true}}]\n")
    (found,) = lookup.run([], {})
    assert found["directories"] == [str(ROOT / "catalog"), f"{tmp_path}/catalog"]
    assert sorted(model["name"] for model in found["models"]) == ["own", "qwen3-8b"]
    assert lookup.run(["shipped", "catalog"], {}) == [found]
    assert [model["name"] for model in lookup.run(["catalog/../catalog", "shipped"], {})[0]["models"]] == [
        "own",
        "qwen3-8b",
    ]


def test_every_error_at_once(lookup, tmp_path):
    (tmp_path / "models.yaml").write_text("models:\n  - {name: m, kind: lm, engines: [vlm]}\n")
    with pytest.raises(AnsibleLookupError) as caught:
        lookup.run([str(tmp_path)], {})
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert lines[-1] == "The catalog has 2 errors in 1 file."


TEST_TERMS = [
    ([7], "expected the path of a directory"),
    (["/nowhere/at/all"], "no such file or directory"),
]


@pytest.mark.parametrize(("terms", "message"), TEST_TERMS)
def test_terms(lookup, terms, message):
    with pytest.raises(AnsibleLookupError, match=message):
        lookup.run(terms, {})


def test_there_are_no_options(lookup, tmp_path):
    with pytest.raises(AnsibleLookupError, match="there is no option directory"):
        lookup.run([str(tmp_path)], {}, directory="x")


def test_without_the_library(lookup, monkeypatch):
    monkeypatch.setattr(plugin, "YAML_IMPORT_ERROR", ImportError("yaml"))
    with pytest.raises(AnsibleLookupError, match="PyYAML"):
        lookup.run(["catalog"], {})
