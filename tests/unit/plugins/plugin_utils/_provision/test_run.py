# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Whole runs on the simulator: what may go, what stays, and how far an error reaches."""

from __future__ import annotations

import copy
import itertools
import sys
from pathlib import Path

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.client import Pve, PveError
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.mark import Mark, parse_mark
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.settings import Allowed

sys.path.insert(0, str(Path(__file__).parents[4] / "peers"))

import pve_sim
from pve_cluster import Clock
from pve_fleet import IMAGE, TOKEN, Fleet, PreflightError, api_of, provision

CHAT = {"name": "chat", "needs": {"engine": "vllm", "min_vram_gb": 20}, "count": 2, "vm": {"memory_mib": 8192}}
GATEWAY = {"name": "gateway", "needs": {"engine": "llamacpp", "gpu": False, "gpu_nodes": True}, "count": 2}
PRUNE = Allowed(prune=True, stop=True)


class Site:
    """A simulator and clients of it; time passes only when somebody waits."""

    def __init__(self):
        self.sim = pve_sim.PveSim()
        self.url = self.sim.start()

    def begin(self, fleet, **more):
        """Begin anew without a new server."""
        self.sim.state = pve_sim.PveSim(pve_sim.merge(fleet.seed(), more)).state
        self.sim.calls.clear()
        self.sim.faults = []
        self.sim.ahead = 0.0
        return fleet

    def api(self, **more) -> Pve:
        clock = Clock(self.sim)
        return api_of(self.url, self.sim.ca_file, sleep=clock.sleep, clock=clock, lock_limit=2.0, **more)

    def run(self, fleet, **more):
        """One run as the role does it: what is not in the way of an error is done."""
        return provision(self.api(), fleet, keep=True, **more)

    @property
    def guests(self):
        return self.sim.state["guests"]

    def names(self):
        return sorted(one["config"]["name"] for one in self.guests.values())

    def named(self, name):
        return next(one for one in self.guests.values() if one["config"].get("name") == name)


@pytest.fixture(scope="module")
def site():
    found = Site()
    yield found
    found.sim.stop()


def make(**more):
    return Fleet(**{"nodes": 2, "cards": 1, "roles": copy.deepcopy([CHAT]), **more})


def lose_card(fleet, node="pve-1"):
    """Take the GPU of a node off the bus, and collect the node again."""
    profile = next(one for one in fleet.profiles if one["name"] == node)
    profile["gpus"] = []


def plan_of(fleet):
    """The plan, also where something has no place."""
    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan

    catalog = check_catalog(None, fleet.roles).catalog
    return plan(fleet.profiles, catalog.roles, catalog.models, engines=catalog.engines)


def codes(outcome):
    return {(one.severity, one.code, one.vm) for one in outcome.prepared.findings}


def texts(outcome):
    return "\n".join(one.line() for one in outcome.prepared.findings)


# V1: only what the catalog does not want any more goes.


@pytest.mark.parametrize("loss", ["GPU", "node"])
def test_a_vm_that_lost_its_place_is_kept(site, loss) -> None:
    fleet = site.begin(make())
    site.run(fleet)
    if loss == "GPU":
        lose_card(fleet)
    else:
        fleet.profiles = fleet.profiles[:1]
    plan = plan_of(fleet)
    assert [one["missing"] for one in plan["unplaced"]] == [1]
    for allowed in (Allowed(), PRUNE):
        outcome = site.run(fleet, plan_document=plan, allowed=allowed, most=2)
        assert not outcome.changed
        assert "is kept: role chat is wanted, and 1 of it have no place in the plan" in texts(outcome)
        assert "provision_prune" not in texts(outcome)
    assert site.names() == ["chat-0", "chat-1"]
    fleet.forget()
    site.run(fleet, plan_document=plan, allowed=PRUNE, most=2)
    assert site.names() == ["chat-0", "chat-1"], "without the file of definitions the name of the VM tells whose it is"


def test_as_many_stay_as_have_no_place_and_the_others_go(site) -> None:
    fleet = site.begin(make(nodes=3, roles=[{**CHAT, "count": 3}]))
    site.run(fleet)
    site.named("chat-2")["status"] = "stopped"
    fleet.roles[0]["count"] = 2
    for node in ("pve-1", "pve-2"):
        lose_card(fleet, node)
    outcome = site.run(fleet, plan_document=plan_of(fleet), allowed=PRUNE)
    assert site.names() == ["chat-0", "chat-1"]
    assert ("warning", "orphan", "chat-1") in codes(outcome), "the one that runs is kept"


