# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Nodes on one machine, reached over real SSH, each with hardware of its own.

A node is a set of Linux namespaces (network, mounts, processes, host name) without a container engine. Its root is an
overlay over the root of this machine; what it shows under ``/proc`` and ``/sys`` are files bound over the real ones, and
the tools that it has are small scripts. Everything of a node dies with its first process, and nothing is left behind.

It needs root, ``sshd``, ``ip`` and ``unshare``. A spec is a YAML file::

    bed: fleet                 # short; part of the names of network namespaces and interfaces
    nodes:
      - name: gpu1
        number: 11             # the last number of its address, from 2 on; this machine becomes .1
        absent: true           # an address that nobody has; nothing else is needed then
        python: python3.9      # ansible_python_interpreter
        hostvars: {}           # more variables of the inventory
        commands:              # name: one answer, or a list of answers of which the first whose args (a glob) match counts
          nvidia-smi: {args: "*", stdout: "", stdout_file: x.txt, stderr: "", rc: 0, sleep: 600, ignore_term: true}
        files: {/proc/meminfo: {text: "..."}, /etc/motd: {file: fixtures/motd.txt}}
        links: {/usr/bin/sh: /usr/bin/busybox}
        hide: [lscpu, "python*", /root/.pyenv]   # commands by name, or absolute paths
        block: {nvme0n1: {size: 3840755982336, rotational: 0}}   # /sys/block, sizes in bytes
        pci: {"0000:41:00.0": {vendor: "0x10de", device: "0x2330", class: "0x030200", driver: nvidia, iommu_group: 14}}
        weights: [{dir: /models, tmpfs: 64m, files: {org/name/model.safetensors: 16, org/name/config.json: "{}"}}]
        shared: [{from: "root@nas1:/srv/weights", at: /shared}]   # by sshfs, which is needed then
        banner: "text"         # what its sshd says before it asks who is there
        sshd: true

The network is the first of ``NETWORKS`` that this machine does not use, or the one that KNASTER_BED_NETWORK names by its
first three numbers, such as 10.77.0. The inventory has the addresses; the nodes know each other by name.
"""

from __future__ import annotations

import argparse
import ctypes
import fnmatch
import ipaddress
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
import typing as t
from pathlib import Path

import yaml

Node = dict[str, t.Any]
Spec = dict[str, t.Any]
Used = tuple[ipaddress.IPv4Network, str]

BIN_DIRS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin")
NEEDED = ("sshd", "ip", "unshare", "nsenter", "ssh-keygen", "mount")
# Exit code for "this machine cannot do it", which a caller may take for a skip; with KNASTER_CI=1 it is not given.
EXIT_UNSUPPORTED = 77
LEFT_OUT = Path(__file__).resolve().parents[2] / "tools" / "left_out.sh"
# First three numbers, of each private range and of the one for benchmarks (RFC 1918, RFC 2544).
NETWORKS = ("10.77.0", "10.78.0", "10.79.0", "172.29.77", "172.30.77", "192.168.177", "198.18.77")
# A route to more than this is a way to everywhere, as of a VPN, and not a network that somebody is in.
WIDEST_PREFIX = 8
SECONDS_TO_START = 30

# System calls that Python has no name for, with their numbers on all architectures that matter.
SYS_OPEN_TREE, SYS_MOVE_MOUNT = 428, 429
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
AT_FDCWD = -100
OPEN_TREE_CLONE, O_CLOEXEC, MOVE_MOUNT_F_EMPTY_PATH = 1, 0o2000000, 4

# The key exchange is the cheapest of the modern ones: all servers and their client share the cores of one machine here.
SSHD_CONFIG = """\
    Port 22
    HostKey /etc/ssh/bed_host_key
    AuthorizedKeysFile /etc/ssh/bed_keys
    StrictModes no
    UsePAM no
    UseDNS no
    PasswordAuthentication no
    PermitRootLogin prohibit-password
    PidFile /run/sshd.pid
    MaxStartups 50
    KexAlgorithms curve25519-sha256
    Subsystem sftp internal-sftp
