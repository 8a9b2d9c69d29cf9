# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Headless Chromium, driven by its DevTools protocol over a pair of pipes: nothing but the browser is needed."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
import typing as t

if t.TYPE_CHECKING:
    from pathlib import Path

LIMIT = 60.0
_SWITCHES = (
    "--headless=new",
    "--no-sandbox",  # as root in a container there is none to be had
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-extensions",
    "--disable-component-update",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--font-render-hinting=none",
    "--remote-debugging-pipe",
)


def find_chromium() -> str | None:
    """The browser, if there is one."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class ChromiumError(Exception):
    """The browser did not do what it was told."""


class Chromium:
    """A browser with one page. ``problems`` gets every error of the console, exception and refused resource."""

    def __init__(self) -> None:
        program = find_chromium()
        if program is None:
            raise ChromiumError("there is no chromium")
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._events: list[dict] = []
        self._number = 0
        self._buffer = b""
        self._home = tempfile.mkdtemp(prefix="chromium-")
        low_from_us, self._out = os.pipe()
        self._in, low_to_us = os.pipe()
        # The browser reads commands on 3 and writes answers on 4, which our ends must not be.
        from_us, to_us = (fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 10) for each in (low_from_us, low_to_us))
        command = f'exec "$0" "$@" 3<&{from_us} 4>&{to_us} {from_us}<&- {to_us}>&-'
        self._process = subprocess.Popen(
            ["bash", "-c", command, program, *_SWITCHES, f"--user-data-dir={self._home}", "about:blank"],
            pass_fds=(from_us, to_us),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for each in (low_from_us, low_to_us, from_us, to_us):
            os.close(each)
        self._session: str | None = None
        target = next(each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> t.Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the browser and everything that it started."""
        for each in (self._out, self._in):
            os.close(each)
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        shutil.rmtree(self._home, ignore_errors=True)

    def call(self, method: str, **values: object) -> dict:
        """Send a command and wait for its answer."""
        self._number += 1
        message: dict = {"id": self._number, "method": method, "params": values}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        until = time.monotonic() + LIMIT
        while True:
            answer = self._read(until)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise ChromiumError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _read(self, until: float) -> dict:
        while b"\0" not in self._buffer:
            if not select.select([self._in], [], [], max(0.0, until - time.monotonic()))[0]:
                raise ChromiumError("the browser does not answer")
            chunk = os.read(self._in, 1 << 20)
            if not chunk:
                raise ChromiumError("the browser has ended")
            self._buffer += chunk
        text, _nul, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        self._note(message)
        return message

    def _note(self, message: dict) -> None:
        method, values = message.get("method"), message.get("params") or {}
        if method == "Runtime.exceptionThrown":
            details = values["exceptionDetails"]
            self.problems.append((details.get("exception") or {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning", "assert"):
            self.problems.append(" ".join(str(each.get("value")) for each in values["args"]))
        elif method == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            self.problems.append(values["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.problems.append(f"dialog: {values['message']}")
            self._events.append({"method": "dialog"})
        if method:
            self._events.append(message)

    def wait(self, method: str) -> None:
        """Wait for an event that has not been waited for yet."""
        until = time.monotonic() + LIMIT
        while True:
            while self._events:
                if self._events.pop(0).get("method") == method:
                    return
            self._read(until)

    def open(self, where: Path | str) -> None:
        """Load a page and wait until it has loaded."""
        url = where if isinstance(where, str) else where.resolve().as_uri()
        self._events.clear()
        self.call("Page.navigate", url="about:blank")
        self.wait("Page.loadEventFired")
        self.problems.clear()
        self.requests.clear()
        self.call("Page.navigate", url=url)
        self.wait("Page.loadEventFired")

    def run(self, expression: str) -> object:
        """The value of an expression in the page; promises are waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise ChromiumError((details.get("exception") or {}).get("description") or details["text"])
        return answer["result"].get("value")

    def size(self, width: int, height: int = 800, *, scale: float = 1.0) -> None:
        """Set the size of the window in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 500,
        )

    def media(self, *, media: str = "", **features: str) -> None:
        """Set the medium (print) and features, as in ``prefers_color_scheme="dark"``."""
        self.call(
            "Emulation.setEmulatedMedia",
            media=media,
            features=[{"name": name.replace("_", "-"), "value": value} for name, value in features.items()],
        )

    def press(self, key: str, *, text: str | None = None, shift: bool = False) -> None:
        """Press and let go a key."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32}
        values: dict = {"key": key, "code": key, "windowsVirtualKeyCode": codes.get(key, ord(key[0]))}
        values |= {"modifiers": 8 if shift else 0}
        text = {"Enter": "\r", " ": " "}.get(key, text)
        down = values | ({"text": text} if text else {})
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **down)
        self.call("Input.dispatchKeyEvent", type="keyUp", **values)

    def type(self, text: str) -> None:
        """Type a text where the focus is."""
        self.call("Input.insertText", text=text)

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Save what the window shows, or the whole page, as PNG."""
        values: dict = {"format": "png"}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            values |= {"captureBeyondViewport": True, "clip": {**size, "scale": 1}}
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", **values)["data"]))

    def pdf(self) -> bytes:
        """The page as it is printed."""
        answer = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=False)
        return base64.b64decode(answer["data"])
