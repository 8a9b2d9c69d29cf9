#!/usr/bin/env bash
# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Installs what the test beds and the checks need and this machine lacks. Where it cannot, the checks that need these
# programs are left out (tools/left_out.sh).
set -euo pipefail
cd "$(dirname "$0")/../.."

# A program, or a file by its path, and the Debian package that has it.
needed="sshd openssh-server
ssh openssh-client
ip iproute2
nsenter util-linux
setpriv util-linux
sshfs sshfs
busybox busybox
dash dash
shellcheck shellcheck
promtool prometheus
systemd-analyze systemd
/lib/systemd/systemd systemd
docker-compose docker-compose
chromium chromium
node nodejs
npm npm"

# Prints the packages of all that is missing.
list_missing() {
  while read -r program package; do
    PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null || echo "$package"
  done <<<"$needed" | sort -u
}

mapfile -t missing < <(list_missing)
if [ "${#missing[@]}" -eq 0 ]; then
  exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  tools/left_out.sh "what needs these packages, which cannot be installed from here: ${missing[*]}"
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# The bed starts a server of its own for each node: the machine itself gets none.
RUNLEVEL=1 apt-get install -qq --yes --no-install-recommends "${missing[@]}" >/dev/null
mapfile -t missing < <(list_missing)
[ "${#missing[@]}" -eq 0 ] || tools/left_out.sh "what needs these packages, which are not whole: ${missing[*]}"
