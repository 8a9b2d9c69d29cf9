# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""The rules that hold between the fields of an entry and between entries; each knows the field it is about.

A rule looks only at values that were read without an error, so that one mistake is reported once.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ansible_collections.knaster.inventory.plugins.module_utils._memory.fit import fit
from ansible_collections.knaster.inventory.plugins.module_utils._memory.need import LEAST_CONTEXT, Gpu
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.arguments import check_arguments
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.capabilities import args_for
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import ANY_CLASS, SIMULATOR, Profile
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.gpus import most_mib
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.memory import computed_vram_gb, serve
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import nearest, shown, suggest

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
        ComputeCap,
        Engine,
        GpuClass,
        Model,
        Role,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import Entry
    from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import Keys

# How far a stated size may be from the one that follows from the facts of a model, as a share of that.
_FAR_OFF = 0.15
CAPABILITIES = ("tools", "vision", "embeddings", "reasoning", "audio")

# Words in the name of a licence that keep a model out of commercial use.
_NOT_COMMERCIAL = ("-nc", "noncommercial", "non-commercial", "research", "mrl")

# How many classes of GPUs are named as what may be meant.
_MOST_MEANT = 4

Named = t.Mapping[str, "tuple[Entry, Model]"]


class Rules(t.NamedTuple):
    """What the rules look things up in."""

    engines: Mapping[str, Engine]
    gpus: Mapping[str, GpuClass]
    # Classes of GPUs that profiles of nodes tell, and the labels of nodes by name, None where a profile tells none.
    seen: frozenset[str]
    nodes: Mapping[str, Mapping[str, str] | None]
    # Whether no model is missing because its file cannot be read.
    complete: bool
    # Whether an engine that nobody knows may stand in a list that was not given.
    open_engines: bool
    # What to say beside the remedy where a model is not known.
    hint: str

    @property
    def cpu_engines(self) -> str:
        """The engines that need no GPU, in a sentence."""
        return ", ".join(name for name, engine in self.engines.items() if engine.cpu)


def classes_of(nodes: Iterable[t.Any]) -> frozenset[str]:
    """Return the classes of the GPUs that these node profiles tell."""
    lists = [node.get("gpus") for node in nodes if isinstance(node, dict)]
    cards = [card for gpus in lists if isinstance(gpus, list) for card in gpus if isinstance(card, dict)]
    return frozenset(name for card in cards if isinstance(name := card.get("gpu_class"), str))


def labels_of(nodes: Iterable[t.Any]) -> dict[str, dict[str, str] | None]:
    """Return the labels of nodes by name; None where a profile does not tell them."""
    found: dict[str, dict[str, str] | None] = {}
    for node in nodes:
        if isinstance(node, dict) and isinstance(node.get("name"), str):
            labels = node.get("labels", None if node.get("state") == "unreachable" else {})
            told = {str(key): str(value) for key, value in labels.items()} if isinstance(labels, dict) else None
            found[node["name"]] = told
    return found


def format_cap(cap: ComputeCap) -> str:
    """Return a compute capability as people write it."""
    return f"{cap[0]}.{cap[1]}"


def check_twice(kind: str, named: Iterable[tuple[Entry, GpuClass | Engine | Role]]) -> None:
    """Report a second entry of one name."""
    first: dict[str, Entry] = {}
    for entry, value in named:
        if value.name and (other := first.setdefault(value.name, entry)) is not entry:
            message = f"a second {kind} is called {value.name}; the first is at {other.where(('name',))}"
            entry.error("duplicate", ("name",), message, "remove one of the two, or give it another name")


def settle_size(entry: Entry, model: Model, rules: Rules) -> Model:
    """Return a model that states its size only where that is another one than its facts say, and warn where it is far off.

    What our own documents say of a model that has facts is read back as what follows from them.
    """
    stated, facts = model.vram_gb, ("memory", "engines", "context", "context_length")
    if stated is None or not entry.good(("vram_gb",), *((key,) for key in facts)):
        return model
    computed = computed_vram_gb(model, rules.engines)
    if computed is None or computed == stated:
        return model if computed is None else replace(model, vram_gb=None)
    if abs(stated - computed) > computed * _FAR_OFF:
        message = f"vram_gb {stated:g} is far from the {computed} GB that follow from memory"
        entry.warn("size", ("vram_gb",), message, "correct one of the two, or leave vram_gb out")
    return model


