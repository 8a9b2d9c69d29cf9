# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""One file of a catalog as plain data, with the place of everything in it.

A file is read as YAML nodes, so that every value knows its line; building the plain data from them here costs less than
the library's own way, and refuses what a catalog never needs: tags, keys that stand twice, aliases that multiply.
"""

from __future__ import annotations

import functools
import re
import typing as t
from dataclasses import dataclass

try:
    import yaml
    from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
except ImportError as import_error:
    YAML_IMPORT_ERROR: ImportError | None = import_error
else:
    YAML_IMPORT_ERROR = None

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_defaults
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import (
    ERROR,
    WARNING,
    Entry,
    Place,
    Problem,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import nearest, shorten, shown, suggest

if t.TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import Keys

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


class CatalogFile:
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
            if not self.broken:
                message, remedy = "this file holds nothing", f"begin it with {section}: or remove it"
                place = Place(file=self.file, line=1, column=1)
                problem = Problem(severity=WARNING, code="empty", path="", message=message, remedy=remedy, place=place)
                self.problems.append(problem)
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
        place = Place(file=self.file, **({"line": mark.line + 1, "column": mark.column + 1} if mark else {}))
        problem = Problem(severity=ERROR, code=code, path=path, message=message, remedy=remedy, place=place)
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
        message, place = f"this is not YAML: {shorten(str(detail))}", Place(file=self.file, **where)
        self.problems.append(Problem(severity=ERROR, code="yaml", path="", message=message, remedy=remedy, place=place))

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
