# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

DOCUMENTATION = r"""
name: node_profiles
short_description: Read the saved profiles of nodes
version_added: 0.1.0
author:
  - Knaster contributors (@knaster)
description:
  - Reads the profiles that M(knaster.inventory.profile_files) saved, one JSON file for each node.
  - A node without a file has never been collected. Its profile has the state V(unreachable) and no GPUs are known.
options:
  _terms:
    description:
      - The directory of the profiles.
      - A relative path starts at the directory that C(ansible-playbook) was called in.
    type: list
    elements: str
    required: true
  hosts:
    description:
      - The names of the nodes.
    type: list
    elements: str
    required: true
seealso:
  - plugin: knaster.inventory.node_profiles
    plugin_type: filter
    description: Takes the profiles from the variables of hosts.
"""

EXAMPLES = r"""
- name: Plan the whole fleet from what was saved
  ansible.builtin.set_fact:
    plan: >-
      {{ lookup('knaster.inventory.node_profiles', 'knaster/profiles', hosts=groups['all'])
         | knaster.inventory.plan(catalog.roles, catalog.models) }}
  run_once: true
"""

RETURN = r"""
_raw:
  description:
    - The profiles, in the order of O(hosts).
  type: list
  elements: dict
"""

import typing as t
from pathlib import Path

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.preview import handing_over
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.profiles import load_profiles


class LookupModule(LookupBase):
    def run(self, terms: list[str], variables: dict[str, t.Any] | None = None, **kwargs: t.Any) -> list[t.Any]:
        self.set_options(var_options=variables, direct=kwargs)
        if len(terms) != 1:
            raise AnsibleLookupError(f"node_profiles takes one directory, not {len(terms)}")
        errors: list[str] = []
        # What a run with --check would have saved is what it sees.
        with handing_over(variables or {}, only_shown=True):
            profiles = load_profiles(Path(terms[0]).expanduser().absolute(), self.get_option("hosts"), errors)
        if errors:
            raise AnsibleLookupError("\n".join(errors))
        # One element, so that a fleet of one node is a list as well.
        return [profiles]
