# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The definitions as shell commands, for people who make their VMs by hand."""

from __future__ import annotations

import shlex
import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import natural_key

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_HEAD = """\
#!/bin/sh
# The virtual machines of the plan as commands, made by knaster.inventory: the same as its playbook "provision" does
# through the API. Each cluster has a branch of its own. Run it as root on a node of the cluster:
#
#   ssh root@NODE sh -s CLUSTER < this-file
#
# It makes what is not there yet, and ends at the first command that fails. A mapping or a VM that is there already
# makes its command fail: take out the lines before it then.
set -eu
case "${1-}" in
"""
_TAIL = """\
*)
  echo "usage: $0 CLUSTER, one of:" >&2
  printf '  %s\\n' {clusters} >&2
  exit 2
  ;;
esac
"""


def render_commands(vms: Iterable[Mapping[str, t.Any]]) -> str:
    """Return a script that makes the mappings and VMs of all clusters; every value from data is quoted."""
    clusters: dict[str, list[Mapping[str, t.Any]]] = {}
    for one in sorted(vms, key=lambda one: natural_key(str(one["name"]))):
        clusters.setdefault(str(one["cluster"]), []).append(one)
    names = sorted(clusters, key=natural_key)
    lines = [_HEAD]
    for name in names:
        lines.append(f"{shlex.quote(name)})\n")
        lines += [f"  {command}\n" if command else "\n" for command in _of_cluster(clusters[name])]
        lines.append("  ;;\n")
    lines.append(_TAIL.format(clusters=" ".join(shlex.quote(name) for name in names) or "none"))
    return "".join(lines)


def _of_cluster(vms: Sequence[Mapping[str, t.Any]]) -> Iterable[str]:
    entries: dict[str, list[str]] = {}
    for one in vms:
        for entry in one["mappings"]:
            entries.setdefault(str(entry["id"]), []).append(mapping_text(entry))
    for name in sorted(entries, key=natural_key):
        yield _command("create", "/cluster/mapping/pci", {"id": name, "map": sorted(entries[name])})
    for one in vms:
        yield from _of_vm(one)


def mapping_text(entry: Mapping[str, t.Any]) -> str:
    """Return an entry of a mapping as Proxmox VE takes it."""
    values = {
        "id": entry["pci_id"],
        "iommugroup": entry.get("iommu_group"),
        "node": entry["node"],
        "path": entry["path"],
        "subsystem-id": entry.get("subsystem_id"),
    }
    return ",".join(f"{key}={value}" for key, value in values.items() if value is not None)


def _of_vm(one: Mapping[str, t.Any]) -> Iterable[str]:
    vmid, config = one["vmid"], one["config"]
    path = f"/nodes/{one['pve_node']}/qemu"
    source = one.get("source") or {}
    pool = {"pool": one["pool"]} if "pool" in one else {}
    yield ""
    yield f"# {one['name']} on {one['pve_node']}"
    disk = str(config.get("scsi0", ""))
    storage, _colon, rest = disk.partition(":")
    size, _comma, options = rest.partition(",")
    if "template" in source:
        full = source.get("full", True)
        to = {"storage": storage} if disk and full else {}
        clone = f"{path}/{source['template']}/clone"
        yield _command("create", clone, {"newid": vmid, "name": one["name"], "full": int(full), **to, **pool})
        later = {key: value for key, value in config.items() if key not in ("name", "scsi0")}
        yield _command("set", f"{path}/{vmid}/config", later)
    elif "image" in source:
        first = ",".join(part for part in (f"{storage}:0", f"import-from={source['image']}", options) if part)
        yield _command("create", path, {"vmid": vmid, **config, "scsi0": first, **pool})
    else:
        yield _command("create", path, {"vmid": vmid, **config, **pool})
    if source and size:
        yield _command("set", f"{path}/{vmid}/resize", {"disk": "scsi0", "size": f"{size}G"})
    if one["start"]:
        yield _command("create", f"{path}/{vmid}/status/start", {})


def _command(verb: str, path: str, options: Mapping[str, t.Any]) -> str:
    words = ["pvesh", verb, shlex.quote(path)]
    for key, value in options.items():
        for item in value if isinstance(value, list) else [value]:
            words += [f"--{key}", shlex.quote(str(item))]
    return " ".join(words)
