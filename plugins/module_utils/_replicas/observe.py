# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What the replicas behind the slots do right now: asked over HTTP, many at once, within limits that nobody can stretch.

A replica that does not answer yet is starting, until its time to start is over; what answers wrongly has failed at once.
"""

from __future__ import annotations

import math
import posixpath
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from urllib.parse import quote

from ansible_collections.knaster.inventory.plugins.module_utils._http import (
    Client,
    Hub,
    Limits,
    SourceError,
    ask_hub,
    checked_endpoint,
)
from ansible_collections.knaster.inventory.plugins.module_utils._replicas.answers import (
    ModelList,
    Numbers,
    clean,
    read_metrics,
    read_models,
    series_of,
)
from ansible_collections.knaster.inventory.plugins.module_utils._replicas.revision import fingerprint_of

READY, STARTING, DRAINING, FAILED = "ready", "starting", "draining", "failed"
STARTUP_TIMEOUT = 1200

# The options of everything that asks; the doc fragment _asking describes them.
ASKING_ARGUMENT_SPEC: t.Dict[str, t.Dict[str, t.Any]] = {
    "connect_timeout": {"type": "float", "default": 3},
    "timeout": {"type": "float", "default": 10},
    "deadline": {"type": "float"},
    "concurrency": {"type": "int", "default": 32},
    "api_key": {"type": "str", "no_log": True},
    "api_keys": {"type": "dict", "default": {}, "no_log": True},
    "ca_path": {"type": "path"},
    "validate_certs": {"type": "bool", "default": True},
}
_MOST_SECONDS = 3600
_MOST_AT_ONCE = 256

_AGENT = "knaster.inventory (observation of replicas)"
_PATHS = {"health": "/health", "models": "/v1/models", "metrics": "/metrics"}
_ENGINE_PATHS: t.Mapping[str, t.Mapping[str, t.Optional[str]]] = {
    "tei": {"models": "/info"},
    "infinity": {"models": "/models"},
    "ollama": {"health": "/", "metrics": None},
}

# Every way in which asking fails: whether a replica that is only starting can look like that, and what it means.
TROUBLE: t.Mapping[str, t.Tuple[bool, str]] = {
    "connection_refused": (True, "nothing answers at its port"),
    "connect_timeout": (True, "its host did not accept a connection in time"),
    "dns_failure": (True, "its name cannot be resolved"),
    "unreachable": (True, "its host cannot be reached"),
    "connection_lost": (True, "the connection broke"),
    "timeout": (True, "it did not answer in time"),
    "loading": (True, "it is loading"),
    "server_error": (True, "its health check failed"),
    "tls_failure": (False, "the encrypted connection failed"),
    "bad_answer": (False, "what answers there does not speak HTTP"),
    "answer_too_large": (False, "its answer has no end or is too large"),
    "redirected": (False, "it redirects the query, which is not followed"),
    "refused": (False, "it wants an API key, or another one"),
    "no_health": (False, "something answers there, and it is not the engine"),
    "endpoint_malformed": (False, "its endpoint is not a valid address"),
    "no_endpoint": (False, "it has no endpoint: the port of its engine is not known"),
}
_RESTS = "its model is not loaded: the next request waits for that"
_NOT_ASKED = "the time for all replicas was over before it was queried; allow more"


@dataclass(frozen=True)
class Asking:
    """How replicas are asked: seconds for a connection, for one replica and for all, how many at once, and how much they
    may say. ``deadline`` None is enough for all of them. Keys are by slot, role, model or engine, in this order.
    """

    connect_timeout: float = 3.0
    timeout: float = 10.0
    deadline: t.Optional[float] = None
    concurrency: int = 32
    max_bytes: int = 4 * 1024 * 1024
    ca_path: t.Optional[str] = None
    validate_certs: bool = True
    api_key: t.Optional[str] = field(default=None, repr=False)
    api_keys: t.Mapping[str, str] = field(default_factory=dict, repr=False)


def find_asking_errors(options: t.Mapping[str, t.Any]) -> t.List[str]:
    """Return one sentence for each option that cannot be used; none of them repeats a key."""
    return list(_asking_errors(options))


def _asking_errors(options: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    for name in ("connect_timeout", "timeout", "deadline"):
        if options[name] is not None and not 0 < options[name] <= _MOST_SECONDS:
            yield f"{name} has to be above 0 and at most {_MOST_SECONDS} seconds, not {options[name]:g}."
    if not 1 <= options["concurrency"] <= _MOST_AT_ONCE:
        yield f"concurrency has to be from 1 to {_MOST_AT_ONCE}, not {options['concurrency']}."
    keys = [("api_key", options["api_key"]), *((f"api_keys.{name}", key) for name, key in options["api_keys"].items())]
    for where, key in keys:
        if key is not None and not (isinstance(key, str) and key and all(0x21 <= ord(char) <= 0x7E for char in key)):
            yield f"{where} is not a valid key: it has to be printable ASCII without blanks."


def find_slot_errors(slots: t.Any) -> t.List[str]:
    """Return one sentence for each thing in slots that cannot be asked about."""
    if not isinstance(slots, list):
        return ["slots: a list of slot documents is needed."]
    errors: t.List[str] = []
    seen: t.Set[str] = set()
    for at, slot in enumerate(slots):
        if not isinstance(slot, dict):
            errors.append(f"slots[{at}]: a slot is a dictionary.")
            continue
        errors += _slot_errors(f"slots[{at}]", slot)
        if isinstance(slot.get("slot"), str):
            if slot["slot"] in seen:
                errors.append(f"slots[{at}]: the slot {slot['slot']} is given twice.")
            seen.add(slot["slot"])
    return errors


def _slot_errors(where: str, slot: t.Dict[str, t.Any]) -> t.Iterator[str]:
    for name in ("slot", "engine"):
        if not isinstance(slot.get(name), str) or not slot[name]:
            yield f"{where}: {name} is a text and has to be there."
    for name in ("endpoint", "model", "role", "replica_of", "node", "fingerprint", "source"):
        if slot.get(name) is not None and not isinstance(slot[name], str):
            yield f"{where}: {name} is a text."
    for name, key in (("gpus", "index"), ("shards", "node"), ("aliases", None)):
        parts = slot.get(name)
        if parts is not None and not isinstance(parts, list):
            yield f"{where}: {name} is a list."
        elif parts and key is not None and not all(isinstance(part, dict) and key in part for part in parts):
            yield f"{where}: each of {name} is a dictionary with {key}."
    allowed = slot.get("startup_timeout")
    if allowed is not None and (isinstance(allowed, bool) or not isinstance(allowed, (int, float))):
        yield f"{where}: startup_timeout is a number of seconds."


def asking_of(options: t.Mapping[str, t.Any]) -> Asking:
    """Return how to ask, from options that were found to be good."""
    return Asking(
        connect_timeout=options["connect_timeout"],
        timeout=options["timeout"],
        deadline=options["deadline"],
        concurrency=options["concurrency"],
        ca_path=options["ca_path"],
        validate_certs=options["validate_certs"],
        api_key=options["api_key"],
        api_keys=options["api_keys"],
    )


@dataclass(frozen=True)
class Heard:
    """What one replica answered; ``code`` is None where it is well, ``asked`` False where there was no time to ask."""

    code: t.Optional[str] = None
    detail: str = ""
    names: t.Tuple[str, ...] = ()
    numbers: Numbers = field(default_factory=Numbers)
    asked: bool = True
    resting: t.Tuple[str, ...] = ()
    fingerprint: t.Optional[str] = None

    @property
    def reason(self) -> str:
        """Return in one sentence why the replica is in its state."""
        if not self.asked:
            return _NOT_ASKED
        text = TROUBLE[self.code][1] if self.code is not None else ""
        return f"{text} ({clean(self.detail)})" if self.detail else text


@dataclass(frozen=True)
class Observation:
    """The replicas in the order of their slots, and the slots in which nothing is meant to be and nothing is."""

    replicas: t.List[t.Dict[str, t.Any]]
    empty: t.List[str]


def observe(
    slots: t.Sequence[t.Mapping[str, t.Any]],
    *,
    previous: t.Iterable[t.Mapping[str, t.Any]] = (),
    draining: t.Iterable[str] = (),
    asking: t.Optional[Asking] = None,
    now: t.Optional[float] = None,
) -> Observation:
    """Ask every slot's engine and say what state it is in.

    :param previous: what was observed last, from which idle times and times to start go on
    :param draining: nodes that are being drained
    :param now: the time of the observation in seconds of the epoch
    """
    asking = asking or Asking()
    moment = int(time.time() if now is None else now)
    before = {str(one.get("id")): one for one in previous}
    drained = set(draining)
    replicas, empty = [], []
    for slot, heard in zip(slots, ask_all(slots, asking)):
        last = before.get(slot["slot"])
        if not slot.get("model") and heard.code is not None and last is None:
            empty.append(slot["slot"])
        else:
            replicas.append(judge(slot, heard, last, drained, moment))
    return Observation(replicas, empty)


def ask_all(slots: t.Sequence[t.Mapping[str, t.Any]], asking: Asking) -> t.List[Heard]:
    """Ask every slot, so many at once, and return what was heard in the order of the slots."""
    if not slots:
        return []
    rounds = math.ceil(len(slots) / asking.concurrency)
    end = time.monotonic() + (rounds * asking.timeout + 1 if asking.deadline is None else asking.deadline)

    def ask_one(slot: t.Mapping[str, t.Any]) -> Heard:
        left = end - time.monotonic()
        return ask(slot, asking, min(left, asking.timeout)) if left > 0 else Heard(asked=False, code="timeout")

    with ThreadPoolExecutor(max_workers=min(asking.concurrency, len(slots))) as pool:
        return list(pool.map(ask_one, slots))


def ask(slot: t.Mapping[str, t.Any], asking: Asking, seconds: float) -> Heard:
    """Ask one engine for its health, and a well one for its models and metrics; never longer than these seconds."""
    if not slot.get("endpoint"):
        return Heard(code="no_endpoint")
    try:
        endpoint = checked_endpoint(slot["endpoint"])
        paths = _paths(slot)
        hub = Hub(
            endpoint=endpoint,
            token=_key_of(slot, asking),
            ca_path=asking.ca_path,
            verify=asking.validate_certs,
            proxies={},
            user_agent=_AGENT,
            accept="application/json, text/plain;version=0.0.4, */*;q=0.1",
        )
        limits = Limits(connect=min(asking.connect_timeout, seconds), total=seconds, max_bytes=asking.max_bytes)
        part: t.List[Heard] = []
        try:
            return ask_hub(hub, limits, lambda client: _questions(client, endpoint, paths, str(slot["engine"]), part))
        except SourceError:
            # Health was told before the time was over: what was not told is not known.
            if part:
                return part[-1]
            raise
    except SourceError as exc:
        return Heard(code=exc.code if exc.code in TROUBLE else "bad_answer", detail=exc.detail)


def _questions(
    client: Client, endpoint: str, paths: t.Mapping[str, t.Optional[str]], engine: str, part: t.List[Heard]
) -> Heard:
    status = client.request("GET", endpoint + str(paths["health"]), follow=False).status
    trouble = _of_health(status)
    if trouble is not None:
        return Heard(code=trouble, detail="" if trouble == "loading" else f"HTTP status {status}")
    part.append(Heard())
    body = _body(client, endpoint, paths["models"])
    found = (None if body is None else read_models(body)) or ModelList(names=())
    heard = Heard(
        names=found.names,
        numbers=Numbers(waiting=found.waiting),
        resting=found.resting,
        fingerprint=found.fingerprint,
    )
    part.append(heard)
    series = series_of(engine)
    body = None if series is None else _body(client, endpoint, _metrics_path(paths["metrics"], found))
    if series is None or body is None:
        return heard
    told = read_metrics(body.decode("utf-8", "replace"), series)
    if told.waiting is None:
        told = Numbers(told.running, found.waiting, told.requests, told.started)
    return replace(heard, numbers=told)


def _metrics_path(path: t.Optional[str], found: ModelList) -> t.Optional[str]:
    """Return where metrics are asked for: a router has them for each model that is loaded, and asking for another loads it."""
    if path is None or not (found.loaded or found.resting):
        return path
    return f"{path}?model={quote(found.loaded[0], safe='')}" if len(found.loaded) == 1 else None


def _of_health(status: int) -> t.Optional[str]:
    if 200 <= status < 300:
        return None
    if status == 503:
        return "loading"
    if status >= 500:
        return "server_error"
    if status in (401, 403):
        return "refused"
    return "redirected" if 300 <= status < 400 else "no_health"


def _body(client: Client, endpoint: str, path: t.Optional[str]) -> t.Optional[bytes]:
    """Return the body of a good answer. What else comes back says nothing about a replica whose health is good."""
    if path is None:
        return None
    try:
        answer = client.request("GET", endpoint + path, follow=False)
    except SourceError as exc:
        if exc.code == "timeout":
            raise
        return None
    return answer.body if answer.status == 200 else None


def _paths(slot: t.Mapping[str, t.Any]) -> t.Dict[str, t.Optional[str]]:
    """Return where a slot's engine is asked for what; a path is a path and nothing that leads to another host."""
    told = slot.get("paths")
    paths: t.Dict[str, t.Optional[str]] = {**_PATHS, **_ENGINE_PATHS.get(str(slot["engine"]), {})}
    if isinstance(told, dict):
        paths = {**dict.fromkeys(_PATHS), "health": paths["health"], **told}
    for name, path in paths.items():
        if path is None and name != "health":
            continue
        if not isinstance(path, str) or not path.startswith("/") or any(not 0x21 <= ord(char) <= 0x7E for char in path):
            raise SourceError("endpoint_malformed", f"its path for {name} is not a valid path")
    return paths


