# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The report of a fleet as one HTML file that needs nothing beside it.

The words are in ``page.html`` (Jinja2 with escaping of all that is put in), the looks in ``page.css``, what moves in
``page.js``. Everything but the picture of the fleet is in the HTML itself; the picture is drawn by the script from data in
the page, a group at a time.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import typing as t
from functools import cache
from pathlib import Path

from ansible_collections.knaster.inventory.plugins.plugin_utils._report.data import page_data
from ansible_collections.knaster.inventory.plugins.plugin_utils._report.view import make_view
from jinja2 import Environment, StrictUndefined

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._summary.inputs import Inputs
    from jinja2 import Template

_HERE = Path(__file__).parent
_LICENCE = re.compile(r"\A/\*.*?\*/\s*", re.DOTALL)
# No text of a page may hold half of a pair of code units: it has no bytes. Other control characters have no meaning in HTML.
_NOT_IN_HTML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def render_report(
    inputs: Inputs,
    summary: Mapping[str, t.Any],
    *,
    previous: Mapping[str, t.Any] | None = None,
    losses: Sequence[Mapping[str, t.Any]] | None = None,
    title: str = "GPU fleet",
) -> str:
    """Return the page. The same input gives the same text.

    :param inputs: what the summary was made of
    :param previous: the plan before this one, for what changed; None: there is none
    :param losses: what the loss of each node would cost, as ``what_if_lost`` returns it; None: not asked
    """
    style, script = _part("page.css"), _part("page.js")
    text = _template().render(
        view=make_view(inputs, summary, previous=previous, losses=losses),
        data=_island(page_data(inputs)),
        title=title,
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
    )
    return _NOT_IN_HTML.sub("\ufffd", text)


def _island(data: Mapping[str, t.Any]) -> str:
    """Data as the text of a script element: pure ASCII, and nothing in it can end the element or open a comment."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e").replace("\x7f", "\\u007f")


@cache
def _part(name: str) -> str:
    """The text of a file beside this one, without the licence at its head: its hash is over what the page holds."""
    return _LICENCE.sub("", (_HERE / name).read_text(encoding="utf-8"))


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["number"] = _number
    return environment.from_string((_HERE / "page.html").read_text(encoding="utf-8"))


def _number(value: int) -> str:
    return f"{value:,}"
