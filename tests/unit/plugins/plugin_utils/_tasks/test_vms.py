# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json
import re

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.yaml_text import dump_document, load_document
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.run import Run
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.state import read_state
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.vms import (
    Sources,
    make_vm_files,
    remember_addresses,
)

ROLES = [{"name": "chat", "needs": {"engine": "vllm", "min_vram_gb": 20}, "count": 2, "vm": {"memory_mib": 8192}}]


def profile(name):
    pci = {"address": "0000:41:00.0", "id": "10de:26b1", "iommu_group": 3}
    gpu = {"index": 0, "name": "NVIDIA L40S", "memory_gb": 48, "compute_cap": 8.9, "driver": None, "pci": pci}
    return {"name": name, "cpu": {"model": "x", "cores": 8, "threads": 16}, "memory_gb": 64, "disks": [], "gpus": [gpu]}


@pytest.fixture
def site(tmp_path):
    for name in ("profiles", "catalog"):
        (tmp_path / name).mkdir()
    nodes = [profile("n1"), profile("n2")]
    for node in nodes:
        (tmp_path / "profiles" / f"{node['name']}.json").write_text(json.dumps(node))
    (tmp_path / "catalog" / "roles.yaml").write_text(json.dumps({"roles": ROLES}))
    (tmp_path / "catalog" / "models.yaml").write_text("models: []\n")
    catalog = check_catalog(None, ROLES).catalog
    document = plan(nodes, catalog.roles, catalog.models, engines=catalog.engines)
    del document["changes"]
    (tmp_path / "plan.yml").write_text(dump_document(document))
    return tmp_path


def make(site, *, clusters=None, settings=None, commands=None, **more):
    sources = Sources(
        vms=site / "vms.yml",
        plan=site / "plan.yml",
        profiles=site / "profiles",
        hosts=["n1", "n2"],
        catalog=[str(site / "catalog")],
        settings=settings or {},
        commands=commands,
    )
    return make_vm_files(sources, Run(**more), clusters)


def test_from_files_to_files(site) -> None:
    made = make(site, commands=site / "vms.sh")
    vms, script = made.changes
    path, text, commands = vms.path, vms.after, script.after
    assert (path.name, vms.before, script.path.name) == ("vms.yml", None, "vms.sh")
    assert list(made.files) == [path, script.path]
    document = load_document(text)
    assert list(document) == ["version", "layers", "vms", "managed_by"], "no fleet before a cluster was asked"
    assert document["layers"] == ["catalog/models.yaml", "catalog/roles.yaml"]
    assert [one["name"] for one in document["vms"]] == ["chat-0", "chat-1"]
    assert "pvesh create /nodes/n1/qemu" in commands
    assert not (site / "vms.yml").exists(), "nothing is written here"
    path.write_text(text)
    assert make(site).changes == []
    assert make(site, commands=site / "vms.sh").changes == [script]


def test_the_file_is_the_memory_of_numbers(site) -> None:
    text = make(site).changes[0].after
    number = load_document(text)["vms"][0]["vmid"]
    (site / "vms.yml").write_text(text.replace(f'"vmid": {number}', '"vmid": 9876'))
    assert make(site).changes == []
    assert load_document(make(site, settings={"defaults": {"cores": 3}}).changes[0].after)["vms"][0]["vmid"] == 9876


def test_everything_that_is_wrong_at_once(site) -> None:
    (site / "profiles" / "n1.json").write_text("{")
    (site / "plan.yml").unlink()
    (site / "vms.yml").write_text("[")
    (site / "catalog" / "roles.yaml").write_text("roles: [{name: chat}]")
    with pytest.raises(InputError) as found:
        make(site, settings={"defaults": {"cores": 0}})
    text = "\n".join(found.value.errors)
    assert "n1.json:1: ends in the middle of a value" in text
    assert "plan.yml: not found; run placement first" in text
    assert "vms.yml:2: ends in the middle of a value" in text
    assert "roles.yaml:1" in text
    assert "settings.defaults.cores: must be from 1 to 8192, not 0" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version: 2\nvms: []\n", r"vms\.yml:1: version: must be 1, not 2"),
        ("vms: [{vmid: x}]\n", r"vms\.yml:1: vms\[0\]\.vmid: must be a whole number"),
        ("vms: 3\n", r"vms\.yml:1: vms: must be a list, not 3"),
    ],
)
def test_a_file_of_definitions_that_is_none(site, text, message) -> None:
    (site / "vms.yml").write_text(text)
    with pytest.raises(InputError, match=message):
        make(site)


