# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""How the engine of a slot is started: its command line and its variables, from what the slot's document says.

The options are those of vLLM 0.33, SGLang 0.5.23, llama.cpp of October 2026, text-embeddings-inference 1.9.3 and
infinity 0.0.78. What the profile's own arguments say is not said again.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ansible_collections.knaster.inventory.plugins.module_utils._memory.run import ALL_LAYERS, option_name, read_run
from ansible_collections.knaster.inventory.plugins.module_utils._replicas.revision import (
    FINGERPRINT_ENV,
    FINGERPRINT_TAG,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.gpus import (
    VARIABLES,
    visible_gpus,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.names import is_address
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.quote import EnvRef, clean
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.secrets import as_reference, reference

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.quote import Word

# Ports by which the parts of a replica over several nodes find each other.
RAY_PORT = 6379
SGLANG_PORT = 20000
RPC_PORT = 50052
RENDEZVOUS_PORTS: Mapping[str, int] = {"vllm": RAY_PORT, "sglang": SGLANG_PORT, "llamacpp": RPC_PORT}

# What a slot must have to be started, and what is said where it does not.
_NEEDED = {
    "model": "no model is set for it",
    "source": "the catalog has no source for its model",
    "endpoint": "its port is not known",
}

# text-embeddings-inference takes so many tokens at once unless it is told otherwise.
_TEI_TOKENS = 16384
_SOURCE = re.compile(
    r"(?P<repo>[^/:@]+/[^/:@]+)(?:@(?P<revision>.+)|/(?P<file>.+\.gguf)|:(?P<quant>.+))?", re.IGNORECASE
)


_POOLING = ("embedding", "reranker")


class NoCommandError(Exception):
    """A slot whose engine cannot be started by a command; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What starts the engine of a slot, or one part of it, in one VM or on one node.

    ``env`` are plain values; ``passed`` are variables that the VM or node knows and the engine reads. On bare metal there is
    no ``vm``, and the engine has only these ``gpus`` of its node.
    """

    slot: str
    node: str
    vm: str | None
    engine: str
    rank: int | None
    argv: tuple[Word, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    passed: tuple[str, ...] = ()
    gpus: tuple[Mapping[str, t.Any], ...] | None = None
    port: int | None = None
    local_path: str | None = None
    listen: str = ""
    health: str | None = None
    startup_timeout: int | None = None


@dataclass(slots=True)
class _Line:
    """A command line in the making."""

    slot: Mapping[str, t.Any]
    words: list[Word]
    args: Sequence[str]

    def states(self, *names: str) -> bool:
        """Return whether the profile's own arguments give an option."""
        return any(option_name(word) in names for word in self.args)

    def add(self, name: str, *values: object, also: Sequence[str] = (), when: object = True) -> None:
        """Add an option with its values, unless the profile gives it (``also``: its other names) or a value is None."""
        if when and None not in values and not self.states(name, *also):
            self.words += [name, *(value if isinstance(value, EnvRef) else str(value) for value in values)]

    def profile(self, name: str) -> int | None:
        """Return a size of the profile; None where it is 1, as engines have it by themselves."""
        size = int((self.slot.get("profile") or {}).get(name) or 1)
        return size if size > 1 else None


def engine_commands(slot: Mapping[str, t.Any], *, api_keys: bool = False, listen: str = "") -> list[Command]:
    """Return what starts the engine of a slot: one command, or one for each node of its replica in order of rank.

    :param slot: the slot's document
    :param api_keys: whether engines want a key; those that take it only by an option get it from a variable
    :param listen: the address to listen on. Without one it is that of the endpoint, and where the endpoint is a name this
        machine alone, unless engines want a key
    :raises NoCommandError: where there is nothing to start, or it is not known how
    """
    engine = str(slot["engine"])
    make = _ENGINES.get(engine)
    if make is None:
        raise NoCommandError(f"it is not known how {engine} is started")
    for key, reason in _NEEDED.items():
        if slot.get(key) is None:
            raise NoCommandError(reason)
    profile = slot.get("profile") or {}
    told: Mapping[str, str] = profile.get("env") or {}
    if slot.get("bare_metal"):
        told = {name: value for name, value in told.items() if name not in VARIABLES}
    env = {name: clean(value) for name, value in told.items() if value != reference(name)}
    args = [str(word) for word in profile.get("args") or ()]
    told_slot = {**slot, "listen": _listen(slot, api_keys, listen)}
    lines = [_with_references(line, args) for line in make(told_slot, args, api_keys)]
    env |= _own_env(slot)
    source = str(slot["source"])
    keys = _KEYS.get(engine, ())
    named = [word.name for word in map(as_reference, args) if isinstance(word, EnvRef)]
    found = []
    for rank, line in enumerate(lines):
        shard = slot["shards"][rank] if len(lines) > 1 else slot
        gpus = tuple(shard.get("gpus") or ()) if slot.get("bare_metal") else None
        own = env if gpus is None else env | visible_gpus(gpus)
        if len(lines) > 1 and engine == "vllm" and is_address(shard["host"]):
            own = own | {"VLLM_HOST_IP": shard["host"].strip("[]")}
        found.append(
            Command(
                slot=str(slot["slot"]),
                node=str(shard["node"]),
                vm=str(shard["vm"]["name"]) if "vm" in shard else None,
                engine=engine,
                rank=rank if len(lines) > 1 else None,
                argv=tuple(word if isinstance(word, EnvRef) else clean(word) for word in line),
                env=own,
                passed=tuple(dict.fromkeys((*(name for name in told if name not in env), *named, *keys, "HF_TOKEN"))),
                gpus=gpus,
                port=_port(slot) if rank == 0 else None,
                local_path=source if source.startswith("/") else None,
                listen=told_slot["listen"],
                health=(slot.get("paths") or {}).get("health") if len(lines) == 1 else None,
                startup_timeout=slot.get("startup_timeout"),
            )
        )
    return found


def _port(slot: Mapping[str, t.Any]) -> int:
    return int(str(slot["endpoint"]).rpartition(":")[2])


def _rendezvous_port(slot: Mapping[str, t.Any]) -> int:
    return int(slot.get("rendezvous_port") or RENDEZVOUS_PORTS[str(slot["engine"])])


def _own_env(slot: Mapping[str, t.Any]) -> dict[str, str]:
    """Return the variables by which a process tells what it was made from, and those that go with what its model may do."""
    found = {}
    if slot.get("fingerprint"):
        found[FINGERPRINT_ENV] = str(slot["fingerprint"])
        if slot["engine"] == "llamacpp":
            # It tells its tags in its list of models; a release that has no tags does not read the variable.
            found["LLAMA_ARG_TAGS"] = FINGERPRINT_TAG + str(slot["fingerprint"])
    if slot["engine"] == "vllm" and slot.get("lora"):
        # Adapters come while it runs, or never.
        found["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "True"
    return found


def _with_references(line: list[Word], args: Sequence[str]) -> list[Word]:
    """Return a line that ends in the profile's arguments with what the machine knows in the place of its name."""
    if not args or line[-len(args) :] != list(args):
        return line
    return [*line[: -len(args)], *map(as_reference, args)]


def _listen(slot: Mapping[str, t.Any], api_keys: bool, told: str) -> str:  # noqa: FBT001
    """Return the address to listen on. Whoever reaches an engine without a key can use it, so that it is not all of them."""
    host = str(slot["endpoint"]).removeprefix("http://").rpartition(":")[0]
    every = "::" if host.startswith("[") else "0.0.0.0"  # noqa: S104
    if told or api_keys:
        return told.strip("[]") or every
    return host.strip("[]") if is_address(host) else "127.0.0.1"


def _bind(slot: Mapping[str, t.Any]) -> str:
    return str(slot["listen"])


def _heads(slot: Mapping[str, t.Any]) -> list[str]:
    return [str(shard["host"]) for shard in slot.get("shards") or ()]


def _names(slot: Mapping[str, t.Any]) -> list[str]:
    return [str(slot["model"]), *(str(name) for name in slot.get("aliases") or ())]


def _split_source(slot: Mapping[str, t.Any]) -> tuple[str, str | None]:
    """Return what the engine loads, and the revision of it."""
    source = str(slot["source"])
    match = None if source.startswith("/") else _SOURCE.fullmatch(source)
    if match is None or match["revision"] is None:
        return source, None
    return match["repo"], match["revision"]


def _vllm(slot: Mapping[str, t.Any], args: Sequence[str], _keys: bool) -> list[list[Word]]:  # noqa: FBT001
    source, revision = _split_source(slot)
    line = _Line(slot, ["vllm", "serve", source], args)
    line.add("--host", _bind(slot))
    line.add("--port", _port(slot))
    line.add("--served-model-name", *_names(slot))
    line.add("--revision", revision)
    line.add("--tensor-parallel-size", line.profile("tp"), also=("-tp",))
    line.add("--pipeline-parallel-size", line.profile("pp"), also=("-pp",))
    line.add("--data-parallel-size", line.profile("dp"), also=("-dp",))
    line.add("--enable-expert-parallel", also=("-ep",), when=(slot.get("profile") or {}).get("expert_parallel"))
    line.add("--max-model-len", slot.get("context_length") or None)
    line.add("--gpu-memory-utilization", slot.get("memory_fraction") or None, also=("--kv-cache-memory-bytes",))
    line.add("--runner", "pooling", when=slot.get("kind") in _POOLING)
    line.add("--enable-lora", when=slot.get("lora"))
    hosts = _heads(slot)
    if not hosts:
        return [[*line.words, *args]]
    line.add("--distributed-executor-backend", "ray")
    # The parts of the replica meet at the head; the engine waits there until all of them are in.
    port = _rendezvous_port(slot)
    # On a node others may have a Ray of their own, so that the engine is told which one is meant.
    run = f'exec env "RAY_ADDRESS={hosts[0]}:{port}" "$@"' if slot.get("bare_metal") else 'exec "$@"'
    head: list[Word] = ["/bin/sh", "-c", f"ray start --head --port={port} && {run}", "sh", *line.words, *args]
    worker: list[Word] = ["ray", "start", f"--address={hosts[0]}:{port}", "--block"]
    return [head, *(list(worker) for _host in hosts[1:])]


def _sglang(slot: Mapping[str, t.Any], args: Sequence[str], keys: bool) -> list[list[Word]]:  # noqa: FBT001
    source, revision = _split_source(slot)
    line = _Line(slot, ["python3", "-m", "sglang.launch_server", "--model-path", source], args)
    line.add("--host", _bind(slot))
    line.add("--port", _port(slot))
    line.add("--served-model-name", slot["model"])
    line.add("--revision", revision)
    line.add("--tp-size", line.profile("tp"), also=("--tensor-parallel-size", "--tp"))
    line.add("--pp-size", line.profile("pp"), also=("--pipeline-parallel-size", "--pp"))
    line.add("--dp-size", line.profile("dp"), also=("--data-parallel-size", "--dp"))
    if (slot.get("profile") or {}).get("expert_parallel"):
        line.add("--ep-size", line.profile("tp"), also=("--expert-parallel-size", "--ep"))
    line.add("--context-length", slot.get("context_length") or None)
    line.add("--mem-fraction-static", _static_fraction(slot))
    line.add("--is-embedding", when=slot.get("kind") in _POOLING)
    # Adapters that are loaded later must fit what the engine was told when it started.
    line.add("--enable-lora", when=slot.get("lora"))
    line.add("--max-lora-rank", 64, also=("--lora-paths",), when=slot.get("lora"))
    line.add("--lora-target-modules", "all", also=("--lora-paths",), when=slot.get("lora"))
    line.add("--enable-metrics")
    line.add("--api-key", EnvRef("SGLANG_API_KEY"), when=keys)
    hosts = _heads(slot)
    if not hosts:
        return [[*line.words, *args]]
    head = f"{hosts[0]}:{_rendezvous_port(slot)}"
    joint: list[Word] = ["--dist-init-addr", head, "--nnodes", str(len(hosts)), "--node-rank"]
    return [[*line.words, *joint, str(rank), *args] for rank in range(len(hosts))]


def _static_fraction(slot: Mapping[str, t.Any]) -> float | None:
    """SGLang counts weights and cache only: what the engine takes beside them comes off its share."""
    if not slot.get("memory_fraction"):
        return None
    beside = 4.0
    sizes = [gpu["memory_gb"] for gpu in slot.get("gpus") or () if gpu.get("memory_gb")]
    share = float(slot["memory_fraction"])
    return int(max(0.1, share - beside / sizes[0] if sizes else share * 0.85) * 100) / 100


def _llamacpp(slot: Mapping[str, t.Any], args: Sequence[str], _keys: bool) -> list[list[Word]]:  # noqa: FBT001
    line = _Line(slot, ["llama-server", *_gguf(str(slot["source"]))], args)
    # A name with a comma would be two.
    line.add("--alias", ",".join(name for name in _names(slot) if "," not in name), also=("-a",))
    line.add("--host", _bind(slot))
    line.add("--port", _port(slot))
    env = (slot.get("profile") or {}).get("env") or {}
    if slot.get("context_length") and "LLAMA_ARG_CTX_SIZE" not in env:
        run = read_run("llamacpp", args, env)
        # It divides its context over the slots, unless they share it.
        shares = 1 if run.unified else run.sequences
        line.add("--ctx-size", slot["context_length"] * shares, also=("-c",))
    # All that was planned for a GPU goes there, and nothing where there is none.
    line.add("--n-gpu-layers", ALL_LAYERS if slot.get("gpus") else 0, also=("-ngl", "--gpu-layers"))
    if slot.get("memory_fraction") and slot.get("gpus") and slot["gpus"][0].get("memory_gb"):
        left = (1 - float(slot["memory_fraction"])) * slot["gpus"][0]["memory_gb"] * 1024
        line.add("--fit-target", int(left), also=("-fitt",))
    line.add("--embedding", also=("--embeddings",), when=slot.get("kind") == "embedding")
    line.add("--reranking", also=("--rerank",), when=slot.get("kind") == "reranker")
    line.add("--metrics")
    hosts = _heads(slot)
    if not hosts:
        return [[*line.words, *args]]
    line.add("--rpc", ",".join(f"{host}:{_rendezvous_port(slot)}" for host in hosts[1:]))
    port = str(_rendezvous_port(slot))
    # What has only a name is reached by it from the other nodes.
    workers: list[list[Word]] = [
        ["rpc-server", "--host", host.strip("[]") if is_address(host) else "0.0.0.0", "--port", port]  # noqa: S104
        for host in hosts[1:]
    ]
    return [[*line.words, *args], *workers]


def _gguf(source: str) -> list[Word]:
    match = None if source.startswith("/") else _SOURCE.fullmatch(source)
    if match is None:
        return ["--model", source]
    if match["file"]:
        return ["--hf-repo", match["repo"], "--hf-file", match["file"]]
    if match["revision"]:
        raise NoCommandError("llama.cpp cannot load a revision of a hub id; name a file")
    return ["--hf-repo", source]


def _tei(slot: Mapping[str, t.Any], args: Sequence[str], _keys: bool) -> list[list[Word]]:  # noqa: FBT001
    source, revision = _split_source(slot)
    line = _Line(slot, ["text-embeddings-router", "--model-id", source], args)
    line.add("--hostname", _bind(slot))
    line.add("--port", _port(slot), also=("-p",))
    line.add("--served-model-name", slot["model"])
    line.add("--revision", revision)
    context = slot.get("context_length") or 0
    line.add("--max-batch-tokens", context, when=context > _TEI_TOKENS)
    return [[*line.words, *args]]


def _infinity(slot: Mapping[str, t.Any], args: Sequence[str], _keys: bool) -> list[list[Word]]:  # noqa: FBT001
    source, revision = _split_source(slot)
    line = _Line(slot, ["infinity_emb", "v2", "--model-id", source], args)
    line.add("--served-model-name", slot["model"])
    line.add("--host", _bind(slot))
    line.add("--port", _port(slot))
    line.add("--revision", revision)
    line.add("--device", "cuda" if slot.get("gpus") else "cpu")
    return [[*line.words, *args]]


_ENGINES: Mapping[str, Callable[[Mapping[str, t.Any], Sequence[str], bool], list[list[Word]]]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "llamacpp": _llamacpp,
    "tei": _tei,
    "infinity": _infinity,
}

# The variable by which each engine takes its key.
_KEYS: Mapping[str, tuple[str, ...]] = {
    "vllm": ("VLLM_API_KEY",),
    "sglang": ("SGLANG_API_KEY",),
    "llamacpp": ("LLAMA_API_KEY",),
    "tei": ("API_KEY",),
    "infinity": ("INFINITY_API_KEY",),
}
