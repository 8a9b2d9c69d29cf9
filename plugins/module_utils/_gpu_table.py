# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The GPU table: what a GPU is, told by its name or its PCI ids.

Names are those that the drivers report. PCI ids come from the public list of PCI ids and from the list of supported
products in NVIDIA's open kernel modules, which also tells boards of one chip apart by their subsystem; compute
capabilities from NVIDIA's documentation; sizes from data sheets. The printed MiB are what ``nvidia-smi`` or the other
vendors' tools were seen to print, with error correction on where it is an option, as that leaves less.

Sizes are GB as printed on the box, which are GiB of memory cells.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

# How far a GPU's printed memory may be from its nominal size: error correction takes a sixteenth.
_TOLERANCE = 0.08

# Class, compute capability, GB, MiB as printed, M for MIG-capable or U for memory shared with the host | PCI devices,
# with the board after a slash where the chip alone does not tell | names. A dash is not known or does not apply.
_NVIDIA = """
a10                          8.6  24  23028 - | 2236            | NVIDIA A10
a100-pcie-40gb               8.0  40      - M | 20b1 20f1       | NVIDIA A100-PCIE-40GB
a100-pcie-80gb               8.0  80  81920 M | 20b5            | NVIDIA A100 80GB PCIe
a100-sxm4-40gb               8.0  40  40960 M | 20b0            | NVIDIA A100-SXM4-40GB
a100-sxm4-80gb               8.0  80  81920 M | 20b2            | NVIDIA A100-SXM4-80GB
a10g                         8.6  24  23028 - | 2237            | NVIDIA A10G
a16                          8.6  16  15356 - | 25b6/14a9       | NVIDIA A16
a2                           8.6  16  15356 - | 25b6/157e       | NVIDIA A2
a30                          8.0  24  24576 M | 20b7            | NVIDIA A30
a40                          8.6  48  46068 - | 2235            | NVIDIA A40
a800-40gb-active             8.0  40      - M | 20f6            | NVIDIA A800 40GB Active
a800-pcie-80gb               8.0  80      - M | 20f5            | NVIDIA A800 80GB PCIe
a800-sxm4-80gb               8.0  80      - M | 20f3            | NVIDIA A800-SXM4-80GB
b200                        10.0 180 183359 M | 2901            | NVIDIA B200
b300-sxm6                   10.3 270 275040 M | 3182            | NVIDIA B300 SXM6 AC
gb10                        12.1 128      - U | 2e12            | NVIDIA GB10
gb200                       10.0 186 189471 M | 2941            | NVIDIA GB200
gb300                       10.3 279 284208 M | 31c2            | NVIDIA GB300
gh200-144gb                  9.0 144      - M | 2348            | NVIDIA GH200 144G HBM3e
gh200-96gb                   9.0  96  97871 M | 2342            | NVIDIA GH200 480GB / NVIDIA GH200 120GB
gtx-1060-6gb                 6.1   6      - - | 1b83 1c03 1c06  | NVIDIA GeForce GTX 1060 6GB
gtx-1070                     6.1   8      - - | 1b81            | NVIDIA GeForce GTX 1070
gtx-1070-ti                  6.1   8      - - | 1b82            | NVIDIA GeForce GTX 1070 Ti
gtx-1080                     6.1   8      - - | 1b80            | NVIDIA GeForce GTX 1080
gtx-1080-ti                  6.1  11  11264 - | 1b06            | NVIDIA GeForce GTX 1080 Ti
gtx-1660-super               7.5   6      - - | 1f09 21c4       | NVIDIA GeForce GTX 1660 SUPER
gtx-1660-ti                  7.5   6      - - | 2182            | NVIDIA GeForce GTX 1660 Ti
h100-nvl-94gb                9.0  94  95830 M | 2321            | NVIDIA H100 NVL
h100-pcie-80gb               9.0  80  81559 M | 2331            | NVIDIA H100 PCIe
h100-sxm5-80gb               9.0  80  81559 M | 2330            | NVIDIA H100 80GB HBM3
h20-96gb                     9.0  96      - M | 2329            | NVIDIA H20
h200-nvl                     9.0 141      - M | 233b            | NVIDIA H200 NVL
h200-sxm                     9.0 141 143771 M | 2335            | NVIDIA H200
l2                           8.9  24      - - | 27b6            | NVIDIA L2
l20                          8.9  48      - - | 26b7 26ba       | NVIDIA L20
l4                           8.9  24  23034 - | 27b8            | NVIDIA L4
l40                          8.9  48      - - | 26b5            | NVIDIA L40
l40s                         8.9  48  46068 - | 26b9            | NVIDIA L40S
quadro-gp100                 6.0  16      - - | 15f0            | Quadro GP100
quadro-gv100                 7.0  32      - - | 1dba            | Quadro GV100
quadro-p5000                 6.1  16      - - | 1bb0            | Quadro P5000
quadro-p6000                 6.1  24      - - | 1b30            | Quadro P6000
quadro-rtx-4000              7.5   8   8192 - | 1eb1            | Quadro RTX 4000
quadro-rtx-5000              7.5  16      - - | 1eb0            | Quadro RTX 5000
quadro-rtx-6000              7.5  24      - - | 1e30 1e36 1e78/13d9 | Quadro RTX 6000
quadro-rtx-8000              7.5  48  49152 - | 1e30/129e 1e78/13d8 | Quadro RTX 8000
rtx-2000-ada                 8.9  16  16380 - | 28b0            | NVIDIA RTX 2000 Ada Generation
rtx-2060-12gb                7.5  12      - - | 1f03            | NVIDIA GeForce RTX 2060
rtx-2060-6gb                 7.5   6      - - | 1e89 1f08       | NVIDIA GeForce RTX 2060
rtx-2060-super               7.5   8      - - | 1f06 1f42 1f47  | NVIDIA GeForce RTX 2060 SUPER
rtx-2070                     7.5   8      - - | 1f02 1f07       | NVIDIA GeForce RTX 2070
rtx-2070-super               7.5   8      - - | 1e84 1ec2 1ec7  | NVIDIA GeForce RTX 2070 SUPER
rtx-2080                     7.5   8   8192 - | 1e82 1e87       | NVIDIA GeForce RTX 2080
rtx-2080-super               7.5   8   8192 - | 1e81            | NVIDIA GeForce RTX 2080 SUPER
rtx-2080-ti                  7.5  11  11264 - | 1e04 1e07       | NVIDIA GeForce RTX 2080 Ti
rtx-3050-8gb                 8.6   8      - - | 2507 2582       | NVIDIA GeForce RTX 3050
rtx-3060-12gb                8.6  12  12288 - | 2487 2503 2504 2544 | NVIDIA GeForce RTX 3060
rtx-3060-8gb                 8.6   8      - - | 24c7            | NVIDIA GeForce RTX 3060
rtx-3060-ti                  8.6   8      - - | 2414 2486 2489 24c9 | NVIDIA GeForce RTX 3060 Ti
rtx-3070                     8.6   8      - - | 2484 2488       | NVIDIA GeForce RTX 3070
rtx-3070-ti                  8.6   8      - - | 2207 2482       | NVIDIA GeForce RTX 3070 Ti
rtx-3080-10gb                8.6  10  10240 - | 2206 2216       | NVIDIA GeForce RTX 3080
rtx-3080-12gb                8.6  12      - - | 220a            | NVIDIA GeForce RTX 3080
rtx-3080-ti                  8.6  12      - - | 2208            | NVIDIA GeForce RTX 3080 Ti
rtx-3090                     8.6  24  24576 - | 2204            | NVIDIA GeForce RTX 3090
rtx-3090-ti                  8.6  24  24564 - | 2203            | NVIDIA GeForce RTX 3090 Ti
rtx-4000-ada                 8.9  20  20475 - | 27b2            | NVIDIA RTX 4000 Ada Generation
rtx-4000-sff-ada             8.9  20  20475 - | 27b0            | NVIDIA RTX 4000 SFF Ada Generation
rtx-4060                     8.9   8      - - | 2808 2882       | NVIDIA GeForce RTX 4060
rtx-4060-ti-16gb             8.9  16  16380 - | 2805            | NVIDIA GeForce RTX 4060 Ti
rtx-4060-ti-8gb              8.9   8      - - | 2788 2803       | NVIDIA GeForce RTX 4060 Ti
rtx-4070                     8.9  12      - - | 2709 2786       | NVIDIA GeForce RTX 4070
rtx-4070-super               8.9  12  12282 - | 2783            | NVIDIA GeForce RTX 4070 SUPER
rtx-4070-ti                  8.9  12      - - | 2782            | NVIDIA GeForce RTX 4070 Ti
rtx-4070-ti-super            8.9  16      - - | 2689 2705       | NVIDIA GeForce RTX 4070 Ti SUPER
rtx-4080                     8.9  16      - - | 2704            | NVIDIA GeForce RTX 4080
rtx-4080-super               8.9  16  16376 - | 2702            | NVIDIA GeForce RTX 4080 SUPER
rtx-4090                     8.9  24  24564 - | 2684            | NVIDIA GeForce RTX 4090
rtx-4090-d                   8.9  24      - - | 2685            | NVIDIA GeForce RTX 4090 D
rtx-4500-ada                 8.9  24  23034 - | 27b1            | NVIDIA RTX 4500 Ada Generation
rtx-5000-ada                 8.9  32  32760 - | 26b2            | NVIDIA RTX 5000 Ada Generation
rtx-5050                    12.0   8      - - | 2d83            | NVIDIA GeForce RTX 5050
rtx-5060                    12.0   8      - - | 2d05 2f06       | NVIDIA GeForce RTX 5060
rtx-5060-ti-16gb            12.0  16  16311 - | 2d04            | NVIDIA GeForce RTX 5060 Ti
rtx-5060-ti-8gb             12.0   8      - - | 2d04            | NVIDIA GeForce RTX 5060 Ti
rtx-5070                    12.0  12  12227 - | 2f04            | NVIDIA GeForce RTX 5070
rtx-5070-ti                 12.0  16  16303 - | 2c05            | NVIDIA GeForce RTX 5070 Ti
rtx-5080                    12.0  16  16303 - | 2c02            | NVIDIA GeForce RTX 5080
rtx-5090                    12.0  32  32607 - | 2b85            | NVIDIA GeForce RTX 5090
rtx-5090-d                  12.0  32      - - | 2b87            | NVIDIA GeForce RTX 5090 D
rtx-5880-ada                 8.9  48      - - | 26b3            | NVIDIA RTX 5880 Ada Generation
rtx-6000-ada                 8.9  48  46068 - | 26b1            | NVIDIA RTX 6000 Ada Generation
rtx-a1000                    8.6   8      - - | 25b0            | NVIDIA RTX A1000
rtx-a2000-12gb               8.6  12  12282 - | 2571            | NVIDIA RTX A2000 12GB
rtx-a2000-6gb                8.6   6      - - | 2531            | NVIDIA RTX A2000
rtx-a400                     8.6   4   4094 - | 25b2            | NVIDIA RTX A400
rtx-a4000                    8.6  16  16376 - | 24b0            | NVIDIA RTX A4000
rtx-a4500                    8.6  20  20470 - | 2232            | NVIDIA RTX A4500
rtx-a5000                    8.6  24  24564 - | 2231            | NVIDIA RTX A5000
rtx-a5500                    8.6  24      - - | 2233            | NVIDIA RTX A5500
rtx-a6000                    8.6  48  49140 - | 2230            | NVIDIA RTX A6000
rtx-pro-2000-blackwell      12.0  16  16311 - | 2d30            | NVIDIA RTX PRO 2000 Blackwell
rtx-pro-4000-blackwell      12.0  24  24467 - | 2c34            | NVIDIA RTX PRO 4000 Blackwell
rtx-pro-4000-sff-blackwell  12.0  24      - - | 2c33            | NVIDIA RTX PRO 4000 Blackwell SFF Edition
rtx-pro-4500-blackwell      12.0  32  32623 M | 2c31            | NVIDIA RTX PRO 4500 Blackwell
rtx-pro-5000-72gb-blackwell 12.0  72      - - | 2bb3/227a       | NVIDIA RTX PRO 5000 72GB Blackwell
rtx-pro-5000-blackwell      12.0  48  48935 M | 2bb3/204d       | NVIDIA RTX PRO 5000 Blackwell
rtx-pro-6000-blackwell-maxq 12.0  96      - M | 2bb4 | NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition
rtx-pro-6000-blackwell-se   12.0  96  97887 M | 2bb5            | NVIDIA RTX PRO 6000 Blackwell Server Edition
rtx-pro-6000-blackwell-ws   12.0  96      - M | 2bb1            | NVIDIA RTX PRO 6000 Blackwell Workstation Edition
tesla-p100-pcie-12gb         6.0  12      - - | 15f7            | Tesla P100-PCIE-12GB
tesla-p100-pcie-16gb         6.0  16  16384 - | 15f8            | Tesla P100-PCIE-16GB
tesla-p100-sxm2-16gb         6.0  16      - - | 15f9            | Tesla P100-SXM2-16GB
tesla-p4                     6.1   8      - - | 1bb3            | Tesla P4
tesla-p40                    6.1  24  23040 - | 1b38            | Tesla P40
tesla-t4                     7.5  16  15360 - | 1eb8            | Tesla T4
tesla-v100-pcie-16gb         7.0  16      - - | 1db4            | Tesla V100-PCIE-16GB
tesla-v100-pcie-32gb         7.0  32  32768 - | 1db6            | Tesla V100-PCIE-32GB
tesla-v100-sxm2-16gb         7.0  16  16384 - | 1db1 1df5       | Tesla V100-SXM2-16GB
tesla-v100-sxm2-32gb         7.0  32      - - | 1db5            | Tesla V100-SXM2-32GB
tesla-v100s-pcie-32gb        7.0  32      - - | 1df6            | Tesla V100S-PCIE-32GB
titan-rtx                    7.5  24      - - | 1e02            | NVIDIA TITAN RTX
titan-v                      7.0  12      - - | 1d81            | NVIDIA TITAN V
titan-xp                     6.1  12      - - | 1b02            | NVIDIA TITAN Xp
"""

