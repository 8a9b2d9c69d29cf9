#!/usr/bin/env bash
# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Compiles and imports what is sent to nodes on every other supported Python that is here (3.8 to 3.14).
set -euo pipefail
cd "$(dirname "$0")/.."
for bin in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin; do
  [ ! -d "$bin" ] || PATH=$bin:$PATH
done
here=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
for version in 3.8 3.9 3.10 3.11 3.12 3.13 3.14; do
  if [ "$version" = "$here" ]; then
    continue
  elif "python$version" -c '' 2>/dev/null; then
    tools/sanity.sh sanity --test compile --test import --python "$version"
  else
    echo "no python$version here"
  fi
done
