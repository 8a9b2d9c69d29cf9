#!/usr/bin/env bash
# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Makes a virtual environment with what the named requirements file lists (requirements.txt) and lets it find this checkout
# as the collection knaster.inventory. PYTHON names the interpreter (python3.11), VENV the folder (.venv).
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${VENV:-.venv}
"${PYTHON:-python3.11}" -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "${1:-requirements.txt}"
mkdir -p "$venv/collections/ansible_collections/knaster"
ln -sfn "$PWD" "$venv/collections/ansible_collections/knaster/inventory"
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "$(cd "$venv" && pwd)/collections" > "$site/knaster_inventory.pth"
