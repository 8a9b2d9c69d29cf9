# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What a model can do beside answering, and the words of a command line that switch it on.

The parsers by family of models are those of the engines' own pages: tool_calling and reasoning_outputs of vLLM's documents,
tool_parser and separate_reasoning of SGLang's, for phi-4-mini, Qwen3-Coder and Qwen3.5 vLLM's recipes. A family that stands
nowhere has none: what is not switched on is not told.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._memory.run import option_name

if t.TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import Model

TOOLS, REASONING, VISION = "tools", "reasoning", "vision"

# Options that switch a capability on, by engine. An engine or a capability that is not here needs none: vLLM and SGLang take
# pictures as soon as the model does, llama.cpp reads calls and thoughts by the model's own template, Ollama by its library.
_SWITCHES: Mapping[tuple[str, str], str] = {
    ("vllm", TOOLS): "--tool-call-parser",
    ("vllm", REASONING): "--reasoning-parser",
    ("sglang", TOOLS): "--tool-call-parser",
    ("sglang", REASONING): "--reasoning-parser",
    # What reads pictures is a file of its own (llama.cpp of October 2026, tools/mtmd).
    ("llamacpp", VISION): "--mmproj",
}
# Other names of a switch.
_SAME: Mapping[str, str] = {"-mm": "--mmproj", "--mmproj-url": "--mmproj", "-mmu": "--mmproj"}
# Options that a switch needs beside it.
_BESIDE: Mapping[tuple[str, str], tuple[str, ...]] = {("vllm", TOOLS): ("--enable-auto-tool-choice",)}
# Options that switch a capability off.
_OFF: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("llamacpp", TOOLS): ("--no-jinja",),
    ("llamacpp", REASONING): ("--no-jinja",),
    ("vllm", VISION): ("--language-model-only",),
    ("llamacpp", VISION): ("--no-mmproj",),
}


class Family(t.NamedTuple):
    """A family of models, by the name of its weights, with the parser of each (engine, capability)."""

    name: re.Pattern[str]
    parsers: Mapping[tuple[str, str], str]


def _family(
    name: str,
    *,
    vllm: tuple[str | None, str | None] = (None, None),
    sglang: tuple[str | None, str | None] = (None, None),
) -> Family:
    keys = (("vllm", TOOLS), ("vllm", REASONING), ("sglang", TOOLS), ("sglang", REASONING))
    found = {key: parser for key, parser in zip(keys, (*vllm, *sglang), strict=True) if parser}
    return Family(re.compile(name), found)


# The first that matches counts, so a narrower name stands above a wider one.
FAMILIES: tuple[Family, ...] = (
    _family(r"deepseek-r1-distill", vllm=(None, "deepseek_r1"), sglang=(None, "deepseek-r1")),
    _family(r"deepseek-r1", vllm=("deepseek_v3", "deepseek_r1"), sglang=("deepseekv3", "deepseek-r1")),
    _family(r"deepseek-v3\.2", vllm=("deepseek_v32", "deepseek_v3"), sglang=("deepseekv32", "deepseek-v3")),
    _family(r"deepseek-v3\.1", vllm=("deepseek_v31", "deepseek_v3"), sglang=("deepseekv31", "deepseek-v3")),
    _family(r"deepseek-v3", vllm=("deepseek_v3", None), sglang=("deepseekv3", None)),
    _family(r"llama-3\.[123]", vllm=("llama3_json", None), sglang=("llama3", None)),
    _family(r"llama-4", vllm=("llama4_pythonic", None), sglang=("pythonic", None)),
    _family(r"qwen3-coder", vllm=("qwen3_coder", None), sglang=("qwen3_coder", None)),
    _family(r"qwen3\.\d", vllm=("qwen3_coder", "qwen3"), sglang=("qwen3_coder", "qwen3")),
    _family(r"qwen3", vllm=("hermes", "qwen3"), sglang=("qwen", "qwen3")),
    _family(r"qwq", vllm=("hermes", "deepseek_r1"), sglang=("qwen", None)),
    _family(r"qwen2\.5|hermes-2-(pro|theta)|hermes-3", vllm=("hermes", None), sglang=("qwen", None)),
    _family(r"(mi[sx]|devs|magis|minis)tral", vllm=("mistral", None), sglang=("mistral", None)),
    _family(r"gemma-4", vllm=("gemma4", "gemma4"), sglang=("gemma4", "gemma4")),
    _family(r"gpt-oss", vllm=("openai", "openai_gptoss"), sglang=("gpt-oss", "gpt-oss")),
    _family(r"glm-4\.7", vllm=("glm47", "glm45"), sglang=("glm47", "glm45")),
    _family(r"glm-4\.[56]", vllm=("glm45", "glm45"), sglang=("glm45", "glm45")),
    _family(r"kimi-k2", vllm=("kimi_k2", None), sglang=("kimi_k2", "kimi_k2")),
    _family(r"granite-4", vllm=("granite4", None)),
    _family(r"granite-3", vllm=("granite", "granite")),
    _family(r"phi-4-mini", vllm=("phi4_mini_json", None)),
    _family(r"hunyuan-a13b", vllm=("hunyuan_a13b", "hunyuan_a13b")),
    _family(r"olmo-3", vllm=("olmo3", None)),
)


def join_args(own: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
    """Return the words with further options behind them, without those that they have already."""
    given = {option_name(word) for word in own if word.startswith("-")}
    found = list(own)
    wanted = True
    for word in more:
        if word.startswith("-") and not word.lstrip("-")[:1].isdigit():
            wanted = option_name(word) not in given
        if wanted:
            found.append(word)
    return tuple(found)


def find_switches(names: Iterable[str], capabilities: Collection[str], engine: str) -> tuple[str, ...]:
    """Return the words that switch on what a model can do, as far as its family is known.

    :param names: what the family is known by; the first name that is of a known family counts
    """
    families = (family for name in names for family in FAMILIES if family.name.search(name.lower()))
    parsers = next(families, Family(re.compile(""), {})).parsers
    words: list[str] = []
    for key in ((engine, capability) for capability in capabilities):
        if key in parsers:
            words += [*_BESIDE.get(key, ()), _SWITCHES[key], parsers[key]]
    return tuple(words)


def args_for(model: Model, engine: str, own: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the words for a model on an engine's command line: its own there, then the model's, then the switches.

    :param own: the words of a profile or a slot, which keep their options
    """
    names = ((model.source or "").rpartition("/")[2], model.name)
    given = join_args(own, model.engine_args.get(engine, ()))
    if engine == "llamacpp" and model.sequences > 1:
        # It makes so many slots, each with its own cache; other engines share theirs among what comes.
        given = join_args(given, ("--parallel", str(model.sequences)))
    return join_args(given, find_switches(names, model.capabilities, engine))


def switched_on(capabilities: Sequence[str], engine: str, args: Sequence[str]) -> tuple[str, ...]:
    """Return the capabilities that an engine has with these words on its command line."""
    given = {_SAME.get(option, option) for option in map(option_name, args)}

    def is_on(capability: str) -> bool:
        key = (engine, capability)
        needed = {_SWITCHES[key], *_BESIDE.get(key, ())} if key in _SWITCHES else set()
        return needed <= given and given.isdisjoint(_OFF.get(key, ()))

    return tuple(filter(is_on, capabilities))
