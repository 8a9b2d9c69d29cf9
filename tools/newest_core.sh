#!/usr/bin/env bash
# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Runs the tests and the shipped example on the newest ansible-core, where a Python that it takes is here, and holds that
# all files that it writes are the same to the byte.
set -euo pipefail
cd "$(dirname "$0")/.."
for bin in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin; do
  [ ! -d "$bin" ] || PATH=$bin:$PATH
done
python=
for version in 3.13 3.14; do
  if "python$version" -c '' 2>/dev/null; then
    python=python$version
    break
  fi
done
if [ -z "$python" ]; then
  tools/left_out.sh "the tests on the newest ansible-core and their coverage: neither python3.13 nor python3.14 is installed"
  exit 0
fi
VENV=.venv-newest PYTHON=$python tools/setup.sh requirements-dev.txt
VENV=.venv-newest tests/peers/community_proxmox.sh
.venv-newest/bin/ansible --version
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
root=$PWD
for venv in .venv .venv-newest; do
  mkdir "$out/$venv"
  cd "$out/$venv"
  "$root/$venv/bin/ansible-playbook" -i "$root/examples/rack/inventory.yml" knaster.inventory.site >run.log || {
    cat run.log
    exit 1
  }
done
cd "$root"
diff -r "$out/.venv/knaster" "$out/.venv-newest/knaster"
.venv-newest/bin/python -m pytest -q -n 2 --dist loadfile --override-ini=cache_dir=.venv-newest/pytest_cache
