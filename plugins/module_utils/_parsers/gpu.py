# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""One GPU as a vendor's tool reports it, whichever tool that is."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, fields, replace

if t.TYPE_CHECKING:
    from ansible_collections.knaster.inventory.plugins.module_utils._pci import Address


@dataclass(frozen=True)
class Slice:
    """One slice of a GPU: the name of its profile (``3g.40gb``, ``cpx``), its memory in GB and its UUID."""

    name: str
    memory_gb: t.Optional[int]
    uuid: t.Optional[str]


@dataclass(frozen=True)
class Gpu:
    """What a tool reports about one GPU; None is what it was not asked, does not report or does not know.

    :ivar vendor_id: the PCI id of the vendor, four hexadecimal digits in lower case
    :ivar index: the number that the tool gives it
    :ivar memory_mib: its own memory in MiB, as printed
    :ivar memory_state: what stands where that number should be: ``not_available``, ``unified``, ``unsupported``,
        ``insufficient_permissions``, ``unknown``, ``unknown_error``, ``gpu_lost``, ``needs_reset``, ``missing`` or
        ``unreadable``
    :ivar compute_cap: major and minor number of NVIDIA's compute capability
    :ivar driver: the version of the driver
    :ivar device_id: the PCI id of the device, four hexadecimal digits in lower case
    :ivar mig: whether it is divided into slices (MIG, or AMD's partitions)
    :ivar reserved_mib: the MiB that the driver keeps for itself
    :ivar health: a code and the words for what is wrong with it
    :ivar slices: its slices
    """

    vendor_id: str
    index: t.Optional[int] = None
    name: t.Optional[str] = None
    memory_mib: t.Optional[int] = None
    memory_state: t.Optional[str] = None
    compute_cap: t.Optional[t.Tuple[int, int]] = None
    driver: t.Optional[str] = None
    uuid: t.Optional[str] = None
    address: t.Optional[Address] = None
    device_id: t.Optional[str] = None
    mig: t.Optional[bool] = None
    reserved_mib: t.Optional[int] = None
    health: t.Optional[t.Tuple[str, str]] = None
    slices: t.Optional[t.Tuple[Slice, ...]] = None

    def filled_from(self, other: Gpu) -> Gpu:
        """Return this GPU with what only another answer about it reports."""
        missing = [one.name for one in fields(self) if getattr(self, one.name) is None]
        return replace(self, **{name: getattr(other, name) for name in missing})
