# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import copy
import json
import random
from pathlib import Path

import jsonschema
import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.vms import vms_document
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision import definitions
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.definitions import make_definitions
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.names import mapping_id, parse_address
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.settings import (
    read_settings,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import dns_label

SCHEMA = json.loads((Path(definitions.__file__).parent.parent / "_documents/schemas" / "vm.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def card(index, address, **more):
    pci = {
        "address": address,
        "id": "10de:26b1",
        "subsystem_id": "10de:16a1",
        "iommu_group": 20 + index,
        "iommu_peers": [],
    }
    gpu = {
        "index": index,
        "name": "NVIDIA L40S",
        "memory_gb": 48,
        "compute_cap": 8.9,
        "driver": None,
        "gpu_class": "l40s",
    }
    return gpu | {"uuid": f"GPU-{address}", "healthy": True, "pci": pci | more.pop("pci", {})} | more


def node(name, *cards, **more):
    cpu = {"model": "x", "cores": 16, "threads": 32}
    return {"name": name, "hostname": name, "cpu": cpu, "memory_gb": 256, "disks": [], "gpus": list(cards)} | more


def seat(role, replica, where, index=None, address=None, **more):
    one = {"role": role, "replica": replica, "node": where, "engine": "vllm", "memory_mib": 8192}
    one |= {"fingerprint": "00490d46251c1ade", "vm": f"{role}-{replica}"}
    if index is not None:
        one |= {"gpu_index": index, "gpu": {"pci_address": address, "gpu_class": "l40s"}}
    return one | more


def replica(model, number, *shards):
    parts = [{"rank": rank, "memory_mib": 65536, **shard} for rank, shard in enumerate(shards)]
    for part in parts:
        part.setdefault("vm", f"{model}-{number}" + (f"-{part['rank']}" if len(parts) > 1 else ""))
    return {
        "id": f"{model}-{number}",
        "model": model,
        "replica": number,
        "fingerprint": "77e100000000abcd",
        "shards": parts,
    }


NODES = [
    node("pve-quad", card(0, "0000:41:00.0"), card(1, "0000:42:00.0"), card(2, "0000:81:00.0")),
    node("pve-ada", card(0, "0000:01:00.0", pci={"iommu_peers": [{"address": "0000:01:00.1", "class": "0x040300"}]})),
    node("pve-cpu"),
]
PLAN = {
    "version": 1,
    "assignments": [
        seat("chat", 0, "pve-quad", 1, "0000:42:00.0"),
        seat("chat", 1, "pve-ada", 0, "0000:01:00.0"),
        seat("gateway", 0, "pve-cpu"),
    ],
    "replicas": [
        replica(
            "llama-3.1-70b",
            0,
            {
                "node": "pve-quad",
                "gpu_indices": [2, 0],
                "gpus": [{"pci_address": "0000:81:00.0"}, {"pci_address": "0000:41:00.0"}],
            },
        )
    ],
}
ROLES = [
    {
        "name": "chat",
        "needs": {"engine": "vllm"},
        "vm": {"cores": 12, "disk_gb": 100, "template": 9000, "tags": ["prod"]},
        "priority": 10,
    },
    {"name": "gateway", "needs": {"engine": "llamacpp", "gpu": False}},
]


def made(plan_document=None, roles=None, **more):
    plan_document, roles = (PLAN if plan_document is None else plan_document), (ROLES if roles is None else roles)
    settings = read_settings(more.pop("settings", {}))
    found = make_definitions(plan_document, roles, nodes=more.pop("nodes", NODES), settings=settings, **more)
    VALIDATOR.validate(vms_document(list(found.vms)))
    return found


def by_name(found):
    return {one["name"]: one for one in found.vms}


def test_each_assignment_and_each_shard_is_one_machine() -> None:
    found = made()
    assert found.errors == ()
    assert [one["name"] for one in found.vms] == ["chat-0", "chat-1", "gateway-0", "llama-3-1-70b-0"]
    chat = by_name(found)["chat-0"]
    assert chat["mappings"] == [
        {
            "id": "kn-pve-quad-42-00",
            "node": "pve-quad",
            "path": "0000:42:00.0",
            "pci_id": "10de:26b1",
            "subsystem_id": "10de:16a1",
            "iommu_group": 21,
        }
    ]
    assert chat["config"]["hostpci0"] == "mapping=kn-pve-quad-42-00,pcie=1"
    assert chat["config"]["cores"] == 12
    assert chat["config"]["memory"] == 8192
    assert chat["config"]["tags"] == "chat;knaster;prod"
    assert chat["source"] == {"template": 9000}
    assert chat["config"]["scsi0"] == "local-lvm:100,discard=on,iothread=1,ssd=1"
    assert "efidisk0" not in chat["config"], "the firmware's disk comes with the template"
    gateway = by_name(found)["gateway-0"]
    assert gateway["mappings"] == []
    assert gateway["source"] is None
    assert gateway["config"]["scsi0"] == "local-lvm:64,discard=on,iothread=1,ssd=1"
    assert gateway["config"]["efidisk0"].startswith("local-lvm:1,efitype=4m,format=raw")


def test_cards_are_passed_in_the_order_of_the_bus() -> None:
    model = by_name(made())["llama-3-1-70b-0"]
    assert [entry["path"] for entry in model["mappings"]] == ["0000:41:00.0", "0000:81:00.0"]
    assert model["config"]["hostpci0"] == "mapping=kn-pve-quad-41-00,pcie=1"
    assert model["config"]["hostpci1"] == "mapping=kn-pve-quad-81-00,pcie=1"
    assert model["config"]["cores"] == 12
    assert (model["model"], model["replica"]) == ("llama-3.1-70b", 0)
    assert "shard" not in model


def test_the_functions_beside_a_card_go_along() -> None:
    assert by_name(made())["chat-1"]["mappings"][0]["path"] == "0000:01:00"


def test_a_gpu_that_is_not_the_first_function_goes_alone() -> None:
    peers = {"iommu_peers": [{"address": "0000:01:00.0", "class": "0x030000"}]}
    nodes = [node("pve-ada", card(0, "0000:01:00.1", pci=peers))]
    plan_document = {"assignments": [seat("chat", 1, "pve-ada", 0, "0000:01:00.1")]}
    assert made(plan_document, nodes=nodes).vms[0]["mappings"][0]["path"] == "0000:01:00.1"


def test_a_function_of_the_slot_in_another_group_stays_with_the_node() -> None:
    nodes = [
        node(
            "pve-ada", card(0, "0000:01:00.0", pci={"iommu_peers": [{"address": "0000:02:00.0", "class": "0x030000"}]})
        )
    ]
    plan_document = {"assignments": [seat("chat", 1, "pve-ada", 0, "0000:01:00.0")]}
    assert made(plan_document, nodes=nodes).vms[0]["mappings"][0]["path"] == "0000:01:00.0"


def test_shards_over_nodes_are_one_machine_each() -> None:
    shards = [
        {"node": "pve-quad", "gpu_indices": [0], "gpus": [{"pci_address": "0000:41:00.0"}]},
        {"node": "pve-ada", "gpu_indices": [0], "gpus": [{"pci_address": "0000:01:00.0"}]},
    ]
    found = made({"replicas": [replica("big", 0, *shards)]})
    assert [(one["name"], one["shard"], one["node"]) for one in found.vms] == [
        ("big-0-0", 0, "pve-quad"),
        ("big-0-1", 1, "pve-ada"),
    ]


def test_roles_that_share_a_card_share_one_machine() -> None:
    engine = {"engine": "tei", "min_vram_gb": 6}
    roles = [
        {
            "name": "embedding",
            "needs": {**engine, "kind": "embedding"},
            "colocate": "retrieval",
            "vm": {"cores": 3, "memory_mib": 4096},
        },
        {
            "name": "rerank",
            "needs": {**engine, "kind": "reranker"},
            "colocate": "retrieval",
            "vm": {"cores": 5, "memory_mib": 6144},
        },
    ]
    catalog = check_catalog(None, roles).catalog
    document = plan(NODES, catalog.roles, catalog.models, engines=catalog.engines)
    assert len(document["assignments"]) == 2
    (one,) = made(document, roles).vms
    assert one["name"] == "retrieval-0"
    assert one["roles"] == ["embedding", "rerank"]
    assert one["config"]["memory"] == 10240
    assert one["config"]["cores"] == 8
    assert one["config"]["tags"] == "embedding;knaster;rerank"
    assert len(one["mappings"]) == 1


def test_the_same_in_any_order() -> None:
    first = vms_document(list(made().vms))
    rand = random.Random(7)
    for _unused in range(20):
        document, roles, nodes = copy.deepcopy(PLAN), copy.deepcopy(ROLES), copy.deepcopy(NODES)
        for items in (document["assignments"], document["replicas"], roles, nodes):
            rand.shuffle(items)
        assert vms_document(list(made(document, roles, nodes=nodes).vms)) == first


def test_numbers_are_kept_and_new_ones_are_free() -> None:
    first = by_name(made())
    previous = [{**first["chat-0"], "vmid": 9500}]
    again = by_name(made(previous=previous))
    assert again["chat-0"]["vmid"] == 9500
    assert again["chat-1"]["vmid"] == first["chat-1"]["vmid"]
    external = {"vmid": first["chat-1"]["vmid"], "name": "db", "cluster": "pve-ada", "ours": False}
    moved = by_name(made(taken=[external]))
    assert moved["chat-1"]["vmid"] == first["chat-1"]["vmid"] + 1
    elsewhere = by_name(made(taken=[{**external, "cluster": "pve-quad"}]))
    assert elsewhere["chat-1"]["vmid"] == first["chat-1"]["vmid"], "numbers are of one cluster"


def test_another_name_of_the_api_changes_no_number() -> None:
    previous = [{**one, "vmid": 9500 + at} for at, one in enumerate(made().vms)]
    settings = {"nodes": {name: {"cluster": f"{name}.example:8006"} for name in ("pve-quad", "pve-ada", "pve-cpu")}}
    assert [one["vmid"] for one in made(previous=previous, settings=settings).vms] == [9500, 9501, 9502, 9503]


def test_a_machine_with_our_mark_keeps_its_number() -> None:
    live = {"vmid": 123456, "name": "chat-1", "cluster": "pve-ada", "ours": True}
    assert by_name(made(taken=[live]))["chat-1"]["vmid"] == 123456
    previous = [{**by_name(made())["chat-1"], "vmid": 9555}]
    assert by_name(made(taken=[live], previous=previous))["chat-1"]["vmid"] == 123456


def test_numbers_run_out() -> None:
    nodes = [node("n", *(card(at, f"0000:{at + 1:02x}:00.0") for at in range(4)))]
    document = {"assignments": [seat("chat", at, "n", at, f"0000:{at + 1:02x}:00.0") for at in range(4)]}
    found = made(document, nodes=nodes, settings={"vmid_first": 200, "vmid_last": 202})
    assert sorted(one["vmid"] for one in found.vms) == [200, 201, 202]
    assert found.errors == ("chat-3: no vmid from 200 to 202 is free in n; widen the range",)


def test_a_mapping_that_fixes_the_card_keeps_its_name() -> None:
    there = [
        {"cluster": "pve-quad", "id": "gpu-left", "node": "pve-quad", "path": "0000:42:00"},
        {"cluster": "pve-quad", "id": "pool", "node": "pve-quad", "path": "0000:42:00.0"},
        {"cluster": "pve-quad", "id": "pool", "node": "pve-quad", "path": "0000:41:00.0"},
        {"cluster": "other", "id": "gpu-other", "node": "pve-quad", "path": "0000:41:00.0"},
    ]
    found = by_name(made(mappings=there))
    assert found["chat-0"]["mappings"][0]["id"] == "gpu-left"
    assert found["llama-3-1-70b-0"]["mappings"][0]["id"] == "kn-pve-quad-41-00"
    usual = [*there, {"cluster": "pve-quad", "id": "kn-pve-quad-42-00", "node": "pve-quad", "path": "0000:42:00.0"}]
    assert by_name(made(mappings=usual))["chat-0"]["mappings"][0]["id"] == "kn-pve-quad-42-00"


def test_settings_of_roles_nodes_and_all() -> None:
    settings = {
        "defaults": {
            "storage": "tank",
            "bridge": "vmbr9",
            "image": "local:import/d.qcow2",
            "cloud_init": {"ciuser": "ops"},
            "tags": ["fleet"],
        },
        "nodes": {
            "pve-cpu": {
                "bridge": "vmbr2",
                "vlan": 12,
                "cluster": "c:8006",
                "pve_node": "box",
                "disk_gb": 32,
                "start": False,
            }
        },
        "addresses": {"gateway-0": "ip=10.0.0.7/24,gw=10.0.0.1"},
    }
    found = by_name(made(settings=settings))
    gateway = found["gateway-0"]
    assert (gateway["cluster"], gateway["pve_node"], gateway["node"]) == ("c:8006", "box", "pve-cpu")
    assert gateway["config"]["net0"] == "virtio,bridge=vmbr2,tag=12"
    assert gateway["config"]["scsi0"].startswith("tank:32,")
    assert gateway["config"]["ipconfig0"] == "ip=10.0.0.7/24,gw=10.0.0.1"
    assert gateway["config"]["ide2"] == "tank:cloudinit"
    assert gateway["config"]["tags"] == "fleet;gateway;knaster"
    assert gateway["source"] == {"image": "local:import/d.qcow2"}
    assert gateway["start"] is False
    assert found["chat-0"]["source"] == {"template": 9000}, "the source of the role replaces the other one"
    assert found["chat-0"]["config"]["net0"] == "virtio,bridge=vmbr9"
    assert found["chat-0"]["config"]["ipconfig0"] == "ip=dhcp"


def test_keys_are_stored_as_pve_stores_them() -> None:
    settings = {"defaults": {"cloud_init": {"sshkeys": "ssh-ed25519 AAAA+/= me@here\n"}}}
    assert (
        by_name(made(settings=settings))["gateway-0"]["config"]["sshkeys"]
        == "ssh-ed25519%20AAAA%2B%2F%3D%20me%40here%0A"
    )


def test_the_numa_node_only_where_all_cards_have_the_same() -> None:
    def config(*numa):
        nodes = [
            node(
                "pve-quad", *(card(at, f"0000:4{at}:00.0", pci={"numa_node": number}) for at, number in enumerate(numa))
            )
        ]
        gpus = [{"pci_address": f"0000:4{at}:00.0"} for at in range(len(numa))]
        shard = {"node": "pve-quad", "gpu_indices": list(range(len(numa))), "gpus": gpus}
        return made({"replicas": [replica("m", 0, shard)]}, nodes=nodes).vms[0]["config"]

    assert config(1, 1)["numa0"] == "cpus=0-11,hostnodes=1,memory=65536,policy=preferred"
    assert config(1, 1)["numa"] == 1
    assert "numa0" not in config(0, 1)
    assert "numa0" not in config(0, None)
    assert "numa0" not in config(-1)


def test_everything_that_is_wrong_at_once() -> None:
    nodes = [node("n", card(0, "0000:01:00.0", pci={"id": None}), {"index": 1, "name": "x"}), node("pve-cpu")]
    document = {
        "assignments": [
            seat("chat", 0, "n", 0, "0000:01:00.0"),
            seat("chat", 1, "n", 1, None),
            seat("gateway", 0, "pve-cpu", memory_mib=0),
            seat("a.b", 0, "pve-cpu"),
            seat("a-b", 0, "pve-cpu"),
        ]
    }
    roles = [{"name": "chat", "vm": {"cores": "many", "image": "a b", "cloud_init": {"cipassword": "x"}}}]
    found = made(document, roles, nodes=nodes, settings={"addresses": {"nobody-0": "ip=dhcp"}})
    text = "\n".join(found.errors)
    assert "role chat: vm.cores: must be a whole number, not" in text
    assert "role chat: vm.image: must match" in text
    assert "cipassword" in text
    assert "chat-0 (chat/0): GPU 0 of n: what Proxmox VE compares of it is not known" in text
    assert "chat-1 (chat/1): GPU 1 of n: its PCI address is not known" in text
    assert "gateway-0 (gateway/0): has no memory in the plan" in text
    assert "would both be the VM a-b-0: rename the role or the model" in text
    assert "settings.addresses.nobody-0: the plan has no VM of this name" in text
    assert len(found.errors) == 8


def test_memory_from_256_mib_on() -> None:
    def found(memory):
        return made({"assignments": [seat("gateway", 0, "pve-cpu", memory_mib=memory)]})

    assert found(256).vms[0]["config"]["memory"] == 256
    assert found(255).errors == ("gateway-0 (gateway/0): has no memory in the plan; give its node more memory",)


def test_what_a_role_says_of_its_vms_has_limits_on_both_sides() -> None:
    def errors(**vm):
        return list(made({"assignments": [seat("gateway", 0, "pve-cpu")]}, [{"name": "gateway", "vm": vm}]).errors)

    for right in ({"vlan": 1}, {"vlan": 4094}, {"cores": 0}, {"cores": 8192}, {"template": 100}, {"disk_gb": 0}):
        assert errors(**right) == []
    for wrong, text in (
        ({"vlan": 0}, "role gateway: vm.vlan: must be from 1 to 4094, not 0"),
        ({"vlan": 4095}, "role gateway: vm.vlan: must be from 1 to 4094, not 4095"),
        ({"cores": -1}, "role gateway: vm.cores: must be from 0 to 8192, not -1"),
        ({"cores": 8193}, "role gateway: vm.cores: must be from 0 to 8192, not 8193"),
        ({"template": 99}, "role gateway: vm.template: must be from 100 to 999999999, not 99"),
    ):
        assert errors(**wrong) == [text]


def test_a_role_may_say_that_its_vms_are_not_started() -> None:
    roles = [{"name": "gateway", "vm": {"start": False}}]
    assert made({"assignments": [seat("gateway", 0, "pve-cpu")]}, roles).vms[0]["start"] is False


def test_sixteen_gpus_are_not_too_many() -> None:
    addresses = [f"0000:{at + 1:02x}:00.0" for at in range(16)]
    nodes = [node("n", *(card(at, address, pci={"iommu_group": at}) for at, address in enumerate(addresses)))]
    gpus = [{"pci_address": address} for address in addresses]
    found = made(
        {"replicas": [replica("m", 0, {"node": "n", "gpu_indices": list(range(16)), "gpus": gpus})]}, nodes=nodes
    )
    assert (found.errors, len(found.vms[0]["mappings"])) == ((), 16)


def test_seventeen_cards_are_too_many() -> None:
    nodes = [node("n", *(card(at, f"0000:{at + 1:02x}:00.0") for at in range(17)))]
    gpus = [{"pci_address": f"0000:{at + 1:02x}:00.0"} for at in range(17)]
    found = made(
        {"replicas": [replica("m", 0, {"node": "n", "gpu_indices": list(range(17)), "gpus": gpus})]}, nodes=nodes
    )
    assert found.errors == ("m-0 (model m, replica 0): 17 GPUs are more than the 16 that a VM can have",)


def test_what_two_machines_may_not_share() -> None:
    nodes = [node("n", card(0, "0000:01:00.0"), card(1, "0000:02:00.0", pci={"iommu_group": 20}))]
    document = {"assignments": [seat("chat", 0, "n", 0, "0000:01:00.0"), seat("chat", 1, "n", 1, "0000:02:00.0")]}
    roles = [{"name": "chat", "vm": {"cloud_init": {"ipconfig0": "ip=10.0.0.5/24"}}}]
    text = "\n".join(made(document, roles, nodes=nodes).errors)
    assert "chat-1 and chat-0 would share IOMMU group 20 of n" in text
    assert "chat-1 and chat-0 would share the address ip=10.0.0.5/24" in text
    document["assignments"][1]["gpu"]["pci_address"] = "0000:01:00.0"
    assert "would share the GPU 0000:01:00.0" in "\n".join(made(document, [], nodes=nodes).errors)


def test_cards_that_are_not_seen_now_are_as_they_were() -> None:
    first = made()
    unseen = [{"name": one["name"], "gpus": None, "state": "unreachable"} for one in NODES]
    again = made(nodes=unseen, previous=first.vms)
    assert again.errors == ()
    assert [one["mappings"] for one in again.vms] == [one["mappings"] for one in first.vms]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"defaults": {"core": 3}}, 'settings.defaults.core: unknown key "core"; did you mean cores?'),
        ({"defaults": {"cores": True}}, "settings.defaults.cores: must be a whole number, not true"),
        ({"defaults": {"template": 9000, "image": "local:import/x"}}, "template and image contradict each other"),
        (
            {"defaults": {"config": {"hostpci0": "host=01:00"}}},
            "settings.defaults.config.hostpci0: is decided by the plan",
        ),
        ({"defaults": {"image": "local:x,import-from=/etc/shadow"}}, "settings.defaults.image"),
        ({"defaults": {"bridge": "vmbr0,tag=1"}}, "settings.defaults.bridge"),
        ({"defaults": {"cloud_init": {"ciuser": "a\nb"}}}, "settings.defaults.cloud_init.ciuser: must match"),
        ({"nodes": {"a": {"pve_node": "a/b"}}}, "settings.nodes.a.pve_node"),
        ({"nodes": {}}, None),
        ({"nodes": ["a"]}, "settings.nodes: must be a map, not a list"),
        ({"vmid_first": "9000"}, "settings.vmid_first"),
        ({"vmid_first": 9000, "vmid_last": 8000}, "settings.vmid_last: must be at least vmid_first, 9000, not 8000"),
        ({"mapping_prefix": "9"}, "settings.mapping_prefix"),
        ({"addresses": {"a": "ip=1;reboot"}}, "settings.addresses.a"),
        ({"prefix": "x"}, 'settings.prefix: unknown key "prefix"'),
    ],
)
def test_settings_are_checked(settings, text) -> None:
    if text is None:
        read_settings(settings)
        return
    with pytest.raises(InputError) as found:
        read_settings(settings)
    assert text in str(found.value)


