# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Layers of a catalog: an entry of a later layer changes the keys that it has of the entry of this name below it."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

if t.TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import Origin, Place
    from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import Keys

# Facts of the weights. A layer that names other weights does not inherit them.
OF_WEIGHTS = ("memory", "quantization", "vram_gb", "min_cc", "license")
_WEIGHTS = ("source", "quantization")

Raw = dict[str, t.Any]


def overlay(below: Raw, above: Raw) -> tuple[Raw, frozenset[Keys]]:
    """Return an entry with the changes of a later layer, and the keys that are still those of the entry below.

    Maps are merged one level deep, lists and single values are replaced, and ``null`` removes a key. With ``replace``
    nothing is inherited.
    """
    if above.get("replace") is True:
        return above, frozenset()
    others = any(key in above and above[key] != below.get(key) for key in _WEIGHTS)
    fallen = ("replace", *(OF_WEIGHTS if others else ()))
    inherited: set[Keys] = {(key,) for key in below if key not in above and key not in fallen}
    found = {key: below[key] for key in below if key in above or (key,) in inherited}
    for key, value in above.items():
        old = below.get(key)
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict) and isinstance(old, dict) and not (others and key in OF_WEIGHTS):
            inherited |= {(key, name) for name in old if name not in value}
            found[key] = {name: item for name, item in (old | value).items() if value.get(name, item) is not None}
        else:
            found[key] = value
    return found, frozenset(inherited)


def difference(below: Raw, entry: Raw) -> Raw:
    """Return the changes that make the entry of the one below it: what ``overlay`` turns into it."""
    found: Raw = {key: None for key in below if key not in entry}
    for key, value in entry.items():
        old = below.get(key)
        if key == "name" or value != old:
            found[key] = difference(old, value) if isinstance(value, dict) and isinstance(old, dict) else value
    return found


@dataclass(frozen=True, slots=True)
class LayeredOrigin:
    """Where an entry of several layers stands: what it inherits in the layers below, everything else in its own."""

    own: Origin
    below: Origin
    inherited: frozenset[Keys]

    def locate(self, keys: Keys, *, key: bool = False) -> tuple[int | None, Place]:
        """Return where the value (or its key) at these keys stands, or the nearest thing that exists."""
        layer = self.below if keys[:1] in self.inherited or keys[:2] in self.inherited else self.own
        return layer.locate(keys, key=key)


def origins_of_keys(raw: Mapping[str, t.Any], origin: LayeredOrigin) -> dict[str, str]:
    """Return the file and line of each key, and of the keys of maps that several layers wrote."""
    keys: list[Keys] = [(key,) for key in raw]
    merged = {key for key, *below in origin.inherited if below}
    keys += [(key, name) for key in raw if key in merged for name in raw[key]]
    places = {".".join(map(str, path)): origin.locate(path)[1] for path in keys}
    return {path: f"{place.file}:{place.line}" for path, place in places.items()}
