# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What files leave to the architecture of a model: numbers of heads, and which layers see only a window.

Facts, not code: they are taken from the sources named at each table. What is in no table and not in the file is unknown.
"""

from __future__ import annotations

import typing as t

# These read a text as a whole and keep no cache.
ENCODERS = frozenset(
    ("bert", "roberta", "xlm-roberta", "mpnet", "modernbert", "modern-bert", "nomic_bert", "new", "gte", "deberta-v2",
     "distilbert", "electra", "camembert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "neo-bert", "eurobert")
)  # fmt: skip


class Heads(t.NamedTuple):
    """What ``config.json`` leaves out where it is the default of the architecture; None is: as many as there are heads."""

    heads: int
    kv_heads: t.Optional[int]
    head_dim: t.Optional[int]


# model_type, attention heads, heads in the cache (= is one for each), size of a head (- is hidden size over heads).
# transformers 5.24.0, the defaults of the configuration classes.
_HEADS = """
afmoe 16 = 128
apertus 32 = -
arcee 32 = -
bamba 32 8 -
bitnet 20 5 -
bloom 8 = -
codegen 16 = -
cohere 64 = -
cohere2 64 = -
cohere2_moe 64 = 128
deepseek_v2 32 = -
dots1 32 32 -
ernie4_5 16 2 128
ernie4_5_moe 20 4 -
ernie4_5_vl_moe_text 20 4 -
exaone 32 8 -
exaone4 32 32 -
exaone_moe 32 32 -
falcon_h1 32 8 -
gemma 16 16 256
gemma2 8 4 256
gemma3_text 8 4 256
gemma3n_text 8 2 256
gemma4_text 8 4 256
gemma4_unified_text 8 4 256
glm 32 2 128
glm4 32 2 128
glm4_moe 96 8 -
glm4v_text 32 2 -
glm4v_moe_text 96 8 -
gpt2 12 = -
gpt_neox 64 = -
gpt_oss 64 8 64
gptj 16 = -
granite 32 = -
granite_swa 20 4 -
granitemoe 32 = -
granitemoe_swa 32 = -
granitemoehybrid 32 = -
granitemoeshared 32 = -
hunyuan_v1_dense 32 = -
hunyuan_v1_moe 32 = -
internlm3 32 2 128
jamba 32 8 -
lfm2 32 8 -
lfm2_moe 32 8 -
llama 32 = -
llama4_text 40 8 128
mimo_v2_flash 64 4 192
minimax 32 8 -
minimax_m2 48 8 128
ministral 32 8 -
ministral3 32 8 128
mistral 32 8 -
mixtral 32 8 -
mllama_text_model 32 8 -
nemotron 48 = -
nemotron_h 32 8 128
olmo 32 = -
olmo2 32 = -
olmo3 32 = -
olmo_hybrid 30 = -
olmoe 16 = -
opt 12 = -
phi 32 = -
phi3 32 = -
phi4_multimodal 32 8 -
phimoe 32 8 -
qwen2 32 32 -
qwen2_5_vl_text 64 8 -
qwen2_moe 16 16 -
qwen2_vl_text 64 8 -
qwen3 32 32 128
qwen3_5_moe_text 16 2 256
qwen3_5_text 16 4 256
qwen3_moe 32 4 -
qwen3_next 16 2 256
qwen3_vl_moe_text 16 16 -
qwen3_vl_text 32 32 128
seed_oss 80 8 128
smollm3 16 4 -
stablelm 32 32 -
starcoder2 24 2 -
step3p5 64 8 128
zamba 16 16 -
zamba2 32 = -
"""


def _read_heads() -> t.Iterator[t.Tuple[str, Heads]]:
    for line in _HEADS.split("\n"):
        if line:
            kind, heads, kept, dim = line.split()
            yield kind, Heads(int(heads), None if kept == "=" else int(kept), None if dim == "-" else int(dim))


HEADS: t.Mapping[str, Heads] = dict(_read_heads())

# Of so many layers the last sees everything and the others a window, where the file gives the length of a window and not
# where it holds. transformers 5.24.0, the configuration classes (layer_types); llama4_text by no_rope_layers.
WINDOW_EVERY: t.Mapping[str, int] = {
    **dict.fromkeys(("gemma2", "gpt_oss"), 2),
    **dict.fromkeys(("cohere2", "exaone4", "exaone_moe", "llama4_text", "olmo3", "afmoe"), 4),
    "gemma3n_text": 5,
    **dict.fromkeys(("gemma3_text", "gemma4_text", "gemma4_unified_text"), 6),
}
# The length of that window where the file has none. The same source.
WINDOWS: t.Mapping[str, int] = {
    **dict.fromkeys(("gemma2", "gemma3_text", "cohere2", "exaone4", "exaone_moe", "olmo3"), 4096),
    "gpt_oss": 128,
    "gemma3n_text": 512,
    "gemma4_text": 512,
    **dict.fromkeys(("gemma4_unified_text", "afmoe"), 1024),
    "llama4_text": 8192,
}
# One layer in so many attends, where the file does not say it. The same source.
ATTENTION_EVERY: t.Mapping[str, int] = dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"), 4)
# The last layers that use the cache of an earlier one, where the file does not say how many. The same source.
SHARED_LAYERS: t.Mapping[str, int] = {"gemma3n_text": 15}
# Layers that attend to an image, and cache no token of the text. The same source.
CROSS_LAYERS: t.Mapping[str, t.Tuple[int, ...]] = {"mllama_text_model": (3, 8, 13, 18, 23, 28, 33, 38)}


class Every(t.NamedTuple):
    """One layer in ``period`` sees everything: the last of them, or the first (``dense_first``)."""

    period: int
    dense_first: bool = False


# GGUF files give the length of a window and most not where it holds: llama.cpp knows it by the architecture
# (src/models/*.cpp, set_swa_pattern, October 2026). Architectures that are not here take no notice of a window.
GGUF_WINDOWS: t.Mapping[str, Every] = {
    **dict.fromkeys(("gemma2", "gpt-oss"), Every(2)),
    **dict.fromkeys(("cohere2", "llama4", "olmo2", "exaone4", "exaone-moe", "afmoe"), Every(4)),
    **dict.fromkeys(("cohere2moe", "smallthinker"), Every(4, dense_first=True)),
    "gemma3n": Every(5),
    **dict.fromkeys(("gemma3", "gemma-embedding"), Every(6)),
    "plamo3": Every(8),
}
# The window where the file has none. The same source.
GGUF_WINDOW: t.Mapping[str, int] = {"gemma2": 4096, "llama4": 8192, "exaone4": 4096}
# One layer in so many attends, where the file does not say it. The same source.
GGUF_ATTENTION_EVERY: t.Mapping[str, int] = dict.fromkeys(("qwen3next", "qwen35", "qwen35moe"), 4)
# So many layers at the beginning have a cache of their own; the others use it. The same source (gemma3n.cpp).
GGUF_CACHED_LAYERS: t.Mapping[str, int] = {"gemma3n": 20}
