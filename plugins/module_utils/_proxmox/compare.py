# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What differs between a VM's definition and what Proxmox VE keeps of it, and the calls that make the VM, without a network."""

from __future__ import annotations

import re
import typing as t
import urllib.parse
from dataclasses import dataclass, field, replace

from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.mark import (
    TAG,
    Mark,
    parse_mark,
    plain_description,
    with_mark,
)
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.properties import (
    DEFAULTS,
    FIXED_DRIVES,
    Drive,
    comparable,
    drive_text,
    family,
    is_drive,
    natural,
    parse_drive,
    parse_net,
    parse_option,
    parse_properties,
    parse_ssh_keys,
    parse_tags,
    value_text,
)

if t.TYPE_CHECKING:
    from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.definition import Definition

_KEPT_PARTS = ("size", "format", "ms-cert", "media")
# What somebody may set on a device of ours: where the definition does not name it, it stays.
_THEIRS = {
    "net": frozenset(("firewall", "link_down", "mtu", "queues", "rate", "trunks")),
    "hostpci": frozenset(
        (
            "device-id", "driver", "legacy-igd", "rombar", "romfile", "sub-device-id", "sub-vendor-id", "vendor-id", "x-vga",
        )
    ),
}  # fmt: skip
# Storages round up to their own units.
_ROUNDING = 64 * 1024**2
# What somebody may add to a VM that is worth telling: it changes what the VM reaches or takes.
_ADDITIONS = re.compile(
    r"(?:hostpci|net|usb|virtiofs|serial|parallel|ide|sata|scsi|virtio)\d+\Z|(?:args|hookscript|affinity|hugepages|tpmstate0)\Z"
)


def _gib(size: float) -> str:
    return f"{size / 1024**3:g} GiB"


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
    def devices(self) -> t.List[str]:
        """Return the passed-through devices that change."""
        return sorted((key for key in [*self.set, *self.delete] if family(key) == "hostpci"), key=natural)

    @property
    def allocates(self) -> bool:
        """Return whether PVE has to make a volume, which can take longer than a call may."""
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

    def attend(self, code: str, key: str, text: str, remedy: str) -> None:
        """Note something that a user has to look at, and what to do about it."""
        self.attention.append({"code": code, "key": key, "text": text, "remedy": remedy})


def shown(key: str, text: str) -> t.Any:
    """Return a value as a difference shows it."""
    if key == "sshkeys":
        return parse_ssh_keys(text)
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
    """Return what differs between a definition and what PVE keeps, changes that wait for a start included.

    :param inherited: keys that the VM has from its template, which nobody added
    :param strict: also remove what somebody else added
    """
    have = {str(key): value_text(str(key), value) for key, value in current.items()}
    changes = Changes()
    mark = parse_mark(have.get("description"))
    owned = set(mark.own or ()) if mark else set()
    config = {**wanted.config, "name": wanted.name}
    elsewhere = _places_of_template(wanted, have)
    for key in sorted(config, key=natural):
        text = config[key]
        if key in ("tags", "description"):
            continue
        if text is None:
            if key in have:
                changes.change(key, have[key], None)
        elif key in elsewhere:
            _compare_elsewhere(changes, elsewhere[key], text, have)
        elif is_drive(key):
            _compare_drive(changes, key, text, have.get(key))
        elif family(key) == "net":
            _compare_net(changes, key, text, have.get(key), strict=strict)
        elif family(key) == "hostpci" and key in have:
            _compare_hostpci(changes, key, text, have[key], strict=strict)
        else:
            before = have.get(key, DEFAULTS.get(key))
            if before is None or comparable(key, before) != comparable(key, text):
                changes.change(key, have.get(key), _sent(key, text))
    if wanted.cipassword and "cipassword" not in have:
        changes.change("cipassword", None, wanted.cipassword)
    kept = inherited | set(elsewhere.values())
    _compare_additions(changes, config, have, owned, kept, strict=strict)
    _compare_tags(changes, config.get("tags"), have.get("tags"), owned, inherited, strict=strict)
    # What it made and leaves is still its own, and not somebody else's.
    left = [key for key in owned & set(have) - set(config) if is_drive(key) and is_disk(have[key])]
    target = replace(wanted.mark, own=(*(wanted.mark.own or ()), *sorted(left, key=natural)))
    _compare_description(changes, wanted, have.get("description"), mark, target)
    return changes


