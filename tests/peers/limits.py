# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""An end for what would never end, so that a test that hangs fails. How fast something is, no limit may say."""

from __future__ import annotations

import contextlib
import signal
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


class HangError(BaseException):
    """What was called did not end; no ``except Exception`` may take it for an answer."""


@contextlib.contextmanager
def cpu_limit(seconds: float = 60) -> Iterator[None]:
    """End what has taken so many seconds of the processor; waiting does not count. Regular expressions end as well."""
    with _alarm(signal.SIGVTALRM, signal.ITIMER_VIRTUAL, seconds):
        yield


@contextlib.contextmanager
def hang_limit(seconds: float = 300) -> Iterator[None]:
    """End what waits for so long that it waits for ever."""
    with _alarm(signal.SIGALRM, signal.ITIMER_REAL, seconds):
        yield


@contextlib.contextmanager
def _alarm(number: signal.Signals, timer: int, seconds: float) -> Iterator[None]:
    """Raise in the main thread when a timer is over. Two of the same kind cannot be in each other."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise HangError(f"it did not end within {seconds:g} s")

    before = signal.signal(number, stop)
    signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(number, before)
