# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What may be said of a virtual machine: by its role, by its node, and by the user for all of them."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.names import (
    CONFIG_ID,
    DEFAULT_PREFIX,
)

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DEFAULT_RANGE = (9000, 9999)
LEAST_VMID, LAST_VMID = 100, 999999999
DEFAULT_STORAGE = "local-lvm"
DEFAULT_BRIDGE = "vmbr0"
DEFAULT_DISK_GB = 64

NODE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?")

_STORAGE = re.compile(r"[A-Za-z][A-Za-z0-9._-]*[A-Za-z0-9]")
_BRIDGE = re.compile(r"[-_.A-Za-z0-9]+")
_TAG = re.compile(r"[a-z0-9_][a-z0-9_+.-]*")
_OPTION = re.compile(r"[a-z][a-z0-9-]*")
# A volume of a storage, or a file on the node. A comma or a space would add an option to the drive.
_IMAGE = re.compile(r"[A-Za-z][A-Za-z0-9._-]*:[^\s,;=]+|/[^\s,;=]+")
_IP = re.compile(r"ipconfig(?:[0-9]|[12][0-9]|3[01])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

CLOUD_INIT = ("cicustom", "citype", "ciupgrade", "ciuser", "ipconfig0", "nameserver", "searchdomain", "sshkeys")

# What the plan decides, and what only root may set: an API token is refused there by PVE.
_DECIDED = frozenset(("description", "digest", "memory", "name", "cores", "node", "tags", "template", "vmid", "lock"))
_ROOT_ONLY = frozenset(("affinity", "args", "hookscript", "hugepages", "keephugepages", "lxc", "vmstatestorage"))
_NUMBERED = re.compile(r"(?:hostpci|ipconfig|unused)[0-9]+")


class SettingsError(InputError):
    """Settings that cannot be used; ``errors`` has one text for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The checked settings of a run."""

    defaults: Mapping[str, t.Any] = field(default_factory=dict)
    nodes: Mapping[str, Mapping[str, t.Any]] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)
    vmids: tuple[int, int] = DEFAULT_RANGE
    prefix: str = DEFAULT_PREFIX

    def of_node(self, node: str) -> Mapping[str, t.Any]:
        """Settings of one node."""
        return self.nodes.get(node, {})


