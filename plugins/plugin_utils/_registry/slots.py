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
from dataclasses import replace

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.capabilities import (
    args_for,
    join_args,
    switched_on,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.engines import engine_table
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import DEFAULT_STARTUP, Profile
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.gpus import gpu_table
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.plain import plain
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.ways import recorded_way
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.placements import (
    MODEL,
    ROLE,
    Part,
    Placement,
    placements,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.vms import MANAGED_BY
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.engines import RENDEZVOUS_PORTS
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
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import dns_label

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Catalog, Model

VERSION = 1

# What engines on one GPU may take of it together; the rest is the driver's.
_UTILISATION = 0.92
# An engine starts in so many seconds beside what it takes to read its weights at 200 MB/s, a shared disk of today.
_STARTUP_SECONDS, _SECONDS_A_GIB = 300, 5
_MAX_PORT = 65535
_DOMAIN = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)?", re.ASCII)
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


class _Place(t.NamedTuple):
    """One slot of the plan before it is a document: on the node of rank 0, one of so many slots of its placement."""

    key: SlotKey
    placement: Placement
    head: Part
    slots: int


class Vms:
    """Where slots are in VMs: what is known of them are their definitions, where there are any."""

    def __init__(self, definitions: Iterable[Mapping[str, t.Any]], domain: str) -> None:
        self._domain = domain
        self._of_name: dict[tuple[t.Any, str], Mapping[str, t.Any]] = {}
        self._of_owner: dict[tuple[t.Any, ...], Mapping[str, t.Any]] = {}
        for one in definitions:
            self._of_name.setdefault((one.get("node"), str(one.get("name"))), one)
            for kind in (ROLE, MODEL):
                if one.get(kind) is not None:
                    key = (kind, one[kind], one.get("replica"), one.get("shard") or 0, one.get("node"))
                    self._of_owner.setdefault(key, one)

    def describe(self, key: SlotKey, part: Part) -> tuple[dict[str, t.Any], str]:
        """Return the VM of a part as a field of a document, and the host by which it is reached."""
        planned = str(part.entry.get("vm"))
        owner = (key.kind, key.owner, key.replica, part.rank, part.node)
        names = ((part.node, dns_label(planned)), (part.node, planned))
        found = self._of_owner.get(owner) or self._of_name.get(names[0]) or self._of_name.get(names[1]) or {}
        name = dns_label(str(found.get("name", planned)))
        number = {"vmid": found["vmid"]} if isinstance(found.get("vmid"), int) else {}
        host = static_address(found.get("config")) or (f"{name}.{self._domain}" if self._domain else name)
        return {"vm": {**number, "name": name}}, host


class Nodes:
    """Where slots are without VMs: engines run on the nodes themselves."""

    def __init__(self, domain: str, errors: list[str]) -> None:
        self._domain = domain
        self._errors = errors
        self._hosts: dict[str, str] = {}
        self._node_of: dict[str, str] = {}

    def describe(self, _key: SlotKey, part: Part) -> tuple[dict[str, t.Any], str]:
        """Return no VM, and the host by which a node is reached; one that two nodes would have is an error."""
        if part.node not in self._hosts:
            self._hosts[part.node] = self._host(part.node)
        return {}, self._hosts[part.node]

    def _host(self, node: str) -> str:
        host = node_host(node)
        if is_address(host):
            host = f"[{host}]" if ":" in host else host
        elif self._domain and "." not in host:
            host = f"{host}.{self._domain}"
        elif ends_in_number(host):
            text = f"the node {node!r} would be reached as {host}, which is an address"
            self._errors.append(f"plan: {text}; set registry_domain")
        other = self._node_of.setdefault(host.lower(), node)
        if other != node:
            text = f"the nodes {other!r} and {node!r} would both be reached as {host}"
            self._errors.append(f"plan: {text}; rename one of them")
        return host


def static_address(config: t.Any) -> str | None:
    """Return the first static address of a VM's configuration, IPv4 before IPv6, as it stands in a URL."""
    if not isinstance(config, dict):
        return None
    configs = sorted(
        (int(match[1]), str(value)) for key, value in config.items() if (match := _IPCONFIG.fullmatch(key))
    )
    for kind in ("ip", "ip6"):
        for _number, text in configs:
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

    :param plan: a plan document that its schema allows
    :param catalog: the checked catalog that the plan was made from
    :param vms: the definitions of the VMs, where they are known
    :param registry_domain: what is added to the name of a VM without a static address
    :param bare_metal: whether engines run on the nodes themselves
    :raises InputError: with everything that is wrong
    """
    domain = registry_domain.strip(".") if isinstance(registry_domain, str) else "/"
    errors: list[str] = []
    if not _DOMAIN.fullmatch(domain):
        errors.append(f"registry_domain: {registry_domain!r} is not a valid name of a domain, such as gpu.example")
    places = list(_places(plan))
    seen: set[SlotKey] = set()
    for place in places:
        if place.key in seen:
            name = f"{place.placement.label} {place.key.name}"
            errors.append(f"plan: the slot {name} appears twice; re-run placement")
        seen.add(place.key)
    ids = slot_ids(seen)
    writer = _Writer(catalog, Nodes(domain, errors) if bare_metal else Vms(vms, domain), errors)
    found = [clean_document(writer.document(place, ids[place.key])) for place in places]
    if errors:
        raise InputError(errors)
    return found


def _places(plan: Mapping[str, t.Any]) -> Iterator[_Place]:
    for one in placements(plan):
        head = one.parts[0]
        names = head.entry["slots"] if one.kind == ROLE else head.entry.get("slots") or (one.name,)
        for name in names:
            yield _Place(SlotKey(one.kind, str(one.name), one.replica, str(name)), one, head, len(names))


class _Writer:
    def __init__(self, catalog: Catalog, machines: Vms | Nodes, errors: list[str]) -> None:
        self.machines = machines
        self.errors = errors
        self.models = catalog.by_name()
        self.slots_of_roles = {(role.name, slot.name): slot for role in catalog.roles for slot in role.slots}
        self.engines = engine_table(catalog.engines.values())
        self.gpus = gpu_table(catalog.gpus)
        self.served: dict[str, dict[str, t.Any]] = {}
        # Of each VM, or node: how many slots it has so far, and which ports are taken.
        self.counts: dict[tuple[str, str], int] = {}
        self.ports: dict[tuple[str, str], set[int]] = {}

    def document(self, place: _Place, slot_id: str) -> dict[str, t.Any]:
        """Return the document of a slot; what is None is left out."""
        key, entry, parts = place.key, place.placement.entry, place.placement.parts
        machine, host = self.machines.describe(key, place.head)
        vm = machine["vm"]["name"] if machine else ""
        engine = str(entry["engine"])
        several = len(parts) > 1
        port = self._port(engine, (place.head.node, vm), slot_id)
        meets = several and not machine and engine in RENDEZVOUS_PORTS
        model, profile = self._served(place)
        served = self._of_model(model) if model is not None else {}
        if profile is not None and profile.context_length is not None:
            served["context_length"] = profile.context_length
        if key.kind == MODEL:
            served.setdefault("model", key.owner)
        if model is not None:
            told = switched_on(model.capabilities, engine, profile.args if profile is not None else ())
            served["capabilities"] = list(told) or None
        document = {
            "version": VERSION,
            "managed_by": MANAGED_BY,
            "slot": slot_id,
            "name": key.name,
            "role" if key.kind == ROLE else "replica_of": key.owner,
            "replica": key.replica,
            "node": place.head.node,
            "fabric": entry.get("fabric"),
            **(machine or {"bare_metal": True}),
            "gpus": self._gpus(place.head),
            "nodes": [part.node for part in parts] if several else None,
            "shards": [self._shard(key, part) for part in parts] if several else None,
            "engine": engine,
            "endpoint": None if port is None else f"http://{host}:{port}",
            "rendezvous_port": self._rendezvous_port(engine, parts, slot_id) if meets else None,
            "paths": self._paths(engine),
            "memory_fraction": self._share(place, engine),
            "models_fitting": list(entry.get("models_fitting") or ([model.name] if model is not None else ())),
            **served,
            "startup_timeout": _startup_timeout(model, profile),
            "weight": profile.weight if profile is not None else None,
            "fingerprint": entry.get("fingerprint") or None,
            "profile": _public_profile(profile) if profile is not None else None,
        }
        if profile is None and isinstance(entry.get("profile"), str):
            document["profile"] = {"name": entry["profile"]}
        return {name: value for name, value in document.items() if value is not None}

    def _shard(self, key: SlotKey, part: Part) -> dict[str, t.Any]:
        machine, host = self.machines.describe(key, part)
        found = {"rank": part.rank, "node": part.node, **machine, "host": host, "gpu_indices": list(part.gpu_indices)}
        # Where others have GPUs beside it, it must be told which are its own.
        return found if machine else found | {"gpus": self._gpus(part)}

    def _rendezvous_port(self, engine: str, parts: Sequence[Part], slot_id: str) -> int:
        """Return the port by which the parts of a replica find each other: the first that is free on all its nodes."""
        taken = [self.ports.setdefault((part.node, ""), set()) for part in parts]
        port = RENDEZVOUS_PORTS[engine]
        while any(port in ports for ports in taken):
            port += 1
        if port > _MAX_PORT:
            self.errors.append(f"{slot_id}: its nodes have no rendezvous port left; place fewer replicas there")
        for ports in taken:
            ports.add(port)
        return port

    def _port(self, engine: str, machine: tuple[str, str], slot_id: str) -> int | None:
        """Return the engine's own port plus the slot's place in its VM or on its node; a taken port is passed over."""
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
            text = f"there is no port {port}; give {engine} a lower default_port in engines.yaml"
            self.errors.append(f"{slot_id}: {text}")
        taken.add(port)
        return port

    def _paths(self, engine: str) -> dict[str, str] | None:
        """Return where the engine is asked for its health, its models and its metrics."""
        known = self.engines.get(engine)
        paths = {} if known is None else {"health": known.health, "models": known.models, "metrics": known.metrics}
        return {name: path for name, path in paths.items() if path is not None} or None

    def _share(self, place: _Place, engine: str) -> float | None:
        """Return the share of its GPU that a slot's engine may take, where others have a part in it."""
        if place.key.kind != ROLE or not place.head.gpu_indices:
            return None
        share = (place.placement.entry.get("colocate") or {}).get("memory_fraction")
        if share is None and place.slots < 2:
            return None
        known = self.engines.get(engine)
        share = share or min(_UTILISATION, (known.utilisation if known else None) or _UTILISATION)
        return int(share / place.slots * 100) / 100

    def _served(self, place: _Place) -> tuple[Model | None, Profile | None]:
        """Return the model that a slot serves, and how it does: by a profile of the model, and by what the slot adds."""
        key, entry = place.key, place.placement.entry
        slot = None if key.kind == MODEL else self.slots_of_roles.get((key.owner, key.name))
        name = key.owner if key.kind == MODEL else slot.model if slot else None
        model = self.models.get(name) if name is not None else None
        if model is None:
            return None, None
        if key.kind == MODEL:
            return model, recorded_way(model, entry)
        # Of a role it is the one for its one GPU (or for none), the highest priority first.
        gpu_class = place.head.gpus[0].get("gpu_class") if place.head.gpus else None
        fitting = [
            one
            for one in model.profiles
            if one.engine == entry["engine"] and one.gpu_class == gpu_class and one.tp * one.pp * one.nodes == 1
        ]
        profile = min(fitting, key=lambda one: (-one.priority, one.name), default=None)
        own = join_args(slot.args if slot else (), profile.args if profile else ())
        args = args_for(model, str(entry["engine"]), own)
        if profile is None and args:
            # What belongs to the model and to the slot holds on any GPU.
            gpus = 1 if place.head.gpus else 0
            profile = Profile(name=key.name, engine=str(entry["engine"]), gpu_class=gpu_class, gpus_per_node=gpus)
        return model, replace(profile, args=args) if profile else None

    def _gpus(self, part: Part) -> list[dict[str, t.Any]]:
        """Return the GPUs of a part, with what is known of each."""
        gpus = [*part.gpus, *({} for _index in part.gpu_indices[len(part.gpus) :])]
        return [self._gpu(index, gpu) for index, gpu in zip(part.gpu_indices, gpus, strict=False)]

    def _gpu(self, index: int, gpu: Mapping[str, t.Any]) -> dict[str, t.Any]:
        known = self.gpus.get(str(gpu.get("gpu_class")))
        told = {"vendor": known.vendor if known is not None else None, **gpu}
        keys = ("uuid", "vendor", "gpu_class", "memory_gb", "compute_cap")
        return {"index": index} | {key: told[key] for key in keys if told.get(key) is not None}

    def _of_model(self, model: Model) -> dict[str, t.Any]:
        found = self.served.get(model.name)
        if found is None:
            written = plain(model)
            found = {"model": model.name} | {name: written[name] for name in MODEL_FIELDS if name in written}
            targets = [self.models.get(name) for name in model.fallbacks]
            if targets:
                found["fallbacks"] = list(dict.fromkeys(target.name for target in targets if target is not None))
            if model.scaling is not None and model.scaling.idle_timeout is not None:
                found["idle_timeout"] = model.scaling.idle_timeout
            if model.simulated:
                found["simulated"] = True
            self.served[model.name] = found
        return {name: value.copy() if isinstance(value, (list, dict)) else value for name, value in found.items()}


def _startup_timeout(model: Model | None, profile: Profile | None) -> int | None:
    """Return how many seconds an engine may take until it answers; where nobody says it, large weights take longer."""
    if profile is None:
        return None
    if profile.startup_timeout != DEFAULT_STARTUP:
        return profile.startup_timeout
    weights = model.memory.weights_gib if model is not None and model.memory is not None else None
    return max(profile.startup_timeout, _STARTUP_SECONDS + int((weights or 0) * _SECONDS_A_GIB))


def _public_profile(profile: Profile) -> dict[str, t.Any]:
    document = plain(profile)
    if "args" in document:
        document["args"] = public_args(document["args"])
    if "env" in document:
        document["env"] = public_env(document["env"])
    return document
