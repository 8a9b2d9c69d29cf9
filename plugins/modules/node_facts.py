#!/usr/bin/python

# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

DOCUMENTATION = r"""
module: node_facts
short_description: Collect what hardware a node has
version_added: 0.1.0
author:
  - Knaster contributors (@knaster)
description:
  - Collects the profile of one node, that is its CPU, memory, disks and GPUs, as P(knaster.inventory.plan#filter) reads it.
  - One shell script is sent through the connection and run in one round trip. The node needs a POSIX shell and no Python,
    nothing is installed or written there, and every command is ended after O(timeout).
  - A tool that is missing, fails or hangs is a note in the profile and never a failed task. What is not detected is
    V(null).
  - On a host of Proxmox VE, as root, the lines of C(/etc/pve) that say which VM or container has a GPU are read as
    well, and no other line. Nothing else needs root.
  - With C(async), and where an action plugin is not used, the module runs the same script in place, which needs Python on
    the node.
options:
  name:
    description:
      - The name of the node in the profile.
      - Without it the inventory name is used. The module run in place without the action plugin uses the node's own
        host name.
    type: str
  timeout:
    description:
      - How many seconds one command on the node may take before it is ended.
    type: int
    default: 20
  fabrics:
    description:
      - The high-speed networks that the node is on. Nodes of different fabrics cannot serve one replica together.
    type: list
    elements: str
    default: []
  labels:
    description:
      - Labels of the node, that node selectors of roles and profiles ask for.
    type: dict
    default: {}
  state:
    description:
      - Whether placement may use the node. V(cordoned) keeps what it has and gets nothing new, V(draining) gives up what
        it has.
    type: str
    choices: [ready, cordoned, draining]
    default: ready
  reserve_gb:
    description:
      - How much memory in GB VMs leave to the node itself. Without it placement takes the larger of 2 GB and 5 per
        cent.
    type: float
  gpus:
    description:
      - Facts about GPUs that no tool reports, by PCI address. They win over what was read.
    type: list
    elements: dict
    default: []
    suboptions:
      pci:
        description:
          - PCI address of the GPU, for example V(0000:41:00.0). The domain may be left out.
        type: str
        required: true
      name:
        description:
          - Product name.
        type: str
      memory_gb:
        description:
          - Nominal size of its memory in GB.
        type: int
      compute_cap:
        description:
          - CUDA compute capability, for example V("8.9").
        type: str
      healthy:
        description:
          - Whether the GPU can be used.
        type: bool
      state:
        description:
          - Whether the GPU gets new work. A cordoned one keeps what it has.
        type: str
        choices: [ready, cordoned]
      holder:
        description:
          - Who has the GPU, where that cannot be read. It wins over what was read.
          - Nothing is planned on a GPU that somebody else has.
        type: dict
        suboptions:
          kind:
            description:
              - Whether it is a VM, a container or the host itself.
            type: str
            choices: [vm, container, host]
            default: vm
          id:
            description:
              - Its number, that is of a process for the host.
            type: int
          name:
            description:
              - Its name.
            type: str
          ours:
            description:
              - Whether it belongs to this collection, so that the GPU can be planned.
            type: bool
            default: false
  weight_dirs:
    description:
      - Directories on the node in which models are looked for, as absolute paths.
      - The cache of Hugging Face, trees of C(organisation/name) and single GGUF files are understood.
    type: list
    elements: str
    default: []
  answer:
    description:
      - A file that holds what the script printed on the node. Nothing is run then.
      - This is for nodes that cannot be reached. The documentation tells how to save such a file.
      - The file is read on the controller, or where the module runs in place.
    type: path
  previous:
    description:
      - The last profile of this node. What no tool can see any more of a GPU that is passed through comes from there.
    type: dict
extends_documentation_fragment:
  - knaster.inventory._attributes
  - knaster.inventory._attributes.action
  - knaster.inventory._attributes.facts
  - knaster.inventory._attributes.info_module
attributes:
  action:
    support: full
  async:
    support: full
    details:
      - The script then runs inside the module, which needs Python on the node.
seealso:
  - plugin: knaster.inventory.profile_from_outputs
    plugin_type: filter
    description: Makes the same profile from saved output.
"""

EXAMPLES = r"""
- name: Collect the node's profile
  knaster.inventory.node_facts:

- name: Show the GPUs
  ansible.builtin.debug:
    var: ansible_facts.knaster_node.gpus

- name: Collect a node that keeps what it has and gets nothing new
  knaster.inventory.node_facts:
    fabrics: [ib-a]
    labels:
      zone: a
    state: cordoned
    timeout: 10
"""

