# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The GPUs that the vendors' tools on a node report, or why they report none."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ansible_collections.knaster.inventory.plugins.module_utils._gather.answers import Output, find_output
from ansible_collections.knaster.inventory.plugins.module_utils._parsers import (
    amd_smi,
    nvidia_smi,
    nvidia_smi_list,
    rocm_smi,
    xpu_smi,
)
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.gpu import Gpu
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.nvidia_smi_text import (
    COLUMNS,
    IDENTITY_COLUMNS,
)
from ansible_collections.knaster.inventory.plugins.module_utils._pci import AMD, INTEL, NVIDIA

NVIDIA_SMI = "nvidia-smi"
NO_DEVICES = "no_devices"

# The codes of a tool that is not there or finds nothing, from the one that says most.
_QUIET = (NO_DEVICES, "absent", "not_asked")

# An output of the gather script, the tool that printed it, and its parser; the fullest first.
_Source = t.Tuple[str, str, t.Callable[[Output], t.List[Gpu]]]


@dataclass(frozen=True)
class Report:
    """What a vendor's tool reported: its GPUs, or the error that says why there are none."""

    tool: str
    gpus: t.Tuple[Gpu, ...] = ()
    error: t.Optional[ParseError] = None

    @property
    def code(self) -> t.Optional[str]:
        """Return the code of the error, None for a tool that works."""
        return self.error.code if self.error else None


def ask_tools(
    outputs: t.Mapping[str, Output], vendors: t.Optional[t.Collection[t.Optional[str]]], notes: t.List[str]
) -> t.Dict[str, Report]:
    """Return the report of each vendor's tool, by the vendor's PCI id.

    :param vendors: whose GPUs the PCI scan has; None without a scan
    :param notes: what went wrong is added here
    """
    reports = {NVIDIA: _ask_nvidia(outputs, notes)}
    for vendor, sources in _OTHER_TOOLS.items():
        # A tool that finds no driver is no trouble where there is no GPU for it.
        expected = vendors is None or vendor in vendors
        reports[vendor] = _first_report(outputs, sources, notes if expected else [])
    return reports


def _ask_nvidia(outputs: t.Mapping[str, Output], notes: t.List[str]) -> Report:
    report = _first_report(outputs, _QUERIES, notes)
    if report.error:
        return report
    identities = _first_report(outputs, _IDENTITIES, [])
    if identities.error and identities.code != "not_asked":
        notes.append(f"nvidia-smi: GPUs not identified ({identities.error.reason})")
    known = {gpu.index: gpu for gpu in identities.gpus if gpu.index is not None}
    return Report(
        NVIDIA_SMI,
        _with_slices(
            [gpu.filled_from(gpu if gpu.index is None else known.get(gpu.index, gpu)) for gpu in report.gpus],
            outputs,
            notes,
        ),
    )


def _with_slices(gpus: t.Sequence[Gpu], outputs: t.Mapping[str, Output], notes: t.List[str]) -> t.Tuple[Gpu, ...]:
    """Add the slices of the GPUs that are divided, where the list of them was asked for."""
    if "nvidia_smi_list" not in outputs or not any(gpu.mig for gpu in gpus):
        return tuple(gpus)
    listed = _first_report(outputs, [("nvidia_smi_list", NVIDIA_SMI, _reader(nvidia_smi_list.parse))], [])
    if listed.error:
        notes.append(f"nvidia-smi: slices not listed ({listed.error.reason})")
        return tuple(gpus)
    # A UUID is of the GPU; an index, for GPUs that were not identified, is of the moment.
    slices = {key: one.slices for one in listed.gpus for key in (one.uuid, one.index)}
    return tuple(replace(gpu, slices=slices.get(gpu.uuid or gpu.index)) if gpu.mig else gpu for gpu in gpus)


def _first_report(outputs: t.Mapping[str, Output], sources: t.Sequence[_Source], notes: t.List[str]) -> Report:
    """Return the GPUs of the first source that works, or the error of the first that is there."""
    errors = []
    for name, tool, parse in sources:
        try:
            return Report(tool, tuple(parse(find_output(outputs, name, tool))))
        except ParseError as exc:
            errors.append(exc)
    error = min(errors, key=lambda one: _QUIET.index(one.code) if one.code in _QUIET else -1)
    if error.code not in _QUIET:
        notes.append(str(error))
    return Report(error.source, error=error)


def _reader(parse: t.Callable[..., t.List[Gpu]]) -> t.Callable[[Output], t.List[Gpu]]:
    return lambda output: parse(output.stdout, stderr=output.stderr, rc=output.rc)


def _query_reader(columns: t.Sequence[str]) -> t.Callable[[Output], t.List[Gpu]]:
    return lambda output: nvidia_smi.parse_query(
        output.stdout, stderr=output.stderr, rc=output.rc, command=output.command, columns=columns
    )


_QUERIES: t.Sequence[_Source] = (
    ("nvidia_smi", NVIDIA_SMI, _query_reader(COLUMNS)),
    ("nvidia_smi_short", NVIDIA_SMI, _query_reader(COLUMNS)),
)
_IDENTITIES: t.Sequence[_Source] = (
    ("nvidia_smi_identity", NVIDIA_SMI, _query_reader(IDENTITY_COLUMNS)),
    ("nvidia_smi_identity_short", NVIDIA_SMI, _query_reader(IDENTITY_COLUMNS)),
)
_OTHER_TOOLS: t.Mapping[str, t.Sequence[_Source]] = {
    AMD: (
        ("amd_smi", "amd-smi", _reader(amd_smi.parse)),
        ("rocm_smi", "rocm-smi", _reader(rocm_smi.parse)),
    ),
    INTEL: (("xpu_smi", "xpu-smi", _reader(xpu_smi.parse)),),
}
