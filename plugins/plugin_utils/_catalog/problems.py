# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What is wrong in a catalog, as values: each problem knows its place and what would be right."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import shorten

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ERROR = "error"
WARNING = "warning"

Keys = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in a file; line and column count from 1."""

    file: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)


class Origin(t.Protocol):
    """Where one entry of a list stands: its index in its own file, and the place of anything inside it."""

    @property
    def index(self) -> int | None:
        """The index of the entry in the list of its file; None where it stands in no list."""

    def place(self, keys: Keys, *, key: bool = False) -> Place:
        """Return the place of the value (or of its key) at these keys, or of the nearest thing that exists."""


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
    file: str | None = None
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        path = f"{self.path} ({self.entry})" if self.entry and self.path else self.path or self.entry
        text = f"{self.message}; {self.remedy}" if self.remedy else self.message
        return ": ".join(part for part in (place, path, text) if part)

    def as_dict(self) -> dict[str, t.Any]:
        """Return the finding as plain data, with its text; what is unknown is left out."""
        keys = ("severity", "code", "file", "line", "column", "path", "entry", "message", "remedy")
        found = {key: getattr(self, key) for key in keys}
        return {key: value for key, value in found.items() if value is not None} | {"text": str(self)}


class CatalogError(Exception):
    """A catalog that cannot be used, with every problem that was found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        self.errors = tuple(problem for problem in self.problems if problem.severity == ERROR)
        super().__init__(self.errors)

    def __str__(self) -> str:
        return "\n".join([*(str(problem) for problem in self.errors), self.summary])

    @property
    def summary(self) -> str:
        """One line with the count."""
        return summary_line(self.problems)


def summary_line(problems: Iterable[Problem]) -> str:
    """Return one line that counts errors, warnings and files."""
    found = tuple(problems)
    errors = sum(problem.severity == ERROR for problem in found)
    files = {problem.file for problem in found if problem.file and problem.severity == ERROR}
    text = f"{errors} error{'' if errors == 1 else 's'}"
    if files:
        text += f" in {len(files)} file{'' if len(files) == 1 else 's'}"
    if warnings := len(found) - errors:
        text += f", {warnings} warning{'' if warnings == 1 else 's'}"
    return f"The catalog has {text}."


def format_path(section: str, index: int | None, keys: Keys = ()) -> str:
    """Return a path as people read it: ``models[3].profiles[0].tp``."""
    path = section if index is None else f"{section}[{index}]"
    for key in keys:
        path += f"[{key}]" if isinstance(key, int) else f".{shorten(key)}"
    return path
