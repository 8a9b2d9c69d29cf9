# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""How the tasks of a run with C(--check) hand over to each other the files that none of them writes."""

from __future__ import annotations

import contextlib
import typing as t
from pathlib import Path

from ansible import constants
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import preview

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@contextlib.contextmanager
def handing_over(variables: Mapping[str, t.Any], *, only_shown: bool = False) -> Iterator[bool]:
    """Read and write files as this run sees them, and yield whether anything may be written.

    With C(--check) that is a directory of this run, which Ansible removes at its end. A task that is in check mode by
    itself, in a run that is not, shows what it would do and hands over nothing.

    :param variables: those of the task
    :param only_shown: whether the task is in check mode
    """
    if not variables.get("ansible_check_mode"):
        yield not only_shown
        return
    with (
        preview(Path(vars(constants)["DEFAULT_LOCAL_TMP"]) / "knaster-preview")
        if only_shown
        else contextlib.nullcontext()
    ):
        yield True
