#!/usr/bin/python

# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

DOCUMENTATION = r"""
module: model_memory_info
short_description: Find out what a model takes in the memory of GPUs, and which GPUs carry it
version_added: 0.1.0
author:
  - Knaster contributors (@knaster)
description:
  - Reads how a model is built, and says what it takes on one GPU and on several, and which classes of GPUs carry it with
    the context, the number of requests and the engine that are asked for.
  - The model is a path on the node (O(path)), a repository of a model hub (O(source)) or a set of facts (O(memory)).
  - Only C(config.json), the index and the headers of the files are read, whatever the size of the weights is. Of a
    repository these come by requests for parts of files. Nothing is downloaded and nothing is written.
  - The facts have the form that a catalog writes as RV(memory) of a model, so that they can be taken over as they are.
  - Every figure is a sum of terms, and each term says where it comes from. What is not known is not counted as nothing.
    The sum is a lower bound then, and says so.
options:
  path:
    description:
      - The directory with the weights of one model, or a GGUF file. Of a split GGUF file any part does.
      - One of O(path), O(source) and O(memory) is needed.
    type: path
  source:
    description:
      - A repository of a model hub, that is V(org/name), V(org/name@revision), V(org/name:QUANT) or
        V(org/name/file.gguf), as a catalog writes it. A path does as well.
    type: str
  memory:
    description:
      - The facts of a model in the form of a catalog, for a model whose files are not at hand.
    type: dict
  quantization:
    description:
      - How the weights of O(memory) are stored, as a catalog writes it.
    type: str
  context:
    description:
      - How many tokens one request may use. The cache is counted for that many.
      - Without it the longest context that the model supports is taken.
    type: int
  sequences:
    description:
      - How many requests of O(context) tokens have to find room at once.
    type: int
    default: 1
  kv_dtype:
    description:
      - The type of the cache as the engine calls it, such as V(fp8) or V(q8_0). Without it the cache has 16 bit.
    type: str
  engine:
    description:
      - The engine that serves the model. Without it that is V(llamacpp) for GGUF files and V(vllm) for others.
    type: str
    choices: [vllm, sglang, llamacpp, ollama, tei, infinity]
  engine_version:
    description:
      - The version of the engine, because its constants and its way to count differ. Without it the newest is taken.
    type: str
  args:
    description:
      - Further arguments of the engine. Those that change memory are counted. Those that do so in a way that is not
        computed, and those of which nothing is known, are named in RV(fits[].warnings).
    type: list
    elements: str
    default: []
  gpu_classes:
    description:
      - The classes of GPUs to answer for, as node profiles and catalogs name them. V(all) stands for every class that is
        known.
    type: list
    elements: str
    default: []
  gpus:
    description:
      - The numbers of GPUs to count for. A number that the engine cannot spread the model over is left out of the
        result.
    type: list
    elements: int
    default: [1, 2, 4, 8]
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
  timeout:
    description:
      - How many seconds the search for the weights, or reading from the hub, may take.
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

- name: Ask which GPUs carry Qwen3-32B with 16 requests of 32768 tokens and a cache in 8 bit
  knaster.inventory.model_memory_info:
    source: Qwen/Qwen3-32B
    context: 32768
    sequences: 16
    kv_dtype: fp8
    gpu_classes: [rtx-4090, l40s, h100-sxm5-80gb]
  register: qwen

- name: Show the answer as a table
  ansible.builtin.debug:
    var: qwen.table

- name: Ask the same of a model of which only the facts are known
  knaster.inventory.model_memory_info:
    memory: {weights_gib: 14.96, kv_bytes_per_token: 131072, layers: 32, attention_heads: 32, kv_heads: 8, head_dim: 128}
    quantization: bf16
    context: 8192
    gpu_classes: [all]
"""

