# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Which names and words of a command line hold a secret, so that its value is never told."""

from __future__ import annotations

import re
import typing as t

_SECRET_NAME = re.compile(r"(?:.*[_-])?(?:KEY|APIKEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)", re.IGNORECASE)
_SECRET_OPTION = re.compile(r"--?(?:[a-z-]+-)?(?:api-key|hf-token|auth-token|password|secret)", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Return whether a variable of this name holds a secret."""
    return _SECRET_NAME.fullmatch(name) is not None


def has_secret_option(word: t.Any) -> bool:
    """Return whether a word of a command line is an option whose value is a secret, with or without the value."""
    if not isinstance(word, str):
        return False
    option = re.split(r"[=\s]", word, maxsplit=1)[0]
    return _SECRET_OPTION.fullmatch(option.replace("_", "-")) is not None
