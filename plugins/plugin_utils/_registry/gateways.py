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

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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
# llama-swap refuses less, and longer names and descriptions.
_LEAST_HEALTH_TIMEOUT = 15
_MAX_NAME = 128
_MAX_DESCRIPTION = 1024


class GatewayError(InputError):
    """A configuration that cannot be made; ``errors`` has one text for each thing that is wrong."""


def make_gateway(
    slots: Iterable[Mapping[str, t.Any]], form: str, *, api_key_env: str = "", vm: str = ""
) -> dict[str, t.Any]:
    """Return the configuration of a gateway for the slots that serve a model.

    :param form: litellm or llama-swap
    :param api_key_env: the variable with the key of the engines, where they want one
    :param vm: for llama-swap, the machine (or on bare metal the node) that it runs on: only its slots, asked on itself
    :raises GatewayError: with everything that is wrong
    """
    makers: Mapping[str, Callable[[list[Mapping[str, t.Any]], str, str], dict[str, t.Any]]] = {
        LITELLM: _litellm,
        LLAMA_SWAP: _llama_swap,
    }
    if form not in makers:
        raise GatewayError([f"format: {form!r} is none of {', '.join(FORMATS)}"])
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
        raise GatewayError(errors)
    aliases = {
        clean(str(alias)): clean(name)
        for name, slot in sorted(names.items())
        for alias in slot.get("aliases") or ()
        if alias not in names
    }
    fallbacks: list[dict[str, list[str]]] = []
    for name, slot in sorted(names.items()):
        others = [clean(str(other)) for other in slot.get("fallbacks") or () if other in names]
        if others:
            fallbacks.append({clean(name): others})
    document: dict[str, t.Any] = {"model_list": [_deployment(slot, api_key_env) for slot in slots]}
    settings: dict[str, t.Any] = {}
    if aliases:
        settings["model_group_alias"] = aliases
    if fallbacks:
        settings["fallbacks"] = fallbacks
    if settings:
        document["router_settings"] = settings
    return document


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
    info: dict[str, t.Any] = {"id": slot["slot"], "mode": _MODES[kind]}
    if slot.get("description"):
        info["description"] = _litellm_text(slot["description"])
    if slot.get("context_length") is not None:
        info["max_input_tokens"] = slot["context_length"]
    if slot.get("max_output") is not None:
        info |= {"max_output_tokens": slot["max_output"], "max_tokens": slot["max_output"]}
    capabilities = [str(word) for word in slot.get("capabilities") or ()]
    info |= {_SUPPORTS[word]: True for word in capabilities if word in _SUPPORTS}
    if capabilities:
        info["capabilities"] = [_litellm_text(word) for word in capabilities]
    for key in ("role", "node", "fabric", "routing_profile", "license", "quantization"):
        if slot.get(key) is not None:
            info[key] = _litellm_text(slot[key])
    for key in ("lora", "simulated", "slo", "idle_timeout", "startup_timeout"):
        if slot.get(key) is not None:
            info[key] = slot[key]
    return {"model_name": clean(str(slot["model"])), "litellm_params": params, "model_info": info}


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
        try:
            head, *parts = engine_commands(slot, api_keys=bool(api_key_env))
        except NoCommandError:
            others.append(slot)
            continue
        if parts:
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
    document: dict[str, t.Any] = {"healthCheckTimeout": max(timeouts), "models": models}
    if machines:
        # Every slot has its own place: nothing is unloaded because something else is asked for.
        document["groups"] = {
            name: {"swap": False, "exclusive": False, "persistent": True, "members": members}
            for name, members in machines.items()
        }
    peers = {} if vm else _peers(others, {*models, *seen}, api_key_env)
    if peers:
        document["peers"] = peers
    return document


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
    entry: dict[str, t.Any] = {
        "cmd": " ".join([*(["/usr/bin/env", *sets] if sets else []), *(swap_word(word) for word in argv)]),
        "proxy": f"http://127.0.0.1:{endpoint.rpartition(':')[2]}" if local else endpoint,
        "checkEndpoint": paths.get("health") or "none",
        "name": swap_text(str(slot["model"]))[:_MAX_NAME],
    }
    if slot.get("description"):
        entry["description"] = swap_text(str(slot["description"]))[:_MAX_DESCRIPTION]
    # 0 is never: what the catalog does not let rest stays.
    entry["ttl"] = slot.get("idle_timeout") or 0
    entry["capabilities"] = _swap_capabilities(slot)
    told = {
        key: swap_text(str(slot[key])) if isinstance(slot[key], str) else slot[key]
        for key in (
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
        if slot.get(key) is not None
    }
    entry["metadata"] = told
    return entry


def _swap_capabilities(slot: Mapping[str, t.Any]) -> dict[str, t.Any]:
    words = slot.get("capabilities") or ()
    found: dict[str, t.Any] = {
        "in": ["text", *(["image"] if "vision" in words else []), *(["audio"] if "audio" in words else [])],
    }
    if slot.get("kind", "llm") == "llm":
        found["out"] = ["text"]
    if "tools" in words:
        found["tools"] = True
    if slot.get("kind") == "reranker":
        found["reranker"] = True
    if slot.get("context_length"):
        found["context"] = slot["context_length"]
    return found