def check_models(models: Sequence[tuple[Entry, Model]], rules: Rules) -> Named:
    """Check every model and what the models say of each other; return who answers to which name."""
    for entry, model in models:
        _check_model(entry, model, rules)
    names = _check_names(models)
    _check_fallbacks(models, names, rules)
    return names


def check_roles(roles: Sequence[tuple[Entry, Role]], names: Named, rules: Rules) -> list[Role]:
    """Check every role and return them with the models of their slots by name."""
    check_twice("role", roles)
    resolved: list[Role] = []
    for entry, role in roles:
        _check_needs(entry, role, rules)
        _check_pin(entry, role, rules)
        resolved.append(_resolve_slots(entry, role, names, rules))
    _check_groups([(entry, role) for (entry, _raw), role in zip(roles, resolved, strict=True)])
    return resolved


# --- models


def _check_model(entry: Entry, model: Model, rules: Rules) -> None:
    served = []
    for index, name in enumerate(model.engines):
        # Engines that were taken over from the profiles are reported there.
        if not entry.good(("engines",)) or any(profile.engine == name for profile in model.profiles):
            continue
        if engine := _engine(entry, ("engines", index), name, rules):
            served.append(engine)
            _check_kind(entry, ("engines", index), model.kind, engine)
    for name in model.engine_args:
        if name not in (*model.engines, SIMULATOR) and entry.good(("engines",)):
            message = f"engine_args are for {name}, which is not among the engines of the model"
            remedy = f"add it there, or use {' or '.join(model.engines)}"
            entry.error("contradiction", ("engine_args", name), message, remedy)
        elif entry.good(("engine_args", name)) and not any(profile.engine == name for profile in model.profiles):
            words = args_for(model, name)
            check_arguments(entry, (), model, Profile(name="", engine=name, args=words))
    _check_context(entry, model)
    _check_scaling(entry, model)
    _check_notes(entry, model, [found for name in model.engines if (found := rules.engines.get(name))])
    heads = model.memory.attention_heads if model.memory else None
    kv_heads = model.memory.kv_heads if model.memory else None
    if heads and kv_heads and heads % kv_heads and entry.good(("memory",)):
        message = f"{heads} attention heads cannot share {kv_heads} key/value heads evenly"
        entry.error("arithmetic", ("memory", "kv_heads"), message, f"one of {_divisors(heads)}")
    if (model.profiles or model.is_open) and not model.source and entry.good(("source",), ("scaling",)):
        message = f"a model with {'profiles' if model.profiles else 'scaling'} needs a source"
        entry.error("incomplete", ("source",), message, "a path to the weights or a hub id, such as source: org/name")
    for index, profile in enumerate(model.profiles):
        keys: Keys = ("profiles", index)
        if engine := _engine(entry, (*keys, "engine"), profile.engine, rules):
            _check_profile(entry, keys, model, profile, engine=engine, rules=rules)
    for engine in served:
        _check_reach(entry, ("min_cc",), model, engine)


def _engine(entry: Entry, keys: Keys, name: str, rules: Rules) -> Engine | None:
    """Return the engine of this name, or report that there is none."""
    if not name or not entry.good(keys):
        return None
    found = rules.engines.get(name)
    if found is None:
        remedy = suggest(name, rules.engines)
        if rules.open_engines:
            entry.warn("unknown_engine", keys, f"nothing is known of an engine {shown(name)}", remedy)
        else:
            remedy += " An engine of your own is described in engines.yaml"
            entry.error("unknown_engine", keys, f"there is no engine {shown(name)}", remedy)
    return found


def _check_kind(entry: Entry, keys: Keys, kind: str, engine: Engine) -> None:
    if entry.good(("kind",)) and kind not in engine.kinds:
        message = f"{engine.name} does not serve models of kind {kind}"
        entry.error("cannot_run", keys, message, f"it serves {', '.join(engine.kinds)}")


def _check_reach(entry: Entry, keys: Keys, model: Model, engine: Engine) -> None:
    """Report a model whose floor lies above the ceiling of its engine."""
    high = engine.window(model.quantization).high
    if model.min_cc and high and model.min_cc > high and entry.good(("min_cc",), ("quantization",)):
        kind = f" with {model.quantization} weights" if model.quantization else ""
        message = f"min_cc {format_cap(model.min_cc)} is above what {engine.name}{kind} runs on"
        entry.error("cannot_run", keys, message, f"at most {format_cap(high)}, or another engine")


