# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Writes the reference of the catalog language from its schemas: tools/catalog_reference.py [--check]."""

from __future__ import annotations

import argparse
import json
import re
import sys
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCHEMAS = ROOT / "plugins" / "plugin_utils" / "_documents/schemas"
PAGE = ROOT / "docs" / "docsite" / "rst" / "catalog_reference.rst"

# The parts of the language: the heading, the schema, and the way to the part in it.
PARTS: tuple[tuple[str, str, tuple[str | int, ...]], ...] = (
    ("Defaults", "models", ("properties", "defaults")),
    ("Model", "models", ("properties", "models", "items")),
    ("Profile", "models", ("properties", "models", "items", "properties", "profiles", "items")),
    ("Scaling", "models", ("properties", "models", "items", "properties", "scaling")),
    ("Service level", "models", ("properties", "models", "items", "properties", "slo")),
    ("Memory facts", "models", ("properties", "models", "items", "properties", "memory")),
    ("Role", "roles", ("properties", "roles", "items")),
    ("Needs", "roles", ("properties", "roles", "items", "properties", "needs")),
    ("Slot", "roles", ("properties", "roles", "items", "properties", "slots", "items", "anyOf", 1)),
    ("Machine", "roles", ("properties", "roles", "items", "properties", "vm")),
    ("GPU class", "gpus", ("properties", "gpus", "items")),
    ("Engine", "engines", ("properties", "engines", "items")),
    (
        "Range of capabilities",
        "engines",
        ("properties", "engines", "items", "properties", "quantizations", "additionalProperties"),
    ),
)

# Which part describes what stands under a key.
BELOW = {
    "profiles": "Profile",
    "scaling": "Scaling",
    "slo": "Service level",
    "memory": "Memory facts",
    "needs": "Needs",
    "slots": "Slot",
    "vm": "Machine",
    "quantizations": "Range of capabilities",
}

HEAD = """\
.. Copyright (c) 2026 Knaster contributors
.. GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
.. SPDX-License-Identifier: GPL-3.0-or-later
.. SPDX-FileCopyrightText: 2026 Knaster contributors

.. This page is written by tools/catalog_reference.py from the schemas of the catalog: change them and run it.

.. _ansible_collections.knaster.inventory.docsite.catalog_reference:

Catalog reference
=================

Every key of ``models.yaml``, ``roles.yaml``, ``gpus.yaml`` and ``engines.yaml``. Each file is a map with one list of the same
name. A key that is left out or ``null`` is at its default or unknown; so is a 0 that stands for "unknown" or "unconstrained".
The :ref:`catalog guide <ansible_collections.knaster.inventory.docsite.catalog_guide>` says how the keys work together.

Durations are written as people do: ``20m``, ``90s``, ``1h30m``; a number without a unit is seconds. Compute capabilities are
``8.9`` or ``"8.9"``.
"""


def page() -> str:
    """Return the whole page."""
    return HEAD + "".join(_part(heading, _at(schema, way)) for heading, schema, way in PARTS)


def _at(schema: str, way: tuple[str | int, ...]) -> dict[str, t.Any]:
    node: t.Any = json.loads((SCHEMAS / f"{schema}.json").read_text("utf-8"))
    for step in way:
        node = node[step]
    return t.cast("dict[str, t.Any]", node)


def _part(heading: str, schema: dict[str, t.Any]) -> str:
    lines = ["", heading, "-" * len(heading), "", _markup(schema["description"]), ""]
    lines += [".. list-table::", "   :header-rows: 1", "   :widths: 20 20 60", ""]
    lines += ["   * - key", "     - value", "     - means"]
    for name, field in schema["properties"].items():
        lines += [f"   * - ``{name}``", f"     - {_value(field)}", f"     - {_meaning(name, field, schema)}"]
    return "\n".join(lines) + "\n"


def _value(field: dict[str, t.Any]) -> str:
    if "enum" in field:
        return "one of " + ", ".join(f"``{word}``" for word in field["enum"] if word is not None)
    if "additionalProperties" in field and field["additionalProperties"] is not False:
        return "map"
    types = [kind for kind in _types(field) if kind != "null"]
    if "sm]" in str(field.get("pattern", "")).lower() or "[sS]" in str(field.get("pattern", "")):
        return "duration"
    if types == ["number", "string"]:
        return "compute capability"
    words = {
        "array": _list(field),
        "integer": "whole number",
        "object": "map",
        "string": "text",
        "boolean": "true or false",
    }
    return " or ".join(words.get(kind, kind) for kind in types)


def _types(field: dict[str, t.Any]) -> list[str]:
    kinds = field.get("type", [])
    found = [kinds] if isinstance(kinds, str) else list(kinds)
    for other in field.get("anyOf", ()):
        found += [kind for kind in _types(other) if kind not in found]
    return found


def _list(field: dict[str, t.Any]) -> str:
    items = field.get("items", {})
    if "enum" in items:
        return f"list of {', '.join(f'``{word}``' for word in items['enum'])}"
    return "list of maps" if "properties" in items else "list"


def _meaning(name: str, field: dict[str, t.Any], schema: dict[str, t.Any]) -> str:
    text = _markup(field["description"])
    if name in schema.get("required", ()):
        text = f"**Required.** {text}"
    if "default" in field:
        text += f" Default: ``{_written(field['default'])}``."
    if examples := field.get("examples"):
        text += " For example " + ", ".join(f"``{_written(example)}``" for example in examples) + "."
    return f"{text} See `{BELOW[name]}`_." if name in BELOW else text


def _written(value: t.Any) -> str:
    """Return a value as people write it in YAML."""
    if isinstance(value, list):
        return f"[{', '.join(_written(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_written(item)}' for key, item in value.items())}}}"
    return value if isinstance(value, str) else json.dumps(value)


def _markup(text: str) -> str:
    return re.sub(r"C\(([^)]*)\)", r"``\1``", text)


def main() -> int:
    """Write the page, or say that it is not what the schemas say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 when the page is not current")
    options = parser.parse_args()
    if not options.check:
        PAGE.write_text(page(), "utf-8")
        return 0
    return 0 if PAGE.is_file() and PAGE.read_text("utf-8") == page() else 1


if __name__ == "__main__":
    sys.exit(main())
