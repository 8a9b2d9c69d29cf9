# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Catalog directories to plain lists, with the place of everything in them.

A file is read as YAML nodes, so that every value knows its line; building the plain data from them here costs less than
the library's own way, and refuses what a catalog never needs: tags, keys that stand twice, aliases that multiply.
"""

from __future__ import annotations

import errno
import functools
import os
import re
import stat
import typing as t
from dataclasses import dataclass, field

try:
    import yaml
    from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
except ImportError as import_error:
    YAML_IMPORT_ERROR: ImportError | None = import_error
else:
    YAML_IMPORT_ERROR = None

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import (
    SECTIONS,
    check_defaults,
    examine_catalog,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import (
    ERROR,
    WARNING,
    CatalogError,
    Entry,
    Place,
    Problem,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import nearest, shorten, shown, suggest

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Catalog
    from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import Keys

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 40
# What aliases may add to a file, in nodes; a node takes at least one character where it is written out.
MAX_ADDED_NODES = 50_000
MAX_FILE_PROBLEMS = 200

_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE = frozenset(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"))
_FALSE = frozenset(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"))
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9_]{0,40})|0x[0-9a-fA-F]{1,16}", re.ASCII)
_FLOAT = re.compile(
    r"[-+]?(?:[0-9][0-9_]{0,40}\.[0-9_]{0,40}|\.[0-9][0-9_]{0,40})(?:[eE][-+]?[0-9]{1,4})?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class NodeOrigin:
    """Where an entry stands: the file, its index in the file's list, and the YAML node that knows the rest."""

    file: str
    index: int | None
    node: Node

    def locate(self, keys: Keys, *, key: bool = False) -> tuple[int | None, Place]:
        """Return where the value (or its key) at these keys stands, or the nearest thing that exists."""
        mark = _find(self.node, keys, key=key).start_mark
        return self.index, Place(file=self.file, line=mark.line + 1, column=mark.column + 1)


