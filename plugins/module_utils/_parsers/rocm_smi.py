# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The GPUs that ``rocm-smi`` reports, as JSON, as CSV or as its text with a line for each value.

Format: https://rocm.docs.amd.com/projects/rocm_smi_lib/en/latest/how-to/use-rocm-smi.html (ROCm 3 to 7).

Which keys there are depends on the options and the version, and so does how they are written: ``GPU series`` became
``Card Series``. A number in place of a name is the id of the vendor, which old versions print where they have no list of
names. ``system`` beside the GPUs holds what is of the whole node.
"""

from __future__ import annotations

import csv
import re
import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._parsers import vendor_tools
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.gpu import Gpu
from ansible_collections.knaster.inventory.plugins.module_utils._pci import AMD, parse_device_address

_SOURCE = "rocm-smi"

_GPU = re.compile(r"card([0-9]{1,4})", re.ASCII)
_TEXT_GPU = re.compile(r"^GPU\[([0-9]{1,4})\]\s*:\s*(?P<key>[^:\t]{2,60}?)\s*:\s+(?P<value>\S.*)$", re.ASCII)
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


def parse(stdout: str, *, stderr: str = "", rc: t.Optional[int] = 0) -> t.List[Gpu]:
    """Return the GPUs of an output.

    :raises ParseError: with the codes of ``vendor_tools.failure``, ``not_json`` for JSON that is cut short
    """
    if re.search(r"^GPU\[[0-9]", stdout, re.MULTILINE):
        gpus, driver = _read_text(stdout)
    elif _CSV_HEADER.search(stdout):
        gpus, driver = _read_csv(stdout), None
    else:
        gpus, driver = _read_json(vendor_tools.load_json(stdout, _SOURCE, stderr=stderr, rc=rc))
    found = vendor_tools.once_each(
        _gpu(number, values, driver)
        for number, values in gpus.items()
        if any(vendor_tools.word(values.get(key)) for key in _TELLING)
    )
    if not found:
        raise vendor_tools.failure(_SOURCE, stdout, stderr=stderr, rc=rc)
    return found


def _read_json(document: t.Any) -> t.Tuple[t.Dict[int, Values], t.Any]:
    gpus: t.Dict[int, Values] = {}
    driver = None
    for key, values in document.items() if isinstance(document, dict) else ():
        match = _GPU.fullmatch(key)
        if match and isinstance(values, dict):
            gpus[int(match.group(1))] = _named(values.items())
        elif key == "system" and isinstance(values, dict):
            driver = values.get("Driver version")
    return gpus, driver


def _read_csv(text: str) -> t.Dict[int, Values]:
    gpus: t.Dict[int, Values] = {}
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
        match = _GPU.fullmatch(fields[0].strip()) if fields else None
        # A row of another length has a comma in one of its values, and it is open in which.
        if match and len(fields) == len(header):
            gpus.setdefault(int(match.group(1)), _named(zip(header, fields)))
    return gpus


def _read_text(text: str) -> t.Tuple[t.Dict[int, Values], t.Any]:
    gpus: t.Dict[int, Values] = {}
    for line in text.replace("\0", "").splitlines():
        match = _TEXT_GPU.match(line.strip())
        if match:
            values = _named([(match.group("key"), match.group("value"))])
            gpus[int(match.group(1))] = {**values, **gpus.get(int(match.group(1)), {})}
    driver = _TEXT_DRIVER.search(text)
    return gpus, driver.group(1) if driver else None


def _named(pairs: t.Iterable[t.Tuple[str, t.Any]]) -> Values:
    """Return values with one spelling of their keys.

    With a capital M the model is the PCI id of the chip. The older spelling has the id of the board, or of the vendor.
    """
    return {"chip" if name == "Card Model" else name.lower(): value for name, value in pairs}


def _gpu(number: int, values: Values, driver: t.Any) -> Gpu:
    names = (vendor_tools.product(values.get(key)) for key in ("card series", "device name"))
    ids = (vendor_tools.device_id(values.get(key)) for key in ("device id", "gpu id", "chip"))
    return Gpu(
        AMD,
        index=number,
        name=next((name for name in names if name), None),
        memory_mib=vendor_tools.mib_of_bytes(values.get("vram total memory (b)")),
        driver=vendor_tools.word(driver),
        uuid=vendor_tools.identity(values.get("unique id")),
        address=parse_device_address(values.get("pci bus")),
        device_id=next((found for found in ids if found), None),
    )
