# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Write the saved answers of the example fleets: what the gather script would print on each of their nodes.

Run it after the form of the answers changed: ``.venv/bin/python tools/make_examples.py``. A test holds that the files
are what this prints.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"
CSV = "--format=csv,noheader,nounits"
FIELDS = "index,name,memory.total,compute_cap,driver_version"
IDENTITY_FIELDS = "index,uuid,pci.bus_id,mig.mode.current,memory.reserved"
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"


@dataclass(frozen=True)
class Card:
    """A product: name and MiB as nvidia-smi prints them, capability, PCI ids of GPU and board."""

    name: str
    mib: int
    cap: str
    device: str
    board: str
    pci_class: str = "0x030000"
    mig: str = "[N/A]"


RTX_3090 = Card("NVIDIA GeForce RTX 3090", 24576, "8.6", "0x2204", "0x1467")
RTX_4000_ADA = Card("NVIDIA RTX 4000 Ada Generation", 20475, "8.9", "0x27b2", "0x181b")
RTX_4090 = Card("NVIDIA GeForce RTX 4090", 24564, "8.9", "0x2684", "0x167c")
RTX_6000_ADA = Card("NVIDIA RTX 6000 Ada Generation", 49140, "8.9", "0x26b1", "0x16a1")
L4 = Card("NVIDIA L4", 23034, "8.9", "0x27b8", "0x16ee", "0x030200")
T4 = Card("Tesla T4", 15360, "7.5", "0x1eb8", "0x12a2", "0x030200")
L40S = Card("NVIDIA L40S", 46068, "8.9", "0x26b9", "0x1851", "0x030200")
A100 = Card("NVIDIA A100-SXM4-80GB", 81920, "8.0", "0x20b2", "0x147f", "0x030200", "Disabled")
H100 = Card("NVIDIA H100 80GB HBM3", 81559, "9.0", "0x2330", "0x16c1", "0x030200", "Disabled")


@dataclass(frozen=True)
class Node:
    """A machine; ``held`` are the places of GPUs that a virtual machine has, ``lost`` of those off the bus."""

    name: str
    cpu: str
    cores: int
    memory_kb: int
    disks: dict[str, tuple[int, bool]]
    cards: tuple[Card, ...] = ()
    driver: str = "580.95.05"
    held: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()
    broken_driver: bool = False
    sockets: int = 1
    frames: list[str] = field(default_factory=list, compare=False)

    def answer(self) -> str:
        """Return the text of the node's answer."""
        self.frames.clear()
        self.frame("hostname", self.name)
        self.frame("meminfo", f"MemTotal:       {self.memory_kb} kB\nMemFree:        {self.memory_kb // 2} kB")
        self.frame("cpuinfo", self.cpuinfo())
        self.frame("mounts", "/dev/mapper/pve-root / ext4 rw,relatime,errors=remount-ro 0 0")
        self.frame("lscpu", self.lscpu(), command="lscpu")
        self.frame("lsblk", self.lsblk(), command="lsblk -J -b -d -o NAME,SIZE,ROTA")
        self.frame("pci", self.pci())
        self.nvidia()
        return "@knaster begin knaster-gather 1\n" + "".join(self.frames) + "@knaster finish\n"

    def frame(self, name: str, out: str = "", *, status: str = "ok", rc: int = 0, command: str = "") -> None:
        """Add one frame."""
        body = "".join(f"o {line}\n" for line in out.split("\n") if out)
        self.frames.append(
            f"@knaster open {name} {command}".rstrip() + f"\n{body}@knaster close {name} {status} {rc}\n"
        )

    def cpuinfo(self) -> str:
        """Two threads a core, numbered as the kernel does: first all cores, then their second threads."""
        threads = 2 * self.cores
        per_socket = self.cores // self.sockets
        return "\n\n".join(
            f"processor\t: {thread}\nmodel name\t: {self.cpu}\n"
            f"physical id\t: {thread % self.cores // per_socket}\nsiblings\t: {2 * per_socket}\n"
            f"core id\t\t: {thread % per_socket}\ncpu cores\t: {per_socket}"
            for thread in range(threads)
        )

    def lscpu(self) -> str:
        """The part of it that tells the topology."""
        return (
            f"Architecture: x86_64\nCPU(s): {2 * self.cores}\nModel name: {self.cpu}\nThread(s) per core: 2\n"
            f"Core(s) per socket: {self.cores // self.sockets}\nSocket(s): {self.sockets}"
        )

    def lsblk(self) -> str:
        """Disks with their bytes, and a loop device as most hosts have one."""
        rows = [{"name": name, "size": size, "rota": rota} for name, (size, rota) in self.disks.items()]
        return json.dumps({"blockdevices": [*rows, {"name": "loop0", "size": 4096, "rota": False}]}, indent=3)

    def address(self, place: int) -> str:
        """GPUs sit on buses of their own."""
        return f"0000:{0x01 + 0x20 * place:02x}:00.0" if len(self.cards) < 8 else f"0000:{0x0F + 0x1C * place:02x}:00.0"

    def pci(self) -> str:
        """The console adapter of the board, and the GPUs with their drivers and groups."""
        lines = ["address=0000:c3:00.0 class=0x030000 vendor=0x1a03 device=0x2000 numa_node=0 driver=ast iommu_group=2"]
        for place, card in enumerate(self.cards):
            driver = "vfio-pci" if place in self.held else "nvidia"
            numa = place * self.sockets // max(1, len(self.cards))
            lines.append(
                f"address={self.address(place)} class={card.pci_class} vendor=0x10de device={card.device}"
                f" subsystem_vendor=0x10de subsystem_device={card.board} numa_node={numa} driver={driver}"
                f" iommu_group={20 + place}"
            )
        return "\n".join(lines)

    def nvidia(self) -> None:
        """What nvidia-smi says of the GPUs that its driver has."""
        query = f"nvidia-smi --query-gpu={FIELDS} {CSV}"
        if not self.cards:
            self.frame("nvidia_smi", status="absent", rc=127, command=query)
            return
        if self.broken_driver:
            self.frame("nvidia_smi", MISMATCH, status="failed", rc=18, command=query)
            self.frame(
                "nvidia_smi_short",
                MISMATCH,
                status="failed",
                rc=18,
                command=f"nvidia-smi --query-gpu=index,name,memory.total,driver_version {CSV}",
            )
            return
        seen = [place for place in range(len(self.cards)) if place not in self.held | self.lost]
        if not seen:
            self.frame("nvidia_smi", "No devices were found", status="failed", rc=6, command=query)
            return
        rows = [(index, place, self.cards[place]) for index, place in enumerate(seen)]
        self.frame(
            "nvidia_smi",
            "\n".join(f"{index}, {card.name}, {card.mib}, {card.cap}, {self.driver}" for index, _place, card in rows),
            command=query,
        )
        self.frame(
            "nvidia_smi_identity",
            "\n".join(
                f"{index}, GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{place}.{self.name}.example')},"
                f" 0000{self.address(place).upper()}, {card.mig}, {400 + card.mib * 6 // 1000}"
                for index, place, card in rows
            ),
            command=f"nvidia-smi --query-gpu={IDENTITY_FIELDS} {CSV}",
        )


