# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""The inventory plugin."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml
from ansible import constants
from ansible.errors import AnsibleError
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.doc_fragments import constructed, inventory_cache
from ansible.template import Templar
from ansible_collections.knaster.inventory.plugins.inventory.slots import DOCUMENTATION, InventoryModule
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.outputs import Where, make_texts

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "peers"))
from slots import HOSTILE, KIND_NAMES, apart, fleet


def make_plugin():
    """The plugin with the options that its documentation names, as the loader of collections makes it."""
    options = {}
    for text in (
        constructed.ModuleDocFragment.DOCUMENTATION,
        inventory_cache.ModuleDocFragment.DOCUMENTATION,
        DOCUMENTATION,
    ):
        options |= yaml.safe_load(text)["options"]
    name = InventoryModule.NAME
    constants.config.initialize_plugin_configuration_definitions("inventory", name, options)
    plugin = InventoryModule()
    plugin._load_name = plugin.ansible_name = name
    return plugin


@pytest.fixture
def read(tmp_path):
    """Writes slots and a source file, and returns what the plugin makes of them."""

    def call(slots, more="", *, cache=True, name="slots.yml", write=True):
        if write:
            (tmp_path / "slots").mkdir(exist_ok=True)
            for path, text in make_texts(slots, Where(slots=tmp_path / "slots")).texts.items():
                path.write_text(text)
        source = tmp_path / name
        source.write_text(f"plugin: knaster.inventory.slots\npath: {tmp_path}/slots\n{more}")
        plugin = make_plugin()
        assert plugin.verify_file(str(source))
        data = InventoryData()
        plugin.parse(data, DataLoader(), str(source), cache=cache)
        plugin.update_cache_if_changed()
        data.reconcile_inventory()
        return data

    return call


def test_a_relative_path_starts_at_the_source_file(read, tmp_path, monkeypatch):
    read(fleet(["qwen-8b"]))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "own.slots.yml").write_text("plugin: knaster.inventory.slots\npath: slots\n")
    data = InventoryData()
    make_plugin().parse(data, DataLoader(), str(tmp_path / "own.slots.yml"))
    assert "qwen-8b-0-0" in data.hosts


def groups_of(data):
    return {
        name: sorted(host.name for host in group.hosts)
        for name, group in data.groups.items()
        if name not in ("all", "ungrouped")
    }


def test_machines_are_hosts_in_groups(read):
    (slot,) = (slot for slot in fleet(["qwen-8b"], domain="gpu.example") if "replica_of" in slot)
    data = read([slot])
    assert groups_of(data) == {
        "model_qwen_8b": ["qwen-8b-0-0", "qwen-8b-0-1"],
        "node_qwen_8b0": ["qwen-8b-0-0"],
        "node_qwen_8b1": ["qwen-8b-0-1"],
        "engine_vllm": ["qwen-8b-0-0", "qwen-8b-0-1"],
        "fabric_qwen_8b": ["qwen-8b-0-0", "qwen-8b-0-1"],
    }
    first, second = (data.hosts[f"qwen-8b-0-{rank}"].get_vars() for rank in range(2))
    assert first["ansible_host"] == "qwen-8b-0-0.gpu.example"
    assert [slot["slot"] for slot in first["knaster_slots"]] == [slot["slot"]]
    assert (first["knaster_rank"], second["knaster_rank"]) == (0, 1)
    assert second["knaster_slots"] == []
    assert second["knaster_slot"] == slot["slot"]


def test_all_slots_of_a_machine_are_with_it(read):
    data = read([slot for slot in fleet(["qwen-8b"]) if "role" in slot])
    assert groups_of(data)["role_qwen_8b"] == ["qwen-8b-0"]
    assert len(data.hosts["qwen-8b-0"].get_vars()["knaster_slots"]) == 2


def test_machines_of_one_name_on_two_nodes_are_two_hosts(read):
    slots = [slot for slot in fleet(["qwen-8b"]) if "role" in slot]
    slots[1] |= {"node": "Other/Node", "vm": dict(slots[0]["vm"])}
    data = read(slots)
    assert sorted(data.hosts) == ["qwen-8b-0", "qwen-8b-0.other-node"]
    assert groups_of(data)["node_other_node"] == ["qwen-8b-0.other-node"]
    assert [len(host.get_vars()["knaster_slots"]) for host in data.hosts.values()] == [1, 1]


