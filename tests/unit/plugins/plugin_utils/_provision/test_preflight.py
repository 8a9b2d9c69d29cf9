# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import copy

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.findings import ERROR, INFO, WARNING
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.preflight import find_problems
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.settings import Allowed
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.state import read_state
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.steps import make_steps
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.table import (
    format_findings,
    format_results,
    format_steps,
    format_vms,
)

ALL = [
    "VM.Allocate",
    "VM.Audit",
    "VM.Clone",
    "VM.Config.CDROM",
    "VM.Config.CPU",
    "VM.Config.Cloudinit",
    "VM.Config.Disk",
    "VM.Config.HWType",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.Options",
    "VM.PowerMgmt",
]
ENTRY = {
    "id": "kn-n1-41-00",
    "node": "n1",
    "path": "0000:41:00",
    "pci_id": "10de:26b1",
    "subsystem_id": "10de:16a1",
    "iommu_group": 21,
}
VM = {
    "vmid": 9101,
    "name": "chat-0",
    "node": "node-1",
    "cluster": "c:8006",
    "pve_node": "n1",
    "role": "chat",
    "replica": 0,
    "fingerprint": "aaaa",
    "mappings": [ENTRY],
    "config": {
        "name": "chat-0",
        "cores": 8,
        "memory": 16384,
        "net0": "virtio,bridge=vmbr0",
        "scsi0": "tank:64,ssd=1",
        "efidisk0": "tank:1,efitype=4m,format=raw",
        "ide2": "tank:cloudinit",
        "hostpci0": "mapping=kn-n1-41-00,pcie=1",
    },
    "source": {"image": "local:import/debian.qcow2"},
    "start": True,
}


def card(address, **more):
    one = {"node": "n1", "address": address, "class": "030200", "pci_id": "10de:26b1", "subsystem_id": "10de:16a1"}
    return one | {"iommu_group": 21, "device_name": "L40S", "holders": []} | more


def storage(name, **more):
    one = {"node": "n1", "storage": name, "type": "zfspool", "content": ["images"], "shared": False, "active": True}
    return one | {"total_gib": 1000.0, "free_gib": 500.0, "volumes": []} | more


def guest(vmid, name, **more):
    one = {
        "vmid": vmid,
        "kind": "qemu",
        "name": name,
        "node": "n1",
        "status": "running",
        "lock": None,
        "template": False,
    }
    return one | {"tags": [], "memory_mib": 4096, "mark": None, "hostpci": None} | more


def ours(vmid, name, fingerprint="aaaa", own=("hostpci0", "net0"), devices=("hostpci0",), **more):
    mark = {"vm": name, "fingerprint": fingerprint, "own": list(own)}
    return guest(vmid, name, mark=mark, hostpci=[{"key": key, "value": "x"} for key in devices], **more)


def holder(vmid, name, **more):
    one = {"vmid": vmid, "name": name, "running": True, "key": "hostpci0", "mapping": None, "certain": True}
    return one | {"now": True, "later": True, "ours": False} | more


def answers():
    node = {"node": "n1", "status": "online", "cpus": 32, "memory_mib": 131072, "error": None}
    volumes = [{"volid": "local:import/debian.qcow2", "content": "import", "size_gib": 3, "vmid": None}]
    cluster = {
        "nodes": [node],
        "storages": [storage("tank"), storage("local", type="dir", content=["import"], volumes=volumes)],
        "bridges": [{"node": "n1", "bridge": "vmbr0", "active": True}],
        "vms": [guest(5000, "database")],
        "mappings": [],
        "privileges": {
            "/": ["Sys.Audit"],
            "/vms": ALL,
            "/storage": ["Datastore.AllocateSpace", "Datastore.Audit"],
            "/mapping/pci": ["Mapping.Audit", "Mapping.Modify", "Mapping.Use"],
            "/sdn/zones/localnetwork": ["SDN.Use"],
        },
    }
    audio = card("0000:41:00.1", **{"class": "040300", "pci_id": "10de:22ba"})
    bridge = card("0000:40:01.0", **{"class": "060400", "pci_id": "1022:1483"})
    pci = {
        "nodes": [{"node": "n1", "status": "online", "error": None}],
        "devices": [card("0000:41:00.0"), audio, bridge],
    }
    return cluster, pci


