# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Single mistakes made in the text of a good catalog: each is found, in its file and its line, and none breaks anything."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog import check
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.load import read_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import ERROR, CatalogError

SHIPPED = Path(check.__file__).parents[3] / "catalog"
LEAST = 200
MOST_OF_A_KIND = 12

# What the shipped catalog may not use, so that every rule meets its mistake.
RICH = {
    "models.yaml": """
defaults: {idle_timeout: 30m}
models:
  - name: rich
    kind: llm
    vram_gb: 40
    min_cc: 8.0
    engines: [vllm, llamacpp]
    context: 32768
    context_length: 16384
    max_output: 4096
    aliases: [rich-latest, gpt]
    fallbacks: [small]
    source: org/rich
    license: apache-2.0
    capabilities: [tools]
    slo: {ttft_p99: 500ms, tpot_p99: 50ms}
    memory:
      layers: 64
      attention_heads: 40
      kv_heads: 8
      full_kv_heads: 4
      head_dim: 128
      weights_gib: 20.5
      kv_bytes_per_token: 65536
      kv_bytes_per_window_token: 65536
      window: 1024
      index_bytes_per_token: 132
      state_bytes: 1024
      vocab: 151936
      hidden: 5120
      intermediate: 25600
      expert_gib: 10
      parts: [vision]
      vision_gib: 1.5
    spread: {by: label, label: rack, hard: true}
    profiles:
      - {name: two, gpu_class: rtx-4090, tp: 2, gpus_per_node: 2, nodes: 1, args: [--max-model-len, 16384], priority: 10}
      - name: wide
        gpu_class: l40s
        tp: 4
        pp: 2
        nodes: 2
        gpus_per_node: 4
        env: {NCCL_DEBUG: WARN}
        min_memory_gb: 64
        node_selector: {zone: a}
        startup_timeout: 30m
      - {name: copies, gpu_class: rtx-6000-ada, tp: 2, dp: 2, gpus_per_node: 4, expert_parallel: true, min_disk_gb: 100, weight: 1.5,
         image: "vllm/vllm-openai:nightly"}
      - {name: cpu, engine: llamacpp, args: [--ctx-size, "65536", --parallel, "4"]}
    scaling: {min: 2, max: 3, idle_timeout: 1h}
    engine_args:
      vllm: [--seed, 1]
      llamacpp: [--mlock]
    placement_priority: 50
  - name: small
    kind: llm
    engines: [vllm]
    lora: true
    replace: true
    context: 8192
    capabilities: {tools: true}
""",
    "roles.yaml": """
roles:
  - name: large
    needs: {engine: vllm, min_vram_gb: 40, min_cc: 8.0, max_cc: 9.0, kind: llm, gpu_class: l40s, vendor: nvidia}
    prefer: largest
    count: 2
    spread: node
    slots: [{name: chat, model: gpt, args: [--seed, 2]}, spare]
    priority: 10
    vm: {cores: 8, memory_mib: 32768, tags: [gpu]}
  - name: door
    needs:
      engine: llamacpp
      gpu: false
      min_memory_gb: 8
    colocate: cpu
  - name: keeper
    needs: {engine: llamacpp, gpu: false}
    colocate: cpu
""",
}

