# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What nvidia-smi, the PCI scan, the GPU table, the last profile and the user say of one card, joined into one.

A card is recognised by its PCI address. One that a virtual machine holds is invisible to nvidia-smi: the scan still has
it, and the table knows what it is. The user's word wins over what was read, what was read over the table, and the last
profile speaks only where all of these are silent.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.module_utils import _gpu_models
from ansible_collections.knaster.inventory.plugins.module_utils._parsers import (
    nvidia_smi,
    sysfs_pci,
)
from ansible_collections.knaster.inventory.plugins.module_utils._parsers._errors import ParseError

if t.TYPE_CHECKING:
    from ansible_collections.knaster.inventory.plugins.module_utils._gather import Output

# The queries from the fullest to the one that every driver knows.
_CARD_QUERIES = ("nvidia_smi", "nvidia_smi_short")
_IDENTITY_QUERIES = ("nvidia_smi_identity", "nvidia_smi_identity_short")

_VENDORS = {"10de": "nvidia", "1002": "amd", "8086": "intel"}
_NVIDIA, _NVIDIA_ID = "nvidia", "10de"
_NVIDIA_DRIVER = "nvidia"
_NO_DEVICES = "no_devices"

_SMI, _TABLE, _PREVIOUS, _DECLARED = "nvidia-smi", "pci_table", "previous", "declared"


@dataclass(frozen=True)
class _Asked:
    """What asking nvidia-smi gave: cards by PCI address where it told them, or why there are none."""

    cards: t.Tuple[nvidia_smi.Card, ...] = ()
    code: t.Optional[str] = None
    text: str = ""


def join_gpus(
    outputs: t.Mapping[str, Output],
    *,
    declared: t.Sequence[t.Mapping[str, t.Any]],
    previous: t.Optional[t.Sequence[t.Mapping[str, t.Any]]],
    notes: t.List[str],
) -> t.Optional[t.List[t.Dict[str, t.Any]]]:
    """Return the node's cards in the order of their index, or None where it could not be found out whether it has any.

    :param declared: facts that a user states, each with ``pci``, the address
    :param previous: the cards of the node's last profile
    :param notes: what could not be read is added here
    """
    asked = _ask_nvidia(outputs, notes)
    devices = _scan(outputs, notes)
    if devices is None:
        if asked.code is not None and asked.code != _NO_DEVICES:
            notes.append(f"gpus: unknown (nvidia-smi: {asked.text}; PCI: not read)")
            return None
        pairs: t.List[t.Tuple[t.Optional[nvidia_smi.Card], t.Optional[sysfs_pci.Device]]] = [
            (card, None) for card in sorted(asked.cards, key=lambda card: (card.index is None, card.index or 0))
        ]
    else:
        pairs = _pair(asked.cards, devices)
    before = {str(_address(gpu)): gpu for gpu in previous or () if _address(gpu)}
    stated = {nvidia_smi.normalise_address(str(fact["pci"])) or str(fact["pci"]): fact for fact in declared}
    gpus = []
    for place, (card, device) in enumerate(pairs):
        address = (device.address if device else None) or (card.pci_address if card else None) or ""
        index = place if devices is not None or card is None or card.index is None else card.index
        gpus.append(
            _gpu(index, card, device, asked, previous=before.pop(address, {}), declared=stated.pop(address, {}))
        )
    _note_what_is_open(gpus, notes)
    notes.extend(f"gpu {address}: was there at the last collect and is missing" for address in sorted(before))
    notes.extend(f"gpu {address}: declared, but there is no such card" for address in sorted(stated))
    return gpus


def _ask_nvidia(outputs: t.Mapping[str, Output], notes: t.List[str]) -> _Asked:
    cards, trouble = _first_answer(outputs, _CARD_QUERIES, nvidia_smi.COLUMNS)
    if trouble is not None:
        if trouble.code not in ("absent", "not_asked", _NO_DEVICES):
            notes.append(f"nvidia-smi: {trouble.text}")
        return trouble
    identities, trouble = _first_answer(outputs, _IDENTITY_QUERIES, nvidia_smi.IDENTITY_COLUMNS)
    if trouble is not None and trouble.code != "not_asked":
        notes.append(f"nvidia-smi: cards not identified ({trouble.text})")
    return _Asked(tuple(_identify(cards, identities)))


