#!/usr/bin/python

# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

DOCUMENTATION = r"""
module: model_source_info
short_description: Find out whether the sources of models can be had
version_added: 0.1.0
author:
  - Knaster contributors (@knaster)
description:
  - Says of every source whether it can be had from the node that the task runs on. A source is the path of weights on
    that node, or the id of a repository that a model hub answers for.
  - A path has to hold whole weights. An empty directory, a download that was not finished and a file that only points
    to its content are told apart. A GGUF or safetensors file has to be as long as its own header says.
  - Of a repository the hub is asked for its description and for one file of its weights, because a hub describes gated
    repositories to everybody. The length that is told of this file has to be the one of the description. Nothing is
    downloaded; what was downloaded can be compared with the sizes and digests of RV(sources[].files).
  - A source that cannot be had is a result and not a failure of the task. Every kind of trouble has a code of its own
    and a remedy.
  - Proxies are taken from the environment. The token is sent to the host of the endpoint only, also when the hub sends
    the request on to another one, and is never part of a result.
options:
  sources:
    description:
      - The sources, as the catalog writes them.
      - A source that begins with V(/) or V(~) is a path, either of a directory or of a GGUF file.
      - Anything else is a repository, that is V(org/name), V(org/name@revision), V(org/name:QUANT) or
        V(org/name/file.gguf).
    type: list
    elements: str
    required: true
  endpoint:
    description:
      - The address of the model hub or of a mirror.
      - Without it the environment variable E(HF_ENDPOINT) of the node is used, and without that V(https://huggingface.co).
    type: str
  token:
    description:
      - A token for the hub. Prefer O(token_path), which keeps it out of playbooks and process lists.
      - Without O(token) and O(token_path) the places are tried that the hub's own tools use, that is the environment
        variables E(HF_TOKEN) and E(HUGGING_FACE_HUB_TOKEN), and the file that they name or that a login left behind.
    type: str
  token_path:
    description:
      - A file on the node that holds nothing but a token.
    type: path
  ca_path:
    description:
      - A file on the node with the certificates of the authorities to trust instead of those of the system.
    type: path
  validate_certs:
    description:
      - Whether the certificate of the hub has to be valid.
    type: bool
    default: true
  connect_timeout:
    description:
      - How many seconds the hub may take to accept a connection.
    type: float
    default: 5
  timeout:
    description:
      - How many seconds one source may take in all.
    type: float
    default: 20
  parallel:
    description:
      - How many sources are asked for at the same time, from 1 to 32.
    type: int
    default: 4
notes:
  - Each source is asked for once, however often it is given. An endpoint that is down, slow or refuses further requests is
    asked no more once that is known, and one that is down from the start is asked once. The other sources of that endpoint get
    the same answer.
extends_documentation_fragment:
  - knaster.inventory._attributes
  - knaster.inventory._attributes.info_module
seealso:
  - module: knaster.inventory.node_facts
    description: Lists the weights that a node holds.
"""

EXAMPLES = r"""
- name: Find out whether the models of the catalog can be had
  knaster.inventory.model_source_info:
    sources:
      - Qwen/Qwen3-8B
      - Qwen/Qwen3-8B-GGUF:Q4_K_M
      - /models/acme/assistant
  register: sources

- name: Stop before anything is provisioned for a model that cannot be had
  ansible.builtin.assert:
    that: sources.all_available
    fail_msg: "{{ sources.sources | rejectattr('code', 'eq', 'ok') | map(attribute='remedy') | unique | list }}"

- name: Fetch the files of one of them, each compared with the digest that the hub has of it
  ansible.builtin.get_url:
    url: "{{ sources.endpoint }}/{{ source.name }}/resolve/{{ source.revision }}/{{ item.name }}"
    dest: /models/{{ item.name }}
    mode: "0644"
    checksum: sha256:{{ item.sha256 }}
  loop: "{{ source.files }}"
  vars:
    source: "{{ sources.sources[1] }}"

- name: Ask a mirror in the own network
  knaster.inventory.model_source_info:
    sources: [meta-llama/Llama-3.3-70B-Instruct@main]
    endpoint: https://mirror.example.com
    token_path: /root/.config/hub-token
    ca_path: /etc/ssl/certs/home-ca.pem
"""

