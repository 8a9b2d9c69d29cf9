#!/usr/bin/python

# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

DOCUMENTATION = r"""
module: proxmox_cluster_info
short_description: Read what has to be known of a Proxmox VE cluster before it is changed
version_added: 0.1.0
author:
  - Knaster contributors (@knaster)
description:
  - Reads nodes, storages with their free room, bridges, VMs, resource mappings and the privileges of the
    user or token in few calls, so that everything that is in the way of a run is known before its first change.
  - VMs with the tag of this collection are looked into for its mark and their passed-through devices.
  - A node that cannot be reached is reported, and does not keep the others from being read.
options:
  nodes:
    description:
      - The nodes whose storages and bridges are read. Without any it is all nodes of the cluster.
    type: list
    elements: str
    default: []
  vmids:
    description:
      - Numbers of VMs that are looked into although they do not carry the tag.
    type: list
    elements: int
    default: []
  content:
    description:
      - The kinds of content to list of the storages that may hold them, such as V(import) or V(iso). Without any no
        storage is listed.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - knaster.inventory._attributes
  - knaster.inventory._attributes.info_module
  - knaster.inventory._proxmox
  - knaster.inventory._proxmox.actiongroup_proxmox
seealso:
  - module: knaster.inventory.proxmox_pci_info
    description: Reads the GPUs of the nodes.
"""

EXAMPLES = r"""
- name: Read the cluster and the images that it has
  knaster.inventory.proxmox_cluster_info:
    api_host: pve-1.example.com
    api_user: automation@pve
    api_token_id: knaster
    api_token_secret: "{{ vault_pve_token }}"
    content: [import]
  register: cluster
  delegate_to: localhost
"""

RETURN = r"""
version:
  description: The version of Proxmox VE.
  returned: success
  type: str
  sample: 9.1.9
nodes:
  description:
    - The nodes, each with C(node), C(status), C(cpus), C(memory_mib) and C(error), which is V(null) where it was read.
  returned: success
  type: list
  elements: dict
  sample: [{"node": "pve-1", "status": "online", "cpus": 16, "memory_mib": 65536, "error": null}]
unreachable:
  description: The nodes that could not be read.
  returned: success
  type: list
  elements: str
  sample: []
storages:
  description:
    - The storages of each node, each with C(node), C(storage), C(type), C(content), C(shared), C(active), C(total_gib),
      C(free_gib) and C(volumes), which is V(null) unless its content was listed.
    - A volume has C(volid), C(content), C(size_gib) and C(vmid).
  returned: success
  type: list
  elements: dict
  sample: []
bridges:
  description: The bridges of each node, each with C(node), C(bridge) and C(active).
  returned: success
  type: list
  elements: dict
  sample: [{"node": "pve-1", "bridge": "vmbr0", "active": true}]
vms:
  description:
    - The VMs and containers of the cluster, each with C(vmid), C(kind), which is V(qemu) or V(lxc), C(name),
      C(node), C(status), C(lock), C(template), C(tags) and C(memory_mib).
    - C(mark) has C(vm), C(fleet), C(fingerprint) and the keys C(own) of the definition where the VM carries the mark of this
      collection, C(hostpci) its passed-through devices with C(key), C(value) and C(pending), and C(hardware) the keys
      of its configuration that a start or a removal depends on. All are V(null) where it was not looked into. Templates and
      VMs with the tag are looked into.
    - C(ha) is the state that high availability is to keep it in, an empty text where it does not look after the VM, and
      V(null) where that could not be read. C(jobs) are the jobs for backup and replication that name the VM, V(null) where
      they could not be read.
  returned: success
  type: list
  elements: dict
  sample: []
mappings:
  description:
    - All resource mappings, each with C(id), C(description), C(mdev) and C(entries). An entry has C(node), C(path), C(pci_id),
      C(subsystem_id) and C(iommu_group).
  returned: success
  type: list
  elements: dict
  sample: []
pools:
  description: The resource pools that the user or token may see.
  returned: success
  type: list
  elements: str
  sample: [llm]
privileges:
  description: What the user or token may do, as a list of privileges for each path, V(null) where that is not known.
  returned: success
  type: dict
  sample: {"/vms": ["VM.Allocate", "VM.Audit"]}
"""

from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.cluster import read_cluster
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.module import finish, make_client, make_module


def main() -> None:
    module = make_module(
        {
            "nodes": {"type": "list", "elements": "str", "default": []},
            "vmids": {"type": "list", "elements": "int", "default": []},
            "content": {"type": "list", "elements": "str", "default": []},
        }
    )
    params = module.params
    finish(
        module,
        lambda: read_cluster(
            make_client(module), nodes=params["nodes"], vmids=params["vmids"], content=params["content"]
        ),
    )


if __name__ == "__main__":
    main()
