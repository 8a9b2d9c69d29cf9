# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""The report as text: what is in it, that it is whole, and that nothing from data becomes markup."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._report import page as page_module
from ansible_collections.knaster.inventory.plugins.plugin_utils._report import view
from ansible_collections.knaster.inventory.tests.unit.plugins.plugin_utils._report.helpers import (
    HOSTILE,
    Fleet,
    Page,
    card,
    hostile,
    mixed,
    node,
    role,
)

ROOT = Path(__file__).resolve().parents[5]
# What the template itself uses; anything else came from data.
TAGS = (
    "html head meta title style body a svg defs pattern path circle header div h1 h2 h3 button span p strong dl dt dd data nav ul li"
    " main section form label input select option kbd code rect noscript table caption thead tr th tbody tfoot td details summary"
    " article footer script bdi"
)
ATTRIBUTES = (
    "lang charset http-equiv content name class href aria-hidden width height focusable id patternunits d cx cy r type hidden"
    " data-key value aria-label aria-labelledby tabindex role autocomplete spellcheck placeholder aria-describedby aria-live scope x y rx"
    " data-label data-find data-class data-kind data-base data-loss title"
)


@pytest.fixture(scope="module")
def fleet():
    return mixed()


@pytest.fixture(scope="module")
def page(fleet):
    return Page(fleet.page())


def test_numbers_equal_the_summary(fleet, page):
    summary = fleet.summary
    numbers = {key: values[0] for key, values in page.numbers.items()}
    assert all(len(set(values)) == 1 for values in page.numbers.values())
    for gpu_class, counts in summary["gpus"].items():
        for state, count in counts.items():
            assert numbers.pop(f"gpus.{gpu_class}.{state}") == count
    totals = {
        state: sum(counts[state] for counts in summary["gpus"].values())
        for state in ("total", "used", "free", "external", "unhealthy", "unknown")
    }
    assert totals == {"total": 22, "used": 10, "free": 9, "external": 1, "unhealthy": 1, "unknown": 1}
    assert numbers.pop("fabrics.largest") == 1
    assert numbers == {
        "nodes.ready": 5,
        "nodes.total": 7,
        "nodes.cordoned": 1,
        "nodes.unreachable": 1,
        **{f"gpus.{state}": count for state, count in totals.items()},
        "models.satisfied": summary["models"]["satisfied"],
        "models.total": summary["models"]["total"],
        "models.short": summary["models"]["short"],
        "models.on_demand": summary["models"]["on_demand"],
        "roles.satisfied": 2,
        "roles.total": 3,
        "roles.short": 1,
        "replicas.ready": 1,
        "replicas.total": 2,
        "replicas.failed": 1,
    }


def test_cards_of_the_picture_equal_the_ledger(fleet, page):
    data = page.data
    drawn = {
        (one[0], each[0]): data["states"][each[1]]
        for one in data["nodes"]
        for each in (one[4] if len(one) > 4 and one[4] else [])
    }
    assert drawn == {(row["node"], row["gpu_index"]): row["state"] for row in fleet.plan["ledger"]}


def test_a_broken_card_in_use_is_told_apart():
    made = Fleet([node("a", card(0, "l40s", 48))], [role("chat", 40)])
    made.plan["ledger"][0]["healthy"] = False
    data = Page(made.page()).data
    assert data["states"][data["nodes"][0][4][0][1]] == "broken"


def test_every_reason_is_there(fleet, page):
    text = page.text
    for one in fleet.summary["attention"]:
        assert " ".join(one["text"].split()) in text
    refusal = fleet.plan["unplaced"][0]
    assert refusal["role"] == "huge"
    assert refusal["reason"] in text
    for code, count in refusal["rejected"].items():
        assert f"{count} {view._REFUSED[code]}" in text
    for each in refusal["what_would_help"]:
        assert each["text"] in text
    for one in fleet.plan["assignments"]:
        assert one["why"]["text"] in text


def test_every_refusal_code_has_words():
    schema = json.loads((ROOT / "plugins/plugin_utils/_documents/schemas/plan.json").read_text(encoding="utf-8"))
    codes = schema["properties"]["unplaced"]["items"]["properties"]["code"]["enum"]
    assert set(codes) == set(view._REFUSED)


def test_a_bottleneck_is_named():
    made = Fleet([node("a", card(0, "l40s", 48))], [role("first", 40), role("second", 40)])
    assert made.plan["unplaced"][0]["bottleneck"]
    text = Page(made.page()).text
    assert "first and second together want 2 GPUs; 1 exists for them" in text
    assert "a:0" in text


