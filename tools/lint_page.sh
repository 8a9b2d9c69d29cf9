#!/usr/bin/env bash
# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Checks the script of the report's page: ESLint, and the types that TypeScript finds in it. The tools are those of
# tools/page/package-lock.json, in an environment of their own. Needs node and npm (tests/peers/install.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
for program in node npm; do
  command -v "$program" >/dev/null || {
    tools/left_out.sh "the check of page.js: $program is not installed"
    exit 0
  }
done
page=plugins/plugin_utils/_report/page.js
work=.venv-page
mkdir -p "$work"
cp tools/page/* "$page" "$work"
cd "$work"
# Installing costs seconds, so it is done where the list has changed only.
if ! cmp --silent package-lock.json node_modules/.installed; then
  npm ci --silent --no-audit --no-fund
  cp package-lock.json node_modules/.installed
fi
npx --no-install eslint --max-warnings 0 page.js
npx --no-install tsc --project .