def test_nodes_are_the_hosts_on_bare_metal(read):
    slots = fleet(["qwen-8b"], domain="gpu.example", bare_metal=True)
    # A node may have its own slots beside parts of several replicas.
    whole = [slot for slot in slots if "replica_of" in slot]
    whole.append({**whole[0], "slot": "other.0.x", "shards": [dict(part) for part in whole[0]["shards"]]})
    for part, node in zip(whole[1]["shards"], ("qwen-8b1", "qwen-8b"), strict=True):
        part.update(node=node, host=f"{node}.gpu.example")
    whole[1]["node"] = "qwen-8b1"
    data = read([slot for slot in slots if "role" in slot] + whole)
    assert sorted(data.hosts) == ["qwen-8b", "qwen-8b0", "qwen-8b1"]
    node, first, second = (data.hosts[name].get_vars() for name in sorted(data.hosts))
    assert "knaster_vm" not in node
    # How a node is connected to is said by the inventory that has it; its own name makes it the same host.
    assert "ansible_host" not in node
    assert node["knaster_host"] == "qwen-8b.gpu.example"
    assert len(node["knaster_slots"]) == 2
    assert node["knaster_ranks"] == [{"slot": "other.0.x", "rank": 1}]
    assert first["knaster_ranks"] == [{"slot": whole[0]["slot"], "rank": 0}]
    assert second["knaster_ranks"] == [{"slot": "other.0.x", "rank": 0}, {"slot": whole[0]["slot"], "rank": 1}]
    assert [slot["slot"] for slot in second["knaster_slots"]] == ["other.0.x"]
    assert "knaster_rank" not in second


def test_constructed_features(read):
    more = (
        "compose: {ansible_user: \"'ops'\", first: 'knaster_slots[0].slot'}\n"
        "groups: {adapters: \"knaster_slots | selectattr('lora', 'defined') | length > 0\"}\n"
        "keyed_groups: [{key: knaster_node, prefix: at}]\n"
    )
    data = read([slot for slot in fleet(["qwen-8b"]) if "role" in slot], more)
    assert data.hosts["qwen-8b-0"].get_vars()["ansible_user"] == "ops"
    assert data.hosts["qwen-8b-0"].get_vars()["first"].startswith("qwen-8b.0.")
    assert groups_of(data)["adapters"] == ["qwen-8b-0"]
    assert groups_of(data)["at_qwen_8b"] == ["qwen-8b-0"]
    with pytest.raises(AnsibleError):
        read([], "strict: true\ncompose: {x: nothing_such}\n", write=False)


def test_the_cache_is_used_where_it_is_wanted(read, tmp_path):
    more = f"cache: true\ncache_plugin: jsonfile\ncache_connection: {tmp_path}/cache\n"
    slots = fleet(KIND_NAMES)
    hosts = set(read(slots, more).hosts)
    for path in (tmp_path / "slots").iterdir():
        path.unlink()
    assert set(read([], more, write=False).hosts) == hosts
    assert set(read([], more, write=False, cache=False).hosts) == set()


@pytest.mark.parametrize("bare_metal", [False, True])
def test_hostile_names_are_hosts_without_harm(read, bare_metal):
    data = read(fleet(apart(HOSTILE) if bare_metal else HOSTILE, bare_metal=bare_metal))
    templar = Templar(loader=DataLoader())
    seen = set()
    for name, host in data.hosts.items():
        assert name.replace("-", "").replace(".", "").isalnum()
        variables = host.get_vars()
        seen.add(variables["knaster_node"])
        # As untrusted as what a node says: nothing of it is ever a template.
        assert templar.template(variables["knaster_slots"]) == variables["knaster_slots"]
        assert templar.template(variables["knaster_node"]) == variables["knaster_node"]
    assert "{{ 7*7 }}" in seen
    assert all(group.replace("_", "").isalnum() and group.isascii() for group in data.groups)


@pytest.mark.parametrize("name", ["slots.yml", "slots.yaml", "fleet.slots.yml", "a.slots.yaml"])
def test_names_of_source_files(read, name):
    assert read(fleet(["a"]), name=name).hosts


def test_other_files_are_not_meant(tmp_path):
    plugin = make_plugin()
    for name in ("inventory.yml", "myslots.yml", "slots.json"):
        (tmp_path / name).write_text("plugin: knaster.inventory.slots\n")
        assert not plugin.verify_file(str(tmp_path / name))


def test_slots_that_can_not_be_read_are_one_error(read, tmp_path):
    read(fleet(["a"]))
    (tmp_path / "slots/x.yaml").write_text("a: [\n")
    (tmp_path / "slots/y.yaml").write_text("managed_by: knaster.inventory\n")
    with pytest.raises(AnsibleError, match=r"(?s)x\.yaml:2: ends in the middle.*y\.yaml:1: .*is required"):
        read([], write=False)
