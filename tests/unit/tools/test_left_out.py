# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""What is left out is said and noted, and with KNASTER_CI=1 an error: by every script that may leave something out."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LEFT_OUT = ROOT / "tools/left_out.sh"
# What the scripts themselves call, and nothing that they look for.
BASICS = ("bash", "sh", "env", "dirname", "id", "sort", "sed", "cat", "cp", "mktemp", "rm", "git", "tar", "grep", "tee")


@pytest.fixture
def bare(tmp_path):
    """An environment in which only the basics are installed, and the file that notes what was left out."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in BASICS:
        (programs / name).symlink_to(shutil.which(name))
    return {"PATH": str(programs), "HOME": str(tmp_path), "KNASTER_LEFT_OUT": str(tmp_path / "left-out")}


def run(*command, **environment):
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def noted(environment):
    return Path(environment["KNASTER_LEFT_OUT"]).read_text().splitlines()


def test_it_is_said_and_noted(bare):
    for text in ("one thing", "and another"):
        assert run(LEFT_OUT, text, **bare, KNASTER_CI="0").stderr == f"left out: {text}\n"
    assert noted(bare) == ["one thing", "and another"]


def test_it_is_an_error_where_nothing_may_be_left_out(bare):
    done = run(LEFT_OUT, "one thing", **bare, KNASTER_CI="1")
    assert (done.returncode, done.stderr) == (1, "not left out, for KNASTER_CI is 1: one thing\n")
    assert not Path(bare["KNASTER_LEFT_OUT"]).exists()


SCRIPTS = {
    (
        "tests/peers/install.sh",
    ): "what needs these packages, which cannot be installed from here: busybox chromium dash",
    (
        "tools/old_pythons.sh",
    ): "compile and import on other Pythons: not installed: python3.8 python3.9 python3.10 python3",
    (
        "tools/newest_core.sh",
    ): "the tests on the newest ansible-core and their coverage: neither python3.13 nor python3.14",
    (sys.executable, "tests/peers/testbed.py", "check"): "nodes over SSH (any): ",
    (
        sys.executable,
        "tests/peers/testbed.py",
        "up",
        "--spec",
        "tests/peers/testbed/hostile.yml",
    ): "nodes over SSH (hostile)",
}


@pytest.mark.skipif(
    not (ROOT / ".venv/bin/ansible-test").exists(), reason="there is no .venv with requirements-dev.txt"
)
@pytest.mark.parametrize(
    ("command", "words"), SCRIPTS.items(), ids=lambda value: Path(value[-1]).stem if isinstance(value, tuple) else ""
)
def test_scripts_that_miss_something(bare, command, words):
    done = run(*command, **bare, KNASTER_CI="0")
    assert done.returncode == (77 if "testbed" in str(command) else 0), done.stderr
    assert [text[: len(words)] for text in noted(bare)] == [words]
    done = run(*command, **bare, KNASTER_CI="1")
    assert done.returncode == 1
    assert f"not left out, for KNASTER_CI is 1: {words}" in done.stderr


SKIPS = """
import pytest

def test_one():
    pytest.skip("there is no such program")

@pytest.mark.skipif(True, reason="only with KNASTER_FAULTS=all")
def test_two():
    pass

@pytest.mark.xfail(reason="known")
def test_three():
    raise ValueError
"""


def run_pytest(directory, **environment):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no", "-ra", directory]
    environment = {**os.environ, "KNASTER_LEFT_OUT": "", **environment}
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def skipping(tmp_path):
    """Tests of which one and a whole file are skipped for something missing, under the conftest of this project."""
    shutil.copy(ROOT / "tests/conftest.py", tmp_path)
    (tmp_path / "test_skips.py").write_text(SKIPS)
    (tmp_path / "test_file.py").write_text('import pytest\npytest.importorskip("no_such_module")\n')
    return tmp_path


def test_a_skipped_test_fails_where_nothing_may_be_left_out(skipping):
    done = run_pytest(skipping, KNASTER_CI="1")
    assert done.returncode == 2
    assert "not left out, for KNASTER_CI is 1: could not import 'no_such_module'" in done.stdout
    (skipping / "test_file.py").unlink()
    done = run_pytest(skipping, KNASTER_CI="1")
    assert done.returncode == 1
    assert "not left out, for KNASTER_CI is 1: there is no such program" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 failed, 1 skipped, 1 xfailed in")


def test_a_skipped_test_is_one_elsewhere(skipping):
    done = run_pytest(skipping, KNASTER_CI="")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].startswith("3 skipped, 1 xfailed in")
    assert "left out by" not in done.stdout


@pytest.mark.parametrize(("noted", "line"), [("", "nothing"), ("b\na\nb\n", "a; b")])
def test_what_was_left_out_stands_before_the_summary(skipping, noted, line):
    (skipping / "left-out").write_text(noted)
    done = run_pytest(skipping, KNASTER_CI="0", KNASTER_LEFT_OUT=str(skipping / "left-out"))
    lines = done.stdout.splitlines()
    assert f"left out by .ci/run: {line}" in lines
    assert lines[-1].startswith("3 skipped, 1 xfailed in")
