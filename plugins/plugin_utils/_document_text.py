# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Documents as files: YAML whose lists have one entry a line, so that a difference reads as what changed.

Each entry is written as JSON, which is YAML too: it is fast to write and to read for tens of thousands of entries.
"""

from __future__ import annotations

import json
import typing as t

try:
    import yaml
except ImportError:
    yaml = None  # type: ignore[assignment]

if t.TYPE_CHECKING:
    from collections.abc import Mapping

_HEADER = "---\n"


def dump_document(document: Mapping[str, t.Any]) -> str:
    """Return a document as text; keys keep their order, and equal documents give equal bytes."""
    lines = [_HEADER]
    for key, value in document.items():
        if isinstance(value, list) and value:
            lines.append(f"{_dump(key)}:\n")
            lines.extend(f"  - {_dump(entry)}\n" for entry in value)
        else:
            lines.append(f"{_dump(key)}: {_dump(value)}\n")
    return "".join(lines)


def _dump(value: t.Any) -> str:
    if isinstance(value, str) and value.isidentifier() and value.islower() and value not in _YAML_WORDS:
        return value
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


# What YAML 1.1 takes for something else than text.
_YAML_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))


class DocumentError(ValueError):
    """A text that is no document; the message says what is wrong."""


def load_document(text: str) -> dict[str, t.Any]:
    """Read what ``dump_document`` wrote, at the speed of JSON, and other YAML at the speed of YAML.

    :raises DocumentError: when the text is no YAML, or not a mapping
    """
    try:
        return _load_lines(text)
    except ValueError:
        document = _load_yaml(text)
    if not isinstance(document, dict):
        raise DocumentError("the text is not a mapping")
    return document


def _load_yaml(text: str) -> t.Any:
    if yaml is None:
        raise DocumentError("PyYAML is needed to read a document that was written by hand")
    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except yaml.YAMLError as exc:
        raise DocumentError(f"the text is no YAML: {exc}") from exc


def _load_lines(text: str) -> dict[str, t.Any]:
    if not text.startswith(_HEADER):
        raise ValueError("not of this form")
    document: dict[str, t.Any] = {}
    entries: list[t.Any] | None = None
    decode = json.JSONDecoder().decode
    for line in text[len(_HEADER) :].splitlines():
        if line.startswith("  - ") and entries is not None:
            entries.append(_scalar(line[4:], decode))
            continue
        key, colon, value = line.partition(":")
        if not colon or line[:1] in (" ", "#"):
            raise ValueError("not of this form")
        if value:
            entries = None
            document[_scalar(key, decode)] = _scalar(value.strip(), decode)
        else:
            entries = document[_scalar(key, decode)] = []
    return document


def _scalar(text: str, decode: t.Callable[[str], t.Any]) -> t.Any:
    return text if text.isidentifier() and text not in ("true", "false", "null") else decode(text)
