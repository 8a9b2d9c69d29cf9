# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import contextlib
import json
import socket
import threading

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._replicas import observe as observe_module
from ansible_collections.knaster.inventory.plugins.module_utils._replicas.answers import (
    SERIES,
    Numbers,
    clean,
    read_metrics,
    read_models,
)
from ansible_collections.knaster.inventory.plugins.module_utils._replicas.observe import (
    Asking,
    find_asking_errors,
    find_slot_errors,
    observe,
)
from ansible_collections.knaster.inventory.tests.peers import engines
from ansible_collections.knaster.inventory.tests.peers import hub as hub_peer
from ansible_collections.knaster.inventory.tests.peers.limits import hang_limit

NOW = 1_800_000_000
QUICK = Asking(connect_timeout=1, timeout=2)


def slot(endpoint, engine="vllm", **more):
    fixed = {"slot": "chat.0.main", "role": "chat", "replica": 0, "node": "n1", "model": "org/model"}
    cards = {"gpus": [{"index": 1}, {"index": 2}], "startup_timeout": 600, "fingerprint": "f" * 16}
    return {**fixed, **cards, "engine": engine, "endpoint": endpoint, **more}


def look(endpoint, engine="vllm", *, previous=(), now=NOW, draining=(), asking=QUICK, **more):
    found = observe([slot(endpoint, engine, **more)], previous=previous, draining=draining, asking=asking, now=now)
    assert not found.empty
    return found.replicas[0]


@pytest.mark.parametrize("kind", ["vllm", "sglang", "llamacpp", "tei", "infinity", "sim"])
def test_each_engine_as_it_answers(kind):
    engine = engines.Engine(kind, running=2, waiting=3, requests=7)
    with engines.serve(engine) as endpoint:
        entry = look(endpoint, kind)
    assert (entry["state"], entry["reason"], entry["served_model"]) == ("ready", None, "org/model")
    assert entry["running"] == (None if kind in ("tei", "infinity") else 2)
    assert entry["waiting"] == 3
    assert entry["requests_total"] == (770 if kind == "llamacpp" else 7)
    assert entry["idle_seconds"] == 0
    assert entry["simulated"] is (kind == "sim")
    assert entry["shards"] == [{"node": "n1", "gpu_indices": [1, 2]}]
    assert [path for path, _headers in engine.seen] == [
        "/health",
        {"tei": "/info", "infinity": "/models"}.get(kind, "/v1/models"),
        "/metrics",
    ]
    assert all("authorization" not in headers for _path, headers in engine.seen)


@pytest.mark.parametrize("kind", ["vllm", "sglang", "llamacpp", "tei", "infinity"])
def test_idle_time_goes_on_from_run_to_run(kind):
    engine = engines.Engine(kind, requests=7)
    with engines.serve(engine) as endpoint:
        first = look(endpoint, kind)
        later = look(endpoint, kind, previous=[first], now=NOW + 700)
        assert (later["idle_seconds"], later["last_moved"]) == (700, NOW)
        engine.requests = 8
        moved = look(endpoint, kind, previous=[later], now=NOW + 800)
        assert (moved["idle_seconds"], moved["last_moved"]) == (0, NOW + 800)
        still = look(endpoint, kind, previous=[moved], now=NOW + 1000)
        assert still["idle_seconds"] == 200


OLD, NEW = "a" * 16, "b" * 16


def tell(engine, **more):
    """An engine whose list of models says more of its one model."""
    engine.models_more = more
    return engine


