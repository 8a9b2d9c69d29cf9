# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Write a llama model of about 1 MB that a real llama-server loads and that answers " all is well." to everything.

tiny_gguf.py OUT.gguf (needs gguf and numpy). One layer of zeros lets a token's one-hot embedding through; the output matrix names its successor.
"""

import sys

import gguf
import numpy as np

words = ["▁all", "▁is", "▁well", "."]
tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + words
kinds = [2, 3, 3] + [6] * 256 + [1] * len(words)
first, end = len(tokens) - len(words), 2
width, heads, hidden = 288, 9, 32

writer = gguf.GGUFWriter(sys.argv[1], "llama")
writer.add_name("tiny")
writer.add_context_length(2048)
writer.add_embedding_length(width)
writer.add_block_count(1)
writer.add_feed_forward_length(hidden)
writer.add_head_count(heads)
writer.add_head_count_kv(heads)
writer.add_layer_norm_rms_eps(1e-5)
writer.add_rope_dimension_count(width // heads)
writer.add_vocab_size(len(tokens))
writer.add_file_type(1)
writer.add_tokenizer_model("llama")
writer.add_token_list(tokens)
writer.add_token_scores([0.0] * len(tokens))
writer.add_token_types(kinds)
writer.add_bos_token_id(1)
writer.add_eos_token_id(end)
writer.add_unk_token_id(0)
writer.add_chat_template("{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}")

embedding = np.zeros((len(tokens), width), np.float16)
output = np.zeros((len(tokens), width), np.float16)
for token in range(len(tokens)):
    embedding[token, token] = 1
    in_chain = token >= first
    following = (token + 1 if token + 1 < len(tokens) else end) if in_chain else first
    output[following, token] = 1
writer.add_tensor("token_embd.weight", embedding)
writer.add_tensor("output.weight", output)
for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
    writer.add_tensor(name + ".weight", np.ones(width, np.float32))
for name, shape in (
    ("attn_q", (width, width)),
    ("attn_k", (width, width)),
    ("attn_v", (width, width)),
    ("attn_output", (width, width)),
    ("ffn_gate", (hidden, width)),
    ("ffn_up", (hidden, width)),
    ("ffn_down", (width, hidden)),
):
    writer.add_tensor(f"blk.0.{name}.weight", np.zeros(shape, np.float16))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
