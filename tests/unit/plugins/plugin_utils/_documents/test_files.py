# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import errno
import os

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import (
    FileChange,
    FileError,
    find_changes,
    is_directory,
    is_file,
    list_names,
    preview,
    read_document,
    read_text,
    write_text,
)

RESTORE = "correct it, or restore it from version control or a backup"
CUT = "ends in the middle of a value: it was cut, or is not valid"
CONFLICT = b"---\nversion: 1\n<<<<<<< HEAD\na: 1\n=======\na: 2\n>>>>>>> theirs\n"
TEST_TEXTS = [
    (
        "a.yml",
        b"\xff\xfe plan",
        ":1: is not UTF-8 text; save it as UTF-8, or restore it from version control or a backup",
    ),
    (
        "a.yml",
        b"a: 1\nb: \xff\n",
        ":2: is not UTF-8 text; save it as UTF-8, or restore it from version control or a backup",
    ),
    ("a.yml", b"", f": is empty; {RESTORE}"),
    ("a.json", b" \n", f": is empty; {RESTORE}"),
    ("a.json", b"", f": is empty; {RESTORE}"),
    ("a.yml", b'---\nversion: 1\na:\n  - {"x": 1}\n  - {"x": ', f":6: {CUT} YAML; {RESTORE}"),
    ("a.json", b'{"a": [1,', f":1: {CUT} JSON; {RESTORE}"),
    ("a.json", b'{"a": \n"b', f":2: {CUT} JSON; {RESTORE}"),
    ("a.json", b'{"a": 1,\n "b" 2}', f":2: is not valid JSON: Expecting ':' delimiter; {RESTORE}"),
    ("a.yml", b"a: b: c\n", f":1: is not valid YAML: mapping values are not allowed in this context; {RESTORE}"),
    (
        "a.yml",
        b"a: secret\x01\n",
        f": is not valid YAML: unacceptable character #x0001: control characters are not allowed; {RESTORE}",
    ),
    ("a.yml", b"a: 2020-13-01\n", f": is not valid YAML: month must be in 1..12; {RESTORE}"),
    ("a.yml", b"- a\n", f": does not hold a map; {RESTORE}"),
    ("a.json", b"[1]", f": does not hold a map; {RESTORE}"),
    ("a.json", b"[" * 100_000, f": is nested too deeply; {RESTORE}"),
    (
        "a.yml",
        CONFLICT,
        ":3: has an unresolved merge conflict (<<<<<<< HEAD); resolve it and remove the conflict markers",
    ),
    (
        "a.json",
        b'{\n<<<<<<< HEAD\n "a": 1\n',
        ":2: has an unresolved merge conflict (<<<<<<< HEAD); resolve it and remove the conflict markers",
    ),
]


@pytest.mark.parametrize(("name", "data", "said"), TEST_TEXTS)
def test_what_is_no_document_is_told_with_its_line_and_a_remedy_that_loses_nothing(tmp_path, name, data, said):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(FileError) as caught:
        read_document(path)
    assert caught.value.errors == (f"{path}{said}",)
    assert path.read_bytes() == data


def test_what_is_not_there_is_none(tmp_path):
    assert read_document(tmp_path / "none.yml") is None
    assert read_text(tmp_path / "none/none.yml") is None


def test_documents_are_read_by_the_name_of_their_file(tmp_path):
    (tmp_path / "a.json").write_text('\ufeff{"a": 1}', encoding="utf-8")
    (tmp_path / "a.yml").write_text("\ufeff# by hand\na: 1\n", encoding="utf-8")
    assert read_document(tmp_path / "a.json") == read_document(tmp_path / "a.yml") == {"a": 1}
    (tmp_path / "b.json").write_text("a: 1", encoding="utf-8")
    with pytest.raises(FileError, match="is not valid JSON"):
        read_document(tmp_path / "b.json")


def test_what_is_no_file_is_told(tmp_path):
    def said(path):
        with pytest.raises(FileError) as caught:
            read_text(path)
        return caught.value.errors[0].removeprefix(f"{path}: ")

    (tmp_path / "directory").mkdir()
    assert said(tmp_path / "directory") == "cannot be read: is a directory; put a file of this name in its place"
    (tmp_path / "link").symlink_to("nowhere")
    assert said(tmp_path / "link") == "is a link that leads nowhere; point the link at a real file"
    (tmp_path / "loop").symlink_to("loop")
    assert said(tmp_path / "loop") == "cannot be read: too many levels of symbolic links; point the link at a real file"
    os.mkfifo(tmp_path / "pipe")
    assert said(tmp_path / "pipe") == "is not a regular file; put a file of this name in its place"
    (tmp_path / "file").write_text("")
    assert said(tmp_path / "file/below") == "cannot be read: not a directory; check the path and the file system"
    assert said(tmp_path / "a\0b") == "cannot be read: there is a NUL in its path; check the path and the file system"