def test_what_an_engine_was_made_from_is_not_what_its_slot_wishes_for():
    engine = engines.Engine("vllm", requests=7, started=NOW - 5000)
    old = {"name": "p", "args": ["--max-num-seqs", "16"]}
    new = {"name": "p", "args": ["--max-num-seqs", "64"]}
    with engines.serve(engine) as endpoint:
        # Somebody started it, and nobody knows with what.
        adopted = look(endpoint, fingerprint=OLD, profile=old)
        assert (adopted["fingerprint"], adopted["wanted_fingerprint"]) == (None, OLD)
        again = look(endpoint, fingerprint=OLD, profile=old, previous=[adopted], now=NOW + 60)
        assert again["fingerprint"] is None
        engine.started = NOW + 90
        started = look(endpoint, fingerprint=OLD, profile=old, previous=[again], now=NOW + 120)
        assert (started["fingerprint"], started["profile"]) == (OLD, old)
        # The registry is written again, and the process is the same: it stays what it was, however often it is asked.
        last = started
        for later in (180, 240, 300):
            last = look(endpoint, fingerprint=NEW, profile=new, previous=[last], now=NOW + later)
            assert (last["fingerprint"], last["wanted_fingerprint"], last["profile"]) == (OLD, NEW, old)
        engine.started = NOW + 350
        last = look(endpoint, fingerprint=NEW, profile=new, previous=[last], now=NOW + 400)
        assert (last["fingerprint"], last["profile"]) == (NEW, new)
    gone = look(endpoint, fingerprint=OLD, profile=old, previous=[last], now=NOW + 500)
    assert (gone["state"], gone["fingerprint"]) == ("starting", NEW)


def test_the_tags_of_llama_cpp_say_what_it_was_made_from():
    engine = tell(engines.Engine("llamacpp", requests=7), tags=["own", f"knaster-revision={OLD}"])
    with engines.serve(engine) as endpoint:
        first = look(endpoint, "llamacpp", fingerprint=NEW)
        assert (first["fingerprint"], first["wanted_fingerprint"]) == (OLD, NEW)
        tell(engine, tags=[f"knaster-revision={NEW}"])
        assert look(endpoint, "llamacpp", fingerprint=NEW, previous=[first])["fingerprint"] == NEW
        for tags in ("knaster-revision=x", ["knaster-revision=../etc"], [7], {}, None):
            tell(engine, tags=tags)
            assert look(endpoint, "llamacpp", fingerprint=NEW)["fingerprint"] is None


@pytest.mark.parametrize("status", ["unloaded", "sleeping", "loaded", "failed", None, 7])
def test_a_router_says_which_models_have_to_be_loaded_first(status):
    engine = tell(engines.Engine("llamacpp", requests=7), status={"value": status})
    with engines.serve(engine) as endpoint:
        entry = look(endpoint, "llamacpp")
    rests = status in ("unloaded", "sleeping")
    assert entry["state"] == "ready"
    assert entry["reason"] == ("its model is not loaded: the next request waits for that" if rests else None)
    # Asking for the metrics of a model would load it.
    asked = [path for path, _headers in engine.seen if path.startswith("/metrics")]
    assert asked == ([] if rests else ["/metrics?model=org%2Fmodel"] if status == "loaded" else ["/metrics"])


def test_work_in_progress_is_not_idle():
    engine = engines.Engine("vllm", requests=7)
    with engines.serve(engine) as endpoint:
        first = look(endpoint)
        engine.running = 1
        assert look(endpoint, previous=[first], now=NOW + 700)["idle_seconds"] == 0


def test_a_counter_that_began_anew_is_no_idle_time():
    engine = engines.Engine("vllm", requests=7)
    with engines.serve(engine) as endpoint:
        first = look(endpoint)
        engine.requests = 0
        engine.started += 1000
        assert look(endpoint, previous=[first], now=NOW + 700)["idle_seconds"] == 0
        # The same number after a restart is another count.
        engine.requests = 7
        assert look(endpoint, previous=[first], now=NOW + 700)["idle_seconds"] == 0


def test_an_engine_that_was_never_asked_is_idle_since_it_started():
    with engines.serve(engines.Engine("vllm", started=NOW - 5000)) as endpoint:
        assert look(endpoint)["idle_seconds"] == 5000
    with engines.serve(engines.Engine("vllm", started=NOW + 5000)) as endpoint:
        assert look(endpoint)["idle_seconds"] == 0


def test_a_clock_that_went_back():
    with engines.serve(engines.Engine("vllm", requests=3)) as endpoint:
        first = look(endpoint)
        entry = look(endpoint, previous=[first], now=NOW - 100)
        assert (entry["idle_seconds"], entry["last_moved"]) == (0, NOW - 100)


def test_counters_live_through_a_time_without_answers():
    engine = engines.Engine("vllm", requests=7)
    with engines.serve(engine) as endpoint:
        first = look(endpoint)
    down = look(endpoint, previous=[first], now=NOW + 100)
    assert (down["state"], down["idle_seconds"], down["requests_total"]) == ("starting", None, 7)
    assert down["last_moved"] == NOW


