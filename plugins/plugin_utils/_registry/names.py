# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Names of slots: readable where they can be, one of a kind always, and never a way out of a directory."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.declared import ADDRESS
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import dns_label, short_hash, shown

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# What a slot's id is made of; it is the name of a file and of a systemd unit.
SLOT_ID = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?", re.ASCII)
MAX_ID = 200

_MAX_PART = 80
# Of the hash that tells names apart.
_DIGITS = 8
_NOT_IN_GROUP = re.compile(r"[^a-z0-9_]+", re.ASCII)
_NOT_IN_SLUG = re.compile(r"[^a-z0-9._-]+", re.ASCII)
_DOTS = re.compile(r"\.{2,}")
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?", re.ASCII)
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*", re.ASCII)
_MAX_HOST = 253
_PLAIN_NODE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?", re.ASCII)


class SlotKey(t.NamedTuple):
    """What tells a slot from every other: whose it is, which replica, and its name there."""

    kind: str  # role or model
    owner: str
    replica: int
    name: str


def slug(name: str) -> str:
    """Return a name in lower case with nothing in it that a path or a unit would take for something else."""
    text = _DOTS.sub(".", _NOT_IN_SLUG.sub("-", name.lower())).strip("._-")
    if not text:
        return short_hash(name, _DIGITS)
    if len(text) > _MAX_PART:
        text = f"{text[: _MAX_PART - 9].rstrip('._-')}-{short_hash(name, _DIGITS)}"
    return text


def slot_ids(keys: Iterable[SlotKey]) -> dict[SlotKey, str]:
    """Return an id for each slot, in any order the same.

    Where two would have one id, the one whose names are their own slugs keeps it (a role before a model); the others end
    in a hash of their names.
    """
    plain: dict[str, list[SlotKey]] = {}
    for key in dict.fromkeys(keys):
        plain.setdefault(f"{slug(key.owner)}.{key.replica}.{slug(key.name)}", []).append(key)
    found = {}
    for text, claimants in plain.items():
        exact = [key for key in claimants if slug(key.owner) == key.owner and slug(key.name) == key.name]
        first = max(exact, key=lambda key: (key.kind, key)) if exact else claimants[0] if len(claimants) == 1 else None
        for key in claimants:
            found[key] = (
                text if key == first else f"{text}-{short_hash(chr(0).join(str(part) for part in key), _DIGITS)}"
            )
    return found


def is_address(host: str) -> bool:
    """Return whether a host is an address, with or without brackets."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return "%" not in host


def ends_in_number(host: str) -> bool:
    """Return whether a name is read as an IPv4 address in a URL, whether it is one or not."""
    return _NUMBER.fullmatch(host.rpartition(".")[2]) is not None


def node_host(node: str) -> str:
    """Return the name or address by which a node is reached: its own name where that can be one, else a DNS label."""
    if is_address(node) and "[" not in node:
        return node
    is_host = len(node) <= _MAX_HOST and all(_LABEL.fullmatch(label) for label in node.split("."))
    return node if is_host and not ends_in_number(node) else dns_label(node)


def url_host(text: t.Any) -> str | None:
    """Return an address or the name of a host as it stands in a URL; None where a text is neither."""
    if not isinstance(text, str) or "%" in text:
        return None
    if is_address(text):
        bare = text.strip("[]")
        return f"[{bare}]" if ":" in bare else bare
    is_name = len(text) <= _MAX_HOST and all(_LABEL.fullmatch(label) for label in text.split("."))
    return text if is_name and not ends_in_number(text) else None


def inventory_address(variables: Mapping[str, t.Any]) -> str | None:
    """Return by what the inventory says that a node is reached: the address that is stated, else where Ansible connects to.

    Where Ansible connects to may be a name that only SSH knows, or this machine itself; these reach no engine.

    :raises ValueError: where what is stated is no address
    """
    stated = variables.get(ADDRESS)
    if stated is not None:
        if url_host(stated) is None:
            raise ValueError(f"{ADDRESS}: must be an address or the name of a host, not {shown(stated)}")
        return url_host(stated)
    host = url_host(variables.get("ansible_host"))
    if host is None or host == "localhost" or (is_address(host) and ipaddress.ip_address(host.strip("[]")).is_loopback):
        return None
    return host


def machine_name(place: Mapping[str, t.Any]) -> str:
    """Return the name of the machine of a slot or of a part of it: of its virtual machine, else of its node."""
    machine = place.get("vm")
    if machine is not None:
        return str(machine["name"])
    node = str(place["node"])
    # The host of the node itself, whose variables hold for its engines.
    return node if _PLAIN_NODE.fullmatch(node) else node_host(node)


def group_names(kind: str, names: Iterable[str]) -> dict[str, str]:
    """Return the name of an inventory group for each name; different names never share a group.

    Where two would, the one that needed no change keeps it, and the others end in a hash.
    """
    claimed: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        claimed.setdefault(_NOT_IN_GROUP.sub("_", slug(name)), []).append(name)
    found = {}
    for text, claimants in claimed.items():
        for name in claimants:
            plain = name == text or len(claimants) == 1
            found[name] = f"{kind}_{text}" if plain else f"{kind}_{text}_{short_hash(name, _DIGITS)}"
    return found