RETURN = r"""
ansible_facts:
  description: Facts to add to ansible_facts.
  returned: always
  type: dict
  contains:
    knaster_node:
      description:
        - The node's profile. A value that was not detected is V(null).
      returned: always
      type: dict
      contains:
        name:
          description: The name of the node.
          type: str
          returned: always
          sample: pve-ada
        hostname:
          description: What the node calls itself.
          type: str
          returned: always
          sample: pve-ada
        cpu:
          description: Model, physical cores and threads.
          type: dict
          returned: always
          sample: {"model": "AMD EPYC 9354 32-Core Processor", "cores": 32, "threads": 64}
        memory_gb:
          description: The installed memory in GB.
          type: int
          returned: always
          sample: 64
        memory_mib:
          description: The memory that the kernel has, in MiB.
          type: int
          returned: always
          sample: 64299
        disks:
          description: The disks, with decimal GB.
          type: list
          elements: dict
          returned: always
          sample: [{"name": "nvme0n1", "size_gb": 256, "rotational": false}]
        gpus:
          description:
            - The GPUs. An empty list means that there is none, V(null) that GPUs were not detected.
          type: list
          elements: dict
          returned: always
          contains:
            index:
              description: Place of the GPU in the node.
              type: int
              returned: always
            name:
              description: Product name.
              type: str
              returned: always
            memory_gb:
              description: Nominal size in GB.
              type: int
              returned: always
            memory_mib:
              description: The size that the vendor's tool prints, or else the driver, in MiB.
              type: int
              returned: always
            compute_cap:
              description: CUDA compute capability.
              type: float
              returned: always
            driver:
              description: Version of the driver.
              type: str
              returned: always
            gpu_class:
              description: Slug of the GPU class.
              type: str
              returned: always
            vendor:
              description: One of V(nvidia), V(amd), V(intel).
              type: str
              returned: always
            uuid:
              description: UUID or unique number that the driver gives the GPU.
              type: str
              returned: always
            pci:
              description: Address, ids, IOMMU group, bound driver and NUMA node.
              type: dict
              returned: always
            mig:
              description: Whether the GPU is divided, by MIG or into the partitions of AMD.
              type: bool
              returned: always
            mig_slices:
              description: The slices, with the memory in GB, or V(null) for what the tool does not tell.
              type: list
              elements: dict
              returned: where RV(ansible_facts.knaster_node.gpus[].mig) is V(true) and they could be listed
              sample: [{"name": "3g.40gb", "memory_gb": 40, "uuid": "MIG-00000000-0000-0000-0000-000000000001"}]
            unified_memory:
              description:
                - Whether its memory is that of the host. C(memory_gb) is then the most that it can use, and C(memory_mib) is
                  V(null).
              type: bool
              returned: where it is V(true)
            vgpu:
              description:
                - Whether it is a part of a GPU that this VM was given, such as C(GRID T4-8Q). Its class and
                  size are its own.
              type: bool
              returned: where it is V(true)
            smi_index:
              description: The number that the vendor's tool gives the GPU.
              type: int
              returned: where it differs from RV(ansible_facts.knaster_node.gpus[].index)
            healthy:
              description: Whether the GPU works, or V(null) where that was not detected.
              type: bool
              returned: always
            health:
              description: Code and text of what is wrong.
              type: dict
              returned: where RV(ansible_facts.knaster_node.gpus[].healthy) is not V(true)
            state:
              description: V(ready) or V(cordoned), as it was declared.
              type: str
              returned: where it was declared
            holder:
              description:
                - Who has the GPU, or V(null) for nobody. A VM or a container has the GPUs of its
                  configuration also while it is stopped. A process that computes on a GPU of the host has it too.
                - C(kind) is V(vm), V(container) or V(host), and C(id) its number. C(ours) tells the VMs
                  that carry the mark of this collection.
                - The configurations of Proxmox VE can be read by root only. Without root this is missing, and a note says
                  so.
              type: dict
              returned: where it was detected
              sample: {"kind": "vm", "id": 101, "name": "windows", "ours": false}
            sources:
              description:
                - Where the values came from, which is one of V(nvidia-smi), V(amd-smi), V(rocm-smi), V(xpu-smi), V(sysfs),
                  V(meminfo), V(pci_table), V(pve), V(previous) or V(declared).
              type: dict
              returned: always
              sample: {"memory": "nvidia-smi", "compute_cap": "nvidia-smi"}
        fabrics:
          description: The option O(fabrics).
          type: list
          elements: str
          returned: always
        labels:
          description: The option O(labels).
          type: dict
          returned: always
        state:
          description: The option O(state).
          type: str
          returned: always
        reserve_gb:
          description: The option O(reserve_gb).
          type: float
          returned: when O(reserve_gb) was given
        storage:
          description:
            - The directories of O(weight_dirs), with the type of their file system, whether other nodes see the same
              files, and the free space in decimal GB. V(null) where no directory was named.
          type: list
          elements: dict
          returned: always
          sample: [{"path": "/models", "fstype": "nfs4", "shared": true, "free_gb": 812, "source": "nas:/models"}]
        weights:
          description:
            - The models that lie there. V(null) where no directory was named.
            - C(state) is V(complete), V(partial) or V(unknown). Only a complete model counts as held.
          type: list
          elements: dict
          returned: always
          sample:
            - {"name": "org/model", "path": "/models/org/model", "size_gb": 16, "shared": true, "state": "complete"}
        notes:
          description: What could not be read, and why.
          type: list
          elements: str
          returned: always
"""

import subprocess

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.knaster.inventory.plugins.module_utils._gather.answers import (
    GatherError,
    read_answer,
)
from ansible_collections.knaster.inventory.plugins.module_utils._gather.profile import (
    NODE_ARGUMENT_SPEC,
    profile_from_outputs,
)
from ansible_collections.knaster.inventory.plugins.module_utils._gather.script import run_script


def main() -> None:
    module = AnsibleModule(argument_spec=NODE_ARGUMENT_SPEC, supports_check_mode=True)
    timeout, saved, weight_dirs = (module.params.pop(key) for key in ("timeout", "answer", "weight_dirs"))
    try:
        answer = read_file(saved) if saved else run_script(timeout, weight_dirs)
        outputs = read_answer(answer.decode("utf-8", "replace"))
    except (GatherError, OSError, ValueError, subprocess.TimeoutExpired) as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, ansible_facts={"knaster_node": profile_from_outputs(outputs, **module.params)})


def read_file(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


if __name__ == "__main__":
    main()
