# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""What must hold of every plan, whatever it is made from."""

from __future__ import annotations

import copy
import dataclasses
import json
import os

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import read_nodes, without
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.help import Trial, apply_change
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.what_if import what_if_lost
from hypothesis import given, settings
from hypothesis import strategies as st

SIZES = (16, 24, 48, 80)
CAPS = (8.0, 8.6, 9.0)

FAST = settings(max_examples=150, deadline=None)
# Each example plans many times.
SLOW = settings(max_examples=300 if os.environ.get("KNASTER_FULL") else 30, deadline=None)


@st.composite
def gpus(draw, name, *, unified=False):
    cards = []
    for index in range(draw(st.integers(0, 4))):
        size = draw(st.sampled_from(SIZES))
        gpu = {
            "index": index,
            "gpu_class": f"c{size}",
            "vendor": "nvidia",
            "memory_gb": size,
            "compute_cap": draw(st.sampled_from(CAPS)),
            "uuid": f"GPU-{name}-{index}",
            "pci": {"address": f"0000:{index + 1:02x}:00.0"},
            "healthy": draw(st.sampled_from((True, True, True, None, False))),
        }
        if draw(st.integers(0, 9)) == 0:
            gpu["holder"] = {"kind": "vm", "id": 100 + index, "name": "other", "ours": False}
        if draw(st.integers(0, 14)) == 0:
            gpu["mig"] = True
        if unified and draw(st.booleans()):
            gpu |= {"unified_memory": True, "memory_mib": None}
        cards.append(gpu)
    return cards


@st.composite
def fleets(draw, states=("ready",), *, unified=False):
    nodes = []
    for at in range(draw(st.integers(1, 5))):
        name = f"n{at}"
        node = {
            "name": name,
            "memory_gb": draw(st.sampled_from((None, 8, 32, 64, 256))),
            "gpus": draw(gpus(name, unified=unified)),
            "labels": draw(st.sampled_from(({}, {"zone": "a"}, {"zone": "b"}))),
            "fabrics": draw(st.sampled_from(([], ["f1"], ["f2"], ["f1", "f2"]))),
            "state": draw(st.sampled_from(states)),
        }
        if draw(st.booleans()):
            held = draw(st.lists(st.sampled_from(("org/m0", "org/m1")), unique=True))
            node["weights"] = [{"name": name, "path": f"/m/{name}", "size_gb": 9} for name in held]
        nodes.append(node)
    return nodes


@st.composite
def role_lists(draw, *, groups=True, memory=True):
    roles = []
    for at in range(draw(st.integers(0, 6))):
        needs = {"engine": draw(st.sampled_from(("llamacpp", "other")))}
        on_cpu = draw(st.integers(0, 5)) == 0
        role = {
            "name": f"r{at}",
            "needs": needs,
            "count": draw(st.integers(0, 3)),
            "priority": draw(st.sampled_from((1, 2))),
        }
        role["prefer"] = draw(st.sampled_from(("largest", "smallest_fitting")))
        if on_cpu:
            needs |= {"engine": "llamacpp", "gpu": False}
        else:
            needs["min_vram_gb"] = draw(st.sampled_from((8, 16, 20, 24, 48, 70)))
            if draw(st.booleans()):
                needs["min_cc"] = draw(st.sampled_from(CAPS))
            if groups and draw(st.integers(0, 2)) == 0:
                role["colocate"] = "g"
            role["cpu_fallback"] = needs["engine"] == "llamacpp" and draw(st.booleans())
        if "colocate" not in role and draw(st.integers(0, 3)) == 0:
            needs["node_selector"] = {"zone": draw(st.sampled_from("ab"))}
        if memory and draw(st.booleans()):
            needs["min_memory_gb"] = draw(st.sampled_from((4, 16, 40)))
        roles.append(role)
    return roles


