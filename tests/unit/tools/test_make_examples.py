# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from ansible_collections.knaster.inventory.plugins.module_utils._gather.answers import read_answer
from ansible_collections.knaster.inventory.plugins.module_utils._gather.profile import profile_from_outputs

ROOT = Path(__file__).parents[3]
spec = importlib.util.spec_from_file_location("make_examples", ROOT / "tools/make_examples.py")
make_examples = sys.modules["make_examples"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_examples)


def test_the_saved_answers_are_what_the_script_makes():
    made = make_examples.answers()
    assert sorted(made) == sorted(ROOT.glob("examples/*/answers/*.txt"))
    assert [path for path, text in made.items() if path.read_text() != text] == []


def test_each_answer_is_the_profile_that_it_was_made_from():
    for node in (*make_examples.HOME_LAB, *make_examples.rack()):
        profile = profile_from_outputs(read_answer(node.answer()))
        assert (profile["name"], profile["cpu"]["cores"], profile["cpu"]["threads"]) == (
            node.name,
            node.cores,
            2 * node.cores,
        )
        assert profile["memory_mib"] == node.memory_kb // 1024
        assert len(profile["gpus"]) == len(node.cards)
        for gpu, card in zip(profile["gpus"], node.cards, strict=True):
            assert (gpu["name"], str(gpu["compute_cap"])) == (card.name, card.cap)
            assert abs(gpu["memory_gb"] * 1024 - card.mib) <= 0.08 * gpu["memory_gb"] * 1024
        broken = len(node.cards) if node.broken_driver else len(node.lost)
        assert sum(gpu["healthy"] is False for gpu in profile["gpus"]) == broken
