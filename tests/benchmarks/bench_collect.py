# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""What it costs to collect a node, beside ``ansible.builtin.setup`` in the same run.

Two figures: the CPU time of both sides over a local connection, without what an empty play costs; and the time that passes
over real SSH in the test bed, start of ansible included, without and with pipelining, with new connections and with those
that the run before left open. Only the ratios carry over to another machine, and only from one that does nothing else:
opening 20 connections takes longer than all that is done over them. Run as ``python tests/benchmarks/bench_collect.py``; it
ends with 1 when a ratio is above its target. The SSH part needs root and is left out without it.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import typing as t
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
TESTBED = ROOT / "tests" / "peers" / "testbed.py"
SPEC = TESTBED.parent / "testbed" / "ssh_fleet.yml"
UNSUPPORTED = 77

TARGET_CPU = 0.10
TARGET_WALL = 0.20
TARGET_WALL_PIPELINING = 0.40

TASKS: dict[str, dict[str, t.Any]] = {
    "empty play": {"ansible.builtin.meta": "noop"},
    "setup": {"ansible.builtin.setup": {}},
    "setup, hardware only": {"ansible.builtin.setup": {"gather_subset": ["hardware"]}},
    "node_facts": {"knaster.inventory.node_facts": {}},
}


class Cost(t.NamedTuple):
    """Seconds of CPU on both sides where they are on this machine, and seconds that passed."""

    cpu: float
    wall: float


def play(task: str, inventory: Path, *, forks: int, pipelining: bool, extra: t.Sequence[str] = ()) -> Cost:
    """Run one task on all hosts of an inventory and say what it cost."""
    document = [{"hosts": "all", "gather_facts": False, "tasks": [TASKS[task]]}]
    environment = {
        **os.environ,
        "ANSIBLE_PIPELINING": str(pipelining),
        "ANSIBLE_FORKS": str(forks),
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.minimal",
        "ANSIBLE_NOCOLOR": "1",
        "LC_ALL": "C.UTF-8",
    }
    with tempfile.TemporaryDirectory() as directory:
        playbook = Path(directory, "play.yml")
        playbook.write_text(yaml.safe_dump(document), encoding="utf-8")
        # Nobody's own settings count.
        environment["ANSIBLE_CONFIG"] = f"{directory}/ansible.cfg"
        Path(environment["ANSIBLE_CONFIG"]).touch()
        command = [Path(sys.executable).parent / "ansible-playbook", "--inventory", inventory, *extra, playbook]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        wall = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{task}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    return Cost(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, wall)


def interpreter() -> str:
    """Give the Python that the stock module is to use: the real one, without the wrappers of version managers."""
    return os.path.realpath(sys.executable)


def measure_cpu(directory: Path, *, hosts: int, rounds: int) -> dict[str, float]:
    """Give the CPU milliseconds of each task for one host, the best of some rounds that alternate the tasks."""
    inventory = directory / "local.yml"
    names: dict[str, dict[str, t.Any]] = {f"host{number}": {} for number in range(hosts)}
    variables = {"ansible_connection": "local", "ansible_python_interpreter": interpreter()}
    inventory.write_text(yaml.safe_dump({"all": {"vars": variables, "hosts": names}}), encoding="utf-8")
    spent: dict[str, list[float]] = {}
    for _round in range(rounds):
        base = play("empty play", inventory, forks=4, pipelining=True).cpu
        for task in ("setup", "node_facts"):
            cost = play(task, inventory, forks=4, pipelining=True).cpu - base
            spent.setdefault(task, []).append(cost / hosts * 1000)
    return {task: min(values) for task, values in spent.items()}


def write_spec(directory: Path, nodes: int) -> Path:
    """Write a bed of equal nodes, each like the healthy one of the fleet."""
    spec = yaml.safe_load(SPEC.read_text(encoding="utf-8"))
    text = yaml.safe_dump(next(node for node in spec["nodes"] if node["name"] == "gpu1"))
    # Its files are named from where the fleet's spec lies.
    model = yaml.safe_load(text.replace("fixtures/", f"{SPEC.parent}/fixtures/"))
    many = [{**model, "name": f"node{n}", "number": 10 + n, "python": interpreter()} for n in range(nodes)]
    path = directory / "bed.yml"
    path.write_text(yaml.safe_dump({"bed": "bench", "nodes": many}), encoding="utf-8")
    return path


def bed(verb: str, *arguments: object) -> int:
    return subprocess.run([sys.executable, TESTBED, verb, *map(str, arguments)], check=False).returncode


def measure_wall(directory: Path, *, nodes: int, rounds: int) -> dict[tuple[str, bool, bool], float]:
    """Give the seconds of each task over SSH, by task, pipelining and whether connections were open; the best of some rounds."""
    spec = write_spec(directory, nodes)
    keys = directory / "bed"
    if bed("up", "--spec", spec, "--dir", keys):
        raise RuntimeError("the test bed did not come up")
    spent: dict[tuple[str, bool, bool], list[float]] = {}
    try:
        for number in range(rounds):
            for pipelining in (False, True):
                for task in ("setup, hardware only", "node_facts"):
                    sockets = f"ansible_control_path_dir={keys}/s{number}{'p' if pipelining else ''}{task[0]}"
                    for is_open in (False, True):
                        cost = play(task, keys / "inventory.yml", forks=5, pipelining=pipelining, extra=["-e", sockets])
                        spent.setdefault((task, pipelining, is_open), []).append(cost.wall)
    finally:
        bed("down", "--spec", spec, "--dir", keys)
    return {key: min(values) for key, values in spent.items()}


def report(name: str, ours: float, theirs: float, target: float, unit: str) -> bool:
    ratio = ours / theirs
    print(
        f"{name:<44} node_facts {ours:8.1f} {unit}, setup {theirs:8.1f} {unit}, ratio {ratio:.3f} (target <= {target})"
    )
    return ratio <= target


def main() -> int:
    """Print the figures and say whether they are good enough."""
    parser = argparse.ArgumentParser(description="What it costs to collect a node, beside ansible.builtin.setup.")
    parser.add_argument("--hosts", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    # Not below /tmp: each node has a /tmp of its own, and the bed's control sockets want a short path.
    with tempfile.TemporaryDirectory(prefix="knb", dir="/run" if os.geteuid() == 0 else None) as name:
        directory = Path(name)
        cpu = measure_cpu(directory, hosts=given.hosts, rounds=given.rounds)
        good = [report("CPU of both sides a host, local connection", cpu["node_facts"], cpu["setup"], TARGET_CPU, "ms")]
        if bed("check") == UNSUPPORTED:
            return 0 if all(good) else 1
        wall = measure_wall(directory, nodes=given.hosts, rounds=given.rounds)
        for pipelining, target in ((False, TARGET_WALL), (True, TARGET_WALL_PIPELINING)):
            for is_open in (False, True):
                what = f"{'with' if pipelining else 'without'} pipelining, connections {'open' if is_open else 'new'}"
                ours = wall["node_facts", pipelining, is_open]
                theirs = wall["setup, hardware only", pipelining, is_open]
                good.append(report(what, ours, theirs, target, "s "))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
