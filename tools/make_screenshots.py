# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Make the pictures of the report in the documentation, from the example fleets and a made-up one of 1,000 nodes.

Run it after the page changed: ``.venv/bin/python tools/make_screenshots.py [DIRECTORY]``. It needs Chromium.
"""

from __future__ import annotations

import sys
import tempfile
import typing as t
from pathlib import Path

from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.vars.manager import VariableManager
from ansible_collections.knaster.inventory.plugins.module_utils._gather.answers import read_outputs
from ansible_collections.knaster.inventory.plugins.module_utils._gather.profile import profile_from_outputs
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.load import examine_directories
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import to_plain
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.plan import plan
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.what_if import what_if_lost
from ansible_collections.knaster.inventory.plugins.plugin_utils._report.fitting import fitting_by_card
from ansible_collections.knaster.inventory.plugins.plugin_utils._report.page import render_report
from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.summary import summarise

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "docsite" / "rst" / "images"
MOST_BYTES = 200_000
KEYS = ("knaster_fabrics", "knaster_labels", "knaster_state")
sys.path[:0] = [str(ROOT / "tests" / "peers"), str(ROOT / "tests" / "benchmarks")]
from bench_report import make as make_large  # noqa: E402
from chromium import Chromium  # noqa: E402

SETTLE = "new Promise(done => setTimeout(done, 400))"


def read_example(name: str) -> dict[str, t.Any]:
    """An example fleet, without the machine that this runs on, and everything that its report shows."""
    source = ROOT / "examples" / name
    loader = DataLoader()
    inventory = InventoryManager(loader=loader, sources=[str(source / "inventory.yml")])
    variables = VariableManager(loader=loader, inventory=inventory)
    nodes = []
    for host in inventory.get_hosts():
        answer = source / "answers" / f"{host.name}.txt"
        if answer.exists():
            told = variables.get_vars(host=host, include_hostvars=False)
            told = to_plain({key: told[key] for key in KEYS if key in told}, host.name)
            nodes.append(
                profile_from_outputs(
                    read_outputs(answer.read_text(encoding="utf-8")),
                    name=host.name,
                    fabrics=told.get("knaster_fabrics", ()),
                    labels=told.get("knaster_labels"),
                    state=told.get("knaster_state", "ready"),
                )
            )
    directories = [str(each) for each in (ROOT / "catalog", source / "catalog") if each.is_dir()]
    catalog = examine_directories(directories, nodes=nodes).catalog
    before = plan(nodes, catalog.roles[:-1], catalog.models, engines=catalog.engines)
    document = plan(nodes, catalog.roles, catalog.models, before, engines=catalog.engines)
    return {
        "nodes": nodes,
        "plan": document,
        "summary": summarise(nodes, document, None, catalog),
        "previous": before,
        "losses": what_if_lost(document, nodes, catalog.roles, catalog.models, engines=catalog.engines),
        "fitting": fitting_by_card(nodes, catalog.models, engines=catalog.engines),
    }


# Name, fleet, address, width and height of the window, what is done before, what the user prefers.
FLEET = "document.getElementById('fleet').scrollIntoView()"
PICTURES = [
    ("report_home_lab", "home_lab", "", (1280, 720), "", "light"),
    ("report_rack", "rack", "", (1280, 900), FLEET, "light"),
    ("report_rack_phone", "rack", "", (360, 760), FLEET, "dark"),
    ("report_node", "rack", "node=l40s-3", (1280, 760), "", "dark"),
    (
        "report_large",
        "large",
        "",
        (1280, 900),
        FLEET + "; document.querySelectorAll('.group > summary')[1].click()",
        "light",
    ),
    ("report_search", "large", "q=state%3Afailed&by=none&size=large", (1280, 640), FLEET, "dark"),
]


def main() -> int:
    """Write the pictures and say how large they are."""
    target = Path(sys.argv[1]) if sys.argv[1:] else IMAGES
    target.mkdir(parents=True, exist_ok=True)
    fleets = {
        "home_lab": read_example("home_lab") | {"title": "Home lab"},
        "rack": read_example("rack") | {"title": "Rack"},
        "large": make_large(1000) | {"title": "A thousand nodes"},
    }
    too_large = 0
    with tempfile.TemporaryDirectory() as directory, Chromium() as browser:
        for name, values in fleets.items():
            Path(directory, f"{name}.html").write_text(render_report(**values), encoding="utf-8")
        for name, of, address, (width, height), before, scheme in PICTURES:
            browser.size(width, height)
            browser.media(prefers_color_scheme=scheme)
            browser.open(Path(directory, f"{of}.html").as_uri() + (f"#{address}" if address else ""))
            if before:
                browser.run(before)
            browser.run(SETTLE)
            path = target / f"{name}.png"
            browser.picture(path)
            size = path.stat().st_size
            too_large += size > MOST_BYTES
            print(f"{path.name}: {size:,} bytes")
    return 1 if too_large else 0


if __name__ == "__main__":
    sys.exit(main())