NVME_2T, NVME_4T, HDD_8T = (2000398934016, False), (3840755982336, False), (8001563222016, True)

HOME_LAB = (
    Node("pve-ada", "AMD Ryzen 9 7950X 16-Core Processor", 16, 65842176, {"nvme0n1": NVME_2T}, (RTX_4000_ADA,)),
    Node(
        "pve-twin",
        "AMD EPYC 7302P 16-Core Processor",
        16,
        131821568,
        {"nvme0n1": NVME_4T, "sda": HDD_8T},
        (RTX_3090, RTX_3090),
        held=frozenset((1,)),
    ),
    Node("pve-mini", "Intel(R) Core(TM) i5-12500T", 6, 32562176, {"nvme0n1": NVME_2T}),
)


def rack() -> list[Node]:
    """Forty nodes of seven kinds, with the troubles that a rack of this size has."""
    epyc, xeon = "AMD EPYC 9354 32-Core Processor", "Intel(R) Xeon(R) Gold 6430"
    big = {"nvme0n1": NVME_4T, "nvme1n1": NVME_4T}
    kinds = (
        ("h100", 4, epyc, 64, 1056518144, big, (H100,) * 8),
        ("a100", 4, epyc, 64, 1056518144, big, (A100,) * 8),
        ("l40s", 8, epyc, 32, 528143360, big, (L40S,) * 4),
        ("ada", 8, epyc, 32, 263856740, {"nvme0n1": NVME_4T}, (RTX_6000_ADA,) * 2),
        ("rtx", 6, "AMD EPYC 7302P 16-Core Processor", 16, 131821568, {"nvme0n1": NVME_2T}, (RTX_4090,) * 2),
        ("edge", 4, xeon, 32, 131821568, {"nvme0n1": NVME_2T}, (L4, T4)),
        ("cpu", 6, xeon, 32, 528143360, {"nvme0n1": NVME_2T, "sda": HDD_8T}, ()),
    )
    troubles: dict[str, dict[str, object]] = {
        "l40s-3": {"broken_driver": True},
        "ada-2": {"held": frozenset((0, 1))},
        "rtx-5": {"lost": frozenset((1,))},
    }
    nodes = []
    for kind, count, cpu, cores, memory_kb, disks, cards in kinds:
        for number in range(1, count + 1):
            name = f"{kind}-{number}"
            sockets = 2 if cores == 64 else 1
            trouble = troubles.get(name, {})
            nodes.append(Node(name, cpu, cores, memory_kb, disks, cards, sockets=sockets, **trouble))  # type: ignore[arg-type]
    return nodes


def answers() -> dict[Path, str]:
    """Return the text of each file."""
    fleets = {"home_lab": HOME_LAB, "rack": rack()}
    return {
        EXAMPLES / fleet / "answers" / f"{node.name}.txt": node.answer()
        for fleet, nodes in fleets.items()
        for node in nodes
    }


if __name__ == "__main__":
    for path, text in answers().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
