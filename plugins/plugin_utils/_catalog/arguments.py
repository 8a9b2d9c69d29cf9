# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""What the words of an engine's command line say about context, parallelism and address, where that is known."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.capabilities import option_of

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
        Model,
        Profile,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import Entry
    from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import Keys


class Options(t.NamedTuple):
    """How an engine names the options that a catalog states elsewhere."""

    context: tuple[str, ...] = ()
    tp: tuple[str, ...] = ()
    pp: tuple[str, ...] = ()
    owned: tuple[str, ...] = ()
    parallel: tuple[str, ...] = ()
    unified: tuple[str, ...] = ()
    context_env: str | None = None
    parallel_env: str | None = None


OPTIONS: Mapping[str, Options] = {
    "vllm": Options(
        context=("--max-model-len",),
        tp=("--tensor-parallel-size", "-tp"),
        pp=("--pipeline-parallel-size", "-pp"),
        owned=("--port", "--host", "--served-model-name"),
    ),
    "sglang": Options(
        context=("--context-length",),
        tp=("--tp-size", "--tensor-parallel-size", "--tp"),
        pp=("--pp-size", "--pipeline-parallel-size", "--pp"),
        owned=("--port", "--host", "--served-model-name", "--model-path", "--model"),
    ),
    "llamacpp": Options(
        context=("--ctx-size", "-c"),
        owned=("--port", "--host", "--alias", "-a", "--model", "-m", "-hf", "--hf-repo"),
        parallel=("--parallel", "-np"),
        unified=("--kv-unified", "-kvu"),
        context_env="LLAMA_ARG_CTX_SIZE",
        parallel_env="LLAMA_ARG_N_PARALLEL",
    ),
    "tei": Options(owned=("--port", "-p", "--hostname", "--model-id", "--served-model-name")),
    "infinity": Options(owned=("--port", "--host", "--model-id", "--served-model-name", "--url-prefix")),
}

# These let an engine serve more than the model was trained for.
_STRETCHED = ("--rope-scaling", "--hf-overrides", "--override-kv", "--rope-scale", "--json-model-override-args")
_STRETCHED_ENV = ("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN")

# With these the user takes memory into their own hands; the arithmetic for default settings says nothing about them.
_MEMORY = frozenset(
    (
        *("--gpu-memory-utilization", "--kv-cache-memory-bytes", "--kv-cache-dtype", "--cpu-offload-gb"),
        *("--mem-fraction-static", "--cache-type-k", "--cache-type-v", "-ctk", "-ctv", "--n-gpu-layers", "-ngl"),
        *("--gpu-layers", "--override-tensor", "-ot", "--n-cpu-moe", "--cpu-moe", "--no-kv-offload", "-nkvo"),
    )
)

_SIZE = re.compile(r"(\d+)([kKmM]?)", re.ASCII)
_FACTORS = {"": 1, "k": 1000, "K": 1024, "m": 1000**2, "M": 1024**2}


class Stated(t.NamedTuple):
    """A number that the arguments or the environment state, and where."""

    value: int
    keys: Keys
    name: str


def stated_number(profile: Profile, names: Sequence[str], env: str | None = None) -> Stated | None:
    """Return the number that an option was given last, or the environment's where no argument gives one."""
    found: Stated | None = None
    args = profile.args
    for index, word in enumerate(args):
        _name, equals, value = word.partition("=")
        option = option_of(word)
        if option not in names:
            continue
        at = index
        if not equals:
            at = index + 1
            value = args[at] if at < len(args) else ""
        if match := _SIZE.fullmatch(value):
            found = Stated(int(match[1]) * _FACTORS[match[2]], ("args", min(at, len(args) - 1)), option)
    if found is None and env and (match := _SIZE.fullmatch(profile.env.get(env, ""))):
        found = Stated(int(match[1]) * _FACTORS[match[2]], ("env", env), env)
    return found


def context_per_request(profile: Profile) -> Stated | None:
    """Return what one request may use by the arguments; None where they leave it to the model.

    llama.cpp divides its context over the parallel slots unless they share it.
    """
    options = OPTIONS.get(profile.engine, Options())
    stated = stated_number(profile, options.context, options.context_env)
    if stated is None or stated.value == 0:
        return None
    slots = stated_number(profile, options.parallel, options.parallel_env)
    if slots and slots.value > 1 and not any(word in options.unified for word in profile.args):
        return stated._replace(
            value=stated.value // slots.value, name=f"{stated.name} {stated.value} over {slots.value} slots"
        )
    return stated._replace(name=f"{stated.name} {stated.value}")


def cache_tokens(model: Model, profile: Profile) -> int | None:
    """Return the tokens for which the engine must have a cache: what the arguments say, else what the catalog says.

    For llama.cpp that is the context of all parallel slots together.
    """
    options = OPTIONS.get(profile.engine, Options())
    stated = stated_number(profile, options.context, options.context_env)
    return stated.value if stated and stated.value else model.context_length


def changes_memory(profile: Profile) -> bool:
    """Return whether the arguments change how much of a GPU the engine takes, or how much a token takes of it."""
    return any(option_of(word) in _MEMORY for word in profile.args)


def check_owned(entry: Entry, keys: Keys, engine: str, args: Sequence[str]) -> None:
    """Report options that are not the catalog's to give."""
    for index, option in enumerate(map(option_of, args)):
        if option in OPTIONS.get(engine, Options()).owned:
            message = f"{option} is given by the slot that the replica serves"
            remedy = "leave it out: address and names come from the plan, the weights from source"
            entry.error("contradiction", (*keys, index), message, remedy)


def check_arguments(entry: Entry, keys: Keys, model: Model, profile: Profile) -> None:
    """Report arguments that contradict what the catalog says."""
    options = OPTIONS.get(profile.engine)
    if options is None or not (profile.args or profile.env):
        return
    for key, names in (("tp", options.tp), ("pp", options.pp)):
        stated = stated_number(profile, names)
        wanted = getattr(profile, key)
        if stated and stated.value != wanted and entry.good((*keys, key)):
            message = f"{stated.name} {stated.value} contradicts {key} {wanted} of the profile"
            entry.error("contradiction", (*keys, *stated.keys), message, f"leave it out: {key} says it")
    _check_context(entry, keys, model, profile)


def _check_context(entry: Entry, keys: Keys, model: Model, profile: Profile) -> None:
    served = context_per_request(profile)
    if served is None or not entry.good(("context",), ("context_length",)):
        return
    at = (*keys, *served.keys)
    if model.context_length and served.value < model.context_length:
        message = f"{served.name} is {served.value} per request, less than context_length {model.context_length}"
        entry.error("contradiction", at, message, f"give the engine more, or write context_length: {served.value}")
    elif model.context and served.value > model.context and not _is_stretched(profile):
        message = f"{served.name} is {served.value} per request, more than the {model.context} that the model supports"
        entry.error("contradiction", at, message, f"at most {model.context}")


def _is_stretched(profile: Profile) -> bool:
    return any(option_of(word) in _STRETCHED for word in profile.args) or any(
        name in profile.env for name in _STRETCHED_ENV
    )
