# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""VMs, findings and steps as text."""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._text.columns import format_columns
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import natural_key

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.findings import Finding
    from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.state import Cluster
    from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.steps import Step

_HEADER = ("NODE", "VM", "VMID", "WHAT", "GPUS", "CORES", "MEMORY MIB", "NOW")
_DONE_HEADER = ("NODE", "VM", "VMID", "NOW", "DONE")


def format_vms(vms: Iterable[Mapping[str, t.Any]], clusters: Mapping[str, Cluster] | None) -> str:
    """Return the definitions as a table, with what is there now where that was asked."""
    rows = []
    for one in sorted(vms, key=lambda one: (natural_key(one["node"]), natural_key(one["name"]))):
        what = ", ".join(one["roles"]) if "roles" in one else one.get("role") or f"model {one['model']}"
        gpus = ", ".join(entry["path"] for entry in one["mappings"]) or None
        config = [one["config"][key] for key in ("cores", "memory")]
        rows.append([one["node"], one["name"], one["vmid"], what, gpus, *config, _now(one, clusters)])
    lines = format_columns(_HEADER, rows)
    return "\n".join(lines) + "\n" if rows else "The plan has no VMs.\n"


def _now(one: Mapping[str, t.Any], clusters: Mapping[str, Cluster] | None) -> str | None:
    cluster = (clusters or {}).get(one["cluster"])
    if cluster is None or cluster.error is not None:
        return None
    guest = cluster.guests.get(one["vmid"])
    if guest is None:
        return "missing"
    return ("running" if guest.running else "stopped") if guest.ours else "taken"


def format_findings(findings: Sequence[Finding]) -> str:
    """Return the findings as lines, the worst first. That a VM is not there yet is said by the table."""
    return "".join(f"{_one_line(one.line())}\n" for one in findings if one.code != "missing")


def format_steps(steps: Sequence[Step]) -> str:
    """Return what is going to be done, in order."""
    titles = {"remove": "To remove", "release": "To do first", "map": "To make or change", "unmap": "To remove"}
    return "".join(f"{titles[one.phase]}: {_one_line(one.text)}\n" for one in steps if one.phase in titles)


def format_results(results: Iterable[Mapping[str, t.Any]]) -> str:
    """Return what the modules did, as a table and the notes that somebody should read."""
    rows, notes = [], []
    for result in results:
        vm = (result.get("item") or {}).get("vm") or {}
        host = str(result.get("host") or "")
        mapping = (result.get("item") or {}).get("mapping")
        if mapping is not None:
            # What was done to mappings is told by their tasks; only what was not done is worth a line.
            notes += [f"mapping {mapping.get('id')}: {result.get('msg')}"] if result.get("failed") else []
            continue
        name = str(result.get("name") or vm.get("name") or "")
        if result.get("failed"):
            done = "failed"
            notes.append(f"{name}: {result.get('msg')}")
        else:
            actions = [str(action["action"]) for action in result.get("actions") or ()]
            done = ", ".join(actions) or "nothing"
        rows.append([host, name, result.get("vmid") or vm.get("vmid"), result.get("vm_status"), done])
        notes += _notes(name, result)
    if not rows:
        return "".join(f"{_one_line(note)}\n" for note in notes)
    rows.sort(key=lambda row: (natural_key(str(row[0])), natural_key(str(row[1]))))
    return "\n".join(format_columns(_DONE_HEADER, rows)) + "\n" + "".join(f"{_one_line(note)}\n" for note in notes)


def _notes(name: str, result: Mapping[str, t.Any]) -> Iterable[str]:
    pending = result.get("pending") or {}
    if result.get("restart_needed"):
        keys = ", ".join(sorted(pending, key=natural_key)) or "a change"
        yield f"{name}: {keys} waits for a restart"
    for one in result.get("external_additions") or ():
        yield f"{name}: {one.get('key')} ({one.get('value')}) was added manually"
    for one in result.get("attention") or ():
        yield f"{name}: {one.get('key')}: {one.get('text')}. {one.get('remedy')}"


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)
