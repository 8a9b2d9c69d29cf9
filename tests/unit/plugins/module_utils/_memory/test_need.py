# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._memory.engines import engine_memory
from ansible_collections.knaster.inventory.plugins.module_utils._memory.facts import MemoryFacts
from ansible_collections.knaster.inventory.plugins.module_utils._memory.fit import fit
from ansible_collections.knaster.inventory.plugins.module_utils._memory.need import (
    Case,
    Gpu,
    need,
    usable,
)
from ansible_collections.knaster.inventory.plugins.module_utils._memory.run import Run, read_run

H100 = Gpu(81559, 479, "h100-sxm5-80gb")
RTX_3090 = Gpu(24576, 316, "rtx-3090")
L4 = Gpu(23034, 402, "l4")

LLAMA_8B = MemoryFacts(
    weights_gib=14.96, kv_bytes_per_token=131072, layers=32, attention_heads=32, kv_heads=8, head_dim=128,
    vocab=128256, hidden=4096, intermediate=14336,
)  # fmt: skip
QWEN_32B = MemoryFacts(
    weights_gib=61.02, kv_bytes_per_token=262144, layers=64, attention_heads=64, kv_heads=8, head_dim=128,
    vocab=151936, hidden=5120, intermediate=25600,
)  # fmt: skip
GEMMA_27B = MemoryFacts(
    weights_gib=51.1, kv_bytes_per_token=81920, kv_bytes_per_window_token=425984, window=1024, layers=62,
    attention_heads=32, kv_heads=16, head_dim=128, vocab=262208, hidden=5376, intermediate=21504,
)  # fmt: skip


def case(facts=LLAMA_8B, engine="vllm", args=(), gpu=RTX_3090, version=None, **more):
    how = {key: more.pop(key) for key in ("context", "sequences", "tp", "pp") if key in more}
    return Case(facts, read_run(engine, args, **how), engine_memory(engine, version), gpu, **more)


def term(found, name):
    return need(found).term(name).gib


def test_a_need_is_the_sum_of_terms_that_say_where_they_come_from():
    found = need(case(context=8192))
    assert {part.name: part.source for part in found.terms} == {
        "weights": "computed",
        "kv_cache": "computed",
        "activation": "computed",
        "runtime": "default",
        "graphs": "default",
    }
    assert found.bound == "exact"
    assert found.gib == pytest.approx(sum(part.gib for part in found.terms))


def test_what_is_not_known_is_no_zero_and_makes_the_sum_a_lower_bound():
    found = fit(case(MemoryFacts(weights_gib=10.0), context=8192))
    assert found.need.unknown == ("kv_cache",)
    assert found.need.bound == "lower"
    assert found.fits is None
    assert (found.largest_context, found.most_sequences, found.cache_tokens) == (None, None, None)
    # What is lacking without the unknown is lacking with it.
    assert fit(case(MemoryFacts(weights_gib=30.0), context=8192)).fits is False
    assert need(case(MemoryFacts(), context=8192)).unknown == ("weights", "kv_cache")


# --- M1: one argument of memory ---


def test_a_cache_in_8_bit_changes_the_cache_and_nothing_else():
    plain, small = (
        need(case(QWEN_32B, context=8192)),
        need(case(QWEN_32B, args=["--kv-cache-dtype", "fp8"], context=8192)),
    )
    assert small.term("kv_cache").gib == plain.term("kv_cache").gib / 2 == 1.0
    assert small.term("weights") == plain.term("weights")
    # An RTX 3090 has no room for it, with the argument as without.
    assert fit(case(QWEN_32B, args=["--kv-cache-dtype", "fp8"], context=8192)).fits is False
    assert fit(case(QWEN_32B, context=8192)).fits is False


@pytest.mark.parametrize(("share", "fits"), [("0.95", True), ("0.5", False)])
def test_the_share_of_the_gpu_is_what_the_argument_says(share, fits):
    found = fit(case(args=["--gpu-memory-utilization", share], context=8192))
    assert found.usable_gib == pytest.approx(float(share) * RTX_3090.total_gib)
    assert found.fits is fits


def test_layers_on_the_gpu_are_those_of_the_argument():
    facts = replace(LLAMA_8B, weights_gib=16.5)
    all_of_them = need(case(facts, "llamacpp", context=4096))
    assert need(case(facts, "llamacpp", ["-ngl", "999"], context=4096)).gib == all_of_them.gib
    half = need(case(facts, "llamacpp", ["-ngl", "16"], context=4096))
    assert half.term("weights").gib == pytest.approx(16.5 * 16 / 33)
    assert half.term("kv_cache").gib == pytest.approx(0.5 * 16 / 33)
    nothing = MemoryFacts(weights_gib=16.5, kv_bytes_per_token=1)
    assert "weights" in need(case(nothing, "llamacpp", ["-ngl", "16"], context=4096)).unknown