# For a key, values of a wrong type or out of range.
WRONG: dict[str, list[str]] = {
    "name": ["7", "[a]", "'a b'", "../x", "{a: b}"],
    "kind": ["llmm", "[llm]", "7"],
    "vram_gb": ["'24'", "-1", "24GB", "[24]", "yes", ".inf"],
    "min_vram_gb": ["'24'", "-1", "99999"],
    "min_cc": ["abc", "89", "-8.0", "[8, 0]", "true"],
    "max_cc": ["abc", "x.y", "7.0"],
    "engines": ["vllm", "7", "{vllm: 1}", "[vlm]", "[7]", "[vllm, vllm]"],
    "engine": ["vlm", "7", "[vllm]", "nonesuch"],
    "context": ["'8192'", "-1", "8k", "1.5"],
    "context_length": ["'8192'", "-1", "999999"],
    "max_output": ["all", "999999"],
    "lora": ["maybe", "1", "'true'"],
    "aliases": ["x", "[x, x]", "[7]"],
    "fallbacks": ["small", "[nonesuch]", "[{}]"],
    "source": ["./x", "https://x.example/a/b", "~/x", "7", "'a b'"],
    "profiles": ["two", "{name: two}"],
    "scaling": ["3", "[1]", "{minimum: 1}", "{min: 2, max: 1}"],
    "min": ["one", "[1]"],
    "max": ["many", "-1"],
    "idle_timeout": ["soon", "30s", "1x", "[1]"],
    "startup_timeout": ["soon", "-5m", "1m2h"],
    "ttft_p99": ["fast", "-1"],
    "memory": ["3", "[1]"],
    "slo": ["3", "fast"],
    "attention_heads": ["many", "-1", "1.5"],
    "kv_heads": ["x"],
    "layers": ["x", "-3"],
    "full_kv_heads": ["x", "-1", "1.5"],
    "head_dim": ["x", "-1"],
    "weights_gib": ["x", "-1", "15GiB"],
    "kv_bytes_per_token": ["x", "-1", "1.5"],
    "kv_bytes_per_window_token": ["x", "-1", "128k"],
    "window": ["x", "-1"],
    "index_bytes_per_token": ["x", "-1"],
    "state_bytes": ["x", "-1"],
    "vocab": ["x", "-1", "151k"],
    "hidden": ["x", "-1"],
    "intermediate": ["x", "-1"],
    "expert_gib": ["x", "-1"],
    "parts": ["vision", "[sound]"],
    "vision_gib": ["x", "-1"],
    "dp": ["x", "-1", "1.5", "'2'"],
    "expert_parallel": ["maybe", "1"],
    "image": ["7", "[a]", "'a b'", "-x"],
    "min_disk_gb": ["x", "-1"],
    "weight": ["x", "-1"],
    "spread": ["racks", "[node]", "{by: rack}", "{by: label}"],
    "gpu_class": ["RTX 4090", "[l4]", "7"],
    "tp": ["'2'", "x", "-1", "1.5"],
    "pp": ["x", "-1"],
    "nodes": ["x", "-2"],
    "gpus_per_node": ["3", "x"],
    "args": ["--x 1", "{a: b}", "['--a b']", "[true]"],
    "engine_args": ["[--x]", "{vllm: --x}", "{tgi: [--x]}", "{vllm: ['--a b']}", "{vllm: [--port, 1]}"],
    "replace": ["maybe", "[true]"],
    "tools": ["maybe", "[1]"],
    "env": ["A=1", "[A]", "{A-B: 1}", "{A: true}"],
    "node_selector": ["a", "[a]", "{a: true}"],
    "min_memory_gb": ["'8'", "-8", "lots"],
    "priority": ["high", "'1'", "1.5"],
    "placement_priority": ["high", "[1]"],
    "capabilities": ["tools", "[7]"],
    "license": ["7", "[mit]"],
    "needs": ["vllm", "[vllm]"],
    "prefer": ["biggest", "true"],
    "count": ["two", "-1", "1.5"],
    "slots": ["chat", "99", "[{model: gpt}]", "[a, a]", "[{name: s, model: nonesuch}]"],
    "vm": ["big", "[1]", "{core: 4}"],
    "cores": ["x", "-1"],
    "memory_mib": ["16G", "16"],
    "gpu": ["maybe", "'false'"],
    "vendor": ["nvida", "[nvidia]"],
    "colocate": ["[a]", "'a b'"],
    "model": ["nonesuch", "7"],
}
# What is wrong only beside what the rich catalog says elsewhere.
WRONG_IN_RICH = {
    "tp": ["3"],
    "dp": ["3"],
    "nodes": ["3"],
    "gpu_class": ["gtx-1080"],
    "kv_heads": ["7"],
    "max": ["1"],
    "vram_gb": ["400"],
}
REQUIRED = {("models", "name"), ("models", "kind"), ("profiles", "name"), ("roles", "name"), ("roles", "needs"), ("needs", "engine")}  # fmt: skip


class Mutation(t.NamedTuple):
    kind: str
    file: str
    line: int
    start: int
    end: int
    text: str

    def __str__(self) -> str:
        return f"{self.kind}-{self.file}-{self.line}-{self.text[:20]!r}"


