# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""How engines are started."""

from __future__ import annotations

import json
import os
import re
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
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.settings import (
    Settings,
    find_setting_errors,
)

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


VLLM = "vllm serve Qwen/Qwen3-8B --host 127.0.0.1 --port 8000 --served-model-name qwen3-8b qwen q8"
SGLANG = "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --host 127.0.0.1 --port 30000 --served-model-name qwen3-8b"
LLAMA = "llama-server --hf-repo Qwen/Qwen3-8B --alias qwen3-8b,qwen,q8 --host 127.0.0.1 --port 8080"


def test_vllm():
    assert line() == VLLM
    assert line(profile=profile(tp=4, pp=2)) == f"{VLLM} --tensor-parallel-size 4 --pipeline-parallel-size 2"
    copies = profile(tp=2, dp=4, expert_parallel=True)
    assert line(profile=copies) == f"{VLLM} --tensor-parallel-size 2 --data-parallel-size 4 --enable-expert-parallel"
    assert (
        line(context_length=8192, memory_fraction=0.4, lora=True)
        == f"{VLLM} --max-model-len 8192 --gpu-memory-utilization 0.4 --enable-lora"
    )
    assert line(kind="embedding") == line(kind="reranker") == f"{VLLM} --runner pooling"
    assert line(source="Qwen/Qwen3-8B@abc") == f"{VLLM} --revision abc"
    assert line(source="/models/a@b").startswith("vllm serve /models/a@b --host")
    assert "--host fd00::5 --port 8000" in line(endpoint="http://[fd00::5]:8000")


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
    copies = profile(tp=2, dp=4, expert_parallel=True)
    assert line("sglang", 30000, profile=copies) == f"{SGLANG} --tp-size 2 --dp-size 4 --ep-size 2 --enable-metrics"
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
    (document,) = command_documents([slot("sglang", 30000)], Settings(api_keys=True))
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
    tei = (
        "text-embeddings-router --model-id Qwen/Qwen3-8B --hostname 127.0.0.1 --port 3000 --served-model-name qwen3-8b"
    )
    assert line("tei", 3000, kind="embedding", context_length=8192) == tei
    assert line("tei", 3000, kind="embedding", context_length=32768) == f"{tei} --max-batch-tokens 32768"


def test_infinity():
    infinity = "infinity_emb v2 --model-id Qwen/Qwen3-8B --served-model-name qwen3-8b --host 127.0.0.1 --port 7997"
    assert line("infinity", 7997) == f"{infinity} --device cuda"
    assert (
        line("infinity", 7997, gpus=[], profile=profile(args=["--batch-size", "8"]))
        == f"{infinity} --device cpu --batch-size 8"
    )


@pytest.mark.parametrize(
    ("endpoint", "more", "host"),
    [
        ("http://chat-0:8000", {}, "127.0.0.1"),
        ("http://10.0.0.5:8000", {}, "10.0.0.5"),
        ("http://[fd00::5]:8000", {}, "fd00::5"),
        ("http://chat-0:8000", {"api_keys": True}, "0.0.0.0"),
        ("http://[fd00::5]:8000", {"api_keys": True}, "::"),
        ("http://chat-0:8000", {"listen": "0.0.0.0"}, "0.0.0.0"),
        ("http://10.0.0.5:8000", {"listen": "[::]"}, "::"),
    ],
)
def test_an_engine_without_a_key_is_not_there_for_everybody(endpoint, more, host):
    for engine in ("vllm", "sglang", "llamacpp", "tei", "infinity"):
        (command,) = engine_commands(slot(engine, endpoint=endpoint), **more)
        option = "--hostname" if engine == "tei" else "--host"
        assert command.argv[command.argv.index(option) + 1] == host


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
        return command_documents([slot(**more)], Settings(images={"vllm": "registry.example/vllm:1"}))[0]["compose"][
            "image"
        ]

    assert image() == "registry.example/vllm:1"
    assert image(profile=profile(image="vllm/vllm-openai:nightly")) == "vllm/vllm-openai:nightly"
    assert image(engine="tei", kind="embedding").endswith("/text-embeddings-inference:89-1.9")
    assert image(engine="tei", kind="embedding", gpus=[]).endswith(":cpu-1.9")
    assert image(engine="llamacpp") == "ghcr.io/ggml-org/llama.cpp:server-cuda"


