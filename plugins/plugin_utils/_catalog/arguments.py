# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""What the words of an engine's command line say about context, parallelism and address, where that is known."""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._memory.run import (
    option_name,
    option_names,
    read_run,
    uncomputed_arguments,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.capabilities import args_for

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
        Model,
        Profile,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import Entry
    from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import Keys


# Options that are the slot's to give.
OWNED: Mapping[str, tuple[str, ...]] = {
    "vllm": ("--port", "--host", "--served-model-name"),
    "sglang": ("--port", "--host", "--served-model-name", "--model-path", "--model"),
    "llamacpp": ("--port", "--host", "--alias", "-a", "--model", "-m", "-hf", "--hf-repo"),
    "tei": ("--port", "-p", "--hostname", "--model-id", "--served-model-name"),
    "infinity": ("--port", "--host", "--model-id", "--served-model-name", "--url-prefix"),
}

# These spread experts over GPUs whole.
EXPERT_PARALLEL = ("--enable-expert-parallel", "-ep", "--ep-size", "--expert-parallel-size", "--ep")

# These let an engine serve more than the model was trained for.
_STRETCHED = ("--rope-scaling", "--hf-overrides", "--override-kv", "--rope-scale", "--json-model-override-args")
_STRETCHED_ENV = ("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN")


class Stated(t.NamedTuple):
    """Where the arguments or the environment state an option, and as what."""

    option: str
    text: str
    keys: Keys


def find_stated(profile: Profile, field: str) -> Stated | None:
    """Return where an option is given last, or the environment's where no argument gives it.

    :param field: the field of the run that it sets
    """
    names, env = option_names(profile.engine, field)
    args, found = profile.args, None
    for index, word in enumerate(args):
        if option_name(word) in names:
            _name, equals, text = word.partition("=")
            at = index if equals else min(index + 1, len(args) - 1)
            found = Stated(option_name(word), text if equals else args[at], ("args", at))
    if found is None and env is not None and env in profile.env:
        return Stated(env, profile.env[env], ("env", env))
    return found


def check_owned(entry: Entry, keys: Keys, engine: str, args: Sequence[str]) -> None:
    """Report options that are not the catalog's to give."""
    for index, option in enumerate(map(option_name, args)):
        if option in OWNED.get(engine, ()):
            message = f"{option} is given by the slot that the replica serves"
            remedy = "leave it out: address and names come from the plan, the weights from source"
            entry.error("contradiction", (*keys, index), message, remedy)


def check_arguments(entry: Entry, keys: Keys, model: Model, profile: Profile) -> None:
    """Report arguments that contradict what the catalog says; each where it is written, in the profile or the model.

    :param keys: where the profile stands; empty for what a model without profiles tells an engine
    """
    if not (profile.args or profile.env):
        return
    run = read_run(profile.engine, profile.args, profile.env)
    for key, is_now in (("tp", run.tp), ("pp", run.pp), ("dp", run.dp)):
        stated, wanted = find_stated(profile, key), getattr(profile, key)
        if stated and is_now != wanted and entry.good((*keys, key)):
            says = f"contradicts {key} {wanted} of the profile" if keys else "is decided where the model is placed"
            remedy = f"leave it out: {key} says it" if keys else f"leave it out; {key} of a profile says it"
            _contradiction(entry, _place(keys, model, profile, stated), f"{stated.option} {is_now} {says}", remedy)
    _check_experts(entry, keys, model, profile)
    stated = find_stated(profile, "context")
    if stated and run.context:
        over = f" over {run.sequences} slots" if run.sequences > 1 and not run.unified else ""
        told = f"{stated.option} {stated.text}{over}"
        place = _place(keys, model, profile, stated)
        _check_context(entry, place, model, profile, stated=told, served=run.context)
    if keys and model.memory is not None and model.memory.weights_gib is not None:
        for option in uncomputed_arguments(run):
            message = f"{option} changes how much memory is needed in a way that is not computed"
            entry.warn(
                "memory_bound", (*keys, "args"), message, "the plan counts what is needed at least; try it there"
            )


def _check_experts(entry: Entry, keys: Keys, model: Model, profile: Profile) -> None:
    for at, word in enumerate(profile.args):
        option = option_name(word)
        if option in EXPERT_PARALLEL and not profile.expert_parallel and entry.good((*keys, "expert_parallel")):
            place = _place(keys, model, profile, Stated(option, "", ("args", at)))
            message = f"{option} is what expert_parallel of a profile says"
            _contradiction(entry, place, message, "leave it out, and write expert_parallel: true")


def _contradiction(entry: Entry, keys: Keys, message: str, remedy: str) -> None:
    """Report a contradiction once, however many profiles share the word that it is in."""
    if entry.good(keys):
        entry.error("contradiction", keys, message, remedy)


def _place(keys: Keys, model: Model, profile: Profile, stated: Stated) -> Keys:
    """Return where a word of a profile's command line is written: in the profile, or in what the model tells its engine.

    The words of the profile stand first, and then those of the model.
    """
    at = stated.keys[1]
    if stated.keys[0] != "args" or not isinstance(at, int):
        return (*keys, *stated.keys)
    args, engine = profile.args, profile.engine
    own = next((n for n in range(len(args) + 1) if args_for(model, engine, args[:n]) == args), len(args))
    if keys and at < own:
        return (*keys, *stated.keys)
    words = model.engine_args.get(engine, ())
    found = [index for index, word in enumerate(words) if option_name(word) == stated.option]
    if not found:
        return (*keys, "args")
    # The value stands behind its option, unless it is written onto it.
    behind = at < len(args) and option_name(args[at]) != stated.option
    return ("engine_args", engine, min(found[-1] + behind, len(words) - 1))


def _check_context(entry: Entry, keys: Keys, model: Model, profile: Profile, *, stated: str, served: int) -> None:
    if not entry.good(("context",), ("context_length",)):
        return
    if model.context_length and served < model.context_length:
        message = f"{stated} is {served} per request, less than context_length {model.context_length}"
        _contradiction(entry, keys, message, f"give the engine more, or write context_length: {served}")
    elif model.context and served > model.context and not _is_stretched(profile):
        message = f"{stated} is {served} per request, more than the {model.context} that the model supports"
        _contradiction(entry, keys, message, f"at most {model.context}")


def _is_stretched(profile: Profile) -> bool:
    return any(option_name(word) in _STRETCHED for word in profile.args) or any(
        name in profile.env for name in _STRETCHED_ENV
    )
