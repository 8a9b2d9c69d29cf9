# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import secrets
import shlex
import typing as t
from pathlib import Path

from ansible.plugins.action import ActionBase
from ansible_collections.knaster.inventory.plugins.module_utils._gather.answers import (
    GatherError,
    Output,
    read_answer,
)
from ansible_collections.knaster.inventory.plugins.module_utils._gather.profile import (
    NODE_ARGUMENT_SPEC,
    profile_from_outputs,
)
from ansible_collections.knaster.inventory.plugins.module_utils._gather.script import build_script


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        del tmp
        task_vars = task_vars or {}
        result: dict[str, t.Any] = super().run(task_vars=task_vars)
        _unused, options = self.validate_argument_spec(argument_spec=NODE_ARGUMENT_SPEC)
        if options["name"] is None:
            options["name"] = str(task_vars["inventory_hostname"])
        if self._task.async_val:
            result.update(
                self._execute_module(
                    module_name="knaster.inventory.node_facts",
                    module_args=options,
                    task_vars=task_vars,
                    wrap_async=self._task.async_val,
                )
            )
            return result
        timeout, saved, weight_dirs = (options.pop(key) for key in ("timeout", "answer", "weight_dirs"))
        try:
            if saved:
                outputs = read_answer(Path(saved).read_text(encoding="utf-8", errors="replace"))
            else:
                outputs = self._ask(timeout, weight_dirs)
        except (GatherError, OSError, ValueError) as exc:
            result.update(failed=True, msg=f"{saved}: {exc}" if saved else str(exc))
            return result
        result.update(changed=False, ansible_facts={"knaster_node": profile_from_outputs(outputs, **options)})
        return result

    def _ask(self, timeout: int, weight_dirs: list[str]) -> dict[str, Output]:
        """Run the script on the node in one round trip.

        A shell that reads it from standard input gets it whole and without quoting. A connection that cannot carry
        standard input, or a way to become root that wants a terminal, gets it as one argument.
        """
        token = secrets.token_hex(8)
        script = build_script(token=token, timeout=timeout, weight_dirs=weight_dirs)
        become = self._connection.become
        if self._connection.has_pipelining and not (become and become.require_tty):
            answer = self._low_level_execute_command("/bin/sh", in_data=script.encode())
        else:
            answer = self._low_level_execute_command("/bin/sh -c " + shlex.quote(script))
        try:
            return read_answer(answer["stdout"], token=token)
        except GatherError as exc:
            told = " ".join(answer["stderr"].split())[-300:]
            raise GatherError(f"{exc.reason} (exit code {answer['rc']}{', ' + told if told else ''})") from exc
