# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The slots as gateways want them: the models of LiteLLM, the processes of llama-swap."""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.engines import (
    NoCommandError,
    engine_commands,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.names import machine_name
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.quote import (
    clean,
    swap_text,
    swap_word,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import shown

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.engines import Command

LITELLM = "litellm"
LLAMA_SWAP = "llama-swap"
FORMATS = (LITELLM, LLAMA_SWAP)

# LiteLLM puts a variable of its own where a text of its configuration begins so.
_ENV_PREFIX = "os.environ/"
# What an engine that wants no key is sent: the client refuses to send none.
_NO_KEY = "none"

_MODES: Mapping[str, str] = {"llm": "chat", "embedding": "embedding", "reranker": "rerank"}
_SUPPORTS: Mapping[str, str] = {
    "tools": "supports_function_calling",
    "vision": "supports_vision",
    "reasoning": "supports_reasoning",
    "audio": "supports_audio_input",
}
_INFO_TEXTS = ("role", "node", "fabric", "routing_profile", "license", "quantization")
_INFO_VALUES = ("lora", "simulated", "slo", "idle_timeout", "startup_timeout")
# What llama-swap is told of a slot without understanding it.
_METADATA = (
    "slot",
    "role",
    "node",
    "max_output",
    "routing_profile",
    "license",
    "quantization",
    "lora",
    "simulated",
)
# llama-swap refuses less, and longer names and descriptions.
_LEAST_HEALTH_TIMEOUT = 15
_MAX_NAME = 128
_MAX_DESCRIPTION = 1024


def make_gateway(
    slots: Iterable[Mapping[str, t.Any]], form: str, *, api_key_env: str = "", vm: str = ""
) -> dict[str, t.Any]:
    """Return the configuration of a gateway for the slots that serve a model.

    :param form: litellm or llama-swap
    :param api_key_env: the variable with the key of the engines, where they want one
    :param vm: for llama-swap, the VM (or on bare metal the node) that it runs on: only its slots, asked on itself
    :raises InputError: with everything that is wrong
    """
    makers: Mapping[str, Callable[[list[Mapping[str, t.Any]], str, str], dict[str, t.Any]]] = {
        LITELLM: _litellm,
        LLAMA_SWAP: _llama_swap,
    }
    if form not in makers:
        raise InputError([f"format: must be one of {', '.join(FORMATS)}, not {shown(form)}"])
    serving = [slot for slot in slots if slot.get("model") is not None and slot.get("endpoint") is not None]
    return makers[form](serving, api_key_env, vm)


# --- LiteLLM


def _litellm(slots: list[Mapping[str, t.Any]], api_key_env: str, _vm: str) -> dict[str, t.Any]:
    # A weight of 0 asks for no requests at all.
    slots = [slot for slot in slots if slot.get("weight", 1) > 0]
    names = {str(slot["model"]): slot for slot in reversed(slots)}
    errors = [
        f"{slot['slot']}: {name!r} begins with {_ENV_PREFIX}, which LiteLLM takes for a variable; rename the model"
        for slot in slots
        for name in (slot["model"], *(slot.get("aliases") or ()))
        if str(name).startswith(_ENV_PREFIX)
    ]
    if errors:
        raise InputError(errors)
    aliases = {
        clean(str(alias)): clean(name)
        for name, slot in sorted(names.items())
        for alias in slot.get("aliases") or ()
        if alias not in names
    }
    fallbacks = [
        {clean(name): others}
        for name, slot in sorted(names.items())
        if (others := [clean(str(other)) for other in slot.get("fallbacks") or () if other in names])
    ]
    settings = _filled(model_group_alias=aliases, fallbacks=fallbacks)
    return {"model_list": [_deployment(slot, api_key_env) for slot in slots], **_filled(router_settings=settings)}


def _filled(**values: t.Any) -> dict[str, t.Any]:
    """Return those of some values that are not empty."""
    return {name: value for name, value in values.items() if value}


def _deployment(slot: Mapping[str, t.Any], api_key_env: str) -> dict[str, t.Any]:
    kind = slot.get("kind") or "llm"
    provider, path = _provider(str(slot["engine"]), kind)
    params: dict[str, t.Any] = {
        "model": f"{provider}/{clean(str(slot['model']))}",
        "api_base": f"{slot['endpoint']}{path}",
        "api_key": f"{_ENV_PREFIX}{api_key_env}" if api_key_env else _NO_KEY,
        "weight": slot.get("weight", 1),
    }
    if slot.get("idle_timeout") is not None and slot.get("startup_timeout") is not None:
        # The first request after a rest waits until the model is loaded again.
        params["timeout"] = max(600, slot["startup_timeout"])
    capabilities = [str(word) for word in slot.get("capabilities") or ()]
    info = {
        "id": slot["slot"],
        "mode": _MODES[kind],
        "description": _litellm_text(slot["description"]) if slot.get("description") else None,
        "max_input_tokens": slot.get("context_length"),
        "max_output_tokens": slot.get("max_output"),
        "max_tokens": slot.get("max_output"),
        **{_SUPPORTS[word]: True for word in capabilities if word in _SUPPORTS},
        "capabilities": [_litellm_text(word) for word in capabilities] or None,
        **{key: _litellm_text(slot[key]) for key in _INFO_TEXTS if slot.get(key) is not None},
        **{key: slot.get(key) for key in _INFO_VALUES},
    }
    known = {name: value for name, value in info.items() if value is not None}
    return {"model_name": clean(str(slot["model"])), "litellm_params": params, "model_info": known}


def _litellm_text(text: t.Any) -> str:
    return f" {clean(str(text))}" if str(text).startswith(_ENV_PREFIX) else clean(str(text))


def _provider(engine: str, kind: str) -> tuple[str, str]:
    """What LiteLLM calls the way in which an engine is asked, and what is added to its endpoint."""
    if engine == "infinity":
        return "infinity", ""
    if engine == "tei" and kind == "reranker":
        return "huggingface", ""
    if engine == "vllm" or kind == "reranker":
        return "hosted_vllm", "/v1"
    return "openai", "/v1"


# --- llama-swap


def _llama_swap(slots: list[Mapping[str, t.Any]], api_key_env: str, vm: str) -> dict[str, t.Any]:
    if vm:
        slots = [slot for slot in slots if machine_name(slot) == vm or ("vm" not in slot and slot["node"] == vm)]
    models: dict[str, dict[str, t.Any]] = {}
    machines: dict[str, list[str]] = {}
    names = {swap_text(str(slot["model"])) for slot in slots}
    seen: set[str] = set()
    timeouts = [_LEAST_HEALTH_TIMEOUT]
    others: list[Mapping[str, t.Any]] = []
    for slot in slots:
        head = _only_command(slot, api_keys=bool(api_key_env))
        if head is None:
            others.append(slot)
            continue
        name = swap_text(str(slot["model"]))
        is_first = name not in models
        # One model is one process here: a further replica is there under the id of its slot.
        key = name if is_first else str(slot["slot"])
        entry = _process(slot, [*head.argv], head.env, local=bool(vm))
        if is_first:
            aliases = [swap_text(str(alias)) for alias in slot.get("aliases") or ()]
            aliases = [alias for alias in aliases if alias not in names and alias not in seen]
            seen.update(aliases)
            if aliases:
                entry["aliases"] = aliases
        else:
            entry |= {"unlisted": True, "useModelName": name}
        models[key] = entry
        machines.setdefault(machine_name(slot), []).append(key)
        timeouts.append(slot.get("startup_timeout") or 0)
    # Every slot has its own place: nothing is unloaded because something else is asked for.
    groups = {
        name: {"swap": False, "exclusive": False, "persistent": True, "members": members}
        for name, members in machines.items()
    }
    peers = {} if vm else _peers(others, {*models, *seen}, api_key_env)
    return {"healthCheckTimeout": max(timeouts), "models": models, **_filled(groups=groups, peers=peers)}


def _only_command(slot: Mapping[str, t.Any], *, api_keys: bool) -> Command | None:
    """What starts a slot whose engine is one process; None where there is no such command."""
    try:
        commands = engine_commands(slot, api_keys=api_keys)
    except NoCommandError:
        return None
    return commands[0] if len(commands) == 1 else None


def _peers(slots: Iterable[Mapping[str, t.Any]], taken: set[str], api_key_env: str) -> dict[str, dict[str, t.Any]]:
    """What llama-swap cannot start, being on several machines or of another engine, it only asks."""
    found: dict[str, dict[str, t.Any]] = {}
    for slot in slots:
        told = [swap_text(str(name)) for name in (slot["model"], *(slot.get("aliases") or ()))]
        names = [name for name in dict.fromkeys(told) if name not in taken]
        if names:
            taken.update(names)
            key = {"apiKey": f"${{env.{api_key_env}}}"} if api_key_env else {}
            found[str(slot["slot"])] = {"proxy": str(slot["endpoint"]), "models": names, **key}
    return found


def _process(slot: Mapping[str, t.Any], argv: list[t.Any], env: Mapping[str, str], *, local: bool) -> dict[str, t.Any]:
    endpoint = str(slot["endpoint"])
    paths = slot.get("paths") or {}
    sets = [swap_word(f"{name}={value}") for name, value in env.items()]
    description = swap_text(str(slot.get("description") or ""))[:_MAX_DESCRIPTION]
    metadata = {key: slot[key] for key in _METADATA if slot.get(key) is not None}
    return {
        "cmd": " ".join([*(["/usr/bin/env", *sets] if sets else []), *(swap_word(word) for word in argv)]),
        "proxy": f"http://127.0.0.1:{endpoint.rpartition(':')[2]}" if local else endpoint,
        "checkEndpoint": paths.get("health") or "none",
        "name": swap_text(str(slot["model"]))[:_MAX_NAME],
        **_filled(description=description),
        # 0 is never: what the catalog does not let rest stays.
        "ttl": slot.get("idle_timeout") or 0,
        "capabilities": _swap_capabilities(slot),
        "metadata": {key: swap_text(one) if isinstance(one, str) else one for key, one in metadata.items()},
    }


def _swap_capabilities(slot: Mapping[str, t.Any]) -> dict[str, t.Any]:
    words = slot.get("capabilities") or ()
    kind = slot.get("kind", "llm")
    given = ["text", *(["image"] if "vision" in words else []), *(["audio"] if "audio" in words else [])]
    more = {"out": ["text"] if kind == "llm" else None, "tools": "tools" in words, "reranker": kind == "reranker"}
    return {"in": given, **_filled(**more, context=slot.get("context_length"))}
