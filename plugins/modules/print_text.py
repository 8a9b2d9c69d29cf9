#!/usr/bin/python

# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

DOCUMENTATION = r"""
module: print_text
short_description: Print a text as it is
version_added: 0.1.0
author:
  - Knaster contributors (@knaster)
description:
  - Prints a text of several lines on the screen, for example a table, without the quoting that
    M(ansible.builtin.debug) gives it.
  - It works on the controller and connects to nothing.
options:
  text:
    description:
      - What to print. Characters that could steer a terminal are replaced.
    type: str
    required: true
extends_documentation_fragment:
  - knaster.inventory._attributes
  - knaster.inventory._attributes.info_module
  - knaster.inventory._attributes.action
attributes:
  action:
    support: full
  async:
    support: none
"""

EXAMPLES = r"""
- name: Show the fleet
  knaster.inventory.print_text:
    text: "{{ profiles | knaster.inventory.fleet_table }}"
  run_once: true
"""

RETURN = r"""
msg:
  description: The text that was printed.
  returned: success
  type: str
  sample: "NODE  STATE\n"
"""
