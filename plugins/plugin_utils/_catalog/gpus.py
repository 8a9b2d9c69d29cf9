# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Which classes of GPUs are known: the shipped table, and what a catalog describes beside it."""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils import _gpu_table
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import GpuClass

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Error correction takes a sixteenth of a GPU whose printed size nobody noted.
_LEAST_SHARE = 0.9375


@functools.cache
def _shipped() -> Mapping[str, GpuClass]:
    found: dict[str, GpuClass] = {}
    for model in _gpu_table.models():
        # Memory that is shared with the host is the host's to tell.
        sizes: tuple[float, ...] = (model.memory_gb,) if model.memory_gb and not model.unified else ()
        found[model.gpu_class] = GpuClass(
            name=model.gpu_class,
            names=model.names,
            vendor=model.vendor,
            memory_gb=sizes,
            memory_mib=model.printed_mib if sizes else None,
            compute_cap=model.compute_cap,
            pci_ids=model.pci_ids,
            mig=model.mig_capable,
        )
    return found


def gpu_table(gpus: Iterable[GpuClass] = ()) -> dict[str, GpuClass]:
    """Return the shipped classes with these added; one of the same name replaces the shipped one."""
    return {**_shipped(), **{gpu.name: gpu for gpu in gpus}}


def most_mib(card: GpuClass) -> float | None:
    """Return the memory that the largest GPU of a class has at least, in MiB; None where nothing is known."""
    if card.memory_mib is not None:
        return card.memory_mib
    return max(card.memory_gb) * 1024 * _LEAST_SHARE if card.memory_gb else None
