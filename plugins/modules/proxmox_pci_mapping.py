#!/usr/bin/python

# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

DOCUMENTATION = r"""
module: proxmox_pci_mapping
short_description: Manage the PCI resource mappings of Proxmox VE
version_added: 0.1.0
author:
  - Knaster contributors (@knaster)
description:
  - Makes a resource mapping say which GPU of which node is meant by a name. Passing a GPU through by such a name is the
    only way that works with an API token.
  - It owns only the entries of the nodes that it is told. Entries of other nodes stay as they are.
  - Entries are compared with the hardware of their node before anything is changed, in the way that Proxmox VE compares
    them when a VM starts. What cannot be read is a warning.
  - It refuses to take a mapping away from a VM, which Proxmox VE itself would not notice, and to leave a
    mapping without entries, which would remove it.
options:
  id:
    description:
      - The name of the mapping.
    type: str
    required: true
    aliases: [name]
  state:
    description:
      - Whether the mapping has the entries. With V(absent) the entries of O(nodes) are removed, and without O(nodes) the
        whole mapping.
    type: str
    choices: [present, absent]
    default: present
  description:
    description:
      - What the mapping is for. Without it the description stays as it is.
    type: str
  entries:
    description:
      - The GPUs. Several entries of one node are alternatives, of which a VM gets the first that is free.
      - It is needed with O(state=present).
    type: list
    elements: dict
    default: []
    suboptions:
      node:
        description:
          - The node, by its name in Proxmox VE.
        type: str
        required: true
      path:
        description:
          - The PCI address. Without a function it is all functions of the GPU. Several addresses that are passed through
            together are joined by V(;).
        type: str
        required: true
      pci_id:
        description:
          - Vendor and device, such as V(10de:26b1).
        type: str
        required: true
      subsystem_id:
        description:
          - Vendor and device of the subsystem, where the GPU has one.
        type: str
      iommu_group:
        description:
          - The number of the IOMMU group, where the GPU is in one.
        type: int
      description:
        description:
          - What this GPU is.
        type: str
  mdev:
    description:
      - Whether its GPUs are handed out in parts, as mediated devices.
      - Without it, it stays as it is, and is V(false) for a new one.
    type: bool
  nodes:
    description:
      - The nodes whose entries are managed. One of them that has none in O(entries) loses its entries.
      - Without it the nodes of O(entries) are.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - knaster.inventory._attributes
  - knaster.inventory._proxmox
  - knaster.inventory._proxmox.actiongroup_proxmox
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
seealso:
  - module: knaster.inventory.proxmox_pci_info
    description: Lists the GPUs in the form that entries have.
"""

EXAMPLES = r"""
- name: Name a GPU
  knaster.inventory.proxmox_pci_mapping:
    api_host: pve-1.example.com
    api_user: automation@pve
    api_token_id: knaster
    api_token_secret: "{{ vault_pve_token }}"
    id: kn-pve-1-41-00
    description: RTX 6000 Ada in slot 3
    entries:
      - node: pve-1
        path: "0000:41:00.0"
        pci_id: 10de:26b1
        subsystem_id: 10de:16a1
        iommu_group: 21
  delegate_to: localhost

- name: Remove a mapping that no VM uses any more
  knaster.inventory.proxmox_pci_mapping:
    api_host: pve-1.example.com
    api_user: automation@pve
    api_token_id: knaster
    api_token_secret: "{{ vault_pve_token }}"
    id: kn-pve-1-41-00
    state: absent
  delegate_to: localhost
"""

RETURN = r"""
id:
  description: The name of the mapping.
  returned: success
  type: str
  sample: kn-pve-1-41-00
map:
  description: All entries that the mapping has now, or would have in check mode, as Proxmox VE keeps them.
  returned: success
  type: list
  elements: str
  sample: ["id=10de:26b1,iommugroup=21,node=pve-1,path=0000:41:00.0,subsystem-id=10de:16a1"]
"""

import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.mappings import (
    ensure_mapping,
    mapping_wanted,
)
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.module import finish, make_client, make_module


def main() -> None:
    module = make_module(
        {
            "id": {"type": "str", "required": True, "aliases": ["name"]},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "description": {"type": "str"},
            "entries": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "node": {"type": "str", "required": True},
                    "path": {"type": "str", "required": True},
                    "pci_id": {"type": "str", "required": True},
                    "subsystem_id": {"type": "str"},
                    "iommu_group": {"type": "int"},
                    "description": {"type": "str"},
                },
            },
            "mdev": {"type": "bool"},
            "nodes": {"type": "list", "elements": "str", "default": []},
        }
    )
    params = module.params
    present = params["state"] == "present"

    def work() -> dict[str, t.Any]:
        entries = params["entries"] if present else ()
        wanted = mapping_wanted(
            params["id"],
            entries,
            params["nodes"],
            description=params["description"],
            present=present,
            mdev=params["mdev"],
        )
        return ensure_mapping(make_client(module), wanted, check_mode=module.check_mode)

    finish(module, work)


if __name__ == "__main__":
    main()
