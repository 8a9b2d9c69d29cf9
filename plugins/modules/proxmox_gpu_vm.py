#!/usr/bin/python

# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

DOCUMENTATION = r"""
module: proxmox_gpu_vm
short_description: Make a VM of Proxmox VE what its definition says
version_added: 0.1.0
author:
  - Knaster contributors (@knaster)
description:
  - Makes a VM with its passed-through GPUs, or changes one that is there so that it is what the definition
    says. What is the same is not sent, whatever Proxmox VE made of its text.
  - A VM carries a mark in its description, which is a line that begins with C(knaster.inventory/1), and the
    tag V(knaster). One without the mark is never touched. Other lines of the description stay.
  - Nothing is restarted without O(allow_stop). Changes that wait for a restart are reported in RV(pending) and
    RV(restart_needed).
  - What somebody else added, such as another C(hostpci), or C(firewall=1) of a network card, is reported in
    RV(external_additions) and stays, unless O(strict). What an earlier definition set is removed when the definition does not
    have it any more. Disks of an earlier definition are not, which is reported in RV(attention). Disks that somebody added
    are detached with O(strict) only, and even then Proxmox VE keeps them as unused disks.
  - A clone keeps its first disk and its cloud-init drive where the template has them.
  - A run that was cut off at any point is taken up where it ended.
options:
  vmid:
    description:
      - The number of the VM.
    type: int
    required: true
  name:
    description:
      - Its name, which has to be a DNS name. With O(state=absent) it is only used to be sure that it is the right one.
      - It is needed with O(state=present).
    type: str
  node:
    description:
      - The node that it is on, by its name in Proxmox VE, such as RV(knaster.inventory.proxmox_pci_info#module:devices[].node).
        One that is on another node is not moved, but an error.
      - It is needed with O(state=present).
    type: str
  state:
    description:
      - Whether it is there. With V(absent) it is removed with its disks, if it carries the mark.
    type: str
    choices: [present, absent]
    default: present
  config:
    description:
      - Its configuration by the keys of Proxmox VE, such as V(cores), V(hostpci0) or V(net0). Keys that are not named stay as
        they are. A key that is V(null) is removed.
      - A disk is written as it is made, such as V(local-lvm:64). One that is there keeps its volume, and is made larger
        where it has to be. It is never made smaller or moved, which is reported in RV(attention).
      - C(sshkeys) are lines of plain text, or encoded as Proxmox VE wants them.
      - It is needed with O(state=present).
    type: dict
  cipassword:
    description:
      - The password that cloud-init sets. Proxmox VE does not give it back, so that it is only sent where there is none yet.
    type: str
  source:
    description:
      - Where the first disk of a new VM comes from. Without it the disk is empty. It is of no meaning for one
        that is there.
    type: dict
    suboptions:
      template:
        description:
          - The number of a template that is cloned.
        type: int
      image:
        description:
          - A volume that is imported, such as V(local:import/debian-13.qcow2).
        type: str
      disk:
        description:
          - The disk that the image becomes. It has to be in O(config), with the size that it has to have.
        type: str
        default: scsi0
      full:
        description:
          - Whether the clone gets disks of its own instead of changes on top of those of the template.
        type: bool
        default: true
  fingerprint:
    description:
      - The fingerprint of the definition, which is kept in the mark.
    type: str
    default: ""
  fleet:
    description:
      - The fleet that the VM belongs to, which is kept in the mark. A VM of another fleet is never touched.
    type: str
    default: ""
  pool:
    description:
      - The resource pool that a new VM is put into. One that is there stays in its pool.
    type: str
  mappings:
    description:
      - The resource mappings that O(config) names, with the GPUs that they have to be. It is compared before the VM is
        made or started.
    type: list
    elements: dict
    default: []
    suboptions:
      id:
        description:
          - The name of the mapping.
        type: str
        required: true
      node:
        description:
          - The node, by its name in the inventory.
        type: str
      path:
        description:
          - The PCI address that the mapping has to have on O(node).
        type: str
      pci_id:
        description:
          - Vendor and device. M(knaster.inventory.proxmox_pci_mapping) looks after it.
        type: str
      subsystem_id:
        description:
          - Vendor and device of the subsystem. M(knaster.inventory.proxmox_pci_mapping) looks after it.
        type: str
      iommu_group:
        description:
          - The number of the IOMMU group. M(knaster.inventory.proxmox_pci_mapping) looks after it.
        type: int
      made_before:
        description:
          - Whether a task before makes or corrects it. Check mode does not miss it then.
        type: bool
        default: false
  started:
    description:
      - Whether it runs. Without it a new one stays off, and one that is there stays as it is.
    type: bool
  allow_stop:
    description:
      - Whether it may be shut down where that is needed, that is for O(started=false), for O(state=absent), and for
        everything that waits for a restart, after which it is started again. That includes what an earlier run or somebody
        else left waiting.
    type: bool
    default: false
  purge:
    description:
      - With O(state=absent), whether it is also taken out of jobs for backup and replication and out of high availability.
        Without it they keep the number, for a VM that gets it next.
    type: bool
    default: true
  strict:
    description:
      - Whether to remove devices and tags that somebody else added.
    type: bool
    default: false
  timeout:
    description:
      - How many seconds PVE may take to make, clone, change or remove it.
    type: int
    default: 1800
  start_timeout:
    description:
      - How many seconds it may take to start. Without it, it is the limit that Proxmox VE itself has, which grows with memory
        and passed-through devices, and a minute more.
    type: int
  address_timeout:
    description:
      - For how many seconds the guest agent of a running VM is asked for an address, which is returned in RV(address). With V(0)
        it is not asked. It needs the privilege C(VM.GuestAgent.Audit), or C(VM.Monitor) before Proxmox VE 9. Without an
        answer there is a warning.
    type: int
    default: 0
  stop_timeout:
    description:
      - How many seconds it may take to shut down before it is switched off.
    type: int
    default: 180
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
  - module: knaster.inventory.proxmox_pci_mapping
    description: Makes the mappings that the VM names. It has to be done first.
"""

