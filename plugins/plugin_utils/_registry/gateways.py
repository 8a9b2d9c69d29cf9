# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The slots as gateways want them: the models of LiteLLM, the peers and processes of llama-swap."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

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
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.settings import (
    REQUEST_TIMEOUT,
    find_timeout_errors,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import shown

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

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
# What was measured to lose no request while one of two engines is restarted: one failure takes an engine out for so many
# seconds, and so often another one is tried. They stand in each entry, for router_settings is the user's.
_RETRY_PARAMS: Mapping[str, int] = {"num_retries": 4, "cooldown_time": 5}
_RETRY_INFO: Mapping[str, int] = {"allowed_fails": 0}
# Seconds that an engine has at most for the next part of a stream.
_STREAM_TIMEOUT = 60
_CONNECT_TIMEOUT = 10
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wishes:
    """What somebody says of a gateway, as ``make_gateway`` takes it."""

    api_key_env: str
    vm: str
    request_timeout: int


def make_gateway(
    slots: Iterable[Mapping[str, t.Any]],
    form: str,
    *,
    api_key_env: str = "",
    vm: str = "",
    request_timeout: int = REQUEST_TIMEOUT,
) -> dict[str, t.Any]:
    """Return the configuration of a gateway for the slots that serve a model.

    :param form: litellm or llama-swap
    :param api_key_env: the variable with the key of the engines, where they want one
    :param vm: for llama-swap, the VM (or on bare metal the node) that it runs on: it starts the engines of its slots itself
    :param request_timeout: seconds until an engine that does not answer is given up
    :raises InputError: with everything that is wrong
    """
    makers: Mapping[str, Callable[[list[Mapping[str, t.Any]], _Wishes], dict[str, t.Any]]] = {
        LITELLM: _litellm,
        LLAMA_SWAP: _llama_swap,
    }
    errors = find_timeout_errors(request_timeout)
    if form not in makers:
        errors.append(f"format: must be one of {', '.join(FORMATS)}, not {shown(form)}")
    if errors:
        raise InputError(errors)
    serving = [slot for slot in slots if slot.get("model") is not None and slot.get("endpoint") is not None]
    return makers[form](serving, _Wishes(api_key_env=api_key_env, vm=vm, request_timeout=request_timeout))


def _by_model(slots: Iterable[Mapping[str, t.Any]]) -> dict[str, list[Mapping[str, t.Any]]]:
    found: dict[str, list[Mapping[str, t.Any]]] = {}
    for slot in slots:
        found.setdefault(str(slot["model"]), []).append(slot)
    return found


def _aliases(models: Mapping[str, Sequence[Mapping[str, t.Any]]]) -> dict[str, list[str]]:
    """Return the aliases of each model in the order of their names; a name of a model or of a model before is none."""
    taken = set(models)
    found: dict[str, list[str]] = {}
    for name in sorted(models):
        told = dict.fromkeys(str(alias) for alias in models[name][0].get("aliases") or ())
        found[name] = [alias for alias in told if alias not in taken]
        taken.update(told)
    return found


def _loading(slot: Mapping[str, t.Any], seconds: int) -> int:
    """Return seconds to wait for an answer: of a model that rests the first request waits until it is loaded again."""
    if slot.get("idle_timeout") is None or slot.get("startup_timeout") is None:
        return seconds
    return max(seconds, int(slot["startup_timeout"]))


# --- LiteLLM


def _litellm(slots: list[Mapping[str, t.Any]], wishes: _Wishes) -> dict[str, t.Any]:
    """Return a model list and nothing else: what includes it extends a list, and loses any other key that both have."""
    # A weight of 0 asks for no requests at all.
    models = _by_model(slot for slot in slots if slot.get("weight", 1) > 0)
    names = [(name, name) for name in models]
    names += [(alias, name) for name, aliases in _aliases(models).items() for alias in aliases]
    errors = [
        f"{models[name][0]['slot']}: {told!r} begins with {_ENV_PREFIX}, which LiteLLM takes for a variable; rename the model"
        for told, name in names
        if told.startswith(_ENV_PREFIX)
    ]
    if errors:
        raise InputError(errors)
    entries = [entry for told, name in names for entry in _deployments(told, name, models, wishes)]
    return {"model_list": entries}


def _deployments(
    told: str, model: str, models: Mapping[str, Sequence[Mapping[str, t.Any]]], wishes: _Wishes
) -> Iterator[dict[str, t.Any]]:
    """Yield the entries by which a name is served: its replicas, and behind them in order those of its fallbacks."""
    fallbacks = [str(name) for name in models[model][0].get("fallbacks") or ()]
    levels = [models[name] for name in dict.fromkeys([model, *fallbacks]) if name in models]
    is_alone = sum(len(level) for level in levels) == 1
    for order, level in enumerate(levels, start=1):
        for slot in level:
            own = order == 1
            params = _params(slot, wishes) | ({"order": order} if len(levels) > 1 else {})
            info: dict[str, t.Any] = (
                _model_info(slot)
                if own
                else {"mode": _MODES[slot.get("kind") or "llm"], "fallback_of": _litellm_text(told)}
            )
            # An id stands once; without an addition it is that of the slot.
            info = {"id": slot["slot"] if own and told == model else f"{slot['slot']}/{clean(told)}", **info}
            if not is_alone:
                waits = _loading(slot, wishes.request_timeout)
                streams = _loading(slot, min(_STREAM_TIMEOUT, wishes.request_timeout))
                params |= {**_RETRY_PARAMS, "timeout": waits, "stream_timeout": streams}
                info |= _RETRY_INFO
            yield {"model_name": clean(told), "litellm_params": params, "model_info": info}


def _filled(**values: t.Any) -> dict[str, t.Any]:
    """Return those of some values that are not empty."""
    return {name: value for name, value in values.items() if value}


def _params(slot: Mapping[str, t.Any], wishes: _Wishes) -> dict[str, t.Any]:
    provider, path = _provider(str(slot["engine"]), slot.get("kind") or "llm")
    params: dict[str, t.Any] = {
        "model": f"{provider}/{clean(str(slot['model']))}",
        "api_base": f"{slot['endpoint']}{path}",
        "api_key": f"{_ENV_PREFIX}{wishes.api_key_env}" if wishes.api_key_env else _NO_KEY,
        "weight": slot.get("weight", 1),
    }
    if slot.get("idle_timeout") is not None and slot.get("startup_timeout") is not None:
        params["timeout"] = _loading(slot, wishes.request_timeout)
    return params


def _model_info(slot: Mapping[str, t.Any]) -> dict[str, t.Any]:
    capabilities = [str(word) for word in slot.get("capabilities") or ()]
    info = {
        "mode": _MODES[slot.get("kind") or "llm"],
        "description": _litellm_text(slot["description"]) if slot.get("description") else None,
        "max_input_tokens": slot.get("context_length"),
        "max_output_tokens": slot.get("max_output"),
        "max_tokens": slot.get("max_output"),
        **{_SUPPORTS[word]: True for word in capabilities if word in _SUPPORTS},
        "capabilities": [_litellm_text(word) for word in capabilities] or None,
        **{key: _litellm_text(slot[key]) for key in _INFO_TEXTS if slot.get(key) is not None},
        **{key: slot.get(key) for key in _INFO_VALUES},
    }
    return {name: value for name, value in info.items() if value is not None}


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


def _llama_swap(slots: list[Mapping[str, t.Any]], wishes: _Wishes) -> dict[str, t.Any]:
    """Return what llama-swap is told: on the machine of the engines to start them, anywhere else to ask them."""
    if not wishes.vm:
        return {"models": {}, **_asked(slots, wishes)}
    here = [
        slot for slot in slots if machine_name(slot) == wishes.vm or ("vm" not in slot and slot["node"] == wishes.vm)
    ]
    return _started(here, wishes)


def _asked(slots: Sequence[Mapping[str, t.Any]], wishes: _Wishes) -> dict[str, t.Any]:
    """Return each slot as a peer. One model on several peers is a selector over them, for its bare name is nobody's then."""
    peers: dict[str, dict[str, t.Any]] = {}
    selectors: dict[str, dict[str, t.Any]] = {}
    models = _by_model(slots)
    aliases = _aliases(models)
    for name, replicas in models.items():
        for slot in replicas:
            names = [name, *aliases[name]] if len(replicas) == 1 else [name]
            peers[str(slot["slot"])] = _peer(slot, [swap_text(one) for one in names], wishes)
        if len(replicas) > 1:
            targets = [f"{slot['slot']}/{swap_text(name)}" for slot in replicas]
            selectors |= {swap_text(one): _selector(targets) for one in (name, *aliases[name])}
    return _filled(peers=peers, selectors=selectors)


def _peer(slot: Mapping[str, t.Any], names: list[str], wishes: _Wishes) -> dict[str, t.Any]:
    return {
        "proxy": str(slot["endpoint"]),
        "models": names,
        **({"apiKey": f"${{env.{wishes.api_key_env}}}"} if wishes.api_key_env else {}),
        # An answer that is no stream has its first byte when it is complete.
        "timeouts": {"connect": _CONNECT_TIMEOUT, "responseHeader": _loading(slot, wishes.request_timeout)},
    }


def _selector(targets: list[str]) -> dict[str, t.Any]:
    """Return what spreads requests over targets: each takes one before the next one does."""
    return {"strategy": "spillover", "targets": targets, "settings": {"spillover": 1}}


def _started(slots: Sequence[Mapping[str, t.Any]], wishes: _Wishes) -> dict[str, t.Any]:
    """Return the slots of one machine as processes that llama-swap starts there, further replicas of a model too."""
    commands = {str(slot["slot"]): _only_command(slot, api_keys=bool(wishes.api_key_env)) for slot in slots}
    startable = [slot for slot in slots if commands[str(slot["slot"])] is not None]
    by_model = _by_model(startable)
    aliases = _aliases(by_model)
    models: dict[str, dict[str, t.Any]] = {}
    selectors: dict[str, dict[str, t.Any]] = {}
    for name, replicas in by_model.items():
        told = [swap_text(alias) for alias in aliases[name]]
        for slot in replicas:
            entry = _process(slot, t.cast("Command", commands[str(slot["slot"])]))
            if len(replicas) == 1:
                models[swap_text(name)] = entry | _filled(aliases=told)
            else:
                models[str(slot["slot"])] = entry | {"unlisted": True, "useModelName": swap_text(name)}
        if len(replicas) > 1:
            targets = [str(slot["slot"]) for slot in replicas]
            selectors |= {one: _selector(targets) for one in (swap_text(name), *told)}
    # Every slot has its own place: nothing is unloaded because something else is asked for.
    group = {"swap": False, "exclusive": False, "persistent": True, "members": list(models)}
    timeout = max([_LEAST_HEALTH_TIMEOUT, *(slot.get("startup_timeout") or 0 for slot in startable)])
    groups = {machine_name(startable[0]): group} if startable else {}
    return {"healthCheckTimeout": timeout, "models": models, **_filled(groups=groups, selectors=selectors)}


def _only_command(slot: Mapping[str, t.Any], *, api_keys: bool) -> Command | None:
    """What starts a slot whose engine is one process; None where there is no such command."""
    try:
        # It is asked by llama-swap alone.
        commands = engine_commands(slot, api_keys=api_keys, listen="127.0.0.1")
    except NoCommandError:
        return None
    return commands[0] if len(commands) == 1 else None


def _process(slot: Mapping[str, t.Any], command: Command) -> dict[str, t.Any]:
    paths = slot.get("paths") or {}
    sets = [swap_word(f"{name}={value}") for name, value in command.env.items()]
    description = swap_text(str(slot.get("description") or ""))[:_MAX_DESCRIPTION]
    metadata = {key: slot[key] for key in _METADATA if slot.get(key) is not None}
    return {
        "cmd": " ".join([*(["/usr/bin/env", *sets] if sets else []), *(swap_word(word) for word in command.argv)]),
        "proxy": f"http://127.0.0.1:{str(slot['endpoint']).rpartition(':')[2]}",
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
