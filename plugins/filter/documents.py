# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible.errors import AnsibleFilterError
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.yaml_text import (
    DocumentError,
    dump_document,
    load_document,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import to_plain


def to_document(document: t.Any) -> str:
    if not isinstance(document, Mapping):
        raise AnsibleFilterError(f"to_document takes a dictionary, not {type(document).__name__}")
    try:
        return dump_document(to_plain(document, "the document"))
    except (TypeError, ValueError) as exc:
        raise AnsibleFilterError(f"to_document: {exc}") from exc


def from_document(text: t.Any) -> dict[str, t.Any]:
    if not isinstance(text, str):
        raise AnsibleFilterError(f"from_document takes a text, not {type(text).__name__}")
    try:
        return load_document(text)
    except DocumentError as exc:
        raise AnsibleFilterError(f"from_document: {exc}") from exc


class FilterModule:
    """Documents as the text of their files."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"to_document": to_document, "from_document": from_document}
