# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Readers of single values: each returns the normalised value or raises what is wrong with it.

A 0 that stands for "unknown" or "unconstrained" becomes None, which is the same as absent.
"""

from __future__ import annotations

import math
import re
import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import nearest, shown

if t.TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import ComputeCap
    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import Keys

Reader = t.Callable[[t.Any], t.Any]

MAX_TEXT = 4096
MAX_ITEMS = 1000

MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]*(?:/[A-Za-z0-9][A-Za-z0-9._:@+-]*)*", re.ASCII)
SIMPLE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)
SLUG = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?", re.ASCII)
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
PCI_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}", re.ASCII)
URL_PATH = re.compile(r"/[\x21-\x7e]*", re.ASCII)

_CAP = re.compile(r"(\d{1,2})(?:\.(\d{1,2}))?", re.ASCII)
_DURATION = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s)?(?:(\d{1,9})ms)?", re.ASCII)
_HUB_ID = re.compile(
    r"[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?(?:@[\w./-]+|/[\w./-]+\.gguf|:[\w.-]+)?", re.ASCII | re.IGNORECASE
)


class WrongValueError(Exception):
    """What is wrong with a value: one finding (keys below it, message, remedy) for each mistake in it."""

    def __init__(self, message: str = "", remedy: str = "", *, findings: Sequence[tuple[Keys, str, str]] = ()) -> None:
        self.findings = tuple(findings) or (((), message, remedy),)
        super().__init__(message)


def read_flag(value: t.Any) -> bool:
    """Read true or false."""
    if isinstance(value, bool):
        return value
    raise WrongValueError(f"expected true or false, found {shown(value)}", "write true or false without quotes")


def whole(low: int, high: int, *, zero_is_unknown: bool = False) -> Callable[[t.Any], int | None]:
    """Make a reader of whole numbers within these limits."""

    def read(value: t.Any) -> int | None:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            remedy = (
                "write it without quotes" if isinstance(value, str) and value.isdecimal() else f"such as {low or 1}"
            )
            raise WrongValueError(f"expected a whole number, found {shown(value)}", remedy)
        if value == 0 and zero_is_unknown:
            return None
        if not low <= value <= high:
            raise WrongValueError(f"{shown(value)} is out of range", f"it must be from {low} to {high}")
        return value

    return read


def read_scale_min(value: t.Any) -> int:
    """Read the least number of replicas; a negative one is 0."""
    return max(0, t.cast("int", _SCALE(value)))


def number(high: float, unit: str) -> Callable[[t.Any], float | None]:
    """Make a reader of positive sizes; whole numbers stay whole, so that 24 and 24.0 are one value; 0 is unknown."""

    def read(value: t.Any) -> float | None:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            remedy = f"write a number of {unit} without quotes and without a unit, such as 24"
            raise WrongValueError(f"expected a number, found {shown(value)}", remedy)
        if value == 0:
            return None
        if not math.isfinite(value) or not 0 < value <= high:
            raise WrongValueError(f"{shown(value)} is out of range", f"{unit} above 0, at most {high:g}")
        return int(value) if float(value).is_integer() else float(value)

    return read


def text(
    pattern: re.Pattern[str] | None = None, what: str = "text", *, limit: int = MAX_TEXT
) -> Callable[[t.Any], str]:
    """Make a reader of one line of text that matches the whole pattern."""

    def read(value: t.Any) -> str:
        if not isinstance(value, str):
            raise WrongValueError(
                f"expected {what}, found {shown(value)}", f'write it in quotes, such as "{_plain(value)}"'
            )
        if not value.strip():
            raise WrongValueError(f"expected {what}, found nothing", "fill it in or leave the key out")
        if len(value) > limit:
            raise WrongValueError(f"{len(value)} characters are too long", f"at most {limit}")
        if pattern is not None and not pattern.fullmatch(value):
            raise WrongValueError(
                f"{shown(value)} is not {what}", _NAME_RULES.get(pattern, f"it must match {pattern.pattern}")
            )
        return value

    return read


def read_description(value: t.Any) -> str:
    """Read text of any number of lines, without the white space around it."""
    return text(None, "text")(value).strip()


def choice(known: Sequence[str]) -> Callable[[t.Any], str]:
    """Make a reader of one of the known words."""

    def read(value: t.Any) -> str:
        if isinstance(value, str) and value in known:
            return value
        meant = nearest(value, known) if isinstance(value, str) else None
        remedy = f"did you mean {meant}?" if meant else f"one of {', '.join(known)}"
        raise WrongValueError(f"{shown(value)} is not known here", remedy)

    return read


def read_spread(value: t.Any) -> str | dict[str, t.Any]:
    """Read over what replicas spread: node or fabric, or a map of by, label and hard."""
    words = ("node", "fabric")
    if isinstance(value, str):
        return choice(words)(value)
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise WrongValueError(f"expected node, fabric or a map, found {shown(value)}", "write spread: node")
    findings: list[tuple[Keys, str, str]] = [
        ((key,), f"{shown(key)} is not known here", "one of by, label, hard")
        for key in value
        if key not in ("by", "label", "hard")
    ]
    found = {key: item for key, item in value.items() if item is not None}
    by, label = found.get("by", "node"), found.get("label")
    if by not in (*words, "label"):
        findings.append((("by",), f"{shown(by)} is not known here", "one of node, fabric, label"))
    if not isinstance(found.get("hard", False), bool):
        findings.append((("hard",), f"expected true or false, found {shown(found['hard'])}", "write true or false"))
    if label is not None and (not isinstance(label, str) or not label.strip()):
        findings.append((("label",), f"expected the name of a label, found {shown(label)}", "write it as text"))
    elif (by == "label") is not (label is not None):
        findings.append((("label",), "by: label and label: NAME go together", "write both, or neither"))
    if findings:
        raise WrongValueError(findings=findings)
    return found


def texts(
    item: Callable[[t.Any], str], *, what: str = "text", unique: bool = True
) -> Callable[[t.Any], tuple[str, ...]]:
    """Make a reader of a list whose items the given reader reads."""

    def read(value: t.Any) -> tuple[str, ...]:
        if not isinstance(value, (list, tuple)):
            raise WrongValueError(f"expected a list of {what}, found {shown(value)}", f"write [{_plain(value)}]")
        if len(value) > MAX_ITEMS:
            raise WrongValueError(f"{len(value)} items are too many", f"at most {MAX_ITEMS}")
        found: list[str] = []
        findings: list[tuple[Keys, str, str]] = []
        for index, raw in enumerate(value):
            try:
                read_item = item(raw)
            except WrongValueError as exc:
                findings += [((index, *keys), message, remedy) for keys, message, remedy in exc.findings]
                continue
            if unique and read_item in found:
                findings.append(((index,), f"{shown(read_item)} is there twice", "remove one of the two"))
            else:
                found.append(read_item)
        if findings:
            raise WrongValueError(findings=findings)
        return tuple(found)

    return read


def read_argument(value: t.Any) -> str:
    """Read one word of a command line; numbers become text."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise WrongValueError(f"expected one word of a command line, found {shown(value)}", "write it in quotes")
    word = str(value)
    if "\n" in word or "\0" in word or len(word) > MAX_TEXT:
        raise WrongValueError(
            f"{shown(word)} cannot stand on a command line", "one short line without control characters"
        )
    if word.startswith("-") and re.match(r"--?[\w-]+\s", word):
        option, rest = word.split(None, 1)
        remedy = f'an item for each word: ["{option}", "{rest}"]'
        raise WrongValueError(f"{shown(word)} is two words in one item; the engine would read them as one", remedy)
    return word


