# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import functools
import os
import tracemalloc
import typing as t

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog import yaml_file
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.load import (
    load_catalog,
    read_catalog,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import (
    CatalogError,
)
from ansible_collections.knaster.inventory.tests.peers.limits import cpu_limit

if t.TYPE_CHECKING:
    from pathlib import Path

MODEL = "  - {name: chat, kind: llm, engines: [vllm]}\n"
ROLE = "  - {name: large, needs: {engine: vllm}}\n"


def write(directory: Path, **files: str | bytes) -> str:
    directory.mkdir(exist_ok=True)
    for name, text in files.items():
        data = text if isinstance(text, bytes) else text.encode()
        (directory / f"{name}.yaml").write_bytes(data)
    return str(directory)


def errors_of(*directories: str) -> list[str]:
    with pytest.raises(CatalogError) as caught:
        read_catalog(directories)
    strip = os.path.dirname(directories[0])
    return [str(problem).replace(f"{strip}/", "") for problem in caught.value.errors]


def test_reads_what_is_there(tmp_path: Path) -> None:
    found = read_catalog([write(tmp_path / "c", models="models:\n" + MODEL, roles="roles:\n" + ROLE)])
    assert [model.name for model in found.catalog.models] == ["chat"]
    assert [role.name for role in found.catalog.roles] == ["large"]
    assert found.sources["models"] == {"chat": {"file": f"{tmp_path}/c/models.yaml", "line": 2}}


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n", "models:\n", "models: []\n", "{}\n"])
def test_nothing_is_an_empty_catalog(tmp_path: Path, text: str) -> None:
    found = read_catalog([write(tmp_path / "c", models=text)])
    assert found.catalog.models == ()
    silent = "models" in text or "{}" in text
    warning = f"{tmp_path}/c/models.yaml:1:1: this file holds nothing; begin it with models: or remove it"
    assert list(map(str, found.problems)) == ([] if silent else [warning])


# The text of models.yaml and the errors that it gives.
TEST_MODEL_FILES: list[tuple[str, str | bytes, list[str]]] = [
    ("no YAML", "models: [\n", ["c/models.yaml:2:1: this is not YAML: "]),
    ("a sentence", "These are my models\n", ['c/models.yaml:1:1: expected a map with the key models, found "These are my models"; begin']),
    ("a list", "- name: a\n", ["c/models.yaml:1:1: expected a map with the key models, found a list; begin the file with models:"]),
    ("tab", "models:\n\t- name: a\n", ["c/models.yaml:2:1: this is not YAML: found character that cannot start any token; indent with blanks"]),
    ("two documents", "models: []\n---\nmodels: []\n", ["c/models.yaml:2:1: this is not YAML: but found another document; a catalog file is one"]),
    ("unknown alias", "models: *x\n", ["c/models.yaml:1:9: this is not YAML: found undefined alias; an anchor of that name must stand before it"]),
    ("unknown key", "model:\n" + MODEL, ['c/models.yaml:1:1: "model" is not a key of models.yaml; did you mean models?']),
    ("key twice", "models: []\nmodels: []\n", ["c/models.yaml:2:1: the key models stands twice; merge the two into one"]),
    ("no list", "models: {a: 1}\n", ["c/models.yaml:1:9: models: expected a list, found a map; begin each entry with a dash"]),
    ("not UTF-8", b"models: # caf\xe9\n", ["c/models.yaml:1: is not UTF-8 text; save it as UTF-8, or restore it"]),
    ("control character", "models: \x01\n", ["c/models.yaml:1"]),
    ("binary", bytes(range(256)), ["c/models.yaml:"]),
    ("nul", b"models:\n\0\0\0", ["c/models.yaml:"]),
    ("wrong value", "models:\n  - name: a\n    kind: llm\n    engines: [vllm]\n    min_cc: abc\n",
     ['c/models.yaml:5:13: models[0].min_cc (model a): "abc" is not a valid compute capability; write major.minor, such as 8.9']),
    ("missing key", "models:\n  - {name: a, kind: llm, engines: [vllm]}\n  - name: b\n    engines: [vllm]\n",
     ["c/models.yaml:3:5: models[1].kind (model b): is required; one of"]),
    ("unknown key of a profile", "models:\n- name: a\n  kind: llm\n  source: o/a\n  profiles:\n  - name: p\n    gpu_class: l4\n    t_p: 1\n",
     ['c/models.yaml:8:5: models[0].profiles[0].t_p (model a, profile p): unknown key "t_p"; did you mean tp?']),
    ("two of one name", "models:\n" + MODEL + MODEL,
     ["c/models.yaml:3:12: models[1].name (model chat): a second model is called chat; the first is at c/models.yaml:2:12"]),
    ("key of an entry twice", "models:\n  - name: a\n    kind: llm\n    engines: [vllm]\n    kind: llm\n",
     ['c/models.yaml:5:5: the key "kind" stands twice; remove one of the two']),
    ("no name of a key", "models:\n  - {name: a, kind: llm, engines: [vllm], [x]: 1}\n", ["c/models.yaml:2:43: this is no name of a key"]),
    ("python tag", "models:\n  - {name: a, kind: llm, engines: [vllm], description: !!python/object/apply:os.system [id]}\n",
     ["c/models.yaml:2:56: the tag tag:yaml.org,2002:python/object/apply:os.system is not allowed in a catalog; write the plain value"]),
    ("own tag", "models:\n  - {name: a, kind: llm, engines: [vllm], description: !vault x}\n", ["c/models.yaml:2:56: the tag !vault is not allowed"]),
    ("plain tag", "models:\n  - {name: a, kind: llm, engines: [vllm], min_cc: !!float 8}\n", ["c/models.yaml:2:51: the tag tag:yaml.org,2002:float"]),
    ("merge of no map", "models:\n  - {<<: 3, name: a, kind: llm, engines: [vllm]}\n", ["c/models.yaml:2:10: << takes over a map, not"]),
    ("defaults key", "defaults: {idle: 3m}\nmodels:\n" + MODEL, [('c/models.yaml:1:12: defaults.idle (of the '
     'models): unknown key "idle"; known: idle_timeout')]),
    ("defaults short", "defaults: {idle_timeout: 3s}\nmodels:\n" + MODEL, ["c/models.yaml:1:26: defaults.idle_timeout (of the models): an idle timeout of 3s"]),
    ("name yes", "models:\n  - {name: yes, kind: llm, engines: [vllm]}\n",
     ["c/models.yaml:2:12: models[0].name (model without a name): must be text, not true; write it in quotes"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), [pytest.param(*case[1:], id=case[0]) for case in TEST_MODEL_FILES])
def test_model_files(tmp_path: Path, text: str | bytes, expected: list[str]) -> None:
    found = errors_of(write(tmp_path / "c", models=text))
    assert len(found) == len(expected), found
    for line, start in zip(found, expected, strict=True):
        assert line.replace(f"{tmp_path}/", "").startswith(start), line


def test_what_depends_on_a_broken_file_is_not_reported(tmp_path: Path) -> None:
    roles = "roles:\n  - {name: r, needs: {engine: vllm}, slots: [{name: s, model: chat}], count: x}\n"
    found = errors_of(write(tmp_path / "c", models="models: [\n", roles=roles))
    assert [line.split(": ")[0] for line in found] == ["c/models.yaml:2:1", "c/roles.yaml:2:78"]


def test_errors_of_all_files_at_once_in_order(tmp_path: Path) -> None:
    first = write(tmp_path / "c", models="models:\n  - {kind: llm, engines: [vllm], vram_gb: x}\n", roles="roles: 3\n")
    second = write(tmp_path / "d", roles="roles:\n  - {name: r}\n", engines="engines:\n- 3\n")
    with pytest.raises(CatalogError) as caught:
        read_catalog([first, second])
    lines = str(caught.value).replace(f"{tmp_path}/", "").splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        "c/roles.yaml:1:8",
        "c/models.yaml:2:5",
        "c/models.yaml:2:43",
        "d/roles.yaml:2:5",
        "d/engines.yaml:2:3",
        "The catalog has 5 errors in 4 files.",
    ]


# --- layers


def test_later_directories_win_by_name(tmp_path: Path) -> None:
    base = write(
        tmp_path / "base",
        models="models:\n  - {name: a, kind: llm, engines: [vllm], vram_gb: 1}\n  - {name: b, kind: llm, engines: [vllm]}\n",
    )
    site = write(
        tmp_path / "site",
        models="models:\n\n  - {name: c, kind: llm, engines: [vllm]}\n  - {name: a, kind: llm, engines: [vllm], vram_gb: 2}\n",
    )
    found = read_catalog([base, site])
    assert [(model.name, model.vram_gb) for model in found.catalog.models] == [("a", 2), ("b", None), ("c", None)]
    assert found.sources["models"] == {
        "a": {"file": f"{site}/models.yaml", "line": 4, "replaces": [f"{base}/models.yaml:2"]},
        "b": {"file": f"{base}/models.yaml", "line": 3},
        "c": {"file": f"{site}/models.yaml", "line": 3},
    }


def test_a_replaced_entry_may_be_wrong(tmp_path: Path) -> None:
    base = write(tmp_path / "base", models="models:\n  - {name: chat, kind: lm}\n")
    site = write(tmp_path / "site", models="models:\n" + MODEL)
    assert errors_of(base)
    assert read_catalog([base, site]).catalog.models[0].kind == "llm"


def test_an_error_names_the_layer_and_its_own_index(tmp_path: Path) -> None:
    base = write(tmp_path / "base", models="models:\n" + MODEL)
    site = write(tmp_path / "site", models="models:\n  - {name: x, kind: llm, engines: [vllm], min_cc: y}\n")
    assert errors_of(base, site)[0].startswith("site/models.yaml:2:51: models[0].min_cc (model x)")


def test_names_are_checked_over_all_layers(tmp_path: Path) -> None:
    base = write(tmp_path / "base", models="models:\n" + MODEL)
    site = write(tmp_path / "site", models="models:\n  - {name: x, kind: llm, engines: [vllm], aliases: [chat]}\n")
    assert "alias chat of x is already the name of chat (base/models.yaml:2:12)" in errors_of(base, site)[0]


def test_three_layers_tell_the_whole_chain(tmp_path: Path) -> None:
    layers = [write(tmp_path / name, models="models:\n" + MODEL) for name in "abc"]
    assert read_catalog(layers).sources["models"]["chat"]["replaces"] == [
        f"{layers[0]}/models.yaml:2",
        f"{layers[1]}/models.yaml:2",
    ]


def test_defaults_of_the_last_directory(tmp_path: Path) -> None:
    model = "  - {{name: {0}, kind: llm, engines: [vllm], source: o/a, profiles: [{{name: p, gpu_class: l4}}], scaling: {{max: 1{1}}}}}\n"
    base = write(tmp_path / "base", models="defaults: {idle_timeout: 30m}\nmodels:\n" + model.format("a", ""))
    site = write(
        tmp_path / "site", models="defaults: {idle_timeout: 1h}\nmodels:\n" + model.format("b", ", idle_timeout: 5m")
    )
    text = model.format("c", ", idle_timeout: 0") + model.format("d", ", idle_timeout: null")
    (tmp_path / "site" / "models.yaml").open("a").write(text)
    times = {
        model.name: model.scaling and model.scaling.idle_timeout for model in read_catalog([base, site]).catalog.models
    }
    assert times == {"a": 3600, "b": 300, "c": 3600, "d": 3600}
    assert [model.scaling and model.scaling.idle_timeout for model in read_catalog([base]).catalog.models] == [1800]


# --- files that are none


def test_absent_directory(tmp_path: Path) -> None:
    assert errors_of(str(tmp_path / "nowhere")) == [
        "nowhere: cannot be read: no such file or directory; check the path"
    ]


def test_file_instead_of_directory(tmp_path: Path) -> None:
    write(tmp_path / "c", models="models:\n" + MODEL)
    assert errors_of(str(tmp_path / "c" / "models.yaml"))[0].startswith(
        "models.yaml: cannot be read: not a directory; check the path and the file system"
    )


def test_directory_without_files(tmp_path: Path) -> None:
    assert errors_of(write(tmp_path / "c"))[0].startswith(
        "c: this directory holds no catalog; it needs at least one of models.yaml"
    )


def test_no_directory_at_all() -> None:
    with pytest.raises(CatalogError, match="no directory was named"):
        read_catalog([])


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000])
def test_impossible_paths(path: str) -> None:
    with pytest.raises(
        CatalogError, match=r"cannot be read: (there is a NUL in its path|file name too long); check the path"
    ):
        read_catalog([path])


