# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Stand in for get-pip.py: bring pip into an empty virtual environment without a download of its own."""

from __future__ import annotations

import subprocess
import sys

packages = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
subprocess.check_call([sys.executable, "-m", "ensurepip", "--default-pip"])
subprocess.check_call([sys.executable, "-m", "pip", "install", "--disable-pip-version-check", *packages])
