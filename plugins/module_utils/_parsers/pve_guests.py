# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

r"""Which VMs and containers of a Proxmox VE host have which PCI devices, from the files of ``/etc/pve``.

The listing is text, one line an item, whose first word tells what it is::

    node NAME               what the cluster calls this host
    vm ID [LINE]            a VM, or one line of its configuration
    ct ID [LINE]            the same of a container
    map LINE                a line of the PCI resource mappings of the cluster
    minor ADDRESS NUMBER    the NVIDIA GPU at this address is /dev/nvidiaNUMBER
    drm PATH                the device of a display driver, below its PCI device
    unreadable PATH         a file that this user may not read
    end                     the listing is whole; without this line it was cut off

Only lines that tell who has a device are in it: devices, name, whether it is a template, and this collection's mark. A
listing with a line that is not understood is not whole. The files are those of Proxmox VE 7 to 9, described in qm.conf(5),
pct.conf(5) and "Resource Mapping" of https://pve.proxmox.com/pve-docs/chapter-qm.html.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field
from urllib.parse import unquote

from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError
from ansible_collections.knaster.inventory.plugins.module_utils._pci import (
    Address,
    parse_address,
    parse_addresses,
)
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.mark import Mark, parse_mark

VM, CONTAINER = "vm", "container"

# Prints the listing of the directory $1 (/etc/pve) in any POSIX shell with awk. A configuration ends at its first section:
# what follows are snapshots and changes that wait for a restart. No other line leaves the host: there are passwords in them.
LIST_FUNCTION = r"""
list_guests() {
  cd -P -- "$1" && [ -d qemu-server ] || return 3
  (cd -P local && printf 'node %s\n' "${PWD##*/}")
  set --
  for file in qemu-server/*.conf lxc/*.conf mapping/pci.cfg /proc/driver/nvidia/gpus/*/information; do
    if [ -r "$file" ]; then
      set -- "$@" "$file"
    elif [ -e "$file" ]; then
      printf 'unreadable %s\n' "$file"
    fi
  done
  awk '
    FNR == 1 {
      over = 0
      split(FILENAME, part, "/")
      id = part[2]
      sub(/\.conf$/, "", id)
      kind = part[1] == "qemu-server" ? "vm" : part[1] == "lxc" ? "ct" : part[1] == "mapping" ? "map" : "minor"
      if (kind == "vm" || kind == "ct") print kind, id
    }
    kind == "minor" { if ($1 == "Device" && $2 == "Minor:") print kind, part[6], $3; next }
    kind == "map" { if ($0 !~ /^[ \t]/ || $1 == "map") print kind, substr($0, 1, 4096); next }
    /^\[/ { over = 1 }
    over { next }
    /^#[ \t]*knaster\.inventory\// || /^(name|hostname|template|hostpci[0-9]+):/ ||
    /^dev[0-9]+:.*\/dev\/(nvidia|dri|kfd)/ || /^lxc\.mount\.entry[ \t]*[:=].*\/dev\/(nvidia|dri|kfd)/ ||
    /^lxc\.cgroup2?\.devices\.allow[ \t]*[:=].*[ \t](195|226):/ { print kind, id, substr($0, 1, 4096) }
  ' "$@" /dev/null || return
  for file in /sys/bus/pci/devices/*/drm/*; do
    [ ! -e "$file" ] || printf 'drm %s\n' "$file"
  done
  echo end
}
"""

_SOURCE = "/etc/pve"
_KEY = re.compile(r"^(?P<key>[a-z][a-z0-9_.]*?)[ \t]*[:=][ \t]*(?P<value>.*?)[ \t]*$")
_DRM = re.compile(r"^.*/(?P<address>[0-9a-f:.]{12,16})/drm/(?P<name>(?:card|renderD)[0-9]{1,4})$")
_NVIDIA_DEVICE = re.compile(r"/dev/nvidia(?P<minor>[0-9]{1,3})(?![0-9])")
_DRI_DEVICE = re.compile(r"/dev/dri/(?P<name>(?:card|renderD)[0-9]{1,4})(?![0-9])")
_DRI_PATH = re.compile(r"/dev/dri/by-path/pci-(?P<address>[0-9a-f:.]{12,16})-", re.IGNORECASE)
_WHOLE_DIRECTORY = re.compile(r"/dev/dri/?(?=[\s,]|$)")
# Which device files a container may open: the major number, and the minor one or all.
_ALLOWED = re.compile(r"^c[ \t]+(?P<major>[0-9]{1,4}|\*):(?P<minor>[0-9]{1,4}|\*)(?:[ \t]|$)")
_NVIDIA_MAJOR, _DRM_MAJOR = "195", "226"
_NVIDIA_CONTROL = "255"
_FIRST_RENDER_NODE = 128
_LONGEST_NAME = 100


@dataclass(frozen=True)
class Guest:
    """One virtual machine or container, running or not, and the devices that its configuration gives it.

    ``devices`` are addresses of functions, and of whole slots. ``name`` is the name that this collection gave a VM of
    its own, else that of the configuration. ``choices`` are mappings with several devices, of which the VM takes one
    that is free.
    """

    kind: str
    id: int
    name: t.Optional[str] = None
    ours: bool = False
    devices: t.FrozenSet[Address] = frozenset()
    choices: t.Tuple[str, ...] = ()

    def has(self, address: Address) -> bool:
        """Return whether the device at an address is this guest's."""
        return any(device.covers(address) for device in self.devices)


@dataclass(frozen=True)
class Guests:
    """All guests of a host; ``whole`` is false where some could not be read, and ``unreadable`` counts their files."""

    node: t.Optional[str] = None
    guests: t.Tuple[Guest, ...] = ()
    unreadable: int = 0
    whole: bool = True


@dataclass
class _Text:
    """The lines of a listing, sorted by what they are about."""

    node: t.Optional[str] = None
    guests: t.Dict[t.Tuple[str, int], t.List[str]] = field(default_factory=dict)
    mappings: t.List[str] = field(default_factory=list)
    minors: t.Dict[str, Address] = field(default_factory=dict)
    drm: t.Dict[str, Address] = field(default_factory=dict)
    unreadable: int = 0
    ended: bool = False
    strange: bool = False


def parse(text: str, *, node: t.Optional[str] = None) -> Guests:
    """Return the guests of a listing, by kind and number.

    :param node: what the cluster calls this host, where the listing does not tell
    :raises ParseError: ``no_guests_listed`` for a text without any line of a listing
    """
    read = _sort(text)
    if not (read.ended or read.guests or read.unreadable):
        raise ParseError(_SOURCE, "no_guests_listed", detail=text.strip()[:80])
    mapped = _mapped(read.mappings, read.node or node)
    ordered = sorted(read.guests.items(), key=lambda item: (item[0][0] != VM, item[0][1]))
    found = [_guest(kind, number, lines, read, mapped) for (kind, number), lines in ordered]
    return Guests(
        node=read.node,
        guests=tuple(guest for guest in found if guest is not None),
        unreadable=read.unreadable,
        # What is not understood may be a machine that has a GPU.
        whole=read.ended and not read.unreadable and not read.strange,
    )


def _sort(text: str) -> _Text:
    read = _Text()
    for line in text.replace("\r", "").replace("\0", "").split("\n"):
        word, _blank, rest = line.partition(" ")
        if word in ("vm", "ct"):
            number, _blank, said = rest.partition(" ")
            if re.fullmatch("[0-9]{1,9}", number, re.ASCII):
                lines = read.guests.setdefault((VM if word == "vm" else CONTAINER, int(number)), [])
                if said:
                    lines.append(said)
        elif word == "map":
            read.mappings.append(rest)
        elif word == "node":
            read.node = rest.strip() or None
        elif word == "minor":
            text, _blank, number = rest.partition(" ")
            _add(read.minors, number.strip(), text)
        elif word == "drm":
            match = _DRM.match(rest)
            if match:
                _add(read.drm, match.group("name"), match.group("address"))
        elif word == "unreadable":
            read.unreadable += 1
        elif line == "end":
            read.ended = True
        elif line.strip():
            read.strange = True
    return read


def _add(found: t.Dict[str, Address], name: str, text: str) -> None:
    address = parse_address(text)
    if address is not None:
        found[name] = address


def _mapped(lines: t.Sequence[str], node: t.Optional[str]) -> t.Dict[str, t.List[t.List[Address]]]:
    """Return of each mapping the devices that it has on a host: of each device its addresses."""
    mapped: t.Dict[str, t.List[t.List[Address]]] = {}
    devices: t.List[t.List[Address]] = []
    for line in lines:
        if line[:1].strip():
            devices = mapped.setdefault(line.partition(":")[0].strip(), [])
            continue
        words = line.split(None, 1)
        if len(words) == 2 and words[0] == "map":
            values = _values(words[1])
            addresses = parse_addresses(values.get("path", ""))
            if addresses and values.get("node") == node:
                devices.append(addresses)
    return mapped


def _values(text: str) -> t.Dict[str, str]:
    """Return the values of a line such as ``host=0000:01:00,pcie=1``; one without a key has the key ````."""
    values: t.Dict[str, str] = {}
    for word in text.split(","):
        key, equals, value = word.partition("=")
        values.setdefault(key.strip() if equals else "", (value if equals else word).strip())
    return values


def _guest(
    kind: str, number: int, lines: t.Sequence[str], read: _Text, mapped: t.Mapping[str, t.List[t.List[Address]]]
) -> t.Optional[Guest]:
    """Return a guest, or None for a template: it never runs."""
    name: t.Optional[str] = None
    mark: t.Optional[Mark] = None
    held: t.Set[Address] = set()
    allowed: t.List[t.Tuple[str, str]] = []
    choices: t.List[str] = []
    for line in lines:
        if line.startswith("#"):
            # The file has a description percent-encoded.
            mark = parse_mark(unquote(line).lstrip("# \t")) or mark
            continue
        match = _KEY.match(line)
        if not match:
            continue
        key, value = match.group("key"), match.group("value")
        if key == "template" and value == "1":
            return None
        if key == ("name" if kind == VM else "hostname"):
            name = _plain(value)
        elif kind == VM and re.fullmatch("hostpci[0-9]{1,3}", key):
            values = _values(value)
            held.update(parse_addresses(values.get("host", values.get("", ""))))
            devices = mapped.get(values.get("mapping", ""), [])
            held.update(address for device in devices for address in device)
            if len(devices) > 1:
                choices.append(values["mapping"])
        elif kind == CONTAINER and (key == "lxc.mount.entry" or re.fullmatch("dev[0-9]{1,3}", key)):
            held.update(_of_device_file(value, read))
        elif kind == CONTAINER and re.fullmatch(r"lxc\.cgroup2?\.devices\.allow", key):
            rule = _ALLOWED.match(value)
            if rule:
                allowed.append((rule.group("major"), rule.group("minor")))
    # Recipes allow all GPUs in general and name the one that is meant beside it.
    held.update(_allowed(allowed, read, named=bool(held)))
    if mark is not None:
        name = _plain(mark.vm) or name
    return Guest(
        kind=kind,
        id=number,
        name=name,
        ours=mark is not None,
        devices=frozenset(held),
        choices=tuple(sorted(set(choices))),
    )


def _plain(value: t.Any) -> t.Optional[str]:
    """Return a name, unless it is none or holds what would disturb a table."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        return None
    return value.strip()[:_LONGEST_NAME]


def _of_device_file(text: str, read: _Text) -> t.Iterator[Address]:
    """Yield the addresses of the GPUs whose device files a line names."""
    for match in _NVIDIA_DEVICE.finditer(text):
        if match.group("minor") in read.minors:
            yield read.minors[match.group("minor")]
    for match in _DRI_DEVICE.finditer(text):
        if match.group("name") in read.drm:
            yield read.drm[match.group("name")]
    for match in _DRI_PATH.finditer(text):
        yield from parse_addresses(match.group("address"))
    if _WHOLE_DIRECTORY.search(text):
        yield from read.drm.values()


def _allowed(rules: t.Sequence[t.Tuple[str, str]], read: _Text, *, named: bool) -> t.Iterator[Address]:
    """Yield the addresses of the GPUs whose numbers a container may open."""
    for major, minor in rules:
        if minor == "*" and named:
            continue
        if major == _NVIDIA_MAJOR and minor != _NVIDIA_CONTROL:
            yield from read.minors.values() if minor == "*" else filter(None, [read.minors.get(minor)])
        elif major == _DRM_MAJOR:
            if minor == "*":
                yield from read.drm.values()
            else:
                name = f"renderD{minor}" if int(minor) >= _FIRST_RENDER_NODE else f"card{minor}"
                yield from filter(None, [read.drm.get(name)])