def test_what_the_catalog_does_not_want_goes_within_the_share(site) -> None:
    fleet = site.begin(make(nodes=3, roles=[{**CHAT, "count": 3}]))
    site.run(fleet)
    fleet.roles[0]["count"] = 2
    site.run(fleet, allowed=PRUNE)
    assert site.names() == ["chat-0", "chat-1"], "one of three is a third"
    fleet.roles[0]["count"] = 1
    outcome = site.run(fleet, allowed=PRUNE)
    assert site.names() == ["chat-0", "chat-1"], "one of two is more"
    assert "1 of 2 VMs would be removed, more than a third. " in texts(outcome)
    assert not [step for step in outcome.prepared.steps if step.phase in ("remove", "unmap")]
    site.run(fleet, allowed=PRUNE, most=0)
    assert site.names() == ["chat-0", "chat-1"]
    site.run(fleet, allowed=PRUNE, most=1)
    assert site.names() == ["chat-0"]


def test_a_lost_layer_or_a_lost_file_of_definitions_removes_nothing(site) -> None:
    fleet = site.begin(make(nodes=3, roles=[{**CHAT, "count": 3}]))
    site.run(fleet)
    fleet.roles[0]["count"] = 2
    fleet.lost_layers = ("../catalog/roles.yaml",)
    outcome = site.run(fleet, allowed=PRUNE, most=9)
    assert "were not read: ../catalog/roles.yaml" in texts(outcome)
    assert len(site.names()) == 3
    fleet.forget()
    outcome = site.run(fleet, allowed=PRUNE, most=9)
    assert "there is no file of definitions" in texts(outcome)
    assert len(site.names()) == 3
    site.run(fleet, allowed=PRUNE, most=9)
    assert len(site.names()) == 2, "the run before wrote it"


KEPT = {
    "protected": lambda site, vmid: site.guests[vmid]["config"].update(protection=1),
    "locked (backup)": lambda site, vmid: site.guests[vmid]["config"].update(lock="backup"),
    "high availability keeps it started": lambda site, vmid: site.sim.state["ha"]["resources"].update(
        {f"vm:{vmid}": {"state": "started"}}
    ),
}


@pytest.mark.parametrize("reason", KEPT)
def test_what_somebody_looks_after_is_kept(site, reason) -> None:
    fleet = site.begin(make())
    site.run(fleet)
    vmid = str(next(one["vmid"] for one in fleet.previous if one["name"] == "chat-1"))
    KEPT[reason](site, vmid)
    fleet.roles[0]["count"] = 1
    outcome = site.run(fleet, allowed=PRUNE, most=1)
    assert site.names() == ["chat-0", "chat-1"]
    assert reason in texts(outcome)
    assert site.guests[vmid]["status"] == "running"


def test_before_a_removal_the_text_says_what_goes_with_it(site) -> None:
    fleet = site.begin(make())
    site.run(fleet)
    vmid = str(next(one["vmid"] for one in fleet.previous if one["name"] == "chat-1"))
    site.sim.state["backup"]["nightly"] = {"vmid": f"100,{vmid}"}
    site.sim.state["replication"][f"{vmid}-0"] = {"target": "pve-0", "type": "local"}
    fleet.roles[0]["count"] = 1
    outcome = site.run(fleet, allowed=PRUNE, most=1)
    told = f"its disks (scsi0), its place in backup nightly, its place in replication {vmid}-0"
    assert told in texts(outcome).replace("efidisk0, ", "")
    assert site.sim.state["backup"]["nightly"]["vmid"] == "100"
    assert site.names() == ["chat-0"]


def test_jobs_keep_the_number_of_a_vm_that_is_made_anew(site) -> None:
    """V14."""
    role = {**CHAT, "count": 1, "needs": {**CHAT["needs"], "node": "pve-0"}}
    fleet = site.begin(make(roles=[role]))
    site.run(fleet)
    vmid = str(fleet.previous[0]["vmid"])
    site.sim.state["backup"]["nightly"] = {"vmid": vmid}
    role["needs"]["node"] = "pve-1"
    site.run(fleet, allowed=Allowed(recreate=True, stop=True))
    assert site.guests[vmid]["node"] == "pve-1"
    assert site.sim.state["backup"]["nightly"]["vmid"] == vmid


