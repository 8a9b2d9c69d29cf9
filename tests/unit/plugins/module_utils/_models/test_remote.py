# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._http import Hub, Limits, SourceError
from ansible_collections.knaster.inventory.plugins.module_utils._models import remote
from ansible_collections.knaster.inventory.plugins.module_utils._models.remote import read_hub
from ansible_collections.knaster.inventory.plugins.module_utils._models.sources import parse_source
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError
from ansible_collections.knaster.inventory.tests.peers.hub import SHA, TOKEN, FilesHandler, serving
from ansible_collections.knaster.inventory.tests.peers.weights import write_gguf, write_safetensors

LIMITS = Limits(connect=20, total=60, max_bytes=remote.MAX_BYTES)
CONFIG = {
    "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
}  # fmt: skip
GGUF = {
    "general.architecture": ("text", "llama"),
    "llama.block_count": ("u32", 32),
    "llama.embedding_length": ("u32", 4096),
    "llama.attention.head_count": ("u32", 32),
    "llama.attention.head_count_kv": ("u32", 8),
    "tokenizer.ggml.tokens": ("texts", ["token"] * 1000),
}


@pytest.fixture
def hub(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with serving(FilesHandler) as peer:
        yield peer


@pytest.fixture
def begin(tmp_path):
    """Write a file of weights, and give its beginning and its size."""

    def make(write, *args):
        path = tmp_path / "weights"
        write(path, *args)
        with path.open("rb") as stream:
            return stream.read(1 << 16), path.stat().st_size

    return make


def text(document):
    data = json.dumps(document).encode()
    return data, len(data)


def read(hub, source, **options):
    return read_hub(parse_source(source), Hub(endpoint=hub.url, **options), LIMITS)


def test_one_file_is_read_by_its_header_alone(hub, begin):
    weights = begin(write_safetensors, {"a": ("BF16", [4, 1 << 28], 1 << 31)})
    hub.files["one"] = {"config.json": text(CONFIG), "model.safetensors": weights}
    found = read(hub, "acme/one")
    assert (found.name, found.format, found.revision) == ("acme/one", "safetensors", SHA)
    assert found.found.weight_bytes == 1 << 31
    assert found.found.values == {"BF16": 1 << 30}
    assert found.found.geometry.kv_bytes_per_token == 131072
    asked = [seen.headers.get("range") for seen in hub.seen if seen.path.endswith("model.safetensors")]
    assert asked == ["bytes=0-262143"]


def test_a_long_header_takes_a_second_request(hub, begin, monkeypatch):
    monkeypatch.setattr(remote, "_FIRST_READ", 40)
    weights = begin(write_safetensors, {f"tensor-{one}": ("F32", [2], 8) for one in range(50)})
    hub.files["one"] = {"model.safetensors": weights}
    assert read(hub, "acme/one").found.weight_bytes == 400
    assert len([seen for seen in hub.seen if seen.path.endswith("model.safetensors")]) == 2


def test_an_index_names_what_is_loaded_and_says_how_much_that_is(hub):
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    index = {"metadata": {"total_size": 15.0 * 10**9}, "weight_map": dict(zip("ab", names, strict=True))}
    files = {"config.json": text(CONFIG), "model.safetensors.index.json": text(index)}
    files |= dict.fromkeys(names, (b"", 8 * 10**9))
    # Mistral's repositories have the same weights once more.
    files["consolidated.safetensors"] = (b"", 16 * 10**9)
    hub.files["many"] = files
    assert read(hub, "acme/many").found.weight_bytes == 15 * 10**9
    del index["metadata"]
    files["model.safetensors.index.json"] = text(index)
    assert read(hub, "acme/many").found.weight_bytes == 16 * 10**9
    del files["model.safetensors.index.json"]
    assert read(hub, "acme/many").found.weight_bytes == 16 * 10**9


def test_modelopt_says_how_it_quantised_in_a_file_of_its_own(hub, begin):
    weights = begin(write_safetensors, {"a": ("U8", [8], 8)})
    quantised = text({"quantization": {"quant_algo": "NVFP4"}})
    hub.files["one"] = {"config.json": text(CONFIG), "hf_quant_config.json": quantised, "model.safetensors": weights}
    assert read(hub, "acme/one").found.geometry.quantization == "nvfp4-w4a4"


def test_parts_of_a_gguf_file_are_one_model(hub, begin):
    first = begin(write_gguf, GGUF, 1 << 30)
    hub.files["q"] = {"m-Q8_0-00001-of-00002.gguf": first, "m-Q8_0-00002-of-00002.gguf": (b"", 1 << 30)}
    found = read(hub, "acme/q:Q8_0")
    assert found.format == "gguf"
    assert found.found.weight_bytes == 2 << 30
    assert found.found.geometry.vocab == 1000


def test_a_long_gguf_header_takes_a_second_request(hub, begin, monkeypatch):
    hub.files["q"] = {"m-Q8_0.gguf": begin(write_gguf, GGUF, 1 << 30)}
    monkeypatch.setattr(remote, "_GGUF_READS", (100, 1 << 16))
    assert read(hub, "acme/q/m-Q8_0.gguf").found.geometry.layers == 32
    monkeypatch.setattr(remote, "_GGUF_READS", (100, 200))
    with pytest.raises(ParseError) as caught:
        read(hub, "acme/q/m-Q8_0.gguf")
    assert caught.value.code == "not_gguf"


@pytest.mark.parametrize(
    ("name", "files", "code"),
    [
        ("missing", None, "not_found"),
        ("gated", {"config.json": text(CONFIG), "model.safetensors": (b"", 10)}, "gated"),
        ("empty", {"README.md": (b"", 1)}, "no_weights"),
        ("no-ranges", {"model.safetensors": (b"", 1 << 40)}, "answer_too_large"),
        ("odd", {"config.json": (b"{", 1), "model.safetensors": (b"", 10)}, "not_json"),
        ("page", {"model.safetensors": (b"<html>log in</html>", 19)}, "not_safetensors"),
        ("short", {"m.gguf": (b"GGUF", 4)}, "truncated"),
    ],
)
def test_each_trouble_has_one_error(hub, name, files, code):
    if files is not None:
        hub.files[name] = files
    with pytest.raises((SourceError, ParseError)) as caught:
        read(hub, f"acme/{name}")
    assert caught.value.code == code


def test_nobody_there_is_an_error(hub):
    with pytest.raises(SourceError) as caught:
        read_hub(parse_source("acme/one"), Hub(endpoint="http://127.0.0.1:1"), LIMITS)
    assert caught.value.code == "connection_refused"
    with pytest.raises(SourceError) as caught:
        read_hub(parse_source("acme/one"), Hub(endpoint=hub.url, token="two words"), LIMITS)
    assert caught.value.code == "token_unusable"


def test_the_token_goes_with_every_request(hub):
    hub.files["one"] = {"config.json": text(CONFIG), "pytorch_model.bin": (b"", 1000)}
    found = read(hub, "acme/one", token=TOKEN)
    assert (found.format, found.found.weight_bytes) == ("pytorch", 1000)
    assert {seen.headers.get("authorization") for seen in hub.seen} == {f"Bearer {TOKEN}"}
