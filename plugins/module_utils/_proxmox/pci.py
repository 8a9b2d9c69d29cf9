# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""PCI devices of Proxmox VE nodes and the resource mappings that name them.

PVE compares the text of a mapping's entry with the hardware when a VM starts, and refuses the start for any difference:
id, subsystem-id, iommugroup and path have to be there where the device has them, in lower case, with domain, without 0x.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.client import Pve, PveError, PveLostError, join
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.vm import parse_mark, parse_properties

MAPPINGS = "/cluster/mapping/pci"

# Display controllers and accelerators. The display of a management controller is no GPU that anybody wants.
_GPU_CLASSES = ("03", "12")
_BMC_VENDORS = frozenset(("1a03", "102b"))
_ADDRESS = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?\Z")
_PCI_ID = re.compile(r"(?:0x)?([0-9a-f]{4}):(?:0x)?([0-9a-f]{4})\Z")
_MAPPING_ID = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]+\Z")
_NODE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?\Z")
_ROUNDS = 4


@dataclass(frozen=True)
class Card:
    """A PCI device as PVE reports it, in the form that its mappings need."""

    node: str
    address: str
    pci_class: str
    pci_id: str
    subsystem_id: t.Optional[str] = None
    iommu_group: t.Optional[int] = None
    vendor_name: t.Optional[str] = None
    device_name: t.Optional[str] = None
    mdev: bool = False

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU or an accelerator."""
        return self.pci_class.startswith(_GPU_CLASSES) and self.pci_id.split(":")[0] not in _BMC_VENDORS


def full_address(text: str) -> t.Optional[str]:
    """An address in lower case and with domain; one without function stands for all functions and stays so."""
    match = _ADDRESS.match(text.strip().lower())
    if not match:
        return None
    domain, bus, slot, function = match.groups()
    return f"{domain or '0000'}:{bus}:{slot}" + (f".{function}" if function is not None else "")


def pci_id(text: str) -> t.Optional[str]:
    """Vendor and device such as 10de:26b1, or None for anything else."""
    match = _PCI_ID.match(text.strip().lower())
    return f"{match.group(1)}:{match.group(2)}" if match else None


def cards_from_answer(node: str, answer: t.Any) -> t.List[Card]:
    """The devices of one node, sorted by address; what is no device is left out."""
    cards = []
    for item in answer if isinstance(answer, list) else []:
        if not isinstance(item, dict):
            continue
        address = full_address(str(item.get("id", "")))
        ident = pci_id(f"{item.get('vendor', '')}:{item.get('device', '')}")
        if address is None or ident is None:
            continue
        group = item.get("iommugroup")
        cards.append(
            Card(
                node=node,
                address=address,
                pci_class=re.sub(r"\A0x", "", str(item.get("class", "")).lower()),
                pci_id=ident,
                subsystem_id=pci_id(f"{item.get('subsystem_vendor', '')}:{item.get('subsystem_device', '')}"),
                iommu_group=int(group) if group is not None and int(group) >= 0 else None,
                vendor_name=_name(item.get("vendor_name")),
                device_name=_name(item.get("device_name")),
                mdev=str(item.get("mdev", "0")) == "1",
            )
        )
    return sorted(cards, key=lambda card: card.address)


def _name(value: t.Any) -> t.Optional[str]:
    return str(value) if value else None


def read_cards(api: Pve, node: str) -> t.List[Card]:
    """All devices of a node: bridges and the like too, because they can share an IOMMU group with a GPU."""
    return cards_from_answer(node, api.get(join("nodes", node, "hardware", "pci"), **{"pci-class-blacklist": ""}))


@dataclass(frozen=True)
class Entry:
    """One device of one node in a mapping. ``path`` may be several addresses that are passed through together."""

    node: str
    path: str
    pci_id: str
    subsystem_id: t.Optional[str] = None
    iommu_group: t.Optional[int] = None
    description: t.Optional[str] = None

    def text(self) -> str:
        """As PVE takes it."""
        values = {
            "description": self.description,
            "id": self.pci_id,
            "iommugroup": None if self.iommu_group is None else str(self.iommu_group),
            "node": self.node,
            "path": self.path,
            "subsystem-id": self.subsystem_id,
        }
        return ",".join(f"{key}={value}" for key, value in sorted(values.items()) if value is not None)

    def addresses(self) -> t.List[str]:
        """Its addresses."""
        return self.path.split(";")


def entry_from_text(text: str) -> t.Dict[str, str]:
    """The parts of an entry as PVE keeps it."""
    return dict(parse_properties(text, default_key=None))


def entry_from_plain(value: t.Mapping[str, t.Any], place: str) -> t.Tuple[t.Optional[Entry], t.List[str]]:
    """An entry from its fields, or everything that is wrong with them."""
    errors = []
    node = str(value.get("node") or "")
    if not _NODE.match(node):
        errors.append(f"{place}.node: {node!r} is no name of a node")
    addresses = [full_address(part) for part in str(value.get("path") or "").split(";")]
    if None in addresses:
        errors.append(f"{place}.path: {value.get('path')!r} is no PCI address such as 0000:41:00.0")
    ident = pci_id(str(value.get("pci_id") or ""))
    if ident is None:
        errors.append(f"{place}.pci_id: {value.get('pci_id')!r} is no vendor and device such as 10de:26b1")
    subsystem = None
    if value.get("subsystem_id"):
        subsystem = pci_id(str(value["subsystem_id"]))
        if subsystem is None:
            errors.append(f"{place}.subsystem_id: {value['subsystem_id']!r} is no vendor and device such as 10de:16a1")
    group = value.get("iommu_group")
    if group is not None and int(group) < 0:
        group = None
    if re.search(r"[,\n\r]", str(value.get("description") or "")):
        errors.append(f"{place}.description: it may hold neither commas nor line breaks")
    if errors or ident is None:
        return None, errors
    path = ";".join(address for address in addresses if address is not None)
    entry = Entry(
        node, path, ident, subsystem, None if group is None else int(group), str(value.get("description") or "") or None
    )
    return entry, []


def entry_problems(entry: Entry, cards: t.Sequence[Card]) -> t.List[str]:
    """Why PVE would refuse to start a VM with this entry, compared in the way that PVE compares."""
    problems = []
    known = {card.address: card for card in cards}
    for place, address in enumerate(entry.addresses()):
        card = known.get(address if "." in address else address + ".0")
        if card is None:
            problems.append(f"node {entry.node} has no PCI device {address}")
            continue
        pairs: t.List[t.Tuple[str, t.Any, t.Any]] = [
            ("pci_id", entry.pci_id, card.pci_id),
            ("subsystem_id", entry.subsystem_id, card.subsystem_id),
        ]
        if not place:
            pairs.append(("iommu_group", entry.iommu_group, card.iommu_group))
        problems.extend(
            f"{address} on {entry.node} has {name} {_shown(found)}, the entry says {_shown(said)}"
            for name, said, found in pairs
            if said != found
        )
    return problems


def _shown(value: t.Any) -> str:
    return "none" if value is None else str(value)


@dataclass(frozen=True)
class MappingWanted:
    """What a mapping has to be. ``nodes`` are the nodes whose entries are ours to say; the others' stay as they are."""

    id: str
    entries: t.Tuple[Entry, ...] = ()
    nodes: t.FrozenSet[str] = frozenset()
    description: t.Optional[str] = None
    present: bool = True