def _first_answer(
    outputs: t.Mapping[str, Output], names: t.Sequence[str], columns: t.Sequence[str]
) -> t.Tuple[t.Sequence[nvidia_smi.Card], t.Optional[_Asked]]:
    """Return the cards of the first query that worked, or what went wrong with the first that was asked."""
    trouble = None
    for name in names:
        output = outputs.get(name)
        if output is None:
            continue
        if output.status == "absent":
            trouble = trouble or _Asked(code="absent", text="not there")
        elif output.status in ("timeout", "stuck"):
            trouble = trouble or _Asked(code="timeout", text="did not answer in time")
        else:
            try:
                return (
                    nvidia_smi.parse_query(
                        output.stdout, stderr=output.stderr, rc=output.rc, command=output.command, columns=columns
                    ),
                    None,
                )
            except ParseError as exc:
                trouble = trouble or _Asked(code=exc.code, text=str(exc).partition(": ")[2])
    return (), trouble or _Asked(code="not_asked", text="not asked")


def _identify(
    cards: t.Sequence[nvidia_smi.Card], identities: t.Sequence[nvidia_smi.Card]
) -> t.Iterator[nvidia_smi.Card]:
    """Add to each card what the second query says of the same index."""
    known = {card.index: card for card in identities if card.index is not None}
    for card in cards:
        other = None if card.index is None else known.get(card.index)
        if other is None:
            yield card
            continue
        yield nvidia_smi.Card(
            index=card.index,
            name=card.name,
            memory_mib=card.memory_mib,
            memory_state=card.memory_state,
            compute_cap=card.compute_cap,
            driver=card.driver,
            uuid=card.uuid or other.uuid,
            pci_address=card.pci_address or other.pci_address,
            mig=other.mig if card.mig is None else card.mig,
            reserved_mib=other.reserved_mib if card.reserved_mib is None else card.reserved_mib,
            health=card.health or other.health,
            notes=card.notes,
        )


def _scan(outputs: t.Mapping[str, Output], notes: t.List[str]) -> t.Optional[t.List[sysfs_pci.Device]]:
    output = outputs.get("pci")
    if output is None or output.status == "absent":
        return None
    if output.status != "ok":
        notes.append(f"pci: the scan {output.status}")
        return None
    return sysfs_pci.gpus(sysfs_pci.parse(read_pci_lines(output.stdout)))


def read_pci_lines(text: str) -> t.List[t.Dict[str, str]]:
    """Return the devices of the gather script's PCI scan: one a line, ``key=value`` words."""
    devices = []
    for line in text.splitlines():
        pairs = (word.partition("=") for word in line.split())
        device = {key: value for key, equals, value in pairs if equals}
        if device.get("address"):
            devices.append(device)
    return devices


