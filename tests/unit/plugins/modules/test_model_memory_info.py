# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.knaster.inventory.plugins.module_utils._models import headers
from ansible_collections.knaster.inventory.plugins.modules import model_memory_info
from ansible_collections.knaster.inventory.tests.peers.hub import SHA, FilesHandler, serving
from ansible_collections.knaster.inventory.tests.peers.weights import write_gguf, write_safetensors

CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}
GGUF = {
    "general.architecture": ("text", "llama"),
    "llama.block_count": ("u32", 32),
    "llama.context_length": ("u32", 8192),
    "llama.embedding_length": ("u32", 4096),
    "llama.attention.head_count": ("u32", 32),
    "llama.attention.head_count_kv": ("u32", 8),
    "tokenizer.ggml.tokens": ("texts", ["token"] * 1000),
}


@pytest.fixture
def run(capsys):
    def run_module(**args):
        with patch_module_args(args), pytest.raises(SystemExit):
            model_memory_info.main()
        return json.loads(capsys.readouterr().out)

    return run_module


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "acme/assistant"
    path.mkdir(parents=True)
    names = [f"model-0000{part}-of-00002.safetensors" for part in (1, 2)]
    for name in names:
        write_safetensors(path / name, {f"{name}.w": ("BF16", [4, 1 << 28], 1 << 31), f"{name}.n": ("F32", [2], 8)})
    # Neither belongs to the model: the same once more in another form, and an adapter.
    write_safetensors(path / "adapter_model.safetensors", {"a": ("BF16", [1 << 20], 1 << 21)})
    (path / "original").mkdir()
    write_safetensors(path / "original/model.safetensors", {"a": ("BF16", [1 << 20], 1 << 21)})
    index = {"weight_map": dict(zip("ab", names, strict=True))}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    (path / "config.json").write_text(json.dumps(CONFIG))
    return path


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_directory_of_safetensors(run, model, check_mode):
    result = run(path=f"{model}/", context=32768, gpus=[2, 1, 3], _ansible_check_mode=check_mode)
    assert "failed" not in result
    assert result["changed"] is False
    assert {key: result[key] for key in ("name", "path", "format", "architecture", "quantization", "context")} == {
        "name": "acme/assistant",
        "path": str(model),
        "format": "safetensors",
        "architecture": "llama",
        "quantization": "bf16",
        "context": 131072,
    }
    assert result["parameters"] == {"BF16": 1 << 31, "F32": 4}
    assert result["memory"]["weights_gib"] == 4.0
    assert result["memory"]["kv_bytes_per_token"] == 131072
    assert result["per_gpu"] == [
        {"gpus": 1, "weights_gib": 4.08, "kv_cache_gib": 4.0, "total_gib": 8.08},
        {"gpus": 2, "weights_gib": 2.04, "kv_cache_gib": 2.0, "total_gib": 4.04},
    ]


def test_the_longest_context_is_taken_where_none_is_asked_for(run, model):
    result = run(path=str(model))
    assert [row["gpus"] for row in result["per_gpu"]] == [1, 2, 4, 8]
    assert result["per_gpu"][0]["kv_cache_gib"] == 16.0


def test_a_model_without_a_description(run, model):
    (model / "config.json").unlink()
    result = run(path=str(model), context=100)
    assert result["memory"] == {"weights_gib": 4.0}
    assert result["architecture"] is None
    assert result["per_gpu"][0] == {"gpus": 1, "weights_gib": 4.08, "kv_cache_gib": None, "total_gib": None}


def test_pytorch_files_count_as_large_as_they_are(run, tmp_path):
    with (tmp_path / "pytorch_model.bin").open("wb") as stream:
        stream.truncate(1 << 30)
    result = run(path=str(tmp_path))
    assert (result["format"], result["memory"]["weights_gib"], result["parameters"]) == ("pytorch", 1.0, {})


def test_a_gguf_file(run, tmp_path):
    write_gguf(tmp_path / "m-Q4_K_M.gguf", GGUF, 1 << 30)
    result = run(path=str(tmp_path / "m-Q4_K_M.gguf"), gpus=[1])
    assert (result["format"], result["quantization"], result["context"]) == ("gguf", "gguf", 8192)
    assert result["memory"]["weights_gib"] == 1.0
    # What llama.cpp loads is what the file holds.
    assert result["per_gpu"] == [{"gpus": 1, "weights_gib": 1.0, "kv_cache_gib": 1.0, "total_gib": 2.0}]


def test_a_split_gguf_file_is_one_model(run, tmp_path):
    for part in (1, 2):
        facts = GGUF if part == 1 else {"split.no": ("u32", 1)}
        write_gguf(tmp_path / f"m-Q8_0-0000{part}-of-00002.gguf", facts, 1 << 30)
    for part in (1, 2):
        result = run(path=str(tmp_path / f"m-Q8_0-0000{part}-of-00002.gguf"))
        assert result["path"].endswith("00001-of-00002.gguf")
        assert result["memory"]["weights_gib"] == 2.0
        assert result["memory"]["layers"] == 32


def test_a_header_that_needs_a_second_reading(run, tmp_path, monkeypatch):
    write_gguf(tmp_path / "m.gguf", GGUF, 1 << 30)
    monkeypatch.setattr(headers, "_GGUF_READS", (64, 1 << 20))
    assert run(path=str(tmp_path / "m.gguf"))["memory"]["layers"] == 32
    monkeypatch.setattr(headers, "_GGUF_READS", (64, 128))
    assert run(path=str(tmp_path / "m.gguf"))["code"] == "not_gguf"


def break_nothing(model):
    pass


