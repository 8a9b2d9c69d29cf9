# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

DOCUMENTATION = r"""
name: slots
short_description: The VMs of slots as hosts
version_added: 0.1.0
author:
  - Knaster contributors (@knaster)
description:
  - Reads the files that M(knaster.inventory.slot_files) wrote. Each VM of a slot is a host under its name, so that plays
    can be about the VMs of a role, of a model or of a node.
  - Groups are C(role_<name>), C(model_<name>) (the model that is served), C(node_<name>), C(engine_<name>) and
    C(fabric_<name>). What a group's name cannot hold becomes an underscore. Where two names would be one group, a hash is
    added to the one that needed a change.
  - The variables of a host are C(ansible_host), C(knaster_node), C(knaster_vm), C(knaster_slots) (the documents of its slots)
    and for a VM of a replica over several nodes C(knaster_rank) and C(knaster_slot). What they hold is never taken for a
    template.
  - On bare metal the nodes are the hosts, by their own names, so that they are the hosts of the inventory that has the nodes, and
    C(ansible_host) is left to that. They have no C(knaster_vm); C(knaster_host) is where engines on them are reached, and
    C(knaster_ranks) lists C(slot) and C(rank) of each part of a replica over several nodes.
  - The name of the source file is C(slots.yml), or ends in C(.slots.yml); C(.yaml) does as well.
requirements:
  - PyYAML (it comes with ansible-core)
  - jsonschema
options:
  plugin:
    description:
      - The name of this plugin.
    type: str
    required: true
    choices: [knaster.inventory.slots]
  path:
    description:
      - The directory of the slots. A relative path starts at the directory of the inventory source file.
      - Files without the mark of this collection are ignored.
    type: str
    default: knaster/slots
extends_documentation_fragment:
  - constructed
  - inventory_cache
seealso:
  - module: knaster.inventory.slot_files
"""

EXAMPLES = r"""
---
# slots.yml: ansible-inventory -i slots.yml --graph
plugin: knaster.inventory.slots
path: knaster/slots

---
# fleet.slots.yml: a user, and groups by the class of GPUs
plugin: knaster.inventory.slots
compose:
  ansible_user: "'ops'"
keyed_groups:
  - key: knaster_slots | map(attribute='gpus') | flatten | map(attribute='gpu_class') | unique
    prefix: GPUs
groups:
  adapters: knaster_slots | selectattr('lora', 'defined') | length > 0
"""

import typing as t
from pathlib import Path

from ansible.errors import AnsibleParserError
from ansible.module_utils.basic import missing_required_lib
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible.utils.path import unfrackpath
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.yaml_file import YAML_IMPORT_ERROR
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.hosts import (
    make_groups,
    make_hosts,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.registry import load_slots

_NAMES = ("slots.yml", "slots.yaml")


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    NAME = "knaster.inventory.slots"

    def verify_file(self, path: str) -> bool:
        name = Path(path).name
        return super().verify_file(path) and (name in _NAMES or name.endswith(tuple(f".{end}" for end in _NAMES)))

    def parse(self, inventory: t.Any, loader: t.Any, path: str, cache: bool = True) -> None:  # noqa: FBT001, FBT002
        super().parse(inventory, loader, path, cache)
        if YAML_IMPORT_ERROR:
            raise AnsibleParserError(missing_required_lib("PyYAML")) from YAML_IMPORT_ERROR
        self._read_config_data(path)
        self._populate(inventory, self._slots(path, use_cache=cache))

    def _slots(self, path: str, *, use_cache: bool) -> list[dict[str, t.Any]]:
        """The documents of the slots, from the cache where that is wanted and has them."""
        self.load_cache_plugin()
        key = self.get_cache_key(path)
        wanted = self.get_option("cache")
        if wanted and use_cache:
            try:
                return t.cast("list[dict[str, t.Any]]", self._cache[key])
            except KeyError:
                pass
        directory = Path(unfrackpath(self.get_option("path"), follow=False, basedir=path))
        try:
            slots = load_slots(directory)
        except InputError as exc:
            raise AnsibleParserError(f"The slots of {directory} cannot be read:\n{exc}") from None
        if wanted:
            self._cache[key] = slots
        return slots

    def _populate(self, inventory: t.Any, slots: list[dict[str, t.Any]]) -> None:
        hosts = make_hosts(slots)
        for host in hosts:
            inventory.add_host(host.name)
            for name, value in host.variables.items():
                inventory.set_variable(host.name, name, value)
        for group, members in make_groups(hosts).items():
            inventory.add_group(group)
            for member in members:
                inventory.add_child(group, member)
        strict = self.get_option("strict")
        for host in hosts:
            known = host.variables
            self._set_composite_vars(self.get_option("compose"), known, host.name, strict=strict)
            self._add_host_to_composed_groups(self.get_option("groups"), known, host.name, strict=strict)
            self._add_host_to_keyed_groups(self.get_option("keyed_groups"), known, host.name, strict=strict)
