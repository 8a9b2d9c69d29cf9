# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""The report in a browser: headless Chromium, where there is one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from ansible_collections.knaster.inventory.tests.peers.chromium import Chromium, find_chromium
from ansible_collections.knaster.inventory.tests.peers.fleet import fleet as make_fleet
from ansible_collections.knaster.inventory.tests.unit.plugins.plugin_utils._report.helpers import (
    HOSTILE,
    Fleet,
    card,
    hostile,
    mixed,
    node,
    racks,
)

ROOT = Path(__file__).parents[5]
pytestmark = pytest.mark.skipif(
    find_chromium() is None, reason="there is no chromium here; tests/peers/install.sh gets it"
)

OPEN_ALL = (
    "document.querySelectorAll('#groups details, details.work, details.rest').forEach(one => { one.open = true; })"
)
# Toggle events and the watcher of what scrolls into view come after a frame.
SETTLE = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0))))"
NAMES = "[...document.querySelectorAll('.n-name')].map(one => one.textContent)"
COUNT = "document.getElementById('count').textContent"
ADDRESS = "new Promise(done => setTimeout(() => done(location.hash), 300))"
FOCUS = "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"


def wide(nodes, losses):
    """Nodes of many kinds, more than a screen; a quarter of what is placed is new."""
    made = make_fleet(nodes, 3, replicas=nodes)
    fleet = Fleet(made["nodes"], made["roles"], made["models"])
    placed = fleet.plan["assignments"]
    fleet.previous = {**fleet.plan, "assignments": placed[: -len(placed) // 4]}
    return fleet.lose_each() if losses else fleet


@pytest.fixture(scope="module")
def fleets():
    return {
        "mixed": mixed(),
        "hostile": hostile(),
        "wide": wide(24, losses=True),
        "many": wide(300, losses=False),
        "one": Fleet([node("solo", card(0, "l40s", 48))], []),
        "none": Fleet([], []),
        "eight": racks(8),
        "nine": racks(9),
    }


@pytest.fixture(scope="module")
def pages(fleets, tmp_path_factory):
    directory = tmp_path_factory.mktemp("report")
    for name, fleet in fleets.items():
        (directory / f"{name}.html").write_text(fleet.page(), encoding="utf-8")
    return directory


@pytest.fixture(scope="module")
def browser():
    with Chromium() as chromium:
        yield chromium


@pytest.fixture
def show(browser, pages):
    """Open a page in a window of some width, with what the address keeps and what the user prefers."""

    def shown(name, hash_="", *, width=1280, **features):
        browser.size(width)
        browser.media(**features)
        browser.open((pages / f"{name}.html").as_uri() + (f"#{hash_}" if hash_ else ""))
        browser.run(SETTLE)
        return browser

    yield shown
    browser.media()


def ask(browser, text):
    browser.run(
        f"(() => {{ const q = document.getElementById('q'); q.value = {json.dumps(text)}; q.dispatchEvent(new Event('input')); }})()"
    )


def test_numbers_on_the_page_equal_the_summary(show, fleets):
    browser = show("mixed")
    assert browser.problems == []
    shown = browser.run(
        "Object.fromEntries([...document.querySelectorAll('.headline data')].map(one => [one.dataset.key, one.textContent]))"
    )
    summary = fleets["mixed"].summary
    assert shown["nodes.ready"] == str(summary["nodes"]["ready"])
    assert shown["nodes.total"] == str(summary["nodes"]["total"])
    assert shown["gpus.total"] == str(sum(counts["total"] for counts in summary["gpus"].values()))
    assert shown["replicas.failed"] == str(summary["replicas"]["failed"])
    drawn = browser.run(
        "[...document.querySelectorAll('#groups .strip g title')].flatMap(one => one.textContent.split('\\n'))"
    )
    assert len(drawn) == int(shown["gpus.total"])
    words = {
        "used": "in use",
        "free": "free",
        "external": "external",
        "unhealthy": "broken",
        "unknown": "not known",
    }
    for state, word in words.items():
        count = sum(counts[state] for counts in summary["gpus"].values())
        assert sum(f", {word}" in one for one in drawn) == count, state


def test_nothing_is_asked_of_the_network(show, pages):
    browser = show("mixed")
    assert browser.requests == [(pages / "mixed.html").as_uri()]


SEARCHES = [
    ("mid-1", {"mid-1", "mid-10"}, 5),
    ("node:mid-1", {"mid-1", "mid-10"}, 5),
    ("class:l40s", {"mid-1", "mid-2", "mid-10"}, 6),
    ("role:chat", {"mid-1", "mid-10"}, 2),
    ("chat/0", {"mid-1"}, 1),
    ("role:gateway", {"cpu-1"}, 0),
    ("model:large-llm", {"big-1"}, 8),
    ("model:small-llm", {"mid-1", "mid-10"}, 2),
    ("role:large-llm", set(), 0),
    ("state:unreachable", {"gone-1"}, 0),
    ("state:unhealthy", {"mid-1"}, 1),
    ("state:external", {"mid-1"}, 1),
    ("state:failed", {"mid-10"}, 1),
    ("state:idle", {"mid-1"}, 1),
    ("state:stale", {"mid-10"}, 1),
    ("fabric:ib-b class:h100", {"big-2"}, 8),
    ("label:rack=r1 state:free", {"big-2"}, 8),
    ("GPU-Big-1-7", {"big-1"}, 1),
    ('"vm 104 other"', {"mid-1"}, 1),
    ('  state:free   "', {"big-2", "mid-2"}, 9),
    ("no such thing", set(), 0),
]


def test_search_finds_and_counts(show):
    browser = show("mixed")
    for text, names, cards in SEARCHES:
        ask(browser, text)
        assert set(browser.run(NAMES)) == names, text
        assert browser.run(COUNT) == f"{len(names)} of 7 nodes, {cards} of 22 GPUs match", text
    ask(browser, "")
    assert browser.run(COUNT) == "7 nodes, 22 GPUs"
    assert len(browser.run(NAMES)) == 7
    assert browser.problems == []


def test_what_does_not_match_is_dimmed(show):
    browser = show("mixed", "q=state%3Afree")
    assert browser.run("document.querySelectorAll('.strip g.dim').length") == 0
    ask(browser, "chat/0")
    assert browser.run("document.querySelectorAll('.strip g.dim').length") == 3


def test_lists_filter_too_and_the_address_keeps_it(show):
    browser = show("mixed")
    browser.run(
        "(() => { const one = document.getElementById('f-what'); one.value = 'role:chat'; one.dispatchEvent(new Event('input')); })()"
    )
    browser.run(
        "(() => { const one = document.getElementById('by'); one.value = 'state'; one.dispatchEvent(new Event('input')); })()"
    )
    ask(browser, "node:mid-10")
    kept = browser.run(ADDRESS).removeprefix("#")
    assert browser.run(COUNT) == "1 of 7 nodes, 1 of 22 GPUs match"
    again = show("mixed", kept)
    assert again.run(COUNT) == "1 of 7 nodes, 1 of 22 GPUs match"
    assert again.run(NAMES) == ["mid-10"]
    assert again.run("[q.value, by.value, document.getElementById('f-what').value]") == [
        "node:mid-10",
        "state",
        "role:chat",
    ]
    again.run("document.getElementById('clear').click()")
    assert again.run(ADDRESS) == "#by=state"


@pytest.mark.parametrize(
    "kept", ["by=nothing&size=huge&what=x", "q=%22", "node=absent", "fleet", "%", "state=__proto__&class=toString"]
)
def test_any_address_opens(show, kept):
    browser = show("mixed", kept)
    assert browser.problems == []
    assert browser.run(COUNT)


def test_names_in_sentences_lead_to_the_fleet(show):
    browser = show("mixed")
    browser.run("document.querySelector('#attention a[data-find=\"mid-1\"]').click()")
    assert browser.run("document.getElementById('q').value") == '"mid-1"'
    browser.run("document.querySelector('#attention a[data-find=\"chat.1.main\"]').click()")
    assert browser.run(NAMES) == ["mid-10"]
    browser.run("document.querySelector('#classes a[data-class=\"h100\"]').click()")
    assert browser.run(COUNT) == "2 of 7 nodes, 16 of 22 GPUs match"
    browser.run("document.querySelector('#classes a[data-find]').click()")
    assert browser.run(NAMES) == ["big-1"]


def test_details_of_a_node(show):
    browser = show("mixed", "node=mid-1")
    text = browser.run("document.querySelector('.node[open] .node-body').innerText")
    for part in (
        "nvidia-smi: one GPU is lost",
        "broken: fell off the bus",
        "vm 104 other",
        "GPU-mid-1-0",
        "/models/small-llm",
        "chat.0.main",
        "2 h 1 min",
        "rack=r2",
        "small-llm",
        "If it is lost",
    ):
        assert part in text, part
    assert "not queried" in show("mixed", "node=big-1").run(
        "document.querySelector('.node[open] .node-body').innerText"
    )


def test_the_plan_opens_with_its_reasons(show, fleets):
    browser = show("mixed")
    browser.run(OPEN_ALL)
    browser.run(SETTLE)
    text = browser.run("document.getElementById('plan').innerText")
    for one in fleets["mixed"].plan["assignments"]:
        assert one["why"]["text"] in text
    browser.run("document.querySelector('details.work[data-base=\"large-llm\"] a.find').click()")
    browser.run(SETTLE)
    assert browser.run("document.querySelector('.node[open] .n-name').textContent") == "big-1"


def test_many_nodes_are_drawn_when_asked_for(show):
    browser = show("many")
    assert browser.run("document.querySelectorAll('.tile').length") == 0
    browser.run(
        "(() => { const one = document.getElementById('by'); one.value = 'none'; one.dispatchEvent(new Event('input')); })()"
    )
    browser.run("document.querySelector('.group > summary').click()")
    browser.run(SETTLE)
    drawn = browser.run("document.querySelectorAll('.tile').length")
    assert 0 < drawn < 300
    for _unused in range(60):
        browser.run(
            "scrollTo(0, document.querySelector('.group').offsetTop + document.querySelector('.group').offsetHeight - 600)"
        )
        browser.run(SETTLE)
        if browser.run("document.querySelectorAll('.tile').length") == 300:
            break
    names = browser.run(NAMES)
    assert names == [f"pve-{at:06d}" for at in range(300)]
    ask(browser, "pve-000123")
    assert browser.run(NAMES) == ["pve-000123"]


def test_more_than_eight_nodes_are_grouped_by_their_racks_in_the_order_of_names(show):
    groups = "[...document.querySelectorAll('#groups .group h3 bdi')].map(one => one.textContent)"
    assert show("eight").run(groups) == ["All"]
    # What reads alike (r1 and r01) has an order of its own, whatever the order of the nodes.
    assert show("nine").run(groups) == ["r01", "r1"]


def test_a_replica_is_idle_after_ten_minutes(show):
    browser = show("eight")
    ask(browser, "state:idle")
    assert browser.run(NAMES) == ["n1", "n2", "n3", "n4"]


def test_a_broken_gpu_in_use_is_found_as_broken_and_as_used(show):
    browser = show("eight")
    ask(browser, "state:unhealthy")
    assert browser.run(NAMES) == ["n5"]
    ask(browser, "state:used")
    assert len(browser.run(NAMES)) == 8
    ask(browser, "state:broken")
    assert browser.run(NAMES) == ["n5"]


@pytest.mark.parametrize(
    ("name", "text"), [("n0", "9 min"), ("n1", "10 min"), ("n2", "59 min"), ("n3", "47 h 59 min"), ("n4", "2 d")]
)
def test_durations_are_in_days_from_two_days_on(show, name, text):
    body = show("eight", f"node={name}").run("document.querySelector('.node[open] .node-body').innerText")
    assert text in body.split("\t") or f"\t{text}" in body or f"\n{text}\n" in body, body


def test_one_machine_is_shown_at_once(show):
    browser = show("one")
    assert browser.problems == []
    assert browser.run("document.querySelector('.node[open] .node-body') !== null")
    assert browser.run("document.getElementById('tools').hidden")


def test_an_empty_fleet(show):
    browser = show("none")
    assert browser.problems == []
    assert browser.run("document.getElementById('groups').textContent") == "No node is known."


@pytest.mark.parametrize("name", ["mixed", "wide", "one", "hostile"])
@pytest.mark.parametrize("width", [360, 800])
def test_no_horizontal_scroll(show, name, width):
    browser = show(name, width=width)
    browser.run(OPEN_ALL)
    browser.run(SETTLE)
    over = browser.run(
        "[...document.querySelectorAll('body *')].filter(one => !one.closest('.scroll, .sr, .skip, .strip, .n-head, thead') &&"
        " one.getBoundingClientRect().right > innerWidth + 1 && one.offsetParent).slice(0, 5).map(one => one.outerHTML.slice(0, 200))"
    )
    assert over == []
    assert browser.run("document.documentElement.scrollWidth") == width


def test_hostile_names_run_nothing(show):
    browser = show("hostile")
    browser.run(OPEN_ALL)
    browser.run(SETTLE)
    for by in ("class", "fabric", f"label:{HOSTILE[3]}"):
        browser.run(f"by.value = {json.dumps(by)}, by.dispatchEvent(new Event('input'))")
        assert browser.run("by.value") == by
    for name in HOSTILE:
        ask(browser, name)
    browser.run("document.querySelectorAll('a[data-find], a[data-class]').forEach(one => one.click())")
    browser.run("dispatchEvent(new Event('beforeprint')), dispatchEvent(new Event('afterprint'))")
    browser.run(SETTLE)
    assert browser.run("window.pwned === undefined && ({}).pwned === undefined")
    assert browser.run("document.querySelectorAll('img, iframe, object, embed, base, link').length") == 0
    assert browser.run("document.querySelectorAll('script').length") == 2
    assert browser.problems == []


def test_hostile_names_are_shown_whole(show):
    browser = show("hostile")
    browser.run(
        "(() => { const one = document.getElementById('by'); one.value = 'none'; one.dispatchEvent(new Event('input')); })()"
    )
    assert sorted(browser.run(NAMES)) == sorted(HOSTILE)


def test_the_keyboard_reaches_everything(show):
    browser = show("mixed")
    browser.press("Tab")
    assert browser.run(FOCUS) == "skip"
    assert browser.run("document.activeElement.getBoundingClientRect().left") >= 0
    browser.press("Enter")
    browser.run(SETTLE)
    assert browser.run(FOCUS) == "fleet"
    browser.press("/", text="/")
    assert browser.run(FOCUS) == "q"
    assert browser.run("parseFloat(getComputedStyle(document.activeElement).outlineWidth)") >= 2
    browser.type("chat/0")
    assert browser.run(NAMES) == ["mid-1"]
    browser.press("/", text="/")
    assert browser.run("document.getElementById('q').value") == "chat/0/"
    browser.press("Escape")
    assert browser.run("document.getElementById('q').value") == ""
    assert len(browser.run(NAMES)) == 7
    seen = []
    for _unused in range(12):
        browser.press("Tab")
        seen.append(browser.run(FOCUS + " + ' ' + document.activeElement.parentElement.className"))
        assert browser.run("parseFloat(getComputedStyle(document.activeElement).outlineWidth)") >= 2, seen
        if seen[-1].endswith("node"):
            break
    assert [one.split()[0] for one in seen[:5]] == ["f-state", "f-class", "f-what", "by", "size"]
    assert any(one.endswith("group") for one in seen)
    browser.press("Enter")
    browser.run(SETTLE)
    assert browser.run("document.activeElement.parentElement.querySelector('.node-body') !== null")


def test_the_count_is_told_to_a_screen_reader(show):
    browser = show("mixed")
    assert browser.run("[count.getAttribute('role'), count.getAttribute('aria-live')]") == ["status", "polite"]
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    told = {
        (each["role"]["value"], (each.get("name") or {}).get("value", "")) for each in nodes if not each.get("ignored")
    }
    for role, name in (
        ("main", ""),
        ("banner", ""),
        ("contentinfo", ""),
        ("navigation", "Sections"),
        ("search", "Filter the fleet"),
        ("region", "Fleet"),
        ("heading", "Plan"),
        ("searchbox", "Search"),
        ("image", "8 GPUs: large-llm/0 on 8"),
        ("image", "8 GPUs: 8 free"),
    ):
        assert (role, name) in told, (role, name)


def test_theme_of_the_system_and_of_the_button(show):
    colour = "getComputedStyle(document.body).backgroundColor"
    light = show("mixed", prefers_color_scheme="light").run(colour)
    browser = show("mixed", prefers_color_scheme="dark")
    dark = browser.run(colour)
    assert light != dark
    seen = []
    for _unused in range(3):
        browser.run("theme.click()")
        seen.append((browser.run("document.getElementById('theme-name').textContent"), browser.run(colour)))
    assert seen == [("light", light), ("dark", dark), ("system", dark)]


def test_less_motion_where_it_is_wished(show):
    moves = "getComputedStyle(document.querySelector('.strip g')).transitionDuration"
    assert show("mixed", prefers_reduced_motion="no-preference").run(moves) != "0s"
    assert show("mixed", prefers_reduced_motion="reduce").run(moves) == "0s"


def test_paper_shows_what_is_folded(show):
    browser = show("mixed", prefers_color_scheme="dark")
    browser.run(
        "addEventListener('beforeprint', () => { window.seen = ["
        "document.querySelectorAll('.group:not([open]), .work:not([open]), .node:not([open])').length,"
        "document.querySelectorAll('.node-body').length, document.querySelectorAll('.work-body table').length] })"
    )
    assert browser.pdf().startswith(b"%PDF")
    browser.run(SETTLE)
    closed, bodies, tables = browser.run("window.seen")
    assert (closed, bodies) == (0, 7)
    assert tables == 3
    assert browser.run("document.querySelectorAll('.node[open], .work[open]').length") == 0
    browser.media(media="print")
    assert browser.run("getComputedStyle(document.getElementById('tools')).display") == "none"
    assert browser.run("getComputedStyle(document.body).color") == "rgb(29, 32, 36)"
    assert browser.run("getComputedStyle(document.querySelector('.over.external')).printColorAdjust") == "exact"


@pytest.fixture(scope="session")
def axe(request, tmp_path_factory):
    """The accessibility engine, got from the npm registry once for each version."""
    program = shutil.which("npm")
    tools = json.loads((ROOT / "tools/page/package.json").read_text(encoding="utf-8"))
    engine = f"axe-core@{tools['devDependencies']['axe-core']}"
    found = request.config.cache.mkdir(engine) / "axe.min.js"
    if not found.exists():
        if program is None:
            pytest.skip("there is no npm to get axe-core with")
        work = tmp_path_factory.mktemp("axe-core")
        command = [program, "pack", "--silent", engine]
        if subprocess.run(command, cwd=work, capture_output=True, timeout=60, check=False).returncode:
            pytest.skip("axe-core cannot be had from here")
        # In one step, for another worker may do the same.
        part = found.with_name(f"{work.name}-{os.getpid()}")
        with tarfile.open(next(work.glob("*.tgz"))) as archive:
            part.write_bytes(archive.extractfile("package/axe.min.js").read())
        part.replace(found)
    return found.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "width", "scheme"), [("mixed", 1280, "light"), ("mixed", 360, "dark"), ("wide", 1280, "dark")]
)
def test_accessibility_rules(show, axe, name, width, scheme):
    browser = show(name, width=width, prefers_color_scheme=scheme)
    if name == "mixed":
        browser.run(OPEN_ALL)
        browser.run(SETTLE)
    browser.run(axe)
    found = browser.run(
        "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}).then(result =>"
        " result.violations.map(one => one.id + ': ' + one.nodes.slice(0, 3).map(each => each.html.slice(0, 150)).join(' | ')))"
    )
    assert found == []
