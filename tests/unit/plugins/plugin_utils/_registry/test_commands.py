# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""How engines are started."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.commands import (
    MARK,
    command_documents,
    folder,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.engines import (
    NoCommandError,
    engine_commands,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.quote import EnvRef, clean

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "peers"))
from slots import HOSTILE, apart, fleet

CARD = {"index": 0, "gpu_class": "l4", "memory_gb": 24, "compute_cap": 8.9}


def slot(engine="vllm", port=8000, **more):
    made = {
        "version": 1,
        "managed_by": "knaster.inventory",
        "slot": "chat.0.main",
        "name": "main",
        "role": "chat",
        "replica": 0,
        "node": "n1",
        "vm": {"name": "chat-0"},
        "gpus": [dict(CARD)],
        "engine": engine,
        "endpoint": f"http://chat-0:{port}",
        "models_fitting": ["qwen3-8b"],
        "model": "qwen3-8b",
        "kind": "llm",
        "source": "Qwen/Qwen3-8B",
        "aliases": ["qwen", "q8"],
    }
    made.update(more)
    return {key: value for key, value in made.items() if value is not None}


def profile(**more):
    return {"name": "p", **more}


def line(*args, **more):
    (command,) = engine_commands(slot(*args, **more))
    return " ".join(str(word) for word in command.argv)


VLLM = "vllm serve Qwen/Qwen3-8B --host 0.0.0.0 --port 8000 --served-model-name qwen3-8b qwen q8"
SGLANG = "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --host 0.0.0.0 --port 30000 --served-model-name qwen3-8b"
LLAMA = "llama-server --hf-repo Qwen/Qwen3-8B --alias qwen3-8b,qwen,q8 --host 0.0.0.0 --port 8080"


def test_vllm():
    assert line() == VLLM
    assert line(profile=profile(tp=4, pp=2)) == f"{VLLM} --tensor-parallel-size 4 --pipeline-parallel-size 2"
    assert (
        line(context_length=8192, memory_fraction=0.4, lora=True)
        == f"{VLLM} --max-model-len 8192 --gpu-memory-utilization 0.4 --enable-lora"
    )
    assert line(kind="embedding") == line(kind="reranker") == f"{VLLM} --runner pooling"
    assert line(source="Qwen/Qwen3-8B@abc") == f"{VLLM} --revision abc"
    assert line(source="/models/a@b").startswith("vllm serve /models/a@b --host")
    assert "--host :: --port 8000" in line(endpoint="http://[fd00::5]:8000")


def test_what_the_profile_says_is_not_said_again():
    args = ["--max_model_len=4096", "--gpu-memory-utilization", "0.5", "--enable-lora"]
    assert (
        line(context_length=8192, memory_fraction=0.4, lora=True, profile=profile(args=args))
        == f"{VLLM} {' '.join(args)}"
    )
    assert (
        line(memory_fraction=0.4, profile=profile(args=["--kv-cache-memory-bytes", "1"]))
        == f"{VLLM} --kv-cache-memory-bytes 1"
    )
    assert line("sglang", 30000, profile=profile(args=["--enable-metrics"])).count("--enable-metrics") == 1


def test_sglang():
    assert line("sglang", 30000) == f"{SGLANG} --enable-metrics"
    assert (
        line("sglang", 30000, profile=profile(tp=2, pp=3), context_length=8192)
        == f"{SGLANG} --tp-size 2 --pp-size 3 --context-length 8192 --enable-metrics"
    )
    # Of half a GPU of 24 GB, 4 are not for weights and cache.
    assert "--mem-fraction-static 0.33 " in line("sglang", 30000, memory_fraction=0.5)
    assert "--is-embedding" in line("sglang", 30000, kind="embedding")
    assert "--enable-lora --max-lora-rank 64 --lora-target-modules all" in line("sglang", 30000, lora=True)
    assert "--max-lora-rank" not in line("sglang", 30000, lora=True, profile=profile(args=["--lora-paths", "a=/b"]))