def write_pci_lines(devices: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """Return devices as the gather script prints them."""
    return "\n".join(
        " ".join(f"{key}={value}" for key, value in device.items() if value is not None) for device in devices
    )


def _pair(
    cards: t.Sequence[nvidia_smi.Card], devices: t.Sequence[sysfs_pci.Device]
) -> t.List[t.Tuple[t.Optional[nvidia_smi.Card], t.Optional[sysfs_pci.Device]]]:
    """Put what nvidia-smi and the scan say of one card together, in the order that gives the cards their index."""
    ordered = sorted(
        devices, key=lambda device: (device.vendor_id != _NVIDIA_ID, sysfs_pci.address_key(device.address))
    )
    left = list(cards)
    if all(card.pci_address is None for card in left):
        # An old tool that tells no address: it counts the cards of its driver in the order of their addresses.
        driven = [device for device in ordered if device.driver == _NVIDIA_DRIVER]
        if len(driven) != len(left):
            driven = []
        by_address = {device.address: card for device, card in zip(driven, sorted(left, key=lambda c: c.index or 0))}
    else:
        by_address = {card.pci_address: card for card in left if card.pci_address}
    pairs: t.List[t.Tuple[t.Optional[nvidia_smi.Card], t.Optional[sysfs_pci.Device]]] = []
    for device in ordered:
        card = by_address.get(device.address)
        if card is not None:
            left.remove(card)
        pairs.append((card, device))
    # A card that nvidia-smi knows and the scan does not have: nothing is dropped.
    return pairs + [(card, None) for card in left]


def _address(gpu: t.Mapping[str, t.Any]) -> t.Optional[str]:
    return (gpu.get("pci") or {}).get("address")


def _gpu(
    index: int,
    card: t.Optional[nvidia_smi.Card],
    device: t.Optional[sysfs_pci.Device],
    asked: _Asked,
    *,
    previous: t.Mapping[str, t.Any],
    declared: t.Mapping[str, t.Any],
) -> t.Dict[str, t.Any]:
    pci_id = device.pci_id if device else None
    if previous and (previous.get("pci") or {}).get("id") not in (None, pci_id):
        previous = {}  # another card in the same slot
    read = card or nvidia_smi.Card()
    values = _Values(declared, previous)
    board = device.subsystem_id if device else None
    # A size that was stated or seen before tells apart what shares a PCI id; what is printed now tells it best.
    size = None if read.memory_mib is not None else declared.get("memory_gb") or previous.get("memory_gb")
    model = _gpu_models.find(
        name=read.name, pci_id=pci_id, subsystem_id=board, memory_mib=read.memory_mib, memory_gb=size
    )
    name = values.pick("name", read.name or previous.get("name"), _table_name(pci_id, board))
    nominal = None
    if read.memory_mib is not None:
        nominal = _gpu_models.nominal_memory_gb(name, pci_id, read.memory_mib, subsystem_id=board)
    # Where several cards are possible, the table still answers if all of them agree.
    of_all = _gpu_models.nominal_memory_gb(name, pci_id, subsystem_id=board)
    capability = _gpu_models.compute_cap(name, pci_id, subsystem_id=board)
    mig = read.mig
    if mig is None and model and not model.mig_capable:
        mig = False
    elif card is None:
        mig = values.last("mig")
    gpu: t.Dict[str, t.Any] = {
        "index": index,
        "name": name,
        "memory_gb": values.pick("memory_gb", nominal, model.memory_gb if model else of_all, source="memory"),
        "memory_mib": read.memory_mib if card else values.last("memory_mib"),
        "compute_cap": _number(
            values.pick("compute_cap", read.compute_cap, capability, source="compute_cap"),
        ),
        "driver": read.driver if card else values.last("driver"),
        "gpu_class": _gpu_models.gpu_class(
            name, pci_id=pci_id, subsystem_id=board, memory_mib=read.memory_mib, memory_gb=size
        ),
        "vendor": _VENDORS.get(device.vendor_id or "") if device else _NVIDIA,
        "uuid": read.uuid or values.last("uuid"),
        "pci": _pci(device, read),
        "mig": mig,
    }
    if not _gpu_models.is_known(name, pci_id=pci_id):
        gpu["known"] = False
    unified = bool(model and model.unified and read.memory_mib is None)
    healthy, health = _health(card, device, asked, unified=unified)
    if declared.get("healthy") is not None:
        healthy = bool(declared["healthy"])
        health = None if healthy else ("declared", "declared unusable")
    gpu["healthy"] = healthy
    if health:
        gpu["health"] = {"code": health[0], "text": health[1]}
    if unified:
        gpu["unified_memory"] = True
    if card and card.index is not None and card.index != index:
        gpu["smi_index"] = card.index
    reserved = read.reserved_mib if card else values.last("reserved_mib")
    if reserved is not None:
        gpu["reserved_mib"] = reserved
    gpu["sources"] = values.sources
    return gpu


def _table_name(pci_id: t.Optional[str], board: t.Optional[str]) -> t.Optional[str]:
    """Return the product name that all cards share which these ids allow."""
    names = {model.names[0] for model in _gpu_models.candidates(pci_id=pci_id, subsystem_id=board)}
    return names.pop() if len(names) == 1 else None


class _Values:
    """Picks a value by the order of its sources and keeps which source it was."""

    def __init__(self, declared: t.Mapping[str, t.Any], previous: t.Mapping[str, t.Any]) -> None:
        self.declared = declared
        self.previous = previous
        self.sources: t.Dict[str, str] = {}

    def pick(self, key: str, read: t.Any, table: t.Any, *, source: t.Optional[str] = None) -> t.Any:
        for origin, value in (
            (_DECLARED, self.declared.get(key)),
            (_SMI, read),
            (_TABLE, table),
            (_PREVIOUS, self.previous.get(key)),
        ):
            if value is not None:
                if source:
                    self.sources[source] = origin
                return value
        return None

    def last(self, key: str) -> t.Any:
        """Return what only the last profile can know."""
        value = self.previous.get(key)
        if value is not None:
            self.sources[key] = _PREVIOUS
        return value


def _number(capability: t.Any) -> t.Any:
    """Return a compute capability as the number that people write."""
    if isinstance(capability, tuple):
        return float(f"{capability[0]}.{capability[1]}")
    if isinstance(capability, str):
        try:
            return float(capability)
        except ValueError:
            return None
    return capability


def _pci(device: t.Optional[sysfs_pci.Device], card: nvidia_smi.Card) -> t.Optional[t.Dict[str, t.Any]]:
    if device is None:
        return {"address": card.pci_address} if card.pci_address else None
    return {
        "address": device.address,
        "id": device.pci_id,
        "subsystem_id": device.subsystem_id,
        "iommu_group": device.iommu_group,
        "iommu_peers": [
            {"address": peer.address, "class": f"0x{peer.class_code}", "driver": peer.driver}
            for peer in device.iommu_peers
        ],
        "driver": device.driver,
        "numa_node": device.numa_node,
    }


def _health(
    card: t.Optional[nvidia_smi.Card],
    device: t.Optional[sysfs_pci.Device],
    asked: _Asked,
    *,
    unified: bool,
) -> t.Tuple[t.Optional[bool], t.Optional[t.Tuple[str, str]]]:
    """Return whether a card works: true, false, or None where nothing tells; and what is wrong with it."""
    if card is not None:
        if card.health:
            return False, card.health
        if card.memory_mib is None and card.memory_state and not unified:
            return None, (card.memory_state, "nvidia-smi tells no memory for it")
        return True, None
    if device is None or device.vendor_id != _NVIDIA_ID or device.driver != _NVIDIA_DRIVER:
        return True, None  # nothing that could see it was asked, and that is how a card looks that a VM holds
    if asked.code is None:
        return False, ("gpu_lost", "its driver holds it, and nvidia-smi does not list it")
    if asked.code in ("absent", "not_asked", "timeout", "command_failed", "unparsable_rows", "command_not_found"):
        return None, (asked.code, f"nvidia-smi: {asked.text}")
    return False, (asked.code, f"nvidia-smi: {asked.text}")


def _note_what_is_open(gpus: t.Sequence[t.Mapping[str, t.Any]], notes: t.List[str]) -> None:
    cards: t.Dict[str, t.List[str]] = {}
    for gpu in gpus:
        where = str(_address(gpu) or gpu["index"])
        if gpu["memory_gb"] is None:
            cards.setdefault("memory unknown; state it in knaster_gpus", []).append(where)
        if gpu["compute_cap"] is None and gpu["vendor"] == _NVIDIA:
            cards.setdefault("compute capability unknown; state it in knaster_gpus", []).append(where)
        if gpu.get("health"):
            cards.setdefault(gpu["health"]["text"], []).append(where)
    notes.extend(f"gpu {', '.join(places)}: {text}" for text, places in cards.items())
