# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.client import (
    Pve,
    PveError,
    PveLostError,
    PveTaskError,
    Settings,
    join,
)
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.definition import (
    absent_definition,
    definition,
)
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.vm import (
    VmOptions,
    ensure_vm,
)
from ansible_collections.knaster.inventory.tests.peers.hub import closed_port
from ansible_collections.knaster.inventory.tests.peers.pve_calls import CountedPve
from ansible_collections.knaster.inventory.tests.peers.pve_cluster import Clock

pytest.importorskip("proxmoxer")
pytest.importorskip("fakepve")

# The peer of other people: it runs in every checkout, and knows what PVE answers from PVE's own sources.
PASSWORD, TOKEN_SECRET = "secret", "5ecrefd0-0000-4000-8000-000000000001"


@pytest.fixture
def login(fakepve, fakepve_cafile):
    fakepve.apitokens["root@pam!knaster"] = TOKEN_SECRET

    def make(*, token=False, **more):
        settings = {"password": PASSWORD} if not token else {"token_id": "knaster", "token_secret": TOKEN_SECRET}
        settings.update(
            {"host": "127.0.0.1", "port": fakepve.port, "user": "root@pam", "ca_path": fakepve_cafile, **more}
        )
        clock = Clock()
        return CountedPve(Settings(**settings), sleep=clock.sleep, clock=clock, lock_limit=20)

    return make


def vm(fingerprint="f1", **more):
    config = {
        "machine": "q35", "bios": "ovmf", "efidisk0": "local-lvm:1,efitype=4m", "cores": 4, "memory": 8192,
        "scsi0": "local-lvm:16,discard=on", "net0": "virtio,bridge=vmbr0", "tags": "B,a", "agent": True, "onboot": True,
        "sshkeys": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ7 ops@example", **more,
    }  # fmt: skip
    return definition({"vmid": 9101, "name": "chat-0", "node": "pve1", "config": config, "fingerprint": fingerprint})


@pytest.mark.parametrize("token", [False, True])
def test_a_vm_from_nothing_to_nothing(login, token):
    api = login(token=token)
    result = ensure_vm(api, vm(), VmOptions(started=True))
    assert (result["changed"], result["vm_status"], result["attention"]) == (True, "running", [])
    api.calls.clear()
    for _unused in range(2):
        assert ensure_vm(api, vm(), VmOptions(started=True))["changed"] is False
    assert api.changing_calls == []
    changed = ensure_vm(api, vm(fingerprint="f2", memory=16384), VmOptions())
    assert set(changed["diff"]["after"]) == {"memory", "description"}
    assert changed["restart_needed"] is True
    api.calls.clear()
    assert ensure_vm(api, vm(fingerprint="f2", memory=16384), VmOptions())["changed"] is False
    assert api.changing_calls == []
    gone = ensure_vm(api, absent_definition(9101, "chat-0", None), VmOptions(present=False, allow_stop=True))
    assert (gone["changed"], gone["exists"]) == (True, False)


def test_what_pve_takes_and_does_not_keep_is_an_error(login):
    api = login()
    ensure_vm(api, vm(), VmOptions())
    # This peer answers a call that makes a disk larger, and does nothing.
    with pytest.raises(PveError, match="has it otherwise afterwards: grow scsi0 of VM 9101"):
        ensure_vm(api, vm(scsi0="local-lvm:32,discard=on"), VmOptions())


def test_lost_answers_and_a_bad_network(login, fakepve):
    fakepve.fail("POST", "/nodes/pve1/qemu", 502, "Bad Gateway", html=True, times=1)
    fakepve.fail("POST", "/nodes/pve1/qemu/9101/status/start", 596, "broken pipe", times=1)
    assert ensure_vm(login(), vm(), VmOptions(started=True))["vm_status"] == "running"
    for seed in range(8):
        fakepve.flaky_network(drop_rate=0.25, seed=seed)
        wanted = vm(fingerprint=f"f{seed}", cores=seed + 1)
        for _unused in range(20):
            try:
                ensure_vm(login(), wanted, VmOptions(started=True))
                break
            except PveLostError:
                continue
        else:
            pytest.fail("never done")
        fakepve.flaky_network()
        api = login()
        assert ensure_vm(api, wanted, VmOptions(started=True))["changed"] is False
        assert api.changing_calls == []
    assert [one.vmid for one in fakepve.vms] == [9101]


def test_a_vm_of_somebody_else_is_not_touched(login, fakepve):
    fakepve.add_vm(9101, "theirs", config={"memory": "512"})
    api = login()
    for options in (VmOptions(started=True), VmOptions(present=False, allow_stop=True)):
        with pytest.raises(PveError, match="does not carry the mark"):
            ensure_vm(api, vm(), options)
    assert api.changing_calls == []


