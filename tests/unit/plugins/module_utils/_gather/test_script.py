# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._gather.answers import (
    GatherError,
    Output,
    read_answer,
)
from ansible_collections.knaster.inventory.plugins.module_utils._gather.profile import profile_from_outputs
from ansible_collections.knaster.inventory.plugins.module_utils._gather.script import build_script

FIVE_COLUMNS = "nvidia-smi --query-gpu=index,name,memory.total,compute_cap,driver_version --format=csv,noheader,nounits"
SHELLS = [
    pytest.param(shell, marks=pytest.mark.skipif(not shutil.which(shell[0]), reason=f"no {shell[0]} here"), id=name)
    for name, shell in {"dash": ["dash"], "bash": ["bash"], "busybox": ["busybox", "sh"]}.items()
]


def gather(shell: list[str], path: Path, *, timeout: int = 20, token: str = "t0") -> str:
    """What the script prints where the commands of the folder come first in PATH."""
    run = subprocess.run(
        shell,
        input=build_script(token=token, timeout=timeout).encode(),
        env={"PATH": f"{path}:{os.environ['PATH']}", "LANG": "de_DE.UTF-8"},
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert run.stderr == b""
    return run.stdout.decode(errors="surrogateescape")


@pytest.fixture
def fake(tmp_path: Path):
    def add(name: str, body: str) -> Path:
        command = tmp_path / name
        command.write_text(f"#!/bin/sh\n{body}\n")
        command.chmod(0o755)
        return tmp_path

    return add


def processes_of(folder: Path) -> list[str]:
    """Command lines of living processes that were started from a folder."""
    found = []
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            line = (proc / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state = (proc / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if str(folder) in line and state != "Z":
            found.append(line)
    return found


@pytest.mark.parametrize("shell", SHELLS)
def test_output_error_and_code_are_kept_apart(shell, fake):
    path = fake(
        "nvidia-smi", 'case "$*" in *uuid*) exit 6;; esac; echo "0, NVIDIA L4"; echo trouble >&2; printf "no newline"'
    )
    outputs = read_answer(gather(shell, path), token="t0")
    assert outputs["nvidia_smi"] == Output("ok", 0, "0, NVIDIA L4\nno newline", "trouble", FIVE_COLUMNS)
    assert outputs["nvidia_smi_identity"][:4] == ("failed", 6, "", "")
    assert outputs["hostname"].stdout == Path("/proc/sys/kernel/hostname").read_text().strip()
    assert "MemTotal:" in outputs["meminfo"].stdout
    assert "processor" in outputs["cpuinfo"].stdout or "Processor" in outputs["cpuinfo"].stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_commands_run_in_the_c_locale(shell, fake):
    path = fake("nvidia-smi", 'echo "$LC_ALL ${LANGUAGE-none}"')
    assert read_answer(gather(shell, path))["nvidia_smi"].stdout == "C none"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("given", ["/usr/bin:/bin", "/nowhere"])
def test_commands_are_found_where_the_path_of_a_user_does_not_lead(shell, given, fake):
    path = fake("nvidia-smi", 'echo "$PATH"')
    run = subprocess.run(
        [shutil.which(shell[0]), *shell[1:]],
        input=build_script(token="t0").encode(),
        env={"PATH": f"{path}:{given}"},
        capture_output=True,
        timeout=60,
        check=True,
    )
    outputs = read_answer(run.stdout.decode())
    assert outputs["nvidia_smi"].stdout.startswith(f"{path}:{given}:")
    assert {"/usr/local/sbin", "/usr/sbin", "/sbin"} < set(outputs["nvidia_smi"].stdout.split(":"))
    assert outputs["meminfo"].status == "ok"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_refused_field_is_asked_again_without_it(shell, fake):
    body = """case "$*" in
    *compute_cap*) echo 'Field "compute_cap" is not a valid field to query.'; exit 2;;
    *name*) echo '0, Tesla T4, 15109, 470.57';;
    *mig*) echo 'Field "memory.reserved" is not a valid field to query.'; exit 2;;
    *) echo '0, GPU-1, 00000000:01:00.0';;
    esac"""
    outputs = read_answer(gather(shell, fake("nvidia-smi", body)))
    assert outputs["nvidia_smi"].status == "failed"
    assert outputs["nvidia_smi_short"].stdout == "0, Tesla T4, 15109, 470.57"
    assert outputs["nvidia_smi_identity"].rc == 2
    assert outputs["nvidia_smi_identity_short"].stdout == "0, GPU-1, 00000000:01:00.0"


IDENTITY = """case "$*" in
    *mig*) echo "0, GPU-1, 00000000:01:00.0, Disabled, 500"; printf "1, GPU-2, 00000000:02:00.0, {mode}, 500";;
    -L) echo "GPU 0: NVIDIA A30 (UUID: GPU-1)";;
    *) echo "0, NVIDIA A30, 24576, 8.0, 570.86.15";;
    esac"""


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("mode", "listed"), [("Enabled", True), ("Disabled", False), ("[N/A]", False)])
def test_slices_are_asked_for_where_a_card_is_divided(shell, fake, mode, listed):
    outputs = read_answer(gather(shell, fake("nvidia-smi", IDENTITY.replace("{mode}", mode))))
    assert outputs["nvidia_smi_identity"][:2] == ("ok", 0)
    assert outputs["nvidia_smi_identity"].stdout.splitlines() == [
        "0, GPU-1, 00000000:01:00.0, Disabled, 500",
        f"1, GPU-2, 00000000:02:00.0, {mode}, 500",
    ]
    assert ("nvidia_smi_list" in outputs) is listed
    if listed:
        assert outputs["nvidia_smi_list"][:3] == ("ok", 0, "GPU 0: NVIDIA A30 (UUID: GPU-1)")


@pytest.mark.parametrize("shell", SHELLS)
def test_an_identity_that_hangs_is_killed_and_not_asked_again(shell, fake):
    body = 'case "$*" in *uuid*) trap "" TERM; while :; do sleep 1; done;; esac; echo "0, NVIDIA L4"'
    path = fake("nvidia-smi", body)
    outputs = read_answer(gather(shell, path, timeout=1))
    assert (outputs["nvidia_smi"].status, outputs["nvidia_smi_identity"].status) == ("ok", "timeout")
    assert "nvidia_smi_identity_short" not in outputs
    assert processes_of(path) == []


@pytest.mark.parametrize("shell", SHELLS)
def test_tools_of_other_vendors(shell, fake):
    for name in ("amd-smi", "rocm-smi", "xpu-smi"):
        path = fake(name, f'echo "{name} $*"')
    outputs = read_answer(gather(shell, path))
    assert outputs["amd_smi"].stdout == "amd-smi static --json"
    assert outputs["xpu_smi"].stdout == "xpu-smi discovery -j"
    assert "rocm_smi" not in outputs
    outputs = read_answer(gather(shell, fake("amd-smi", "exit 3")))
    assert outputs["amd_smi"][:2] == ("failed", 3)
    assert outputs["rocm_smi"].stdout.endswith(" --json")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_command_that_hangs_is_killed_with_all_it_started(shell, fake):
    fake("child", "trap '' TERM\nwhile :; do sleep 1; done")
    path = fake("nvidia-smi", 'trap "" TERM INT HUP\necho first\n"${0%/*}/child" &\nwhile :; do sleep 1; done')
    outputs = read_answer(gather(shell, path, timeout=1))
    assert outputs["nvidia_smi"].status == "timeout"
    assert "nvidia_smi_identity" not in outputs
    assert processes_of(path) == []


@pytest.mark.parametrize("shell", SHELLS)
def test_a_child_that_left_the_session_holds_nothing_up(shell, fake, tmp_path):
    path = fake("nvidia-smi", f"setsid sleep 600 &\necho $! > {tmp_path}/pid\necho here")
    outputs = read_answer(gather(shell, path, timeout=1))
    assert outputs["nvidia_smi"].status == "timeout"
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


@pytest.mark.parametrize("shell", SHELLS)
def test_no_watchdog_outlives_the_run(shell, fake):
    path = fake("nvidia-smi", "echo fine")
    gather(shell, path, timeout=7654)
    left = [p for p in Path("/proc").glob("[0-9]*/cmdline") if p.exists() and b"sleep\x007654" in _read(p)]
    assert left == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("shell", SHELLS)
def test_without_setsid_the_tree_is_killed(shell, fake, tmp_path):
    child = fake("child", "trap '' TERM\nwhile :; do sleep 1; done") / "child"
    path = fake("nvidia-smi", f'trap "" TERM\n"{child}" &\nwhile :; do sleep 1; done')
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "sed", "head", "sleep", "readlink", "cat"):
        (tools / name).symlink_to(shutil.which(name))
    (tools / "nvidia-smi").symlink_to(path / "nvidia-smi")
    script = build_script(token="t0", timeout=1).replace(
        ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", ""
    )
    run = subprocess.run(
        [shutil.which(shell[0]), *shell[1:]],
        input=script.encode(),
        env={"PATH": str(tools)},
        capture_output=True,
        timeout=60,
        check=True,
    )
    outputs = read_answer(run.stdout.decode())
    if shell[0] == "busybox":  # its shell knows its own applets without a PATH, setsid among them
        assert outputs["nvidia_smi"].status in ("timeout", "stuck")
    else:
        assert outputs["nvidia_smi"].status == "timeout"
    assert outputs["lscpu"] == Output("absent", 127, command="lscpu")
    assert processes_of(tmp_path) == []


# The small shell has a df of its own.
@pytest.mark.parametrize("shell", SHELLS[:2])
def test_without_setsid_the_tree_below_a_directory_of_models_is_killed(shell, fake, tmp_path):
    child = fake("child", "trap '' TERM\nwhile :; do sleep 1; done") / "child"
    fake("df", f'"{child}" &\nwhile :; do sleep 1; done')
    script = build_script(timeout=1, weight_dirs=["/*"]).replace("own=setsid", "own=")
    run = subprocess.run(
        shell,
        input=script.encode(),
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        timeout=60,
        check=True,
    )
    outputs = read_answer(run.stdout.decode())
    assert outputs["storage_0"][:1] == ("timeout",)
    assert outputs["storage_0"].command == "/*"
    assert "weights_0" not in outputs
    assert processes_of(tmp_path) == []


@pytest.mark.parametrize("shell", SHELLS)
def test_without_setsid_nothing_is_started_again_while_the_tree_is_killed(shell, fake, tmp_path):
    child = fake("child", "trap '' TERM\nwhile :; do sleep 1; done") / "child"
    # Each of these starts the child again as soon as it is killed.
    fake("nvidia-smi", 'trap "" TERM\n' + f'(while :; do "{child}"; done) &\n' * 8 + f'while :; do "{child}"; done')
    script = build_script(timeout=1).replace("own=setsid", "own=")
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    run = subprocess.run(shell, input=script.encode(), env=env, capture_output=True, timeout=60, check=True)
    assert read_answer(run.stdout.decode())["nvidia_smi"].status == "timeout"
    assert processes_of(tmp_path) == []


MIB = 1048576


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("size", [MIB, MIB + 1])
def test_a_long_output_is_kept_up_to_its_bound(shell, fake, size):
    path = fake("nvidia-smi", f"head -c {size} /dev/zero | tr '\\0' x")
    assert read_answer(gather(shell, path))["nvidia_smi"].stdout == "x" * MIB


def make_device(folder: Path, address: str, group: Path, **values: str) -> None:
    (folder / address).mkdir(parents=True)
    for name, value in values.items():
        (folder / address / name).write_text(value + "\n")
    (group / "devices").mkdir(parents=True, exist_ok=True)
    (group / "devices" / address).symlink_to(folder / address)
    (folder / address / "iommu_group").symlink_to(group)


TEST_CLASSES = [
    ("0x030000", True),
    ("0x038000", True),
    ("0x120000", True),
    ("0x12ffff", True),
    ("0x020000", False),
    ("0x040300", False),
    ("0x110000", False),
    ("0x130000", False),
]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("code", "scanned"), TEST_CLASSES)
def test_displays_and_accelerators_are_scanned_with_their_groups(shell, tmp_path, code, scanned):
    group = tmp_path / "groups" / "7"
    make_device(tmp_path / "devices", "0000:41:00.0", group, **{"class": code, "vendor": "0x1002", "device": "0x74a1"})
    make_device(tmp_path / "devices", "0000:41:00.1", group, **{"class": "0x010802", "vendor": "0x144d"})
    script = build_script(timeout=5).replace("/sys/bus/pci/devices", str(tmp_path / "devices"))
    run = subprocess.run(shell, input=script.encode(), capture_output=True, timeout=60, check=True)
    assert read_answer(run.stdout.decode())["pci"].stdout.splitlines() == (
        [
            f"address=0000:41:00.0 class={code} vendor=0x1002 device=0x74a1 iommu_group=7",
            "address=0000:41:00.1 class=0x010802 vendor=0x144d iommu_group=7",
        ]
        if scanned
        else []
    )


