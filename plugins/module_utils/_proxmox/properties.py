# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The values of a VM's configuration as Proxmox VE writes them, brought to one form for comparing.

PVE rewrites what it is given: it sorts tags and writes them small, names and sizes drives, adds MAC addresses, encodes
keys, and orders the parts of an option as it likes. Keys, default keys and defaults are those of ``QemuServer.pm`` and of
``PVE/QemuServer/*.pm`` in qemu-server 8 and 9, described in qm.conf(5).
"""

from __future__ import annotations

import re
import typing as t
import urllib.parse
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.module_utils._pci import parse_address

NODE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?\Z")
_DRIVE = re.compile(r"(?:ide|sata|scsi|virtio)\d+\Z|(?:efidisk0|tpmstate0)\Z")
_NUMBERED = re.compile(r"([a-z_-]+?)(\d+)\Z")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?)\Z")
_CLOUDINIT = re.compile(r"(?:\A|-)cloudinit(?:\.\w+)?\Z")
_NEW_VOLUME = re.compile(r"(\d+(?:\.\d+)?)\Z")
_NET_MODELS = frozenset(
    (
        "e1000", "e1000-82540em", "e1000-82544gc", "e1000-82545em", "e1000e", "i82551", "i82557b", "i82559er",
        "ne2k_isa", "ne2k_pci", "pcnet", "rtl8139", "virtio", "vmxnet3",
    )
)  # fmt: skip
# The name that the first part of an option has when it is written without one, and what PVE does where a part is absent.
_DEFAULT_KEYS = {
    "agent": "enabled", "boot": "legacy", "cpu": "cputype", "hostpci": "host", "machine": "type", "memory": "current",
    "numa": "cpus", "rng": "source", "startup": "order", "usb": "host", "vga": "type", "virtiofs": "dirid",
    "watchdog": "model",
}  # fmt: skip
_WITHOUT_DEFAULT_KEY = frozenset(("audio", "cicustom", "ipconfig", "ivshmem", "smbios", "spice_enhancements"))
_PART_DEFAULTS: t.Dict[str, t.Dict[str, str]] = {
    "agent": {
        "enabled": "0",
        "freeze-fs": "1",
        "freeze-fs-on-backup": "1",
        "fstrim_cloned_disks": "0",
        "type": "virtio",
    },
    "cpu": {"hidden": "0"},
    "hostpci": {"rombar": "1", "pcie": "0", "x-vga": "0", "legacy-igd": "0"},
    "net": {"firewall": "0", "link_down": "0"},
    "usb": {"usb3": "0"},
    "vga": {"type": "std"},
    "virtiofs": {"cache": "auto", "direct-io": "0", "expose-acl": "0", "expose-xattr": "0"},
}
_DRIVE_DEFAULTS = {
    "backup": "1", "replicate": "1", "iothread": "0", "ssd": "0", "ro": "0", "shared": "0", "snapshot": "0",
    "scsiblock": "0", "media": "disk", "discard": "ignore", "cache": "none", "detect_zeroes": "1", "efitype": "2m",
    "pre-enrolled-keys": "0", "version": "v1.2",
}  # fmt: skip
_BOOLEAN_PARTS = frozenset(
    (
        "enabled", "freeze-fs", "freeze-fs-on-backup", "fstrim_cloned_disks", "hidden", "rombar", "pcie", "x-vga",
        "legacy-igd", "firewall", "link_down", "usb3", "direct-io", "expose-acl", "expose-xattr", "backup", "replicate",
        "iothread", "ssd", "ro", "shared", "snapshot", "scsiblock", "detect_zeroes", "pre-enrolled-keys",
    )
)  # fmt: skip
# What PVE adds to a drive by itself, and what only says how it was made.
_DRIVE_ADDED = frozenset(("size", "format", "ms-cert", "import-from"))
FIXED_DRIVES = frozenset(("efidisk0", "tpmstate0"))
_BOOLEANS = frozenset(
    (
        "acpi", "allow-ksm", "autostart", "ciupgrade", "freeze", "keephugepages", "kvm", "localtime", "numa", "onboot",
        "protection", "reboot", "tablet", "tdf",
    )
)  # fmt: skip
# What a VM has where its configuration does not say it.
DEFAULTS = {
    "acpi": "1", "allow-ksm": "1", "autostart": "0", "bios": "seabios", "ciupgrade": "1", "cores": "1", "cpulimit": "0",
    "freeze": "0", "keephugepages": "0", "kvm": "1", "localtime": "0", "memory": "512", "numa": "0", "onboot": "0",
    "ostype": "other", "protection": "0", "reboot": "1", "scsihw": "lsi", "sockets": "1", "tablet": "1", "tdf": "0",
}  # fmt: skip
_WORDS = {"1": "1", "on": "1", "yes": "1", "true": "1", "0": "0", "off": "0", "no": "0", "false": "0"}
_LISTS = frozenset(("nameserver", "searchdomain"))


def natural(key: str) -> t.Tuple[str, int]:
    """Return a sort key that puts hostpci2 before hostpci10."""
    match = _NUMBERED.match(key)
    return (match.group(1), int(match.group(2))) if match else (key, -1)


def is_drive(key: str) -> bool:
    """Return whether it is the key of a drive."""
    return bool(_DRIVE.match(key))


def family(key: str) -> str:
    """Return a key without its number; numa and numa0 are different things."""
    match = _NUMBERED.match(key)
    return match.group(1) if match else key


def parse_properties(text: str, default_key: t.Optional[str]) -> t.Dict[str, str]:
    """Return the parts of ``a,b=1,c=2``; one without a name has the default key, or its own text where there is none."""
    parts: t.Dict[str, str] = {}
    for part in str(text).split(","):
        if not part:
            continue
        name, equals, value = part.partition("=")
        if equals:
            parts[name.strip()] = value
        elif default_key is not None and default_key not in parts:
            parts[default_key] = part
        else:
            parts[part] = ""
    return parts


def value_text(key: str, value: t.Any) -> str:
    """Return a value of YAML as PVE takes it."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    text = str(value)
    if key in _BOOLEANS:
        return _WORDS.get(text.strip().lower(), text)
    return text


def parse_option(key: str, text: str) -> t.Dict[str, str]:
    """Return the parts of an option in the form that is compared."""
    kind = family(key)
    parts = _without_defaults(parse_properties(text, _DEFAULT_KEYS.get(kind)), _PART_DEFAULTS.get(kind, {}))
    if kind == "hostpci" and "host" in parts:
        addresses = [(part.lower(), parse_address(part)) for part in parts["host"].split(";")]
        parts["host"] = ";".join(address.text if address else part for part, address in addresses)
    return parts


def _without_defaults(parts: t.Mapping[str, str], defaults: t.Mapping[str, str]) -> t.Dict[str, str]:
    """Return parts with 1 and 0 for booleans, without those that only say what PVE does anyway."""
    clean = {name: _WORDS.get(text.lower(), text) if name in _BOOLEAN_PARTS else text for name, text in parts.items()}
    return {name: text for name, text in clean.items() if defaults.get(name) != text}


def parse_net(text: str) -> t.Tuple[t.Dict[str, str], t.Optional[str]]:
    """Return the parts of a network card without its MAC address, and the address: PVE makes one where none is said."""
    parts = parse_properties(text, "model")
    mac = parts.pop("macaddr", None)
    for model in sorted(_NET_MODELS & set(parts)):
        mac = parts.pop(model) or mac
        parts["model"] = model
    return _without_defaults(parts, _PART_DEFAULTS["net"]), mac.upper() if mac else None


def comparable(key: str, text: t.Any) -> t.Any:
    """Return a value in the form that is compared; for everything but drives, network cards and descriptions."""
    shown = value_text(key, text)
    kind = family(key)
    if key == "tags":
        return sorted(parse_tags(shown))
    if key == "sshkeys":
        return parse_ssh_keys(shown)
    if key in _LISTS:
        return re.split(r"[\s,;]+", shown.strip())
    if key == "hotplug":
        return sorted(part for part in re.split(r"[\s,;]+", shown) if part)
    if key not in _BOOLEANS and (kind in _DEFAULT_KEYS or kind in _WITHOUT_DEFAULT_KEY):
        return parse_option(key, shown)
    if re.match(r"\d+(?:\.\d+)?\Z", shown) and key not in ("name", "ciuser"):
        return float(shown)
    return shown.strip()


def parse_tags(text: str) -> t.Set[str]:
    """Return the tags of a VM in lower case."""
    return {tag.lower() for tag in re.split(r"[,;\s\0]+", text) if tag}


def parse_ssh_keys(text: str) -> t.List[str]:
    """Return the keys one by one, whether they are encoded as PVE keeps them or not."""
    if not re.search(r"\s", text.strip()) and "%" in text:
        text = urllib.parse.unquote(text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


@dataclass(frozen=True)
class Drive:
    """A drive.

    :ivar file: the volume with its storage in front
    :ivar new_gib: the GiB of a volume that has to be made
    :ivar size: the bytes that PVE says of a volume that is there
    :ivar options: what a definition says of the drive, without what PVE does anyway
    :ivar parts: everything behind the file, as it is written
    """

    file: str
    storage: t.Optional[str]
    volume: str
    new_gib: t.Optional[float]
    size: t.Optional[int]
    options: t.Mapping[str, str]
    parts: t.Mapping[str, str]

    @property
    def is_cloudinit(self) -> bool:
        """Return whether it is the drive that hands cloud-init its data."""
        return self.storage is not None and bool(_CLOUDINIT.search(self.volume))

    @property
    def is_empty(self) -> bool:
        """Return whether it is a drive without medium or the host's own."""
        return self.storage is None and self.volume in ("none", "cdrom")


def parse_drive(text: str) -> Drive:
    """Return the value of a drive, as it is wanted or as PVE keeps it."""
    parts = parse_properties(text, "file")
    file = parts.pop("file", "") or parts.pop("volume", "")
    storage, colon, volume = file.partition(":")
    if not colon:
        storage, volume = "", file
    new = _NEW_VOLUME.match(volume) if colon else None
    said = {key: value for key, value in parts.items() if key not in _DRIVE_ADDED}
    options = _without_defaults(said, _DRIVE_DEFAULTS)
    drive = Drive(
        file=file,
        storage=storage if colon else None,
        volume=volume,
        new_gib=float(new.group(1)) if new else None,
        size=size_bytes(parts.get("size")),
        options=options,
        parts=parts,
    )
    if drive.is_cloudinit:
        options.pop("media", None)
    return drive


def size_bytes(text: t.Optional[str]) -> t.Optional[int]:
    """Return the bytes of a size such as 64G, None for other text."""
    match = _SIZE.match(text or "")
    if not match:
        return None
    return int(float(match.group(1)) * 1024 ** " KMGT".index(match.group(2) or " "))


def drive_text(file: str, parts: t.Mapping[str, str]) -> str:
    """Return the text of a drive or network card from its first part and the others, sorted."""
    return ",".join([file, *(f"{name}={value}" for name, value in sorted(parts.items()))])
