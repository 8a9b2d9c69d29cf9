# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The GPUs that ``nvidia-smi -L`` lists, with the slices of those that are divided (drivers 450 to 590).

It is the only listing that has the UUIDs of slices. Drivers before 470 write a slice's UUID as that of its GPU with two
numbers behind it. Format: "MIG device names" of https://docs.nvidia.com/datacenter/tesla/mig-user-guide/.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import replace

from ansible_collections.knaster.inventory.plugins.module_utils._parsers.gpu import Gpu, Slice
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.nvidia_smi_text import failure, split_lines
from ansible_collections.knaster.inventory.plugins.module_utils._pci import NVIDIA

_GPU = re.compile(r"^GPU (?P<index>[0-9]{1,4}): (?P<name>.+?) \(UUID: (?P<uuid>GPU-[0-9A-Za-z-]+)\)?$", re.ASCII)
_SLICE = re.compile(
    r"^MIG (?P<name>(?:[0-9]+c\.)?[0-9]+g\.(?P<memory_gb>[0-9]{1,4})gb[A-Za-z0-9.+_-]*)\s+Device\s+[0-9]{1,3}:\s+"
    r"\(UUID: (?P<uuid>MIG-[0-9A-Za-z/-]+)\)$",
    re.ASCII,
)


def parse(stdout: str, *, stderr: str = "", rc: t.Optional[int] = 0) -> t.List[Gpu]:
    """Return the GPUs in the order of the list.

    :raises ParseError: with the codes of ``nvidia_smi_text.Lines.failure`` where there is no GPU
    """
    gpus: t.List[Gpu] = []
    is_of_gpu = False
    for line in split_lines(stdout):
        gpu, part = _GPU.match(line), _SLICE.match(line)
        if gpu:
            gpus.append(Gpu(NVIDIA, int(gpu.group("index")), gpu.group("name"), uuid=gpu.group("uuid"), slices=()))
            is_of_gpu = True
        elif part and is_of_gpu:
            found = Slice(part.group("name"), int(part.group("memory_gb")), part.group("uuid"))
            gpus[-1] = replace(gpus[-1], slices=(*(gpus[-1].slices or ()), found))
        elif line.startswith(("GPU ", "Unable")):
            # The slices that follow are of a GPU that could not be read.
            is_of_gpu = False
    if not gpus:
        raise failure(stdout, stderr=stderr, rc=rc)
    return gpus
