# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import (
    FileError,
    file_stem,
    read_text,
    write_text,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.profiles import (
    dump_profile,
    list_strays,
    load_profiles,
    profile_path,
    unreachable_profile,
)

TEST_STEMS = [
    ("pve-1.example", "pve-1.example"),
    ("../../etc/passwd", "%2E.%2F..%2Fetc%2Fpasswd"),
    ("..", "%2E."),
    (".hidden", "%2Ehidden"),
    ("a/b", "a%2Fb"),
    ("a%2Fb", "a%252Fb"),
    ("a\nb", "a%0Ab"),
    ("-rf", "-rf"),
]


@pytest.mark.parametrize(("name", "stem"), TEST_STEMS)
def test_a_name_from_data_stays_in_its_directory(tmp_path, name, stem):
    assert file_stem(name) == stem
    path = profile_path(tmp_path, name)
    assert path.resolve().parent == tmp_path.resolve()


def test_profiles_are_read_in_the_order_of_the_names(tmp_path):
    for name in ("b", "a"):
        write_text(profile_path(tmp_path, name), dump_profile({"name": name, "gpus": []}))
    assert load_profiles(tmp_path, ["b", "new", "a"], []) == [
        {"name": "b", "gpus": []},
        {"name": "new", "gpus": None, "state": "unreachable"},
        {"name": "a", "gpus": []},
    ]


def test_every_file_that_is_wrong_is_named_at_once(tmp_path):
    profile_path(tmp_path, "cut").write_text('{"name": "cut"')
    profile_path(tmp_path, "other").write_text('{"name": "cut"}')
    profile_path(tmp_path, "list").write_text("[]")
    profile_path(tmp_path, "folder").mkdir()
    profile_path(tmp_path, "good").write_text('{"name": "good"}')
    errors = []
    assert load_profiles(tmp_path, ["cut", "other", "list", "good", "folder"], errors) == [{"name": "good"}]
    assert [error.partition(":")[0] for error in errors] == [
        str(profile_path(tmp_path, name)) for name in ("cut", "other", "list", "folder")
    ]
    assert "is not the profile of other; restore it, or remove it and collect the node" in errors[1]


def test_profiles_of_nodes_outside_the_inventory_are_found(tmp_path):
    for name in ("n10", "n2", "../x", ".hidden"):
        profile_path(tmp_path, name).write_text("{}")
    (tmp_path / ".digests.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("")
    assert list_strays(tmp_path, ["n2", ".hidden"]) == ["%2E.%2Fx.json", "n10.json"]
    assert list_strays(tmp_path / "none", ["n2"]) == []


def test_an_unreachable_node_keeps_what_was_last_known():
    last = {"name": "a", "gpus": [{"index": 0}], "state": "ready"}
    assert unreachable_profile("a", last) == {"name": "a", "gpus": [{"index": 0}], "state": "unreachable"}
    assert last["state"] == "ready"
    assert unreachable_profile("a") == {"name": "a", "gpus": None, "state": "unreachable"}


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a.json"
    write_text(path, "old")
    with pytest.raises(FileError, match="cannot be written"):
        write_text(path, "new \ud800")
    assert read_text(path) == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["a.json"]
    write_text(path, "new")
    assert (read_text(path), path.stat().st_mode & 0o777) == ("new", 0o644)
    assert read_text(tmp_path / "none") is None


def test_a_profile_is_plain_json():
    assert json.loads(dump_profile({"name": "ä", "gpus": None})) == {"name": "ä", "gpus": None}
