# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What the gather script printed, as outputs by name.

An answer is a sequence of frames: a line that starts with ``@`` and the token of this run opens or closes one, every line
of a command's output starts with ``o `` and of its error output with ``e ``. So no text that a command prints can be taken
for a frame.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError

# The token tells one run's frames from whatever a login shell prints around them.
_BEGIN = re.compile(r"^@([A-Za-z0-9]{1,64}) begin knaster-gather (\d+)\s*$")
_NAME = re.compile(r"^[a-z][a-z0-9_]{0,40}$")
_STATUS = frozenset(("ok", "absent", "failed", "timeout", "stuck"))
_VERSION = 1


class GatherError(Exception):
    """An answer that cannot be used.

    :ivar reason: why, as a phrase
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the node's answer cannot be used: {self.reason}"


class Output(t.NamedTuple):
    """What one command or file gave.

    ``status`` is ok, absent, failed, timeout (killed at its limit) or stuck (killed, and still there).
    """

    status: str
    rc: int | None = None
    stdout: str = ""
    stderr: str = ""
    command: str | None = None

    @property
    def hangs(self) -> bool:
        """Return whether it did not come to its end in time."""
        return self.status in ("timeout", "stuck")


def find_output(outputs: t.Mapping[str, Output], name: str, source: str) -> Output:
    """Return the output of a command that came to its end, or of a file that was there.

    :param source: what it is called in an error
    :raises ParseError: ``not_asked``, ``absent`` or ``timeout``
    """
    output = outputs.get(name)
    if output is None:
        raise ParseError(source, "not_asked")
    if output.status == "absent":
        raise ParseError(source, "absent")
    if output.hangs:
        raise ParseError(source, "timeout")
    return output


def read_answer(answer: str, *, token: str | None = None) -> dict[str, Output]:
    """Return the outputs by name from what the script printed.

    Lines before the first frame (a login banner) and carriage returns that a terminal added are accepted.

    :param token: the token of the run; None takes the answer's own (a saved answer)
    :raises GatherError: when the opening or the closing frame is missing, or frames do not fit together
    """
    lines = iter(answer.split("\n"))
    mark, strip_cr = _find_begin(lines, token)
    outputs: dict[str, Output] = {}
    name: str | None = None
    command: str | None = None
    out: list[str] = []
    err: list[str] = []
    for line in lines:
        if strip_cr and line.endswith("\r"):
            line = line[:-1]  # noqa: PLW2901
        if line.startswith("o "):
            out.append(line[2:])
        elif line.startswith("e "):
            err.append(line[2:])
        elif line.startswith(mark):
            text = line[len(mark) :].rstrip(" ")
            words = text.split()
            if words == ["finish"] and name is None:
                return outputs
            if len(words) > 1 and words[0] == "open" and name is None and _NAME.match(words[1]):
                name, out, err = words[1], [], []
                command = text.partition(f" {name} ")[2] or None
            elif len(words) == 4 and words[:2] == ["close", name] and words[2] in _STATUS and words[3].isdigit():
                outputs[words[1]] = Output(words[2], int(words[3]), "\n".join(out), "\n".join(err), command)
                name = None
            else:
                raise GatherError(f"frame {line[:80]!r} does not belong here")
    raise GatherError(f"it was cut short{f' inside {name}' if name else ''}")


def _find_begin(lines: t.Iterator[str], token: str | None) -> tuple[str, bool]:
    for line in lines:
        match = _BEGIN.match(line)
        if match and token in (None, match.group(1)):
            if int(match.group(2)) != _VERSION:
                raise GatherError(f"it has version {match.group(2)}, this collection reads version {_VERSION}")
            return f"@{match.group(1)} ", line.endswith("\r")
    raise GatherError("it has no opening frame")


def read_outputs(data: str | t.Mapping[str, t.Any]) -> dict[str, Output]:
    """Return outputs by name from the gather script's text, or from outputs that were saved one by one.

    :param data: the text, or a dictionary whose entries have ``stdout`` and may have ``rc``, ``stderr``, ``command`` and
        ``status``; the entry ``pci`` may have ``devices`` instead
    :raises GatherError: when the text is no answer of the script
    :raises ValueError: when an entry is of another shape; the message names it
    """
    if isinstance(data, str):
        return read_answer(data)
    return {name: _read_output(name, entry) for name, entry in data.items()}


def _read_output(name: str, entry: t.Any) -> Output:
    if isinstance(entry, str):
        return Output("ok", 0, entry)
    if not isinstance(entry, dict):
        raise ValueError(  # noqa: TRY004
            f"{name}: an output is a text or a dictionary with stdout, not {str(entry)[:60]!r}"
        )
    rc = entry.get("rc", 0)
    if name == "pci" and isinstance(entry.get("devices"), list):
        return Output("ok", 0, _pci_lines(entry["devices"]))
    stdout, stderr = entry.get("stdout", ""), entry.get("stderr", "")
    if not isinstance(stdout, str) or not isinstance(stderr, str) or not isinstance(rc, (int, type(None))):
        raise ValueError(  # noqa: TRY004
            f"{name}: stdout and stderr are texts, and rc is a number or null"
        )
    return Output(str(entry.get("status", "failed" if rc else "ok")), rc, stdout, stderr, entry.get("command"))


def _pci_lines(devices: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """Return devices as the gather script prints them."""
    return "\n".join(
        " ".join(f"{key}={value}" for key, value in device.items() if value is not None) for device in devices
    )
