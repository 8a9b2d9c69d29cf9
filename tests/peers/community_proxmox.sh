#!/usr/bin/env bash
# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Puts community.proxmox beside the checkout's own collection, for the tests that look at what was made with its eyes. It is
# taken out of the package "ansible", which is where pip finds collections.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=${VENV:-.venv}
target=$venv/collections/ansible_collections/community
if [ -d "$target/proxmox" ]; then exit 0; fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.13 --dest "$work" \
  --constraint tools/constraints/collections.txt ansible
"$venv/bin/python" - "$work" <<'PY'
import sys
import zipfile
from pathlib import Path

(wheel,) = Path(sys.argv[1]).glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    names = [name for name in archive.namelist() if name.startswith("ansible_collections/community/proxmox/")]
    archive.extractall(sys.argv[1], names)
PY
mkdir -p "$target"
mv "$work/ansible_collections/community/proxmox" "$target/proxmox"