@st.composite
def model_lists(draw):
    models = []
    for at in range(draw(st.integers(0, 3))):
        profiles = []
        for size, cards, nodes in draw(
            st.lists(
                st.sampled_from([(16, 1, 1), (24, 2, 1), (48, 1, 1), (48, 2, 1), (80, 1, 2), (24, 1, 2), (16, 4, 1)]),
                min_size=1,
                max_size=2,
                unique=True,
            )
        ):
            profile = {"name": f"{size}-{cards}-{nodes}", "engine": "llamacpp", "gpu_class": f"c{size}", "tp": cards}
            profile |= {"pp": nodes, "nodes": nodes, "priority": draw(st.integers(0, 2))}
            if draw(st.integers(0, 3)) == 0:
                profile["min_memory_gb"] = draw(st.sampled_from((4, 40)))
            profiles.append(profile)
        least = draw(st.integers(0, 3))
        models.append(
            {
                "name": f"m{at}",
                "kind": "llm",
                "vram_gb": 16,
                "engines": ["llamacpp"],
                "source": f"org/m{at}",
                "profiles": profiles,
                "scaling": {"min": least, "max": least + 1},
            }
        )
    return models


def make(nodes, roles, models, previous=None, **options):
    found = check_catalog(models, roles, open_engines=True).catalog
    return plan(nodes, found.roles, found.models, previous, engines=found.engines, **options)


def same(document):
    return json.dumps({key: value for key, value in document.items() if key != "changes"})


def spots(document):
    """(machine, node, index) for every GPU that is given out, each machine once."""
    found = {(one["vm"], one["node"], one["gpu_index"]) for one in document["assignments"] if "gpu_index" in one}
    for replica in document["replicas"]:
        for shard in replica["shards"]:
            found |= {(shard["vm"], shard["node"], index) for index in shard["gpu_indices"]}
    return found


def check_books(document, nodes, roles, models):
    """Nothing twice, everything whole, every number adds up."""
    taken = [spot[1:] for spot in spots(document)]
    assert len(taken) == len(set(taken))
    rows = {(row["node"], row["gpu_index"]): row for row in document["ledger"]}
    assert len(rows) == len(document["ledger"])
    assert {spot for spot, row in rows.items() if row["state"] == "used"} == set(taken)
    assert set(rows) >= {(node["name"], gpu["index"]) for node in nodes for gpu in node["gpus"] or ()}
    machines = {}
    for one in document["assignments"]:
        machines[one["vm"]] = one["node"], one["memory_mib"]
    for replica in document["replicas"]:
        profile = next(
            profile
            for model in models
            if model["name"] == replica["model"]
            for profile in model["profiles"]
            if profile["name"] == replica["profile"]
        )
        assert len(replica["shards"]) == profile["nodes"] == len({shard["node"] for shard in replica["shards"]})
        for shard in replica["shards"]:
            assert len(shard["gpu_indices"]) == len(set(shard["gpu_indices"])) == profile["tp"]
            machines[shard["vm"]] = shard["node"], shard["memory_mib"]
    for entry in document["nodes"]:
        used = sum(memory for node, memory in machines.values() if node == entry["name"])
        if entry["memory_mib"] is not None:
            assert used + entry["memory_left_mib"] <= entry["memory_mib"]
            assert entry["memory_left_mib"] >= 0
    wanted = {role["name"]: role["count"] for role in roles} | {
        model["name"]: model["scaling"]["min"] for model in models
    }
    placed = dict.fromkeys(wanted, 0)
    for one in document["assignments"]:
        placed[one["role"]] += 1
    for one in document["replicas"]:
        placed[one["model"]] += 1
    short = {entry.get("role") or entry["model"]: entry for entry in document["unplaced"]}
    for name, count in wanted.items():
        missing = short[name]["missing"] if name in short else 0
        assert placed[name] + missing == count
        if name in short:
            assert short[name]["reason"]


def takes(role, node, gpu):
    needs = role["needs"]
    return (
        node["state"] == "ready"
        and gpu["healthy"] is True
        and not gpu.get("mig")
        and not gpu.get("holder")
        and needs.get("min_vram_gb", 0) <= gpu["memory_gb"]
        and needs.get("min_cc", 0) <= gpu["compute_cap"]
        and all(node["labels"].get(key) == value for key, value in needs.get("node_selector", {}).items())
    )


