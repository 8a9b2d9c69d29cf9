# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""How a model is run, as far as memory depends on it: read once from entry, profile and arguments, and written again.

What is written reads back as the same run, so that the memory that was planned and the command that is started cannot
differ. The options are those of vLLM 0.33, SGLang 0.5.23, llama.cpp of October 2026, Ollama, text-embeddings-inference
1.9.3 and infinity 0.0.78.
"""

from __future__ import annotations

import json
import re
import typing as t
from dataclasses import dataclass, field, replace

# Every layer: what people write where they mean all of them.
ALL_LAYERS = 999

# Bytes of one value in the cache, as a share of 16 bit; the block formats of ggml keep a scale for each 32 values
# (ggml-common.h). What an engine makes of "auto" is the type of the model, which is 16 bit.
CACHE_SHARES: t.Mapping[str, float] = {
    **dict.fromkeys(("auto", "f16", "fp16", "float16", "half", "bf16", "bfloat16"), 1.0),
    **dict.fromkeys(("f32", "fp32", "float32"), 2.0),
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "int8"), 0.5),
    "q8_0": 34 / 64,
    "q5_1": 24 / 64,
    "q5_0": 22 / 64,
    "q4_1": 20 / 64,
    "q4_0": 18 / 64,
    "iq4_nl": 18 / 64,
}


@dataclass(frozen=True)
class Run:
    """How a model is run on every rank; ``None`` leaves it to the engine.

    ``context`` is what one request may use, ``sequences`` how many such requests are to find room at once. For llama.cpp
    and Ollama these are the slots, which all have their cache from the start. ``max_sequences`` is the engine's own limit.
    ``batched_tokens`` are the tokens of one step (of one micro-batch for llama.cpp). ``other`` are the words of the command
    line that say nothing of memory that could be computed, as they were written.
    """

    engine: str
    context: t.Optional[int] = None
    sequences: int = 1
    max_sequences: t.Optional[int] = None
    batched_tokens: t.Optional[int] = None
    cache_k: t.Optional[str] = None
    cache_v: t.Optional[str] = None
    utilisation: t.Optional[float] = None
    cache_bytes: t.Optional[int] = None
    cache_tokens: t.Optional[int] = None
    gpu_layers: t.Optional[int] = None
    cpu_moe_layers: t.Optional[int] = None
    cpu_offload_gib: t.Optional[float] = None
    reserve_bytes: t.Optional[int] = None
    unified: bool = False
    flash_attention: t.Optional[bool] = None
    full_windows: bool = False
    cache_on_host: bool = False
    lora: bool = False
    loras: t.Optional[int] = None
    lora_rank: t.Optional[int] = None
    graph_sequences: t.Optional[int] = None
    eager: bool = False
    images: t.Optional[bool] = None
    tp: int = 1
    pp: int = 1
    dp: int = 1
    other: t.Tuple[str, ...] = ()


class Written(t.NamedTuple):
    """What makes an engine run like this: words of its command line, and variables."""

    args: t.Tuple[str, ...]
    env: t.Mapping[str, str]


@dataclass(frozen=True)
class _Option:
    """An option that sets one field of a run. ``names``: the first is the one that is written."""

    field: str
    kind: str
    names: t.Tuple[str, ...]
    env: t.Optional[str] = None
    # What a flag sets; a flag in the other direction is an option of its own.
    value: t.Any = True
    written: bool = True


@dataclass(frozen=True)
class _Syntax:
    """The options of one engine.

    ``uncomputed`` change memory in a way that is not computed here; ``harmless`` do not change it; ``prefixes`` are
    beginnings of names that do not change it either.
    """

    options: t.Tuple[_Option, ...] = ()
    uncomputed: t.FrozenSet[str] = frozenset()
    harmless: t.FrozenSet[str] = frozenset()
    prefixes: t.Tuple[str, ...] = ()
    by_name: t.Mapping[str, _Option] = field(default_factory=dict)


def _syntax(*options: _Option, uncomputed: str, harmless: str, prefixes: str = "") -> _Syntax:
    return _Syntax(
        options=options,
        uncomputed=frozenset(uncomputed.split()),
        harmless=frozenset(harmless.split()),
        prefixes=tuple(prefixes.split()),
        by_name={name: option for option in options for name in option.names},
    )


_VLLM = _syntax(
    _Option("context", "count", ("--max-model-len",)),
    _Option("max_sequences", "count", ("--max-num-seqs",)),
    _Option("batched_tokens", "count", ("--max-num-batched-tokens",)),
    _Option("cache", "cache", ("--kv-cache-dtype",)),
    _Option("utilisation", "share", ("--gpu-memory-utilization",)),
    _Option("cache_bytes", "count", ("--kv-cache-memory-bytes", "--kv-cache-memory")),
    _Option("cpu_offload_gib", "number", ("--cpu-offload-gb",)),
    _Option("full_windows", "flag", ("--disable-hybrid-kv-cache-manager",)),
    _Option("full_windows", "flag", ("--no-disable-hybrid-kv-cache-manager",), value=False, written=False),
    _Option("lora", "flag", ("--enable-lora",)),
    _Option("lora", "flag", ("--no-enable-lora",), value=False, written=False),
    _Option("loras", "count", ("--max-loras",)),
    _Option("lora_rank", "count", ("--max-lora-rank",)),
    _Option("eager", "flag", ("--enforce-eager",)),
    _Option("eager", "flag", ("--no-enforce-eager",), value=False, written=False),
    _Option("images", "flag", ("--language-model-only",), value=False),
    _Option("images", "limits", ("--limit-mm-per-prompt",), written=False),
    _Option("tp", "count", ("--tensor-parallel-size", "-tp")),
    _Option("pp", "count", ("--pipeline-parallel-size", "-pp")),
    _Option("dp", "count", ("--data-parallel-size", "-dp")),
    uncomputed=(
        "--speculative-config --quantization -q --load-format --dtype --hf-overrides --compilation-config -O -cc "
        "--optimization-level --cudagraph-capture-sizes --max-cudagraph-capture-size --limit-mm-per-prompt "
        "--mm-processor-kwargs --mm-encoder-tp-mode --num-gpu-blocks-override --block-size "
        "--decode-context-parallel-size -dcp --prefill-context-parallel-size -pcp --enable-expert-parallel -ep "
        "--enable-eplb --eplb-config --enable-dbo --kv-transfer-config --kv-offloading-size --model-impl "
        "--lora-extra-vocab-size --fully-sharded-loras --lora-dtype --max-cpu-loras --enable-prompt-embeds "
        "--additional-config --async-scheduling --runner --convert --mamba-cache-dtype --mamba-ssm-cache-dtype "
        "--mamba-block-size --mamba-cache-mode --data-parallel-size-local -dpl --calculate-kv-scales --worker-cls "
        "--max-logprobs --kv-sharing-fast-prefill --offload-backend --num-gpu-blocks"
    ),
    harmless=(
        "--host --port --served-model-name --api-key --chat-template --revision --code-revision --tokenizer "
        "--trust-remote-code --seed --download-dir --generation-config --config-format --override-generation-config "
        "--enable-prefix-caching --no-enable-prefix-caching --enable-chunked-prefill --no-async-scheduling "
        "--response-role --reasoning-parser --lora-modules --swap-space --config --headless --nnodes --node-rank "
        "--master-addr --master-port --root-path --middleware --task --skip-tokenizer-init --guided-decoding-backend "
        "--structured-outputs-config --scheduling-policy --prefix-caching-hash-algo --return-tokens-as-token-ids "
        "--pooler-config --override-pooler-config --enable-sleep-mode --default-chat-template-kwargs "
        "--distributed-executor-backend --max-parallel-loading-workers --ray-workers-use-nsight --numa-bind "
        "--disable-custom-all-reduce --attention-backend --enable-force-include-usage --enable-server-load-tracking "
        "--kv-events-config --show-hidden-metrics-for-version --collect-detailed-traces --otlp-traces-endpoint "
        "--long-prefill-token-threshold --max-num-partial-prefills --max-long-partial-prefills --stream-interval "
        "--model --hf-token --hf-config-path --tokenizer-mode --tokenizer-revision --allow-credentials "
        "--enable-request-id-headers --enable-tokenizer-info-endpoint --enable-prompt-tokens-details --moe-backend"
    ),
    prefixes=(
        "--api-server- --ssl- --uvicorn- --log- --disable-log- --enable-log- --max-log- --chat-template- --allowed- "
        "--tool- --enable-auto-tool- --disable-uvicorn- --disable-fastapi- --data-parallel-address "
        "--data-parallel-rpc- --data-parallel-backend --data-parallel-start- --data-parallel-hybrid- --io-processor- "
        "--exclude-tools- --otlp- --rope- --mm-processor-cache- --disable-frontend- --video-pruning- --interleave-mm-"
    ),
)
_SGLANG = _syntax(
    _Option("context", "count", ("--context-length",)),
    _Option("max_sequences", "count", ("--max-running-requests",)),
    _Option("batched_tokens", "count", ("--chunked-prefill-size",)),
    _Option("cache", "cache", ("--kv-cache-dtype",)),
    _Option("utilisation", "share", ("--mem-fraction-static",)),
    _Option("cache_tokens", "count", ("--max-total-tokens",)),
    _Option("cpu_offload_gib", "number", ("--cpu-offload-gb",)),
    _Option("full_windows", "flag", ("--disable-hybrid-swa-memory",)),
    _Option("lora", "flag", ("--enable-lora",)),
    _Option("loras", "count", ("--max-loras-per-batch",)),
    _Option("lora_rank", "count", ("--max-lora-rank",)),
    _Option("graph_sequences", "count", ("--cuda-graph-max-bs",)),
    _Option("eager", "flag", ("--disable-cuda-graph",)),
    _Option("tp", "count", ("--tp-size", "--tensor-parallel-size", "--tp")),
    _Option("pp", "count", ("--pp-size", "--pipeline-parallel-size", "--pp")),
    _Option("dp", "count", ("--dp-size", "--data-parallel-size", "--dp")),
    uncomputed=(
        "--speculative-algorithm --speculative-draft-model-path --speculative-num-steps --speculative-eagle-topk "
        "--speculative-num-draft-tokens --quantization --dtype --load-format --json-model-override-args "
        "--enable-dp-attention --enable-dp-lm-head --ep-size --expert-parallel-size --ep --moe-dense-tp-size "
        "--page-size --swa-full-tokens-ratio --mamba-full-memory-ratio --max-mamba-cache-size --mamba-ssm-dtype "
        "--cuda-graph-bs --enable-mixed-chunk --max-prefill-tokens --torchao-config --enable-hierarchical-cache "
        "--enable-memory-saver --disaggregation-mode --enable-torch-compile --torch-compile-max-bs "
        "--enable-piecewise-cuda-graph --enable-two-batch-overlap --ep-num-redundant-experts --modelopt-quant "
        "--prefill-max-requests --pp-max-micro-batch-size --cpu-offload --enable-multimodal --is-embedding "
        "--mm-attention-backend --kv-canary --moe-a2a-backend --attention-context-parallel-size"
    ),
    harmless=(
        "--host --port --served-model-name --model-path --model --api-key --admin-api-key --tokenizer-path "
        "--tokenizer-mode --trust-remote-code --revision --chat-template --completion-template --random-seed "
        "--tool-call-parser --reasoning-parser --enable-metrics --enable-metrics-for-all-schedulers --dist-init-addr "
        "--nnodes --node-rank --download-dir --lora-paths --lora-backend --lora-target-modules --schedule-policy "
        "--schedule-conservativeness --disable-radix-cache --attention-backend --sampling-backend "
        "--prefill-attention-backend --decode-attention-backend --grammar-backend --stream-interval --stream-output "
        "--skip-server-warmup --warmups --watchdog-timeout --dist-timeout --enable-cache-report --device "
        "--base-gpu-id --gpu-id-step --show-time-cost --decode-log-interval --file-storage-path --hf-chat-template-name "
        "--preferred-sampling-params --sampling-defaults --disable-cuda-graph-padding --enable-p2p-check "
        "--disable-custom-all-reduce --disable-overlap-schedule --skip-tokenizer-init --moe-runner-backend"
    ),
    prefixes="--log- --crash-dump- --enable-request- --ssl- --weight-version --enable-trace --otlp- --nccl- --gc-",
)
_LLAMACPP = _syntax(
    _Option("context", "count", ("--ctx-size", "-c"), env="LLAMA_ARG_CTX_SIZE"),
    _Option("sequences", "count", ("--parallel", "-np"), env="LLAMA_ARG_N_PARALLEL"),
    _Option("batched_tokens", "count", ("--ubatch-size", "-ub"), env="LLAMA_ARG_UBATCH"),
    _Option("cache_k", "cache", ("--cache-type-k", "-ctk"), env="LLAMA_ARG_CACHE_TYPE_K"),
    _Option("cache_v", "cache", ("--cache-type-v", "-ctv"), env="LLAMA_ARG_CACHE_TYPE_V"),
    _Option("gpu_layers", "layers", ("--n-gpu-layers", "-ngl", "--gpu-layers"), env="LLAMA_ARG_N_GPU_LAYERS"),
    _Option("cpu_moe_layers", "layers", ("--n-cpu-moe", "-ncmoe"), env="LLAMA_ARG_N_CPU_MOE"),
    _Option("cpu_moe_layers", "flag", ("--cpu-moe", "-cmoe"), value=ALL_LAYERS, written=False),
    _Option("unified", "flag", ("--kv-unified", "-kvu")),
    _Option("unified", "flag", ("--no-kv-unified", "-no-kvu"), value=False, written=False),
    _Option("flash_attention", "choice", ("--flash-attn", "-fa"), env="LLAMA_ARG_FLASH_ATTN"),
    _Option("full_windows", "flag", ("--swa-full",)),
    _Option("cache_on_host", "flag", ("--no-kv-offload", "-nkvo")),
    _Option("cache_on_host", "flag", ("--kv-offload", "-kvo"), value=False, written=False),
    uncomputed=(
        "--override-tensor -ot --tensor-split -ts --split-mode -sm --main-gpu -mg --device -dev --model-draft -md "
        "--hf-repo-draft -hfd --spec-draft-model --mmproj --mmproj-url --no-mmproj-offload --lora --lora-scaled "
        "--control-vector --control-vector-scaled --rpc --override-kv --no-host "
        "--gpu-layers-draft -ngld --n-gpu-layers-draft --ctx-size-draft -cd --cache-type-k-draft -ctkd "
        "--cache-type-v-draft -ctvd --override-tensor-draft -otd --n-cpu-moe-draft -ncmoed --cpu-moe-draft -cmoed "
        "--hf-repo-v -hfv --model-vocoder -mv --models-dir --models-preset --models-max --spec-type"
    ),
    harmless=(
        "--host --port --alias -a --model -m --model-url -mu --hf-repo -hf -hfr --hf-file -hff --hf-token -hft "
        "--jinja --no-jinja --chat-template --chat-template-file --chat-template-kwargs --threads -t "
        "--threads-batch -tb --batch-size -b --api-key --api-key-file --metrics --props --slots --no-slots "
        "--embedding --embeddings --pooling --reranking --rerank --no-mmap --mmap --mlock --numa --seed -s --temp "
        "--top-k --top-p --min-p --repeat-penalty --presence-penalty --frequency-penalty --samplers --n-predict -n "
        "--predict --keep --verbose -v --offline --no-warmup --warmup --context-shift --no-context-shift "
        "--cont-batching -cb --no-cont-batching -nocb --cache-reuse --cache-ram -cram --ctx-checkpoints "
        "--swa-checkpoints --slot-save-path --slot-prompt-similarity -sps --timeout -to --threads-http --path "
        "--api-prefix --no-webui --webui --reasoning-format --reasoning-budget --prefill-assistant --prio --poll "
        "--cpu-mask -C --cpu-range -Cr --no-perf --perf --escape -e --no-escape --grammar --grammar-file "
        "--json-schema -j --json-schema-file -jf --special -sp --spm-infill --ignore-eos --logit-bias -l "
        "--repack --no-repack -nr --op-offload --no-op-offload --check-tensors --lora-init-without-apply "
        "--cache-prompt --no-cache-prompt --tags --sleep-idle-seconds --dry-multiplier --xtc-probability --media-path "
        "--no-mmproj --mmproj-offload "
        "--fit --fit-target --fit-ctx --image-min-tokens --image-max-tokens --draft-max --draft --draft-min --draft-n"
    ),
    prefixes="--log- --ssl- --rope- --yarn- --dry- --mirostat --dynatemp- --reasoning --chat- --webui- --draft-p-",
)
_OLLAMA = _syntax(
    _Option("context", "count", (), env="OLLAMA_CONTEXT_LENGTH"),
    _Option("sequences", "count", (), env="OLLAMA_NUM_PARALLEL"),
    _Option("cache", "cache", (), env="OLLAMA_KV_CACHE_TYPE"),
    _Option("flash_attention", "choice", (), env="OLLAMA_FLASH_ATTENTION"),
    _Option("reserve_bytes", "count", (), env="OLLAMA_GPU_OVERHEAD"),
    uncomputed="",
    harmless="",
)
_TEI = _syntax(
    _Option("batched_tokens", "count", ("--max-batch-tokens",), env="MAX_BATCH_TOKENS"),
    uncomputed="--dtype --dense-path --max-batch-requests --tokenization-workers",
    harmless=(
        "--hostname --port -p --model-id --served-model-name --revision --pooling --api-key --json-output "
        "--max-concurrent-requests --max-client-batch-size --auto-truncate --default-prompt --default-prompt-name "
        "--hf-token --hf-api-token --huggingface-hub-cache --payload-limit --cors-allow-origin --uds-path "
        "--prometheus-port --disable-spans"
    ),
    prefixes="--otlp-",
)
_INFINITY = _syntax(
    uncomputed="--dtype --embedding-dtype --engine --batch-size --bettertransformer --no-bettertransformer --compile --device-id",
    harmless=(
        "--host --port --model-id --served-model-name --revision --trust-remote-code --no-trust-remote-code --api-key "
        "--url-prefix --device --model-warmup --no-model-warmup --vector-disk-cache --lengths-via-tokenize "
        "--pooling-method --redirect-slash --permissive-cors --preload-only --log-level --proxy-root-path"
    ),
)
_ENGINES: t.Mapping[str, _Syntax] = {
    "vllm": _VLLM,
    "sglang": _SGLANG,
    "llamacpp": _LLAMACPP,
    "ollama": _OLLAMA,
    "tei": _TEI,
    "infinity": _INFINITY,
}
# These put something beside the model.
_ADDS = frozenset(
    (
        *("--speculative-config", "--kv-transfer-config", "--enable-prompt-embeds", "--speculative-algorithm"),
        *("--speculative-draft-model-path", "--speculative-num-steps", "--speculative-eagle-topk"),
        *("--speculative-num-draft-tokens", "--model-draft", "-md", "--hf-repo-draft", "-hfd", "--spec-draft-model"),
        *("--spec-type", "--mmproj", "--mmproj-url", "--lora", "--lora-scaled", "--control-vector"),
        *("--control-vector-scaled", "--ctx-size-draft", "-cd", "--n-gpu-layers-draft", "--gpu-layers-draft", "-ngld"),
        *("--cache-type-k-draft", "-ctkd", "--cache-type-v-draft", "-ctvd", "--mm-processor-kwargs"),
        *("--limit-mm-per-prompt", "--max-cpu-loras", "--lora-extra-vocab-size", "--max-logprobs"),
        *("--enable-torch-compile", "--disaggregation-mode"),
    )
)
# With these the weights of a rank can be fewer, or lie elsewhere.
_MOVES_WEIGHTS = frozenset(
    (
        *("--quantization", "-q", "--load-format", "--dtype", "--model-impl", "--torchao-config", "--modelopt-quant"),
        *("--override-tensor", "-ot", "--tensor-split", "-ts", "--split-mode", "-sm", "--main-gpu", "-mg", "--device"),
        *("-dev", "--rpc", "--n-gpu-layers", "-ngl", "--gpu-layers", "--n-cpu-moe", "-ncmoe", "--cpu-offload-gb"),
        *("--offload-backend", "--enable-expert-parallel", "-ep", "--ep-size", "--expert-parallel-size", "--ep"),
        *("--moe-dense-tp-size", "--enable-dp-attention", "--hf-overrides", "--json-model-override-args"),
        *("--override-kv", "--embedding-dtype", "--engine", "--tensor-parallel-size", "-tp", "--tp-size", "--tp"),
        *("--pipeline-parallel-size", "-pp", "--pp-size", "--pp", "--additional-config", "--models-dir"),
        *("--models-preset", "--device-id"),
    )
)
# What vLLM is told to use a language model as a reranker: its pages on Qwen3-Reranker and on scoring.
_HEAD_KEYS = frozenset(("architectures", "classifier_from_token", "is_original_qwen3_reranker", "method"))
# Their slots have their cache from the start, and what is told the engine is the context of all of them together.
SLOTTED = frozenset(("llamacpp", "ollama"))

_COUNT = re.compile(r"(?P<number>\d{1,18}(?:\.\d{1,6})?)(?P<unit>[kKmMgGtT]?)(?:i?B)?", re.ASCII)
_UNITS = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "K": 1 << 10,
    "M": 1 << 20,
    "G": 1 << 30,
    "T": 1 << 40,
}
_YES, _NO = frozenset(("on", "1", "true", "enabled", "yes")), frozenset(("off", "0", "false", "disabled", "no"))
_MOST = 1 << 50


def read_run(
    engine: str,
    args: t.Sequence[str] = (),
    env: t.Optional[t.Mapping[str, str]] = None,
    *,
    context: t.Optional[int] = None,
    sequences: int = 1,
    tp: int = 1,
    pp: int = 1,
) -> Run:
    """Return how an engine runs by these arguments and variables.

    ``context``, ``sequences``, ``tp`` and ``pp`` are what entry and profile say; arguments go before variables, and both
    before these. Of an option that is given twice the last counts. A word that cannot be read stays in ``other``.
    """
    syntax = _ENGINES.get(engine, _Syntax())
    values: t.Dict[str, t.Any] = {}
    for option in syntax.options:
        text = (env or {}).get(option.env) if option.env else None
        if text is not None:
            values.update(_read_value(option, text))
    given, other = _read_words(syntax, args)
    values.update(given)
    for key in ("tp", "pp", "dp"):
        # These are never left to the engine.
        if values.get(key, 1) is None:
            del values[key]
    if engine in SLOTTED:
        sequences = values.pop("sequences", None) or sequences
        if values.get("context") and engine == "llamacpp" and not values.get("unified"):
            values["context"] = values["context"] // sequences or None
    run = Run(engine=engine, context=context, sequences=sequences, tp=tp, pp=pp, other=tuple(other))
    return replace(run, **values)


def write_run(run: Run) -> Written:
    """Return the arguments and variables that make an engine run like this; read again they are the same run."""
    args: t.List[str] = []
    env: t.Dict[str, str] = {}
    defaults = Run(engine=run.engine)
    for option in _ENGINES.get(run.engine, _Syntax()).options:
        value = _value_to_write(run, option)
        if not option.written or value is None:
            continue
        # The number of slots is always said: what an engine chooses by itself depends on its version.
        if value == getattr(defaults, option.field, None) and not (option.field == "sequences" and option.names):
            continue
        if not option.names:
            env[t.cast("str", option.env)] = _text(value, option)
        elif option.kind == "flag":
            args.append(option.names[0])
        else:
            args += [option.names[0], _text(value, option)]
    return Written((*args, *run.other), env)


def option_names(engine: str, name: str) -> t.Tuple[t.Tuple[str, ...], t.Optional[str]]:
    """Return the options of an engine that set a field of a run, and the variable that does; none where it has none."""
    options = [option for option in _ENGINES.get(engine, _Syntax()).options if option.field == name]
    return tuple(each for option in options for each in option.names), next(
        (one.env for one in options if one.env), None
    )


def uncomputed_arguments(run: Run) -> t.Tuple[str, ...]:
    """Return the options that change memory in a way that is not computed, in the order of the command line."""
    syntax = _ENGINES.get(run.engine, _Syntax())
    told = {option_name(word): at for at, word in enumerate(run.other) if _is_option(word)}
    return tuple(
        name
        for name in _options(run.other)
        if _changes_memory(syntax, name) and not (name == "--hf-overrides" and _only_heads(run.other[told[name] :]))
    )


def _only_heads(words: t.Sequence[str]) -> bool:
    """Return whether the first of these words, with what stands behind it, changes only what a model answers with."""
    _name, equals, text = words[0].partition("=")
    try:
        found = json.loads(text if equals else words[1])
    except (ValueError, RecursionError, IndexError):
        return False
    return isinstance(found, dict) and _HEAD_KEYS.issuperset(found)


def keeps_weights(option: str) -> bool:
    """Return whether an option that is not computed leaves the weights on a rank at least what they are without it."""
    return option not in _MOVES_WEIGHTS


def only_adds(option: str) -> bool:
    """Return whether an option that is not computed adds memory and changes nothing of what is taken without it."""
    return option in _ADDS


def unknown_arguments(run: Run) -> t.Tuple[str, ...]:
    """Return the options of which nothing is known, in the order of the command line."""
    syntax = _ENGINES.get(run.engine, _Syntax())
    return tuple(
        name
        for name in _options(run.other)
        if not _changes_memory(syntax, name) and name not in syntax.harmless and not name.startswith(syntax.prefixes)
    )


def option_name(word: str) -> str:
    """Return the option that a word gives, as engines spell it; other words are returned as they are."""
    name = word.partition("=")[0]
    if name.startswith("--"):
        return name.partition(".")[0].replace("_", "-")
    # The level of optimisation of vLLM is written onto its letter.
    return "-O" if re.match(r"-O[\d.]", name) else name


def cache_share(run: Run, *, latent: bool = False) -> t.Optional[float]:
    """Return what the cache takes as a share of 16 bit; None for a type that is not known. A latent has keys alone."""
    keys = CACHE_SHARES.get((run.cache_k or "auto").lower())
    values = CACHE_SHARES.get((run.cache_v or "auto").lower())
    if keys is None or (values is None and not latent):
        return None
    return keys if latent else (keys + t.cast("float", values)) / 2


def _changes_memory(syntax: _Syntax, name: str) -> bool:
    # An option of the table is only left over where its value could not be read.
    return name in syntax.uncomputed or name in syntax.by_name


def _options(words: t.Iterable[str]) -> t.Iterator[str]:
    seen: t.Set[str] = set()
    for word in words:
        name = option_name(word)
        if _is_option(word) and name not in seen:
            seen.add(name)
            yield name


def _is_option(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and not word[1].isdigit() and not word.startswith("-.")


def _read_words(syntax: _Syntax, args: t.Sequence[str]) -> t.Tuple[t.Dict[str, t.Any], t.List[str]]:
    values: t.Dict[str, t.Any] = {}
    other: t.List[str] = []
    position = 0
    while position < len(args):
        word = args[position]
        position += 1
        option = syntax.by_name.get(option_name(word)) if _is_option(word) else None
        if option is None:
            other.append(word)
            continue
        words = [word]
        _name, equals, text = word.partition("=")
        follows = position < len(args) and not _is_option(args[position])
        # "--flash-attn" was once a flag, so that the word behind it may be anything.
        takes = option.kind != "choice" or (follows and args[position].lower() in _YES | _NO | {"auto"})
        if not equals and follows and option.kind != "flag" and takes:
            text = args[position]
            words.append(text)
            position += 1
        if option.kind == "choice" and len(words) == 1 and not equals:
            text = "on"
        found = _read_value(option, text) if option.kind != "flag" or not equals else {}
        if found:
            values.update(found)
        elif len(words) == 1 and not equals:
            # Without its value it must not take what stands behind it once others are gone.
            other.append(f"{word}=")
        else:
            other += words
    return values, other


def _read_value(option: _Option, text: str) -> t.Dict[str, t.Any]:
    """Return the fields that a value sets; none where it cannot be read."""
    if option.kind == "flag":
        return {option.field: option.value}
    if option.kind == "cache":
        names = ("cache_k", "cache_v") if option.field == "cache" else (option.field,)
        return dict.fromkeys(names, text) if text.lower() in CACHE_SHARES else {}
    value = _READERS[option.kind](text)
    return {} if value is _UNREADABLE else {option.field: value}


_UNREADABLE: t.Any = object()


def _read_count(text: str) -> t.Any:
    # Several engines take these for "whatever fits" or "what the model has".
    if text in ("0", "-1", "auto"):
        return None
    match = _COUNT.fullmatch(text)
    if match is None:
        return _UNREADABLE
    number = int(float(match.group("number")) * _UNITS[match.group("unit")])
    return number if 0 < number <= _MOST else _UNREADABLE


def _read_layers(text: str) -> t.Any:
    if text == "auto":
        return None
    if text in ("all", "-1"):
        return ALL_LAYERS
    return int(text) if re.fullmatch(r"\d{1,6}", text, re.ASCII) else _UNREADABLE


def _read_number(text: str) -> t.Any:
    match = re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", text, re.ASCII)
    return float(text) if match else _UNREADABLE


def _read_share(text: str) -> t.Any:
    match = re.fullmatch(r"0?\.\d{1,9}|1(?:\.0{1,9})?|0", text, re.ASCII)
    return float(text) if match and float(text) > 0 else _UNREADABLE


def _read_choice(text: str) -> t.Any:
    word = text.lower()
    if word == "auto":
        return None
    return word in _YES if word in _YES | _NO else _UNREADABLE


def _read_limits(text: str) -> t.Any:
    """Read how many images and the like one request may have: nothing of any kind is the one case that is computed."""
    try:
        limits = json.loads(text)
    except (ValueError, RecursionError):
        return _UNREADABLE
    if isinstance(limits, dict) and limits and all(limit == 0 for limit in limits.values()):
        return False
    return _UNREADABLE


_READERS: t.Mapping[str, t.Callable[[str], t.Any]] = {
    "count": _read_count,
    "layers": _read_layers,
    "number": _read_number,
    "share": _read_share,
    "choice": _read_choice,
    "limits": _read_limits,
}


def _value_to_write(run: Run, option: _Option) -> t.Any:
    if option.field == "cache":
        return run.cache_k
    value = getattr(run, option.field)
    if option.field == "context" and value and run.engine == "llamacpp" and not run.unified:
        return value * run.sequences
    if option.kind == "flag" and value is not option.value:
        return None
    return value


def _text(value: t.Any, option: _Option) -> str:
    if option.kind == "choice":
        return ("1" if value else "0") if option.env == "OLLAMA_FLASH_ATTENTION" else ("on" if value else "off")
    if isinstance(value, float):
        return f"{value:.9f}".rstrip("0").rstrip(".")
    return str(value)


def cache_arguments(engine: str, dtype: t.Optional[str]) -> t.Tuple[t.Tuple[str, ...], t.Dict[str, str]]:
    """Return the arguments and variables that give an engine a cache of this type; none where it has no such option."""
    args: t.List[str] = []
    env: t.Dict[str, str] = {}
    for option in _ENGINES.get(engine, _Syntax()).options if dtype else ():
        if option.kind == "cache" and option.names:
            args += [option.names[0], t.cast("str", dtype)]
        elif option.kind == "cache" and option.env:
            env[option.env] = t.cast("str", dtype)
    return tuple(args), env
