# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display


class ActionModule(ActionBase):
    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        del tmp
        result: dict[str, t.Any] = super().run(task_vars=task_vars or {})
        _unused, options = self.validate_argument_spec(argument_spec={"text": {"type": "str", "required": True}})
        text = "".join(char if char.isprintable() or char == "\n" else "?" for char in options["text"])
        Display().display(text)
        result.update(changed=False, msg=text)
        return result
