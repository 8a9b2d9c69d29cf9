# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What of a profile may be written down: what is known to be harmless. All else is only ever named, never told.

``${NAME}`` as the value of the variable ``NAME`` says that the engine's machine knows it, and so does
``${KNASTER_ARG_OPTION}`` in the place of a value of the option ``--option``.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.quote import EnvRef
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.secrets import has_secret_option

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.quote import Word

# Variables of engines and of what they are built on: switches, sizes, devices, directories. Of a family all, as long as
# no part of the name speaks of secrets, of people or of places in the net.
_FAMILIES = re.compile(
    r"(?:CUDA|CUBLAS|CUDNN|NCCL|RCCL|NVIDIA|OMP|MKL|KMP|GOMP|OPENBLAS|NUMEXPR|GGML|LLAMA_ARG|VLLM|SGLANG|SGL|TORCH|TORCHINDUCTOR"
    r"|TORCHDYNAMO|PYTORCH|HIP|HSA|ROCR|ROCM|MIOPEN|RAY|TRITON|FLASHINFER|FLASH_ATTENTION|UCX|GLOO|ZE|SYCL|ONEAPI|XLA|ORT)"
    r"_(?P<rest>[A-Z0-9_]+)",
    re.ASCII,
)
_DELICATE = re.compile(
    r"KEY|TOKEN|SECRET|PASS|PWD|CRED|AUTH|BEARER|COOKIE|PRIVATE|CERT|HEADER|URL|URI|DSN|PROXY|HOOK|ACCOUNT|USER|LOGIN|SESSION"
    r"|ENDPOINT|EMAIL|LICENSE|(?:^|_)(?:PATS?|PINS?|PW|SALT|HASH|OTP|CODES?|CONN|HOSTS?|ADDR|SAS|JWT|SSH|GPG|PGP|SIG|ARGS|OPTS|CMD)(?:_|$)"
)
_ENV_NAMES = """
    HF_HOME HF_HUB_CACHE HF_HUB_OFFLINE HF_HUB_ENABLE_HF_TRANSFER HF_HUB_DISABLE_XET HF_HUB_DISABLE_TELEMETRY
    HF_XET_HIGH_PERFORMANCE HF_HUB_DOWNLOAD_TIMEOUT HF_HUB_ETAG_TIMEOUT HF_DATASETS_OFFLINE HUGGINGFACE_HUB_CACHE
    TRANSFORMERS_CACHE TRANSFORMERS_OFFLINE TRANSFORMERS_VERBOSITY TOKENIZERS_PARALLELISM LLAMA_CACHE XDG_CACHE_HOME
    TMPDIR HOME PATH LD_LIBRARY_PATH LD_PRELOAD PYTHONPATH PYTHONUNBUFFERED PYTHONHASHSEED LANG LC_ALL TZ RUST_LOG
    RUST_BACKTRACE LOG_LEVEL DO_NOT_TRACK GPU_DEVICE_ORDINAL HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES
    CUDA_VISIBLE_DEVICES ZE_AFFINITY_MASK MALLOC_ARENA_MAX SAFETENSORS_FAST_GPU LLAMA_ARG_CACHE_TYPE_K
    LLAMA_ARG_CACHE_TYPE_V LLAMA_ARG_HF_REPO LLAMA_ARG_HF_FILE INFINITY_BATCH_SIZE INFINITY_DTYPE INFINITY_ENGINE
    VLLM_ALLOW_RUNTIME_LORA_UPDATING VLLM_HOST_IP VLLM_USE_MODELSCOPE VLLM_LOGGING_LEVEL MAX_JOBS OMP_NUM_THREADS
    NO_COLOR TERM
"""
_HARMLESS_ENV = frozenset(_ENV_NAMES.split())
# Options of the engines that are started here (vLLM 0.33, SGLang 0.5.23, llama.cpp of October 2026,
# text-embeddings-inference 1.9.3, infinity 0.0.78) whose values are sizes, switches, names of models or paths.
_OPTIONS = """
    --api-key-file --ssl-keyfile --ssl-key-file --ssl-certfile --ssl-cert-file --ssl-ca-certs
    --aggregate-engine-logging --all2all-backend --allowed-local-media-path --api-server-count --async-scheduling
    --attention-backend --attention-config --block-size --calculate-kv-scales --chat-template
    --chat-template-content-format --code-revision --compilation-config --config-format --cpu-offload-gb
    --cudagraph-capture-sizes --data-parallel-backend --data-parallel-size --data-parallel-size-local
    --data-parallel-rank --dcp --decode-context-parallel-size --default-chat-template-kwargs --default-mm-loras
    --disable-cascade-attn --disable-custom-all-reduce --disable-log-requests --disable-log-stats
    --disable-sliding-window --distributed-executor-backend --download-dir --dtype --enable-auto-tool-choice
    --enable-chunked-prefill --enable-eplb --enable-expert-parallel --enable-lora --enable-prefix-caching
    --enable-prompt-embeds --enable-reasoning --enable-sleep-mode --enforce-eager --eplb-config
    --fully-sharded-loras --generation-config --gpu-memory-utilization --hf-overrides --ignore-patterns
    --kv-cache-dtype --kv-cache-memory-bytes --limit-mm-per-prompt --load-format --logits-processors
    --long-prefill-token-threshold --lora-dtype --lora-modules --mamba-cache-dtype --mamba-ssm-cache-dtype
    --max-cpu-loras --max-log-len --max-logprobs --max-lora-rank --max-loras --max-model-len
    --max-num-batched-tokens --max-num-partial-prefills --max-num-seqs --max-parallel-loading-workers
    --max-seq-len-to-capture --media-io-kwargs --mm-encoder-tp-mode --mm-processor-cache-gb --mm-processor-kwargs
    --model-impl --no-enable-chunked-prefill --no-enable-prefix-caching --num-gpu-blocks-override
    --num-lookahead-slots --optimization-level --override-generation-config --override-pooler-config
    --pipeline-parallel-size --pooler-config --preemption-mode --prefix-caching-hash-algo --pt-load-map-location
    --quantization --reasoning-parser --revision --rope-scaling --rope-theta --runner --scheduler-cls
    --scheduling-policy --seed --served-model-name --skip-tokenizer-init --speculative-config --stream-interval
    --swap-space --task --tensor-parallel-size --tokenizer --tokenizer-mode --tokenizer-revision --tool-call-parser
    --tool-parser-plugin --trust-remote-code --uvicorn-log-level --model-config -tp -pp -dp -dcp -q -O -ep
    --attn-backend --chunked-prefill-size --context-length --cuda-graph-bs --cuda-graph-max-bs
    --decode-attention-backend --decode-log-interval --disable-cuda-graph --disable-overlap-schedule
    --disable-radix-cache --dp --dp-size --enable-dp-attention --enable-dp-lm-head --enable-hierarchical-cache
    --enable-metrics --enable-mixed-chunk --enable-torch-compile --ep --ep-size --expert-parallel-size
    --fp8-gemm-backend --grammar-backend --hicache-ratio --hicache-size --hicache-write-policy --is-embedding
    --json-model-override-args --lora-backend --lora-paths --lora-target-modules --mamba-full-memory-ratio
    --max-loras-per-batch --max-prefill-tokens --max-queued-requests --max-running-requests --max-total-tokens
    --mem-fraction-static --mm-attention-backend --moe-a2a-backend --moe-dense-tp-size --moe-runner-backend
    --num-continuous-decode-steps --page-size --pp-size --prefill-attention-backend --sampling-backend
    --schedule-conservativeness --schedule-policy --speculative-algorithm --speculative-draft-model-path
    --speculative-eagle-topk --speculative-num-draft-tokens --speculative-num-steps --torch-compile-max-bs --tp
    --tp-size --watchdog-timeout --log-level --log-requests-level --random-seed --batch-size --cache-ram
    --cache-reuse --cache-type-k --cache-type-v --cpu-moe --cpu-strict --ctx-checkpoints --ctx-size --device
    --draft-max --draft-min --draft-p-min --embd-normalize --embedding --embeddings --fit --fit-ctx --fit-target
    --flash-attn --gpu-layers --gpu-layers-draft --hf-file --hf-repo --image-max-tokens --image-min-tokens --jinja
    --keep --kv-offload --kv-unified --log-file --log-verbosity --lora --lora-init-without-apply --lora-scaled
    --main-gpu --min-p --mlock --mmap --mmproj --mmproj-offload --model --model-draft --metrics --n-cpu-moe
    --n-gpu-layers --n-predict --no-context-shift --no-kv-offload --no-mmap --no-mmproj --numa --override-kv
    --override-tensor --parallel --poll --pooling --predict --prio --reasoning-budget --reasoning-format
    --repeat-penalty --reranking --rope-freq-base --rope-freq-scale --rope-scale --slot-save-path --slots
    --split-mode --swa-full --tags --temp --tensor-split --threads --threads-batch --threads-http --timeout --top-k
    --top-p --ubatch-size --warmup --yarn-attn-factor --yarn-beta-fast --yarn-beta-slow --yarn-ext-factor
    --yarn-orig-ctx --sleep-idle-seconds --alias -a -b -c -cb -ctk -ctv -dev -fa -fit -fitc -fitt -hf -hff -kvu -m
    -md -mg -mm -mmp -n -ncmoe -ngl -ngld -nkvo -np -ot -s -sm -t -tb -td -to -ts -ub -v -cmoe -ctxcp -cram -lv -hfr
    -ctkd -ctvd --auto-truncate --default-prompt-name --dense-path --max-batch-requests --max-batch-tokens
    --max-client-batch-size --max-concurrent-requests --model-id --payload-limit --tokenization-workers
    --json-output --disable-spans --bettertransformer --compile --embedding-dtype --engine --lengths-via-tokenize
    --no-bettertransformer --no-compile --no-model-warmup --permissive-cors --pooling-method --vector-disk-cache
    --no-vector-disk-cache --device-id
"""
_HARMLESS_OPTIONS = frozenset(_OPTIONS.split())
_CREDENTIALS = re.compile(
    r"://[^/?#\s]*@|[?&][^=&\s]*(?:key|token|sig|secret|pass)[^=&\s]*=|\bbearer\b|-----BEGIN", re.IGNORECASE
)
_NOT_IN_NAME = re.compile(r"[^A-Z0-9]+", re.ASCII)
_ARGUMENT = "KNASTER_ARG"
_REFERENCE = re.compile(rf"\$\{{({_ARGUMENT}[A-Z0-9_]*)\}}", re.ASCII)
_NUMBER = re.compile(r"-[0-9.]+", re.ASCII)


