# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""What was found out of the sources of a catalog: from the hub once for all, from the nodes for what is a path."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.module_utils._weights.judge import is_path
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.columns import format_columns
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import natural_key, shorten

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Model

_SHOWN_NODES = 3
_LIMIT = 300

# An answer of model_source_info for one source.
Answer = t.Mapping[str, t.Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """What is known of one source. ``available`` is None where nobody could say it."""

    source: str
    models: tuple[str, ...]
    available: bool | None
    text: str
    nodes: tuple[str, ...] = ()


def sources_of(models: Iterable[Model]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the sources that a hub answers for and those that are paths on nodes, each once, in catalog order."""
    found = list(dict.fromkeys(model.source for model in models if model.source))
    return tuple(one for one in found if not is_path(one)), tuple(one for one in found if is_path(one))


def judge_sources(
    models: Sequence[Model], hub: Iterable[Answer], nodes: Mapping[str, Iterable[Answer] | None]
) -> list[SourceState]:
    """Return what is known of the source of each model.

    :param hub: what was found out of repositories
    :param nodes: what each node found out of paths; None where it did not answer
    """
    of_hub = {str(answer.get("source")): answer for answer in hub}
    of_nodes = {
        name: None if answers is None else {str(answer.get("source")): answer for answer in answers}
        for name, answers in nodes.items()
    }
    users: dict[str, list[str]] = {}
    for model in models:
        if model.source:
            users.setdefault(model.source, []).append(model.name)
    repositories, _paths = sources_of(models)
    return [
        _judge_repository(source, tuple(names), of_hub.get(source))
        if source in repositories
        else _judge_path(source, tuple(names), of_nodes)
        for source, names in users.items()
    ]


def _judge_repository(source: str, models: tuple[str, ...], answer: Answer | None) -> SourceState:
    if answer is None:
        return SourceState(source=source, models=models, available=None, text="nobody was asked")
    return SourceState(source=source, models=models, available=_available(answer), text=_told(answer))


def _judge_path(source: str, models: tuple[str, ...], nodes: Mapping[str, Mapping[str, Answer] | None]) -> SourceState:
    """Judge a path: one node that holds it is enough, and only nodes that answered can say that none does."""
    answers = {name: found[source] for name, found in nodes.items() if found is not None and source in found}
    holding = sorted((name for name, answer in answers.items() if _available(answer)), key=natural_key)
    silent = len(nodes) - len(answers)
    if holding:
        text = f"on {', '.join(holding[:_SHOWN_NODES])}"
        if len(holding) > _SHOWN_NODES:
            text += f" and {len(holding) - _SHOWN_NODES} more"
        return SourceState(source=source, models=models, available=True, text=text, nodes=tuple(holding))
    unknown = [name for name, answer in answers.items() if _available(answer) is None]
    if not answers:
        return SourceState(source=source, models=models, available=None, text="no node answered")
    reasons = dict.fromkeys(_told(answer) for answer in answers.values())
    text = "; ".join(list(reasons)[:_SHOWN_NODES])
    if silent:
        text += f" Nodes that did not answer: {silent}."
    available = None if silent or unknown else False
    return SourceState(source=source, models=models, available=available, text=text)


def _available(answer: Answer) -> bool | None:
    """Return what an answer says, which comes from a node and may be anything."""
    value = answer.get("available")
    return value if isinstance(value, bool) else None


def _told(answer: Answer) -> str:
    words = f"{answer.get('text') or ''} {answer.get('remedy') or ''}".split()
    return shorten(" ".join(words), _LIMIT) or "no answer"


def source_errors(states: Iterable[SourceState]) -> list[str]:
    """Return one text for each source that cannot be had."""
    return [f"{_names(one)}: {one.source}: {one.text}" for one in states if one.available is False]


def unchecked_sources(states: Iterable[SourceState]) -> list[str]:
    """Return one text for each source of which nobody could say whether it can be had."""
    return [f"{_names(one)}: {one.source}: {one.text}" for one in states if one.available is None]


def _names(state: SourceState) -> str:
    return f"model {state.models[0]}" if len(state.models) == 1 else f"models {', '.join(state.models)}"


def format_sources(states: Sequence[SourceState]) -> str:
    """Return the sources as a table."""
    said = {True: "yes", False: "no", None: "not checked"}
    rows = [[one.source, ", ".join(one.models), said[one.available], one.text] for one in states]
    return "\n".join(format_columns(["source", "models", "can be had", "what was said"], rows))
