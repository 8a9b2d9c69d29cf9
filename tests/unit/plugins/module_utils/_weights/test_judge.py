# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._weights.judge import (
    gguf_quant,
    holds,
    judge_weights,
    size_gb,
    weights_to_plain,
)
from ansible_collections.knaster.inventory.plugins.module_utils._weights.listing import (
    LIST_FUNCTION,
    parse_listing,
)


def state_of(one):
    """Return the state of a model, with its finished files and all of them where it is partial."""
    return one.state if one.state != "partial" else f"partial {one.have} of {'?' if one.parts is None else one.parts}"


REV = "0123456789abcdef0123456789abcdef01234567"
OLD = "fedcba9876543210fedcba9876543210fedcba98"
CACHE = "hub/models--acme--Llama-3"
SNAP = f"{CACHE}/snapshots/{REV}"
INDEX = [f"i a/m/model.safetensors.index.json\tmodel-0000{part}-of-00002.safetensors" for part in (1, 2)]

# The lines of a listing, and what it holds: name, state in words, format.
TEST_JUDGED = [
    pytest.param(["f 100 acme/tiny/model.safetensors"], [("acme/tiny", "complete", "safetensors")], id="one-file"),
    pytest.param(
        ["f 0 acme/tiny/model.safetensors"], [("acme/tiny", "partial 0 of 1", "safetensors")], id="empty-file"
    ),
    pytest.param(["f 9 acme/tiny/config.json", "f 9 acme/tiny/README.md"], [], id="no-weights"),
    pytest.param([], [], id="empty-directory"),
    pytest.param(
        [*INDEX, "f 5 a/m/model-00001-of-00002.safetensors", "f 5 a/m/model-00002-of-00002.safetensors"],
        [("a/m", "complete", "safetensors")],
        id="index-all-shards",
    ),
    pytest.param(
        [*INDEX, "f 5 a/m/model-00001-of-00002.safetensors"],
        [("a/m", "partial 1 of 2", "safetensors")],
        id="index-one-shard-missing",
    ),
    pytest.param(
        ["i a/m/model.safetensors.index.json\tone.safetensors"],
        [("a/m", "partial 0 of 1", "safetensors")],
        id="index-only",
    ),
    pytest.param(
        ["i a/m/model.safetensors.index.json\tone.safetensors", "f 5 a/m/model.safetensors"],
        [("a/m", "partial 1 of 2", "safetensors")],
        id="index-names-another-file",
    ),
    pytest.param(
        ["f 5 a/m/model-00002-of-00003.safetensors"], [("a/m", "partial 1 of 3", "safetensors")], id="numbered"
    ),
    pytest.param(
        ["f 5 a/m/model.safetensors", "f 5 a/m/model.safetensors.aria2"],
        [("a/m", "partial 0 of 1", "safetensors")],
        id="full-size-but-under-way",
    ),
    pytest.param(
        ["f 5 a/m/model.safetensors.part"], [("a/m", "partial 0 of 1", "safetensors")], id="only-the-unfinished-file"
    ),
    pytest.param(
        ["f 5 a/m/model.safetensors", "f 2 a/m/model.safetensors.part"],
        [("a/m", "complete", "safetensors")],
        id="remains-of-an-earlier-attempt",
    ),
    pytest.param(
        ["f 134 a/m/model.safetensors", "p a/m/model.safetensors"],
        [("a/m", "partial 0 of 1", "safetensors")],
        id="git-lfs-pointer",
    ),
    pytest.param(["f 5 a/m/pytorch_model.bin"], [("a/m", "complete", "pytorch")], id="pytorch"),
    pytest.param(
        ["f 5 a/m/model.safetensors", "f 0 a/m/pytorch_model.bin"],
        [("a/m", "complete", "safetensors")],
        id="safetensors-before-pytorch",
    ),
    pytest.param(
        ["f 0 a/m/model.safetensors", "f 5 a/m/pytorch_model.bin"],
        [("a/m", "partial 0 of 1", "safetensors")],
        id="an-engine-takes-the-broken-safetensors",
    ),
    pytest.param(
        ["f 5 a/m/model.safetensors", "i a/m/pytorch_model.bin.index.json\tpytorch_model-00001-of-00009.bin"],
        [("a/m", "complete", "safetensors")],
        id="index-of-a-format-that-is-not-there",
    ),
    pytest.param(["f 5 a/m/training_args.bin", "f 5 a/m/optimizer.bin"], [], id="training-state"),
    pytest.param(["f 5 a/lora/adapter_model.safetensors"], [], id="adapter"),
    pytest.param(
        ["f 5 a/m/model.safetensors", "f 5 a/m/original/consolidated.00.pth", "f 5 a/m/2_Dense/model.safetensors"],
        [("a/m", "complete", "safetensors")],
        id="other-forms-of-the-same-model",
    ),
    pytest.param(
        ["f 5 original/m/model.safetensors"], [("original/m", "complete", "safetensors")], id="owner-original"
    ),
    pytest.param(["f 5 name/model.safetensors"], [("name", "complete", "safetensors")], id="one-level"),
    pytest.param(["f 5 llm/acme/m/model.safetensors"], [("acme/m", "complete", "safetensors")], id="three-levels"),
    pytest.param(["f 5 model.safetensors"], [("mnt/models", "complete", "safetensors")], id="the-directory-itself"),
    pytest.param(
        ["f 5 a/m/m-Q4_K_M.gguf", "f 5 a/m/m-Q8_0.gguf", "f 5 a/m/mmproj-F16.gguf", "f 5 a/m/imatrix.gguf"],
        [("a/m/m-Q4_K_M.gguf", "complete", "gguf"), ("a/m/m-Q8_0.gguf", "complete", "gguf")],
        id="gguf-each-file",
    ),
    pytest.param(["f 5 m.gguf"], [("m.gguf", "complete", "gguf")], id="gguf-in-the-directory-itself"),
    pytest.param(
        ["f 5 a/m/m-Q8_0-00001-of-00002.gguf", "f 5 a/m/m-Q8_0-00002-of-00002.gguf"],
        [("a/m/m-Q8_0-00001-of-00002.gguf", "complete", "gguf")],
        id="gguf-split",
    ),
    pytest.param(
        ["f 5 a/m/m-Q8_0-00002-of-00003.gguf"],
        [("a/m/m-Q8_0-00001-of-00003.gguf", "partial 1 of 3", "gguf")],
        id="gguf-split-without-its-first",
    ),
    pytest.param(
        ["f 5 a/m/Q4_K_M/m-Q4_K_M-00001-of-00001.gguf"],
        [("a/m/Q4_K_M/m-Q4_K_M-00001-of-00001.gguf", "complete", "gguf")],
        id="gguf-folder-per-quantisation",
    ),
    pytest.param(
        [f"f 5 {CACHE}/blobs/aa", f"l 50 {SNAP}/model.safetensors\t../../blobs/aa", f"r {CACHE}/refs/main\t{REV}"],
        [("acme/Llama-3", "complete", "safetensors")],
        id="cache",
    ),
    pytest.param(
        [f"f 5 {CACHE}/blobs/aa", f"f 3 {CACHE}/blobs/bb.incomplete"]
        + [f"l 50 {SNAP}/model-00002-of-00002.safetensors\t../../blobs/aa"]
        + [f"i {SNAP}/model.safetensors.index.json\tmodel-0000{n}-of-00002.safetensors" for n in (1, 2)],
        [("acme/Llama-3", "partial 1 of 2", "safetensors")],
        id="cache-one-shard-under-way",
    ),
    pytest.param(
        [f"f 3 {CACHE}/blobs/bb.incomplete"], [("acme/Llama-3", "partial 0 of ?", "unknown")], id="cache-just-begun"
    ),
    pytest.param(
        [f"l 50 {SNAP}/model.safetensors\t../../blobs/aa"],
        [("acme/Llama-3", "partial 0 of 1", "safetensors")],
        id="cache-dangling-link",
    ),
    pytest.param(
        ["f 5 other/aa.safetensors", f"l 50 {SNAP}/model.safetensors\t../../../../other/aa.safetensors"],
        [("other", "complete", "safetensors")],
        id="cache-link-out-of-the-entry",
    ),
    pytest.param(
        [f"l 50 {SNAP}/model.safetensors\t/data/model.safetensors", "l 9 a/m/model.safetensors\t../x.safetensors"],
        [],
        id="links-that-are-not-followed",
    ),
    pytest.param([f"f 5 {SNAP}/model.safetensors"], [("acme/Llama-3", "complete", "safetensors")], id="cache-no-links"),
    pytest.param(
        [
            f"f 5 {SNAP}/model.safetensors",
            f"f 5 {CACHE}/snapshots/{OLD}/model.safetensors",
            f"r {CACHE}/refs/main\t{REV}",
        ],
        [("acme/Llama-3", "complete", "safetensors"), (f"acme/Llama-3@{OLD}", "complete", "safetensors")],
        id="cache-two-revisions",
    ),
    pytest.param(
        [f"f 5 {CACHE}/snapshots/{OLD}/model.safetensors", f"r {CACHE}/refs/main\t{REV}"],
        [(f"acme/Llama-3@{OLD}", "complete", "safetensors")],
        id="cache-main-went-on-without-weights",
    ),
    pytest.param(
        [f"f 5 {SNAP}/q/m-Q4_0.gguf", f"f 5 {CACHE}/snapshots/{OLD}/q/m-Q4_0.gguf", f"r {CACHE}/refs/main\t{REV}"],
        [("acme/Llama-3/q/m-Q4_0.gguf", "complete", "gguf")],
        id="cache-gguf-in-two-snapshots",
    ),
    pytest.param(
        ["f 5 hub/models--gpt2/snapshots/x/model.safetensors"],
        [("gpt2", "complete", "safetensors")],
        id="cache-no-owner",
    ),
    pytest.param(
        ["f 5 .cache/huggingface/hub/models--a--b--c/snapshots/x/model.safetensors"],
        [("a/b--c", "complete", "safetensors")],
        id="cache-in-a-home",
    ),
    pytest.param(
        [
            "-rw-r--r-- 1 0 0 1234 Jan  1 12:00 ./a/my model/model.safetensors",
            f"lrwxrwxrwx 1 0 0 52 Jan  1  2025 ./{SNAP}/model.safetensors -> ../../blobs/aa",
            f"-rw-r--r--. 1 0 0 7 Jan  1 12:00 ./{CACHE}/blobs/aa\r",
        ],
        [("a/my model", "complete", "safetensors"), ("acme/Llama-3", "complete", "safetensors")],
        id="lines-of-ls",
    ),
    pytest.param(["", "total 5", "f x y", "f 5", "i nothing", "\x00"], [], id="what-is-no-listing"),
]


