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
    """Report arguments that contradict what the catalog says."""
    if not (profile.args or profile.env):
        return
    run = read_run(profile.engine, profile.args, profile.env)
    for key, is_now in (("tp", run.tp), ("pp", run.pp)):
        stated, wanted = find_stated(profile, key), getattr(profile, key)
        if stated and is_now != wanted and entry.good((*keys, key)):
            message = f"{stated.option} {is_now} contradicts {key} {wanted} of the profile"
            entry.error("contradiction", (*keys, *stated.keys), message, f"leave it out: {key} says it")
    stated = find_stated(profile, "context")
    if stated and run.context:
        over = f" over {run.sequences} slots" if run.sequences > 1 and not run.unified else ""
        told = f"{stated.option} {stated.text}{over}"
        _check_context(entry, (*keys, *stated.keys), model, profile, stated=told, served=run.context)
    if model.memory is not None and model.memory.weights_gib is not None:
        for option in uncomputed_arguments(run):
            message = f"{option} changes how much memory is needed in a way that is not computed"
            entry.warn(
                "memory_bound", (*keys, "args"), message, "the plan counts what is needed at least; try it there"
            )


def _check_context(entry: Entry, keys: Keys, model: Model, profile: Profile, *, stated: str, served: int) -> None:
    if not entry.good(("context",), ("context_length",)):
        return
    if model.context_length and served < model.context_length:
        message = f"{stated} is {served} per request, less than context_length {model.context_length}"
        entry.error("contradiction", keys, message, f"give the engine more, or write context_length: {served}")
    elif model.context and served > model.context and not _is_stretched(profile):
        message = f"{stated} is {served} per request, more than the {model.context} that the model supports"
        entry.error("contradiction", keys, message, f"at most {model.context}")


def _is_stretched(profile: Profile) -> bool:
    return any(option_name(word) in _STRETCHED for word in profile.args) or any(
        name in profile.env for name in _STRETCHED_ENV
    )
