#!/usr/bin/python

# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

DOCUMENTATION = r"""
module: model_memory_info
short_description: Find out what a model takes in the memory of GPUs
version_added: 0.1.0
author:
  - Knaster contributors (@knaster)
description:
  - Reads the description of a model and the headers of its weights on the node, and says what the model takes on one GPU
    and on several.
  - The facts have the form that a catalog writes as RV(memory) of a model, so that they can be taken over as they are.
  - Only C(config.json) and the headers of the files are read, whatever the size of the weights is.
  - What an engine takes beside the weights and the cache is not part of the result, because it depends on the engine and
    on the GPU. Placement adds it from the engine table.
options:
  path:
    description:
      - The directory with the weights of one model, or a GGUF file. Of a split GGUF file any part does.
    type: path
    required: true
  context:
    description:
      - How many tokens one request may use. The cache is counted for that many.
      - Without it the longest context that the model supports is taken.
    type: int
  gpus:
    description:
      - The numbers of GPUs to count for. A number that the attention heads of the model cannot be split over is left
        out of the result.
    type: list
    elements: int
    default: [1, 2, 4, 8]
  timeout:
    description:
      - How many seconds the search for the weights may take.
    type: float
    default: 20
extends_documentation_fragment:
  - knaster.inventory._attributes
  - knaster.inventory._attributes.info_module
seealso:
  - module: knaster.inventory.model_source_info
    description: Says whether the weights are there and whole.
"""

EXAMPLES = r"""
- name: Find out what a model takes with requests of up to 32768 tokens
  knaster.inventory.model_memory_info:
    path: /models/acme/assistant
    context: 32768
  register: assistant

- name: Show the facts for the catalog
  ansible.builtin.debug:
    var: assistant.memory

- name: Show the least number of GPUs with 20 GiB to spare for the model
  ansible.builtin.debug:
    msg: "{{ assistant.per_gpu | selectattr('total_gib', 'le', 20) | map(attribute='gpus') | first | default('none') }}"
"""

RETURN = r"""
name:
  description:
    - The name of the model, from where its weights lie.
  returned: success
  type: str
  sample: acme/assistant
path:
  description:
    - Where the weights lie. Of a split GGUF file that is the first part.
  returned: success
  type: str
  sample: /models/acme/assistant
format:
  description:
    - The format of the weights, that is V(safetensors), V(gguf) or V(pytorch).
  returned: success
  type: str
  sample: safetensors
architecture:
  description:
    - The kind of model that the files state, and V(null) where they state none.
  returned: success
  type: str
  sample: llama
quantization:
  description:
    - How the weights are stored, as the catalog writes it, and V(null) where it is not known.
  returned: success
  type: str
  sample: bf16
context:
  description:
    - The longest context that the model supports in tokens, and V(null) where it is not known.
  returned: success
  type: int
  sample: 131072
parameters:
  description:
    - How many values the tensors hold by type. Empty where the format does not tell.
  returned: success
  type: dict
  sample:
    BF16: 8030261248
memory:
  description:
    - The facts about memory in the form of the catalog. What is not known is left out.
  returned: success
  type: dict
  contains:
    weights_gib:
      description:
        - The size of the weights in GiB.
      returned: always
      type: float
      sample: 14.96
    kv_bytes_per_token:
      description:
        - The bytes that every token takes in the cache, in 16 bit and over all GPUs.
      returned: when known
      type: int
      sample: 131072
    kv_bytes_per_window_token:
      description:
        - The bytes that a token takes beside that while it is inside the window.
      returned: when the model has a sliding window
      type: int
      sample: 425984
    window:
      description:
        - The length of the window in tokens.
      returned: when the model has a sliding window
      type: int
      sample: 1024
    layers:
      description:
        - The number of layers.
      returned: when known
      type: int
      sample: 32
    attention_heads:
      description:
        - The number of attention heads, which the number of GPUs has to divide.
      returned: when known
      type: int
      sample: 32
    kv_heads:
      description:
        - The number of heads in the cache.
      returned: when known
      type: int
      sample: 8
    head_dim:
      description:
        - The size of one head.
      returned: when known
      type: int
      sample: 128
per_gpu:
  description:
    - What each GPU has to hold when the model is split over so many.
  returned: success
  type: list
  elements: dict
  contains:
    gpus:
      description:
        - The number of GPUs.
      returned: always
      type: int
      sample: 2
    weights_gib:
      description:
        - The share of the weights as loaded, which is two per cent more than the files.
      returned: always
      type: float
      sample: 7.63
    kv_cache_gib:
      description:
        - The share of the cache of one request, and V(null) where it is not known.
      returned: always
      type: float
      sample: 2.0
    total_gib:
      description:
        - The sum of both, and V(null) where the cache is not known.
      returned: always
      type: float
      sample: 9.63
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.knaster.inventory.plugins.module_utils._http import Hub, Limits, SourceError
from ansible_collections.knaster.inventory.plugins.module_utils._models.geometry import memory_facts, per_gpu
from ansible_collections.knaster.inventory.plugins.module_utils._models.headers import read_weights
from ansible_collections.knaster.inventory.plugins.module_utils._models.sources import (
    explain_error,
    find_local_weights,
)
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "context": {"type": "int"},
            "gpus": {"type": "list", "elements": "int", "default": [1, 2, 4, 8]},
            "timeout": {"type": "float", "default": 20},
        },
        supports_check_mode=True,
    )
    path, context, timeout = module.params["path"], module.params["context"], module.params["timeout"]
    if not 0 < timeout <= 3600:
        module.fail_json(msg=f"timeout has to be above 0 and at most 3600 seconds, not {timeout:g}.")
    if context is not None and not 0 < context <= 1 << 31:
        module.fail_json(msg=f"context has to be above 0, not {context}.")
    limits = Limits(total=timeout)
    try:
        weights = find_local_weights(path, limits)
        found = read_weights(weights)
    except SourceError as exc:
        text, remedy = explain_error(exc, hub=Hub(), limits=limits)
        module.fail_json(msg=f"{path}: {text} {remedy}", code=exc.code)
    except ParseError as exc:
        module.fail_json(msg=f"The weights at {path} cannot be read: {exc}.", code=exc.code)
    except OSError as exc:
        module.fail_json(msg=f"The weights at {path} cannot be read: {exc.strerror}.", code="path_unreadable")
    geometry = found.geometry
    module.exit_json(
        changed=False,
        name=weights.name,
        path=weights.path,
        format=weights.format,
        architecture=geometry.architecture,
        quantization=geometry.quantization,
        context=geometry.context,
        parameters=dict(found.values),
        memory=memory_facts(geometry, found.weight_bytes),
        per_gpu=per_gpu(geometry, found.weight_bytes, context=context or geometry.context, cards=module.params["gpus"]),
    )


if __name__ == "__main__":
    main()
