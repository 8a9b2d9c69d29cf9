# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""A fleet whose every name means harm, and one whose names are like those in a catalog, as slot documents.

Names like these cannot come from a checked catalog; a plan or slots that somebody else made may hold them.
"""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
    Catalog,
    Model,
    Needs,
    Profile,
    Role,
    Scaling,
    Slot,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.names import (
    ends_in_number,
    node_host,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.slots import make_slots

HOSTILE = (
    "../../etc/x",
    "/etc/passwd",
    "..",
    ".hidden",
    "{{ 7*7 }}",
    "{% raw %}",
    "<script>alert(1)</script>",
    ": - #",
    "a\nb: c",
    "\r\nX-Header: 1",
    "x" * 300,
    "\u202eabc\u202d",
    "\u2028\u2029\x85",
    "$(touch /tmp/owned)",
    "`id`",
    "${PATH}",
    "$PATH $$ %h %% %",
    "'; rm -rf / #",
    '"quoted" \\ back\\nslash',
    "a,b=c",
    "~root",
    "--help",
    "-rf",
    "\ud800",
    "\x01\x1b[31m\x7f",
    "null",
    "true",
    "0x10",
    "*",
    "&a *a !!python/object",
    "@file",
    "日本語",
    "Ⅷ",
    "os.environ/HOME",
    "${env.HOME}",
    "{{env `HOME`}}",
    " lead and trail ",
    "\t",
)

_CARD = {"uuid": "GPU-1", "gpu_class": "l40s", "memory_gb": 48, "compute_cap": 8.9}
ENGINES = ("vllm", "sglang", "llamacpp", "tei", "infinity", "sim", "custom")


def kind_of(engine: str, number: int) -> str:
    """What an engine of the fleet serves."""
    if engine in ("tei", "infinity"):
        return ("embedding", "reranker")[number % 2]
    return "llm"


def apart(names: t.Iterable[str]) -> list[str]:
    """Return the names without those whose nodes would be the host of another or a number, which is refused."""
    found: list[str] = []
    taken: set[str] = set()
    for name in names:
        hosts = {node_host(f"{name}{end}").lower() for end in ("", "0", "1")}
        if len(hosts) == 3 and not hosts & taken and not any(ends_in_number(host) for host in hosts):
            found.append(name)
            taken |= hosts
    return found


def fleet(names: t.Sequence[str] = HOSTILE, *, domain: str = "", bare_metal: bool = False) -> list[dict[str, t.Any]]:
    """Slots of roles and of models, on one node and on several, with and without GPUs, all named so."""
    models: list[Model] = []
    roles: list[Role] = []
    assignments: list[dict[str, t.Any]] = []
    replicas: list[dict[str, t.Any]] = []
    for number, name in enumerate(names):
        engine = ENGINES[number % len(ENGINES)]
        other = names[(number + 1) % len(names)]
        spans = engine in ("vllm", "sglang", "llamacpp") and number % 2 == 0
        profile = Profile(
            name=name,
            engine=engine,
            gpu_class="l40s",
            tp=2,
            pp=2 if spans else 1,
            nodes=2 if spans else 1,
            gpus_per_node=2,
            args=tuple(
                word
                for word in ("--seed", name.replace("\n", " "), "--opt=x", "--rope-scaling", '{"a": "$x%y"}')
                if word
            ),
            env={"TZ": name, "HF_TOKEN": "hf_secret", "MY_API_KEY": "secret"},
            startup_timeout=1800,
        )
        models.append(
            Model(
                name=name,
                kind=kind_of(engine, number // len(ENGINES)),
                source=("org/name@main", "/models/a b", "org/name", "org/name:Q4_K_M")[number % 3],
                description=f"{name} - {other}",
                aliases=(f"alias {name}",),
                fallbacks=(other,),
                routing_profile=name,
                slo={"ttft_p99": 500, "tpot_p99": 50},
                context=131072,
                context_length=32768,
                max_output=4096,
                capabilities=("tools", "vision", name),
                lora=True,
                license=name,
                profiles=(profile,),
                scaling=Scaling(min=0, max=1, idle_timeout=600),
            )
        )
        shards = [
            {
                "rank": rank,
                "node": f"{name}{rank}",
                "gpu_indices": [0, 1],
                "gpus": [dict(_CARD), {**_CARD, "uuid": "GPU-2"}],
                "vm": f"{name}-0-{rank}",
            }
            for rank in range(profile.nodes)
        ]
        shards[0]["slots"] = [name]
        replica = {
            "id": f"{name}-0",
            "model": name,
            "replica": 0,
            "engine": engine,
            "profile": name,
            "fingerprint": "0" * 16,
            "shards": shards,
        }
        if spans:
            replica["fabric"] = name
        replicas.append(replica)
        slots = (Slot(name="first", model=name), Slot(name=name))
        roles.append(Role(name=name, needs=Needs(engine=engine), slots=slots))
        seat: dict[str, t.Any] = {"role": name, "replica": 0, "node": name}
        if number % 3:
            seat |= {"gpu_index": 0, "gpu": dict(_CARD)}
        seat |= {
            "engine": engine,
            "models_fitting": [name, other],
            "slots": [slot.name for slot in slots],
            "fingerprint": "1" * 16,
            "vm": f"{name}-0",
        }
        assignments.append(seat)
    plan = {"version": 1, "assignments": assignments, "replicas": replicas}
    known = Catalog(models=tuple(models), roles=tuple(roles))
    return make_slots(plan, known, registry_domain=domain, bare_metal=bare_metal)


KIND_NAMES = tuple(
    f"{word}-{size}b" for word in ("qwen", "llama", "gemma", "phi", "bge", "mistral") for size in (1, 4, 8)
)
