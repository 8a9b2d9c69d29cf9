#!/usr/bin/env bash
# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Makes a virtual environment with what the named requirements file lists (requirements.txt) and lets it find this checkout
# as the collection knaster.inventory. PYTHON names the interpreter (python3.11), VENV the folder (.venv). The tools of
# requirements-dev.txt come in the versions that tools/constraints has for this Python (tools/pin.sh renews them); PINNED=0
# takes the newest.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${VENV:-.venv}
requirements=${1:-requirements.txt}
"${PYTHON:-python3.11}" -m venv "$venv"
options=(--requirement "$requirements")
constraints=tools/constraints/$("$venv/bin/python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])').txt
if [ "$requirements" = requirements-dev.txt ] && [ "${PINNED:-1}" = 1 ]; then
  if [ -e "$constraints" ]; then
    options+=(--constraint "$constraints")
  else
    echo "there is no $constraints: the newest of everything is taken" >&2
  fi
fi
"$venv/bin/pip" install --quiet --disable-pip-version-check "${options[@]}"
mkdir -p "$venv/collections/ansible_collections/knaster"
ln -sfn "$PWD" "$venv/collections/ansible_collections/knaster/inventory"
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "$(cd "$venv" && pwd)/collections" > "$site/knaster_inventory.pth"