"""

FAKE_COMMAND = """\
#!/bin/sh
# Stands in for a tool: the first rule whose pattern matches the arguments answers.
printf '%s\\n' "{name} $*" >> /run/bed/calls.log
case "$*" in
{rules}
*) echo "{name}: the test bed has no answer for: $*" >&2; exit 64 ;;
esac
"""


class BedError(Exception):
    """What the bed could not do, as a sentence."""


def run(*command: object, check: bool = True, **options: t.Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], check=check, text=True, **options)


def succeeds(*command: object) -> bool:
    return run(*command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def why_unsupported(spec: Spec | None = None) -> str | None:
    """Say why this machine cannot have a bed, or give None where it can."""
    needed = list(NEEDED)
    if spec is not None and any(node.get("shared") for node in spec["nodes"]):
        needed.append("sshfs")
    if os.geteuid() != 0:
        return "it needs root"
    search = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [name for name in needed if not shutil.which(name, path=search)]
    if missing:
        return "not installed: " + ", ".join(missing)
    if os.uname().machine not in SYS_PIVOT_ROOT:
        return "unknown architecture"
    if not succeeds("unshare", "--mount", "--uts", "--ipc", "--pid", "--net", "--fork", "true"):
        return "it may not make namespaces here"
    return None


# -- inside a node ------------------------------------------------------------------------------------------------------


def call_kernel(number: int, *arguments: t.Any) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    result = int(libc.syscall(number, *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def bind(source: Path, target: str) -> None:
    """Bind a file over another; unlike mount(8) this does not follow a link, so that it works on /proc/mounts."""
    tree = call_kernel(SYS_OPEN_TREE, AT_FDCWD, os.fsencode(source), OPEN_TREE_CLONE | O_CLOEXEC)
    try:
        call_kernel(SYS_MOVE_MOUNT, tree, b"", AT_FDCWD, os.fsencode(target), MOVE_MOUNT_F_EMPTY_PATH)
    finally:
        os.close(tree)


def content(entry: t.Mapping[str, str], base: Path) -> str:
    return entry["text"] if "text" in entry else (base / entry["file"]).read_text(encoding="utf-8")


def escape_pattern(glob: str) -> str:
    """Quote a glob for a shell's ``case``, all but its wildcards."""
    return "".join(char if char in "*?" or char.isalnum() else "\\" + char for char in glob)


def fake_command(name: str, answers: list[dict[str, t.Any]], base: Path) -> str:
    """Write the script that answers in place of a tool."""
    rules = []
    for answer in answers:
        lines = []
        if answer.get("ignore_term"):
            lines.append("trap '' TERM INT HUP")
        if answer.get("sleep"):
            lines.append(f"sleep {answer['sleep']}")
        for stream, redirect in (("stdout", ""), ("stderr", " >&2")):
            file = answer.get(stream + "_file")
            text = (base / file).read_text(encoding="utf-8") if file else answer.get(stream, "")
            if text:
                lines.append(f"cat <<'BED_EOF'{redirect}\n{text.removesuffix(chr(10))}\nBED_EOF")
        lines.append(f"exit {answer.get('rc', 0)} ;;")
        rules.append(escape_pattern(answer.get("args", "*")) + ")\n" + "\n".join(lines))
    return FAKE_COMMAND.format(name=name, rules="\n".join(rules))