EXAMPLES = r"""
- name: Make a VM with a GPU
  knaster.inventory.proxmox_gpu_vm:
    api_host: pve-1.example.com
    api_user: automation@pve
    api_token_id: knaster
    api_token_secret: "{{ vault_pve_token }}"
    vmid: 9101
    name: llm-large-0
    node: pve-1
    config:
      machine: q35
      bios: ovmf
      efidisk0: local-lvm:1,efitype=4m,format=raw
      cpu: host
      cores: 16
      memory: 65536
      balloon: 0
      scsihw: virtio-scsi-single
      scsi0: local-lvm:64,discard=on,iothread=1
      ide2: local-lvm:cloudinit
      net0: virtio,bridge=vmbr0
      hostpci0: mapping=kn-pve-1-41-00,pcie=1
      ciuser: ops
      sshkeys: "{{ lookup('ansible.builtin.file', '~/.ssh/id_ed25519.pub') }}"
      ipconfig0: ip=dhcp
    source:
      image: local:import/debian-13.qcow2
    started: true
  delegate_to: localhost

- name: Remove a VM that this collection made
  knaster.inventory.proxmox_gpu_vm:
    api_host: pve-1.example.com
    api_user: automation@pve
    api_token_id: knaster
    api_token_secret: "{{ vault_pve_token }}"
    vmid: 9101
    name: llm-large-0
    state: absent
    allow_stop: true
  delegate_to: localhost
"""

