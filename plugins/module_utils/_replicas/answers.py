# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What engines say of themselves: their metrics and their lists of models, read from whatever came back.

Nothing here trusts an answer: numbers are finite and not negative, names are short and on one line, and what cannot be
read is not known.
"""

from __future__ import annotations

import json
import math
import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.module_utils._replicas.revision import tagged

MAX_NAME = 200
_MAX_MODELS = 1000
_MAX_NUMBER = 10**15
# How llama.cpp's router calls a model whose next request has to wait until it is in memory.
_RESTING = ("unloaded", "sleeping")


@dataclass(frozen=True)
class Series:
    """The names that an engine gives to its numbers; ``only`` is text that a label set has to hold to be counted.

    ``requests`` lists alternatives, the first one that is there counts: a counter that moves with requests.
    """

    running: t.Optional[str] = None
    waiting: t.Optional[str] = None
    requests: t.Sequence[t.Sequence[str]] = ()
    only: str = ""


# As the engines of the table name them (vLLM 0.33, SGLang 0.5.23, llama.cpp of October 2026, TEI 1.9.3, infinity 0.0.78).
# llama.cpp counts no requests, only tokens. infinity counts whatever is asked by HTTP, our own questions too: requests
# for work are those that post.
SERIES: t.Mapping[str, Series] = {
    "vllm": Series(
        running="vllm:num_requests_running",
        waiting="vllm:num_requests_waiting",
        requests=(("vllm:request_success_total",), ("vllm:prompt_tokens_total", "vllm:generation_tokens_total")),
    ),
    "sglang": Series(
        running="sglang:num_running_reqs",
        waiting="sglang:num_queue_reqs",
        requests=(("sglang:num_requests_total",), ("sglang:prompt_tokens_total", "sglang:generation_tokens_total")),
    ),
    "llamacpp": Series(
        running="llamacpp:requests_processing",
        waiting="llamacpp:requests_deferred",
        requests=(("llamacpp:prompt_tokens_total", "llamacpp:tokens_predicted_total"),),
    ),
    "tei": Series(waiting="te_queue_size", requests=(("te_request_count",),)),
    "infinity": Series(requests=(("http_requests_total",),), only='method="POST"'),
}
# The simulator answers as vLLM does.
_LIKE = {"sim": "vllm"}

# What the Prometheus client libraries export of the process itself.
_STARTED = "process_start_time_seconds"


@dataclass(frozen=True)
class Numbers:
    """What an engine counts; None is not known. ``started`` is when its process began, in seconds of the epoch."""

    running: t.Optional[int] = None
    waiting: t.Optional[int] = None
    requests: t.Optional[int] = None
    started: t.Optional[int] = None


def series_of(engine: str) -> t.Optional[Series]:
    """Return the names that an engine gives to its numbers; None where they are not known."""
    return SERIES.get(_LIKE.get(engine, engine))


def read_metrics(text: str, series: Series) -> Numbers:
    """Return the numbers in the text format of Prometheus. A counter that does not stand there has not counted anything yet."""
    if text.lstrip()[:1] in ("<", "{"):
        return Numbers()
    wanted = {_plain(name) for group in series.requests for name in group}
    wanted |= {_plain(name) for name in (series.running, series.waiting, _STARTED) if name is not None}
    sums: t.Dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("#") or not line:
            continue
        name, labels, value = _sample(line)
        if name not in wanted or value is None:
            continue
        if series.only and name != _STARTED and series.only not in labels:
            continue
        sums[name] = sums.get(name, 0.0) + value
    counted = next((group for group in series.requests if any(_plain(name) in sums for name in group)), ())
    requests = sum(sums.get(_plain(name), 0.0) for name in counted)
    return Numbers(
        running=_whole(sums.get(_plain(series.running or ""))),
        waiting=_whole(sums.get(_plain(series.waiting or ""))),
        requests=_whole(requests) if series.requests else None,
        started=_whole(sums.get(_STARTED)),
    )


def _plain(name: str) -> str:
    """Return a name as exporters write it that do not allow colons."""
    return name.replace(":", "_")


def _sample(line: str) -> t.Tuple[str, str, t.Optional[float]]:
    if "{" in line:
        name, _brace, rest = line.partition("{")
        labels, brace, rest = rest.rpartition("}")
        if not brace:
            return "", "", None
    else:
        name, _blank, rest = line.strip().partition(" ")
        labels = ""
    parts = rest.split()
    try:
        value = float(parts[0]) if parts else math.nan
    except ValueError:
        return "", "", None
    return _plain(name.strip()), labels, value if math.isfinite(value) and value >= 0 else None


def _whole(value: t.Optional[float]) -> t.Optional[int]:
    return None if value is None or not value <= _MAX_NUMBER else int(value)


@dataclass(frozen=True)
class ModelList:
    """The names of the models that an engine serves, and how many requests wait where its list says so.

    ``resting`` are those that a router would have to load first, ``loaded`` those that it has loaded; both are empty where the
    engine is no router. ``fingerprint`` is what the engine's tags say that it was made from.
    """

    names: t.Tuple[str, ...]
    waiting: t.Optional[int] = None
    resting: t.Tuple[str, ...] = ()
    loaded: t.Tuple[str, ...] = ()
    fingerprint: t.Optional[str] = None


def read_models(body: bytes) -> t.Optional[ModelList]:
    """Return a list of models as OpenAI's API has it, or the description of the one model that TEI serves."""
    try:
        document = json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    listed = document.get("data")
    if isinstance(listed, list):
        entries = [one for one in listed[:_MAX_MODELS] if isinstance(one, dict)]
        names = tuple(clean(one["id"]) for one in entries if isinstance(one.get("id"), str) and one["id"])
        waits = [_queued(one.get("stats")) for one in entries]
        known = [count for count in waits if count is not None]
        states = [(clean(one["id"]), _status(one)) for one in entries if isinstance(one.get("id"), str) and one["id"]]
        prints = [mark for mark in (tagged(one.get("tags")) for one in entries) if mark is not None]
        return ModelList(
            names=names,
            waiting=sum(known) if known else None,
            resting=tuple(name for name, status in states if status in _RESTING),
            loaded=tuple(name for name, status in states if status == "loaded"),
            fingerprint=prints[0] if prints else None,
        )
    told = [document.get(key) for key in ("served_model_name", "model_id")]
    names = tuple(clean(name) for name in told if isinstance(name, str) and name)
    return ModelList(names=names) if names else None


def _status(entry: t.Mapping[str, t.Any]) -> t.Optional[str]:
    status = entry.get("status")
    value = status.get("value") if isinstance(status, dict) else None
    return value if isinstance(value, str) else None


def _queued(stats: t.Any) -> t.Optional[int]:
    count = stats.get("queue_absolute") if isinstance(stats, dict) else None
    if isinstance(count, bool) or not isinstance(count, (int, float)) or not 0 <= count <= _MAX_NUMBER:
        return None
    return int(count)


def clean(text: str, limit: int = MAX_NAME) -> str:
    """Return a text of somebody else as one short line: what could steer a terminal or turn a line is a question mark."""
    short = text if len(text) <= limit else text[: limit - 3] + "..."
    return "".join(character if character.isprintable() else "?" for character in short)
