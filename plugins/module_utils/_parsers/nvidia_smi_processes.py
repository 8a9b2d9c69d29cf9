# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The rows of ``nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name --format=csv,noheader,nounits``.

No process is no row. A name may hold commas, and of a process of somebody else it may be words in brackets. Format:
"Selective query options" of https://docs.nvidia.com/deploy/nvidia-smi/ (drivers 304 to 590).
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.nvidia_smi_text import failure, split_lines

_ROW = re.compile(r"^(?P<uuid>GPU-[0-9A-Za-z-]{4,64})\s*,\s*(?P<pid>[0-9]{1,10})\s*(?:,\s*(?P<name>.*))?$", re.ASCII)
_LONGEST_NAME = 100


class Process(t.NamedTuple):
    """One process that computes on a GPU; the name is None where it is not reported."""

    uuid: str
    pid: int
    name: t.Optional[str] = None


def parse(stdout: str, *, stderr: str = "", rc: t.Optional[int] = 0) -> t.List[Process]:
    """Return the processes by GPU and number.

    :raises ParseError: with the codes of ``nvidia_smi_text.Lines.failure`` where there is no row and something else
    """
    found: t.Dict[t.Tuple[str, int], Process] = {}
    others = []
    for line in split_lines(stdout):
        match = _ROW.match(line)
        if match:
            uuid, pid = match.group("uuid"), int(match.group("pid"))
            found[uuid, pid] = Process(uuid, pid, _name(match.group("name") or ""))
        elif "no running processes found" not in line.lower():
            others.append(line)
    if not found and (others or rc):
        error = failure("\n".join(others), stderr=stderr, rc=rc)
        # Words of its own make no GPU here either.
        code = "command_failed" if error.code == "no_devices" else error.code
        raise ParseError(error.source, code, detail=error.detail)
    return [found[key] for key in sorted(found)]


def _name(text: str) -> t.Optional[str]:
    name = text.strip()
    if not name or not name.isprintable() or (name.startswith("[") and name.endswith("]")):
        return None
    return name[:_LONGEST_NAME]
