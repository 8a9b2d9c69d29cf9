# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The rows of ``nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name --format=csv,noheader,nounits``.

No process is no row. A name may hold commas, and of a process of somebody else it may be words in brackets.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.module_utils._parsers import nvidia_smi
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError

_ROW = re.compile(r"^(?P<uuid>GPU-[0-9A-Za-z-]{4,64})\s*,\s*(?P<pid>[0-9]{1,10})\s*(?:,\s*(?P<name>.*))?$", re.ASCII)
_LONGEST_NAME = 100


@dataclass(frozen=True)
class Process:
    """One process that computes on a GPU; the name is None where it is not told."""

    uuid: str
    pid: int
    name: t.Optional[str] = None


def parse(stdout: str, *, stderr: str = "", rc: t.Optional[int] = 0) -> t.List[Process]:
    """Return the processes by GPU and number.

    :raises ParseError: with the codes of ``nvidia_smi.parse_query`` where there is no row and something else
    """
    found: t.Dict[t.Tuple[str, int], Process] = {}
    others = []
    for line in stdout.replace("\ufeff", "").replace("\0", "").replace("\r", "\n").split("\n"):
        text = line.strip()
        match = _ROW.match(text)
        if match:
            pid = int(match.group("pid"))
            found[match.group("uuid"), pid] = Process(match.group("uuid"), pid, _name(match.group("name")))
        elif text and "no running processes found" not in text.lower():
            others.append(text)
    if not found and (others or rc):
        error = nvidia_smi.failure("\n".join(others), stderr=stderr, rc=rc)
        # Words of its own make no GPU here either.
        raise ParseError(
            error.source, "command_failed" if error.code == "no_devices" else error.code, detail=error.detail
        )
    return [found[key] for key in sorted(found)]


def _name(text: t.Optional[str]) -> t.Optional[str]:
    name = (text or "").strip()
    if not name or not name.isprintable() or (name.startswith("[") and name.endswith("]")):
        return None
    return name[:_LONGEST_NAME]
