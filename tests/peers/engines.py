# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Servers on loopback that answer as the engines do, and some that misbehave.

An engine answers its health, list of models and metrics as its documentation says: vLLM 0.33, SGLang 0.5.23, llama.cpp of
October 2026, text-embeddings-inference 1.9.3 and infinity 0.0.78. Each remembers who asked for what with which headers.

``python tests/peers/engines.py OUT.json SECONDS KIND...`` serves engines of these kinds (``silent`` and the other names of ``RAW`` too)
so long, or until the file is removed that it writes their endpoints to.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import socket
import sys
import threading
import time
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

if t.TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

PLAIN = "text/plain; version=0.0.4; charset=utf-8"


class Engine:
    """An engine and all that a test may change while it runs."""

    def __init__(self, kind: str, model: str = "org/model", **state: t.Any) -> None:
        self.kind = kind
        self.names = [model]
        self.loading = False
        self.running = 0
        self.waiting = 0
        self.requests = 0
        self.started = 1_700_000_000
        self.metrics = True
        # What the list of models says more of each of them.
        self.models_more: dict[str, t.Any] = {}
        self.api_key: str | None = None
        self.seen: list[tuple[str, dict[str, str]]] = []
        for name, value in state.items():
            setattr(self, name, value)

    def answer(self, path: str, headers: dict[str, str]) -> tuple[int, str, str]:
        """Status, type and text of an answer."""
        self.seen.append((path, headers))
        make = getattr(self, f"_{self.kind}")
        found: tuple[int, str, str] | None = make(path, headers.get("authorization"))
        return found or (404, "application/json", '{"detail":"Not Found"}')

    def _is_allowed(self, told: str | None) -> bool:
        return self.api_key is None or told == f"Bearer {self.api_key}"

    def _listed(self, **more: t.Any) -> str:
        entries = [
            {"id": name, "object": "model", "owned_by": self.kind, **more, **self.models_more} for name in self.names
        ]
        return json.dumps({"object": "list", "data": entries})

    def _vllm(self, path: str, told: str | None) -> tuple[int, str, str] | None:
        if path == "/health":
            return 200, "text/plain", ""
        if path == "/v1/models":
            if not self._is_allowed(told):
                return 401, "application/json", '{"error":"Unauthorized"}'
            return 200, "application/json", self._listed(max_model_len=32768)
        if path == "/metrics":
            labels = f'engine="0",model_name="{self.names[0]}"'
            return (
                200,
                PLAIN,
                (
                    "# HELP vllm:num_requests_running Number of requests in model execution batches.\n"
                    "# TYPE vllm:num_requests_running gauge\n"
                    f"vllm:num_requests_running{{{labels}}} {float(self.running)}\n"
                    f"vllm:num_requests_waiting{{{labels}}} {float(self.waiting)}\n"
                    f'vllm:num_requests_waiting_by_reason{{{labels},reason="capacity"}} 99.0\n'
                    "# TYPE vllm:request_success_total counter\n"
                    f'vllm:request_success_total{{{labels},finished_reason="stop"}} {float(self.requests)}\n'
                    f'vllm:request_success_total{{{labels},finished_reason="length"}} 0.0\n'
                    f'vllm:request_success_created{{{labels},finished_reason="stop"}} 1.7e+09\n'
                    f"process_start_time_seconds {self.started}.25\n"
                ),
            )
        return None

    _sim = _vllm

    def _sglang(self, path: str, told: str | None) -> tuple[int, str, str] | None:
        if path == "/health":
            return (503, "text/plain", "") if self.loading else (200, "text/plain", "")
        if not self._is_allowed(told):
            return 401, "application/json", '{"error":"Unauthorized"}'
        if path == "/v1/models":
            return 200, "application/json", self._listed(root=self.names[0])
        if path == "/metrics" and self.metrics:
            labels = f'engine_type="unified",model_name="{self.names[0]}"'
            counted = (
                f'sglang:num_requests_total{{{labels},is_streaming="true"}} {float(self.requests)}\n'
                if self.requests
                else ""
            )
            return (
                200,
                PLAIN,
                (
                    f"sglang:num_running_reqs{{{labels}}} {float(self.running)}\n"
                    f"sglang:num_queue_reqs{{{labels}}} {float(self.waiting)}\n" + counted
                ),
            )
        return None

    def _llamacpp(self, path: str, told: str | None) -> tuple[int, str, str] | None:
        loading = {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}
        if self.loading:
            return 503, "application/json", json.dumps(loading)
        if path == "/health":
            return 200, "application/json", '{"status":"ok"}'
        if path == "/v1/models":
            return 200, "application/json", self._listed(meta={"n_ctx_train": 40960})
        if not self._is_allowed(told):
            return 401, "application/json", '{"error":{"code":401,"message":"Invalid API Key"}}'
        if path == "/metrics":
            if not self.metrics:
                text = "This server does not support metrics endpoint. Start it with `--metrics`"
                return 501, "application/json", json.dumps({"error": {"code": 501, "message": text}})
            return (
                200,
                PLAIN,
                (
                    "# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed.\n"
                    "# TYPE llamacpp:prompt_tokens_total counter\n"
                    f"llamacpp:prompt_tokens_total {self.requests * 100}\n"
                    f"llamacpp:tokens_predicted_total {self.requests * 10}\n"
                    f"llamacpp:requests_processing {self.running}\n"
                    f"llamacpp:requests_deferred {self.waiting}\n"
                ),
            )
        return None

    def _tei(self, path: str, told: str | None) -> tuple[int, str, str] | None:
        if path in ("/health", "/", "/ping"):
            return (503, "application/json", '{"error":"unhealthy"}') if self.loading else (200, "text/plain", "")
        if path == "/info":
            if not self._is_allowed(told):
                return 401, "text/plain", ""
            info = {
                "model_id": self.names[0],
                "model_sha": None,
                "model_dtype": "float16",
                "max_concurrent_requests": 512,
            }
            return 200, "application/json", json.dumps(info)
        if path == "/metrics":
            counted = f'te_request_count{{method="single"}} {self.requests}\n' if self.requests else ""
            return 200, "text/plain", f"# TYPE te_queue_size gauge\nte_queue_size {self.waiting}\n\n{counted}"
        return None

    def _infinity(self, path: str, told: str | None) -> tuple[int, str, str] | None:
        if path == "/health":
            return 200, "application/json", json.dumps({"unix": time.time()})
        if path == "/models":
            if not self._is_allowed(told):
                return 401, "application/json", '{"detail":"Unauthorized"}'
            stats = {"queue_fraction": 0.0, "queue_absolute": self.waiting, "results_pending": 0, "batch_size": 32}
            return 200, "application/json", self._listed(stats=stats, backend="torch", capabilities=["embed"])
        if path == "/metrics":
            asked = len(self.seen)
            return (
                200,
                PLAIN,
                (
                    "# TYPE http_requests_total counter\n"
                    f'http_requests_total{{handler="/health",method="GET",status="2xx"}} {asked}.0\n'
                    f'http_requests_total{{handler="/embeddings",method="POST",status="2xx"}} {self.requests}.0\n'
                    f"process_start_time_seconds {self.started}.5\n"
                ),
            )
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *args: t.Any) -> None:
        pass

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, kind, text = self.server.engine.answer(self.path, headers)
        body = text.encode("utf-8", "surrogatepass")
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    engine: t.Any

    def handle_error(self, *args: t.Any) -> None:
        pass