# V3: the mark has an owner.


def test_two_fleets_share_a_cluster_in_every_order(site) -> None:
    """Present, prune, absent and recreate of one never touch the other's, though both have a role of the same name."""
    actions = {
        "present": {},
        "prune": {"allowed": PRUNE, "most": 9},
        "recreate": {"allowed": Allowed(recreate=True, stop=True)},
        "absent": {"allowed": Allowed(stop=True), "present": False},
    }
    first = make(cards=2, roles=[{**CHAT, "needs": {**CHAT["needs"], "node": "pve-0"}}], name="first")
    second = make(cards=2, roles=[{**CHAT, "needs": {**CHAT["needs"], "node": "pve-1"}}], name="second")
    for order in itertools.permutations(actions):
        site.begin(first)
        for fleet in (first, second):
            fleet.forget()
        site.run(first)
        before = copy.deepcopy((site.guests, site.sim.state["mapping"]["pci"]))
        for action in order:
            site.run(second, **actions[action])
            now = site.guests, site.sim.state["mapping"]["pci"]
            assert {vmid: now[0].get(vmid) for vmid in before[0]} == before[0], (order, action)
            assert {name: now[1].get(name) for name in before[1]} == before[1], (order, action)
            mine = {parse_mark(one["config"]["description"]).fleet for one in now[0].values()}
            assert mine == ({"first"} if action == "absent" else {"first", "second"}), (order, action)
        site.run(first, present=False, allowed=Allowed(stop=True))
        left = {parse_mark(one["config"]["description"]).fleet for one in site.guests.values()}
        assert left == ({"second"} if order[-1] != "absent" else set())


def test_a_mapping_of_another_fleet_stays_while_nobody_uses_it(site) -> None:
    first = site.begin(make(name="first"))
    site.run(first)
    site.guests.clear()
    second = make(roles=[], name="second")
    second.previous = []
    second.is_remembered = True
    site.run(second, allowed=PRUNE)
    assert sorted(site.sim.state["mapping"]["pci"]) == ["kn-pve-0-41-00", "kn-pve-1-41-00"]
    site.run(first, present=False, allowed=PRUNE)
    assert not site.sim.state["mapping"]["pci"]


def test_a_mark_without_a_fleet_is_ours_only_if_its_number_is_known(site) -> None:
    fleet = site.begin(make())
    site.run(fleet)
    for guest in site.guests.values():
        mark = parse_mark(guest["config"]["description"])
        guest["config"]["description"] = Mark(mark.vm, mark.fingerprint, mark.own).line()
    stranger = copy.deepcopy(site.named("chat-1"))
    stranger["config"] |= {"name": "old-0", "description": Mark("old-0", "", ("net0",)).line()}
    stranger["config"].pop("hostpci0")
    stranger |= {"devices": [], "status": "stopped"}
    site.guests["7000"] = stranger
    outcome = site.run(fleet, allowed=PRUNE, most=9)
    assert site.names() == ["chat-0", "chat-1", "old-0"]
    assert len(outcome.changed) == 2
    assert {parse_mark(site.named(name)["config"]["description"]).fleet for name in ("chat-0", "chat-1")} == {"lab"}


def test_a_vm_without_its_tag_is_known_by_its_mark(site) -> None:
    """V15: with the file of definitions lost, too."""
    fleet = site.begin(make())
    site.run(fleet)
    for guest in site.guests.values():
        guest["config"]["tags"] = "mine"
    fleet.forget()
    outcome = site.run(fleet)
    assert not outcome.prepared.errors
    assert len(site.guests) == 2


def test_whose_mark_was_edited_away_is_told_which_line_brings_it_back(site) -> None:
    """V15."""
    fleet = site.begin(make())
    site.run(fleet)
    guest = site.named("chat-0")
    before = guest["config"]["description"]
    guest["config"]["description"] = "the chat of the team"
    outcome = site.run(fleet)
    assert f"put this line back into its description: {before}" in texts(outcome)
    guest["config"]["description"] = f"the chat of the team\n\n{before}"
    assert not site.run(fleet).changed


