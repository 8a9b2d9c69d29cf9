#!/usr/bin/env bash
# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Compiles and imports what is sent to nodes on every other Python that ansible-test knows.
set -euo pipefail
cd "$(dirname "$0")/.."
for bin in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin; do
  [ ! -d "$bin" ] || PATH=$bin:$PATH
done
others=$(.venv/bin/python -c '
import sys
from ansible_test._internal.constants import SUPPORTED_PYTHON_VERSIONS as known
here = "%d.%d" % sys.version_info[:2]
print(*(version for version in known if version != here))')
missing=()
for version in $others; do
  if "python$version" -c '' 2>/dev/null; then
    tools/sanity.sh sanity --test compile --test import --python "$version"
  else
    missing+=("python$version")
  fi
done
[ "${#missing[@]}" -eq 0 ] || tools/left_out.sh "compile and import on other Pythons: not installed: ${missing[*]}"
