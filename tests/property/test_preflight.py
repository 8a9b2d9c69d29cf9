# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Whatever a user sets: what is told before a run is what Proxmox VE refuses, when a VM is made or when it starts.

KNASTER_PREFLIGHT says how many settings are tried; CI tries a tenth of 5,000.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.client import Pve, PveError, Settings
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.run import Last, Run, prepare
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.settings import read_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))

import pve_sim
from pve_fleet import IMAGE, SECRET, TOKEN, Fleet, look, run_step

EXAMPLES = int(os.environ.get("KNASTER_PREFLIGHT") or "500")
ROLE = {"name": "chat", "needs": {"engine": "vllm", "min_vram_gb": 20}, "count": 1, "vm": {"memory_mib": 8192}}
ADDRESSES = (
    "10.0.0.5/24",
    "10.0.0.5",
    "10.0.0.500/24",
    "10.0.0.5/33",
    "10.0.0.5/7",
    "dhcp",
    "auto",
    "fd00::5/64",
    "fd00::5",
)
FLAG = st.sampled_from([0, 1, True, False, "1", "on", "off", "maybe"])


def parts(**options):
    """A text of parts, each of which can be missing."""
    chosen = st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in options.items()})
    return chosen.map(lambda given: ",".join(f"{name}={value}" for name, value in given.items()))


NUMA = parts(
    cpus=("0-3", "4-7", "0-7", "0-11", "0-15"),
    memory=(4096, 8192, 1024),
    hostnodes=(0, 1),
    policy=("preferred", "bind"),
)
CLOUD_INIT = {
    "ciuser": st.sampled_from(["ops", ""]),
    "citype": st.sampled_from(["nocloud", "configdrive2", "cloudbase"]),
    "ipconfig0": parts(ip=ADDRESSES, gw=("10.0.0.1", "10.0.0.1/24", "fd00::1"), ip6=ADDRESSES, gw6=("fd00::1", "10.0.0.1")),
    "nameserver": st.sampled_from(["10.0.0.1", "10.0.0.1 fd00::1", "dns.example", "10.0.0.1, 10.0.0.256"]),
    "sshkeys": st.sampled_from(["ssh-ed25519 AAAA me", "# mine\nssh-ed25519 AAAA", "", "none", "ssh-rsa AAAA\n\necdsa-sha2-nistp256 BBBB\n"]),
    "cicustom": parts(vendor=("local:snippets/gpu.yaml", "local:snippets/none.yaml", "gpu.yaml", "nfs:snippets/x"), driver=("local:snippets/gpu.yaml",)),
}  # fmt: skip
CONFIG = {
    "affinity": st.just("0-3"),
    "arch": st.sampled_from(["x86_64", "riscv"]),
    "args": st.just("-vnc :1"),
    "balloon": st.sampled_from([0, 1024, 8192, 8193, -1]),
    "bios": st.sampled_from(["seabios", "ovmf", "uefi"]),
    "cpuunits": st.sampled_from([1, 262144, 0, 262145]),
    "hookscript": st.just("local:snippets/gpu.yaml"),
    "hotplug": st.sampled_from(["0", "network,disk", "network,memory", "cpu;usb", "printer"]),
    "hugepages": st.sampled_from(["any", "3"]),
    "ivshmem": st.just("size=32"),
    "keephugepages": FLAG,
    "migrate_downtime": st.just(0.5),
    "net1": parts(model=("virtio", "e1000"), bridge=("vmbr0", "vmbr7"), tag=(1, 4094, 4095, 0), mtu=(1500, 0, 65521), firewall=(0, 1, "maybe"))
    | st.sampled_from(["virtio", "virtio=BC:24:11:00:00:01,bridge=vmbr0", "virtio=BD:24:11:00:00:01", "virtio=BC:24:11", "bridge=vmbr0"]),
    "numa": FLAG,
    "numa0": NUMA,
    "numa1": NUMA,
    "numa8": st.just("cpus=0"),
    "onboot": FLAG,
    "ostype": st.sampled_from(["l26", "win11", "linux"]),
    "parallel0": st.sampled_from(["/dev/parport0", "lp0"]),
    "protection": FLAG,
    "scsi1": st.sampled_from(["local-lvm:8", "nfs:8", "local:8", "/dev/sdb"]),
    "scsihw": st.sampled_from(["virtio-scsi-pci", "virtio-scsi"]),
    "serial0": st.sampled_from(["socket", "/dev/ttyS0", "pty"]),
    "shares": st.sampled_from([0, 50000, 50001]),
    "sockets": st.sampled_from([1, 2, 0, 10]),
    "spice_enhancements": st.just("foldersharing=1"),
    "startup": st.sampled_from(["order=3", "order=3,up=30", "up=30", "3", "first"]),
    "usb0": st.sampled_from(["spice", "host=1234:abcd", "mapping=stick"]),
    "vcpus": st.sampled_from([1, 0]),
    "virtiofs0": st.just("models"),
    "vmgenid": st.just("1"),
    "vmstatestorage": st.sampled_from(["local-lvm", "0"]),
}  # fmt: skip


def some(keys):
    """Up to four of these keys."""
    names = st.lists(st.sampled_from(sorted(keys)), max_size=4, unique=True)
    return names.flatmap(lambda chosen: st.fixed_dictionaries({name: keys[name] for name in chosen}))


