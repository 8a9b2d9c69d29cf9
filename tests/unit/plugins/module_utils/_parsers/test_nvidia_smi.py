# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.gpu import Gpu
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.nvidia_smi import parse_query
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.nvidia_smi_text import (
    IDENTITY_COLUMNS,
    columns_of,
)
from ansible_collections.knaster.inventory.plugins.module_utils._pci import NVIDIA, parse_address

UUID = "GPU-11111111-2222-3333-4444-555555555555"


def query(columns: str, flags: str = "csv,noheader,nounits") -> str:
    return f"nvidia-smi --query-gpu={columns} --format={flags}"


TEST_PARSE_QUERY = [
    pytest.param(
        "0, NVIDIA RTX 4000 Ada Generation, 20475, 8.9, 550.163.01\n",
        None,
        [
            Gpu(
                NVIDIA,
                index=0,
                name="NVIDIA RTX 4000 Ada Generation",
                memory_mib=20475,
                compute_cap=(8, 9),
                driver="550.163.01",
            )
        ],
        id="one gpu, the default columns",
    ),
    pytest.param(
        "0, Tesla V100-SXM2-16GB, 16384, 7.0, 580.126\n1, Tesla V100-SXM2-16GB, 16384, 7.0, 580.126\n",
        None,
        [
            Gpu(NVIDIA, index=0, name="Tesla V100-SXM2-16GB", memory_mib=16384, compute_cap=(7, 0), driver="580.126"),
            Gpu(NVIDIA, index=1, name="Tesla V100-SXM2-16GB", memory_mib=16384, compute_cap=(7, 0), driver="580.126"),
        ],
        id="equal gpus stay two",
    ),
    pytest.param(
        "\ufeff3, NVIDIA L4, 23034, 8.9, 570.86.15\r\n\r\n",
        None,
        [Gpu(NVIDIA, index=3, name="NVIDIA L4", memory_mib=23034, compute_cap=(8, 9), driver="570.86.15")],
        id="byte order mark, CRLF, blank line; the index is the column",
    ),
    pytest.param(
        "index, name, memory.total [MiB], compute_cap, driver_version\n0, NVIDIA B300 SXM6 AC, 275040 MiB, 10.3, 580.95.05\n",
        query("index,name,memory.total,compute_cap,driver_version", "csv"),
        [Gpu(NVIDIA, index=0, name="NVIDIA B300 SXM6 AC", memory_mib=275040, compute_cap=(10, 3), driver="580.95.05")],
        id="header and units",
    ),
    pytest.param(
        "name, index\nNVIDIA A2, 1\n",
        None,
        [Gpu(NVIDIA, index=1, name="NVIDIA A2")],
        id="a header wins over the default columns",
    ),
    pytest.param(
        "8.0, NVIDIA A100-SXM4-80GB, 2\n",
        query("compute_cap,gpu_name,index"),
        [Gpu(NVIDIA, index=2, name="NVIDIA A100-SXM4-80GB", compute_cap=(8, 0))],
        id="columns of the command, in its order",
    ),
    pytest.param(
        "0, Tesla T4, 15109, 418.226.00\n",
        None,
        [Gpu(NVIDIA, index=0, name="Tesla T4", memory_mib=15109, driver="418.226.00")],
        id="asked again without the capability, command not kept",
    ),
    pytest.param(
        "0, Board, Rev. A, 4096, 7.5, 535.1\n",
        None,
        [Gpu(NVIDIA, index=0, name="Board, Rev. A", memory_mib=4096, compute_cap=(7, 5), driver="535.1")],
        id="a comma in the name",
    ),
    pytest.param(
        '"0","Board, Rev. A","4096","7.5","535.1"\n',
        None,
        [Gpu(NVIDIA, index=0, name="Board, Rev. A", memory_mib=4096, compute_cap=(7, 5), driver="535.1")],
        id="quoted fields",
    ),
    pytest.param(
        '"0, NVIDIA L4, 23034, 8.9, 570.86.15"\n',
        None,
        [Gpu(NVIDIA, index=0, name="NVIDIA L4", memory_mib=23034, compute_cap=(8, 9), driver="570.86.15")],
        id="quoted line",
    ),
    pytest.param(
        '0, "Board ""A"", Rev. B", 4096, 7.5, 535.1\n',
        None,
        [Gpu(NVIDIA, index=0, name='Board "A", Rev. B', memory_mib=4096, compute_cap=(7, 5), driver="535.1")],
        id="a quoted quote",
    ),
    pytest.param(
        '0, "Board "A, 4096, 7.5, 535.1\n1, "Board A, 4096, 7.5, 535.1\n2, "Board A", 4096, 7.5, 535.1\n',
        None,
        [Gpu(NVIDIA, index=2, name="Board A", memory_mib=4096, compute_cap=(7, 5), driver="535.1")],
        id="odd quotes",
    ),
    pytest.param(
        "WARNING: something is odd\n0, NVIDIA L4, 23034, 8.9, 570.86.15\nFailed to properly shut down NVML: Unknown Error\n",
        None,
        [Gpu(NVIDIA, index=0, name="NVIDIA L4", memory_mib=23034, compute_cap=(8, 9), driver="570.86.15")],
        id="sentences around a row",
    ),
    pytest.param(
        "0, NVIDIA GB10, [N/A], 12.1, 580.126.09\n",
        None,
        [
            Gpu(
                NVIDIA,
                index=0,
                name="NVIDIA GB10",
                memory_state="unified",
                compute_cap=(12, 1),
                driver="580.126.09",
            )
        ],
        id="unified memory",
    ),
    pytest.param(
        "0, Orin (nvgpu), [Not Supported], 8.7, N/A\n",
        None,
        [
            Gpu(
                NVIDIA,
                index=0,
                name="Orin (nvgpu)",
                memory_state="unified",
                compute_cap=(8, 7),
            )
        ],
        id="unified memory, other words",
    ),
    pytest.param(
        "0, NVIDIA A100-SXM4-80GB, [Insufficient Permissions], 8.0, 535.104\n",
        None,
        [
            Gpu(
                NVIDIA,
                index=0,
                name="NVIDIA A100-SXM4-80GB",
                memory_state="insufficient_permissions",
                compute_cap=(8, 0),
                driver="535.104",
            )
        ],
        id="no permission to read the memory",
    ),
    pytest.param(
        "0, NVIDIA RTX A4000, 0, 8.6, 550.54\n",
        None,
        [
            Gpu(
                NVIDIA,
                index=0,
                name="NVIDIA RTX A4000",
                memory_state="unreadable",
                compute_cap=(8, 6),
                driver="550.54",
            )
        ],
        id="no gpu has 0 MiB",
    ),
    pytest.param(
        "0, NVIDIA RTX A4000, 1 MiB, 8.6, 550.54\n",
        None,
        [Gpu(NVIDIA, index=0, name="NVIDIA RTX A4000", memory_mib=1, compute_cap=(8, 6), driver="550.54")],
        id="1 MiB is a size",
    ),
    pytest.param(
        "0, NVIDIA RTX A4000, 16768000 KiB, 8.6, 550.54\n",
        None,
        [
            Gpu(
                NVIDIA,
                index=0,
                name="NVIDIA RTX A4000",
                memory_state="unreadable",
                compute_cap=(8, 6),
                driver="550.54",
            )
        ],
        id="the tool prints MiB and nothing else",
    ),
]


