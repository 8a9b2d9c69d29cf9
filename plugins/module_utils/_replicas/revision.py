# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What an engine that runs was made from: told by its process and by its list of models, never by what was wished for."""

from __future__ import annotations

import re
import typing as t

# The variable in the environment of an engine's process, and the tag that llama.cpp tells in its list of models.
FINGERPRINT_ENV = "KNASTER_FINGERPRINT"
FINGERPRINT_TAG = "knaster-revision="

_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


def fingerprint_of(text: t.Any) -> t.Optional[str]:
    """Return a text that is a fingerprint, else None."""
    return text if isinstance(text, str) and _FINGERPRINT.fullmatch(text) else None


def tagged(tags: t.Any) -> t.Optional[str]:
    """Return the fingerprint among the tags that an engine tells of a model; None where there is none."""
    for tag in tags if isinstance(tags, list) else ():
        if isinstance(tag, str) and tag.startswith(FINGERPRINT_TAG):
            return fingerprint_of(tag[len(FINGERPRINT_TAG) :])
    return None
