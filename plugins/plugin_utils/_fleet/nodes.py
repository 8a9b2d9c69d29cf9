# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Node profiles as planning sees them: one pass over plain profiles, with every error of the input in one go.

GPUs that are alike share one ``Shape``, and the GPUs of one node that are alike share one ``NodePool``. Everything after
this file works on shapes and node pools; a single GPU is looked at again only when it is taken.
"""

from __future__ import annotations

import contextlib
import hashlib
import operator
import typing as t
from dataclasses import dataclass, field, replace

from ansible_collections.knaster.inventory.plugins.module_utils._gpu_table import (
    find,
    is_virtual,
    nominal_memory_gb,
)
from ansible_collections.knaster.inventory.plugins.module_utils._gpu_table import gpu_class as gpu_class_of
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.facts import find_fact_errors
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import natural_key

if t.TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import ComputeCap

Number = int | float

READY, CORDONED, DRAINING, UNREACHABLE = "ready", "cordoned", "draining", "unreachable"
NODE_STATES = (READY, CORDONED, DRAINING, UNREACHABLE)

# What is wrong with a GPU as it stands, in bits: a GPU may be broken and held by somebody else at the same time.
UNHEALTHY, IOMMU, EXTERNAL, PAIRED, HEALTH_UNKNOWN = 1, 2, 4, 8, 16
# Beside EXTERNAL: it is a process of the node itself that has it.
OF_HOST = 32
# The inventory keeps new work off it.
GPU_CORDONED = 64
GPU_STATES = (READY, CORDONED)

# What an engine gets to see of a GPU of which only the nominal size is known: inline ECC costs a sixteenth.
_PRINTED_SHARE = 0.9375
_DEFAULT_RESERVE_MIB = 2048
_DEFAULT_RESERVE_SHARE = 0.05
# What tells GPUs apart. A collected profile has all of these keys, and reading them at once is what a large fleet needs.
_SIGNATURE_DEFAULTS: tuple[tuple[str, t.Any], ...] = (
    ("gpu_class", None),
    ("name", None),
    ("memory_gb", None),
    ("memory_mib", None),
    ("compute_cap", None),
    ("healthy", True),
    ("mig", None),
    ("vendor", None),
)
_signature = operator.itemgetter(*(key for key, _default in _SIGNATURE_DEFAULTS))
# A truth value is an int to isinstance, and no size.
_WHOLE = (int,)
_NO_LABELS: Mapping[str, str] = {}
_BRIDGE, _DISPLAY = "06", "03"
_VENDOR_WORDS = (
    ("nvidia", ("nvidia", "geforce", "tesla", "quadro", "rtx", "gtx", "titan")),
    ("amd", ("amd", "radeon", "instinct")),
    ("intel", ("intel", "arc ")),
)


class ProfileError(InputError):
    """Profiles that cannot be planned with; ``errors`` has one sentence for each thing that is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What GPUs have in common that a need can ask for. ``None`` is unknown."""

    gpu_class: str | None
    memory_gb: Number | None
    memory_mib: Number | None
    reserved_mib: Number | None
    compute_cap: ComputeCap | None
    vendor: str | None
    mig: bool
    # Its memory is that of the node.
    unified: bool = field(default=False, repr=False)
    # It is a part of a GPU that a virtual machine has, and no machine can be given it again.
    virtual: bool = field(default=False, repr=False)

    @property
    def cap_text(self) -> str:
        """The compute capability as people write it."""
        return "unknown" if self.compute_cap is None else f"{self.compute_cap[0]}.{self.compute_cap[1]}"

    @property
    def cap_number(self) -> float | str | None:
        """The compute capability as the plan document has it: a number, unless a number would lose a digit."""
        if self.compute_cap is None:
            return None
        return float(self.cap_text) if self.compute_cap[1] < 10 else self.cap_text


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePool:
    """The GPUs of one node that have the same shape and the same flags, as GPU numbers in index order."""

    node: int
    shape: int
    flags: int
    gpus: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsEntry:
    """Complete weights, as the first node that lists them describes them, and all nodes that do."""

    entry: Mapping[str, t.Any]
    nodes: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """All nodes in natural order of their names, and all GPUs in the order of nodes and indices."""

    names: list[str]
    states: list[str]
    memory_gb: list[Number | None]
    memory_mib: list[int | None]
    usable_mib: list[int | None]
    labels: list[Mapping[str, str]]
    fabrics: list[tuple[str, ...]]
    free_gb: list[Number | None]
    gpu_count: list[int | None]
    asked_weights: list[bool]
    weights: list[WeightsEntry]
    shapes: list[Shape]
    node_pools: list[NodePool]
    node_span: list[tuple[int, int]]
    gpu_node: list[int]
    gpu_index: list[int]
    gpu_shape: list[int]
    gpu_flags: list[int]
    gpu_uuid: list[str | None]
    gpu_pci: list[str | None]
    pairs: Mapping[int, tuple[int, ...]]
    # Nodes that have a GPU without memory of its own.
    unified_nodes: frozenset[int]
    holders: Mapping[int, str]
    ours: Mapping[int, str]
    fingerprint: str


def without(fleet: Fleet, gone: Collection[str]) -> Fleet:
    """Return a fleet as it is read from the profiles of its other nodes; names that it does not have are no error.

    The fingerprint stays that of the whole fleet.
    """
    nodes = [node for node, name in enumerate(fleet.names) if name not in gone]
    gpus = [gpu for gpu, node in enumerate(fleet.gpu_node) if fleet.names[node] not in gone]
    new_node, new_gpu = {node: at for at, node in enumerate(nodes)}, {gpu: at for at, gpu in enumerate(gpus)}
    kept = {*nodes}
    pools = [pool for pool in fleet.node_pools if pool.node in kept]
    # Shapes are numbered by who has one first.
    new_shape: dict[int, int] = {}
    for pool in pools:
        new_shape.setdefault(pool.shape, len(new_shape))
    spans, end = [], 0
    for node in nodes:
        first, last = fleet.node_span[node]
        spans.append((end, end := end + last - first))
    weights = [(one.entry, [new_node[node] for node in one.nodes if node in kept]) for one in fleet.weights]
    of_nodes, of_gpus = _picker(nodes), _picker(gpus)
    return replace(
        fleet,
        names=of_nodes(fleet.names),
        states=of_nodes(fleet.states),
        memory_gb=of_nodes(fleet.memory_gb),
        memory_mib=of_nodes(fleet.memory_mib),
        usable_mib=of_nodes(fleet.usable_mib),
        labels=of_nodes(fleet.labels),
        fabrics=of_nodes(fleet.fabrics),
        free_gb=of_nodes(fleet.free_gb),
        gpu_count=of_nodes(fleet.gpu_count),
        asked_weights=of_nodes(fleet.asked_weights),
        gpu_index=of_gpus(fleet.gpu_index),
        gpu_flags=of_gpus(fleet.gpu_flags),
        gpu_uuid=of_gpus(fleet.gpu_uuid),
        gpu_pci=of_gpus(fleet.gpu_pci),
        weights=[WeightsEntry(entry=entry, nodes=left) for entry, left in weights if left],
        shapes=[fleet.shapes[shape] for shape in new_shape],
        node_pools=[
            NodePool(
                node=new_node[pool.node],
                shape=new_shape[pool.shape],
                flags=pool.flags,
                gpus=[new_gpu[gpu] for gpu in pool.gpus],
            )
            for pool in pools
        ],
        node_span=spans,
        gpu_node=[new_node[fleet.gpu_node[gpu]] for gpu in gpus],
        gpu_shape=[new_shape[fleet.gpu_shape[gpu]] for gpu in gpus],
        pairs={
            new_gpu[gpu]: tuple(map(new_gpu.__getitem__, peers)) for gpu, peers in fleet.pairs.items() if gpu in new_gpu
        },
        unified_nodes=frozenset(new_node[node] for node in fleet.unified_nodes if node in kept),
        holders={new_gpu[gpu]: name for gpu, name in fleet.holders.items() if gpu in new_gpu},
        ours={new_gpu[gpu]: name for gpu, name in fleet.ours.items() if gpu in new_gpu},
    )


def _picker(places: Sequence[int]) -> t.Callable[[list[t.Any]], list[t.Any]]:
    """Return what picks these places of a list."""
    return lambda column: [column[place] for place in places]


def read_nodes(profiles: t.Any) -> Fleet:
    """Turn plain profiles into a fleet, or raise ``ProfileError`` with everything that is wrong with them."""
    errors: list[str] = []
    reader = _Reader(errors)
    for name, profile in _in_order(profiles, errors):
        reader.read(name, profile)
    reader.check_identities()
    if errors:
        raise ProfileError(errors)
    return reader.fleet()


def find_node_errors(profiles: t.Any) -> tuple[str, ...]:
    """Everything that is wrong with plain profiles."""
    try:
        read_nodes(profiles)
    except ProfileError as exc:
        return exc.errors
    return ()


def _in_order(profiles: t.Any, errors: list[str]) -> list[tuple[str, dict[str, t.Any]]]:
    if not isinstance(profiles, (list, tuple)):
        errors.append(f"nodes: a list of node profiles is needed, this is {_kind(profiles)}.")
        return []
    named: list[tuple[str, dict[str, t.Any]]] = []
    seen: dict[str, int] = {}
    for at, profile in enumerate(profiles):
        if not isinstance(profile, dict):
            errors.append(f"nodes[{at}]: a node profile is a dictionary, this is {_kind(profile)}.")
            continue
        name = profile.get("name")
        if not isinstance(name, str) or not name:
            errors.append(f"nodes[{at}]: the profile has no name. Every profile needs 'name', the inventory name.")
        elif name in seen:
            errors.append(
                f"nodes[{at}]: the name {name} is already taken by nodes[{seen[name]}]. Each node may be given once."
            )
        else:
            seen[name] = at
            named.append((name, profile))
    named.sort(key=lambda item: natural_key(item[0]))
    return named


def parse_compute_cap(value: t.Any) -> ComputeCap | None:
    """(major, minor) of 8.9, "8.9", 9 or "12.10"; ``None`` for unknown. Raises ``ValueError`` for anything else."""
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"{value!r} is not a compute capability")  # noqa: TRY004 - one error for all spellings
    major, _dot, minor = str(value).strip().partition(".")
    if not (major.isdecimal() and (minor.isdecimal() or not _dot)):
        raise ValueError(f"{value!r} is not a compute capability")
    return int(major), int(minor or 0)


class _Reader:
    """Collects what ``Fleet`` holds; kept apart so that the pass over the GPUs touches local names only."""

    def __init__(self, errors: list[str]) -> None:
        self.errors = errors
        self.names: list[str] = []
        self.states: list[str] = []
        self.memory_gb: list[Number | None] = []
        self.memory_mib: list[int | None] = []
        self.usable_mib: list[int | None] = []
        self.labels: list[Mapping[str, str]] = []
        self.fabrics: list[tuple[str, ...]] = []
        self.free_gb: list[Number | None] = []
        self.gpu_count: list[int | None] = []
        self.asked: list[bool] = []
        self.weights: dict[tuple[t.Any, ...], WeightsEntry | None] = {}
        self.shapes: list[Shape] = []
        self.shape_numbers: dict[Shape, int] = {}
        self.signatures: dict[tuple[t.Any, ...], tuple[int, int]] = {}
        self.node_pools: list[NodePool] = []
        self.node_span: list[tuple[int, int]] = []
        self.gpu_node: list[int] = []
        self.gpu_index: list[int] = []
        self.gpu_shape: list[int] = []
        self.gpu_flags: list[int] = []
        self.gpu_uuid: list[str | None] = []
        self.gpu_pci: list[str | None] = []
        self.pairs: dict[int, tuple[int, ...]] = {}
        self.unified: set[int] = set()
        self.holders: dict[int, str] = {}
        self.ours: dict[int, str] = {}
        self.label_memo: dict[tuple[tuple[str, t.Any], ...], Mapping[str, str]] = {}

    def read(self, name: str, profile: dict[str, t.Any]) -> None:
        where = f"node {name}"
        self.names.append(name)
        state = profile.get("state")
        if state is None:
            state = READY
        elif state not in NODE_STATES:
            self.errors.append(f"{where}: state {state!r} must be one of {', '.join(NODE_STATES)}.")
        self.states.append(state)
        self._memory(where, profile)
        self._labels(where, profile.get("labels"))
        self._fabrics(where, profile.get("fabrics"))
        self._storage(where, profile.get("storage"))
        self._weights(where, profile.get("weights"))
        self.errors.extend(find_fact_errors(where, profile))
        first = len(self.node_pools)
        gpus = profile.get("gpus")
        if gpus is None:
            self.gpu_count.append(None)
        elif not isinstance(gpus, (list, tuple)):
            self.errors.append(f"{where}: 'gpus' is a list of GPUs (or null: not known), this is {_kind(gpus)}.")
            self.gpu_count.append(None)
        else:
            self.gpu_count.append(len(gpus))
            if gpus:
                self._gpus(where, gpus)
        self.node_span.append((first, len(self.node_pools)))

    def check_identities(self) -> None:
        """Report what should tell GPUs apart and is no text; checked all at once, because it hardly ever is."""
        for key, values in (("uuid", self.gpu_uuid), ("pci address", self.gpu_pci)):
            if not {type(value) for value in values} <= {str, type(None)}:
                for gpu, value in enumerate(values):
                    if value is not None and not isinstance(value, str):
                        where = f"node {self.names[self.gpu_node[gpu]]}, GPU {self.gpu_index[gpu]}"
                        self.errors.append(f"{where}: {key} is a text, this is {value!r}.")

    def _number(self, where: str, key: str, value: t.Any) -> Number | None:
        if value is None or (type(value) in (int, float) and value >= 0):
            return t.cast("Number | None", value)
        self.errors.append(f"{where}: {key} is a number, or null where it is not known; this is {value!r}.")
        return None

    def _memory(self, where: str, profile: dict[str, t.Any]) -> None:
        size_gb: t.Any = profile.get("memory_gb")
        mib: t.Any = profile.get("memory_mib")
        if type(size_gb) not in _WHOLE or type(mib) not in _WHOLE or size_gb < 0 or mib < 0:
            size_gb = self._number(where, "memory_gb", size_gb)
            mib = self._number(where, "memory_mib", mib)
        if mib is None and size_gb is not None:
            mib = size_gb * 1024
        total = None if mib is None else int(mib)
        if size_gb is None and total is not None:
            size_gb = total // 1024
        self.memory_gb.append(size_gb)
        self.memory_mib.append(total)
        if total is None:
            self.usable_mib.append(None)
            return
        reserve_gb = profile.get("reserve_gb")
        if reserve_gb is not None:
            reserve_gb = self._number(where, "reserve_gb", reserve_gb)
        if reserve_gb is None:
            reserve = max(_DEFAULT_RESERVE_MIB, -int(-total * _DEFAULT_RESERVE_SHARE // 1))
        else:
            reserve = int(reserve_gb * 1024)
        self.usable_mib.append(max(0, total - reserve))

    def _labels(self, where: str, labels: t.Any) -> None:
        if not labels:
            self.labels.append(_NO_LABELS)
        elif not isinstance(labels, dict):
            self.errors.append(f"{where}: 'labels' is a dictionary, this is {_kind(labels)}.")
            self.labels.append(_NO_LABELS)
        else:
            try:
                key = tuple(labels.items())
                found = self.label_memo.get(key)
            except TypeError:
                self.errors.append(f"{where}: the values of 'labels' are texts, numbers or booleans.")
                found, key = {}, ()
            if found is None:
                found = self.label_memo[key] = {str(k): label_text(labels[k]) for k in sorted(labels, key=str)}
            self.labels.append(found)

    def _fabrics(self, where: str, fabrics: t.Any) -> None:
        if not fabrics:
            self.fabrics.append(())
        elif isinstance(fabrics, (list, tuple)) and {type(name) for name in fabrics} == {str}:
            self.fabrics.append(tuple(sorted(set(fabrics))) if len(fabrics) > 1 else (fabrics[0],))
        else:
            self.errors.append(f"{where}: 'fabrics' is a list of names, this is {fabrics!r}.")
            self.fabrics.append(())

    def _storage(self, where: str, storage: t.Any) -> None:
        if not storage:
            self.free_gb.append(None)
            return
        if not isinstance(storage, (list, tuple)) or {type(entry) for entry in storage} != {dict}:
            self.errors.append(f"{where}: 'storage' is a list of dictionaries (or null), this is {storage!r}.")
            self.free_gb.append(None)
            return
        known = [entry.get("free_gb") for entry in storage]
        for size in known:
            if type(size) not in _WHOLE:
                self._number(where, "storage free_gb", size)
        self.free_gb.append(max([size for size in known if type(size) in (int, float)], default=None))

    def _weights(self, where: str, weights: t.Any) -> None:
        self.asked.append(weights is not None)
        if not weights:
            return
        number, index = len(self.names) - 1, self.weights
        try:
            for entry in weights:
                key = (entry.get("name"), entry.get("path"), entry.get("revision"), entry.get("state"))
                known = index.get(key)
                if known is None:
                    if key in index or not self._is_complete(where, entry):
                        index[key] = None
                        continue
                    known = index[key] = WeightsEntry(entry=entry, nodes=[])
                on = known.nodes
                if not on or on[-1] != number:
                    on.append(number)
        except (AttributeError, TypeError):
            self.errors.append(f"{where}: 'weights' is a list of dictionaries with name and path (or null: not asked).")

    def _is_complete(self, where: str, entry: Mapping[str, t.Any]) -> bool:
        self._number(where, "weights size_gb", entry.get("size_gb"))
        return bool(entry.get("state", "complete") == "complete")

    def _gpus(self, where: str, gpus: Sequence[t.Any]) -> None:
        gpus = self._sorted_gpus(where, gpus)
        node, signatures = len(self.names) - 1, self.signatures
        own: dict[tuple[int, int], list[int]] = {}
        number = len(self.gpu_node)
        last: tuple[int, int] | None = None
        mine: list[int] = []
        for gpu in gpus:
            get = gpu.get
            try:
                signature = _signature(gpu)
            except KeyError:
                signature = tuple(get(key, default) for key, default in _SIGNATURE_DEFAULTS)
            reserved = get("reserved_mib")
            if reserved is not None:
                signature = (*signature, reserved)
            cordoned = 0
            if "state" in gpu:
                cordoned = self._gpu_state(f"{where}, GPU {get('index')}", gpu["state"])
            # Hardly any GPU has one of these.
            if "unified_memory" in gpu or "vgpu" in gpu:
                unified = bool(get("unified_memory"))
                pool = self.memory_mib[-1] if unified else None
                signature = (*signature[: len(_SIGNATURE_DEFAULTS)], reserved, unified, bool(get("vgpu")), pool)
                if unified:
                    self.unified.add(node)
            try:
                found = signatures.get(signature)
            except TypeError:
                found = None
            if found is None:
                found = self._new_signature(f"{where}, GPU {get('index')}", signature)
            shape, flags = found
            flags |= cordoned
            pci = get("pci")
            address = None
            if pci is not None:
                if not isinstance(pci, dict):
                    self.errors.append(f"{where}, GPU {get('index')}: 'pci' is a dictionary, this is {_kind(pci)}.")
                else:
                    address = pci.get("address")
                    peers = pci.get("iommu_peers")
                    if peers:
                        flags |= self._peers(number, address, peers, gpus)
            holder = get("holder")
            if holder is not None:
                flags |= self._holder(where, number, holder)
            self.gpu_node.append(node)
            self.gpu_index.append(gpu["index"])
            self.gpu_shape.append(shape)
            self.gpu_flags.append(flags)
            self.gpu_uuid.append(get("uuid"))
            self.gpu_pci.append(address)
            if (shape, flags) != last:
                last = (shape, flags)
                known = own.get(last)
                if known is None:
                    known = own[last] = []
                    self.node_pools.append(NodePool(node=node, shape=shape, flags=flags, gpus=known))
                mine = known
            mine.append(number)
            number += 1

    def _sorted_gpus(self, where: str, gpus: Sequence[t.Any]) -> Sequence[dict[str, t.Any]]:
        try:
            indices = [gpu["index"] for gpu in gpus]
        except (KeyError, TypeError):
            indices = []
        if indices and set(map(type, indices)) == {int}:
            if len(set(indices)) == len(indices):
                return gpus if indices == sorted(indices) else sorted(gpus, key=lambda gpu: t.cast("int", gpu["index"]))
            twice = sorted({index for index in indices if indices.count(index) > 1})
            self.errors.append(f"{where}: two GPUs have the index {', '.join(map(str, twice))}.")
            return []
        for at, gpu in enumerate(gpus):
            if not isinstance(gpu, dict):
                self.errors.append(f"{where}, gpus[{at}]: a GPU is a dictionary, this is {_kind(gpu)}.")
            elif not isinstance(gpu.get("index"), int) or isinstance(gpu["index"], bool):
                self.errors.append(
                    f"{where}, gpus[{at}]: a GPU needs 'index', a whole number; this is {gpu.get('index')!r}."
                )
        return []

    def _new_signature(self, where: str, signature: tuple[t.Any, ...]) -> tuple[int, int]:
        gpu_class, name, size_gb, mib, cap, healthy, mig, vendor = signature[: len(_SIGNATURE_DEFAULTS)]
        more = signature[len(_SIGNATURE_DEFAULTS) :]
        reserved = more[0] if more else None
        unified, virtual, pool = more[1:] or (False, False, None)
        for key, value in (("gpu_class", gpu_class), ("name", name), ("vendor", vendor)):
            if value is not None and not isinstance(value, str):
                self.errors.append(f"{where}: {key} is a text, this is {value!r}.")
                return 0, 0
        for key, value in (("healthy", healthy), ("mig", mig)):
            if value is not None and not isinstance(value, bool):
                self.errors.append(f"{where}: {key} is true, false or null (not known), this is {value!r}.")
        size_gb = self._number(where, "memory_gb", size_gb)
        mib = self._number(where, "memory_mib", mib)
        reserved = self._number(where, "reserved_mib", reserved)
        try:
            compute_cap = parse_compute_cap(cap)
        except ValueError:
            self.errors.append(f"{where}: compute_cap is written like 8.9, this is {cap!r}.")
            compute_cap = None
        # A profile written by hand may leave out what the table of GPUs knows by name.
        model = find(name=name, memory_mib=_whole(mib), memory_gb=_whole(size_gb)) if name else None
        if compute_cap is None and cap is None and model is not None:
            compute_cap = model.compute_cap
        if pool is not None and mib is None:
            # No more than the node has, whatever is written on the box.
            mib = pool if size_gb is None else min(pool, int(size_gb * 1024))
            size_gb = pool // 1024 if size_gb is None else size_gb
        if size_gb is None and mib is not None:
            size_gb = nominal_memory_gb(name, None, int(mib))
        if mib is None and size_gb is not None:
            mib = model.printed_mib if model is not None and model.printed_mib else int(size_gb * 1024 * _PRINTED_SHARE)
        shape = Shape(
            gpu_class=gpu_class or gpu_class_of(name, memory_mib=_whole(mib), memory_gb=_whole(size_gb)),
            memory_gb=size_gb,
            memory_mib=mib,
            reserved_mib=reserved,
            compute_cap=compute_cap,
            vendor=vendor or (model.vendor if model is not None else _vendor_of_name(name)),
            mig=bool(mig),
            unified=unified,
            virtual=virtual or is_virtual(name),
        )
        number = self.shape_numbers.get(shape)
        if number is None:
            number = self.shape_numbers[shape] = len(self.shapes)
            self.shapes.append(shape)
        flags = UNHEALTHY if healthy is False else HEALTH_UNKNOWN if healthy is None else 0
        with contextlib.suppress(TypeError):
            self.signatures[signature] = (number, flags)
        return number, flags

    def _gpu_state(self, where: str, state: t.Any) -> int:
        if state is not None and state not in GPU_STATES:
            self.errors.append(f"{where}: state {state!r} must be one of {', '.join(GPU_STATES)}.")
        return GPU_CORDONED if state == CORDONED else 0

    def _peers(self, number: int, address: t.Any, peers: t.Any, gpus: Sequence[dict[str, t.Any]]) -> int:
        """A group is handed over whole: functions of the same slot and bridges go along, anything else does not."""
        if not isinstance(peers, (list, tuple)) or not all(isinstance(peer, dict) for peer in peers):
            self.errors.append(f"the GPU at {address}: 'iommu_peers' is a list of dictionaries, this is {peers!r}.")
            return 0
        flags = 0
        slot = str(address).rpartition(".")[0]
        for peer in peers:
            other = str(peer.get("address"))
            kind = str(peer.get("class") or "").lower().removeprefix("0x")
            if other.rpartition(".")[0] == slot or kind.startswith(_BRIDGE):
                continue
            at = next((i for i, gpu in enumerate(gpus) if (gpu.get("pci") or {}).get("address") == other), None)
            if at is None or not kind.startswith(_DISPLAY):
                flags |= IOMMU
            else:
                flags |= PAIRED
                first = number - next(
                    i for i, gpu in enumerate(gpus) if (gpu.get("pci") or {}).get("address") == address
                )
                self.pairs[number] = tuple(sorted({*self.pairs.get(number, (number,)), first + at}))
        return flags

    def _holder(self, where: str, number: int, holder: t.Any) -> int:
        if not isinstance(holder, dict):
            self.errors.append(f"{where}: 'holder' is a dictionary (or null: nobody), this is {_kind(holder)}.")
            return 0
        if holder.get("ours"):
            if isinstance(holder.get("name"), str):
                self.ours[number] = holder["name"]
            return 0
        label = holder.get("name") or holder.get("id")
        self.holders[number] = f"{holder.get('kind') or 'somebody'} {label}" if label is not None else "somebody"
        return EXTERNAL | OF_HOST if holder.get("kind") == "host" else EXTERNAL

    def fleet(self) -> Fleet:
        return Fleet(
            names=self.names,
            states=self.states,
            memory_gb=self.memory_gb,
            memory_mib=self.memory_mib,
            usable_mib=self.usable_mib,
            labels=self.labels,
            fabrics=self.fabrics,
            free_gb=self.free_gb,
            gpu_count=self.gpu_count,
            asked_weights=self.asked,
            weights=[found for found in self.weights.values() if found is not None],
            shapes=self.shapes,
            node_pools=self.node_pools,
            node_span=self.node_span,
            gpu_node=self.gpu_node,
            gpu_index=self.gpu_index,
            gpu_shape=self.gpu_shape,
            gpu_flags=self.gpu_flags,
            gpu_uuid=self.gpu_uuid,
            gpu_pci=self.gpu_pci,
            pairs=self.pairs,
            unified_nodes=frozenset(self.unified),
            holders=self.holders,
            ours=self.ours,
            fingerprint=self._fingerprint(),
        )

    def _fingerprint(self) -> str:
        """Over what planning reads and nothing else: a new driver or a fuller disk is not another fleet."""
        digest = hashlib.sha256()
        columns: tuple[list[t.Any], ...] = (
            self.names,
            self.states,
            self.usable_mib,
            self.gpu_count,
            self.gpu_node,
            self.gpu_index,
            self.gpu_shape,
            self.gpu_flags,
        )
        for column in columns:
            digest.update(repr(column).encode())
        for texts in (self.gpu_uuid, self.gpu_pci):
            # Half characters stand for themselves: a node may print any bytes.
            digest.update("\0".join([text or "" for text in texts]).encode(errors="surrogatepass"))
        digest.update(repr(self.fabrics).encode())
        known = {key: found.nodes for key, found in self.weights.items() if found is not None}
        for kept in sorted(known, key=repr):
            digest.update(f"{kept!r}{known[kept]!r}".encode())
        digest.update(bytes(self.asked))
        seen: dict[int, str] = {}
        for found in self.labels:
            text = seen.get(id(found))
            if text is None:
                text = seen[id(found)] = repr(sorted(found.items()))
            digest.update(text.encode())
        digest.update(repr(self.shapes).encode())
        special = bytes(shape.unified + 2 * shape.virtual for shape in self.shapes)
        if any(special):
            digest.update(repr(sorted(self.unified)).encode())
            digest.update(special)
        return digest.hexdigest()[:16]


def shape_of_gpu(gpu: Mapping[str, t.Any]) -> Shape:
    """The shape of a GPU as a plan describes it."""
    size = gpu.get("memory_gb")
    return Shape(
        gpu_class=gpu.get("gpu_class"),
        memory_gb=size,
        memory_mib=None if size is None else int(size * 1024 * _PRINTED_SHARE),
        reserved_mib=None,
        compute_cap=parse_compute_cap(gpu.get("compute_cap")),
        vendor=None,
        mig=False,
    )


def label_text(value: t.Any) -> str:
    """A label's value as text; booleans read as YAML writes them."""
    if value is True:
        return "true"
    if value is False:
        return "false"
    return str(value)


def _whole(size: Number | None) -> int | None:
    return None if size is None else int(size)


def _vendor_of_name(name: str | None) -> str | None:
    text = (name or "").lower() + " "
    for vendor, words in _VENDOR_WORDS:
        if any(word in text for word in words):
            return vendor
    return None


def _kind(value: t.Any) -> str:
    if value is None:
        return "null"
    return {
        "dict": "a dictionary",
        "list": "a list",
        "str": "a text",
        "int": "a number",
        "float": "a number",
        "bool": "a boolean",
    }.get(type(value).__name__, type(value).__name__)