def test_directory_instead_of_file(tmp_path: Path) -> None:
    directory = write(tmp_path / "c", roles="roles:\n" + ROLE)
    (tmp_path / "c" / "models.yaml").mkdir()
    assert errors_of(directory) == [
        "c/models.yaml: cannot be read: is a directory; put a file of this name in its place"
    ]


def test_loop_of_links(tmp_path: Path) -> None:
    directory = write(tmp_path / "c")
    (tmp_path / "c" / "models.yaml").symlink_to("models.yaml")
    assert errors_of(directory) == [
        "c/models.yaml: cannot be read: too many levels of symbolic links; point the link at a real file"
    ]
    (tmp_path / "loop").symlink_to("loop")
    assert errors_of(str(tmp_path / "loop")) == [
        "loop: cannot be read: too many levels of symbolic links; point the link at a real file"
    ]


def test_link_to_nothing(tmp_path: Path) -> None:
    directory = write(tmp_path / "c")
    (tmp_path / "c" / "models.yaml").symlink_to("gone.yaml")
    assert errors_of(directory) == ["c/models.yaml: is a link that leads nowhere; point the link at a real file"]


def test_link_to_a_real_file(tmp_path: Path) -> None:
    directory = write(tmp_path / "c")
    (tmp_path / "real").write_text("models:\n" + MODEL)
    (tmp_path / "c" / "models.yaml").symlink_to(tmp_path / "real")
    assert len(read_catalog([directory]).catalog.models) == 1


