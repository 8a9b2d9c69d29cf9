# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Fleets and observations for tests of the report, and a reader of its HTML."""

from __future__ import annotations

import json
from html.parser import HTMLParser

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.what_if import what_if_lost
from ansible_collections.knaster.inventory.plugins.plugin_utils._report.page import render_report
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.inputs import read_inputs
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.summary import summarise
from ansible_collections.knaster.inventory.tests.peers import documents

HOSTILE = (
    "../../etc/x",
    "{{ 7*7 }}",
    "{% raw %}",
    "<script>window.pwned=1</script>",
    "</script><script>window.pwned=2</script>",
    "<!--<script>",
    '"><img src=x onerror=window.pwned=3>',
    "' onmouseover='window.pwned=4",
    ": - #",
    "line\nbreak\r\tand tab",
    "x" * 300,
    "\u202ertl\u200f \u2067marks",
    "\u2028\u2029",
    "half \ud800 pair \x00 nul \x7f",
    "&lt;b&gt; &amp;amp;",
    "${window.pwned=5}`",
    "javascript:window.pwned=6",
    "__proto__",
)
FRAME = {"cpu": {"model": "EPYC", "cores": 8, "threads": 16}, "memory_gb": 256, "memory_mib": 257000, "disks": []}


def card(index, gpu_class, size, cap=8.9, **more):
    gpu = {
        "index": index,
        "name": f"Card {gpu_class}",
        "gpu_class": gpu_class,
        "vendor": "nvidia",
        "memory_gb": size,
        "memory_mib": size * 1000,
        "compute_cap": cap,
        "driver": "580.1",
        "pci": {"address": f"0000:{index + 1:02x}:00.0"},
    }
    return gpu | more


def node(name, *cards, **more):
    for each in cards:
        each.setdefault("uuid", f"GPU-{name}-{each['index']}")
    return {"name": name, **FRAME, "gpus": list(cards), "fabrics": [], "labels": {}, "weights": None} | more


def role(name, vram, **more):
    return {"name": name, "needs": {"engine": "vllm", "min_vram_gb": vram}, "count": 1} | more


def model(name, vram, gpu_class, tp, **more):
    made = {"name": name, "kind": "llm", "vram_gb": vram, "engines": ["vllm"], "source": f"org/{name}"}
    made["profiles"] = [{"name": f"tp{tp}", "engine": "vllm", "gpu_class": gpu_class, "tp": tp}]
    return made | {"scaling": {"min": 1}} | more


def observed(name, one, state="ready", **more):
    made = {
        "id": name,
        "role": one["role"],
        "state": state,
        "idle_seconds": 30,
        "running": 1,
        "waiting": 0,
        "served_model": "small-llm",
        "drift": "current",
        "shards": [{"node": one["node"], "gpu_indices": [one["gpu_index"]]}],
    }
    return documents.observed(made | more)


class Fleet:
    """Everything that a report is made of. Values can be exchanged before it is rendered."""

    def __init__(self, nodes, roles, models=()):
        self.nodes = nodes
        self.catalog = check_catalog(list(models), list(roles)).catalog
        self.plan = plan(nodes, self.catalog.roles, self.catalog.models, engines=self.catalog.engines)
        self.replicas = []
        self.previous = None
        self.losses = None
        self.title = "Test fleet"

    def lose_each(self):
        self.losses = what_if_lost(
            self.plan, self.nodes, self.catalog.roles, self.catalog.models, engines=self.catalog.engines
        )
        return self

    @property
    def inputs(self):
        return read_inputs(self.nodes, self.plan, self.replicas, self.catalog)

    @property
    def summary(self):
        return summarise(self.inputs)

    def page(self):
        return render_report(self.inputs, self.summary, previous=self.previous, losses=self.losses, title=self.title)


def mixed():
    """Every state of a GPU and of a node, two fabrics, something refused, something observed."""
    nodes = [
        node("big-1", *(card(at, "h100", 80, 9.0) for at in range(8)), fabrics=["ib-a"], labels={"rack": "r1"}),
        node("big-2", *(card(at, "h100", 80, 9.0) for at in range(8)), fabrics=["ib-b"], labels={"rack": "r1"}),
        node(
            "mid-1",
            card(0, "l40s", 48),
            card(1, "l40s", 48, healthy=False, health={"code": "gpu_lost", "text": "fell off the bus"}),
            card(2, "l40s", 48, holder={"kind": "vm", "id": 104, "name": "other", "ours": False}),
            card(3, "l40s", 48, healthy=None),
            labels={"rack": "r2"},
            notes=["nvidia-smi: one GPU is lost"],
            weights=[{"name": "org/small-llm", "path": "/models/small-llm", "size_gb": 9, "shared": False}],
        ),
        node("mid-2", card(0, "l40s", 48), state="cordoned", labels={"rack": "r2"}),
        node("mid-10", card(0, "l40s", 48), labels={"rack": "r2"}),
        node("cpu-1", labels={"rack": "r2"}),
        {"name": "gone-1", "state": "unreachable", "gpus": None},
    ]
    roles = [
        role("chat", 40, count=2, priority=10),
        role("huge", 200, count=2, priority=20),
        role("gateway", 0, priority=30, needs={"engine": "llamacpp", "gpu": False}),
    ]
    models = [model("small-llm", 20, "l40s", 1, scaling={"min": 0, "max": 2}), model("large-llm", 500, "h100", 8)]
    fleet = Fleet(nodes, roles, models)
    chats = [one for one in fleet.plan["assignments"] if one["role"] == "chat"]
    fleet.replicas = [
        observed("chat.0.main", chats[0], idle_seconds=7300),
        observed("chat.1.main", chats[1], "failed", reason="connection refused", drift="stale", fingerprint="0" * 16),
    ]
    return fleet.lose_each()