@pytest.mark.parametrize("shell", SHELLS)
def test_processes_are_asked_for_where_there_are_cards(shell, fake):
    asked = "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name --format=csv,noheader,nounits"
    body = IDENTITY.replace("{mode}", "Disabled").replace('case "$*" in', 'case "$*" in\n*apps*) echo "$0 $*";;')
    outputs = read_answer(gather(shell, fake("nvidia-smi", body)))
    assert outputs["nvidia_smi_processes"].command == asked
    assert outputs["nvidia_smi_processes"].stdout.endswith(asked)
    outputs = read_answer(gather(shell, fake("nvidia-smi", 'echo "No devices were found"; exit 6')))
    assert "nvidia_smi_processes" not in outputs


def run_with_pve(shell: list[str], base: Path, **options) -> dict[str, Output]:
    """Run the script where /etc is another directory."""
    script = build_script(timeout=2).replace("/etc/[p]ve", f"{base}/[p]ve")
    run = subprocess.run(shell, input=script.encode(), capture_output=True, timeout=60, check=True, **options)
    return read_answer(run.stdout.decode())


@pytest.mark.parametrize("shell", SHELLS)
def test_the_guests_of_a_host_of_virtual_machines_are_listed(shell, tmp_path):
    assert "pve_guests" not in run_with_pve(shell, tmp_path)
    (tmp_path / "pve" / "qemu-server").mkdir(parents=True)
    (tmp_path / "pve" / "qemu-server" / "100.conf").write_text("name: win\nhostpci0: 01:00\ncipassword: x\n")
    told = run_with_pve(shell, tmp_path)["pve_guests"]
    assert told[:2] == ("ok", 0)
    assert told.command == f"{tmp_path}/pve"
    assert told.stdout.splitlines()[:3] == ["vm 100", "vm 100 name: win", "vm 100 hostpci0: 01:00"]
    assert told.stdout.splitlines()[-1] == "end"
    assert "cipassword" not in told.stdout


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv to be somebody else"
)
@pytest.mark.parametrize("shell", SHELLS)
def test_without_root_only_the_machines_of_the_cluster_can_not_be_read(shell, tmp_path):
    for parent in (tmp_path, *tmp_path.parents):
        if str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    (tmp_path / "pve" / "qemu-server").mkdir(parents=True)
    conf = tmp_path / "pve" / "qemu-server" / "100.conf"
    conf.write_text("name: win\nhostpci0: 01:00\n")
    conf.chmod(0o640)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *shell]
    outputs = run_with_pve(nobody, tmp_path)
    assert outputs["pve_guests"].stdout.splitlines() == ["unreadable qemu-server/100.conf", "end"]
    as_root = run_with_pve(shell, tmp_path)
    # What else is asked is answered to everybody.
    same = ("hostname", "mounts", "lscpu", "lsblk", "pci")
    assert [outputs[name].status for name in same] == [as_root[name].status for name in same]
    assert outputs["pci"].stdout == as_root["pci"].stdout
    profile = profile_from_outputs({**outputs, "pci": Output("ok", 0, CARD)})
    assert "holder" not in profile["gpus"][0]
    assert "gpu holders: not all known (1 file of /etc/pve can be read by root only)" in profile["notes"]