def test_metrics_that_are_off_are_not_known():
    for kind, status in (("llamacpp", "501"), ("sglang", "404")):
        engine = engines.Engine(kind, metrics=False)
        with engines.serve(engine) as endpoint:
            entry = look(endpoint, kind)
        assert entry["state"] == "ready", status
        assert (entry["running"], entry["waiting"], entry["idle_seconds"]) == (None, None, None)


def test_loading_is_starting_until_the_time_is_over():
    engine = engines.Engine("llamacpp", loading=True)
    with engines.serve(engine) as endpoint:
        first = look(endpoint, "llamacpp")
        assert (first["state"], first["reason"], first["first_seen"]) == ("starting", "it is loading", NOW)
        second = look(endpoint, "llamacpp", previous=[first], now=NOW + 600)
        assert (second["state"], second["first_seen"]) == ("starting", NOW)
        third = look(endpoint, "llamacpp", previous=[second], now=NOW + 601)
        assert third["state"] == "failed"
        assert third["reason"] == "it is loading, for 601 seconds now; 600 are allowed to start"
        # Another slot, or the same slot made anew, has its own time.
        other = look(endpoint, "llamacpp", previous=[third], now=NOW + 700, fingerprint="e" * 16)
        assert (other["state"], other["first_seen"]) == ("starting", NOW + 700)
        engine.loading = False
        ready = look(endpoint, "llamacpp", previous=[third], now=NOW + 800)
        assert (ready["state"], ready["first_seen"]) == ("ready", None)
        engine.loading = True
        again = look(endpoint, "llamacpp", previous=[ready], now=NOW + 900)
        assert (again["state"], again["first_seen"]) == ("starting", NOW + 900)


def test_nothing_at_the_port():
    entry = look(engines.closed_endpoint())
    assert (entry["state"], entry["reason"]) == ("starting", "nothing answers at its port")
    entry = look(engines.closed_endpoint(), previous=[{**entry, "endpoint": None}], now=NOW + 9999)
    assert entry["state"] == "failed"


def test_a_name_that_nobody_knows(monkeypatch):
    def refuse(*args, **kwargs):
        raise socket.gaierror(-2, "x")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert look("http://no-such-vm:8000")["reason"] == "its name cannot be resolved"


def test_a_name_server_that_does_not_answer_holds_nobody_up(monkeypatch):
    over, answered = threading.Event(), []

    def answer_late(*args, **kwargs):
        answered.append(over.wait(120))
        raise socket.gaierror(-2, "x")

    monkeypatch.setattr(socket, "getaddrinfo", answer_late)
    entry = look("http://vm:8000", asking=Asking(timeout=0.5))
    assert answered == []
    over.set()
    assert entry["reason"] == "its host did not accept a connection in time"


def test_a_draining_node():
    with engines.serve(engines.Engine("vllm")) as endpoint:
        assert look(endpoint, draining={"n1"})["state"] == "draining"
        assert look(endpoint, draining={"n2"})["state"] == "ready"
        shards = [{"node": "n3", "gpu_indices": [0]}, {"node": "n4", "gpu_indices": [1]}]
        entry = look(endpoint, draining={"n4"}, shards=shards)
        assert (entry["state"], entry["reason"]) == ("draining", "n4 is being drained")
        assert entry["shards"] == shards
    gone = look(engines.closed_endpoint(), draining={"n1"})
    assert (gone["state"], gone["reason"]) == ("draining", "n1 is being drained; nothing answers at its port")


@pytest.mark.parametrize(
    ("name", "state", "reason"),
    [
        ("silent", "starting", "it did not answer in time"),
        ("closes", "starting", "the connection broke"),
        ("ssh", "failed", "what answers there does not speak HTTP (not valid HTTP)"),
        ("endless", "failed", "its answer has no end or is too large"),
        ("endless_chunks", "failed", "its answer has no end or is too large"),
        ("said_to_be_huge", "failed", "its answer has no end or is too large"),
        ("drips_body", "starting", "it did not answer in time"),
        ("drips_headers", "starting", "it did not answer in time"),
        ("drips_one_header", "starting", "it did not answer in time"),
        ("cut_short", "starting", "the connection broke"),
    ],
)
def test_what_never_ends_ends(name, state, reason):
    with engines.serve_raw(engines.RAW[name]) as endpoint, hang_limit():
        entry = look(endpoint, asking=Asking(timeout=0.6, max_bytes=300_000))
    if name == "drips_headers":
        # More than a hundred headers are no HTTP to Python either, if they come in time.
        assert entry["state"] in ("starting", "failed")
    else:
        assert (entry["state"], entry["reason"]) == (state, reason)


