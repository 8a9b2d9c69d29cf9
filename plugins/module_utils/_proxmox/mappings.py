# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The PCI resource mappings of a Proxmox VE cluster: what is wanted, what is wrong with it, and making it so.

PVE compares the text of a mapping's entry with the hardware when a VM starts, and refuses the start for any difference:
id, subsystem-id, iommugroup and path have to be there where the device has them, in lower case, with domain, without 0x
("Resource Mapping" of https://pve.proxmox.com/pve-docs/chapter-qm.html, ``assert_valid`` in ``PVE/Mapping/PCI.pm``).
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.module_utils._pci import parse_addresses, parse_id
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.client import Pve, PveError, PveLostError
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.guests import mapping_users
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.hardware import PciDevice, read_devices
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.properties import NODE_NAME, parse_properties

MAPPINGS = "/cluster/mapping/pci"

_MAPPING_ID = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]+\Z")
_ROUNDS = 4


@dataclass(frozen=True)
class Entry:
    """One device of one node in a mapping. ``path`` may be several addresses that are passed through together."""

    node: str
    path: str
    pci_id: str
    subsystem_id: t.Optional[str] = None
    iommu_group: t.Optional[int] = None
    description: t.Optional[str] = None

    @property
    def parts(self) -> t.Dict[str, str]:
        """Return the parts of the entry as PVE names them, in the order of their names."""
        values = {
            "description": self.description,
            "id": self.pci_id,
            "iommugroup": None if self.iommu_group is None else str(self.iommu_group),
            "node": self.node,
            "path": self.path,
            "subsystem-id": self.subsystem_id,
        }
        return {key: value for key, value in values.items() if value is not None}

    @property
    def text(self) -> str:
        """Return the entry as PVE takes it."""
        return ",".join(f"{key}={value}" for key, value in self.parts.items())


def parse_entry(text: str) -> t.Dict[str, str]:
    """Return the parts of an entry as PVE keeps it."""
    return parse_properties(text, default_key=None)


def check_entry(value: t.Mapping[str, t.Any], place: str) -> t.Tuple[t.Optional[Entry], t.List[str]]:
    """Return the entry that fields make, or everything that is wrong with them."""
    errors = []
    node = str(value.get("node") or "")
    if not NODE_NAME.match(node):
        errors.append(f"{place}.node: {node!r} is not a valid node name")
    path = str(value.get("path") or "")
    addresses = parse_addresses(path)
    if len(addresses) <= path.count(";"):
        errors.append(f"{place}.path: {path!r} is not a valid PCI address such as 0000:41:00.0")
    ids = {key: parse_id(value.get(key)) for key in ("pci_id", "subsystem_id")}
    for key, example in (("pci_id", "10de:26b1"), ("subsystem_id", "10de:16a1")):
        if ids[key] is None and (value.get(key) or key == "pci_id"):
            errors.append(f"{place}.{key}: {value.get(key)!r} is not a valid vendor:device such as {example}")
    group = value.get("iommu_group")
    description = str(value.get("description") or "") or None
    if re.search(r"[,\n\r]", description or ""):
        errors.append(f"{place}.description: it must not hold commas or line breaks")
    if errors:
        return None, errors
    return Entry(
        node=node,
        path=";".join(address.text for address in addresses),
        pci_id=str(ids["pci_id"]),
        subsystem_id=ids["subsystem_id"],
        iommu_group=int(group) if group is not None and int(group) >= 0 else None,
        description=description,
    ), []


def entry_problems(entry: Entry, devices: t.Sequence[PciDevice]) -> t.List[str]:
    """Return why PVE would refuse to start a VM with this entry, compared in the way that PVE compares."""
    problems = []
    known = {device.address: device for device in devices}
    for place, address in enumerate(parse_addresses(entry.path)):
        device = known.get(address.first)
        if device is None:
            problems.append(f"node {entry.node} has no PCI device {address.text}")
            continue
        # Of several devices PVE compares the group of the first.
        problems.extend(
            f"{address.text} on {entry.node} has {key} {_shown(found)}, the entry says {_shown(said)}"
            for key in ("pci_id", "subsystem_id", *(() if place else ("iommu_group",)))
            for said, found in [(getattr(entry, key), getattr(device, key))]
            if said != found
        )
    return problems


def _shown(value: t.Any) -> str:
    return "none" if value is None else str(value)


@dataclass(frozen=True)
class MappingWanted:
    """What a mapping has to be. ``nodes`` are those whose entries are ours to say; the others' stay as they are."""

    id: str
    entries: t.Tuple[Entry, ...] = ()
    nodes: t.FrozenSet[str] = frozenset()
    description: t.Optional[str] = None
    present: bool = True
    mdev: t.Optional[bool] = None


def mapping_wanted(
    ident: str,
    entries: t.Sequence[t.Mapping[str, t.Any]] = (),
    nodes: t.Sequence[str] = (),
    *,
    description: t.Optional[str] = None,
    present: bool = True,
    mdev: t.Optional[bool] = None,
) -> MappingWanted:
    """Return checked input.

    :raises PveError: with everything that is wrong
    """
    errors = []
    if not _MAPPING_ID.match(ident):
        errors.append(f"id: {ident!r} is not a valid mapping name (letters, digits, - and _, beginning with a letter)")
    errors.extend(f"nodes: {node!r} is not a valid node name" for node in nodes if not NODE_NAME.match(node))
    good = []
    for place, value in enumerate(entries):
        entry, wrong = check_entry(value, f"entries[{place}]")
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
        mdev=mdev,
    )


