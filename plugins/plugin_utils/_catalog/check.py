# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Plain data to a checked catalog: every entry becomes a value, every mistake a problem, all in one go.

What the maps and lists are made of stands in the schemas. What is wrong is taken out of an entry, so that the rules see
the rest of it.
"""

from __future__ import annotations

import copy
import dataclasses
import typing as t
from dataclasses import dataclass, field, replace

from ansible_collections.knaster.inventory.plugins.module_utils._memory.facts import MemoryFacts
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.arguments import check_owned
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.capabilities import args_for
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.engines import BUILTIN_ENGINES, engine_table
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
    ANY_CLASS,
    CapWindow,
    Catalog,
    Engine,
    GpuClass,
    Model,
    Needs,
    Profile,
    Role,
    Scaling,
    Slot,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.gpus import gpu_table
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import (
    ERROR,
    CatalogError,
    Entry,
    Problem,
    TooManyError,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.rules import (
    Rules,
    check_models,
    check_roles,
    check_twice,
    classes_of,
    labels_of,
    settle_size,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.values import explain, read_values
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import MAX_VIOLATIONS, find_violations
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import shorten, shown, suggest

if t.TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import Places
    from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import Keys, Violation

SECTIONS: Mapping[str, str] = {"models": "model", "roles": "role", "gpus": "GPU class", "engines": "engine"}

# What the lookup returns beside the lists.
_BESIDE = ("directories", "sources", "warnings")

MIN_IDLE_SECONDS = 60

# What a violation of a keyword of the schema is called; any other is a wrong value.
_CODES = {
    "required": "missing",
    "additionalProperties": "unknown_key",
    "propertyNames": "unknown_key",
    "type": "wrong_type",
}
# Lists of maps, in which a wrong one is left empty, so that the others keep their places.
_LISTS_OF_MAPS = ("profiles", "slots")

_V = t.TypeVar("_V")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCatalog:
    """A catalog without an error, and its warnings."""

    catalog: Catalog
    warnings: tuple[Problem, ...] = ()


def check_catalog(
    models: t.Any,
    roles: t.Any,
    *,
    gpus: t.Any = (),
    engines: t.Any = (),
    places: Places | None = None,
    nodes: Sequence[t.Any] = (),
    open_engines: bool = False,
) -> CheckedCatalog:
    """Return the checked catalog; see ``examine_catalog`` for the parameters.

    :raises CatalogError: with every problem, when one of them is an error
    """
    checked, problems = examine_catalog(
        {"models": models, "roles": roles, "gpus": gpus, "engines": engines},
        places=places,
        nodes=nodes,
        open_engines=open_engines,
    )
    if any(problem.severity == ERROR for problem in problems):
        raise CatalogError(problems)
    return CheckedCatalog(catalog=checked, warnings=tuple(problems))


def find_unknown_lists(catalog: Mapping[str, t.Any]) -> list[Problem]:
    """Return a problem for each key that is not among what the lookup returns."""
    return [
        Problem(
            severity=ERROR,
            code="unknown_key",
            path="catalog",
            message=f"{shown(key)} is not a list of a catalog",
            remedy=suggest(key, SECTIONS),
        )
        for key in catalog
        if key not in SECTIONS and key not in _BESIDE
    ]


def examine_catalog(
    sections: Mapping[str, t.Any],
    *,
    places: Places | None = None,
    missing: Collection[str] = (),
    nodes: Sequence[t.Any] = (),
    open_engines: bool = False,
    hint: str = "",
) -> tuple[Catalog, list[Problem]]:
    """Return what could be read, and every problem in the order of the sections.

    :param sections: the lists by name
    :param missing: sections of which a part could not be read at all, so that no name is reported as unknown for it
    :param nodes: profiles of nodes, which tell classes of GPUs, names and labels
    :param open_engines: whether an engine that nobody knows is only a warning
    :param hint: what to say beside the remedy where a model is not known
    """
    report = _Report()
    catalog = Catalog()
    try:
        catalog = _examine(
            sections, report, places=places or {}, missing=missing, nodes=nodes, open_engines=open_engines, hint=hint
        )
    except TooManyError:
        message = "there are so many mistakes that the rest was not looked at"
        report.problems.append(
            Problem(severity=ERROR, code="too_much", path="", message=message, remedy="correct these first")
        )
    for entry in report.entries:
        report.problems += sorted(entry.problems, key=_by_place)
    return catalog, report.problems


@dataclass(slots=True)
class _Report:
    """What a check collects: problems of whole sections, the entries with theirs, and how many more anybody reads."""

    problems: list[Problem] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    left: list[int] = field(default_factory=lambda: [MAX_VIOLATIONS])


def _examine(
    sections: Mapping[str, t.Any],
    report: _Report,
    *,
    places: Places,
    missing: Collection[str],
    nodes: Sequence[t.Any],
    open_engines: bool,
    hint: str,
) -> Catalog:
    entries = {name: _read_entries(name, sections.get(name), places, report) for name in SECTIONS}
    gpus = [(entry, _read_gpu(entry, raw)) for entry, raw in entries["gpus"]]
    engines = [(entry, _read_engine(entry, raw)) for entry, raw in entries["engines"]]
    check_twice("class of GPUs", gpus)
    check_twice("engine", engines)
    table = engine_table(engine for _entry, engine in engines if engine.name)
    own_gpus = tuple(gpu for _entry, gpu in gpus if gpu.name)
    rules = Rules(
        engines=table,
        gpus=gpu_table(own_gpus),
        seen=classes_of(nodes),
        nodes=labels_of(nodes),
        complete="models" not in missing,
        open_engines=open_engines or "engines" in missing,
        hint=hint,
    )
    models = [(entry, settle_size(entry, _read_model(entry, raw), rules)) for entry, raw in entries["models"]]
    names = check_models(models, rules)
    resolved = check_roles([(entry, _read_role(entry, raw)) for entry, raw in entries["roles"]], names, rules)
    return Catalog(models=tuple(model for _entry, model in models), roles=tuple(resolved), gpus=own_gpus, engines=table)


def _by_place(problem: Problem) -> tuple[int, int]:
    return problem.place.line or 0, problem.place.column or 0


def check_defaults(raw: t.Any, entry: Entry) -> dict[str, t.Any]:
    """Return the defaults of a models file; what is wrong with them is among the problems of the entry."""
    for one in find_violations({"defaults": raw}, "models", whole_floats=True):
        _add_violation(entry, one.path[1:], raw, one)
    values = _read_values(entry, (), raw) if entry.good(()) else {}
    _check_idle(entry, ("idle_timeout",), values.get("idle_timeout"))
    return values if entry.good(()) else {}


def _read_entries(section: str, raw: t.Any, places: Places, report: _Report) -> list[tuple[Entry, dict[str, t.Any]]]:
    """Return the entries of a section without what is wrong in them, which is reported."""
    found: dict[int, list[Violation]] = {}
    raw = list(raw) if isinstance(raw, tuple) else raw
    violations = find_violations({section: raw}, section, whole_floats=True)
    for one in violations:
        if len(one.path) == 1:
            remedy = f"write {section} as a list of maps, each with a name"
            message = one.message.partition(";")[0]
            problem = Problem(severity=ERROR, code="wrong_type", path=section, message=message, remedy=remedy)
            report.problems.append(problem)
            return []
        found.setdefault(t.cast("int", one.path[1]), []).append(one)
    origins = places.get(section, ())
    entries = []
    for index, item in enumerate(raw or ()):
        name = item.get("name") if isinstance(item, dict) else None
        kind = SECTIONS[section]
        entry = Entry(
            section=section,
            index=index,
            label=f"{kind} {shorten(name)}" if isinstance(name, str) and name else f"{kind} without a name",
            origin=origins[index] if index < len(origins) else None,
            profiles=_names_in(item.get("profiles")) if isinstance(item, dict) else (),
            left=report.left,
        )
        report.entries.append(entry)
        for one in found.get(index, ()):
            _add_violation(entry, one.path[2:], item, one)
        if () not in entry.failed:
            entries.append((entry, _without(item, entry.failed) if entry.failed else item))
    if len(violations) == MAX_VIOLATIONS:
        raise TooManyError
    return entries


def _names_in(profiles: t.Any) -> tuple[str | None, ...]:
    """Return the names of profiles as far as they have one that can be told."""
    items = profiles if isinstance(profiles, list) else ()
    names = [item.get("name") if isinstance(item, dict) else None for item in items]
    return tuple(shorten(name) if isinstance(name, str) and name else None for name in names)


def _add_violation(entry: Entry, keys: Keys, raw: t.Any, one: Violation) -> None:
    """Report what the schema refuses, once for each place; where more can be said than the schema does, that."""
    if keys in entry.failed:
        return
    code = _CODES.get(one.keyword, "wrong_value")
    message, _semicolon, remedy = one.message.partition("; ")
    if code.startswith("wrong") and (exact := explain(keys, _value_at(raw, keys))):
        message, remedy = exact.message, exact.remedy
    entry.error(code, keys, message, remedy, key=code == "unknown_key")


def _value_at(raw: t.Any, keys: Keys) -> t.Any:
    for key in keys:
        raw = raw[key]
    return raw


def _without(raw: dict[str, t.Any], failed: Iterable[Keys]) -> dict[str, t.Any]:
    """Return a copy of an entry without its values at these keys."""
    found = copy.deepcopy(raw)
    for keys in failed:
        _remove(found, keys)
    return found


def _remove(node: t.Any, keys: Keys) -> None:
    for depth, key in enumerate(keys, 1):
        if isinstance(node, list):
            node[t.cast("int", key)] = {} if depth == len(keys) else node[t.cast("int", key)]
        elif not isinstance(node, dict) or key not in node:
            return
        elif depth == len(keys) or (isinstance(node[key], list) and key not in _LISTS_OF_MAPS):
            del node[key]
            return
        node = node[key]


def _read_values(entry: Entry, keys: Keys, raw: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the values of one map; what is wrong in them beyond the schema is reported."""
    values, wrong = read_values(raw)
    for key, problem in wrong.items():
        entry.error("wrong_value", (*keys, key), problem.message, problem.remedy)
    return values


