# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""A VM of Proxmox VE as it has to be, compared with what PVE keeps of it, without a network.

PVE rewrites what it is given: it sorts tags and writes them small, names and sizes drives, adds MAC addresses, encodes
keys, hides passwords, and orders the parts of an option as it likes. Both sides are brought to one form before they are
compared, and only what differs is sent.
"""

from __future__ import annotations

import json
import re
import typing as t
import urllib.parse
from dataclasses import dataclass, field

MARK = "knaster.inventory/1"
TAG = "knaster"

_NAME = re.compile(r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?\.)*[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?\Z")
_NODE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?\Z")
_KEY = re.compile(r"[a-z][a-z0-9_-]*\Z")
_DRIVE = re.compile(r"(?:ide|sata|scsi|virtio)\d+\Z|(?:efidisk0|tpmstate0)\Z")
_NUMBERED = re.compile(r"([a-z_-]+?)(\d+)\Z")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?)\Z")
_NEW_VOLUME = re.compile(r"(\d+(?:\.\d+)?)\Z")
_VOLUME_ID = re.compile(r"[a-zA-Z][a-zA-Z0-9._-]*:\S+\Z")
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
_DRIVE_ADDED = frozenset(("file", "size", "format", "ms-cert", "import-from"))
_KEPT_PARTS = ("size", "format", "ms-cert", "media")
# Storages round up to their own units.
_ROUNDING = 64 * 1024**2
_FIXED_DRIVES = frozenset(("efidisk0", "tpmstate0"))

_BOOLEANS = frozenset(
    (
        "acpi", "allow-ksm", "autostart", "ciupgrade", "freeze", "keephugepages", "kvm", "localtime", "numa", "onboot",
        "protection", "reboot", "tablet", "tdf",
    )
)  # fmt: skip
_TOP_DEFAULTS = {
    "acpi": "1", "allow-ksm": "1", "autostart": "0", "bios": "seabios", "ciupgrade": "1", "cores": "1", "cpulimit": "0",
    "freeze": "0", "keephugepages": "0", "kvm": "1", "localtime": "0", "memory": "512", "numa": "0", "onboot": "0",
    "ostype": "other", "protection": "0", "reboot": "1", "scsihw": "lsi", "sockets": "1", "tablet": "1", "tdf": "0",
}  # fmt: skip
_WORDS = {"1": "1", "on": "1", "yes": "1", "true": "1", "0": "0", "off": "0", "no": "0", "false": "0"}
_LISTS = frozenset(("nameserver", "searchdomain"))

# What may not be a part of a configuration, and where it belongs instead.
_NOT_CONFIG = {
    "cipassword": "use the option cipassword, which is kept out of all output",
    "vmid": "use the option vmid", "node": "use the option node", "start": "use the option started",
    "template": "a template is no VM that can run", "lock": "only PVE sets locks", "digest": "only PVE sets it",
    "meta": "only PVE sets it", "pool": "it is no part of a VM's configuration", "archive": "restoring is not supported",
    "storage": "name the storage in each drive", "force": "nothing is overwritten", "unique": "it belongs to restoring",
    "delete": "set a key to null to have it removed", "revert": "it is no part of a VM's configuration",
    "skiplock": "locks are respected", "cdrom": "use ide2", "bootdisk": "use boot",
}  # fmt: skip
# Only these are remembered in the mark, and removed again when a definition does not have them any more.
_OWNED = re.compile(r"(?:hostpci|ipconfig|net|usb|virtiofs)\d+\Z")
# What somebody may add to a VM that is worth telling: it changes what the VM reaches or takes.
_ADDITIONS = re.compile(
    r"(?:hostpci|net|usb|virtiofs|serial|parallel|ide|sata|scsi|virtio)\d+\Z|(?:args|hookscript|affinity|hugepages|tpmstate0)\Z"
)
_SOURCE_KEYS = frozenset(("template", "image", "disk", "full"))


class DefinitionError(ValueError):
    """A definition that is wrong; ``errors`` has all that is."""

    def __init__(self, errors: t.Sequence[str]) -> None:
        self.errors = list(errors)
        super().__init__("; ".join(errors))


@dataclass(frozen=True)
class Mark:
    """What says that a VM belongs to the collection: its name, the fingerprint of its definition, the devices set by it."""

    vm: str
    fingerprint: str = ""
    own: t.Optional[t.Tuple[str, ...]] = None

    def line(self) -> str:
        """As it stands in the description of the VM."""
        values: t.Dict[str, t.Any] = {"fingerprint": self.fingerprint, "vm": self.vm}
        if self.own is not None:
            values["own"] = list(self.own)
        return f"{MARK} {json.dumps(values, sort_keys=True, separators=(',', ':'))}"


def parse_mark(description: t.Any) -> t.Optional[Mark]:
    """The mark in a description, or None; a broken one is none."""
    for line in str(description or "").splitlines():
        if not line.startswith(MARK + " "):
            continue
        try:
            values = json.loads(line[len(MARK) + 1 :])
        except ValueError:
            continue
        if not isinstance(values, dict) or not isinstance(values.get("vm"), str):
            continue
        own = values.get("own")
        return Mark(
            vm=values["vm"],
            fingerprint=str(values.get("fingerprint") or ""),
            own=tuple(str(key) for key in own) if isinstance(own, list) else None,
        )
    return None


def plain_description(description: t.Any) -> str:
    """A description without the mark."""
    lines = [line for line in str(description or "").splitlines() if not line.startswith(MARK + " ")]
    return "\n".join(lines).strip()


def with_mark(description: str, mark: Mark) -> str:
    """A description with the mark as its last line."""
    return f"{description}\n\n{mark.line()}" if description else mark.line()


@dataclass(frozen=True)
class Source:
    """Where the first disk of a new VM comes from: a template or an image; neither is an empty disk."""

    template: t.Optional[int] = None
    image: t.Optional[str] = None
    disk: str = "scsi0"
    full: bool = True


@dataclass(frozen=True)
class MappingCheck:
    """A mapping that a VM needs, with the GPU that it has to be."""

    id: str
    node: t.Optional[str] = None
    path: t.Optional[str] = None


@dataclass(frozen=True)
class Definition:
    """A VM as it has to be. Values of ``config`` are texts as PVE takes them; None means that the key may not be there."""

    vmid: int
    name: str
    node: str
    config: t.Mapping[str, t.Optional[str]]
    source: Source = field(default_factory=Source)
    fingerprint: str = ""
    mappings: t.Tuple[MappingCheck, ...] = ()
    cipassword: t.Optional[str] = field(default=None, repr=False)

    @property
    def mark(self) -> Mark:
        """The mark that the VM has to carry."""
        own = sorted(
            (key for key, value in self.config.items() if value is not None and _OWNED.match(key)), key=natural
        )
        return Mark(self.name, self.fingerprint, tuple(own))


def natural(key: str) -> t.Tuple[str, int]:
    """For sorting: hostpci2 before hostpci10."""
    match = _NUMBERED.match(key)
    return (match.group(1), int(match.group(2))) if match else (key, -1)


def is_drive(key: str) -> bool:
    """Whether it is the key of a drive."""
    return bool(_DRIVE.match(key))


def family(key: str) -> str:
    """The key without its number; numa and numa0 are different things."""
    match = _NUMBERED.match(key)
    return match.group(1) if match else key


def parse_properties(text: str, default_key: t.Optional[str]) -> t.Dict[str, str]:
    """The parts of ``a,b=1,c=2``; a part without name has the default key, or its own text where there is none."""
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
    """A value of YAML as PVE takes it."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    text = str(value)
    if key in _BOOLEANS:
        return _WORDS.get(text.strip().lower(), text)
    return text


