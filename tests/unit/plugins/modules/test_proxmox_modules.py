# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox import module as module_module
from ansible_collections.knaster.inventory.plugins.modules import (
    proxmox_cluster_info,
    proxmox_gpu_vm,
    proxmox_pci_info,
    proxmox_pci_mapping,
)
from ansible_collections.knaster.inventory.tests.peers import pve_cluster as peer

COLLECTIONS = [
    *os.environ.get("ANSIBLE_COLLECTIONS_PATH", "").split(":"),
    *sys.path,
    str(Path.home() / ".ansible/collections"),
]
needs_community = pytest.mark.skipif(
    not any(Path(path, "ansible_collections/community/proxmox").is_dir() for path in COLLECTIONS if path),
    reason="community.proxmox is not installed",
)
CIPASSWORD = "hunter2-in-the-machine"
SECRETS = (peer.SECRET, peer.PASSWORD, CIPASSWORD)
ENTRY = {
    "node": "pve-0", "path": "0000:41:00.0", "pci_id": "10de:26b1", "subsystem_id": "10de:16a1", "iommu_group": 20,
}  # fmt: skip
VM = {
    "vmid": 9101,
    "name": "chat-0",
    "node": "pve-0",
    "config": {
        "machine": "q35", "bios": "ovmf", "efidisk0": "local-lvm:1,efitype=4m", "cpu": "host", "cores": 8,
        "memory": 32768, "balloon": 0, "scsihw": "virtio-scsi-single", "scsi0": "local-lvm:64,discard=on",
        "ide2": "local-lvm:cloudinit", "net0": "virtio,bridge=vmbr0", "hostpci0": "mapping=gpu-0,pcie=1", "agent": True,
        "ipconfig0": "ip=10.0.1.5/24,gw=10.0.1.1", "tags": "Role,a",
    },
    "source": {"image": peer.IMAGE},
    "fingerprint": "f1",
    "cipassword": CIPASSWORD,
    "mappings": [{"id": "gpu-0", **ENTRY}],
}  # fmt: skip


