#!/usr/bin/env bash
# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Renews the versions of all tools that the checks use: tools/constraints for each Python on which the tests run, and the
# tools of the report's page. Takes the newest that the requirements allow; commit what changes once .ci/run is green.
set -euo pipefail
cd "$(dirname "$0")/.."
for bin in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin; do
  [ ! -d "$bin" ] || PATH=$bin:$PATH
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p tools/constraints

# Writes what standard input lists as the constraints of this name.
write() {
  { sed -n 2,5p tools/pin.sh && echo "# Written by tools/pin.sh." && cat; } >"$work/list"
  mv "$work/list" "tools/constraints/$1.txt"
}
# Two Pythons, for each has its own newest ansible-core: the default, and the one of tools/newest_core.sh.
for python in python3.11 python3.13; do
  PYTHON=$python VENV=$work/$python PINNED=0 tools/setup.sh requirements-dev.txt
  "$work/$python/bin/pip" freeze --disable-pip-version-check | write "$python"
done

python3.11 -m venv "$work/consumers"
"$work/consumers/bin/pip" install --quiet --disable-pip-version-check --requirement tests/peers/consumers.txt
"$work/consumers/bin/pip" freeze --disable-pip-version-check | write consumers

# The package "ansible", of which tests/peers/community_proxmox.sh takes one collection.
"$work/python3.13/bin/pip" install --quiet --disable-pip-version-check --dry-run --no-deps --report "$work/ansible.json" ansible
"$work/python3.13/bin/python" -c 'import json, sys
(found,) = json.load(open(sys.argv[1]))["install"]
print("ansible==" + found["metadata"]["version"])' "$work/ansible.json" | write collections

cd tools/page
npm install --package-lock-only --omit-lockfile-registry-resolved --no-audit --no-fund --silent --save-dev --save-exact \
  axe-core@4 eslint@9 typescript@5