def check_places(document, nodes, roles):
    """Every role has GPUs that do; and no free GPU would do for one that is short."""
    by_name = {node["name"]: node for node in nodes}
    by_role = {role["name"]: role for role in roles}
    for one in document["assignments"]:
        if "gpu_index" in one:
            node = by_name[one["node"]]
            gpu = next(gpu for gpu in node["gpus"] if gpu["index"] == one["gpu_index"])
            assert takes(by_role[one["role"]], node, gpu)
    left = {entry["name"]: entry["memory_left_mib"] for entry in document["nodes"]}
    free = {(row["node"], row["gpu_index"]) for row in document["ledger"] if row["state"] == "free"}
    for entry in document["unplaced"]:
        role = by_role.get(entry.get("role"))
        if role is None or not role["needs"].get("gpu", True):
            continue
        asked = role["needs"].get("min_memory_gb", 0) * 1024
        for name, index in free:
            gpu = next(gpu for gpu in by_name[name]["gpus"] if gpu["index"] == index)
            fits = takes(role, by_name[name], gpu) and (left[name] is None or left[name] >= asked)
            assert not fits, (entry, name, index)


@FAST
@given(fleets(states=("ready", "ready", "cordoned", "unreachable")), role_lists(), model_lists())
def test_books_and_places(nodes, roles, models):
    document = make(nodes, roles, models)
    check_books(document, nodes, roles, models)
    check_places(document, nodes, roles)


def claims(document):
    """What each machine takes of its node: for itself, and for GPUs that have no memory of their own."""
    machines = {}
    for one in document["assignments"]:
        machines[one["vm"]] = one["node"], one.get("memory_mib", 0), one.get("unified_memory_mib", 0)
    for replica in document["replicas"]:
        for shard in replica["shards"]:
            machines[shard["vm"]] = shard["node"], shard.get("memory_mib", 0), shard.get("unified_memory_mib", 0)
    return machines.values()


