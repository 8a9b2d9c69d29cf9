#!/usr/bin/python

# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

DOCUMENTATION = r"""
module: catalog_info
short_description: Check a catalog and show what is in it
version_added: 0.1.0
author:
  - Knaster contributors (@knaster)
description:
  - Checks everything that a catalog says, and fails once with all errors, each with its file, line, path and remedy.
  - Shows models, profiles and roles as tables, and which nodes of the fleet could run each, as far as their profiles were saved.
  - It reads files only, so that fleets of thousands of nodes are answered for in seconds. For a catalog in variables there are
    the filters P(knaster.inventory.catalog_errors#filter) and P(knaster.inventory.catalog_table#filter).
  - It works on the controller and connects to nothing. Relative paths start at the directory that C(ansible-playbook) was
    called in.
requirements:
  - PyYAML (it comes with ansible-core)
  - jsonschema
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
  - plugin: knaster.inventory.catalog
    plugin_type: lookup
    description: Returns the catalog itself.
"""

EXAMPLES = r"""
- name: Check the catalog
  knaster.inventory.catalog_info:
    catalog: [/srv/catalog, site/catalog]
    profiles: knaster/profiles
    hosts: "{{ groups['gpu_nodes'] }}"
  register: found
  run_once: true
"""

RETURN = r"""
catalog:
  description: The directories of the catalog that were used.
  returned: success
  type: list
  elements: str
  sample: [/srv/catalog]
models:
  description: How many models there are.
  returned: success
  type: int
  sample: 12
roles:
  description: How many roles there are.
  returned: success
  type: int
  sample: 3
nodes:
  description: How many nodes of the fleet the catalog was held against, which are those whose GPUs are known.
  returned: success
  type: int
  sample: 40
table:
  description: The catalog as tables.
  returned: success
  type: str
  sample: "Models\n..."
catalog_warnings:
  description: What is not an error but worth a look.
  returned: success
  type: list
  elements: str
  sample: []
errors:
  description: Everything that is wrong in catalog and profiles.
  returned: failure
  type: list
  elements: str
  sample: ["models.yaml:3: models[0].kind: must be one of llm, embedding, reranker"]
"""