def mapping_wanted(
    ident: str,
    entries: t.Sequence[t.Mapping[str, t.Any]] = (),
    nodes: t.Sequence[str] = (),
    *,
    description: t.Optional[str] = None,
    present: bool = True,
) -> MappingWanted:
    """Checked input; PveError with everything that is wrong."""
    errors = []
    if not _MAPPING_ID.match(ident):
        errors.append(f"id: {ident!r} is no name of a mapping: letters, digits, - and _, beginning with a letter")
    errors.extend(f"nodes: {node!r} is no name of a node" for node in nodes if not _NODE.match(node))
    good = []
    for place, value in enumerate(entries):
        entry, wrong = entry_from_plain(value, f"entries[{place}]")
        errors.extend(wrong)
        if entry is not None:
            good.append(entry)
            if nodes and entry.node not in nodes:
                errors.append(f"entries[{place}].node: {entry.node} is not one of nodes")
    if present and not entries and not nodes:
        errors.append("entries: a mapping needs at least one entry")
    if errors:
        raise PveError("; ".join(errors))
    return MappingWanted(
        id=ident,
        entries=tuple(good),
        nodes=frozenset(nodes) | {entry.node for entry in good},
        description=description,
        present=present,
    )


def merged_map(wanted: MappingWanted, current: t.Sequence[str]) -> t.List[str]:
    """The texts of all entries: those of other nodes as they are and in their place, those of ours as wanted.

    An entry that already says the same keeps its text, so that another order of its parts is no change.
    """
    ours = list(wanted.entries) if wanted.present else []
    result = []
    for text in current:
        have = entry_from_text(text)
        if wanted.nodes and have.get("node") not in wanted.nodes:
            result.append(text)
            continue
        same = next((entry for entry in ours if _same(entry, have)), None)
        if same is not None:
            ours.remove(same)
            result.append(text)
    return result + [entry.text() for entry in ours]


