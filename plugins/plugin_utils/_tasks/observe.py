# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What was observed last, from its file."""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.digests import read_checked
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import collecting

if t.TYPE_CHECKING:
    from pathlib import Path


def read_observed(path: Path, errors: list[str]) -> list[dict[str, t.Any]]:
    """Return the replicas that were observed last; none where there is no such file. What is wrong is added to the errors."""
    document = None
    with collecting(errors):
        document = read_checked(path, "observed")
    return [] if document is None else document["replicas"]