@pytest.mark.parametrize(("stdout", "command", "expected"), TEST_PARSE_QUERY)
def test_parse_query(stdout: str, command: str | None, expected: list[Gpu]) -> None:
    assert parse_query(stdout, command=command) == expected


TEST_TROUBLE = [
    ("0, NVIDIA RTX A4000, [N/A], 8.6, 550.54", "not_available", None),
    ("1, NVIDIA RTX A4000, [Not Supported], 8.6, 550.54", "unsupported", None),
    ("2, NVIDIA RTX A4000, [Unknown Error], 8.6, 550.54", "unknown_error", "unknown_error"),
    ("3, NVIDIA RTX A4000, ERR!, 8.6, 550.54", "unknown_error", "unknown_error"),
    ("4, NVIDIA RTX A4000, [GPU is lost], [GPU is lost], [GPU is lost]", "gpu_lost", "gpu_lost"),
    ("5, [Unknown Error], [GPU requires reset], [Unknown Error], 550.54", "needs_reset", "needs_reset"),
    ("6, NVIDIA RTX A4000, [No data], 8.6, 550.54", "unknown", None),
    (
        "6, NVIDIA RTX A4000, [GPU access blocked by the operating system], 8.6, 550.54",
        "insufficient_permissions",
        None,
    ),
    ("7, NVIDIA RTX A4000", None, "short_row"),
    ("8, NVIDIA RTX A4000, 16376, 8.6", None, "short_row"),
]


