# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

DOCUMENTATION = r"""
name: gather_script
short_description: The script that collects a node
version_added: 0.1.0
author:
  - Knaster contributors (@knaster)
description:
  - Gives the shell script that M(knaster.inventory.node_facts) runs on a node, so that it can be run on a node that
    Ansible does not reach. What it prints there can be saved and given to O(knaster.inventory.node_facts#module:answer).
options:
  _terms:
    description:
      - Takes no terms.
    type: list
    elements: str
  timeout:
    description:
      - How many seconds one command in the script may take before it is ended.
    type: int
    default: 20
"""

EXAMPLES = r"""
- name: Write the script to a file
  ansible.builtin.copy:
    content: "{{ lookup('knaster.inventory.gather_script') }}"
    dest: /srv/gather.sh
    mode: "0755"
"""

RETURN = r"""
_raw:
  description:
    - The text of the script.
  type: list
  elements: str
"""

import typing as t

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.knaster.inventory.plugins.module_utils._gather.script import build_script


class LookupModule(LookupBase):
    def run(self, terms: list[str], variables: dict[str, t.Any] | None = None, **kwargs: t.Any) -> list[str]:
        self.set_options(var_options=variables, direct=kwargs)
        if terms:
            raise AnsibleLookupError("gather_script takes no terms")
        return ["#!/bin/sh\n" + build_script(timeout=self.get_option("timeout"))]
