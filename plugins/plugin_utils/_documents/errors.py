# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The error of all that cannot be used, with everything that is wrong at once."""

from __future__ import annotations

import contextlib
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class InputError(ValueError):
    """What something is made from cannot be used; ``errors`` has one text for each thing that is wrong."""

    def __init__(self, errors: Sequence[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = tuple(errors)


@contextlib.contextmanager
def collecting(errors: list[str]) -> Iterator[None]:
    """Add what is wrong to a list of errors instead of raising it."""
    try:
        yield
    except InputError as exc:
        errors += exc.errors
