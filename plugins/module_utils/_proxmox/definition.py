# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""A VM of Proxmox VE as it has to be, checked before anything is asked of PVE."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.formats import value_errors
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.mark import TAG, Mark
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.properties import (
    DEFAULTS,
    FIXED_DRIVES,
    NODE_NAME,
    comparable,
    family,
    is_drive,
    natural,
    parse_drive,
    parse_option,
    parse_properties,
    parse_tags,
    value_text,
)

_NAME = re.compile(r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?\.)*[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?\Z")
_KEY = re.compile(r"[a-z][a-z0-9_-]*\Z")
# A volume of a storage, or a path on the node.
_VOLUME = re.compile(r"(?:[a-zA-Z][a-zA-Z0-9._-]*:[^\s,]+|/[^\s,]*)\Z")
# What may not be a part of a configuration, and where it belongs instead.
_NOT_CONFIG = {
    "cipassword": "use the option cipassword, which is kept out of all output",
    "vmid": "use the option vmid", "node": "use the option node", "start": "use the option started",
    "template": "a template cannot run", "lock": "only PVE sets locks", "digest": "only PVE sets it",
    "meta": "only PVE sets it", "pool": "use the option pool", "archive": "restoring is not supported",
    "storage": "name the storage in each drive", "force": "nothing is overwritten", "unique": "it belongs to restoring",
    "delete": "set a key to null to have it removed", "revert": "not a part of a VM's configuration",
    "skiplock": "locks are respected", "cdrom": "use ide2", "bootdisk": "use boot",
}  # fmt: skip
# Only these are remembered in the mark, and removed again when a definition does not have them any more.
# What every VM has in some way: it is set, and not taken away again when a definition does not name it any more.
_GIVEN = frozenset(
    (
        "agent", "balloon", "bios", "boot", "cores", "cpu", "description", "efidisk0", "machine", "memory", "name", "onboot",
        "ostype", "scsihw", "tags",
    )
)  # fmt: skip
FLEET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_POOL = re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+){0,2}\Z")
_CONTROL = re.compile(r"[\x00-\x1f]")
_NO_NUMBER = "{!r} is not a valid VM number (100 to 999999999)"
_SOURCE_KEYS = frozenset(("template", "image", "disk", "full"))


def _is_default(key: str, text: str) -> bool:
    return key in DEFAULTS and bool(comparable(key, text) == comparable(key, DEFAULTS[key]))


class DefinitionError(ValueError):
    """A definition that is wrong; ``errors`` has all that is."""

    def __init__(self, errors: t.Sequence[str]) -> None:
        self.errors = list(errors)
        super().__init__("; ".join(errors))


@dataclass(frozen=True)
class Source:
    """Where the first disk of a new VM comes from: a template or an image; neither is an empty disk."""

    template: t.Optional[int] = None
    image: t.Optional[str] = None
    disk: str = "scsi0"
    full: bool = True


@dataclass(frozen=True)
class Definition:
    """A VM as it has to be.

    :ivar config: texts as PVE takes them; None means that the key may not be there
    :ivar mappings: by the id of a mapping the path that its entry for the node has to have, None for any
    """

    vmid: int
    name: str
    node: str
    config: t.Mapping[str, t.Optional[str]]
    source: Source = field(default_factory=Source)
    fingerprint: str = ""
    mappings: t.Mapping[str, t.Optional[str]] = field(default_factory=dict)
    cipassword: t.Optional[str] = field(default=None, repr=False)
    fleet: str = ""
    pool: t.Optional[str] = None

    @property
    def mark(self) -> Mark:
        """Return the mark that the VM has to carry."""
        said = {key: text for key, text in self.config.items() if text is not None and key not in _GIVEN}
        own = sorted((key for key, text in said.items() if not _is_default(key, text)), key=natural)
        own += sorted(f"tags={tag}" for tag in parse_tags(self.config.get("tags") or "") - {TAG})
        return Mark(self.name, self.fingerprint, tuple(own), self.fleet)