CARD = "address=0000:01:00.0 class=0x030200 vendor=0x10de device=0x27b8 driver=vfio-pci"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_cluster_file_system_that_hangs_is_left(shell, tmp_path):
    (tmp_path / "pve" / "qemu-server").mkdir(parents=True)
    os.mkfifo(tmp_path / "pve" / "qemu-server" / "100.conf")
    outputs = run_with_pve(shell, tmp_path)
    assert outputs["pve_guests"].status == "timeout"
    assert processes_of(tmp_path) == []


@pytest.mark.parametrize("shell", SHELLS)
def test_directories_of_models_are_listed(shell, tmp_path):
    model = tmp_path / "my models" / "org" / "it's $(one)"
    model.mkdir(parents=True)
    (model / "model.safetensors").write_bytes(b"12345")
    script = build_script(timeout=10, weight_dirs=[str(tmp_path / "my models"), "/nowhere"])
    run = subprocess.run(shell, input=script.encode(), capture_output=True, timeout=60, check=True)
    outputs = read_answer(run.stdout.decode())
    assert outputs["storage_0"].command == outputs["weights_0"].command == str(tmp_path / "my models")
    assert outputs["storage_0"].stdout.startswith("Filesystem")
    assert "./org/it's $(one)/model.safetensors" in outputs["weights_0"].stdout
    assert outputs["weights_0"].stdout.splitlines()[-1] == "end"
    assert (outputs["storage_1"].status, outputs["weights_1"].status) == ("failed", "failed")