class Case:
    """A machine and a cluster in which all is well, to be spoiled."""

    def __init__(self):
        self.vms = [copy.deepcopy(VM)]
        self.cluster, self.pci = answers()
        self.vm = self.vms[0]
        self.config = self.vm["config"]
        self.card = self.pci["devices"][0]

    def clusters(self):
        return {"c:8006": read_state("c:8006", self.cluster, self.pci, identity="the token a@pve!b")}

    def find(self, **allowed):
        return find_problems(self.vms, self.clusters(), allowed=Allowed(**allowed))

    def codes(self, **allowed):
        return [(one.severity, one.code) for one in self.find(**allowed)]


@pytest.fixture
def case():
    return Case()


def test_all_is_well(case) -> None:
    assert case.codes() == [(INFO, "missing")]
    case.cluster["vms"].append(ours(9101, "chat-0"))
    case.cluster["mappings"] = [{"id": ENTRY["id"], "entries": [{k: v for k, v in ENTRY.items() if k != "id"}]}]
    assert case.codes() == []


def one_error(case, **allowed):
    errors = [one for one in case.find(**allowed) if one.severity == ERROR]
    assert len(errors) == 1, errors
    assert errors[0].remedy
    assert errors[0].line().startswith("ERROR ")
    return errors[0]


def spoil_node(case):
    case.vm["pve_node"] = "n9"


def spoil_privileges(case):
    case.cluster["privileges"]["/vms"] = ALL[:-1]


def spoil_mapping_privilege(case):
    del case.cluster["privileges"]["/mapping/pci"]


def spoil_deep_privilege(case):
    case.cluster["privileges"]["/storage/tank"] = ["Datastore.Audit"]


def spoil_vmid(case):
    case.cluster["vms"].append(guest(9101, "mail", kind="lxc"))


def spoil_image(case):
    case.vm["source"] = {"image": "local:import/other.qcow2"}


def spoil_image_storage(case):
    case.vm["source"] = {"image": "nfs:import/debian.qcow2"}


def spoil_image_path(case):
    case.vm["source"] = {"image": "/root/debian.qcow2"}


def spoil_template(case):
    case.vm["source"] = {"template": 9000}


def spoil_no_template(case):
    case.vm["source"] = {"template": 5000}


def spoil_template_place(case):
    case.vm["source"] = {"template": 9000}
    case.cluster["nodes"].append({"node": "n2", "status": "online", "cpus": 8, "memory_mib": 32768, "error": None})
    case.cluster["vms"].append(guest(9000, "debian", node="n2", template=True, status="stopped"))
    volumes = [{"volid": "tank:base-9000-disk-0", "content": "images", "size_gib": 3, "vmid": 9000}]
    case.cluster["storages"].append(storage("tank", node="n2", volumes=volumes))


def spoil_bridge(case):
    case.config["net0"] = "virtio,bridge=vmbr7,tag=3"


def spoil_vnet(case):
    case.cluster["privileges"]["/sdn/zones/localnetwork"] = []


def spoil_storage(case):
    for key in ("scsi0", "efidisk0", "ide2"):
        case.config[key] = case.config[key].replace("tank", "ssd")


def spoil_storage_state(case):
    case.cluster["storages"][0]["active"] = False


def spoil_storage_content(case):
    case.cluster["storages"][0]["content"] = ["backup"]


def spoil_room(case):
    case.cluster["storages"][0] |= {"type": "dir", "free_gib": 60.0}


def spoil_cores(case):
    case.config["cores"] = 33


def spoil_memory(case):
    case.config["memory"] = 130000


