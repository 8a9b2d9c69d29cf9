# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The address of a VM, as its guest agent tells it."""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.client import Pve, PveError, join
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.properties import parse_net

_PAUSE = 3.0


def ask_address(api: Pve, node: str, vmid: int, net: str, limit: float) -> t.Tuple[t.Optional[str], t.Optional[str]]:
    """Ask the guest agent of a running VM until it tells an address, and return the address, or None and why there is none.

    :param net: the first network of the VM, whose addresses come first
    :param limit: for how many seconds to ask again while the agent is not there, or has no address yet
    """
    path = join("nodes", node, "qemu", vmid, "agent", "network-get-interfaces")
    mac = parse_net(net)[1]
    end = api.clock() + limit
    while True:
        reason = "its guest agent has no address yet"
        try:
            answer = api.get(path)
            found = pick_address(answer.get("result") if isinstance(answer, dict) else None, mac)
            if found is not None:
                return found, None
        except PveError as exc:
            reason = str(exc)
            if exc.status in (401, 403):
                return None, reason
        if api.clock() >= end:
            return None, reason
        api.sleep(_PAUSE)


def pick_address(interfaces: t.Any, mac: t.Optional[str]) -> t.Optional[str]:
    """Return an address that others reach: of the interface with this MAC address before the others, IPv4 before IPv6."""
    found = []
    for place, interface in enumerate(interfaces if isinstance(interfaces, list) else []):
        if not isinstance(interface, dict):
            continue
        is_other = mac is None or str(interface.get("hardware-address", "")).upper() != mac
        for item in interface.get("ip-addresses") or []:
            address = _parse(item.get("ip-address") if isinstance(item, dict) else None)
            if address is not None:
                found.append((is_other, address.version, place, str(address)))
    return min(found)[3] if found else None


def _parse(text: t.Any) -> t.Union[ipaddress.IPv4Address, ipaddress.IPv6Address, None]:
    try:
        address = ipaddress.ip_address(str(text))
    except ValueError:
        return None
    beyond = address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified
    return None if beyond or "%" in str(text) else address