def write(path: Path, text: str, *, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def fill_upper(node: Node, upper: Path, base: Path, bed: Spec) -> None:
    """Write the layer that makes this node differ from the machine it runs on."""
    write(upper / "etc/hostname", node["name"] + "\n")
    names = [f"{address(bed, other)} {other['name']}" for other in bed["nodes"]]
    write(upper / "etc/hosts", "\n".join(["127.0.0.1 localhost", *names]) + "\n")
    keys = Path(bed["dir"])
    write(upper / "etc/ssh/bed_keys", (keys / "id.pub").read_text(encoding="utf-8"))
    write(upper / "etc/ssh/bed_host_key", (keys / "host_key").read_text(encoding="utf-8"), mode=0o600)
    config = textwrap.dedent(SSHD_CONFIG)
    if node.get("banner"):
        write(upper / "etc/ssh/bed_banner", node["banner"])
        config += "Banner /etc/ssh/bed_banner\n"
    write(upper / "etc/ssh/bed_config", config)
    if node.get("shared"):
        write(upper / "etc/ssh/bed_id", (keys / "id").read_text(encoding="utf-8"), mode=0o600)
    for name, answers in (node.get("commands") or {}).items():
        text = fake_command(name, answers if isinstance(answers, list) else [answers], base)
        write(upper / "usr/bin" / name, text, mode=0o755)
    for path, target in (node.get("links") or {}).items():
        link = upper / path.lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    for path, entry in (node.get("files") or {}).items():
        if not path.startswith(("/proc/", "/sys/", "/run/", "/tmp/")):
            write(upper / path.lstrip("/"), content(entry, base))


def hide(root: str, what: str) -> None:
    """Take away commands by name, or a file or directory by its path."""
    if what.startswith("/"):
        path = Path(root + what)
        if path.is_dir():
            # Whiteouts for a whole tree would take long.
            run("mount", "-t", "tmpfs", "-o", "mode=755,size=4k", "tmpfs", path)
        else:
            path.unlink(missing_ok=True)
        return
    for directory in BIN_DIRS:
        place = Path(root + directory)
        for name in fnmatch.filter(os.listdir(place), what) if place.is_dir() else ():
            (place / name).unlink()


def mount_kernel_files(node: Node, root: str, layers: Path, base: Path) -> None:
    run("mount", "-t", "proc", "proc", root + "/proc")
    run("mount", "-t", "sysfs", "sysfs", root + "/sys")
    run("mount", "--rbind", "/dev", root + "/dev")
    for path, mode in (("/run", "755"), ("/tmp", "1777")):
        run("mount", "-t", "tmpfs", "-o", f"mode={mode},size=64m", "tmpfs", root + path)
    for path in ("/run/sshd", "/run/bed", "/run/oldroot", "/var/tmp"):
        Path(root + path).mkdir(parents=True, exist_ok=True)
    for path, entry in (node.get("files") or {}).items():
        if path.startswith(("/run/", "/tmp/")):
            write(Path(root + path), content(entry, base))
        elif path.startswith(("/proc/", "/sys/")):
            source = layers / ("bound" + path.replace("/", "_"))
            write(source, content(entry, base))
            bind(source, root + path)
    if "pci" in node:
        mount_pci(node["pci"], root + "/sys/bus/pci/devices")
    if "block" in node:
        run("mount", "-t", "tmpfs", "-o", "mode=755,size=1m", "block", root + "/sys/block")
        for name, disk in node["block"].items():
            write(Path(root + "/sys/block", name, "size"), f"{disk['size'] // 512}\n")
            write(Path(root + "/sys/block", name, "queue/rotational"), f"{disk['rotational']}\n")


def mount_pci(devices: t.Mapping[str, t.Mapping[str, t.Any]], directory: str) -> None:
    """Put PCI devices of our own in place of the real ones; driver and group are links, as the kernel has them."""
    run("mount", "-t", "tmpfs", "-o", "mode=755,size=8m", "pci", directory)
    places = {"driver": "drivers", "iommu_group": "iommu_groups"}
    groups: dict[str, list[str]] = {}
    for address, attributes in devices.items():
        device = Path(directory, address)
        device.mkdir()
        for key, value in attributes.items():
            if key == "iommu_group":
                groups.setdefault(str(value), []).append(address)
            if key in places:
                target = Path(directory, ".bed", places[key], str(value))
                target.mkdir(parents=True, exist_ok=True)
                (device / key).symlink_to(f"../.bed/{places[key]}/{value}")
            else:
                (device / key).write_text(f"{value}\n", encoding="utf-8")
    for group, members in groups.items():
        listing = Path(directory, ".bed/iommu_groups", group, "devices")
        listing.mkdir()
        for address in members:
            (listing / address).symlink_to(f"../../../../{address}")


def write_weights(entry: t.Mapping[str, t.Any], root: str) -> None:
    """Write files of a size in GiB that take no room, or with a text."""
    directory = Path(root + entry["dir"])
    directory.mkdir(parents=True, exist_ok=True)
    if entry.get("tmpfs"):
        run("mount", "-t", "tmpfs", "-o", f"size={entry['tmpfs']}", "weights", directory)
    for name, size in (entry.get("files") or {}).items():
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as out:
            if isinstance(size, str):
                out.write(size.encode())
            else:
                out.truncate(int(float(size) * 2**30))


def enter_root(root: str) -> None:
    os.chdir(root)
    call_kernel(SYS_PIVOT_ROOT[os.uname().machine], b".", b"run/oldroot")
    os.chdir("/")
    run("umount", "-l", "/run/oldroot")


def mount_shared(node: Node) -> None:
    options = (
        "IdentityFile=/etc/ssh/bed_id,StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null,"
        "reconnect,ro,allow_other,ConnectTimeout=5"
    )
    for entry in node.get("shared") or []:
        Path(entry["at"]).mkdir(parents=True, exist_ok=True)
        end = time.monotonic() + SECONDS_TO_START / 2
        # The node that shares may still be starting.
        while not succeeds("sshfs", entry["from"], entry["at"], "-o", options):
            if time.monotonic() > end:
                raise BedError(f"{node['name']}: {entry['from']} cannot be mounted")
            time.sleep(0.1)


def be_node(node: Node, base: Path, bed: Spec) -> None:
    """Become the first process of a node, for as long as it lives."""
    # Read by the machine outside through /proc; inside it disappears with the old root.
    layers = Path("/run/bed-node")
    layers.mkdir(exist_ok=True)
    run("mount", "--make-rprivate", "/")
    run("mount", "-t", "tmpfs", "-o", "mode=755,size=256m", "bed", layers)
    upper, work, root = (layers / name for name in ("upper", "work", "root"))
    for directory in (upper, work, root):
        directory.mkdir()
    socket.sethostname(node["name"])
    fill_upper(node, upper, base, bed)
    run("mount", "-t", "overlay", "-o", f"lowerdir=/,upperdir={upper},workdir={work}", "overlay", root)
    for what in node.get("hide") or []:
        hide(str(root), what)
    mount_kernel_files(node, str(root), layers, base)
    for entry in node.get("weights") or []:
        write_weights(entry, str(root))
    enter_root(str(root))
    run("ip", "link", "set", "lo", "up")
    if node.get("sshd", True):
        start_sshd()
    mount_shared(node)
    Path("/run/bed/ready").touch()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    while True:
        # As every first process: nobody else reaps what is left by those that die.
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            time.sleep(0.2)


def start_sshd() -> None:
    run("/usr/sbin/sshd", "-f", "/etc/ssh/bed_config")


# -- on the machine -----------------------------------------------------------------------------------------------------


def load(path: Path, directory: Path) -> Spec:
    spec: Spec = yaml.safe_load(path.read_text(encoding="utf-8"))
    spec["dir"] = str(directory.absolute())
    spec["file"] = str(path.absolute())
    made = directory / "bed.json"
    # What up has chosen.
    spec["network"] = json.loads(made.read_text(encoding="utf-8"))["network"] if made.exists() else "no network"
    if len(spec["bed"]) > 8:
        raise BedError("the name of a bed has at most 8 characters")
    names = [node["name"] for node in spec["nodes"]]
    if len(set(names)) != len(names):
        raise BedError("a node's name is there twice")
    return spec


def namespace(spec: Spec, node: Node) -> str:
    return f"kn-{spec['bed']}-{node['name']}"


def bridge(spec: Spec) -> str:
    return f"kn-{spec['bed']}"


def interface(spec: Spec, place: int) -> str:
    return f"kn{place}-{spec['bed']}"


def address(spec: Spec, node: Node) -> str:
    return f"{spec['network']}.{node['number']}"


def used_networks() -> list[Used]:
    """List what this machine uses of IPv4, each network with the words for what uses it."""
    used = []
    for interface in json.loads(run("ip", "-json", "-4", "addr", capture_output=True).stdout):
        for entry in interface["addr_info"]:
            own = ipaddress.IPv4Interface(f"{entry['local']}/{entry['prefixlen']}")
            used.append((own.network, f"{interface['ifname']} has {own}"))
    # Last, for an address says more than the routes that come with it.
    for route in json.loads(run("ip", "-json", "-4", "route", "show", "table", "all", capture_output=True).stdout):
        target = ipaddress.IPv4Network("0.0.0.0/0" if route["dst"] == "default" else route["dst"])
        if target.prefixlen >= WIDEST_PREFIX:
            used.append((target, f"there is a route to {target} over {route.get('dev', 'another way')}"))
    return used


def find_clash(network: str, used: t.Iterable[Used]) -> str | None:
    """Return what uses a part of the /24 with these first three numbers, or None where nothing does."""
    wanted = ipaddress.IPv4Network(f"{network}.0/24")
    return next((words for other, words in used if wanted.overlaps(other)), None)


def choose_network(used: t.Sequence[Used], forced: str | None) -> str:
    """Return the first three numbers of the network to use; raise BedError where the forced one, or every one, is taken."""
    if forced is not None and not is_network(forced):
        raise BedError(f"KNASTER_BED_NETWORK must be three numbers such as {NETWORKS[0]}, and is {forced!r}")
    clashes = {network: find_clash(network, used) for network in ([forced] if forced else NETWORKS)}
    for network, clash in clashes.items():
        if clash is None:
            return network
    taken = "; ".join(f"the network {network}.0/24 is taken: {clash}" for network, clash in clashes.items())
    raise BedError(f"{taken}. KNASTER_BED_NETWORK may name another one by its first three numbers")


def is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(f"{text}.0/24")
    except ValueError:
        return False
    return True


def up(spec: Spec) -> None:
    directory = Path(spec["dir"])
    directory.mkdir(parents=True, exist_ok=True)
    spec["network"] = choose_network(used_networks(), os.environ.get("KNASTER_BED_NETWORK") or None)
    for name in ("id", "host_key"):
        if not (directory / name).exists():
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / name, "-C", "bed " + name)
    host_key = " ".join((directory / "host_key.pub").read_text(encoding="utf-8").split()[:2])
    known = "".join(f"{address(spec, node)} {host_key}\n" for node in spec["nodes"])
    write(directory / "known_hosts", known)
    write(directory / "bed.json", json.dumps(spec))
    run("ip", "link", "add", bridge(spec), "type", "bridge")
    run("ip", "addr", "add", spec["network"] + ".1/24", "dev", bridge(spec))
    run("ip", "link", "set", bridge(spec), "up")
    present = [(place, node) for place, node in enumerate(spec["nodes"]) if not node.get("absent")]
    for place, node in present:
        start(spec, place, node)
    end = time.monotonic() + SECONDS_TO_START
    for _place, node in present:
        while not is_ready(spec, node):
            if time.monotonic() > end:
                log = (directory / (node["name"] + ".log")).read_text(encoding="utf-8", errors="replace")
                raise BedError(f"{node['name']} did not come up: {log}")
            time.sleep(0.02)
    write(directory / "inventory.yml", inventory(spec))