def test_smaller_batches_cost_less_on_a_large_gpu():
    small = case(args=["--max-num-batched-tokens", "2048", "--max-num-seqs", "256"], gpu=H100, context=8192)
    assert term(small, "activation") < 0.8
    assert term(case(gpu=H100, context=8192), "activation") > 2.5
    # The same where the widths of the model are not known, and constants stand for the factors.
    bare = MemoryFacts(weights_gib=14.96, kv_bytes_per_token=131072)
    assert term(case(bare, gpu=H100, context=8192), "overhead") == 7.5
    assert term(case(bare, gpu=H100, args=["--max-num-batched-tokens", "2048"], context=8192), "overhead") == 2.5
    assert term(case(bare, gpu=Gpu(81920, 0, "a100-sxm4-80gb"), context=8192), "overhead") == 2.5


def test_an_argument_that_is_not_computed_leaves_the_weights_as_a_floor_and_is_named():
    found = need(case(args=["--block-size", "128"], context=8192))
    assert found.term("weights").gib == pytest.approx(15.26, abs=0.01)
    assert found.unknown == ("kv_cache", "activation", "runtime", "graphs")
    assert found.bound == "lower"
    assert found.warnings == ("--block-size changes memory in a way that is not computed",)
    # Some only add something beside the model, and some move the weights themselves.
    found = need(case(args=["--speculative-config", "{}"], context=8192))
    assert (found.unknown, found.bound) == ((), "lower")
    assert need(case(args=["--quantization", "fp8"], context=8192)).term("weights").gib is None
    found = need(case(args=["--of-tomorrow"], context=8192))
    assert (found.bound, found.warnings) == ("exact", ("nothing is known of --of-tomorrow",))


# --- M2: slots ---


def test_every_slot_has_its_cache_from_the_start():
    one, four = (case(MemoryFacts(weights_gib=18.65, kv_bytes_per_token=262144, layers=64, kv_heads=8), "llamacpp",
                      args, context=8192) for args in ([], ["--parallel", "4"]))  # fmt: skip
    assert (term(one, "kv_cache"), term(four, "kv_cache")) == (2.0, 8.0)
    assert (fit(one).fits, fit(four).fits) == (True, False)
    shared = replace(four, run=replace(four.run, unified=True))
    assert term(shared, "kv_cache") == 2.0


# --- C3, M4: layers that see only a window ---


@pytest.mark.parametrize(
    ("engine", "version", "args", "expected"),
    [
        # All layers in full: 62 x 8192 B x 32768 tokens.
        ("vllm", "0.10", [], 15.5),
        ("vllm", None, ["--disable-hybrid-kv-cache-manager"], 15.5),
        ("sglang", None, [], 15.5),
        # 10 layers in full, and 52 of 1023 + 8192 tokens, or + 2048.
        ("vllm", None, [], 6.16),
        ("vllm", None, ["--max-num-batched-tokens", "2048"], 3.72),
        # 10 layers in full, and 52 of 1024 + 512 cells.
        ("llamacpp", None, [], 3.11),
        ("llamacpp", None, ["--swa-full"], 15.5),
    ],
)
def test_windows_count_as_the_version_of_the_engine_counts_them(engine, version, args, expected):
    found = case(GEMMA_27B, engine, args, H100, version, context=32768)
    assert term(found, "kv_cache") == pytest.approx(expected, abs=0.005)


def test_layers_of_two_kinds_are_padded_to_groups_of_one_size():
    # 52 layers in groups of 10 are 60: 8 x 8192 B x 9215 tokens.
    found = case(GEMMA_27B, gpu=H100, context=32768)
    assert term(found, "kv_padding") == pytest.approx(8 * 8192 * 9215 / 1024**3)
    even = replace(GEMMA_27B, kv_bytes_per_token=253952, kv_bytes_per_window_token=253952)
    assert need(case(even, gpu=H100, context=32768)).term("kv_padding") is None
    # C3: it fits one H100, and the weights alone are not what decides.
    assert fit(found).fits is True


def test_a_window_stops_growing_and_the_largest_context_tells():
    short, long = (term(case(GEMMA_27B, "llamacpp", context=size), "kv_cache") for size in (1024, 131072))
    assert long / short < 128 / 4
    found = fit(case(replace(GEMMA_27B, weights_gib=15.0), "llamacpp", gpu=RTX_3090, context=8192, longest=131072))
    assert 40000 < found.largest_context < 131072


# --- ranks ---


