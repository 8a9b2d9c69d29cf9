#!/usr/bin/python

# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

DOCUMENTATION = r"""
module: proxmox_pci_info
short_description: Find out which GPUs the nodes of Proxmox VE have and who holds them
version_added: 0.1.0
author:
  - Knaster contributors (@knaster)
description:
  - Lists the GPUs of the nodes of a Proxmox VE cluster in the form that resource mappings need, that is in lower case,
    with domain, and without C(0x).
  - Says of each GPU what else is in its IOMMU group, because all of that goes to the VM with it, which
    resource mappings name it, and which VMs hold it now or after their next start.
  - A node that cannot be reached is reported, and does not keep the others from being read.
options:
  nodes:
    description:
      - The nodes, by their names in Proxmox VE. Without any it is all nodes of the cluster.
    type: list
    elements: str
    default: []
  gpus_only:
    description:
      - Whether to list only GPUs and accelerators, without the displays of management controllers.
    type: bool
    default: true
extends_documentation_fragment:
  - knaster.inventory._attributes
  - knaster.inventory._attributes.info_module
  - knaster.inventory._proxmox
  - knaster.inventory._proxmox.actiongroup_proxmox
seealso:
  - module: knaster.inventory.proxmox_pci_mapping
    description: Makes the mappings that name the GPUs.
"""

EXAMPLES = r"""
- name: Read the GPUs of the cluster
  knaster.inventory.proxmox_pci_info:
    api_host: pve-1.example.com
    api_user: automation@pve
    api_token_id: knaster
    api_token_secret: "{{ vault_pve_token }}"
  register: pci
  delegate_to: localhost

- name: Stop if a GPU is held by a VM of somebody else
  ansible.builtin.assert:
    that: >-
      pci.devices | map(attribute='holders') | flatten | rejectattr('ours') | length == 0
"""

RETURN = r"""
devices:
  description:
    - The GPUs, by node and address.
  returned: success
  type: list
  elements: dict
  contains:
    node:
      description: The node.
      returned: always
      type: str
      sample: pve-1
    address:
      description: The PCI address with domain and function.
      returned: always
      type: str
      sample: "0000:41:00.0"
    class:
      description: The PCI class in six hexadecimal digits.
      returned: always
      type: str
      sample: "030200"
    pci_id:
      description: Vendor and device.
      returned: always
      type: str
      sample: 10de:26b1
    subsystem_id:
      description: Vendor and device of the subsystem, V(null) where the GPU has none.
      returned: always
      type: str
      sample: 10de:16a1
    vendor_name:
      description: The name of the vendor, V(null) where it is not known.
      returned: always
      type: str
      sample: NVIDIA Corporation
    device_name:
      description: The name of the device, V(null) where it is not known.
      returned: always
      type: str
      sample: AD102GL [RTX 6000 Ada Generation]
    gpu:
      description: Whether it is a GPU or an accelerator.
      returned: always
      type: bool
      sample: true
    mdev:
      description: Whether it can be divided into mediated devices.
      returned: always
      type: bool
      sample: false
    iommu_group:
      description: The number of the IOMMU group, V(null) where there is none, that is where the IOMMU is off.
      returned: always
      type: int
      sample: 21
    group_members:
      description: What else is in the IOMMU group, each with C(address), C(class), C(pci_id) and C(device_name).
      returned: always
      type: list
      elements: dict
      sample: []
    mappings:
      description: The resource mappings that name the GPU.
      returned: always
      type: list
      elements: str
      sample: [kn-pve-1-41-00]
    holders:
      description:
        - The VMs that name the GPU, each with C(vmid), C(name), C(running), C(key) such as V(hostpci0),
          C(mapping), which is V(null) where the address is named itself, and C(ours), which says whether the VM
          carries the mark of this collection.
        - C(now) says whether it has the GPU now, C(later) whether it has it after its next start. C(certain) is
          V(false) where the mapping has several GPUs of the node to choose from.
      returned: always
      type: list
      elements: dict
      sample: []
guests:
  description:
    - The VMs that carry the mark of this collection, each with C(vmid), C(node), C(mark), C(hostpci) and C(hardware) as in
      RV(knaster.inventory.proxmox_cluster_info#module:vms).
  returned: success
  type: list
  elements: dict
  sample: []
nodes:
  description: The nodes that were asked for, each with C(node), C(status) and C(error), which is V(null) where it was read.
  returned: success
  type: list
  elements: dict
  sample: [{"node": "pve-1", "status": "online", "error": null}]
unreachable:
  description: The nodes that could not be read.
  returned: success
  type: list
  elements: str
  sample: []
mappings:
  description: All resource mappings, each with C(id), C(description), C(mdev) and C(entries).
  returned: success
  type: list
  elements: dict
  sample: []
"""

from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.cluster import read_pci
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.module import finish, make_client, make_module


def main() -> None:
    module = make_module(
        {
            "nodes": {"type": "list", "elements": "str", "default": []},
            "gpus_only": {"type": "bool", "default": True},
        }
    )
    params = module.params
    finish(module, lambda: read_pci(make_client(module), nodes=params["nodes"], gpus_only=params["gpus_only"]))


if __name__ == "__main__":
    main()