def spoil_card(case):
    case.pci["devices"] = [card("0000:42:00.0")]


def spoil_card_id(case):
    case.card["pci_id"] = "10de:2204"


def spoil_card_subsystem(case):
    case.card["subsystem_id"] = None


def spoil_card_group(case):
    case.card["iommu_group"] = 22


def spoil_iommu(case):
    for one in case.pci["devices"]:
        one["iommu_group"] = None


def spoil_group(case):
    case.pci["devices"].append(card("0000:42:00.0", **{"class": "020000", "device_name": "I350 Gigabit"}))


def spoil_holder(case):
    case.card["holders"] = [holder(5000, "database")]


def spoil_raw_holder(case):
    case.card["holders"] = [holder(5000, "database", running=False, now=False)]


def spoil_orphan_holder(case):
    case.cluster["vms"].append(ours(9200, "code-0", status="stopped"))
    case.card["holders"] = [holder(9200, "code-0", ours=True, running=False)]


def spoil_place(case):
    case.cluster["vms"].append(ours(9101, "chat-0", node="n2"))


def spoil_api(case):
    case.cluster = {"failed": True, "msg": "PVE does not know the token"}


@pytest.mark.parametrize(
    ("spoil", "code", "text"),
    [
        (spoil_node, "node_unknown", "the cluster has no node n9; it has n1"),
        (spoil_privileges, "privileges", "the token a@pve!b lacks VM.PowerMgmt on /vms/9101"),
        (
            spoil_mapping_privilege,
            "privileges",
            "lacks Mapping.Modify, Mapping.Use on /mapping/pci/kn-n1-41-00",
        ),
        (spoil_deep_privilege, "privileges", "lacks Datastore.AllocateSpace on /storage/tank"),
        (spoil_vnet, "privileges", "lacks SDN.Use on /sdn/zones/localnetwork/vmbr0"),
        (
            spoil_vmid,
            "vmid_taken",
            "vmid 9101 belongs to the container mail on n1, which is not managed by knaster.inventory",
        ),
        (spoil_image, "image_missing", "n1 has no image local:import/other.qcow2"),
        (spoil_image_storage, "image_missing", "the storage nfs, which n1 does not have"),
        (spoil_image_path, "image_path", "is a path on the node, which only root may import, not a token"),
        (spoil_template, "template_missing", "there is no template 9000"),
        (spoil_no_template, "template_missing", "VM 5000 is not a template"),
        (
            spoil_template_place,
            "template_elsewhere",
            "template 9000 is on n2 with disks on tank, which n1 does not share",
        ),
        (spoil_bridge, "bridge_missing", "n1 has no bridge vmbr7; it has vmbr0"),
        (spoil_storage, "storage_missing", "n1 has no storage ssd; it has local, tank"),
        (spoil_storage_state, "storage_inactive", "the storage tank of n1 is not active"),
        (spoil_storage_content, "storage_content", "takes no disks of VMs (content backup)"),
        (spoil_room, "storage_full", "the new disks of 1 VM on tank have 64 GB together, and 60 GB are free"),
        (spoil_cores, "cores", "it has 33 cores, and n1 has 32"),
        (spoil_memory, "memory", "its VMs have 130000 MiB together, 1 other running guest 4096 MiB"),
        (spoil_card, "gpu_missing", "n1 has no GPU at 0000:41:00.0"),
        (spoil_card_id, "gpu_changed", "has the id 10de:2204, and was planned with 10de:26b1"),
        (spoil_card_subsystem, "gpu_changed", "has the subsystem none, and was planned with 10de:16a1"),
        (spoil_card_group, "gpu_changed", "has the IOMMU group 22, and was planned with 21"),
        (spoil_iommu, "iommu_off", "is in no IOMMU group"),
        (spoil_group, "group_shared", "also holds 0000:42:00.0 (I350 Gigabit), which the node would lose"),
        (
            spoil_holder,
            "gpu_held",
            "database (VM 5000), which is not managed by knaster.inventory, runs with the GPU at 0000:41:00.0",
        ),
        (spoil_raw_holder, "gpu_held", "is configured with the GPU"),
        (spoil_orphan_holder, "gpu_held", "code-0 (VM 9200), which is in no plan any more, has the GPU"),
        (spoil_place, "wrong_node", "VM 9101 is on n2, and the plan has it on n1"),
        (spoil_api, "cluster_unreachable", "PVE does not know the token"),
    ],
)
def test_what_is_in_the_way(case, spoil, code, text) -> None:
    spoil(case)
    found = one_error(case)
    assert found.code == code
    assert text in found.text


