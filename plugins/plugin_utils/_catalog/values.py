# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Values of a catalog from what people write, after the schema was checked: units, durations, sizes, spellings.

A 0 that stands for "unknown" or "unconstrained" becomes None, which is the same as absent. What a reader raises is told
in place of the schema's own words, so that each says what is wrong with just this value.
"""

from __future__ import annotations

import re
import typing as t
from fractions import Fraction

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.engines import SPELLINGS
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.secrets import has_secret_option
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import shorten, shown

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import ComputeCap
    from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import Keys

_CAP = re.compile(r"(\d{1,2})(?:\.(\d{1,2}))?", re.ASCII)
_NUMBER = r"(\d{1,9}(?:\.\d{1,6})?)"
_DURATION = re.compile("".join(f"(?:{_NUMBER}{unit})?" for unit in ("d", "h", "m", "s", "ms")), re.ASCII)
_UNITS = (86_400_000, 3_600_000, 60_000, 1000, 1)
_MOST = 366 * 86_400_000
# A thousand seconds until the first token, or thirty years until an engine is up, are meant in nanoseconds.
_NANOSECONDS = 1_000_000
_TWO_WORDS = re.compile(r"(--?[\w-]+)\s+(.*)", re.ASCII | re.DOTALL)
_NOT_IN_CLASS = re.compile(r"[^a-z0-9._]+")


class WrongValueError(ValueError):
    """What is wrong with a value, and what would be right."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message}; {remedy}")
        self.message, self.remedy = message, remedy


def read_compute_cap(value: t.Any) -> ComputeCap | None:
    """Return a compute capability such as 8.9 as (8, 9); 0 is unknown.

    :raises WrongValueError: when it is none
    """
    raw = "" if isinstance(value, bool) or not isinstance(value, (int, float, str)) else str(value)
    match = _CAP.fullmatch(raw)
    wrong = f"{shown(value)} is not a valid compute capability"
    if not match:
        raise WrongValueError(wrong, "write major.minor, such as 8.9")
    cap = (int(match[1]), int(match[2] or 0))
    if cap[0] >= 20:
        raise WrongValueError(
            wrong, f"did you mean {raw[0]}.{raw[1]}?" if len(raw) == 2 else "write major.minor, such as 8.9"
        )
    if isinstance(value, float) and cap[1] > 9:
        raise WrongValueError(wrong, 'write it in quotes, such as "8.9"')
    return None if cap == (0, 0) else cap


def read_seconds(value: t.Any) -> int | None:
    """Return a duration such as 20m, a number of seconds, or Go's number of nanoseconds, in whole seconds; 0 is unknown.

    :raises WrongValueError: when it is none
    """
    return _read_duration(value, "seconds", 1000, "20m, 90s or 1h30m") or None


def read_milliseconds(value: t.Any) -> int | None:
    """Return a duration such as 500ms, a number of milliseconds, or Go's of nanoseconds, in whole milliseconds; 0 is unknown.

    :raises WrongValueError: when it is none
    """
    return _read_duration(value, "milliseconds", 1, "500ms") or None


def _read_duration(value: t.Any, unit: str, size: int, sample: str) -> int:
    """Return a duration as a whole number of its unit, which has ``size`` milliseconds."""
    wrong = WrongValueError(f"{shown(value)} is not a valid duration", f"write it such as {sample}")
    if isinstance(value, str):
        match = _DURATION.fullmatch(value.strip().lower().replace(" ", ""))
        if not match or not match[0]:
            raise wrong
        parts = zip(match.groups(), _UNITS, strict=True)
        milliseconds = sum(Fraction(part or 0) * factor for part, factor in parts)
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and value == int(value):
        nanoseconds = value >= _NANOSECONDS * size
        milliseconds = Fraction(int(value), 1_000_000) if nanoseconds else Fraction(int(value) * size)
    else:
        raise wrong
    if not 0 <= milliseconds <= _MOST:
        raise WrongValueError(f"{shown(value)} {unit} are out of range", "from 0 to 366 days")
    if milliseconds % size:
        raise WrongValueError(f"{shown(value)} is not a whole number of {unit}", f"write it such as {sample}")
    return int(milliseconds / size)


def read_source(value: t.Any) -> str:
    """Return where weights come from: an absolute path without its last slash, or a hub id.

    :raises WrongValueError: when it is neither
    """
    source = str(value)
    if source.startswith("/") and ".." not in source.split("/") and source.isprintable():
        return source.rstrip("/") or "/"
    if source.startswith("/"):
        raise WrongValueError(f"{shown(source)} is not a valid absolute path", "write the path without ..")
    if source.startswith(("~", ".")):
        raise WrongValueError(
            f"{shown(source)} depends on who looks", "write an absolute path or a hub id such as org/name"
        )
    if "://" in source:
        meant = "/".join(source.split("://", 1)[1].split("/")[1:3])
        raise WrongValueError(
            f"{shown(source)} is an address, not a hub id", f"write the id alone, such as {meant or 'org/name'}"
        )
    return source