def test_a_health_that_is_well_stays_well_when_the_rest_hangs():
    def talk(peer, over):
        if b"GET /health" in peer.recv(65536):
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        else:
            over.wait(20)

    with engines.serve_raw(talk) as endpoint:
        entry = look(endpoint, asking=Asking(timeout=0.5))
    assert (entry["state"], entry["served_model"], entry["idle_seconds"]) == ("ready", None, None)


@pytest.mark.parametrize(
    ("status", "state", "words"),
    [
        (404, "failed", "it is not the engine (HTTP status 404)"),
        (401, "failed", "it wants an API key"),
        (403, "failed", "it wants an API key"),
        (500, "starting", "its health check failed (HTTP status 500)"),
        (503, "starting", "it is loading"),
        (204, "ready", None),
    ],
)
def test_other_answers_to_the_question_for_health(status, state, words):
    with engines.serve(engines.Told({"/health": (status, "")})) as endpoint:
        entry = look(endpoint)
    assert entry["state"] == state
    assert words is None if entry["reason"] is None else words in entry["reason"]


def test_no_redirect_is_followed_and_no_key_goes_elsewhere():
    elsewhere = engines.Engine("vllm")

    class Sends(engines.Told):
        def answer(self, path, headers):
            self.seen.append((path, headers))
            return 302, f"text/plain\r\nLocation: {target}/health", ""

    with engines.serve(elsewhere) as target, engines.serve(Sends({})) as endpoint:
        entry = look(endpoint, asking=Asking(api_key="sesame"))
    assert (entry["state"], elsewhere.seen) == ("failed", [])
    assert entry["reason"].startswith("it redirects the query, which is not followed")


def test_keys_are_by_slot_role_model_and_engine():
    engine = engines.Engine("vllm", api_key="right")
    with engines.serve(engine) as endpoint:
        assert look(endpoint)["served_model"] is None
        assert look(endpoint, asking=Asking(api_key="right"))["served_model"] == "org/model"
        for name in ("chat.0.main", "chat", "org/model", "vllm"):
            keys = {name: "right"}
            assert look(endpoint, asking=Asking(api_key="wrong", api_keys=keys))["served_model"] == "org/model"
    assert "right" not in repr(Asking(api_key="right", api_keys={"a": "right"}))


