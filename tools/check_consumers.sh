#!/usr/bin/env bash
# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Loads the files that the registry writes with the programs that they are for: LiteLLM (its own loader, and requests through
# its router), promtool, systemd, docker-compose; for the shipped rack and for a fleet of hostile names. What is not installed
# (tests/peers/install.sh) is left out. LiteLLM has an environment of its own, for it asks for many packages.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${CONSUMERS_VENV:-.venv-consumers}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ ! -x "$venv/bin/python" ]; then "${PYTHON:-python3.11}" -m venv "$venv"; fi
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-compile \
  --requirement tests/peers/consumers.txt --constraint tools/constraints/consumers.txt
export PATH=$PWD/.venv/bin:$PATH
root=$PWD
mkdir "$work/run"
(cd "$work/run" && ansible-playbook -i "$root/examples/rack/inventory.yml" knaster.inventory.inventory knaster.inventory.placement >"$work/log") ||
  { cat "$work/log"; exit 1; }
python tests/peers/write_consumer_input.py "$work" "$work/run/knaster/plan.yml" catalog examples/rack/catalog
"$venv/bin/python" tests/peers/check_consumers.py "$work"
