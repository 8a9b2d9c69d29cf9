# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""A plan, a catalog and machines as slot documents."""

from __future__ import annotations

import copy
import dataclasses
import json
import sys
from pathlib import Path

import jsonschema
import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Model, Profile
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.plain import plain
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import find_violations, schema_text
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.yaml_text import dump_document
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.definitions import make_definitions
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.names import (
    MAX_ID,
    SLOT_ID,
    SlotKey,
    group_names,
    node_host,
    slot_ids,
    slug,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.secrets import (
    is_secret_name,
    public_args,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.slots import (
    MODEL_FIELDS,
    make_slots,
    static_address,
)
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "peers"))
from slots import HOSTILE, KIND_NAMES, apart, fleet

SCHEMA = json.loads(schema_text("slot"))

CHAT = {
    "name": "qwen3-8b",
    "kind": "llm",
    "vram_gb": 16,
    "min_cc": 8.0,
    "engines": ["vllm", "llamacpp"],
    "context": 40960,
    "lora": True,
    "aliases": ["qwen"],
    "description": "an 8B model",
    "source": "Qwen/Qwen3-8B",
    "profiles": [
        {
            "name": "l4",
            "gpu_class": "l4",
            "priority": 1,
            "args": ["--api-key", "sesame", "--seed", "1", "--hf-token=hf_x"],
            "env": {"HF_TOKEN": "hf_x", "PLAIN": "yes"},
            "weight": 3,
            "startup_timeout": "5m",
        },
        {"name": "l4-tp2", "gpu_class": "l4", "tp": 2, "priority": 9},
        {"name": "cpu", "engine": "llamacpp"},
    ],
    "scaling": {"min": 0, "max": 2, "idle_timeout": "30m"},
    "fallbacks": ["tiny"],
    "routing_profile": "fast",
    "slo": {"ttft_p99": 500},
    "context_length": 16384,
    "max_output": 2048,
    "capabilities": ["tools"],
    "license": "apache-2.0",
    "quantization": "bf16",
    "memory": {"weights_gib": 15.3},
    "source_note": "x",
}
SMALL = {"name": "tiny-1b", "kind": "llm", "vram_gb": 3, "engines": ["vllm", "llamacpp"], "aliases": ["tiny"]}
CARD = {"uuid": "GPU-a", "pci_address": "0000:01:00.0", "gpu_class": "l4", "memory_gb": 24, "compute_cap": 8.9}


TOOLS = ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]


def catalog(*roles, models=(CHAT, SMALL), **more):
    return check_catalog([*models], [*roles], **more).catalog


def role(name="chat", engine="vllm", slots=({"name": "main", "model": "qwen"},), **more):
    return {
        "name": name,
        "needs": {"engine": engine, **({"gpu": False} if engine == "llamacpp" else {})},
        "slots": list(slots),
        **more,
    }


def seat(name="chat", engine="vllm", slots=("main",), *, node="n1", card=True, **more):
    where = {"gpu_index": 0, "gpu": dict(CARD)} if card else {}
    made = {"role": name, "replica": 0, "node": node, **where, "engine": engine, "models_fitting": ["qwen3-8b"]}
    return {**made, "slots": list(slots), "fingerprint": "0" * 16, "vm": f"{name}-0", **more}


def replica(shards=1, model="qwen3-8b", engine="vllm", **more):
    parts = [
        {
            "rank": rank,
            "node": f"n{rank + 1}",
            "gpu_indices": [2, 3],
            "gpus": [dict(CARD)] * 2,
            "vm": f"{model}-0" + (f"-{rank}" if shards > 1 else ""),
        }
        for rank in range(shards)
    ]
    parts[0]["slots"] = [model]
    return {
        "id": f"{model}-0",
        "model": model,
        "replica": 0,
        "engine": engine,
        "profile": "l4-tp2",
        "fingerprint": "1" * 16,
        "shards": parts,
        **more,
    }


def slots_of(*seats, replicas=(), known=None, vms=(), **more):
    given = known or catalog(role())
    return make_slots({"assignments": [*seats], "replicas": [*replicas]}, given, vms, **more)


