# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What its vendor's tool, the PCI scan, the GPU table, the last profile and the user say of one GPU, joined into one.

A GPU is recognised by its PCI address. One that a virtual machine holds is invisible to the tool: the scan still has
it, and the table knows what it is. The user's word wins over what was read, what was read over the table, and the last
profile speaks only where all of these are silent.

The tools for AMD and Intel name the same GPU in their own ways from version to version. Where table and size leave one
GPU only, it has the name of the table, so that it is the same GPU when no tool can see it.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ansible_collections.knaster.inventory.plugins.module_utils import _gpu_table
from ansible_collections.knaster.inventory.plugins.module_utils._gather.holders import Holders
from ansible_collections.knaster.inventory.plugins.module_utils._parsers import (
    amd_smi,
    meminfo,
    nvidia_smi,
    nvidia_smi_list,
    rocm_smi,
    sysfs_pci,
    xpu_smi,
)
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError

if t.TYPE_CHECKING:
    from ansible_collections.knaster.inventory.plugins.module_utils._gather.script import Output
    from ansible_collections.knaster.inventory.plugins.module_utils._parsers.vendor_gpu import Card as VendorCard

# The queries from the fullest to the one that every driver knows.
_CARD_QUERIES = ("nvidia_smi", "nvidia_smi_short")
_IDENTITY_QUERIES = ("nvidia_smi_identity", "nvidia_smi_identity_short")

_VENDORS = {"10de": "nvidia", "1002": "amd", "8086": "intel"}
_NVIDIA_ID, _AMD_ID, _INTEL_ID = sysfs_pci.NVIDIA, sysfs_pci.AMD, sysfs_pci.INTEL
# The drivers whose GPUs a vendor's tool lists.
_DRIVERS = {_NVIDIA_ID: ("nvidia",), _AMD_ID: ("amdgpu",), _INTEL_ID: ("i915", "xe")}
_NO_DEVICES = "no_devices"
# How AMD's driver calls a GPU that is not divided.
_WHOLE = "SPX"
# What became of a command that never spoke, or spoke of itself only: the GPUs may be well.
_SILENT = ("absent", "not_asked", "timeout", "command_failed", "unparsable_rows", "not_json", "command_not_found")

_NVIDIA_SMI, _SYSFS, _TABLE, _PREVIOUS, _DECLARED = "nvidia-smi", "sysfs", "pci_table", "previous", "declared"
_MEMINFO = "meminfo"
# What the parser of nvidia-smi says of a part without memory of its own.
_UNIFIED = "unified"

_MIB = 1 << 20

# Of AMD and Intel: the vendor, and its tools as the outputs, their parsers and names, the fullest first.
_OTHER_TOOLS = (
    (_AMD_ID, (("amd_smi", amd_smi.parse, "amd-smi"), ("rocm_smi", rocm_smi.parse, "rocm-smi"))),
    (_INTEL_ID, (("xpu_smi", xpu_smi.parse, "xpu-smi"),)),
)


@dataclass(frozen=True)
class _Seen(nvidia_smi.Card):
    """A GPU as a tool tells it. A PCI id and a vendor are known here where the scan is not there to tell them."""

    vendor_id: str = _NVIDIA_ID
    device_id: t.Optional[str] = None
    slices: t.Optional[t.Tuple[nvidia_smi_list.Slice, ...]] = None


@dataclass(frozen=True)
class _Asked:
    """What asking a vendor's tool gave: its GPUs, or why there are none."""

    cards: t.Tuple[_Seen, ...] = ()
    code: t.Optional[str] = None
    text: str = ""
    tool: str = _NVIDIA_SMI


_NOT_ASKED = _Asked(code="not_asked", text="not asked")

_Health = t.Tuple[t.Optional[bool], t.Optional[t.Tuple[str, str]]]
_Pair = t.Tuple[t.Optional[_Seen], t.Optional[sysfs_pci.Device]]