@pytest.fixture
def sim():
    with peer.serving() as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in list(os.environ):
        if name.startswith("PROXMOX_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


def access(sim):
    return {
        "api_host": "127.0.0.1", "api_port": sim.port, "api_user": peer.USER, "api_token_id": peer.TOKEN,
        "api_token_secret": peer.SECRET, "ca_path": sim.ca_file,
    }  # fmt: skip


@pytest.fixture
def run(sim, capsys):
    def run_module(module, *, check=False, fails=False, **args):
        # None stands for an option that is not given.
        given = {key: value for key, value in {**access(sim), **args}.items() if value is not None}
        with (
            patch_module_args({**given, "_ansible_check_mode": check, "_ansible_diff": True}),
            pytest.raises(SystemExit),
        ):
            module.main()
        text = capsys.readouterr().out
        assert not [secret for secret in SECRETS if secret in text]
        result = json.loads(text)
        assert result.get("failed", False) is fails, text
        return result

    return run_module


def test_card_mapping_and_vm(run, sim):
    cards = run(proxmox_pci_info, nodes=["pve-0"])["devices"]
    assert [(card["address"], card["mappings"], card["holders"]) for card in cards][:1] == [("0000:41:00.0", [], [])]
    named = {key: cards[0][key] for key in ("node", "pci_id", "subsystem_id", "iommu_group")}
    entry = {**named, "path": cards[0]["address"]}
    for check in (True, False):
        mapping = run(proxmox_pci_mapping, check=check, id="gpu-0", entries=[entry])
        assert mapping["changed"] is True
    assert run(proxmox_pci_mapping, name="gpu-0", entries=[entry])["changed"] is False
    check = run(proxmox_gpu_vm, check=True, started=True, **VM)
    done = run(proxmox_gpu_vm, started=True, **VM)
    assert (done["diff"], done["actions"]) == (check["diff"], check["actions"])
    assert done["changed"] is check["changed"] is True
    sim.calls.clear()
    again = run(proxmox_gpu_vm, started=True, **VM)
    assert (again["changed"], again["diff"], again["restart_needed"]) == (False, {"before": {}, "after": {}}, False)
    assert peer.changes(sim) == []
    cluster = run(proxmox_cluster_info, content=["import"])
    assert {vm["vmid"]: vm["mark"] and vm["mark"]["fingerprint"] for vm in cluster["vms"]} == {
        500: None,
        9000: None,
        9101: "f1",
    }
    used = run(proxmox_pci_mapping, fails=True, id="gpu-0", state="absent")
    assert "is used by VM 9101 (chat-0) on pve-0" in used["msg"]
    run(proxmox_gpu_vm, vmid=9101, name="chat-0", state="absent", allow_stop=True)
    assert run(proxmox_pci_mapping, id="gpu-0", state="absent")["changed"] is True


def test_a_definition_that_is_wrong_is_told_whole(run, sim):
    result = run(
        proxmox_gpu_vm, fails=True, **{**VM, "vmid": 7, "name": "a_b", "config": {"lock": "x", "hostpci0": "pcie=1"}}
    )
    assert len(result["errors"]) >= 5
    assert sim.calls == []


def test_a_password_in_the_wrong_place_is_not_shown(run):
    result = run(proxmox_gpu_vm, fails=True, **{**VM, "cipassword": None, "config": {"cipassword": CIPASSWORD}})
    assert "use the option cipassword" in result["msg"]


@pytest.mark.parametrize("state", ["present", "absent"])
def test_a_vm_of_somebody_else(run, sim, state):
    result = run(proxmox_gpu_vm, fails=True, **{**VM, "vmid": 500, "state": state})
    assert "does not carry the mark" in result["msg"]
    assert sim.calls == []


def test_what_pve_refuses(run, sim):
    sim.state["acl"] = [entry for entry in sim.state["acl"] if entry["path"] != "/vms"]
    result = run(proxmox_gpu_vm, fails=True, **{**VM, "config": {"cores": 1}, "source": None})
    assert (result["status"], result["path"]) == (403, "/nodes/pve-0/qemu")
    assert "VM.Allocate" in result["msg"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"api_token_secret": "wrong-secret-of-a-token"}, "Authentication failed"),
        ({"api_token_id": None, "api_token_secret": None, "api_password": "wrong-password"}, "PVE refused the login"),
        ({"ca_path": None}, "No safe connection"),
        ({"api_timeout": 0}, "api_timeout has to be from 1 to 3600 seconds"),
        ({"api_token_secret": None}, "parameters are required together"),
        (
            {"api_token_id": None, "api_token_secret": None},
            "one of the following is required: api_password, api_token_id",
        ),
        ({"api_host": "no host"}, "is not a valid name or address of a host|The connection to no host"),
    ],
)
def test_no_way_in(run, changed, message):
    result = run(proxmox_pci_info, fails=True, **changed)
    assert any(part in result["msg"] for part in message.split("|")), result["msg"]
    assert "wrong-" not in json.dumps(result)


def test_options_that_are_given_and_empty(run):
    for empty in ({"api_token_secret": ""}, {"api_host": ""}, {"api_user": ""}):
        assert "empty" in run(proxmox_pci_info, fails=True, **empty)["msg"]


def test_without_proxmoxer(run, monkeypatch):
    monkeypatch.setattr(module_module, "import_error", lambda: "ImportError: no proxmoxer")
    assert (
        "Failed to import the required Python library (proxmoxer and requests)"
        in run(proxmox_pci_info, fails=True)["msg"]
    )


def test_options_from_the_environment(run, sim, monkeypatch):
    for name, value in (
        ("HOST", "127.0.0.1"),
        ("PORT", str(sim.port)),
        ("USER", "root@pam"),
        ("PASSWORD", peer.PASSWORD),
    ):
        monkeypatch.setenv(f"PROXMOX_{name}", value)
    given = dict.fromkeys(("api_host", "api_port", "api_user", "api_token_id", "api_token_secret"))
    assert run(proxmox_cluster_info, **given)["version"] == "9.1.9"


