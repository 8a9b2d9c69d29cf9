# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The PCI devices of Proxmox VE nodes, as its API reports them."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.module_utils._pci import Address, parse_device_address, parse_id
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.client import Pve, join

# Display controllers and accelerators. The display of a management controller is no GPU that anybody wants.
_GPU_CLASSES = ("03", "12")
_BMC_VENDORS = frozenset(("1a03", "102b"))


@dataclass(frozen=True)
class PciDevice:
    """A PCI device in the form that mappings need; None is what PVE does not report."""

    node: str
    address: Address
    pci_class: str
    pci_id: str
    subsystem_id: t.Optional[str] = None
    iommu_group: t.Optional[int] = None
    vendor_name: t.Optional[str] = None
    device_name: t.Optional[str] = None
    mdev: bool = False

    @property
    def is_gpu(self) -> bool:
        """Return whether it is a GPU or an accelerator."""
        return self.pci_class.startswith(_GPU_CLASSES) and self.pci_id.split(":")[0] not in _BMC_VENDORS


def read_devices(api: Pve, node: str) -> t.List[PciDevice]:
    """Return all devices of a node: bridges and the like too, because they can share an IOMMU group with a GPU."""
    rows = api.rows(join("nodes", node, "hardware", "pci"), **{"pci-class-blacklist": ""})
    return devices_from_rows(node, rows)


def devices_from_rows(node: str, rows: t.Iterable[t.Mapping[str, t.Any]]) -> t.List[PciDevice]:
    """Return the devices of one node, sorted by address; a row without a usable address or id is left out."""
    devices = []
    for row in rows:
        address = parse_device_address(row.get("id"))
        identity = parse_id(f"{row.get('vendor', '')}:{row.get('device', '')}")
        if address is None or identity is None:
            continue
        group = row.get("iommugroup")
        devices.append(
            PciDevice(
                node=node,
                address=address,
                pci_class=re.sub(r"\A0x", "", str(row.get("class", "")).lower()),
                pci_id=identity,
                subsystem_id=parse_id(f"{row.get('subsystem_vendor', '')}:{row.get('subsystem_device', '')}"),
                iommu_group=int(group) if group is not None and int(group) >= 0 else None,
                vendor_name=row.get("vendor_name") or None,
                device_name=row.get("device_name") or None,
                mdev=str(row.get("mdev", "0")) == "1",
            )
        )
    return sorted(devices, key=lambda device: device.address)
