# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The text of ``/proc/cpuinfo``, which every architecture writes in its own way.

Format: ``show_cpuinfo`` and ``c_show`` below arch/*/kernel of Linux 2.6 to 6.17.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError

# Keys that name the processor, best first. "model" and "Model" are a number or the board and never its name.
_MODEL_KEYS = ("model name", "Model Name", "cpu model", "uarch", "cpu", "Processor", "cpu type", "CPU", "family")
_NO_MODEL = frozenset(("", "-", "unknown", "0"))
_PACKAGE_KEYS = ("drawer id", "book id", "physical id", "package")
_CORE_KEYS = ("core id", "core")

# s390x up to z13 names its processors like this, with their data on the same line.
_S390_PROCESSOR = re.compile(r"^processor (\d+)$", re.ASCII)
_SPARC_STATE = re.compile(r"^CPU(\d+)$", re.ASCII)
_INTEGER = re.compile(r"-?[0-9]{1,9}", re.ASCII)

_Block = t.Dict[str, str]


class Cpu(t.NamedTuple):
    """The processors of a node: their name, physical cores, and logical CPUs that are online; None is not known."""

    model: t.Optional[str]
    cores: t.Optional[int]
    threads: int


def parse(text: str) -> Cpu:
    """Return the processors.

    :raises ParseError: ``no_processors`` for a text without any
    """
    lines = _key_values(text)
    first: _Block = {}
    for key, value in lines:
        first.setdefault(key, value)
    blocks = _split_blocks(lines)
    threads = _count_threads(first, blocks)
    if not threads:
        raise ParseError("/proc/cpuinfo", "no_processors", detail=text.strip()[:80])
    # One logical CPU is one core, whatever else is missing.
    cores = 1 if threads == 1 else _count_cores(blocks, x86="cpu cores" in first or "siblings" in first)
    return Cpu(_model(first), cores, threads)


def _key_values(text: str) -> t.List[t.Tuple[str, str]]:
    pairs = []
    for line in text.replace("\ufeff", "").replace("\r", "").split("\n"):
        key, colon, value = line.partition(":")
        if colon and key.strip():
            pairs.append((key.strip(), value.strip()))
    return pairs


def _split_blocks(lines: t.Sequence[t.Tuple[str, str]]) -> t.List[_Block]:
    """Return one block per processor.

    Blank lines do not help: some kernels write none, others write trailers without one in front. A processor starts at
    its number ("processor", or "cpu number" on newer s390x).
    """
    blocks: t.List[_Block] = []
    for key, value in lines:
        if key in ("processor", "cpu number") and _INTEGER.match(value):
            blocks.append({})
        if blocks:
            blocks[-1].setdefault(key, value)
    return blocks


def _count_threads(first: _Block, blocks: t.Sequence[_Block]) -> int:
    numbers = {block.get("processor", block.get("cpu number", "")) for block in blocks}
    if numbers:
        return len(numbers)
    for key in ("# processors", "ncpus active", "cpus active", "cpus detected"):
        number = _integer(first.get(key))
        if number and number > 0:
            return number
    listed = {key for key in first if _S390_PROCESSOR.match(key)}
    listed = listed or {key for key, value in first.items() if _SPARC_STATE.match(key) and value == "online"}
    if listed:
        return len(listed)
    # Kernels for one processor only: a name and no number.
    single = ("Processor" in first and "BogoMIPS" in first) or ("CPU" in first and "BogoMips" in first)
    return int(single or ("cpu" in first and "cpu model" in first))


def _count_cores(blocks: t.Sequence[_Block], *, x86: bool) -> t.Optional[int]:
    """Return the physical cores of all packages; None where the text does not say, or says what cannot be."""
    packages: t.Dict[t.Tuple[str, ...], t.List[_Block]] = {}
    for block in blocks:
        packages.setdefault(tuple(block[key] for key in _PACKAGE_KEYS if key in block), []).append(block)
    counts = [_package_cores(members, x86=x86) for members in packages.values()]
    if not counts or () in packages or None in counts:
        return None
    return sum(t.cast("t.List[int]", counts))


def _package_cores(members: t.Sequence[_Block], *, x86: bool) -> t.Optional[int]:
    ids = [next((block[key] for key in _CORE_KEYS if key in block), None) for block in members]
    unique = len(set(ids)) if None not in ids else 0
    threads = len(members)
    if not x86:
        return unique or None
    declared = _integer(members[0].get("cpu cores")) or 0
    siblings = _integer(members[0].get("siblings")) or 0
    cores = unique
    if threads == siblings:
        # The whole package is listed. Packages of several dies repeat their core ids, so the kernel's own count is
        # needed; where only a part is listed (containers), it counts cores that are not there.
        cores = max(unique, declared)
    if not cores or cores > threads:
        return None
    phi = "Phi" in members[0].get("model name", "")
    # More than two threads on a core exist on no x86 but one: some hypervisors give every CPU the same core id.
    return cores if phi or threads <= 2 * cores else None


def _model(first: _Block) -> t.Optional[str]:
    for key in _MODEL_KEYS:
        value = first.get(key, "")
        if value.lower() in _NO_MODEL or (key in ("family", "Processor", "cpu", "CPU") and _INTEGER.fullmatch(value)):
            continue
        if key == "family" and "arch" not in first:
            continue  # Itanium only: elsewhere the key is not a name
        return value
    return None


def _integer(text: t.Optional[str]) -> t.Optional[int]:
    return int(text) if text is not None and _INTEGER.fullmatch(text) else None