def test_a_slot_tells_where_it_is_and_what_it_serves():
    (slot,) = slots_of(seat())
    assert list(slot)[:10] == [
        "version",
        "managed_by",
        "slot",
        "name",
        "role",
        "replica",
        "node",
        "vm",
        "gpus",
        "engine",
    ]
    assert slot["slot"] == "chat.0.main"
    assert slot["vm"] == {"name": "chat-0"}
    assert slot["gpus"] == [
        {"index": 0, "uuid": "GPU-a", "vendor": "nvidia", "gpu_class": "l4", "memory_gb": 24, "compute_cap": 8.9}
    ]
    assert slot["endpoint"] == "http://chat-0:8000"
    assert slot["model"] == "qwen3-8b"
    assert slot["profile"]["name"] == "l4"
    assert "memory_fraction" not in slot
    assert "fabric" not in slot


def test_what_belongs_to_the_model_holds_on_every_gpu():
    """A role's slot on a class of GPUs for which the model has no profile has the arguments of the model, and its own."""
    model = {**CHAT, "engine_args": {"vllm": ["--max-num-seqs", "64", "--seed", "7"]}}
    slots = ({"name": "main", "model": "qwen", "args": ["--max-num-seqs", "2"]},)
    known = catalog(role(slots=slots), models=(model, SMALL))
    other = {**CARD, "gpu_class": "l40s"}
    (slot,) = slots_of(seat(gpu=other), known=known)
    args = ["--max-num-seqs", "2", "--seed", "7", *TOOLS]
    assert slot["profile"] == {"name": "main", "gpu_class": "l40s", "args": args}
    assert slot["capabilities"] == ["tools"]
    (slot,) = slots_of(seat(), known=known)
    assert slot["profile"]["args"] == ["--max-num-seqs", "2", "--seed", "1", *TOOLS]


def test_what_the_command_does_not_switch_on_is_not_told():
    model = {
        **CHAT,
        "capabilities": ["tools", "audio"],
        "source": "/models/own",
        "name": "own",
        "aliases": ["qwen"],
        "profiles": [],
    }
    known = catalog(role(), models=({**model, "scaling": None}, SMALL))
    (slot,) = slots_of(seat(), known=known)
    assert slot["capabilities"] == ["audio"]
    assert "profile" not in slot
    known = catalog(role(), models=({**model, "scaling": None, "capabilities": ["tools"]}, SMALL))
    assert "capabilities" not in slots_of(seat(), known=known)[0]


def test_every_field_of_the_catalog_reaches_the_slot_or_is_only_of_placement():
    (slot,) = slots_of(seat())
    told = {**CHAT, "slo": {"ttft_p99": 500}}
    for name in MODEL_FIELDS:
        assert slot[name] == told[name], name
    assert slot["fallbacks"] == ["tiny-1b"]
    assert (slot["idle_timeout"], slot["startup_timeout"], slot["weight"]) == (1800, 300, 3)
    of_placement = {"vram_gb", "min_cc", "engines", "memory", "placement_priority", "source_note", "spread", "per_node"}
    of_placement.add("sequences")
    elsewhere = {"name", "profiles", "scaling", "fallbacks", "engine_args"}
    assert {field.name for field in dataclasses.fields(Model)} == {*MODEL_FIELDS, *of_placement, *elsewhere}
    found_out = {"rank", "found"}
    written = {field.name for field in dataclasses.fields(Profile)} - found_out
    assert written <= set(SCHEMA["properties"]["profile"]["properties"])


def test_no_secret_is_told():
    (slot,) = slots_of(seat())
    assert slot["profile"]["env"] == {"HF_TOKEN": "${HF_TOKEN}", "PLAIN": "yes"}
    assert slot["profile"]["args"] == ["--seed", "1", *TOOLS]
    assert "sesame" not in dump_document(slot)
    assert "hf_x" not in dump_document(slot)


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("HF_TOKEN", True),
        ("VLLM_API_KEY", True),
        ("KEY", True),
        ("db_password", True),
        ("AWS_SECRET", True),
        ("MAX_TOKENS", False),
        ("KEYS", False),
        ("MONKEY", False),
    ],
)
def test_names_of_secrets(name, secret):
    assert is_secret_name(name) is secret


