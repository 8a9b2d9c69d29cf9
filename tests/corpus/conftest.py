# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""A step of its own: pytest takes it only when it is told so, with ``python -m pytest tests/corpus``.

It compares with what is no part of the project, and fails where that is not there.
"""

from __future__ import annotations

import pytest
from ansible_collections.knaster.inventory.tests.peers import recorded

if recorded.missing():
    text = "tests/corpus reads recorded data from {} (KNASTER_SHARED names another folder). There is no {}."
    pytest.exit(text.format(recorded.SHARED, ", no ".join(recorded.missing())), returncode=2)
