# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Whether a document has the shape that its published schema says, with every difference at once."""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
import typing as t
from dataclasses import dataclass
from pathlib import Path

try:
    import jsonschema
except ImportError:
    jsonschema = None  # type: ignore[assignment]

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.yaml_text import find_lines
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.secrets import has_secret_option, is_secret_name
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import (
    listing,
    nearest,
    plural,
    shorten,
    shown,
    suggest,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Keys = tuple[str | int, ...]

_SCHEMAS = Path(__file__).parent / "schemas"
# How many mistakes of one document are told one by one.
_TOLD = 50

# Our own keyword: no two entries of a list have the values of all these keys in common.
UNIQUE_KEYS = "x-uniqueKeys"

_TYPES: Mapping[str, str] = {
    "object": "a map",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}
_LIMITS: Mapping[str, str] = {
    "minimum": "at least",
    "maximum": "at most",
    "exclusiveMinimum": "above",
    "exclusiveMaximum": "below",
}
_COUNTS: Mapping[str, tuple[str, tuple[str, str]]] = {
    "minLength": ("at least", ("character", "characters")),
    "maxLength": ("at most", ("character", "characters")),
    "minItems": ("at least", ("entry", "entries")),
    "maxItems": ("at most", ("entry", "entries")),
    "minProperties": ("at least", ("key", "keys")),
    "maxProperties": ("at most", ("key", "keys")),
}
# Single values that were right, by the schema that they were held against, which is never freed.
_RIGHT: set[tuple[int, type, t.Any]] = set()
_MOST_RIGHT = 500_000
# Text that would be no text without its quotes.
_NOT_TEXT = frozenset(("integer", "number", "boolean", "null"))
_LITERAL = re.compile(r"-?\d+(\.\d+)?|true|false|null")


@dataclass(frozen=True, slots=True)
class Violation:
    """One difference from a schema: where, the keyword of the schema, and what would be right as a clause."""

    path: Keys
    keyword: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (format_path(self.path), self.message) if part)


def find_violations(document: t.Any, kind: str) -> list[Violation]:
    """Return every difference of a document from the schema ``schemas/<kind>.json``, in the order of their places.

    :raises InputError: when the library that checks is not installed
    """
    found = {one for error in _validator(kind).iter_errors(document) for one in _read_error(error)}
    return sorted(found, key=lambda one: ([(isinstance(key, str), key) for key in one.path], one.message))


def check(document: t.Any, kind: str, where: str, text: str | None = None) -> list[str]:
    """Return one text with place and remedy for each difference of a document from its schema.

    :param where: what is in front of each text: a file, or the name of an option
    :param text: what the document was read from, to name the lines
    """
    found = find_violations(document, kind)
    told = found[:_TOLD]
    lines = [None] * len(told) if text is None else find_lines(text, [one.path for one in told])
    texts = [f"{where}{'' if line is None else f':{line}'}: {one}" for line, one in zip(lines, told, strict=True)]
    return texts + ([f"{where}: and {plural(len(found) - _TOLD, 'more mistake')}"] if len(found) > _TOLD else [])


def check_given(document: t.Any, kind: str, where: str) -> list[str]:
    """Return one text for each difference of a document that may be left out: None and an empty map are none."""
    return [] if document in (None, {}) else check(document, kind, where)


def format_path(path: Iterable[str | int]) -> str:
    """Return a path as people read it: ``assignments[3].gpu.uuid``."""
    text = ""
    for key in path:
        text += f"[{key}]" if isinstance(key, int) else f".{shorten(key)}" if text else shorten(key)
    return text


@functools.cache
def schema_text(kind: str) -> str:
    """Return the published schema of a kind of document."""
    return (_SCHEMAS / f"{kind}.json").read_text(encoding="utf-8")


@functools.cache
def _validator(kind: str) -> t.Any:
    if jsonschema is None:
        raise InputError(["jsonschema is needed to check documents; install the Python package jsonschema"])
    schema = json.loads(schema_text(kind))
    base = jsonschema.validators.validator_for(schema)
    types = base.TYPE_CHECKER.redefine_many({"integer": _is_whole, "number": _is_number})
    own = {
        "pattern": _find_pattern_error,
        "properties": _find_property_errors,
        "items": _find_item_errors,
        UNIQUE_KEYS: _find_doubles,
    }
    return jsonschema.validators.extend(base, own, type_checker=types)(schema)