def _same(entry: Entry, have: t.Mapping[str, str]) -> bool:
    said = entry_from_text(entry.text())
    if entry.description is None:
        have = {key: value for key, value in have.items() if key != "description"}
    return said == have


def read_mappings(api: Pve, check_node: t.Optional[str] = None) -> t.Dict[str, t.Dict[str, t.Any]]:
    """All mappings that the user may see, by their name."""
    answer = api.get(MAPPINGS, **({"check-node": check_node} if check_node else {}))
    found = {}
    for item in answer if isinstance(answer, list) else []:
        if isinstance(item, dict) and item.get("id"):
            texts = item.get("map")
            item["map"] = [str(text) for text in texts] if isinstance(texts, list) else [str(texts)] if texts else []
            found[str(item["id"])] = item
    return found


def read_guests(api: Pve) -> t.List[t.Dict[str, t.Any]]:
    """The VMs and containers of the cluster, by number. PVE may lag with everything but number, kind and node."""
    answer = api.get("/cluster/resources", type="vm")
    guests = [item for item in answer if isinstance(item, dict) and "vmid" in item] if isinstance(answer, list) else []
    return sorted(guests, key=lambda guest: int(guest["vmid"]))


@dataclass(frozen=True)
class Device:
    """One hostpci entry of a VM. ``now`` is what a running VM has, ``later`` what it has after its next start."""

    key: str
    now: t.Optional[str]
    later: t.Optional[str]

    def names(self) -> t.Set[str]:
        """The mappings that it names."""
        return {name for name in (_mapping_of(self.now), _mapping_of(self.later)) if name}

    def addresses(self) -> t.Set[str]:
        """The addresses that it names itself, without a mapping."""
        found: t.Set[str] = set()
        for text in (self.now, self.later):
            host = parse_properties(text, default_key="host").get("host", "") if text else ""
            found.update(address for address in (full_address(part) for part in host.split(";")) if address)
        return found


def _mapping_of(text: t.Optional[str]) -> t.Optional[str]:
    return parse_properties(text, default_key="host").get("mapping") if text else None


@dataclass(frozen=True)
class GuestDevices:
    """The passed-through devices of one VM, and the mark of the collection that it carries."""

    vmid: int
    name: t.Optional[str]
    node: str
    running: bool
    devices: t.Tuple[Device, ...]
    mark_vm: t.Optional[str]
    fingerprint: t.Optional[str]
    own: t.Optional[t.Tuple[str, ...]] = None


def read_guest_devices(api: Pve, guest: t.Mapping[str, t.Any]) -> GuestDevices:
    """What a VM has and will have, in one call."""
    vmid, node = int(guest["vmid"]), str(guest["node"])
    answer = api.get(join("nodes", node, "qemu", vmid, "pending"))
    now: t.Dict[str, str] = {}
    later: t.Dict[str, str] = {}
    for item in answer if isinstance(answer, list) else []:
        key = str(item.get("key", ""))
        if "value" in item:
            now[key] = later[key] = str(item["value"])
        if "pending" in item:
            later[key] = str(item["pending"])
        if item.get("delete"):
            later.pop(key, None)
    keys = sorted((key for key in {**now, **later} if re.match(r"hostpci\d+\Z", key)), key=lambda key: int(key[7:]))
    mark = parse_mark(later.get("description", ""))
    return GuestDevices(
        vmid=vmid,
        name=later.get("name"),
        node=node,
        running=guest.get("status") == "running",
        devices=tuple(Device(key, now.get(key), later.get(key)) for key in keys),
        mark_vm=mark.vm if mark else None,
        fingerprint=mark.fingerprint if mark else None,
        own=mark.own if mark else None,
    )


def mapping_users(api: Pve, ident: str, nodes: t.Optional[t.AbstractSet[str]] = None) -> t.List[str]:
    """The VMs whose configuration names a mapping; on the given nodes only, where some are given."""
    users = []
    for guest in read_guests(api):
        if guest.get("type", "qemu") != "qemu" or (nodes is not None and guest.get("node") not in nodes):
            continue
        try:
            found = read_guest_devices(api, guest)
        except PveError as exc:
            if exc.is_missing and not isinstance(exc, PveLostError):
                continue  # removed since it was listed
            raise
        if any(ident in device.names() for device in found.devices):
            users.append(f"VM {found.vmid} ({found.name or 'without name'}) on {found.node}")
    return users


