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
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.settings import Settings
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import short_hash

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.engines import Command

# The first line, or nearly so, of every file that may be removed again.
MARK = "# Written by knaster.inventory: changes are lost."

SECRETS_FILE = "/etc/knaster/secrets.env"

# What the engines publish, by engine and by who made the GPUs (cpu: without GPUs), of the versions whose options are written.
IMAGES: Mapping[str, Mapping[str, str]] = {
    "vllm": {"nvidia": "vllm/vllm-openai:v0.33.0", "amd": "vllm/vllm-openai-rocm:v0.33.0"},
    "sglang": {"nvidia": "lmsysorg/sglang:v0.5.23"},
    "llamacpp": {
        "nvidia": "ghcr.io/ggml-org/llama.cpp:server-cuda",
        "amd": "ghcr.io/ggml-org/llama.cpp:server-rocm",
        "intel": "ghcr.io/ggml-org/llama.cpp:server-intel",
        "cpu": "ghcr.io/ggml-org/llama.cpp:server",
    },
    "tei": {"cpu": "ghcr.io/huggingface/text-embeddings-inference:cpu-1.9"},
    "infinity": {"nvidia": "michaelf34/infinity:latest", "cpu": "michaelf34/infinity:latest-cpu"},
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
_TEI = "ghcr.io/huggingface/text-embeddings-inference"
_MAKERS: Mapping[str, str] = {"nvidia": "NVIDIA GPUs", "amd": "AMD GPUs", "intel": "Intel GPUs", "cpu": "the CPU"}
# Where a unit looks for the programs of engines unless somebody says otherwise; an interpreter is one of the system.
_PROGRAM_DIR = "/usr/local/bin"
_SYSTEM_PROGRAMS: Mapping[str, str] = {"python3": "/usr/bin/python3"}
_STARTUP_TIMEOUT = 1200
# Programs that are not on the path of their image.
_PROGRAMS: Mapping[str, str] = {"llama-server": "/app/llama-server", "rpc-server": "/app/rpc-server"}

# Where the downloads of every engine go in its container.
_CACHE = "/models"
_CACHE_ENV = {"HF_HOME": _CACHE, "HUGGINGFACE_HUB_CACHE": f"{_CACHE}/hub", "LLAMA_CACHE": f"{_CACHE}/llama.cpp"}


class NoImageError(Exception):
    """An engine for which there is no container image; the text says why."""


def command_documents(slots: Iterable[Mapping[str, t.Any]], settings: Settings | None = None) -> list[dict[str, t.Any]]:
    """Return for each slot how its engine is started, or why there is no command for it."""
    settings = settings or Settings()
    found: list[dict[str, t.Any] | tuple[Mapping[str, t.Any], Command]] = []
    for slot in slots:
        try:
            commands = engine_commands(slot, api_keys=settings.api_keys, listen=settings.listen)
        except NoCommandError as exc:
            found.append({"slot": slot["slot"], "reason": str(exc)})
            continue
        found.extend((slot, command) for command in commands)
    turns = _turns([one for one in found if isinstance(one, tuple)])
    return [one if isinstance(one, dict) else _document(*one, settings, turns) for one in found]


def _turns(commands: Iterable[tuple[Mapping[str, t.Any], Command]]) -> dict[str, tuple[str, ...]]:
    """Return for each unit of a GPU that others have as well the units that start before it there.

    Two engines that load at once each take what the other has loaded so far for its own.
    """
    units: dict[tuple[t.Any, ...], list[str]] = {}
    for slot, command in commands:
        if command.rank is None:
            for gpu in slot.get("gpus") or ():
                units.setdefault((command.node, command.vm, gpu["index"]), []).append(unit_name(command))
    found: dict[str, dict[str, None]] = {}
    for names in units.values():
        for at, name in enumerate(names if len(names) > 1 else ()):
            found.setdefault(name, {}).update(dict.fromkeys(names[:at]))
    return {name: tuple(before) for name, before in found.items()}


def _document(
    slot: Mapping[str, t.Any], command: Command, settings: Settings, turns: Mapping[str, tuple[str, ...]]
) -> dict[str, t.Any]:
    rank = {} if command.rank is None else {"rank": command.rank}
    files = {
        "start.sh": shell_file(command),
        "engine.env": env_file(command),
        unit_name(command): unit_file(command, settings, turns.get(unit_name(command))),
    }
    contained: dict[str, t.Any] = {"compose": None}
    try:
        contained["compose"] = compose_service(slot, command, settings.images)
        files["compose.yaml"] = compose_file(command, contained["compose"])
    except NoImageError as exc:
        contained["compose_reason"] = str(exc)
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
        "files": files,
        **contained,
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


def unit_file(command: Command, settings: Settings, before: Sequence[str] | None = None) -> str:
    """Return a systemd unit; secrets come from a file that only the machine has.

    :param before: where its GPU has several engines the units that have to be up before it starts; of each of them systemd
        learns that it is up when it is healthy
    """
    directory = settings.programs.get(command.engine, _PROGRAM_DIR)
    first, *rest = command.argv
    program = first if str(first).startswith("/") else _program(str(first), directory)
    after = " ".join(["network-online.target", *(before or ())])
    return (
        f"{MARK}\n"
        "[Unit]\n"
        f"Description=Engine of slot {service_name(command)}\n"
        "Wants=network-online.target\n"
        f"After={after}\n"
        "StartLimitIntervalSec=10min\n"
        "StartLimitBurst=5\n"
        "\n"
        "[Service]\n"
        "Type=exec\n" + (f"User={settings.user}\n" if settings.user else "") + f"EnvironmentFile=-{SECRETS_FILE}\n"
        f"Environment={systemd_assignment('PATH', f'{directory}:/usr/local/bin:/usr/bin:/bin')}\n"
        + "".join(f"Environment={systemd_assignment(name, value)}\n" for name, value in command.env.items())
        + f"ExecStart={' '.join([systemd_word(program), *(systemd_word(word) for word in rest)])}\n"
        + (_wait_until_healthy(command) if before is not None else "")
        + "Restart=on-failure\n"
        "RestartSec=10\n"
        "TimeoutStopSec=30\n"
        "\n"
        "[Install]\n"
        "WantedBy=multi-user.target\n"
    )


def _program(name: str, directory: str) -> str:
    if name in _SYSTEM_PROGRAMS and directory == _PROGRAM_DIR:
        return _SYSTEM_PROGRAMS[name]
    return f"{directory.rstrip('/')}/{name}"


def _wait_until_healthy(command: Command) -> str:
    """Return the lines by which a unit is up only when its engine is: what starts behind it has the GPU's memory to itself."""
    if command.health is None or command.port is None:
        return ""
    host = f"[{command.listen}]" if ":" in command.listen else command.listen
    host = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)  # noqa: S104
    url = f"http://{host}:{command.port}{command.health}"
    script = 'until curl --silent --fail --max-time 5 --output /dev/null "$1"; do kill -0 "$MAINPID" || exit 1; sleep 2; done'
    words = ("/bin/sh", "-c", script, "sh", url)
    return (
        f"ExecStartPost={' '.join(systemd_word(word) for word in words)}\n"
        f"TimeoutStartSec={command.startup_timeout or _STARTUP_TIMEOUT}\n"
    )