def test_nodes_in_natural_order_whatever_their_order(fleet, page):
    assert [one[0] for one in page.data["nodes"]] == ["big-1", "big-2", "cpu-1", "gone-1", "mid-1", "mid-2", "mid-10"]
    turned = copy.copy(fleet)
    turned.nodes, turned.replicas, turned.losses = fleet.nodes[::-1], [], None
    plain = copy.copy(turned)
    plain.nodes = fleet.nodes
    assert turned.page() == plain.page()


def test_same_input_gives_the_same_text_and_stays_as_it_is(fleet):
    before = copy.deepcopy([fleet.nodes, fleet.plan, fleet.replicas, fleet.losses])
    assert fleet.page() == fleet.page()
    assert [fleet.nodes, fleet.plan, fleet.replicas, fleet.losses] == before


def test_changes_since_the_last_plan(fleet):
    made = mixed()
    made.previous = made.plan
    assert "Nothing changed." in Page(made.page()).text
    made.previous = copy.deepcopy(made.plan)
    gone = made.plan["assignments"].pop(0)
    text = Page(made.page()).text
    assert f"removed: {gone['role']}/{gone['replica']} at {gone['node']}:{gone['gpu_index']}" in text
    made.previous = None
    assert "Since the last plan" not in Page(made.page()).text


def test_losses_worst_first(fleet, page):
    losses = fleet.losses
    fatal = [one for one in losses if not one["survives"]]
    assert fatal
    assert len(fatal) < len(losses)
    rows = [int(values["data-loss"]) for tag, values in page.elements if tag == "tr" and "data-loss" in values]
    names = [page.data["nodes"][at][0] for at in rows]
    assert set(names) == {one["nodes"][0] for one in losses if one["hit"]}
    assert set(names[: len(fatal)]) == {one["nodes"][0] for one in fatal}


def test_losses_of_some_nodes_are_said_to_be_of_some():
    made = Fleet([node(f"n{at}", card(0, "l40s", 48)) for at in range(3)], [role("chat", 40, count=2)])
    text = Page(made.lose_each().page()).text
    assert "Everything finds another place, whichever node is lost. 1 node runs nothing of this plan." in text
    made.losses = made.losses[:1]
    assert "Everything on these nodes finds another place. Asked about 1 of 2 nodes in use." in Page(made.page()).text
    made.losses = None
    assert "If a node is lost" not in Page(made.page()).text


def test_a_long_list_keeps_everything():
    roles = [role(f"role-{at}", 900) for at in range(40)]
    made = Fleet([node(f"n{at}", card(0, "l40s", 48), state="cordoned") for at in range(40)], roles)
    page = Page(made.page())
    assert len(made.summary["attention"]) >= 40
    for one in made.summary["attention"]:
        assert one["text"] in page.text
    assert ("details", {"class": "rest"}) in page.elements


def test_without_a_script_it_can_be_read(fleet, page):
    text = fleet.page()
    plain = " ".join(re.sub(r"<[^>]*>", " ", each) for each in re.findall(r"<noscript>.*?</noscript>", text, re.DOTALL))
    for one in fleet.nodes:
        assert one["name"] in plain
    for one in fleet.plan["assignments"]:
        assert f"{one['role']}/{one['replica']}" in plain


def test_an_empty_fleet():
    made = Fleet([], [])
    page = Page(made.page())
    assert "No GPU is known." in page.text
    assert page.data["nodes"] == []


def test_a_profile_without_class_is_looked_up():
    gpu = {"index": 0, "name": "NVIDIA L40S", "memory_gb": 48, "compute_cap": 8.9}
    made = Fleet([{"name": "hand", "memory_gb": 64, "gpus": [gpu]}], [])
    data = Page(made.page()).data
    assert data["kinds"][data["nodes"][0][4][0][2]][0] == "l40s"


def test_a_card_that_no_profile_shows_any_more():
    made = Fleet([node("a", card(0, "l40s", 48))], [role("chat", 40)])
    made.nodes = [{"name": "a", "state": "unreachable", "gpus": None}]
    page = Page(made.page())
    one = page.data["nodes"][0][4][0]
    assert page.data["states"][one[1]] == "used"
    assert page.data["kinds"][one[2]][0] == "l40s"
    assert page.data["placed"][one[3][0]][0] == "chat/0"