def mutations(texts: dict[str, str]) -> list[Mutation]:
    """All single mistakes that can be made in these texts."""
    found: list[Mutation] = []
    for file, text in texts.items():
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
        names: list[yaml.Node] = []
        for owner, key, value in pairs(root, "top"):
            if key.value in WRONG and owner != "top":
                found += [replaced("wrong value", file, value, wrong) for wrong in WRONG[key.value]]
                if texts is RICH:
                    wrongs = WRONG_IN_RICH.get(key.value, ())
                    found += [replaced("contradiction", file, value, wrong) for wrong in wrongs]
            if (owner, key.value) in REQUIRED:
                # A key that is missing is reported where its map begins, which may be a line above.
                found.append(replaced("missing", file, value, "null"))
            if owner not in ("env", "node_selector", "labels", "capabilities"):
                found.append(replaced("misspelt key", file, key, key.value[:-1] + "qx"))
                found.append(
                    replaced("key twice", file, key, f"{key.value}: 1, {key.value}")
                    if flow(text, key)
                    else again(file, text, key)
                )
            if key.value == "name" and owner in ("models", "roles") and isinstance(value, yaml.ScalarNode):
                found += [replaced("name twice", file, value, names[-1].value)] if names else []
                names.append(value)
    # What other places refer to by an alias is more than one mistake.
    return [mutation for mutation in found if "&" not in texts[mutation.file][mutation.start : mutation.end]]


def pairs(node: yaml.Node, owner: str) -> t.Iterator[tuple[str, yaml.ScalarNode, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield owner, key, value
            yield from pairs(value, key.value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from pairs(item, owner)


def flow(text: str, key: yaml.Node) -> bool:
    line_start = text.rfind("\n", 0, key.start_mark.index) + 1
    return any(bracket in text[line_start : key.start_mark.index] for bracket in "{[")


def replaced(kind: str, file: str, node: yaml.Node, text: str) -> Mutation:
    start, end = node.start_mark.index, node.end_mark.index
    return Mutation(kind, file, node.start_mark.line + 1, start, end, text)


def again(file: str, text: str, key: yaml.Node) -> Mutation:
    start = key.start_mark.index
    return Mutation(
        "key twice", file, key.start_mark.line + 2, start, start, f"{key.value}: 1\n{' ' * key.start_mark.column}"
    )


def spread(found: list[Mutation]) -> list[Mutation]:
    """A fair choice: of each kind and each value so many, evenly over the text."""
    groups: dict[tuple[str, str], list[Mutation]] = {}
    for mutation in found:
        groups.setdefault((mutation.kind, "" if mutation.kind == "name twice" else mutation.text.strip()), []).append(
            mutation
        )
    chosen = [group[len(group) // 2] for group in groups.values()]
    for kind in sorted({mutation.kind for mutation in found}):
        rest = [mutation for mutation in found if mutation.kind == kind and mutation not in chosen]
        step = max(1, len(rest) // MOST_OF_A_KIND)
        chosen += rest[::step][:MOST_OF_A_KIND]
    return chosen


def texts_of(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in sorted(directory.glob("*.yaml"))}


BASES = {"rich": RICH, "shipped": texts_of(SHIPPED)}
CASES = [(base, mutation) for base, texts in BASES.items() for mutation in spread(mutations(texts))]


@pytest.mark.parametrize("base", BASES)
def test_without_a_mistake(tmp_path: Path, base: str) -> None:
    for name, text in BASES[base].items():
        (tmp_path / name).write_text(text, "utf-8")
    read_catalog([str(tmp_path)])


def test_enough_mistakes() -> None:
    for base in BASES:
        assert len([case for case in CASES if case[0] == base]) >= LEAST
    assert {mutation.kind for _base, mutation in CASES} == {
        "wrong value",
        "missing",
        "misspelt key",
        "key twice",
        "name twice",
        "contradiction",
    }


@pytest.mark.parametrize(("base", "mutation"), [pytest.param(*case, id=f"{case[0]}-{case[1]}") for case in CASES])
def test_every_mistake_is_found(tmp_path: Path, base: str, mutation: Mutation) -> None:
    for name, text in BASES[base].items():
        if name == mutation.file:
            text = text[: mutation.start] + mutation.text + text[mutation.end :]  # noqa: PLW2901
        (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(CatalogError) as caught:
        read_catalog([str(tmp_path)])
    places = [problem.place for problem in caught.value.problems if problem.severity == ERROR]
    lines = {place.line for place in places if place.file == str(tmp_path / mutation.file)}
    if mutation.kind == "missing":
        assert any(mutation.line - 4 <= line <= mutation.line for line in lines if line), str(caught.value)
    elif mutation.kind == "contradiction":
        assert lines, str(caught.value)
    else:
        assert mutation.line in lines, str(caught.value)
    assert len(caught.value.errors) <= 10, str(caught.value)
    # Each mistake is told once, and the one that was made is no more than that in its line.
    assert len(set(caught.value.errors)) == len(caught.value.errors)
    if mutation.kind == "wrong value" and base == "rich":
        told = [
            place for place in places if place.file == str(tmp_path / mutation.file) and place.line == mutation.line
        ]
        assert len(told) == 1, str(caught.value)
