#!/usr/bin/python

# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors


from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_report
short_description: Sum up a fleet and write it as JSON, as metrics and as a page
version_added: 0.1.0
author:
  - Knaster contributors (@knaster)
description:
  - Reads the saved profiles, the plan, the catalog and what was observed, and writes the summary of the fleet as
    P(knaster.inventory.fleet_summary#filter) makes it, in up to three forms. They are JSON, a file for the textfile collector of
    the Prometheus node exporter, and one page of HTML that needs nothing else.
  - The page shows what changed since the last plan, which M(knaster.inventory.plan_file) keeps beside the plan, and what the
    loss of nodes would cost.
  - Files are written whole and only where they would change. The same input gives the same bytes; nothing holds a time stamp.
  - It reads files only, so that a fleet of thousands of nodes is summed up in seconds, where the same data would take minutes on
    its way through templates.
  - Everything that is wrong in what is read is reported at once, and nothing is written then.
  - It works on the controller and connects to nothing. Relative paths start at the directory that C(ansible-playbook) was
    called in.
requirements:
  - PyYAML (it comes with ansible-core)
  - jsonschema
options:
  plan:
    description:
      - The file of the plan. The last plan beside it (C(plan.previous.yml) beside C(plan.yml)) may be absent.
    type: path
    required: true
  observed:
    description:
      - The file of what M(knaster.inventory.observed_file) observed. It may be absent; what has a place then counts as ready.
    type: path
  slots_dir:
    description:
      - The directory of slot files. What was observed of slots that are not there any more is left out. It may be absent.
    type: path
  summary:
    description:
      - Where the summary is written as JSON. Without it, or with an empty text, it is not.
    type: path
  metrics:
    description:
      - Where the metrics are written. Without it, or with an empty text, they are not.
    type: path
  page:
    description:
      - Where the page is written. Without it, or with an empty text, it is not.
    type: path
  title:
    description:
      - The title of the page.
    type: str
    default: GPU fleet
  losses:
    description:
      - Of how many nodes the page says at most what their loss would cost, those with the most on them first. With V(0) of none.
      - Without it they are fewer the larger the fleet is, as with O(knaster.inventory.plan_losses#module:limit), so that it takes
        seconds.
    type: int
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
  - plugin: knaster.inventory.fleet_summary
    plugin_type: filter
    description: Sums up data in variables.
"""

EXAMPLES = r"""
- name: Write summary, metrics and page
  knaster.inventory.fleet_report:
    profiles: knaster/profiles
    hosts: "{{ groups['gpu_nodes'] }}"
    plan: knaster/plan.yml
    observed: knaster/observed.json
    summary: knaster/summary.json
    metrics: knaster/fleet.prom
    page: knaster/report.html
  register: report
  run_once: true

- name: Show the summary
  knaster.inventory.print_text:
    text: "{{ report.table }}"
  run_once: true

- name: Only look, and stop when something is wrong
  knaster.inventory.fleet_report:
    profiles: knaster/profiles
    hosts: "{{ groups['gpu_nodes'] }}"
    plan: knaster/plan.yml
    losses: 0
  register: report
  run_once: true
  failed_when: report.attention | selectattr('severity', 'eq', 'error') | length > 0
"""

RETURN = r"""
files:
  description: The files that changed, or in check mode would change.
  returned: success
  type: list
  elements: str
  sample: [/home/ops/knaster/summary.json]
catalog:
  description: The directories of the catalog that were used.
  returned: success
  type: list
  elements: str
  sample: [/srv/catalog]
catalog_warnings:
  description: The warnings of the catalog.
  returned: success
  type: list
  elements: str
  sample: []
table:
  description: The summary as P(knaster.inventory.summary_table#filter) shows it.
  returned: success
  type: str
  sample: "1 node (1 ready), 2 GPUs (2 free)\n"
attention:
  description: The findings that need action, the most severe first, as P(knaster.inventory.fleet_summary#filter) lists it.
  returned: success
  type: list
  elements: dict
  sample: []
errors:
  description: Everything that is wrong in what was read.
  returned: failure
  type: list
  elements: str
  sample: ["/home/ops/knaster/plan.yml: not found; run placement first"]
"""