@pytest.mark.parametrize("make", [mixed, hostile])
def test_nothing_from_data_is_markup(make):
    text = make().page()
    page = Page(text)
    assert {tag for tag, _values in page.elements} <= set(TAGS.split())
    assert {key for _tag, values in page.elements for key in values} <= set(ATTRIBUTES.split())
    assert (len(page.scripts), len(page.islands), len(page.styles)) == (1, 1, 1)
    assert {values["href"][0] for tag, values in page.elements if tag == "a"} == {"#"}
    assert sum(tag == "html" for tag, _values in page.elements) == 1
    text.encode()


def test_hostile_names_are_kept_as_they_are():
    made = hostile()
    page = Page(made.page())
    told = set(HOSTILE)
    assert {one[0] for one in page.data["nodes"]} == told
    assert {one[1] for one in page.data["placed"]} == told
    assert all(ord(character) < 128 for character in page.islands[0])
    assert "<" not in page.islands[0]
    assert "7*7" in page.text
    assert " 49 " not in page.text
    for name in HOSTILE:
        seen = " ".join(re.sub("[\x00-\x08\x7f\ud800]", "\ufffd", name).split())
        assert seen in page.text, name


def test_the_policy_allows_these_texts_and_nothing_else(page):
    policy = next(
        values["content"] for tag, values in page.elements if values.get("http-equiv") == "Content-Security-Policy"
    )
    hashes = [
        "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (page.styles[0], page.scripts[0])
    ]
    assert policy == (
        f"default-src 'none'; style-src '{hashes[0]}'; script-src '{hashes[1]}'; base-uri 'none'; form-action 'none'"
    )


def test_nothing_outside_is_needed(fleet):
    text = fleet.page()
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)|\ssrc=|<link|\sstyle=|\son[a-z]+=", text)


def test_no_string_becomes_html_in_the_script():
    script = page_module._part("page.js")
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|createContextualFragment", script
    )


def _themes():
    found = re.findall(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", page_module._part("page.css"))
    assert len(found) > 20
    return [{name: values[at] for name, *values in found} for at in (0, 1)]


def _luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one, other):
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


# Text needs 4.5 to 1 and what carries meaning in a picture 3 to 1 (WCAG 2.2, AA).
TEXTS = [
    *((ink, ground) for ink in ("ink", "muted", "link") for ground in ("paper", "raised")),
    ("on-used", "used"),
    ("muted", "unknown"),
    *((name, f"{name}-bg") for name in ("error", "warning", "ok", "info")),
]
PICTURES = [
    *(
        (name, ground)
        for name in ("used", "free-edge", "external-edge", "unhealthy-edge", "unknown-edge")
        for ground in ("paper", "raised")
    ),
    *((f"{name}-edge", name) for name in ("free", "external", "unhealthy", "unknown")),
    *((name, ground) for name in ("focus", "edge") for ground in ("paper", "raised")),
]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("pairs", "least"), [(TEXTS, 4.5), (PICTURES, 3.0)], ids=["text", "picture"])
def test_contrast(theme, pairs, least):
    colours = _themes()[theme]
    weak = {
        f"{one} on {other}": round(_contrast(colours[one], colours[other]), 2)
        for one, other in pairs
        if _contrast(colours[one], colours[other]) < least
    }
    assert not weak


def test_contrast_is_measured_right():
    assert round(_contrast("#ffffff", "#000000"), 1) == 21
    assert round(_contrast("#777777", "#ffffff"), 2) == 4.48


def test_the_built_collection_can_render(tmp_path):
    """The files of the page are part of what is built, and are found where it is installed."""
    tree = tmp_path / "tree"
    subprocess.run(["git", "init", "-q", str(tree)], check=True)
    for path in ("galaxy.yml", "README.md", "plugins/plugin_utils", "plugins/module_utils"):
        target = tree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-R", str(ROOT / path), str(target)], check=True)
    galaxy = Path(sys.executable).with_name("ansible-galaxy")
    subprocess.run(
        [galaxy, "collection", "build", "--output-path", tmp_path, tree], check=True, capture_output=True, timeout=60
    )
    installed = tmp_path / "at" / "ansible_collections" / "knaster" / "inventory"
    installed.mkdir(parents=True)
    subprocess.run(["tar", "-xzf", next(tmp_path.glob("*.tar.gz")), "-C", installed], check=True)
    code = (
        "from ansible_collections.knaster.inventory.plugins.plugin_utils._report import page as p;"
        "print(p.__file__); print(len(p._part('page.css')), len(p._part('page.js')), p._template() is not None)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(tmp_path / "at"), "PATH": "/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    where, sizes = done.stdout.splitlines()
    assert where.startswith(str(installed))
    assert sizes == f"{len(page_module._part('page.css'))} {len(page_module._part('page.js'))} True"
