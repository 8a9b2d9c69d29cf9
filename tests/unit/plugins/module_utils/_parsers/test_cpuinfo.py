# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.cpuinfo import Cpu, parse
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError


def x86(
    packages: int,
    cores: list[int],
    *,
    smt: int = 1,
    siblings: int | None = None,
    cpu_cores: int | None = None,
    blank: bool = True,
) -> str:
    """Write the processors of equal packages, whose core ids are given, as an x86 kernel lists them."""
    blocks = []
    per_package = len(cores) * smt
    for package in range(packages):
        for place in range(per_package):
            blocks.append(
                f"processor\t: {len(blocks)}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\n"
                f"model name\t: Some(R) CPU @ 2.10GHz\nphysical id\t: {package}\n"
                f"siblings\t: {siblings or per_package}\ncore id\t\t: {cores[place % len(cores)]}\n"
                f"cpu cores\t: {cpu_cores or len(set(cores))}\nflags\t\t: fpu vme\n"
            )
    return ("\n" if blank else "").join(blocks)


TEST_X86 = [
    pytest.param(x86(1, [0, 1, 2, 3]), (4, 4), id="no SMT"),
    pytest.param(x86(2, [0, 1, 2, 8, 9, 10], smt=2), (12, 24), id="two sockets, gaps in the core ids"),
    pytest.param(x86(2, [0], blank=False), (2, 2), id="no blank lines"),
    pytest.param(x86(4, [0, 1, 2, 3, 4, 5] * 2, cpu_cores=12), (48, 48), id="dies that repeat core ids"),
    pytest.param(x86(1, [0, 0, 4, 4, 8, 9, 10, 11]), (6, 8), id="hybrid: two kinds of cores"),
    pytest.param(x86(1, [0, 1], siblings=8, cpu_cores=4), (2, 2), id="a container shows two CPUs of a larger package"),
    pytest.param(x86(1, [0, 0, 0, 0], siblings=4, cpu_cores=1), (None, 4), id="four threads on one core: not credible"),
    pytest.param(
        x86(1, [0, 0, 0, 0], siblings=4, cpu_cores=1).replace("Some(R)", "Xeon Phi(TM)"),
        (1, 4),
        id="four threads on one core: Xeon Phi",
    ),
    pytest.param("processor : 0\nmodel name : Old\n", (1, 1), id="one CPU, no topology"),
    pytest.param(
        "processor : 0\nmodel name : Old\nprocessor : 1\nmodel name : Old\n",
        (None, 2),
        id="two CPUs, no topology",
    ),
    pytest.param(
        "processor : 0\nmodel name : P4\nphysical id : 0\nsiblings : 2\nprocessor : 1\nmodel name : P4\nphysical id : 0\nsiblings : 2\n",
        (None, 2),
        id="packages only",
    ),
]


@pytest.mark.parametrize(("text", "counts"), TEST_X86)
def test_x86(text: str, counts: tuple[int | None, int]) -> None:
    cpu = parse(text)
    assert (cpu.cores, cpu.threads) == counts
    assert parse(text.replace("\n", "\r\n")) == cpu


