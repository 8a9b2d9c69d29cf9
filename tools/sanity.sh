#!/usr/bin/env bash
# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Runs ansible-test on the tracked files: tools/sanity.sh sanity | integration [OPTION...]
# It wants a collection tree that is not a link, and an installer of pip for its virtual environments.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=$HOME/.ansible/test/cache
pip=$(.venv/bin/python - <<'PY'
import inspect, re
import ansible_test._internal.python_requirements as requirements
print(re.search(r"get_pip_([0-9_]+)|pip=.([0-9.]+)", inspect.getsource(requirements)).group(0).split("=")[-1].strip("'\"").removeprefix("get_pip_").replace(".", "_"))
PY
)
mkdir -p "$cache"
[ -e "$cache/get_pip_$pip.py" ] || cp tests/peers/get_pip.py "$cache/get_pip_$pip.py"
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/ansible_collections/knaster/inventory"
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
  [ ! -e "$file" ] || cp --parents -t "$tree/ansible_collections/knaster/inventory" "$file"
done
case " $* " in
*" --python "*) ;;
*) set -- "$@" --python "$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')" ;;
esac
PATH=$PWD/.venv/bin:$PATH
cd "$tree/ansible_collections/knaster/inventory"
ansible-test "$@"