def _read_model(entry: Entry, raw: dict[str, t.Any]) -> Model:
    values = {"name": "", "kind": "llm", **_read_values(entry, (), raw)}
    profiles = tuple(
        _read_profile(entry, ("profiles", index), item) for index, item in enumerate(raw.get("profiles") or ())
    )
    _check_names(entry, "profiles", profiles, raw.get("profiles") or ())
    values["profiles"] = profiles
    if profiles and "engines" not in values and entry.good(("engines",)):
        values["engines"] = tuple(dict.fromkeys(profile.engine for profile in profiles))
    elif not values.get("engines") and entry.good(("engines",)):
        message = "no engine can serve this model" if "engines" in values else "a model without profiles needs engines"
        entry.error("incomplete", ("engines",), message, "such as engines: [vllm]")
    if raw.get("context_length") == "auto":
        _check_auto(entry, profiles)
    if raw.get("scaling") is not None:
        values["scaling"] = _read_scaling(entry, raw["scaling"])
    if raw.get("slo") is not None:
        values["slo"] = _read_values(entry, ("slo",), raw["slo"])
    if raw.get("memory") is not None:
        values["memory"] = MemoryFacts(**_read_values(entry, ("memory",), raw["memory"]))
    return _with_args(entry, _build(Model, values))