ARM64 = "processor\t: {n}\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: {part}\n\n"
TEST_OTHERS = [
    pytest.param(
        "".join(ARM64.format(n=n, part="0xd87" if n < 2 else "0xd85") for n in range(4))
        + "Revision : d04170\nModel\t\t: Some Board Rev 1.0\n",
        Cpu(None, None, 4),
        id="arm64, two parts, the board as trailer",
    ),
    pytest.param(
        "Processor : AArch64 Processor rev 1 (aarch64)\nprocessor : 0\nprocessor : 1\nCPU implementer : 0x50\n"
        "CPU architecture: AArch64\nCPU part : 0x000\n\nHardware : Some Cartridge\n",
        Cpu("AArch64 Processor rev 1 (aarch64)", None, 2),
        id="arm64, old: a capital Processor line is no CPU",
    ),
    pytest.param(
        "Processor\t: ARM926EJ-S rev 5 (v5l)\nBogoMIPS\t: 1192.75\nCPU implementer\t: 0x41\nCPU architecture: 5TEJ\n",
        Cpu("ARM926EJ-S rev 5 (v5l)", 1, 1),
        id="arm, a kernel for one processor",
    ),
    pytest.param(
        "processor\t: 0\ncpu\t\t: POWER9, altivec supported\n\nprocessor\t: 4\ncpu\t\t: POWER9, altivec supported\n\n"
        "timebase\t: 512000000\nmodel\t\t: 8335-GTW\nmachine\t\t: PowerNV 8335-GTW\n",
        Cpu("POWER9, altivec supported", None, 2),
        id="POWER: SMT is not told",
    ),
    pytest.param(
        "vendor_id       : IBM/S390\n# processors    : 2\nprocessor 0: version = FF,  identification = 1,  machine = 2964\n"
        "processor 1: version = FF,  identification = 2,  machine = 2964\n",
        Cpu(None, None, 2),
        id="s390x, old",
    ),
    pytest.param(
        "vendor_id       : IBM/S390\n# processors    : 2\nprocessor 0: version = FF\nprocessor 1: version = FF\n\n"
        "cpu number      : 0\nphysical id     : 1\ncore id         : 0\nbook id : 0\ndrawer id : 0\n\n"
        "cpu number      : 1\nphysical id     : 1\ncore id         : 0\nbook id : 0\ndrawer id : 0\n",
        Cpu(None, 1, 2),
        id="s390x with topology",
    ),
    pytest.param(
        "processor : 0\nhart : 1\nisa : rv64imafdc\nuarch : sifive,u74-mc\n\nprocessor : 1\nhart : 2\nisa : rv64imafdc\n",
        Cpu("sifive,u74-mc", None, 2),
        id="RISC-V with a name",
    ),
    pytest.param(
        "system type : generic\n\nprocessor : 0\npackage : 0\ncore : 0\nModel Name : Some-3A\nISA : loongarch32 loongarch64\n\n"
        "processor : 1\npackage : 0\ncore : 0\nModel Name : Some-3A\nISA : loongarch32 loongarch64\n",
        Cpu("Some-3A", 1, 2),
        id="LoongArch",
    ),
    pytest.param(
        "processor  : 0\nvendor     : GenuineIntel\narch       : IA-64\nfamily     : Itanium 2\nmodel      : 2\n"
        "physical id: 0\ncore id    : 0\nthread id  : 0\nsiblings   : 2\n\n"
        "processor  : 1\nvendor     : GenuineIntel\narch       : IA-64\nfamily     : Itanium 2\nmodel      : 2\n"
        "physical id: 0\ncore id    : 1\nthread id  : 0\nsiblings   : 2\n",
        Cpu("Itanium 2", 2, 2),
        id="Itanium",
    ),
    pytest.param(
        "cpu\t\t: TI UltraSparc II\ntype\t\t: sun4u\nncpus probed\t: 4\nncpus active\t: 2\nState:\nCPU6:\t\tonline\nCPU7:\t\tonline\n",
        Cpu("TI UltraSparc II", None, 2),
        id="SPARC",
    ),
    pytest.param(
        "cpu\t\t\t: Alpha\ncpu model\t\t: EV56\ncpus detected\t\t: 2\ncpus active\t\t: 1\n",
        Cpu("EV56", 1, 1),
        id="Alpha: active, not detected",
    ),
    pytest.param("processor : 0\nmodel name : unknown\nflags : fpu\n", Cpu(None, 1, 1), id="unknown is no name"),
]


@pytest.mark.parametrize(("text", "expected"), TEST_OTHERS)
def test_others(text: str, expected: Cpu) -> None:
    assert parse(text) == expected


def test_a_name_keeps_its_inner_blanks_only() -> None:
    assert parse("processor : 0\nmodel name : A(R) CPU    L5640  @ 2GHz   \n").model == "A(R) CPU    L5640  @ 2GHz"


@pytest.mark.parametrize("text", ["", "\n\n", "cat: /proc/cpuinfo: No such file or directory\n", "processor : none\n"])
def test_errors(text: str) -> None:
    with pytest.raises(ParseError, match=r"^/proc/cpuinfo: there is no processor in the text") as caught:
        parse(text)
    assert caught.value.code == "no_processors"