def test_names() -> None:
    assert dns_label("Qwen_3.Next-0") == "qwen-3-next-0"
    long = dns_label("a" * 80 + "-0"), dns_label("a" * 80 + "-1")
    assert long[0] != long[1]
    assert all(len(name) <= 63 for name in long)
    assert dns_label("__").startswith("vm-")
    address = parse_address("00000000:41:00.0")
    assert address is not None
    assert (address.text, address.slot.text) == ("0000:41:00.0", "0000:41:00")
    assert mapping_id("kn", "PVE-quad", address) == "kn-pve-quad-41-00"
    assert mapping_id("kn", "n", address._replace(domain=0x10000, function=1)) == "kn-n-10000-41-00-1"
    assert parse_address("41:2.0") is None
    assert parse_address("41:00") == (0, 0x41, 0, 0)
    assert parse_address(None) is None


def test_the_mark_says_what_it_was_made_from_and_which_devices_it_set() -> None:
    assert by_name(made())["chat-0"]["config"]["description"] == (
        'knaster.inventory/1 {"fingerprint":"00490d46251c1ade","own":["hostpci0","net0","scsi0","tags=chat","tags=prod"],"vm":"chat-0"}'
    )


def test_what_the_module_would_refuse_is_an_error_here() -> None:
    found = made(settings={"defaults": {"config": {"machine": "pc", "scsi1": "local-lvm:0,import-from=x"}}})
    text = "\n".join(found.errors)
    assert "chat-0: config.hostpci0: pcie=1 needs machine: q35" in text
    assert "gateway-0: config.scsi1: use source.image instead of import-from" in text
    assert found.vms == ()