RETURN = r"""
name:
  description:
    - The name of the model, from where its weights lie or as the hub has it, and V(null) where only facts were given.
  returned: success
  type: str
  sample: acme/assistant
path:
  description:
    - Where the weights lie, and V(null) where that is no path. Of a split GGUF file that is the first part.
  returned: success
  type: str
  sample: /models/acme/assistant
revision:
  description:
    - The commit of the repository that was read, and V(null) where none was.
  returned: success
  type: str
  sample: b968826d9c46dd6066d109eabc6255188de91218
format:
  description:
    - The format of the weights, that is V(safetensors), V(gguf) or V(pytorch), and V(null) where only facts were given.
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
    - How many values the tensors hold by type. Empty where the format, or an index, does not tell.
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
    full_kv_heads:
      description:
        - The number of heads in the cache of the layers that see every token.
      returned: when it is another than that of the other layers
      type: int
      sample: 1
    head_dim:
      description:
        - The size of one head.
      returned: when known
      type: int
      sample: 128
    index_bytes_per_token:
      description:
        - The bytes that a token takes in the index of sparse attention, over all layers.
      returned: when the model has one
      type: int
      sample: 8052
    state_bytes:
      description:
        - The bytes of the recurrent state of one request, in 32 bit and over all GPUs.
      returned: when the model has one and its size is known
      type: int
      sample: 156893184
    vocab:
      description:
        - The number of tokens in the vocabulary.
      returned: when known
      type: int
      sample: 128256
    hidden:
      description:
        - The width of the model between its layers.
      returned: when known
      type: int
      sample: 4096
    intermediate:
      description:
        - The width of the model inside its layers.
      returned: when known
      type: int
      sample: 14336
engine:
  description:
    - The engine that was counted for.
  returned: success
  type: str
  sample: vllm
per_gpu:
  description:
    - What each GPU has to hold of weights and cache when the model is split over so many.
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
        - The share of the weights as loaded, which can be more than the files hold, and V(null) where it is not known.
      returned: always
      type: float
      sample: 7.63
    kv_cache_gib:
      description:
        - The share of the cache of all O(sequences), and V(null) where it is not known.
      returned: always
      type: float
      sample: 2.0
    total_gib:
      description:
        - The sum of both, and V(null) where one of them is not known.
      returned: always
      type: float
      sample: 9.63
fits:
  description:
    - The answer for each of O(gpu_classes), in their order. It is about memory. Whether an engine runs on a GPU at all is
      a matter of its compute capability, which a catalog checks.
  returned: success
  type: list
  elements: dict
  contains:
    gpu_class:
      description:
        - The class of GPUs.
      returned: always
      type: str
      sample: l40s
    gpus:
      description:
        - The least of O(gpus) that carries the model, and where none does the one that comes nearest to it. V(null)
          where the memory of the class is not known, or where the engine can use none of them.
      returned: always
      type: int
      sample: 2
    fits:
      description:
        - Whether the model fits, and V(null) where what is known fits and something is not known.
      returned: always
      type: bool
      sample: true
    bound:
      description:
        - V(exact), or V(lower) where the model can take more than RV(fits[].needed_gib).
      returned: when gpus is not null
      type: str
      sample: exact
    usable_gib:
      description:
        - What the engine may take of each GPU.
      returned: when gpus is not null
      type: float
      sample: 40.84
    needed_gib:
      description:
        - What the model takes of each GPU, which is the sum of RV(fits[].terms).
      returned: when gpus is not null
      type: float
      sample: 36.65
    free_gib:
      description:
        - The difference of both. Below zero it is what lacks.
      returned: when gpus is not null
      type: float
      sample: 4.19
    largest_context:
      description:
        - How many tokens each of O(sequences) requests could use, and V(null) where it is not known.
      returned: when gpus is not null
      type: int
      sample: 40960
    most_sequences:
      description:
        - How many requests of O(context) tokens would find room at once, and V(null) where it is not known.
      returned: when gpus is not null
      type: int
      sample: 20
    cache_tokens:
      description:
        - How many tokens the cache holds where requests are as long as O(context), and V(null) where it is not known.
      returned: when gpus is not null
      type: int
      sample: 665000
    terms:
      description:
        - What the model takes of each GPU, term by term.
      returned: when gpus is not null
      type: list
      elements: dict
      contains:
        name:
          description:
            - What it is, such as V(weights), V(kv_cache), V(state), V(activation) or V(runtime).
          returned: always
          type: str
          sample: kv_cache
        gib:
          description:
            - Its size, and V(null) where it is not known.
          returned: always
          type: float
          sample: 1.0
        source:
          description:
            - Whether it was V(computed) from facts, V(stated) by somebody or V(measured), is a V(default) of the engine,
              or V(unknown).
          returned: always
          type: str
          sample: computed
        note:
          description:
            - How it comes about.
          returned: always
          type: str
          sample: 1 x 8192 tokens, 16 bit
    warnings:
      description:
        - The arguments that change memory in a way that is not computed, and those of which nothing is known.
      returned: when gpus is not null
      type: list
      elements: str
      sample: []
table:
  description:
    - RV(fits) as lines of text. Empty without O(gpu_classes).
  returned: success
  type: list
  elements: str
  sample:
    - GPU   GPUs  fits  free GiB  largest context  sequences
    - l40s     2   yes      4.19           40,960         20
"""

