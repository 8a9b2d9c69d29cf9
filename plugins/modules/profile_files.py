#!/usr/bin/python

# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

DOCUMENTATION = r"""
module: profile_files
short_description: Save the profiles of nodes
version_added: 0.1.0
author:
  - Knaster contributors (@knaster)
description:
  - Writes the profiles that M(knaster.inventory.node_facts) collected in this run, one JSON file for each node,
    in one task for all nodes. P(knaster.inventory.node_profiles#lookup) reads them.
  - A node that gave no profile, since it could not be reached or its answer could not be read, keeps what was last known
    of it, with the state V(unreachable).
  - A file whose content would stay the same is not touched, and each file is replaced at once.
  - It works on the controller and connects to nothing.
options:
  directory:
    description:
      - Where the files are, on the controller. It is made where it is missing.
    type: path
    required: true
  hosts:
    description:
      - The hosts whose profiles are saved.
    type: list
    elements: str
    required: true
  result:
    description:
      - The name of the variable that the collecting task registered on each host.
    type: str
    required: true
extends_documentation_fragment:
  - knaster.inventory._attributes
  - knaster.inventory._attributes.action
  - knaster.inventory._attributes.file_action
"""

EXAMPLES = r"""
- name: Collect the profiles of all nodes
  knaster.inventory.node_facts:
  ignore_unreachable: true
  register: collected

- name: Save the profiles of this run
  knaster.inventory.profile_files:
    directory: knaster/profiles
    hosts: "{{ ansible_play_hosts_all }}"
    result: collected
  run_once: true
"""

RETURN = r"""
files:
  description: The files that changed.
  returned: success
  type: list
  elements: str
  sample: [/home/ops/knaster/profiles/pve-ada.json]
"""
