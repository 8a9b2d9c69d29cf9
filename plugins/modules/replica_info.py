#!/usr/bin/python

# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors


from __future__ import annotations

DOCUMENTATION = r"""
module: replica_info
short_description: Query the engines behind the slots
version_added: 0.1.0
author:
  - Knaster contributors (@knaster)
description:
  - Asks the engine of each slot for its health, its models and its metrics, many at once and within limits, and says in which
    state each replica is, how many requests run and wait, and for how long there were no requests.
  - The states are V(ready), V(starting) (it does not answer yet and is within the start-up time of its slot), V(draining) (a node
    of it is being drained) and V(failed). A replica that fails is a result and not a failure of the task.
  - Idle time is the time since the engine's counter of requests last moved. It goes on from run to run through O(previous). A
    counter that began anew begins a new time.
  - vLLM, SGLang, llama.cpp, text-embeddings-inference, infinity and the simulator are understood. An engine whose metrics are
    off, as is the default of SGLang and llama.cpp, is asked without them, and what they would say is V(null).
  - It is asked from the host that the task runs on. No proxy is used and no redirect is followed.
  - Slots and catalog are read on the controller, and relative paths start at the directory that C(ansible-playbook) was
    called in.
options:
  slots:
    description:
      - The slots, as P(knaster.inventory.slot_documents#filter) returns them. Each needs C(slot), its id, and C(engine).
    type: list
    elements: dict
  slots_dir:
    description:
      - The directory of slot files, as M(knaster.inventory.slot_files) writes them.
    type: path
  catalog:
    description:
      - The directories of the catalog that fingerprints are compared with, the later one changing entries of the earlier by name.
      - The word V(shipped) is the catalog that comes with the collection.
      - Without any it is that one, under C(catalog) in the directory that C(ansible-playbook) was called in.
    type: list
    elements: path
    default: []
  previous:
    description:
      - The replicas as they were observed last, from the result of the last run.
    type: list
    elements: dict
    default: []
  draining:
    description:
      - The nodes that are being drained.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - knaster.inventory._asking
  - knaster.inventory._attributes
  - knaster.inventory._attributes.info_module
  - knaster.inventory._attributes.action
attributes:
  action:
    support: full
  async:
    support: none
seealso:
  - module: knaster.inventory.observed_file
    description: Does the same for a whole fleet from files, and keeps what it observed.
  - plugin: knaster.inventory.fleet_summary
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Ask the replicas of one fleet
  knaster.inventory.replica_info:
    slots_dir: knaster/slots
    catalog: [/srv/catalog]
  register: observed
  delegate_to: localhost
  run_once: true

- name: Stop when a replica has failed
  ansible.builtin.assert:
    that: observed.replicas | selectattr('state', 'eq', 'failed') | length == 0
    fail_msg: "{{ observed.replicas | selectattr('state', 'eq', 'failed') | map(attribute='reason') | list }}"
  run_once: true

- name: Ask one engine that a playbook describes itself
  knaster.inventory.replica_info:
    slots:
      - {slot: chat.0.main, role: chat, engine: vllm, endpoint: "http://chat-0:8000", model: qwen3-8b}
    api_key: "{{ lookup('ansible.builtin.env', 'ENGINE_KEY') }}"
"""

RETURN = r"""
replicas:
  description: What was observed, in the order of the slots. What is not known is V(null).
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: The id of the slot.
      returned: always
      type: str
      sample: chat.0.main
    role:
      description: The role of its VM.
      returned: when it is a slot of a role
      type: str
      sample: chat
    replica:
      description: The number of the replica.
      returned: always
      type: int
      sample: 0
    model:
      description: The model that it is to serve, or what it serves where that is open.
      returned: always
      type: str
      sample: qwen3-8b
    node:
      description: The node, of a replica over several nodes the first.
      returned: always
      type: str
      sample: pve-1
    engine:
      description: The engine.
      returned: always
      type: str
      sample: vllm
    endpoint:
      description: Where it was asked.
      returned: always
      type: str
      sample: http://chat-0:8000
    state:
      description: V(ready), V(starting), V(draining) or V(failed).
      returned: always
      type: str
      sample: ready
    reason:
      description: Why it is not ready, or that its router has to load its model first.
      returned: always
      type: str
      sample: nothing answers at its port
    served_model:
      description: What the engine says that it serves. Any name of the slot's model, its path included, is given as the model.
      returned: always
      type: str
      sample: qwen3-8b
    running:
      description: How many requests run.
      returned: always
      type: int
      sample: 3
    waiting:
      description: How many requests wait.
      returned: always
      type: int
      sample: 0
    idle_seconds:
      description: For how many seconds there were no requests, as far as it was seen.
      returned: always
      type: int
      sample: 0
    requests_total:
      description: What the engine counts of its requests. llama.cpp counts tokens.
      returned: always
      type: int
      sample: 4711
    started:
      description: When the process of the engine began, in seconds of the epoch.
      returned: always
      type: int
      sample: 1764400000
    last_moved:
      description: When the counter was last seen to move, in seconds of the epoch.
      returned: always
      type: int
      sample: 1764410000
    first_seen:
      description: Since when it is seen not to answer, in seconds of the epoch.
      returned: always
      type: int
      sample: null
    profile:
      description: The profile of its model that it was made from, as the slot has it.
      returned: always
      type: raw
      sample: {name: l4-tp1, gpu_class: l4}
    fingerprint:
      description:
        - The fingerprint of what the engine that runs was made from. llama.cpp tells it in its tags. Of others it is what it was
          as long as the process is the same, and that of the slot once the process was seen to be started anew.
        - It is V(null) as long as nobody has told it and no start was seen.
      returned: always
      type: str
      sample: 3fa9c0d1e2b34f56
    wanted_fingerprint:
      description: The fingerprint of the slot.
      returned: always
      type: str
      sample: 3fa9c0d1e2b34f56
    drift:
      description:
        - V(current) where the catalog says the same today, V(stale) where it says something else, V(unknown) where no
          fingerprint is known, V(null) where the catalog does not know what it is of.
      returned: always
      type: str
      sample: current
    simulated:
      description: Whether the engine only simulates.
      returned: always
      type: bool
      sample: false
    shards:
      description: The nodes and the indices of the GPUs.
      returned: always
      type: list
      elements: dict
      sample: [{node: pve-1, gpu_indices: [0]}]
empty:
  description: The slots that no model is set for and at which nothing answers.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.knaster.inventory.plugins.module_utils._replicas.observe import (
    ASKING_ARGUMENT_SPEC,
    asking_of,
    find_asking_errors,
    find_slot_errors,
    observe,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "slots": {"type": "list", "elements": "dict"},
            "slots_dir": {"type": "path"},
            "catalog": {"type": "list", "elements": "path", "default": []},
            "previous": {"type": "list", "elements": "dict", "default": []},
            "draining": {"type": "list", "elements": "str", "default": []},
            **ASKING_ARGUMENT_SPEC,
        },
        mutually_exclusive=[("slots", "slots_dir")],
        required_one_of=[("slots", "slots_dir")],
        supports_check_mode=True,
    )
    params = module.params
    # The action reads the directory; here the slots have been read.
    slots = params["slots"] or []
    errors = find_slot_errors(slots) + find_asking_errors(params)
    if errors:
        module.fail_json(msg="No replica was queried. Invalid input: " + " ".join(errors), errors=errors)
    found = observe(slots, previous=params["previous"], draining=params["draining"], asking=asking_of(params))
    module.exit_json(changed=False, replicas=found.replicas, empty=found.empty)


if __name__ == "__main__":
    main()
