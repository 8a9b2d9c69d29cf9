#!/usr/bin/python

# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors


from __future__ import annotations

DOCUMENTATION = r"""
module: observed_file
short_description: Observe the replicas of a fleet and write what they do to a file
version_added: 0.1.0
author:
  - Knaster contributors (@knaster)
description:
  - Asks the engines behind the slot files of a directory, as M(knaster.inventory.replica_info) does, and writes what they
    answered to a file that M(knaster.inventory.fleet_report) reads.
  - What the file holds is where idle times and times to start go on from.
  - A replica on a node whose profile says that it is being drained is draining.
  - All errors in slots, profiles, catalog and the last file are reported at once, and no replica is queried then.
  - The engines are asked from the host that the task runs on; files are read and written on the controller. Relative paths start
    at the directory that C(ansible-playbook) was called in.
requirements:
  - PyYAML (it comes with ansible-core)
  - jsonschema
options:
  path:
    description:
      - The file of what was observed, JSON. Its directory is made where it is missing.
    type: path
    required: true
  slots_dir:
    description:
      - The directory of slot files, as M(knaster.inventory.slot_files) writes them.
    type: path
    required: true
extends_documentation_fragment:
  - knaster.inventory._fleet
  - knaster.inventory._asking
  - knaster.inventory._attributes
  - knaster.inventory._attributes.action
attributes:
  check_mode:
    support: full
    details:
      - The engines are asked, because asking changes nothing.
  diff_mode:
    support: full
  idempotent:
    support: none
    details:
      - Times and numbers of requests go on between two runs.
  action:
    support: full
  async:
    support: none
seealso:
  - module: knaster.inventory.replica_info
"""

EXAMPLES = r"""
- name: Observe the fleet
  knaster.inventory.observed_file:
    path: knaster/observed.json
    slots_dir: knaster/slots
    profiles: knaster/profiles
    hosts: "{{ groups['gpu_nodes'] }}"
  register: observed
  run_once: true
  delegate_to: localhost

- name: Show it
  knaster.inventory.print_text:
    text: "{{ observed.table }}"
  run_once: true
"""

RETURN = r"""
path:
  description: The file of what was observed.
  returned: success
  type: str
  sample: /home/ops/knaster/observed.json
catalog:
  description: The directories of the catalog that were used.
  returned: success
  type: list
  elements: str
  sample: [/srv/catalog]
states:
  description: How many replicas are in each state.
  returned: success
  type: dict
  sample: {ready: 4, starting: 1, draining: 0, failed: 0}
empty:
  description: The slots that no model is set for and at which nothing answers.
  returned: success
  type: list
  elements: str
  sample: []
table:
  description: What was observed as text, those that failed first.
  returned: success
  type: str
  sample: "5 replicas: 4 ready, 1 starting\n"
errors:
  description: Everything that is wrong in what was to be asked.
  returned: failure
  type: list
  elements: str
  sample: ["/home/ops/knaster/slots: cannot be read (No such file or directory); write the slots first"]
"""
