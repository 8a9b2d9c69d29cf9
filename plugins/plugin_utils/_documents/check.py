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
# Whoever has more mistakes than this made one in another place; what is left is not looked at.
MAX_VIOLATIONS = 1000
# How many entries of a list are looked at for one that appears twice.
_TWICE = 1000
# A map with more unknown keys than this is something else.
_MAX_UNKNOWN = 50

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
# Keywords about the keys of a map.
_OF_KEYS = ("required", "additionalProperties")
_NOTHING = "must be null"
_WITH_UNIT = re.compile(r"\d+(\.\d+)?\s*[A-Za-z]+")
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


def find_violations(document: t.Any, kind: str, *, whole_floats: bool = False) -> list[Violation]:
    """Return the differences of a document from the schema ``schemas/<kind>.json``, in the order of their places.

    At most ``MAX_VIOLATIONS`` of them.

    :param whole_floats: whether 2.0 is a whole number too, as it is in what people write
    :raises InputError: when the library that checks is not installed
    """
    errors = _validator(kind, whole_floats=whole_floats).iter_errors(document)
    found: set[Violation] = set()
    for one in itertools.chain.from_iterable(map(_read_error, errors)):
        found.add(one)
        if len(found) == MAX_VIOLATIONS:
            break
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
def _validator(kind: str, *, whole_floats: bool) -> t.Any:
    if jsonschema is None:
        raise InputError(["jsonschema is needed to check documents; install the Python package jsonschema"])
    schema = json.loads(schema_text(kind))
    base = jsonschema.validators.validator_for(schema)
    whole = _is_whole_or_float if whole_floats else _is_whole
    types = base.TYPE_CHECKER.redefine_many({"integer": whole, "number": _is_number})
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


def _is_whole_or_float(checker: t.Any, value: t.Any) -> bool:
    return _is_whole(checker, value) or (isinstance(value, float) and value.is_integer())


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
    known = error.schema.get("properties", {})
    if keyword == "required":
        missing = [key for key in error.validator_value if key not in value]
        # A misspelt key is one mistake, not two.
        meant = {nearest(str(key), known) for key in itertools.islice(value, _MAX_UNKNOWN) if key not in known}
        for key in missing:
            if key not in meant:
                yield Violation((*path, key), keyword, f"is required{_sample(key, known.get(key, {}))}")
    elif keyword == "additionalProperties":
        unknown = [key for key in value if key not in known]
        if len(unknown) > _MAX_UNKNOWN:
            yield Violation(
                path, keyword, f"has {len(unknown)} unknown keys, such as {shown(unknown[0])}; check what it is"
            )
            return
        for key in unknown:
            remedy = suggest(str(key), known, limit=40)
            yield Violation((*path, str(key)), keyword, f"unknown key {shown(key)}; {remedy}")
    elif keyword == "uniqueItems":
        for index, item in enumerate(value[:_TWICE]):
            if item in value[:index]:
                yield Violation((*path, index), keyword, f"{shown(item)} appears twice; remove one of the two")
    elif keyword == UNIQUE_KEYS:
        yield Violation(
            path, keyword, f"has the same {listing(error.validator_value)} as entry {value}; keep one of the two"
        )
    elif keyword in ("anyOf", "oneOf"):
        yield from _read_choice(error, path)
    elif "propertyNames" in error.relative_schema_path:
        yield Violation((*path, str(value)), "propertyNames", f"is not a valid key: it {_rule(error)}{_remedy(error)}")
    else:
        told = _with_found(_rule(error), path, len(value) if keyword in _COUNTS else value)
        yield Violation(path, keyword, told + _remedy(error))


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
    if all(len(found) == 1 and not found[0].relative_path and found[0].validator not in _OF_KEYS for found in meant):
        first, *others = sorted(dict.fromkeys(_rule(found[0]) for found in meant), key=_NOTHING.__eq__)
        others = [rule for rule in others if rule != _NOTHING]
        told = " or ".join([first, *(rule.removeprefix("must be ") for rule in others)])
        yield Violation(path, error.validator, _with_found(told, path, error.instance))
    else:
        for one in min(meant, key=len):
            yield from _read_error(one, path)


def _is_of_other_type(found: list[t.Any]) -> bool:
    return any(one.validator == "type" and not one.relative_path for one in found)


def _sample(key: str, schema: Mapping[str, t.Any]) -> str:
    """Return what could be written for a key that is missing, or nothing."""
    if "enum" in schema:
        return f"; one of {', '.join(str(word) for word in schema['enum'] if word is not None)}"
    return f"; such as {key}: {_flow(schema['examples'][0])}" if schema.get("examples") else ""


def _flow(value: t.Any) -> str:
    """Return a value as people write it in one line of YAML."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_flow(item)}' for key, item in value.items())}}}"
    return f"[{', '.join(map(_flow, value))}]" if isinstance(value, list) else str(value)


def _rule(error: t.Any) -> str:
    """Return what the schema asks for at a place: ``must be a whole number``."""
    keyword, rule, schema = error.validator, error.validator_value, error.schema
    if keyword == "type":
        return f"must be {' or '.join(_TYPES[kind] for kind in _kinds(rule))}"
    if keyword == "enum":
        return f"must be one of {', '.join(str(one) for one in rule if one is not None)}"
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
    if keyword == "pattern":
        if "patternErrorMessage" in schema:  # editors show it too
            return str(schema["patternErrorMessage"])
        samples = schema.get("examples") or ()
        return f"must match {rule}" + (f", such as {shown(samples[0])}" if samples else "")
    return f"must satisfy {keyword} of the schema"


def _kinds(rule: str | list[str]) -> list[str]:
    """Return the types that a schema admits; that null is the same as absent helps nobody."""
    return [rule] if isinstance(rule, str) else [kind for kind in rule if kind != "null"]


def _remedy(error: t.Any) -> str:
    """Return what to do about it where the value tells, or nothing."""
    value, rule = error.instance, error.validator_value
    if error.validator == "enum" and isinstance(value, str):
        meant = nearest(value, [one for one in rule if isinstance(one, str)])
        return f"; did you mean {meant}?" if meant else ""
    if error.validator != "type":
        return ""
    kinds = _kinds(rule)
    if isinstance(value, str) and _NOT_TEXT.intersection(kinds) and _LITERAL.fullmatch(value):
        return "; write it without quotes"
    if isinstance(value, str) and "string" not in kinds and _WITH_UNIT.fullmatch(value):
        return "; write the number alone, without a unit"
    if isinstance(value, (int, float)) and "string" in kinds:
        return "; write it in quotes"
    if isinstance(value, (str, int, float)) and "array" in kinds:
        return "; write it in brackets, as a list"
    return ""


def _with_found(rule: str, path: Keys, value: t.Any) -> str:
    """Return a rule with what is there instead in front of its remedy, unless it may be a secret."""
    if any(is_secret_name(key) for key in path if isinstance(key, str)) or has_secret_option(value):
        return rule
    told, semicolon, remedy = rule.partition("; ")
    return f"{told}, not {shown(value)}{semicolon}{remedy}"
