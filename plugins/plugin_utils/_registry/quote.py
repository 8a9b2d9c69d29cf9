# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""One word or value, so written that whoever reads it gets just that back.

Every function takes any text without a NUL. What is no text at all (half of a surrogate pair) is replaced first.
"""

from __future__ import annotations

import json
import re
import shlex
import typing as t

_SURROGATES = re.compile("[\ud800-\udfff]")
_IN_DOUBLE_QUOTES = re.compile(r'(["\\$`])')
_FOR_SYSTEMD = re.compile(r'["\\\x00-\x1f\x7f]')
_SYSTEMD_NAMES: t.Mapping[str, str] = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


class EnvRef(t.NamedTuple):
    """A word of a command line that is the value of a variable, known only where the command runs."""

    name: str


Word: t.TypeAlias = "str | EnvRef"


def clean(text: str) -> str:
    """Return a text that can be encoded."""
    return _SURROGATES.sub("\ufffd", text)


def clean_document(document: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return a document all of whose texts can be encoded; one that is so already stays the same object."""
    text = json.dumps(document, ensure_ascii=False)
    return t.cast("dict[str, t.Any]", json.loads(clean(text))) if _SURROGATES.search(text) else document


def shell_word(word: Word) -> str:
    """For a POSIX shell."""
    return f'"${{{word.name}}}"' if isinstance(word, EnvRef) else shlex.quote(clean(word))


def shell_line(words: t.Iterable[Word]) -> str:
    """A command for a POSIX shell."""
    return " ".join(shell_word(word) for word in words)


def env_file_value(text: str) -> str:
    """For a file that a POSIX shell and the C(EnvironmentFile) of systemd read alike."""
    return '"' + _IN_DOUBLE_QUOTES.sub(r"\\\1", clean(text)) + '"'


def _systemd(text: str) -> str:
    quoted = _FOR_SYSTEMD.sub(lambda match: _SYSTEMD_NAMES.get(match[0], f"\\x{ord(match[0]):02x}"), clean(text))
    return quoted.replace("%", "%%")


def systemd_word(word: Word) -> str:
    """For C(ExecStart) of a unit."""
    return f'"${{{word.name}}}"' if isinstance(word, EnvRef) else '"' + _systemd(word).replace("$", "$$") + '"'


def systemd_assignment(name: str, value: str) -> str:
    """For C(Environment) of a unit, where a dollar is just a dollar."""
    return f'"{name}={_systemd(value)}"'


def compose_text(word: Word) -> str:
    """For any text of a compose file."""
    return f"${{{word.name}}}" if isinstance(word, EnvRef) else clean(word).replace("$", "$$")


def swap_word(word: Word) -> str:
    """For C(cmd) of llama-swap, which takes C(${...}) for a macro before it splits the words like a shell."""
    if isinstance(word, EnvRef):
        return f"${{env.{word.name}}}"
    return shlex.quote(clean(word)).replace("${", "$''{")


def swap_text(text: str) -> str:
    """For any other text of llama-swap: it knows no way to write C(${), so a blank is put in."""
    return clean(text).replace("${", "$ {")


def promql_text(text: str) -> str:
    """For a string of PromQL, with its quotes."""
    quoted = "".join(
        _GO_ESCAPES.get(char) or (f"\\x{ord(char):02x}" if ord(char) < 32 or ord(char) == 127 else char)
        for char in clean(text)
    )
    return f'"{quoted}"'


# PromQL takes the character for a missing one, written as it is, for a fault of the encoding.
_GO_ESCAPES: t.Mapping[str, str] = {
    '"': '\\"',
    "\\": "\\\\",
    "\n": "\\n",
    "\t": "\\t",
    "\r": "\\r",
    "\ufffd": "\\ufffd",
}


def go_template_text(text: str) -> str:
    """For a label or an annotation of a rule, which Prometheus takes for a template."""
    return clean(text).replace("{{", '{{"{{"}}')