# V7: an error reaches no further than it must.


def test_one_edited_note_costs_one_vm(site) -> None:
    fleet = site.begin(make())
    site.run(fleet)
    site.named("chat-0")["config"]["description"] = "edited"
    fleet.roles[0]["vm"]["memory_mib"] = 4096
    outcome = site.run(fleet)
    assert [one.vm for one in outcome.prepared.errors] == ["chat-0"]
    assert [step.text for step, result in outcome.results if result["changed"]] == [
        f"chat-1 ({fleet.previous[1]['vmid']}) on pve-1"
    ]


def test_a_vm_that_waits_for_one_that_stays_is_told(site) -> None:
    fleet = site.begin(make(nodes=1, cards=2))
    first = fleet.plan()
    site.run(fleet, plan_document=first)
    swapped = copy.deepcopy(first)
    one, two = swapped["assignments"]
    for key in ("gpu_index", "gpu"):
        one[key], two[key] = two[key], one[key]
    vmids = {one["name"]: one["vmid"] for one in fleet.previous}
    fleet.more = {"addresses": {"chat-0": "ip=10.0.0.500/24"}}
    outcome = site.run(fleet, plan_document=swapped, allowed=Allowed(stop=True))
    assert not outcome.changed
    assert [(one.vm, one.code) for one in outcome.prepared.errors] == [("chat-0", "definition"), ("chat-1", "gpu_held")]
    assert "which cannot be changed in this run" in texts(outcome)
    assert {one["name"]: one["vmid"] for one in [*fleet.previous, *fleet.earlier]} == vmids, "no number is forgotten"


def test_a_storage_that_cannot_be_listed_says_nothing_about_its_node(site) -> None:
    fleet = site.begin(make())
    site.sim.faults = [{"match": "GET /nodes/pve-0/storage/local/content", "kind": "http", "status": 500, "times": -1}]
    outcome = site.run(fleet)
    assert site.names() == ["chat-0", "chat-1"]
    assert not [one for one in outcome.prepared.findings if one.code.startswith("node")]


def test_a_call_that_fails_costs_one_vm(site) -> None:
    fleet = site.begin(make())
    vmid = site.run(fleet, check_mode=True).prepared.definitions.vms[0]["vmid"]
    site.sim.faults = [{"match": f"POST .*/{vmid}/status/start", "kind": "task_fail", "message": "start failed"}]
    with pytest.raises(PveError, match="start failed"):
        site.run(fleet)
    site.run(fleet)
    assert [one["status"] for one in site.guests.values()] == ["running", "running"]


# V2: a template of any shape.

DISKS = {"base-9000-disk-0": 0.004, "base-9000-disk-1": 3}


def template(**more):
    config = {
        "name": "debian", "template": 1, "memory": "2048", "scsihw": "virtio-scsi-single", "boot": "order=virtio0",
        "virtio0": "local-lvm:base-9000-disk-1,size=3G", "net0": "virtio=BC:24:11:AA:00:01,bridge=vmbr0", **more,
    }  # fmt: skip
    return {"node": "pve-0", "status": "stopped", "pending": {}, "config": config}


def from_template(site, defaults=None, **more):
    defaults = {"template": 9000, "disk_gb": 40, "cloud_init": {"ciuser": "ops"}, **(defaults or {})}
    fleet = make(nodes=1, roles=[{**CHAT, "count": 1}], defaults=defaults, guests={"9000": template(**more)})
    site.begin(fleet, storages={"local-lvm": {"volumes": {**DISKS, "vm-9000-cloudinit": 0.004}, "shared": 1}})
    return fleet


def test_a_clone_keeps_its_disk_and_its_cloud_init_drive_where_the_template_has_them(site) -> None:
    fleet = from_template(site, scsi1="local-lvm:vm-9000-cloudinit,media=cdrom")
    outcome = site.run(fleet)
    assert not outcome.prepared.errors
    config = site.named("chat-0")["config"]
    assert config["virtio0"].endswith("size=40G")
    assert "cloudinit" in config["scsi1"]
    assert not {"scsi0", "ide2", "bios", "efidisk0"} & set(config)
    again = site.run(fleet)
    assert not again.changed
    assert [result["external_additions"] for step, result in again.results if step.phase == "make"] == [[]]