def join_gpus(
    outputs: t.Mapping[str, Output],
    *,
    declared: t.Sequence[t.Mapping[str, t.Any]],
    previous: t.Optional[t.Sequence[t.Mapping[str, t.Any]]],
    notes: t.List[str],
) -> t.Optional[t.List[t.Dict[str, t.Any]]]:
    """Return the node's GPUs in the order of their index, or None where it could not be found out whether it has any.

    :param declared: facts that a user states, each with ``pci``, the address
    :param previous: the GPUs of the node's last profile
    :param notes: what could not be read is added here
    """
    asked = {_NVIDIA_ID: _ask_nvidia(outputs, notes)}
    devices = _scan(outputs, notes)
    for vendor, tools in _OTHER_TOOLS:
        # A tool that finds no driver is no trouble where there is no GPU for it.
        is_there = devices is None or any(device.vendor_id == vendor for device in sysfs_pci.gpus(devices))
        asked[vendor] = _ask_other(vendor, tools, outputs, notes if is_there else [])
    if devices is None:
        nvidia = asked[_NVIDIA_ID]
        others = [card for vendor, _unused in _OTHER_TOOLS for card in asked[vendor].cards if not _is_integrated(card)]
        if nvidia.code is not None and nvidia.code != _NO_DEVICES and not others:
            notes.append(f"gpus: unknown (nvidia-smi: {nvidia.text}; PCI: not read)")
            return None
        pairs: t.List[_Pair] = [
            (card, None) for card in sorted(nvidia.cards, key=lambda card: (card.index is None, card.index or 0))
        ]
        pairs += [(card, None) for card in others]
    else:
        pairs = _pair(asked, devices)
    # Without a scan NVIDIA's GPUs keep the numbers that are printed, and those of other vendors follow them.
    printed = [
        card.index for card, _unused in pairs if card and card.vendor_id == _NVIDIA_ID and card.index is not None
    ]
    host_kb = _host_kb(outputs)
    before = {str(_address(gpu)): gpu for gpu in previous or () if _address(gpu)}
    stated = {nvidia_smi.normalise_address(str(fact["pci"])) or str(fact["pci"]): fact for fact in declared}
    # Of a host without GPUs it does not matter what its machines could not be asked.
    holders = Holders(outputs, devices, notes if pairs else [])
    gpus = []
    follows = max(printed, default=-1) + 1
    for place, (card, device) in enumerate(pairs):
        address = (device.address if device else None) or (card.pci_address if card else None) or ""
        vendor_id = (device.vendor_id if device else card.vendor_id if card else None) or _NVIDIA_ID
        index = place
        if devices is None and card is not None:
            if card.vendor_id != _NVIDIA_ID:
                index, follows = follows, follows + 1
            elif card.index is not None:
                index = card.index
        facts = stated.pop(address, {})
        gpu = _gpu(
            index,
            card,
            device,
            asked.get(vendor_id, _NOT_ASKED),
            host_kb=host_kb,
            previous=before.pop(address, {}),
            declared=facts,
        )
        holders.add(gpu, facts)
        gpus.append(gpu)
    _note_what_is_open(gpus, notes)
    notes.extend(f"gpu {address}: was there at the last collect and is missing" for address in sorted(before))
    notes.extend(f"gpu {address}: declared, but there is no such GPU" for address in sorted(stated))
    return gpus


def _ask_nvidia(outputs: t.Mapping[str, Output], notes: t.List[str]) -> _Asked:
    cards, trouble = _first_answer(outputs, _CARD_QUERIES, nvidia_smi.COLUMNS)
    if trouble is not None:
        if trouble.code not in ("absent", "not_asked", _NO_DEVICES):
            notes.append(f"nvidia-smi: {trouble.text}")
        return trouble
    identities, trouble = _first_answer(outputs, _IDENTITY_QUERIES, nvidia_smi.IDENTITY_COLUMNS)
    if trouble is not None and trouble.code != "not_asked":
        notes.append(f"nvidia-smi: GPUs not identified ({trouble.text})")
    return _Asked(tuple(_with_slices(list(_identify(cards, identities)), outputs, notes)))


