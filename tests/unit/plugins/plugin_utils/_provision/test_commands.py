# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.commands import render_commands

sys.path.insert(0, str(Path(__file__).parents[4] / "peers"))

import pve_sim
from pve_fleet import Fleet, api_of, look, provision

# What pvesh does with its words, through the API of the simulator.
PVESH = """#!{python}
import sys
from proxmoxer import ProxmoxAPI
verb, path, words = sys.argv[1], sys.argv[2], sys.argv[3:]
values = {{}}
for name, value in zip(words[::2], words[1::2], strict=True):
    assert name.startswith("--"), name
    values.setdefault(name[2:], []).append(value)
values = {{key: value if key == "map" else value[0] for key, value in values.items()}}
api = ProxmoxAPI("{host}", port={port}, user="root@pam", password="secret", verify_ssl="{ca}")
resource = api(path.lstrip("/"))
print({{"create": resource.post, "set": resource.put}}[verb](**values))
"""


def entry(name, **more):
    values = {"id": name, "node": "n1", "path": "0000:41:00.0", "pci_id": "10de:26b1"}
    return values | {"subsystem_id": "10de:16a1", "iommu_group": 21} | more


def machine(name="chat-0", **more):
    config = {"name": name, "cores": 4, "scsi0": "tank:64,ssd=1", "tags": "chat;knaster", "description": 'x {"a":"b"}'}
    one = {
        "vmid": 9101,
        "name": name,
        "node": "n1",
        "cluster": "c:8006",
        "pve_node": "n1",
        "mappings": [],
        "config": config,
    }
    return one | {"source": None, "start": True} | more


def commands(text):
    """The commands of a script, as the shell would read their words."""
    return [shlex.split(line) for line in text.splitlines() if line.startswith("  pvesh ")]


def test_from_nothing_from_an_image_and_from_a_template() -> None:
    (made, started) = commands(render_commands([machine()]))
    assert made[:5] == ["pvesh", "create", "/nodes/n1/qemu", "--vmid", "9101"]
    assert made[made.index("--scsi0") + 1] == "tank:64,ssd=1"
    assert made[made.index("--description") + 1] == 'x {"a":"b"}'
    assert started == ["pvesh", "create", "/nodes/n1/qemu/9101/status/start"]
    (made, grown) = commands(render_commands([machine(source={"image": "local:import/d.qcow2"}, start=False)]))
    assert made[made.index("--scsi0") + 1] == "tank:0,import-from=local:import/d.qcow2,ssd=1"
    assert grown == ["pvesh", "set", "/nodes/n1/qemu/9101/resize", "--disk", "scsi0", "--size", "64G"]
    cloned, changed, grown = commands(render_commands([machine(source={"template": 9000}, start=False)]))
    assert cloned[2:] == [
        "/nodes/n1/qemu/9000/clone",
        "--newid",
        "9101",
        "--name",
        "chat-0",
        "--full",
        "1",
        "--storage",
        "tank",
    ]
    assert "--name" not in changed
    assert "--scsi0" not in changed
    assert grown[2] == "/nodes/n1/qemu/9101/resize"


def test_mappings_come_first_and_each_cluster_is_a_branch() -> None:
    one = machine(mappings=[entry("kn-a"), entry("kn-b", iommu_group=None, subsystem_id=None)])
    other = machine("a-1", cluster="b:8006")
    text = render_commands([one, other])
    assert [words[2] for words in commands(text)] == [
        "/nodes/n1/qemu",
        "/nodes/n1/qemu/9101/status/start",
        "/cluster/mapping/pci",
        "/cluster/mapping/pci",
        "/nodes/n1/qemu",
        "/nodes/n1/qemu/9101/status/start",
    ]
    maps = [words[-1] for words in commands(text) if "--map" in words]
    assert maps[0] == "id=10de:26b1,iommugroup=21,node=n1,path=0000:41:00.0,subsystem-id=10de:16a1"
    assert maps[1] == "id=10de:26b1,node=n1,path=0000:41:00.0"
    done = subprocess.run(["sh", "-s", "nobody"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "b:8006\n  c:8006" in done.stderr


@pytest.mark.parametrize(
    "text", ["$(touch owned)", "'; touch owned; '", '"`touch owned`"', "a\nb", "*) touch owned ;;"]
)
def test_nothing_from_data_is_more_than_a_word(tmp_path, text) -> None:
    hostile = machine(cluster=text, config={"name": "x", "scsi0": text, "description": text}, source={"image": text})
    script = render_commands([hostile])
    log = tmp_path / "log"
    (tmp_path / "pvesh").write_text(f'#!/bin/sh\nprintf "%s\\0" "$@" >> {shlex.quote(str(log))}\n')
    (tmp_path / "pvesh").chmod(0o755)
    command = ["sh", "-s", text]
    subprocess.run(
        command, input=script, text=True, check=True, cwd=tmp_path, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}
    )
    assert not (tmp_path / "owned").exists()
    assert text in log.read_text().split("\0")


def test_the_commands_make_what_the_run_makes(tmp_path) -> None:
    chat = {"name": "chat", "needs": {"engine": "vllm", "min_vram_gb": 20}, "count": 2, "vm": {"memory_mib": 8192}}
    chat["vm"]["cloud_init"] = {"ciuser": "ops", "sshkeys": "ssh-ed25519 AAAA+/= me@here"}
    fleet = Fleet(nodes=1, roles=[chat])
    sim = pve_sim.PveSim(fleet.seed())
    url = sim.start(cert_dir=str(tmp_path))
    host, port = url.rpartition("/")[2].split(":")
    try:
        api = api_of(url, sim.ca_file)
        provision(api, fleet, check_mode=True)
        (tmp_path / "pvesh").write_text(PVESH.format(python=sys.executable, host=host, port=port, ca=sim.ca_file))
        (tmp_path / "pvesh").chmod(0o755)
        script = render_commands(fleet.previous)
        command = ["sh", "-s", fleet.cluster]
        path = f"{tmp_path}:/usr/bin:/bin"
        subprocess.run(command, input=script, text=True, check=True, env={"PATH": path}, stdout=subprocess.DEVNULL)
        assert {guest.name: guest.running for guest in look(api, fleet).guests.values()} == {
            "chat-0": True,
            "chat-1": True,
        }
        assert provision(api, fleet).changed == []
    finally:
        sim.stop()