def test_a_bios_that_the_template_does_not_have_is_warned_of(site) -> None:
    outcome = site.run(from_template(site, {"config": {"bios": "ovmf"}}), check_mode=True)
    assert "template 9000 has the bios seabios, and config says ovmf" in texts(outcome)


# V4, V9, V11: everything that is in the way is told at once.

IN_THE_WAY = [
    ({"cloud_init": {"ipconfig0": "ip=10.0.0.21,gw=10.0.0.1"}}, "ip=10.0.0.21 is not an address with its mask"),
    ({"cloud_init": {"ipconfig0": "gw=10.0.0.1"}}, "gw needs ip beside it"),
    ({"cloud_init": {"ipconfig0": "ip=10.0.0.500/24"}}, "ip=10.0.0.500/24 is not an address with its mask"),
    ({"cloud_init": {"citype": "cloudbase"}}, "must be one of configdrive2, nocloud, opennebula"),
    ({"cloud_init": {"cicustom": "gpu.yaml"}}, "'gpu.yaml' is not one of meta, network, user, vendor"),
    ({"cloud_init": {"sshkeys": "# mine\nssh-ed25519 AAAA me"}}, "line 1: it is not a public key"),
    ({"config": {"arch": "x86_64"}}, "arch can be set only by root"),
    ({"config": {"ivshmem": "size=32"}}, "ivshmem can be set only by root"),
    ({"config": {"parallel0": "/dev/parport0"}}, "parallel0 can be set only by root"),
    ({"config": {"vmgenid": "1"}}, "vmgenid can be set only by root"),
    ({"config": {"usb0": "mapping=stick"}}, "lacks Mapping.Use on /mapping/usb/stick"),
    ({"config": {"virtiofs0": "models"}}, "lacks Mapping.Use on /mapping/dir/models"),
    ({"config": {"net1": "virtio,bridge=vmbr7"}}, "lacks SDN.Use on /sdn/zones/localnetwork/vmbr7"),
    ({"cloud_init": {"cicustom": "vendor=local:snippets/gpu.yaml"}}, "which takes no snippets"),
    ({"config": {"hotplug": "memory"}}, "hotplug of memory needs numa"),
    ({"config": {"numa": 1, "numa0": "cpus=0-3,memory=100"}}, "Proxmox VE wants 8192 MiB"),
]


@pytest.mark.parametrize(("defaults", "text"), IN_THE_WAY)
def test_what_would_be_refused_is_told_before(site, defaults, text) -> None:
    fleet = site.begin(make(nodes=1, roles=[{**CHAT, "count": 1}], defaults={"image": IMAGE, **defaults}))
    if "net1" in str(defaults):
        site.sim.state["acl"] = [
            one | {"path": one["path"] + "/vmbr0"} if "sdn" in one["path"] else one for one in site.sim.state["acl"]
        ]
    outcome = site.run(fleet)
    assert text in texts(outcome)
    assert "has no bridge" not in texts(outcome)
    assert not site.sim.calls


def test_a_network_on_a_bridge_that_is_not_there_and_a_snippet_that_is_not_there(site) -> None:
    defaults = {"image": IMAGE, "config": {"net1": "virtio,bridge=vmbr7"}}
    defaults["cloud_init"] = {"cicustom": "vendor=local:snippets/gpu.yaml"}
    fleet = make(nodes=1, roles=[{**CHAT, "count": 1}], defaults=defaults)
    site.begin(fleet, storages={"local": {"content": ["import", "snippets"]}})
    found = texts(site.run(fleet))
    assert "pve-0 has no bridge vmbr7; it has vmbr0" in found
    assert "pve-0 has no snippet local:snippets/gpu.yaml" in found
    site.sim.state["nodes"]["pve-0"]["bridges"].append("vmbr7")
    site.sim.state["storages"]["local"]["volumes"]["snippets/gpu.yaml"] = 0.001
    assert not site.run(fleet).prepared.errors
    assert site.named("chat-0")["status"] == "running"


def test_keys_that_a_token_may_set_are_taken(site) -> None:
    config = {"spice_enhancements": "foldersharing=1", "migrate_downtime": 0.5, "vmstatestorage": "local-lvm"}
    fleet = site.begin(make(nodes=1, roles=[{**CHAT, "count": 1}], defaults={"image": IMAGE, "config": config}))
    assert not site.run(fleet).prepared.errors
    assert site.named("chat-0")["config"]["vmstatestorage"] == "local-lvm"
    assert not site.run(fleet).changed


