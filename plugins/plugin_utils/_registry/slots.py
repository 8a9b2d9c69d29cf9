# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The slots of a plan as documents: where each is, what it may serve, and all that the catalog says of what it serves."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.engines import engine_table
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.gpus import gpu_table
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.plain import plain
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.rules import is_simulated
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.views import Names
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.placements import ROLE, placements
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.vms import MANAGED_BY
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.engines import MEET_PORTS
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.names import (
    SlotKey,
    ends_in_number,
    is_address,
    node_host,
    slot_ids,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.quote import clean_document
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.secrets import (
    public_args,
    public_env,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import dns_label, shown

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
        Catalog,
        Model,
        Profile,
        Role,
    )

VERSION = 1

# What engines on one GPU may take of it together; the rest is the driver's.
_UTILISATION = 0.92
_MAX_PORT = 65535
_DOMAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?", re.ASCII)
_IPCONFIG = re.compile(r"ipconfig(\d+)")

# Fields of a model that whoever uses a slot asks for; the others say where a model may lie.
MODEL_FIELDS = (
    "kind",
    "source",
    "description",
    "aliases",
    "context",
    "context_length",
    "max_output",
    "capabilities",
    "lora",
    "quantization",
    "license",
    "routing_profile",
    "slo",
)


class SlotError(InputError):
    """Slots that cannot be told; ``errors`` has one text for each thing that is wrong."""


class _Place(t.NamedTuple):
    """One slot of the plan before it is a document."""

    key: SlotKey
    entry: Mapping[str, t.Any]  # the assignment, or the replica
    shard: Mapping[str, t.Any]  # the assignment, or the shard of rank 0
    slots: int  # how many the entry has


class Machines:
    """What is known of the machines: their definitions, where there are any."""

    def __init__(self, definitions: Iterable[Mapping[str, t.Any]], domain: str) -> None:
        self._domain = domain.strip(".")
        self._of_name: dict[tuple[t.Any, str], Mapping[str, t.Any]] = {}
        self._of_owner: dict[tuple[t.Any, ...], Mapping[str, t.Any]] = {}
        for one in definitions:
            self._of_name.setdefault((one.get("node"), str(one.get("name"))), one)
            for kind in ("role", "model"):
                if one.get(kind) is not None:
                    key = (kind, one[kind], one.get("replica"), one.get("shard") or 0, one.get("node"))
                    self._of_owner.setdefault(key, one)

    def find(self, key: SlotKey, shard: Mapping[str, t.Any]) -> Mapping[str, t.Any] | None:
        """Return the definition of a slot's machine, or of the machine of another shard of its replica."""
        node, name = shard.get("node"), str(shard.get("vm"))
        owner = (key.kind, key.owner, key.replica, shard.get("rank") or 0, node)
        found = self._of_owner.get(owner) or self._of_name.get((node, dns_label(name)))
        return found or self._of_name.get((node, name))

    def describe(self, key: SlotKey, shard: Mapping[str, t.Any]) -> tuple[dict[str, t.Any], str]:
        """Return the machine of a shard, and the host by which it is reached."""
        found = self.find(key, shard)
        name = dns_label(str(shard.get("vm") if found is None else found.get("name")))
        machine: dict[str, t.Any] = {"name": name}
        address = None
        if found is not None:
            if isinstance(found.get("vmid"), int):
                machine = {"vmid": found["vmid"], "name": name}
            address = static_address(found.get("config"))
        return machine, address or (f"{name}.{self._domain}" if self._domain else name)


class Nodes:
    """The nodes as machines: where there are no virtual ones, engines run on the nodes themselves."""

    def __init__(self, domain: str, errors: list[str]) -> None:
        self._domain = domain.strip(".")
        self._errors = errors
        self._hosts: dict[str, str] = {}
        self._node_of: dict[str, str] = {}

    def describe(self, node: str) -> str:
        """Return the host by which a node is reached; one that two nodes would have is a mistake."""
        found = self._hosts.get(node)
        if found is None:
            found = self._hosts[node] = self._host(node)
        return found

    def _host(self, node: str) -> str:
        host = node_host(node)
        if is_address(host):
            host = f"[{host}]" if ":" in host else host
        elif self._domain and "." not in host:
            host = f"{host}.{self._domain}"
        elif ends_in_number(host):
            self._errors.append(
                f"plan: the node {node!r} would be reached as {host}, which is an address; set registry_domain"
            )
        other = self._node_of.setdefault(host.lower(), node)
        if other != node:
            self._errors.append(
                f"plan: the nodes {other!r} and {node!r} would both be reached as {host}; rename one of them"
            )
        return host


def static_address(config: t.Any) -> str | None:
    """Return the first static address of a machine's configuration, IPv4 before IPv6, as it stands in a URL."""
    if not isinstance(config, dict):
        return None
    cards = sorted((int(match[1]), str(value)) for key, value in config.items() if (match := _IPCONFIG.fullmatch(key)))
    for kind in ("ip", "ip6"):
        for _number, text in cards:
            for part in text.split(","):
                name, _equals, value = part.strip().partition("=")
                if name != kind:
                    continue
                try:
                    address = ipaddress.ip_interface(value).ip
                except ValueError:
                    continue  # dhcp, auto, manual
                return f"[{address}]" if address.version == 6 else str(address)
    return None


def make_slots(
    plan: Mapping[str, t.Any],
    catalog: Catalog,
    vms: Iterable[Mapping[str, t.Any]] = (),
    *,
    registry_domain: str = "",
    bare_metal: bool = False,
) -> list[dict[str, t.Any]]:
    """Return one document for each slot of a plan, those of roles first, in the order of the plan.

    :param plan: the plan document
    :param catalog: the checked catalog that the plan was made from
    :param vms: the definitions of the machines, where they are known
    :param registry_domain: what is added to the name of a machine without a static address
    :param bare_metal: whether engines run on the nodes themselves
    :raises SlotError: with everything that is wrong
    """
    errors = find_domain_errors(registry_domain)
    if errors:
        raise SlotError(errors)
    places = list(_places(plan))
    ids = slot_ids({place.key for place in places})
    machines = Nodes(registry_domain, errors) if bare_metal else Machines(vms, registry_domain)
    writer = _Writer(catalog, machines, errors)
    found = [clean_document(writer.document(place, ids[place.key])) for place in places]
    if errors:
        raise SlotError(errors)
    return found


def find_domain_errors(registry_domain: t.Any) -> list[str]:
    """Return what is wrong with the name of a domain."""
    name = registry_domain.strip(".") if isinstance(registry_domain, str) else None
    if name == "" or (name is not None and _DOMAIN.fullmatch(name)):
        return []
    return [f"registry_domain: must be the name of a domain, such as gpu.example, not {shown(registry_domain)}"]


def _places(plan: Mapping[str, t.Any]) -> Iterable[_Place]:
    """Yield the slots of a plan: each of a role's replica, and those of the first part of a model's."""
    for placed in placements(plan):
        head = placed.parts[0].entry
        names = head["slots"] if placed.kind == ROLE else head.get("slots") or (placed.name,)
        for name in names:
            key = SlotKey(placed.kind, placed.name, placed.replica, name)
            yield _Place(key, placed.entry, head, len(names) if placed.kind == ROLE else 1)


class _Writer:
    def __init__(self, catalog: Catalog, machines: Machines | Nodes, errors: list[str]) -> None:
        self.machines = machines
        self.errors = errors
        self.names = Names(catalog)
        self.roles = {role.name: role for role in catalog.roles}
        self.engines = engine_table(catalog.engines.values())
        self.gpus = gpu_table(catalog.gpus)
        self.served: dict[str, dict[str, t.Any]] = {}
        # Of each machine: how many slots it has so far, and which ports are taken.
        self.counts: dict[tuple[str, str], int] = {}
        self.ports: dict[tuple[str, str], set[int]] = {}

    def document(self, place: _Place, slot_id: str) -> dict[str, t.Any]:
        key, entry, shard = place.key, place.entry, place.shard
        machine, host = self._machine(key, shard)
        document: dict[str, t.Any] = {"version": VERSION, "managed_by": MANAGED_BY, "slot": slot_id, "name": key.name}
        document["role" if key.kind == "role" else "replica_of"] = key.owner
        document |= {"replica": key.replica, "node": shard["node"]}
        if entry.get("fabric") is not None:
            document["fabric"] = entry["fabric"]
        document |= machine or {"bare_metal": True}
        document["gpus"] = self._gpus(entry, shard)
        if len(entry.get("shards") or ()) > 1:
            document["nodes"] = [part["node"] for part in entry["shards"]]
            document["shards"] = [self._shard(place, part) for part in entry["shards"]]
        document["engine"] = entry["engine"]
        name = machine["vm"]["name"] if machine else ""
        port = self._port(str(entry["engine"]), (str(shard["node"]), name), slot_id)
        if port is not None:
            document["endpoint"] = f"http://{host}:{port}"
        if not machine and "shards" in document and entry["engine"] in MEET_PORTS:
            document["meet_port"] = self._meet_port(str(entry["engine"]), document["nodes"], slot_id)
        document |= self._paths(str(entry["engine"]))
        share = self._share(place)
        if share is not None:
            document["memory_fraction"] = share
        document["models_fitting"] = list(entry.get("models_fitting") or ())
        model, profile = self._served(place)
        if model is None and key.kind == "model":
            document["model"] = key.owner
        if model is not None:
            document |= self._of_model(model)
            if not document["models_fitting"]:
                document["models_fitting"] = [model.name]
        if profile is not None:
            document |= {"startup_timeout": profile.startup_timeout, "weight": profile.weight}
        if entry.get("fingerprint"):
            document["fingerprint"] = entry["fingerprint"]
        if profile is not None:
            document["profile"] = _public_profile(profile)
        elif isinstance(entry.get("profile"), str):
            document["profile"] = {"name": entry["profile"]}
        return document

    def _machine(self, key: SlotKey, shard: Mapping[str, t.Any]) -> tuple[dict[str, t.Any], str]:
        """The virtual machine as a field of a document, none on bare metal, and the host by which the machine is reached."""
        if isinstance(self.machines, Nodes):
            return {}, self.machines.describe(str(shard["node"]))
        machine, host = self.machines.describe(key, shard)
        return {"vm": machine}, host

    def _shard(self, place: _Place, part: Mapping[str, t.Any]) -> dict[str, t.Any]:
        machine, host = self._machine(place.key, part)
        indices = list(part.get("gpu_indices") or ())
        found = {"rank": part.get("rank", 0), "node": part["node"], **machine, "host": host, "gpu_indices": indices}
        # Where others have GPUs beside it, it must be told which are its own.
        return found if machine else found | {"gpus": self._gpus(place.entry, part)}

    def _meet_port(self, engine: str, nodes: Sequence[str], slot_id: str) -> int:
        """The port by which the parts of a replica find each other: the usual one, or the next that is free on all its nodes."""
        taken = [self.ports.setdefault((str(node), ""), set()) for node in nodes]
        port = MEET_PORTS[engine]
        while any(port in ports for ports in taken):
            port += 1
        if port > _MAX_PORT:
            self.errors.append(f"{slot_id}: no port is left on its nodes for its parts to meet; place fewer there")
        for ports in taken:
            ports.add(port)
        return port

    def _port(self, engine: str, machine: tuple[str, str], slot_id: str) -> int | None:
        """The engine's own port plus the slot's place in its machine; a port that is taken there is passed over."""
        place = self.counts.get(machine, 0)
        self.counts[machine] = place + 1
        known = self.engines.get(engine)
        if known is None or known.default_port is None:
            return None
        taken = self.ports.setdefault(machine, set())
        port = known.default_port + place
        while port in taken:
            port += 1
        if port > _MAX_PORT:
            self.errors.append(
                f"{slot_id}: there is no port {port}; give {engine} a lower default_port in engines.yaml"
            )
        taken.add(port)
        return port

    def _paths(self, engine: str) -> dict[str, t.Any]:
        """Where the engine is asked for its health, its models and its metrics."""
        known = self.engines.get(engine)
        paths = {} if known is None else {"health": known.health, "models": known.models, "metrics": known.metrics}
        told = {name: path for name, path in paths.items() if path is not None}
        return {"paths": told} if told else {}

    def _share(self, place: _Place) -> float | None:
        """The share of its GPU that a slot's engine may take, where others have a part in it."""
        if "gpu_index" not in place.entry:
            return None
        together = place.entry.get("colocate")
        share = together.get("memory_fraction") if isinstance(together, dict) else None
        if share is None:
            if place.slots < 2:
                return None
            known = self.engines.get(str(place.entry["engine"]))
            share = min(_UTILISATION, (known.utilisation if known else None) or _UTILISATION)
        return int(share / place.slots * 100) / 100

    def _served(self, place: _Place) -> tuple[Model | None, Profile | None]:
        """The model that a slot serves, and the profile by which it does."""
        if place.key.kind == "model":
            model = self.names.resolve(place.key.owner)
            wanted = place.entry.get("profile")
            profiles = model.profiles if model is not None else ()
            return model, next((one for one in profiles if one.name == wanted), None)
        role = self.roles.get(place.key.owner)
        fixed = _model_of_slot(role, place.key.name)
        model = self.names.resolve(fixed) if fixed is not None else None
        return model, _profile_for(model, place) if model is not None else None

    def _gpus(self, entry: Mapping[str, t.Any], shard: Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
        """The GPUs of a slot's machine, with what is known of each."""
        if "shards" in entry:
            indices, cards = list(shard.get("gpu_indices") or ()), list(shard.get("gpus") or ())
        elif "gpu_index" in entry:
            indices, cards = [entry["gpu_index"]], [entry.get("gpu") or {}]
        else:
            return []
        cards += [{}] * (len(indices) - len(cards))
        return [self._gpu(index, card) for index, card in zip(indices, cards, strict=False)]

    def _gpu(self, index: int, card: Mapping[str, t.Any]) -> dict[str, t.Any]:
        known = self.gpus.get(str(card.get("gpu_class")))
        told = {"vendor": known.vendor if known is not None else None, **card}
        keys = ("uuid", "vendor", "gpu_class", "memory_gb", "compute_cap")
        return {"index": index} | {key: told[key] for key in keys if told.get(key) is not None}

    def _of_model(self, model: Model) -> dict[str, t.Any]:
        found = self.served.get(model.name)
        if found is None:
            written = plain(model)
            found = {"model": model.name} | {name: written[name] for name in MODEL_FIELDS if name in written}
            targets = [self.names.resolve(name) for name in model.fallbacks]
            if targets:
                found["fallbacks"] = list(dict.fromkeys(target.name for target in targets if target is not None))
            if model.scaling is not None and model.scaling.idle_timeout is not None:
                found["idle_timeout"] = model.scaling.idle_timeout
            if is_simulated(model):
                found["simulated"] = True
            self.served[model.name] = found
        return {name: value.copy() if isinstance(value, (list, dict)) else value for name, value in found.items()}


def _model_of_slot(role: Role | None, name: str) -> str | None:
    return next((slot.model for slot in role.slots if slot.name == name), None) if role is not None else None


def _profile_for(model: Model, place: _Place) -> Profile | None:
    """The model's profile for the one GPU that a role has (or for none), the highest priority first."""
    gpu = place.entry.get("gpu")
    gpu_class = gpu.get("gpu_class") if isinstance(gpu, dict) else None
    fitting = [
        one
        for one in model.profiles
        if one.engine == place.entry["engine"] and one.gpu_class == gpu_class and one.tp * one.pp * one.nodes == 1
    ]
    return min(fitting, key=lambda one: (-one.priority, one.name), default=None)


def _public_profile(profile: Profile) -> dict[str, t.Any]:
    document = plain(profile)
    if "args" in document:
        document["args"] = public_args(document["args"])
    if "env" in document:
        document["env"] = public_env(document["env"])
    return document