MAKERS = {
    "nvidia": dict(CARD),
    "amd": {"index": 0, "gpu_class": "mi300x"},
    "intel": {"index": 0, "gpu_class": "arc-a770"},
}


@pytest.mark.parametrize(
    ("engine", "maker", "image"),
    [
        ("vllm", "nvidia", "vllm/vllm-openai:v0.33.0"),
        ("vllm", "amd", "vllm/vllm-openai-rocm:v0.33.0"),
        ("vllm", "intel", "no image of vllm for Intel GPUs is known"),
        ("vllm", "cpu", "no image of vllm for the CPU is known"),
        ("sglang", "nvidia", "lmsysorg/sglang:v0.5.23"),
        ("sglang", "amd", "no image of sglang for AMD GPUs is known"),
        ("llamacpp", "amd", "ghcr.io/ggml-org/llama.cpp:server-rocm"),
        ("llamacpp", "intel", "ghcr.io/ggml-org/llama.cpp:server-intel"),
        ("llamacpp", "cpu", "ghcr.io/ggml-org/llama.cpp:server"),
        ("tei", "amd", "no image of tei for AMD GPUs is known"),
        ("infinity", "nvidia", "michaelf34/infinity:latest"),
        ("infinity", "intel", "no image of infinity for Intel GPUs is known"),
    ],
)
def test_an_image_is_for_the_maker_of_the_gpu_or_there_is_a_reason(engine, maker, image):
    gpus = [MAKERS[maker]] if maker != "cpu" else []
    (found,) = command_documents([slot(engine, gpus=gpus)])
    if found["compose"] is None:
        assert found["compose_reason"].startswith(image)
        assert "compose.yaml" not in found["files"]
    else:
        assert found["compose"]["image"] == image
        assert "compose_reason" not in found
    own = Settings(images={engine: {maker: "own/image:1"}})
    assert command_documents([slot(engine, gpus=gpus)], own)[0]["compose"]["image"] == "own/image:1"
    other = Settings(images={engine: {"amd" if maker != "amd" else "cpu": "own/image:1"}})
    assert command_documents([slot(engine, gpus=gpus)], other)[0]["compose"] == found["compose"]


@pytest.mark.parametrize(("capability", "image"), [(7.0, None), (7.5, "turing-1.9"), (9.0, "hopper-1.9"), (None, None)])
def test_an_image_of_tei_is_for_a_generation(capability, image):
    (found,) = command_documents([slot("tei", gpus=[{**CARD, "compute_cap": capability}], kind="embedding")])
    made = found["compose"] and found["compose"]["image"].rpartition(":")[2]
    assert made == image
    assert ("compose_reason" in found) is (image is None)


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"images": {"vllm": {"nvidea": "x"}}}, "images: vllm: 'nvidea' must be one of nvidia, amd, intel, cpu"),
        ({"images": {"vllm": 3}}, "images: vllm: expected the name of an image"),
        ({"images": {"vllm": {}}}, "images: vllm: expected the name of an image"),
        ({"images": "x"}, "images: expected a dictionary"),
        ({"programs": {"vllm": "bin"}}, "programs: vllm: expected an absolute path"),
        ({"programs": []}, "programs: expected a dictionary"),
        ({"user": "a b"}, "engine_user: 'a b' is not the name of a user"),
        ({"listen": "chat-0"}, "listen: 'chat-0' is not an address"),
        ({"api_key_env": "A B"}, "api_key_env: 'A B' is not the name of a variable"),
        ({"request_timeout": 0}, "request_timeout: expected seconds from 1 to 86400, not 0"),
    ],
)
def test_what_is_wrong_with_settings(more, error):
    (found,) = find_setting_errors(Settings(**more))
    assert found.startswith(error)


def test_settings_that_are_right():
    images = {"vllm": "x", "llamacpp": {"amd": "y", "cpu": "z"}}
    more = {"programs": {"vllm": "/opt/v m/bin"}, "user": "", "listen": "[::]", "api_key_env": "ENGINE_KEY"}
    assert find_setting_errors(Settings(images=images, **more)) == []


def unit_of(document):
    return document["files"][document["unit"]].splitlines()