def _check_profile(entry: Entry, keys: Keys, model: Model, profile: Profile, *, engine: Engine, rules: Rules) -> None:
    _check_kind(entry, (*keys, "engine"), model.kind, engine)
    if profile.engine not in model.engines and profile.engine != SIMULATOR and entry.good(("engines",)):
        message = f"engine {profile.engine} is not among the engines of the model"
        entry.error("contradiction", (*keys, "engine"), message, f"add it there, or use {' or '.join(model.engines)}")
    if profile.gpu_nodes and profile.gpu_class is not None and entry.good((*keys, "gpu_nodes"), (*keys, "gpu_class")):
        message = "gpu_nodes admits nodes with GPUs for work on the CPU, but this profile asks for a GPU"
        entry.error("contradiction", (*keys, "gpu_nodes"), message, "remove it, or gpu_class")
    if profile.gpu_class is None:
        if not engine.cpu and entry.good((*keys, "gpu_class")):
            message = f"{engine.name} needs a GPU, but the profile names no gpu_class"
            remedy = f"name the gpu_class, or use one of {rules.cpu_engines}"
            entry.error("incomplete", (*keys, "gpu_class"), message, remedy)
    else:
        _check_split(entry, keys, model, profile, engine)
        if profile.gpu_class != ANY_CLASS:
            _check_card(entry, keys, model, profile, engine=engine, rules=rules)
    _check_reach(entry, (*keys, "engine"), model, engine)
    if entry.good((*keys, "args"), (*keys, "env")):
        check_arguments(entry, keys, model, profile)


def _check_split(entry: Entry, keys: Keys, model: Model, profile: Profile, engine: Engine) -> None:
    """Report a replica that the engine cannot spread over that many GPUs."""
    for key in ("tp", "pp"):
        if engine.split == "none" and getattr(profile, key) > 1 and entry.good((*keys, key)):
            message = f"{engine.name} cannot spread one model over several GPUs, but {key} is {getattr(profile, key)}"
            entry.error("cannot_run", (*keys, key), message, f"leave {key} out; scaling.min gives more copies")
    for key, what in (("dp", profile.dp > 1), ("expert_parallel", profile.expert_parallel)):
        if what and engine.split != "heads" and entry.good((*keys, key)):
            message = f"{engine.name} has no {key}, which only engines that split a model by heads have"
            entry.error("cannot_run", (*keys, key), message, f"leave {key} out; scaling.min gives more copies")
        elif what and profile.gpu_class == ANY_CLASS and key == "dp" and entry.good((*keys, key)):
            message = "a profile for any class has as many GPUs as one copy needs, so that dp has no place in it"
            entry.error(
                "contradiction", (*keys, key), message, "name the gpu_class, or let scaling.min give more copies"
            )
    heads = model.memory.attention_heads if model.memory else None
    if heads and engine.split == "heads" and heads % profile.tp and entry.good((*keys, "tp"), ("memory",)):
        message = f"tp {profile.tp} does not divide the {heads} attention heads of {model.name}"
        entry.error("cannot_run", (*keys, "tp"), message, f"one of {_divisors(heads)}")
    layers = model.memory.layers if model.memory else None
    if layers and profile.pp > layers and entry.good((*keys, "pp"), ("memory",)):
        message = f"pp {profile.pp} is more than the {layers} layers of {model.name}"
        entry.error("cannot_run", (*keys, "pp"), message, f"at most {layers}")


