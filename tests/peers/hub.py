# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""A model hub on loopback that misbehaves on request, and a proxy in front of it.

What the hub does is decided by the name of the repository: ``acme/huge`` sends an answer without end. Both remember
every request that reached them, so that a test can say where a token went.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import email.utils
import ipaddress
import json
import select
import socket
import ssl
import threading
import time
import typing as t
import urllib.parse
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if t.TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

TOKEN = "hf_right"
SHA = "b968826d9c46dd6066d109eabc6255188de91218"
DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
FILES = [
    {"rfilename": "README.md", "size": 100},
    {"rfilename": "config.json", "size": 700},
    {
        "rfilename": "model-00001-of-00002.safetensors",
        "size": 10_000_000_000,
        "lfs": {"sha256": DIGEST, "size": 10_000_000_000},
    },
    {"rfilename": "model-00002-of-00002.safetensors", "size": 6_000_000_000},
    {"rfilename": "pytorch_model.bin", "size": 16_000_000_000},
]
GGUF_FILES = [
    {"rfilename": "m-Q4_K_M.gguf", "size": 5_000_000_000},
    {"rfilename": "m-Q8_0-00001-of-00002.gguf", "size": 5_000_000_000},
    {"rfilename": "m-Q8_0-00002-of-00002.gguf", "size": 4_000_000_000},
    {"rfilename": "mmproj-Q8_0.gguf", "size": 800_000_000},
]


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Peer

    def log_message(self, *args: t.Any) -> None:
        pass

    def remember(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.seen.append(Seen(self.command, self.path, headers))

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def raw(self, data: bytes) -> None:
        self.close_connection = True
        self.wfile.write(data)

    def until_gone(self, data: bytes, pause: float = 0.01) -> None:
        """Send the same again and again until the other side has had enough, or the test is over."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            while not self.server.over.wait(pause):
                self.wfile.write(data)
                self.wfile.flush()


class HubHandler(_Handler):
    """Answers as a hub does, or does not."""

    def do_GET(self) -> None:
        self.remember()
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        for prefix in ("/api/models/acme/", "/elsewhere/acme/"):
            if path.startswith(prefix):
                name, _sep, rest = path[len(prefix) :].partition("/")
                getattr(self, "repo_" + name.lower().replace("-", "_"), self.repo_missing)(rest)
                return
        self.reply(404)

    def do_HEAD(self) -> None:
        self.remember()
        name = self.path.split("/")[2]
        if name == "gated":
            if self.headers.get("Authorization") is None:
                self.reply(401, X_Error_Code="GatedRepo")
            else:
                self.reply(403, X_Error_Code="GatedRepo")
        elif name == "granted" and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.reply(403, X_Error_Code="GatedRepo")
        elif name == "gone":
            self.reply(404, X_Error_Code="EntryNotFound")
        elif name == "no-head":
            self.reply(405)
        elif name == "cut-short":
            self.reply(302, Location="https://cdn.invalid/signed?secret", X_Linked_Size="9999999999")
        elif name == "mirrored":
            self.reply(200, b"a whole file, of another length")
        else:
            self.reply(302, Location="https://cdn.invalid/signed?secret")

    def model(self, **more: t.Any) -> None:
        model = {
            "id": "acme/" + self.path.split("/acme/")[1].split("/")[0].split("?")[0],
            "sha": SHA,
            "gated": False,
            "siblings": FILES,
        }
        self.reply(200, json.dumps({**model, **more}).encode(), Content_Type="application/json")

    def repo_whole(self, rest: str) -> None:
        if rest not in ("", "revision/v1.0", "revision/refs/pr/1"):
            self.reply(404, X_Error_Code="RevisionNotFound")
        else:
            self.model(cardData={"license": "apache-2.0"})

    repo_no_head = repo_gone = repo_cut_short = repo_mirrored = repo_whole

    def repo_quants(self, rest: str) -> None:
        self.model(siblings=GGUF_FILES)

    def repo_gated(self, rest: str) -> None:
        self.model(gated="manual")

    repo_granted = repo_gated

    def repo_old_name(self, rest: str) -> None:
        self.reply(307, Location="/api/models/acme/whole?blobs=true")

    def repo_private(self, rest: str) -> None:
        self.reply(401)

    def repo_missing(self, rest: str) -> None:
        self.reply(401 if self.headers.get("Authorization") is None else 404, X_Error_Code="RepoNotFound")

    def repo_plain_missing(self, rest: str) -> None:
        self.reply(404, b"<html>nothing here</html>")

    def repo_forbidden(self, rest: str) -> None:
        self.reply(403)

    def repo_disabled(self, rest: str) -> None:
        self.model(disabled=True)

    def repo_busy(self, rest: str) -> None:
        self.reply(429, Retry_After="37")

    def repo_busy_until(self, rest: str) -> None:
        self.reply(429, Retry_After=email.utils.formatdate(time.time() + 3600, usegmt=True))

    def repo_busy_for_ever(self, rest: str) -> None:
        self.reply(429, Retry_After="soon")

    def repo_broken(self, rest: str) -> None:
        self.reply(503)

    def repo_teapot(self, rest: str) -> None:
        self.reply(418)

    def repo_empty(self, rest: str) -> None:
        self.model(siblings=[{"rfilename": "README.md"}, None, {"rfilename": 5}])

    def repo_no_files(self, rest: str) -> None:
        self.model(siblings=None)

    def repo_strange(self, rest: str) -> None:
        self.model(id=5, sha="../../etc", gated=[], cardData=[], siblings=[{"rfilename": "m.safetensors", "size": "x"}])

    def repo_list(self, rest: str) -> None:
        self.reply(200, b"[]")

    def repo_html(self, rest: str) -> None:
        self.reply(200, b"<html>please log in</html>")

    def repo_latin(self, rest: str) -> None:
        self.reply(200, b'{"id": "\xe9"}')

    def repo_deep(self, rest: str) -> None:
        self.reply(200, b"[" * 500_000)

    def repo_echo(self, rest: str) -> None:
        token = (self.headers.get("Authorization") or "Bearer none").split()[1]
        self.model(id=token, sha=token, cardData={"license": token})

    def repo_echo_redirect(self, rest: str) -> None:
        token = (self.headers.get("Authorization") or "Bearer none").split()[1]
        self.reply(302, Location=f"ftp://{token}.invalid/{token}")

    def repo_huge(self, rest: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(10**12))
        self.end_headers()
        self.until_gone(b"x" * 65536, 0)

    def repo_endless(self, rest: str) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.until_gone(b"10000\r\n" + b"x" * 65536 + b"\r\n", 0)

    def repo_drip(self, rest: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        self.until_gone(b" ", 0.05)

    def repo_drip_head(self, rest: str) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        self.until_gone(b"x", 0.05)

    def repo_silent(self, rest: str) -> None:
        self.close_connection = True
        self.server.over.wait(60)

    def repo_many_headers(self, rest: str) -> None:
        self.raw(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n")

    def repo_long_header(self, rest: str) -> None:
        self.raw(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000 + b"\r\n\r\n")

    def repo_no_http(self, rest: str) -> None:
        self.raw(b"SSH-2.0-OpenSSH_9.2\r\n")

    def repo_cut(self, rest: str) -> None:
        self.raw(b'HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{"id":')

    def repo_cut_chunk(self, rest: str) -> None:
        self.raw(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n{"id":')

    def repo_hangs_up(self, rest: str) -> None:
        self.close_connection = True

    def repo_resets(self, rest: str) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.connection.close()
        self.close_connection = True

    def repo_circle(self, rest: str) -> None:
        self.reply(302, Location=self.path)

    def repo_nowhere(self, rest: str) -> None:
        self.reply(302)

    def repo_to_file(self, rest: str) -> None:
        self.reply(302, Location="file:///etc/passwd")

    def repo_to_bad_port(self, rest: str) -> None:
        self.reply(302, Location="http://127.0.0.1:port/")

    def repo_away(self, rest: str) -> None:
        self.reply(302, Location=f"{self.server.away}/elsewhere/acme/whole")

    def repo_to_plain_http(self, rest: str) -> None:
        self.reply(302, Location=f"{self.server.away}/elsewhere/acme/whole")


class FilesHandler(_Handler):
    """Serves repositories whose files are there (``Peer.files``), by parts where that is asked for.

    A file may be said to be longer than it is: what is asked for lies at its beginning.
    """

    def do_GET(self) -> None:
        self.remember()
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            files = self.server.files.get(parts[3])
            if files is None:
                self.reply(404, X_Error_Code="RepoNotFound")
                return
            siblings = [{"rfilename": name, "size": size} for name, (_data, size) in files.items()]
            self.reply(200, json.dumps({"id": f"acme/{parts[3]}", "sha": SHA, "siblings": siblings}).encode())
            return
        data, size = self.server.files[parts[1]]["/".join(parts[4:])]
        if parts[1] == "gated":
            self.reply(403, X_Error_Code="GatedRepo")
            return
        asked = self.headers.get("Range")
        if asked is None or parts[1] == "no-ranges":
            # All of the file, which is more than anybody wants.
            self.send_response(200)
            self.send_header("Content-Length", str(size))
            self.end_headers()
            self.wfile.write(data)
            return
        first, last = (int(end) for end in asked.partition("=")[2].split("-"))
        part = data[first : last + 1]
        part += bytes(min(last + 1, size) - first - len(part))
        self.reply(206, part, Content_Range=f"bytes {first}-{first + len(part) - 1}/{size}")


class ProxyHandler(_Handler):
    """Forwards what it is asked to, or wants a password first."""

    def authorised(self) -> bool:
        self.remember()
        wanted = self.server.wanted
        if wanted is None or self.headers.get("Proxy-Authorization") == wanted:
            return True
        self.reply(407, Proxy_Authenticate="Basic")
        return False

    def do_CONNECT(self) -> None:
        if not self.authorised():
            return
        host, _sep, port = self.path.rpartition(":")
        try:
            upstream = socket.create_connection((host, int(port)), 5)
        except OSError:
            self.reply(502)
            return
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        with upstream:
            self.pump(upstream)

    def pump(self, upstream: socket.socket) -> None:
        ends = {self.connection: upstream, upstream: self.connection}
        with contextlib.suppress(OSError):
            while not self.server.over.is_set():
                for end in select.select(list(ends), [], [], 0.1)[0]:
                    data = end.recv(65536)
                    if not data:
                        return
                    ends[end].sendall(data)

    def do_GET(self) -> None:
        if not self.authorised():
            return
        parts = urllib.parse.urlsplit(self.path)
        with socket.create_connection((parts.hostname, parts.port or 80), 5) as upstream:
            target = urllib.parse.urlunsplit(("", "", parts.path, parts.query, ""))
            lines = [f"{self.command} {target} HTTP/1.1", f"Host: {parts.netloc}", "Connection: close"]
            if self.headers.get("Authorization"):
                lines.append(f"Authorization: {self.headers['Authorization']}")
            upstream.sendall("\r\n".join([*lines, "", ""]).encode())
            self.close_connection = True
            while data := upstream.recv(65536):
                self.wfile.write(data)

    def do_HEAD(self) -> None:
        self.do_GET()


class Peer(ThreadingHTTPServer):
    """A server that remembers what it was asked, and ends its handlers when the test is over."""

    daemon_threads = True
    request_queue_size = 32

    def __init__(self, handler: type[_Handler], *, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.seen: list[Seen] = []
        self.over = threading.Event()
        self.away = ""
        # Of each repository the beginning and the size of each file.
        self.files: dict[str, dict[str, tuple[bytes, int]]] = {}
        self.wanted: str | None = None
        self.scheme = "http" if context is None else "https"
        self._context = context

    @property
    def url(self) -> str:
        """Return the address of this server."""
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"

    def finish_request(self, request: t.Any, client_address: t.Any) -> None:
        """Shake hands in the thread of the connection, so that a client that does not come along holds nobody up."""
        if self._context is not None:
            request = self._context.wrap_socket(request, server_side=True)
        super().finish_request(request, client_address)

    def handle_error(self, request: t.Any, client_address: t.Any) -> None:
        """Say nothing: clients that hang up are what the tests are about."""


@contextlib.contextmanager
def serving(handler: type[_Handler], **options: t.Any) -> Iterator[Peer]:
    """Run a server for the time of a test."""
    with Peer(handler, **options) as peer:
        thread = threading.Thread(target=peer.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield peer
        finally:
            peer.over.set()
            peer.shutdown()


@contextlib.contextmanager
def deaf() -> Iterator[str]:
    """Give the address of a port whose connections are accepted by the kernel and answered by nobody."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@contextlib.contextmanager
def full() -> Iterator[str]:
    """Give the address of a port that accepts no further connection: those that wait for it time out."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, contextlib.ExitStack() as stack:
        address = server.getsockname()
        for _unused in range(8):
            waiting = stack.enter_context(socket.socket())
            waiting.settimeout(0)
            waiting.connect_ex(address)
        yield f"http://127.0.0.1:{address[1]}"


def closed_port() -> int:
    """Return a port that nothing listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def certificate(folder: pathlib.Path, *, name: str = "127.0.0.1", days: int = 30) -> tuple[ssl.SSLContext, str]:
    """Make a certificate of its own authority; return the server's context and the file that a client has to trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "peer")])
    now = dt.datetime.now(dt.UTC)
    alternative = x509.IPAddress(ipaddress.ip_address(name)) if name[0].isdigit() else x509.DNSName(name)
    start = now - dt.timedelta(days=60)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_path = folder / "peer.pem"
    cert_path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_path = folder / "peer.key"
    key_path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert_path, key_path)
    return context, str(cert_path)