def start(spec: Spec, place: int, node: Node) -> None:
    directory = Path(spec["dir"])
    name, outer = namespace(spec, node), interface(spec, place)
    run("ip", "netns", "add", name)
    run("ip", "link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", name)
    run("ip", "link", "set", outer, "master", bridge(spec), "up")
    run("ip", "-n", name, "addr", "add", address(spec, node) + "/24", "dev", "eth0")
    run("ip", "-n", name, "link", "set", "eth0", "up")
    command = ["nsenter", f"--net=/run/netns/{name}", "--"]
    command += ["unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child=KILL", "--"]
    command += [sys.executable, os.path.abspath(__file__), "be-node", node["name"], "--dir", spec["dir"]]
    with (directory / (node["name"] + ".log")).open("wb") as log:
        holder = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    write(directory / (node["name"] + ".pid"), str(holder.pid))


def first_process(spec: Spec, node: Node) -> int | None:
    """Give the process that is the first of a node, by its number here."""
    file = Path(spec["dir"], node["name"] + ".pid")
    try:
        holder = int(file.read_text(encoding="utf-8"))
        # Numbers come again: what has this one now must be the holder of this node.
        words = Path(f"/proc/{holder}/cmdline").read_bytes().split(b"\0")
        if node["name"].encode() not in words or spec["dir"].encode() not in words:
            return None
        return int(Path(f"/proc/{holder}/task/{holder}/children").read_text(encoding="utf-8").split()[0])
    except (OSError, ValueError, IndexError):
        return None