# The same without a compute capability.
_AMD = """
mi100            32      - - | 738c 738e       | AMD Instinct MI100
mi210            64      - - | 740f            | AMD Instinct MI210
mi250           128      - - | 740c            | AMD Instinct MI250
mi250x          128      - - | 7408            | AMD Instinct MI250X
mi300a          128      - - | 74a0            | AMD Instinct MI300A
mi300x          192 196592 - | 74a1 74a9 74b5 74bd | AMD Instinct MI300X
mi325x          256      - - | 74a5 74b9       | AMD Instinct MI325X
mi350x          288      - - | 75a0            | AMD Instinct MI350X
mi355x          288      - - | 75a3            | AMD Instinct MI355X
mi50-16gb        16      - - | 66a1            | AMD Instinct MI50
mi50-32gb        32      - - | 66a1            | AMD Instinct MI50
mi60             32      - - | 66a1            | AMD Instinct MI60
r9700            32  30576 - | 7551            | AMD Radeon AI PRO R9700
radeon-vii       16      - - | 66af            | AMD Radeon VII
rx-6600           8      - - | 73ff            | AMD Radeon RX 6600
rx-6700-xt       12  12272 - | 73df            | AMD Radeon RX 6700 XT
rx-6800          16      - - | 73bf            | AMD Radeon RX 6800
rx-6800-xt       16      - - | 73bf            | AMD Radeon RX 6800 XT
rx-6900-xt       16      - - | 73af 73bf       | AMD Radeon RX 6900 XT
rx-6950-xt       16      - - | 73a5            | AMD Radeon RX 6950 XT
rx-7600           8      - - | 7480            | AMD Radeon RX 7600
rx-7600-xt       16      - - | 7480            | AMD Radeon RX 7600 XT
rx-7700-xt       12      - - | 747e            | AMD Radeon RX 7700 XT
rx-7800-xt       16      - - | 747e            | AMD Radeon RX 7800 XT
rx-7900-gre      16      - - | 744c            | AMD Radeon RX 7900 GRE
rx-7900-xt       20      - - | 744c            | AMD Radeon RX 7900 XT
rx-7900-xtx      24  24560 - | 744c            | AMD Radeon RX 7900 XTX
rx-9060-xt-16gb  16      - - | 7590            | AMD Radeon RX 9060 XT
rx-9070          16      - - | 7550            | AMD Radeon RX 9070
rx-9070-xt       16      - - | 7550            | AMD Radeon RX 9070 XT
strix-halo        -      - U | 1586            | AMD Radeon 8060S Graphics
v620             32      - - | 73a1 73ae       | AMD Radeon PRO V620
w6600             8      - - | 73e3            | AMD Radeon PRO W6600
w6800            32      - - | 73a3            | AMD Radeon PRO W6800
w7700            16      - - | 7470            | AMD Radeon PRO W7700
w7800            32      - - | 745e            | AMD Radeon PRO W7800
w7800-48gb       48      - - | 7449            | AMD Radeon PRO W7800 48GB
w7900            48  46064 - | 7448 744a       | AMD Radeon PRO W7900
"""