def test_a_unit_says_where_its_program_is_who_runs_it_and_when_to_give_up():
    fingerprint = "3fa9c0de12345678"
    (document,) = command_documents([slot(fingerprint=fingerprint)])
    lines = unit_of(document)
    assert {
        "StartLimitIntervalSec=10min",
        "StartLimitBurst=5",
        "Type=exec",
        "User=knaster",
        "TimeoutStopSec=30",
        "After=network-online.target",
        f'Environment="KNASTER_FINGERPRINT={fingerprint}"',
        'Environment="PATH=/usr/local/bin:/usr/local/bin:/usr/bin:/bin"',
    } <= set(lines)
    assert lines.index("StartLimitBurst=5") < lines.index("[Service]")
    (start,) = [line for line in lines if line.startswith("ExecStart")]
    assert start.startswith('ExecStart="/usr/local/bin/vllm" "serve" ')
    own = Settings(programs={"vllm": "/opt/v %m/bin"}, user="")
    (document,) = command_documents([slot()], own)
    lines = unit_of(document)
    assert not [line for line in lines if line.startswith("User=") or "KNASTER_FINGERPRINT" in line]
    assert [line for line in lines if line.startswith('ExecStart="/opt/v %%m/bin/vllm" "serve" ')]
    (document,) = command_documents([slot("sglang", 30000)])
    assert any(line.startswith('ExecStart="/usr/bin/python3" ') for line in unit_of(document))
    (document,) = command_documents([slot("sglang", 30000)], Settings(programs={"sglang": "/opt/sglang/bin"}))
    assert any(line.startswith('ExecStart="/opt/sglang/bin/python3" ') for line in unit_of(document))


def test_every_way_to_start_says_what_was_made():
    fingerprint = "3fa9c0de12345678"
    (document,) = command_documents([slot("llamacpp", 8080, fingerprint=fingerprint)])
    told = {"KNASTER_FINGERPRINT": fingerprint, "LLAMA_ARG_TAGS": f"knaster-revision={fingerprint}"}
    assert document["env"] == told
    assert document["compose"]["environment"].items() >= told.items()
    assert f"\nexport KNASTER_FINGERPRINT={fingerprint}\n" in document["files"]["start.sh"]
    assert f'\nKNASTER_FINGERPRINT="{fingerprint}"\n' in document["files"]["engine.env"]
    (document,) = command_documents([slot(lora=True)])
    assert document["env"] == {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}
    ranks = engine_commands(slot(fingerprint=fingerprint, shards=shards("a", "b"), profile=profile(nodes=2)))
    assert [one.env["KNASTER_FINGERPRINT"] for one in ranks] == [fingerprint, fingerprint]


def test_engines_of_one_gpu_start_one_after_the_other():
    health = {"health": "/health"}
    first = slot(paths=health, startup_timeout=300)
    second = slot(slot="chat.0.more", endpoint="http://chat-0:8001", paths=health)
    third = slot("tei", 3000, slot="chat.0.embed", kind="embedding", paths=health)
    alone = slot(slot="code.0.main", vm={"name": "code-0"}, paths=health)
    units = [unit_of(one) for one in command_documents([first, second, third, alone])]
    after = [next(line for line in lines if line.startswith("After=")) for lines in units]
    assert after == [
        "After=network-online.target",
        "After=network-online.target knaster-chat.0.main.service",
        "After=network-online.target knaster-chat.0.main.service knaster-chat.0.more.service",
        "After=network-online.target",
    ]
    # Each is up when it is healthy, and not when its process is there.
    posts = [[line for line in lines if line.startswith(("ExecStartPost=", "TimeoutStartSec="))] for lines in units]
    assert posts[3] == []
    assert posts[0][0].endswith('"sh" "http://127.0.0.1:8000/health"')
    assert posts[1][0].endswith('"sh" "http://127.0.0.1:8001/health"')
    assert [one[1] for one in posts[:3]] == ["TimeoutStartSec=300", "TimeoutStartSec=1200", "TimeoutStartSec=1200"]
    ways = [
        bare(paths=health, gpus=two("GPU-b", "GPU-c"), slot="a.0.x", endpoint="http://10.0.0.5:8000"),
        bare(paths=health, gpus=[{"index": 3, "uuid": "GPU-c"}], slot="b.0.x"),
        bare(paths=health, gpus=[{"index": 4, "uuid": "GPU-d"}], slot="c.0.x"),
        bare(paths=health, gpus=[], slot="d.0.x"),
    ]
    units = [unit_of(one) for one in command_documents(ways, Settings(listen="0.0.0.0"))]
    after = [next(line for line in lines if line.startswith("After=")) for lines in units]
    assert [line.partition(" ")[2] for line in after] == ["", "knaster-a.0.x.service", "", ""]
    assert any(line.endswith('"http://127.0.0.1:8000/health"') for line in units[0])