def pairs(name: re.Pattern[str] | None, what: str) -> Callable[[t.Any], dict[str, str]]:
    """Make a reader of a map from names to text; numbers become text, truth values are refused."""

    def read(value: t.Any) -> dict[str, str]:
        if not isinstance(value, dict):
            raise WrongValueError(f"expected a map of {what}, found {shown(value)}", "write {name: value}")
        found: dict[str, str] = {}
        findings: list[tuple[Keys, str, str]] = []
        for raw_key, raw in value.items():
            key = str(raw_key)
            if not key or len(key) > 256 or (name is not None and not name.fullmatch(key)):
                findings.append(((key,), f"{shown(key)} is not a name for {what}", "letters, digits and underscores"))
            elif isinstance(raw, bool):
                remedy = f'write it in quotes, "{shown(raw)}"'
                findings.append(((key,), f"{shown(raw)} without quotes is a truth value, not text", remedy))
            elif not isinstance(raw, (str, int, float)) or "\0" in str(raw) or len(str(raw)) > MAX_TEXT:
                findings.append(((key,), f"expected text, found {shown(raw)}", "write one short text"))
            else:
                found[key] = str(raw)
        if findings:
            raise WrongValueError(findings=findings)
        return found

    return read


def read_compute_cap(value: t.Any) -> ComputeCap | None:
    """Read a compute capability such as 8.9 as (8, 9); 0 is unknown."""
    raw = "" if isinstance(value, bool) or not isinstance(value, (int, float, str)) else str(value)
    match = _CAP.fullmatch(raw)
    if not match:
        raise WrongValueError(f"{shown(value)} is not a compute capability", "write major.minor, such as 8.9")
    cap = (int(match[1]), int(match[2] or 0))
    if cap == (0, 0):
        return None
    if cap[0] >= 20:
        remedy = f"did you mean {raw[0]}.{raw[1]}?" if len(raw) == 2 else "write major.minor, such as 8.9"
        raise WrongValueError(f"{shown(value)} is not a compute capability", remedy)
    if isinstance(value, float) and cap[1] > 9:
        raise WrongValueError(f"{shown(value)} is not a compute capability", 'write it in quotes, such as "8.9"')
    return cap