@dataclass(slots=True, kw_only=True)
class LoadedCatalog:
    """What the files of a catalog say, not yet checked."""

    sections: dict[str, list[t.Any]] = field(default_factory=lambda: {name: [] for name in SECTIONS})
    places: dict[str, list[NodeOrigin]] = field(default_factory=lambda: {name: [] for name in SECTIONS})
    sources: dict[str, dict[str, dict[str, t.Any]]] = field(default_factory=lambda: {name: {} for name in SECTIONS})
    problems: list[Problem] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCatalog:
    """A catalog without an error, where each of its entries stands, and what is still worth a look."""

    catalog: Catalog
    sources: dict[str, dict[str, dict[str, t.Any]]]
    warnings: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What could be read of a catalog that may have errors."""

    catalog: Catalog
    sources: dict[str, dict[str, dict[str, t.Any]]]
    problems: list[Problem]


def read_catalog(directories: Sequence[str]) -> ReadCatalog:
    """Read and check the catalog of these directories, the later ones winning by name; raise every error at once."""
    found = examine_directories(directories)
    if any(problem.severity == ERROR for problem in found.problems):
        raise CatalogError(found.problems)
    return ReadCatalog(catalog=found.catalog, sources=found.sources, warnings=tuple(found.problems))


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
        loaded.problems.append(_problem("", "no_files", "no directory was named", "name the directory of a catalog"))
    for directory in directories:
        files = _find_files(directory, loaded)
        for section in SECTIONS:
            if section in files:
                defaults |= _load_section(section, files[section], loaded)
    _apply_defaults(loaded, defaults)
    return loaded


def _load_section(section: str, file: str, loaded: LoadedCatalog) -> dict[str, t.Any]:
    """Add the entries of one file to a section; an entry of the same name from an earlier directory gives way."""
    text, problem = _read_text(file)
    if text is None:
        loaded.problems += [problem] if problem else []
        loaded.missing.add(section)
        return {}
    document = _Document(file, text)
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


# --- files


def _problem(file: str, code: str, message: str, remedy: str, **more: t.Any) -> Problem:
    place = Place(file=file or None, line=more.pop("line", None), column=more.pop("column", None))
    return Problem(**{"severity": ERROR, "path": "", **more}, code=code, message=message, remedy=remedy, place=place)


def _find_files(directory: str, loaded: LoadedCatalog) -> dict[str, str]:
    """Return the files that a directory has for each section."""
    try:
        names = sorted(os.listdir(directory))
    except NotADirectoryError:
        remedy = "name the directory that holds models.yaml and roles.yaml"
        loaded.problems.append(_problem(directory, "file", "a catalog is a directory, and this is a file", remedy))
        loaded.missing.update(SECTIONS)
        return {}
    except (OSError, ValueError) as exc:
        message, remedy = _os_error(exc, "directory")
        loaded.problems.append(_problem(shorten(directory, 500), "file", message, remedy))
        loaded.missing.update(SECTIONS)
        return {}
    files: dict[str, str] = {}
    for name in names:
        stem, extension = os.path.splitext(name)
        path = os.path.join(directory, name)
        if extension == ".yaml" and stem in SECTIONS:
            files[stem] = path
        elif extension in (".yml", ".json") and stem in SECTIONS:
            message = f"{name} is not read"
            loaded.problems.append(_problem(path, "file", message, f"rename it to {stem}.yaml"))
            loaded.missing.add(stem)
        elif extension in (".yaml", ".yml") and (meant := nearest(stem, SECTIONS)):
            remedy = f"did you mean {meant}.yaml?"
            loaded.problems.append(_problem(path, "file", f"{name} is not read", remedy, severity=WARNING))
    if not files and not loaded.missing:
        remedy = f"it needs at least one of {', '.join(f'{name}.yaml' for name in SECTIONS)}"
        loaded.problems.append(_problem(directory, "no_files", "this directory holds no catalog", remedy))
        loaded.missing.update(SECTIONS)
    return files


def _os_error(exc: OSError | ValueError, what: str) -> tuple[str, str]:
    """Return what is wrong and what would help."""
    code = exc.errno if isinstance(exc, OSError) else None
    known = {
        errno.ENOENT: (f"there is no such {what}", "check the path"),
        errno.ELOOP: ("the links lead in a loop", "point the link at a real file"),
        errno.EACCES: (
            f"this {what} cannot be read: permission denied",
            "make it readable for the user who runs this",
        ),
        errno.EPERM: (f"this {what} cannot be read: permission denied", "make it readable for the user who runs this"),
        errno.EISDIR: ("this is a directory, not a file", "put a file of this name in its place"),
        errno.ENAMETOOLONG: ("the path is too long", "check the path"),
    }
    if isinstance(exc, ValueError):
        return "this is no path", "check the path"
    text = exc.strerror or type(exc).__name__
    return known.get(code or 0, (f"this {what} cannot be read: {text}", "check the path and the file system"))


def _read_text(file: str) -> tuple[str | None, Problem | None]:
    """Return the text of a file, or what keeps it from being read; never waits and never reads much."""
    try:
        # Without O_NONBLOCK opening a named pipe would wait for its other end.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(errno.EISDIR, "")
            if not stat.S_ISREG(mode):
                return None, _problem(
                    file, "file", "this is not a regular file", "put a file of this name in its place"
                )
            data = stream.read(MAX_BYTES + 1)
    except OSError as exc:
        message, remedy = _os_error(exc, "file")
        if exc.errno == errno.ENOENT and os.path.islink(file):
            message, remedy = "this link leads nowhere", "point the link at a real file"
        return None, _problem(file, "file", message, remedy)
    if len(data) > MAX_BYTES:
        message = f"this file is larger than {MAX_BYTES // 1024 // 1024} MiB"
        return None, _problem(
            file, "too_large", message, "a catalog holds descriptions, not data; check what this file is"
        )
    try:
        return data.decode("utf-8-sig"), None
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        column = exc.start - data.rfind(b"\n", 0, exc.start)
        message = "this is not UTF-8 text"
        return None, _problem(file, "yaml", message, "save the file as UTF-8", line=line, column=column)


# --- YAML


class _TooMuchError(Exception):
    def __init__(self, node: Node, message: str, remedy: str) -> None:
        self.node = node
        self.message = message
        self.remedy = remedy
        super().__init__(message)


def _resolve_plain(value: str) -> str:
    if value in _NULL:
        return "null"
    if value in _TRUE or value in _FALSE:
        return "bool"
    if value == "<<":
        return "merge"
    first = value[0]
    if first in "+-.0123456789":
        if _INT.fullmatch(value):
            return "int"
        if _FLOAT.fullmatch(value):
            return "float"
    return "str"


class _Resolver:
    """What the parser asks for the kind of a node. The kinds are words of ours, so that a written tag stands out."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def resolve(self, kind: type, value: t.Any, implicit: t.Any) -> str:
        if kind is ScalarNode:
            if not implicit[0]:
                return "str"
            known = self._known.get(value)
            if known is None:
                known = self._known[value] = _resolve_plain(value)
            return known
        return "seq" if kind is SequenceNode else "map"

    def descend_resolver(self, node: t.Any, index: t.Any) -> None:
        """Nothing depends on where a node stands."""

    def ascend_resolver(self) -> None:
        """Nothing depends on where a node stands."""