def remove_a_shard(model):
    (model / "model-00002-of-00002.safetensors").unlink()


def cut_a_shard(model):
    with (model / "model-00002-of-00002.safetensors").open("r+b") as stream:
        stream.truncate(1000)


def overwrite_a_shard(model):
    (model / "model-00002-of-00002.safetensors").write_bytes(b"<html>not found</html>")


def break_the_config(model):
    (model / "config.json").write_text("{")


def blow_up_the_config(model):
    with (model / "config.json").open("wb") as stream:
        stream.truncate(headers.MAX_CONFIG_BYTES + 1)


TEST_FAILURES = [
    (remove_a_shard, {}, "weights_partial", "1 of 2"),
    (cut_a_shard, {}, "truncated", "missing"),
    (overwrite_a_shard, {}, "not_safetensors", "safetensors"),
    (break_the_config, {}, "not_json", "config.json"),
    (blow_up_the_config, {}, "too_large", "config.json"),
    (break_nothing, {"path": "/nonexistent/model"}, "path_missing", "/nonexistent/model"),
    (break_nothing, {"path": "/"}, "no_weights", "no weights"),
]


@pytest.mark.parametrize(("damage", "args", "code", "text"), TEST_FAILURES)
def test_what_can_not_be_told(run, model, *, damage, args, code, text):
    damage(model)
    result = run(**{"path": str(model), **args})
    assert (result["failed"], result["code"]) == (True, code)
    assert text in result["msg"]


@pytest.mark.parametrize(("option", "value"), [("timeout", 0), ("timeout", 10**9), ("context", 0), ("context", -5)])
def test_a_limit_that_is_none(run, model, option, value):
    result = run(path=str(model), **{option: value})
    assert result["failed"] is True
    assert option in result["msg"]


def test_classes_of_gpus_are_answered_for(run, model):
    result = run(
        path=str(model),
        context=32768,
        sequences=4,
        kv_dtype="fp8",
        gpu_classes=["l4", "gb10", "rtx-3060-12gb"],
        args=["--of-tomorrow"],
    )
    first, shared, small = result["fits"]
    assert (first["gpu_class"], first["gpus"], first["fits"]) == ("l4", 1, True)
    # Four requests of 32768 tokens with 65536 bytes each.
    assert next(term for term in first["terms"] if term["name"] == "kv_cache")["gib"] == 8.0
    assert first["warnings"] == ["nothing is known of --of-tomorrow"]
    assert first["largest_context"] >= 32768
    assert shared == {"gpu_class": "gb10", "gpus": None, "fits": None}
    assert (small["gpus"], small["fits"]) == (2, True)
    assert result["table"][0].split() == ["GPU", "GPUs", "fits", "free", "GiB", "largest", "context", "sequences"]
    assert len(result["table"]) == 4


def test_every_class_can_be_asked_for(run, model):
    result = run(path=str(model), context=8192, gpu_classes=["all"], gpus=[1, 8])
    assert len(result["fits"]) > 150
    by_class = {row["gpu_class"]: row["fits"] for row in result["fits"]}
    assert (by_class["h100-sxm5-80gb"], by_class["gtx-1660-ti"]) == (True, True)


def test_facts_alone_are_enough(run):
    facts = {"weights_gib": 8.0, "kv_bytes_per_token": 131072, "attention_heads": 32, "kv_heads": 8, "layers": 32}
    result = run(memory=facts, quantization="gguf", context=4096, gpu_classes=["rtx-3060-12gb"])
    assert (result["engine"], result["name"], result["memory"]) == ("llamacpp", None, facts)
    assert result["fits"][0]["gpus"] == 1
    result = run(memory={"weights_gb": 8})
    assert (result["failed"], result["code"]) == (True, "facts")
    assert "there is no weights_gb" in result["msg"]


def test_a_repository_is_read_from_the_hub(run, model, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with serving(FilesHandler) as hub:
        index = (model / "model.safetensors.index.json").read_bytes()
        config = json.dumps(CONFIG).encode()
        names = [f"model-0000{part}-of-00002.safetensors" for part in (1, 2)]
        hub.files["assistant"] = {
            "config.json": (config, len(config)),
            "model.safetensors.index.json": (index, len(index)),
            **dict.fromkeys(names, (b"", 2 << 30)),
        }
        result = run(source="acme/assistant", endpoint=hub.url, token="hf_secret", context=32768)
        assert (result["name"], result["path"], result["revision"]) == ("acme/assistant", None, SHA)
        assert result["memory"]["weights_gib"] == 4.0
        assert "hf_secret" not in json.dumps(result)
        failed = run(source="acme/other", endpoint=hub.url)
        assert (failed["failed"], failed["code"]) == (True, "not_found")
        assert "acme/other" in failed["msg"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"gpu_classes": ["h100-sxm-80gb"]}, "h100-sxm-80gb (did you mean h100-sxm5-80gb?)"),
        ({"gpu_classes": ["of-tomorrow"]}, "of-tomorrow"),
        ({"kv_dtype": "q3"}, "kv_dtype has to be one of auto, "),
        ({"sequences": 0}, "sequences has to be above 0"),
        ({"source": "acme/assistant"}, "mutually exclusive"),
    ],
)
def test_what_can_not_be_asked(run, model, options, text):
    result = run(path=str(model), **options)
    assert result["failed"] is True
    assert text in result["msg"]


def test_a_source_may_be_a_path_and_must_be_one_of_both(run, model):
    assert run(source=str(model))["path"] == str(model)
    assert run(source="no such thing")["code"] == "malformed"
    assert "one of the following is required: path, source, memory" in run()["msg"]
