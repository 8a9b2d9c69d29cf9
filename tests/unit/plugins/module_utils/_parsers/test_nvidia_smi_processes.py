# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.nvidia_smi_processes import (
    Process,
    parse,
)

TEST_ROWS = [
    ("", []),
    ("No running processes found\n", []),
    ("GPU-bb, 7, x\nGPU-1234, 4711, /usr/bin/python3\n", [Process("GPU-1234", 4711, "/usr/bin/python3")]),
    ("GPU-1234, 9, a\r\nGPU-1234, 8, b, c\r\n", [Process("GPU-1234", 8, "b, c"), Process("GPU-1234", 9, "a")]),
    ("GPU-1234, 9, [Insufficient Permissions]", [Process("GPU-1234", 9)]),
    ("GPU-1234, 9", [Process("GPU-1234", 9)]),
    ("GPU-1234, 9, " + "x" * 999, [Process("GPU-1234", 9, "x" * 100)]),
    ("GPU-1234, 9, a\x1b[31m", [Process("GPU-1234", 9)]),
]


@pytest.mark.parametrize(("text", "expected"), TEST_ROWS)
def test_rows(text, expected):
    assert parse(text) == expected


TEST_ERRORS = [
    ('Field "gpu_uuid" is not a valid field to query.', 2, "invalid_field"),
    ("Failed to initialize NVML: Driver/library version mismatch", 18, "driver_library_mismatch"),
    ("", 255, "command_failed"),
    ("what is this", 0, "unparsable_rows"),
]


@pytest.mark.parametrize(("text", "rc", "code"), TEST_ERRORS)
def test_errors(text, rc, code):
    with pytest.raises(ParseError) as caught:
        parse(text, rc=rc)
    assert caught.value.code == code
