# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils import _gpu_table
from ansible_collections.knaster.inventory.plugins.module_utils._memory.ask import (
    Question,
    answer_to_plain,
    ask,
    gpu_of_class,
    rank_rows,
    table_rows,
)
from ansible_collections.knaster.inventory.plugins.module_utils._memory.engines import engine_memory
from ansible_collections.knaster.inventory.plugins.module_utils._memory.facts import FactError, MemoryFacts, read_facts
from ansible_collections.knaster.inventory.plugins.module_utils._memory.need import Gpu
from ansible_collections.knaster.inventory.plugins.module_utils._models.geometry import Geometry, facts_of

GIB = 1024**3
LLAMA = MemoryFacts(weights_gib=8.0, kv_bytes_per_token=131072, layers=32, attention_heads=32, kv_heads=8, head_dim=128)


def question(facts, context=None, counts=(1, 2, 4, 8, 16), engine="vllm", **more):
    return Question(facts, engine_memory(engine), context=context, counts=counts, **more)


def totals(*args, **more):
    return {row["gpus"]: row["kv_cache_gib"] for row in rank_rows(question(*args, **more))}


def test_the_cache_is_split_as_far_as_there_are_heads():
    assert totals(LLAMA, 32768) == {1: 4.0, 2: 2.0, 4: 1.0, 8: 0.5, 16: 0.5}


def test_a_latent_is_kept_whole_by_every_gpu():
    latent = MemoryFacts(attention_heads=128, kv_bytes_per_token=32768)
    assert totals(latent, 65536, (1, 8)) == {1: 2.0, 8: 2.0}


def test_a_window_stops_growing():
    window = MemoryFacts(kv_bytes_per_token=1024, kv_bytes_per_window_token=1 << 20, window=1024)
    # The window and the 2048 tokens of one step.
    assert totals(window, 512, (1,)) == {1: 0.5}
    assert totals(window, 1 << 20, (1,)) == {1: round(1 + (1023 + 2048) / 1024, 2)}


def test_numbers_of_gpus_that_the_engine_can_not_use_are_left_out():
    odd = MemoryFacts(attention_heads=24, kv_heads=8, kv_bytes_per_token=1, layers=4)
    assert list(totals(odd, 1, (16, 5, 3, 1, 0, -2, 3))) == [1, 3]
    assert list(totals(odd, 1, (1, 3, 4, 5), engine="llamacpp")) == [1, 3, 4]
    assert list(totals(odd, 1, (1, 2), engine="tei")) == [1]
    assert list(totals(MemoryFacts(kv_bytes_per_token=1), 1, (1, 2))) == [1]
    assert ask(question(odd, 1, (5,)), Gpu(24576)) is None
    assert totals(odd, 1, ()) == {}


def test_what_is_not_known_is_not_counted_as_nothing():
    (row,) = rank_rows(question(MemoryFacts(weights_gib=1.0), 1000, (1,)))
    assert row == {"gpus": 1, "weights_gib": 1.02, "kv_cache_gib": None, "total_gib": None}
    (row,) = rank_rows(question(LLAMA, None, (1,)))
    assert row["total_gib"] is None
    (row,) = rank_rows(question(facts_of(Geometry(cached=False), GIB), None, (1,)))
    assert row["total_gib"] == 1.02


def test_the_least_number_of_gpus_that_carries_the_model_is_the_answer():
    found = ask(question(MemoryFacts(weights_gib=40.0, kv_bytes_per_token=131072, attention_heads=32, kv_heads=8), 8192),
                Gpu(24576))  # fmt: skip
    assert (found.count, found.fit.fits) == (4, True)
    # Nothing carries it: the largest number comes nearest.
    found = ask(question(MemoryFacts(weights_gib=900.0, kv_bytes_per_token=1, attention_heads=32), 8192), Gpu(24576))
    assert (found.count, found.fit.fits) == (16, False)
    # What may fit is told before what does not.
    found = ask(question(MemoryFacts(weights_gib=30.0, attention_heads=32), 8192), Gpu(24576))
    assert (found.count, found.fit.fits) == (2, None)


def test_classes_of_gpus_have_at_least_what_the_table_knows():
    by_name = {model.gpu_class: gpu_of_class(model) for model in _gpu_table.models()}
    assert by_name["l4"].memory_mib == 23034
    assert by_name["l40"].memory_mib == 48 * 1024 * 0.9375
    assert by_name["gb10"] is None


def test_an_answer_is_plain_data_with_the_source_of_every_term():
    plain = answer_to_plain(ask(question(LLAMA, 8192, longest=131072), Gpu(24576, 316)))
    assert (plain["gpus"], plain["fits"], plain["bound"]) == (1, True, "exact")
    assert {term["name"]: term["source"] for term in plain["terms"]} == {
        "weights": "computed",
        "kv_cache": "computed",
        "overhead": "default",
    }
    assert plain["needed_gib"] == pytest.approx(sum(term["gib"] for term in plain["terms"]), abs=0.02)
    assert plain["free_gib"] == pytest.approx(plain["usable_gib"] - plain["needed_gib"], abs=0.02)
    assert plain["largest_context"] > 60000


def test_a_table_shows_who_carries_the_model():
    rows = table_rows(
        [
            {
                "gpu_class": "l4",
                "gpus": 2,
                "fits": True,
                "free_gib": 1.5,
                "largest_context": 12000,
                "most_sequences": 1,
            },
            {
                "gpu_class": "rtx-4090",
                "gpus": 1,
                "fits": None,
                "free_gib": 0.1,
                "largest_context": None,
                "most_sequences": None,
            },
            {"gpu_class": "gb10", "gpus": None, "fits": None},
        ]
    )
    assert rows == [
        "GPU       GPUs     fits  free GiB  largest context  sequences",
        "l4           2      yes       1.5           12,000          1",
        "rtx-4090     1    maybe       0.1                -          -",
        "gb10         -  unknown         -                -          -",
    ]


def test_facts_are_read_as_a_catalog_writes_them():
    raw = {
        "weights_gib": "14.96",
        "layers": "32",
        "kv_heads": 0,
        "head_dim": None,
        "parts": ["vision"],
        "state_bytes": 0,
    }
    assert read_facts(raw) == MemoryFacts(weights_gib=14.96, layers=32, parts=("vision",), state_bytes=0)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ({"wieghts_gib": 1}, "there is no wieghts_gib, it must be one of attention_heads, "),
        (
            {"layers": 1.5, "weights_gib": "much"},
            "layers must be a whole number that is not below 0, not 1.5; weights_gib must",
        ),
        ({"weights_gib": -1}, "weights_gib must be a number"),
        ({"weights_gib": float("nan")}, "weights_gib must be a number"),
        ({"layers": True}, "layers must be"),
        ({"parts": "vision"}, "parts must be a list"),
    ],
)
def test_facts_that_can_not_be_read_are_told_all_at_once(raw, text):
    with pytest.raises(FactError) as caught:
        read_facts(raw)
    assert text in str(caught.value)