def _check_auto(entry: Entry, profiles: Sequence[Profile]) -> None:
    """Report a context that is left to the GPU beside a profile for a class of GPUs, or for the CPU."""
    for index, profile in enumerate(profiles):
        if profile.gpu_class != ANY_CLASS and entry.good(("profiles", index, "gpu_class")):
            message = (
                f"context_length auto is for models that may run on any GPU, but the profile {profile.name} names one"
            )
            remedy = f"write gpu_class: {ANY_CLASS} there, or a number of tokens here"
            entry.error("contradiction", ("context_length",), message, remedy)
            return


def _with_args(entry: Entry, model: Model) -> Model:
    """Return the model with everything that its engines are told in its profiles, whose own words were checked before."""
    for engine, words in model.engine_args.items():
        check_owned(entry, ("engine_args", engine), engine, words)
    for index, profile in enumerate(model.profiles):
        check_owned(entry, ("profiles", index, "args"), profile.engine, profile.args)
    if not entry.good(("engine_args",), ("capabilities",)):
        return model
    profiles = (replace(one, args=args_for(model, one.engine, one.args)) for one in model.profiles)
    return replace(model, profiles=tuple(profiles))


def _check_names(entry: Entry, key: str, items: Sequence[Profile | Slot], raw: Sequence[t.Any]) -> None:
    """Report a second profile or slot of one name; a slot may be written as its name alone."""
    first: dict[str, Keys] = {}
    for index, item in enumerate(items):
        keys: Keys = (key, index) if isinstance(raw[index], str) else (key, index, "name")
        if item.name and first.setdefault(item.name, keys) != keys:
            message = f"a second {key[:-1]} is called {item.name}; the first is at {entry.where(first[item.name])}"
            entry.error("duplicate", keys, message, "give each its own name")


