# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What of a profile may be written down: a secret is only ever named, never told.

``${NAME}`` as the value of the variable ``NAME`` says that the engine's machine knows it.
"""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._text.secrets import has_secret_option, is_secret_name

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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
        if has_secret_option(word):
            skip = "=" not in word
            continue
        found.append(word)
    return found