IDLE = {0: 599, 1: 600, 2: 3599, 3: 48 * 3600 - 1, 4: 48 * 3600}


def racks(count):
    """So many nodes with a GPU each in racks whose names read alike; one GPU broke in use, the idle times are at limits."""
    nodes = [node(f"n{at}", card(0, "l40s", 48), labels={"rack": "r01" if at % 2 else "r1"}) for at in range(count)]
    fleet = Fleet(nodes, [role("chat", 40, count=count)])
    nodes[5]["gpus"][0]["healthy"] = False
    fleet.plan["ledger"][5]["healthy"] = False
    for one in fleet.plan["assignments"]:
        at = int(one["node"].removeprefix("n"))
        if at in IDLE:
            fleet.replicas.append(observed(f"chat.{one['replica']}.main", one, idle_seconds=IDLE[at]))
    return fleet


def identity(name):
    """A name that has bytes, as the planner wants of what tells a GPU."""
    return name.encode(errors="replace").decode()


def hostile():
    """The same names everywhere that a name can come from data."""
    nodes = [
        node(
            name,
            card(0, name, 48, uuid=identity(name), name=name, driver=name, pci={"address": identity(name)}),
            card(1, name, 48, healthy=False, health={"code": "x", "text": name}, uuid=f"{at}b"),
            card(2, name, 48, holder={"kind": name, "id": name, "name": name, "ours": False}, uuid=f"{at}c"),
            fabrics=[name],
            labels={name: name},
            notes=[name],
            hostname=f"host {name}",
            cpu={"model": name, "cores": 4, "threads": 8},
            disks=[{"name": name, "size_gb": 1, "rotational": False}],
            storage=[{"path": name, "fstype": name, "shared": False, "free_gb": 5}],
            weights=[{"name": name, "path": name, "size_gb": 1, "shared": True}],
        )
        for at, name in enumerate(HOSTILE)
    ]
    fleet = Fleet(nodes, [role("chat", 40, count=len(HOSTILE)), role("huge", 900)], [model("m", 20, "l40s", 1)])
    text = json.dumps(fleet.plan)
    # Names of roles and models are checked by the catalog; a plan of another origin may hold anything.
    fleet.plan = json.loads(text)
    fleet.previous = json.loads(text)
    for at, one in enumerate(fleet.plan["assignments"]):
        name = HOSTILE[at]
        one |= {"role": name, "engine": name, "vm": name, "models_fitting": [name], "why": {"rule": "x", "text": name}}
        for row in fleet.plan["ledger"]:
            if row.get("by") == f"chat/{one['replica']}":
                row["by"] = f"{name}/{one['replica']}"
    refusal = fleet.plan["unplaced"][0]
    fleet.plan["unplaced"] = [
        refusal
        | {
            "role": name,
            "reason": name,
            "what_would_help": [{"change": {}, "verified": False, "text": name}],
            "bottleneck": {"roles": [name], "wanted": 2, "gpu_count": 1, "gpus": [{"node": name, "gpu_index": 0}]},
            "nearest": {"node": name, "gpu_index": 0, "code": "vram", "need": name, "have": 1, "blocked_by": name},
        }
        for name in HOSTILE
    ]
    fleet.plan["on_demand"] = [{"model": name, "could_place": 1} for name in HOSTILE]
    fleet.plan["off"] = list(HOSTILE)
    fleet.replicas = [
        observed(
            name,
            one,
            "failed",
            reason=name,
            served_model=name,
            model=name,
            drift="stale",
            simulated=True,
            shards=[{"node": one["node"], "gpu_indices": [0]}],
        )
        for name, one in zip(HOSTILE, fleet.plan["assignments"], strict=True)
    ]
    fleet.losses = [
        {
            "nodes": [name],
            "hit": [name],
            "moves": [],
            "short": [{"name": name, "missing": 1, "before": 0}],
            "copy_gb": 0,
            "copy_unknown": 0,
            "survives": False,
            "text": f"{name}: no, short of 1 {name}",
        }
        for name in HOSTILE
    ]
    fleet.title = "".join(HOSTILE)
    return fleet


class Page(HTMLParser):
    """What a parser sees: elements with attributes, texts by element, numbers by key."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements = []
        self.texts = []
        self.numbers = {}
        self.islands = []
        self.styles = []
        self.scripts = []
        self._open = []
        self._inside = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        values = dict(attrs)
        if tag == "data":
            self.numbers.setdefault(values["data-key"], []).append(int(values["value"]))
            self._open.append((values["value"], len(self.texts)))
        if tag in ("script", "style"):
            kind = "json" if values.get("type") == "application/json" else tag
            self._inside = {"json": self.islands, "script": self.scripts, "style": self.styles}[kind]
            self._inside.append("")

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self._inside = None
        if tag == "data":
            value, start = self._open.pop()
            shown = "".join(self.texts[start:])
            if shown != f"{int(value):,}":
                raise ValueError(f"{value} is shown as {shown}")

    def handle_data(self, data):
        if self._inside is not None:
            self._inside[-1] += data
        else:
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    @property
    def data(self):
        return json.loads(self.islands[0])
