# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Files that the controller writes: named after data without leaving their directory, whole or not at all."""

from __future__ import annotations

import os
import tempfile
import typing as t
from dataclasses import dataclass
from urllib.parse import quote

if t.TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def file_stem(name: str) -> str:
    """Return the name of a file for a name from data; different names give different files.

    What could leave the directory, hide the file or need quoting is percent-encoded.
    """
    encoded = quote(name, safe="")
    return "%2E" + encoded[1:] if encoded.startswith(".") else encoded


def read_text(path: Path) -> str | None:
    """Return a file's text, or None where there is no such file."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def write_text(path: Path, text: str) -> None:
    """Put a text in place at once: a reader sees the old file or the new one.

    :raises OSError: when it cannot be written; the old file is then untouched
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that does not hold what it should. None is no file: before it is made, after it is removed."""

    path: Path
    before: str | None
    after: str | None

    def write(self) -> None:
        """Put it in place, with its directory.

        :raises OSError: when it cannot be written
        """
        if self.after is None:
            self.path.unlink(missing_ok=True)
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_text(self.path, self.after)

    def diff(self) -> dict[str, str]:
        """What ``--diff`` shows of it."""
        header = {"before_header": str(self.path), "after_header": str(self.path)}
        return {"before": self.before or "", "after": self.after or "", **header}


def find_changes(texts: Mapping[Path, str]) -> list[FileChange]:
    """Return the files that do not hold these texts yet."""
    return [FileChange(path, before, after) for path, after in texts.items() if (before := _held(path)) != after]


def _held(path: Path) -> str | None:
    """What a file holds; what is no text is replaced whatever it is."""
    try:
        return read_text(path)
    except UnicodeDecodeError:
        return ""
