# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""What a node or a file says is never trusted: whatever comes, the answer is a judgement or the one error."""

from __future__ import annotations

import contextlib
import json
import struct

from ansible_collections.knaster.inventory.plugins.module_utils._models.geometry import (
    geometry_of_config,
    geometry_of_gguf,
    memory_facts,
    per_gpu,
)
from ansible_collections.knaster.inventory.plugins.module_utils._parsers import gguf, safetensors
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError
from ansible_collections.knaster.inventory.plugins.module_utils._weights.judge import (
    holds,
    judge_weights,
    weights_to_plain,
)
from ansible_collections.knaster.inventory.plugins.module_utils._weights.listing import parse_listing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# A machine under load is no reason to fail.
quick = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

FOLDERS = ["a", "b", "models--a--b", "models--a--b/snapshots/1", "models--a--b/blobs", "models--a--b/refs", "Q4_K_M"]
NAMES = [
    "model.safetensors",
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
    "model.safetensors.index.json",
    "model.safetensors.part",
    "model.safetensors.aria2",
    "m-Q4_K_M.gguf",
    "m-Q8_0-00001-of-00002.gguf",
    "pytorch_model.bin",
    "aa",
    "aa.incomplete",
    "main",
]
paths = st.builds(
    "/".join, st.tuples(st.lists(st.sampled_from(FOLDERS), max_size=2).map("/".join), st.sampled_from(NAMES))
)
lines = st.one_of(
    st.builds("f {} {}".format, st.integers(0, 10**12), paths),
    st.builds("l 9 {}\t{}".format, paths, st.sampled_from(["../../blobs/aa", "/etc/passwd", "../../../x"])),
    st.builds("i {}\t{}".format, paths, st.sampled_from(NAMES)),
    st.builds("r {}\t{}".format, paths, st.sampled_from(["1", "2"])),
    st.builds("p {}".format, paths),
    st.text(max_size=30),
)
listings = st.lists(lines, max_size=25)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)
CONFIG_KEYS = [
    "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size", "head_dim", "kv_lora_rank",
    "layer_types", "sliding_window", "sliding_window_pattern", "full_attention_interval", "hybrid_override_pattern",
    "quantization_config", "text_config", "model_type", "torch_dtype", "max_position_embeddings",
]  # fmt: skip
GGUF_KEYS = [
    "general.architecture", "x.block_count", "x.attention.head_count", "x.attention.head_count_kv",
    "x.embedding_length", "x.attention.sliding_window", "x.attention.sliding_window_pattern",
    "x.attention.kv_lora_rank", "x.full_attention_interval",
]  # fmt: skip


@quick
@given(listings, st.randoms())
def test_a_listing_in_any_order_gives_one_judgement(listing, random):
    found = judge_weights(parse_listing("/models", "\n".join([*listing, "end"])))
    shuffled = list(listing)
    # Of a path that stands twice the later line holds, which is no matter of order.
    random.shuffle(shuffled)
    once = {line.split(" ", 2)[-1].partition("\t")[0] for line in listing}
    if len(once) == len(listing):
        assert judge_weights(parse_listing("/models", "\n".join([*shuffled, "end"]))) == found


@quick
@given(listings)
def test_a_judgement_is_consistent(listing):
    for one in judge_weights(parse_listing("/models", "\n".join([*listing, "end"]))):
        assert (one.state == "complete") is (not one.missing and one.parts is not None and one.have == one.parts)
        assert (one.size_bytes > 0) is (one.have > 0)
        assert one.path == "/models" or one.path.startswith(("/models/", "/../"))
        plain = weights_to_plain(one, shared=True)
        assert json.loads(json.dumps(plain)) == plain
        assert holds([plain], one.name) is (one.state == "complete")
        assert holds([plain], one.path) is (one.state == "complete")


@quick
@given(st.binary(max_size=200), st.integers(0, 10**6))
def test_any_bytes_as_safetensors(data, size):
    with contextlib.suppress(ParseError):
        safetensors.header_length(data, size)
    with contextlib.suppress(ParseError):
        safetensors.parse(data, size)


@quick
@given(st.dictionaries(st.text(max_size=5), anything, max_size=4))
def test_any_document_as_safetensors(document):
    with contextlib.suppress(ParseError):
        found = safetensors.parse(json.dumps(document).encode(), 10**6)
        assert found.tensor_bytes >= 0


@quick
@given(st.binary(max_size=200), st.integers(0, 20), st.integers(0, 20))
def test_any_bytes_as_gguf(data, tensors, keys):
    for text in (data, b"GGUF" + data, b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + data):
        with contextlib.suppress(ParseError, gguf.MoreNeededError):
            assert gguf.parse(text).data_offset >= 24


@quick
@given(
    st.dictionaries(st.sampled_from(CONFIG_KEYS), st.integers(0, 200) | anything, max_size=12),
    st.dictionaries(st.sampled_from(GGUF_KEYS), st.integers(0, 200) | st.just("x") | anything, max_size=9),
    st.integers(0, 10**6) | st.none(),
)
def test_any_description_of_a_model(config, facts, context):
    for geometry in (geometry_of_config(config), geometry_of_gguf(facts)):
        assert all(value for value in memory_facts(geometry, 10**9).values())
        rows = per_gpu(geometry, 10**9, context=context, cards=[1, 2, 3, 8])
        assert rows[0]["gpus"] == 1
        assert all(row["kv_cache_gib"] is None or row["kv_cache_gib"] >= 0 for row in rows)