_INTEL = """
arc-a750      8     - - | 56a1           | Intel(R) Arc(TM) A750 Graphics
arc-a770     16 15473 - | 56a0           | Intel(R) Arc(TM) A770 Graphics
arc-b570     10     - - | e20c           | Intel(R) Arc(TM) B570 Graphics
arc-b580     12     - - | e20b           | Intel(R) Arc(TM) B580 Graphics
arc-pro-b50  16 15881 - | e212           | Intel(R) Arc(TM) Pro B50 Graphics
arc-pro-b60  24     - - | e211           | Intel(R) Arc(TM) Pro B60 Graphics
flex-140      6     - - | 56c1           | Intel Data Center GPU Flex 140
flex-170     16     - - | 56c0           | Intel Data Center GPU Flex 170
max-1100     48     - - | 0bd9 0bda 0bdb | Intel Data Center GPU Max 1100
max-1550    128     - - | 0bd5 0bd6      | Intel Data Center GPU Max 1550
"""

_VENDOR_IDS = {"nvidia": "10de", "amd": "1002", "intel": "8086"}
_VENDOR_WORDS = re.compile(
    r"\b(?:nvidia|geforce|amd|ati|radeon pro|radeon|instinct|intel|corporation|generation|graphics|data center gpu)\b"
    r"|\((?:r|tm)\)"
)
# A part of a GPU that its driver gives a virtual machine is named by the GPU, a size in GB and what it is for.
_VIRTUAL = re.compile(r"^(?:grid|nvidia)\b.*-[0-9]{1,3}[abcq](?:me)?[0-9]?$", re.IGNORECASE | re.ASCII)
_NOT_IN_SLUG = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class GpuModel:
    """One GPU of the table; ``None`` is what the table does not know.

    ``memory_gb`` is the nominal size, ``printed_mib`` what its tool prints. ``unified`` GPUs share the memory of the
    host. The first name is the one that today's drivers report. ``boards`` are pairs of a PCI id and the subsystem
    device that a GPU of this chip must have.
    """

    gpu_class: str
    vendor: str
    names: t.Tuple[str, ...]
    pci_ids: t.Tuple[str, ...]
    boards: t.Tuple[t.Tuple[str, str], ...]
    memory_gb: t.Optional[int] = None
    printed_mib: t.Optional[int] = None
    compute_cap: t.Optional[t.Tuple[int, int]] = None
    mig_capable: bool = False
    unified: bool = False