def test_reads_are_repeated_and_changes_are_not(login, fakepve):
    api = login()
    fakepve.fail("GET", "/version", 595, "No route to host", times=2)
    assert api.get("/version")["version"]
    assert len(api.calls) == 4  # the login is one
    fakepve.fail("GET", "/version", 595, "No route to host")
    with pytest.raises(PveLostError, match=r"GET /version: No route to host.*\(HTTP 595\)"):
        api.get("/version")
    api.calls.clear()
    fakepve.fail("POST", "/nodes/pve1/qemu", 502, "Bad Gateway", html=True)
    with pytest.raises(PveLostError):
        api.post("/nodes/pve1/qemu", vmid=9101)
    assert len(api.calls) == 1


def test_a_ticket_that_ended_is_renewed_once(login, fakepve):
    api = login()
    api.get("/version")
    fakepve.revoke_tickets()
    assert api.get("/version")["version"]
    fakepve.revoke_tickets()
    fakepve.password = "another"
    with pytest.raises(PveError, match="PVE refused the login") as caught:
        api.get("/version")
    assert caught.value.status == 401


def test_errors_say_what_pve_said_of_each_parameter(login):
    api = login()
    with pytest.raises(PveError) as caught:
        api.post("/nodes/pve1/qemu", vmid=9101, cores="many", colour="red")
    assert caught.value.status == 400
    assert set(caught.value.errors) == {"cores", "colour"}
    assert (caught.value.method, caught.value.path) == ("POST", "/nodes/pve1/qemu")
    assert "many" not in caught.value.path
    with pytest.raises(PveError) as caught:
        api.get("/nodes/pve1/qemu/4711/config")
    assert caught.value.is_missing


def test_a_lock_is_waited_for_within_a_bound(login, fakepve):
    api = login()
    ensure_vm(api, vm(), VmOptions())
    path = "/nodes/pve1/qemu/9101/config"
    locked = "can't lock file '/var/lock/qemu-server/lock-9101.conf' - got timeout"
    fakepve.fail("PUT", path, 500, locked, times=3)
    api.put(path, cores=2)
    fakepve.fail("PUT", path, 500, locked)
    with pytest.raises(PveError, match="got timeout") as caught:
        api.put(path, cores=3)
    assert caught.value.is_lock


def test_a_failed_task_tells_its_text(login, fakepve):
    api = login()
    ensure_vm(api, vm(), VmOptions())
    start = "/nodes/pve1/qemu/9101/status/start"
    name = next(one["name"] for one in fakepve.errors_for("POST", start) if one["in_task"])
    fakepve.fail("POST", start, error=name)
    with pytest.raises(PveTaskError, match="The task qmstart of 9101 on pve1 failed: "):
        ensure_vm(api, vm(), VmOptions(started=True))


def test_nobody_there():
    clock = Clock()
    api = Pve(
        Settings("127.0.0.1", "a@pve", port=closed_port(), token_id="t", token_secret=TOKEN_SECRET),
        sleep=clock.sleep,
        clock=clock,
    )
    with pytest.raises(PveLostError, match=r"The connection to 127.0.0.1:\d+ failed: Connection refused"):
        api.get("/version")
    assert clock.time > 1


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_the_certificate_has_to_be_valid(login):
    with pytest.raises(PveError, match=r"No safe connection.*certificate.*ca_path") as caught:
        login(token=True, ca_path=None).get("/version")
    assert not isinstance(caught.value, PveLostError)
    assert login(token=True, ca_path=None, validate_certs=False).get("/version")["version"]


def test_no_secret_in_any_text(login, fakepve):
    fakepve.fail("GET", "/version", 500, f"no {PASSWORD} and no {TOKEN_SECRET} here")
    for token in (False, True):
        api = login(token=token)
        with pytest.raises(PveError) as caught:
            api.get("/version")
        assert (TOKEN_SECRET if token else PASSWORD) not in str(caught.value)
        assert "********" in str(caught.value)
        for text in (repr(api.settings), str(api.settings), str(api.calls)):
            assert TOKEN_SECRET not in text
            assert f"'{PASSWORD}'" not in text


def test_nothing_is_changed_when_only_looking(login):
    api = login()
    api.read_only = True
    with pytest.raises(PveError, match="check mode"):
        api.post("/nodes/pve1/qemu", vmid=9101)
    assert api.calls == []


@pytest.mark.parametrize("part", ["", ".", ".."])
def test_parts_of_a_path(part):
    with pytest.raises(PveError):
        join("nodes", part)
    assert join("nodes", "a/../b?c#d", 7) == "/nodes/a%2F..%2Fb%3Fc%23d/7"


def test_no_task_id(login):
    with pytest.raises(PveError, match="no id"):
        login().wait("nonsense", 1)
