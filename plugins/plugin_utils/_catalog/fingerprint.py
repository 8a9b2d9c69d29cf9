# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Whether what runs is still what is written: fingerprints, and what a difference asks for."""

from __future__ import annotations

import hashlib
import json
import typing as t
from dataclasses import dataclass, field

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.plain import plain

if t.TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
        Profile,
        Role,
    )

CURRENT = "current"
STALE = "stale"
UNKNOWN = "unknown"

REPLAN = "replan"
RESTART = "restart"
ROUTER = "router"

# What a change of a profile's key asks for, the dearest first. A key that is not here decides where a replica may lie.
_ASKS: Mapping[str, str] = {
    "args": RESTART,
    "env": RESTART,
    "image": RESTART,
    "name": ROUTER,
    "weight": ROUTER,
    "startup_timeout": ROUTER,
}
_COST = (REPLAN, RESTART, ROUTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Whether a replica is what the catalog says today, which keys differ and what each of them asks for."""

    state: str
    changed: Mapping[str, str] = field(default_factory=dict)

    @property
    def asks(self) -> str | None:
        """The dearest of what the changes ask for: replan, restart the engine, or only the router."""
        return next((ask for ask in _COST if ask in self.changed.values()), None)


def fingerprint(profile: Profile) -> str:
    """Return the fingerprint of a profile; a field at its default does not count, so that new fields change none."""
    return digest(plain(profile))


def role_fingerprint(role: Role) -> str:
    """Return the fingerprint of what a role's machines are made of: engine, needs, slots and machine."""
    document = plain(role)
    return digest({key: document[key] for key in ("needs", "slots", "vm") if key in document})


def digest(document: t.Any) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of the canonical JSON of plain data."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def find_drift(recorded: str | None, made_from: Mapping[str, t.Any] | None, profile: Profile | None) -> Drift:
    """Compare what a replica was made from with the profile of today (None: the catalog has it no more).

    ``recorded`` is the fingerprint that the replica carries and ``made_from`` its profile as plain data. Without a
    fingerprint nothing is known, which is not the same as a difference.
    """
    if not recorded:
        return Drift(state=UNKNOWN)
    if profile is None:
        return Drift(state=STALE, changed={"profile": REPLAN})
    if recorded == fingerprint(profile):
        return Drift(state=CURRENT)
    if made_from is None:
        return Drift(state=STALE, changed={"profile": REPLAN})
    today = plain(profile)
    keys = [*today, *(key for key in made_from if key not in today)]
    changed = {key: _ASKS.get(key, REPLAN) for key in keys if today.get(key) != made_from.get(key)}
    # The same keys under another fingerprint: the record is not the one that the fingerprint was made from.
    return Drift(state=STALE, changed=changed or {"profile": REPLAN})
