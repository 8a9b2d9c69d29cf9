#!/usr/bin/python

# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

DOCUMENTATION = r"""
module: vm_files
short_description: Define the VMs of a plan, and put the steps to them in order
version_added: 0.1.0
author:
  - Knaster contributors (@knaster)
description:
  - Makes the definitions that P(knaster.inventory.vm_definitions#filter) makes, from the file of the plan, the saved profiles and
    the directories of a catalog, and writes them to a file. The file is also the memory of vmids.
  - With O(state=present) it compares them with what M(knaster.inventory.proxmox_cluster_info) and
    M(knaster.inventory.proxmox_pci_info) found, reports all problems at once, and gives the steps that the role
    P(knaster.inventory.provision#role) then takes.
  - An error keeps its VM, its node or its cluster from being changed, and there are no steps for them. Everything else goes on.
    Only when something that is read is wrong, nothing is written and there are no steps.
  - The file of definitions remembers the fleet that the VMs belong to, the files of the catalog that they were defined from, and
    VMs of earlier plans. A VM that carries the mark of another fleet is external.
  - It works on the controller, connects to nothing, and reads and writes files only. Relative paths start at the directory
    that C(ansible-playbook) was called in.
  - The host variables that it reads of each node are C(knaster_pve_api_host), C(knaster_pve_api_port),
    C(knaster_pve_api_user) and C(knaster_pve_api_token_id), C(knaster_pve_node) and C(knaster_pve_vm). No secret is read.
requirements:
  - PyYAML (it comes with ansible-core)
  - jsonschema
options:
  path:
    description:
      - The file of the definitions. Its directory is made where it is missing.
    type: path
    required: true
  plan:
    description:
      - The file of the plan.
    type: path
    required: true
  state:
    description:
      - V(rendered) makes the definitions, and does not contact Proxmox VE.
      - V(present) also gives the steps that make the VMs. V(absent) gives the steps that remove all VMs with our
        mark and the mappings that were made for them, whatever the plan says.
    type: str
    choices: [present, rendered, absent]
    default: rendered
  settings:
    description:
      - Settings for all VMs, as in O(knaster.inventory.vm_definitions#filter:settings). Those of single nodes come from
        their host variable C(knaster_pve_vm).
    type: dict
    default: {}
  commands:
    description:
      - A file for the same definitions as shell commands, for people who make their VMs manually.
    type: path
  limit:
    description:
      - The nodes that the run is limited to. What is wrong elsewhere does not keep it from them. Definitions are always made
        for the whole plan.
    type: list
    elements: str
  cluster_result:
    description:
      - The name of the variable that the result of M(knaster.inventory.proxmox_cluster_info) was registered in, on one node
        of each cluster.
    type: str
  pci_result:
    description:
      - The name of the variable that the result of M(knaster.inventory.proxmox_pci_info) was registered in, on the same
        nodes. It has to be called with O(knaster.inventory.proxmox_pci_info#module:gpus_only=false), so that what shares a
        group is seen.
    type: str
  allow_stop:
    description:
      - Whether VMs may be shut down to take a GPU from them or to remove them.
    type: bool
    default: false
  prune:
    description:
      - Whether VMs with our mark that the catalog does not want any more are removed. One whose role or model is wanted and
        has no place in the plan is kept, as is one that somebody protected, that is locked, or that high availability looks
        after.
      - Nothing is removed where a file of the catalog that the last definitions were made from was not read, where there is
        no file of definitions, or where more VMs than O(prune_max) would be removed.
    type: bool
    default: false
  prune_max:
    description:
      - How many VMs O(prune) may remove in this run. Without it, it is a third of those with our mark.
    type: int
  addresses:
    description:
      - Addresses by the name of a VM, as RV(knaster.inventory.proxmox_gpu_vm#module:address) has them. With this option they
        are put into the file of definitions, and nothing else is done. Slots are reached by them where a VM has no static
        address.
    type: dict
  recreate:
    description:
      - Whether a VM that the plan has on another node is removed and re-created there.
    type: bool
    default: false
  strict:
    description:
      - Whether devices that were added manually to our VMs are removed.
    type: bool
    default: false
extends_documentation_fragment:
  - knaster.inventory._fleet
  - knaster.inventory._attributes
  - knaster.inventory._attributes.action
  - knaster.inventory._attributes.file_action
seealso:
  - plugin: knaster.inventory.vm_definitions
    plugin_type: filter
    description: Makes the definitions from data in variables.
"""

EXAMPLES = r"""
- name: Define the VMs, and write them as commands too
  knaster.inventory.vm_files:
    path: knaster/vms.yml
    commands: knaster/vms.sh
    plan: knaster/plan.yml
    profiles: knaster/profiles
    hosts: "{{ groups['gpu_nodes'] }}"
    settings:
      defaults: {template: 9000, storage: tank, cloud_init: {ciuser: ops}}
  register: defined
  run_once: true

- name: Show them
  knaster.inventory.print_text:
    text: "{{ defined.table }}"
  run_once: true
"""

RETURN = r"""
files:
  description: The files of the definitions and of the commands.
  returned: success
  type: list
  elements: str
  sample: [/home/ops/knaster/vms.yml]
vms:
  description: How many VMs the plan has.
  returned: success
  type: int
  sample: 5
table:
  description: The VMs, the findings and the steps as text.
  returned: success
  type: str
  sample: "NODE  MACHINE\n"
findings:
  description:
    - Problems that stop the run (C(severity) V(error)), warnings (V(warning)) and differences from the definitions
      (V(info)), each with C(code), C(text) and C(remedy), and C(cluster), C(node) and C(vm) where it has them.
  returned: when everything could be read
  type: list
  elements: dict
  sample: [{"severity": "info", "code": "missing", "vm": "chat-0", "text": "VM 9101 is not there", "remedy": "It is made"}]
errors_by_node:
  description: By node, the errors that are in the way there. A node without any is not in it.
  returned: when everything could be read
  type: dict
  sample: {"pve-1": ["ERROR chat-0: pve-1 has no GPU at 0000:41:00.0. Collect the node again and plan again."]}
steps:
  description:
    - The steps by node and phase. The phases are V(remove), V(release), V(map), V(make) and V(unmap), and all steps of one
      have to be done before the first of the next. A step has C(text), and C(vm) or C(mapping) with the options of its
      module.
  returned: success
  type: dict
  sample: {}
errors:
  description: Everything that is wrong in what is read.
  returned: when something could not be read
  type: list
  elements: str
  sample: ["/home/ops/knaster/plan.yml: not found; run placement first"]
"""
