# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The one exception of all parsers."""

from __future__ import annotations

import typing as t

_MEANINGS = {
    # nvidia-smi
    "driver_not_loaded": "the driver is not loaded",
    "nvml_not_found": "the driver's management library was not found",
    "driver_library_mismatch": "driver and libraries are of different versions (a reboot is due)",
    "nvml_init_failed": "the driver's management library could not be initialised",
    "no_devices": "no device was found",
    "gpu_lost": "a GPU does not answer any more",
    "invalid_field": "a queried field is not known to this version",
    "unparsable_rows": "no row of the output could be understood",
    # any command
    "command_not_found": "the command is not installed",
    "command_failed": "the command failed",
    # other texts
    "no_memtotal": "there is no total amount of memory",
    "no_processors": "there is no processor in the text",
    "no_cpus": "there is no number of CPUs in the text",
    "not_json": "the output is not JSON",
    "not_a_table": "the output is not a table with a header",
    "no_devices_listed": "there is no PCI device in the text",
    "no_mounts": "there is no mount in the text",
    "no_guests_listed": "there is no list of virtual machines and containers in the text",
}


class ParseError(Exception):
    """A text does not give what its parser looks for.

    ``code`` is one of a fixed set of words that a caller may branch on, ``detail`` the telling line of the text,
    ``field`` the refused field of an ``invalid_field`` and ``pci_address`` the lost GPU of a ``gpu_lost``.
    """

    def __init__(
        self,
        source: str,
        code: str,
        *,
        detail: str = "",
        field: t.Optional[str] = None,
        pci_address: t.Optional[str] = None,
    ) -> None:
        self.source = source
        self.code = code
        self.detail = detail
        self.field = field
        self.pci_address = pci_address
        super().__init__(source, code, detail)

    def __str__(self) -> str:
        """Say what is wrong and quote the line that says so."""
        message = f"{self.source}: {_MEANINGS.get(self.code, self.code)}"
        return f"{message}: {self.detail}" if self.detail else message