def test_no_permission_is_told(tmp_path, monkeypatch):
    def refuse(*_unused):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(
        FileError, match=r"x\.yml: cannot be read: permission denied; give the user who runs this the right"
    ):
        read_text(tmp_path / "x.yml")


class Full:
    """A stream on a disk that is full."""

    def __init__(self, handle, *_unused, **_more):
        os.close(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_unused):
        return False

    def write(self, _text):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_on_a_full_disk_the_old_file_stays_whole_and_is_named(tmp_path, monkeypatch):
    path = tmp_path / "plan.yml"
    path.write_text("old")
    monkeypatch.setattr(os, "fdopen", Full)
    with pytest.raises(FileError) as caught:
        FileChange(path, "old", "new").write()
    assert caught.value.errors == (
        f"{path}: cannot be written: no space left on device; it is as it was before; make room on its disk",
    )
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["plan.yml"]


def test_what_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "directory").mkdir()
    for path in (tmp_path / "file/below", tmp_path / "directory"):
        with pytest.raises(InputError, match=f"{path}: cannot be written: "):
            write_text(path, "new")
    with pytest.raises(InputError, match=f"{tmp_path}/directory: cannot be removed: "):
        FileChange(tmp_path / "directory", "", None).write()
    assert sorted(os.listdir(tmp_path)) == ["directory", "file"]


def test_a_change_makes_its_directory_and_removes_what_is_gone(tmp_path):
    path = tmp_path / "a/b/x.yml"
    FileChange(path, None, "x").write()
    assert path.read_text() == "x"
    assert path.stat().st_mode & 0o777 == 0o644
    FileChange(path, "x", None).write()
    FileChange(path, "x", None).write()
    assert not path.exists()


def test_only_files_that_hold_something_else_change(tmp_path):
    same, other, binary, absent = (tmp_path / name for name in ("same", "other", "binary", "absent"))
    same.write_text("x")
    other.write_text("y")
    binary.write_bytes(b"\xff")
    changes = find_changes(dict.fromkeys((same, other, binary, absent), "x"))
    assert changes == [FileChange(other, "y", "x"), FileChange(binary, "\\xff", "x"), FileChange(absent, None, "x")]
    with pytest.raises(InputError, match="cannot be read: is a directory"):
        find_changes({tmp_path: "x"})


def test_a_preview_leaves_files_as_they_are_and_reads_what_was_written(tmp_path):
    folder, beside = tmp_path / "knaster", tmp_path / "preview"
    folder.mkdir()
    for name in ("changed", "removed", "again", "kept"):
        (folder / name).write_text("before")
    before = {path.name: path.read_text() for path in folder.iterdir()}
    changes = [
        FileChange(folder / "changed", "before", "after"),
        FileChange(folder / "removed", "before", None),
        FileChange(folder / "again", "before", None),
        FileChange(folder / "deep/new", None, "after"),
    ]
    with preview(beside):
        for change in changes:
            change.write()
        write_text(folder / "again", "after")
        assert [read_text(folder / name) for name in ("changed", "removed", "again", "kept", "deep/new")] == [
            "after",
            None,
            "after",
            "before",
            "after",
        ]
        assert list_names(folder) == ["again", "changed", "deep", "kept"]
        assert list_names(folder / "deep") == ["new"]
        assert [is_file(folder / name) for name in ("removed", "again", "deep/new", "kept", "deep")] == [
            False,
            True,
            True,
            True,
            False,
        ]
        assert is_directory(folder / "deep")
        assert find_changes({folder / "changed": "after"}) == []
        assert [change.before for change in find_changes({folder / "removed": "x"})] == [None]
    # A preview that is over is not seen, and one that goes on is.
    assert {path.name: path.read_text() for path in folder.iterdir()} == before
    assert read_text(folder / "changed") == "before"
    assert list_names(folder) == ["again", "changed", "kept", "removed"]
    assert not is_directory(folder / "deep")
    with preview(beside):
        assert read_text(folder / "changed") == "after"


def test_a_preview_of_an_empty_place(tmp_path):
    with preview(tmp_path / "preview"):
        assert read_text(tmp_path / "nothing") is None
        with pytest.raises(FileError, match="no such file or directory"):
            list_names(tmp_path / "nothing")
        FileChange(tmp_path / "nothing", "x", None).write()
        write_text(tmp_path / "dir/file", "x")
        assert list_names(tmp_path / "dir") == ["file"]
    assert not (tmp_path / "dir").exists()
