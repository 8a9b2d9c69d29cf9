# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""A plan as definitions of virtual machines: one for each assignment and shard, complete, and the same for equal input."""

from __future__ import annotations

import hashlib
import typing as t
from dataclasses import dataclass, field
from urllib.parse import quote

from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.vm import (
    DefinitionError,
    definition,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.fingerprint import digest
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.placements import ROLE, placements
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.vms import vms_document
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.names import (
    Address,
    mapping_id,
    parse_address,
    pci_id,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.settings import (
    DEFAULT_BRIDGE,
    DEFAULT_DISK_GB,
    DEFAULT_STORAGE,
    NODE_NAME,
    Settings,
    find_vm_errors,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import dns_label, natural_key

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_CARDS = 16
LEAST_MIB = 256
# Cores where nobody says: for what feeds a GPU, and for each GPU; a machine without one does its work on them.
_BASE_CORES = 4
_CORES_PER_CARD = 4
_CPU_CORES = 8
_MODEL_ORDER = 1000
_DISK = "discard=on,iothread=1,ssd=1"

Entry = dict[str, t.Any]


@dataclass(slots=True, kw_only=True)
class _Wanted:
    """A machine of the plan: who is in it, where, and with which GPUs."""

    vm: str
    node: str
    members: list[Entry] = field(default_factory=list)
    replica: Entry | None = None
    shard: Entry | None = None

    @property
    def parts(self) -> list[Entry]:
        return [self.shard] if self.shard is not None else self.members

    @property
    def what(self) -> str:
        """What an error calls it."""
        if self.replica is not None:
            return f"model {self.replica['model']}, replica {self.replica['replica']}"
        return ", ".join(f"{one['role']}/{one['replica']}" for one in self.members)

    @property
    def fingerprint(self) -> str:
        if self.replica is not None:
            return str(self.replica.get("fingerprint") or "")
        prints = [str(one.get("fingerprint") or "") for one in self.members]
        return prints[0] if len(prints) == 1 else digest(sorted(prints))


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """The definitions that could be made, and one text for each thing that is wrong."""

    vms: tuple[Entry, ...]
    errors: tuple[str, ...]

    def document(self) -> Entry:
        """Return the document of the file."""
        return vms_document(list(self.vms))


def make_definitions(
    plan: Mapping[str, t.Any],
    roles: Iterable[Mapping[str, t.Any]],
    *,
    nodes: Iterable[Mapping[str, t.Any]] = (),
    previous: Iterable[Mapping[str, t.Any]] = (),
    taken: Iterable[Mapping[str, t.Any]] = (),
    mappings: Iterable[Mapping[str, t.Any]] = (),
    settings: Settings | None = None,
) -> Definitions:
    """Make the definitions of all machines of a plan.

    :param roles: the roles of the catalog, as plain data
    :param nodes: profiles, which say what PVE compares of a GPU
    :param previous: the last definitions; a machine keeps its vmid
    :param taken: machines that are there: ``{vmid, name, cluster, ours}``, ``name`` that of the mark where it is ours
    :param mappings: mappings that are there: ``{cluster, id, node, path}`` for each entry, ``node`` as PVE calls it
    """
    maker = _Maker(
        {str(role.get("name")): role for role in roles},
        {str(node.get("name")): node for node in nodes},
        list(previous),
        settings or Settings(),
    )
    maker.note_mappings(mappings)
    wanted = maker.wanted(plan)
    made = [one for one in (maker.definition(want) for want in wanted) if one is not None]
    maker.number(made, list(taken))
    maker.check(made)
    # A machine without a number could not be told from others: its error says why it has none.
    vms = tuple(one for one in made if one["vmid"] is not None and maker.mark(one))
    return Definitions(vms=vms, errors=tuple(dict.fromkeys(maker.errors)))


def place_of(name: str, settings: Settings, profile: Mapping[str, t.Any]) -> tuple[str, str]:
    """The cluster of a node, and what it is called there; without a word about it a node is a cluster of its own."""
    node = settings.of_node(name)
    pve_node = node.get("pve_node") or str(profile.get("hostname") or name).partition(".")[0]
    return str(node.get("cluster") or name), str(pve_node)


class _Maker:
    def __init__(
        self,
        roles: Mapping[str, Mapping[str, t.Any]],
        nodes: Mapping[str, Mapping[str, t.Any]],
        previous: Sequence[Mapping[str, t.Any]],
        settings: Settings,
    ) -> None:
        self.roles = roles
        self.nodes = nodes
        self.settings = settings
        self.previous = {(one.get("cluster"), one.get("name")): one for one in previous}
        # The same node under another name of its API, such as an address in place of a name.
        self.renamed = {(one.get("node"), one.get("name")): one for one in previous}
        self.names: dict[tuple[str, str, str], list[str]] = {}
        self.shared: set[tuple[str, str]] = set()
        self.errors: list[str] = []
        for name, role in sorted(roles.items()):
            self.errors += find_vm_errors(role.get("vm"), f"role {name}: vm", of_role=True)

    # What is there already

    def _last(self, cluster: str, node: str, name: str) -> Mapping[str, t.Any]:
        return self.previous.get((cluster, name)) or self.renamed.get((node, name)) or {}

    def note_mappings(self, mappings: Iterable[Mapping[str, t.Any]]) -> None:
        """Remember which mapping fixes which GPU; one with several GPUs of a node fixes none."""
        entries: dict[tuple[str, str, str], list[str]] = {}
        for one in mappings:
            key = (str(one.get("cluster")), str(one.get("node")), str(one.get("id")))
            entries.setdefault(key, []).append(str(one.get("path")))
        for (cluster, node, name), paths in sorted(entries.items()):
            address = parse_address(paths[0])
            if len(paths) == 1 and address is not None:
                self.names.setdefault((cluster, node, address.path), []).append(name)

    # Who is in which machine

    def wanted(self, plan: Mapping[str, t.Any]) -> list[_Wanted]:
        """All machines of the plan in the order of their names."""
        found: dict[str, _Wanted] = {}
        for placed in placements(plan):
            for part in placed.parts:
                if placed.kind == ROLE:
                    want = _Wanted(vm=part.entry["vm"], node=part.node, members=[placed.entry])
                else:
                    want = _Wanted(vm=part.entry["vm"], node=part.node, replica=placed.entry, shard=part.entry)
                before = found.setdefault(want.vm, want)
                if before is not want and placed.kind == ROLE and self._is_shared(before, placed.entry):
                    before.members.append(placed.entry)
                elif before is not want:
                    self._name_error(before, want)
        labels: dict[str, _Wanted] = {}
        for want in found.values():
            first = labels.setdefault(dns_label(want.vm), want)
            if first is not want:
                self._name_error(first, want)
            want.members.sort(key=lambda one: (natural_key(str(one["role"])), one["replica"]))
        return sorted(labels.values(), key=lambda want: natural_key(dns_label(want.vm)))

    @staticmethod
    def _is_shared(before: _Wanted, one: Entry) -> bool:
        first = before.members[0] if before.members else {}
        group = (one.get("colocate") or {}).get("group")
        return (
            group is not None
            and group == (first.get("colocate") or {}).get("group")
            and one["replica"] == first["replica"]
            and one["node"] == first["node"]
        )

    def _name_error(self, first: _Wanted, second: _Wanted) -> None:
        self.errors.append(
            f"{first.what} and {second.what} would both be the machine {dns_label(second.vm)}: rename the role or the model"
        )

    # One machine

    def definition(self, want: _Wanted) -> Entry | None:
        """The definition of a machine, still without a vmid."""
        name = dns_label(want.vm)
        node = self.settings.of_node(want.node)
        profile = self.nodes.get(want.node, {})
        cluster, pve_node = place_of(want.node, self.settings, profile)
        if not NODE_NAME.fullmatch(pve_node):
            self.errors.append(
                f"{name} ({want.what}): {pve_node!r} is no name of a node in Proxmox VE; set pve_node of {want.node}"
            )
            return None
        last = self._last(cluster, want.node, name)
        cards = self._cards(want, profile, pve_node, cluster, last)
        says = self._says(want, node)
        memory = self._memory(want)
        if cards is None or memory is None:
            return None
        one: Entry = {"vmid": None, "name": name, "node": want.node, "cluster": cluster, "pve_node": pve_node}
        if want.replica is not None:
            one |= {"model": want.replica["model"], "replica": want.replica["replica"]}
            if len(want.replica["shards"]) > 1:
                one["shard"] = (want.shard or {}).get("rank", 0)
        else:
            one |= {"role": want.members[0]["role"], "replica": want.members[0]["replica"]}
            if len(want.members) > 1:
                one["roles"] = [member["role"] for member in want.members]
        one["fingerprint"] = want.fingerprint
        one["mappings"] = [entry for entry, _numa in cards]
        cores = says.get("cores") or _default_cores(len(cards), profile)
        one["config"] = self._config(want, name, says, cards=cards, cores=cores, memory=memory)
        one["source"] = next(({key: says[key]} for key in ("template", "image") if key in says), None)
        one["start"] = says.get("start", True)
        return one

    def _says(self, want: _Wanted, node: Mapping[str, t.Any]) -> Entry:
        """What is said of a machine: by its roles before its node before the defaults; a source replaces the other."""
        says: Entry = {}
        tags: list[str] = []
        config: Entry = {}
        cloud_init: Entry = {}
        for layer in (self.settings.defaults, node, *(self._vm_of(one) for one in want.members)):
            if "template" in layer or "image" in layer:
                says.pop("template", None)
                says.pop("image", None)
            tags += layer.get("tags", [])
            config |= layer.get("config", {})
            cloud_init |= layer.get("cloud_init", {})
            says |= {key: value for key, value in layer.items() if key not in ("tags", "config", "cloud_init", "cores")}
        # Members that share a machine do so with what each of them asks for.
        cores = sum(self._vm_of(one).get("cores", 0) for one in want.members)
        cores = cores or node.get("cores") or self.settings.defaults.get("cores")
        if cores:
            says["cores"] = cores
        return says | {"tags": tags, "config": config, "cloud_init": cloud_init}

    def _vm_of(self, member: Mapping[str, t.Any]) -> Entry:
        values = self.roles.get(str(member["role"]), {}).get("vm")
        if not isinstance(values, dict) or find_vm_errors(values, "", of_role=True):
            return {}
        return {key: value for key, value in values.items() if value is not None and value != 0}

    def _memory(self, want: _Wanted) -> int | None:
        sizes = [part["memory_mib"] for part in want.parts if part.get("memory_mib")]
        memory = max(sizes, default=0) or sum(self._vm_of(one).get("memory_mib", 0) for one in want.members)
        if memory >= LEAST_MIB:
            return int(memory)
        how = "plan for passthrough, or set vm.memory_mib of the role" if not sizes else "give its node more memory"
        self.errors.append(f"{dns_label(want.vm)} ({want.what}): has no memory in the plan; {how}")
        return None

    # GPUs

    def _cards(
        self, want: _Wanted, profile: Mapping[str, t.Any], pve_node: str, cluster: str, last: Mapping[str, t.Any]
    ) -> list[tuple[Entry, int | None]] | None:
        """The mapping and the NUMA node of each GPU in PCI order, or None where one is not known."""
        asked: dict[int, Entry] = {}
        if want.shard is not None:
            gpus = want.shard.get("gpus") or []
            for at, index in enumerate(want.shard.get("gpu_indices") or []):
                asked[index] = gpus[at] if at < len(gpus) else {}
        for one in want.members:
            if "gpu_index" in one:
                asked[one["gpu_index"]] = one.get("gpu") or {}
        found: dict[Address, tuple[Entry, int | None]] = {}
        where = f"{dns_label(want.vm)} ({want.what})"
        complete = True
        for index, gpu in asked.items():
            known = self._card(f"{where}: GPU {index} of {want.node}", index, gpu, profile, last)
            if known is None:
                complete = False
                continue
            address, entry, numa = known
            if address in found:
                self.errors.append(f"{where}: GPU {address.text} of {want.node} is there twice; collect the node again")
                complete = False
            if "id" not in entry:
                entry = {"id": self._mapping_name(cluster, pve_node, address, last), "node": pve_node, **entry}
            found[address] = (entry, numa)
        if len(found) > MAX_CARDS:
            self.errors.append(f"{where}: {len(found)} GPUs are more than the {MAX_CARDS} that a machine can have")
            complete = False
        return [found[address] for address in sorted(found)] if complete else None

    def _card(
        self, where: str, index: int, gpu: Entry, profile: Mapping[str, t.Any], last: Mapping[str, t.Any]
    ) -> tuple[Address, Entry, int | None] | None:
        address = parse_address(gpu.get("pci_address"))
        card = _find_card(profile.get("gpus") or [], index, gpu)
        pci = (card or {}).get("pci") or {}
        address = parse_address(pci.get("address")) or address
        if address is None:
            self.errors.append(
                f"{where}: its PCI address is not known; collect the node again, or state it in knaster_gpus"
            )
            return None
        entry: Entry = {"path": _path(address, pci.get("iommu_peers") or [])}
        identity = pci_id(pci.get("id"))
        if identity is None:
            # What was known of the GPU when its machine was made still tells what it is.
            for known in last.get("mappings") or []:
                if parse_address(known.get("path")) == address._replace(function=0):
                    return address, dict(known), None
            self.errors.append(
                f"{where}: what PVE compares of it is not known (pci.id); collect the node again, or state it in knaster_gpus"
            )
            return None
        entry["pci_id"] = identity
        subsystem = pci_id(pci.get("subsystem_id"))
        if subsystem is not None and subsystem != "0000:0000":
            entry["subsystem_id"] = subsystem
        group = pci.get("iommu_group")
        if isinstance(group, int) and group >= 0:
            entry["iommu_group"] = group
        numa = pci.get("numa_node")
        return address, entry, numa if isinstance(numa, int) and numa >= 0 else None

    def _mapping_name(self, cluster: str, pve_node: str, address: Address, last: Mapping[str, t.Any]) -> str:
        """The name of a GPU's mapping: one that is there keeps its name."""
        usual = mapping_id(self.settings.prefix, pve_node, address)
        there = self.names.get((cluster, pve_node, address.path), [])
        kept = [
            str(one.get("id"))
            for one in last.get("mappings") or []
            if one.get("node") == pve_node and (parse_address(one.get("path")) or address).path == address.path
        ]
        if not there:
            return (kept or [usual])[0]
        return next((name for name in (*kept, usual) if name in there), min(there, key=natural_key))

    # PVE's own keys

    def _config(
        self,
        want: _Wanted,
        name: str,
        says: Mapping[str, t.Any],
        *,
        cards: Sequence[tuple[Entry, int | None]],
        cores: int,
        memory: int,
    ) -> Entry:
        storage = says.get("storage", DEFAULT_STORAGE)
        config: Entry = {
            "name": name,
            "ostype": "l26",
            "machine": "q35",
            "bios": "ovmf",
            "cpu": "host",
            "cores": cores,
            "memory": memory,
            "balloon": 0,
            "scsihw": "virtio-scsi-single",
            "agent": "enabled=1",
            "onboot": 1,
            "net0": f"virtio,bridge={says.get('bridge', DEFAULT_BRIDGE)}"
            + (f",tag={says['vlan']}" if "vlan" in says else ""),
        }
        # The disks of a template come along; one of them is only said where its size or place is.
        if "template" not in says:
            config["efidisk0"] = f"{storage}:1,efitype=4m,format=raw,pre-enrolled-keys=0"
            config["boot"] = "order=scsi0" if "image" in says else "order=scsi0;net0"
        if "template" not in says or "disk_gb" in says or "storage" in says:
            config["scsi0"] = f"{storage}:{says.get('disk_gb', DEFAULT_DISK_GB)},{_DISK}"
        for at, (entry, _numa) in enumerate(cards):
            config[f"hostpci{at}"] = f"mapping={entry['id']},pcie=1"
        numa = {node for _entry, node in cards}
        if len(numa) == 1 and None not in numa:
            last = f"0-{cores - 1}" if cores > 1 else "0"
            config |= {"numa": 1, "numa0": f"cpus={last},hostnodes={numa.pop()},memory={memory},policy=preferred"}
        config |= self._cloud_init(name, says, storage)
        if says.get("start_order"):
            config["startup"] = f"order={self._order(want)}"
        tags = {"knaster", *says["tags"], *(dns_label(str(one["role"])) for one in want.members)}
        if want.replica is not None:
            tags.add(dns_label(str(want.replica["model"])))
        config["tags"] = ";".join(sorted(tags))
        config |= says["config"]
        return config

    def _cloud_init(self, name: str, says: Mapping[str, t.Any], storage: str) -> Entry:
        given = dict(says["cloud_init"])
        address = self.settings.addresses.get(name)
        if address is not None:
            given["ipconfig0"] = address
        if not given:
            return {}
        given.setdefault("ipconfig0", "ip=dhcp")
        config: Entry = {"ide2": f"{storage}:cloudinit"}
        for key, value in sorted(given.items()):
            # PVE stores the keys in this form, and takes no other.
            config[key] = quote(str(value).strip() + "\n", safe="") if key == "sshkeys" else value
        if isinstance(config.get("ciupgrade"), bool):
            config["ciupgrade"] = int(config["ciupgrade"])
        return config

    def _order(self, want: _Wanted) -> int:
        """Roles start in the order in which they are placed, models after them."""
        if want.replica is not None:
            return _MODEL_ORDER
        priorities = [self.roles.get(str(one["role"]), {}).get("priority") for one in want.members]
        return max(0, min([value for value in priorities if isinstance(value, int)] or [100]))

    # Numbers

    def number(self, made: Sequence[Entry], taken: Sequence[Mapping[str, t.Any]]) -> None:
        """Give each machine its vmid: that which it has, else the first free one from a hash of its name."""
        low, high = self.settings.vmids
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
            if vmid is not None and (cluster, vmid) in owners:
                self.errors.append(
                    f"{name} and {owners[cluster, vmid]} have the same vmid {vmid} in the last definitions"
                )
            elif vmid is not None:
                one["vmid"] = vmid
                owners[cluster, vmid] = name
                used.setdefault(cluster, set()).add(vmid)
        for one in made:
            if one["vmid"] is None:
                one["vmid"] = _free(one["name"], low, high, used.setdefault(one["cluster"], set()))
                if one["vmid"] is None:
                    self.errors.append(
                        f"{one['name']}: no vmid from {low} to {high} is free in {one['cluster']}; widen the range"
                    )

    def mark(self, one: Entry) -> bool:
        """Put the mark into a definition; one that the module would refuse is an error here already."""
        try:
            checked = definition({**one, "node": one["pve_node"]})
        except DefinitionError as exc:
            self.errors += [f"{one['name']}: {error}" for error in exc.errors]
            return False
        one["config"]["description"] = checked.mark.line()
        return True

    # What only shows in all of them together

    def check(self, made: Sequence[Entry]) -> None:
        """Find GPUs, mappings and addresses that two machines would share."""
        cards: dict[tuple[str, str, str], str] = {}
        names: dict[tuple[str, str], tuple[str, str]] = {}
        groups: dict[tuple[str, int], str] = {}
        addresses: dict[str, str] = {}
        known = {one["name"] for one in made}
        for one in made:
            for entry in one["mappings"]:
                path = str(entry["path"]).partition(".")[0]
                self._one_owner(
                    cards, (one["cluster"], entry["node"], entry["path"]), one["name"], f"the GPU {entry['path']}"
                )
                group = entry.get("iommu_group")
                if group is not None:
                    self._one_owner(groups, (one["node"], group), one["name"], f"IOMMU group {group} of {one['node']}")
                place = names.setdefault((one["cluster"], entry["id"]), (entry["node"], path))
                if place[0] == entry["node"] and place[1] != path:
                    self.errors.append(
                        f"{one['name']}: the mapping {entry['id']} would stand for two GPUs of {entry['node']}; "
                        "set another mapping_prefix"
                    )
            for key, value in one["config"].items():
                if key.startswith("ipconfig"):
                    for part in str(value).split(","):
                        if part.startswith(("ip=", "ip6=")) and part not in ("ip=dhcp", "ip6=dhcp", "ip6=auto"):
                            self._one_owner(addresses, part.partition("/")[0], one["name"], f"the address {part}")
        self.errors += [
            f"settings.addresses.{name}: the plan has no machine of this name"
            for name in self.settings.addresses
            if name not in known and made
        ]

    def _one_owner(self, owners: dict[t.Any, str], key: t.Any, name: str, what: str) -> None:
        owner = owners.setdefault(key, name)
        if owner != name:
            self.errors.append(f"{name} and {owner} would share {what}; give one of them another")


def _find_card(gpus: Sequence[Entry], index: int, gpu: Entry) -> Entry | None:
    """The GPU of a profile: by its address, its UUID, and only without both by its index."""
    address = parse_address(gpu.get("pci_address"))
    if address is not None:
        for card in gpus:
            if parse_address((card.get("pci") or {}).get("address")) == address:
                return card
    if gpu.get("uuid") is not None:
        for card in gpus:
            if card.get("uuid") == gpu["uuid"]:
                return card
    if address is None and gpu.get("uuid") is None:
        return next((card for card in gpus if card.get("index") == index), None)
    return None


def _path(address: Address, peers: Sequence[Entry]) -> str:
    """The path of a GPU: with all functions of its slot where they are of its group, such as the sound of its ports."""
    beside = [parse_address(peer.get("address")) for peer in peers]
    whole = address.function == 0 and any(
        one is not None and one.path == address.path and one != address for one in beside
    )
    return address.path if whole else address.text


def _default_cores(cards: int, profile: Mapping[str, t.Any]) -> int:
    cpu = profile.get("cpu") or {}
    most = cpu.get("threads") or cpu.get("cores")
    cores = _BASE_CORES + _CORES_PER_CARD * cards if cards else _CPU_CORES
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
