# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this doc fragment is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Where the fleet is read from, for all actions that read it from files."""

from __future__ import annotations


class ModuleDocFragment:
    """Options of the saved profiles, the nodes and the catalog."""

    DOCUMENTATION = r"""
options:
  profiles:
    description:
      - The directory of the saved profiles.
    type: path
    required: true
  hosts:
    description:
      - The names of the nodes of the fleet. One that was never collected is taken as unreachable.
      - What the inventory declares of a node (C(knaster_state), C(knaster_labels), C(knaster_fabrics), C(knaster_reserve_gb) and
        the C(state) of GPUs in C(knaster_gpus)) is taken as it is now, and not as it was when the node was collected.
    type: list
    elements: str
    required: true
  catalog:
    description:
      - The directories of the catalog, the later one changing entries of the earlier by name.
      - The word V(shipped) is the catalog that comes with the collection.
      - Without any it is that one, under C(catalog) in the directory that C(ansible-playbook) was called in.
    type: list
    elements: path
    default: []
"""
