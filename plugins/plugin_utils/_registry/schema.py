# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Whether a document has the shape that its published schema says, with every difference told at once.

It reads the part of JSON Schema that the schema of slots is written in, so that no library is needed at run time.
"""

from __future__ import annotations

import functools
import json
import re
import typing as t
from pathlib import Path

from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import shown

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SCHEMAS = Path(__file__).parent.parent / "_documents/schemas"
_MAX_FINDINGS = 20

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def find_shape_errors(document: t.Any, schema: str) -> list[str]:
    """Return one text for each place where a document is not what the schema of this name says; the first twenty."""
    found: list[str] = []
    for finding in _walk(document, _load(schema), ""):
        found.append(finding)
        if len(found) == _MAX_FINDINGS:
            break
    return found


@functools.cache
def _load(name: str) -> Mapping[str, t.Any]:
    text = (_SCHEMAS / f"{name}.json").read_text(encoding="utf-8")
    return t.cast("Mapping[str, t.Any]", json.loads(text))


def _walk(value: t.Any, schema: Mapping[str, t.Any], path: str) -> Iterator[str]:
    where = f"{path}: " if path else ""
    if "const" in schema and (value != schema["const"] or isinstance(value, bool) != isinstance(schema["const"], bool)):
        yield f"{where}expected {shown(schema['const'])}, found {shown(value)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}{shown(value)} is none of {', '.join(map(str, schema['enum']))}"
        return
    kinds = schema.get("type")
    if kinds is not None and not _is_of(value, [kinds] if isinstance(kinds, str) else kinds):
        yield f"{where}expected {kinds if isinstance(kinds, str) else ' or '.join(kinds)}, found {shown(value)}"
    elif isinstance(value, dict):
        yield from _walk_object(value, schema, path, where)
    elif isinstance(value, list):
        yield from _walk_array(value, schema, path, where)
    elif isinstance(value, str):
        yield from _walk_text(value, schema, where)
    elif isinstance(value, (int, float)) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{where}{shown(value)} is out of range"


def _is_of(value: t.Any, kinds: list[str]) -> bool:
    if isinstance(value, bool):
        return "boolean" in kinds
    return any(isinstance(value, _TYPES[kind]) for kind in kinds)


def _walk_object(value: Mapping[str, t.Any], schema: Mapping[str, t.Any], path: str, where: str) -> Iterator[str]:
    absent = [name for name in schema.get("required", ()) if name not in value]
    if absent:
        yield f"{where}{', '.join(absent)} must be there"
    for rule in schema.get("allOf", ()):
        choices = rule["oneOf"]
        if sum(all(name in value for name in one["required"]) for one in choices) != 1:
            yield f"{where}one of {', '.join(one['required'][0] for one in choices)} must be there, and only one"
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    names = schema.get("propertyNames")
    for name, item in value.items():
        below = f"{path}.{name}" if path else str(name)
        if names is not None:
            yield from _walk(name, {"type": "string", **names}, f"{below} (its name)")
        if name in properties:
            yield from _walk(item, properties[name], below)
        elif others is False:
            yield f"{where}{shown(name)} is not known here"
        elif isinstance(others, dict):
            yield from _walk(item, others, below)


def _walk_array(value: list[t.Any], schema: Mapping[str, t.Any], path: str, where: str) -> Iterator[str]:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{where}{len(value)} entries are too many or too few"
        return
    items = schema.get("items")
    if items is not None and not _are_right_texts(value, items):
        for index, item in enumerate(value):
            yield from _walk(item, items, f"{path}[{index}]")


def _are_right_texts(value: list[t.Any], items: Mapping[str, t.Any]) -> bool:
    """Whether a list is of texts and each is right, which is soon told where many documents have the same ones."""
    if items.get("type") != "string" or "enum" in items or "const" in items:
        return False
    rules = (items.get("minLength", 0), items.get("maxLength"), items.get("pattern"))
    return all(isinstance(item, str) and _is_right_text(item, *rules) for item in value)


@functools.lru_cache(maxsize=4096)
def _is_right_text(value: str, least: int, most: int | None, pattern: str | None) -> bool:
    return (
        least <= len(value) and (most is None or len(value) <= most) and (pattern is None or _matches(value, pattern))
    )


def _walk_text(value: str, schema: Mapping[str, t.Any], where: str) -> Iterator[str]:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        yield f"{where}{shown(value)} is too long or too short"
    elif "pattern" in schema and not _matches(value, schema["pattern"]):
        yield f"{where}{shown(value)} does not match {schema['pattern']}"


def _matches(value: str, pattern: str) -> bool:
    # In JSON Schema $ is the end of the text, not the place before its last line break.
    return re.search(pattern[:-1] + r"\Z" if pattern.endswith("$") else pattern, value) is not None
