# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The one script that a node runs to say what it is.

The script only prints frames, which ``answers`` reads. It needs a POSIX shell and nothing else, leaves no file behind,
and no command in it can hold it longer than its limit.
"""

from __future__ import annotations

import shlex
import subprocess
import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._parsers.pve_guests import LIST_FUNCTION as LIST_GUESTS
from ansible_collections.knaster.inventory.plugins.module_utils._weights.listing import LIST_FUNCTION

DEFAULT_TIMEOUT = 20
DEFAULT_TOKEN = "knaster"  # noqa: S105

# The script has fewer commands than this, and each of them ends at its limit.
_MOST_COMMANDS = 20

SCRIPT = (
    r"""
# knaster.inventory gather: prints what this node is; changes nothing.
gather() {
  LC_ALL=C
  PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  export LC_ALL PATH
  unset LANGUAGE
  cd /
  # Nothing may hold the session's error stream open when this is over.
  exec 2>/dev/null
  mark="@${KNASTER_TOKEN:-knaster}"
  limit=${KNASTER_TIMEOUT:-20}
  # How many bytes of one command's output are taken, and what its frame says in place of the command.
  most=1048576
  export most
  about=
  # A command gets a session of its own, so that all it starts can be killed at once.
  own=
  command -v setsid >/dev/null && own=setsid
  csv=--format=csv,noheader,nounits
  printf '\n%s begin knaster-gather 1\n' "$mark"

  show hostname /proc/sys/kernel/hostname
  show meminfo /proc/meminfo
  # Of each processor's lines those that are long or only about its speed are left out.
  show cpuinfo /proc/cpuinfo -e '/^flags/d' -e '/^vmx flags/d' -e '/^bugs/d' -e '/^Features/d' -e '/^power m/d' \
    -e '/^bogomips/d' -e '/^cache/d' -e '/^cpu MHz/d' -e '/^address/d' -e '/^clflush/d' -e '/^microcode/d' -e '/^TLB/d' \
    -e '/^fpu/d' -e '/^wp/d' -e '/^cpuid/d' -e '/^apicid/d' -e '/^initial/d' -e '/^stepping/d'
  show mounts /proc/mounts
  probe lscpu lscpu
  probe lsblk lsblk -J -b -d -o NAME,SIZE,ROTA
  [ "$status" = ok ] || block
  pci
  probe nvidia_smi nvidia-smi --query-gpu=index,name,memory.total,compute_cap,driver_version "$csv"
  case $status in
  failed)
    # Drivers before 510 refuse the whole query for the one field that they do not know.
    probe nvidia_smi_short nvidia-smi --query-gpu=index,name,memory.total,driver_version "$csv" ;;
  esac
  case $status in
  ok)
    text=$(probe nvidia_smi_identity nvidia-smi --query-gpu=index,uuid,pci.bus_id,mig.mode.current,memory.reserved "$csv"
      printf %s "$status")
    status=${text##*[!a-z]}
    printf '%s\n' "${text%"$status"}"
    # mig.mode.current and memory.reserved are younger than the rest: the identity must not be lost with them.
    [ "$status" != failed ] ||
      probe nvidia_smi_identity_short nvidia-smi --query-gpu=index,uuid,pci.bus_id "$csv"
    # The slices of a GPU are only in the list of all GPUs.
    case $text in
    *', Enabled,'*) probe nvidia_smi_list nvidia-smi -L ;;
    esac
    [ "$status" != ok ] ||
      probe nvidia_smi_processes nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name "$csv" ;;
  esac
  probe amd_smi amd-smi static --json
  case $status in
  absent | failed)
    probe rocm_smi rocm-smi --showproductname --showbus --showuniqueid --showmeminfo vram --showdriverversion --json ;;
  esac
  probe xpu_smi xpu-smi discovery -j
  # The list of /etc tells whether there is one: a cluster file system that hangs must not be touched here.
  for directory in /etc/[p]ve; do
    [ "$directory" != '/etc/[p]ve' ] || continue
    about=$directory
    probe pve_guests sh -c "$list_guests"'list_guests "$1"' knaster "$directory"
    about=
  done
  weights
  printf '\n%s finish\n' "$mark"
}

# show NAME FILE [SED OPTION...]: a file of the kernel that can be read without waiting.
show() {
  name=$1 file=$2
  shift 2
  printf '\n%s open %s\n' "$mark" "$name"
  if [ -r "$file" ]; then
    sed "$@" -e 's/^/o /' "$file"
    close ok $?
  else
    close absent 1
  fi
}

close() {
  status=$1
  [ "$1" != ok ] || [ "$2" -eq 0 ] || status=failed
  printf '\n%s close %s %s %s\n' "$mark" "$name" "$status" "$2"
}

# probe NAME COMMAND...: runs COMMAND for at most $limit seconds and prints what it printed.
probe() {
  name=$1
  shift
  printf '\n%s open %s %s\n' "$mark" "$name" "${about:-$*}"
  if ! command -v "$1" >/dev/null; then
    close absent 127
    return 0
  fi
  $own sh -c "$worker" knaster "$@" </dev/null &
  job=$!
  (
    trap 'kill -9 $!; exit 9' TERM
    sleep "$limit" &
    wait $!
    trap '' TERM
    drop "$job"
    exit 0
  ) </dev/null >/dev/null &
  dog=$!
  wait "$job"
  rc=$?
  kill "$dog"
  if wait "$dog"; then
    sleep 1
    if alive "$job"; then close stuck "$rc"; else close timeout "$rc"; fi
  else
    close ok "$rc"
  fi
}