def is_ready(spec: Spec, node: Node) -> bool:
    first = first_process(spec, node)
    return first is not None and Path(f"/proc/{first}/root/run/bed/ready").exists()


def processes(spec: Spec, node: Node) -> list[str]:
    """List the commands that run on a node, but for its first process and its sshd."""
    first = first_process(spec, node)
    if first is None:
        raise BedError(f"{node['name']} is not up")
    home = os.readlink(f"/proc/{first}/ns/pid")
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if not entry.name.isdigit() or int(entry.name) == first or os.readlink(entry / "ns/pid") != home:
                continue
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue  # it has just ended
        # Sessions of sshd are held open by the side that connected.
        if command and not command.startswith("sshd:"):
            found.append(command)
    return sorted(found)


def down(spec: Spec) -> None:
    """End what is there of a bed, also of one that came up half."""
    for place, node in enumerate(spec["nodes"]):
        first = first_process(spec, node)
        if first is not None:
            os.kill(first, signal.SIGKILL)
        Path(spec["dir"], node["name"] + ".pid").unlink(missing_ok=True)
        succeeds("ip", "link", "del", interface(spec, place))
        succeeds("ip", "netns", "del", namespace(spec, node))
    succeeds("ip", "link", "del", bridge(spec))
    # What the next bed would find under the same addresses: connections that lead nowhere.
    shutil.rmtree(Path(spec["dir"], "ssh"), ignore_errors=True)
    Path(spec["dir"], "inventory.yml").unlink(missing_ok=True)


