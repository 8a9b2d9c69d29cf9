#!/usr/bin/env bash
# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Installs what the test bed and the checks of shell scripts need and this machine lacks. Without root or apt-get it says so
# and leaves it at that: the tests that need these programs are then left out.
set -euo pipefail

missing=()
need() {
  PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null || missing+=("$2")
}
need sshd openssh-server
need ssh openssh-client
need ip iproute2
need nsenter util-linux
need sshfs sshfs
need busybox busybox
need dash dash
need shellcheck shellcheck
need promtool prometheus
need docker-compose docker-compose
need chromium chromium

if [ "${#missing[@]}" -eq 0 ]; then
  exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "not installed, and cannot be from here: ${missing[*]}" >&2
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# The bed starts a server of its own for each node: the machine itself gets none.
RUNLEVEL=1 apt-get install -qq --yes --no-install-recommends "${missing[@]}" >/dev/null