def _is_whole(_checker: t.Any, value: t.Any) -> bool:
    # 1.0 is whole for JSON Schema, and would give another name than 1.
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(_checker: t.Any, value: t.Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _find_property_errors(validator: t.Any, below: t.Any, value: t.Any, _schema: t.Any) -> Iterator[t.Any]:
    if isinstance(value, dict):
        for key, schema in below.items():
            if key in value and not _is_known_right(validator, schema, value[key]):
                yield from validator.descend(value[key], schema, path=key, schema_path=key)


def _find_item_errors(validator: t.Any, schema: t.Any, value: t.Any, _schema: t.Any) -> Iterator[t.Any]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            if not _is_known_right(validator, schema, item):
                yield from validator.descend(item, schema, path=index)


def _is_known_right(validator: t.Any, schema: t.Any, value: t.Any) -> bool:
    """Return whether a single value is right: most of a document is such values, and most of them repeat."""
    if isinstance(value, (dict, list)):
        return False
    # 1 and true are equal and not the same.
    key = (id(schema), type(value), value)
    if key not in _RIGHT:
        if not validator.evolve(schema=schema).is_valid(value):
            return False
        if len(_RIGHT) >= _MOST_RIGHT:
            _RIGHT.clear()
        _RIGHT.add(key)
    return True


def _find_doubles(_validator: t.Any, keys: t.Any, value: t.Any, _schema: t.Any) -> Iterator[t.Any]:
    """Yield the entries of a list that have these keys in common with one before them."""
    seen: dict[t.Any, int] = {}
    for index, item in enumerate(value if isinstance(value, list) else ()):
        found = tuple(item.get(key) for key in keys) if isinstance(item, dict) else ()
        if found and all(isinstance(part, (str, int)) for part in found):
            first = seen.setdefault(found, index)
            if first != index:
                yield jsonschema.ValidationError("", path=[index], instance=first)


def _find_pattern_error(_validator: t.Any, pattern: str, value: t.Any, _schema: t.Any) -> Iterator[t.Any]:
    if isinstance(value, str) and not _compile(pattern).search(value):
        yield jsonschema.ValidationError("")


@functools.cache
def _compile(pattern: str) -> re.Pattern[str]:
    # In JSON Schema $ is the end of the text, not the place before its last line break.
    return re.compile(pattern[:-1] + r"\Z" if pattern.endswith("$") else pattern)


def _read_error(error: t.Any, above: Keys = ()) -> Iterator[Violation]:
    """Yield what is wrong in our words; of a choice, what is wrong with the branch that was probably meant."""
    path = (*above, *(key if isinstance(key, int) else str(key) for key in error.relative_path))
    keyword, value = error.validator, error.instance
    if keyword == "required":
        yield from (
            Violation((*path, key), keyword, "is required") for key in error.validator_value if key not in value
        )
    elif keyword == "additionalProperties":
        known = error.schema.get("properties", {})
        for key in value:
            if key not in known:
                remedy = suggest(str(key), [name for name in known if name not in value])
                yield Violation((*path, str(key)), keyword, f"unknown key {shown(key)}; {remedy}")
    elif keyword == UNIQUE_KEYS:
        yield Violation(
            path, keyword, f"has the same {listing(error.validator_value)} as entry {value}; keep one of the two"
        )
    elif keyword in ("anyOf", "oneOf"):
        yield from _read_choice(error, path)
    elif "propertyNames" in error.relative_schema_path:
        yield Violation((*path, str(value)), "propertyNames", f"is not a valid key: it {_rule(error)}")
    else:
        yield Violation(path, keyword, f"{_rule(error)}{_found(path, value)}{_remedy(error)}")


def _read_choice(error: t.Any, path: Keys) -> Iterator[Violation]:
    needed = [branch.get("required") for branch in error.validator_value]
    if all(needed):
        # Of a value that is no map the type is told.
        if isinstance(error.instance, dict):
            many = "only " if not error.context else ""
            names = ", ".join(dict.fromkeys(itertools.chain(*needed)))
            yield Violation(path, error.validator, f"must have {many}one of the keys {names}")
        return
    branches: dict[int, list[t.Any]] = {}
    for one in error.context:
        branches.setdefault(one.relative_schema_path[0], []).append(one)
    # A branch of another type was not meant, where there is one of this type.
    meant = [found for found in branches.values() if not _is_of_other_type(found)] or list(branches.values())
    if all(len(found) == 1 and not found[0].relative_path for found in meant):
        first, *others = dict.fromkeys(_rule(found[0]) for found in meant)
        told = " or ".join([first, *(rule.removeprefix("must be ") for rule in others)])
        yield Violation(path, error.validator, told + _found(path, error.instance))
    else:
        for one in min(meant, key=len):
            yield from _read_error(one, path)


def _is_of_other_type(found: list[t.Any]) -> bool:
    return any(one.validator == "type" and not one.relative_path for one in found)


def _rule(error: t.Any) -> str:
    """Return what the schema asks for at a place: ``must be a whole number``."""
    keyword, rule, schema = error.validator, error.validator_value, error.schema
    if keyword == "type":
        return f"must be {' or '.join(_TYPES[kind] for kind in _kinds(rule))}"
    if keyword == "enum":
        return f"must be one of {', '.join('null' if one is None else str(one) for one in rule)}"
    if keyword == "const":
        return f"must be {shown(rule)}"
    if keyword in _LIMITS:
        low, high = schema.get("minimum"), schema.get("maximum")
        return f"must be from {low} to {high}" if None not in (low, high) else f"must be {_LIMITS[keyword]} {rule}"
    if keyword in _COUNTS:
        least, noun = _COUNTS[keyword]
        if rule == 1 and least == "at least":
            return "must not be empty"
        return f"must have {least} {plural(rule, *noun)}"
    if keyword == "uniqueItems":
        return "must not have the same entry twice"
    if keyword == "pattern":
        samples = schema.get("examples") or ()
        return f"must match {rule}" + (f", such as {shown(samples[0])}" if samples else "")
    return f"must satisfy {keyword} of the schema"


def _kinds(rule: str | list[str]) -> list[str]:
    return [rule] if isinstance(rule, str) else rule


def _remedy(error: t.Any) -> str:
    """Return what to do about it where the value tells, or nothing."""
    value, rule = error.instance, error.validator_value
    if error.validator == "enum" and isinstance(value, str):
        meant = nearest(value, [one for one in rule if isinstance(one, str)])
        return f"; did you mean {meant}?" if meant else ""
    if (
        error.validator == "type"
        and isinstance(value, str)
        and _NOT_TEXT.intersection(_kinds(rule))
        and _LITERAL.fullmatch(value)
    ):
        return "; write it without quotes"
    if error.validator == "type" and isinstance(value, (int, float)) and "string" in rule:
        return "; write it in quotes"
    return ""


def _found(path: Keys, value: t.Any) -> str:
    """Return what is there instead, or nothing where it may be a secret."""
    secret = any(is_secret_name(key) for key in path if isinstance(key, str)) or has_secret_option(value)
    return "" if secret else f", not {shown(value)}"
