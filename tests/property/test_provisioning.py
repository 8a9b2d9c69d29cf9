# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""What must hold of provisioning, whatever goes wrong on the way.

The runs are made against the simulator. KNASTER_FAULTS=all tries every fault at every call instead of a sample.
"""

from __future__ import annotations

import copy
import os
import random
import re
import shlex
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.client import PveError
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.commands import render_commands
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.definitions import make_definitions
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.settings import Allowed
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))

import pve_sim
from limits import hang_limit
from pve_fleet import Fleet, PreflightError, api_of, provision

ALL = os.environ.get("KNASTER_FAULTS") == "all"

CHAT = {"name": "chat", "needs": {"engine": "vllm", "min_vram_gb": 20}, "count": 4, "vm": {"memory_mib": 8192}}
GATEWAY = {"name": "gateway", "needs": {"engine": "llamacpp", "gpu": False, "gpu_nodes": True}, "count": 2}
FOREIGN = {
    "node": "pve-0",
    "config": {"name": "database", "memory": 4096, "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0", "tags": "prod"},
    "pending": {},
    "status": "running",
}
TEMPLATE = {
    "node": "pve-0",
    "status": "stopped",
    "pending": {},
    "config": {
        "name": "debian",
        "template": 1,
        "machine": "q35",
        "bios": "ovmf",
        "memory": "2048",
        "scsihw": "virtio-scsi-single",
        "serial0": "socket",
        "scsi0": "local-lvm:base-9000-disk-1,size=3G",
        "efidisk0": "local-lvm:base-9000-disk-0,efitype=4m,pre-enrolled-keys=1,size=4M",
        "net0": "virtio=BC:24:11:AA:00:01,bridge=vmbr0",
        "boot": "order=scsi0",
    },
}
# What PVE makes up: two runs that reach the same state differ in these.
VOLATILE = re.compile(r"BC:24:11:[0-9A-F:]{8}|vm-\d+-disk-\d+|ctime=\d+|uuid=[0-9a-f-]+")


class FaultySim(pve_sim.PveSim):
    """The simulator with one fault at the call of one number."""

    def __init__(self, seed):
        super().__init__(seed)
        self.reset(seed)

    def reset(self, seed):
        """Begin anew without a new server."""
        self.state = pve_sim.PveSim(seed).state
        self.calls, self.lines, self.at, self.fault = [], [], None, None

    def take_fault(self, line):
        self.lines.append(line)
        if self.at is not None and len(self.lines) == self.at:
            return self.fault
        return None

    def settle(self):
        """End all tasks."""
        self.sweep(now=float("inf"))


def make_fleet(**more):
    return Fleet(roles=copy.deepcopy([CHAT, GATEWAY]), **{"guests": {"5000": copy.deepcopy(FOREIGN)}, **more})


@pytest.fixture(scope="module")
def peer():
    sim = FaultySim(make_fleet().seed())
    url = sim.start()
    yield sim, url
    sim.stop()


def client(peer, **more):
    sim, url = peer
    return api_of(url, sim.ca_file, sleep=lambda seconds: time.sleep(min(seconds, 0.01)), lock_limit=2.0, **more)


def end_state(sim):
    """What matters of the state: guests, mappings and volumes, without what PVE makes up."""
    sim.settle()
    guests = {
        vmid: {
            "node": one["node"],
            "status": one["status"],
            "pending": one["pending"],
            "config": {k: VOLATILE.sub("", str(v)) for k, v in one["config"].items() if k != "vmgenid"},
        }
        for vmid, one in sim.state["guests"].items()
    }
    volumes = {
        name: sorted(VOLATILE.sub(lambda m: m.group()[:7], v) for v in one["volumes"])
        for name, one in sim.state["storages"].items()
    }
    return guests, sim.state["mapping"]["pci"], volumes


@pytest.fixture(scope="module")
def clean(peer):
    """The calls of a run without faults, and the state that it ends in."""
    sim, _url = peer
    fleet = make_fleet()
    sim.reset(fleet.seed())
    outcome = provision(client(peer), fleet)
    assert len(outcome.changed) == 10
    lines = list(sim.lines)
    state = end_state(sim)
    assert len(state[0]) == 7
    assert all(one["status"] == "running" for one in state[0].values())
    return lines, state


def test_a_second_run_changes_nothing(peer, clean) -> None:
    sim, _url = peer
    fleet = make_fleet()
    sim.reset(fleet.seed())
    provision(client(peer), fleet)
    before = len(sim.calls)
    assert before == 4 + 3 * 6, "a call for each mapping, and one to make, grow and start each machine"
    outcome = provision(client(peer), fleet)
    assert outcome.changed == []
    assert [one.line() for one in outcome.prepared.findings] == []
    fleet.forget()
    assert provision(client(peer), fleet).changed == [], "the marks alone tell which machine is which"
    assert len(sim.calls) == before


def test_check_mode_changes_nothing_and_tells_what_the_run_does(peer) -> None:
    sim, _url = peer
    fleet = make_fleet()
    sim.reset(fleet.seed())
    told = provision(client(peer, read_only=True), fleet, check_mode=True)
    assert sim.calls == []
    done = provision(client(peer), fleet)
    assert [(step.text, result["diff"], result.get("actions")) for step, result in told.results] == [
        (step.text, result["diff"], result.get("actions")) for step, result in done.results
    ]
    fleet.roles[0]["vm"] |= {"memory_mib": 16384, "cores": 20, "tags": ["new"]}
    before = len(sim.calls)
    told = provision(client(peer, read_only=True), fleet, check_mode=True)
    assert len(sim.calls) == before
    done = provision(client(peer), fleet)
    assert len(done.changed) == 4
    assert [result["diff"] for _step, result in told.results] == [result["diff"] for _step, result in done.results]
    assert [result["restart_needed"] for _step, result in told.results if "vmid" in result] == [
        result["restart_needed"] for _step, result in done.results if "vmid" in result
    ]


KINDS = (
    {"kind": "drop"},
    {"kind": "http", "status": 500, "message": "internal error"},
    {"kind": "http", "status": 595, "message": "No route to host"},
    {"kind": "lock"},
    {"kind": "garbage"},
    {"kind": "auth"},
    {"kind": "task_slow", "seconds": 0.3},
    {"kind": "task_fail", "message": "start failed: QEMU exited with code 1"},
)


def trials(lines):
    """Each fault at each call of a run; faults of tasks only where a task is started."""
    found = [
        (at, line, kind)
        for at, line in enumerate(lines, start=1)
        for kind in KINDS
        if not kind["kind"].startswith("task_") or re.match(r"POST \S+(?:/qemu|/start)$|PUT \S+/resize$", line)
    ]
    if not ALL:
        rand = random.Random(4)
        changing = [one for one in found if not one[1].startswith("GET")]
        reading = [one for one in found if one[1].startswith("GET")]
        found = rand.sample(changing, 12) + rand.sample(reading, 6)
    return found


def test_a_fault_at_any_call_and_a_clean_run_reach_the_same_state(peer, clean, capsys) -> None:
    sim, _url = peer
    lines, reference = clean
    chosen = trials(lines)
    errors = healed = 0
    for at, line, kind in chosen:
        where = f"{kind} at call {at}, {line}"
        fleet = make_fleet()
        sim.reset(fleet.seed())
        sim.at, sim.fault = at, dict(kind)
        message = None
        try:
            # A ticket can run out, a token cannot.
            with hang_limit():
                provision(client(peer, password=kind["kind"] == "auth"), fleet)
        except (PveError, PreflightError) as exc:
            message = str(exc)
        healed += message is None
        errors += message is not None
        assert message != "", where
        assert "11111111-2222" not in (message or ""), where
        sim.at = None
        if kind["kind"] != "task_slow":
            sim.settle()
        provision(client(peer), fleet)
        guests, mappings, volumes = end_state(sim)
        assert guests["5000"] == reference[0]["5000"], f"{where}: the machine of others was touched"
        assert guests == reference[0], where
        assert mappings == reference[1], where
        assert volumes == reference[2], where
        before = len(sim.calls)
        assert provision(client(peer), fleet).changed == [], where
        assert len(sim.calls) == before, where
    with capsys.disabled():
        print(
            f"\nprovisioning of 6 machines: {len(lines)} calls, {len(chosen)} of {len(lines)} x {len(KINDS)} faults tried,"
            f" {healed} healed in the run, {errors} ended in an error, all right after a clean run"
        )


class DeadError(BaseException):
    """The end of the controller."""


def dying_client(peer, at):
    """A client whose controller dies after the call of one number."""
    sim, _url = peer
    api = client(peer)
    send = api._request

    def dying(method, path, values):
        answer = send(method, path, values)
        if len(sim.lines) >= at:
            raise DeadError
        return answer

    api._request = dying
    return api


def test_a_run_that_ends_after_any_change_is_taken_up(peer, clean) -> None:
    """As if the controller died after each changing call in turn: the call is done, and nobody hears of it."""
    sim, _url = peer
    lines, reference = clean
    changing = [at for at, line in enumerate(lines, start=1) if not line.startswith("GET")]
    assert len(changing) == 22

    for at in changing if ALL else changing[::5]:
        fleet = make_fleet(task_delay=0.02)
        sim.reset(fleet.seed())
        api = dying_client(peer, at)
        with pytest.raises(DeadError):
            provision(api, fleet)
        fleet.forget()
        provision(client(peer), fleet)
        assert end_state(sim)[:2] == reference[:2], lines[at - 1]


MORE = {"disks": [{"gb": 16}], "networks": [{"bridge": "vmbr0", "vlan": 7}], "firewall": True, "pool": "llm"}


def changing_fleet():
    """A fleet with a template on one node, lists of disks and networks, a pool, and a VM that is not wanted any more."""
    fleet = make_fleet(guests={"5000": copy.deepcopy(FOREIGN), "9000": copy.deepcopy(TEMPLATE)})
    fleet.by_node = {"pve-0": {"template": 9000, "disk_gb": 32}, "pve-1": MORE}
    return fleet


@pytest.fixture(scope="module")
def settled(peer):
    """The state of a cluster before a run of changes: VMs of all kinds, one of them under high availability."""
    sim, _url = peer
    fleet = changing_fleet()
    seed = fleet.seed()
    seed["storages"]["local-lvm"]["volumes"] = {"base-9000-disk-0": 0.004, "base-9000-disk-1": 3}
    seed["pools"] = {"llm": {}}
    sim.reset(seed)
    provision(client(peer), fleet)
    assert provision(client(peer), fleet).changed == []
    vmids = {one["name"]: one["vmid"] for one in fleet.previous}
    sim.state["ha"]["resources"] = {f"vm:{vmids['chat-1']}": {"state": "started"}}
    sim.state["settings"]["ha_delay"] = 0.01
    sim.state["backup"] = {"nightly": {"vmid": f"5000,{vmids['gateway-1']}"}}
    return copy.deepcopy(sim.state), (fleet.previous, fleet.earlier)


def run_changes(peer, last, api=None):
    """Less memory for all, one VM less, and leave to stop and to remove."""
    fleet = changing_fleet()
    fleet.previous, fleet.earlier = copy.deepcopy(last)
    fleet.is_remembered = True
    fleet.roles[0]["vm"]["memory_mib"] = 4096
    fleet.roles[1]["count"] = 1
    return provision(api or client(peer), fleet, allowed=Allowed(stop=True, prune=True))


def begin_changes(sim, state):
    sim.reset({})
    sim.state = copy.deepcopy(state)


def test_a_fault_in_a_run_of_changes_and_a_clean_run_reach_the_same_state(peer, settled, capsys) -> None:
    sim, _url = peer
    state, last = settled
    begin_changes(sim, state)
    outcome = run_changes(peer, last)
    assert {step.phase for step, result in outcome.results if result["changed"]} == {"remove", "make"}
    lines = list(sim.lines)
    reference = end_state(sim)
    assert all(one["status"] == "running" for vmid, one in reference[0].items() if vmid != "9000")
    assert sim.state["backup"] == {"nightly": {"vmid": "5000"}}
    assert run_changes(peer, last).changed == []
    chosen = trials(lines)
    errors = 0
    for at, line, kind in chosen:
        where = f"{kind} at call {at}, {line}"
        begin_changes(sim, state)
        sim.at, sim.fault = at, dict(kind)
        try:
            with hang_limit():
                run_changes(peer, last, client(peer, password=kind["kind"] == "auth"))
        except (PveError, PreflightError):
            errors += 1
        sim.at = None
        if kind["kind"] != "task_slow":
            sim.settle()
        run_changes(peer, last)
        assert end_state(sim) == reference, where
        assert run_changes(peer, last).changed == [], where
    changing = [at for at, line in enumerate(lines, start=1) if not line.startswith("GET")]
    for at in changing if ALL else changing[::7]:
        begin_changes(sim, state)
        with pytest.raises(DeadError):
            run_changes(peer, last, dying_client(peer, at))
        run_changes(peer, last)
        assert end_state(sim) == reference, lines[at - 1]
    with capsys.disabled():
        print(
            f"\nchanges of 7 VMs: {len(lines)} calls, {len(chosen)} of {len(lines)} x {len(KINDS)} faults tried, {errors} ended in"
            f" an error; killed after {len(changing) if ALL else len(changing[::7])} of {len(changing)} changes; all right after a clean run"
        )


def run_moves(peer, fleet, plan_document, **more):
    allowed = Allowed(**more)
    return provision(client(peer), fleet, plan_document=plan_document, allowed=allowed)


def test_cards_change_places_between_running_machines(peer) -> None:
    sim, _url = peer
    fleet = Fleet(nodes=1, roles=[{**CHAT, "count": 2}])
    sim.reset(fleet.seed())
    first = fleet.plan()
    provision(client(peer), fleet, plan_document=first)
    before = {one["name"]: one for one in fleet.previous}
    swapped = copy.deepcopy(first)
    one, two = swapped["assignments"]
    for key in ("gpu_index", "gpu"):
        one[key], two[key] = two[key], one[key]
    calls = len(sim.calls)
    with pytest.raises(PreflightError) as found:
        run_moves(peer, fleet, swapped)
    assert len(found.value.findings) == 2
    assert {finding.code for finding in found.value.findings} == {"needs_stop"}
    assert len(sim.calls) == calls, "nothing is changed where an error was found"
    outcome = run_moves(peer, fleet, swapped, stop=True)
    assert [step.phase for step, _result in outcome.results] == ["release", "release", "make", "make"]
    after = {one["name"]: one for one in fleet.previous}
    for name, other in (("chat-0", "chat-1"), ("chat-1", "chat-0")):
        guest = sim.state["guests"][str(after[name]["vmid"])]
        assert guest["status"] == "running"
        assert guest["config"]["hostpci0"] == before[other]["config"]["hostpci0"]
        assert guest["pending"] == {}
    assert run_moves(peer, fleet, swapped, stop=True).changed == []


def test_a_machine_that_is_in_no_plan_goes_only_when_asked(peer) -> None:
    sim, _url = peer
    fleet = make_fleet()
    sim.reset(fleet.seed())
    provision(client(peer), fleet)
    fleet.roles = [{**CHAT, "count": 2}]
    outcome = provision(client(peer), fleet)
    assert outcome.changed == []
    assert [one.code for one in outcome.prepared.findings] == ["orphan"] * 4
    assert len(sim.state["guests"]) == 7
    with pytest.raises(PreflightError) as found:
        provision(client(peer), fleet, allowed=Allowed(prune=True), most=4)
    assert {one.code for one in found.value.findings} == {"needs_stop"}
    for most in (None, 3):
        with pytest.raises(PreflightError, match="provision_prune_max") as found:
            provision(client(peer), fleet, allowed=Allowed(prune=True, stop=True), most=most)
        assert {one.code for one in found.value.findings} == {"prune_refused"}
    assert len(sim.state["guests"]) == 7
    outcome = provision(client(peer), fleet, allowed=Allowed(prune=True, stop=True), most=4)
    assert [step.phase for step, result in outcome.results if result["changed"]] == ["remove"] * 4 + ["unmap"] * 2
    assert len(sim.state["guests"]) == 3
    assert "5000" in sim.state["guests"]
    assert len(sim.state["mapping"]["pci"]) == 2
    assert provision(client(peer), fleet, allowed=Allowed(prune=True, stop=True)).changed == []


def test_absent_removes_what_is_ours_and_nothing_else(peer) -> None:
    sim, _url = peer
    fleet = make_fleet()
    sim.reset(fleet.seed())
    provision(client(peer), fleet)
    sim.state["mapping"]["pci"]["others"] = {
        "map": ["id=10de:26b1,iommugroup=30,node=pve-2,path=0000:41:00.0,subsystem-id=10de:16a1"]
    }
    provision(client(peer), fleet, allowed=Allowed(stop=True), present=False)
    assert list(sim.state["guests"]) == ["5000"]
    assert list(sim.state["mapping"]["pci"]) == ["others"]
    assert sim.state["storages"]["local-lvm"]["volumes"] == {}


def test_a_card_that_another_role_gets_comes_from_a_pruned_machine(peer) -> None:
    sim, _url = peer
    fleet = Fleet(nodes=1, cards=1, roles=[{**CHAT, "count": 1}])
    sim.reset(fleet.seed())
    provision(client(peer), fleet)
    fleet.roles = [{**CHAT, "name": "code", "count": 1}]
    with pytest.raises(PreflightError) as found:
        provision(client(peer), fleet)
    assert [one.code for one in found.value.findings] == ["gpu_held"]
    assert "Set provision_prune" in found.value.findings[0].remedy
    outcome = provision(client(peer), fleet, allowed=Allowed(prune=True, stop=True), most=1)
    assert [step.phase for step, _result in outcome.results] == ["remove", "make"]
    assert [one["config"]["name"] for one in sim.state["guests"].values()] == ["code-0"]


def test_a_machine_on_another_node_is_made_anew_only_when_asked(peer) -> None:
    sim, _url = peer
    fleet = Fleet(nodes=2, cards=1, roles=[{**CHAT, "count": 1, "needs": {**CHAT["needs"], "node": "pve-0"}}])
    sim.reset(fleet.seed())
    provision(client(peer), fleet)
    vmid = fleet.previous[0]["vmid"]
    fleet.roles[0]["needs"]["node"] = "pve-1"
    with pytest.raises(PreflightError, match="Migrate it in Proxmox VE, or set provision_recreate"):
        provision(client(peer), fleet)
    outcome = provision(client(peer), fleet, allowed=Allowed(recreate=True, stop=True))
    assert [step.phase for step, _result in outcome.results] == ["remove", "map", "make"]
    assert {vmid: one["node"] for vmid, one in sim.state["guests"].items()} == {str(vmid): "pve-1"}


def test_each_difference_is_named_with_its_remedy(peer) -> None:
    sim, _url = peer
    fleet = make_fleet()
    sim.reset(fleet.seed())
    provision(client(peer), fleet)
    vmids = {one["name"]: str(one["vmid"]) for one in fleet.previous}
    guests, mappings = sim.state["guests"], sim.state["mapping"]["pci"]
    del guests[vmids["gateway-1"]]
    assert guests[vmids["gateway-0"]]["node"] == "pve-0"
    guests[vmids["gateway-0"]]["config"]["hostpci3"] = "mapping=kn-pve-0-41-00,pcie=1"
    mappings["kn-pve-1-42-00"]["map"] = [mappings["kn-pve-1-42-00"]["map"][0].replace("10de:26b1", "10de:2204")]
    description = guests[vmids["chat-0"]]["config"]["description"]
    guests[vmids["chat-0"]]["config"]["description"] = re.sub(
        '"fingerprint":"[^"]*"', '"fingerprint":"dead"', description
    )
    guests["5001"] = copy.deepcopy(FOREIGN)
    guests["5001"]["status"] = "stopped"
    guests["5001"]["config"] |= {"name": "desktop", "hostpci0": "0000:42:00,pcie=1"}
    before = len(sim.calls)
    told = provision(client(peer, read_only=True), fleet, check_mode=True)
    assert len(sim.calls) == before
    found = {(one.code, one.vm): one for one in told.prepared.findings}
    assert set(found) == {
        ("missing", "gateway-1"),
        ("external_device", "gateway-0"),
        ("gpu_held", "chat-0"),
        ("mapping_stale", "chat-3"),
        ("stale", "chat-0"),
        ("gpu_held", "chat-1"),
    }
    assert all(one.remedy for one in found.values())
    assert found["gpu_held", "chat-1"].text.startswith(
        "desktop (VM 5001), which is not managed by knaster.inventory, is configured with the GPU"
    )
    changed = sorted(step.text.split()[0] for step, result in told.results if result["changed"])
    assert changed == ["chat-0", "gateway-1", "mapping"]
    provision(client(peer), fleet)
    after = provision(client(peer), fleet)
    assert after.changed == []
    assert {one.code for one in after.prepared.findings} == {"external_device", "gpu_held"}
    assert "hostpci3" in guests[vmids["gateway-0"]]["config"]
    assert guests["5001"]["config"]["hostpci0"] == "0000:42:00,pcie=1"
    strict = provision(client(peer), fleet, allowed=Allowed(strict=True, stop=True), strict=True)
    assert strict.changed
    assert "hostpci3" not in guests[vmids["gateway-0"]]["config"]


def test_machines_from_a_template(peer) -> None:
    sim, _url = peer
    defaults = {"template": 9000, "disk_gb": 32, "cloud_init": {"ciuser": "ops", "sshkeys": "ssh-ed25519 AAAA me"}}
    fleet = Fleet(nodes=2, cards=1, roles=[{**CHAT, "count": 2}], defaults=defaults, guests={"9000": TEMPLATE})
    seed = fleet.seed()
    seed["storages"]["local-lvm"]["volumes"] = {"base-9000-disk-0": 0.004, "base-9000-disk-1": 3}
    sim.reset(seed)
    with pytest.raises(
        PreflightError, match="template 9000 is on pve-0 with disks on local-lvm, which pve-1 does not share"
    ):
        provision(client(peer), fleet)
    sim.state["storages"]["local-lvm"]["shared"] = 1
    told = provision(client(peer, read_only=True), fleet, check_mode=True)
    done = provision(client(peer), fleet)
    assert [result["diff"] for _step, result in told.results] == [result["diff"] for _step, result in done.results]
    machines = {one["config"]["name"]: one for vmid, one in sim.state["guests"].items() if vmid != "9000"}
    assert {name: (one["node"], one["status"]) for name, one in machines.items()} == {
        "chat-0": ("pve-0", "running"),
        "chat-1": ("pve-1", "running"),
    }
    assert all(one["config"]["scsi0"].endswith("size=32G") for one in machines.values())
    before = len(sim.calls)
    again = provision(client(peer), fleet)
    assert again.changed == []
    assert [result["external_additions"] for step, result in again.results if step.phase == "make"] == [[], []]
    assert [result["attention"] for step, result in again.results if step.phase == "make"] == [[], []]
    assert len(sim.calls) == before


def test_a_node_that_is_away_costs_only_its_own_machines(peer) -> None:
    sim, _url = peer
    fleet = make_fleet()
    sim.reset(fleet.seed())
    sim.state["nodes"]["pve-1"]["status"] = "offline"
    outcome = provision(client(peer), fleet)
    assert [one.code for one in outcome.prepared.findings if one.severity == "warning"] == ["node_offline"]
    assert {one["node"] for one in sim.state["guests"].values()} == {"pve-0"}
    sim.state["nodes"]["pve-1"]["status"] = "online"
    assert {step.host for step, result in provision(client(peer), fleet).results if result["changed"]} == {"pve-1"}


NAMES = st.text(min_size=1, max_size=40)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(NAMES, st.integers(0, 3), NAMES), max_size=8), st.randoms())
def test_names_from_data_stay_names(entries, rand) -> None:
    """Whatever roles and nodes are called: names PVE takes, numbers once, the same in any order, and commands that are words."""
    seats = [
        {
            "role": role,
            "replica": number,
            "node": node,
            "memory_mib": 2048,
            "vm": f"{role}-{number}",
            "fingerprint": "0" * 16,
        }
        for role, number, node in entries
    ]
    made = make_definitions({"assignments": seats}, [])
    rand.shuffle(seats)
    again = make_definitions({"assignments": seats}, [])
    if not made.errors:
        assert made == again
    for one in made.vms:
        assert re.fullmatch(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", one["name"])
        assert re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?", one["pve_node"])
        assert re.fullmatch(r"[a-z0-9_][a-z0-9_+.;-]*", one["config"]["tags"])
    numbers = [(one["cluster"], one["vmid"]) for one in made.vms]
    assert len(numbers) == len(set(numbers))
    words = [shlex.split(line) for line in render_commands(made.vms).splitlines() if line.startswith("  pvesh ")]
    assert all(word[:2] in (["pvesh", "create"], ["pvesh", "set"]) for word in words)