def test_the_key_of_sglang_is_a_reference():
    assert "--api-key" not in line("sglang", 30000)
    (command,) = engine_commands(slot("sglang", 30000), api_keys=True)
    at = command.argv.index("--api-key")
    assert command.argv[at + 1] == EnvRef("SGLANG_API_KEY")
    (document,) = command_documents([slot("sglang", 30000)], api_keys=True)
    assert ' --api-key "${SGLANG_API_KEY}"' in document["files"]["start.sh"]
    assert ' "--api-key" "${SGLANG_API_KEY}"' in document["files"][document["unit"]]
    assert "${SGLANG_API_KEY}" in document["compose"]["entrypoint"]


def test_llamacpp():
    assert line("llamacpp", 8080) == f"{LLAMA} --n-gpu-layers 999 --metrics"
    assert line("llamacpp", 8080, context_length=8192) == f"{LLAMA} --ctx-size 8192 --n-gpu-layers 999 --metrics"
    # It divides its context over the slots, unless they share it.
    assert "--ctx-size 32768 " in line("llamacpp", 8080, context_length=8192, profile=profile(args=["-np", "4"]))
    assert "--ctx-size 8192 " in line(
        "llamacpp", 8080, context_length=8192, profile=profile(args=["--parallel=4", "--kv-unified"])
    )
    assert "--ctx-size" not in line(
        "llamacpp", 8080, context_length=8192, profile=profile(env={"LLAMA_ARG_CTX_SIZE": "1"})
    )
    assert line("llamacpp", 8080, gpus=[]) == f"{LLAMA} --n-gpu-layers 0 --metrics"
    assert "--fit-target 12288 " in line("llamacpp", 8080, memory_fraction=0.5)
    assert "--embedding" in line("llamacpp", 8080, kind="embedding")
    assert "--reranking" in line("llamacpp", 8080, kind="reranker")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("/models/x.gguf", "--model /models/x.gguf"),
        ("org/name:Q4_K_M", "--hf-repo org/name:Q4_K_M"),
        ("org/name/deep/file.gguf", "--hf-repo org/name --hf-file deep/file.gguf"),
    ],
)
def test_weights_of_llamacpp(source, words):
    assert line("llamacpp", 8080, source=source).startswith(f"llama-server {words} --alias")


def test_tei():
    tei = "text-embeddings-router --model-id Qwen/Qwen3-8B --hostname 0.0.0.0 --port 3000 --served-model-name qwen3-8b"
    assert line("tei", 3000, kind="embedding", context_length=8192) == tei
    assert line("tei", 3000, kind="embedding", context_length=32768) == f"{tei} --max-batch-tokens 32768"


def test_infinity():
    infinity = "infinity_emb v2 --model-id Qwen/Qwen3-8B --served-model-name qwen3-8b --host 0.0.0.0 --port 7997"
    assert line("infinity", 7997) == f"{infinity} --device cuda"
    assert (
        line("infinity", 7997, gpus=[], profile=profile(args=["--batch-size", "8"]))
        == f"{infinity} --device cpu --batch-size 8"
    )


def shards(*hosts):
    return [
        {"rank": rank, "node": f"n{rank}", "vm": {"name": f"v{rank}"}, "host": host, "gpu_indices": [0]}
        for rank, host in enumerate(hosts)
    ]


def test_vllm_over_several_nodes_meets_by_ray():
    spans = {"shards": shards("10.0.0.1", "10.0.0.2", "v2"), "profile": profile(tp=8, pp=3, nodes=3)}
    head, second, third = engine_commands(slot(**spans))
    assert head.argv[:4] == ("/bin/sh", "-c", 'ray start --head --port=6379 && exec "$@"', "sh")
    assert (
        " ".join(head.argv[4:])
        == f"{VLLM} --tensor-parallel-size 8 --pipeline-parallel-size 3 --distributed-executor-backend ray"
    )
    assert second.argv == third.argv == ("ray", "start", "--address=10.0.0.1:6379", "--block")
    assert [(one.rank, one.node, one.vm) for one in (head, second, third)] == [
        (0, "n0", "v0"),
        (1, "n1", "v1"),
        (2, "n2", "v2"),
    ]
    assert [one.env for one in (head, second, third)] == [
        {"VLLM_HOST_IP": "10.0.0.1"},
        {"VLLM_HOST_IP": "10.0.0.2"},
        {},
    ]


