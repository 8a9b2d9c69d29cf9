# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""The placement playbook over saved profiles, beside the play that a user writes with hostvars and filters.

``.venv/bin/python tests/benchmarks/bench_placement_play.py [NODES]``; both make the same plan, which is checked. The
figures are whole runs of ansible-playbook, and only their ratio carries over to another machine.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))
from fleet import fleet

BIN = Path(sys.executable).parent
USER_PLAY = """
- name: Plan the way that templates do it
  hosts: all[0]
  gather_facts: false
  tasks:
    - name: Plan
      ansible.builtin.set_fact:
        plan: >-
          {{ hostvars | knaster.inventory.node_profiles(hosts=groups['all']) | knaster.inventory.plan(catalog.roles, catalog.models) }}
      vars:
        catalog: "{{ lookup('knaster.inventory.catalog', 'catalog') }}"
    - name: Write
      ansible.builtin.copy:
        content: "{{ plan | dict2items | rejectattr('key', 'eq', 'changes') | items2dict | knaster.inventory.to_document }}"
        dest: "{{ lookup('ansible.builtin.env', 'PWD') }}/user.yml"
        mode: "0644"
      delegate_to: localhost
"""


def write_fleet(folder: Path, nodes: int) -> None:
    """The same fleet as saved profiles and as a fact cache."""
    made = fleet(nodes)
    (folder / "knaster/profiles").mkdir(parents=True)
    (folder / "catalog").mkdir()
    (folder / "facts").mkdir()
    for node in made["nodes"]:
        (folder / f"knaster/profiles/{node['name']}.json").write_text(json.dumps(node, indent=1))
        facts = {"__payload__": json.dumps({"knaster_node": node})}
        (folder / f"facts/s1_{node['name']}").write_text(json.dumps(facts))
    (folder / "catalog/roles.yaml").write_text(json.dumps({"roles": made["roles"]}))
    (folder / "catalog/models.yaml").write_text(json.dumps({"models": made["models"]}))
    (folder / "inventory.json").write_text(json.dumps({"all": {"hosts": {node["name"]: {} for node in made["nodes"]}}}))
    (folder / "user_play.yml").write_text(USER_PLAY)


def run(folder: Path, *arguments: str, **environment: str) -> tuple[float, float]:
    """Wall and processor seconds of one run."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [str(BIN / "ansible-playbook"), "-i", "inventory.json", *arguments],
        cwd=folder,
        env={**os.environ, "PWD": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    wall = time.perf_counter() - began
    if done.returncode:
        sys.exit(done.stdout[-3000:] + done.stderr[-3000:])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_fleet(folder, nodes)
        user = run(
            folder,
            "user_play.yml",
            ANSIBLE_CACHE_PLUGIN="ansible.builtin.jsonfile",
            ANSIBLE_CACHE_PLUGIN_CONNECTION=str(folder / "facts"),
            ANSIBLE_CACHE_PLUGIN_TIMEOUT="0",
        )
        ours = run(folder, "knaster.inventory.placement")
        if (folder / "user.yml").read_text() != (folder / "knaster/plan.yml").read_text():
            sys.exit("the two plays do not make the same plan")
    print(f"{nodes} nodes            wall s   CPU s")
    print(f"hostvars and filters  {user[0]:7.2f} {user[1]:7.2f}")
    print(f"placement playbook    {ours[0]:7.2f} {ours[1]:7.2f}")
    print(f"ratio                 {ours[0] / user[0]:7.3f} {ours[1] / user[1]:7.3f}   (target 0.15 at 10,000 nodes)")


if __name__ == "__main__":
    main()
