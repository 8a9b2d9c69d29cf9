# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The GPUs that ``nvidia-smi -L`` lists, with the slices of those that are divided.

It is the only listing that has the UUIDs of slices. Drivers before 470 write a slice's UUID as that of its GPU with two
numbers behind it.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, replace

from ansible_collections.knaster.inventory.plugins.module_utils._parsers import nvidia_smi

_CARD = re.compile(r"^GPU (?P<index>[0-9]{1,4}): (?P<name>.+?) \(UUID: (?P<uuid>GPU-[0-9A-Za-z-]+)\)?$", re.ASCII)
_SLICE = re.compile(
    r"^MIG (?P<name>(?:[0-9]+c\.)?[0-9]+g\.(?P<memory_gb>[0-9]{1,4})gb[A-Za-z0-9.+_-]*)\s+Device\s+(?P<device>[0-9]{1,3}):\s+"
    r"\(UUID: (?P<uuid>MIG-[0-9A-Za-z/-]+)\)$",
    re.ASCII,
)


@dataclass(frozen=True)
class Slice:
    """One slice: its profile (``3g.40gb``), the GB in that name and its UUID. Other tools may not tell all of it."""

    name: str
    memory_gb: t.Optional[int]
    uuid: t.Optional[str]


@dataclass(frozen=True)
class ListedCard:
    """One GPU of the list."""

    index: int
    name: str
    uuid: str
    slices: t.Tuple[Slice, ...] = ()


def parse(stdout: str, *, stderr: str = "", rc: t.Optional[int] = 0) -> t.List[ListedCard]:
    """Return the GPUs in the order of the list.

    :raises ParseError: with the codes of ``nvidia_smi.parse_query`` where there is no GPU
    """
    cards: t.List[ListedCard] = []
    is_of_card = False
    for line in stdout.replace("\ufeff", "").replace("\r", "\n").replace("\0", "").split("\n"):
        text = line.strip()
        card = _CARD.match(text)
        if card:
            cards.append(ListedCard(int(card.group("index")), card.group("name"), card.group("uuid")))
            is_of_card = True
            continue
        part = _SLICE.match(text)
        if part and is_of_card:
            found = Slice(part.group("name"), int(part.group("memory_gb")), part.group("uuid"))
            cards[-1] = replace(cards[-1], slices=(*cards[-1].slices, found))
        elif text.startswith(("GPU ", "Unable")):
            # The slices that follow are of a GPU that could not be read.
            is_of_card = False
    if not cards:
        raise nvidia_smi.failure(stdout, stderr=stderr, rc=rc)
    return cards
