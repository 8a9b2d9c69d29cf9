# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
spec = importlib.util.spec_from_file_location("coverage_rooms", ROOT / "tools/coverage_rooms.py")
coverage_rooms = sys.modules["coverage_rooms"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(coverage_rooms)
Room = coverage_rooms.Room


def file(statements, lines, branches, taken):
    return {
        "summary": {
            "num_statements": statements,
            "covered_lines": lines,
            "num_branches": branches,
            "covered_branches": taken,
        }
    }


REPORT = {
    "meta": {"branch_coverage": True},
    "files": {
        "plugins/module_utils/_parsers/lscpu.py": file(10, 10, 4, 3),
        "plugins/module_utils/_parsers/deep/er.py": file(6, 6, 0, 0),
        "plugins/module_utils/_gather.py": file(8, 8, 2, 2),
        "plugins/module_utils/_weights.py": file(8, 4, 2, 0),
        "plugins/plugin_utils/_catalog/_check.py": file(1, 1, 0, 0),
        "plugins/filter/plan.py": file(0, 0, 0, 0),
    },
}
ROOMS = {
    "plugins/module_utils/_parsers": Room(20, 19),
    "plugins/module_utils": Room(20, 14),
    "plugins/plugin_utils/_catalog": Room(1, 1),
    "plugins/filter": Room(0, 0),
}


def test_a_folder_is_a_room_and_so_are_the_single_files_beside_it():
    assert coverage_rooms.read_rooms(REPORT) == ROOMS


def test_a_report_without_branches_is_none():
    with pytest.raises(ValueError, match="branch = true"):
        coverage_rooms.read_rooms({**REPORT, "meta": {"branch_coverage": False}})


@pytest.mark.parametrize(("floor", "errors"), [(95, 0), (95.1, 1)])
def test_a_room_must_reach_its_floor(floor, errors):
    floors = dict.fromkeys(ROOMS, 0) | {"plugins/module_utils/_parsers": floor}
    found = coverage_rooms.find_errors(ROOMS, floors)
    assert found == ["plugins/module_utils/_parsers is covered to 95.0 %, below its floor of 95.1 %"][:errors]


def test_a_room_without_a_floor_and_a_floor_without_a_room_are_errors():
    floors = dict.fromkeys(ROOMS, 0)
    del floors["plugins/filter"]
    found = coverage_rooms.find_errors(ROOMS, {**floors, "plugins/gone": 90})
    assert [error.partition(" has ")[0] for error in found] == ["plugins/filter", "plugins/gone"]


def test_the_floors_anew_hold():
    text = coverage_rooms.format_floors(ROOMS)
    floors = tomllib.loads(text)["tool"]["knaster"]["coverage-floors"]
    assert floors["plugins/module_utils"] == 69
    assert coverage_rooms.find_errors(ROOMS, floors) == []


def test_every_room_of_the_project_has_a_floor():
    paths = [path.relative_to(ROOT).as_posix() for path in (ROOT / "plugins").rglob("*.py")]
    rooms = {coverage_rooms.room_of(path): Room(1, 1) for path in paths}
    del rooms["plugins/doc_fragments"]  # texts, which coverage.py is told to leave out
    assert coverage_rooms.find_errors(rooms, coverage_rooms.read_floors(ROOT / "pyproject.toml")) == []


def test_the_program_ends_with_1_below_a_floor(tmp_path):
    report = tmp_path / "coverage.json"
    report.write_text('{"meta": {"branch_coverage": true}, "files": {}}')
    done = subprocess.run(
        [sys.executable, ROOT / "tools/coverage_rooms.py", report], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "coverage: plugins/filter has a floor" in done.stderr