RETURN = r"""
all_available:
  description:
    - Whether every source can be had. A source whose state is not known counts as one that cannot.
  returned: success
  type: bool
  sample: false
endpoint:
  description:
    - The address of the hub that was asked.
  returned: success
  type: str
  sample: https://huggingface.co
sources:
  description:
    - What is known of each source, in the order that they were given in.
  returned: success
  type: list
  elements: dict
  contains:
    source:
      description:
        - The source as it was given.
      returned: always
      type: str
      sample: Qwen/Qwen3-8B
    kind:
      description:
        - V(path) or V(hub), and V(null) for what is neither.
      returned: always
      type: str
      sample: hub
    available:
      description:
        - Whether the source can be had, and V(null) where that is not known.
      returned: always
      type: bool
      sample: true
    code:
      description:
        - V(ok), or what is the matter.
        - Of a path that is V(path_missing), V(path_unreadable), V(path_timeout), V(no_weights) or V(weights_partial).
        - Of a repository that is V(not_found), V(revision_not_found), V(file_not_found), V(no_weights), V(size_differs),
          V(gated), V(forbidden), V(disabled), V(token_needed), V(token_refused) or V(token_unusable).
        - Of the hub that is V(endpoint_malformed), V(dns_failure), V(connection_refused), V(unreachable),
          V(connect_timeout), V(timeout), V(connection_lost), V(tls_failure), V(proxy_failure), V(rate_limited),
          V(server_error), V(http_error), V(redirect_refused), V(redirect_loop), V(answer_too_large), V(not_json) or
          V(bad_answer).
        - What is neither a path nor a repository is V(malformed).
      returned: always
      type: str
      sample: ok
    text:
      description:
        - The result, as a sentence.
      returned: always
      type: str
      sample: The source can be had.
    remedy:
      description:
        - What to do about it, and empty where nothing has to be done.
      returned: always
      type: str
      sample: ""
    name:
      description:
        - The name of the repository or of the weights. It differs from the source where a repository was renamed.
      returned: when known
      type: str
      sample: Qwen/Qwen3-8B
    revision:
      description:
        - The commit that the source means now.
      returned: when known
      type: str
      sample: b968826d9c46dd6066d109eabc6255188de91218
    size_gb:
      description:
        - The size of the weights in GB of 10^9 bytes.
      returned: when known
      type: float
      sample: 16
    size_bytes:
      description:
        - The size of the weights in bytes.
      returned: when known
      type: int
      sample: 16381470720
    files:
      description:
        - The files of weights that are meant, as the hub describes them.
      returned: when the source is one of a hub and can be had
      type: list
      elements: dict
      contains:
        name:
          description:
            - The name of the file in the repository.
          returned: always
          type: str
          sample: Qwen3-8B-Q4_K_M.gguf
        size_bytes:
          description:
            - The size of the file in bytes, and V(null) where the hub does not say it.
          returned: always
          type: int
          sample: 5027783488
        sha256:
          description:
            - The SHA-256 of the content, and V(null) where the hub does not say it.
          returned: always
          type: str
          sample: d98cdcbd03e17ce47681435b5150e34c1417f50b5c0019dd560e4882c5745785
    gated:
      description:
        - Whether the hub asks for conditions to be accepted first.
      returned: when a hub was asked
      type: bool
      sample: false
    license:
      description:
        - The licence that the repository states.
      returned: when known
      type: str
      sample: apache-2.0
    retry_after:
      description:
        - After how many seconds the hub wants to be asked again.
      returned: when the hub says so
      type: int
      sample: 60
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.knaster.inventory.plugins.module_utils._http import (
    DEFAULT_ENDPOINT,
    Hub,
    Limits,
    SourceError,
    shown_address,
)
from ansible_collections.knaster.inventory.plugins.module_utils._models.sources import (
    check_sources,
    failed_sources,
    find_token,
    verdict_to_plain,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "sources": {"type": "list", "elements": "str", "required": True},
            "endpoint": {"type": "str"},
            "token": {"type": "str", "no_log": True},
            "token_path": {"type": "path"},
            "ca_path": {"type": "path"},
            "validate_certs": {"type": "bool", "default": True},
            "connect_timeout": {"type": "float", "default": 5},
            "timeout": {"type": "float", "default": 20},
            "parallel": {"type": "int", "default": 4},
        },
        mutually_exclusive=[("token", "token_path")],
        supports_check_mode=True,
    )
    params = module.params
    for option in ("connect_timeout", "timeout"):
        if not 0 < params[option] <= 3600:
            module.fail_json(msg=f"{option} has to be above 0 and at most 3600 seconds, not {params[option]:g}.")
    if not 1 <= params["parallel"] <= 32:
        module.fail_json(msg=f"parallel has to be from 1 to 32, not {params['parallel']}.")
    limits = Limits(connect=params["connect_timeout"], total=params["timeout"])
    endpoint = params["endpoint"] or os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT
    hub = Hub(endpoint=endpoint, ca_path=params["ca_path"], verify=params["validate_certs"])
    try:
        token = params["token"] or find_token(os.environ, params["token_path"])
    except SourceError as exc:
        verdicts = failed_sources(params["sources"], exc, hub=hub, limits=limits)
    else:
        if token:
            module.no_log_values.add(token)
        hub = Hub(endpoint=endpoint, token=token, ca_path=params["ca_path"], verify=params["validate_certs"])
        verdicts = check_sources(params["sources"], hub=hub, limits=limits, parallel=params["parallel"])
    module.exit_json(
        changed=False,
        all_available=all(verdict.available for verdict in verdicts),
        endpoint=shown_address(endpoint),
        sources=[verdict_to_plain(verdict) for verdict in verdicts],
    )


if __name__ == "__main__":
    main()