def test_waiting_for_an_engine_ends_when_it_is_healthy_or_gone(tmp_path):
    (document, _second) = command_documents(
        [slot(paths={"health": "/health"}), slot(slot="chat.0.more", paths={"health": "/health"})]
    )
    post = next(line for line in unit_of(document) if line.startswith("ExecStartPost="))
    script = post.split('" "')[2].replace('\\"', '"').replace("$$", "$")
    curl = tmp_path / "curl"
    curl.write_text('#!/bin/sh\nfor word; do :; done\necho "$word" >>told\n[ "$(wc -l <told)" -ge 2 ]\n')
    curl.chmod(0o755)
    sleep = tmp_path / "sleep"
    sleep.write_text("#!/bin/sh\n")
    sleep.chmod(0o755)

    def wait(pid):
        (tmp_path / "told").unlink(missing_ok=True)
        env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "MAINPID": str(pid)}
        words = ["/bin/sh", "-c", script, "sh", "http://x/health"]
        return subprocess.run(
            words, env=env, cwd=tmp_path, check=False, timeout=30, stderr=subprocess.DEVNULL
        ).returncode

    assert wait(os.getpid()) == 0
    assert (tmp_path / "told").read_text() == "http://x/health\n" * 2
    with subprocess.Popen(["/bin/true"]) as gone:
        gone.wait()
    assert wait(gone.pid) == 1


def test_no_two_slots_share_a_project_and_all_share_what_was_downloaded():
    spans = [slot(slot=f"big.{number}.main", shards=shards("a", "b"), profile=profile(nodes=2)) for number in range(2)]
    single = [slot(slot=name) for name in ("a.0.x", "a_0.x", "a.0_x", "a-0.x")]
    files = [yaml.safe_load(one["files"]["compose.yaml"]) for one in command_documents([*spans, *single])]
    projects = [one["name"] for one in files]
    assert projects[:4] == [
        "knaster-big_0_main_rank0",
        "knaster-big_0_main_rank1",
        "knaster-big_1_main_rank0",
        "knaster-big_1_main_rank1",
    ]
    assert len(set(projects)) == len(projects) == 8
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name) for name in projects)
    assert {json.dumps(one["volumes"]) for one in files} == {'{"models": {"name": "knaster-models"}}'}


def test_what_is_not_told_is_a_variable_of_the_machine():
    args = ["--seed", "1", "--otlp-headers", "${KNASTER_ARG_OTLP_HEADERS}"]
    (document,) = command_documents([slot(profile=profile(args=args), aliases=["${PATH}"])])
    assert document["passed"] == ["KNASTER_ARG_OTLP_HEADERS", "VLLM_API_KEY", "HF_TOKEN"]
    assert '--otlp-headers "${KNASTER_ARG_OTLP_HEADERS}"\n' in document["files"]["start.sh"]
    assert '"--otlp-headers" "${KNASTER_ARG_OTLP_HEADERS}"' in document["files"][document["unit"]]
    assert document["compose"]["entrypoint"][-1] == "${KNASTER_ARG_OTLP_HEADERS}"
    # A name of the catalog that looks like one stays a name.
    assert "'${PATH}'" in document["files"]["start.sh"]


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
        env = {"PATH": f"{path}:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "KNASTER_ARG_OPT": "of the machine $x"}
        subprocess.run([shell, str(script)], check=True, timeout=30, env=env, cwd=tmp_path)
        words, variables = json.loads(told.read_text())
        wanted = ["of the machine $x" if word == '"${KNASTER_ARG_OPT}"' else word for word in document["argv"]]
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
    documents = [document for document in command_documents(fleet()) if document.get("compose")]
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