def duration(*, milliseconds: bool = False, high: int = 366 * 86400) -> Callable[[t.Any], int | None]:
    """Make a reader of durations as people write them (20m, 90s, 1h30m), to whole seconds or to milliseconds."""
    unit = "milliseconds" if milliseconds else "seconds"
    sample = "500ms" if milliseconds else "20m, 90s or 1h30m"
    limit = high * 1000 if milliseconds else high

    def read(value: t.Any) -> int | None:
        if isinstance(value, str) and value:
            match = _DURATION.fullmatch(value.strip().lower().replace(" ", ""))
            if not match or not match[0]:
                raise WrongValueError(f"{shown(value)} is not a duration", f"write it such as {sample}")
            days, hours, minutes, seconds, millis = (int(part or 0) for part in match.groups())
            total = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + millis
            if total % 1000 and not milliseconds:
                raise WrongValueError(f"{shown(value)} is not a whole number of seconds", f"write it such as {sample}")
            value = total if milliseconds else total // 1000
        elif isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise WrongValueError(f"{shown(value)} is not a duration", f"write it such as {sample}")
        if not 0 <= value <= limit:
            raise WrongValueError(f"{shown(value)} {unit} are out of range", f"from 0 to {high // 86400} days")
        return value or None

    return read


def read_source(value: t.Any) -> str:
    """Read where weights come from: an absolute path or a hub id."""
    source = text(None, "a path or a hub id", limit=512)(value)
    if source.startswith("/"):
        if ".." in source.split("/") or not source.isprintable():
            raise WrongValueError(f"{shown(source)} is not a plain absolute path", "write the path without ..")
        return source.rstrip("/") or "/"
    if source.startswith(("~", ".")):
        raise WrongValueError(
            f"{shown(source)} depends on who looks", "write an absolute path or a hub id such as org/name"
        )
    if "://" in source:
        meant = "/".join(source.split("://", 1)[1].split("/")[1:3])
        remedy = f"write the id alone, such as {meant or 'org/name'}"
        raise WrongValueError(f"{shown(source)} is an address, not a hub id", remedy)
    if not _HUB_ID.fullmatch(source) or ".." in source:
        raise WrongValueError(f"{shown(source)} is neither a path nor a hub id", "write /path/to/weights or org/name")
    return source


def _plain(value: t.Any) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else str(value)[:40]
        if isinstance(value, (str, int, float))
        else "..."
    )


_SCALE = whole(-1_000_000, 100_000)

_NAME_RULES = {
    MODEL_NAME: "letters, digits and . _ : @ + - with a letter or digit first, parts joined by /",
    SIMPLE_NAME: "letters, digits and . _ - with a letter or digit at both ends",
    SLUG: "lower case letters, digits and . _ - with a letter or digit at both ends",
    PCI_ID: 'vendor and device in hexadecimal, such as "10de:27b2"',
    URL_PATH: "a path that begins with /, such as /health",
}