def definition(values: t.Mapping[str, t.Any]) -> Definition:
    """A checked definition; DefinitionError with everything that is wrong."""
    errors: t.List[str] = []
    vmid = values.get("vmid")
    if isinstance(vmid, bool) or not isinstance(vmid, int) or not 100 <= vmid <= 999999999:
        errors.append(f"vmid: {vmid!r} is no number from 100 to 999999999")
        vmid = 100
    name = str(values.get("name") or "")
    if not _NAME.match(name) or len(name) > 63:
        errors.append(f"name: {name!r} is no DNS name of at most 63 letters, digits and -")
    node = str(values.get("node") or "")
    if not _NODE.match(node):
        errors.append(f"node: {node!r} is no name of a node")
    fingerprint = str(values.get("fingerprint") or "")
    if re.search(r"[\x00-\x1f]", fingerprint) or len(fingerprint) > 200:
        errors.append("fingerprint: it has to be one line of at most 200 characters")
    config = _checked_config(values.get("config"), name, errors)
    source = _checked_source(values.get("source"), config, errors)
    mappings = []
    for place, item in enumerate(values.get("mappings") or []):
        if not isinstance(item, t.Mapping) or not item.get("id"):
            errors.append(f"mappings[{place}]: it has no id")
            continue
        mappings.append(MappingCheck(str(item["id"]), _text_or_none(item.get("node")), _text_or_none(item.get("path"))))
    if errors:
        raise DefinitionError(errors)
    return Definition(
        vmid=vmid, name=name, node=node, config=config, source=source, fingerprint=fingerprint, mappings=tuple(mappings),
        cipassword=values.get("cipassword") or None,
    )  # fmt: skip


