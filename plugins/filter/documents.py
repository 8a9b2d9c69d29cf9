# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.yaml_text import (
    dump_document,
    load_document,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import (
    of_type,
    refusing,
    to_plain,
)


@refusing("to_document")
def to_document(document: t.Any) -> str:
    """Return the text of a document's file."""
    return dump_document(to_plain(of_type(document, Mapping, "a dictionary"), "the document"))


@refusing("from_document")
def from_document(text: t.Any) -> dict[str, t.Any]:
    """Return the document that the text of a file holds."""
    return load_document(of_type(text, str, "a text"))


class FilterModule:
    """Documents as the text of their files."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"to_document": to_document, "from_document": from_document}