@pytest.mark.parametrize(("row", "memory_state", "health"), TEST_TROUBLE)
def test_a_gpu_with_trouble_is_kept(row: str, memory_state: str | None, health: str | None) -> None:
    healthy = "9, NVIDIA RTX A4000, 16376, 8.6, 550.54"
    gpu, other = parse_query(f"{row}\n{healthy}\n")
    assert gpu.index == int(row[0])
    assert gpu.memory_state == memory_state
    assert gpu.memory_mib == (16376 if row.startswith("8") else None)
    assert (gpu.health[0] if gpu.health else None) == health
    assert other.health is None


def test_an_error_in_a_sensor_is_no_trouble() -> None:
    (gpu,) = parse_query("0, NVIDIA L4, [Unknown Error]\n", command=query("index,name,fan.speed"))
    assert gpu.health is None


TEST_LOST = [
    (
        "Unable to determine the device handle for GPU 0000:0B:00.0: GPU is lost.  Reboot the system to recover this GPU",
    ),
    ("Unable to determine the device handle for GPU0000:0B:00.0: Unknown Error",),
    ("Unable to determine the device handle for gpu 00000000:0B:00.0: Not Found",),
]


@pytest.mark.parametrize("lost", [line for (line,) in TEST_LOST])
def test_a_lost_gpu_between_good_rows_is_named(lost: str) -> None:
    text = f"0, NVIDIA L4, 23034, 8.9, 570.1\n{lost}\n2, NVIDIA L4, 23034, 8.9, 570.1\n"
    gpus = parse_query(text, rc=15)
    assert [gpu.index for gpu in gpus] == [0, 2, None]
    assert gpus[2] == Gpu(NVIDIA, address=parse_address("0000:0b:00.0"), health=("gpu_lost", lost))
    with pytest.raises(ParseError) as caught:
        parse_query(lost, rc=15)
    assert (caught.value.code, caught.value.detail) == ("gpu_lost", lost)


def test_the_number_of_a_lost_gpu_is_kept() -> None:
    text = (
        "0, NVIDIA L4, 23034, 8.9, 570.1\nUnable to determine the device handle for GPU1: 0000:C1:00.0: Unknown Error\n"
    )
    lost = parse_query(text)[1]
    assert (lost.index, lost.address) == (1, parse_address("0000:c1:00.0"))


def test_the_empty_row_of_a_lost_gpu_is_not_a_second_gpu() -> None:
    empty = ", ".join(["[Unknown Error]"] * 5)
    text = f"0, NVIDIA L4, 23034, 8.9, 570.1\nUnable to determine the device handle for GPU 0000:0B:00.0: Unknown Error\n{empty}\n"
    assert len(parse_query(text)) == 2
    # Without a sentence in front it is all that there is of the GPU.
    gpus = parse_query(f"0, NVIDIA L4, 23034, 8.9, 570.1\n{empty}\n")
    assert gpus[1].health == ("unknown_error", "index: [Unknown Error]")


def test_a_lost_gpu_that_has_a_row_is_one_gpu() -> None:
    text = f"0, {UUID}, 00000000:0B:00.0, [N/A], [N/A]\nUnable to determine the device handle for GPU 0000:0B:00.0: GPU is lost\n"
    (gpu,) = parse_query(text, columns=IDENTITY_COLUMNS)
    assert gpu.health is not None
    assert gpu.health[0] == "gpu_lost"