def definition(values: t.Mapping[str, t.Any]) -> Definition:
    """Return a checked definition.

    :raises DefinitionError: with everything that is wrong
    """
    name, node = str(values.get("name") or ""), str(values.get("node") or "")
    errors = [f"vmid: {_NO_NUMBER.format(values.get('vmid'))}"] if not _is_number(values.get("vmid")) else []
    if not _NAME.match(name) or len(name) > 63:
        errors.append(f"name: {name!r} is not a valid DNS name (at most 63 letters, digits and -)")
    if not NODE_NAME.match(node):
        errors.append(f"node: {node!r} is not a valid node name")
    fingerprint = str(values.get("fingerprint") or "")
    if _CONTROL.search(fingerprint) or len(fingerprint) > 200:
        errors.append("fingerprint: it has to be one line of at most 200 characters")
    fleet = _checked_fleet(values.get("fleet"), errors)
    config = _checked_config(values.get("config"), name, errors)
    source = _checked_source(values.get("source"), config, errors)
    mappings = {}
    for place, item in enumerate(values.get("mappings") or []):
        if isinstance(item, t.Mapping) and item.get("id"):
            mappings[str(item["id"])] = _text_or_none(item.get("path"))
        else:
            errors.append(f"mappings[{place}]: it has no id")
    if values.get("pool") and not _POOL.match(str(values["pool"])):
        errors.append(f"pool: {values['pool']!r} is not a valid name of a pool")
    if errors:
        raise DefinitionError(errors)
    password = values.get("cipassword") or None
    pool = _text_or_none(values.get("pool"))
    return Definition(values["vmid"], name, node, config, source, fingerprint, mappings, password, fleet, pool)


def absent_definition(
    vmid: int, name: t.Optional[str], node: t.Optional[str], fleet: t.Optional[str] = None
) -> Definition:
    """Return what is needed to remove a VM: its number, and its name and node if they are known.

    :raises DefinitionError: as ``definition``
    """
    errors = [] if _is_number(vmid) else [f"vmid: {_NO_NUMBER.format(vmid)}"]
    if node and not NODE_NAME.match(node):
        errors.append(f"node: {node!r} is not a valid node name")
    known = _checked_fleet(fleet, errors)
    if errors:
        raise DefinitionError(errors)
    return Definition(vmid=vmid, name=name or "", node=node or "", config={}, fleet=known)


def _checked_fleet(value: t.Any, errors: t.List[str]) -> str:
    fleet = str(value or "")
    if fleet and not FLEET.match(fleet):
        errors.append(f"fleet: {fleet!r} is not a valid name of a fleet (at most 64 letters, digits, dots, - and _)")
    return fleet


def _is_number(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 999999999


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
            errors.append(f"config.{key}: not a valid key of a VM's configuration")
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
            if key not in ("description", "sshkeys") and _CONTROL.search(text):
                errors.append(f"config.{key}: it may not hold line breaks or control characters")
            elif not text.strip():
                errors.append(f"config.{key}: it is empty; set it to null to have it removed")
            else:
                errors.extend(f"config.{key}: {error}" for error in value_errors(key, text))
                config[key] = text
    _check_devices(config, errors)
    return config


def _check_devices(config: t.Mapping[str, t.Optional[str]], errors: t.List[str]) -> None:
    """Add what PVE would only notice when the VM starts, or not at all."""
    machine = parse_properties(config.get("machine") or "", "type").get("type", "")
    seen: t.Dict[str, str] = {}
    for key, text in config.items():
        if family(key) != "hostpci" or text is None:
            continue
        parts = parse_option(key, text)
        if ("host" in parts) == ("mapping" in parts):
            errors.append(f"config.{key}: it needs either mapping or host")
        if parts.get("pcie") == "1" and "q35" not in machine:
            errors.append(f"config.{key}: pcie=1 needs machine: q35")
        mapping = parts.get("mapping")
        if mapping and seen.setdefault(mapping, key) != key:
            errors.append(f"config.{key}: {seen[mapping]} names the mapping {mapping} already")
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
    errors.extend(f"source.{key}: unknown option" for key in sorted(set(given) - _SOURCE_KEYS))
    if "template" in given and "image" in given:
        errors.append("source: either template or image, not both")
    template, image = given.get("template"), _text_or_none(given.get("image"))
    if template is not None and not _is_number(template):
        errors.append(f"source.template: {_NO_NUMBER.format(template)}")
    disk = str(given.get("disk") or "scsi0")
    if image is not None:
        if not _VOLUME.match(image):
            errors.append(f"source.image: {image!r} is not a valid volume such as local:import/debian-13.qcow2")
        text = config.get(disk)
        if not is_drive(disk) or disk in FIXED_DRIVES:
            errors.append(f"source.disk: {disk!r} is not a valid disk such as scsi0")
        elif text is None or parse_drive(text).new_gib is None:
            errors.append(f"config.{disk}: the image needs a new disk here, such as local-lvm:64")
    return Source(template=template, image=image, disk=disk, full=bool(given.get("full", True)))