RETURN = r"""
vmid:
  description: The number of the VM.
  returned: success
  type: int
  sample: 9101
name:
  description: Its name.
  returned: success
  type: str
  sample: llm-large-0
node:
  description: The node that it is on.
  returned: success
  type: str
  sample: pve-1
exists:
  description: Whether it is there. In check mode this is how it is, and not how it would be.
  returned: success
  type: bool
  sample: true
vm_status:
  description: V(running) or V(stopped), and V(null) where it is not there.
  returned: success
  type: str
  sample: running
address:
  description: The address that the guest agent tells, V(null) where it was not asked or did not tell one.
  returned: success
  type: str
  sample: 10.0.0.21
actions:
  description: What was done, or would be done first in check mode, in order, each with C(action) and C(text).
  returned: success
  type: list
  elements: dict
  sample: [{"action": "create", "text": "create VM 9101 (llm-large-0) on pve-1"}]
pending:
  description: The keys that change with the next start, with the values that they get, V(null) for those that go.
  returned: success
  type: dict
  sample: {"memory": "65536"}
restart_needed:
  description: Whether it has to be restarted to be what the definition says.
  returned: success
  type: bool
  sample: false
external_additions:
  description: Devices and tags that are not of the definition, each with C(key) and C(value).
  returned: success
  type: list
  elements: dict
  sample: []
attention:
  description: Differences that are not put right by this, each with C(code), C(key), C(text) and C(remedy).
  returned: success
  type: list
  elements: dict
  sample: []
"""

from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.definition import (
    DefinitionError,
    absent_definition,
    definition,
)
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.module import finish, make_client, make_module
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.vm import (
    VmOptions,
    ensure_vm,
)


def main() -> None:
    module = make_module(
        {
            "vmid": {"type": "int", "required": True},
            "name": {"type": "str"},
            "node": {"type": "str"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "config": {"type": "dict"},
            "cipassword": {"type": "str", "no_log": True},
            "source": {
                "type": "dict",
                "options": {
                    "template": {"type": "int"},
                    "image": {"type": "str"},
                    "disk": {"type": "str", "default": "scsi0"},
                    "full": {"type": "bool", "default": True},
                },
            },
            "fingerprint": {"type": "str", "default": ""},
            "fleet": {"type": "str", "default": ""},
            "pool": {"type": "str"},
            "mappings": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "id": {"type": "str", "required": True},
                    "node": {"type": "str"},
                    "path": {"type": "str"},
                    "pci_id": {"type": "str"},
                    "subsystem_id": {"type": "str"},
                    "iommu_group": {"type": "int"},
                    "made_before": {"type": "bool", "default": False},
                },
            },
            "started": {"type": "bool"},
            "allow_stop": {"type": "bool", "default": False},
            "purge": {"type": "bool", "default": True},
            "strict": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 1800},
            "start_timeout": {"type": "int"},
            "stop_timeout": {"type": "int", "default": 180},
            "address_timeout": {"type": "int", "default": 0},
        },
        required_if=[("state", "present", ("name", "node", "config"))],
    )
    params = module.params
    # It is refused there, but must not be shown with the refusal.
    misplaced = (params["config"] or {}).get("cipassword")
    if misplaced:
        module.no_log_values.add(str(misplaced))
    for option in ("timeout", "start_timeout", "stop_timeout"):
        if params[option] is not None and not 1 <= params[option] <= 86400:
            module.fail_json(msg=f"{option} has to be from 1 to 86400 seconds, not {params[option]}.")
    if not 0 <= params["address_timeout"] <= 86400:
        module.fail_json(msg=f"address_timeout has to be from 0 to 86400 seconds, not {params['address_timeout']}.")
    present = params["state"] == "present"
    try:
        if present:
            wanted = definition(params)
        else:
            wanted = absent_definition(params["vmid"], params["name"], params["node"], params["fleet"])
    except DefinitionError as exc:
        module.fail_json(msg=f"The definition of VM {params['vmid']} is wrong: {exc}", errors=exc.errors)
    options = VmOptions(
        present=present,
        started=params["started"],
        allow_stop=params["allow_stop"],
        strict=params["strict"],
        purge=params["purge"],
        made_before=frozenset(one["id"] for one in params["mappings"] if one["made_before"]),
        check_mode=module.check_mode,
        task_limit=params["timeout"],
        start_limit=params["start_timeout"],
        stop_limit=params["stop_timeout"],
        address_limit=params["address_timeout"] or None,
    )
    finish(module, lambda: ensure_vm(make_client(module), wanted, options))


if __name__ == "__main__":
    main()
