# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""A fleet with a pretended API, in the background, for scenarios: ``pve_project.py up DIR`` and ``pve_project.py down DIR``.

The directory then holds what a user has (profiles, catalog, inventory), and the simulator answers for the cluster.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pve_sim
from pve_fleet import Fleet, write_project

FOREIGN = {
    "node": "pve-0",
    "config": {"name": "database", "memory": 2048, "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0", "tags": "prod"},
    "pending": {},
    "status": "running",
}
CHAT = {"name": "chat", "needs": {"engine": "vllm", "min_vram_gb": 20}, "count": 3, "vm": {"memory_mib": 4096}}
GATEWAY = {
    "name": "gateway",
    "needs": {"engine": "llamacpp", "gpu": False, "gpu_nodes": True},
    "count": 2,
    "vm": {"memory_mib": 2048, "cores": 2, "cloud_init": {"ciuser": "ops"}},
}


def main():
    action, directory = sys.argv[1], Path(sys.argv[2]).absolute()
    return {"up": up, "down": down, "sim": run_sim}[action](directory)


def up(directory):
    """Write the project and start its API."""
    command = [sys.executable, __file__, "sim", str(directory)]
    fleet, port = make_sim_fleet(), free_port()
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "port").write_text(str(port))
    with open(directory / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(command, cwd=directory, stdout=log, stderr=log, start_new_session=True)
    (directory / "pid").write_text(str(process.pid))
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    else:
        print((directory / "log").read_text())
        return 1
    write_project(directory, fleet, f"https://127.0.0.1:{port}", directory / "certificate" / "cert.pem")
    (directory / "peer.json").write_text(json.dumps({"machines": len(fleet.plan()["assignments"])}))
    return 0


def make_sim_fleet():
    return Fleet(nodes=2, cards=2, roles=[CHAT, GATEWAY], guests={"5000": FOREIGN}, task_delay=0.05)


def run_sim(directory):
    """Be the simulator until somebody ends it."""
    sim = pve_sim.PveSim(make_sim_fleet().seed(), log_file=str(directory / "calls.jsonl"))
    sim.start(port=int((directory / "port").read_text()), cert_dir=str(directory / "certificate"))
    signal.pause()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def down(directory):
    """End the API."""
    path = directory / "pid"
    if path.exists():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(path.read_text()), signal.SIGTERM)
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
