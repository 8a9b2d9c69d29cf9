# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Print how much of each room the tests run, and end with 1 where one is below its floor.

``python tools/coverage_rooms.py COVERAGE.json`` reads what ``pytest --cov --cov-report=json:COVERAGE.json`` wrote, and the
floors in ``pyproject.toml``. A room is a folder below ``plugins``, and below ``plugins/module_utils`` and
``plugins/plugin_utils`` each folder in them; the single files of a folder are one room. What counts is the share of
statements and branches together, as coverage.py counts it. ``--floors`` prints the floors anew, to be put into
``pyproject.toml``: half a point below what was measured, for random inputs do not always take the same ways.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tomllib
import typing as t
from pathlib import Path, PurePosixPath

SHARED = ("module_utils", "plugin_utils")
TABLE = "tool.knaster.coverage-floors"
SLACK = 0.5


class Room(t.NamedTuple):
    """What there is to run in a room and what was run of it: statements and branches together."""

    total: int
    covered: int

    @property
    def percent(self) -> float:
        """The share that was run; a room without anything to run is whole."""
        return 100 * self.covered / self.total if self.total else 100.0


def room_of(path: str) -> str:
    """Return the room of a file below ``plugins``."""
    parts = PurePosixPath(path).parts
    return "/".join(parts[: 3 if parts[1] in SHARED and len(parts) > 3 else 2])


def read_rooms(report: t.Mapping[str, t.Any]) -> dict[str, Room]:
    """Return the rooms of a JSON report of coverage.py by their names; raise ValueError where it has no branches."""
    if not report["meta"]["branch_coverage"]:
        raise ValueError("the report has no branches; coverage.py must run with branch = true")
    rooms: dict[str, Room] = {}
    for path, file in sorted(report["files"].items()):
        have, own = rooms.get(room_of(path), Room(0, 0)), file["summary"]
        rooms[room_of(path)] = Room(
            have.total + own["num_statements"] + own["num_branches"],
            have.covered + own["covered_lines"] + own["covered_branches"],
        )
    return rooms


def find_errors(rooms: t.Mapping[str, Room], floors: t.Mapping[str, float]) -> list[str]:
    """List what is wrong: a room below its floor, a room without one, and a floor without a room."""
    errors = []
    for name in sorted({*rooms, *floors}):
        if name not in floors:
            errors.append(f"{name} has no floor in [{TABLE}] of pyproject.toml; --floors prints all floors anew")
        elif name not in rooms:
            errors.append(
                f"{name} has a floor in [{TABLE}] of pyproject.toml and is not in the report; remove it there"
            )
        elif rooms[name].percent < floors[name]:
            errors.append(f"{name} is covered to {rooms[name].percent:.1f} %, below its floor of {floors[name]} %")
    return errors


def format_rooms(rooms: t.Mapping[str, Room], floors: t.Mapping[str, float]) -> str:
    """Return the rooms as a table."""
    width = max(map(len, rooms), default=0)
    lines = [f"{'ROOM':<{width}}  COVERED  FLOOR  NOT RUN"]
    for name, room in sorted(rooms.items()):
        floor = floors.get(name, "-")
        lines.append(f"{name:<{width}}  {room.percent:6.1f}%  {floor!s:>5}  {room.total - room.covered:7d}")
    return "\n".join(lines)


def format_floors(rooms: t.Mapping[str, Room]) -> str:
    """Return the table of floors as it stands in ``pyproject.toml``."""
    lines = [f'"{name}" = {max(0, math.floor(room.percent - SLACK))}' for name, room in sorted(rooms.items())]
    return "\n".join([f"[{TABLE}]", *lines])


def read_floors(path: Path) -> dict[str, float]:
    """Return the floors that a ``pyproject.toml`` has, by room."""
    found: t.Any = tomllib.loads(path.read_text(encoding="utf-8"))
    for key in TABLE.split("."):
        found = found.get(key, {})
    return t.cast("dict[str, float]", found)


def main() -> int:
    parser = argparse.ArgumentParser(description="Coverage by room.")
    parser.add_argument("report", type=Path, help="the JSON report of coverage.py")
    parser.add_argument("--floors", action="store_true", help="print the floors anew")
    given = parser.parse_args()
    rooms = read_rooms(json.loads(given.report.read_text(encoding="utf-8")))
    if given.floors:
        print(format_floors(rooms))
        return 0
    floors = read_floors(Path(__file__).resolve().parents[1] / "pyproject.toml")
    print(format_rooms(rooms, floors))
    errors = find_errors(rooms, floors)
    for error in errors:
        print(f"coverage: {error}", file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
