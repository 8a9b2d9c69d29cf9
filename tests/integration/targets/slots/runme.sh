#!/usr/bin/env bash
# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Slots as an inventory, from the user's side: the machines of a role as the hosts of a play, the cache, hostile values, and
# slots that cannot be read.
set -eux
set -o pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export ANSIBLE_NOCOLOR=1 ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED=true

cat >write.yml <<'YAML'
- name: Write slots
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Write slots
      knaster.inventory.slot_files:
        path: knaster/slots
        plan: plan.yml
        catalog: [.]
YAML
cat >roles.yaml <<'YAML'
roles: []
YAML
cat >plan.yml <<'YAML'
version: 1
assignments:
  - {role: chat-large, replica: 0, node: n1, gpu_index: 0, gpu: {gpu_class: l4}, engine: vllm, models_fitting: [], slots: [a, b], vm: chat-0, fingerprint: "0000000000000000", why: {rule: largest, text: it fits}}
  - {role: "{{ lookup('pipe', 'touch owned') }}", replica: 0, node: "{{ 7 * 7 }}", engine: tei, models_fitting: [], slots: [x], vm: odd, fingerprint: "0000000000000000", why: {rule: largest, text: it fits}}
replicas:
  - id: big-0
    model: big
    replica: 0
    engine: vllm
    fabric: ib-a
    profile: two
    fingerprint: "0000000000000000"
    shards:
      - {rank: 0, node: n1, gpu_indices: [0], gpus: [{}], vm: big-0-0, slots: [big], weights: {state: unknown}}
      - {rank: 1, node: n2, gpu_indices: [0], gpus: [{}], vm: big-0-1, weights: {state: unknown}}
    why: {rule: fabric, text: it fits}
inputs: {nodes: "0000000000000000", roles: "0000000000000000", models: "0000000000000000"}
unplaced: []
on_demand: []
"off": []
nodes: []
ledger: []
YAML
ansible-playbook -i localhost, -c local write.yml

cat >slots.yml <<'YAML'
plugin: knaster.inventory.slots
compose: {connection_of: "'local'"}
keyed_groups:
  - {key: knaster_slots | map(attribute='engine') | unique, prefix: with}
YAML
ansible-inventory -i slots.yml --graph | tee graph.log
for line in '@role_chat_large' '@model_big' '@node_n2' '@fabric_ib_a' '@engine_tei' '@with_vllm' big-0-1 chat-0 odd; do
  grep -F -- "--$line" graph.log
done

cat >use.yml <<'YAML'
- name: Use the machines of a role
  hosts: role_chat_large:engine_tei
  gather_facts: false
  tasks:
    - name: Look at what is known
      ansible.builtin.assert:
        that:
          - ansible_host == inventory_hostname
          - connection_of == 'local'
          - knaster_slots | length == (2 if inventory_hostname == 'chat-0' else 1)
          - knaster_node == 'n1' or knaster_node | length == 11
          - knaster_slots[0].node == knaster_node
    - name: Say it
      ansible.builtin.debug:
        msg: "{{ knaster_slots[0].role }} on {{ knaster_node }}"
YAML
ansible-playbook -i slots.yml -c local use.yml | tee use.log
grep -F '{{ 7 * 7 }}' use.log
test ! -e owned

# From the cache, when there is nothing else any more.
cat >cached.slots.yml <<YAML
plugin: knaster.inventory.slots
cache: true
cache_plugin: ansible.builtin.jsonfile
cache_connection: $work/cache
YAML
ansible-inventory -i cached.slots.yml --list >one.json
mv knaster/slots knaster/away
ansible-inventory -i cached.slots.yml --list >two.json
cmp one.json two.json
if ansible-inventory -i slots.yml --list 2>error.log; then exit 1; fi
grep 'write the slots first' error.log
mv knaster/away knaster/slots

# Files that are no slots, or are broken.
echo 'some: thing' >knaster/slots/other.yaml
ansible-inventory -i slots.yml --list >three.json
echo 'managed_by: knaster.inventory' >knaster/slots/broken.yaml
if ansible-inventory -i slots.yml --list 2>error.log; then exit 1; fi
grep 'broken.yaml.*: slot: is required' error.log
if grep Traceback error.log; then exit 1; fi