@pytest.mark.parametrize("directory", ["models", "/a\n/b", ""])
def test_a_directory_of_models_is_one_absolute_path(directory):
    with pytest.raises(ValueError, match="is not an absolute path on one line"):
        build_script(weight_dirs=[directory])


@pytest.mark.parametrize("shell", SHELLS)
def test_text_that_imitates_frames_stays_text(shell, fake):
    forged = "@t0 close nvidia_smi ok 0\n@t0 open meminfo\no MemTotal: 1 kB\n@t0 finish"
    path = fake("nvidia-smi", f"cat <<'EOF'\n{forged}\nEOF")
    outputs = read_answer(gather(shell, path), token="t0")
    assert outputs["nvidia_smi"].stdout == forged
    assert outputs["meminfo"].stdout.startswith("MemTotal:")
    assert "MemTotal: 1 kB" not in outputs["meminfo"].stdout


ANSWER = "@t0 begin knaster-gather 1\n\n@t0 open hostname\no n1\n\n@t0 close hostname ok 0\n\n@t0 finish\n"
HOSTNAME = {"hostname": Output("ok", 0, "n1", "")}

TEST_READ = [
    pytest.param(ANSWER, None, HOSTNAME, id="plain"),
    pytest.param("Welcome!\n@other begin knaster-gather 1\n" + ANSWER + "bye\n", "t0", HOSTNAME, id="banner"),
    pytest.param("Last login\r\n" + ANSWER.replace("\n", "\r\n"), None, HOSTNAME, id="terminal"),
    pytest.param(
        ANSWER.replace("n1", "n1\r"), None, {"hostname": Output("ok", 0, "n1\r", "")}, id="own carriage return"
    ),
]


@pytest.mark.parametrize(("text", "token", "expected"), TEST_READ)
def test_read_answer(text, token, expected):
    assert read_answer(text, token=token) == expected


TEST_READ_ERRORS = [
    ("", None, "it has no opening frame"),
    (ANSWER, "t1", "it has no opening frame"),
    (ANSWER.replace("gather 1", "gather 2"), None, "it has version 2, this collection reads version 1"),
    (ANSWER[:50], None, "it was cut short inside hostname"),
    (ANSWER.replace("@t0 finish\n", ""), None, "it was cut short"),
    (ANSWER.replace("close hostname", "close meminfo"), None, "frame '@t0 close meminfo ok 0' does not belong here"),
    (
        ANSWER.replace("hostname ok 0", "hostname done 0"),
        None,
        "frame '@t0 close hostname done 0' does not belong here",
    ),
]


@pytest.mark.parametrize(("text", "token", "reason"), TEST_READ_ERRORS)
def test_read_answer_refuses(text, token, reason):
    with pytest.raises(GatherError) as caught:
        read_answer(text, token=token)
    assert caught.value.reason == reason
    assert str(caught.value) == f"the node's answer cannot be used: {reason}"
