# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Bounded requests over HTTP, to model hubs and to engines, with a code for every way in which one can fail.

Whatever the other side does, a request ends within its limits, reads no more than it may, and sends the token to the
host that was configured and to no other. No error repeats what was sent or received.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import re
import socket
import ssl
import threading
import time
import typing as t
import urllib.parse
import urllib.request
from dataclasses import dataclass, field

DEFAULT_ENDPOINT = "https://huggingface.co"

_USER_AGENT = "knaster.inventory (model source check)"
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_PORTS = {"http": 80, "https": 443}

_T = t.TypeVar("_T")


@dataclass(frozen=True)
class Limits:
    """How long the other side may take, in seconds, and how much it may say."""

    connect: float = 5.0
    total: float = 20.0
    max_bytes: int = 4 * 1024 * 1024
    max_redirects: int = 5


@dataclass(frozen=True)
class Hub:
    """The server that is asked, a model hub or an engine, and how to get there.

    :ivar token: sent to the host of ``endpoint`` and to no other
    :ivar proxies: by scheme; None takes those of the environment
    """

    endpoint: str = DEFAULT_ENDPOINT
    token: t.Optional[str] = field(default=None, repr=False)
    ca_path: t.Optional[str] = None
    verify: bool = True
    proxies: t.Optional[t.Mapping[str, str]] = field(default=None, repr=False)
    user_agent: str = _USER_AGENT
    accept: str = "application/json"


@dataclass(frozen=True)
class Answer:
    """What came back: the headers with names in lower case, the body only of a success that was asked for one."""

    status: int
    headers: t.Mapping[str, str]
    body: bytes = b""


class SourceError(Exception):
    """A request without an answer that can be used, or an answer that says no.

    :ivar code: one of a fixed set of words
    :ivar detail: more about it, without anything that was sent or received
    :ivar retry_after: the seconds after which the server wants to be asked again
    """

    def __init__(self, code: str, detail: str = "", *, retry_after: t.Optional[int] = None) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}" if self.detail else self.code


def checked_endpoint(endpoint: str) -> str:
    """Return the endpoint without a slash at its end.

    :raises SourceError: ``endpoint_malformed`` for what is not an address to send a token to
    """
    try:
        parts = urllib.parse.urlsplit(endpoint)
        port = parts.port
    except ValueError:
        raise SourceError("endpoint_malformed") from None
    plain = endpoint.isascii() and endpoint.isprintable() and " " not in endpoint
    extra = parts.query or parts.fragment or "@" in parts.netloc
    if parts.scheme not in _PORTS or not parts.hostname or extra or not plain or port == 0:
        raise SourceError("endpoint_malformed")
    return endpoint.rstrip("/")


def shown_address(url: str) -> str:
    """Return of an address what may be printed: not what could be a user, a password or a signature."""
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        return "of an address that cannot be read"
    host = parts.netloc.rsplit("@", 1)[-1]
    return f"{parts.scheme}://{host}"[:200]


def ask_hub(hub: Hub, limits: Limits, work: t.Callable[[Client], _T]) -> _T:
    """Do the work with a client for this server, in a thread, and wait for it no longer than the limit.

    A connection can be cut at the end of the time; a name server that does not answer can only be left behind.
    """
    client = Client(hub, limits)
    results: t.List[_T] = []
    errors: t.List[Exception] = []

    def run() -> None:
        try:
            results.append(work(client))
        except Exception as exc:  # noqa: BLE001
            # Raised again in the thread that waits, where somebody can see it.
            errors.append(exc)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limits.total)
    if thread.is_alive():
        client.cut()
        raise SourceError("timeout" if client.connected else "connect_timeout")
    if errors:
        raise errors[0]
    return results[0]


