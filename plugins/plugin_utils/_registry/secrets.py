# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What of a profile may be written down: a secret is only ever named, never told.

``${NAME}`` as the value of the variable ``NAME`` says that the engine's machine knows it.
"""

from __future__ import annotations

import re
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SECRET_NAME = re.compile(r"(?:.*[_-])?(?:KEY|APIKEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)", re.IGNORECASE)
_SECRET_OPTION = re.compile(r"--?(?:[a-z-]+-)?(?:api-key|hf-token|auth-token|password|secret)", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Return whether a variable of this name holds a secret."""
    return _SECRET_NAME.fullmatch(name) is not None


def reference(name: str) -> str:
    """Return what stands for the value of a variable that the engine's machine knows."""
    return f"${{{name}}}"


def public_env(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with a reference where a secret stood."""
    return {name: reference(name) if is_secret_name(name) else value for name, value in env.items()}


def public_args(args: Sequence[str]) -> list[str]:
    """Return the words of a command line without the options that tell a secret, and without the secrets."""
    found: list[str] = []
    skip = False
    for word in args:
        if skip:
            skip = False
            continue
        option, equals, _value = word.partition("=")
        if _SECRET_OPTION.fullmatch(option.replace("_", "-")):
            skip = not equals
            continue
        found.append(word)
    return found