def reference(name: str) -> str:
    """Return what stands for the value of a variable that the engine's machine knows."""
    return f"${{{name}}}"


def as_reference(word: str) -> Word:
    """Return a word of a profile's arguments, or the variable that it is the name of."""
    match = _REFERENCE.fullmatch(word)
    return word if match is None else EnvRef(match[1])


def is_harmless_env(name: str) -> bool:
    """Return whether the value of a variable of this name may be told."""
    if name in _HARMLESS_ENV:
        return True
    family = _FAMILIES.fullmatch(name)
    return family is not None and _DELICATE.search(family["rest"]) is None


def is_harmless_option(option: str) -> bool:
    """Return whether the values of an option may be told, with dashes or underscores between its words."""
    name = option.replace("_", "-") if option.startswith("--") else option
    return name in _HARMLESS_OPTIONS


def public_env(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with a reference in the place of each value that is not known to be harmless."""
    return {
        name: value if is_harmless_env(name) and _is_clean(value) else reference(name) for name, value in env.items()
    }


def public_args(args: Sequence[str]) -> list[str]:
    """Return the words of a command line with a reference in the place of each value that is not known to be harmless.

    The options by which an engine takes its key or a token are left out with what follows them: it has these from its variables.
    """
    found: list[str] = []
    option, count, dropped = "", 0, False
    for word in args:
        if word.startswith("-") and not _NUMBER.fullmatch(word):
            option, count, dropped = re.split(r"[=\s]", word, maxsplit=1)[0], 0, has_secret_option(word)
            if dropped or option == word:
                found += [] if dropped else [word]
                continue
            if is_harmless_option(option) and "=" in word and _is_clean(word):
                found.append(word)
                continue
            found.append(option)
        elif dropped:
            continue
        elif is_harmless_option(option) and _is_clean(word):
            found.append(word)
            continue
        count += 1
        found.append(reference(_variable(option, count)))
    return found


def _variable(option: str, count: int) -> str:
    words = _NOT_IN_NAME.sub("_", option.upper()).strip("_")
    return "_".join([_ARGUMENT, *([words] if words else []), *([str(count)] if count > 1 or not words else [])])


def _is_clean(value: str) -> bool:
    return _CREDENTIALS.search(value) is None