def test_a_plan_that_is_none(site) -> None:
    (site / "plan.yml").write_text("version: 1\nassignments: [{role: chat}]\n")
    with pytest.raises(InputError, match=r"plan\.yml:2: assignments\[0\]\.vm: is required"):
        make(site)


def test_removing_needs_no_plan_and_leaves_the_memory(site) -> None:
    (site / "plan.yml").unlink()
    assert make(site, present=False, clusters={}).files == ()


def test_what_is_wrong_elsewhere_does_not_keep_a_run_from_its_nodes(site) -> None:
    made = make(site, clusters={})
    assert {one.code for one in made.prepared.errors} == {"cluster_unknown"}
    assert make(site, clusters={}, only=["n3"]).prepared.errors == []


def cluster(*fleets):
    """A cluster with a VM of each of these fleets."""
    vms = [
        {
            "vmid": 9500 + at,
            "name": f"x-{at}",
            "node": "n1",
            "mark": {"vm": f"x-{at}", "fleet": fleet, "fingerprint": "", "own": []},
        }
        for at, fleet in enumerate(fleets)
    ]
    return {"n1": read_state("n1", {"nodes": [{"node": "n1", "status": "online", "error": None}], "vms": vms}, {})}


def test_a_fleet_has_a_name_that_is_kept(site) -> None:
    text = make(site, clusters=cluster()).changes[0].after
    fleet = load_document(text)["fleet"]
    assert re.fullmatch("[0-9a-f]{8}", fleet)
    (site / "vms.yml").write_text(text)
    assert make(site, clusters=cluster("theirs")).changes == []
    assert make(site, clusters=cluster(), settings={"fleet": fleet}).changes == []
    with pytest.raises(InputError, match=f"is of the fleet {fleet}, and knaster_fleet is other"):
        make(site, clusters=cluster(), settings={"fleet": "other"})


def test_without_the_file_a_fleet_has_to_be_chosen_where_there_are_some(site) -> None:
    with pytest.raises(
        InputError, match="there are VMs of the fleets mine, theirs, and the file of definitions does not say"
    ):
        make(site, clusters=cluster("theirs", "mine"))
    document = load_document(
        make(site, clusters=cluster("theirs", "mine"), settings={"fleet": "mine"}).changes[0].after
    )
    assert document["fleet"] == "mine"


def test_a_layer_that_is_lost_is_remembered_while_there_are_vms_that_it_may_have_wanted(site) -> None:
    there = cluster("lab")
    said = {"settings": {"fleet": "lab"}}
    (site / "vms.yml").write_text(make(site, clusters=there, **said).changes[0].after)
    (site / "catalog" / "models.yaml").rename(site / "catalog" / "more.yml")
    text = make(site, clusters=there, **said).changes[0].after
    assert load_document(text)["layers"] == ["catalog/models.yaml", "catalog/more.yml", "catalog/roles.yaml"]
    text = make(site, clusters=cluster(), **said).changes[0].after
    assert load_document(text)["layers"] == ["catalog/more.yml", "catalog/roles.yaml"], "nothing is left that it wanted"


def test_addresses_are_remembered(site) -> None:
    with pytest.raises(InputError, match="not found; define the VMs first"):
        remember_addresses(site / "vms.yml", {"chat-0": "10.0.0.7"})
    (site / "vms.yml").write_text(make(site).changes[0].after)
    changes, _documents = remember_addresses(site / "vms.yml", {"chat-0": "10.0.0.7", "other-0": "10.0.0.8"})
    (site / "vms.yml").write_text(changes[0].after)
    assert [one.get("address") for one in load_document(changes[0].after)["vms"]] == ["10.0.0.7", None]
    assert make(site).changes == [], "the next definitions keep it"
