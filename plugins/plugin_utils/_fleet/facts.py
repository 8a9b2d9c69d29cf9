# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What of a profile is only shown, in tables and on the page: held to the types that its schema says."""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import shown

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NUMBER = (int, float)
# Of each key the type, and the type of what is in a list; null is not known.
_OF_NODE = {"hostname": (str, None), "cpu": (dict, None), "disks": (list, dict), "notes": (list, None)}
_OF_CPU = {"model": (str, None), "cores": (_NUMBER, None), "threads": (_NUMBER, None)}
_OF_GPU = {"driver": (str, None), "health": (dict, None)}
_WORDS = {str: "text", dict: "a map", list: "a list", _NUMBER: "a number"}


def find_fact_errors(where: str, profile: Mapping[str, t.Any]) -> Iterator[str]:
    """Yield a sentence for each value of a profile that is only shown and is of another type than its schema says."""
    yield from _find_errors(where, profile, _OF_NODE)
    cpu, gpus = profile.get("cpu"), profile.get("gpus")
    if isinstance(cpu, dict):
        yield from _find_errors(f"{where}, cpu", cpu, _OF_CPU)
    if not isinstance(gpus, list):
        return
    for key, rule in _OF_GPU.items():
        # All at once, because it hardly ever is of another type.
        if not {type(gpu.get(key)) for gpu in gpus if isinstance(gpu, dict)} <= {rule[0], type(None)}:
            for at, gpu in enumerate(gpus):
                yield from _find_errors(f"{where}, gpus[{at}]", gpu, {key: rule})


def _find_errors(where: str, values: Mapping[str, t.Any], kinds: Mapping[str, t.Any]) -> Iterator[str]:
    for key, (kind, item) in kinds.items():
        value = values.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, kind):
            yield f"{where}: {key} must be {_WORDS[kind]} or null, not {shown(value)}"
        elif item is not None and not all(isinstance(one, item) for one in value):
            yield f"{where}: {key} must be a list of maps, or null"