def compose_file(command: Command, service: Mapping[str, t.Any]) -> str:
    """Return a compose file with the one service, of a project of its own; what was downloaded is kept for all."""
    document = {
        "name": project_name(command),
        "services": {service_name(command): service},
        "volumes": {"models": {"name": "knaster-models"}},
    }
    return f"{MARK}\n{json.dumps(document, indent=2)}\n"


def project_name(command: Command) -> str:
    """Return the name of the compose project, which no other slot or rank has."""
    name = service_name(command)
    end = f"-{short_hash(name, 8)}" if "_" in name else ""
    return f"knaster-{name.replace('.', '_')}{end}"


def compose_service(
    slot: Mapping[str, t.Any], command: Command, images: Mapping[str, str | Mapping[str, str]]
) -> dict[str, t.Any]:
    """Return the compose service, with every text as compose reads it.

    :raises NoImageError: where there is no image of the engine for its GPUs
    """
    first = compose_text(command.argv[0])
    gpus = slot.get("gpus") or () if command.gpus is None else command.gpus
    devices = _devices(gpus, all_of_them=command.gpus is None) if gpus else {}
    env = dict(command.env)
    if "deploy" in devices and command.gpus is not None:
        # In the container only these GPUs are there, and are counted anew.
        env = {name: value for name, value in env.items() if name not in VARIABLES}
    service: dict[str, t.Any] = {
        "image": compose_text(
            _image(gpus, command.engine, (slot.get("profile") or {}).get("image") or images.get(command.engine))
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


def _image(gpus: Sequence[Mapping[str, t.Any]], engine: str, told: str | Mapping[str, str] | None) -> str:
    maker = (vendor_of(gpus) or "nvidia") if gpus else "cpu"
    if isinstance(told, str):
        return told
    if told and maker in told:
        return told[maker]
    if engine == "tei" and maker == "nvidia":
        capability = str(gpus[0].get("compute_cap"))
        if capability not in _TEI_TAGS:
            raise NoImageError(
                f"no image of tei for GPUs of compute capability {capability} is known; name one in the images"
            )
        return f"{_TEI}:{_TEI_TAGS[capability]}"
    found = IMAGES[engine].get(maker)
    if found is None:
        raise NoImageError(f"no image of {engine} for {_MAKERS[maker]} is known; name one in the images")
    return found


def _devices(gpus: Sequence[Mapping[str, t.Any]], *, all_of_them: bool) -> dict[str, t.Any]:
    vendor = vendor_of(gpus) or "nvidia"
    if vendor == "nvidia":
        which = {"count": "all"} if all_of_them else {"device_ids": device_ids(gpus)}
        devices = [{"driver": "nvidia", **which, "capabilities": ["gpu"]}]
        return {"deploy": {"resources": {"reservations": {"devices": devices}}}}
    return {"devices": ["/dev/dri", *(["/dev/kfd"] if vendor == "amd" else [])]}
