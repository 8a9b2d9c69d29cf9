# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog import check
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.load import (
    SHIPPED,
    examine_directories,
    read_catalog,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import Place

ROOT = Path(check.__file__).parents[3]
RST = ROOT / "docs" / "docsite" / "rst"


def test_directories(tmp_path: Path) -> None:
    (tmp_path / "roles.yaml").write_text("roles:\n  - {name: r}\n")
    (problem,) = examine_directories([str(tmp_path)]).problems
    assert (problem.severity, problem.code, problem.path, problem.entry) == (
        "error",
        "missing",
        "roles[0].needs",
        "role r",
    )
    assert problem.place == Place(file=f"{tmp_path}/roles.yaml", line=2, column=5)
    assert (problem.message, problem.remedy) == ("is required", "such as needs: {engine: vllm, min_vram_gb: 20}")


def test_a_pin_is_found_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "roles.yaml").write_text(
        "roles:\n  - name: r\n    needs:\n      engine: vllm\n      node: n1\n      node_selector:\n        zone: a\n"
    )
    (problem,) = examine_directories([str(tmp_path)], nodes=[{"name": "n1", "labels": {"zone": "b"}}]).problems
    assert (problem.place.line, problem.place.column) == (7, 15)


def test_the_reference_is_what_the_schemas_say() -> None:
    scope: dict[str, object] = {
        "__name__": "catalog_reference",
        "__file__": str(ROOT / "tools" / "catalog_reference.py"),
    }
    exec(compile((ROOT / "tools" / "catalog_reference.py").read_text("utf-8"), "catalog_reference.py", "exec"), scope)
    assert scope["page"]() == (RST / "catalog_reference.rst").read_text("utf-8")  # type: ignore[operator]


def blocks(page: str) -> list[str]:
    """The YAML of a page's literal blocks, without the indentation of the page."""
    found: list[str] = []
    lines = iter((RST / page).read_text("utf-8").splitlines())
    for line in lines:
        if line.strip() == ".. code-block:: yaml":
            base = len(line) - len(line.lstrip()) + 4
            block = []
            for inner in lines:
                if inner.strip() and not inner.startswith(" " * base):
                    break
                block.append(inner[base:])
            found.append("\n".join(block))
    return found


def test_the_first_model_can_be_written_as_the_page_says(tmp_path: Path) -> None:
    two_lines, own, profile = blocks("first_model.rst")
    for block, name in ((two_lines, "qwen3-8b"), (own, "my-model"), (own + profile, "my-model")):
        (tmp_path / "models.yaml").write_text(block, "utf-8")
        catalog = read_catalog([SHIPPED, str(tmp_path)]).catalog
        (model,) = catalog.models
        assert model.scaling is not None
        assert (model.name, model.scaling.min, model.is_open) == (name, 1, block != own + profile)
        assert not catalog.roles, "the model has its GPUs for itself"


@pytest.mark.parametrize("block", blocks("catalog_guide.rst"))
def test_examples_of_the_guide_are_yaml(block: str) -> None:
    yaml.safe_load(block)