def test_heads_are_split_as_far_as_there_are_some_and_a_latent_is_kept_whole():
    assert [term(case(LLAMA_8B, context=8192, tp=tp), "kv_cache") for tp in (1, 2, 8, 16)] == [1.0, 0.5, 0.125, 0.125]
    latent = MemoryFacts(weights_gib=1.0, kv_bytes_per_token=70272, index_bytes_per_token=8052, layers=61)
    whole, split = (term(case(latent, gpu=H100, context=65536, tp=tp), "kv_cache") for tp in (1, 8))
    assert whole == split == pytest.approx((70272 + 8052) * 65536 / 1024**3)
    # llama.cpp splits by layers: the largest part has 31 of 61.
    assert term(case(latent, "llamacpp", context=65536, tp=2), "kv_cache") == pytest.approx(whole * 31 / 61, rel=1e-6)


def test_layers_that_see_everything_are_split_over_heads_of_their_own():
    # Gemma 4 12B: 8 layers with one head of 512, which both ranks keep, and 40 of 8 heads of 256 with a window.
    facts = MemoryFacts(
        weights_gib=22.28, kv_bytes_per_token=16384, kv_bytes_per_window_token=327680, window=1024, layers=48,
        attention_heads=16, kv_heads=8, full_kv_heads=1, head_dim=256,
    )  # fmt: skip
    one, two = (term(case(facts, gpu=RTX_3090, context=131072, tp=tp), "kv_cache") for tp in (1, 2))
    windows = 327680 * (1023 + 2048) / 1024**3
    assert (one, two) == (pytest.approx(2 + windows), pytest.approx(2 + windows / 2))


def test_the_largest_rank_of_uneven_stages_counts():
    assert term(case(QWEN_32B, gpu=H100, context=8192, pp=3), "weights") == pytest.approx(61.02 * 1.02 * 22 / 64)


def test_weights_load_larger_than_their_files_by_how_they_are_stored():
    facts = MemoryFacts(weights_gib=61.9)
    assert term(case(facts, quantization="mxfp4"), "weights") == pytest.approx(64.38, rel=0.01)
    assert term(case(facts, quantization="bf16"), "weights") == pytest.approx(61.9 * 1.02)
    assert term(case(facts, "llamacpp", quantization="gguf"), "weights") == 61.9


def test_experts_in_main_memory_are_counted_where_their_size_is_known():
    facts = replace(LLAMA_8B, weights_gib=60.0, expert_gib=56.0, layers=36)
    assert term(case(facts, "llamacpp", ["--n-cpu-moe", "18"], context=4096), "weights") == pytest.approx(60 - 28)
    assert term(case(facts, "llamacpp", ["--cpu-moe"], context=4096), "weights") == pytest.approx(4)
    unknown = replace(facts, expert_gib=None)
    assert "weights" in need(case(unknown, "llamacpp", ["--cpu-moe"], context=4096)).unknown
    assert term(case(args=["--cpu-offload-gb", "5"]), "weights") == pytest.approx(14.96 * 1.02 - 5)


# --- other terms ---


def test_state_counts_for_every_sequence_and_is_unknown_where_layers_keep_no_cache():
    facts = replace(QWEN_32B, kv_bytes_per_token=65536, kv_heads=4, head_dim=256, state_bytes=156893184)
    assert term(case(facts, "llamacpp", ["-np", "4"], context=4096), "state") == pytest.approx(598.5 / 1024)
    assert need(case(replace(facts, state_bytes=None), context=4096)).unknown == ("state",)
    assert need(case(QWEN_32B, context=4096)).term("state") is None
    assert need(case(replace(facts, state_bytes=0), context=4096)).bound == "exact"


def test_adapters_and_parts_for_images_are_terms_of_their_own():
    assert need(case(context=4096)).term("lora") is None
    found = case(args=["--enable-lora", "--max-loras", "2", "--max-lora-rank", "32"], context=4096)
    width = 7 * 4096 + 2 * 4096 + 2 * 1024 + 3 * 14336
    assert term(found, "lora") == pytest.approx(2 * 32 * 32 * width * 2 / 1024**3)
    assert "lora" in need(case(MemoryFacts(weights_gib=1.0), args=["--enable-lora"])).unknown
    sees = replace(LLAMA_8B, parts=("vision",))
    assert need(case(sees, context=4096)).unknown == ("vision",)
    assert need(case(sees, args=["--language-model-only"], context=4096)).bound == "exact"
    assert term(case(replace(sees, vision_gib=2.5), context=4096), "vision") == 2.5


def test_embedding_models_sample_nothing():
    writes, embeds = (term(case(gpu=H100, context=4096, generates=one), "activation") for one in (True, False))
    assert embeds == pytest.approx(8192 * 6 * (14336 + 4096) / 1024**3)
    assert embeds < writes


