# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Catalog directories to plain lists, the later directory winning, with the place of everything in them."""

from __future__ import annotations

import os
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import SECTIONS, examine_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import (
    ERROR,
    WARNING,
    CatalogError,
    Place,
    Problem,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.yaml_file import CatalogFile, NodeOrigin
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import FileError, list_names, read_text
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import nearest, shorten

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Catalog

MAX_BYTES = 4 * 1024 * 1024


@dataclass(slots=True, kw_only=True)
class LoadedCatalog:
    """What the files of a catalog say, not yet checked."""

    sections: dict[str, list[t.Any]] = field(default_factory=lambda: {name: [] for name in SECTIONS})
    places: dict[str, list[NodeOrigin]] = field(default_factory=lambda: {name: [] for name in SECTIONS})
    sources: dict[str, dict[str, dict[str, t.Any]]] = field(default_factory=lambda: {name: {} for name in SECTIONS})
    problems: list[Problem] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What could be read of a catalog, where each of its entries stands, and what is wrong or worth a look."""

    catalog: Catalog
    sources: dict[str, dict[str, dict[str, t.Any]]]
    problems: list[Problem]


def read_catalog(directories: Sequence[str]) -> Examined:
    """Return the catalog of these directories, the later ones winning by name; its problems are warnings only.

    :raises CatalogError: with every problem, when one of them is an error
    """
    found = examine_directories(directories)
    if any(problem.severity == ERROR for problem in found.problems):
        raise CatalogError(found.problems)
    return found


def examine_directories(directories: Sequence[str], *, nodes: Sequence[t.Any] = ()) -> Examined:
    """Return what could be read of these directories, and every problem in the order of the files."""
    loaded = load_catalog(directories)
    catalog, problems = examine_catalog(loaded.sections, places=loaded.places, missing=loaded.missing, nodes=nodes)
    problems = [*loaded.problems, *problems]
    files = {file: number for number, file in enumerate(dict.fromkeys(problem.place.file for problem in problems))}
    problems.sort(key=lambda one: (files[one.place.file], one.place.line or 0, one.place.column or 0))
    return Examined(catalog=catalog, sources=loaded.sources, problems=problems)


def load_catalog(directories: Sequence[str]) -> LoadedCatalog:
    """Read the files of these directories into one list a section; what is wrong with a file is among the problems."""
    loaded = LoadedCatalog()
    defaults: dict[str, t.Any] = {}
    if not directories:
        message, remedy = "no directory was named", "name the directory of a catalog"
        loaded.problems.append(Problem(severity=ERROR, code="no_files", path="", message=message, remedy=remedy))
    for directory in directories:
        files = _find_files(directory, loaded)
        for section in SECTIONS:
            if section in files:
                defaults |= _load_section(section, files[section], loaded)
    _apply_defaults(loaded, defaults)
    return loaded


def _load_section(section: str, file: str, loaded: LoadedCatalog) -> dict[str, t.Any]:
    """Add the entries of one file to a section; an entry of the same name from an earlier directory gives way."""
    try:
        text = read_text(Path(file), limit=MAX_BYTES) or ""
    except FileError as exc:
        loaded.problems.append(_file_problem(file, exc.message, exc.remedy, line=exc.line))
        loaded.missing.add(section)
        return {}
    document = CatalogFile(file, text)
    entries, defaults = document.entries(section)
    loaded.problems += document.problems
    if document.broken:
        loaded.missing.add(section)
    earlier = {name: dict(source) for name, source in loaded.sources[section].items()}
    for raw, origin in entries:
        name = raw.get("name") if isinstance(raw, dict) else None
        _index, place = origin.locate(("name",))
        source: dict[str, t.Any] = {"file": file, "line": place.line}
        if isinstance(name, str) and name in earlier:
            replaced = earlier.pop(name)
            source["replaces"] = [*replaced.pop("replaces", ()), f"{replaced['file']}:{replaced['line']}"]
            position = next(
                index
                for index, other in enumerate(loaded.sections[section])
                if isinstance(other, dict) and other.get("name") == name
            )
            loaded.sections[section][position] = raw
            loaded.places[section][position] = origin
        else:
            loaded.sections[section].append(raw)
            loaded.places[section].append(origin)
            if isinstance(name, str) and name in loaded.sources[section]:
                continue  # a second one in the same file is reported when the catalog is checked
        if isinstance(name, str):
            loaded.sources[section][name] = source
    return defaults


def _apply_defaults(loaded: LoadedCatalog, defaults: dict[str, t.Any]) -> None:
    if "idle_timeout" not in defaults:
        return
    for model in loaded.sections["models"]:
        scaling = model.get("scaling") if isinstance(model, dict) else None
        if isinstance(scaling, dict) and scaling.get("idle_timeout") in (None, 0):
            scaling["idle_timeout"] = defaults["idle_timeout"]


def _file_problem(
    file: str, message: str, remedy: str, *, code: str = "file", severity: str = ERROR, line: int | None = None
) -> Problem:
    place = Place(file=shorten(file, 500), line=line)
    return Problem(severity=severity, code=code, path="", message=message, remedy=remedy, place=place)


def _find_files(directory: str, loaded: LoadedCatalog) -> dict[str, str]:
    """Return the files that a directory has for each section; what is wrong with it is among the problems."""
    try:
        names = list_names(Path(directory))
    except FileError as exc:
        loaded.problems.append(_file_problem(directory, exc.message, exc.remedy))
        loaded.missing.update(SECTIONS)
        return {}
    files: dict[str, str] = {}
    for name in names:
        stem, extension = os.path.splitext(name)
        path = os.path.join(directory, name)
        if extension == ".yaml" and stem in SECTIONS:
            files[stem] = path
        elif extension in (".yml", ".json") and stem in SECTIONS:
            loaded.problems.append(_file_problem(path, f"{name} is not read", f"rename it to {stem}.yaml"))
            loaded.missing.add(stem)
        elif extension in (".yaml", ".yml") and (meant := nearest(stem, SECTIONS)):
            remedy = f"did you mean {meant}.yaml?"
            loaded.problems.append(_file_problem(path, f"{name} is not read", remedy, severity=WARNING))
    if not files and not loaded.missing:
        remedy = f"it needs at least one of {', '.join(f'{name}.yaml' for name in SECTIONS)}"
        loaded.problems.append(_file_problem(directory, "this directory holds no catalog", remedy, code="no_files"))
        loaded.missing.update(SECTIONS)
    return files