class DirectPve(Pve):
    """A client that asks the simulator without a network."""

    def __init__(self, sim) -> None:
        super().__init__(
            Settings(host="sim", user="auto@pve", token_id="knaster", token_secret=SECRET), sleep=lambda _seconds: None
        )
        self.sim = sim

    def _request(self, method, path, values):
        try:
            answer = self.sim.dispatch(
                method,
                path,
                {key: str(value) if not isinstance(value, list) else value for key, value in values.items()},
                pve_sim.Call(TOKEN),
            )
            self.sim.sweep(now=float("inf"))
        except pve_sim.Fail as exc:
            raise PveError(exc.message, status=exc.status, method=method, path=path, errors=exc.errors) from None
        return answer


def new_sim():
    fleet = Fleet(nodes=1, cards=1, roles=[ROLE])
    sim = pve_sim.PveSim(fleet.seed())
    sim.state["storages"]["local"]["content"] = ["import", "iso", "snippets"]
    sim.state["storages"]["local"]["volumes"]["snippets/gpu.yaml"] = 0.001
    return fleet, sim


PLAN = Fleet(nodes=1, cards=1, roles=[ROLE]).plan()


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(some(CONFIG), some(CLOUD_INIT), st.sampled_from([None, 8, 64, 65]))
def test_what_is_told_before_is_what_is_refused(config, cloud_init, cores) -> None:
    fleet, sim = new_sim()
    said = {"image": IMAGE, "config": config, "cloud_init": cloud_init, **({"cores": cores} if cores else {})}
    api = DirectPve(sim)
    try:
        chosen = read_settings({"defaults": said, "nodes": {"pve-0": {"cluster": "sim"}}, "fleet": "lab"})
    except InputError:
        return  # what the schema says is no question of Proxmox VE
    cluster = look(api, fleet)
    found = prepare(
        PLAN,
        [ROLE],
        nodes=fleet.profiles,
        previous=Last(is_there=True),
        clusters={"sim": cluster},
        run=Run(settings=chosen),
    )
    if found.errors:
        # Let Proxmox VE say it itself: with what was found taken away there would be nothing left to refuse.
        assert refuses(said, chosen), [one.line() for one in found.errors]
        return
    for step in found.steps:
        run_step(api, step, Run().allowed)
    assert [one["status"] for one in sim.state["guests"].values()] == ["running"]
    again = look(api, fleet)
    more = prepare(
        PLAN,
        [ROLE],
        nodes=fleet.profiles,
        previous=Last(vms=found.definitions.vms, is_there=True),
        clusters={"sim": again},
        run=Run(settings=chosen),
    )
    assert not more.errors
    for step in more.steps:
        assert not run_step(api, step, Run().allowed)["changed"]


def refuses(said, chosen) -> bool:
    """Whether the simulator refuses to make or to start a VM with these settings, with no check of ours before."""
    fleet, sim = new_sim()
    api = DirectPve(sim)
    plain = read_settings(
        {
            "defaults": {"image": IMAGE, **({"cores": said["cores"]} if "cores" in said else {})},
            "nodes": dict(chosen.nodes),
            "fleet": "lab",
        }
    )
    cluster = look(api, fleet)
    found = prepare(
        PLAN,
        [ROLE],
        nodes=fleet.profiles,
        previous=Last(is_there=True),
        clusters={"sim": cluster},
        run=Run(settings=plain),
    )
    one = found.definitions.vms[0]
    config = {**one["config"], **said["config"]}
    if {"sockets", "vcpus", "hotplug", "numa", "numa0", "numa1", "numa8"} & set(said["config"]):
        for key in {"numa", "numa0"} - set(said["config"]):
            config.pop(key, None)
    given_keys = {key: text for key, text in said["cloud_init"].items() if str(text).strip()}
    if given_keys:
        config |= {"ide2": "local-lvm:cloudinit", "ipconfig0": "ip=dhcp", **given_keys}
    if "sshkeys" in given_keys:
        config["sshkeys"] = pve_sim.urllib.parse.quote(given_keys["sshkeys"].strip() + "\n", safe="")
    config["scsi0"] = config["scsi0"].replace(":64", ":0") + f",import-from={IMAGE}"
    words = {True: "1", False: "0"}
    values = {key: words.get(value, value) if isinstance(value, bool) else value for key, value in config.items()}
    flags = {
        key
        for key, sub in pve_sim.schema().paths["/nodes/{node}/qemu"]["POST"]["parameters"]["properties"].items()
        if sub.get("type") == "boolean"
    }
    values = {
        key: {"on": "1", "off": "0"}.get(str(value), value) if key in flags else value for key, value in values.items()
    }
    sim.state["mapping"]["pci"]["kn-pve-0-41-00"] = {
        "map": ["id=10de:26b1,iommugroup=30,node=pve-0,path=0000:41:00,subsystem-id=10de:16a1"]
    }
    try:
        api.post("/nodes/pve-0/qemu", vmid=one["vmid"], **values)
        upid = api.post(f"/nodes/pve-0/qemu/{one['vmid']}/status/start")
    except PveError:
        return True
    return sim.state["tasks"][upid]["exit"] != "OK"
