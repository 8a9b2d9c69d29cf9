# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._gather.answers import (
    GatherError,
    Output,
    find_output,
    read_answer,
)
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError

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


TEST_UNUSABLE = [
    ({}, "not_asked", "lscpu: not queried"),
    ({"lscpu": Output("absent", 127)}, "absent", "lscpu: not found"),
    ({"lscpu": Output("timeout", 137)}, "timeout", "lscpu: did not answer in time"),
    ({"lscpu": Output("stuck", 137)}, "timeout", "lscpu: did not answer in time"),
]


@pytest.mark.parametrize(("outputs", "code", "text"), TEST_UNUSABLE)
def test_why_there_is_no_output(outputs, code, text):
    with pytest.raises(ParseError) as caught:
        find_output(outputs, "lscpu", "lscpu")
    assert (caught.value.code, str(caught.value)) == (code, text)


@pytest.mark.parametrize("status", ["ok", "failed"])
def test_an_output_that_ended_is_found(status):
    output = Output(status, 1, "text")
    assert find_output({"lscpu": output}, "lscpu", "lscpu") is output