def test_an_empty_key_is_none(site) -> None:
    """V5."""
    defaults = {"image": IMAGE, "cloud_init": {"sshkeys": "", "ciuser": "ops"}}
    fleet = site.begin(make(nodes=1, roles=[{**CHAT, "count": 1}], defaults=defaults))
    site.run(fleet)
    assert "sshkeys" not in site.named("chat-0")["config"]
    assert not site.run(fleet).changed


def test_a_token_without_privileges_is_told_as_one(site) -> None:
    """V11: storages and bridges that it may not use are not shown to it."""
    fleet = site.begin(make(nodes=1, roles=[{**CHAT, "count": 1}]))
    site.sim.state["acl"] = [one for one in site.sim.state["acl"] if one["who"] != TOKEN]
    outcome = site.run(fleet)
    assert {one.code for one in outcome.prepared.errors} == {"privileges"}
    assert "VM.Allocate" in texts(outcome)
    assert not site.sim.calls


def privileges_of(acl):
    return [(at, name) for at, one in enumerate(acl) if one["who"] == TOKEN for name in one["privs"]]


def test_each_privilege_of_the_guide_is_needed_or_said(site) -> None:
    """With exactly those of the guide everything is done; with each taken away it is told before anything changes, or not needed."""
    fleet = from_template(site)
    acl = copy.deepcopy(site.sim.state["acl"])
    site.run(fleet)
    assert site.named("chat-0")["status"] == "running"
    site.run(fleet, present=False, allowed=Allowed(stop=True))
    assert site.names() == ["debian"]
    for at, name in privileges_of(acl):
        fleet.forget()
        site.sim.state["acl"] = copy.deepcopy(acl)
        site.sim.state["acl"][at]["privs"].remove(name)
        site.sim.calls.clear()
        outcome = site.run(fleet)
        if outcome.prepared.errors:
            assert name in texts(outcome), name
            assert not site.sim.calls, name
        else:
            assert name in ("Mapping.Audit", "SDN.Audit", "Datastore.Audit", "Pool.Audit"), name
            site.sim.state["acl"] = copy.deepcopy(acl)
            site.run(fleet, present=False, allowed=Allowed(stop=True))


# V6, V10, V12, V13, V14: changes.


def test_check_mode_on_an_empty_cluster_misses_no_mapping_that_the_run_makes(site) -> None:
    """V6."""
    fleet = site.begin(make())
    outcome = site.run(fleet, check_mode=True)
    assert not site.sim.calls
    assert [result["attention"] for step, result in outcome.results if step.phase == "make"] == [[], []]


def test_what_waits_for_a_restart_is_applied_by_a_later_run_that_may_stop(site) -> None:
    """V10 and V12: a VM with two GPUs becomes one with one while it runs."""
    two = {**CHAT, "count": 1, "needs": {**CHAT["needs"], "min_vram_gb": 20}}
    fleet = site.begin(make(nodes=1, cards=2, roles=[two]))
    plan = fleet.plan()
    site.run(fleet, plan_document=plan)
    vmid = str(fleet.previous[0]["vmid"])
    guest = site.guests[vmid]
    mark = parse_mark(guest["config"]["description"])
    # As an earlier definition with two GPUs left it.
    guest["config"] |= {"hostpci1": "mapping=kn-pve-0-42-00,pcie=1"}
    guest["config"]["description"] = Mark(
        mark.vm, mark.fingerprint, ("hostpci0", "hostpci1", "net0"), mark.fleet
    ).line()
    site.sim.state["mapping"]["pci"]["kn-pve-0-42-00"] = {
        "description": site.sim.state["mapping"]["pci"]["kn-pve-0-41-00"]["description"],
        "map": ["id=10de:26b1,iommugroup=31,node=pve-0,path=0000:42:00,subsystem-id=10de:16a1"],
    }
    site.run(fleet, plan_document=plan)
    assert guest["pending"] == {"hostpci1": None}
    outcome = site.run(fleet, plan_document=plan, allowed=Allowed(prune=True))
    assert not outcome.changed, "the mapping stays as long as the VM keeps its GPU"
    assert "hostpci1" not in texts(outcome), "it is nobody else's"
    outcome = site.run(fleet, plan_document=plan, allowed=PRUNE)
    assert guest["pending"] == {}
    assert "hostpci1" not in guest["config"]
    assert guest["status"] == "running"
    assert list(site.sim.state["mapping"]["pci"]) == ["kn-pve-0-41-00"]
    assert not site.run(fleet, plan_document=plan, allowed=PRUNE).changed


