# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.client import PveError
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.cluster import read_cluster, read_pci
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.hardware import devices_from_rows
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.mappings import (
    ensure_mapping,
    entry_problems,
    mapping_wanted,
    merged_map,
    read_mappings,
)
from ansible_collections.knaster.inventory.tests.peers import pve_cluster as peer


def entry(node="pve-0", bus=0x41, group=20, **more):
    return {
        "node": node, "path": f"0000:{bus:02x}:00.0", "pci_id": "10de:26b1", "subsystem_id": "10de:16a1",
        "iommu_group": group, **more,
    }  # fmt: skip


def text(node="pve-0", bus=0x41, group=20):
    return f"id=10de:26b1,iommugroup={group},node={node},path=0000:{bus:02x}:00.0,subsystem-id=10de:16a1"


def test_cards():
    answer = [
        peer.pci(0x42, 21),
        {**peer.pci(0x41, 20), "iommugroup": -1, "subsystem_vendor": None, "mdev": 1},
        {"id": "0000:03:00.0", "class": "0x030000", "vendor": "0x1a03", "device": "0x2000", "iommugroup": "5"},
        {"id": "0000:c1:00.0", "class": "0x120000", "vendor": "0x1002", "device": "0x74a1", "iommugroup": 7},
        {"id": "nonsense"},
    ]
    cards = devices_from_rows("pve-0", answer)
    assert [(card.address.text, card.is_gpu, card.iommu_group) for card in cards] == [
        ("0000:03:00.0", False, 5),
        ("0000:41:00.0", True, None),
        ("0000:42:00.0", True, 21),
        ("0000:c1:00.0", True, 7),
    ]
    assert (cards[1].subsystem_id, cards[1].mdev) == (None, True)


def test_entries_are_compared_as_pve_compares():
    cards = devices_from_rows("pve-0", [peer.pci(0x41, 20), peer.pci(0x42, 21)])

    def problems(**more):
        return entry_problems(mapping_wanted("a1", [entry(**more)]).entries[0], cards)

    assert problems() == []
    assert problems(path="0000:41:00") == []
    assert problems(path="0000:41:00.0;42:00.0") == []
    assert problems(path="43:00.0") == ["node pve-0 has no PCI device 0000:43:00.0"]
    assert problems(group=99) == ["0000:41:00.0 on pve-0 has iommu_group 20, the entry says 99"]
    assert problems(group=None) == ["0000:41:00.0 on pve-0 has iommu_group 20, the entry says none"]
    assert problems(subsystem_id=None) == ["0000:41:00.0 on pve-0 has subsystem_id 10de:16a1, the entry says none"]


def test_wrong_input_is_told_at_once():
    with pytest.raises(PveError) as caught:
        mapping_wanted(
            "1a",
            [
                {"node": "a b", "path": "x", "pci_id": "y", "subsystem_id": "z", "description": "a,b"},
                entry(node="pve-1"),
            ],
            ["pve-0"],
        )
    for part in (
        "id: '1a'",
        "entries[0].node",
        "entries[0].path",
        "entries[0].pci_id",
        "entries[0].subsystem_id",
        "entries[0].description",
        "pve-1 is not one of",
    ):
        assert part in str(caught.value)
    with pytest.raises(PveError, match="at least one entry"):
        mapping_wanted("a1")
    mapping_wanted("a1", present=False)


def test_entries_of_other_nodes_stay_in_their_place():
    have = [
        "node=pve-9,path=0000:01:00.0,id=10de:0001",
        "path=0000:41:00.0,node=pve-0,id=10de:26b1,subsystem-id=10de:16a1,iommugroup=20",
        text(bus=0x42, group=21),
    ]
    assert merged_map(mapping_wanted("a1", [entry()]), have) == have[:2]
    assert merged_map(mapping_wanted("a1", [entry(group=22)]), have) == [have[0], text(group=22)]
    assert merged_map(mapping_wanted("a1", [], ["pve-0"]), have) == have[:1]
    assert merged_map(mapping_wanted("a1", nodes=["pve-0"], present=False), have) == have[:1]
    assert merged_map(mapping_wanted("a1", present=False), have) == []
    described = [text() + ",description=first"]
    assert merged_map(mapping_wanted("a1", [entry()]), described) == described


