#!/usr/bin/env bash
# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Checks the script that nodes run, as the shell script that it is.
set -euo pipefail
cd "$(dirname "$0")/.."
.venv/bin/python -c '
from ansible_collections.knaster.inventory.plugins.module_utils._gather.script import build_script
print(build_script())' |
  # 2016: the worker is a text on purpose. 2030, 2031: a device is printed in a subshell on purpose. 2086: the fields of a
  # stat line are to be split. 2329: a function is called from a trap or by name only.
  shellcheck --shell=sh --exclude=SC2016,SC2030,SC2031,SC2086,SC2329 -