def test_everything_at_once(case) -> None:
    for spoil in (
        spoil_bridge,
        spoil_storage,
        spoil_cores,
        spoil_card,
        spoil_image,
        spoil_mapping_privilege,
        spoil_vmid,
    ):
        spoil(case)
    case.cluster["vms"] = []
    codes = {code for severity, code in case.codes() if severity == ERROR}
    assert codes == {"bridge_missing", "storage_missing", "cores", "gpu_missing", "image_missing", "privileges"}
    severities = [one.severity for one in case.find()]
    assert severities == sorted(severities, key=(ERROR, WARNING, INFO).index), "the worst first"


def test_a_cluster_that_was_not_asked(case) -> None:
    (found,) = find_problems(case.vms, {})
    assert (found.code, found.severity) == ("cluster_unknown", ERROR)


def test_the_functions_of_the_card_and_bridges_may_share_its_group(case) -> None:
    assert case.codes() == [(INFO, "missing")]
    case.pci["devices"].append(card("0000:42:00.0"))
    assert (ERROR, "group_shared") in case.codes()
    case.vm["mappings"].append({**ENTRY, "id": "kn-n1-42-00", "path": "0000:42:00.0"})
    assert (ERROR, "group_shared") not in case.codes(), "another GPU of the same machine may"


def test_a_virtual_network_lies_in_a_zone_that_its_name_does_not_tell(case) -> None:
    case.config["net0"] = "virtio,bridge=tenant1"
    case.cluster["bridges"].append({"node": "n1", "bridge": "tenant1", "active": True})
    case.cluster["privileges"]["/sdn/zones/localnetwork"] = []
    case.cluster["privileges"]["/sdn/zones/vxlan"] = ["SDN.Use"]
    assert case.codes() == [(INFO, "missing")]


def test_thin_storage_is_only_warned_of(case) -> None:
    case.cluster["storages"][0] |= {"type": "lvmthin", "free_gib": 60.0}
    assert (WARNING, "storage_full") in case.codes()


def test_room_is_asked_only_for_machines_that_are_not_there(case) -> None:
    spoil_room(case)
    case.cluster["vms"].append(ours(9101, "chat-0"))
    assert (ERROR, "storage_full") not in case.codes()


def test_the_memory_of_the_node_itself_is_a_warning(case) -> None:
    case.config["memory"] = 126000
    assert (WARNING, "memory") in case.codes()
    case.vm["start"] = False
    assert (WARNING, "memory") not in case.codes(), "a machine that stands still takes none"


def test_what_is_there_already(case) -> None:
    case.cluster["vms"] += [
        ours(9101, "chat-0", fingerprint="bbbb", devices=("hostpci0", "hostpci1")),
        ours(9300, "chat-0"),
    ]
    case.cluster["vms"].append(guest(5001, "chat-0"))
    case.cluster["mappings"] = [{"id": ENTRY["id"], "entries": [{**ENTRY, "iommu_group": 7}]}]
    assert case.codes() == [
        (ERROR, "doubled"),
        (WARNING, "external_device"),
        (WARNING, "name_taken"),
        (INFO, "mapping_stale"),
        (INFO, "stale"),
    ]
    assert (ERROR, "doubled") in case.codes(prune=True, stop=True), "a clone by hand is not removed"
    assert (ERROR, "doubled") in [
        (one.severity, one.code) for one in find_problems([], case.clusters(), allowed=Allowed(prune=True))
    ]
    case.cluster["vms"] = [ours(9101, "chat-0", fingerprint="")]
    assert (INFO, "unknown") in case.codes()


