#!/usr/bin/env bash
# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Builds the collection from the tracked files and lets the importer of Galaxy look at it.
set -euo pipefail
cd "$(dirname "$0")/.."
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
  [ ! -e "$file" ] || cp --parents -t "$tree" "$file"
done
.venv/bin/ansible-galaxy collection build --output-path "$tree/out" "$tree"
tar -tzf "$tree"/out/*.tar.gz | sort | sed 's/^/  /'
PATH=$PWD/.venv/bin:$PATH
cd "$tree/out"
# A pipe fails where one of its commands does, so that an importer that dies is seen; sed takes all lines.
GALAXY_IMPORTER_CONFIG=/dev/null python -m galaxy_importer.main ./*.tar.gz 2>&1 | tee importer.log | sed '/DEBUG/d' || {
  echo "the importer of Galaxy failed" >&2
  exit 1
}
if ! grep -q "Importer processing completed successfully" importer.log; then
  echo "the importer of Galaxy did not come to its end" >&2
  exit 1
fi
if grep -E "^(ERROR|WARNING)" importer.log; then
  echo "the importer of Galaxy found something" >&2
  exit 1
fi