import difflib
import os
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.knaster.inventory.plugins.module_utils import _gpu_table
from ansible_collections.knaster.inventory.plugins.module_utils._http import DEFAULT_ENDPOINT, Hub, Limits, SourceError
from ansible_collections.knaster.inventory.plugins.module_utils._memory.ask import (
    Question,
    answer_to_plain,
    ask,
    gpu_of_class,
    rank_rows,
    table_rows,
)
from ansible_collections.knaster.inventory.plugins.module_utils._memory.engines import engine_memory
from ansible_collections.knaster.inventory.plugins.module_utils._memory.facts import FactError, read_facts
from ansible_collections.knaster.inventory.plugins.module_utils._memory.run import CACHE_SHARES, cache_arguments
from ansible_collections.knaster.inventory.plugins.module_utils._models.geometry import facts_of, memory_facts
from ansible_collections.knaster.inventory.plugins.module_utils._models.headers import read_weights
from ansible_collections.knaster.inventory.plugins.module_utils._models.remote import MAX_BYTES, read_hub
from ansible_collections.knaster.inventory.plugins.module_utils._models.sources import (
    explain_error,
    find_local_weights,
    find_token,
    parse_source,
)
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError

_ENGINES = ["vllm", "sglang", "llamacpp", "ollama", "tei", "infinity"]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path"},
            "source": {"type": "str"},
            "memory": {"type": "dict"},
            "quantization": {"type": "str"},
            "context": {"type": "int"},
            "sequences": {"type": "int", "default": 1},
            "kv_dtype": {"type": "str"},
            "engine": {"type": "str", "choices": _ENGINES},
            "engine_version": {"type": "str"},
            "args": {"type": "list", "elements": "str", "default": []},
            "gpu_classes": {"type": "list", "elements": "str", "default": []},
            "gpus": {"type": "list", "elements": "int", "default": [1, 2, 4, 8]},
            "endpoint": {"type": "str"},
            "token": {"type": "str", "no_log": True},
            "token_path": {"type": "path"},
            "ca_path": {"type": "path"},
            "validate_certs": {"type": "bool", "default": True},
            "timeout": {"type": "float", "default": 20},
        },
        mutually_exclusive=[("path", "source", "memory"), ("token", "token_path")],
        required_one_of=[("path", "source", "memory")],
        supports_check_mode=True,
    )
    check_params(module)
    model = read_model(module)
    params = module.params
    engine = params["engine"] or ("llamacpp" if model["quantization"] == "gguf" else "vllm")
    args, env = cache_arguments(engine, params["kv_dtype"])
    question = Question(
        facts=model.pop("facts"),
        engine=engine_memory(engine, params["engine_version"]),
        context=params["context"] or model["context"],
        sequences=params["sequences"],
        args=(*args, *params["args"]),
        env=env,
        quantization=model["quantization"],
        longest=model["context"],
        generates=model.pop("generates"),
        counts=tuple(params["gpus"]),
    )
    fits = fit_classes(module, question)
    module.exit_json(
        changed=False,
        engine=engine,
        per_gpu=rank_rows(question),
        fits=fits,
        table=table_rows(fits) if fits else [],
        **model,
    )