@pytest.fixture
def sim():
    with peer.serving() as cluster:
        yield cluster


class TestCluster:
    def test_made_changed_and_removed(self, sim):
        api = peer.client(sim)
        first = mapping_wanted("a1", [entry()], description="one")
        check = ensure_mapping(peer.client(sim, read_only=True), first, check_mode=True)
        assert peer.changes(sim) == []
        assert ensure_mapping(api, first)["diff"] == check["diff"]
        both = mapping_wanted("a1", [entry(node="pve-1")])
        assert ensure_mapping(api, both)["map"] == [text(), text(node="pve-1")]
        assert sim.state["mapping"]["pci"]["a1"] == {"map": [text(), text(node="pve-1")], "description": "one"}
        assert "digest" in sim.calls[-1]["params"]
        sim.calls.clear()
        for again in (first, both, mapping_wanted("a1", [entry(), entry(node="pve-1")])):
            assert ensure_mapping(api, again)["changed"] is False
        assert peer.changes(sim) == []
        ensure_mapping(api, mapping_wanted("a1", [entry()], description=""))
        assert "description" not in sim.state["mapping"]["pci"]["a1"]
        ensure_mapping(api, mapping_wanted("a1", nodes=["pve-0"], present=False))
        assert sim.state["mapping"]["pci"]["a1"]["map"] == [text(node="pve-1")]
        with pytest.raises(PveError, match="would be left without an entry"):
            ensure_mapping(api, mapping_wanted("a1", nodes=["pve-1"]))
        assert ensure_mapping(api, mapping_wanted("a1", present=False))["diff"]["after"] == {}
        assert sim.state["mapping"]["pci"] == {}
        assert ensure_mapping(api, mapping_wanted("a1", present=False))["changed"] is False

    def test_another_spelling_that_pve_would_refuse_is_put_right(self, sim):
        sim.state["mapping"]["pci"]["a1"] = {
            "map": [
                text()
                .upper()
                .replace("NODE=PVE", "node=pve")
                .replace("PATH", "path")
                .replace("ID=", "id=")
                .replace("SUBSYSTEM-id", "subsystem-id")
                .replace("IOMMUGROUP", "iommugroup")
            ]
        }
        assert ensure_mapping(peer.client(sim), mapping_wanted("a1", [entry()]))["changed"] is True
        assert sim.state["mapping"]["pci"]["a1"]["map"] == [text()]

    def test_not_what_the_hardware_is(self, sim):
        with pytest.raises(PveError, match=r"does not fit the hardware.*iommu_group 20, the entry says 7"):
            ensure_mapping(peer.client(sim), mapping_wanted("a1", [entry(group=7)]))
        assert peer.changes(sim) == []

    def test_hardware_that_can_not_be_read_is_a_warning(self, sim):
        sim.state["nodes"]["pve-1"]["status"] = "offline"
        result = ensure_mapping(peer.client(sim), mapping_wanted("a1", [entry(), entry(node="pve-1")]))
        assert result["changed"] is True
        assert len(result["warnings"]) == 1
        assert "pve-1 could not be compared" in result["warnings"][0]

    @pytest.mark.parametrize("pending", [False, True])
    def test_not_taken_from_a_vm(self, sim, pending):
        api = peer.client(sim)
        ensure_mapping(api, mapping_wanted("a1", [entry(), entry(node="pve-1")]))
        sim.state["guests"]["500"]["pending" if pending else "config"]["hostpci3"] = "pcie=1,mapping=a1"
        sim.calls.clear()
        for wanted in (mapping_wanted("a1", present=False), mapping_wanted("a1", nodes=["pve-0"], present=False)):
            with pytest.raises(PveError, match=r"is used by VM 500 \(of-somebody-else\) on pve-0"):
                ensure_mapping(api, wanted)
        assert peer.changes(sim) == []
        ensure_mapping(api, mapping_wanted("a1", nodes=["pve-1"], present=False))
        assert sim.state["mapping"]["pci"]["a1"]["map"] == [text()]

    def test_somebody_else_changes_it_at_the_same_time(self, sim):
        api = peer.client(sim)
        ensure_mapping(api, mapping_wanted("a1", [entry()]))
        put = api.put

        def late(path, **data):
            if not late.done:
                late.done = True
                sim.state["mapping"]["pci"]["a1"]["map"].append(text(node="pve-1", bus=0x44, group=23))
            return put(path, **data)

        late.done = False
        api.put = late
        ensure_mapping(api, mapping_wanted("a1", [entry(bus=0x42, group=21)]))
        assert sim.state["mapping"]["pci"]["a1"]["map"] == [
            text(node="pve-1", bus=0x44, group=23),
            text(bus=0x42, group=21),
        ]

    def test_cards_and_who_has_them(self, sim):
        api = peer.client(sim)
        ensure_mapping(api, mapping_wanted("a1", [entry()]))
        ensure_mapping(api, mapping_wanted("pool", [entry(bus=0x42, group=21), entry(bus=0x43, group=22)]))
        guest = sim.state["guests"]["500"]
        guest["config"].update(hostpci0="mapping=a1", hostpci1="mapping=pool")
        guest["pending"].update(hostpci0=None, hostpci2="44:00.0")
        guest["status"] = "running"
        sim.state["nodes"]["pve-0"]["pci"].append({**peer.pci(0x50, 20), "class": "0x020000"})
        sim.state["nodes"]["pve-1"]["status"] = "offline"
        found = read_pci(api)
        assert found["unreachable"] == ["pve-1"]
        cards = {card["address"][5:7]: card for card in found["devices"]}
        assert sorted(cards) == ["41", "42", "43", "44"]
        assert [member["address"] for member in cards["41"]["group_members"]] == ["0000:50:00.0"]

        def holder(bus):
            return [
                (one["key"], one["mapping"], one["now"], one["later"], one["certain"]) for one in cards[bus]["holders"]
            ]

        assert holder("41") == [("hostpci0", "a1", True, False, True)]
        assert holder("42") == holder("43") == [("hostpci1", "pool", True, True, False)]
        assert holder("44") == [("hostpci2", None, False, True, True)]
        assert len(read_pci(api, gpus_only=False)["devices"]) == 5
        assert [node["error"] for node in read_pci(api, nodes=["pve-0", "pve-7"])["nodes"]] == [
            None,
            "the cluster has no node of this name",
        ]

    def test_the_cluster(self, sim):
        sim.state["nodes"]["pve-1"]["status"] = "offline"
        found = read_cluster(peer.client(sim), content=["import"])
        assert found["version"] == "9.1.9"
        assert found["unreachable"] == ["pve-1"]
        assert [vm["vmid"] for vm in found["vms"]] == [500, 9000]
        assert [
            (one["storage"], one["volumes"] and [volume["volid"] for volume in one["volumes"]])
            for one in found["storages"]
        ] == [
            ("local", [peer.IMAGE]),
            ("local-lvm", None),
        ]
        assert found["bridges"] == [{"node": "pve-0", "bridge": "vmbr0", "active": True}]
        assert found["privileges"]["/mapping/pci"] == ["Mapping.Audit", "Mapping.Modify", "Mapping.Use"]

    def test_mappings_that_the_user_may_not_see_are_not_there(self, sim):
        ensure_mapping(peer.client(sim), mapping_wanted("a1", [entry()]))
        sim.state["acl"] = [one for one in sim.state["acl"] if one["path"] != "/mapping/pci"]
        assert read_mappings(peer.client(sim)) == {}
        with pytest.raises(PveError, match=r"HTTP 403"):
            ensure_mapping(peer.client(sim), mapping_wanted("b1", [entry()]))
