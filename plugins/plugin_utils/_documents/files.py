# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Files of documents: one way to read them and one to write them, each with one wording for what goes wrong.

What cannot be read is told with a remedy that loses nothing. What is written is there whole or not at all.
"""

from __future__ import annotations

import contextlib
import contextvars
import errno
import os
import re
import stat
import tempfile
import typing as t
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.yaml_text import (
    DocumentError,
    load_document,
    load_json,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import shorten

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# What to do about a text that is not right: nothing that would lose what is in it.
_RESTORE = "restore it from version control or a backup"
_REMEDIES: Mapping[int, str] = {
    errno.EACCES: "give the user who runs this the right to do so",
    errno.EPERM: "give the user who runs this the right to do so",
    errno.EISDIR: "put a file of this name in its place",
    errno.ENOENT: "check the path",
    errno.ENAMETOOLONG: "check the path",
    errno.ELOOP: "point the link at a real file",
    errno.ENOSPC: "make room on its disk",
    errno.EDQUOT: "make room in the quota of the user who runs this",
}
# Where files are written in place of where they belong; None writes them.
_PREVIEW: contextvars.ContextVar[Path | None] = contextvars.ContextVar("preview", default=None)
_CONFLICT = re.compile(r"^<{7}(?:[ \t].*)?$", re.MULTILINE)


def file_stem(name: str) -> str:
    """Return the name of a file for a name from data; different names give different files.

    What could leave the directory, hide the file or need quoting is percent-encoded.
    """
    encoded = quote(name, safe="")
    return "%2E" + encoded[1:] if encoded.startswith(".") else encoded


class FileError(InputError):
    """A file that cannot be read or written: what is wrong, the line where there is one, and what to do."""

    def __init__(self, path: Path | str, message: str, remedy: str, *, line: int | None = None) -> None:
        super().__init__([f"{path}{'' if line is None else f':{line}'}: {message}; {remedy}"])
        self.message, self.remedy, self.line = message, remedy, line


@contextlib.contextmanager
def preview(directory: Path) -> Iterator[None]:
    """Leave files as they are: what is written meanwhile lands below a directory, and is read from there.

    That is how the tasks of a run in check mode hand over to each other what they would have written.
    """
    token = _PREVIEW.set(directory)
    try:
        yield
    finally:
        _PREVIEW.reset(token)


def _written(path: Path) -> Path:
    """Return where a file is written."""
    directory = _PREVIEW.get()
    return path if directory is None else directory / "written" / path.absolute().relative_to(path.absolute().anchor)


def _removed(path: Path) -> Path:
    """Return the file that says in a preview that a file was removed, or the directory of such files."""
    directory = _PREVIEW.get() or Path(os.devnull)
    return directory / "removed" / path.absolute().relative_to(path.absolute().anchor)


def _is_removed(path: Path) -> bool:
    return _PREVIEW.get() is not None and os.path.isfile(_removed(path))


def read_text(path: Path, *, limit: int | None = None) -> str | None:
    """Return a file's text, or None where there is no such file.

    :param limit: how many bytes it may have; of a larger one not more than that is read
    :raises FileError: when it cannot be read
    """
    data = _read_bytes(path, limit)
    if data is not None and limit is not None and len(data) > limit:
        raise FileError(path, f"is larger than {limit >> 20} MiB", "check what this file is")
    try:
        return None if data is None else data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = exc.object.count(b"\n", 0, exc.start) + 1
        raise FileError(path, "is not UTF-8 text", f"save it as UTF-8, or {_RESTORE}", line=line) from exc


def _read_bytes(path: Path, limit: int | None = None) -> bytes | None:
    if _PREVIEW.get() is not None:
        if os.path.isfile(_written(path)):
            path = _written(path)
        elif _is_removed(path):
            return None
    try:
        # Without O_NONBLOCK opening a named pipe would wait for its other end.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
            if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                return stream.read(-1 if limit is None else limit + 1)
        raise FileError(path, "is not a regular file", "put a file of this name in its place")
    except FileNotFoundError:
        if not path.is_symlink():
            return None
        raise FileError(path, "is a link that leads nowhere", "point the link at a real file") from None
    except (OSError, ValueError) as exc:
        if isinstance(exc, FileError):
            raise
        raise FileError(path, *_explain(exc, "read")) from exc


def list_names(directory: Path) -> list[str]:
    """Return the names of what is in a directory, in order.

    :raises FileError: when it cannot be read
    """
    try:
        if _PREVIEW.get() is None:
            return sorted(os.listdir(directory))
        removed = {*_names(_removed(directory))} - {*_names(_written(directory))}
        added = _names(_written(directory))
        there = _names(directory) if added else os.listdir(directory)
        return sorted({*there, *added} - removed)
    except (OSError, ValueError) as exc:
        raise FileError(directory, *_explain(exc, "read")) from exc


def _names(directory: Path) -> list[str]:
    return os.listdir(directory) if os.path.isdir(directory) else []


def is_directory(path: Path) -> bool:
    """Return whether there is such a directory, which may be at the end of a link."""
    return os.path.isdir(path) or os.path.isdir(_written(path))


def is_file(path: Path) -> bool:
    """Return whether there is such a file, which may be at the end of a link."""
    return os.path.isfile(_written(path)) or (os.path.isfile(path) and not _is_removed(path))


def _explain(exc: OSError | ValueError, done: str) -> tuple[str, str]:
    """Return why a file cannot be read or written, and what to do."""
    code = exc.errno if isinstance(exc, OSError) else None
    # A ValueError is a NUL in the path, which each Python words in its own way.
    told = (exc.strerror or type(exc).__name__).lower() if isinstance(exc, OSError) else "there is a NUL in its path"
    return f"cannot be {done}: {told}", _REMEDIES.get(code or 0, "check the path and the file system")


def read_document(path: Path) -> dict[str, t.Any] | None:
    """Return the document of a file, or None where there is no such file. Only that it is a mapping is known of it.

    :raises FileError: when it cannot be read
    """
    text = read_text(path)
    return None if text is None else parse_document(text, path)


def parse_document(text: str, path: Path) -> dict[str, t.Any]:
    """Return the document of a text that was read from a file: JSON or YAML by the name of the file.

    :raises FileError: when the text is no document, with the line
    """
    try:
        return load_json(text) if path.suffix == ".json" else load_document(text)
    except DocumentError as exc:
        if conflict := _CONFLICT.search(text):
            line = text.count("\n", 0, conflict.start()) + 1
            message = f"has an unresolved merge conflict ({shorten(conflict.group())})"
            raise FileError(path, message, "resolve it and remove the conflict markers", line=line) from exc
        raise FileError(path, str(exc), f"correct it, or {_RESTORE}", line=exc.line) from exc


def write_text(path: Path, text: str) -> None:
    """Put a text in place at once, with its directory: a reader sees the old file or the new one.

    :raises FileError: when it cannot be written; the old file is then untouched
    """
    temporary, told = None, path
    path = _written(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except (OSError, UnicodeEncodeError) as exc:
        message, remedy = _explain(exc, "written")
        raise FileError(told, message, f"it is as it was before; {remedy}") from exc
    finally:
        if temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that does not hold what it should. None is no file: before it is made, after it is removed."""

    path: Path
    before: str | None
    after: str | None

    def write(self) -> None:
        """Put it in place.

        :raises FileError: when it cannot be written
        """
        if self.after is not None:
            write_text(self.path, self.after)
            return
        try:
            _written(self.path).unlink(missing_ok=True)
            if _PREVIEW.get() is not None:
                _removed(self.path).parent.mkdir(parents=True, exist_ok=True)
                _removed(self.path).touch()
        except OSError as exc:
            raise FileError(self.path, *_explain(exc, "removed")) from exc

    def diff(self) -> dict[str, str]:
        """Return what ``--diff`` shows of it."""
        header = {"before_header": str(self.path), "after_header": str(self.path)}
        return {"before": self.before or "", "after": self.after or "", **header}


def find_changes(texts: Mapping[Path, str]) -> list[FileChange]:
    """Return the files that do not hold these texts yet; what is there and is not text is replaced.

    :raises FileError: when one cannot be read
    """
    found = {path: (_read_bytes(path), after) for path, after in texts.items()}
    return [
        FileChange(path, None if before is None else before.decode("utf-8", "backslashreplace"), after)
        for path, (before, after) in found.items()
        if before != after.encode("utf-8", "surrogatepass")
    ]
