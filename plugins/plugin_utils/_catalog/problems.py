# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What is wrong in a catalog, as values: each problem knows its place and what would be right."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import (
    MAX_VIOLATIONS,
    Keys,
    format_path,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import plural

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ERROR = "error"
WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in a file; line and column count from 1."""

    file: str | None = None
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)


class Origin(t.Protocol):
    """Where one entry of a list stands: the place of anything inside it, by the files that it was written in."""

    def locate(self, keys: Keys, *, key: bool = False) -> tuple[int | None, Place]:
        """Return where the value (or its key) at these keys stands, or the nearest thing that exists.

        :return: the index of the entry in the list of that file (None where it stands in no list), and the place
        """


Places = t.Mapping[str, "Sequence[Origin]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One finding: what is wrong where, and what would be right."""

    severity: str
    code: str
    path: str
    message: str
    remedy: str
    entry: str | None = None
    place: Place = field(default_factory=Place)

    def __str__(self) -> str:
        path = f"{self.path} ({self.entry})" if self.entry and self.path else self.path or self.entry
        text = f"{self.message}; {self.remedy}" if self.remedy else self.message
        return ": ".join(part for part in (str(self.place), path, text) if part)


class CatalogError(InputError):
    """A catalog that cannot be used, with every problem that was found; ``errors`` has the texts of the errors."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__([str(problem) for problem in self.problems if problem.severity == ERROR])

    def __str__(self) -> str:
        files = {one.place.file for one in self.problems if one.place.file and one.severity == ERROR}
        told = plural(len(self.errors), "error") + (f" in {plural(len(files), 'file')}" if files else "")
        warnings = len(self.problems) - len(self.errors)
        told += f", {plural(warnings, 'warning')}" if warnings else ""
        return "\n".join([*self.errors, f"The catalog has {told}."])


class TooManyError(Exception):
    """More problems than anybody reads."""


@dataclass(slots=True, kw_only=True)
class Entry:
    """One entry while it is checked: it collects problems and remembers which keys cannot be relied on."""

    section: str
    index: int | None
    label: str
    origin: Origin | None = None
    profiles: tuple[str | None, ...] = ()
    problems: list[Problem] = field(default_factory=list)
    failed: set[Keys] = field(default_factory=set)
    left: list[int] = field(default_factory=lambda: [MAX_VIOLATIONS])

    def error(self, code: str, keys: Keys, message: str, remedy: str, *, key: bool = False) -> None:
        """Add an error at these keys."""
        self.failed.add(keys)
        self._add(ERROR, code, keys, message, remedy, key=key)

    def warn(self, code: str, keys: Keys, message: str, remedy: str) -> None:
        """Add a warning at these keys."""
        self._add(WARNING, code, keys, message, remedy)

    def good(self, *paths: Keys) -> bool:
        """Return whether nothing at, below or above these keys was found wrong so far."""
        return not self.failed or not any(
            path[: len(failed)] == failed or failed[: len(path)] == path for path in paths for failed in self.failed
        )

    def where(self, keys: Keys = ()) -> str:
        """Return how another message names this place."""
        return str(self.origin.locate(keys)[1]) if self.origin else self._path(self.index, keys)

    def _path(self, index: int | None, keys: Keys) -> str:
        return format_path((self.section, *(() if index is None else (index,)), *keys))

    def _profile(self, keys: Keys) -> str | None:
        """Return the name of the profile that these keys lead into."""
        section, number = (*keys, None, None)[:2]
        known = section == "profiles" and isinstance(number, int) and number < len(self.profiles)
        return self.profiles[t.cast("int", number)] if known else None

    def _add(self, severity: str, code: str, keys: Keys, message: str, remedy: str, *, key: bool = False) -> None:
        self.left[0] -= 1
        if self.left[0] < 0:
            raise TooManyError
        index, place = self.origin.locate(keys, key=key) if self.origin else (self.index, Place())
        profile = self._profile(keys)
        self.problems.append(
            Problem(
                severity=severity,
                code=code,
                path=self._path(index, keys),
                message=message,
                remedy=remedy,
                entry=f"{self.label}, profile {profile}" if profile else self.label,
                place=place,
            )
        )