def _with_slices(cards: t.Sequence[_Seen], outputs: t.Mapping[str, Output], notes: t.List[str]) -> t.Sequence[_Seen]:
    """Add the slices of the GPUs that are divided, where the list of them was asked for."""
    output = outputs.get("nvidia_smi_list")
    if output is None or not any(card.mig for card in cards):
        return cards
    text = {"absent": "not there", "timeout": "did not answer in time", "stuck": "did not answer in time"}.get(
        output.status
    )
    listed: t.List[nvidia_smi_list.ListedCard] = []
    if text is None:
        try:
            listed = nvidia_smi_list.parse(output.stdout, stderr=output.stderr, rc=output.rc)
        except ParseError as exc:
            text = str(exc).partition(": ")[2]
    if text is not None:
        notes.append(f"nvidia-smi: slices not listed ({text})")
        return cards
    # A UUID is of the GPU; an index, for GPUs that were not identified, is of the moment.
    by_uuid = {card.uuid: card.slices for card in listed}
    by_index = {card.index: card.slices for card in listed}
    return [
        replace(card, slices=by_uuid.get(card.uuid) if card.uuid else by_index.get(t.cast("int", card.index)))
        if card.mig
        else card
        for card in cards
    ]


def _ask_other(
    vendor_id: str,
    tools: t.Sequence[t.Tuple[str, t.Callable[..., t.List[VendorCard]], str]],
    outputs: t.Mapping[str, Output],
    notes: t.List[str],
) -> _Asked:
    """Return the GPUs of the first tool that works, or what went wrong with the first one that is there."""
    trouble = None
    for name, parse, tool in tools:
        output = outputs.get(name)
        if output is None or output.status == "absent":
            continue
        if output.status in ("timeout", "stuck"):
            trouble = trouble or _Asked(code="timeout", text="did not answer in time", tool=tool)
            continue
        try:
            cards = parse(output.stdout, stderr=output.stderr, rc=output.rc)
        except ParseError as exc:
            trouble = trouble or _Asked(code=exc.code, text=str(exc).partition(": ")[2], tool=tool)
            continue
        return _Asked(tuple(_of_vendor(vendor_id, card, cards) for card in cards), tool=tool)
    if trouble is not None and trouble.code != _NO_DEVICES:
        notes.append(f"{trouble.tool}: {trouble.text}")
    return trouble or _NOT_ASKED


def _of_vendor(vendor_id: str, card: VendorCard, cards: t.Sequence[VendorCard]) -> _Seen:
    slices = None
    if card.partition not in (None, _WHOLE):
        # The parts of a GPU are listed as GPUs of their own, in one slot.
        slot = _slot(card)
        parts = [other for other in cards if other is card or (slot is not None and _slot(other) == slot)]
        slices = tuple(
            nvidia_smi_list.Slice(
                str(card.partition).lower(), part.memory_mib and int(part.memory_mib / 1024 + 0.5), part.uuid
            )
            for part in parts
        )
    return _Seen(
        index=card.index,
        name=card.name,
        memory_mib=card.memory_mib,
        driver=card.driver,
        uuid=card.uuid,
        pci_address=card.pci_address,
        mig=None if card.partition is None else card.partition != _WHOLE,
        vendor_id=vendor_id,
        device_id=card.device_id,
        slices=slices,
    )


def _slot(card: VendorCard) -> t.Optional[str]:
    return card.pci_address.rpartition(".")[0] if card.pci_address else None


def _is_integrated(card: _Seen) -> bool:
    """Tell the graphics of a processor that a tool lists beside GPUs."""
    device = sysfs_pci.Device(
        card.pci_address or "", vendor_id=card.vendor_id, device_id=card.device_id, class_code="030000"
    )
    return sysfs_pci.why_not_gpu(device) is not None


def _host_kb(outputs: t.Mapping[str, Output]) -> t.Optional[int]:
    """Return the host's memory, which is the most that graphics without memory of their own can have."""
    output = outputs.get("meminfo")
    try:
        return meminfo.parse(output.stdout).total_kb if output else None
    except ParseError:
        return None


def _first_answer(
    outputs: t.Mapping[str, Output], names: t.Sequence[str], columns: t.Sequence[str]
) -> t.Tuple[t.Sequence[nvidia_smi.Card], t.Optional[_Asked]]:
    """Return the GPUs of the first query that worked, or what went wrong with the first that was asked."""
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