class Client:
    """A sender of requests to one server, until the time is over."""

    def __init__(self, hub: Hub, limits: Limits) -> None:
        self._hub = hub
        self._limits = limits
        self._end = time.monotonic() + limits.total
        self._lock = threading.Lock()
        self._open: t.Optional[http.client.HTTPConnection] = None
        self.connected = False

    def request(self, method: str, url: str, *, follow: bool = True) -> Answer:
        """Return the answer, that of the last address where the hub sends the request on."""
        origin = _origin(url)
        for _hop in range(self._limits.max_redirects + 1):
            token = self._hub.token if _origin(url) == origin else None
            answer = self._once(method, url, token)
            if answer.status not in _REDIRECTS or not follow:
                return answer
            url = _redirected(url, answer.headers.get("location", ""))
        raise SourceError("redirect_loop")

    def cut(self) -> None:
        """Cut what is open, so that the thread that waits for it ends as well."""
        with self._lock:
            sock = getattr(self._open, "sock", None)
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _left(self, most: float) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise SourceError("timeout")
        return min(left, most)

    def _once(self, method: str, url: str, token: t.Optional[str]) -> Answer:
        scheme, host, port = _origin(url)
        parts = urllib.parse.urlsplit(url)
        target = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        headers = {"User-Agent": self._hub.user_agent, "Accept": self._hub.accept, "Accept-Encoding": "identity"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        proxy = _proxy_for(scheme, host, self._hub)
        to_host, to_port = (host, port) if proxy is None else (proxy.host, proxy.port)
        timeout = self._left(self._limits.connect)
        connection: http.client.HTTPConnection
        if scheme == "https":
            connection = http.client.HTTPSConnection(to_host, to_port, timeout=timeout, context=_tls(self._hub))
            if proxy is not None:
                connection.set_tunnel(host, port, headers=dict(proxy.headers))
        else:
            connection = http.client.HTTPConnection(to_host, to_port, timeout=timeout)
            if proxy is not None:
                target = url
                headers.update(proxy.headers)
        with self._lock:
            self._open = connection
        try:
            self._connect(connection, proxied=proxy is not None)
            return self._exchange(connection, method, target, headers)
        finally:
            with self._lock:
                self._open = None
            connection.close()

    def _connect(self, connection: http.client.HTTPConnection, *, proxied: bool) -> None:
        self.connected = False
        try:
            connection.connect()
        except ssl.SSLError as exc:
            raise SourceError("tls_failure", _tls_reason(exc)) from None
        except socket.timeout:
            raise SourceError("connect_timeout") from None
        except socket.gaierror:
            if proxied:
                raise SourceError("proxy_failure", "its name cannot be resolved") from None
            raise SourceError("dns_failure") from None
        except (OSError, http.client.HTTPException) as exc:
            if proxied:
                raise SourceError("proxy_failure", _proxy_reason(exc)) from None
            if isinstance(exc, ConnectionRefusedError):
                raise SourceError("connection_refused") from None
            if isinstance(exc, ConnectionError):
                raise SourceError("connection_lost") from None
            raise SourceError("unreachable", _system_reason(exc)) from None
        except ValueError:
            # A label of the name that is empty or too long is refused before anybody is asked.
            raise SourceError("dns_failure") from None
        self.connected = True

    def _exchange(
        self, connection: http.client.HTTPConnection, method: str, target: str, headers: t.Mapping[str, str]
    ) -> Answer:
        try:
            if connection.sock is not None:
                connection.sock.settimeout(self._left(self._limits.total))
            connection.request(method, target, headers=dict(headers))
            response = connection.getresponse()
            body = self._read(response) if method != "HEAD" and response.status == 200 else b""
        except socket.timeout:
            raise SourceError("timeout") from None
        except ssl.SSLError as exc:
            raise SourceError("tls_failure", _tls_reason(exc)) from None
        except (http.client.IncompleteRead, http.client.RemoteDisconnected, ConnectionError):
            raise SourceError("connection_lost") from None
        except (http.client.HTTPException, ValueError):
            raise SourceError("bad_answer", "not valid HTTP") from None
        except OSError as exc:
            raise SourceError("unreachable", _system_reason(exc)) from None
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, body)

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        most = self._limits.max_bytes
        if response.length is not None and response.length > most:
            raise SourceError("answer_too_large")
        parts: t.List[bytes] = []
        size = 0
        while True:
            self._left(self._limits.total)
            part = response.read1(65536)
            if not part:
                break
            parts.append(part)
            size += len(part)
            if size > most:
                raise SourceError("answer_too_large")
        if response.length:
            raise SourceError("connection_lost")
        return b"".join(parts)


@dataclass(frozen=True)
class _Proxy:
    host: str
    port: int
    headers: t.Mapping[str, str]


def _origin(url: str) -> t.Tuple[str, str, int]:
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError:
        raise SourceError("redirect_refused", shown_address(url)) from None
    return parts.scheme, parts.hostname or "", port or _PORTS[parts.scheme]


def _redirected(url: str, location: str) -> str:
    if not location:
        raise SourceError("redirect_refused", "nowhere")
    try:
        target = urllib.parse.urljoin(url, location)
        parts = urllib.parse.urlsplit(target)
        downgrade = url.startswith("https:") and parts.scheme != "https"
    except ValueError:
        raise SourceError("redirect_refused", "an address that cannot be read") from None
    if parts.scheme not in _PORTS or not parts.hostname or downgrade:
        raise SourceError("redirect_refused", shown_address(target))
    # A fragment is never sent; a blank or a letter beyond ASCII would be refused as no valid request.
    return urllib.parse.urlunsplit(
        (*parts[:2], urllib.parse.quote(parts.path, safe="/%:=,;+~@!$&'()*"), parts.query, "")
    )


def _proxy_for(scheme: str, host: str, hub: Hub) -> t.Optional[_Proxy]:
    if hub.proxies is not None:
        url = hub.proxies.get(scheme)
    else:
        url = None if urllib.request.proxy_bypass(host) else urllib.request.getproxies().get(scheme)
    if not url:
        return None
    try:
        parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port or _PORTS["http"]
    except ValueError:
        raise SourceError("proxy_failure", "its address cannot be read") from None
    if parts.scheme != "http" or not parts.hostname:
        raise SourceError("proxy_failure", "only proxies that are spoken to in plain HTTP can be used")
    headers = {}
    if parts.username is not None:
        user = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        headers["Proxy-Authorization"] = "Basic " + base64.b64encode(user.encode("utf-8")).decode("ascii")
    return _Proxy(parts.hostname, port, headers)


def _tls(hub: Hub) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=hub.ca_path)
    except OSError:
        raise SourceError("tls_failure", "the file with the certificates of authorities cannot be read") from None
    if not hub.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _tls_reason(exc: ssl.SSLError) -> str:
    return str(getattr(exc, "verify_message", "") or exc.reason or "the handshake failed")[:200]


def _proxy_reason(exc: Exception) -> str:
    status = re.search(r"Tunnel connection failed: (\d{3})", str(exc))
    return f"HTTP status {status.group(1)}" if status is not None else _system_reason(exc)


def _system_reason(exc: Exception) -> str:
    number = getattr(exc, "errno", None)
    return os.strerror(number).lower() if isinstance(number, int) else "the connection broke"