def merged_map(wanted: MappingWanted, current: t.Sequence[str]) -> t.List[str]:
    """Return the texts of all entries: those of other nodes as they are and in their place, those of ours as wanted.

    An entry that already says the same keeps its text, so that another order of its parts is no change.
    """
    ours = list(wanted.entries) if wanted.present else []
    result = []
    for text in current:
        have = parse_entry(text)
        if wanted.nodes and have.get("node") not in wanted.nodes:
            result.append(text)
            continue
        same = next((entry for entry in ours if _same(entry, have)), None)
        if same is not None:
            ours.remove(same)
            result.append(text)
    return result + [entry.text for entry in ours]


def _same(entry: Entry, have: t.Mapping[str, str]) -> bool:
    if entry.description is None:
        have = {key: value for key, value in have.items() if key != "description"}
    return entry.parts == have


def read_mappings(api: Pve, check_node: t.Optional[str] = None) -> t.Dict[str, t.Dict[str, t.Any]]:
    """Return all mappings that the user may see, by their name.

    :param check_node: the node whose entries PVE compares with the hardware
    """
    found = {}
    for item in api.rows(MAPPINGS, **({"check-node": check_node} if check_node else {})):
        if item.get("id"):
            texts = item.get("map")
            item["map"] = [str(text) for text in texts] if isinstance(texts, list) else [str(texts)] if texts else []
            found[str(item["id"])] = item
    return found


def ensure_mapping(
    api: Pve,
    wanted: MappingWanted,
    *,
    hardware: t.Optional[t.Mapping[str, t.Sequence[PciDevice]]] = None,
    check_mode: bool = False,
) -> t.Dict[str, t.Any]:
    """Make a mapping what it has to be, and return what changed, with warnings.

    :param hardware: the devices of nodes that are known already; those of other nodes are read
    :raises PveError: where it cannot be, or a VM would lose its GPU
    """
    warnings = _refuse_wrong_entries(api, wanted, hardware) if wanted.present else []
    first: t.Optional[t.Dict[str, t.Any]] = None
    for left in range(_ROUNDS - 1, -1, -1):
        current = read_mappings(api).get(wanted.id)
        texts = list(current["map"]) if current else []
        after = merged_map(wanted, texts)
        if wanted.present and not after:
            raise PveError(
                f"The mapping {wanted.id} would be left without an entry, which removes it. Say so with state=absent"
            )
        outcome = _mapping_outcome(wanted, current, texts, after)
        first = first or outcome
        if outcome["changed"]:
            _refuse_used(api, wanted, texts, after)
        if not outcome["changed"] or check_mode:
            break
        try:
            _send_mapping(api, wanted, current, outcome)
            break
        except PveError as exc:
            # A call whose answer is lost is looked after, not repeated. Where somebody else was faster, their change is
            # merged in the next round.
            again = isinstance(exc, PveLostError) or exc.is_changed or "already defined" in exc.message
            if not again or not left:
                raise
        api.sleep(0.5)
    return {**(first or {}), "warnings": warnings}


def _mapping_outcome(
    wanted: MappingWanted, current: t.Optional[t.Mapping[str, t.Any]], texts: t.List[str], after: t.List[str]
) -> t.Dict[str, t.Any]:
    """Return whether anything changes, and before and after in the form that is shown as the difference."""
    before: t.Dict[str, t.Any] = {}
    if current is not None:
        before = {"map": texts, "description": str(current.get("description") or ""), "mdev": _is_mdev(current)}
    description = wanted.description if wanted.present else None
    if description is None:
        description = before.get("description", "")
    mdev = wanted.mdev if wanted.present else None
    after_plain: t.Dict[str, t.Any] = {}
    if after:
        after_plain = {
            "map": after,
            "description": description,
            "mdev": before.get("mdev", False) if mdev is None else mdev,
        }
    return {
        "changed": before != after_plain,
        "id": wanted.id,
        "map": after,
        "diff": {"before": before, "after": after_plain},
    }


def _is_mdev(mapping: t.Mapping[str, t.Any]) -> bool:
    return str(mapping.get("mdev", 0)) == "1"


def _refuse_wrong_entries(
    api: Pve, wanted: MappingWanted, hardware: t.Optional[t.Mapping[str, t.Sequence[PciDevice]]]
) -> t.List[str]:
    """Compare with the hardware, and return what could not be read.

    :raises PveError: with all entries that do not fit
    """
    warnings: t.List[str] = []
    problems: t.List[str] = []
    for node in sorted({entry.node for entry in wanted.entries}):
        devices = (hardware or {}).get(node)
        if devices is None:
            try:
                devices = read_devices(api, node)
            except PveError as exc:
                warnings.append(f"The entries of node {node} could not be compared with its hardware: {exc}")
                continue
        problems += [text for entry in wanted.entries if entry.node == node for text in entry_problems(entry, devices)]
    if problems:
        raise PveError(
            f"The mapping {wanted.id} does not fit the hardware, so that no VM with it would start: {'; '.join(problems)}."
            " Collect the node again and replan"
        )
    return warnings


def _refuse_used(api: Pve, wanted: MappingWanted, texts: t.Sequence[str], after: t.Sequence[str]) -> None:
    """Raise where a VM would lose its GPU: PVE itself would only notice when the VM starts."""
    before_nodes = {parse_entry(text).get("node", "") for text in texts}
    losing = before_nodes - {parse_entry(text).get("node", "") for text in after}
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
    if before.get("mdev", False) != after["mdev"]:
        values["mdev"] = after["mdev"]
    if current is None:
        api.post(MAPPINGS, id=wanted.id, **values)
        return
    if values.get("description") == "":
        del values["description"]
        values["delete"] = "description"
    if current.get("digest"):
        values["digest"] = current["digest"]
    api.put(f"{MAPPINGS}/{wanted.id}", **values)
