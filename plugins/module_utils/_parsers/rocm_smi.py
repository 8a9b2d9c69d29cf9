# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The GPUs that ``rocm-smi`` tells, as JSON, as CSV or as its text with a line for each value.

Which keys there are depends on the options and the version, and so does how they are written: ``GPU series`` became
``Card Series``. A number in place of a name is the id of the vendor, which old versions print where they have no list of
names. ``system`` beside the GPUs holds what is of the whole node.
"""

from __future__ import annotations

import csv
import re
import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._parsers import vendor_gpu
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.vendor_gpu import Card

_SOURCE = "rocm-smi"

_CARD = re.compile(r"card([0-9]{1,4})", re.ASCII)
_TEXT_CARD = re.compile(r"^GPU\[([0-9]{1,4})\]\s*:\s*(?P<key>[^:\t]{2,60}?)\s*:\s+(?P<value>\S.*)$", re.ASCII)
_TEXT_DRIVER = re.compile(r"^Driver version:\s*(\S+)\s*$", re.IGNORECASE | re.MULTILINE)
_CSV_HEADER = re.compile(r"^device,", re.MULTILINE)
# Of what a GPU must have at least one: other listings of the tool have GPUs in them too.
_TELLING = (
    "pci bus",
    "vram total memory (b)",
    "card series",
    "chip",
    "card model",
    "device id",
    "gpu id",
    "device name",
)

Values = t.Dict[str, t.Any]


def parse(stdout: str, *, stderr: str = "", rc: t.Optional[int] = 0) -> t.List[Card]:
    """Return the GPUs of an output.

    :raises ParseError: with the codes of ``vendor_gpu.failure``, ``not_json`` for JSON that is cut short
    """
    if re.search(r"^GPU\[[0-9]", stdout, re.MULTILINE):
        cards, driver = _read_text(stdout)
    elif _CSV_HEADER.search(stdout):
        cards, driver = _read_csv(stdout), None
    else:
        cards, driver = _read_json(vendor_gpu.load_json(stdout, _SOURCE, stderr=stderr, rc=rc))
    found = vendor_gpu.once_each(
        _card(number, values, driver)
        for number, values in cards.items()
        if any(vendor_gpu.word(values.get(key)) for key in _TELLING)
    )
    if not found:
        raise vendor_gpu.failure(_SOURCE, stdout, stderr=stderr, rc=rc)
    return found


def _read_json(document: t.Any) -> t.Tuple[t.Dict[int, Values], t.Any]:
    cards: t.Dict[int, Values] = {}
    driver = None
    for key, values in document.items() if isinstance(document, dict) else ():
        match = _CARD.fullmatch(key)
        if match and isinstance(values, dict):
            cards[int(match.group(1))] = _named(values.items())
        elif key == "system" and isinstance(values, dict):
            driver = values.get("Driver version")
    return cards, driver


def _read_csv(text: str) -> t.Dict[int, Values]:
    cards: t.Dict[int, Values] = {}
    header: t.List[str] = []
    for line in text.replace("\r", "").replace("\0", "").split("\n"):
        try:
            fields = next(csv.reader([line], strict=True), [])
        except csv.Error:
            # Behind an odd quote it is open what belongs to which value.
            continue
        if fields[:1] == ["device"]:
            header = [field.strip() for field in fields]
            continue
        match = _CARD.fullmatch(fields[0].strip()) if fields else None
        # A row of another length has a comma in one of its values, and it is open in which.
        if match and len(fields) == len(header):
            cards.setdefault(int(match.group(1)), _named(zip(header, fields)))
    return cards


def _read_text(text: str) -> t.Tuple[t.Dict[int, Values], t.Any]:
    cards: t.Dict[int, Values] = {}
    for line in text.replace("\0", "").splitlines():
        match = _TEXT_CARD.match(line.strip())
        if match:
            values = _named([(match.group("key"), match.group("value"))])
            cards[int(match.group(1))] = {**values, **cards.get(int(match.group(1)), {})}
    driver = _TEXT_DRIVER.search(text)
    return cards, driver.group(1) if driver else None


def _named(pairs: t.Iterable[t.Tuple[str, t.Any]]) -> Values:
    """Give values one spelling of their keys.

    With a capital M the model is the PCI id of the chip. The older spelling has the id of the board, or of the vendor.
    """
    return {"chip" if name == "Card Model" else name.lower(): value for name, value in pairs}


def _card(number: int, values: Values, driver: t.Any) -> Card:
    names = (vendor_gpu.product(values.get(key)) for key in ("card series", "device name"))
    ids = (vendor_gpu.device_id(values.get(key)) for key in ("device id", "gpu id", "chip"))
    return Card(
        index=number,
        name=next((name for name in names if name), None),
        memory_mib=vendor_gpu.mib_of_bytes(values.get("vram total memory (b)")),
        driver=vendor_gpu.word(driver),
        uuid=vendor_gpu.identity(values.get("unique id")),
        pci_address=vendor_gpu.address(values.get("pci bus")),
        device_id=next((found for found in ids if found), None),
        gfx=vendor_gpu.architecture(values.get("gfx version")),
    )
