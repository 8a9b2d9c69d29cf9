#!/usr/bin/env bash
# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Says that a check is left out and why: tools/left_out.sh TEXT. With KNASTER_CI=1 that is an error. Otherwise the text is
# also added to the file that KNASTER_LEFT_OUT names, from which .ci/run lists it at its end.
set -euo pipefail
if [ "${KNASTER_CI:-}" = 1 ]; then
  echo "not left out, for KNASTER_CI is 1: $*" >&2
  exit 1
fi
echo "left out: $*" >&2
[ -z "${KNASTER_LEFT_OUT:-}" ] || echo "$*" >>"$KNASTER_LEFT_OUT"