def test_without_graphs_there_is_no_term_for_them():
    assert need(case(args=["--enforce-eager"], context=4096)).term("graphs") is None
    assert need(case(version="0.11", context=4096)).term("graphs") is None


def test_sglang_leaves_what_its_formula_says_or_what_the_argument_leaves():
    assert term(case(engine="sglang", context=4096), "activation") == pytest.approx((512 + 3072 + 128 + 48) / 1024)
    assert term(case(engine="sglang", gpu=H100, context=4096), "activation") == pytest.approx(
        (512 + 12288 + 128 + 512) / 1024
    )
    assert term(case(engine="sglang", args=["--chunked-prefill-size", "2048"], gpu=H100), "activation") == 10.0
    stated = case(engine="sglang", args=["--mem-fraction-static", "0.8"], gpu=H100, context=4096)
    assert term(stated, "activation") == pytest.approx(0.2 * H100.total_gib)


def test_what_a_catalog_states_of_an_engine_replaces_what_is_shipped():
    own = engine_memory("vllm", utilisation=0.8, overhead_gib=3.0, overhead_large_gib=5.0)
    found = Case(LLAMA_8B, Run("vllm", context=4096), own, H100)
    assert [(part.name, part.gib, part.source) for part in need(found).terms[2:]] == [("overhead", 5.0, "stated")]
    assert usable(found) == pytest.approx(0.8 * H100.total_gib)
    assert engine_memory("of-tomorrow").overhead_gib == 2.5


@pytest.mark.parametrize(
    ("version", "factor"), [("0.6.4", 9.7), ("0.11.0", 9.7), ("0.33.0", 5.3), ("1.0", 5.3), ("odd", 9.7)]
)
def test_constants_belong_to_a_version(version, factor):
    assert engine_memory("vllm", version).logits_factor == factor


# --- fit ---


def test_a_fit_says_how_much_more_would_find_room():
    found = fit(case(gpu=L4, context=4096, longest=131072))
    assert found.fits is True
    rate = 131072 / 1024**3
    room = found.free_gib + 4096 * rate
    assert found.largest_context == int(room / rate)
    assert found.most_sequences == int(room / rate / 4096)
    assert found.cache_tokens == pytest.approx(room / rate, abs=1)
    several = fit(case(gpu=L4, context=4096, sequences=2, longest=131072))
    assert several.largest_context == pytest.approx(found.largest_context / 2, abs=1)
    assert fit(case(gpu=L4, context=4096, longest=6000)).largest_context == 6000


def test_the_limits_of_a_fit_are_exact():
    edge = fit(case(gpu=L4, longest=131072)).largest_context
    assert fit(case(gpu=L4, context=edge)).fits is True
    assert fit(case(gpu=L4, context=edge + 1)).fits is False


def test_a_pool_that_is_stated_holds_what_it_holds():
    args = ["--kv-cache-memory-bytes", "2G"]
    found = fit(case(args=args, context=8192, longest=131072))
    assert (found.largest_context, found.most_sequences, found.cache_tokens) == (16384, 2, 16384)
    assert found.fits is True
    assert fit(case(args=args, context=16385)).fits is False
    assert fit(case(args=["--kv-cache-memory-bytes", "20G"], context=8192)).fits is False


def test_a_pool_may_be_stated_in_tokens():
    found = fit(case(engine="sglang", args=["--max-total-tokens", "16384"], context=8192, longest=131072))
    assert found.need.term("kv_cache").gib == 2.0
    assert (found.largest_context, found.most_sequences, found.fits) == (16384, 2, True)
    assert fit(case(engine="sglang", args=["--max-total-tokens", "8192"], context=8193)).fits is False


def test_nothing_finds_room_where_the_weights_find_none():
    found = fit(case(QWEN_32B, context=4096, longest=40960))
    assert (found.fits, found.largest_context, found.most_sequences, found.cache_tokens) == (False, 0, 0, 0)
    assert found.free_gib < -40


def test_well_known_pairs_fit():
    gpt_oss = MemoryFacts(
        weights_gib=61.9, kv_bytes_per_token=36864, kv_bytes_per_window_token=36864, window=128, layers=36,
        attention_heads=64, kv_heads=8, head_dim=64, vocab=201088, hidden=2880, intermediate=2880,
    )  # fmt: skip
    found = fit(case(gpt_oss, gpu=H100, quantization="mxfp4", context=8192, longest=131072))
    assert found.fits is True
    assert found.largest_context > 32768


def test_engines_for_texts_that_are_read_as_a_whole_keep_no_cache():
    found = fit(case(MemoryFacts(weights_gib=1.06), "tei", context=8192, generates=False))
    assert [part.name for part in found.need.terms] == ["weights", "overhead"]
    assert (found.fits, found.need.bound) == (True, "exact")