def test_proxies_of_the_environment_are_not_for_engines(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with engines.serve(engines.Engine("vllm")) as endpoint:
        assert look(endpoint)["state"] == "ready"


def test_tls(tmp_path):
    context, authority = hub_peer.certificate(tmp_path)
    with engines.serve(engines.Engine("vllm", requests=3), context) as endpoint:
        entry = look(endpoint)
        assert entry["state"] == "failed"
        assert entry["reason"].startswith("the encrypted connection failed (")
        assert look(endpoint, asking=Asking(ca_path=authority))["requests_total"] == 3
        assert look(endpoint, asking=Asking(validate_certs=False))["state"] == "ready"
        assert look(endpoint, asking=Asking(ca_path=str(tmp_path / "none")))["state"] == "failed"


@pytest.mark.parametrize(
    ("names", "more", "served"),
    [
        (["other", "org/model"], {}, "org/model"),
        (["ORG/Model"], {}, "org/model"),
        (["/models/org/model"], {"source": "/models/org/model"}, "org/model"),
        (["m.gguf"], {"source": "/models/x/m.gguf", "model": "x"}, "x"),
        (["short"], {"aliases": ["short"]}, "org/model"),
        (["what\x1b[31m\n" + "x" * 400], {}, "what?[31m?" + "x" * 187 + "..."),
        ([], {}, None),
        (["free"], {"model": None}, "free"),
    ],
)
def test_the_served_model(names, more, served):
    engine = engines.Engine("vllm")
    engine.names = names or ["x"]
    if not names:
        engine._listed = lambda **_more: '{"data": []}'
    with engines.serve(engine) as endpoint:
        assert look(endpoint, **more)["served_model"] == served


def test_an_empty_slot_is_no_replica_until_something_is_there():
    empty = slot(engines.closed_endpoint(), model=None)
    found = observe([empty], asking=QUICK, now=NOW)
    assert (found.replicas, found.empty) == ([], ["chat.0.main"])
    with engines.serve(engines.Engine("vllm")) as endpoint:
        first = observe([{**empty, "endpoint": endpoint}], asking=QUICK, now=NOW)
    assert first.replicas[0]["state"] == "ready"
    found = observe([{**empty, "endpoint": endpoint}], previous=first.replicas, asking=QUICK, now=NOW + 5)
    assert found.replicas[0]["state"] == "starting"


@pytest.mark.parametrize(
    ("endpoint", "paths", "words"),
    [
        (None, None, "it has no endpoint"),
        ("ftp://x", None, "its endpoint is not a valid address"),
        ("http://user:word@x:80", None, "its endpoint is not a valid address"),
        ("http://a b", None, "its endpoint is not a valid address"),
        ("http://127.0.0.1:1", {"health": "@evil/"}, "its path for health is not a valid path"),
        ("http://127.0.0.1:1", {"models": "/a\r\nX: y"}, "its path for models is not a valid path"),
    ],
)
def test_addresses_that_are_none(endpoint, paths, words):
    entry = look(endpoint, paths=paths)
    assert (entry["state"], words in entry["reason"]) == ("failed", True)
    assert "word" not in entry["reason"]


def test_paths_of_the_slot_win():
    told = engines.Told({"/up": (200, ""), "/list": (200, '{"data": [{"id": "org/model"}]}')})
    with engines.serve(told) as endpoint:
        entry = look(endpoint, paths={"health": "/up", "models": "/list"})
    assert (entry["state"], entry["served_model"]) == ("ready", "org/model")
    assert [path for path, _headers in told.seen] == ["/up", "/list"]


DEEP = "[" * 200_000
BAD_BODIES = [
    ("", ""),
    ("[]", "<html>"),
    ("{}", "nothing at all"),
    (DEEP, "vllm:num_requests_running nan\nvllm:num_requests_waiting -1\n"),
    ('{"data": 3}', "vllm:num_requests_running 1e400\nvllm:num_requests_waiting 1e300\n"),
    ('{"data": [3, {"id": 3}, {"id": ""}, null]}', "vllm:num_requests_running\nvllm:num_requests_running{ 1\n"),
    ('{"data": [{"id": "\\ud800"}]}', "\x00\x01\x02 7\n"),
    ('{"data": ' + "9" * 5000 + "}", "vllm:num_requests_running " + "9" * 5000 + "\n"),
]


@pytest.mark.parametrize(("models", "metrics"), BAD_BODIES)
def test_what_can_not_be_read_is_not_known(models, metrics):
    with engines.serve(
        engines.Told({"/health": (200, ""), "/v1/models": (200, models), "/metrics": (200, metrics)})
    ) as url:
        entry = look(url)
    assert entry["state"] == "ready"
    assert (entry["running"], entry["waiting"]) == (None, None)
    json.dumps(entry).encode("utf-8")
    json.dumps(entry, ensure_ascii=False).encode("utf-8")


def test_numbers_of_a_text():
    text = (
        'vllm:num_requests_running{a="} 5",model_name="x y"} 2.0 1700000000\n'
        "vllm:num_requests_running 1\n"
        "vllm:num_requests_running_more 50\n"
        "  vllm_num_requests_waiting 4\n"
        "vllm:prompt_tokens_total 10\nvllm:generation_tokens_total 5\n"
    )
    assert read_metrics(text, SERIES["vllm"]) == Numbers(running=3, waiting=4, requests=15)
    assert read_metrics("vllm:request_success_total 2\n" + text, SERIES["vllm"]).requests == 2
    assert read_metrics("", SERIES["tei"]) == Numbers(requests=0)


def test_models_of_a_text():
    assert read_models(b'{"model_id": "a", "served_model_name": "b"}').names == ("b", "a")
    assert read_models(b"\xff\xfe") is None
    assert read_models(b'{"data": [{"id": "a", "stats": {"queue_absolute": true}}]}').waiting is None
    assert len(read_models(json.dumps({"data": [{"id": str(at)} for at in range(5000)]}).encode()).names) == 1000


def test_texts_of_others_are_one_short_line():
    assert clean("a\u202eb\nc") == "a?b?c"
    assert len(clean("x" * 1000)) == 200


class Crowd(engines.Engine):
    """An engine that answers when so many ask for its health at the same time, and never before."""

    def __init__(self, size):
        super().__init__("vllm", requests=1)
        self.barrier, self.most, self.now, self.lock = threading.Barrier(size), 0, 0, threading.Lock()

    def answer(self, path, headers):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        if path == "/health":
            self.barrier.wait(120)
        with self.lock:
            self.now -= 1
        return super().answer(path, headers)


def test_as_many_are_asked_at_once_as_may_be():
    engine = Crowd(16)
    with engines.serve(engine) as endpoint:
        slots = [slot(endpoint, slot=f"s.{at}.a") for at in range(5 * 16)]
        found = observe(slots, asking=Asking(timeout=100, concurrency=16), now=NOW)
    assert [one["state"] for one in found.replicas] == ["ready"] * len(slots)
    assert engine.most == 16


def test_two_hundred_slots():
    with contextlib.ExitStack() as stack:
        live = [stack.enter_context(engines.serve(engines.Engine("vllm", requests=1))) for _unused in range(20)]
        hanging = [stack.enter_context(engines.serve_raw(engines.RAW["silent"])) for _unused in range(4)]
        slots = [slot(live[at % 20], slot=f"s.{at}.a") for at in range(180)]
        slots += [slot(hanging[at % 4], slot=f"h.{at}.a") for at in range(20)]
        found = observe(slots, asking=Asking(timeout=1.5, concurrency=32), now=NOW)
    assert [one["id"] for one in found.replicas] == [one["slot"] for one in slots]
    assert [one["state"] for one in found.replicas] == ["ready"] * 180 + ["starting"] * 20


def test_the_time_for_all_is_kept():
    with engines.serve_raw(engines.RAW["silent"]) as endpoint:
        slots = [slot(endpoint, slot=f"h.{at}.a") for at in range(30)]
        last = [
            {"id": "h.29.a", "state": "failed", "first_seen": NOW - 50, "fingerprint": "f" * 16, "endpoint": endpoint}
        ]
        found = observe(slots, previous=last, asking=Asking(timeout=1, concurrency=2, deadline=2), now=NOW)
    assert found.replicas[0]["reason"] == "it did not answer in time"
    assert found.replicas[29]["reason"] == observe_module._NOT_ASKED
    assert (found.replicas[29]["state"], found.replicas[28]["state"]) == ("failed", "starting")


def test_nothing_to_ask():
    assert observe([]).replicas == []


OPTIONS = {
    "connect_timeout": 3,
    "timeout": 10,
    "deadline": None,
    "concurrency": 32,
    "api_key": None,
    "api_keys": {},
    "ca_path": None,
    "validate_certs": True,
}


def test_options_that_can_not_be_used():
    assert find_asking_errors(OPTIONS) == []
    wrong = {**OPTIONS, "timeout": 0, "deadline": 1e9, "concurrency": 0, "api_key": "a b", "api_keys": {"x": "s\u00e9"}}
    errors = find_asking_errors(wrong)
    assert len(errors) == 5
    assert not any(key in " ".join(errors) for key in ("a b", "s\u00e9"))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"slot": ""}, "slot is a text"),
        ({"engine": None}, "engine is a text"),
        ({"endpoint": 3}, "endpoint is a text"),
        ({"gpus": [3]}, "each of gpus is a dictionary with index"),
        ({"shards": [{}]}, "each of shards is a dictionary with node"),
        ({"aliases": "a"}, "aliases is a list"),
        ({"startup_timeout": "20m"}, "startup_timeout is a number"),
    ],
)
def test_slots_that_can_not_be_asked_about(changed, told):
    good = slot("http://x:1")
    assert find_slot_errors([good]) == []
    errors = find_slot_errors([{**good, **changed}])
    assert len(errors) == 1
    assert told in errors[0]


def test_slots_that_are_none():
    assert find_slot_errors({}) == ["slots: a list of slot documents is needed."]
    assert find_slot_errors([3, slot("http://x:1"), slot("http://x:1")]) == [
        "slots[0]: a slot is a dictionary.",
        "slots[2]: the slot chat.0.main is given twice.",
    ]