def read_argument(value: t.Any) -> str:
    """Return one word of a command line; numbers become text.

    :raises WrongValueError: when it is an option and its value in one
    """
    if isinstance(value, str) and (match := _TWO_WORDS.fullmatch(value)):
        option, rest = (match[1], "...") if has_secret_option(value) else match.groups()
        message = f'"{option} {shorten(rest)}" is two words in one item; the engine would read them as one'
        raise WrongValueError(message, f'an item for each word: ["{option}", "{shorten(rest)}"]')
    return str(value)


def read_gpu_class(value: t.Any) -> str:
    """Return the name of a class of GPUs.

    :raises WrongValueError: when it is written as on the box
    """
    meant = _NOT_IN_CLASS.sub("-", str(value).lower()).strip("-._")
    if isinstance(value, str) and meant and meant != value:
        raise WrongValueError(f"{shown(value)} is not a valid GPU class", f"did you mean {meant}?")
    return str(value)


def read_engine(value: t.Any) -> str:
    """Return the name under which an engine is known."""
    return SPELLINGS.get(value, value)


def _read_engines(value: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(read_engine, value)))


def _read_args(value: Sequence[t.Any]) -> tuple[str, ...]:
    return tuple(map(read_argument, value))


def _read_engine_args(value: Mapping[str, t.Any]) -> dict[str, tuple[str, ...]]:
    return {read_engine(engine): _read_args(words) for engine, words in value.items() if words is not None}


def _read_texts(value: Mapping[t.Any, t.Any]) -> dict[str, str]:
    return {str(key): str(item) for key, item in value.items() if item is not None}


def _read_capabilities(value: t.Any) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, list) else tuple(key for key, is_so in value.items() if is_so)


def _read_sizes(value: t.Any) -> tuple[float, ...]:
    return tuple(sorted({_narrow(size) for size in (value if isinstance(value, list) else [value]) if size}))


def _read_context(value: int | str) -> int | None:
    return None if isinstance(value, str) else value


_READERS: Mapping[str, Callable[[t.Any], t.Any]] = {
    "context_length": _read_context,
    "min_cc": read_compute_cap,
    "max_cc": read_compute_cap,
    "compute_cap": read_compute_cap,
    "startup_timeout": read_seconds,
    "idle_timeout": read_seconds,
    "ttft_p99": read_milliseconds,
    "tpot_p99": read_milliseconds,
    "source": read_source,
    "gpu_class": read_gpu_class,
    "engine": read_engine,
    "engines": _read_engines,
    "args": _read_args,
    "engine_args": _read_engine_args,
    "env": _read_texts,
    "node_selector": _read_texts,
    "cloud_init": _read_texts,
    "capabilities": _read_capabilities,
    "description": str.strip,
    "source_note": str.strip,
    "memory_gb": _read_sizes,
}
# Where 0 is a number like any other.
_COUNTS = frozenset(("weight", "priority", "placement_priority", "count", "min", "max"))
# Maps whose keys are the user's own words.
_FREE = ("env", "node_selector", "cloud_init")

# The name of an environment variable.
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def _narrow(value: t.Any) -> t.Any:
    """Return 24.0 as 24, so that both are one value."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _read_plain(key: str, value: t.Any) -> t.Any:
    """Return the value of a key that has no reader of its own."""
    if isinstance(value, list):
        return tuple(value)
    return None if value == 0 and value is not False and key not in _COUNTS else _narrow(value)


def read_values(raw: Mapping[str, t.Any]) -> tuple[dict[str, t.Any], dict[str, WrongValueError]]:
    """Return the values of a map that its schema admits, without what is unknown, and what is wrong by key."""
    values: dict[str, t.Any] = {}
    wrong: dict[str, WrongValueError] = {}
    for key, value in raw.items():
        if value is None or key == "replace":  # which layers it is made of is no part of an entry
            continue
        try:
            read = reader(value) if (reader := _READERS.get(key)) else _read_plain(key, value)
        except WrongValueError as exc:
            wrong[key] = exc
            continue
        if read is not None:
            values[key] = read
    return values, wrong


def explain(keys: Keys, value: t.Any) -> WrongValueError | None:
    """Return what is wrong with a value that its schema refuses, where more can be said than the schema does."""
    above, name = ("", "", *keys)[-2:]
    reader = read_argument if "args" in keys[-2:-1] or "engine_args" in keys[-3:-2] else _READERS.get(str(name))
    try:
        if reader and above not in _FREE:
            reader(value)
    except WrongValueError as exc:
        return exc
    except (TypeError, ValueError, AttributeError, ArithmeticError):
        return None
    return None
