# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Real runs of the playbook against the simulator: how long, how many calls of the API, and that a killed run is taken up.

usage: bench_provision.py [--nodes 10] [--cards 3] [--cpu 10] [--kills 4]

It needs the schema of a real release; without it there is nothing to measure.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))

import pve_sim
from pve_fleet import Fleet, write_project

# Of each machine in a first run: making, growing, starting, and looking at the tasks and at what came of it.
MOST_CALLS = 30
# Of each machine in a run without a change.
MOST_CALLS_UNCHANGED = 8
# Of the run itself, and of each node: what is read before the first change.
MOST_CALLS_BEFORE, MOST_CALLS_NODE = 10, 8


class CountingSim(pve_sim.PveSim):
    """The simulator with a count of all calls, reading ones too."""

    count = 0

    def take_fault(self, line):
        self.count += 1
        return super().take_fault(line)


def main():
    args = parse_args()
    with tempfile.TemporaryDirectory(prefix="bench_provision_") as directory:
        measure(Path(directory) / "fleet", args)
        for part in range(args.kills):
            kill(Path(directory) / f"kill-{part}", (part + 0.5) / args.kills)


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--cards", type=int, default=3, help="GPUs of each node, each for one machine")
    parser.add_argument("--cpu", type=int, default=10, help="machines without a GPU")
    parser.add_argument(
        "--kills", type=int, default=4, help="runs that are killed, at points spread over their changes"
    )
    return parser.parse_args()


def make_fleet(directory, nodes, cards, cpu):
    chat = {
        "name": "chat",
        "needs": {"engine": "vllm", "min_vram_gb": 20},
        "count": nodes * cards,
        "vm": {"memory_mib": 8192},
    }
    needs = {"engine": "llamacpp", "gpu": False, "gpu_nodes": True}
    fleet = Fleet(
        nodes=nodes, cards=cards, roles=[chat, {"name": "gateway", "needs": needs, "count": cpu}], task_delay=0.05
    )
    fleet.roles[1]["vm"] = {"memory_mib": 4096}
    sim = CountingSim(fleet.seed())
    url = sim.start(cert_dir=str(directory / "certificate"))
    write_project(directory, fleet, url, sim.ca_file)
    play(directory, "placement", "-e", "collect_hosts=nodes")
    return sim


def command(name, *more):
    return ["ansible-playbook", "-i", "inventory.yml", f"knaster.inventory.{name}", "-e", "collect_hosts=nodes", *more]


def play(directory, name, *more):
    begin = time.monotonic()
    done = subprocess.run(command(name, *more), cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stdout[-5000:]}\n{done.stderr[-2000:]}")
    return time.monotonic() - begin, done.stdout


def changed(output):
    return sum(int(number) for number in re.findall(r"changed=(\d+)", output))


def measure(directory, args):
    directory.mkdir()
    sim = make_fleet(directory, args.nodes, args.cards, args.cpu)
    machines = args.nodes * args.cards + args.cpu
    seconds, _output = play(directory, "provision", "--check")
    assert not sim.calls, sim.calls
    print(f"check of {machines} machines on {args.nodes} nodes: {seconds:.0f} s, {sim.count} calls, 0 change something")
    sim.count = 0
    seconds, _output = play(directory, "provision")
    running = sum(guest["status"] == "running" for guest in sim.state["guests"].values())
    assert running == machines, (running, machines)
    each = sim.count / machines
    what = f"{sim.count} calls ({each:.1f} a machine), {len(sim.calls)} of them change something"
    print(f"first run, {machines} machines on {args.nodes} nodes: {seconds:.0f} s, {what}")
    before = MOST_CALLS_BEFORE + MOST_CALLS_NODE * args.nodes
    assert sim.count <= MOST_CALLS * machines + before
    changes, sim.count = len(sim.calls), 0
    seconds, output = play(directory, "provision")
    assert len(sim.calls) == changes
    assert changed(output) == 0
    each = sim.count / machines
    print(f"second run: {seconds:.0f} s, {sim.count} calls ({each:.1f} a machine), 0 change something")
    assert sim.count <= MOST_CALLS_UNCHANGED * machines + before
    sim.stop()


def kill(directory, part):
    """Kill a run when a part of its changing calls is done, and see that the next run completes."""
    directory.mkdir()
    sim = make_fleet(directory, 2, 2, 2)
    calls = 4 + 3 * 6
    at = math.ceil(part * calls)
    run = subprocess.Popen(
        command("provision"),
        cwd=directory,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while len(sim.calls) < at and run.poll() is None:
        time.sleep(0.005)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    done = len(sim.calls)
    play(directory, "provision")
    guests = [guest["config"]["name"] for guest in sim.state["guests"].values() if guest["status"] == "running"]
    assert sorted(guests) == ["chat-0", "chat-1", "chat-2", "chat-3", "gateway-0", "gateway-1"], guests
    _seconds, output = play(directory, "provision")
    assert changed(output) == 0
    print(f"killed with -9 after {done} of {calls} changing calls: the next run completed all 6 machines, none twice")
    sim.stop()
    end_workers(directory)


def end_workers(directory):
    """End what the killed controller left waiting: its workers have sessions of their own."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if entry.name.isdigit() and (entry / "cwd").resolve(strict=True) == directory.resolve():
                os.kill(int(entry.name), signal.SIGKILL)


if __name__ == "__main__":
    main()