def absent_definition(vmid: int, name: t.Optional[str], node: t.Optional[str]) -> Definition:
    """What is needed to remove a VM: its number, and its name and node if they are known."""
    errors = [] if 100 <= vmid <= 999999999 else [f"vmid: {vmid!r} is no number from 100 to 999999999"]
    if node and not _NODE.match(node):
        errors.append(f"node: {node!r} is no name of a node")
    if errors:
        raise DefinitionError(errors)
    return Definition(vmid=vmid, name=name or "", node=node or "", config={})


def _text_or_none(value: t.Any) -> t.Optional[str]:
    return str(value) if value else None


def _checked_config(values: t.Any, name: str, errors: t.List[str]) -> t.Dict[str, t.Optional[str]]:
    config: t.Dict[str, t.Optional[str]] = {}
    if not isinstance(values, t.Mapping):
        errors.append("config: it has to be a dictionary of PVE's own keys")
        return config
    for key in sorted(map(str, values), key=natural):
        value = values[key]
        if not _KEY.match(key) or re.match(r"unused\d+\Z", key):
            errors.append(f"config.{key}: this is no key of a VM's configuration")
        elif key in _NOT_CONFIG:
            errors.append(f"config.{key}: {_NOT_CONFIG[key]}")
        elif key == "name" and str(value) != name:
            errors.append(f"config.name: it is {value!r}, the option name is {name!r}")
        elif value is None:
            config[key] = None
        elif not isinstance(value, (str, int, float, bool)):
            errors.append(f"config.{key}: it has to be a text, a number or a boolean")
        else:
            text = value_text(key, value)
            if key not in ("description", "sshkeys") and re.search(r"[\x00-\x1f]", text):
                errors.append(f"config.{key}: it may not hold line breaks or control characters")
            elif not text.strip():
                errors.append(f"config.{key}: it is empty; set it to null to have it removed")
            else:
                config[key] = text
    _check_devices(config, errors)
    return config