def _identify(cards: t.Sequence[nvidia_smi.Card], identities: t.Sequence[nvidia_smi.Card]) -> t.Iterator[_Seen]:
    """Add to each GPU what the second query says of the same index."""
    known = {card.index: card for card in identities if card.index is not None}
    for card in cards:
        other = (None if card.index is None else known.get(card.index)) or nvidia_smi.Card()
        yield _Seen(
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
    return sysfs_pci.parse(read_pci_lines(output.stdout))


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


def _pair(asked: t.Mapping[str, _Asked], devices: t.Sequence[sysfs_pci.Device]) -> t.List[_Pair]:
    """Put what a tool and the scan say of one GPU together, in the order that gives the GPUs their index."""
    ordered = sorted(
        sysfs_pci.gpus(devices),
        key=lambda device: (device.vendor_id != _NVIDIA_ID, sysfs_pci.address_key(device.address)),
    )
    left = [card for told in asked.values() for card in told.cards]
    by_address: t.Dict[str, _Seen] = {}
    for vendor, told in asked.items():
        by_address.update(_by_address(told.cards, [device for device in ordered if device.vendor_id == vendor]))
    pairs: t.List[_Pair] = []
    for device in ordered:
        card = by_address.get(device.address)
        if card is not None:
            left.remove(card)
        pairs.append((card, device))
    # A GPU that nvidia-smi knows and the scan does not have: nothing is dropped. The other tools also list graphics
    # that are no GPUs, and a GPU once for each of its parts; what is new of them has a slot of its own.
    slots = {device.slot for device in devices}
    for card in left:
        slot = (card.pci_address or "").rpartition(".")[0]
        if card.vendor_id == _NVIDIA_ID or (slot and slot not in slots and not _is_integrated(card)):
            pairs.append((card, None))
            slots.add(slot)
    return pairs


def _by_address(cards: t.Sequence[_Seen], devices: t.Sequence[sysfs_pci.Device]) -> t.Dict[str, _Seen]:
    """Return the GPUs of one vendor's tool by their address."""
    if all(card.pci_address is None for card in cards):
        # An old tool that tells no address: it counts the GPUs of its driver in the order of their addresses.
        driven = [device for device in devices if device.driver in _DRIVERS[device.vendor_id or ""]]
        if len(driven) != len(cards):
            return {}
        return {device.address: card for device, card in zip(driven, sorted(cards, key=lambda c: c.index or 0))}
    # Of a GPU in parts the first one speaks.
    return {card.pci_address: card for card in reversed(cards) if card.pci_address}


def _address(gpu: t.Mapping[str, t.Any]) -> t.Optional[str]:
    return (gpu.get("pci") or {}).get("address")


def _gpu(
    index: int,
    card: t.Optional[_Seen],
    device: t.Optional[sysfs_pci.Device],
    asked: _Asked,
    *,
    host_kb: t.Optional[int],
    previous: t.Mapping[str, t.Any],
    declared: t.Mapping[str, t.Any],
) -> t.Dict[str, t.Any]:
    read = card or _Seen(vendor_id=(device.vendor_id if device else None) or _NVIDIA_ID)
    pci_id = device.pci_id if device else f"{read.vendor_id}:{read.device_id}" if read.device_id else None
    if previous and (previous.get("pci") or {}).get("id") not in (None, pci_id):
        previous = {}  # another GPU in the same slot
    values = _Values(declared, previous)
    board = device.subsystem_id if device else None
    chip = pci_id
    virtual = _gpu_table.is_virtual(declared.get("name") or read.name or previous.get("name"))
    if virtual:
        pci_id = board = None  # they are of the GPU that it is a part of
    by_ids = _gpu_table.candidates(name=read.name, pci_id=pci_id, subsystem_id=board)
    unified = bool(by_ids) and all(model.unified for model in by_ids)
    tool = asked.tool
    shared_mib: t.Optional[int] = None
    if unified and read.vendor_id != _NVIDIA_ID:
        # Its tools print what the firmware carved out for it, which is not what it can use.
        read, tool = replace(read, memory_mib=None), _SYSFS
        shared_mib = _shared_mib(device, host_kb and host_kb // 1024)
    elif read.memory_mib is None and device is not None and device.vram_bytes:
        read, tool = replace(read, memory_mib=device.vram_bytes // _MIB or None), _SYSFS
    # A size that was stated or seen before tells apart what shares a PCI id; what is printed now tells it best.
    size = None if read.memory_mib is not None else declared.get("memory_gb") or previous.get("memory_gb")
    model = _gpu_table.find(
        name=read.name, pci_id=pci_id, subsystem_id=board, memory_mib=read.memory_mib, memory_gb=size
    )
    told_name = read.name
    if model and read.vendor_id != _NVIDIA_ID:
        told_name = model.names[0]
    name = values.pick("name", told_name or previous.get("name"), _table_name(pci_id, board))
    nominal: t.Optional[int] = None
    if read.memory_mib is not None:
        nominal = _gpu_table.nominal_memory_gb(name, pci_id, read.memory_mib, subsystem_id=board)
    elif shared_mib or (read.memory_state == _UNIFIED and not by_ids):
        nominal, tool = _shared_gb(shared_mib, host_kb, tool)
    # Where several GPUs are possible, the table still answers if all of them agree.
    of_all = _gpu_table.nominal_memory_gb(name, pci_id, subsystem_id=board)
    capability = _gpu_table.compute_cap(name, chip, subsystem_id=board)
    gpu: t.Dict[str, t.Any] = {
        "index": index,
        "name": name,
        "memory_gb": values.pick(
            "memory_gb", nominal, model.memory_gb if model else of_all, source="memory", tool=tool
        ),
        "memory_mib": read.memory_mib if card or read.memory_mib else values.last("memory_mib"),
        "compute_cap": _number(
            values.pick("compute_cap", read.compute_cap, capability, source="compute_cap"),
        ),
        "driver": read.driver if card else values.last("driver"),
        "gpu_class": _gpu_table.gpu_class(
            name, pci_id=pci_id, subsystem_id=board, memory_mib=read.memory_mib, memory_gb=size
        ),
        "vendor": _VENDORS.get(read.vendor_id),
        "uuid": read.uuid or values.last("uuid"),
        "pci": _pci(device, read),
        "mig": _mig(card, device, model, values),
    }
    if read.slices is not None:
        gpu["mig_slices"] = [
            {"name": part.name, "memory_gb": part.memory_gb, "uuid": part.uuid} for part in read.slices
        ]
    if not _gpu_table.is_known(name, pci_id=pci_id):
        gpu["known"] = False
    if virtual:
        gpu["vgpu"] = True
    unified = read.memory_mib is None and (read.memory_state == _UNIFIED or bool(model and model.unified))
    healthy, health = _stated_health(declared) or _health(card, device, asked, unified=unified)
    gpu["healthy"] = healthy
    if health:
        gpu["health"] = {"code": health[0], "text": health[1]}
    if unified:
        gpu["unified_memory"] = True
    number = card.index if card else values.last("smi_index")
    if number is not None and number != index:
        gpu["smi_index"] = number
    reserved = read.reserved_mib if card else values.last("reserved_mib")
    if reserved is not None:
        gpu["reserved_mib"] = reserved
    gpu["sources"] = values.sources
    return gpu


def _mig(
    card: t.Optional[_Seen],
    device: t.Optional[sysfs_pci.Device],
    model: t.Optional[_gpu_table.GpuModel],
    values: _Values,
) -> t.Optional[bool]:
    """Return whether a GPU is divided, by whoever knows it; None where nobody does."""
    if card is not None and card.mig is not None:
        return card.mig
    if device is not None and device.partition is not None:
        return device.partition != _WHOLE
    if model and not model.mig_capable:
        return False
    return t.cast("t.Optional[bool]", values.last("mig")) if card is None else None


def _shared_mib(device: t.Optional[sysfs_pci.Device], host_mib: t.Optional[int]) -> t.Optional[int]:
    """Return what graphics with memory of the host can use: of two ways to the same memory the larger, never both.

    The firmware carves a part out for them, and the driver lets them use so much of what the host has left.
    """
    if device is None:
        return None
    carved_out = (device.vram_bytes or 0) // _MIB
    lent = (device.gtt_bytes or 0) // _MIB
    if host_mib is not None:
        lent = min(lent, host_mib)
    return max(carved_out, lent) or None


def _shared_gb(shared_mib: t.Optional[int], host_kb: t.Optional[int], tool: str) -> t.Tuple[t.Optional[int], str]:
    """Return the size of what has no memory of its own, and its source: what its driver says, else that of the host."""
    if shared_mib:
        return int(shared_mib / 1024 + 0.5), tool
    return (meminfo.installed_gb(host_kb) if host_kb else None), _MEMINFO


def _table_name(pci_id: t.Optional[str], board: t.Optional[str]) -> t.Optional[str]:
    """Return the product name that all GPUs share which these ids allow."""
    names = {model.names[0] for model in _gpu_table.candidates(pci_id=pci_id, subsystem_id=board)}
    return names.pop() if len(names) == 1 else None


class _Values:
    """Picks a value by the order of its sources and keeps which source it was."""

    def __init__(self, declared: t.Mapping[str, t.Any], previous: t.Mapping[str, t.Any]) -> None:
        self.declared = declared
        self.previous = previous
        self.sources: t.Dict[str, str] = {}

    def pick(
        self, key: str, read: t.Any, table: t.Any, *, source: t.Optional[str] = None, tool: str = _NVIDIA_SMI
    ) -> t.Any:
        for origin, value in (
            (_DECLARED, self.declared.get(key)),
            (tool, read),
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


def _stated_health(declared: t.Mapping[str, t.Any]) -> t.Optional[_Health]:
    works = declared.get("healthy")
    return None if works is None else (bool(works), None if works else ("declared", "declared unusable"))


def _health(
    card: t.Optional[_Seen],
    device: t.Optional[sysfs_pci.Device],
    asked: _Asked,
    *,
    unified: bool,
) -> _Health:
    """Return whether a GPU works: true, false, or None where nothing tells; and what is wrong with it."""
    if card is not None:
        if card.health:
            return False, card.health
        if card.memory_mib is None and card.memory_state and not unified:
            return None, (card.memory_state, "nvidia-smi tells no memory for it")
        return True, None
    vendor_id = device.vendor_id if device else None
    if device is None or device.driver not in _DRIVERS.get(vendor_id or "", ()):
        return True, None  # nothing that could see it was asked, and that is how a GPU looks that a VM holds
    if vendor_id != _NVIDIA_ID:
        # The other tools are a choice of the user, and Intel's lists only a part of Intel's GPUs.
        if asked.code == "timeout":
            return None, (asked.code, f"{asked.tool}: {asked.text}")
        if vendor_id == _AMD_ID and asked.code is None:
            return None, ("not_listed", f"its driver holds it, and {asked.tool} does not list it")
        return True, None
    if asked.code is None:
        return False, ("gpu_lost", "its driver holds it, and nvidia-smi does not list it")
    if asked.code in _SILENT:
        return None, (asked.code, f"nvidia-smi: {asked.text}")
    return False, (asked.code, f"nvidia-smi: {asked.text}")


def _note_what_is_open(gpus: t.Sequence[t.Mapping[str, t.Any]], notes: t.List[str]) -> None:
    cards: t.Dict[str, t.List[str]] = {}
    for gpu in gpus:
        where = str(_address(gpu) or gpu["index"])
        if gpu["memory_gb"] is None:
            cards.setdefault("memory unknown; state it in knaster_gpus", []).append(where)
        if gpu["compute_cap"] is None and gpu["vendor"] == _VENDORS[_NVIDIA_ID]:
            cards.setdefault("compute capability unknown; state it in knaster_gpus", []).append(where)
        if gpu.get("health"):
            cards.setdefault(gpu["health"]["text"], []).append(where)
    notes.extend(f"gpu {', '.join(places)}: {text}" for text, places in cards.items())