def find(
    *,
    name: t.Optional[str] = None,
    pci_id: t.Optional[str] = None,
    subsystem_id: t.Optional[str] = None,
    memory_mib: t.Optional[int] = None,
    memory_gb: t.Optional[int] = None,
) -> t.Optional[GpuModel]:
    """Return the one GPU that fits all that is known, or ``None`` where none does or several are left.

    PCI ids are ``vendor:device``. Where a PCI id is known it decides before the name, so that a GPU is the same GPU
    with and without its driver.
    """
    found = candidates(name=name, pci_id=pci_id, subsystem_id=subsystem_id)
    if len(found) > 1 and memory_mib:
        nominal = _nearest_size(found, memory_mib)
        found = [model for model in found if model.memory_gb == nominal]
    if len(found) > 1 and memory_gb:
        found = [model for model in found if model.memory_gb == memory_gb]
    return found[0] if len(found) == 1 else None


def candidates(
    *, name: t.Optional[str] = None, pci_id: t.Optional[str] = None, subsystem_id: t.Optional[str] = None
) -> t.List[GpuModel]:
    """Return all GPUs that a name and PCI ids allow, in the order of the table."""
    by_pci = list(_BY_PCI_ID.get((pci_id or "").lower(), ()))
    board = (subsystem_id or "").lower().rpartition(":")[2]
    if board and len(by_pci) > 1:
        chip = (pci_id or "").lower()
        # A chip that is listed with and without a board is, without it, every other board.
        exact = [model for model in by_pci if (chip, board) in model.boards]
        by_pci = exact or [model for model in by_pci if chip not in dict(model.boards)] or by_pci
    by_name = _BY_NAME.get(slug(name), []) if name else []
    if by_pci and by_name:
        return [model for model in by_pci if model in by_name] or by_pci
    return by_pci or list(by_name)