def _key_of(slot: t.Mapping[str, t.Any], asking: Asking) -> t.Optional[str]:
    for name in (slot.get("slot"), slot.get("role"), slot.get("replica_of"), slot.get("model"), slot.get("engine")):
        if isinstance(name, str) and name in asking.api_keys:
            return asking.api_keys[name]
    return asking.api_key


def judge(
    slot: t.Mapping[str, t.Any],
    heard: Heard,
    last: t.Optional[t.Mapping[str, t.Any]],
    draining: t.Collection[str],
    now: int,
) -> t.Dict[str, t.Any]:
    """Return the entry of one replica: its state from what was heard and from when it was first seen not to answer."""
    last = last or {}
    shards = _shards(slot)
    same = last.get("wanted_fingerprint") == slot.get("fingerprint") and last.get("endpoint") in (
        None,
        slot.get("endpoint"),
    )
    well = heard.code is None
    since = None
    if not well:
        waited = _moment(last.get("first_seen"), now) if same and last.get("state") != READY else None
        since = now if waited is None else waited
    state, reason = _state(slot, heard, since, last, now)
    drained = [shard["node"] for shard in shards if shard["node"] in draining]
    if drained:
        told = f"; {reason}" if reason else ""
        state, reason = DRAINING, f"{clean(str(drained[0]))} is being drained{told}"
    numbers = heard.numbers if well else Numbers()
    moved = _last_moved(numbers, last, well, now)
    counted = numbers if numbers.requests is not None else _counted(last)
    role = {} if slot.get("role") is None else {"role": slot["role"]}
    idle = well and moved is not None and numbers.requests is not None
    made_from = _made_from(slot, heard, last)
    return {
        "id": slot["slot"],
        **role,
        "replica": slot.get("replica"),
        "model": slot.get("model") or slot.get("replica_of"),
        "node": slot.get("node"),
        "engine": slot["engine"],
        "endpoint": slot.get("endpoint"),
        "state": state,
        "reason": reason,
        "served_model": _served(slot, heard.names) if well else None,
        "running": numbers.running,
        "waiting": numbers.waiting,
        "idle_seconds": max(0, now - t.cast("int", moved)) if idle else None,
        "requests_total": counted.requests,
        "started": counted.started,
        "last_moved": moved,
        "first_seen": since,
        "profile": _profile_of(made_from, slot, last),
        "fingerprint": made_from,
        "wanted_fingerprint": slot.get("fingerprint"),
        "simulated": bool(slot.get("simulated")) or slot["engine"] == "sim",
        "shards": shards,
    }