def _sent(key: str, text: str) -> str:
    """Return a value as PVE takes it, where that is not what people write."""
    if key == "sshkeys":
        return urllib.parse.quote("\n".join(parse_ssh_keys(text)), safe="")
    return text


def _places_of_template(wanted: Definition, have: t.Mapping[str, str]) -> t.Dict[str, str]:
    """Return where the VM has its first disk and its cloud-init drive, by the key of the definition, if not under that key.

    A template has them where whoever made it put them. PVE takes one cloud-init drive only, and a second first disk would
    be empty.
    """
    drives = {key: parse_drive(text) for key, text in have.items() if is_drive(key)}
    places = {}
    for key, text in wanted.config.items():
        if text is not None and is_drive(key) and parse_drive(text).is_cloudinit:
            others = [other for other, drive in drives.items() if drive.is_cloudinit and other not in wanted.config]
            if others:
                places[key] = min(others, key=natural)
    disk = wanted.source.disk
    if wanted.source.template is not None and wanted.config.get(disk) is not None and not is_disk(have.get(disk)):
        found = first_disk(have)
        if found is not None and found not in wanted.config:
            places[disk] = found
    return places


def is_disk(text: t.Optional[str]) -> bool:
    """Return whether the value of a drive is a disk, and no medium or cloud-init drive."""
    if text is None:
        return False
    drive = parse_drive(text)
    return not drive.is_cloudinit and drive.parts.get("media") != "cdrom" and not drive.is_empty