def inventory(spec: Spec) -> str:
    hosts = {}
    for node in spec["nodes"]:
        variables = {"ansible_host": address(spec, node)}
        if node.get("python"):
            variables["ansible_python_interpreter"] = node["python"]
        hosts[node["name"]] = {**variables, **(node.get("hostvars") or {})}
    directory = spec["dir"]
    # A name that does not answer must not hold a run for long, and neither must one that stops to answer.
    options = f"-o UserKnownHostsFile={directory}/known_hosts -o IdentitiesOnly=yes -o ConnectTimeout=4"
    options += " -o ServerAliveInterval=2 -o ServerAliveCountMax=2 -o ControlMaster=auto -o ControlPersist=20"
    common = {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": f"{directory}/id",
        "ansible_ssh_args": options,
        "ansible_control_path_dir": f"{directory}/ssh",
    }
    return yaml.safe_dump({"all": {"vars": common, "hosts": hosts}}, sort_keys=False)


def enter(spec: Spec, node: Node, script: str) -> int:
    first = first_process(spec, node)
    if first is None:
        raise BedError(f"{node['name']} is not up")
    return run("nsenter", "-t", first, "-a", "--root", "--wd", "sh", "-c", script, check=False).returncode


def find_node(spec: Spec, name: str | None) -> Node:
    for node in spec["nodes"]:
        if node["name"] == name:
            return t.cast("Node", node)
    raise BedError(f"there is no node {name}")


def act(verb: str, spec: Spec, name: str | None) -> int:
    """Do what the command line says, and give the exit code."""
    if verb == "up":
        down(spec)
        try:
            up(spec)
        except BaseException:
            down(spec)
            raise
        return 0
    if verb == "down":
        down(spec)
        return 0
    if verb == "status":
        for node in spec["nodes"]:
            state = "absent" if node.get("absent") else "ready" if is_ready(spec, node) else "down"
            print(node["name"], address(spec, node), state)
        return 0
    node = find_node(spec, name)
    if verb == "processes":
        print("\n".join(processes(spec, node)))
        return 0
    if verb in ("cut", "heal"):
        run("ip", "-n", namespace(spec, node), "link", "set", "eth0", "down" if verb == "cut" else "up")
        return 0
    scripts = {"ssh-stop": "kill $(cat /run/sshd.pid)", "ssh-start": "/usr/sbin/sshd -f /etc/ssh/bed_config"}
    return enter(spec, node, scripts.get(verb) or sys.stdin.read())


def leave_out(text: str) -> int:
    """Say that there is no bed; return the exit code of a skip, or that of an error where nothing may be left out."""
    return EXIT_UNSUPPORTED if run(LEFT_OUT, text, check=False).returncode == 0 else 1


VERBS = (
    "check",
    "network",
    "up",
    "down",
    "status",
    "processes",
    "exec",
    "cut",
    "heal",
    "ssh-stop",
    "ssh-start",
    "be-node",
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Nodes on one machine, reached over real SSH.")
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument(
        "node", nargs="?", help="for what is done with one node; exec reads a script from standard input"
    )
    parser.add_argument("--spec", type=Path, help="the YAML file that describes the nodes")
    parser.add_argument("--dir", type=Path, default=Path("/run/knaster-bed"), help="where keys and inventory are kept")
    given = parser.parse_args()
    if given.verb == "be-node":
        bed = json.loads((given.dir / "bed.json").read_text(encoding="utf-8"))
        be_node(find_node(bed, given.node), Path(bed["file"]).parent, bed)
        return 0
    spec = None if given.spec is None else load(given.spec, given.dir)
    reason = why_unsupported(spec)
    if reason:
        return leave_out(f"nodes over SSH ({given.spec.stem if given.spec else 'any'}): {reason}")
    if given.verb == "check":
        return 0
    try:
        if given.verb == "network":
            print(choose_network(used_networks(), os.environ.get("KNASTER_BED_NETWORK") or None))
            return 0
        if spec is None:
            parser.error("--spec is missing")
        return act(given.verb, spec, given.node)
    except BedError as error:
        print(f"test bed: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