@pytest.mark.parametrize(("lines", "expected"), TEST_JUDGED)
def test_judge_weights(lines, expected):
    found = judge_weights(parse_listing("/mnt/models", "\n".join([*lines, "end"])))
    assert [(one.name, state_of(one), one.format) for one in found] == expected
    # The order of a listing is whatever the file system says.
    assert judge_weights(parse_listing("/mnt/models", "\n".join([*reversed(lines), "end"]))) == found


def test_details_of_weights_in_a_cache():
    lines = [f"f 5000000000 {CACHE}/blobs/aa", f"f 11600000000 {CACHE}/blobs/bb"]
    lines += [f"l 50 {SNAP}/model-0000{n}-of-00002.safetensors\t../../blobs/{b}" for n, b in ((1, "aa"), (2, "bb"))]
    lines += [f"r {CACHE}/refs/main\t{REV}\n", f"r {CACHE}/refs/v1.0\t{REV}", "end"]
    (one,) = judge_weights(parse_listing("/srv", "\n".join(lines)))
    assert weights_to_plain(one, shared=False) == {
        "name": "acme/Llama-3",
        "path": f"/srv/{SNAP}",
        "size_gb": 17,
        "shared": False,
        "format": "safetensors",
        "state": "complete",
        "repo": "acme/Llama-3",
        "revision": REV,
        "refs": ["main", "v1.0"],
    }


