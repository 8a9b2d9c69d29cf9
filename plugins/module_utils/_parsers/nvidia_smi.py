# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The GPUs that ``nvidia-smi --query-gpu=... --format=csv`` reports, judged from the lines that ``nvidia_smi_text`` reads.

A GPU that the tool has lost is a GPU with ``health`` and not a gap, so that the others keep their numbers.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import replace

from ansible_collections.knaster.inventory.plugins.module_utils._parsers.gpu import Gpu
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.nvidia_smi_text import (
    COLUMNS,
    Row,
    Word,
    sort_lines,
)
from ansible_collections.knaster.inventory.plugins.module_utils._pci import NVIDIA

# GPUs that share the memory of their host: there is no number to print for them.
_UNIFIED = re.compile(r"\bGB10\b|\b(?:Orin|Thor|Xavier|Tegra|Jetson)\b|\(nvgpu\)", re.IGNORECASE)


def parse_query(
    stdout: str,
    *,
    stderr: str = "",
    rc: t.Optional[int] = 0,
    command: t.Optional[str] = None,
    columns: t.Sequence[str] = COLUMNS,
) -> t.List[Gpu]:
    """Return the GPUs of a query, lost ones without a row last.

    :param columns: those of the rows, where neither a header nor ``command`` names them
    :raises ParseError: with the codes of ``nvidia_smi_text.Lines.failure`` where no row can be read
    """
    lines = sort_lines(stdout, stderr=stderr, command=command, columns=columns)
    if not lines.rows:
        raise lines.failure(rc)
    gpus = [_gpu(row) for row in lines.rows]
    places = {gpu.address: place for place, gpu in enumerate(gpus)}
    for lost in lines.lost:
        gpu = Gpu(NVIDIA, index=lost.index, address=lost.address, health=(lost.code, lost.line))
        place = places.get(lost.address) if lost.address else None
        if place is None:
            gpus.append(gpu)
        else:
            gpus[place] = replace(gpus[place], health=gpus[place].health or gpu.health)
    return gpus


def _gpu(row: Row) -> Gpu:
    return Gpu(
        NVIDIA,
        index=row.values.get("index"),
        name=row.values.get("name"),
        memory_mib=row.values.get("memory.total"),
        memory_state=_memory_state(row),
        compute_cap=row.values.get("compute_cap"),
        driver=row.values.get("driver_version"),
        uuid=row.values.get("uuid"),
        address=row.values.get("pci.bus_id"),
        mig=row.values.get("mig.mode.current"),
        reserved_mib=row.values.get("memory.reserved"),
        health=_health(row),
    )


def _health(row: Row) -> t.Optional[t.Tuple[str, str]]:
    """Return what is wrong with the GPU of a row: the word that says most about it, or that the row ends early."""
    column, word = min(row.doubts.items(), key=lambda doubt: doubt[1].code == "unknown_error", default=(None, None))
    if column is not None and word is not None:
        return word.code, f"{column}: {row.texts[column]}"
    return ("short_row", "the row ends early: " + ", ".join(row.texts.values())) if row.is_short else None


def _memory_state(row: Row) -> t.Optional[str]:
    """Return why the size of the memory is not known, or None where it is or was not asked."""
    if "memory.total" not in row.texts or "memory.total" in row.values:
        return None
    code = row.words.get("memory.total", Word("unreadable")).code
    unified = code in ("not_available", "unsupported") and _UNIFIED.search(row.values.get("name", ""))
    return "unified" if unified else code