def gpu_class(
    name: t.Optional[str],
    *,
    pci_id: t.Optional[str] = None,
    subsystem_id: t.Optional[str] = None,
    memory_mib: t.Optional[int] = None,
    memory_gb: t.Optional[int] = None,
) -> t.Optional[str]:
    """Return the class of a GPU: that of the table, or the slug of its name for a GPU that the table does not know.

    A name that several GPUs of the table bear, and nothing that tells them apart, is ``None``.
    """
    model = find(name=name, pci_id=pci_id, subsystem_id=subsystem_id, memory_mib=memory_mib, memory_gb=memory_gb)
    if model:
        return model.gpu_class
    if not name or candidates(name=name, pci_id=pci_id, subsystem_id=subsystem_id):
        return None
    return slug(name) or None


def is_known(name: t.Optional[str] = None, *, pci_id: t.Optional[str] = None) -> bool:
    """Return whether the table has any GPU of this name or PCI id."""
    return bool(candidates(name=name, pci_id=pci_id))


def nominal_memory_gb(
    name: t.Optional[str] = None,
    pci_id: t.Optional[str] = None,
    memory_mib: t.Optional[int] = None,
    *,
    subsystem_id: t.Optional[str] = None,
) -> t.Optional[int]:
    """Return the size on the box for what a tool prints, in GB.

    That is the size in the table which the printed MiB come near to, else the printed size rounded: a slice of a GPU
    bears the GPU's name. Where nothing is printed it is the size of all GPUs that it can be, and ``None`` where they
    have several or share the memory of the host.
    """
    found = candidates(name=name, pci_id=pci_id, subsystem_id=subsystem_id)
    if memory_mib:
        return _nearest_size(found, memory_mib) or int(memory_mib / 1024 + 0.5)
    return None if any(model.unified for model in found) else _common([model.memory_gb for model in found])