def test_sglang_over_several_nodes_counts_ranks():
    commands = engine_commands(
        slot("sglang", 30000, shards=shards("a", "b"), profile=profile(tp=16, nodes=2, args=["--x"]))
    )
    for rank, command in enumerate(commands):
        assert " ".join(command.argv).endswith(f"--dist-init-addr a:20000 --nnodes 2 --node-rank {rank} --x")


def test_llamacpp_over_several_nodes_asks_the_others():
    head, second = engine_commands(slot("llamacpp", 8080, shards=shards("a", "b")))
    assert " ".join(head.argv).endswith("--rpc b:50052")
    assert second.argv == ("rpc-server", "--host", "0.0.0.0", "--port", "50052")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"engine": "sim"}, "it is not known how sim is started"),
        ({"model": None}, "no model is set for it"),
        ({"source": None}, "the catalog has no source for its model"),
        ({"endpoint": None}, "its port is not known"),
        ({"engine": "llamacpp", "source": "a/b@main"}, "llama.cpp cannot load a revision of a hub id; name a file"),
    ],
)
def test_why_there_is_no_command(more, reason):
    with pytest.raises(NoCommandError, match=reason):
        engine_commands(slot(**more))
    assert command_documents([slot(**more)]) == [{"slot": "chat.0.main", "reason": reason}]


def test_variables_with_secrets_are_only_passed_on():
    (command,) = engine_commands(slot(profile=profile(env={"HF_TOKEN": "${HF_TOKEN}", "A": "b"})))
    assert command.env == {"A": "b"}
    assert set(command.passed) == {"HF_TOKEN", "VLLM_API_KEY"}


def test_images():
    def image(**more):
        return command_documents([slot(**more)], images={"vllm": "registry.example/vllm:1"})[0]["compose"]["image"]

    assert image() == "registry.example/vllm:1"
    assert image(engine="tei", kind="embedding").endswith("/text-embeddings-inference:89-1.9")
    assert image(engine="tei", kind="embedding", gpus=[]).endswith(":cpu-1.9")
    assert image(engine="llamacpp") == "ghcr.io/ggml-org/llama.cpp:server-cuda"


def test_cards_of_another_vendor():
    amd = {"index": 0, "gpu_class": "mi300x", "memory_gb": 192}
    service = command_documents([slot(gpus=[amd])])[0]["compose"]
    assert service["devices"] == ["/dev/dri", "/dev/kfd"]
    assert "deploy" not in service
    assert "deploy" in command_documents([slot()])[0]["compose"]
    assert "deploy" not in command_documents([slot(engine="llamacpp", gpus=[])])[0]["compose"]


# --- on bare metal

