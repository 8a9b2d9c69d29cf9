# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Words for people and names for machines: order, numbers, sizes, durations, labels, suggestions. Imports nothing of ours."""

from __future__ import annotations

import difflib
import hashlib
import re
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_DIGITS = re.compile(r"(\d+)")
# How many names of roles a sentence lists before it only counts the rest.
_LISTED = 3
MAX_LABEL = 63
_NOT_IN_LABEL = re.compile(r"[^a-z0-9]+")

NaturalKey = tuple[tuple[str | int, ...], str]


def natural_key(name: str) -> NaturalKey:
    """A sort key in which runs of digits count as numbers; equal readings (1 and 01) fall back to the text itself."""
    parts: list[str | int] = list(_DIGITS.split(name))
    for at in range(1, len(parts), 2):
        parts[at] = int(parts[at])
    return tuple(parts), name


def size_text(size: float) -> str:
    """A size without a needless fraction."""
    return f"{size:g}" if size == int(size) or size >= 1000 else f"{round(size, 1):g}"


def listing(names: Iterable[str]) -> str:
    """Names in a sentence, the first few of them."""
    known = list(names)
    if len(known) > _LISTED:
        return f"{', '.join(known[:_LISTED])} and {len(known) - _LISTED} more"
    return " and ".join([", ".join(known[:-1]), known[-1]] if len(known) > 1 else known)


def plural(count: int, one: str, many: str | None = None) -> str:
    """A number with its noun."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """A duration in words that a person takes in at a glance."""
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            return plural(int(seconds // size), unit)
    return plural(int(seconds), "second")


def short_hash(text: str, digits: int = 6) -> str:
    """Return a hash that tells names apart which would otherwise look the same."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


def dns_label(name: str) -> str:
    """Return a name as a DNS label; one that had to be cut ends in a hash, so that long names do not meet."""
    label = _NOT_IN_LABEL.sub("-", name.lower()).strip("-")
    if not label:
        return f"vm-{short_hash(name)}"
    if len(label) > MAX_LABEL:
        label = f"{label[: MAX_LABEL - 7].rstrip('-')}-{short_hash(name)}"
    return label


def shorten(text: str, limit: int = 80) -> str:
    """Return the text on one line, printable and not longer than the limit."""
    clean = text if text.isprintable() else ascii(text)[1:-1]
    return clean if len(clean) <= limit else f"{clean[: limit - 3]}..."


def shown(value: t.Any) -> str:
    """Return how a wrong value is named in a message."""
    if isinstance(value, str):
        return f'"{shorten(value)}"'
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, (list, tuple)):
        return "a list"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return shorten(str(value)) if isinstance(value, (int, float)) else f"a {type(value).__name__}"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant, or None where none is near."""
    names = {name.lower().replace("-", "_"): name for name in sorted(known, reverse=True)}
    found = difflib.get_close_matches(word.lower().replace("-", "_")[:100], names, n=1, cutoff=0.6)
    return names[found[0]] if found else None


def suggest(word: str, known: Iterable[str] | Mapping[str, t.Any], *, limit: int = 12) -> str:
    """Return a remedy: the nearest known word, or the known words where there are few."""
    names = list(known)
    if meant := nearest(word, names):
        return f"did you mean {meant}?"
    if 0 < len(names) <= limit:
        return f"known: {', '.join(names)}"
    return "it must be one that exists"
