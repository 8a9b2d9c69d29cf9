# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.cpuinfo import Cpu
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.lscpu import parse


def text(**fields: str) -> str:
    return "".join(f"{label.replace('_', ' ')}:   {value}\n" for label, value in fields.items())


def levels(per_core: str, per_socket: str, sockets: str) -> str:
    return f"Thread(s) per core:  {per_core}\nCore(s) per socket:  {per_socket}\nSocket(s):  {sockets}\n"


TEST_PARSE = [
    pytest.param(
        "Architecture:        x86_64\nCPU(s):              96\nOn-line CPU(s) list: 0-95\n"
        + levels("2", "24", "2")
        + "Model name:   Some CPU\n",
        Cpu("Some CPU", 48, 96),
        id="plain",
    ),
    pytest.param(
        "CPU(s): 22\nOn-line CPU(s) list: 0-21\n" + levels("2", "16", "1"),
        Cpu(None, 16, 22),
        id="hybrid: the product would be 32 threads",
    ),
    pytest.param("CPU(s): 22\n" + levels("2", "16", "1"), Cpu(None, 16, 22), id="hybrid without the list"),
    pytest.param(
        "CPU(s): 128\nOn-line CPU(s) list: 0,4,8-12:4,16\nOff-line CPU(s) list: 1-3\n" + levels("1", "5", "1"),
        Cpu(None, 5, 5),
        id="SMT off, a list with steps",
    ),
    pytest.param("CPU(s): 16\nOn-line CPU(s) mask: 0xff\n" + levels("1", "4", "2"), Cpu(None, 8, 8), id="mask"),
    pytest.param(
        "CPU(s): 24\nOn-line CPU(s) list: 4-20\nOff-line CPU(s) list: 0-3,21-23\n" + levels("1", "8", "2"),
        Cpu(None, None, 17),
        id="offline CPUs: 16 cores can not be",
    ),
    pytest.param(
        "CPU(s): 4\nOn-line CPU(s) list: 0\nOff-line CPU(s) list: 1-3\n" + levels("1", "4", "1"),
        Cpu(None, None, 1),
        id="more cores than threads can not be",
    ),
    pytest.param(
        "CPU(s): 20\nModel name: Core-A\n" + levels("1", "10", "1") + "Model name: Core-B\n" + levels("1", "10", "1"),
        Cpu(None, 20, 20),
        id="two kinds of cores",
    ),
    pytest.param(
        "CPU(s): 8\nModel name: Core-A\nThread(s) per core: 1\nCore(s) per socket: 4\nSocket(s): 1\nModel name: Core-B\nCore(s) per socket: 4\n",
        Cpu(None, 8, 8),
        id="the socket told once",
    ),
    pytest.param(
        "CPU(s): 4\nThread(s) per core: 1\nCore(s) per cluster: 4\nSocket(s): -\nCluster(s): 1\n",
        Cpu(None, 4, 4),
        id="clusters in place of sockets",
    ),
    pytest.param(
        "CPU(s): 8\nThread(s) per core: 1\nCore(s) per socket: 1\nSocket(s) per book: 1\nBook(s) per drawer: 2\nDrawer(s): 4\n",
        Cpu(None, 8, 8),
        id="mainframe with drawers",
    ),
    pytest.param(
        "CPU(s): 8\nCore(s) per socket: 2\nSocket(s) per book: 2\nBook(s): 2\n",
        Cpu(None, 8, 8),
        id="mainframe with books",
    ),
    pytest.param("CPU(s): 64\nModel name:   -\n", Cpu(None, None, 64), id="a dash is no name"),
    pytest.param("CPU(s): 1\nModel name:   X\n", Cpu("X", 1, 1), id="one CPU is one core"),
    pytest.param(
        "\ufeffCPU(s): 2\r\n  Model name:    X\r\n    BIOS Model name:  pc-q35\r\n    CPU(s) scaling MHz: 21%\r\n",
        Cpu("X", None, 2),
        id="indented; firmware's name is not the model",
    ),
    pytest.param(
        "CPU(s): 16\nListe der Online-CPU(s): 0-15\nThread(s) pro Kern: 2\nKern(e) pro Sockel: 8\nSockel: 1\nModellname: Eine CPU\n",
        Cpu("Eine CPU", 8, 16),
        id="German",
    ),
    pytest.param(
        "CPU: 16\n在线 CPU 列表：0-15\n每个核的线程数：2\n每个座的核数：8\n座：1\n型号名称：某处理器\n",  # noqa: RUF001
        Cpu("某处理器", 8, 16),
        id="Chinese, with its own colon",
    ),
]


@pytest.mark.parametrize(("stdout", "expected"), TEST_PARSE)
def test_parse(stdout: str, expected: Cpu) -> None:
    assert parse(stdout) == expected


FIELDS = [
    {"field": "CPU(s):", "data": "20"},
    {"field": "On-line CPU(s) list:", "data": "0-19"},
    {"field": "Model name:", "data": "Core-A"},
    {"field": "Core(s) per socket:", "data": "10"},
    {"field": "Socket(s):", "data": "1"},
    {"field": "Model name:", "data": "Core-B"},
    {"field": "Core(s) per socket:", "data": "10"},
    {"field": "Socket(s):", "data": "1"},
]
NESTED = [
    {"field": "CPU(s):", "data": 20, "children": [{"field": "On-line CPU(s) list:", "data": "0-19"}]},
    {"field": "Vendor ID:", "data": "X", "children": FIELDS[2:]},
    {"field": "NUMA:", "data": None, "children": [{"field": "NUMA node0 CPU(s):", "data": "0-7"}]},
]


@pytest.mark.parametrize("fields", [FIELDS, NESTED], ids=["flat", "nested"])
def test_json(fields: list[object]) -> None:
    expected = Cpu(None, 20, 20)
    assert parse(json.dumps({"lscpu": fields})) == expected
    assert parse(json.dumps({"lscpu": fields}, indent=3)) == expected


TEST_ERRORS = [
    ("", "", 0, "no_cpus"),
    ("Architecture: x86_64\n", "", 0, "no_cpus"),
    ("CPU(s): many\n", "", 0, "no_cpus"),
    ('{"lscpu": "none"}', "", 0, "no_cpus"),
    ('{"lscpu": [', "", 0, "not_json"),
    ("", "sh: lscpu: not found", 127, "command_not_found"),
    ("sh: 1: lscpu: not found\n", "", 0, "command_not_found"),
    ("", "lscpu: unrecognized option '-J'", 1, "command_failed"),
]


@pytest.mark.parametrize(("stdout", "stderr", "rc", "code"), TEST_ERRORS)
def test_errors(stdout: str, stderr: str, rc: int, code: str) -> None:
    with pytest.raises(ParseError, match=r"^lscpu: ") as caught:
        parse(stdout, stderr=stderr, rc=rc)
    assert caught.value.code == code