def first_disk(config: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """Return the key of the disk that a VM boots from: the first of its boot order, else the first that it has."""
    disks = sorted(
        (key for key in config if is_drive(key) and key not in FIXED_DRIVES and is_disk(str(config[key]))), key=natural
    )
    order = parse_properties(str(config.get("boot") or ""), "legacy").get("order", "").split(";")
    return next((key for key in [*order, *disks] if key in disks), None)


def _compare_elsewhere(changes: Changes, key: str, text: str, have: t.Mapping[str, str]) -> None:
    """Compare what the template has under another key: of a disk its size only, for options differ by the kind of its bus."""
    want = parse_drive(text)
    there = parse_drive(have[key])
    if want.new_gib and there.size is not None and not want.is_cloudinit:
        _compare_size(changes, key, want.new_gib, there)


def _compare_net(changes: Changes, key: str, text: str, before: t.Optional[str], *, strict: bool) -> None:
    parts, mac = parse_net(text)
    if before is None:
        changes.change(key, None, text)
        return
    have, have_mac = parse_net(before)
    parts.update(_their_parts(changes, key, parse_properties(text, "model"), have, strict=strict))
    if parts == have and mac in (None, have_mac):
        return
    mac = mac or have_mac
    model = parts.pop("model", "virtio")
    # The address stays, or the VM would get another lease and lose its name in the network.
    changes.change(key, before, drive_text(f"{model}={mac}" if mac else model, parts))


def _compare_hostpci(changes: Changes, key: str, text: str, before: str, *, strict: bool) -> None:
    have = parse_option(key, before)
    theirs = _their_parts(changes, key, parse_properties(text, "host"), have, strict=strict)
    if {**parse_option(key, text), **theirs} != have:
        changes.change(key, before, drive_text(text, theirs))


def _their_parts(
    changes: Changes, key: str, said: t.Mapping[str, str], have: t.Mapping[str, str], *, strict: bool
) -> t.Dict[str, str]:
    """Return the parts of a device that somebody else set and that stay, and note them."""
    theirs = {name: have[name] for name in sorted(_THEIRS[family(key)] & set(have) - set(said))}
    changes.external.extend({"key": key, "value": f"{name}={value}"} for name, value in theirs.items())
    return {} if strict else theirs


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
        changes.attend(
            "disk_elsewhere",
            key,
            f"It lies on the storage {have.storage}, the definition says {want.storage}",
            "Disks are not moved by this. Move it in PVE, or change the definition",
        )
    if want.options != have.options:
        if key in FIXED_DRIVES:
            changes.attend(
                "drive_fixed",
                key,
                f"It is {before}, the definition says {text}",
                "PVE cannot change this afterwards. Remove the drive in PVE and run again, or change the definition",
            )
        else:
            kept = {name: part for name, part in have.parts.items() if name in _KEPT_PARTS}
            kept.update(want.options)
            changes.change(key, before, drive_text(have.file, kept))
    if want.new_gib and key not in FIXED_DRIVES and have.size is not None:
        _compare_size(changes, key, want.new_gib, have)


def _compare_size(changes: Changes, key: str, new_gib: float, have: Drive) -> None:
    wanted = int(new_gib * 1024**3)
    size = have.size or 0
    if size > wanted + _ROUNDING:
        changes.attend(
            "disk_larger",
            key,
            f"It has {_gib(size)}, the definition says {_gib(wanted)}",
            "Disks are never made smaller. Change the definition",
        )
    elif size < wanted:
        # PVE takes whole numbers with a unit.
        changes.resize[key] = f"{int(new_gib)}G" if new_gib == int(new_gib) else f"{wanted // 1024**2}M"
        before = changes.before.setdefault(key, drive_text(have.file, have.parts))
        text = changes.after.get(key, before)
        changes.after[key] = re.sub(r"\bsize=\w+(?:\.\w+)?", f"size={changes.resize[key]}", str(text))


def _compare_additions(
    changes: Changes,
    config: t.Mapping[str, t.Optional[str]],
    have: t.Mapping[str, str],
    owned: t.AbstractSet[str],
    inherited: t.AbstractSet[str],
    *,
    strict: bool,
) -> None:
    """Note devices that the definition does not have: ours of before go, others' stay unless it is strict."""
    for key in sorted(have, key=natural):
        if key in config:
            continue
        if key in owned and is_drive(key) and is_disk(have[key]):
            changes.attend(
                "disk_kept",
                key,
                "It was made for an earlier definition, and the definition does not have it any more",
                "Disks are never removed by this. Detach it in PVE, or put it back into the definition",
            )
        elif key in owned:
            changes.change(key, have[key], None)
        elif _ADDITIONS.match(key) and (family(key) == "hostpci" or key not in inherited):
            changes.external.append({"key": key, "value": have[key]})
            if strict:
                changes.change(key, have[key], None)


def addition_candidates(wanted: Definition, current: t.Mapping[str, t.Any]) -> bool:
    """Return whether the configuration has devices or tags that may come from the template, so that it is worth a look."""
    return bool(
        parse_tags(str(current.get("tags") or "")) - parse_tags(wanted.config.get("tags") or "") - {TAG}
    ) or any(
        _ADDITIONS.match(str(key)) and family(str(key)) != "hostpci" and key not in wanted.config for key in current
    )


def inherited_keys(template: t.Mapping[str, t.Any]) -> t.FrozenSet[str]:
    """Return the keys and tags that a clone has from its template."""
    tags = {f"tags={tag}" for tag in parse_tags(str(template.get("tags") or ""))}
    return frozenset(tags | {str(key) for key in template})


def _compare_tags(
    changes: Changes,
    text: t.Optional[str],
    before: t.Optional[str],
    owned: t.AbstractSet[str],
    inherited: t.AbstractSet[str],
    *,
    strict: bool,
) -> None:
    want = parse_tags(text or "") | {TAG}
    have = parse_tags(before or "")
    gone = {tag for tag in have - want if f"tags={tag}" in owned}
    extra = {tag for tag in have - want - gone if f"tags={tag}" not in inherited}
    changes.external.extend({"key": "tags", "value": tag} for tag in sorted(extra))
    if want - have or gone or (extra and strict):
        changes.change("tags", before, ";".join(sorted(want | have - gone - (extra if strict else set()))))


def _compare_description(
    changes: Changes, wanted: Definition, before: t.Optional[str], mark: t.Optional[Mark], target: Mark
) -> None:
    """Put the mark into the last line, below the words of the user, which stay, and those of the definition."""
    words = plain_description(before)
    said = plain_description(wanted.config.get("description"))
    if said and said not in words:
        words = f"{words}\n\n{said}" if words else said
    elif (
        mark is not None
        and (mark.vm, mark.fingerprint, mark.fleet) == (target.vm, target.fingerprint, target.fleet or mark.fleet)
        and mark.own in (None, target.own)
    ):
        return
    changes.change("description", before, with_mark(words, target))


def created_drive(key: str, text: str) -> str:
    """Return a drive to make. Some clients of PVE send format=None for an EFI disk without one, so ours always has one."""
    drive = parse_drive(text)
    if key == "efidisk0" and drive.new_gib is not None and "format" not in drive.parts:
        return f"{text},format=raw"
    return text


def create_values(wanted: Definition) -> t.Dict[str, str]:
    """Return the parameters that make a VM without a template."""
    values = {key: _sent(key, text) for key, text in wanted.config.items() if text is not None}
    values.update({key: created_drive(key, text) for key, text in values.items() if is_drive(key)})
    source = wanted.source
    if source.image is not None:
        drive = parse_drive(values[source.disk])
        values[source.disk] = drive_text(f"{drive.storage}:0", {**drive.parts, "import-from": source.image})
    values["name"] = wanted.name
    values["tags"] = ";".join(sorted(parse_tags(values.get("tags", "")) | {TAG}))
    values["description"] = with_mark(plain_description(values.get("description")), wanted.mark)
    if wanted.cipassword:
        values["cipassword"] = wanted.cipassword
    if wanted.pool is not None:
        values["pool"] = wanted.pool
    return values


def created_view(wanted: Definition) -> t.Dict[str, t.Any]:
    """Return the configuration of a VM that is not there yet, for the difference."""
    view = {key: shown(key, text) for key, text in create_values(wanted).items()}
    if wanted.source.image is not None:
        text = wanted.config[wanted.source.disk]
        view[wanted.source.disk] = f"{text},import-from={wanted.source.image}"
    if wanted.source.template is not None:
        view["template"] = wanted.source.template
    return dict(sorted(view.items(), key=lambda item: natural(item[0])))


def clone_values(wanted: Definition, template_node: str) -> t.Dict[str, t.Any]:
    """Return the parameters that clone the template.

    The mark has no fingerprint yet, so that a clone that was left half-way is known as ours and as unfinished.
    """
    source = wanted.source
    values: t.Dict[str, t.Any] = {
        "newid": wanted.vmid,
        "name": wanted.name,
        "full": 1 if source.full else 0,
        "description": Mark(wanted.name, fleet=wanted.fleet).line(),
    }
    if template_node != wanted.node:
        values["target"] = wanted.node
    if wanted.pool is not None:
        values["pool"] = wanted.pool
    storage = parse_drive(wanted.config.get(source.disk) or "").storage
    if source.full and storage is not None:
        values["storage"] = storage
    return values


def start_limit(config: t.Mapping[str, t.Any]) -> float:
    """Return the seconds that PVE gives a VM to start (``config_aware_timeout`` in its ``QemuServer/Helpers.pm``).

    The memory is pinned and cleared first when GPUs are passed through.
    """
    memory = parse_properties(str(config.get("memory", "512")), "current").get("current", "512")
    gib = float(memory) / 1024 if re.match(r"\d+(?:\.\d+)?\Z", memory) else 0.0
    limit = max(30.0, gib)
    if any(family(str(key)) == "hostpci" for key in config):
        limit *= 4
    return limit + 5.0 * sum(1 for key in config if family(str(key)) == "net")


def device_mappings(config: t.Mapping[str, t.Any]) -> t.Dict[str, str]:
    """Return the mapping that each hostpci key names, by the key."""
    devices = {key: str(text) for key, text in config.items() if family(key) == "hostpci" and text is not None}
    named = {key: parse_option(key, text).get("mapping") for key, text in devices.items()}
    return {key: name for key, name in named.items() if name}
