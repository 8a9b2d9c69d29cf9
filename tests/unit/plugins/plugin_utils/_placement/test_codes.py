# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""One table of refusal codes says the sentence, the page's label and the guide's row; and limits hold on both sides."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import read_nodes
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement import help as help_module
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.codes import CODES
from ansible_collections.knaster.inventory.plugins.plugin_utils._report import view

from .helpers import identified, make_plan, model, node, places, refusal, role

GUIDE = Path(__file__).resolve().parents[5] / "docs/docsite/rst/placement_guide.rst"


def test_the_guide_has_a_row_for_each_code_and_the_page_its_label():
    guide = GUIDE.read_text(encoding="utf-8")
    for code in CODES:
        assert f"   * - ``{code.name}``\n     - {code.guide}\n" in guide
    labels = {code.name: code.label for code in CODES}
    assert labels == view._REFUSED


def test_a_sentence_opens_with_the_phrase_of_its_code():
    nodes = [node("a", 24, state="cordoned"), node("b", {"index": 0, "memory_gb": 24, "healthy": False}), node("c")]
    entry = refusal(make_plan(nodes, [role("chat", 20)]), "chat")
    phrases = {code.name: code.phrase for code in CODES}
    assert list(entry["rejected"]) == ["node_state", "no_gpu", "unhealthy"]
    assert entry["reason"].endswith(f"1 node {phrases['no_gpu']}, 1 {phrases['unhealthy']}")


def test_of_a_gpu_with_only_a_nominal_size_an_engine_sees_a_sixteenth_less():
    fleet = read_nodes([{"name": "a", "gpus": [{"index": 0, "memory_gb": 32}]}])
    assert fleet.shapes[0].memory_mib == 30 * 1024


@pytest.mark.parametrize(("free_gb", "is_placed"), [(99, False), (100, True), (101, True)])
def test_disk_that_is_just_enough_is_enough(free_gb, is_placed):
    profile = {"name": "p", "engine": "other", "gpu_class": "c24", "min_disk_gb": 100}
    nodes = [node("a", 24, storage=[{"path": "/m", "free_gb": free_gb}])]
    assert bool(make_plan(nodes, models=[model("m", 20, profile)])["replicas"]) is is_placed


def test_remembered_memory_is_bounded_by_what_is_left():
    nodes = [identified("a", 24, memory_gb=32)]
    first = make_plan(nodes, [role("chat", 20)])
    assert first["assignments"][0]["memory_mib"] == 16384
    smaller = [identified("a", 24, memory_gb=12)]
    second = make_plan(smaller, [role("chat", 20)], previous=first)
    assert second["assignments"][0]["memory_mib"] == 12 * 1024 - 2048
    assert second["nodes"][0]["memory_left_mib"] == 0


@pytest.mark.parametrize(("size", "together"), [(15, True), (14.9, False)])
def test_what_engines_take_beside_their_models_counts_in_a_unit(size, together):
    # An engine of which nothing is known takes half a GB.
    roles = [role(name, 7, engine="other", colocate="g") for name in ("a", "b")]
    gpu = {"index": 0, "memory_gb": size, "gpu_class": "x"}
    document = make_plan([node("n", gpu)], roles)
    assert (len(places(document)) == 2) is together


def test_what_takes_too_long_to_try_is_not_offered(monkeypatch):
    nodes, roles = [node("a", 24)], [role("chat", 20, count=2)]
    (own, more) = refusal(make_plan(nodes, roles), "chat")["what_would_help"]
    assert "add_gpus" in more["change"]
    monkeypatch.setattr(help_module, "TRIED_GPUS", 1)
    assert refusal(make_plan(nodes, roles), "chat")["what_would_help"] == [own]