def test_options_that_only_sound_like_secrets_stay():
    words = [
        "--tokenizer",
        "x",
        "--max-num-batched-tokens",
        "8192",
        "--api-key-file",
        "/run/key",
        "--tool-call-parser",
        "a",
    ]
    assert public_args(words) == words
    assert public_args(["--api_key", "a", "--admin-api-key=b", "-x"]) == ["-x"]


@pytest.mark.parametrize(
    ("config", "address"),
    [
        ({"ipconfig0": "ip=10.0.0.5/24,gw=10.0.0.1"}, "10.0.0.5"),
        ({"ipconfig0": "ip=dhcp"}, None),
        ({"ipconfig0": "ip=dhcp,ip6=auto", "ipconfig10": "ip=10.1.0.1/8", "ipconfig2": "ip=10.2.0.1/8"}, "10.2.0.1"),
        ({"ipconfig0": "gw6=fd00::1,ip6=fd00::5/64"}, "[fd00::5]"),
        ({"ipconfig0": "ip6=fd00::5/64", "ipconfig1": "ip=10.0.0.5/24"}, "10.0.0.5"),
        ({"ipconfig0": "ip=evil;rm/24"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_static_address(config, address):
    assert static_address(config) == address


def test_the_machine_gives_number_and_address():
    vm = {
        "vmid": 9101,
        "name": "chat-0",
        "node": "n1",
        "role": "chat",
        "replica": 0,
        "config": {"ipconfig0": "ip=10.0.0.5/24"},
    }
    (slot,) = slots_of(seat(), vms=[vm], registry_domain="gpu.example")
    assert slot["vm"] == {"vmid": 9101, "name": "chat-0"}
    assert slot["endpoint"] == "http://10.0.0.5:8000"
    (slot,) = slots_of(seat(), vms=[{**vm, "config": {"ipconfig0": "ip=dhcp"}}], registry_domain=".gpu.example.")
    assert slot["endpoint"] == "http://chat-0.gpu.example:8000"
    (slot,) = slots_of(seat(), vms=[{**vm, "node": "n2"}])
    assert slot["vm"] == {"name": "chat-0"}


def test_machines_by_the_plans_name_where_several_roles_share_one():
    vm = {"vmid": 9102, "name": "desk-0", "node": "n1", "role": "chat", "roles": ["chat", "embed"], "replica": 0}
    together = {"group": "desk", "with": [], "memory_fraction": 0.41}
    chat = seat(vm="desk-0", colocate=together, slots=("main", "b"))
    embed = seat("embed", "tei", ("e",), vm="desk-0", colocate={**together, "memory_fraction": 0.5})
    found = slots_of(chat, embed, known=catalog(role(), role("embed", "tei", ("e",))), vms=[vm])
    assert [slot["vm"]["vmid"] for slot in found] == [9102] * 3
    assert [slot["endpoint"] for slot in found] == ["http://desk-0:8000", "http://desk-0:8001", "http://desk-0:3002"]
    assert [slot["memory_fraction"] for slot in found] == [0.2, 0.2, 0.5]


def test_slots_of_one_machine_share_its_card():
    found = slots_of(seat(slots=("a", "b", "c")))
    assert [slot["memory_fraction"] for slot in found] == [0.3, 0.3, 0.3]
    found = slots_of(seat(slots=("a", "b"), card=False))
    assert ["memory_fraction" in slot for slot in found] == [False, False]


def test_a_port_that_is_taken_in_the_machine_is_passed_over():
    own = {"name": "mine", "default_port": 7999, "kinds": ["llm"]}
    known = catalog(role(), role("b", "mine", ("x",)), engines=[own])
    found = slots_of(seat(vm="v"), seat("b", "mine", ("x", "y"), vm="v"), known=known)
    assert [slot["endpoint"] for slot in found] == ["http://v:8000", "http://v:8001", "http://v:8002"]


def test_an_engine_without_a_port_has_no_endpoint():
    known = catalog(role("b", "mine", ("x",)), engines=[{"name": "mine", "kinds": ["llm"]}])
    (slot,) = slots_of(seat("b", "mine", ("x",)), known=known)
    assert "endpoint" not in slot
    assert "paths" not in slot


def test_a_port_that_can_not_be():
    known = catalog(role("b", "mine", ("x", "y")), engines=[{"name": "mine", "default_port": 65535, "kinds": ["llm"]}])
    with pytest.raises(InputError, match="there is no port 65536; give mine a lower default_port"):
        slots_of(seat("b", "mine", ("x", "y")), known=known)


def test_a_replica_over_several_nodes_has_one_slot_at_rank_0():
    vms = [
        {
            "vmid": 9000 + rank,
            "name": f"qwen3-8b-0-{rank}",
            "node": f"n{rank + 1}",
            "model": "qwen3-8b",
            "replica": 0,
            "shard": rank,
            "config": {"ipconfig0": f"ip=10.0.0.{rank + 1}/24"},
        }
        for rank in range(2)
    ]
    (slot,) = slots_of(replicas=[replica(2, fabric="ib-a")], vms=vms)
    assert slot["slot"] == "qwen3-8b.0.qwen3-8b"
    assert (slot["node"], slot["fabric"], slot["nodes"]) == ("n1", "ib-a", ["n1", "n2"])
    assert slot["replica_of"] == slot["model"] == "qwen3-8b"
    assert "role" not in slot
    assert slot["endpoint"] == "http://10.0.0.1:8000"
    assert [(one["rank"], one["vm"]["vmid"], one["host"]) for one in slot["shards"]] == [
        (0, 9000, "10.0.0.1"),
        (1, 9001, "10.0.0.2"),
    ]
    assert [gpu["index"] for gpu in slot["gpus"]] == [2, 3]
    assert slot["profile"] == {"name": "l4-tp2", "gpu_class": "l4", "tp": 2, "priority": 9, "args": TOOLS}


def test_a_replica_on_one_node_has_no_list_of_nodes():
    (slot,) = slots_of(replicas=[replica()])
    assert "nodes" not in slot
    assert slot["vm"] == {"name": "qwen3-8b-0"}


# --- on bare metal


def test_on_bare_metal_the_node_is_the_machine():
    vm = {"vmid": 9101, "name": "chat-0", "node": "n1", "config": {"ipconfig0": "ip=10.0.0.5/24"}}
    (slot,) = slots_of(seat(), vms=[vm], bare_metal=True)
    assert "vm" not in slot
    assert slot["bare_metal"] is True
    assert slot["endpoint"] == "http://n1:8000"
    (slot,) = slots_of(seat())
    assert "bare_metal" not in slot


@pytest.mark.parametrize(
    ("node", "host", "url"),
    [
        ("gpu-7", "gpu-7", "gpu-7.gpu.example"),
        ("GPU7", "GPU7", "GPU7.gpu.example"),
        ("gpu7.lan", "gpu7.lan", "gpu7.lan"),
        ("10.0.0.7", "10.0.0.7", "10.0.0.7"),
        ("fd00::7", "fd00::7", "[fd00::7]"),
        ("[fd00::7]", "fd00-7", "fd00-7.gpu.example"),
        ("fe80::1%eth0", "fe80-1-eth0", "fe80-1-eth0.gpu.example"),
        ("10.0.0.700", "10-0-0-700", "10-0-0-700.gpu.example"),
        ("rack.0x1f", "rack-0x1f", "rack-0x1f.gpu.example"),
        ("rack_1", "rack-1", "rack-1.gpu.example"),
        ("a..b", "a-b", "a-b.gpu.example"),
        ("-a.b", "a-b", "a-b.gpu.example"),
        ("a.lan\n", "a-lan", "a-lan.gpu.example"),
        ("x" * 64 + ".lan", None, None),
    ],
)
def test_the_host_of_a_node(node, host, url):
    (slot,) = slots_of(seat(node=node), bare_metal=True, registry_domain="gpu.example")
    assert slot["node"] == node
    if host is None:
        host = node_host(node)
        assert len(host) == 63
        assert "." not in host
        url = f"{host}.gpu.example"
    assert node_host(node) == host
    assert slot["endpoint"] == f"http://{url}:8000"
    jsonschema.Draft202012Validator(SCHEMA).validate(slot)


def test_two_nodes_that_would_be_one_host_are_told():
    seats = [seat(node="rack_1"), seat("b", node="Rack-1"), seat("c", node="rack_1"), seat("d", node="RACK_1")]
    with pytest.raises(InputError) as caught:
        slots_of(*seats, bare_metal=True)
    assert caught.value.errors == (
        "plan: the nodes 'rack_1' and 'Rack-1' would both be reached as Rack-1; rename one of them",
        "plan: the nodes 'rack_1' and 'RACK_1' would both be reached as rack-1; rename one of them",
    )
    assert len(slots_of(*seats)) == 4


def test_a_node_whose_host_would_be_read_as_an_address_is_told():
    with pytest.raises(
        InputError, match=r"plan: the node '_7' would be reached as 7, which is an address; set registry"
    ):
        slots_of(seat(node="_7", slots=("a", "b")), bare_metal=True)
    (slot,) = slots_of(seat(node="7"), bare_metal=True, registry_domain="gpu.example")
    assert slot["endpoint"] == "http://7.gpu.example:8000"


def test_ports_are_one_of_a_kind_on_a_node():
    seats = [seat(slots=("main", "b")), seat("embed", "tei", ("e",)), seat("other", slots=("x",)), seat("n", node="n2")]
    known = catalog(role(), role("embed", "tei", ("e",)), role("other", slots=("x",)), role("n"))
    found = slots_of(*seats, replicas=[replica(), replica(2, engine="sglang", replica=1)], known=known, bare_metal=True)
    assert [slot["endpoint"] for slot in found] == [
        "http://n1:8000",
        "http://n1:8001",
        "http://n1:3002",
        "http://n1:8003",
        "http://n2:8000",
        "http://n1:8004",
        "http://n1:30005",
    ]


def test_parts_of_replicas_meet_at_ports_that_are_free_on_all_their_nodes():
    wide = [replica(2, replica=number) for number in range(2)]
    apart = replica(2, replica=2)
    for number, part in enumerate(apart["shards"], start=2):
        part["node"] = f"n{number}"
    far = replica(2, "tiny-1b", "sglang")
    for part in far["shards"]:
        part["node"] += "-far"
    found = slots_of(replicas=[*wide, apart, far], bare_metal=True)
    assert [slot["rendezvous_port"] for slot in found] == [6379, 6380, 6381, 20000]
    assert all("vm" not in part and part["host"] == part["node"] for slot in found for part in slot["shards"])
    card = {"uuid": "GPU-a", "vendor": "nvidia", "gpu_class": "l4", "memory_gb": 24, "compute_cap": 8.9}
    assert [part["gpus"] for part in found[0]["shards"]] == [[{"index": 2, **card}, {"index": 3, **card}]] * 2
    (slot,) = slots_of(replicas=[replica(2)])
    assert "rendezvous_port" not in slot
    assert "gpus" not in slot["shards"][0]


def test_the_maker_of_a_card_of_the_catalogs_own_class_is_told():
    own = {"name": "b70", "names": ["Intel B70"], "vendor": "intel", "memory_gb": 32}
    known = catalog(role(), gpus=[own])
    (slot,) = slots_of(seat(gpu={"gpu_class": "b70", "memory_gb": 32}), known=known)
    assert slot["gpus"] == [{"index": 0, "vendor": "intel", "gpu_class": "b70", "memory_gb": 32}]
    (slot,) = slots_of(seat(gpu={"gpu_class": "unheard-of"}))
    assert slot["gpus"] == [{"index": 0, "gpu_class": "unheard-of"}]


def test_a_plan_of_the_planner_without_machines():
    card = {"index": 0, "name": "NVIDIA L40S", "memory_gb": 48, "compute_cap": 8.9, "gpu_class": "l40s"}
    cards = [{**card, "index": number, "uuid": f"GPU-{number}"} for number in range(2)]
    nodes = [{"name": name, "memory_gb": 256, "fabrics": ["ib"], "gpus": cards} for name in ("n1", "n2")]
    wide = {
        **SMALL,
        "source": "a/b",
        "scaling": {"min": 1},
        "profiles": [{"name": "w", "gpu_class": "l40s", "pp": 2, "nodes": 2}],
    }
    known = catalog(role(), models=(CHAT, wide))
    found = make_slots(plan(nodes, known.roles, known.models, passthrough=False), known, bare_metal=True)
    assert [slot["slot"] for slot in found] == ["chat.0.main", "tiny-1b.0.tiny-1b"]
    for slot in found:
        jsonschema.Draft202012Validator(SCHEMA).validate(slot)
        assert find_violations(slot, "slot") == []
    used = [(slot["node"], gpu["index"]) for slot in found if "shards" not in slot for gpu in slot["gpus"]]
    used += [(part["node"], gpu["index"]) for part in found[1]["shards"] for gpu in part["gpus"]]
    assert len(set(used)) == len(used) == 3


def test_roles_without_a_card():
    known = catalog(role(engine="llamacpp"))
    (slot,) = slots_of(seat(engine="llamacpp", card=False), known=known)
    assert slot["gpus"] == []
    assert slot["endpoint"] == "http://chat-0:8080"
    assert slot["profile"]["name"] == "cpu"


def test_a_simulated_model_says_so():
    fake = {
        "name": "fake",
        "kind": "llm",
        "vram_gb": 1,
        "engines": ["sim"],
        "profiles": [{"name": "s", "engine": "sim"}],
        "source": "a/b",
    }
    (slot,) = slots_of(replicas=[replica(model="fake", engine="sim")], known=catalog(models=[fake]))
    assert slot["simulated"] is True
    (slot,) = slots_of(replicas=[replica()])
    assert "simulated" not in slot


def test_what_the_catalog_no_longer_knows_is_still_a_slot():
    found = slots_of(seat("gone", slots=("a",)), replicas=[replica(model="lost")])
    assert [slot["slot"] for slot in found] == ["gone.0.a", "lost.0.lost"]
    assert "model" not in found[0]
    assert found[1]["model"] == "lost"
    assert found[1]["profile"] == {"name": "l4-tp2"}


def test_mistakes_are_told_together():
    twice = {"assignments": [seat(), seat()], "replicas": []}
    with pytest.raises(InputError) as caught:
        make_slots(twice, catalog(role()), [], registry_domain="a b")
    assert caught.value.errors == (
        "registry_domain: 'a b' is not a valid name of a domain, such as gpu.example",
        "plan: the slot chat/0 main appears twice; re-run placement",
    )
    with pytest.raises(InputError, match="chat/0 main appears twice; re-run placement"):
        slots_of(seat(), seat())


def test_input_stays_as_it_is_and_equal_input_gives_equal_bytes():
    given = {"assignments": [seat()], "replicas": [replica(2)]}
    before = copy.deepcopy(given)
    first = make_slots(given, catalog(role()))
    assert given == before
    first[0]["aliases"].append("x")
    first[0]["slo"]["ttft_p99"] = 1
    again = make_slots(given, catalog(role()))
    assert again[0]["aliases"] == ["qwen"]
    assert [dump_document(one) for one in again] == [
        dump_document(one) for one in make_slots(copy.deepcopy(given), catalog(role()))
    ]


def test_a_plan_of_the_planner():
    card = {"index": 0, "name": "NVIDIA L4", "memory_gb": 24, "compute_cap": 8.9, "gpu_class": "l4"}
    nodes = [
        {"name": "n1", "memory_gb": 64, "gpus": [card]},
        {"name": "n2", "memory_gb": 64, "gpus": [{**card, "index": 1}]},
    ]
    running = {**CHAT, "scaling": {"min": 1}, "profiles": [{"name": "l4", "gpu_class": "l4"}]}
    known = catalog(role(), models=[running, SMALL])
    found = make_slots(plan(nodes, known.roles, known.models), known)
    assert [slot["slot"] for slot in found] == ["chat.0.main", "qwen3-8b.0.qwen3-8b"]
    assert {slot["node"] for slot in found} == {"n1", "n2"}
    for slot in found:
        jsonschema.Draft202012Validator(SCHEMA).validate(slot)


def test_the_definitions_of_a_plan_are_found():
    card = {"index": 0, "name": "NVIDIA L40S", "memory_gb": 48, "compute_cap": 8.9, "gpu_class": "l40s"}
    address = {
        "address": "0000:41:00.0",
        "id": "10de:26b9",
        "subsystem_id": "10de:1851",
        "iommu_group": 20,
        "iommu_peers": [],
    }
    nodes = [
        {
            "name": name,
            "hostname": name,
            "memory_gb": 256,
            "fabrics": ["ib"],
            "gpus": [{**card, "uuid": name, "pci": address}],
        }
        for name in ("n1", "n2", "n3")
    ]
    desk = [role("Chat_A", slots=("a",), colocate="desk"), role("embed", "tei", ("e",), colocate="desk")]
    for one in desk:
        one["needs"]["min_vram_gb"] = 10
    wide = {
        **SMALL,
        "name": "org/Wide",
        "aliases": [],
        "source": "a/b",
        "scaling": {"min": 1},
        "profiles": [{"name": "w", "gpu_class": "l40s", "pp": 2, "nodes": 2}],
    }
    known = catalog(*desk, models=(wide,))
    made = plan(nodes, known.roles, known.models)
    assert not made["unplaced"]
    definitions = make_definitions(made, [plain(one) for one in known.roles], nodes=nodes)
    assert definitions.errors == ()
    found = make_slots(made, known, definitions.vms)
    numbers = {one["name"]: one["vmid"] for one in definitions.vms}
    assert [slot["vm"] for slot in found] == [
        {"vmid": numbers[name], "name": name} for name in ("desk-0", "desk-0", "org-wide-0-0")
    ]
    assert [part["vm"]["vmid"] for part in found[2]["shards"]] == [numbers["org-wide-0-0"], numbers["org-wide-0-1"]]
    assert sum(slot.get("memory_fraction", 0) for slot in found) <= 0.92


# --- names


def test_ids_of_slots_that_would_be_the_same():
    keys = [
        SlotKey("role", "chat", 0, "1.x"),
        SlotKey("role", "chat.0", 1, "x"),
        SlotKey("role", "gemma", 0, "gemma"),
        SlotKey("model", "gemma", 0, "gemma"),
        SlotKey("model", "org/m", 0, "m"),
        SlotKey("model", "org-m", 0, "m"),
        SlotKey("model", "Only/Me", 0, "Only/Me"),
    ]
    found = slot_ids(keys)
    assert len(set(found.values())) == len(keys)
    assert found[keys[2]] == "gemma.0.gemma"
    assert found[keys[3]].startswith("gemma.0.gemma-")
    assert found[keys[5]] == "org-m.0.m"
    assert found[keys[4]].startswith("org-m.0.m-")
    assert found[keys[6]] == "only-me.0.only-me"
    assert slot_ids(reversed(keys)) == found


NAMES = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(codec=None), min_size=1, max_size=400))


@given(
    st.lists(st.tuples(st.sampled_from(["role", "model"]), NAMES, st.integers(0, 3), NAMES), max_size=8, unique=True)
)
def test_ids_are_names_of_files_and_one_of_a_kind(given_keys):
    keys = [SlotKey(*key) for key in given_keys]
    found = slot_ids(keys)
    assert len(set(found.values())) == len(keys)
    for text in found.values():
        assert SLOT_ID.fullmatch(text)
        assert len(text) <= MAX_ID
        assert ".." not in text
    assert slot_ids(reversed(keys)) == found


@given(st.lists(NAMES, max_size=8))
def test_groups_are_one_of_a_kind(names):
    found = group_names("role", names)
    assert len(set(found.values())) == len(set(names))
    assert all(name.isidentifier() and name.isascii() for name in found.values())


def test_slugs_stay_readable():
    assert slug("llama-3.1-8b") == "llama-3.1-8b"
    assert slug("meta-llama/Llama-3.1 8B") == "meta-llama-llama-3.1-8b"
    assert slug("../../etc/x") == "etc-x"
    assert len(slug("x" * 300)) == 80


# --- the schema


@pytest.mark.parametrize("bare_metal", [False, True])
@pytest.mark.parametrize("names", [HOSTILE, KIND_NAMES], ids=["hostile", "usual"])
def test_every_document_is_what_the_schema_says(names, bare_metal):
    validator = jsonschema.Draft202012Validator(SCHEMA)
    names = apart(names) if bare_metal else names
    found = fleet(names, bare_metal=bare_metal)
    assert len(found) == 3 * len(names)
    for slot in found:
        validator.validate(slot)
        assert find_violations(slot, "slot") == []