def _build(kind: Callable[..., _V], values: dict[str, t.Any]) -> _V:
    """Make the value that a map was read into; the schema says that nothing is missing."""
    return kind(**values)


def _read_profile(entry: Entry, keys: Keys, raw: dict[str, t.Any]) -> Profile:
    values = {"name": "", **_read_values(entry, keys, raw)}
    copies, nodes = values.get("dp", 1), values.get("nodes", 1)
    total = values.get("tp", 1) * values.get("pp", 1) * copies
    product = "tp x pp x dp" if copies > 1 else "tp x pp"
    per_node = values.get("gpus_per_node")
    if not entry.good(*((*keys, key) for key in ("tp", "pp", "dp", "nodes", "gpus_per_node", "gpu_class"))):
        values["gpus_per_node"] = 1
    elif "gpu_class" not in values:
        _check_cpu_profile(entry, keys, values)
        values["gpus_per_node"] = 0
    elif per_node is not None and per_node * nodes != total:
        message = f"gpus_per_node {per_node} x nodes {nodes} is {per_node * nodes}, but {product} is {total}"
        entry.error("arithmetic", (*keys, "gpus_per_node"), message, _per_node_remedy(total, nodes))
    elif copies > 1 and nodes > 1:
        message = f"the {copies} copies of dp are on one node, but the profile has {nodes}"
        entry.error("contradiction", (*keys, "nodes"), message, "leave nodes out; scaling.min gives more replicas")
        values["gpus_per_node"] = total
    elif total % nodes:
        message = f"{product} is {total}, which {nodes} nodes cannot share evenly"
        entry.error("arithmetic", (*keys, "nodes"), message, _per_node_remedy(total, nodes))
    else:
        values["gpus_per_node"] = total // nodes
    return _build(Profile, values)


def _per_node_remedy(total: int, nodes: int) -> str:
    if total % nodes == 0:
        return f"leave gpus_per_node out, or write {total // nodes}"
    return f"nodes must divide {total}: {', '.join(str(n) for n in range(1, total + 1) if total % n == 0)}"


def _check_cpu_profile(entry: Entry, keys: Keys, values: Mapping[str, t.Any]) -> None:
    """Report what only GPUs can do in a profile that names none."""
    wrong = {
        "gpus_per_node": ("gpus_per_node asks for GPUs, but there is no gpu_class", 0),
        "tp": (f"tp {values.get('tp')} splits the model over GPUs, but there is no gpu_class", 1),
        "pp": (f"pp {values.get('pp')} splits the model over GPUs, but there is no gpu_class", 1),
        "dp": (f"dp {values.get('dp')} has copies on GPUs, but there is no gpu_class", 1),
        "expert_parallel": ("expert_parallel spreads experts over GPUs, but there is no gpu_class", 0),
        "nodes": (f"a profile for the CPU cannot span {values.get('nodes')} nodes", 1),
    }
    for key, (message, most) in wrong.items():
        if values.get(key, 0) > most:
            entry.error("contradiction", (*keys, key), message, f"name the gpu_class, or leave {key} out for the CPU")