def test_what_is_taken_out_of_config_goes_and_its_disks_stay(site) -> None:
    """V10."""
    more = {
        "config": {"scsi1": "local-lvm:8", "serial0": "socket", "tpmstate0": "local-lvm:1,version=v2.0"},
        "cloud_init": {"ciuser": "ops", "nameserver": "10.0.0.1"},
        "tags": ["old"],
    }
    fleet = site.begin(make(nodes=1, roles=[{**CHAT, "count": 1}], defaults={"image": IMAGE, **more}))
    site.run(fleet)
    config = site.named("chat-0")["config"]
    assert {"scsi1", "serial0", "tpmstate0", "ciuser"} <= set(config)
    fleet.defaults = {"image": IMAGE, "cloud_init": {"ciuser": "ops"}}
    for strict in (False, True):
        outcome = site.run(fleet, allowed=Allowed(strict=strict, stop=True), strict=strict)
        (result,) = [result for step, result in outcome.results if step.phase == "make"]
        assert result["external_additions"] == []
        assert [one["key"] for one in result["attention"]] == ["scsi1", "tpmstate0"]
        assert {"scsi1", "tpmstate0"} <= set(config)
        assert not {"serial0", "nameserver"} & set(config)
        assert config["tags"] == "chat;knaster"


def test_what_an_admin_set_on_a_device_stays(site) -> None:
    """V8 and V14."""
    fleet = site.begin(make(nodes=1, roles=[{**CHAT, "count": 1}]))
    site.run(fleet)
    guest = site.named("chat-0")
    guest["config"]["net0"] += ",firewall=1"
    guest["config"]["hostpci0"] += ",rombar=0"
    assert not site.run(fleet).changed
    fleet.defaults = {**fleet.defaults, "vlan": 7}
    outcome = site.run(fleet)
    assert "firewall=1" in guest["config"]["net0"]
    assert "tag=7" in guest["config"]["net0"]
    (result,) = [result for step, result in outcome.results if step.phase == "make"]
    assert {"key": "hostpci0", "value": "rombar=0"} in result["external_additions"]
    site.run(fleet, allowed=Allowed(strict=True, stop=True), strict=True)
    assert "firewall" not in guest["config"]["net0"]
    assert "rombar" not in guest["config"]["hostpci0"]


def test_a_vm_of_high_availability_is_stopped_and_started_through_its_manager(site) -> None:
    """V13."""
    fleet = site.begin(make(nodes=1, roles=[{**CHAT, "count": 1}]))
    site.run(fleet)
    vmid = str(fleet.previous[0]["vmid"])
    site.sim.state["ha"]["resources"][f"vm:{vmid}"] = {"state": "started"}
    fleet.roles[0]["vm"]["memory_mib"] = 4096
    site.run(fleet, allowed=Allowed(stop=True))
    guest = site.guests[vmid]
    assert (guest["status"], guest["pending"], guest["config"]["memory"]) == ("running", {}, "4096")
    assert site.sim.state["ha"]["resources"][f"vm:{vmid}"] == {"state": "started"}
    assert {call["upid"].split(":")[5] for call in site.sim.calls if "/status/" in call["path"]} >= {
        "hastop",
        "hastart",
    }


def test_a_gpu_that_offers_parts_is_not_given_as_a_whole(site) -> None:
    """V8."""
    fleet = site.begin(make(nodes=1, roles=[{**CHAT, "count": 1}]))
    for device in site.sim.state["nodes"]["pve-0"]["pci"]:
        device["mdev"] = 1
    outcome = site.run(fleet)
    assert "offers mediated devices" in texts(outcome)
    assert not site.sim.calls


