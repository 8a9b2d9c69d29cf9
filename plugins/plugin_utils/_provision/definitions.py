# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""A plan as definitions of VMs: one for each assignment and shard, complete, and the same for equal input."""

from __future__ import annotations

import hashlib
import re
import typing as t
from dataclasses import dataclass
from urllib.parse import quote

from ansible_collections.knaster.inventory.plugins.module_utils._pci import Address, parse_id
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.definition import (
    DefinitionError,
    definition,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.fingerprint import digest
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.placements import (
    MODEL,
    Part,
    Placement,
    placements,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.names import (
    mapping_id,
    parse_address,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.settings import (
    DEFAULT_BRIDGE,
    DEFAULT_DISK_GB,
    DEFAULT_STORAGE,
    Settings,
    role_settings,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import dns_label, natural_key

if t.TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.module_utils._pci import Address

MAX_GPUS = 16
LEAST_MIB = 256
# Cores where nobody says: for what feeds a GPU, and for each GPU; a VM without one does its work on them.
_BASE_CORES = 4
_CORES_PER_GPU = 4
_CPU_CORES = 8
_MODEL_ORDER = 1000
_DISK = "discard=on,iothread=1,ssd=1"
_NODE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?")

Entry = dict[str, t.Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """A VM of the plan: its name, and who is in it, several where roles share it."""

    name: str
    members: list[tuple[Placement, Part]]

    @property
    def first(self) -> Placement:
        return self.members[0][0]

    @property
    def node(self) -> str:
        return self.members[0][1].node

    @property
    def roles(self) -> list[str]:
        return [one.name for one, _part in self.members if one.kind != MODEL]

    @property
    def what(self) -> str:
        """What an error calls it."""
        if self.first.kind == MODEL:
            return f"model {self.first.name}, replica {self.first.replica}"
        return ", ".join(one.label for one, _part in self.members)

    @property
    def place(self) -> Entry:
        """Return where an error about it is."""
        return {"node": self.node, "name": self.name}

    @property
    def where(self) -> str:
        """How an error about it begins."""
        return f"{self.name} ({self.what})"

    @property
    def fingerprint(self) -> str:
        prints = [str(one.entry.get("fingerprint") or "") for one, _part in self.members]
        return prints[0] if len(prints) == 1 else digest(sorted(prints))

    @property
    def gpus(self) -> dict[int, Mapping[str, t.Any]]:
        """What the plan says of each GPU, by index."""
        known = [(index, at, part.gpus) for _one, part in self.members for at, index in enumerate(part.gpu_indices)]
        return {index: gpus[at] if at < len(gpus) else {} for index, at, gpus in known}

    def takes_in(self, other: _Wanted) -> bool:
        """Return whether another one is a role that shares this VM."""
        group, own = ((one.first.entry.get("colocate") or {}).get("group") for one in (other, self))
        return group is not None and (group, other.first.replica, other.node) == (own, self.first.replica, self.node)


class _Gpu(t.NamedTuple):
    """A GPU of a VM: where it is, its mapping, and its NUMA node where that is known."""

    address: Address
    mapping: Entry
    numa: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """The definitions that could be made, and what is wrong, each with its place: C(node) and C(vm), as far as it has them.

    ``unmade`` are the names of VMs of the plan that have no definition.
    """

    vms: tuple[Entry, ...]
    problems: tuple[tuple[Mapping[str, str], str], ...] = ()
    unmade: frozenset[str] = frozenset()

    @property
    def errors(self) -> tuple[str, ...]:
        """One text for each thing that is wrong."""
        return tuple(dict.fromkeys(text for _place, text in self.problems))


def make_definitions(
    plan: Mapping[str, t.Any],
    roles: Sequence[Mapping[str, t.Any]],
    *,
    nodes: Iterable[Mapping[str, t.Any]] = (),
    previous: Iterable[Mapping[str, t.Any]] = (),
    taken: Iterable[Mapping[str, t.Any]] = (),
    mappings: Iterable[Mapping[str, t.Any]] = (),
    settings: Settings | None = None,
) -> Definitions:
    """Return the definitions of all VMs of a plan.

    :param plan: a plan document that its schema allows
    :param roles: the roles of the catalog, as plain data
    :param nodes: profiles, which say what Proxmox VE compares of a GPU
    :param previous: the last definitions; a VM keeps its vmid
    :param taken: guests that are there: ``{vmid, name, cluster, ours}``, ``name`` that of the mark where it is ours
    :param mappings: mappings that are there: ``{cluster, id, node, path}`` for each entry, ``node`` as PVE calls it
    """
    maker = _Maker(roles, nodes, list(previous), settings or Settings())
    maker.note_mappings(mappings)
    wanted = maker.wanted(plan)
    made = [one for one in map(maker.definition, wanted) if one is not None]
    maker.number(made, list(taken))
    maker.check(made, {want.name for want in wanted})
    # A VM without a number could not be told from others: its error says why it has none.
    vms = tuple(one for one in made if one["vmid"] is not None and maker.mark(one))
    unmade = frozenset(want.name for want in wanted) - {one["name"] for one in vms}
    return Definitions(vms=vms, problems=tuple(maker.problems), unmade=unmade)


def place_of(name: str, settings: Settings, profile: Mapping[str, t.Any]) -> tuple[str, str]:
    """Return the cluster of a node and its name there; without a word about it a node is a cluster of its own."""
    node = settings.of_node(name)
    pve_node = node.get("pve_node") or str(profile.get("hostname") or name).partition(".")[0]
    return str(node.get("cluster") or name), str(pve_node)


class _Maker:
    def __init__(
        self,
        roles: Sequence[Mapping[str, t.Any]],
        nodes: Iterable[Mapping[str, t.Any]],
        previous: Sequence[Mapping[str, t.Any]],
        settings: Settings,
    ) -> None:
        self.problems: list[tuple[Mapping[str, str], str]] = []
        self.wrong_roles: dict[str, list[str]] = {}
        self.vm_of_role = role_settings(sorted(roles, key=lambda role: str(role.get("name"))), self.wrong_roles)
        self.priorities = {str(role.get("name")): role.get("priority") for role in roles}
        self.nodes = {str(node.get("name")): node for node in nodes}
        self.settings = settings
        # By cluster, and by node for the same node under another name of its API, such as an address in place of a name.
        self.previous = {(one.get(key), one.get("name")): one for key in ("node", "cluster") for one in previous}
        self.names: dict[tuple[str, str, str], list[str]] = {}

    def fail(self, error: str, *about: Mapping[str, t.Any]) -> None:
        """Note what is wrong with VMs, or with none of them."""
        for one in about:
            self.problems.append(({"node": one["node"], "vm": one["name"]}, error))
        if not about:
            self.problems.append(({}, error))

    # What is there already

    def _last(self, cluster: str, node: str, name: str) -> Mapping[str, t.Any]:
        return self.previous.get((cluster, name)) or self.previous.get((node, name)) or {}

    def note_mappings(self, mappings: Iterable[Mapping[str, t.Any]]) -> None:
        """Remember which mapping fixes which GPU; one with several GPUs of a node fixes none."""
        entries: dict[tuple[str, str, str], list[str]] = {}
        for one in mappings:
            key = (str(one.get("cluster")), str(one.get("node")), str(one.get("id")))
            entries.setdefault(key, []).append(str(one.get("path")))
        for (cluster, node, name), paths in sorted(entries.items()):
            address = parse_address(paths[0])
            if len(paths) == 1 and address is not None:
                self.names.setdefault((cluster, node, address.slot.text), []).append(name)

    # Who is in which VM

    def wanted(self, plan: Mapping[str, t.Any]) -> list[_Wanted]:
        """Return all VMs of the plan in the order of their names."""
        found: dict[str, _Wanted] = {}
        for placement in placements(plan):
            for part in placement.parts:
                one = _Wanted(name=dns_label(str(part.entry["vm"])), members=[(placement, part)])
                first = found.setdefault(one.name, one)
                if first is one:
                    continue
                if first.takes_in(one):
                    first.members.append((placement, part))
                    first.members.sort(key=lambda member: (natural_key(member[0].name), member[0].replica))
                else:
                    what = f"{first.what} and {one.what} would both be the VM {one.name}"
                    self.fail(f"{what}: rename the role or the model", first.place)
        in_plan = {role for want in found.values() for role in want.roles}
        for name in sorted(set(self.wrong_roles) - in_plan, key=natural_key):
            for error in self.wrong_roles[name]:
                self.fail(error)
        return sorted(found.values(), key=lambda want: natural_key(want.name))

    # One VM

    def definition(self, want: _Wanted) -> Entry | None:
        """Return the definition of a VM, still without a vmid; None where something is wrong with it."""
        wrong = [error for role in want.roles for error in self.wrong_roles.get(role, ())]
        for error in wrong:
            self.fail(error, want.place)
        profile = self.nodes.get(want.node, {})
        cluster, pve_node = place_of(want.node, self.settings, profile)
        if not _NODE_NAME.fullmatch(pve_node):
            error = f"{pve_node!r} is not a valid name of a node in Proxmox VE; set pve_node of {want.node}"
            self.fail(f"{want.where}: {error}", want.place)
            return None
        gpus = self._gpus(want, profile, (cluster, pve_node))
        says = self._says(want)
        memory = self._memory(want)
        if gpus is None or memory is None or wrong:
            return None
        owner: Entry = {want.first.kind: want.first.name, "replica": want.first.replica}
        if len(want.first.parts) > 1:
            owner["shard"] = want.members[0][1].rank
        if len(want.members) > 1:
            owner["roles"] = want.roles
        cores = says.get("cores") or _default_cores(len(gpus), profile)
        return {
            "vmid": None,
            "name": want.name,
            "node": want.node,
            "cluster": cluster,
            "pve_node": pve_node,
            **owner,
            "fingerprint": want.fingerprint,
            "mappings": [gpu.mapping for gpu in gpus],
            "config": self._config(want, says, gpus, cores=cores, memory=memory),
            "source": _source(says),
            "start": says.get("start", True),
            **({"pool": says["pool"]} if "pool" in says else {}),
        }

    def _says(self, want: _Wanted) -> Entry:
        """What is said of a VM: by its roles before its node before the defaults; a source replaces the other."""
        node = self.settings.of_node(want.node)
        roles = [self.vm_of_role.get(name, {}) for name in want.roles]
        says: Entry = {"tags": [], "config": {}, "cloud_init": {}}
        for layer in (self.settings.defaults, node, *roles):
            if "template" in layer or "image" in layer:
                says.pop("template", None)
                says.pop("image", None)
            joined = {key: says[key] + layer[key] for key in ("tags",) if key in layer}
            joined |= {key: says[key] | layer[key] for key in ("config", "cloud_init") if key in layer}
            says |= {**layer, **joined}
        # Members that share a VM do so with what each of them asks for.
        cores = sum(vm.get("cores", 0) for vm in roles)
        return says | {"cores": cores or node.get("cores") or self.settings.defaults.get("cores")}

    def _memory(self, want: _Wanted) -> int | None:
        sizes = [part.entry["memory_mib"] for _one, part in want.members if part.entry.get("memory_mib")]
        said = sum(self.vm_of_role.get(name, {}).get("memory_mib", 0) for name in want.roles)
        memory = max(sizes, default=0) or said
        if memory >= LEAST_MIB:
            return int(memory)
        how = "plan for passthrough, or set vm.memory_mib of the role" if not sizes else "give its node more memory"
        self.fail(f"{want.where}: has no memory in the plan; {how}", want.place)
        return None

    # GPUs

    def _gpus(self, want: _Wanted, profile: Mapping[str, t.Any], place: tuple[str, str]) -> list[_Gpu] | None:
        """The GPUs of a VM in PCI order, or None where one is not known."""
        last = self._last(place[0], want.node, want.name)
        found: dict[Address, _Gpu] = {}
        complete = True
        for index, told in want.gpus.items():
            gpu = self._gpu(want, index, _find_gpu(profile, index, told), told, last)
            if gpu is None:
                complete = False
                continue
            if gpu.address in found:
                error = f"GPU {gpu.address.text} of {want.node} appears twice; collect the node again"
                self.fail(f"{want.where}: {error}", want.place)
                complete = False
            name = gpu.mapping.get("id") or self._mapping_name(place, gpu.address, last)
            found[gpu.address] = gpu._replace(mapping={"id": name, "node": place[1], **gpu.mapping})
        if len(found) > MAX_GPUS:
            self.fail(f"{want.where}: {len(found)} GPUs are more than the {MAX_GPUS} that a VM can have", want.place)
            complete = False
        return [found[address] for address in sorted(found)] if complete else None

    def _gpu(
        self,
        want: _Wanted,
        index: int,
        known: Mapping[str, t.Any],
        told: Mapping[str, t.Any],
        last: Mapping[str, t.Any],
    ) -> _Gpu | None:
        where = f"{want.where}: GPU {index} of {want.node}"
        pci = known.get("pci") or {}
        address = parse_address(pci.get("address")) or parse_address(told.get("pci_address"))
        remedy = "collect the node again, or state it in knaster_gpus"
        if address is None:
            self.fail(f"{where}: its PCI address is not known; {remedy}", want.place)
            return None
        identity = parse_id(pci.get("id"))
        if identity is None:
            # What was known of the GPU when its VM was made still tells what it is.
            for entry in last.get("mappings") or []:
                if parse_address(entry.get("path")) == address._replace(function=0):
                    return _Gpu(address, dict(entry), None)
            self.fail(f"{where}: what Proxmox VE compares of it is not known (pci.id); {remedy}", want.place)
            return None
        mapping: Entry = {"path": _path(address, pci.get("iommu_peers") or []), "pci_id": identity}
        subsystem, group, numa = parse_id(pci.get("subsystem_id")), pci.get("iommu_group"), pci.get("numa_node")
        if subsystem is not None and subsystem != "0000:0000":
            mapping["subsystem_id"] = subsystem
        if isinstance(group, int) and group >= 0:
            mapping["iommu_group"] = group
        return _Gpu(address, mapping, numa if isinstance(numa, int) and numa >= 0 else None)

    def _mapping_name(self, place: tuple[str, str], address: Address, last: Mapping[str, t.Any]) -> str:
        """The name of a GPU's mapping: one that is there keeps its name."""
        usual = mapping_id(self.settings.mapping_prefix, place[1], address)
        there = self.names.get((*place, address.slot.text), [])
        kept = [
            str(one.get("id"))
            for one in last.get("mappings") or []
            if one.get("node") == place[1] and (parse_address(one.get("path")) or address).slot == address.slot
        ]
        if not there:
            return (kept or [usual])[0]
        return next((name for name in (*kept, usual) if name in there), min(there, key=natural_key))

    # The keys of Proxmox VE

    def _config(
        self, want: _Wanted, says: Mapping[str, t.Any], gpus: Sequence[_Gpu], *, cores: int, memory: int
    ) -> Entry:
        storage = says.get("storage", DEFAULT_STORAGE)
        config: Entry = {
            "name": want.name,
            "ostype": "l26",
            "machine": "q35",
            "cpu": "host",
            "cores": cores,
            "memory": memory,
            "balloon": 0,
            "scsihw": "virtio-scsi-single",
            "agent": "enabled=1",
            "onboot": 1,
            "net0": _network({"bridge": DEFAULT_BRIDGE, **says}),
            **{f"net{at}": _network(network) for at, network in enumerate(says.get("networks", ()), 1)},
        }
        # The disks of a template come along; one of them is only said where its size or place is.
        if "template" not in says:
            config["bios"] = "ovmf"
            config["efidisk0"] = f"{storage}:1,efitype=4m,format=raw,pre-enrolled-keys=0"
            config["boot"] = "order=scsi0" if "image" in says else "order=scsi0;net0"
        if "template" not in says or "disk_gb" in says or "storage" in says:
            config["scsi0"] = f"{storage}:{says.get('disk_gb', DEFAULT_DISK_GB)},{_DISK}"
        for at, disk in enumerate(says.get("disks", ()), 1):
            options = _options(disk, ("backup", "cache"))
            config[f"scsi{at}"] = f"{disk.get('storage', storage)}:{disk['gb']},{_DISK}{options}"
        options = _options(says.get("hostpci", {}), ("rombar", "x-vga", "romfile", "mdev"))
        config |= {f"hostpci{at}": f"mapping={gpu.mapping['id']},pcie=1{options}" for at, gpu in enumerate(gpus)}
        numa = {gpu.numa for gpu in gpus}
        # Whoever says something of the topology says all of it.
        topology = {key for key in says["config"] if re.fullmatch(r"numa\d*|sockets|vcpus|hotplug", key)}
        if len(numa) == 1 and None not in numa and not topology:
            last = f"0-{cores - 1}" if cores > 1 else "0"
            config |= {"numa": 1, "numa0": f"cpus={last},hostnodes={numa.pop()},memory={memory},policy=preferred"}
        config |= self._cloud_init(want.name, says, storage)
        if says.get("start_order"):
            config["startup"] = f"order={self._order(want)}"
        tags = {"knaster", *says["tags"], *(dns_label(one.name) for one, _part in want.members)}
        return config | {"tags": ";".join(sorted(tags)), **says["config"]}

    def _cloud_init(self, name: str, says: Mapping[str, t.Any], storage: str) -> Entry:
        # An empty value is none: Proxmox VE would keep it and not give it back.
        given = {key: text for key, text in says["cloud_init"].items() if str(text).strip()}
        if name in self.settings.addresses:
            given["ipconfig0"] = self.settings.addresses[name]
        if not given:
            return {}
        given.setdefault("ipconfig0", "ip=dhcp")
        for at, network in enumerate(says.get("networks", ()), 1):
            if "address" in network:
                given.setdefault(f"ipconfig{at}", network["address"])
        if "sshkeys" in given:
            # Proxmox VE stores the keys in this form, and takes no other.
            given["sshkeys"] = quote(str(given["sshkeys"]).strip() + "\n", safe="")
        if "ciupgrade" in given:
            given["ciupgrade"] = int(given["ciupgrade"])
        return {"ide2": f"{storage}:cloudinit", **dict(sorted(given.items()))}

    def _order(self, want: _Wanted) -> int:
        """Roles start in the order in which they are placed, models after them."""
        if want.first.kind == MODEL:
            return _MODEL_ORDER
        priorities = [self.priorities.get(name) for name in want.roles]
        return max(0, min([value for value in priorities if isinstance(value, int)] or [100]))

    # Numbers

    def number(self, made: Sequence[Entry], taken: Sequence[Mapping[str, t.Any]]) -> None:
        """Give each VM its vmid: that which it has, else the first free one from a hash of its name."""
        low, high = self.settings.vmid_first, self.settings.vmid_last
        used: dict[str, set[int]] = {}
        live: dict[tuple[str, str], list[int]] = {}
        for one in taken:
            cluster, number = str(one.get("cluster")), int(one["vmid"])
            used.setdefault(cluster, set()).add(number)
            if one.get("ours"):
                live.setdefault((cluster, str(one.get("name"))), []).append(number)
        owners: dict[tuple[str, int], str] = {}
        for one in made:
            cluster, name = one["cluster"], one["name"]
            last = self._last(cluster, one["node"], name).get("vmid")
            there = live.get((cluster, name), [])
            vmid = last if last in there or not there else min(there)
            owner = name if vmid is None else owners.setdefault((cluster, vmid), name)
            if owner != name:
                self.fail(f"{name} and {owner} have the same vmid {vmid} in the last definitions", one)
            elif vmid is not None:
                one["vmid"] = vmid
                address = self._last(cluster, one["node"], name).get("address")
                one.update({"address": address} if address else {})
                used.setdefault(cluster, set()).add(vmid)
        for one in made:
            if one["vmid"] is None:
                one["vmid"] = _free(one["name"], low, high, used.setdefault(one["cluster"], set()))
                if one["vmid"] is None:
                    range_text = f"no vmid from {low} to {high} is free in {one['cluster']}"
                    self.fail(f"{one['name']}: {range_text}; widen the range", one)

    def mark(self, one: Entry) -> bool:
        """Put the mark into a definition; one that the module would refuse is an error here already."""
        try:
            checked = definition({**one, "node": one["pve_node"], "fleet": self.settings.fleet})
        except DefinitionError as exc:
            for error in exc.errors:
                self.fail(f"{one['name']}: {error}", one)
            return False
        one["config"]["description"] = checked.mark.line()
        return True

    # What only shows in all of them together

    def check(self, made: Sequence[Entry], names: Collection[str]) -> None:
        """Find GPUs, mappings and addresses that two VMs would share."""
        owners: dict[t.Any, Entry] = {}
        paths: dict[tuple[str, str, str], str] = {}
        for one in made:
            for what, key in _sole_things(one):
                owner = owners.setdefault(key, one)
                if owner is not one:
                    error = f"{one['name']} and {owner['name']} would share {what}; give one of them another"
                    self.fail(error, one, owner)
            for entry in one["mappings"]:
                path = str(entry["path"]).partition(".")[0]
                if paths.setdefault((one["cluster"], entry["node"], entry["id"]), path) != path:
                    error = f"the mapping {entry['id']} would stand for two GPUs of {entry['node']}"
                    self.fail(f"{one['name']}: {error}; set another mapping_prefix", one)
        for name in sorted(set(self.settings.addresses) - set(names) if made else ()):
            self.fail(f"settings.addresses.{name}: the plan has no VM of this name")


def _sole_things(one: Entry) -> Iterable[tuple[str, t.Any]]:
    """What no other VM may have too: how an error calls it, and what tells it from others."""
    for entry in one["mappings"]:
        yield f"the GPU {entry['path']}", ("gpu", one["cluster"], entry["node"], entry["path"])
        group = entry.get("iommu_group")
        if group is not None:
            yield f"IOMMU group {group} of {one['node']}", ("group", one["node"], group)
    for key, value in one["config"].items():
        for part in str(value).split(",") if key.startswith("ipconfig") else ():
            if part.startswith(("ip=", "ip6=")) and part not in ("ip=dhcp", "ip6=dhcp", "ip6=auto"):
                yield f"the address {part}", ("address", part.partition("/")[0])


def _find_gpu(profile: Mapping[str, t.Any], index: int, told: Mapping[str, t.Any]) -> Mapping[str, t.Any]:
    """Return the GPU of a profile: by its address, its UUID, and only without both by its index; nothing is empty."""
    address, uuid = parse_address(told.get("pci_address")), told.get("uuid")
    rules: list[t.Callable[[Mapping[str, t.Any]], bool]] = []
    if address is not None:
        rules.append(lambda gpu: parse_address((gpu.get("pci") or {}).get("address")) == address)
    if uuid is not None:
        rules.append(lambda gpu: gpu.get("uuid") == uuid)
    rules = rules or [lambda gpu: gpu.get("index") == index]
    return next((gpu for is_it in rules for gpu in profile.get("gpus") or [] if is_it(gpu)), {})


def _path(address: Address, peers: Sequence[Entry]) -> str:
    """The path of a GPU: with all functions of its slot where they are of its group, such as the sound of its ports."""
    beside = [parse_address(peer.get("address")) for peer in peers]
    whole = address.function == 0 and any(
        one is not None and one.slot == address.slot and one != address for one in beside
    )
    return address.slot.text if whole else address.text


def _source(says: Mapping[str, t.Any]) -> Entry | None:
    """What the first disk is made from; None for an empty one."""
    if "template" in says:
        return {"template": says["template"], **({"full": False} if says.get("linked_clone") else {})}
    return {"image": says["image"]} if "image" in says else None


def _network(says: Mapping[str, t.Any]) -> str:
    model = f"virtio={str(says['mac']).upper()}" if "mac" in says else "virtio"
    options = _options({"tag": says["vlan"]} if "vlan" in says else {}, ("tag",))
    return f"{model},bridge={says['bridge']}{options}{_options(says, ('firewall', 'mtu'))}"


def _options(says: Mapping[str, t.Any], names: Iterable[str]) -> str:
    """The parts of a text that are said, each behind a comma, truth values as Proxmox VE has them."""
    said = {name: says[name] for name in names if name in says}
    return "".join(f",{name}={int(value) if isinstance(value, bool) else value}" for name, value in said.items())


def _default_cores(gpus: int, profile: Mapping[str, t.Any]) -> int:
    cpu = profile.get("cpu") or {}
    most = cpu.get("threads") or cpu.get("cores")
    cores = _BASE_CORES + _CORES_PER_GPU * gpus if gpus else _CPU_CORES
    return max(1, min(cores, int(most))) if isinstance(most, (int, float)) else cores


def _free(name: str, low: int, high: int, used: set[int]) -> int | None:
    """Take the first free number of a range, from one that the name decides."""
    count = high - low + 1
    start = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % count
    for step in range(min(count, len(used) + 1)):
        vmid = low + (start + step) % count
        if vmid not in used:
            used.add(vmid)
            return vmid
    return None
