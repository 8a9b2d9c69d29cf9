# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""The table of Proxmox VE's API against the schema of real releases."""

from __future__ import annotations

import json
import re
import typing as t

import pytest
from ansible_collections.knaster.inventory.tests.peers import pve_sim
from ansible_collections.knaster.inventory.tests.peers.recorded import SCHEMAS, SHARED
from hypothesis import given, settings
from hypothesis import strategies as st

OURS, CPU_MODELS = pve_sim.read_table(pve_sim.TABLE)
THEIRS = {release: json.loads(path.read_text(encoding="utf-8"))["paths"] for release, path in SCHEMAS.items()}
METHODS = [(method, path) for path, methods in OURS.items() for method in methods]
NUMBERS = ("minimum", "maximum", "maxLength", "minLength", "optional", "default_key")
# Of the table, what the release before does not have or does not do in this way.
NEWER = {
    "8.4": {
        "GET /cluster/backup: no such method",
        "GET /cluster/replication: no such method",
        "GET /nodes/{node}/lxc: no such method",
        "GET /nodes/{node}/qemu/{vmid}/snapshot: no such method",
        "GET /nodes/{node}/network: type.enum",
        "GET /nodes/{node}/qemu/{vmid}/agent/network-get-interfaces: permissions",
        *(
            f"{line}: {place}"
            for line in (
                "POST /nodes/{node}/qemu",
                "POST /nodes/{node}/qemu/{vmid}/config",
                "PUT /nodes/{node}/qemu/{vmid}/config",
            )
            for place in (
                "allow-ksm: no such parameter",
                "agent.freeze-fs: no such part",
                "agent.freeze-fs-on-backup.alias",
                "tpmstate0.format: no such part",
            )
        ),
    },
    "9.1": set(),
}


def differences(ours: t.Any, theirs: t.Any, place: str) -> list[str]:
    """Return where a parameter is not as it is there; a pattern is compared by what it takes, elsewhere."""
    if "alias" in ours or "alias" in theirs:
        is_same = all(ours.get(key) == theirs.get(key) for key in ("alias", "keyAlias"))
        return [] if is_same else [f"{place}.alias"]
    found = [f"{place}.{key}" for key in NUMBERS if float(ours.get(key) or 0) != float(theirs.get(key) or 0)]
    found += [f"{place}.{key}" for key in ("type", "requires") if ours.get(key) != theirs.get(key)]
    found += [f"{place}.{key}" for key in ("pattern", "format", "items") if (key in ours) != (key in theirs)]
    if sorted(ours.get("enum", [])) != sorted(map(str, theirs.get("enum", []))):
        found.append(f"{place}.enum")
    formats = ours.get("format"), theirs.get("format")
    if all(isinstance(one, dict) for one in formats):
        found += parts(*formats, place, "part")
    elif formats[0] != formats[1]:
        found.append(f"{place}.format")
    if "items" in ours and "items" in theirs:
        found += differences(ours["items"], theirs["items"], f"{place}[]")
    return found


def parts(ours: t.Any, theirs: t.Any, place: str, what: str) -> list[str]:
    """Return the differences of several parameters or parts, and what cannot be left out there."""
    found = []
    for name in ours:
        where = f"{place}.{name}" if place else name
        found += differences(ours[name], theirs[name], where) if name in theirs else [f"{where}: no such {what}"]
    needed = [name for name, one in theirs.items() if not one.get("optional") and not one.get("alias")]
    return found + [f"{place}.{name}: is needed" for name in needed if name not in ours]


def permission(method: t.Any) -> t.Any:
    rule = method.get("permissions") or {}
    return rule.get("check") or rule.get("user")


@pytest.mark.parametrize("release", SCHEMAS)
@pytest.mark.parametrize(("method", "path"), METHODS)
def test_a_method_is_as_it_is_there(release, method, path):
    ours, theirs = OURS[path][method], THEIRS[release].get(path, {}).get(method)
    line = f"{method} {path}"
    known = {text for text in NEWER[release] if text.startswith(f"{line}: ")}
    if theirs is None:
        assert known == {f"{line}: no such method"}
        return
    found = parts(ours["parameters"]["properties"], theirs["parameters"].get("properties") or {}, "", "parameter")
    assert theirs["parameters"]["additionalProperties"] == ours["parameters"]["additionalProperties"] == 0
    if permission(ours) != permission(theirs):
        found.append("permissions")
    if bool(ours["allowtoken"]) != bool(theirs.get("allowtoken")):
        found.append("allowtoken")
    assert {f"{line}: {place}" for place in found} == known


def patterns(ours: t.Any, theirs: t.Any, place: str) -> t.Iterator[tuple[str, str, str]]:
    """Give the patterns of ours with their own, and where they stand."""
    if "pattern" in ours and "pattern" in theirs:
        yield place, ours["pattern"], theirs["pattern"]
    inner = ours.get("items"), theirs.get("items")
    if all(inner):
        yield from patterns(*inner, f"{place}[]")
    formats = ours.get("format"), theirs.get("format")
    if all(isinstance(one, dict) for one in formats):
        for name in sorted(set(formats[0]) & set(formats[1])):
            yield from patterns(formats[0][name], formats[1][name], f"{place}.{name}")


def pairs() -> dict[tuple[str, str], str]:
    """Return each pair of patterns of the newest release once, with the first place where it stands."""
    found: dict[tuple[str, str], str] = {}
    for method, path in METHODS:
        theirs = THEIRS["9.1"].get(path, {}).get(method, {}).get("parameters", {}).get("properties") or {}
        for name, one in OURS[path][method]["parameters"]["properties"].items():
            for place, own, other in patterns(one, theirs.get(name, {}), name):
                found.setdefault((own, other), place)
    return found


def perl(pattern: str) -> str:
    """Return a pattern of Perl as Python has it."""
    pattern = re.sub(r"\(\?\^([a-z]*):", lambda match: f"(?{match.group(1)}:" if match.group(1) else "(?:", pattern)
    return pattern.replace(r"\Z", "").replace("[:xdigit:]", "0-9a-fA-F")


def change(text: str, at: int, piece: str) -> str:
    at %= len(text) + 1
    return text[:at] + piece + text[at + 1 :]


@pytest.mark.parametrize(("own", "other"), [pytest.param(*pair, id=place) for pair, place in pairs().items()])
def test_a_pattern_takes_the_same_texts(own, other):
    ours, theirs = re.compile(own, re.ASCII), re.compile(perl(other), re.ASCII)
    texts = st.from_regex(ours, fullmatch=True) | st.from_regex(theirs, fullmatch=True)
    broken = st.builds(change, texts, st.integers(0, 60), st.text("0aAgG:;.-+/x\n ", max_size=2))

    @settings(deadline=None, max_examples=200)
    @given(texts | broken)
    def check(text):
        assert bool(ours.fullmatch(text)) == bool(theirs.fullmatch(text))

    check()


def test_the_cpu_models_are_some_of_theirs():
    assert CPU_MODELS
    assert set(CPU_MODELS) <= set(json.loads((SHARED / "proxmox" / "cpu_models.json").read_text(encoding="utf-8")))
