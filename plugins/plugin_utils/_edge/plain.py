# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What a template hands to a filter, as plain builtins.

Values in templates are lazy and carry tags: each access may template, and most of the standard library does not take
them. They are turned into builtins once, where they come in.
"""

from __future__ import annotations

import json
import typing as t


def to_plain(value: t.Any, name: str) -> t.Any:
    """Return a deep copy made of dict, list, str, int, float, bool and None; keys become strings.

    :param name: what the value is called in the error
    :raises TypeError: when something in it is none of these, for example a date or an undefined variable
    """
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError) as exc:
        raise TypeError(f"{name}: cannot be used as data ({exc})") from exc