def test_named_pipe_does_not_wait(tmp_path: Path) -> None:
    directory = write(tmp_path / "c")
    os.mkfifo(tmp_path / "c" / "models.yaml")
    assert errors_of(directory) == ["c/models.yaml: is not a regular file; put a file of this name in its place"]


@pytest.mark.parametrize(("what", "expected"), [("open", "c/models.yaml"), ("listdir", "c")])
def test_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, expected: str) -> None:
    directory = write(tmp_path / "c", models="models:\n" + MODEL)

    def refuse(*args: t.Any) -> t.NoReturn:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, what, refuse)
    assert errors_of(directory) == [
        f"{expected}: cannot be read: permission denied; give the user who runs this the right to do so"
    ]


def test_other_spellings_of_the_file_name(tmp_path: Path) -> None:
    directory = write(tmp_path / "c", model="models: []\n", roles="roles:\n" + ROLE)
    warnings = [str(problem) for problem in read_catalog([directory]).problems]
    assert warnings == [f"{directory}/model.yaml: model.yaml is not read; did you mean models.yaml?"]
    (tmp_path / "c" / "models.yml").write_text("models: []\n")
    assert errors_of(directory) == ["c/models.yml: models.yml is not read; rename it to models.yaml"]


# --- hostile YAML


def bomb(levels: int, width: int, style: str) -> str:
    lines = ["x: &a0 [lol]\n" if style == "list" else "x: &a0 {k: lol}\n"]
    for level in range(1, levels):
        inner = ", ".join(
            f"*a{level - 1}" if style == "list" else f"k{number}: *a{level - 1}" for number in range(width)
        )
        lines.append(f"x{level}: &a{level} [{inner}]\n" if style == "list" else f"x{level}: &a{level} {{{inner}}}\n")
    return "".join(lines) + f"models:\n  - {{name: a, kind: llm, engines: [vllm], env: *a{levels - 1}}}\n"