def test_a_machine_that_is_being_made_is_no_stranger(case) -> None:
    case.cluster["vms"].append(guest(9101, "VM 9101", lock="create"))
    assert [code for severity, code in case.codes() if severity == ERROR] == []


def test_a_card_in_a_pool_is_warned_of(case) -> None:
    case.card["holders"] = [holder(5000, "database", certain=False)]
    assert (WARNING, "gpu_pool") in case.codes()


def test_a_machine_that_has_its_card_is_not_kept_from_running(case) -> None:
    case.cluster["vms"].append(ours(9101, "chat-0"))
    case.card["holders"] = [holder(9101, "chat-0", ours=True), holder(5000, "database", running=False)]
    assert (WARNING, "gpu_held") in case.codes()
    case.card["holders"] = [holder(9101, "chat-0", ours=True, running=False), holder(5000, "database")]
    assert (ERROR, "gpu_held") in case.codes()


def moving(case):
    """The GPU of chat-0 is with code-0, which is planned too and gets another one."""
    other = {**copy.deepcopy(VM), "vmid": 9102, "name": "code-0", "role": "code"}
    other["mappings"] = [{**ENTRY, "id": "kn-n1-42-00", "path": "0000:42:00.0", "iommu_group": 22}]
    other["config"] |= {"name": "code-0", "hostpci0": "mapping=kn-n1-42-00,pcie=1"}
    case.vms.append(other)
    case.pci["devices"].append(card("0000:42:00.0", iommu_group=22))
    case.cluster["vms"] += [ours(9101, "chat-0", status="stopped"), ours(9102, "code-0")]
    case.card["holders"] = [holder(9102, "code-0", ours=True, mapping=ENTRY["id"])]


@pytest.mark.parametrize("status", ["running", "stopped"])
def test_only_a_running_vm_needs_leave_to_be_stopped(case, status) -> None:
    """A VM that stands still is re-created elsewhere, or removed, without provision_allow_stop."""
    needed = [(ERROR, "needs_stop")] if status == "running" else []
    case.cluster["vms"].append(ours(9101, "chat-0", node="n2", status=status))
    found = [one for one in case.codes(recreate=True) if one[1] in ("needs_stop", "recreated")]
    assert found == (needed or [(INFO, "recreated")])
    assert (INFO, "recreated") in case.codes(recreate=True, stop=True)
    case.cluster["vms"] = [ours(9101, "chat-0"), ours(9300, "old-0", status=status)]
    found = [one for one in case.codes(prune=True) if one[1] in ("needs_stop", "orphan")]
    assert found == (needed or [(INFO, "orphan")])
    assert (INFO, "orphan") in case.codes(prune=True, stop=True)


@pytest.mark.parametrize("running", [True, False])
def test_a_gpu_of_a_vm_of_ours_that_stands_still_needs_no_leave(case, running) -> None:
    moving(case)
    case.card["holders"] = [holder(9102, "code-0", ours=True, running=running, mapping=ENTRY["id"])]
    assert ((ERROR, "needs_stop") in case.codes()) is running
    assert (ERROR, "needs_stop") not in case.codes(stop=True)


@pytest.mark.parametrize(("cores", "codes"), [(32, []), (33, [(ERROR, "cores")])])
def test_as_many_cores_as_the_node_has_threads(case, cores, codes) -> None:
    case.config["cores"] = cores
    assert [one for one in case.codes() if one[0] == ERROR] == codes


