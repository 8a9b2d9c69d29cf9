# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What Proxmox VE takes as values of a VM's configuration, so that a wrong one is told before anything is done.

The rules are those of qm.conf(5), of ``PVE/QemuServer.pm`` and ``PVE/QemuServer/*.pm``, and of ``PVE/JSONSchema.pm`` of Proxmox
VE 9. A key that stands in no table is left to Proxmox VE.
"""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.properties import (
    family,
    is_drive,
    natural,
    parse_drive,
    parse_net,
    parse_option,
    parse_properties,
    parse_ssh_keys,
)

# How many there can be of a numbered key.
_SLOTS = {
    "hostpci": 16, "ide": 4, "ipconfig": 32, "net": 32, "numa": 8, "parallel": 3, "sata": 6, "scsi": 31, "serial": 4, "usb": 14,
    "virtio": 16, "virtiofs": 10,
}  # fmt: skip
_CHOICES = {
    "arch": ("aarch64", "x86_64"),
    "bios": ("ovmf", "seabios"),
    "citype": ("configdrive2", "nocloud", "opennebula"),
    "hugepages": ("1024", "2", "any"),
    "ostype": (
        "l24", "l26", "other", "solaris", "w2k", "w2k3", "w2k8", "win10", "win11", "win7", "win8", "wvista", "wxp",
    ),
    "scsihw": ("lsi", "lsi53c810", "megasas", "pvscsi", "virtio-scsi-pci", "virtio-scsi-single"),
}  # fmt: skip
# The least and the greatest whole number, None for no limit.
_NUMBERS: t.Dict[str, t.Tuple[int, t.Optional[int]]] = {
    "balloon": (0, None), "cores": (1, None), "cpuunits": (1, 262144), "shares": (0, 50000), "sockets": (1, None),
    "vcpus": (1, None),
}  # fmt: skip
_FLAGS = frozenset(
    (
        "acpi", "allow-ksm", "autostart", "ciupgrade", "freeze", "keephugepages", "kvm", "localtime", "numa", "onboot",
        "protection", "reboot", "tablet", "tdf",
    )
)  # fmt: skip
_PATTERNS = {
    "affinity": r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*",
    "parallel": r"/dev/parport\d+|/dev/usb/lp\d+",
    "serial": r"socket|/dev/.+",
    "startup": r"(?:(?:order=)?\d+|up=\d+|down=\d+)(?:,(?:up|down|order)=\d+)*",
    "vmstatestorage": r"[A-Za-z][A-Za-z0-9._-]*[A-Za-z0-9]",
}
_HOTPLUG = frozenset(("cloudinit", "cpu", "disk", "memory", "network", "usb"))
_CICUSTOM = frozenset(("meta", "network", "user", "vendor"))
_VOLUME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*:\S+\Z")
_KEY_LINE = re.compile(r"(?:\S+ )?(?:ssh-|ecdsa-|sk-)\S+ [A-Za-z0-9+/]+=*(?: .*)?\Z")
_NAMESERVERS = re.compile(r"[\s,;]+")
# What Proxmox VE keeps for root@pam and its password. A serial port of the node, a USB device of the node and a ROM file are
# decided by their values.
_ROOT_ONLY = frozenset(
    (
        "affinity", "amd-sev", "arch", "args", "hookscript", "hugepages", "intel-tdx", "ivshmem", "keephugepages", "lock",
        "smp", "vmgenid",
    )
)  # fmt: skip
_STATIC_MEMORY = 1024


def value_errors(key: str, text: str) -> t.List[str]:
    """Return what is wrong with the value of a key."""
    kind = family(key)
    number = natural(key)[1]
    if kind in _SLOTS and number >= _SLOTS[kind]:
        return [f"there are {kind}0 to {kind}{_SLOTS[kind] - 1} only"]
    if key in _CHOICES and text not in _CHOICES[key]:
        return [f"{text!r} must be one of {', '.join(_CHOICES[key])}"]
    if key in _NUMBERS:
        return _number_errors(text, *_NUMBERS[key])
    if key in _FLAGS and text not in ("0", "1"):
        return [f"{text!r} must be one of 0, 1"]
    pattern = _PATTERNS.get(key if number < 0 else kind)
    if pattern is not None and not re.match(rf"(?:{pattern})\Z", text):
        return [f"{text!r} is not what Proxmox VE takes"]
    check = _CHECKS.get(key if number < 0 else f"{kind}[n]")
    return check(text) if check else []


def _number_errors(text: str, low: int, high: t.Optional[int]) -> t.List[str]:
    if not re.match(r"[+-]?\d+\Z", text):
        return [f"{text!r} is not a whole number"]
    if int(text) < low or (high is not None and int(text) > high):
        return [f"{text} is not {f'from {low} to {high}' if high is not None else f'at least {low}'}"]
    return []


def _ipconfig_errors(text: str) -> t.List[str]:
    """Return what is wrong with the addresses of a network: each with its mask, a gateway beside an address only."""
    parts = parse_properties(text, None)
    errors = [f"{name} is not a part of it" for name in sorted(set(parts) - {"ip", "gw", "ip6", "gw6"})]
    for name, gateway, version, words in (("ip", "gw", 4, ("dhcp",)), ("ip6", "gw6", 6, ("auto", "dhcp"))):
        address = parts.get(name)
        if address is not None and address not in words and not _is_interface(address, version):
            errors.append(f"{name}={address} is not an address with its mask such as {_EXAMPLES[version]}")
        if gateway in parts:
            if not _is_address(parts[gateway], version):
                errors.append(f"{gateway}={parts[gateway]} is not an address without a mask")
            if address is None:
                errors.append(f"{gateway} needs {name} beside it")
    return errors


_EXAMPLES = {4: "10.0.0.21/24", 6: "fd00::21/64"}


def _is_interface(text: str, version: int) -> bool:
    address, slash, mask = text.partition("/")
    # PVE takes no mask of 0 to 7 bits.
    is_mask = bool(re.match(r"\d{1,3}\Z", mask)) and 8 <= int(mask) <= (32 if version == 4 else 128)
    return bool(slash) and is_mask and _is_address(address, version)


def _is_address(text: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(text).version == version and "%" not in text
    except ValueError:
        return False


def _cicustom_errors(text: str) -> t.List[str]:
    parts = parse_properties(text, None)
    errors = [
        f"{name!r} is not one of {', '.join(sorted(_CICUSTOM))}, such as vendor=local:snippets/gpu.yaml"
        for name in sorted(set(parts) - _CICUSTOM)
    ]
    return errors + [
        f"{name}={volume} is not a volume such as local:snippets/gpu.yaml"
        for name, volume in sorted(parts.items())
        if name in _CICUSTOM and not _VOLUME.match(volume)
    ]


def _sshkeys_errors(text: str) -> t.List[str]:
    lines = parse_ssh_keys(text)
    if not lines:
        return ["it has no key"]
    return [f"line {at}: it is not a public key" for at, line in enumerate(lines, 1) if not _KEY_LINE.match(line)]


def _hotplug_errors(text: str) -> t.List[str]:
    if text in ("0", "1"):
        return []
    wrong = sorted({part for part in re.split(r"[\s,;]+", text) if part} - _HOTPLUG)
    return [f"{part!r} must be one of {', '.join(sorted(_HOTPLUG))}" for part in wrong]


def _nameserver_errors(text: str) -> t.List[str]:
    wrong = [part for part in _NAMESERVERS.split(text.strip()) if not (_is_address(part, 4) or _is_address(part, 6))]
    return [f"{part!r} is not an address" for part in wrong]


def _memory_errors(text: str) -> t.List[str]:
    return _number_errors(parse_properties(text, "current").get("current", ""), 16, None)


def _net_errors(text: str) -> t.List[str]:
    parts, mac = parse_net(text)
    errors = [] if "model" in parts else ["it needs a model such as virtio"]
    # The second digit of the address of one interface is even.
    if mac is not None and not re.match(r"[0-9A-F][02468ACE](?::[0-9A-F]{2}){5}\Z", mac):
        errors.append(f"{mac} is not the MAC address of one interface, such as BC:24:11:00:00:01")
    for name, low, high in (("tag", 1, 4094), ("mtu", 1, 65520), ("queues", 0, 64)):
        if name in parts:
            errors += [f"{name}: {error}" for error in _number_errors(parts[name], low, high)]
    for name in ("firewall", "link_down"):
        if name in parts and parts[name] not in ("0", "1"):
            errors.append(f"{name}: {parts[name]!r} must be one of 0, 1")
    return errors


def _numa_errors(text: str) -> t.List[str]:
    return [] if "cpus" in parse_option("numa0", text) else ["it needs cpus, such as cpus=0-7"]


_CHECKS: t.Mapping[str, t.Callable[[str], t.List[str]]] = {
    "cicustom": _cicustom_errors,
    "hotplug": _hotplug_errors,
    "ipconfig[n]": _ipconfig_errors,
    "memory": _memory_errors,
    "nameserver": _nameserver_errors,
    "net[n]": _net_errors,
    "numa[n]": _numa_errors,
    "sshkeys": _sshkeys_errors,
}


def root_only_keys(config: t.Mapping[str, str]) -> t.List[str]:
    """Return the keys of a configuration that only root@pam may set, by their names or by their values."""
    return sorted((key for key, text in config.items() if _is_root_only(key, text)), key=natural)


def _is_root_only(key: str, text: str) -> bool:
    kind = family(key)
    if key in _ROOT_ONLY or (kind == "parallel" and key != kind):
        return True
    if kind == "serial" and key != kind:
        return text != "socket"
    if kind == "usb" and key != kind:
        host = parse_option(key, text).get("host")
        return host is not None and host.lower() != "spice"
    if kind == "hostpci":
        parts = parse_option(key, text)
        return "host" in parts or "romfile" in parts
    return is_drive(key) and parse_drive(text).file.startswith("/")


def numa_problems(config: t.Mapping[str, str]) -> t.List[str]:
    """Return why a VM with this NUMA topology and this hot-plug would not start (``PVE/QemuServer/Memory.pm``)."""
    features = re.split(r"[\s,;]+", config.get("hotplug", ""))
    is_numa = config.get("numa") == "1"
    if "memory" in features and not is_numa:
        return ["hotplug of memory needs numa"]
    nodes = {key: parse_option(key, text) for key, text in config.items() if re.match(r"numa\d+\Z", key)}
    if not is_numa or not nodes:
        return []
    memory = parse_properties(config.get("memory", "512"), "current").get("current", "0")
    sockets = int(_number(config.get("sockets", "1")))
    static = _STATIC_MEMORY * sockets if "memory" in features else _number(memory)
    problems = [f"{key} has no memory" for key in sorted(nodes, key=natural) if "memory" not in nodes[key]]
    problems += [
        f"{key} has hostnodes and no policy"
        for key in sorted(nodes, key=natural)
        if "hostnodes" in nodes[key] and "policy" not in nodes[key]
    ]
    total = sum(_number(node.get("memory", "0")) for node in nodes.values())
    if not problems and total != static:
        names = ", ".join(sorted(nodes, key=natural))
        problems.append(f"{names} have {total:g} MiB together, and Proxmox VE wants {static:g} MiB")
    cores = int(_number(config.get("cores", "1"))) * sockets
    named = [cpu for node in nodes.values() for cpu in _cpus(node.get("cpus", ""))]
    if sorted(named) != list(range(cores)):
        problems.append(f"{', '.join(sorted(nodes, key=natural))} name {len(named)} of {cores} cores")
    return problems


def _number(text: str) -> float:
    """Return a number, 0 for other text, which is told elsewhere."""
    return float(text) if re.match(r"\d{1,12}(?:\.\d+)?\Z", text) else 0.0


def _cpus(text: str) -> t.List[int]:
    found: t.List[int] = []
    for part in text.split(";"):
        match = re.match(r"(\d{1,5})(?:-(\d{1,5}))?\Z", part)
        if match:
            found.extend(range(int(match.group(1)), int(match.group(2) or match.group(1)) + 1))
    return found