def test_the_columns_of_the_identity() -> None:
    gpus = parse_query(
        f"0, {UUID}, 00000000:41:00.0, Enabled, 614\n1, {UUID}, 00010000:C1:00.0, Disabled, 614\n2, {UUID}, 00000000:C2:00.0, [N/A], [N/A]\n",
        columns=IDENTITY_COLUMNS,
    )
    assert [gpu.address and gpu.address.text for gpu in gpus] == ["0000:41:00.0", "10000:c1:00.0", "0000:c2:00.0"]
    assert [gpu.mig for gpu in gpus] == [True, False, None]
    assert [gpu.reserved_mib for gpu in gpus] == [614, 614, None]
    assert {gpu.uuid for gpu in gpus} == {UUID}


TEST_ERRORS = [
    (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that ...\n\n",
        9,
        "driver_not_loaded",
    ),
    ("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please ...\n", 12, "nvml_not_found"),
    ("nvidia-smi: error while loading shared libraries: libnvidia-ml.so.1: cannot open ...\n", 127, "nvml_not_found"),
    (
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.86\n",
        18,
        "driver_library_mismatch",
    ),
    ("Failed to initialize NVML: Driver Not Loaded\n", 255, "driver_not_loaded"),
    ("Failed to initialize NVML: Unknown Error\n", 255, "nvml_init_failed"),
    ("Failed to initialize NVML: Insufficient Permissions\n", 4, "nvml_init_failed"),
    ("No devices were found\n", 6, "no_devices"),
    ("No devices were found\n", 0, "no_devices"),
    ("\n", 0, "no_devices"),
    ("", 0, "no_devices"),
    ('Field "compute_cap" is not a valid field to query.\n\n', 2, "invalid_field"),
    ("sh: 1: nvidia-smi: not found\n", 127, "command_not_found"),
    ("bash: line 1: nvidia-smi: command not found\n", None, "command_not_found"),
    ("zsh: command not found: nvidia-smi\n", 127, "command_not_found"),
    ("env: 'nvidia-smi': No such file or directory\n", 127, "command_not_found"),
    ("", 127, "command_not_found"),
    ("bash: /usr/bin/nvidia-smi: Permission denied\n", 126, "command_failed"),
    ("Killed\n", 137, "command_failed"),
    ("", 1, "command_failed"),
    ("", 9, "driver_not_loaded"),
    ("GPU is lost\n", 15, "gpu_lost"),
    (
        "| NVIDIA-SMI 550.54  Driver Version: 550.54  CUDA Version: 12.4 |\n|   0  NVIDIA L4   Off |\n",
        0,
        "unparsable_rows",
    ),
    ("Welcome, you have mail\n", 0, "unparsable_rows"),
    ("1, 2, 3, 4, 5\n", 0, "unparsable_rows"),
    ("[Unknown Error]\n", 0, "unparsable_rows"),
]


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize(("text", "rc", "code"), TEST_ERRORS)
def test_errors(text: str, rc: int | None, code: str, stream: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_query(text if stream == "stdout" else "", stderr=text if stream == "stderr" else "", rc=rc)
    assert caught.value.code == code


MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
TEST_MESSAGES = [
    (
        'Field "compute_cap" is not a valid field to query.',
        'nvidia-smi: a queried field is not known to this version: Field "compute_cap" is not a valid field to query.',
    ),
    (
        MISMATCH,
        "nvidia-smi: driver and libraries are of different versions (a reboot is due): " + MISMATCH,
    ),
    ("", "nvidia-smi: no device was found: exit code 0"),
]


@pytest.mark.parametrize(("stdout", "message"), TEST_MESSAGES)
def test_messages(stdout: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_query(stdout)
    assert str(caught.value) == message


def test_a_header_alone_is_no_gpu() -> None:
    with pytest.raises(ParseError) as caught:
        parse_query("index, name, memory.total [MiB]\n")
    assert caught.value.code == "no_devices"


TEST_COLUMNS_OF = [
    (query("index,gpu_name"), ("index", "name")),
    ("nvidia-smi -i 0 --query-gpu uuid,pci.bus_id --format=csv", ("uuid", "pci.bus_id")),
    ("nvidia-smi --query-gpu=<all fields> --format=csv", None),
    ("nvidia-smi -L", None),
    ("", None),
    (None, None),
]


@pytest.mark.parametrize(("command", "columns"), TEST_COLUMNS_OF)
def test_columns_of(command: str | None, columns: tuple[str, ...] | None) -> None:
    assert columns_of(command) == columns