@pytest.mark.parametrize(
    ("free", "codes"), [(64.0, []), (63.9, [(ERROR, "storage_full")])], ids=["just enough", "a little less"]
)
def test_new_disks_may_fill_a_storage(case, free, codes) -> None:
    case.cluster["storages"][0] |= {"type": "dir", "free_gib": free}
    assert [one for one in case.codes() if one[1] == "storage_full"] == codes


def test_memory_of_a_node_is_enough_warned_of_or_too_little(case) -> None:
    total = case.cluster["nodes"][0]["memory_mib"]
    used = sum(one["memory_mib"] for one in case.cluster["vms"] if one["status"] == "running")
    for memory, codes in (
        (total - used - 2048, []),
        (total - used - 2047, [(WARNING, "memory")]),
        (total - used, [(WARNING, "memory")]),
        (total - used + 1, [(ERROR, "memory")]),
    ):
        case.config["memory"] = memory
        assert [one for one in case.codes() if one[1] == "memory"] == codes


def test_a_running_machine_is_stopped_only_when_allowed(case) -> None:
    moving(case)
    assert (ERROR, "needs_stop") in case.codes()
    assert ERROR not in {severity for severity, _code in case.codes(stop=True)}


def test_orphans_by_what_is_allowed(case) -> None:
    case.cluster["vms"].append(ours(9300, "old-0"))
    assert (WARNING, "orphan") in case.codes()
    assert (ERROR, "needs_stop") in case.codes(prune=True)
    assert (INFO, "orphan") in case.codes(prune=True, stop=True)


HOSTS = {("c:8006", "n1"): "node-1"}


def steps(case, **allowed):
    return make_steps(case.vms, case.clusters(), HOSTS, allowed=Allowed(**allowed), prefix="kn")


def test_steps_of_a_first_run(case) -> None:
    found = steps(case)
    assert [(one.phase, one.host) for one in found] == [("map", "node-1"), ("make", "node-1")]
    mapping = found[0].args["mapping"]
    assert mapping["entries"] == [{key: value for key, value in ENTRY.items() if key != "id"}]
    vm = found[1].args["vm"]
    assert (vm["vmid"], vm["node"], vm["started"], vm["anew"]) == (9101, "n1", True, False)


def test_a_mapping_that_is_right_needs_no_step(case) -> None:
    entry = {key: value for key, value in ENTRY.items() if key != "id"}
    other = {**entry, "node": "n2", "path": "0000:01:00.0"}
    case.cluster["mappings"] = [{"id": ENTRY["id"], "entries": [other, entry]}]
    assert [one.phase for one in steps(case)] == ["make"]
    case.cluster["mappings"][0]["entries"][1] = {**entry, "subsystem_id": None}
    assert [one.phase for one in steps(case)] == ["map", "make"]


def test_a_card_is_freed_before_it_is_given(case) -> None:
    moving(case)
    found = steps(case, stop=True)
    assert [(one.phase, one.args.get("vm", {}).get("name")) for one in found] == [
        ("release", "code-0"),
        ("map", None),
        ("map", None),
        ("make", "chat-0"),
        ("make", "code-0"),
    ]
    release = found[0].args["vm"]
    assert release["started"] is False
    assert release["config"]["hostpci0"] is None
    assert release["config"]["net0"] == "virtio,bridge=vmbr0", "what it has besides its GPUs stays its own"
    assert release["fingerprint"] == "aaaa", "it is not made yet what the plan says"
    assert found[-1].args["vm"]["started"] is True


def test_what_somebody_gave_a_machine_by_hand_is_taken_only_when_strict(case) -> None:
    moving(case)
    case.cluster["vms"][-1]["mark"]["own"] = ["net0"]
    assert "release" not in [one.phase for one in steps(case, stop=True)]
    assert (ERROR, "gpu_held") in case.codes(stop=True)
    assert "release" in [one.phase for one in steps(case, stop=True, strict=True)]
    assert (ERROR, "gpu_held") not in case.codes(stop=True, strict=True)


