# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Data of templates as plain builtins, and one error for everything that is wrong with what was given.

Values in templates are lazy and carry tags: each access may template, and most of the standard library does not take
them. They are turned into builtins once, where they come in.
"""

from __future__ import annotations

import contextlib
import json
import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.knaster.inventory.plugins.module_utils._gather.answers import GatherError
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError, collecting
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import plural, shown

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def to_plain(value: t.Any, name: str) -> t.Any:
    """Return a deep copy made of dict, list, str, int, float, bool and None; keys become strings.

    :param name: what the value is called in the error
    :raises InputError: when something in it is none of these, for example a date or an undefined variable
    """
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError) as exc:
        raise InputError([f"{name}: cannot be used as data ({exc})"]) from None


def plain_values(**values: t.Any) -> dict[str, t.Any]:
    """Return plain copies of values by their names.

    :raises InputError: with one text for each value that is not data
    """
    found: dict[str, t.Any] = {}
    errors: list[str] = []
    for name, value in values.items():
        with collecting(errors):
            found[name] = to_plain(value, name)
    stop_at(errors)
    return found


def of_type(value: t.Any, kinds: type | tuple[type, ...], what: str) -> t.Any:
    """Return a value that is of one of these types.

    :param what: what is needed, in the error
    :raises InputError: when it is of another type
    """
    if not isinstance(value, kinds):
        raise InputError([f"needs {what}, found {shown(value)}"])
    return value


def raw_variables(hostvars: t.Any, host: str) -> t.Mapping[str, t.Any]:
    """Return the variables of a host as they are.

    Templating every value of every host would cost more than all the rest of a task.
    """
    return getattr(hostvars, "raw_get", hostvars.get)(host) or {}


def stop_at(errors: Iterable[str]) -> None:
    """Raise everything that is wrong, if anything is.

    :raises InputError: with these errors
    """
    found = tuple(errors)
    if found:
        raise InputError(found)


@contextlib.contextmanager
def refusing(what: str) -> Iterator[None]:
    """Turn errors of the core into the one error of a filter; as a decorator, for a whole filter.

    The cause is left out, because Ansible prints its message once more.

    :param what: what cannot be done, with which the error begins
    :raises AnsibleFilterError: with each mistake once
    """
    errors: list[str] = []
    try:
        with collecting(errors):
            yield
    except (GatherError, ValueError) as exc:
        errors = [str(exc)]
    if len(errors) == 1:
        raise AnsibleFilterError(f"{what}: {errors[0]}") from None
    if errors:
        lines = "\n".join(f"- {error}" for error in errors)
        raise AnsibleFilterError(f"{what}, {plural(len(errors), 'error')}:\n{lines}") from None