def _check_devices(config: t.Mapping[str, t.Optional[str]], errors: t.List[str]) -> None:
    """What PVE would only notice when the VM starts, or not at all."""
    machine = parse_properties(config.get("machine") or "", "type").get("type", "")
    seen: t.Dict[str, str] = {}
    for key, text in config.items():
        if family(key) != "hostpci" or text is None:
            continue
        parts = _parts(key, text)
        number = natural(key)[1]
        if not 0 <= number <= 15:
            errors.append(f"config.{key}: a VM has hostpci0 to hostpci15")
        if ("host" in parts) == ("mapping" in parts):
            errors.append(f"config.{key}: it needs either mapping or host")
        if parts.get("pcie") == "1" and "q35" not in machine:
            errors.append(f"config.{key}: pcie=1 needs machine: q35")
        what = parts.get("mapping")
        if what and what in seen:
            errors.append(f"config.{key}: {seen[what]} names the mapping {what} already")
        elif what:
            seen[what] = key
    for key, text in config.items():
        if is_drive(key) and text is not None and "import-from" in parse_properties(text, "file"):
            errors.append(
                f"config.{key}: use source.image instead of import-from, and write the size that the disk has to have"
            )


def _checked_source(values: t.Any, config: t.Mapping[str, t.Optional[str]], errors: t.List[str]) -> Source:
    if not values:
        return Source()
    if not isinstance(values, t.Mapping):
        errors.append("source: it has to be a dictionary")
        return Source()
    given = {str(key): value for key, value in values.items() if value is not None}
    errors.extend(f"source.{key}: this is not known" for key in sorted(set(given) - _SOURCE_KEYS))
    if "template" in given and "image" in given:
        errors.append("source: either template or image, not both")
    template = given.get("template")
    if template is not None and (
        isinstance(template, bool) or not isinstance(template, int) or not 100 <= template <= 999999999
    ):
        errors.append(f"source.template: {template!r} is no number of a VM")
        template = None
    image = _text_or_none(given.get("image"))
    if (image is not None and not (_VOLUME_ID.match(image) or image.startswith("/"))) or re.search(
        r"[,\s]", image or ""
    ):
        errors.append(f"source.image: {image!r} is no volume such as local:import/debian-13.qcow2")
    disk = str(given.get("disk") or "scsi0")
    if image is not None:
        text = config.get(disk)
        if not is_drive(disk) or disk in _FIXED_DRIVES:
            errors.append(f"source.disk: {disk!r} is no disk such as scsi0")
        elif text is None or parse_drive(text).new_gib is None:
            errors.append(f"config.{disk}: the image needs a new disk here, such as local-lvm:64")
    return Source(template=template, image=image, disk=disk, full=bool(given.get("full", True)))


def _parts(key: str, text: str) -> t.Dict[str, str]:
    """The parts of an option in the form that is compared, without those that only say what PVE does anyway."""
    kind = family(key)
    parts = parse_properties(text, _DEFAULT_KEYS.get(kind))
    defaults = _PART_DEFAULTS.get(kind, {})
    result = {}
    for name, value in parts.items():
        clean = _WORDS.get(value.lower(), value) if name in _BOOLEAN_PARTS else value
        if defaults.get(name) != clean:
            result[name] = clean
    if kind == "hostpci" and "host" in result:
        result["host"] = ";".join(
            part if re.match(r"[0-9a-f]{4,}:[0-9a-f]{2}:", part) else f"0000:{part}"
            for part in result["host"].lower().split(";")
        )
    return result


def _net(text: str) -> t.Tuple[t.Dict[str, str], t.Optional[str]]:
    """The parts of a network GPU and its MAC address apart, because PVE makes one where none is said."""
    parts = parse_properties(text, "model")
    mac = parts.pop("macaddr", None)
    for model in sorted(_NET_MODELS & set(parts)):
        mac = parts.pop(model) or mac
        parts["model"] = model
    defaults = _PART_DEFAULTS["net"]
    clean = {
        name: _WORDS.get(value.lower(), value) if name in _BOOLEAN_PARTS else value for name, value in parts.items()
    }
    return {name: value for name, value in clean.items() if defaults.get(name) != value}, mac.upper() if mac else None