HOSTILE: list[tuple[str, str | bytes, str]] = [
    ("billion laughs", bomb(10, 9, "list"), "aliases multiply this file beyond measure"),
    ("billion laughs of maps", bomb(10, 9, "map"), "aliases multiply this file beyond measure"),
    ("alias of itself", "models: &a [*a]\n", "an alias contains itself"),
    ("map of itself", "models:\n  - &a {name: a, kind: llm, engines: [vllm], memory: *a}\n", "an alias contains itself"),
    ("merge of itself", "models:\n  - &a {name: a, kind: llm, engines: [vllm], <<: *a}\n", "an alias contains itself"),
    ("merges", "models:\n" + "".join(f"  - &m{n} {{name: n{n}, <<: [{', '.join(f'*m{k}' for k in range(n))}]}}\n" for n in range(40)),
     "aliases multiply this file beyond measure"),
    ("deep list", "models: " + "[" * 100_000, "exceeded maximum nesting depth"),
    ("deep list that ends", "models: " + "[" * 900 + "]" * 900, "nested more than 40 levels deep"),
    ("deep blocks", "models:\n" + "".join(" " * n + "-\n" for n in range(1, 400)), "nested more than 40 levels deep"),
    ("long number", "models:\n  - {name: a, kind: llm, engines: [vllm], context: " + "9" * 100_000 + "}\n", "must be a whole number"),
    ("many keys", "models:\n  - {" + ", ".join(f"k{n}: 1" for n in range(20_000)) + "}\n", "has 20000 unknown keys"),
    ("many wrong entries", "models: [" + "{a: 1, b: 2, c: 3, d: 4, e: 5}, " * 20_000 + "]\n", "so many mistakes that the rest was not looked at"),
    ("many keys twice", "models:\n  - {" + ", ".join("k: 1" for n in range(50_000)) + "}\n", 'the key "k" stands twice'),
    ("many entries", "models: [" + "1, " * 200_000 + "]\n", "must have at most 100000 entries, not 200000"),
    ("long name", "models:\n  - {name: " + "a" * 1_000_000 + ", kind: llm, engines: [vllm]}\n", "must have at most 200 characters, not 1000000"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), [pytest.param(*case[1:], id=case[0]) for case in HOSTILE])
