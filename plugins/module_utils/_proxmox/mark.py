# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The mark in a VM's description, which says that the VM belongs to the collection."""

from __future__ import annotations

import json
import re
import typing as t
from dataclasses import dataclass

MARK = "knaster.inventory/1"
TAG = "knaster"


@dataclass(frozen=True)
class Mark:
    """Name of a VM of the collection, its fleet, fingerprint of its definition, and the keys and tags that were set by it.

    ``fleet`` is empty where the mark does not name one.
    """

    vm: str
    fingerprint: str = ""
    own: t.Optional[t.Tuple[str, ...]] = None
    fleet: str = ""

    def line(self) -> str:
        """Return the mark as it stands in the description of the VM."""
        values: t.Dict[str, t.Any] = {"fingerprint": self.fingerprint, "vm": self.vm}
        if self.fleet:
            values["fleet"] = self.fleet
        if self.own is not None:
            values["own"] = list(self.own)
        return f"{MARK} {json.dumps(values, sort_keys=True, separators=(',', ':'))}"


def parse_mark(description: t.Any) -> t.Optional[Mark]:
    """Return the mark in a description, None where there is none or it is broken."""
    for line in str(description or "").splitlines():
        if not line.startswith(MARK + " "):
            continue
        try:
            values = json.loads(line[len(MARK) + 1 :])
        except (ValueError, RecursionError):
            continue
        if isinstance(values, dict) and isinstance(values.get("vm"), str):
            own = values.get("own")
            own = tuple(map(str, own)) if isinstance(own, list) else None
            return Mark(values["vm"], str(values.get("fingerprint") or ""), own, str(values.get("fleet") or ""))
    return None


def plain_description(description: t.Any) -> str:
    """Return a description without the mark."""
    lines = [line for line in str(description or "").splitlines() if not line.startswith(MARK + " ")]
    return "\n".join(lines).strip()


def with_mark(description: str, mark: Mark) -> str:
    """Return a description with the mark as its last line."""
    return f"{description}\n\n{mark.line()}" if description else mark.line()


def mapping_mark(fleet: str) -> str:
    """Return the description of a mapping that a fleet made."""
    return f"{MARK} {json.dumps({'fleet': fleet}, separators=(',', ':'))}"


def parse_mapping_mark(description: t.Any) -> t.Optional[str]:
    """Return the fleet that made a mapping, None where its description does not name one."""
    match = re.match(re.escape(MARK) + r' \{"fleet":"([A-Za-z0-9._-]+)"\}', str(description or ""))
    return match.group(1) if match else None