def test_numa_keys_of_a_template_that_do_not_fit_are_told(site) -> None:
    """V9."""
    fleet = from_template(site, numa=1, numa1="cpus=0-1,memory=1024")
    assert "numa0, numa1 have" in texts(site.run(fleet))


# What admins expect of the settings.


def test_lists_of_disks_and_networks(site) -> None:
    said = {
        "firewall": True,
        "disks": [{"gb": 16}, {"gb": 8, "storage": "local-lvm", "backup": False, "cache": "writeback"}],
        "networks": [{"bridge": "vmbr0", "vlan": 7, "mac": "bc:24:11:00:00:0a", "mtu": 9000, "address": "ip=dhcp"}],
        "cloud_init": {"ciuser": "ops"},
    }
    fleet = site.begin(make(nodes=1, roles=[{**CHAT, "count": 1}], defaults={"image": IMAGE, **said}))
    assert not site.run(fleet).prepared.errors
    config = site.named("chat-0")["config"]
    assert "firewall=1" in config["net0"]
    assert config["net1"] == "virtio=BC:24:11:00:00:0A,bridge=vmbr0,mtu=9000,tag=7"
    assert config["ipconfig1"] == "ip=dhcp"
    assert config["scsi1"].endswith("size=16G,ssd=1")
    assert "backup=0,cache=writeback" in config["scsi2"]
    assert not site.run(fleet).changed
    fleet.defaults = {"image": IMAGE, "cloud_init": {"ciuser": "ops"}}
    site.run(fleet)
    assert not {"net1", "ipconfig1"} & set(config)
    assert {"scsi1", "scsi2"} <= set(config), "disks stay"


def test_options_of_gpus(site) -> None:
    said = {"hostpci": {"rombar": False, "x-vga": True}}
    fleet = site.begin(make(nodes=1, roles=[{**CHAT, "count": 1}], defaults={"image": IMAGE, **said}))
    site.run(fleet)
    assert site.named("chat-0")["config"]["hostpci0"] == "mapping=kn-pve-0-41-00,pcie=1,rombar=0,x-vga=1"
    assert not site.run(fleet).changed
    fleet.defaults["hostpci"]["romfile"] = "gpu.rom"
    assert "hostpci0 can be set only by root" in texts(site.run(fleet))


def test_a_part_of_a_gpu(site) -> None:
    fleet = make(nodes=1, roles=[{**CHAT, "count": 1}], defaults={"image": IMAGE, "hostpci": {"mdev": "nvidia-63"}})
    site.begin(fleet)
    for device in site.sim.state["nodes"]["pve-0"]["pci"]:
        device["mdev"] = 1
    assert not site.run(fleet).prepared.errors
    assert site.sim.state["mapping"]["pci"]["kn-pve-0-41-00"]["mdev"] == 1
    assert site.named("chat-0")["status"] == "running"
    assert not site.run(fleet).changed


@pytest.mark.parametrize("linked", [True, False])
def test_a_linked_clone_has_no_disks_of_its_own(site, linked) -> None:
    fleet = from_template(site, {"linked_clone": linked, "storage": "local-lvm"})
    assert not site.run(fleet).prepared.errors
    (call,) = [call for call in site.sim.calls if call["path"].endswith("/clone")]
    assert (call["params"]["full"], "storage" in call["params"]) == (("0", False) if linked else ("1", True))


def test_a_pool_and_privileges_on_it_are_enough(site) -> None:
    fleet = make(nodes=1, roles=[{**CHAT, "count": 1}], defaults={"image": IMAGE, "pool": "llm"})
    site.begin(fleet)
    for one in site.sim.state["acl"]:
        if one["path"] == "/vms":
            one |= {"path": "/pool/llm", "privs": [*one["privs"], "Pool.Audit"]}
    assert "there is no pool llm; there are none" in texts(site.run(fleet))
    site.sim.state["pools"]["llm"] = {}
    assert not site.run(fleet).prepared.errors
    assert site.sim.state["pools"]["llm"]["members"] == [fleet.previous[0]["vmid"]]
    assert not site.run(fleet).changed


def test_errors_raise_where_the_harness_is_asked_to(site) -> None:
    fleet = site.begin(make(nodes=1, defaults={"image": "local:import/none.qcow2"}, roles=[{**CHAT, "count": 1}]))
    with pytest.raises(PreflightError, match="has no image"):
        provision(site.api(), fleet)
