#!/usr/bin/python

# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

DOCUMENTATION = r"""
module: plan_file
short_description: Make the plan of a fleet and write it to a file
version_added: 0.1.0
author:
  - Knaster contributors (@knaster)
description:
  - Makes the plan that P(knaster.inventory.plan#filter) makes, from the profiles that
    M(knaster.inventory.profile_files) saved and from the directories of a catalog, and writes it to a file.
  - The plan that the file holds is taken as what runs now, so that nothing moves without need.
  - A plan that is replaced by a different one is kept beside it, C(plan.previous.yml) beside C(plan.yml), so that
    M(knaster.inventory.fleet_report) can say what changed.
  - It reads and writes files only, so that a fleet of thousands of nodes is planned in seconds, where the same data
    would take minutes on its way through templates.
  - Everything that is wrong in profiles, catalog and the last plan is reported at once, and nothing is written then.
  - It works on the controller and connects to nothing. Relative paths start at the directory that C(ansible-playbook) was
    called in.
requirements:
  - PyYAML (it comes with ansible-core)
  - jsonschema
options:
  path:
    description:
      - The file of the plan. Its directory is made where it is missing.
    type: path
    required: true
  slots_dir:
    description:
      - The directory of the slots. Where the file of the plan is not there, the places of what runs are taken from them and from
        the plan before the last, and a warning says so.
    type: path
  smaller:
    description:
      - Whether the fleet is meant to have lost that many nodes. Otherwise it is an error when two or more nodes, and more than a
        third of those with work, are not among O(hosts), since most likely another inventory was meant.
    type: bool
    default: false
  fresh:
    description:
      - Plan as if there were no last plan.
    type: bool
    default: false
  moves:
    description:
      - What may be moved to make room, as in O(knaster.inventory.plan#filter:moves).
    type: str
    choices: [none, relocate, preempt]
    default: none
  rebalance:
    description:
      - Replan from scratch and say what moves, as in O(knaster.inventory.plan#filter:rebalance).
    type: bool
    default: false
  rescue:
    description:
      - Look for another arrangement before something is unplaced, as in O(knaster.inventory.plan#filter:rescue).
    type: bool
    default: true
  passthrough:
    description:
      - Whether GPUs are passed through to VMs, as in O(knaster.inventory.plan#filter:passthrough).
    type: bool
    default: true
extends_documentation_fragment:
  - knaster.inventory._fleet
  - knaster.inventory._attributes
  - knaster.inventory._attributes.action
  - knaster.inventory._attributes.file_action
seealso:
  - plugin: knaster.inventory.plan
    plugin_type: filter
    description: Plans from data in variables.
"""

EXAMPLES = r"""
- name: Plan the fleet
  knaster.inventory.plan_file:
    path: knaster/plan.yml
    profiles: knaster/profiles
    hosts: "{{ groups['gpu_nodes'] }}"
    catalog: [/srv/catalog, site/catalog]
  register: planned
  run_once: true

- name: Show the plan
  knaster.inventory.print_text:
    text: "{{ planned.table }}"
  run_once: true

- name: Use the plan
  ansible.builtin.set_fact:
    plan: "{{ lookup('ansible.builtin.file', planned.path) | knaster.inventory.from_document }}"
  run_once: true
"""

RETURN = r"""
path:
  description: The file of the plan.
  returned: success
  type: str
  sample: /home/ops/knaster/plan.yml
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
table:
  description: The plan as P(knaster.inventory.plan_table#filter) shows it, and what changed since the last plan.
  returned: success
  type: str
  sample: "NODE  CARD\n"
unplaced:
  description: What could not be placed, as in the plan.
  returned: success
  type: list
  elements: dict
  sample: []
changes:
  description: What moved, what was kept, and what could not be moved.
  returned: success
  type: dict
  sample: {"moves": [], "retained": [], "blocked": []}
errors:
  description: All errors in the input of the plan.
  returned: failure
  type: list
  elements: str
  sample: ["/srv/catalog/roles.yaml:3:27: roles[0].needs.min_vram (role chat): \"min_vram\" is not a key of needs"]
"""