def check_params(module: AnsibleModule) -> None:
    """End the module where a number is none, or a type of cache is not known."""
    params = module.params
    if not 0 < params["timeout"] <= 3600:
        module.fail_json(msg=f"timeout has to be above 0 and at most 3600 seconds, not {params['timeout']:g}.")
    for name, most in (("context", 1 << 31), ("sequences", 1 << 16)):
        if params[name] is not None and not 0 < params[name] <= most:
            module.fail_json(msg=f"{name} has to be above 0 and at most {most}, not {params[name]}.")
    if params["kv_dtype"] and params["kv_dtype"].lower() not in CACHE_SHARES:
        known = ", ".join(sorted(CACHE_SHARES))
        module.fail_json(msg=f"kv_dtype has to be one of {known}, not {params['kv_dtype']}.")


def read_model(module: AnsibleModule) -> dict[str, t.Any]:
    """Return what is known of the model, whichever way it was given."""
    params = module.params
    if params["memory"] is not None:
        try:
            facts = read_facts(params["memory"])
        except FactError as exc:
            module.fail_json(msg=f"memory: {exc}.", code="facts")
        return {
            "name": None, "path": None, "revision": None, "format": None, "architecture": None,
            "quantization": params["quantization"], "context": None, "parameters": {}, "memory": params["memory"],
            "facts": facts, "generates": True,
        }  # fmt: skip
    limits = Limits(total=params["timeout"], max_bytes=MAX_BYTES)
    hub = Hub()
    where = params["path"] or params["source"]
    try:
        source = None if params["path"] else parse_source(params["source"])
        local: t.Any = params["path"] if source is None else source.path
        if source is None or local is not None:
            weights = find_local_weights(local, limits)
            name, path, form, revision = weights.name, weights.path, weights.format, None
            found = read_weights(weights)
        else:
            hub = hub_of(module)
            remote = read_hub(source, hub, limits)
            name, path, form, revision = remote.name, None, remote.format, remote.revision
            found = remote.found
    except SourceError as exc:
        text, remedy = explain_error(exc, hub=hub, limits=limits)
        module.fail_json(msg=f"{where}: {text} {remedy}", code=exc.code)
    except ParseError as exc:
        module.fail_json(msg=f"The weights at {where} cannot be read: {exc}.", code=exc.code)
    except OSError as exc:
        module.fail_json(msg=f"The weights at {where} cannot be read: {exc.strerror}.", code="path_unreadable")
    geometry = found.geometry
    return {
        "name": name,
        "path": path,
        "revision": revision,
        "format": form,
        "architecture": geometry.architecture,
        "quantization": geometry.quantization,
        "context": geometry.context,
        "parameters": dict(found.values),
        "memory": memory_facts(geometry, found.weight_bytes),
        "facts": facts_of(geometry, found.weight_bytes),
        "generates": geometry.cached,
    }


def hub_of(module: AnsibleModule) -> Hub:
    """Return the hub to ask, with the token that is known for it."""
    params = module.params
    token = params["token"] or find_token(os.environ, params["token_path"])
    if token:
        module.no_log_values.add(token)
    return Hub(
        endpoint=params["endpoint"] or os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT,
        token=token,
        ca_path=params["ca_path"],
        verify=params["validate_certs"],
    )


def fit_classes(module: AnsibleModule, question: Question) -> list[dict[str, t.Any]]:
    """Return the answer for each class of GPUs, in the order that they were asked for."""
    known = {model.gpu_class: model for model in _gpu_table.models()}
    wanted = list(known) if "all" in module.params["gpu_classes"] else module.params["gpu_classes"]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        near = {name: difflib.get_close_matches(name, known, 1) for name in unknown}
        hints = [f"{name} (did you mean {found[0]}?)" if found else name for name, found in near.items()]
        module.fail_json(
            msg=f"gpu_classes has classes of which nothing is known: {', '.join(hints)}.", code="gpu_class"
        )
    fits = []
    for name in wanted:
        gpu = gpu_of_class(known[name])
        answer = ask(question, gpu) if gpu else None
        plain = {"gpus": None, "fits": None} if answer is None else answer_to_plain(answer)
        fits.append({"gpu_class": name, **plain})
    return fits


if __name__ == "__main__":
    main()