def _made_from(slot: t.Mapping[str, t.Any], heard: Heard, last: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """Return the fingerprint of what the engine that runs was made from, as far as anybody knows.

    What it says of itself counts. Else it is what it was as long as the process is the same, and what its slot wants where it
    is seen to have been started anew. Of one that was never seen to start, and says nothing, it is not known.
    """
    told = heard.fingerprint
    if told is not None:
        return told
    before, started = _counted(last).started, heard.numbers.started
    if None not in (before, started) and before != started:
        return fingerprint_of(slot.get("fingerprint"))
    return fingerprint_of(last.get("fingerprint"))


def _profile_of(made_from: t.Optional[str], slot: t.Mapping[str, t.Any], last: t.Mapping[str, t.Any]) -> t.Any:
    """Return the profile that goes with a fingerprint; None where nobody has it any more."""
    if made_from is None or made_from == slot.get("fingerprint"):
        return slot.get("profile")
    return last.get("profile") if made_from == last.get("fingerprint") else None


def _state(
    slot: t.Mapping[str, t.Any], heard: Heard, since: t.Optional[int], last: t.Mapping[str, t.Any], now: int
) -> t.Tuple[str, t.Optional[str]]:
    if heard.code is None:
        return READY, _RESTS if _is_resting(slot, heard) else None
    if not heard.asked:
        known = last.get("state")
        return (known if known in (READY, STARTING, DRAINING, FAILED) else STARTING), heard.reason
    allowed = slot.get("startup_timeout") or STARTUP_TIMEOUT
    waited = now - (now if since is None else since)
    if not TROUBLE[heard.code][0]:
        return FAILED, heard.reason
    if waited <= allowed:
        return STARTING, heard.reason
    return FAILED, f"{heard.reason}, for {waited} seconds now; {allowed} are allowed to start"


def _is_resting(slot: t.Mapping[str, t.Any], heard: Heard) -> bool:
    """Return whether an engine that is well would have to load the slot's model first."""
    own = {str(name) for name in (slot.get("model") or slot.get("replica_of"), *(slot.get("aliases") or ())) if name}
    return bool(heard.resting) and not own.isdisjoint(heard.resting)


def _shards(slot: t.Mapping[str, t.Any]) -> t.List[t.Dict[str, t.Any]]:
    told = slot.get("shards")
    if told:
        return [{"node": one["node"], "gpu_indices": list(one.get("gpu_indices") or ())} for one in told]
    return [{"node": slot.get("node"), "gpu_indices": [gpu["index"] for gpu in slot.get("gpus") or ()]}]


def _served(slot: t.Mapping[str, t.Any], names: t.Tuple[str, ...]) -> t.Optional[str]:
    """Return the slot's model where one of the names is one of its own, else the first name; None where nobody said."""
    if not names:
        return None
    model, source = slot.get("model") or slot.get("replica_of"), slot.get("source")
    own = {clean(str(name)).casefold() for name in (model, source, *(slot.get("aliases") or ())) if name}
    if source:
        # An engine that was not told a name takes the path of the weights, or its last part.
        own.add(posixpath.basename(str(source).rstrip("/")).casefold())
    for name in names:
        if name.casefold() in own or posixpath.basename(name.rstrip("/")).casefold() in own:
            return str(model) if model else name
    return names[0]


def _moment(value: t.Any, now: int) -> t.Optional[int]:
    """Return a time that was noted earlier; one that lies ahead of now is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= now:
        return None
    return int(value)


def _counted(last: t.Mapping[str, t.Any]) -> Numbers:
    values = [last.get(key) for key in ("requests_total", "started")]
    known = [
        value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None for value in values
    ]
    return Numbers(requests=known[0], started=known[1])


def _last_moved(numbers: Numbers, last: t.Mapping[str, t.Any], well: bool, now: int) -> t.Optional[int]:  # noqa: FBT001
    """Return when the counter of requests last moved, as far as anybody saw it.

    A counter that is lower than it was began anew: what happened in between nobody knows, so that the time begins anew
    as well. The first time that a replica is seen, its time begins, unless it says that it never was asked for anything
    since it started.
    """
    noted = _moment(last.get("last_moved"), now)
    if not well or numbers.requests is None:
        return noted
    if numbers.running or numbers.waiting:
        return now
    before = _counted(last)
    if before.requests is None or noted is None:
        begun = _moment(numbers.started, now)
        return begun if numbers.requests == 0 and begun is not None else now
    restarted = None not in (before.started, numbers.started) and before.started != numbers.started
    return now if restarted or numbers.requests != before.requests else noted