def test_what_is_missing_is_named_up_to_a_few():
    (one,) = judge_weights(parse_listing("/m", "f 5 a/m/model-00001-of-00030.safetensors\nend"))
    plain = weights_to_plain(one)
    assert plain["parts"] == {"have": 1, "of": 30}
    assert plain["missing"] == [f"model-0000{n}-of-00030.safetensors" for n in range(2, 7)]


def test_a_listing_that_was_cut_off_proves_only_what_it_shows():
    text = "f 5 a/whole/model.safetensors\nf 5 a/half/model-00001-of-00002.safetensors\n"
    assert [(one.name, one.state) for one in judge_weights(parse_listing("/m", text))] == [
        ("a/half", "unknown"),
        ("a/whole", "complete"),
    ]


def test_a_numbering_beyond_reason_costs_nothing():
    (one,) = judge_weights(parse_listing("/m", "f 5 a/m/model-00001-of-99999.safetensors\nend"))
    assert one.state == "partial"
    assert one.parts == 10_000


ENTRY = {
    "name": "acme/Llama-3",
    "path": "/models/acme/Llama-3",
    "repo": "acme/Llama-3",
    "revision": REV,
    "refs": ["main", "v1"],
}
GGUF = {"name": "acme/m/q/m-Q4_K_M.gguf", "path": "/models/acme/m/q/m-Q4_K_M.gguf", "repo": "acme/m", "quant": "Q4_K_M"}
TEST_HOLDS = [
    ([ENTRY], "acme/Llama-3", True),
    ([ENTRY], "ACME/llama-3", True),
    ([ENTRY], "acme/Llama-3.1", False),
    ([ENTRY], "/models/acme/Llama-3", True),
    ([ENTRY], "/models/acme/Llama-3/", True),
    ([ENTRY], "/models/acme/llama-3", False),
    ([ENTRY], "/other/acme/Llama-3", False),
    ([ENTRY], f"acme/Llama-3@{REV}", True),
    ([ENTRY], "acme/Llama-3@v1", True),
    ([ENTRY], f"acme/Llama-3@{OLD}", False),
    ([{"name": "acme/Llama-3", "path": "/m"}], "acme/Llama-3", True),
    ([{"name": "acme/Llama-3", "path": "/m"}], f"acme/Llama-3@{REV}", False),
    ([{"name": "acme/Llama-3@v2", "path": "/m"}], "acme/Llama-3@v2", True),
    ([{"name": "acme/m:Q4_K_M", "path": "/m"}], "acme/m:q4_k_m", True),
    ([{**ENTRY, "state": "partial"}], "acme/Llama-3", False),
    ([{**ENTRY, "state": "unknown"}], "acme/Llama-3", False),
    ([{**ENTRY, "state": "partial"}, ENTRY], "acme/Llama-3", True),
    ([GGUF], "acme/m:Q4_K_M", True),
    ([GGUF], "acme/m:Q8_0", False),
    ([GGUF], "acme/m/q/m-Q4_K_M.gguf", True),
    ([GGUF], "/models/acme/m/q/m-Q4_K_M.gguf", True),
    ([GGUF], "acme/m", False),
    ([], "acme/m", False),
    (None, "acme/m", False),
    ([ENTRY], None, False),
    ([ENTRY], "", False),
    ([{"path": "/m"}, {"name": None}], "acme/m", False),
]


