# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Which GPUs an engine sees where it does not have the machine to itself."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.gpus import gpu_table

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# All that chooses GPUs: of these only what is told here holds, for a profile does not know which GPUs a slot has.
VARIABLES = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "NVIDIA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "GPU_DEVICE_ORDINAL",
        "ZE_AFFINITY_MASK",
        "ZE_ENABLE_PCI_ID_DEVICE_ORDER",
        "ONEAPI_DEVICE_SELECTOR",
    }
)

_UUID = re.compile(r"(?:GPU|MIG)-[A-Za-z0-9-]+", re.ASCII)


def vendor_of(gpus: Sequence[Mapping[str, t.Any]]) -> str | None:
    """Return who made the GPUs, all of which are of one class; None where that is not known."""
    for gpu in gpus:
        known = gpu_table(()).get(str(gpu.get("gpu_class")))
        vendor = gpu.get("vendor") or (known.vendor if known is not None else None)
        if vendor is not None:
            return str(vendor)
    # Only the tools of NVIDIA print such a name.
    return "nvidia" if gpus and all(_UUID.fullmatch(str(gpu.get("uuid"))) for gpu in gpus) else None


def device_ids(gpus: Sequence[Mapping[str, t.Any]]) -> list[str]:
    """Return how NVIDIA's software is told the GPUs: by UUID, or by index where one has none of its own."""
    uuids = [str(gpu.get("uuid")) for gpu in gpus]
    is_known = len(set(uuids)) == len(uuids) and all(_UUID.fullmatch(uuid) for uuid in uuids)
    return uuids if is_known else _indices(gpus)


def visible_gpus(gpus: Sequence[Mapping[str, t.Any]]) -> dict[str, str]:
    """Return the variables that leave an engine these GPUs only; with none, no GPU at all.

    AMD's are named to HIP alone: masks of ROCR and HIP count one within the other, and Ray refuses that of ROCR.
    """
    if not gpus:
        return {"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1"}
    vendor = vendor_of(gpus)
    found: dict[str, str] = {}
    # Of a GPU of an unknown maker each is told; the software of the others does not look.
    if vendor in ("nvidia", None):
        ids = device_ids(gpus)
        found["CUDA_VISIBLE_DEVICES"] = ",".join(ids)
        if ids == _indices(gpus):
            found["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    if vendor in ("amd", None):
        found["HIP_VISIBLE_DEVICES"] = ",".join(_indices(gpus))
    if vendor in ("intel", None):
        found |= {"ZE_AFFINITY_MASK": ",".join(_indices(gpus)), "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1"}
    return found


def _indices(gpus: Sequence[Mapping[str, t.Any]]) -> list[str]:
    return [str(gpu["index"]) for gpu in gpus]