def _check_card(entry: Entry, keys: Keys, model: Model, profile: Profile, *, engine: Engine, rules: Rules) -> None:
    """Report a class of GPUs that engine, capability or memory rule out, where the class is known."""
    at = (*keys, "gpu_class")
    card = _card(entry, at, profile.gpu_class, rules)
    if card is None or not entry.good(at):
        return
    cap = card.compute_cap
    if cap and model.min_cc and cap < model.min_cc and card.vendor in engine.vendors and entry.good(("min_cc",)):
        message = f"{card.name} has compute capability {format_cap(cap)}, below min_cc {format_cap(model.min_cc)}"
        entry.error("cannot_run", at, message, "name a newer class of GPUs, or lower min_cc of the model")
    elif entry.good(("quantization",)):
        _check_class(entry, at, engine, card, model.quantization)
    if card.vendor not in engine.vendors:
        return
    largest = max(card.memory_gb, default=None)
    share = -(-model.vram_gb // (profile.tp * profile.pp)) if model.vram_gb else None
    if share and largest and share > largest and entry.good(("vram_gb",), (*keys, "tp"), (*keys, "pp")):
        message = f"{share:g} GB per GPU is more than {card.name} has ({largest:g} GB)"
        entry.error("cannot_run", at, message, "a larger class of GPUs, or a larger tp")
    elif entry.good(("memory",), (*keys, "tp"), (*keys, "pp"), (*keys, "args"), (*keys, "env")):
        _check_memory(entry, keys, model, profile, engine=engine, card=card)


def _check_class(entry: Entry, keys: Keys, engine: Engine, card: GpuClass, quantization: str | None) -> None:
    """Report a class of GPUs that the engine, or the engine with such weights, has nothing for."""
    cap = card.compute_cap
    if card.vendor not in engine.vendors:
        message = f"{engine.name} does not run on GPUs of {card.vendor}, and {card.name} is one"
        entry.error("cannot_run", keys, message, f"it runs on {', '.join(engine.vendors)}")
    elif cap and not engine.runs_on(cap, quantization):
        kind = f" with {quantization} weights" if quantization else ""
        message = f"{engine.name}{kind} does not run on {card.name} (compute capability {format_cap(cap)})"
        entry.error("cannot_run", keys, message, f"it needs {_window_text(engine, quantization)}")


def _card(entry: Entry, keys: Keys, name: str | None, rules: Rules) -> GpuClass | None:
    """Return what is known of a class; a class of which nothing is known may be real, so that is a warning."""
    if name is None:
        return None
    card = rules.gpus.get(name)
    if card is None and name not in rules.seen:
        meant = _find_classes(name, rules)
        remedy = (
            f"did you mean {' or '.join(meant)}?" if meant else "describe it in gpus.yaml, or name one of the table"
        )
        entry.warn("unknown_class", keys, f"nothing is known of GPUs of class {shown(name)}", remedy)
    return card


def _find_classes(name: str, rules: Rules) -> list[str]:
    """Return the classes that were probably meant: those that begin so or have all its words, of the fleet first."""
    words = set(name.split("-"))
    known = (*sorted(rules.seen), *(other for other in rules.gpus if other not in rules.seen))
    begin = [other for other in known if other.startswith(name) or words <= set(other.split("-"))]
    near = [nearest(name, rules.seen) or nearest(name, rules.gpus)]
    return begin[:_MOST_MEANT] or [other for other in near if other]


def _check_memory(entry: Entry, keys: Keys, model: Model, profile: Profile, *, engine: Engine, card: GpuClass) -> None:
    """Report a context that weights and overhead leave no room for on a GPU of this class."""
    served, mib = serve(model, profile.engine, engine, profile), most_mib(card)
    if served is None or not mib:
        return
    found = fit(served.case(Gpu(mib, gpu_class=card.name)))
    if found.fits is not False:
        return
    requests = f" for each of {served.run.sequences} requests" if served.run.sequences > 1 else ""
    wanted = f"{found.need.gib:.1f} GiB a GPU with a context of {served.run.context}{requests}"
    message = (
        f"{model.name} needs {wanted}, but {engine.name} may use {max(0.0, found.usable_gib):.1f} GiB of {card.name}"
    )
    most = found.largest_context or 0
    remedy = "a larger class of GPUs, or a larger tp"
    if LEAST_CONTEXT <= most < (served.run.context or 0):
        remedy = f"the largest context here is {most // 256 * 256}; or {remedy}"
    entry.error("cannot_run", (*keys, "gpu_class"), message, remedy)


def _window_text(engine: Engine, quantization: str | None) -> str:
    window = engine.window(quantization)
    parts = [
        f"at least {format_cap(window.low)}" if window.low else "",
        f"at most {format_cap(window.high)}" if window.high else "",
    ]
    gaps = [f"not {format_cap(gap.low)} to {format_cap(gap.high)}" for gap in engine.gaps if gap.low and gap.high]
    return ", ".join(part for part in (*parts, *gaps) if part)


def _check_context(entry: Entry, model: Model) -> None:
    longest, served, output = model.context, model.context_length, model.max_output
    if longest and served and served > longest and entry.good(("context",), ("context_length",)):
        message = f"context_length {served} is above context {longest}, the longest that the model supports"
        entry.error("contradiction", ("context_length",), message, f"at most {longest}")
    bound = served or longest
    if output and bound and output > bound and entry.good(("context",), ("context_length",), ("max_output",)):
        which = "context_length" if served else "context"
        message = f"max_output {output} is above {which} {bound}, which holds prompt and completion"
        entry.error("contradiction", ("max_output",), message, f"at most {bound}")


def _check_scaling(entry: Entry, model: Model) -> None:
    if model.scaling is None or not entry.good(("scaling",), ("profiles",)):
        return
    if model.per_node and entry.good(("per_node",)):
        message = "per_node runs one on every node that matches, so there is no number to scale"
        entry.error("contradiction", ("per_node",), message, "remove per_node, or scaling")
    known = model.vram_gb is not None or (model.memory is not None and model.memory.weights_gib is not None)
    if model.is_open and not known and entry.good(("memory",), ("vram_gb",)):
        message = f"scaling asks for {model.scaling.max} replica(s), but nothing says what one needs"
        remedy = "write memory with weights_gib, vram_gb, or a profile for a class of GPUs"
        entry.error("incomplete", ("scaling",), message, remedy)


def _check_notes(entry: Entry, model: Model, served: Sequence[Engine]) -> None:
    """Warn of what may be meant but rarely is."""
    for index, name in enumerate(model.capabilities):
        if name not in CAPABILITIES:
            entry.warn(
                "capability",
                ("capabilities", index),
                f"{shown(name)} is not a known capability",
                suggest(name, CAPABILITIES),
            )
        elif (name == "embeddings") != (model.kind == "embedding") and (name in ("embeddings", "tools")):
            message = f"capability {name} looks wrong for a model of kind {model.kind}"
            entry.warn("capability", ("capabilities", index), message, "remove it, or correct the kind")
    licence = (model.license or "").lower()
    if any(word in f"-{licence}" for word in _NOT_COMMERCIAL):
        message = f"the licence {model.license} forbids or limits commercial use"
        entry.warn("licence", ("license",), message, "make sure that your use is covered")
    if model.lora and served and not any(engine.lora for engine in served):
        names = " or ".join(engine.name for engine in served)
        entry.warn("lora", ("lora",), f"lora is true, but {names} serves no adapters", "remove it, or add an engine")
    weights = model.memory.weights_gib if model.memory else None
    if model.vram_gb is None and weights is None and entry.good(()):
        message = "nothing says how much memory it needs, so it counts as fitting every GPU"
        entry.warn("no_size", (), message, "write vram_gb, or memory with weights_gib")
    if model.simulated:
        entry.warn(
            "simulated", ("profiles",), "every profile is simulated: no answer will be real", "add a real profile"
        )


# --- names


def _check_names(models: Sequence[tuple[Entry, Model]]) -> Named:
    """Report names and aliases that two models claim; return the owners."""
    owners: dict[str, tuple[Entry, Model]] = {}
    claimed: dict[str, tuple[Entry, Keys, str]] = {}
    for entry, model in models:
        if not model.name:
            continue
        if first := claimed.get(model.name):
            message = f"a second model is called {model.name}; the first is at {first[0].where(first[1])}"
            entry.error("duplicate", ("name",), message, "remove one of the two, or give it another name")
            continue
        claimed[model.name] = (entry, ("name",), model.name)
        owners[model.name] = (entry, model)
    for entry, model in models:
        for index, alias in enumerate(model.aliases):
            keys: Keys = ("aliases", index)
            if first := claimed.get(alias):
                kind = "the name" if first[1] == ("name",) else "an alias"
                message = f"alias {alias} of {model.name} is already {kind} of {first[2]} ({first[0].where(first[1])})"
                entry.error("duplicate", keys, message, "an alias must be the only one of its name")
                continue
            claimed[alias] = (entry, keys, model.name)
            owners[alias] = (entry, model)
    return owners


def _check_fallbacks(models: Sequence[tuple[Entry, Model]], names: Named, rules: Rules) -> None:
    graph: dict[str, list[tuple[str, int]]] = {}
    by_name: dict[str, tuple[Entry, Model]] = {}
    for entry, model in models:
        edges: list[tuple[str, int]] = []
        for index, name in enumerate(model.fallbacks):
            keys: Keys = ("fallbacks", index)
            target = names.get(name)
            if target is None:
                if rules.complete:
                    message = f"fallback {shown(name)} of {model.name} is no model"
                    entry.error("unknown_reference", keys, message, suggest(name, names) + rules.hint)
            elif target[1].kind != model.kind and entry.good(("kind",)) and target[0].good(("kind",)):
                message = f"a model of kind {model.kind} cannot fall back to {target[1].name}, of kind {target[1].kind}"
                entry.error("contradiction", keys, message, "name a model of the same kind")
            else:
                edges.append((target[1].name, index))
        if edges and by_name.setdefault(model.name, (entry, model))[1] is model:
            graph[model.name] = edges
    for cycle in _cycles(graph):
        names_in = [name for name, _index in cycle]
        entry, _model = by_name[cycle[0][0]]
        chain = " -> ".join([*names_in, names_in[0]])
        message = f"fallbacks go round in a circle: {chain}"
        if len(cycle) > 1:
            message += f" ({', '.join(by_name[name][0].where(('fallbacks', index)) for name, index in cycle)})"
        entry.error("cycle", ("fallbacks", cycle[0][1]), message, "take one of them out")


def _cycles(graph: Mapping[str, list[tuple[str, int]]]) -> Iterable[list[tuple[str, int]]]:
    """Yield one circle for each edge that closes one, as (name, index of its fallback); no recursion, linear."""
    done: set[str] = set()
    for start in graph:
        if start in done:
            continue
        path: list[tuple[str, int]] = []
        on_path: dict[str, int] = {}
        stack: list[tuple[str, int]] = [(start, 0)]
        while stack:
            name, position = stack.pop()
            if position == 0:
                on_path[name] = len(path)
                path.append((name, -1))
            edges = graph.get(name, [])
            if position == len(edges):
                done.add(name)
                del on_path[name]
                path.pop()
                continue
            stack.append((name, position + 1))
            target, index = edges[position]
            path[-1] = (name, index)
            if target in on_path:
                yield path[on_path[target] :]
            elif target not in done and target in graph:
                stack.append((target, 0))


# --- roles


def _check_needs(entry: Entry, role: Role, rules: Rules) -> None:
    needs = role.needs
    engine = _engine(entry, ("needs", "engine"), needs.engine, rules)
    if not needs.gpu:
        for key in ("min_vram_gb", "min_cc", "max_cc", "gpu_class", "vendor"):
            if getattr(needs, key) is not None and entry.good(("needs", "gpu")):
                message = f"{key} asks for a GPU, but gpu: false asks for none"
                entry.error("contradiction", ("needs", key), message, f"remove {key}, or gpu: false")
        if engine and not engine.cpu and entry.good(("needs", "gpu")):
            message = f"{engine.name} cannot run without a GPU"
            entry.error("cannot_run", ("needs", "gpu"), message, f"one of {rules.cpu_engines}, or remove gpu: false")
    elif engine and not engine.cpu and role.cpu_fallback and entry.good(("cpu_fallback",)):
        message = f"{engine.name} cannot run without a GPU, so there is nothing to fall back to"
        remedy = f"remove cpu_fallback, or use one of {rules.cpu_engines}"
        entry.error("cannot_run", ("cpu_fallback",), message, remedy)
    stated = (("needs", "gpu_nodes"), ("needs", "gpu"), ("cpu_fallback",))
    if needs.gpu_nodes and needs.gpu and not role.cpu_fallback and entry.good(*stated):
        message = "gpu_nodes admits nodes with GPUs for work on the CPU, but this role asks for a GPU"
        entry.error(
            "contradiction", ("needs", "gpu_nodes"), message, "remove it, or add gpu: false or cpu_fallback: true"
        )
    if role.per_node and role.colocate and entry.good(("per_node",), ("colocate",)):
        message = "one on every node has no other replica to share a GPU with"
        entry.error("contradiction", ("per_node",), message, "remove per_node, or colocate")
    if role.per_node and role.count != 1 and entry.good(("per_node",), ("count",)):
        message = "per_node runs one on every node that matches, so there is no number to count"
        entry.error("contradiction", ("per_node",), message, "remove per_node, or count")
    if (
        needs.min_cc
        and needs.max_cc
        and needs.min_cc > needs.max_cc
        and entry.good(("needs", "min_cc"), ("needs", "max_cc"))
    ):
        message = f"max_cc {format_cap(needs.max_cc)} is below min_cc {format_cap(needs.min_cc)}: no GPU has both"
        entry.error("contradiction", ("needs", "max_cc"), message, "raise max_cc or lower min_cc")
    if engine and entry.good(("needs",)):
        _check_needs_engine(entry, role, engine, rules)


def _check_pin(entry: Entry, role: Role, rules: Rules) -> None:
    """Report a pin to a node that the selector beside it rules out."""
    pin = role.needs.node
    if pin and rules.nodes and pin not in rules.nodes and entry.good(("needs", "node")):
        entry.warn("unknown_node", ("needs", "node"), f"no node is called {shown(pin)}", suggest(pin, rules.nodes))
    labels = rules.nodes.get(pin) if pin else None
    if labels is None or not entry.good(("needs",)):
        return
    for label, wanted in role.needs.node_selector.items():
        has = labels.get(label)
        if has != wanted:
            found = f"has {label}: {has}" if has is not None else f"has no label {label}"
            message = f"node_selector wants {label}: {wanted}, but needs.node is {pin}, which {found}"
            remedy = "remove node or the selector, or correct the label of the node"
            entry.error("contradiction", ("needs", "node_selector", label), message, remedy)


def _check_needs_engine(entry: Entry, role: Role, engine: Engine, rules: Rules) -> None:
    needs = role.needs
    if needs.kind:
        _check_kind(entry, ("needs", "kind"), needs.kind, engine)
    if needs.vendor and needs.vendor not in engine.vendors:
        message = f"{engine.name} does not run on GPUs of {needs.vendor}"
        entry.error("cannot_run", ("needs", "vendor"), message, f"it runs on {', '.join(engine.vendors)}")
    if needs.max_cc and engine.min_cc and needs.max_cc < engine.min_cc:
        least = f"{format_cap(engine.min_cc)}, the least that {engine.name} runs on"
        message = f"max_cc {format_cap(needs.max_cc)} is below {least}"
        entry.error("cannot_run", ("needs", "max_cc"), message, "raise max_cc, or use another engine")
    if needs.min_cc and engine.max_cc and needs.min_cc > engine.max_cc:
        most = f"{format_cap(engine.max_cc)}, the most that {engine.name} runs on"
        message = f"min_cc {format_cap(needs.min_cc)} is above {most}"
        entry.error("cannot_run", ("needs", "min_cc"), message, "lower min_cc, or use another engine")
    at: Keys = ("needs", "gpu_class")
    card = _card(entry, at, needs.gpu_class, rules)
    if card is None:
        return
    cap = card.compute_cap
    if needs.vendor and card.vendor != needs.vendor:
        message = f"{card.name} is a GPU of {card.vendor}, but vendor is {needs.vendor}"
        entry.error("contradiction", at, message, "remove one of the two")
    elif card.vendor not in engine.vendors or (cap and not engine.runs_on(cap)):
        _check_class(entry, at, engine, card, None)
    elif cap and ((needs.min_cc and cap < needs.min_cc) or (needs.max_cc and cap > needs.max_cc)):
        message = f"{card.name} has compute capability {format_cap(cap)}, outside min_cc and max_cc"
        entry.error("contradiction", at, message, "name another class, or change min_cc or max_cc")
    largest = max(card.memory_gb, default=None)
    if needs.min_vram_gb and largest and needs.min_vram_gb > largest:
        message = f"min_vram_gb {needs.min_vram_gb:g} is more than {card.name} has ({largest:g} GB)"
        entry.error("contradiction", ("needs", "min_vram_gb"), message, f"at most {largest:g}, or another gpu_class")


def _resolve_slots(entry: Entry, role: Role, names: Named, rules: Rules) -> Role:
    """Return the role with its slots' models by name; report those that do not exist or cannot be served there."""
    slots = []
    for index, slot in enumerate(role.slots):
        found = names.get(slot.model) if slot.model else None
        keys: Keys = ("slots", index, "model")
        if slot.model and found is None and rules.complete:
            message = f"the model {shown(slot.model)} of slot {slot.name} does not exist"
            entry.error("unknown_reference", keys, message, suggest(slot.model, names) + rules.hint)
        if found:
            _check_slot(entry, keys, role, found, rules)
        slots.append(replace(slot, model=found[1].name) if found else slot)
    return replace(role, slots=tuple(slots)) if role.slots else role


def _check_slot(entry: Entry, keys: Keys, role: Role, found: tuple[Entry, Model], rules: Rules) -> None:
    other, model = found
    needs = role.needs
    if not entry.good(("needs",)) or not other.good(("engines",), ("kind",), ("min_cc",), ("vram_gb",)):
        return
    where = other.where(("name",))
    if needs.engine not in model.engines and needs.engine != SIMULATOR:
        message = f"{model.name} ({where}) is not served by {needs.engine}"
        entry.error("contradiction", keys, message, f"its engines are {', '.join(model.engines)}")
    elif needs.kind and model.kind != needs.kind:
        message = f"{model.name} ({where}) is of kind {model.kind}, but the role is for {needs.kind}"
        entry.error("contradiction", keys, message, "name a model of that kind, or change needs.kind")
    elif model.min_cc and needs.max_cc and model.min_cc > needs.max_cc:
        floor = f"needs compute capability {format_cap(model.min_cc)}"
        message = f"{model.name} ({where}) {floor}, above max_cc {format_cap(needs.max_cc)}"
        entry.error("contradiction", keys, message, "raise max_cc, or name another model")
    else:
        card = rules.gpus.get(needs.gpu_class or "")
        if card and (told := _too_large(model, rules.engines.get(needs.engine), needs.engine, card)):
            message = f"{model.name} ({where}) needs {told}"
            entry.error("contradiction", keys, message, "name a smaller model, or another gpu_class")


def _too_large(model: Model, engine: Engine | None, name: str, card: GpuClass) -> str:
    """Return what a model needs and a class of GPUs has not; an empty text where it fits or that is not known."""
    largest, mib = max(card.memory_gb, default=None), most_mib(card)
    if largest and model.vram_gb and model.vram_gb > largest:
        return f"{model.vram_gb:g} GB, more than {card.name} has ({largest:g} GB)"
    served = serve(model, name, engine)
    found = fit(served.case(Gpu(mib, gpu_class=card.name))) if served is not None and mib else None
    if found is None or found.fits is not False:
        return ""
    return f"{found.need.gib:.1f} GiB, more than {name} may use of {card.name} ({max(0.0, found.usable_gib):.1f} GiB)"


def _check_groups(roles: Sequence[tuple[Entry, Role]]) -> None:
    """Report roles that are to share a GPU and ask for things that no GPU can have together."""
    groups: dict[str, list[tuple[Entry, Role]]] = {}
    for entry, role in roles:
        if role.colocate and entry.good(("needs",), ("colocate",)):
            groups.setdefault(role.colocate, []).append((entry, role))
    for group, members in groups.items():
        if len(members) == 1 and all(entry.good(()) for entry, _role in roles):
            entry, role = members[0]
            message = f"{role.name} is the only role of the group {group}"
            entry.warn("colocate", ("colocate",), message, "give the group to another role, or remove it")
        for position, (entry, role) in enumerate(members):
            for other, earlier in members[:position]:
                if clash := _clash(role, earlier):
                    keys, message = clash
                    message = f"{message}, but {earlier.name} ({other.where()}) is to share its GPU"
                    entry.error("contradiction", keys, message, "make them agree, or leave the group")
                    break


def _clash(role: Role, other: Role) -> tuple[Keys, str] | None:
    """Return the first need of a role that contradicts another that shares its machine."""
    mine, theirs = role.needs, other.needs
    if mine.gpu != theirs.gpu:
        return ("needs", "gpu"), f"{role.name} {'needs a GPU' if mine.gpu else 'needs no GPU'}"
    for key in ("gpu_class", "vendor", "node"):
        left, right = getattr(mine, key), getattr(theirs, key)
        if left and right and left != right:
            return ("needs", key), f"{key} is {left}, not {right}"
    for low, high in ((mine.min_cc, theirs.max_cc), (theirs.min_cc, mine.max_cc)):
        if low and high and low > high:
            key = "min_cc" if low is mine.min_cc else "max_cc"
            return ("needs", key), f"no GPU has at least {format_cap(low)} and at most {format_cap(high)}"
    for label, value in mine.node_selector.items():
        if theirs.node_selector.get(label, value) != value:
            return ("needs", "node_selector", label), f"{label} is {value}, not {theirs.node_selector[label]}"
    for key, value in role.vm.items():
        # What each engine takes of the machine adds up; everything else describes the one machine.
        if key not in ("cores", "memory_mib") and other.vm.get(key, value) != value:
            return ("vm", key), f"vm.{key} is not that of {other.name}"
    return None


def _divisors(count: int) -> str:
    return ", ".join(str(n) for n in range(1, count + 1) if count % n == 0)
