#!/usr/bin/python

# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

DOCUMENTATION = r"""
module: plan_losses
short_description: Say what the loss of a node would mean
version_added: 0.1.0
author:
  - Knaster contributors (@knaster)
description:
  - Plans the fleet without each node that is asked about, in turn, on top of the plan that is there, and says what would be
    lost, what has another place and what would stay short. See the filter P(knaster.inventory.what_if#filter).
  - It reads files only, so that fleets of thousands of nodes are answered for in seconds.
  - Everything that is wrong in profiles, catalog and plan is reported at once.
  - It works on the controller and connects to nothing. Relative paths start at the directory that C(ansible-playbook) was
    called in.
requirements:
  - PyYAML (it comes with ansible-core)
  - jsonschema
options:
  plan:
    description:
      - The file of the plan.
    type: path
    required: true
  lost:
    description:
      - The names of nodes, each tried separately. An element that is a list of names stands for nodes that are lost together.
      - By default each node in use is tried in turn, as far as O(limit) allows.
    type: list
    elements: raw
    default: []
  limit:
    description:
      - How many nodes are tried at most where O(lost) does not name them; those with the most work are taken.
      - By default 50000 divided by the number of nodes in the fleet, and at least ten, so that the answer takes seconds.
    type: int
  moves:
    description:
      - What may be moved to make room, as in O(knaster.inventory.plan#filter:moves).
    type: str
    choices: [none, relocate, preempt]
    default: none
  passthrough:
    description:
      - Whether GPUs are passed through to VMs, as in O(knaster.inventory.plan#filter:passthrough).
    type: bool
    default: true
extends_documentation_fragment:
  - knaster.inventory._fleet
  - knaster.inventory._attributes
  - knaster.inventory._attributes.info_module
  - knaster.inventory._attributes.action
attributes:
  action:
    support: full
  async:
    support: none
seealso:
  - plugin: knaster.inventory.what_if
    plugin_type: filter
    description: Answers from data in variables.
"""

EXAMPLES = r"""
- name: Ask whether a node may be rebooted
  knaster.inventory.plan_losses:
    plan: knaster/plan.yml
    profiles: knaster/profiles
    hosts: "{{ groups['gpu_nodes'] }}"
    lost: [pve-3]
  register: asked
  run_once: true

- name: Stop when something would be short
  ansible.builtin.assert:
    that: asked.answers[0].survives
    fail_msg: "{{ asked.answers[0].text }}"
  run_once: true
"""

RETURN = r"""
catalog:
  description: The directories of the catalog that were used.
  returned: success
  type: list
  elements: str
  sample: [/srv/catalog]
answers:
  description: One entry for each node, as P(knaster.inventory.what_if#filter) returns it.
  returned: success
  type: list
  elements: dict
  sample:
    - nodes: [pve-3]
      hit: [chat/0]
      moves: []
      short: [{name: chat, missing: 1, before: 0}]
      copy_gb: 0
      copy_unknown: 0
      survives: false
      text: "pve-3: no, short of 1 chat"
table:
  description: The answers as text.
  returned: success
  type: str
  sample: "May it be lost?\n\npve-3: no, short of 1 chat\n"
errors:
  description: Everything that is wrong in what the question is about.
  returned: failure
  type: list
  elements: str
  sample: ["/home/ops/knaster/plan.yml: not found; run placement first"]
"""