def compute_cap(
    name: t.Optional[str] = None, pci_id: t.Optional[str] = None, *, subsystem_id: t.Optional[str] = None
) -> t.Optional[t.Tuple[int, int]]:
    """Return the compute capability, where all GPUs that it can be have the same."""
    return _common([model.compute_cap for model in candidates(name=name, pci_id=pci_id, subsystem_id=subsystem_id)])


def models() -> t.Sequence[GpuModel]:
    """Return the whole table, sorted by vendor and class."""
    return _MODELS


def is_virtual(name: t.Optional[str]) -> bool:
    """Return whether a name is that of a virtual GPU, such as ``GRID T4-8Q`` or ``NVIDIA L40S-24Q``."""
    return bool(name and _VIRTUAL.match(name.strip()))


def slug(name: str) -> str:
    """Return a name as a class: lower case, without the words that only say who made it."""
    return _NOT_IN_SLUG.sub("-", _VENDOR_WORDS.sub(" ", name.lower())).strip("-")


_T = t.TypeVar("_T")


def _common(values: t.Sequence[t.Optional[_T]]) -> t.Optional[_T]:
    return values[0] if values and all(value == values[0] for value in values) else None


def _nearest_size(found: t.Sequence[GpuModel], memory_mib: int) -> t.Optional[int]:
    gib = memory_mib / 1024
    near = [
        (abs(gib - size), size)
        for size in (model.memory_gb for model in found)
        if size and abs(gib - size) <= _TOLERANCE * size
    ]
    return min(near)[1] if near else None


def _read(vendor: str, table: str) -> t.Iterator[GpuModel]:
    prefix = _VENDOR_IDS[vendor]
    for line in table.strip().split("\n"):
        left, ids, names = (part.strip() for part in line.split("|"))
        words = left.split()
        if vendor != "nvidia":
            words.insert(1, "-")
        label, capability, size, printed, flags = words
        chips = [word.partition("/") for word in ids.split()]
        major, _dot, minor = capability.partition(".")
        yield GpuModel(
            gpu_class=label,
            vendor=vendor,
            names=tuple(names.split(" / ")),
            pci_ids=tuple(f"{prefix}:{chip}" for chip, _slash, _board in chips),
            boards=tuple((f"{prefix}:{chip}", board) for chip, _slash, board in chips if board),
            memory_gb=None if size == "-" else int(size),
            printed_mib=None if printed == "-" else int(printed),
            compute_cap=(int(major), int(minor)) if minor else None,
            mig_capable="M" in flags,
            unified="U" in flags,
        )


_MODELS: t.Tuple[GpuModel, ...] = (*_read("nvidia", _NVIDIA), *_read("amd", _AMD), *_read("intel", _INTEL))
_BY_PCI_ID: t.Dict[str, t.List[GpuModel]] = {}
_BY_NAME: t.Dict[str, t.List[GpuModel]] = {}
for _model in _MODELS:
    for _id in _model.pci_ids:
        _BY_PCI_ID.setdefault(_id, []).append(_model)
    for _name in _model.names:
        _BY_NAME.setdefault(slug(_name), []).append(_model)