def comparable(key: str, text: t.Any) -> t.Any:
    """A value in the form that is compared; for everything but drives, network GPUs and descriptions."""
    shown = value_text(key, text)
    kind = family(key)
    if key == "tags":
        return sorted(_tags(shown))
    if key == "sshkeys":
        return _ssh_keys(shown)
    if key in _LISTS:
        return re.split(r"[\s,;]+", shown.strip())
    if key == "hotplug":
        return sorted(part for part in re.split(r"[\s,;]+", shown) if part)
    if key not in _BOOLEANS and (kind in _DEFAULT_KEYS or kind in _WITHOUT_DEFAULT_KEY):
        return _parts(key, shown)
    if re.match(r"\d+(?:\.\d+)?\Z", shown) and key not in ("name", "ciuser"):
        return float(shown)
    return shown.strip()


def _tags(text: str) -> t.Set[str]:
    return {tag.lower() for tag in re.split(r"[,;\s\0]+", text) if tag}


def _ssh_keys(text: str) -> t.List[str]:
    """The keys one by one, whether they are encoded as PVE keeps them or not."""
    if not re.search(r"\s", text.strip()) and "%" in text:
        text = urllib.parse.unquote(text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


@dataclass(frozen=True)
class Drive:
    """A drive. ``new_gib`` is the size of a volume that has to be made, ``size`` in bytes what PVE says of one it has."""

    volume: str
    storage: t.Optional[str]
    new_gib: t.Optional[float]
    size: t.Optional[int]
    options: t.Mapping[str, str]
    parts: t.Mapping[str, str]

    @property
    def is_cloudinit(self) -> bool:
        """Whether it is the drive that hands cloud-init its data."""
        return self.storage is not None and bool(re.search(r"(?:\A|-)cloudinit(?:\.\w+)?\Z", self.volume))

    @property
    def is_empty(self) -> bool:
        """Whether it is a drive without medium or the host's own."""
        return self.storage is None and self.volume in ("none", "cdrom")


def parse_drive(text: str) -> Drive:
    """The value of a drive, as it is wanted or as PVE keeps it."""
    parts = parse_properties(text, "file")
    volume = parts.get("file", parts.get("volume", ""))
    storage, colon, name = volume.partition(":")
    new = _NEW_VOLUME.match(name) if colon else None
    options = {}
    for key, value in parts.items():
        clean = _WORDS.get(value.lower(), value) if key in _BOOLEAN_PARTS else value
        if key not in _DRIVE_ADDED and key != "volume" and _DRIVE_DEFAULTS.get(key) != clean:
            options[key] = clean
    drive = Drive(
        volume=name if colon else volume,
        storage=storage if colon else None,
        new_gib=float(new.group(1)) if new else None,
        size=size_bytes(parts.get("size")),
        options=options,
        parts=parts,
    )
    if drive.is_cloudinit:
        options.pop("media", None)
    return drive


def size_bytes(text: t.Optional[str]) -> t.Optional[int]:
    """A size such as 64G in bytes."""
    match = _SIZE.match(text or "")
    if not match:
        return None
    return int(float(match.group(1)) * 1024 ** " KMGT".index(match.group(2) or " "))


def _gib(size: float) -> str:
    return f"{size / 1024**3:g} GiB"


def _drive_text(file: str, parts: t.Mapping[str, str]) -> str:
    return ",".join([file, *(f"{name}={value}" for name, value in sorted(parts.items()))])


@dataclass
class Changes:
    """What has to be done to a VM that is there, and what is only told."""

    set: t.Dict[str, str] = field(default_factory=dict)
    delete: t.List[str] = field(default_factory=list)
    resize: t.Dict[str, str] = field(default_factory=dict)
    before: t.Dict[str, t.Any] = field(default_factory=dict)
    after: t.Dict[str, t.Any] = field(default_factory=dict)
    external: t.List[t.Dict[str, str]] = field(default_factory=list)
    attention: t.List[t.Dict[str, str]] = field(default_factory=list)

    @property
    def any(self) -> bool:
        """Whether anything has to be done."""
        return bool(self.set or self.delete or self.resize)

    @property
    def devices(self) -> t.List[str]:
        """The passed-through devices that change."""
        return sorted((key for key in [*self.set, *self.delete] if family(key) == "hostpci"), key=natural)

    @property
    def allocates(self) -> bool:
        """Whether PVE has to make a volume, which can take longer than a call may."""
        return any(is_drive(key) and parse_drive(text).new_gib is not None for key, text in self.set.items())

    def change(self, key: str, before: t.Optional[str], after: t.Optional[str]) -> None:
        """Note one change for the call and for the difference."""
        if after is None:
            self.delete.append(key)
        else:
            self.set[key] = after
            self.after[key] = shown(key, after)
        if before is not None:
            self.before[key] = shown(key, before)


def shown(key: str, text: str) -> t.Any:
    """A value as a difference shows it."""
    if key == "sshkeys":
        return _ssh_keys(text)
    if key == "cipassword":
        return "(not shown)"
    return text


def compare(
    wanted: Definition,
    current: t.Mapping[str, t.Any],
    *,
    inherited: t.AbstractSet[str] = frozenset(),
    strict: bool = False,
) -> Changes:
    """What differs between a definition and the configuration that PVE keeps, changes that wait for a start included.

    :param inherited: Keys that the VM has from its template, which nobody added.
    :param strict: Also remove what somebody else added.
    """
    have = {str(key): value_text(str(key), value) for key, value in current.items()}
    changes = Changes()
    mark = parse_mark(have.get("description"))
    owned = set(mark.own or ()) if mark else set()
    config = dict(wanted.config)
    config["name"] = wanted.name
    for key in sorted(config, key=natural):
        text = config[key]
        if key in ("tags", "description"):
            continue
        if text is None:
            if key in have:
                changes.change(key, have[key], None)
        elif is_drive(key):
            _compare_drive(changes, key, text, have.get(key))
        elif family(key) == "net":
            _compare_net(changes, key, text, have.get(key))
        else:
            before = have.get(key, _TOP_DEFAULTS.get(key))
            if before is None or comparable(key, before) != comparable(key, text):
                changes.change(key, have.get(key), _sent(key, text))
    if wanted.cipassword and "cipassword" not in have:
        changes.change("cipassword", None, wanted.cipassword)
    _compare_additions(changes, config, have, owned, inherited, strict=strict)
    _compare_tags(changes, config.get("tags"), have.get("tags"), inherited, strict=strict)
    _compare_description(changes, wanted, have.get("description"), mark)
    return changes


def _sent(key: str, text: str) -> str:
    """A value as PVE takes it, where that is not what people write."""
    if key == "sshkeys":
        return urllib.parse.quote("\n".join(_ssh_keys(text)), safe="")
    return text


def _compare_net(changes: Changes, key: str, text: str, before: t.Optional[str]) -> None:
    parts, mac = _net(text)
    if before is None:
        changes.change(key, None, text)
        return
    have, have_mac = _net(before)
    if parts == have and mac in (None, have_mac):
        return
    mac = mac or have_mac
    model = parts.pop("model", "virtio")
    # The address stays, or the VM would get another lease and lose its name in the network.
    changes.change(key, before, _drive_text(f"{model}={mac}" if mac else model, parts))


def _compare_drive(changes: Changes, key: str, text: str, before: t.Optional[str]) -> None:
    want = parse_drive(text)
    have = parse_drive(before) if before is not None else None
    if have is None or (have.is_empty and not want.is_empty):
        changes.change(key, before, created_drive(key, text))
        return
    if (want.is_cloudinit and not have.is_cloudinit) or (
        want.new_gib is None and not want.is_cloudinit and (want.storage, want.volume) != (have.storage, have.volume)
    ):
        changes.change(key, before, text)
        return
    if want.storage != have.storage:
        _attend(
            changes, "disk_elsewhere", key, f"It lies on the storage {have.storage}, the definition says {want.storage}",
            "Disks are not moved by this. Move it in PVE, or change the definition",
        )  # fmt: skip
    if want.options != have.options:
        if key in _FIXED_DRIVES:
            _attend(
                changes, "drive_fixed", key, f"It is {before}, the definition says {text}",
                "PVE cannot change this afterwards. Remove the drive in PVE and run again, or change the definition",
            )  # fmt: skip
        else:
            kept = {name: have.parts[name] for name in _KEPT_PARTS if name in have.parts}
            kept.update(want.options)
            changes.change(key, before, _drive_text(str(have.parts.get("file")), kept))
    if want.new_gib and key not in _FIXED_DRIVES and have.size is not None:
        _compare_size(changes, key, want.new_gib, have)


def _compare_size(changes: Changes, key: str, new_gib: float, have: Drive) -> None:
    wanted = int(new_gib * 1024**3)
    size = have.size or 0
    if size > wanted + _ROUNDING:
        _attend(
            changes, "disk_larger", key, f"It has {_gib(size)}, the definition says {_gib(wanted)}",
            "Disks are never made smaller. Change the definition",
        )  # fmt: skip
    elif size < wanted:
        # PVE takes whole numbers with a unit.
        changes.resize[key] = f"{int(new_gib)}G" if new_gib == int(new_gib) else f"{wanted // 1024**2}M"
        before = changes.before.setdefault(key, _drive_text(str(have.parts.get("file")), _without_file(have.parts)))
        text = changes.after.get(key, before)
        changes.after[key] = re.sub(r"\bsize=\w+(?:\.\w+)?", f"size={changes.resize[key]}", str(text))


def _without_file(parts: t.Mapping[str, str]) -> t.Dict[str, str]:
    return {name: value for name, value in parts.items() if name != "file"}


def _attend(changes: Changes, code: str, key: str, text: str, remedy: str) -> None:
    changes.attention.append({"code": code, "key": key, "text": text, "remedy": remedy})


def _compare_additions(
    changes: Changes,
    config: t.Mapping[str, t.Optional[str]],
    have: t.Mapping[str, str],
    owned: t.AbstractSet[str],
    inherited: t.AbstractSet[str],
    *,
    strict: bool,
) -> None:
    """Devices that the definition does not have: ours of before go, others' stay unless it is strict."""
    for key in sorted(have, key=natural):
        if key in config:
            continue
        if key in owned and _OWNED.match(key):
            changes.change(key, have[key], None)
        elif _ADDITIONS.match(key) and (family(key) == "hostpci" or key not in inherited):
            changes.external.append({"key": key, "value": have[key]})
            if strict:
                changes.change(key, have[key], None)


def addition_candidates(wanted: Definition, current: t.Mapping[str, t.Any]) -> bool:
    """Whether the configuration has devices or tags that may come from the template, so that it is worth a look."""
    return bool(_tags(str(current.get("tags") or "")) - _tags(wanted.config.get("tags") or "") - {TAG}) or any(
        _ADDITIONS.match(str(key)) and family(str(key)) != "hostpci" and key not in wanted.config for key in current
    )


def inherited_keys(template: t.Mapping[str, t.Any]) -> t.FrozenSet[str]:
    """The keys and tags that a clone has from its template."""
    tags = {f"tags={tag}" for tag in _tags(str(template.get("tags") or ""))}
    return frozenset(tags | {str(key) for key in template})


def _compare_tags(
    changes: Changes, text: t.Optional[str], before: t.Optional[str], inherited: t.AbstractSet[str], *, strict: bool
) -> None:
    want = _tags(text or "") | {TAG}
    have = _tags(before or "")
    extra = {tag for tag in have - want if f"tags={tag}" not in inherited}
    changes.external.extend({"key": "tags", "value": tag} for tag in sorted(extra))
    if want - have or (extra and strict):
        changes.change("tags", before, ";".join(sorted(want | have - extra if strict else want | have)))


def _compare_description(changes: Changes, wanted: Definition, before: t.Optional[str], mark: t.Optional[Mark]) -> None:
    """The mark as the last line, below the words of the user, which stay, and those of the definition."""
    target = wanted.mark
    words = plain_description(before)
    said = plain_description(wanted.config.get("description"))
    if said and said not in words:
        words = f"{words}\n\n{said}" if words else said
    elif (
        mark is not None
        and (mark.vm, mark.fingerprint) == (target.vm, target.fingerprint)
        and mark.own in (None, target.own)
    ):
        return
    changes.change("description", before, with_mark(words, target))


def created_drive(key: str, text: str) -> str:
    """A drive that has to be made. Some clients of PVE send format=None for an EFI disk without one, so ours always has one."""
    drive = parse_drive(text)
    if key == "efidisk0" and drive.new_gib is not None and "format" not in drive.parts:
        return f"{text},format=raw"
    return text


def create_values(wanted: Definition) -> t.Dict[str, str]:
    """The parameters that make a VM without template."""
    values = {key: _sent(key, text) for key, text in wanted.config.items() if text is not None}
    values.update({key: created_drive(key, text) for key, text in values.items() if is_drive(key)})
    source = wanted.source
    if source.image is not None:
        drive = parse_drive(values[source.disk])
        options = _without_file(drive.parts)
        options["import-from"] = source.image
        values[source.disk] = _drive_text(f"{drive.storage}:0", options)
    values["name"] = wanted.name
    values["tags"] = ";".join(sorted(_tags(values.get("tags", "")) | {TAG}))
    values["description"] = with_mark(plain_description(values.get("description")), wanted.mark)
    if wanted.cipassword:
        values["cipassword"] = wanted.cipassword
    return values


def created_view(wanted: Definition) -> t.Dict[str, t.Any]:
    """The configuration of a VM that is not there yet, for the difference."""
    view = {key: shown(key, text) for key, text in create_values(wanted).items()}
    if wanted.source.image is not None:
        text = wanted.config[wanted.source.disk]
        view[wanted.source.disk] = f"{text},import-from={wanted.source.image}"
    if wanted.source.template is not None:
        view["template"] = wanted.source.template
    return dict(sorted(view.items(), key=lambda item: natural(item[0])))


def clone_values(wanted: Definition, template_node: str) -> t.Dict[str, t.Any]:
    """The parameters that clone the template.

    The mark has no fingerprint yet, so that a clone that was left half-way is known as ours and as unfinished.
    """
    source = wanted.source
    values: t.Dict[str, t.Any] = {
        "newid": wanted.vmid,
        "name": wanted.name,
        "full": 1 if source.full else 0,
        "description": Mark(wanted.name).line(),
    }
    if template_node != wanted.node:
        values["target"] = wanted.node
    text = wanted.config.get(source.disk)
    if source.full and text is not None:
        drive = parse_drive(text)
        if drive.storage is not None:
            values["storage"] = drive.storage
    return values


def start_limit(config: t.Mapping[str, t.Any]) -> float:
    """How many seconds PVE itself gives a VM to start: its memory is pinned and cleared first when GPUs are passed through."""
    memory = parse_properties(str(config.get("memory", "512")), "current").get("current", "512")
    gib = float(memory) / 1024 if re.match(r"\d+(?:\.\d+)?\Z", memory) else 0.0
    limit = max(30.0, gib)
    if any(family(str(key)) == "hostpci" for key in config):
        limit *= 4
    return limit + 5.0 * sum(1 for key in config if family(str(key)) == "net")


def device_mappings(config: t.Mapping[str, t.Any]) -> t.Dict[str, str]:
    """hostpci key -> the mapping that it names."""
    found = {}
    for key, text in config.items():
        if family(key) == "hostpci" and text is not None:
            name = _parts(key, str(text)).get("mapping")
            if name:
                found[key] = name
    return found