@contextlib.contextmanager
def serve(engine: t.Any, context: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve an engine, or anything with an ``answer``; yields its endpoint."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.engine = engine
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http{'s' if context else ''}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


class Told:
    """Answers each path with what it was given: (status, text) or (status, text, type); anything else is 404."""

    def __init__(self, paths: dict[str, t.Any]) -> None:
        self.paths = paths
        self.seen: list[tuple[str, dict[str, str]]] = []

    def answer(self, path: str, headers: dict[str, str]) -> tuple[int, str, str]:
        self.seen.append((path, headers))
        status, text, *kind = self.paths.get(path, (404, "no"))
        return status, kind[0] if kind else "application/json", text


def raw_answer(
    first: bytes, then: bytes = b"", every: float = 0.0
) -> t.Callable[[socket.socket, threading.Event], None]:
    """How a server talks that only sends bytes: at first these, then those for ever (or nothing, and waits)."""

    def talk(peer: socket.socket, over: threading.Event) -> None:
        with contextlib.suppress(OSError):
            peer.recv(65536)
            peer.sendall(first)
            while not over.wait(every):
                if then:
                    peer.sendall(then)
                elif not every:
                    return

    return talk


OK = b"HTTP/1.1 200 OK\r\n"
# What each of them says, whatever it is asked.
RAW: dict[str, t.Callable[[socket.socket, threading.Event], None]] = {
    "silent": raw_answer(b"", every=0.2),
    "closes": raw_answer(b""),
    "ssh": raw_answer(b"SSH-2.0-OpenSSH_9.2p1\r\n"),
    "endless": raw_answer(OK + b"\r\n", b"x" * 65536),
    "endless_chunks": raw_answer(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + b"y" * 4096 + b"\r\n"),
    "said_to_be_huge": raw_answer(OK + b"Content-Length: 99999999999\r\n\r\n"),
    "drips_body": raw_answer(OK + b"Content-Length: 5000\r\n\r\n", b"z", 0.05),
    "drips_headers": raw_answer(OK, b"X-More: 1\r\n", 0.05),
    "drips_one_header": raw_answer(OK + b"X-Long: ", b"a", 0.05),
    "cut_short": raw_answer(OK + b"Content-Length: 5000\r\n\r\nabc"),
}


@contextlib.contextmanager
def serve_raw(talk: t.Callable[[socket.socket, threading.Event], None]) -> Iterator[str]:
    """Serve bytes that may be no HTTP at all; yields the endpoint."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def handle(peer: socket.socket) -> None:
        with peer:
            talk(peer, over)

    def accept() -> None:
        while not over.is_set():
            try:
                peer, _address = listener.accept()
            except OSError:
                return
            threading.Thread(target=handle, args=(peer,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        over.set()
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def closed_endpoint() -> str:
    """An endpoint at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def main(out: str, seconds: str, *kinds: str) -> None:
    with contextlib.ExitStack() as stack:
        made = []
        for kind in kinds:
            served = serve_raw(RAW[kind]) if kind in RAW else serve(Engine(kind, requests=5, running=1))
            made.append(stack.enter_context(served))
        part = pathlib.Path(f"{out}.part")
        part.write_text(json.dumps(made), encoding="utf-8")
        part.rename(out)
        end = time.monotonic() + float(seconds)
        while time.monotonic() < end and pathlib.Path(out).exists():
            time.sleep(0.2)


if __name__ == "__main__":
    main(*sys.argv[1:])