def ensure_mapping(
    api: Pve,
    wanted: MappingWanted,
    *,
    hardware: t.Optional[t.Mapping[str, t.Sequence[Card]]] = None,
    check_mode: bool = False,
) -> t.Dict[str, t.Any]:
    """Make a mapping what it has to be, and say what changed. A call whose answer is lost is looked after, not repeated.

    :param hardware: The devices of nodes that are known already; those of other nodes are asked for.
    """
    warnings: t.List[str] = []
    first: t.Optional[t.Dict[str, t.Any]] = None
    lost: t.Optional[PveError] = None
    for _round in range(_ROUNDS):
        current = read_mappings(api).get(wanted.id)
        texts = list(current["map"]) if current else []
        if first is None and wanted.present:
            warnings.extend(_refuse_wrong_entries(api, wanted, hardware))
        after = merged_map(wanted, texts)
        if wanted.present and not after:
            raise PveError(
                f"The mapping {wanted.id} would be left without an entry, which removes it. Say so with state=absent"
            )
        outcome = _mapping_outcome(wanted, current, texts, after)
        if first is None:
            first = outcome
        if not outcome["changed"] or check_mode:
            if outcome["changed"]:
                _refuse_used(api, wanted, texts, after)
            break
        _refuse_used(api, wanted, texts, after)
        try:
            _send_mapping(api, wanted, current, outcome)
            break
        except PveLostError as exc:
            lost = exc
        except PveError as exc:
            # Somebody else was faster: their change is merged in the next round.
            if not exc.is_changed and not re.search(r"already defined", exc.message):
                raise
            lost = exc
        api.sleep(0.5)
    else:
        raise lost or PveError("not reached")
    return {**first, "warnings": warnings}


def _mapping_outcome(
    wanted: MappingWanted, current: t.Optional[t.Mapping[str, t.Any]], texts: t.List[str], after: t.List[str]
) -> t.Dict[str, t.Any]:
    """Before and after, in the form that is shown as the difference."""
    before_plain: t.Dict[str, t.Any] = {}
    if current is not None:
        before_plain = {"map": texts, "description": str(current.get("description") or "")}
    after_plain: t.Dict[str, t.Any] = {}
    if after:
        description = wanted.description if wanted.present and wanted.description is not None else None
        after_plain = {
            "map": after,
            "description": before_plain.get("description", "") if description is None else description,
        }
    return {
        "changed": before_plain != after_plain,
        "id": wanted.id,
        "map": after,
        "diff": {"before": before_plain, "after": after_plain},
    }


def _refuse_wrong_entries(
    api: Pve, wanted: MappingWanted, hardware: t.Optional[t.Mapping[str, t.Sequence[Card]]]
) -> t.List[str]:
    """Compare with the hardware; what cannot be read is a warning."""
    warnings: t.List[str] = []
    problems: t.List[str] = []
    for node in sorted({entry.node for entry in wanted.entries}):
        cards = (hardware or {}).get(node)
        if cards is None:
            try:
                cards = read_cards(api, node)
            except PveError as exc:
                warnings.append(f"The entries of node {node} could not be compared with its hardware: {exc}")
                continue
        for entry in wanted.entries:
            if entry.node == node:
                problems.extend(entry_problems(entry, cards))
    if problems:
        raise PveError(
            f"The mapping {wanted.id} does not fit the hardware, so that no VM with it would start: {'; '.join(problems)}."
            " Collect the node again and plan anew"
        )
    return warnings


def _refuse_used(api: Pve, wanted: MappingWanted, texts: t.Sequence[str], after: t.Sequence[str]) -> None:
    """No VM may lose its GPU: PVE itself would only notice when the VM starts."""
    before_nodes = {entry_from_text(text).get("node", "") for text in texts}
    losing = before_nodes - {entry_from_text(text).get("node", "") for text in after}
    if not losing:
        return
    users = mapping_users(api, wanted.id, losing if after else None)
    if users:
        raise PveError(
            f"The mapping {wanted.id} is used by {', '.join(users)}. Take it from there first, or remove the VM"
        )


def _send_mapping(
    api: Pve, wanted: MappingWanted, current: t.Optional[t.Mapping[str, t.Any]], outcome: t.Mapping[str, t.Any]
) -> None:
    before, after = outcome["diff"]["before"], outcome["diff"]["after"]
    if not after:
        api.delete(f"{MAPPINGS}/{wanted.id}")
        return
    values: t.Dict[str, t.Any] = {}
    if before.get("map") != after["map"]:
        values["map"] = after["map"]
    if before.get("description", "") != after["description"]:
        values["description"] = after["description"]
    if current is None:
        api.post(MAPPINGS, id=wanted.id, **values)
        return
    if values.get("description") == "":
        del values["description"]
        values["delete"] = "description"
    if current.get("digest"):
        values["digest"] = current["digest"]
    api.put(f"{MAPPINGS}/{wanted.id}", **values)
