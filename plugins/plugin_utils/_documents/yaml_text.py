# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Documents as files: YAML whose lists have one entry a line, so that a difference reads as what changed.

Each entry is written as JSON, which is YAML too: it is fast to write and to read for tens of thousands of entries.
"""

from __future__ import annotations

import contextlib
import json
import re
import typing as t

try:
    import yaml
except ImportError:
    yaml = None  # type: ignore[assignment]

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HEADER = "---\n"
# Characters of a text that was written by hand and in which lines are still looked up, which takes seconds a MiB.
_MOST_COMPOSED = 2**21

# Words that need no quotes, but for those that YAML 1.1 takes for something else than text.
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_YAML_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
# Characters that JSON may hold and YAML may not, or takes for line breaks.
_NOT_IN_YAML = re.compile(
    "[^\\x20-\\x7e\\xa0-\\u2027\\u202a-\\ud7ff\\ue000-\\ufefe\\uff00-\\ufffd\\U00010000-\\U0010ffff]"
)


def dump_document(document: Mapping[str, t.Any]) -> str:
    """Return a document as text; keys keep their order, and equal documents give equal bytes."""
    if not document:
        return _HEADER + "{}\n"
    lines = [_HEADER]
    for key, value in document.items():
        if isinstance(value, list) and value:
            lines.append(f"{_dump(key)}:\n")
            lines.extend(f"  - {_dump(entry)}\n" for entry in value)
        else:
            lines.append(f"{_dump(key)}: {_dump(value)}\n")
    return "".join(lines)


def _dump(value: t.Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value not in _YAML_WORDS:
        return value
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return text if text.isascii() and "\x7f" not in text else _NOT_IN_YAML.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"


class DocumentError(ValueError):
    """A text that is no document: the message says what is wrong, ``line`` where, from 1."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def load_document(text: str) -> dict[str, t.Any]:
    """Read what ``dump_document`` wrote, at the speed of JSON, and other YAML at the speed of YAML.

    :raises DocumentError: when the text is no YAML, or not a mapping
    """
    try:
        return _load_lines(text)
    except ValueError:
        return _mapping(_load_yaml(text), text)


def load_json(text: str) -> dict[str, t.Any]:
    """Read a JSON object.

    :raises DocumentError: when the text is no JSON, or not an object
    """
    try:
        return _mapping(json.loads(text if text.strip() else "null"), text)
    except json.JSONDecodeError as exc:
        cut = exc.pos >= len(text.rstrip()) or exc.msg.startswith("Unterminated")
        raise DocumentError(_wrong("JSON", exc.msg, cut=cut), exc.lineno) from exc
    except RecursionError as exc:
        raise DocumentError("is nested too deeply") from exc


def _mapping(document: t.Any, text: str) -> dict[str, t.Any]:
    if isinstance(document, dict):
        return document
    raise DocumentError("does not hold a map" if text.strip() else "is empty")


def _wrong(form: str, told: str, *, cut: bool) -> str:
    return (
        f"ends in the middle of a value: it was cut, or is not valid {form}" if cut else f"is not valid {form}: {told}"
    )


def _load_yaml(text: str) -> t.Any:
    if yaml is None:
        raise DocumentError("needs PyYAML to be read, because it was written by hand")
    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark
        # The message alone: its excerpt of the text might tell a secret.
        cut = mark is not None and mark.index >= len(text.rstrip())
        raise DocumentError(_wrong("YAML", str(exc.problem), cut=cut), mark.line + 1 if mark else None) from exc
    except (yaml.YAMLError, ValueError) as exc:
        # A character that YAML does not know, or a date that does not exist.
        raise DocumentError(f"is not valid YAML: {str(exc).partition(chr(10))[0]}") from exc
    except RecursionError as exc:
        raise DocumentError("is nested too deeply") from exc


def find_lines(text: str, paths: Sequence[Sequence[str | int]]) -> list[int | None]:
    """Return for each path in a document the line, from 1, of the nearest thing that stands in its text.

    JSON is YAML too. None where that would take too long.
    """
    with contextlib.suppress(ValueError):
        _load_lines(text)
        lines = text.split("\n")
        return [_find_entry(lines, path) for path in paths]
    if len(text) > _MOST_COMPOSED or yaml is None:
        return [None] * len(paths)
    root = None
    # JSON may hold half characters, which YAML does not know.
    with contextlib.suppress(yaml.YAMLError):
        root = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return [None if root is None else _find_line(root, path) for path in paths]


def _find_entry(lines: Sequence[str], path: Sequence[str | int]) -> int:
    """Return the line of an entry, or of a key that is not of a list, in a text with one entry a line."""
    keys = tuple(f"{form}:" for form in (path[0], json.dumps(path[0]))) if path else ()
    at = next((number for number, line in enumerate(lines) if keys and line.startswith(keys)), 0)
    is_entry = len(path) > 1 and isinstance(path[1], int) and lines[at].endswith(":")
    return at + 1 + (1 + int(path[1]) if is_entry else 0)


def _find_line(node: yaml.Node, path: Sequence[str | int]) -> int:
    line: int = node.start_mark.line
    for step in path:
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.start_mark.line
            continue
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        found = next(((key, value) for key, value in pairs if key.value == step), None)
        if found is None:
            break
        line, node = found[0].start_mark.line, found[1]
    return line + 1


def _load_lines(text: str) -> dict[str, t.Any]:
    if not text.startswith(_HEADER):
        raise ValueError("not of this form")
    document: dict[str, t.Any] = {}
    entries: list[t.Any] | None = None
    decoder = json.JSONDecoder()
    for line in text[len(_HEADER) :].rstrip("\n").split("\n"):
        if line.startswith("  - ") and entries is not None:
            entries.append(_value(line[4:], decoder))
            continue
        key, rest = _key(line, decoder)
        if rest:
            entries = None
            document[key] = _value(rest[1:], decoder)
        else:
            entries = document[key] = []
    return document


def _key(line: str, decoder: json.JSONDecoder) -> tuple[str, str]:
    """Return the key of a line and what follows its colon."""
    if line.startswith('"'):
        key, end = decoder.raw_decode(line)
    else:
        key = line.partition(":")[0]
        end = len(key)
        if not _PLAIN.fullmatch(key):
            raise ValueError("not of this form")
    rest = line[end + 1 :]
    if line[end : end + 1] != ":" or (rest and not rest.startswith(" ")):
        raise ValueError("not of this form")
    return key, rest


def _value(text: str, decoder: json.JSONDecoder) -> t.Any:
    return text if _PLAIN.fullmatch(text) and text not in _YAML_WORDS else decoder.decode(text)