# drop PID: kills a job and all it started. Without setsid there is no group to kill, so the tree is walked,
# each process stopped first so that it starts no other.
drop() {
  if [ -n "$own" ]; then
    kill -9 "-$1"
    return
  fi
  kill -STOP "$1"
  for stat in /proc/[0-9]*/stat; do
    read -r line <"$stat" || continue
    set -- "$1" ${line##*) } # state, parent, group
    [ "$3" != "$1" ] || (drop "${line%% *}")
  done
  kill -9 "$1"
}

# alive GROUP: whether a killed group has a process left that is more than dead and waiting to be reaped.
alive() {
  for stat in /proc/[0-9]*/stat; do
    read -r line <"$stat" || continue
    set -- "$1" ${line##*) } # state, parent, group
    [ "$4" != "$1" ] || [ "$2" = Z ] || return 0
  done
  return 1
}

# What runs in the session of its own: the command with both outputs on pipes, each bounded and marked (text
# may end without a line feed: the echo keeps the next line apart). A command that cannot be killed keeps two pipes
# without a reader, and no descriptor of the session.
worker='
exec 9>&1
rc=$(
  {
    {
      { "$@" 2>&8 7>&- 8>&- 9>&-; echo $? >&7; } | head -c "$most" | { sed -e "s/^/o /"; echo; } >&9
    } 8>&1 | head -c 65536 | sed -e "s/^/e /" >&9
  } 7>&1
)
exit "$rc"
'

# block: the disks from sysfs, where there is no lsblk that can say it. Sizes are in sectors of 512 bytes.
block() {
  name=block
  printf '\n%s open block\n' "$mark"
  for d in /sys/block/*; do
    read -r size <"$d/size" || continue
    rota=
    read -r rota <"$d/queue/rotational"
    printf 'o %s %s %s\n' "${d##*/}" "$size" "${rota:--}"
  done
  if [ -d /sys/block ]; then close ok 0; else close absent 1; fi
}

# pci: display controllers and accelerators, and what shares their IOMMU groups.
pci() {
  name=pci
  printf '\n%s open pci\n' "$mark"
  if ! [ -d /sys/bus/pci/devices ]; then
    close absent 1
    return 0
  fi
  for d in /sys/bus/pci/devices/*; do
    class=
    read -r class <"$d/class"
    case $class in
    0x03* | 0x12*) ;;
    *) continue ;;
    esac
    device
    for p in "$d"/iommu_group/devices/*; do
      [ "${p##*/}" != "${d##*/}" ] || continue
      [ -e "$p" ] || continue
      (d=$p && device)
    done
  done
  close ok 0
}

# device: one line for the device in $d.
device() {
  line="o address=${d##*/}"
  for key in class vendor device subsystem_vendor subsystem_device numa_node mem_info_vram_total mem_info_gtt_total \
    current_compute_partition; do
    value=
    read -r value <"$d/$key" && line="$line $key=$value"
  done
  for key in driver iommu_group physfn; do
    [ -L "$d/$key" ] || continue
    # The shell can follow a link without starting a program; readlink is for links that lead nowhere.
    value=$(cd -P "$d/$key" && printf %s "${PWD##*/}") || value=$(readlink "$d/$key")
    line="$line $key=${value##*/}"
  done
  printf '%s\n' "$line"
}

# weights: what lies in the directories of KNASTER_WEIGHT_DIRS, one a line. A share that does not even tell its free space is
# not listed.
weights() {
  number=0
  most=16777216
  fields=$IFS
  IFS='
'
  set -f
  for directory in $KNASTER_WEIGHT_DIRS; do
    # The list is split by now, and what looks for processes needs its patterns.
    IFS=$fields
    set +f
    about=$directory
    probe "storage_$number" df -Pk -- "$directory"
    case $status in
    timeout | stuck) ;;
    *) probe "weights_$number" sh -c "$list_weights"'list_weights "$1"' knaster "$directory" ;;
    esac
    number=$((number + 1))
  done
  set +f
  IFS=$fields
  about=
}

list_guests='"""
    + LIST_GUESTS.replace("'", "'\\''")
    + r"""'

list_weights='"""
    + LIST_FUNCTION.replace("'", "'\\''")
    + r"""'

gather
"""
)


def build_script(
    *, token: str = DEFAULT_TOKEN, timeout: int = DEFAULT_TIMEOUT, weight_dirs: t.Sequence[str] = ()
) -> str:
    """Return the script with its settings in front.

    :param token: letters and digits that mark this run's frames
    :param timeout: seconds that any one command may take
    :param weight_dirs: absolute directories in which models are looked for
    :raises ValueError: when one of them is not an absolute path on one line
    """
    for directory in weight_dirs:
        if not directory.startswith("/") or "\n" in directory:
            raise ValueError(f"{directory!r} is not an absolute path on one line")
    settings = {"TOKEN": token, "TIMEOUT": str(int(timeout)), "WEIGHT_DIRS": "\n".join(weight_dirs)}
    return "".join(f"KNASTER_{key}={shlex.quote(value)}\n" for key, value in settings.items()) + SCRIPT


def run_script(timeout: int = DEFAULT_TIMEOUT, weight_dirs: t.Sequence[str] = ()) -> bytes:
    """Run the script where this runs and return what it printed.

    :raises ValueError: as ``build_script``
    :raises subprocess.TimeoutExpired: when the shell itself does not come to its end
    """
    script = build_script(timeout=timeout, weight_dirs=weight_dirs)
    most = timeout * (_MOST_COMMANDS + 2 * len(weight_dirs))
    with subprocess.Popen(
        ["/bin/sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as shell:
        try:
            return shell.communicate(script.encode(), most)[0]
        except subprocess.TimeoutExpired:
            shell.kill()
            raise