NVIDIA = {"CUDA_VISIBLE_DEVICES": "GPU-b,GPU-c"}
BY_INDEX = {"CUDA_VISIBLE_DEVICES": "2,3", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
AMD = {"HIP_VISIBLE_DEVICES": "2,3"}
INTEL = {"ZE_AFFINITY_MASK": "2,3", "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1"}


def bare(engine="vllm", port=8000, **more):
    return slot(engine, port, **{"vm": None, "bare_metal": True, **more})


def two(first="GPU-b", second="GPU-c", **more):
    return [{"index": 2, "uuid": first, **more}, {"index": 3, "uuid": second, **more}]


@pytest.mark.parametrize(
    ("cards", "env"),
    [
        (two(gpu_class="l4"), NVIDIA),
        (two(), NVIDIA),
        (two(second="", gpu_class="l4"), BY_INDEX),
        (two(second="GPU-b", gpu_class="l4"), BY_INDEX),
        (two("GPU-b,GPU-x", gpu_class="l4"), BY_INDEX),
        (two("$(id)", "`id`", gpu_class="l4"), BY_INDEX),
        (two(gpu_class="mi300x"), AMD),
        (two(vendor="amd", gpu_class="own"), AMD),
        (two(vendor="intel"), INTEL),
        (two("", "", gpu_class="own"), BY_INDEX | AMD | INTEL),
        ([], {"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1"}),
    ],
)
def test_an_engine_sees_only_the_cards_of_its_slot(cards, env):
    (command,) = engine_commands(bare(gpus=cards))
    assert command.env == env
    assert command.vm is None
    (command,) = engine_commands(slot(gpus=cards))
    assert command.env == {}


def test_what_a_profile_says_of_cards_does_not_hold_on_bare_metal():
    chosen = {"CUDA_VISIBLE_DEVICES": "0", "ROCR_VISIBLE_DEVICES": "${ROCR_VISIBLE_DEVICES}", "A": "b"}
    (command,) = engine_commands(bare(gpus=two(), profile=profile(env=chosen)))
    assert command.env == {"A": "b", **NVIDIA}
    assert "ROCR_VISIBLE_DEVICES" not in command.passed
    (command,) = engine_commands(slot(gpus=two(), profile=profile(env=chosen)))
    assert command.env == {"A": "b", "CUDA_VISIBLE_DEVICES": "0"}


def test_every_file_says_which_cards():
    (document,) = command_documents([bare(gpus=two(gpu_class="l4"))])
    assert "vm" not in document
    assert "\nexport CUDA_VISIBLE_DEVICES=GPU-b,GPU-c\n" in document["files"]["start.sh"]
    assert '\nCUDA_VISIBLE_DEVICES="GPU-b,GPU-c"\n' in document["files"]["engine.env"]
    assert '\nEnvironment="CUDA_VISIBLE_DEVICES=GPU-b,GPU-c"\n' in document["files"][document["unit"]]


def test_containers_get_only_the_cards_of_the_slot():
    def service(**more):
        return command_documents([bare(**more)])[0]["compose"]

    def devices(made):
        (one,) = made["deploy"]["resources"]["reservations"]["devices"]
        return one

    made = service(gpus=two(gpu_class="l4"))
    assert devices(made) == {"driver": "nvidia", "device_ids": ["GPU-b", "GPU-c"], "capabilities": ["gpu"]}
    # They are counted anew there: an index of the node would be another GPU's or none.
    made = service(gpus=two("", "", gpu_class="l4"))
    assert devices(made)["device_ids"] == ["2", "3"]
    assert not {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"} & set(made["environment"])
    made = service(gpus=two(gpu_class="mi300x"))
    assert made["environment"]["HIP_VISIBLE_DEVICES"] == "2,3"
    assert made["devices"] == ["/dev/dri", "/dev/kfd"]
    made = service(engine="llamacpp", gpus=[])
    assert "deploy" not in made
    assert made["environment"]["CUDA_VISIBLE_DEVICES"] == "-1"


def bare_shards(*hosts):
    return [
        {"rank": rank, "node": host, "host": host, "gpu_indices": [2, 3], "gpus": two(f"GPU-{rank}", f"GPU-{rank}b")}
        for rank, host in enumerate(hosts)
    ]


@pytest.mark.parametrize(("engine", "port"), [("vllm", 8000), ("sglang", 30000), ("llamacpp", 8080)])
def test_every_rank_sees_only_its_own_cards_and_meets_at_the_port_of_the_slot(engine, port):
    spans = bare(engine, port, gpus=two("GPU-0", "GPU-0b"), shards=bare_shards("n1", "n2"), rendezvous_port=7001)
    commands = engine_commands(spans)
    assert [one.env["CUDA_VISIBLE_DEVICES"] for one in commands] == ["GPU-0,GPU-0b", "GPU-1,GPU-1b"]
    first, second = (" ".join(one.argv) for one in commands)
    assert {
        "vllm": ("--port=7001" in first, second == "ray start --address=n1:7001 --block"),
        "sglang": ("--dist-init-addr n1:7001 " in first, "--dist-init-addr n1:7001 " in second),
        "llamacpp": ("--rpc n2:7001" in first, second.endswith("--port 7001")),
    }[engine] == (True, True)
    documents = command_documents([spans])
    found = [one["compose"]["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"] for one in documents]
    assert found == [["GPU-0", "GPU-0b"], ["GPU-1", "GPU-1b"]]


def test_vllm_is_told_its_own_ray_on_bare_metal():
    head, _worker = engine_commands(bare(shards=bare_shards("n1", "n2"), rendezvous_port=6380))
    assert head.argv[2] == 'ray start --head --port=6380 && exec env "RAY_ADDRESS=n1:6380" "$@"'


def test_weights_of_a_directory_are_mounted():
    volumes = command_documents([slot(source="/models/$x")])[0]["compose"]["volumes"]
    assert volumes[1] == {"type": "bind", "source": "/models/$$x", "target": "/models/$$x", "read_only": True}


# --- as files

PROGRAMS = ("vllm", "python3", "llama-server", "rpc-server", "text-embeddings-router", "infinity_emb", "ray")


@pytest.fixture
def stubs(tmp_path):
    """Programs of the names of engines that write down what they were given."""
    told = tmp_path / "told"
    (tmp_path / "bin").mkdir()
    code = f"import json, os, sys; json.dump([sys.argv[1:], dict(os.environ)], open({str(told)!r}, 'w'))"
    for name in PROGRAMS:
        stub = tmp_path / "bin" / name
        stub.write_text(f"#!{sys.executable} -I\nimport sys; sys.argv[0] = {name!r}\n{code}\n")
        stub.chmod(0o755)
    return tmp_path / "bin", told


@pytest.mark.parametrize("bare_metal", [False, True])
def test_the_scripts_give_the_words_and_variables_and_nothing_else_runs(stubs, tmp_path, bare_metal):
    path, told = stubs
    shell = shutil.which("dash") or "/bin/sh"
    names = [name for number, name in enumerate(HOSTILE) if number % 3 == 0]
    slots = fleet(apart(names) if bare_metal else names, bare_metal=bare_metal)
    documents = [one for one in command_documents(slots) if "files" in one]
    assert len(documents) > 15
    for document in documents:
        script = tmp_path / "start.sh"
        script.write_text(document["files"]["start.sh"], encoding="utf-8")
        env = {"PATH": f"{path}:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
        subprocess.run([shell, str(script)], check=True, timeout=30, env=env, cwd=tmp_path)
        words, variables = json.loads(told.read_text())
        wanted = document["argv"]
        assert words == (wanted[5:] if wanted[0] == "/bin/sh" else wanted[1:])
        assert {name: variables.get(name) for name in document["env"]} == document["env"]
    assert not os.path.exists("/tmp/owned")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["bin", "start.sh", "told"]


def test_all_files_carry_the_mark_and_no_secret():
    for document in command_documents(fleet()):
        for name, text in document.get("files", {}).items():
            assert MARK in text.splitlines()[:2], name
            assert "hf_secret" not in text
            assert "\nMY_API_KEY=" not in text


def test_compose_files_are_yaml():
    documents = [document for document in command_documents(fleet()) if "files" in document]
    assert documents
    for document in documents:
        (service,) = yaml.safe_load(document["files"]["compose.yaml"])["services"].values()
        assert service == document["compose"]
        assert service["environment"]["HF_TOKEN"] is None


def test_every_command_has_its_own_directory():
    documents = [one for one in command_documents(fleet()) if "files" in one]
    folders = [folder(one) for one in documents]
    assert folders
    assert len(set(folders)) == len(folders)
    assert all(".." not in name.split("/") and not name.startswith("/") for name in folders)
    assert clean("\ud800") == "\ufffd"
