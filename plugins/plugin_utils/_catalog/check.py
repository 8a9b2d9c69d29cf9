# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Plain data to a checked catalog: every entry becomes a value, every mistake a problem, all in one go.

The checks are written by hand while the values are built, because a schema validator costs as much as the rest of the
load together; the published schemas say the same, and a test holds them to it.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.knaster.inventory.plugins.module_utils._memory.facts import MemoryFacts
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.engines import (
    KINDS,
    QUANTIZATIONS,
    SPELLINGS,
    SPLITS,
    VENDORS,
    engine_table,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
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
    WARNING,
    CatalogError,
    Keys,
    Problem,
    format_path,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.rules import (
    Rules,
    check_models,
    check_roles,
    classes_of,
    node_labels,
    node_names,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.values import (
    ENV_NAME,
    MODEL_NAME,
    PCI_ID,
    SIMPLE_NAME,
    SLUG,
    URL_PATH,
    Reader,
    WrongValueError,
    choice,
    duration,
    number,
    pairs,
    read_argument,
    read_compute_cap,
    read_description,
    read_flag,
    read_scale_min,
    read_source,
    read_spread,
    text,
    texts,
    whole,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import nearest, shown, suggest

if t.TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import (
        Origin,
        Places,
    )

SECTIONS = ("models", "roles", "gpus", "engines")

PREFERENCES = ("smallest_fitting", "largest")

_MAX_INT = 2**31 - 1

_V = t.TypeVar("_V")

_model_name = text(MODEL_NAME, "a name", limit=200)
_simple_name = text(SIMPLE_NAME, "a name", limit=100)
_slug = text(SLUG, "a GPU class", limit=100)
_engine_text = text(SIMPLE_NAME, "an engine's name", limit=64)
_gb = number(16384, "GB")
_big = number(1_000_000, "GB")
_tokens = whole(1, _MAX_INT, zero_is_unknown=True)
_count = whole(1, 4096, zero_is_unknown=True)
_order = whole(-1_000_000, 1_000_000)
_milliseconds = duration(milliseconds=True)


def _engine_name(value: t.Any) -> str:
    name = _engine_text(value)
    return SPELLINGS.get(name, name)


# None marks what has a structure of its own and is read by a function below.
PROFILE_FIELDS: Mapping[str, Reader | None] = {
    "name": _simple_name,
    "engine": _engine_name,
    "gpu_class": _slug,
    "tp": _count,
    "pp": _count,
    "nodes": _count,
    "gpus_per_node": _count,
    "args": texts(read_argument, what="words of a command line", unique=False),
    "env": pairs(ENV_NAME, "environment variables"),
    "min_memory_gb": _big,
    "min_disk_gb": _big,
    "node_selector": pairs(None, "labels"),
    "weight": whole(0, 1_000_000),
    "priority": _order,
    "startup_timeout": duration(),
    "gpu_nodes": read_flag,
}
SCALING_FIELDS: Mapping[str, Reader | None] = {
    "min": read_scale_min,
    "max": whole(0, 100_000),
    "idle_timeout": duration(),
}
SLO_FIELDS: Mapping[str, Reader | None] = {"ttft_p99": _milliseconds, "tpot_p99": _milliseconds}
MEMORY_FIELDS: Mapping[str, Reader | None] = {
    "weights_gib": number(16384, "GiB"),
    "kv_bytes_per_token": _tokens,
    "kv_bytes_per_window_token": _tokens,
    "window": _tokens,
    "layers": whole(1, 10_000, zero_is_unknown=True),
    "attention_heads": whole(1, 10_000, zero_is_unknown=True),
    "kv_heads": whole(1, 10_000, zero_is_unknown=True),
    "head_dim": whole(1, 100_000, zero_is_unknown=True),
}
MODEL_FIELDS: Mapping[str, Reader | None] = {
    "name": _model_name,
    "kind": choice(KINDS),
    "vram_gb": _gb,
    "min_cc": read_compute_cap,
    "engines": texts(_engine_name, what="engines"),
    "context": _tokens,
    "lora": read_flag,
    "aliases": texts(_model_name, what="names"),
    "description": read_description,
    "source": read_source,
    "profiles": None,
    "scaling": None,
    "fallbacks": texts(_model_name, what="names"),
    "routing_profile": _simple_name,
    "slo": None,
    "context_length": _tokens,
    "max_output": _tokens,
    "capabilities": texts(_simple_name, what="capabilities"),
    "license": text(None, "the name of a licence", limit=200),
    "quantization": choice(QUANTIZATIONS),
    "memory": None,
    "placement_priority": _order,
    "spread": read_spread,
    "per_node": whole(1, 1),
    "source_note": read_description,
}
NEEDS_FIELDS: Mapping[str, Reader | None] = {
    "engine": _engine_name,
    "min_vram_gb": _gb,
    "min_cc": read_compute_cap,
    "max_cc": read_compute_cap,
    "gpu": read_flag,
    "gpu_class": _slug,
    "vendor": choice(VENDORS),
    "node_selector": pairs(None, "labels"),
    "min_memory_gb": _big,
    "kind": choice(KINDS),
    "node": text(None, "the name of a node", limit=253),
    "gpu_nodes": read_flag,
}
VM_FIELDS: Mapping[str, Reader | None] = {
    "cores": whole(1, 8192, zero_is_unknown=True),
    "memory_mib": whole(256, 1 << 26, zero_is_unknown=True),
    "disk_gb": whole(1, 1_000_000, zero_is_unknown=True),
    "storage": _simple_name,
    "bridge": _simple_name,
    "template": whole(100, 999_999_999),
    "image": text(None, "an image", limit=512),
    "cloud_init": pairs(ENV_NAME, "cloud-init settings"),
    "tags": texts(_slug, what="tags"),
}
SLOT_FIELDS: Mapping[str, Reader | None] = {"name": _simple_name, "model": _model_name}
ROLE_FIELDS: Mapping[str, Reader | None] = {
    "name": _simple_name,
    "needs": None,
    "prefer": choice(PREFERENCES),
    "count": whole(0, 100_000),
    "slots": None,
    "priority": _order,
    "cpu_fallback": read_flag,
    "colocate": _simple_name,
    "spread": read_spread,
    "per_node": whole(1, 1),
    "vm": None,
}
GPU_FIELDS: Mapping[str, Reader | None] = {
    "name": _slug,
    "names": texts(text(None, "the name that the driver prints", limit=200), what="names"),
    "vendor": choice(VENDORS),
    "memory_gb": None,
    "memory_mib": whole(1, 1 << 26, zero_is_unknown=True),
    "compute_cap": read_compute_cap,
    "pci_ids": texts(text(PCI_ID, "a PCI id"), what="PCI ids"),
    "mig": read_flag,
}
ENGINE_FIELDS: Mapping[str, Reader | None] = {
    "name": _engine_text,
    "cpu": read_flag,
    "min_cc": read_compute_cap,
    "max_cc": read_compute_cap,
    "quantizations": None,
    "split": choice(SPLITS),
    "vendors": texts(choice(VENDORS), what="vendors"),
    "kinds": texts(choice(KINDS), what="kinds"),
    "lora": read_flag,
    "overhead_gib": number(1024, "GiB"),
    "overhead_large_gib": number(1024, "GiB"),
    "utilisation": number(1, "a share"),
    "default_port": whole(1, 65535),
    "health": text(URL_PATH, "a path"),
    "models": text(URL_PATH, "a path"),
    "metrics": text(URL_PATH, "a path"),
}
WINDOW_FIELDS: Mapping[str, Reader | None] = {"min_cc": read_compute_cap, "max_cc": read_compute_cap}
DEFAULTS_FIELDS: Mapping[str, Reader | None] = {"idle_timeout": duration()}

MAX_ENTRIES = 100_000
MAX_KEYS = 200
# Whoever has more mistakes than this made one in another place; what is left is not looked at.
MAX_PROBLEMS = 1000
MAX_SLOTS = 64
MIN_IDLE_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCatalog:
    """A catalog without an error, and what is still worth a look."""

    catalog: Catalog
    warnings: tuple[Problem, ...] = ()


class _TooManyError(Exception):
    """More problems than anybody reads."""


@dataclass(slots=True, kw_only=True)
class Entry:
    """One entry while it is checked: it collects problems and remembers which keys cannot be relied on."""

    section: str
    index: int | None
    label: str
    origin: Origin | None = None
    problems: list[Problem] = field(default_factory=list)
    failed: set[Keys] = field(default_factory=set)
    left: list[int] = field(default_factory=lambda: [MAX_PROBLEMS])

    def error(self, code: str, keys: Keys, message: str, remedy: str, *, key: bool = False) -> None:
        """Add an error at these keys."""
        self.failed.add(keys)
        self._add(ERROR, code, keys, message, remedy, key=key)

    def warn(self, code: str, keys: Keys, message: str, remedy: str) -> None:
        """Add a warning at these keys."""
        self._add(WARNING, code, keys, message, remedy)

    def good(self, *paths: Keys) -> bool:
        """Return whether nothing at, below or above these keys was found wrong so far."""
        return not self.failed or not any(
            path[: len(failed)] == failed or failed[: len(path)] == path for path in paths for failed in self.failed
        )

    def where(self, keys: Keys = ()) -> str:
        """Return how another message names this place."""
        return str(self.origin.place(keys)) if self.origin else format_path(self.section, self.index, keys)

    def _add(self, severity: str, code: str, keys: Keys, message: str, remedy: str, *, key: bool = False) -> None:
        self.left[0] -= 1
        if self.left[0] < 0:
            raise _TooManyError
        place = self.origin.place(keys, key=key) if self.origin else None
        self.problems.append(
            Problem(
                severity=severity,
                code=code,
                path=format_path(self.section, self.origin.index if self.origin else self.index, keys),
                message=message,
                remedy=remedy,
                entry=self.label,
                file=place.file if place else None,
                line=place.line if place else None,
                column=place.column if place else None,
            )
        )


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
    """Return the checked catalog, or raise CatalogError with every error.

    With ``open_engines`` an engine that the table does not know is a warning, for callers that were given models and
    roles but not the engines beside them. With ``nodes`` (profiles), a pin to a node whose labels contradict the
    selector beside it is an error.
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


def examine_catalog(
    sections: Mapping[str, t.Any],
    *,
    places: Places | None = None,
    missing: Collection[str] = (),
    nodes: Sequence[t.Any] = (),
    open_engines: bool = False,
) -> tuple[Catalog, list[Problem]]:
    """Return what could be read, and every problem in the order of the sections.

    ``missing`` names sections of which a part could not be read at all: nothing is reported as an unknown name because
    of them.
    """
    report = _Report()
    catalog = Catalog()
    try:
        catalog = _examine(
            sections, report, places=places or {}, missing=missing, nodes=nodes, open_engines=open_engines
        )
    except _TooManyError:
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
    left: list[int] = field(default_factory=lambda: [MAX_PROBLEMS])


def _examine(
    sections: Mapping[str, t.Any],
    report: _Report,
    *,
    places: Places,
    missing: Collection[str],
    nodes: Sequence[t.Any],
    open_engines: bool,
) -> Catalog:
    entries = {name: list(_entries(name, sections.get(name), places, report)) for name in SECTIONS}
    gpus = [gpu for entry, raw in entries["gpus"] if (gpu := _read_gpu(entry, raw))]
    engines = [engine for entry, raw in entries["engines"] if (engine := _read_engine(entry, raw))]
    for name in ("gpus", "engines"):
        _check_twice([(entry, raw.get("name")) for entry, raw in entries[name]])
    table = engine_table(engines)
    rules = Rules(
        engines=table,
        gpus=gpu_table(gpus),
        seen=classes_of(nodes),
        labels=node_labels(nodes),
        nodes=node_names(nodes),
        complete="models" not in missing,
        open_engines=open_engines or "engines" in missing,
    )
    models = [(entry, _read_model(entry, raw)) for entry, raw in entries["models"]]
    names = check_models(models, rules)
    resolved = check_roles([(entry, _read_role(entry, raw)) for entry, raw in entries["roles"]], names, rules)
    return Catalog(
        models=tuple(model for _entry, model in models), roles=tuple(resolved), gpus=tuple(gpus), engines=table
    )


def _by_place(problem: Problem) -> tuple[int, int]:
    return problem.line or 0, problem.column or 0


def check_defaults(raw: t.Any, entry: Entry) -> dict[str, t.Any]:
    """Read the defaults of a models file."""
    values = _record(entry, (), raw, DEFAULTS_FIELDS, "defaults")
    _check_idle(entry, ("idle_timeout",), values.get("idle_timeout"))
    return values if entry.good(()) else {}


def _entries(section: str, raw: t.Any, places: Places, report: _Report) -> Iterable[tuple[Entry, dict[str, t.Any]]]:
    """Yield the entries of a section that are maps; report the others."""
    if raw is None:
        return
    if not isinstance(raw, (list, tuple)) or len(raw) > MAX_ENTRIES:
        message = f"expected a list, found {shown(raw)}"
        if isinstance(raw, (list, tuple)):
            message = f"{len(raw)} entries are too many"
        remedy = f"write {section} as a list of at most {MAX_ENTRIES} maps, each with a name"
        report.problems.append(Problem(severity=ERROR, code="wrong_type", path=section, message=message, remedy=remedy))
        return
    origins: Sequence[Origin] = places.get(section, ())
    kind = {"models": "model", "roles": "role", "gpus": "GPU class", "engines": "engine"}[section]
    for index, item in enumerate(raw):
        name = item.get("name") if isinstance(item, dict) else None
        entry = Entry(
            section=section,
            index=index,
            label=f"{kind} {shown(name)[1:-1]}" if isinstance(name, str) and name else f"{kind} without a name",
            origin=origins[index] if index < len(origins) else None,
            left=report.left,
        )
        report.entries.append(entry)
        if isinstance(item, dict):
            yield entry, item
        else:
            entry.error(
                "wrong_type", (), f"expected a map, found {shown(item)}", f"write a map that describes one {kind}"
            )


def _record(
    entry: Entry,
    keys: Keys,
    raw: t.Any,
    fields: Mapping[str, Reader | None],
    what: str,
    *,
    required: Mapping[str, str] | None = None,
) -> dict[str, t.Any]:
    """Read the fields of one map; null is the same as absent."""
    values: dict[str, t.Any] = {}
    if not isinstance(raw, dict):
        entry.error("wrong_type", keys, f"expected a map, found {shown(raw)}", f"write {what} as a map")
        return values
    if len(raw) > MAX_KEYS:
        entry.error("wrong_type", keys, f"{len(raw)} keys are too many for {what}", "check what this is")
        return values
    meant: set[str | None] = set()
    for key, value in raw.items():
        if key not in fields:
            meant.add(nearest(str(key), fields))
            remedy = suggest(str(key), fields, limit=40)
            entry.error("unknown_key", (*keys, str(key)), f"{shown(str(key))} is not a key of {what}", remedy, key=True)
        elif value is not None and (reader := fields[key]) is not None:
            try:
                read = reader(value)
            except WrongValueError as exc:
                for below, message, remedy in exc.findings:
                    entry.error("wrong_value", (*keys, key, *below), message, remedy)
            else:
                if read is not None:
                    values[key] = read
    for key, remedy in (required or {}).items():
        if raw.get(key) is None and key not in meant:  # a misspelt key is one mistake, not two
            entry.error("missing", (*keys, key), f"{what} needs {key}", remedy)
    return values


def _list(entry: Entry, keys: Keys, raw: t.Any, what: str) -> Sequence[t.Any]:
    if raw is None:
        return ()
    if not isinstance(raw, (list, tuple)):
        entry.error("wrong_type", keys, f"expected a list of {what}, found {shown(raw)}", "begin each with a dash")
        return ()
    if len(raw) > 1000:
        entry.error("wrong_value", keys, f"{len(raw)} {what} are too many", "at most 1000")
        return ()
    return raw


_MODEL_REQUIRED = {"name": "such as name: qwen3-32b-awq", "kind": f"one of {', '.join(KINDS)}"}


def _read_model(entry: Entry, raw: dict[str, t.Any]) -> Model:
    values = _record(entry, (), raw, MODEL_FIELDS, "a model", required=_MODEL_REQUIRED)
    values.setdefault("name", "")
    values.setdefault("kind", "llm")
    profiles = [
        _read_profile(entry, ("profiles", index), item)
        for index, item in enumerate(_list(entry, ("profiles",), raw.get("profiles"), "profiles"))
    ]
    seen: dict[str, int] = {}
    for index, profile in enumerate(profiles):
        first = seen.setdefault(profile.name, index)
        if profile.name and first != index:
            where = entry.where(("profiles", first, "name"))
            message = f"a second profile is called {profile.name}; the first is at {where}"
            entry.error("duplicate", ("profiles", index, "name"), message, "give each profile of a model its own name")
    if profiles:
        values["profiles"] = tuple(profiles)
        if "engines" not in values and entry.good(("engines",)):
            values["engines"] = tuple(dict.fromkeys(profile.engine for profile in profiles))
    elif raw.get("engines") is None:
        entry.error("incomplete", ("engines",), "a model without profiles needs engines", "such as engines: [vllm]")
    elif entry.good(("engines",)) and not values["engines"]:
        entry.error("incomplete", ("engines",), "no engine can serve this model", "such as engines: [vllm]")
    if raw.get("scaling") is not None:
        values["scaling"] = _read_scaling(entry, raw["scaling"])
    if raw.get("slo") is not None:
        values["slo"] = _record(entry, ("slo",), raw["slo"], SLO_FIELDS, "slo")
    if raw.get("memory") is not None:
        values["memory"] = MemoryFacts(**_record(entry, ("memory",), raw["memory"], MEMORY_FIELDS, "memory"))
    return _build(Model, values)


def _build(kind: Callable[..., _V], values: dict[str, t.Any]) -> _V:
    """Make the value that a record was read into; what it needs was looked for when it was read."""
    return kind(**values)


_PROFILE_REQUIRED = {"name": "such as name: rtx-4090"}


def _read_profile(entry: Entry, keys: Keys, raw: t.Any) -> Profile:
    values = _record(entry, keys, raw, PROFILE_FIELDS, "a profile", required=_PROFILE_REQUIRED)
    values.setdefault("name", "")
    total = values.get("tp", 1) * values.get("pp", 1)
    nodes = values.get("nodes", 1)
    per_node = values.get("gpus_per_node")
    if not entry.good(*((*keys, key) for key in ("tp", "pp", "nodes", "gpus_per_node", "gpu_class"))):
        values["gpus_per_node"] = 1
    elif "gpu_class" not in values:
        _check_cpu_profile(entry, keys, values)
        values["gpus_per_node"] = 0
    elif per_node is not None and per_node * nodes != total:
        message = f"gpus_per_node {per_node} x nodes {nodes} is {per_node * nodes}, but tp x pp is {total}"
        entry.error("arithmetic", (*keys, "gpus_per_node"), message, _per_node_remedy(total, nodes))
    elif total % nodes:
        message = f"tp x pp is {total}, which {nodes} nodes cannot share evenly"
        entry.error("arithmetic", (*keys, "nodes"), message, _per_node_remedy(total, nodes))
    else:
        values["gpus_per_node"] = total // nodes
    return _build(Profile, values)


def _per_node_remedy(total: int, nodes: int) -> str:
    if total % nodes == 0:
        return f"leave gpus_per_node out, or write {total // nodes}"
    return f"nodes must divide {total}: {', '.join(str(n) for n in range(1, total + 1) if total % n == 0)}"


def _check_cpu_profile(entry: Entry, keys: Keys, values: Mapping[str, t.Any]) -> None:
    if values.get("gpus_per_node"):
        message = "gpus_per_node asks for GPUs, but there is no gpu_class"
        entry.error(
            "contradiction", (*keys, "gpus_per_node"), message, "name the gpu_class, or leave gpus_per_node out"
        )
    for key in ("tp", "pp"):
        if values.get(key, 1) > 1:
            message = f"{key} {values[key]} splits the model over GPUs, but there is no gpu_class"
            entry.error("contradiction", (*keys, key), message, f"name the gpu_class, or leave {key} out for the CPU")
    if values.get("nodes", 1) > 1:
        message = f"a profile for the CPU cannot span {values['nodes']} nodes"
        entry.error("contradiction", (*keys, "nodes"), message, "name the gpu_class, or leave nodes out")


def _read_scaling(entry: Entry, raw: t.Any) -> Scaling | None:
    values = _record(entry, ("scaling",), raw, SCALING_FIELDS, "scaling")
    _check_idle(entry, ("scaling", "idle_timeout"), values.get("idle_timeout"))
    low = values.get("min", 0)
    high = values.get("max", low)
    if high < low:
        message = f"max {high} is below min {low}"
        entry.error("arithmetic", ("scaling", "max"), message, f"at least {low}, or leave max out")
    return Scaling(min=low, max=high, idle_timeout=values.get("idle_timeout"))


def _check_idle(entry: Entry, keys: Keys, seconds: int | None) -> None:
    if seconds is not None and seconds < MIN_IDLE_SECONDS:
        message = f"an idle timeout of {seconds}s would unload a model between two requests"
        entry.error("too_short", keys, message, "at least 1m; leave it out to keep the model loaded")


_ROLE_REQUIRED = {
    "name": "such as name: llm-large",
    "needs": "such as needs: {engine: vllm, min_vram_gb: 20}",
}
_NEEDS_REQUIRED = {"engine": "such as engine: vllm"}


def _read_role(entry: Entry, raw: dict[str, t.Any]) -> Role:
    values = _record(entry, (), raw, ROLE_FIELDS, "a role", required=_ROLE_REQUIRED)
    values.setdefault("name", "")
    needs: dict[str, t.Any] = {}
    if raw.get("needs") is not None:
        needs = _record(entry, ("needs",), raw["needs"], NEEDS_FIELDS, "needs", required=_NEEDS_REQUIRED)
    needs.setdefault("engine", "")
    values["needs"] = _build(Needs, needs)
    values["slots"] = _read_slots(entry, raw.get("slots"))
    if raw.get("vm") is not None:
        values["vm"] = _record(entry, ("vm",), raw["vm"], VM_FIELDS, "vm")
        if "tags" in values["vm"]:
            values["vm"]["tags"] = list(values["vm"]["tags"])
        if "template" in values["vm"] and "image" in values["vm"]:
            message = "a machine is made from a template or from an image, not from both"
            entry.error("contradiction", ("vm", "image"), message, "remove one of the two")
    return _build(Role, values)


_slot_count = whole(0, MAX_SLOTS)


def _read_slots(entry: Entry, raw: t.Any) -> tuple[Slot, ...]:
    if isinstance(raw, (int, float)) and not isinstance(raw, bool):
        try:
            return tuple(Slot(name=f"slot{index}") for index in range(_slot_count(raw) or 0))
        except WrongValueError as exc:
            for _below, message, remedy in exc.findings:
                entry.error("wrong_value", ("slots",), message, remedy)
            return ()
    slots: list[Slot] = []
    items = _list(entry, ("slots",), raw, "slots")
    if len(items) > MAX_SLOTS:
        entry.error("wrong_value", ("slots",), f"{len(items)} slots are too many", f"at most {MAX_SLOTS}")
    for index, item in enumerate(items[:MAX_SLOTS]):
        keys: Keys = ("slots", index)
        named = {"name": item} if isinstance(item, str) else item
        values = _record(
            entry, keys, named, SLOT_FIELDS, "a slot", required={"name": "such as {name: chat, model: qwen3-32b}"}
        )
        slots.append(Slot(name=values.get("name", ""), model=values.get("model")))
        if slots[-1].name and any(slot.name == slots[-1].name for slot in slots[:-1]):
            below = () if isinstance(item, str) else ("name",)
            message = f"a second slot is called {slots[-1].name}"
            entry.error("duplicate", (*keys, *below), message, "give each slot of a role its own name")
    return tuple(slots)


def _read_gpu(entry: Entry, raw: dict[str, t.Any]) -> GpuClass | None:
    values = _record(entry, (), raw, GPU_FIELDS, "a GPU class", required={"name": "such as name: rtx-4000-ada"})
    sizes = raw.get("memory_gb")
    found: list[float] = []
    for index, size in enumerate(sizes if isinstance(sizes, (list, tuple)) else () if sizes is None else (sizes,)):
        try:
            read = _gb(size)
        except WrongValueError as exc:
            below: Keys = (index,) if isinstance(sizes, (list, tuple)) else ()
            for _keys, message, remedy in exc.findings:
                entry.error("wrong_value", ("memory_gb", *below), message, remedy)
        else:
            found += [] if read is None else [read]
    values["memory_gb"] = tuple(sorted(set(found)))
    return _build(GpuClass, values) if "name" in values else None


def _read_engine(entry: Entry, raw: dict[str, t.Any]) -> Engine | None:
    values = _record(entry, (), raw, ENGINE_FIELDS, "an engine", required={"name": "such as name: my-engine"})
    windows: dict[str, CapWindow] = {}
    if raw.get("quantizations") is not None:
        kinds = raw["quantizations"]
        _record(entry, ("quantizations",), kinds, dict.fromkeys(QUANTIZATIONS), "quantizations")
        for kind, window in kinds.items() if isinstance(kinds, dict) else ():
            if kind in QUANTIZATIONS and window is not None:
                keys: Keys = ("quantizations", kind)
                read = _record(entry, keys, window, WINDOW_FIELDS, "a range of capabilities")
                windows[kind] = CapWindow(low=read.get("min_cc"), high=read.get("max_cc"))
    values["quantizations"] = windows
    low, high = values.get("min_cc"), values.get("max_cc")
    if low and high and low > high:
        entry.error("contradiction", ("max_cc",), "max_cc is below min_cc", "raise max_cc or lower min_cc")
    return _build(Engine, values) if "name" in values else None


def _check_twice(named: Iterable[tuple[Entry, t.Any]]) -> None:
    seen: dict[str, Entry] = {}
    for entry, name in named:
        if isinstance(name, str) and (first := seen.setdefault(name, entry)) is not entry:
            message = f"a second entry is called {name}; the first is at {first.where(('name',))}"
            entry.error("duplicate", ("name",), message, "remove one of the two, or give it another name")
