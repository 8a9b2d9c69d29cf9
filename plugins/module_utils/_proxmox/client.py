# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The API of Proxmox VE through proxmoxer, with every way that a call can fail told apart.

Reading calls are repeated within a bound. A call that changes something is sent once, unless the answer says that
nothing was done; when the answer is lost, the caller gets an error of its own and has to look at the state before it
goes on. No error repeats what was sent, and no secret is part of one.
"""

from __future__ import annotations

import re
import time
import traceback
import typing as t
import urllib.parse
from dataclasses import dataclass, field

_IMPORT_ERROR: t.Optional[str] = None
try:
    # proxmoxer ends the process when it cannot import requests, so requests has to be there first.
    import requests
    from proxmoxer import AuthenticationError, ProxmoxAPI, ResourceException  # type: ignore[import-untyped]
except ImportError:
    _IMPORT_ERROR = traceback.format_exc()

_T = t.TypeVar("_T")

# Answers of PVE's own proxy, or of one in front of it: nobody knows whether the call got through.
_GATEWAY_STATUS = frozenset((502, 503, 504, 595, 596, 597, 598, 599))

_READ_TRIES = 4
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 5.0
_FIRST_POLL = 0.2
_SHOWN = 2000
_LOG_LINES = 5
_LOCKED = re.compile(
    r"can't lock file .* got timeout|VM is locked|is locked \(|unable to acquire .*lock", re.IGNORECASE
)
_MISSING = re.compile(r"does not exist|no such (?:VM|task|resource)|not found", re.IGNORECASE)
_CHANGED = re.compile(r"checksum mismatch|detected modified configuration", re.IGNORECASE)


class PveError(Exception):
    """A call that failed: HTTP status (None where there was none), path, what PVE said, and about which parameter."""

    def __init__(
        self,
        message: str,
        *,
        status: t.Optional[int] = None,
        method: str = "",
        path: str = "",
        errors: t.Optional[t.Mapping[str, str]] = None,
    ) -> None:
        self.message = message
        self.status = status
        self.method = method
        self.path = path
        self.errors = dict(errors or {})
        place = f"{method} {path}: " if path else ""
        code = f" (HTTP {status})" if status is not None else ""
        details = "".join(f" {name}: {text}." for name, text in sorted(self.errors.items()))
        super().__init__(f"{place}{message}{code}{details}")

    @property
    def is_lock(self) -> bool:
        """Return whether somebody else holds the lock of the VM, so that nothing was done and trying again can help."""
        return bool(_LOCKED.search(self.message))

    @property
    def is_missing(self) -> bool:
        """Return whether PVE says that there is no such thing. For a VM it does so with status 500."""
        answered = not isinstance(self, PveLostError) and self.status in (404, 500)
        return answered and bool(_MISSING.search(self.message))

    @property
    def is_changed(self) -> bool:
        """Return whether somebody else changed the same thing since it was read, so that nothing was done."""
        return bool(_CHANGED.search(self.message))


class PveLostError(PveError):
    """A call without an answer that tells whether it was done."""


class PveTaskError(PveError):
    """A task of PVE that failed."""


class PveTaskTimeoutError(PveError):
    """A task of PVE that is still running after the time that it was given."""


@dataclass(frozen=True)
class Settings:
    """Where the API is and how to log in: either with a token or with a password."""

    host: str
    user: str
    port: t.Optional[int] = None
    password: t.Optional[str] = field(default=None, repr=False)
    token_id: t.Optional[str] = None
    token_secret: t.Optional[str] = field(default=None, repr=False)
    validate_certs: bool = True
    ca_path: t.Optional[str] = None
    timeout: float = 30.0

    @property
    def identity(self) -> str:
        """Return the user as tasks of PVE name it."""
        return f"{self.user}!{self.token_id}" if self.token_id else self.user


def join(*parts: t.Union[str, int]) -> str:
    """Return a path of the API from parts that may hold anything."""
    shown = []
    for part in parts:
        text = str(part)
        if not text or text in (".", ".."):
            raise PveError(f"{text!r} cannot be a part of a path of the API")
        shown.append(urllib.parse.quote(text, safe=":@!"))
    return "/" + "/".join(shown)


class Pve:
    """One API host.

    :param read_only: whether to refuse every call that changes something, for check mode
    :param lock_limit: for how many seconds to try again while somebody else holds a lock
    :param sleep: for tests
    """

    def __init__(
        self,
        settings: Settings,
        *,
        read_only: bool = False,
        lock_limit: float = 60.0,
        sleep: t.Callable[[float], None] = time.sleep,
        clock: t.Callable[[], float] = time.monotonic,
    ) -> None:
        if _IMPORT_ERROR is not None:
            raise PveError("The Python libraries proxmoxer and requests are needed where this runs.")
        self.settings = settings
        self.read_only = read_only
        self.lock_limit = lock_limit
        self.sleep = sleep
        self.clock = clock
        self._secrets = {secret for secret in (settings.password, settings.token_secret) if secret}
        self._api: t.Any = None

    def hide(self, *secrets: t.Optional[str]) -> None:
        """Keep values out of all errors."""
        self._secrets.update(secret for secret in secrets if secret)

    def get(self, path: str, **params: t.Any) -> t.Any:
        """Return what PVE answers, and try again while the connection or a proxy fails, or a lock is held."""
        return self._repeat(lambda: self._send("GET", path, params))

    def rows(self, path: str, **params: t.Any) -> t.List[t.Dict[str, t.Any]]:
        """Return the rows of a list; what is not a row is left out."""
        answer = self.get(path, **params)
        return [row for row in answer if isinstance(row, dict)] if isinstance(answer, list) else []

    def _repeat(self, read: t.Callable[[], _T]) -> _T:
        pause = _FIRST_PAUSE
        for _try in range(_READ_TRIES - 1):
            try:
                return read()
            except PveError as exc:
                if not (isinstance(exc, PveLostError) or exc.is_lock):
                    raise
            self.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        return read()

    def post(self, path: str, **data: t.Any) -> t.Any:
        """Change something; PveLostError where it is not known whether it was done."""
        return self._change("POST", path, data)

    def put(self, path: str, **data: t.Any) -> t.Any:
        """Change something; PveLostError where it is not known whether it was done."""
        return self._change("PUT", path, data)

    def delete(self, path: str, **params: t.Any) -> t.Any:
        """Remove something; PveLostError where it is not known whether it was done."""
        return self._change("DELETE", path, params)

    def wait(self, upid: str, limit: float) -> t.List[str]:
        """Wait until a task has ended, and return its warnings.

        :raises PveTaskError: where it failed
        :raises PveTaskTimeoutError: where it runs for longer than ``limit`` seconds
        """
        parts = upid.split(":")
        if len(parts) < 8 or parts[0] != "UPID":
            raise PveError("PVE started a task but its answer holds no id of it")
        where = join("nodes", parts[1], "tasks", upid)
        what = f"task {parts[5]}{f' of {parts[6]}' if parts[6] else ''} on {parts[1]}"
        end = self.clock() + limit
        pause = _FIRST_POLL
        while True:
            state = self.get(where + "/status")
            if not isinstance(state, dict):
                raise PveError(f"PVE's answer about {what} is not the state of a task", path=where)
            if state.get("status") == "stopped":
                break
            if self.clock() >= end:
                raise PveTaskTimeoutError(
                    f"The {what} is still running after {limit:g} seconds. It goes on; run again when it has ended, or"
                    f" stop it in PVE. Its id is {upid}",
                    path=where,
                )
            self.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE, max(_FIRST_POLL, end - self.clock()))
        result = self._clean(str(state.get("exitstatus", "no result")))
        if result == "OK":
            return []
        log = self._task_log(where)
        if result.startswith("WARNINGS"):
            return [line for line in log if "WARN" in line] or [result]
        reason = "; ".join([*(line for line in log if result not in line), result])
        raise PveTaskError(f"The {what} failed: {reason}", path=where)

    def _task_log(self, where: str) -> t.List[str]:
        """Return the last lines of a task's log; the task's result is what counts, so a log that cannot be read is no error."""
        try:
            texts = [str(line.get("t", "")) for line in self.rows(where + "/log", limit=500)]
        except PveError:
            return []
        return [self._clean(text) for text in texts if text.strip() and text != "no content"][-_LOG_LINES:]

    def _change(self, method: str, path: str, data: t.Dict[str, t.Any]) -> t.Any:
        if self.read_only:
            raise PveError("Nothing may be changed in check mode", method=method, path=path)
        end = self.clock() + self.lock_limit
        pause = _FIRST_PAUSE
        while True:
            try:
                return self._send(method, path, data)
            except PveLostError:
                raise
            except PveError as exc:
                if not exc.is_lock or self.clock() + pause > end:
                    raise
            self.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _send(self, method: str, path: str, values: t.Dict[str, t.Any]) -> t.Any:
        """Send one request; a ticket that PVE does not take any more is renewed once, because PVE did nothing then."""
        fresh = self._api is None
        try:
            return self._request(method, path, values)
        except PveError as exc:
            if exc.status != 401 or fresh or self.settings.token_id:
                raise
        self._api = None
        return self._request(method, path, values)

    def _request(self, method: str, path: str, values: t.Dict[str, t.Any]) -> t.Any:
        if self._api is None:
            self._api = self._login()
        return self._send_through(self._api, method, path, values)

    def _send_through(self, session: t.Any, method: str, path: str, values: t.Dict[str, t.Any]) -> t.Any:
        # proxmoxer takes keys that are set to None out of what it is given, so it gets its own.
        values = {key: _plain(value) for key, value in values.items()}
        resource = session(path.lstrip("/"))
        send = {"GET": resource.get, "POST": resource.post, "PUT": resource.put, "DELETE": resource.delete}[method]
        try:
            answer = send(**values)
        except ResourceException as exc:
            raise self._refused(exc, method, path) from None
        except AuthenticationError as exc:
            raise self._refused_login(exc) from None
        except requests.RequestException as exc:
            raise self._lost(exc, method, path) from None
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._garbage(method, path) from None
        # What proxmoxer makes of an answer that is no JSON.
        if isinstance(answer, dict) and isinstance(answer.get("errors"), bytes):
            raise self._garbage(method, path)
        return answer

    def _login(self) -> t.Any:
        """Return a session; a token needs no login, so nothing is sent for it."""
        known = self.settings
        common = {
            "port": known.port,
            "timeout": known.timeout,
            "verify_ssl": (known.ca_path or True) if known.validate_certs else False,
        }
        if known.token_id:
            return ProxmoxAPI(
                known.host, user=known.user, token_name=known.token_id, token_value=known.token_secret, **common
            )
        return self._repeat(lambda: self._login_with_password(common))

    def _login_with_password(self, common: t.Dict[str, t.Any]) -> t.Any:
        known, path = self.settings, "/access/ticket"
        try:
            api = ProxmoxAPI(known.host, user=known.user, password=known.password, **common)
            self.hide(*api.get_tokens())
        except AuthenticationError as exc:
            raise self._refused_login(exc) from None
        except requests.RequestException as exc:
            raise self._lost(exc, "POST", path) from None
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._garbage("POST", path) from None
        return api

    def _refused(self, exc: t.Any, method: str, path: str) -> PveError:
        status = int(exc.status_code)
        message = self._clean(str(exc.content or exc.status_message or "no reason given"))
        if status == 401:
            message += ". PVE does not know the user, token or secret"
        if status == 403:
            message += ". The user or token lacks this privilege"
        if _LOCKED.search(message):
            message += ". Something else works on it: run again when that has ended"
        errors = exc.errors if isinstance(exc.errors, dict) else {}
        kind = PveLostError if status in _GATEWAY_STATUS else PveError
        if status == 595:
            message += ". The node that the call is for cannot be reached from the API host"
        return kind(
            message,
            status=status,
            method=method,
            path=path,
            errors={
                self._clean(str(name)): self._clean(str(text))
                for name, text in errors.items()
                if not isinstance(text, bytes)
            },
        )

    def _refused_login(self, exc: Exception) -> PveError:
        code = re.search(r"code: (\d+)", str(exc))
        status = int(code.group(1)) if code else None
        if status is None or status in (401, 403):
            reason = "PVE refused the login; check api_user, its realm and api_password"
            return PveError(reason, status=status, method="POST", path="/access/ticket")
        # Logging in changes nothing, so any other trouble is worth another try.
        return PveLostError("The login failed", status=status, method="POST", path="/access/ticket")

    def _lost(self, exc: Exception, method: str, path: str) -> PveError:
        where = f"{self.settings.host}:{self.settings.port or 8006}"
        if isinstance(exc, requests.exceptions.SSLError):
            text = self._clean(_innermost(exc))
            return PveError(
                f"No safe connection to {where}: {text}. Give the authority's certificate with ca_path",
                method=method,
                path=path,
            )
        if isinstance(exc, requests.exceptions.Timeout):
            return PveLostError(
                f"No answer from {where} within {self.settings.timeout:g} seconds", method=method, path=path
            )
        if isinstance(exc, (requests.exceptions.InvalidURL, requests.exceptions.MissingSchema)):
            return PveError(
                f"{self.settings.host!r} is not a valid name or address of a host", method=method, path=path
            )
        return PveLostError(
            f"The connection to {where} failed: {self._clean(_innermost(exc))}", method=method, path=path
        )

    def _garbage(self, method: str, path: str) -> PveError:
        return PveLostError(
            "The answer is not what the API of PVE answers. Is there a proxy in between, or is this another server?",
            method=method,
            path=path,
        )

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "********").replace(urllib.parse.quote(secret, safe=""), "********")
        return " ".join(text.split())[:_SHOWN].rstrip(" .")


def import_error() -> t.Optional[str]:
    """Return why proxmoxer and requests cannot be used, or None."""
    return _IMPORT_ERROR


def _plain(value: t.Any) -> t.Any:
    """Return a value as a form holds it: PVE knows booleans as 1 and 0 only."""
    return int(value) if isinstance(value, bool) else value


def _innermost(exc: BaseException) -> str:
    """Return the reason below the layers of requests and urllib3, whose own texts repeat addresses with parameters."""
    seen: t.Set[int] = set()
    current: BaseException = exc
    while id(current) not in seen:
        seen.add(id(current))
        inner = getattr(current, "reason", None)
        if not isinstance(inner, BaseException):
            inner = next((arg for arg in current.args if isinstance(arg, BaseException)), None)
        if inner is None:
            inner = current.__cause__ or current.__context__
        if inner is None:
            break
        current = inner
    if isinstance(current, OSError) and current.strerror:
        return str(current.strerror)
    return re.sub(r"\S*://\S+|/api2/\S+", "...", str(current)) or type(current).__name__
