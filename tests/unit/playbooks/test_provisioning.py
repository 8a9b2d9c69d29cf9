# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""The playbook that provisions, over two clusters of the simulator of which one can be off."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from yaml import safe_load as from_yaml

sys.path.insert(0, str(Path(__file__).parents[2] / "peers"))

import pve_sim
from pve_fleet import Fleet, write_project

CHAT = {"name": "chat", "needs": {"engine": "vllm", "min_vram_gb": 20}, "count": 2, "vm": {"memory_mib": 4096}}


@pytest.fixture
def clusters(tmp_path):
    fleet = Fleet(nodes=2, cards=1, roles=[json.loads(json.dumps(CHAT))])
    sims = [pve_sim.PveSim(fleet.seed()) for _node in fleet.profiles]
    urls = [sim.start(cert_dir=str(tmp_path / "certificate")) for sim in sims]
    yield fleet, sims, urls
    for sim in sims:
        sim.stop()


def write(directory, fleet, sims, urls):
    """A project in which each node is a cluster of its own."""
    write_project(directory, fleet, urls[0], sims[0].ca_file)
    inventory = json.loads((directory / "inventory.yml").read_text())
    hosts = inventory["all"]["children"]["nodes"]["hosts"]
    for node, sim, url in zip(sorted(hosts), sims, urls, strict=True):
        # Each simulator is a cluster with one node.
        sim.state["nodes"] = {node: sim.state["nodes"][node]}
        hosts[node] = {"knaster_pve_api_port": int(url.rpartition(":")[2]), "knaster_pve_ca_path": sim.ca_file}
    (directory / "inventory.yml").write_text(json.dumps(inventory))


def play(directory, playbook, *options, rc=0):
    command = [
        "ansible-playbook",
        "-i",
        "inventory.yml",
        f"knaster.inventory.{playbook}",
        "-e",
        "collect_hosts=nodes",
        *options,
    ]
    command += ["-e", json.dumps({"knaster_catalog": [str(directory / "catalog")]})]
    env = {
        **os.environ,
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_LOCALHOST_WARNING": "0",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == rc, done.stdout + done.stderr
    return done.stdout + done.stderr


def names(sim):
    return sorted(one["config"]["name"] for one in sim.state["guests"].values())


def test_clusters_do_not_stop_each_other_and_nothing_wanted_is_lost(tmp_path, clusters) -> None:
    fleet, sims, urls = clusters
    write(tmp_path, fleet, sims, urls)
    play(tmp_path, "placement")
    shown = play(tmp_path, "provision", "--check", "--diff")
    assert "Make the mapping first" not in shown, "the same run makes it"
    assert [names(sim) for sim in sims] == [[], []]
    # One of two is off.
    port = sims[1].server.server_address[1]
    sims[1].stop()
    shown = play(tmp_path, "provision", rc=2)
    assert names(sims[0]) == ["chat-0"]
    assert "its API cannot be used" in shown
    assert re.search(r"pve-0\s+: ok=\d+ .*failed=0", shown)
    assert re.search(r"pve-1\s+: ok=\d+ .*failed=1", shown)
    sims[1].start(port=port, cert_dir=str(tmp_path / "certificate"))
    # A call that fails is told at the end, and by its node.
    sims[1].faults = [
        {"match": "POST .*/start$", "kind": "task_fail", "message": "start failed: QEMU exited with code 1"}
    ]
    shown = play(tmp_path, "provision", rc=2)
    assert re.search(r"pve-1 +chat-1 +\d+ +- +failed", shown)
    assert re.search(r"pve-0\s+: ok=\d+ .*failed=0", shown)
    play(tmp_path, "provision")
    assert [names(sim) for sim in sims] == [["chat-0"], ["chat-1"]]
    fleet_name = from_yaml((tmp_path / "knaster/vms.yml").read_text())["fleet"]
    assert all(fleet_name in one["config"]["description"] for sim in sims for one in sim.state["guests"].values())
    calls = [len(sim.calls) for sim in sims]
    # One of the guest agents tells an address, the other is not there.
    (guest,) = sims[1].state["guests"].values()
    guest["agent_interfaces"] = [{"name": "eth0", "ip-addresses": [{"ip-address": "10.0.0.7"}]}]
    for one in (entry for sim in sims for entry in sim.state["acl"] if entry["path"] == "/vms"):
        one["privs"].append("VM.GuestAgent.Audit")
    shown = play(tmp_path, "provision", "-e", "provision_address_timeout=1")
    assert "QEMU guest agent is not running" in shown
    assert [one.get("address") for one in from_yaml((tmp_path / "knaster/vms.yml").read_text())["vms"]] == [
        None,
        "10.0.0.7",
    ]
    assert [len(sim.calls) for sim in sims] == calls
    # A renamed folder, an emptied one, and a lost file of definitions.
    shutil.move(tmp_path / "catalog", tmp_path / "elsewhere")
    (tmp_path / "catalog").mkdir()
    (tmp_path / "catalog/roles.yaml").write_text(json.dumps({"roles": []}))
    play(tmp_path, "placement", "-e", "placement_replan=true")
    prune = ["-e", "provision_prune=true", "-e", "provision_allow_stop=true"]
    shown = play(tmp_path, "provision", *prune, rc=2)
    assert "2 of 2 VMs would be removed, more than a third" in shown
    shown = play(tmp_path, "provision", *prune, "-e", "provision_prune_max=2", rc=2)
    assert "were not read: ../catalog/models.yaml" in shown
    (tmp_path / "knaster/vms.yml").unlink()
    shown = play(tmp_path, "provision", *prune, "-e", "provision_prune_max=2", rc=2)
    assert f"there are VMs of the fleets {fleet_name}" in shown
    play(tmp_path, "provision", *prune, "-e", "provision_prune_max=2", "-e", f"knaster_fleet={fleet_name}", rc=2)
    assert [names(sim) for sim in sims] == [["chat-0"], ["chat-1"]]