def _read_scaling(entry: Entry, raw: dict[str, t.Any]) -> Scaling:
    values = _read_values(entry, ("scaling",), raw)
    _check_idle(entry, ("scaling", "idle_timeout"), values.get("idle_timeout"))
    low = max(0, values.get("min", 0))
    high = values.get("max") or low  # people write 0 for "no more than always run"
    if high < low:
        message = f"max {high} is below min {low}"
        entry.error("arithmetic", ("scaling", "max"), message, f"at least {low}, or leave max out")
    return Scaling(min=low, max=high, idle_timeout=values.get("idle_timeout"))


def _check_idle(entry: Entry, keys: Keys, seconds: int | None) -> None:
    if seconds is not None and seconds < MIN_IDLE_SECONDS:
        message = f"an idle timeout of {seconds}s would unload a model between two requests"
        entry.error("too_short", keys, message, "at least 1m; leave it out to keep the model loaded")


def _read_role(entry: Entry, raw: dict[str, t.Any]) -> Role:
    values = {"name": "", **_read_values(entry, (), raw)}
    values["needs"] = _build(Needs, {"engine": "", **_read_values(entry, ("needs",), raw.get("needs") or {})})
    values["slots"] = _read_slots(entry, raw.get("slots") or (), values["needs"].engine)
    if raw.get("vm") is not None:
        vm = values["vm"] = _read_values(entry, ("vm",), raw["vm"])
        if "tags" in vm:
            vm["tags"] = list(vm["tags"])
        if "template" in vm and "image" in vm:
            message = "a machine is made from a template or from an image, not from both"
            entry.error("contradiction", ("vm", "image"), message, "remove one of the two")
    return _build(Role, values)


def _read_slots(entry: Entry, raw: t.Any, engine: str) -> tuple[Slot, ...]:
    if isinstance(raw, (int, float)):
        return tuple(Slot(name=f"slot{index}") for index in range(int(raw)))
    maps = [{"name": item} if isinstance(item, str) else item for item in raw]
    slots = tuple(
        _build(Slot, {"name": "", **_read_values(entry, ("slots", index), item)}) for index, item in enumerate(maps)
    )
    _check_names(entry, "slots", slots, raw)
    for index, slot in enumerate(slots):
        check_owned(entry, ("slots", index, "args"), engine, slot.args)
    return slots


def _over_shipped(shipped: Mapping[str, t.Any], raw: dict[str, t.Any], values: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return the values of an entry over those of the shipped table, where it has one of this name."""
    known = shipped.get(raw.get("name", ""))
    if known is None or raw.get("replace"):
        return {"name": "", **values}
    kept = [item.name for item in dataclasses.fields(known) if raw.get(item.name, "") is not None]
    return {name: getattr(known, name) for name in kept} | values


def _read_gpu(entry: Entry, raw: dict[str, t.Any]) -> GpuClass:
    return _build(GpuClass, _over_shipped(gpu_table(), raw, _read_values(entry, (), raw)))


def _read_engine(entry: Entry, raw: dict[str, t.Any]) -> Engine:
    own = _read_values(entry, (), raw)
    windows = own.pop("quantizations", {})
    values = _over_shipped(BUILTIN_ENGINES, raw, own)
    kept = {kind: window for kind, window in values.get("quantizations", {}).items() if kind not in windows}
    values["quantizations"] = kept | {
        kind: _read_window(entry, ("quantizations", kind), window)
        for kind, window in windows.items()
        if window is not None
    }
    low, high = values.get("min_cc"), values.get("max_cc")
    if low and high and low > high:
        entry.error("contradiction", ("max_cc",), "max_cc is below min_cc", "raise max_cc or lower min_cc")
    return _build(Engine, values)


def _read_window(entry: Entry, keys: Keys, raw: dict[str, t.Any]) -> CapWindow:
    values = _read_values(entry, keys, raw)
    return CapWindow(low=values.get("min_cc"), high=values.get("max_cc"))