@functools.cache
def _parser_class() -> t.Any:
    """Return the class of parsers with our resolver, the fast one where it is built in; the library is there by then."""
    try:
        from yaml.cyaml import CParser  # type: ignore[attr-defined]  # noqa: PLC0415

        class FastParser(_Resolver, CParser):
            def __init__(self, text: str) -> None:
                CParser.__init__(self, text)
                _Resolver.__init__(self)

    except ImportError:
        from yaml.composer import Composer  # noqa: PLC0415
        from yaml.parser import Parser  # noqa: PLC0415
        from yaml.reader import Reader  # noqa: PLC0415
        from yaml.scanner import Scanner  # noqa: PLC0415

        class PlainParser(_Resolver, Reader, Scanner, Parser, Composer):
            def __init__(self, text: str) -> None:
                Reader.__init__(self, text)
                Scanner.__init__(self)
                Parser.__init__(self)
                Composer.__init__(self)
                _Resolver.__init__(self)

        return PlainParser
    return FastParser


class _Document:
    """One file as plain data, with its mistakes; ``broken`` says that nothing could be made of it."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.broken = False
        self.root: Node | None = None
        self._left = len(text) + MAX_ADDED_NODES
        try:
            self.root = _parser_class()(text).get_single_node()
        except yaml.YAMLError as exc:
            self._syntax_error(exc, text)
        except RecursionError:
            self._add(None, "yaml", "this is nested too deeply", "a catalog needs no more than a few levels")
            self.broken = True

    def entries(self, section: str) -> tuple[list[tuple[t.Any, NodeOrigin]], dict[str, t.Any]]:
        """Return the entries of the section with their places, and the defaults."""
        found: list[tuple[t.Any, NodeOrigin]] = []
        defaults: dict[str, t.Any] = {}
        if self.root is None or (self.root.__class__ is ScalarNode and self.root.tag == "null"):
            return found, defaults
        if self.root.__class__ is not MappingNode or self.root.tag != "map":
            message = f"expected a map with the key {section}, found {_kind(self.root)}"
            self._add(self.root, "wrong_type", message, f"begin the file with {section}: and put the list below it")
            self.broken = True
            return found, defaults
        keys: dict[str, Node] = {}
        allowed = (section, "defaults") if section == "models" else (section,)
        for key_node, value_node in self.root.value:
            key = str(key_node.value) if key_node.__class__ is ScalarNode else _kind(key_node)
            if key in keys:
                self._add(key_node, "duplicate_key", f"the key {key} stands twice", "merge the two into one")
            elif key not in allowed:
                self.broken |= nearest(key, allowed) == section  # the list may well stand under this key
                message = f"{shown(key)} is not a key of {section}.yaml"
                self._add(key_node, "unknown_key", message, suggest(key, allowed))
            else:
                keys[key] = value_node
        try:
            if "defaults" in keys:
                origin = NodeOrigin(self.file, None, keys["defaults"])
                entry = Entry(section="defaults", index=None, label="of the models", origin=origin)
                defaults = check_defaults(self._build(keys["defaults"], 1) or {}, entry)
                self.problems += entry.problems
            node = keys.get(section)
            if node is None or (node.__class__ is ScalarNode and node.tag == "null"):
                return found, defaults
            if node.__class__ is not SequenceNode or node.tag != "seq":
                message = f"expected a list, found {_kind(node)}"
                self._add(node, "wrong_type", message, "begin each entry with a dash", path=section)
                self.broken = True
                return found, defaults
            for index, item in enumerate(node.value):
                found.append((self._build(item, 2), NodeOrigin(self.file, index, item)))
        except _TooMuchError as exc:
            self._add(exc.node, "too_much", exc.message, exc.remedy)
            self.broken = True
            return [], {}
        return found, defaults

    def _add(self, node: Node | None, code: str, message: str, remedy: str, *, path: str = "") -> None:
        mark = node.start_mark if node is not None else None
        where = {"line": mark.line + 1, "column": mark.column + 1} if mark else {}
        problem = _problem(self.file, code, message, remedy, path=path, **where)
        # What an alias repeats is one mistake.
        if len(self.problems) < MAX_FILE_PROBLEMS and problem not in self.problems:
            self.problems.append(problem)

    def _syntax_error(self, exc: yaml.YAMLError, text: str) -> None:
        self.broken = True
        mark = getattr(exc, "problem_mark", None) or getattr(exc, "context_mark", None)
        detail = getattr(exc, "problem", None) or getattr(exc, "reason", None) or "it cannot be read"
        where: dict[str, int] = {}
        if mark is not None:
            where = {"line": mark.line + 1, "column": mark.column + 1}
        elif isinstance(position := getattr(exc, "position", None), int):
            where = {"line": text.count("\n", 0, position) + 1}
        if "undefined alias" in str(detail):
            remedy = "an anchor of that name must stand before it, in the same file"
        elif "expected a single document" in str(exc):
            remedy = "a catalog file is one document: remove the second ---"
        elif "\t" in text and "token" in str(detail):
            remedy = "indent with blanks, not with tabs"
        else:
            remedy = "look at indentation, quotes and brackets here and in the line above"
        self.problems.append(_problem(self.file, "yaml", f"this is not YAML: {shorten(str(detail))}", remedy, **where))

    def _build(self, node: Node, depth: int) -> t.Any:
        """Return plain data; aliases are written out, and counted as if they were."""
        self._left -= 1
        if self._left < 0:
            message = "aliases multiply this file beyond measure"
            raise _TooMuchError(node, message, "write the entries out, or use fewer aliases")
        if depth > MAX_DEPTH:
            message = f"this is nested more than {MAX_DEPTH} levels deep, or an alias contains itself"
            raise _TooMuchError(node, message, "a catalog needs no more than a few levels")
        cls, tag = node.__class__, node.tag
        if cls is ScalarNode:
            return self._scalar(node, tag)
        if cls is MappingNode and tag == "map":
            return self._map(node, depth + 1)
        if cls is SequenceNode and tag == "seq":
            return [self._build(item, depth + 1) for item in node.value]
        self._refuse_tag(node)
        return None

    def _scalar(self, node: Node, tag: str) -> t.Any:
        value: str = node.value
        if tag in ("str", "merge"):
            return value
        if tag == "int":
            return int(value.replace("_", ""), 16 if "x" in value else 10)
        if tag == "float":
            return float(value.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
        if tag == "bool":
            return value in _TRUE
        if tag != "null":
            self._refuse_tag(node)
        return None

    def _map(self, node: Node, depth: int) -> dict[str, t.Any]:
        own: dict[str, t.Any] = {}
        merged: dict[str, t.Any] = {}
        build, scalar = self._build, self._scalar
        for key_node, value_node in node.value:
            key = key_node.value
            if key_node.__class__ is not ScalarNode or key_node.tag not in ("str", "int", "float", "bool", "merge"):
                self._add(key_node, "wrong_type", "this is no name of a key", "write one word before the colon")
            elif key_node.tag == "merge":
                if merged:
                    self._add(
                        key_node, "duplicate_key", "the key << stands twice", "write one << with a list of aliases"
                    )
                merged = self._merge(value_node, depth)
            elif key in own:
                self._add(key_node, "duplicate_key", f"the key {shown(key)} stands twice", "remove one of the two")
            elif value_node.__class__ is ScalarNode:
                self._left -= 1
                own[key] = scalar(value_node, value_node.tag)
            else:
                own[key] = build(value_node, depth)
        return {**merged, **own} if merged else own

    def _merge(self, node: Node, depth: int) -> dict[str, t.Any]:
        """Return what << takes over: of several maps the first that has a key wins."""
        nodes = node.value if node.__class__ is SequenceNode else [node]
        merged: dict[str, t.Any] = {}
        for item in nodes:
            if item.__class__ is not MappingNode:
                self._add(item, "wrong_type", f"<< takes over a map, not {_kind(item)}", "name an alias of a map")
                continue
            for key, value in (self._build(item, depth + 1) or {}).items():
                merged.setdefault(key, value)
        return merged

    def _refuse_tag(self, node: Node) -> None:
        message = f"the tag {shorten(str(node.tag), 60)} is not allowed in a catalog"
        self._add(node, "tag", message, "write the plain value without the tag")


def _kind(node: Node) -> str:
    if node.__class__ is MappingNode:
        return "a map"
    if node.__class__ is SequenceNode:
        return "a list"
    return shown(node.value)


def _children(node: Node) -> Iterable[tuple[str, Node, Node]]:
    """Yield key, key node and value node of a map: its own first, then what it takes over by <<."""
    waiting, seen = [node], 0
    while waiting and seen < 1000:
        current = waiting.pop(0)
        seen += 1
        for key_node, value_node in current.value:
            if key_node.tag == "merge":
                items = value_node.value if value_node.__class__ is SequenceNode else [value_node]
                waiting += [item for item in items if item.__class__ is MappingNode]
            elif key_node.__class__ is ScalarNode:
                yield key_node.value, key_node, value_node


def _find(node: Node, keys: Keys, *, key: bool) -> Node:
    """Return the node at these keys, its key's node, or the last one on the way that exists."""
    for position, wanted in enumerate(keys):
        if node.__class__ is MappingNode:
            found = next((item for item in _children(node) if item[0] == str(wanted)), None)
            if found is None:
                return node
            if key and position == len(keys) - 1:
                return found[1]
            node = found[2]
        elif node.__class__ is SequenceNode and isinstance(wanted, int) and wanted < len(node.value):
            node = node.value[wanted]
        else:
            return node
    return node
