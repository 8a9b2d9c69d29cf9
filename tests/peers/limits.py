# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""An end for what would never end, which a busy machine does not bring nearer."""

from __future__ import annotations

import contextlib
import signal
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


class HangError(BaseException):
    """What was called took all of its time; no ``except Exception`` may take it for an answer."""


@contextlib.contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """End what is called in it when it has taken so many seconds of the processor; waiting does not count.

    Regular expressions are ended as well. It works in the main thread, and not within itself.
    """

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise HangError(f"it took more than {seconds:g} s of the processor")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