def test_only_what_is_ours_and_asked_for_is_removed(case) -> None:
    case.cluster["vms"] += [ours(9300, "old-0", status="stopped"), guest(9301, "stranger")]
    entry = {"node": "n1", "path": "0000:42:00.0", "pci_id": "10de:26b1", "subsystem_id": None, "iommu_group": None}
    case.cluster["mappings"] = [{"id": "kn-n1-42-00", "entries": [entry]}, {"id": "gpu-x", "entries": [entry]}]
    assert {one.phase for one in steps(case)} == {"map", "make"}
    found = steps(case, prune=True)
    assert [(one.phase, one.text) for one in found if one.phase in ("remove", "unmap")] == [
        ("remove", "old-0 (9300) on n1, with its disks"),
        ("unmap", "mapping kn-n1-42-00"),
    ]
    case.pci["devices"].append(card("0000:42:00.0", holders=[holder(9301, "stranger")]))
    assert "unmap" not in [one.phase for one in steps(case, prune=True)], "somebody else uses it"


def test_machines_on_other_nodes(case) -> None:
    case.cluster["nodes"].append({"node": "n2", "status": "online", "cpus": 8, "memory_mib": 32768, "error": None})
    case.cluster["vms"].append(ours(9101, "chat-0", node="n2", status="stopped"))
    found = steps(case, recreate=True)
    assert [(one.phase, one.host) for one in found] == [("remove", "node-1"), ("map", "node-1"), ("make", "node-1")]
    assert found[-1].args["vm"]["anew"] is True
    assert found[0].args["vm"]["node"] == "n2"


def test_nothing_is_done_on_a_node_that_is_away(case) -> None:
    case.cluster["nodes"][0] |= {"status": "offline", "error": "PVE says that it is offline"}
    case.cluster["vms"].append(ours(9300, "old-0"))
    assert steps(case, prune=True, stop=True) == []
    assert (WARNING, "node_offline") in case.codes()


def test_tables(case) -> None:
    table = format_vms(case.vms, case.clusters())
    assert table.splitlines() == [
        "NODE    VM      VMID  WHAT  GPUS        CORES  MEMORY MIB  NOW",
        "node-1  chat-0  9101  chat  0000:41:00      8       16384  missing",
    ]
    assert format_vms(case.vms, None).splitlines()[1].endswith("16384    -")
    assert format_vms([], None) == "The plan has no VMs.\n"
    spoil_bridge(case)
    text = format_findings(case.find())
    assert text == (
        "ERROR chat-0: n1 has no bridge vmbr7; it has vmbr0."
        " Set bridge, or make it and apply the network of the node.\n"
    )
    assert format_steps(steps(case)) == "To make or change: mapping kn-n1-41-00\n"


def test_the_table_of_what_was_done() -> None:
    item = {"vm": {"vmid": 9101, "name": "chat-0"}}
    results = [
        {"host": "n2", "item": item, "failed": True, "msg": "start failed:\nno GPU"},
        {
            "host": "n10",
            "item": item,
            "name": "code-0",
            "vmid": 9102,
            "vm_status": "running",
            "actions": [{"action": "update", "text": "..."}],
            "restart_needed": True,
            "pending": {"memory": "1", "cores": "2"},
            "external_additions": [{"key": "hostpci1", "value": "mapping=x"}],
            "attention": [
                {"code": "disk_larger", "key": "scsi0", "text": "It has 80 GiB", "remedy": "Change the definition"}
            ],
        },
    ]
    assert format_results(results).splitlines() == [
        "NODE  VM      VMID  NOW      DONE",
        "n2    chat-0  9101  -        failed",
        "n10   code-0  9102  running  update",
        "chat-0: start failed:?no GPU",
        "code-0: cores, memory waits for a restart",
        "code-0: hostpci1 (mapping=x) was added manually",
        "code-0: scsi0: It has 80 GiB. Change the definition",
    ]
    assert format_results([]) == ""
