# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Catalog directories to plain lists, the later directory winning, with the place of everything in them."""

from __future__ import annotations

import os
import typing as t
from dataclasses import dataclass, field, replace
from pathlib import Path

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import SECTIONS, examine_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.layers import (
    LayeredOrigin,
    origins_of_keys,
    overlay,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import (
    ERROR,
    WARNING,
    CatalogError,
    Entry,
    Place,
    Problem,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.yaml_file import CatalogFile
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import FileError, list_names, read_text
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import nearest, shorten, shown

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Catalog
    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import Origin

MAX_BYTES = 4 * 1024 * 1024


# The catalog that comes with the collection.
SHIPPED = str(Path(os.path.realpath(__file__)).parents[3] / "catalog")

# What an entry that is not a change of an earlier one needs.
_NEEDED = {"models": "kind", "roles": "needs"}


@dataclass(slots=True, kw_only=True)
class LoadedCatalog:
    """What the files of a catalog say, not yet checked; ``users`` are the names that layers of the user write."""

    sections: dict[str, list[t.Any]] = field(default_factory=lambda: {name: [] for name in SECTIONS})
    places: dict[str, list[Origin]] = field(default_factory=lambda: {name: [] for name in SECTIONS})
    sources: dict[str, dict[str, dict[str, t.Any]]] = field(default_factory=lambda: {name: {} for name in SECTIONS})
    users: dict[str, set[str]] = field(default_factory=lambda: {name: set() for name in SECTIONS})
    problems: list[Problem] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What could be read of a catalog, where each of its entries stands, and what is wrong with it, warnings included."""

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
    """Return what could be read of these directories, and every problem in the order of the files.

    Of the models that come with the collection only those that somebody asked for are left beside models of the user,
    and warnings of them are left beside any other directory.
    """
    loaded = load_catalog(directories)
    hint = "" if any(map(is_shipped, directories)) else f"; shipped among the directories adds the models of {SHIPPED}"
    catalog, problems = examine_catalog(
        loaded.sections, places=loaded.places, missing=loaded.missing, nodes=nodes, hint=hint
    )
    # A name and a change, written over models that were not named.
    problems = [
        replace(one, remedy=one.remedy + hint) if one.code == "missing" and one.path.endswith("].kind") else one
        for one in problems
    ]
    if not all(map(is_shipped, directories)):
        asked = _find_asked(catalog, loaded.users["models"])
        unasked = {f"model {model.name}" for model in catalog.models if model.name not in asked}
        problems = [one for one in problems if one.severity == ERROR or one.entry not in unasked]
        if loaded.users["models"]:
            catalog = replace(catalog, models=tuple(model for model in catalog.models if model.name in asked))
            sources = loaded.sources["models"]
            loaded.sources["models"] = {name: sources[name] for name in sources if name in asked}
    problems = [*loaded.problems, *problems]
    files = {file: number for number, file in enumerate(dict.fromkeys(problem.place.file for problem in problems))}
    problems.sort(key=lambda one: (files[one.place.file], one.place.line or 0, one.place.column or 0))
    return Examined(catalog=catalog, sources=loaded.sources, problems=problems)


def _find_asked(catalog: Catalog, users: Iterable[str]) -> set[str]:
    """Return the names of models that the user writes, serves in a slot, or falls back to from one of these."""
    models = catalog.by_name()
    waiting = [*users, *(slot.model for role in catalog.roles for slot in role.slots if slot.model)]
    asked: set[str] = set()
    while waiting:
        model = models.get(waiting.pop())
        if model and model.name not in asked:
            asked.add(model.name)
            waiting += model.fallbacks
    return asked


def load_catalog(directories: Sequence[str]) -> LoadedCatalog:
    """Read the files of these directories into one list a section; what is wrong with a file is among the problems.

    The roles that come with the collection are left out where another directory has a ``roles.yaml``, or says how many
    replicas of a model there are to be: nobody's models give way to roles that nobody wrote.
    """
    loaded = LoadedCatalog()
    defaults: dict[str, t.Any] = {}
    if not directories:
        message, remedy = "no directory was named", "name the directory of a catalog"
        loaded.problems.append(Problem(severity=ERROR, code="no_files", path="", message=message, remedy=remedy))
    layers = [(is_shipped(directory), _find_files(directory, loaded)) for directory in directories]
    own = [files for shipped, files in layers if not shipped]
    own_roles = any("roles" in files for files in own)
    for shipped, files in layers:
        for section in SECTIONS:
            if section in files and not (shipped and section == "roles" and own_roles):
                defaults |= _load_section(section, files[section], loaded, shipped=shipped)
    if not own_roles and _serves_models(loaded):
        for part in (loaded.sections, loaded.places, loaded.sources):
            part["roles"].clear()
    elif own and not own_roles and len(own) < len(layers) and "roles" not in loaded.missing:
        message, remedy = (
            "no directory of yours has a roles.yaml: these roles are used",
            "write one, or roles: [] for none",
        )
        file = next(files["roles"] for shipped, files in layers if shipped)
        loaded.problems.append(_file_problem(file, message, remedy, code="shipped_roles", severity=WARNING))
    _give_way(loaded)
    _apply_defaults(loaded, defaults)
    return loaded


def _serves_models(loaded: LoadedCatalog) -> bool:
    """Return whether a model of the user's has a number of replicas."""
    return any(
        isinstance(raw, dict) and raw.get("scaling") and raw.get("name") in loaded.users["models"]
        for raw in loaded.sections["models"]
    )


def is_shipped(directory: str) -> bool:
    """Return whether a directory is that of the catalog that comes with the collection."""
    return "\0" not in directory and os.path.realpath(directory) == SHIPPED


def _load_section(section: str, file: str, loaded: LoadedCatalog, *, shipped: bool) -> dict[str, t.Any]:
    """Add the entries of one file to a section; one of a known name changes the entry of an earlier directory."""
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
    raws, places, sources = loaded.sections[section], loaded.places[section], loaded.sources[section]
    positions = {raw.get("name"): at for at, raw in enumerate(raws) if isinstance(raw, dict) and raw["name"] in sources}
    earlier = tuple(sources)
    for raw, origin in entries:
        name = raw.get("name") if isinstance(raw, dict) else None
        if not isinstance(name, str):
            raws.append(raw)
            places.append(origin)
            continue
        if not shipped:
            loaded.users[section].add(name)
        if (at := positions.pop(name, None)) is not None:
            sources[name] = _source(origin, sources[name])
            raws[at], inherited = overlay(raws[at], raw)
            if inherited:
                layered = places[at] = LayeredOrigin(origin, places[at], inherited)
                sources[name]["keys"] = origins_of_keys(raws[at], layered)
            else:
                places[at] = origin
        elif (needed := _NEEDED.get(section)) and needed not in raw and (meant := nearest(name, earlier)):
            label = f"{SECTIONS[section]} {shorten(name)}"
            entry = Entry(section=section, index=None, label=label, origin=origin, problems=loaded.problems)
            message = (
                f"no {SECTIONS[section]} of an earlier directory is called {shown(name)}, and a new one needs {needed}"
            )
            entry.error("unknown_reference", ("name",), message, f"did you mean {meant}?")
            loaded.missing.add(section)
        else:
            raws.append(raw)
            places.append(origin)
            sources.setdefault(name, _source(origin))  # a second one is reported when the catalog is checked
    return defaults


def _source(origin: Origin, below: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
    """Return where an entry stands, and the places of the entries that it changes."""
    _index, place = origin.locate(("name",))
    source: dict[str, t.Any] = {"file": place.file, "line": place.line}
    if below:
        source["replaces"] = [*below.get("replaces", ()), f"{below['file']}:{below['line']}"]
    return source


def _give_way(loaded: LoadedCatalog) -> None:
    """Take from the shipped models the aliases that a user gave to another model, or that one is called."""
    shipped, taken = [], set(loaded.users["models"])
    for raw, origin in zip(loaded.sections["models"], loaded.places["models"], strict=True):
        aliases = raw.get("aliases") if isinstance(raw, dict) else None
        if isinstance(aliases, list):
            if os.path.dirname(origin.locate(("aliases",))[1].file or "") == SHIPPED:
                shipped.append(raw)
            else:
                taken.update(alias for alias in aliases if isinstance(alias, str))
    for raw in shipped:
        raw["aliases"] = [alias for alias in raw["aliases"] if alias not in taken]


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
