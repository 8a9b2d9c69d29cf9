#!/usr/bin/env bash
# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# The playbooks from the user's side: the same bytes in any order, a part of the fleet collected again, nodes that do not
# answer, check mode, and bad input that writes nothing.
set -eux
set -o pipefail
root=${ANSIBLE_COLLECTIONS_PATH%%:*}/ansible_collections/knaster/inventory
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export ANSIBLE_NOCOLOR=1

play() { # FOLDER ARGUMENT...: a run in a folder of its own
  mkdir -p "$1"
  (cd "$1" && shift && ansible-playbook "$@")
}

# The same plan from the same fleet: few forks and many, and hosts in another order.
play one -i "$root/examples/rack/inventory.yml" --forks 1 knaster.inventory.site
play two -i "$root/examples/rack/inventory.yml" --forks 16 -e ansible_strategy=linear knaster.inventory.site
cat >turned.yml <<YAML
all:
  vars:
    knaster_catalog: ["$root/catalog", "$root/examples/rack/catalog"]
  hosts:
YAML
for answer in $(find "$root/examples/rack/answers" -name '*.txt' | sort -r); do
  name=$(basename "$answer" .txt)
  {
    echo "    $name:"
    echo "      knaster_answer_file: $answer"
    case $name in
    h100*) echo "      knaster_fabrics: [ib-a]" ;;
    a100*) echo "      knaster_fabrics: [ib-b]" ;;
    esac
    case $name in
    h100* | a100*) echo "      knaster_labels: {tier: training}" ;;
    *) echo "      knaster_labels: {tier: serving}" ;;
    esac
    [ "$name" != ada-8 ] || echo "      knaster_state: cordoned"
  } >>turned.yml
done
cat >>turned.yml <<'YAML'
    localhost:
      ansible_connection: local
      ansible_python_interpreter: "{{ ansible_playbook_python }}"
YAML
play three -i "$work/turned.yml" knaster.inventory.site
cmp one/knaster/plan.yml two/knaster/plan.yml
cmp one/knaster/plan.yml three/knaster/plan.yml
diff -r one/knaster three/knaster

# Again: nothing changes. A part of the fleet: the plan is of all of it.
play one -i "$root/examples/rack/inventory.yml" knaster.inventory.site | tee again.log
if grep -E ' changed=[1-9]' again.log; then exit 1; fi
play one -i "$root/examples/rack/inventory.yml" --limit h100-1 knaster.inventory.site | tee part.log
cmp one/knaster/plan.yml two/knaster/plan.yml
grep h100-1 part.log
for made in plan.yml summary.json fleet.prom report.html gateway/litellm.yaml gateway/llama-swap.yaml prometheus/targets.json; do
  test -s "one/knaster/$made"
done

# What was asked of the engines is told by the summary: here none answers, and asking again changes no more than the summary.
play one -i "$root/examples/rack/inventory.yml" knaster.inventory.observe
play one -i "$root/examples/rack/inventory.yml" knaster.inventory.summary
play one -i "$root/examples/rack/inventory.yml" knaster.inventory.summary | tee again.log
if grep -E ' changed=[1-9]' again.log; then exit 1; fi
play one -i "$root/examples/rack/inventory.yml" knaster.inventory.what_if | tee lost.log
grep -E 'h100-[23]' lost.log
play one -i "$root/examples/rack/inventory.yml" knaster.inventory.fits -e fits_models=qwen3-8b -e fits_context=8192 | tee fits.log
grep -E 'qwen3-8b .* yes ' fits.log

# The machines of the plan as files and commands, without touching anything; again: nothing changes.
play one -i "$root/examples/rack/inventory.yml" -e provision_state=rendered knaster.inventory.provision
test -s one/knaster/vms.yml
play one -i "$root/examples/rack/inventory.yml" -e provision_state=rendered knaster.inventory.provision | tee again.log
if grep -E ' changed=[1-9]' again.log; then exit 1; fi
play one -i "$root/examples/rack/inventory.yml" knaster.inventory.registry
grep '"vmid"' one/knaster/slots/assistant.0.chat.yaml

# A node that does not answer stops nothing and keeps its place.
cat >gone.yml <<'YAML'
all:
  hosts:
    h100-1:
      ansible_host: 127.0.0.1
      ansible_port: 1
YAML
play two -i "$work/turned.yml" -i "$work/gone.yml" -e '{"knaster_answer_file": null}' --limit h100-1 knaster.inventory.inventory || true
python - two/knaster/profiles/h100-1.json <<'PY'
import json, sys
profile = json.load(open(sys.argv[1]))
assert profile["state"] == "unreachable", profile["state"]
assert len(profile["gpus"]) == 8
PY

# Check mode writes nothing, and --diff shows what would change.
play four -i "$root/examples/home_lab/inventory.yml" --check --diff knaster.inventory.inventory
test ! -e four/knaster
play four -i "$root/examples/home_lab/inventory.yml" knaster.inventory.inventory
play four -i "$root/examples/home_lab/inventory.yml" --check --diff knaster.inventory.placement | tee diff.log
test ! -e four/knaster/plan.yml
grep '^+  - {"role": "llm-large"' diff.log

# Bad input: every mistake at once, with its place, and nothing is written.
mkdir -p four/catalog
cat >four/catalog/roles.yaml <<'YAML'
roles:
  - name: chat
    needs: {engine: vllm, min_vram: 20, min_cc: abc}
  - name: nothing
YAML
cat >four/catalog/models.yaml <<'YAML'
models:
  - {name: a, kind: llm, vram_gb: 3, min_cc: 7.5, engines: [vllm], context: 3000, lora: false}
  - {name: a, kind: llm, vram_gb: 3, min_cc: 7.5, engines: [vllm], context: 3000, lora: false}
YAML
if play four -i "$root/examples/home_lab/inventory.yml" -e '{"knaster_catalog": []}' knaster.inventory.placement >bad.log 2>&1; then
  cat bad.log
  exit 1
fi
cat bad.log
for place in roles.yaml:3:27 roles.yaml:3:49 roles.yaml:4: models.yaml:3:; do
  grep -E "^/.*$place|: /.*$place" bad.log
done
if grep Traceback bad.log; then exit 1; fi
test ! -e four/knaster/plan.yml
