# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The one exception of all parsers, and why a command gave nothing."""

from __future__ import annotations

import re
import typing as t

_MEANINGS = {
    # what became of a command or file before there was a text
    "not_asked": "not queried",
    "absent": "not found",
    "timeout": "did not answer in time",
    # nvidia-smi
    "driver_not_loaded": "the driver is not loaded",
    "nvml_not_found": "the driver's management library was not found",
    "driver_library_mismatch": "driver and libraries are of different versions (a reboot is due)",
    "nvml_init_failed": "the driver's management library could not be initialised",
    "no_devices": "no device was found",
    "gpu_lost": "GPU is lost (fell off the bus)",
    "invalid_field": "a queried field is not known to this version",
    "unparsable_rows": "no row of the output could be understood",
    # any command
    "command_not_found": "the command is not installed",
    "command_failed": "the command failed",
    # other texts
    "no_memtotal": "there is no total amount of memory",
    "no_processors": "there is no processor in the text",
    "no_cpus": "there is no number of CPUs in the text",
    "not_json": "the output is not JSON",
    "no_mounts": "there is no mount in the text",
    "no_guests_listed": "there is no list of VMs and containers in the text",
}


class ParseError(Exception):
    """A text does not give what its parser looks for.

    :ivar source: the command or file
    :ivar code: one of a fixed set of words that a caller may branch on
    :ivar detail: the telling line of the text
    """

    def __init__(self, source: str, code: str, *, detail: str = "") -> None:
        self.source = source
        self.code = code
        self.detail = detail
        super().__init__(source, code, detail)

    @property
    def reason(self) -> str:
        """Return what is wrong, with the line that says so, without the source."""
        meaning = _MEANINGS.get(self.code, self.code)
        return f"{meaning}: {self.detail}" if self.detail else meaning

    def __str__(self) -> str:
        """Return source and reason."""
        return f"{self.source}: {self.reason}"


def command_error(
    source: str,
    stdout: str,
    stderr: str,
    rc: t.Optional[int],
    *,
    code: str,
    sentences: t.Iterable[t.Tuple[str, t.Pattern[str]]] = (),
    empty: str = "command_failed",
) -> ParseError:
    """Return the error for a command in whose output nothing was found.

    :param code: for output that is none of the rest
    :param sentences: codes and what the command prints for each, most telling first
    :param empty: for no output and no exit code
    """
    name = re.escape(source)
    missing = rf"{name}\S*: (?:(?:command )?not found|no such file)|not found: ?\S*{name}"
    lines = [line.strip()[:200] for line in re.split(r"[\r\n]", f"{stderr}\n{stdout}") if line.strip()]
    for known, pattern in (("command_not_found", re.compile(missing, re.IGNORECASE)), *sentences):
        for line in lines:
            if pattern.search(line):
                return ParseError(source, known, detail=line)
    if rc == 127:
        code = "command_not_found"
    elif rc:
        code = "command_failed"
    elif not stdout.strip():
        code = empty
    return ParseError(source, code, detail=lines[0] if lines else f"exit code {rc}")