@pytest.mark.parametrize(("weights", "source", "expected"), TEST_HOLDS)
def test_holds(weights, source, expected):
    assert holds(weights, source) is expected


TEST_QUANTS = [
    ("m-Q4_K_M.gguf", "Q4_K_M"),
    ("m.q8_0.gguf", "Q8_0"),
    ("m-UD-Q4_K_XL-00001-of-00003.gguf", "UD-Q4_K_XL"),
    ("m-IQ4_XS.gguf", "IQ4_XS"),
    ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
    ("m-BF16.gguf", "BF16"),
    ("Qwen3-8B.gguf", None),
]


@pytest.mark.parametrize(("name", "expected"), TEST_QUANTS)
def test_gguf_quant(name, expected):
    assert gguf_quant(name) == expected


TEST_SIZES = [
    (0, None),
    (1, 0.1),
    (560_000_000, 0.6),
    (9_940_000_000, 9.9),
    (16_060_000_000, 16),
    (141_107_000_000, 141),
]


@pytest.mark.parametrize(("size", "expected"), TEST_SIZES)
def test_size_gb(size, expected):
    assert size_gb(size) == expected


SHELLS = [
    pytest.param(shell, id=shell[0])
    for shell in (["dash"], ["bash", "--posix"], ["busybox", "sh"])
    if shutil.which(shell[0])
]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_lists_what_is_there(shell, tmp_path):
    tree = tmp_path / "the models"
    snap = tree / SNAP
    blobs = tree / CACHE / "blobs"
    for folder in (snap, blobs, tree / CACHE / "refs", tree / "a/plain", tree / "a/cloned", tree / "a/gguf"):
        folder.mkdir(parents=True)
    (blobs / "aa").write_bytes(b"x" * 700)
    (blobs / "cc").write_text(
        json.dumps({"weight_map": {f"l{n}": f"model-0000{n}-of-00002.safetensors" for n in (1, 2)}})
    )
    (blobs / "bb.incomplete").write_bytes(b"x")
    (snap / "model-00001-of-00002.safetensors").symlink_to("../../blobs/aa")
    (snap / "model.safetensors.index.json").symlink_to("../../blobs/cc")
    (tree / CACHE / "refs/main").write_text(REV)
    (tree / "a/plain/model.safetensors").write_bytes(b"x" * 10)
    (tree / "a/cloned/model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    (tree / "a/gguf/m-Q4_0.gguf").write_bytes(b"x" * 600)
    secret = tmp_path / "secret.index.json"
    secret.write_text('{"weight_map": {"x": "secret.safetensors"}}')
    (tree / "a/plain/model.safetensors.index.json").symlink_to(secret)

    script = LIST_FUNCTION + 'list_weights "$1"\n'
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    done = subprocess.run(
        [*shell, "-c", script, "sh", str(tree)], capture_output=True, text=True, check=False, timeout=60, env=env
    )
    assert done.stderr == ""
    assert "secret.safetensors" not in done.stdout
    found = judge_weights(parse_listing(str(tree), done.stdout))
    assert [(one.name, state_of(one), one.size_bytes, one.refs) for one in found] == [
        ("a/cloned", "partial 0 of 1", 0, ()),
        ("a/gguf/m-Q4_0.gguf", "complete", 600, ()),
        ("a/plain", "complete", 10, ()),
        ("acme/Llama-3", "partial 1 of 2", 700, ("main",)),
    ]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_says_that_there_is_no_directory(shell, tmp_path):
    done = subprocess.run(
        [*shell, "-c", LIST_FUNCTION + 'list_weights "$1"\n', "sh", str(tmp_path / "none")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0
    assert "end" not in done.stdout.splitlines()