def _whole(low: int, high: int) -> Callable[[t.Any], str | None]:
    def check(value: t.Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            return f"a whole number from {low} to {high}"
        return None

    return check


def _text(pattern: re.Pattern[str], what: str) -> Callable[[t.Any], str | None]:
    def check(value: t.Any) -> str | None:
        return None if isinstance(value, str) and len(value) <= 512 and pattern.fullmatch(value) else what

    return check


def _flag(value: t.Any) -> str | None:
    return None if isinstance(value, bool) else "true or false"


def _tags(value: t.Any) -> str | None:
    if isinstance(value, list) and all(isinstance(tag, str) and _TAG.fullmatch(tag) for tag in value):
        return None
    return "a list of words of lower case letters, digits and _ + . -"


def _cloud_init(value: t.Any) -> str | None:
    if not isinstance(value, dict):
        return "a mapping"
    for key, item in value.items():
        if key == "cipassword":
            return "without cipassword, because a password does not belong in a file of definitions: give sshkeys"
        if key not in CLOUD_INIT and not _IP.fullmatch(key):
            return f"of {', '.join(CLOUD_INIT)} and further ipconfig, not {key}"
        if isinstance(item, bool) and key != "ciupgrade":
            return f"of texts: {key} is {item}"
        if not isinstance(item, (str, int)) or (key != "sshkeys" and _CONTROL.search(str(item))):
            return f"of texts of one line: {key} is not"
    return None


def _config(value: t.Any) -> str | None:
    if not isinstance(value, dict):
        return "a mapping"
    for key, item in value.items():
        if not isinstance(key, str) or not _OPTION.fullmatch(key):
            return f"of the options of Proxmox VE, not {key!r}"
        if key in _ROOT_ONLY:
            return f"without {key}, which Proxmox VE lets only root set and no API token"
        if key in _DECIDED or _NUMBERED.fullmatch(key):
            return f"without {key}, which is decided by the plan or by another setting"
        if not isinstance(item, (str, int, float)) or _CONTROL.search(str(item)):
            return f"of texts and numbers: {key} is not"
    return None


# Of each setting: what it must be, or None where the value is right.
_VM: Mapping[str, Callable[[t.Any], str | None]] = {
    "bridge": _text(_BRIDGE, "the name of a bridge"),
    "cloud_init": _cloud_init,
    "config": _config,
    "cores": _whole(1, 8192),
    "disk_gb": _whole(1, 1000000),
    "image": _text(_IMAGE, "a volume such as local:import/debian-13.qcow2, or a path on the node"),
    "start": _flag,
    "start_order": _flag,
    "storage": _text(_STORAGE, "the name of a storage"),
    "tags": _tags,
    "template": _whole(LEAST_VMID, LAST_VMID),
    "vlan": _whole(1, 4094),
}
_OF_NODE: Mapping[str, Callable[[t.Any], str | None]] = {
    **_VM,
    "cluster": _text(re.compile(r"[A-Za-z0-9._:\[\]-]+"), "the host and port of the API"),
    "pve_node": _text(NODE_NAME, "the name of a node of Proxmox VE"),
}
# What a role says beside the settings: it is checked where it is used.
_OF_ROLE = frozenset(("memory_mib",))


def find_vm_errors(values: t.Any, where: str, *, of_node: bool = False, of_role: bool = False) -> list[str]:
    """One text for each setting of a machine that cannot be used; a null is as good as absent."""
    if values is None:
        return []
    if not isinstance(values, dict):
        return [f"{where}: expected a mapping"]
    known = _OF_NODE if of_node else _VM
    errors = []
    for key, value in values.items():
        if value is None or (of_role and (key in _OF_ROLE or (value == 0 and key in ("cores", "disk_gb")))):
            continue
        if key not in known:
            errors.append(f"{where}.{key}: is no setting; there are {', '.join(sorted(known))}")
            continue
        expected = known[key](value)
        if expected is not None:
            errors.append(f"{where}.{key}: must be {expected}")
    if values.get("template") is not None and values.get("image") is not None:
        errors.append(f"{where}: template and image contradict each other; keep one of the two")
    return errors


def read_settings(values: t.Any) -> Settings:
    """Check the settings of a run.

    :raises SettingsError: with everything that is wrong
    """
    values = values or {}
    if not isinstance(values, dict):
        raise SettingsError(["settings: expected a mapping"])
    known = ("addresses", "defaults", "mapping_prefix", "nodes", "vmid_first", "vmid_last")
    errors = [f"settings.{key}: is no setting; there are {', '.join(known)}" for key in values if key not in known]
    defaults = values.get("defaults") or {}
    nodes = values.get("nodes") or {}
    addresses = values.get("addresses") or {}
    prefix = values.get("mapping_prefix") or DEFAULT_PREFIX
    errors += find_vm_errors(defaults, "settings.defaults")
    if isinstance(nodes, dict):
        for name, one in nodes.items():
            errors += find_vm_errors(one, f"settings.nodes.{name}", of_node=True)
    else:
        errors.append("settings.nodes: expected a mapping of the nodes' names")
    if not isinstance(addresses, dict) or not all(isinstance(text, str) for text in addresses.values()):
        errors.append(
            "settings.addresses: expected a mapping of machines' names to texts such as ip=10.0.0.7/24,gw=10.0.0.1"
        )
        addresses = {}
    errors += [
        f"settings.addresses.{name}: must be a text such as ip=10.0.0.7/24,gw=10.0.0.1"
        for name, text in addresses.items()
        if not re.fullmatch(r"(?:(?:ip|gw|ip6|gw6)=[0-9A-Za-z.:/]+)(?:,(?:ip|gw|ip6|gw6)=[0-9A-Za-z.:/]+)*", text)
    ]
    if not isinstance(prefix, str) or not CONFIG_ID.fullmatch(prefix) or len(prefix) > 20:
        errors.append(
            "settings.mapping_prefix: must be a word of at least two letters, digits, _ and -, a letter first"
        )
    vmids = (values.get("vmid_first", DEFAULT_RANGE[0]), values.get("vmid_last", DEFAULT_RANGE[1]))
    check = _whole(LEAST_VMID, LAST_VMID)
    wrong = [
        f"settings.{name}: must be {expected}"
        for name, number in zip(("vmid_first", "vmid_last"), vmids, strict=True)
        if (expected := check(number)) is not None
    ]
    if not wrong and vmids[1] < vmids[0]:
        wrong.append(f"settings.vmid_last: {vmids[1]} is below vmid_first, {vmids[0]}")
    errors += wrong
    if errors:
        raise SettingsError(errors)
    return Settings(
        defaults={key: value for key, value in defaults.items() if value is not None},
        nodes={
            name: {key: value for key, value in (one or {}).items() if value is not None} for name, one in nodes.items()
        },
        addresses=addresses,
        vmids=vmids,
        prefix=prefix,
    )