PLAY = """
- hosts: localhost
  gather_facts: false
  module_defaults:
    group/knaster.inventory.proxmox: {access}
  tasks:
    - knaster.inventory.proxmox_pci_mapping:
        id: gpu-0
        entries: [{entry}]
    - knaster.inventory.proxmox_gpu_vm: {vm}
      register: made
"""


def play(tmp_path, text, *options):
    (tmp_path / "play.yml").write_text(text)
    command = [
        str(Path(sys.executable).with_name("ansible-playbook")),
        "-i",
        "localhost,",
        "-c",
        "local",
        "-vvv",
        *options,
        "play.yml",
    ]
    env = {
        **os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_LOCALHOST_WARNING": "false", "ANSIBLE_HOME": str(tmp_path / "home"),
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable, "ANSIBLE_LOG_PATH": str(tmp_path / "log"),
    }  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
    shown = done.stdout + done.stderr + (tmp_path / "log").read_text()
    assert not [secret for secret in SECRETS if secret in shown]
    return done


def test_a_playbook_twice_and_in_check_mode(sim, tmp_path):
    text = PLAY.format(access=json.dumps(access(sim)), entry=json.dumps(ENTRY), vm=json.dumps({**VM, "started": True}))
    yaml.safe_load(text)
    check = play(tmp_path, text, "--check", "--diff")
    assert check.returncode == 0, check.stdout
    assert peer.changes(sim) == []
    assert "changed=2 " in check.stdout
    real = play(tmp_path, text, "--diff")
    assert real.returncode == 0, real.stdout
    assert "changed=2 " in real.stdout

    def difference(done):
        return [
            line
            for line in done.stdout.splitlines()
            if line.startswith(("+", "-")) and not line.startswith(("+++", "---"))
        ]

    assert difference(check) == difference(real)
    assert len(difference(real)) > 20
    sim.calls.clear()
    again = play(tmp_path, text, "--diff")
    assert "changed=0 " in again.stdout
    assert difference(again) == []
    assert peer.changes(sim) == []


OTHER_PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
    - community.proxmox.proxmox_vm_info: {access}
      register: found
    - ansible.builtin.assert:
        that:
          - (found.proxmox_vms | selectattr('vmid', 'eq', 9101) | first).name == 'chat-0'
          - "'knaster' in (found.proxmox_vms | selectattr('vmid', 'eq', 9101) | first).tags"
          - (found.proxmox_vms | selectattr('vmid', 'eq', 9101) | first).config.hostpci0 == 'mapping=gpu-0,pcie=1'
"""


@needs_community
def test_the_modules_of_the_community_see_the_same(run, sim, tmp_path):
    run(proxmox_pci_mapping, id="gpu-0", entries=[ENTRY])
    run(proxmox_gpu_vm, started=True, **VM)
    done = play(tmp_path, OTHER_PLAY.format(access=json.dumps({**access(sim), "vmid": 9101, "config": "current"})))
    assert done.returncode == 0, done.stdout


@needs_community
def test_the_inventory_of_the_community_has_the_vm(run, sim, tmp_path):
    run(proxmox_pci_mapping, id="gpu-0", entries=[ENTRY])
    run(proxmox_gpu_vm, started=True, **VM)
    source = {
        "plugin": "community.proxmox.proxmox", "url": sim.url, "user": peer.USER, "token_id": peer.TOKEN,
        "token_secret": peer.SECRET, "want_facts": True, "qemu_extended_statuses": True,
    }  # fmt: skip
    (tmp_path / "fleet.proxmox.yml").write_text(json.dumps(source))
    env = {**os.environ, "ANSIBLE_HOME": str(tmp_path / "home"), "REQUESTS_CA_BUNDLE": sim.ca_file}
    command = [str(Path(sys.executable).with_name("ansible-inventory")), "-i", "fleet.proxmox.yml", "--list"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
    listed = json.loads(done.stdout)
    assert "chat-0" in listed["proxmox_all_running"]["hosts"]
    facts = listed["_meta"]["hostvars"]["chat-0"]
    assert sorted(tag["__ansible_unsafe"] for tag in facts["proxmox_tags_parsed"]) == ["a", "knaster", "role"]
    assert "gpu-0" in json.dumps(facts["proxmox_hostpci0"])
