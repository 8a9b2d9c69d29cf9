# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Slot files in one task, beside the ``template`` loop that writes the same files.

``.venv/bin/python tests/benchmarks/bench_slot_files.py [FEW [MANY]]``. Both write the same bytes for FEW slots (200),
which is checked; the time of a play with one task that does nothing is taken off both. MANY slots (2,000) with all that belongs to
them are written once, and once more when nothing changes. Only the ratio carries over to another machine.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
import typing as t
from pathlib import Path

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.yaml_text import dump_document

BIN = Path(sys.executable).parent
TARGET = 500
# Less than this is lost in the start of a play.
FLOOR = 0.05

MODEL = """models:
  - name: qwen3-8b
    kind: llm
    vram_gb: 16
    min_cc: 8.0
    engines: [vllm]
    context: 40960
    context_length: 16384
    source: Qwen/Qwen3-8B
    aliases: [qwen]
    slo: {ttft_p99: 500ms, tpot_p99: 50ms}
    profiles: [{name: l4, gpu_class: l4}]
"""
ROLES = "roles:\n  - {name: chat, needs: {engine: vllm}, slots: [{name: main, model: qwen}]}\n"
NOTHING = "- hosts: localhost\n  gather_facts: false\n  tasks:\n    - ansible.builtin.debug: {msg: x}\n"
OURS = """- hosts: localhost
  gather_facts: false
  tasks:
    - knaster.inventory.slot_files:
        path: ours
        plan: plan.yml
        catalog: [catalog]
"""
EVERYTHING = OURS.replace(
    "path: ours",
    "path: all/slots\n        gateway: all/gateway\n        prometheus: all/prometheus\n        engines: all/engines",
)
# What a user writes: the documents in a variable, a file from a template for each.
LOOP = """- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.set_fact:
        slots: "{{ plan | knaster.inventory.slot_documents(lookup('knaster.inventory.catalog', 'catalog')) }}"
      vars:
        plan: "{{ lookup('ansible.builtin.file', 'plan.yml') | knaster.inventory.from_document }}"
    - ansible.builtin.file: {path: loop, state: directory, mode: "0755"}
    - ansible.builtin.template:
        src: slot.j2
        dest: "{{ lookup('ansible.builtin.env', 'PWD') }}/loop/{{ item.slot }}.yaml"
        mode: "0644"
      loop: "{{ slots }}"
      loop_control: {label: "{{ item.slot }}"}
"""


# What else is in a plan.
REST = {
    **{name: [] for name in ("replicas", "unplaced", "on_demand", "off", "nodes", "ledger")},
    "inputs": dict.fromkeys(("nodes", "roles", "models"), "0" * 16),
}


def write_plan(folder: Path, count: int) -> None:
    fitting = [f"model-{number}" for number in range(40)]
    seats = [
        {
            "role": "chat",
            "replica": number,
            "node": f"n{number // 8}",
            "gpu_index": number % 8,
            "gpu": {"uuid": f"GPU-{number}", "gpu_class": "l4", "memory_gb": 24, "compute_cap": 8.9},
            "engine": "vllm",
            "models_fitting": fitting,
            "slots": ["main"],
            "fingerprint": "0" * 16,
            "vm": f"chat-{number}",
            "why": {"rule": "largest", "text": "it fits"},
        }
        for number in range(count)
    ]
    (folder / "plan.yml").write_text(dump_document({"version": 1, "assignments": seats, **REST}))


class Cost(t.NamedTuple):
    """Seconds on the wall and of the processors."""

    wall: float
    cpu: float

    def above(self, start: Cost) -> Cost:
        return Cost(*(max(FLOOR, own - other) for own, other in zip(self, start, strict=True)))


def run(folder: Path, play: str) -> Cost:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    (folder / "play.yml").write_text(play)
    began = time.perf_counter()
    done = subprocess.run(
        [
            str(BIN / "ansible-playbook"),
            "-i",
            "localhost,",
            "-c",
            "local",
            "-e",
            f"ansible_python_interpreter={sys.executable}",
            "play.yml",
        ],
        cwd=folder,
        env={**os.environ, "PWD": str(folder), "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"},
        capture_output=True,
        text=True,
        check=False,
    )
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(done.stdout[-3000:] + done.stderr[-3000:])
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def best(costs: t.Iterable[Cost]) -> Cost:
    return Cost(*(min(one) for one in zip(*costs, strict=True)))


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def main() -> None:
    few = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    many = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "catalog").mkdir()
        (folder / "catalog/models.yaml").write_text(MODEL)
        (folder / "catalog/roles.yaml").write_text(ROLES)
        (folder / "slot.j2").write_text("{{ item | knaster.inventory.to_document }}")
        write_plan(folder, few)
        start = best(run(folder, NOTHING) for _unused in range(3))
        ours = best(run(folder, OURS.replace("ours", f"ours{number}")) for number in range(3)).above(start)
        loop = run(folder, LOOP).above(start)
        if texts(folder / "ours0") != texts(folder / "loop"):
            sys.exit("the two do not write the same files")
        write_plan(folder, many)
        written = run(folder, EVERYTHING).above(start)
        count = sum(len(files) for _folder, _folders, files in os.walk(folder / "all"))
        again = run(folder, EVERYTHING).above(start)
    rows = {
        "start of a play": start,
        f"{few} slot files in one task": ours,
        f"{few} slot files by a template loop": loop,
        f"{many} slots with all files ({count})": written,
        "the same when nothing changes": again,
    }
    print(f"{'above the start of a play':38} {'wall s':>9} {'CPU s':>9}")
    for text, cost in rows.items():
        print(f"{text:38} {cost.wall:9.3f} {cost.cpu:9.3f}")
    print(f"{'ratio':38} {loop.wall / ours.wall:9.0f} {loop.cpu / ours.cpu:9.0f}   (target {TARGET})")


if __name__ == "__main__":
    main()
