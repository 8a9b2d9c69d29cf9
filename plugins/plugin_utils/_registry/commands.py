# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The start command of an engine as files: for a shell, for systemd, for compose, and its variables."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.engines import (
    NoCommandError,
    engine_commands,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.gpus import (
    VARIABLES,
    device_ids,
    vendor_of,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.quote import (
    EnvRef,
    compose_text,
    env_file_value,
    shell_line,
    shell_word,
    systemd_assignment,
    systemd_word,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.engines import Command

# The first line, or nearly so, of every file that may be removed again.
MARK = "# Written by knaster.inventory: changes are lost."

SECRETS_FILE = "/etc/knaster/secrets.env"

IMAGES: Mapping[str, str] = {
    "vllm": "vllm/vllm-openai:v0.33.0",
    "sglang": "lmsysorg/sglang:v0.5.23",
    "llamacpp": "ghcr.io/ggml-org/llama.cpp:server-cuda",
    "tei": "ghcr.io/huggingface/text-embeddings-inference:1.9",
    "infinity": "michaelf34/infinity:latest",
}
_CPU_IMAGES: Mapping[str, str] = {
    "llamacpp": "ghcr.io/ggml-org/llama.cpp:server",
    "tei": "ghcr.io/huggingface/text-embeddings-inference:cpu-1.9",
    "infinity": "michaelf34/infinity:latest-cpu",
}
# An image of text-embeddings-inference is built for one generation of GPUs.
_TEI_TAGS: Mapping[str, str] = {
    "7.5": "turing-1.9",
    "8.0": "1.9",
    "8.6": "86-1.9",
    "8.9": "89-1.9",
    "9.0": "hopper-1.9",
    "10.0": "100-1.9",
    "12.0": "120-1.9",
    "12.1": "121-1.9",
}
# Programs that are not on the path of their image.
_PROGRAMS: Mapping[str, str] = {"llama-server": "/app/llama-server", "rpc-server": "/app/rpc-server"}

# Where the downloads of every engine go in its container.
_CACHE = "/models"
_CACHE_ENV = {"HF_HOME": _CACHE, "HUGGINGFACE_HUB_CACHE": f"{_CACHE}/hub", "LLAMA_CACHE": f"{_CACHE}/llama.cpp"}


def command_documents(
    slots: Iterable[Mapping[str, t.Any]], *, images: Mapping[str, str] | None = None, api_keys: bool = False
) -> list[dict[str, t.Any]]:
    """Return for each slot how its engine is started, or why there is no command for it."""
    found: list[dict[str, t.Any]] = []
    for slot in slots:
        try:
            commands = engine_commands(slot, api_keys=api_keys)
        except NoCommandError as exc:
            found.append({"slot": slot["slot"], "reason": str(exc)})
            continue
        found.extend(_document(slot, command, images or {}) for command in commands)
    return found


def _document(slot: Mapping[str, t.Any], command: Command, images: Mapping[str, str]) -> dict[str, t.Any]:
    rank = {} if command.rank is None else {"rank": command.rank}
    compose = compose_service(slot, command, images)
    return {
        "slot": command.slot,
        **rank,
        "node": command.node,
        **({} if command.vm is None else {"vm": command.vm}),
        "engine": command.engine,
        "argv": [shell_word(word) if isinstance(word, EnvRef) else word for word in command.argv],
        "env": dict(command.env),
        "passed": list(command.passed),
        "unit": unit_name(command),
        "files": {
            "start.sh": shell_file(command),
            "engine.env": env_file(command),
            unit_name(command): unit_file(command),
            "compose.yaml": compose_file(command, compose),
        },
        "compose": compose,
    }


def unit_name(command: Command) -> str:
    """Return the name of the systemd unit; it is the name of the compose service too."""
    return f"knaster-{service_name(command)}.service"


def service_name(command: Command) -> str:
    """Return the name of a slot's service, or of that of one rank."""
    return command.slot if command.rank is None else f"{command.slot}.rank{command.rank}"


def folder(document: Mapping[str, t.Any]) -> str:
    """Return the directory of a command's files below that of all engines."""
    return str(document["slot"]) + (f"/rank{document['rank']}" if "rank" in document else "")


def shell_file(command: Command) -> str:
    """Return a script that a POSIX shell runs."""
    sets = "".join(f"export {name}={shell_word(value)}\n" for name, value in command.env.items())
    return f"#!/bin/sh\n{MARK}\n{sets}exec {shell_line(command.argv)}\n"


def env_file(command: Command) -> str:
    """Return the plain variables for a shell, for C(EnvironmentFile) and for C(docker run)'s shell."""
    return f"{MARK}\n" + "".join(f"{name}={env_file_value(value)}\n" for name, value in command.env.items())


def unit_file(command: Command) -> str:
    """Return a systemd unit; secrets come from a file that only the machine has."""
    sets = "".join(f"Environment={systemd_assignment(name, value)}\n" for name, value in command.env.items())
    return (
        f"{MARK}\n"
        "[Unit]\n"
        f"Description=Engine of slot {service_name(command)}\n"
        "Wants=network-online.target\n"
        "After=network-online.target\n"
        "\n"
        "[Service]\n"
        "Type=exec\n"
        f"EnvironmentFile=-{SECRETS_FILE}\n"
        f"{sets}"
        f"ExecStart=/usr/bin/env {' '.join(systemd_word(word) for word in command.argv)}\n"
        "Restart=on-failure\n"
        "RestartSec=10\n"
        "\n"
        "[Install]\n"
        "WantedBy=multi-user.target\n"
    )


def compose_file(command: Command, service: Mapping[str, t.Any]) -> str:
    """Return a compose file with the one service."""
    document = {"services": {service_name(command): service}, "volumes": {"models": {}}}
    return f"{MARK}\n{json.dumps(document, indent=2)}\n"


def compose_service(slot: Mapping[str, t.Any], command: Command, images: Mapping[str, str]) -> dict[str, t.Any]:
    """Return the compose service, with every text as compose reads it."""
    first = compose_text(command.argv[0])
    gpus = slot.get("gpus") or () if command.gpus is None else command.gpus
    devices = _devices(gpus, all_of_them=command.gpus is None) if gpus else {}
    env = dict(command.env)
    if "deploy" in devices and command.gpus is not None:
        # In the container only these GPUs are there, and are counted anew.
        env = {name: value for name, value in env.items() if name not in VARIABLES}
    service: dict[str, t.Any] = {
        "image": compose_text(
            (slot.get("profile") or {}).get("image") or images.get(command.engine) or _image(slot, command.engine)
        ),
        "entrypoint": [_PROGRAMS.get(first, first), *(compose_text(word) for word in command.argv[1:])],
        "environment": {name: compose_text(value) for name, value in (_CACHE_ENV | env).items()}
        # Without a value compose takes it from where it runs, and leaves it out where it is not there.
        | dict.fromkeys(command.passed),
        "network_mode": "host",
        "ipc": "host",
        "restart": "unless-stopped",
        "volumes": ["models:" + _CACHE],
    }
    if command.local_path is not None:
        path = compose_text(command.local_path)
        service["volumes"].append({"type": "bind", "source": path, "target": path, "read_only": True})
    return service | devices


def _image(slot: Mapping[str, t.Any], engine: str) -> str:
    if not slot.get("gpus"):
        return _CPU_IMAGES.get(engine, IMAGES[engine])
    if engine == "tei":
        tag = _TEI_TAGS.get(str(slot["gpus"][0].get("compute_cap")), "1.9")
        return f"{IMAGES[engine].rpartition(':')[0]}:{tag}"
    return IMAGES[engine]


def _devices(gpus: Sequence[Mapping[str, t.Any]], *, all_of_them: bool) -> dict[str, t.Any]:
    vendor = vendor_of(gpus) or "nvidia"
    if vendor == "nvidia":
        which = {"count": "all"} if all_of_them else {"device_ids": device_ids(gpus)}
        devices = [{"driver": "nvidia", **which, "capabilities": ["gpu"]}]
        return {"deploy": {"resources": {"reservations": {"devices": devices}}}}
    return {"devices": ["/dev/dri", *(["/dev/kfd"] if vendor == "amd" else [])]}
