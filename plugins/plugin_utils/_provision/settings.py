# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What may be said of a VM by its role, by its node and by the user for all of them, and what a run may do."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import (
    find_violations,
    format_path,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.names import DEFAULT_PREFIX

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

DEFAULT_RANGE = (9000, 9999)
DEFAULT_STORAGE = "local-lvm"
DEFAULT_BRIDGE = "vmbr0"
DEFAULT_DISK_GB = 64

# What the plan decides.
_DECIDED = (
    "is decided by the plan or by another setting; leave it out",
    r"cores|description|digest|lock|memory|name|node|tags|template|vmid|(hostpci|ipconfig|unused)[0-9]+",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The checked settings of a run."""

    defaults: Mapping[str, t.Any] = field(default_factory=dict)
    nodes: Mapping[str, Mapping[str, t.Any]] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)
    vmid_first: int = DEFAULT_RANGE[0]
    vmid_last: int = DEFAULT_RANGE[1]
    mapping_prefix: str = DEFAULT_PREFIX
    fleet: str = ""

    def of_node(self, node: str) -> Mapping[str, t.Any]:
        """Return the settings of one node."""
        return self.nodes.get(node, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """What the user lets a run do."""

    stop: bool = False
    prune: bool = False
    recreate: bool = False
    strict: bool = False


def read_settings(values: t.Any) -> Settings:
    """Return the settings of a run; a null is as good as absent.

    :raises InputError: with everything that is wrong
    """
    given = _without_nulls(values or {})
    errors = [str(one) for one in find_violations({"settings": given}, "provision")]
    found = Settings() if errors else Settings(**given)
    if found.vmid_last < found.vmid_first:
        errors.append(f"settings.vmid_last: must be at least vmid_first, {found.vmid_first}, not {found.vmid_last}")
    nodes = _map(_map(given).get("nodes"))
    for where, vm in {"defaults": _map(given).get("defaults"), **{f"nodes.{key}": nodes[key] for key in nodes}}.items():
        errors += [f"settings.{where}{error}" for error in _vm_errors(_map(vm))]
    if errors:
        raise InputError(errors)
    return found


def role_settings(roles: Iterable[Mapping[str, t.Any]], errors: dict[str, list[str]]) -> dict[str, Mapping[str, t.Any]]:
    """Return what each role says of its VMs, without what is null or 0.

    :param errors: what is wrong is added here by role; a role with an error says nothing
    """
    found: dict[str, Mapping[str, t.Any]] = {}
    for role in roles:
        said = _without_nulls({"vm": role.get("vm")})
        violations = find_violations({"roles": [said]}, "provision")
        wrong = [f"{format_path(one.path[2:])}: {one.message}" for one in violations]
        vm = _map(said.get("vm"))
        wrong += [f"vm{error}" for error in _vm_errors(vm)]
        if wrong:
            errors[str(role.get("name"))] = [f"role {role.get('name')}: {error}" for error in wrong]
        else:
            found[str(role.get("name"))] = {key: value for key, value in vm.items() if value or value is False}
    return found


def _vm_errors(vm: Mapping[str, t.Any]) -> Iterator[str]:
    """Yield what a schema cannot say well, each with its path in front."""
    message, names = _DECIDED
    for key in _map(vm.get("config")):
        if re.fullmatch(names, str(key)):
            yield f".config.{key}: {message}"
    if "cipassword" in _map(vm.get("cloud_init")):
        yield ".cloud_init.cipassword: a password does not belong in a file of definitions; give sshkeys"
    if "template" in vm and "image" in vm:
        yield ": template and image contradict each other; keep one of the two"


def _map(value: t.Any) -> dict[str, t.Any]:
    return value if isinstance(value, dict) else {}


def _without_nulls(value: t.Any) -> t.Any:
    if not isinstance(value, dict):
        return value
    return {key: _without_nulls(one) for key, one in value.items() if one is not None}
