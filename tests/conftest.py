# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""What holds for all tests: with KNASTER_CI=1 a test that is skipped for something missing is one that fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

NOTHING_LEFT_OUT = os.environ.get("KNASTER_CI") == "1"
# Reasons that say what a test is not for, and not what is missing.
BY_CHOICE = ("only with KNASTER_FAULTS=all", "root may read everything")


def fail_skipped(report: pytest.CollectReport | pytest.TestReport) -> None:
    """Turn the report of a skip for something missing into that of a failure."""
    if report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    if not reason.startswith(BY_CHOICE):
        report.outcome = "failed"
        report.longrepr = f"not left out, for KNASTER_CI is 1: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    report = yield
    if NOTHING_LEFT_OUT:
        fail_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    report = yield
    if NOTHING_LEFT_OUT:
        fail_skipped(report)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say before the last lines what the steps of .ci/run before this one left out."""
    name = os.environ.get("KNASTER_LEFT_OUT")
    if name:
        texts = sorted(set(Path(name).read_text(encoding="utf-8").splitlines()))
        terminalreporter.write_line(f"left out by .ci/run: {'; '.join(texts) or 'nothing'}")