@FAST
@given(
    fleets(states=("ready", "ready", "draining"), unified=True),
    role_lists(),
    model_lists(),
    st.booleans(),
    st.sampled_from(("none", "relocate", "preempt")),
)
def test_what_cards_share_with_their_node_is_given_out_once(nodes, roles, models, passthrough, moves):
    document = make(nodes, roles, models, passthrough=passthrough)
    by_name = {node["name"]: node for node in nodes}
    for number in range(2):
        for entry in document["nodes"]:
            node = by_name[entry["name"]]
            mine = [claim[1:] for claim in claims(document) if claim[0] == entry["name"]]
            if entry["memory_mib"] is None:
                continue
            reserve = max(2048, -(-entry["memory_mib"] // 20))
            pool = max(0, entry["memory_mib"] - reserve)
            assert sum(own + shared for own, shared in mine) <= pool
            if passthrough:
                assert sum(own + shared for own, shared in mine) + entry["memory_left_mib"] == pool
            elif any(gpu.get("unified_memory") for gpu in node["gpus"]):
                assert sum(shared for _own, shared in mine) + entry["memory_left_mib"] <= pool
        for one in document["assignments"]:
            if "gpu_index" in one:
                gpu = next(gpu for gpu in by_name[one["node"]]["gpus"] if gpu["index"] == one["gpu_index"])
                assert bool(one.get("unified_memory_mib")) is bool(gpu.get("unified_memory"))
        if not number:
            before = document
            document = make(nodes, roles, models, before, passthrough=passthrough, moves=moves)
            assert same(document) == same(before) or any(node["state"] == "draining" for node in nodes)


@FAST
@given(fleets(states=("ready", "ready", "draining")), role_lists(), model_lists(), st.randoms(use_true_random=False))
def test_order_of_input_does_not_matter(nodes, roles, models, rand):
    document = make(nodes, roles, models)
    shuffled = copy.deepcopy(nodes)
    for node in shuffled:
        rand.shuffle(node["gpus"])
        for gpu in node["gpus"]:
            items = list(gpu.items())
            rand.shuffle(items)
            gpu.clear()
            gpu.update(items)
    rand.shuffle(shuffled)
    other_roles = list(roles)
    rand.shuffle(other_roles)
    assert json.dumps(make(shuffled, other_roles, models)) == json.dumps(document)


@FAST
@given(fleets(), role_lists(), model_lists(), st.sampled_from(("none", "relocate", "preempt")), st.booleans())
def test_planning_on_the_own_plan_changes_nothing(nodes, roles, models, moves, rebalance):
    first = make(nodes, roles, models)
    second = make(nodes, roles, models, first, moves=moves, rebalance=rebalance)
    assert same(second) == same(first)
    assert second["changes"]["moves"] == second["changes"]["blocked"] == []


@FAST
@given(
    fleets(),
    role_lists(),
    model_lists(),
    st.lists(st.sampled_from(("ready", "cordoned", "unreachable", "draining")), min_size=5, max_size=5),
    role_lists(),
)
def test_nothing_that_may_stay_moves(nodes, roles, models, states, others):
    first = make(nodes, roles, models)
    after = copy.deepcopy(nodes)
    for node, state in zip(after, states, strict=False):
        node["state"] = state
    more = roles + [{**role, "name": f"new-{role['name']}"} for role in others if "colocate" not in role]
    second = make(after, more, models, first)
    check_books(second, after, more, models)
    draining = {node["name"] for node in after if node["state"] == "draining"}
    was = {(one["role"], one["replica"]): (one["node"], one.get("gpu_index")) for one in first["assignments"]}
    now = {(one["role"], one["replica"]): (one["node"], one.get("gpu_index")) for one in second["assignments"]}
    for key, place in was.items():
        if place[0] not in draining:
            assert now[key] == place
        else:
            assert key in now
    replicas_were = {
        one["id"]: [(shard["node"], shard["gpu_indices"]) for shard in one["shards"]] for one in first["replicas"]
    }
    replicas_are = {
        one["id"]: [(shard["node"], shard["gpu_indices"]) for shard in one["shards"]] for one in second["replicas"]
    }
    for key, shards in replicas_were.items():
        if not any(node in draining for node, _indices in shards):
            assert replicas_are[key] == shards
        else:
            assert key in replicas_are


@FAST
@given(fleets(), role_lists(), model_lists(), fleets())
def test_an_unrelated_node_moves_nothing(nodes, roles, models, others):
    first = make(nodes, roles, models)
    added = [{**node, "name": f"x-{node['name']}"} for node in others]
    second = make(nodes + added, roles, models, first)
    assert second["changes"]["moves"] == []
    placed = len(first["assignments"]) + len(first["replicas"])
    assert len(second["changes"]["retained"]) == placed


@FAST
@given(fleets(), role_lists(groups=False, memory=False), st.data())
def test_asking_for_less_never_costs_the_place(nodes, roles, data):
    first = make(nodes, roles, [])
    with_cards = [role for role in roles if role["needs"].get("gpu", True) and role["count"]]
    if not with_cards:
        return
    chosen = data.draw(st.sampled_from(with_cards))
    less = copy.deepcopy(roles)
    needs = next(role for role in less if role["name"] == chosen["name"])["needs"]
    needs["min_vram_gb"] = data.draw(
        st.sampled_from([size for size in (8, 16, 20, 24, 48, 70) if size <= needs["min_vram_gb"]])
    )
    for key in data.draw(st.lists(st.sampled_from(("min_cc", "node_selector")))):
        needs.pop(key, None)

    def count(document):
        return sum(one["role"] == chosen["name"] for one in document["assignments"])

    assert count(make(nodes, less, [])) >= count(first)


@SLOW
@given(
    fleets(states=("ready", "ready", "cordoned")),
    role_lists(),
    model_lists(),
    st.sampled_from(("none", "relocate")),
)
def test_what_is_said_to_help_helps(nodes, roles, models, moves):
    """Each change is applied as a program would apply it, on top of the plan, and places all that is missing."""
    found = check_catalog(models, roles, open_engines=True).catalog
    document = make(nodes, roles, models)
    again = make(nodes, roles, models, document, moves=moves)
    for entry in again["unplaced"]:
        name = entry.get("role") or entry["model"]
        for each in entry["what_would_help"]:
            assert each["verified"]
            trial = apply_change(
                Trial(nodes=nodes, roles=found.roles, models=found.models, moves=moves), each["change"]
            )
            then = plan(trial.nodes, trial.roles, trial.models, again, moves=trial.moves, engines=found.engines)
            assert name not in [other.get("role") or other["model"] for other in then["unplaced"]], each


@FAST
@given(fleets(states=("ready", "cordoned")), role_lists(groups=False, memory=False))
def test_a_refusal_is_true(nodes, roles):
    """Counts cover every GPU once, and a bottleneck names GPUs that those roles really fill."""
    document = make(nodes, roles, [])
    by_name = {node["name"]: node for node in nodes}
    owner = {(row["node"], row["gpu_index"]): row.get("by") for row in document["ledger"]}
    for entry in document["unplaced"]:
        role = next(role for role in roles if role["name"] == entry["role"])
        if not role["needs"].get("gpu", True):
            continue
        bare = sum(not node["gpus"] for node in nodes)
        assert sum(entry["rejected"].values()) == len(owner) + bare
        if "bottleneck" not in entry:
            continue
        known = entry["bottleneck"]
        cards = {(card["node"], card["gpu_index"]) for card in known["gpus"]}
        assert len(cards) == known["gpu_count"] < known["wanted"]
        for name in known["roles"]:
            member = next(role for role in roles if role["name"] == name)
            reach = {(node["name"], gpu["index"]) for node in nodes for gpu in node["gpus"] if takes(member, node, gpu)}
            assert reach <= cards
        assert all(owner[card] and owner[card].split("/")[0] in known["roles"] for card in cards)
        assert all(by_name[node]["state"] == "ready" for node, _index in cards)


@FAST
@given(fleets(), role_lists(groups=False, memory=False))
def test_a_reason_for_a_card_is_true(nodes, roles):
    document = make(nodes, roles, [])
    used = {(row["node"], row["gpu_index"]) for row in document["ledger"] if row["state"] == "used"}
    for one in document["assignments"]:
        if "gpu_index" not in one:
            continue
        role = next(role for role in roles if role["name"] == one["role"])
        fitting = [(node["name"], gpu) for node in nodes for gpu in node["gpus"] if takes(role, node, gpu)]
        assert one["why"]["fitting"] == len(fitting)
        sign = -1 if role["prefer"] == "largest" else 1
        mine = sign * one["gpu"]["memory_gb"], sign * one["gpu"]["compute_cap"]
        better = [
            (name, gpu["index"]) for name, gpu in fitting if (sign * gpu["memory_gb"], sign * gpu["compute_cap"]) < mine
        ]
        assert one["why"]["rule"] == role["prefer"]
        assert one["why"].get("better_taken", 0) == len(better)
        assert set(better) <= used


@SLOW
@given(fleets(("ready", "cordoned", "draining"), unified=True), st.data())
def test_a_fleet_without_nodes_is_the_fleet_of_the_others(nodes, data):
    gone = data.draw(st.lists(st.sampled_from([node["name"] for node in nodes]), unique=True))
    left, read = without(read_nodes(nodes), gone), read_nodes([node for node in nodes if node["name"] not in gone])
    for field in dataclasses.fields(read):
        ours, theirs = getattr(left, field.name), getattr(read, field.name)
        if field.name == "weights":
            ours, theirs = sorted(ours, key=repr), sorted(theirs, key=repr)
        # What a plan is made from stays the whole fleet.
        assert ours == theirs or field.name == "fingerprint", field.name


@SLOW
@given(fleets(unified=True), role_lists(), model_lists(), st.data())
def test_what_if_is_the_plan_without_the_node(nodes, roles, models, data):
    found = check_catalog(models, roles, open_engines=True).catalog
    first = make(nodes, roles, models)
    lost = data.draw(st.sampled_from([node["name"] for node in nodes]))
    after = make([node for node in nodes if node["name"] != lost], roles, models, first)
    (answer,) = what_if_lost(first, nodes, found.roles, found.models, lost=[lost], engines=found.engines)
    assert answer["moves"] == after["changes"]["moves"]
    before = {one.get("role") or one.get("model"): one["missing"] for one in first["unplaced"]}
    now = {one.get("role") or one.get("model"): one["missing"] for one in after["unplaced"]}
    assert {one["name"]: one["missing"] for one in answer["short"]} == {
        name: missing for name, missing in now.items() if missing > before.get(name, 0)
    }
