#!/usr/bin/python

# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

DOCUMENTATION = r"""
module: slot_files
short_description: Write all files of the registry
version_added: 0.1.0
author:
  - Knaster contributors (@knaster)
description:
  - Writes one file for each slot of a plan, and where they are asked for the configuration of gateways, the targets and
    rules of Prometheus and the start commands of engines, all in one task.
  - It makes the documents that P(knaster.inventory.slot_documents#filter) makes, from files, so that thousands of slots
    are written in seconds; or it takes the documents themselves.
  - Every document is held against the schema of slots first. All that is wrong is reported at once, and nothing is
    written then.
  - Each file is put in place at once. A file that holds what it should is not touched.
  - The name of a file is the id of its slot, which never leads out of the directory. A file of that name that does not
    carry the mark of this collection is not overwritten, but an error.
  - It works on the controller and connects to nothing. Relative paths start at the directory that C(ansible-playbook) was
    called in.
requirements:
  - PyYAML (it comes with ansible-core)
  - jsonschema
options:
  path:
    description:
      - The directory of the slots, one file C(<slot>.yaml) each. It is made where it is missing.
    type: path
    required: true
  plan:
    description:
      - The file of the plan.
      - One of O(plan) and O(documents) is required.
    type: path
  documents:
    description:
      - The documents of the slots, in place of O(plan), O(catalog), O(vms), O(registry_domain) and O(bare_metal).
    type: list
    elements: dict
  catalog:
    description:
      - The directories of the catalog that the plan was made from, the later one changing entries of the earlier by name.
      - The word V(shipped) is the catalog that comes with the collection.
      - Without any it is that one, under C(catalog) in the directory that C(ansible-playbook) was called in.
    type: list
    elements: path
    default: []
  vms:
    description:
      - The file of the definitions of VMs, for their numbers and static addresses. One that is not there is
        no mistake.
    type: path
  registry_domain:
    description:
      - The domain of the VMs, added to the name of one without a static address. On bare metal it is added to the name of a
        node that has no dot.
    type: str
    default: ''
  bare_metal:
    description:
      - Whether engines run on the nodes themselves, as in a plan that was made with
        O(knaster.inventory.plan_file#module:passthrough=false).
      - Their hosts are the host variable C(knaster_address) of the node, else its C(ansible_host) unless that is this machine
        itself or a name that only SSH knows, else the name of the node.
      - The slots are then those of nodes, as P(knaster.inventory.slot_documents#filter) describes, and O(vms) is not read.
    type: bool
    default: false
  gateway:
    description:
      - The directory for C(litellm.yaml) and C(llama-swap.yaml), as P(knaster.inventory.gateway_config#filter) makes them.
    type: path
  prometheus:
    description:
      - The directory for C(targets.json) and C(rules.yml), as P(knaster.inventory.prometheus_targets#filter) and
        P(knaster.inventory.prometheus_rules#filter) make them.
    type: path
  engines:
    description:
      - The directory for the start commands, as P(knaster.inventory.engine_commands#filter) makes them. Each slot has a
        directory of its own there, with C(start.sh), C(engine.env), a systemd unit and C(compose.yaml). A replica over
        several nodes has a directory C(rank0), C(rank1) and so on for each of them.
    type: path
  images:
    description:
      - Container images by engine, where they are to be others than those that the engines publish. One name for all GPUs, or
        a dictionary of names by the maker of the GPUs (C(nvidia), C(amd), C(intel), and C(cpu) without GPUs).
      - Where neither you nor the engine has one for the GPUs of a slot, it gets no C(compose.yaml), and the result says why.
    type: dict
    default: {}
  programs:
    description:
      - The directory of an engine's programs by engine, for the systemd units, such as C(/opt/vllm/bin).
      - Without one it is C(/usr/local/bin), and C(/usr/bin) for C(python3).
    type: dict
    default: {}
  engine_user:
    description:
      - The user whose processes the engines of systemd units are. With an empty string they are those of root.
    type: str
    default: knaster
  listen:
    description:
      - The address that engines listen on, such as V(0.0.0.0).
      - Without it engines with a key (O(api_key_env)) listen on all addresses. An engine without a key listens on the address of
        its endpoint, and where its endpoint is a name only on C(127.0.0.1), because whoever reaches it can use it.
    type: str
    default: ''
  api_key_env:
    description:
      - The name of the variable that holds the key of the engines, on the gateway. Without it engines are asked without a
        key.
    type: str
    default: ''
  request_timeout:
    description:
      - After how many seconds without an answer a gateway gives up an engine and asks another one, or fails.
      - An answer that is no stream arrives all at once, so it has to be longer than the longest of them. The parts of a stream
        may be up to a minute apart.
    type: int
    default: 600
  prune:
    description:
      - Remove the files of slots that are gone. Only files that carry the mark of this collection are removed.
      - Unmanaged files are never overwritten, whatever this option says.
    type: bool
    default: false
extends_documentation_fragment:
  - knaster.inventory._attributes
  - knaster.inventory._attributes.action
  - knaster.inventory._attributes.file_action
seealso:
  - plugin: knaster.inventory.slot_documents
    plugin_type: filter
  - plugin: knaster.inventory.slots
    plugin_type: inventory
    description: Reads the files of slots as hosts and groups.
"""

EXAMPLES = r"""
- name: Write the slots of the plan, and what gateway and monitoring need
  knaster.inventory.slot_files:
    path: knaster/slots
    plan: knaster/plan.yml
    catalog: [/srv/catalog, site/catalog]
    vms: knaster/vms.yml
    registry_domain: gpu.example
    gateway: knaster/gateway
    prometheus: knaster/prometheus
    engines: knaster/engines
    prune: true
  register: written
  run_once: true

- name: Write slots that were made another way
  knaster.inventory.slot_files:
    path: knaster/slots
    documents: "{{ plan | knaster.inventory.slot_documents(catalog) }}"
  run_once: true
"""

RETURN = r"""
path:
  description: The directory of the slots.
  returned: success
  type: str
  sample: /home/ops/knaster/slots
catalog:
  description: The directories of the catalog that were used.
  returned: success
  type: list
  elements: str
  sample: [/srv/catalog]
catalog_warnings:
  description: Warnings of the catalog.
  returned: success
  type: list
  elements: str
  sample: []
slots:
  description: How many slots there are.
  returned: success
  type: int
  sample: 39
file_count:
  description: How many files belong to them.
  returned: success
  type: int
  sample: 203
files:
  description: The files that were written, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample: [/home/ops/knaster/slots/chat.0.main.yaml]
removed:
  description: The files that were removed, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample: []
without_command:
  description: The slots for which no start command was made, by the reason why.
  returned: success
  type: dict
  sample: {"no model is set for it": ["chat.0.main"]}
roles_without_slots:
  description: The roles that have a place in the plan and no slot, so that nothing is served there.
  returned: success
  type: list
  elements: str
  sample: [embedding]
without_image:
  description: The slots for which no C(compose.yaml) was made, by the reason why.
  returned: success
  type: dict
  sample: {"no image of vllm for Intel GPUs is known; name one in the images": ["chat.0.main"]}
summary:
  description: The result in words, one line each.
  returned: success
  type: str
  sample: "39 slots, 4 of them serve one of 2 models.\n"
errors:
  description: All errors in the input of the slots.
  returned: failure
  type: list
  elements: str
  sample: ["/home/ops/knaster/plan.yml: is not there; make the plan first"]
"""
