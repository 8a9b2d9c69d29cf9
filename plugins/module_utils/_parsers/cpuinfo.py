# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The text of ``/proc/cpuinfo``, which every architecture writes in its own way."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError

# Keys that name the processor, best first. "model" and "Model" are a number or the board and never its name.
_MODEL_KEYS = ("model name", "Model Name", "cpu model", "uarch", "cpu", "Processor", "cpu type", "CPU", "family")
_NO_MODEL = frozenset(("", "-", "unknown", "0"))
_BOARD_KEYS = ("Model", "Board", "board")
_PACKAGE_KEYS = ("drawer id", "book id", "physical id", "package")
_CORE_KEYS = ("core id", "core")

# s390x up to z13 names its processors like this, with their data on the same line.
_S390_PROCESSOR = re.compile(r"^processor (\d+)$", re.ASCII)
_SPARC_STATE = re.compile(r"^CPU(\d+)$", re.ASCII)
_INTEGER = re.compile(r"-?[0-9]{1,9}", re.ASCII)

_Block = t.Dict[str, str]


@dataclass(frozen=True)
class Cpu:
    """The processors of a machine; ``None`` where the text does not say.

    ``threads`` are the logical CPUs that are online, ``cores`` the physical cores behind them. ``parts`` counts the
    CPUs of each ARM part number, ``board`` and ``hardware`` name what they sit on.
    """

    model: t.Optional[str]
    sockets: t.Optional[int]
    cores: t.Optional[int]
    threads: int
    arch_family: t.Optional[str] = None
    implementer: t.Optional[str] = None
    parts: t.Tuple[t.Tuple[str, int], ...] = ()
    board: t.Optional[str] = None
    hardware: t.Optional[str] = None


def parse(text: str) -> Cpu:
    """Read the processors; a text without any is ``ParseError`` (``no_processors``)."""
    lines = _key_values(text)
    blocks, other = _split_blocks(lines)
    threads = _count_threads(lines, blocks)
    if not threads:
        raise ParseError("/proc/cpuinfo", "no_processors", detail=text.strip()[:80])
    first: _Block = {}
    for key, value in lines:
        first.setdefault(key, value)
    sockets, cores = _topology(blocks, x86="cpu cores" in first or "siblings" in first)
    if threads == 1:
        # One logical CPU is one core of one package, whatever else is missing.
        sockets, cores = sockets or 1, 1
    parts: t.Dict[str, int] = {}
    for block in blocks:
        if block.get("CPU part"):
            parts[block["CPU part"]] = parts.get(block["CPU part"], 0) + 1
    return Cpu(
        model=_model(first),
        sockets=sockets,
        cores=cores,
        threads=threads,
        arch_family=_arch_family(first),
        implementer=first.get("CPU implementer") or None,
        parts=tuple(sorted(parts.items())),
        board=next((other[key] for key in _BOARD_KEYS if other.get(key)), other.get("machine") or None),
        hardware=other.get("Hardware") or None,
    )


def _key_values(text: str) -> t.List[t.Tuple[str, str]]:
    pairs = []
    for line in text.replace("\ufeff", "").replace("\r", "").split("\n"):
        key, colon, value = line.partition(":")
        if colon and key.strip():
            pairs.append((key.strip(), value.strip()))
    return pairs


def _split_blocks(lines: t.Sequence[t.Tuple[str, str]]) -> t.Tuple[t.List[_Block], _Block]:
    """Split into one block per processor and what stands outside of them.

    Blank lines do not help: some kernels write none, others write trailers without one in front. A processor starts at
    its number ("processor", or "cpu number" on newer s390x) and ends where a key comes again that belongs to the whole.
    """
    blocks: t.List[_Block] = []
    other: _Block = {}
    current: t.Optional[_Block] = None
    for key, value in lines:
        if key in ("processor", "cpu number") and _INTEGER.match(value):
            current = {key: value}
            blocks.append(current)
        elif key in ("Hardware", "Revision", "Serial", "Model", "timebase", "platform", "machine", "motherboard"):
            other[key] = value
        elif current is None:
            other.setdefault(key, value)
        else:
            current.setdefault(key, value)
    return blocks, other


def _count_threads(lines: t.Sequence[t.Tuple[str, str]], blocks: t.Sequence[_Block]) -> int:
    numbers = {block.get("processor", block.get("cpu number", "")) for block in blocks}
    if numbers:
        return len(numbers)
    first: _Block = {}
    for key, value in lines:
        first.setdefault(key, value)
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


def _topology(blocks: t.Sequence[_Block], *, x86: bool) -> t.Tuple[t.Optional[int], t.Optional[int]]:
    """Count packages and cores; ``None`` where the text does not say, or says what cannot be."""
    packages: t.Dict[t.Tuple[str, ...], t.List[_Block]] = {}
    for block in blocks:
        place = tuple(block[key] for key in _PACKAGE_KEYS if key in block)
        if not place:
            return None, None
        packages.setdefault(place, []).append(block)
    if not packages:
        return None, None
    total = 0
    for members in packages.values():
        cores = _package_cores(members, x86=x86)
        if cores is None:
            return len(packages), None
        total += cores
    return len(packages), total


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


def _arch_family(first: _Block) -> t.Optional[str]:
    """Name the family of instruction sets, as far as the keys tell it."""
    if "CPU implementer" in first or "CPU architecture" in first:
        text = first.get("CPU architecture", "")
        return "arm64" if text.lower() == "aarch64" or _integer(text) == 8 else "arm"
    if first.get("vendor_id", "").startswith("IBM/S390"):
        return "s390x"
    if "hart" in first or first.get("isa", "").startswith("rv"):
        return "riscv32" if first.get("isa", "").startswith("rv32") else "riscv64"
    if "loongarch64" in first.get("ISA", ""):
        return "loongarch64"
    if first.get("arch", "").startswith("IA-64"):
        return "ia64"
    if "timebase" in first or first.get("cpu", "").startswith(("POWER", "PPC")):
        return "ppc64"
    if first.get("type", "").startswith("sun4"):
        return "sparc64" if first["type"] in ("sun4u", "sun4v") else "sparc"
    if "flags" in first or "cpu family" in first:
        return "x86"
    return None


def _integer(text: t.Optional[str]) -> t.Optional[int]:
    return int(text) if text is not None and _INTEGER.fullmatch(text) else None