def test_hostile(tmp_path: Path, text: str | bytes, expected: str) -> None:
    with cpu_limit():
        found = errors_of(write(tmp_path / "c", models=text))
    assert any(expected in line for line in found), [line[:200] for line in found[:5]]
    assert all(len(line) < 2000 for line in found)


def test_fifty_megabytes_are_not_read(tmp_path: Path) -> None:
    directory = write(tmp_path / "c")
    with (tmp_path / "c" / "models.yaml").open("wb") as stream:
        stream.truncate(50 * 1024 * 1024)
    tracemalloc.start()
    try:
        found = errors_of(directory)
        _now, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found[0].startswith("c/models.yaml: is larger than 4 MiB; check what this file is")
    assert most < 16 * 1024 * 1024


def test_useful_anchors_and_merges(tmp_path: Path) -> None:
    text = """
models:
  - &base
    name: a
    kind: llm
    engines: &engines [vllm, llamacpp]
    source: o/a
    profiles:
      - &GPU {name: p, gpu_class: l4, env: {A: "1"}}
      - {<<: *GPU, name: q, priority: 5}
  - {<<: *base, name: b, engines: *engines, lora: yes}
  - {<<: [{name: c, kind: llm}, *base], vram_gb: 0x10, context: 1_000}
"""
    models = read_catalog([write(tmp_path / "c", models=text)]).catalog.models
    assert [(model.name, model.lora, model.engines) for model in models] == [
        ("a", False, ("vllm", "llamacpp")),
        ("b", True, ("vllm", "llamacpp")),
        ("c", False, ("vllm", "llamacpp")),
    ]
    assert [(profile.name, profile.priority, profile.env) for profile in models[1].profiles] == [
        ("p", 0, {"A": "1"}),
        ("q", 5, {"A": "1"}),
    ]
    assert (models[2].vram_gb, models[2].context) == (16, 1000)


def test_place_behind_a_merge(tmp_path: Path) -> None:
    text = "models:\n  - &base\n    name: a\n    kind: llm\n    engines: [vllm]\n    vram_gb: x\n  - <<: *base\n    name: b\n"
    assert [line.split(": ")[0] for line in errors_of(write(tmp_path / "c", models=text))] == ["c/models.yaml:6:14"] * 2


TEST_SCALARS = [
    ("8.9", 8.9), ("8", 8), ('"8.9"', "8.9"), ("0x1F", 31), ("1_000", 1000), ("-3", -3), ("1.5e+3", 1500.0), ("yes", True),
    ("Off", False), ("~", None), ("null", None), ("", None), ("010", "010"), ("1:30", "1:30"), ("2024-01-01", "2024-01-01"),
    ("1e5", "1e5"), ("=", "="), ("<<", "<<"), ("y", "y"), (".5", 0.5), ("-.inf", float("-inf")), ("20m", "20m"),
    ("0o10", "0o10"), ("+", "+"), ("-", None), ("|\n      a\n      b\n", "a\nb\n"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), TEST_SCALARS)
@pytest.mark.parametrize("parser", ["fast", "plain"])
def test_scalars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: t.Any, parser: str) -> None:
    if parser == "plain":
        monkeypatch.setitem(__import__("sys").modules, "yaml.cyaml", None)
    monkeypatch.setattr(yaml_file, "_parser_class", functools.cache(yaml_file._parser_class.__wrapped__))
    if text == "-":
        text = "\n    -"
        expected = [None]
    loaded = load_catalog([write(tmp_path / "c", models=f"models:\n  - k: {text}\n")])
    assert loaded.sections["models"] == [{"k": expected}]
    assert not loaded.problems
    assert yaml_file._parser_class().__name__ == ("PlainParser" if parser == "plain" else "FastParser")
