# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What a run can find: for each finding how bad it is, what is said, and what to do about it."""

from __future__ import annotations

import typing as t
from dataclasses import asdict, dataclass

from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import natural_key

if t.TYPE_CHECKING:
    from collections.abc import Mapping

ERROR, WARNING, INFO = SEVERITIES = ("error", "warning", "info")

# By code, with a variant behind a dot where one code has several texts.
FINDINGS: Mapping[str, tuple[str, str, str]] = {
    "definition": (ERROR, "{error}", "Put that right; until then its VM stays as it is"),
    "cluster_unknown": (
        ERROR,
        "it is not known how to reach the API for {vms}",
        "Set knaster_pve_api_host, user and token of the node, or provision_state to rendered",
    ),
    "cluster_unreachable": (
        ERROR,
        "its API cannot be used: {error}",
        "Check host, user, token and certificate, or leave its nodes out with --limit",
    ),
    "node_unknown": (ERROR, "the cluster has no node {node}; it has {known}", "Set knaster_pve_node of the node"),
    "node_offline": (
        WARNING,
        "the node is offline, so its VMs ({count}) are left as they are",
        "Start the node and run again, or plan without it",
    ),
    "privileges": (
        ERROR,
        "{who} lacks {names} on {where}",
        "Give a role with them on {root}; the provisioning guide has the whole list",
    ),
    "vmid_taken": (
        ERROR,
        "vmid {vmid} belongs to the {kind} {name} on {node}, which {owner}",
        "Remove the entry of the VM from the file of definitions, so that it gets another number",
    ),
    "vmid_taken.mark": (
        ERROR,
        "the VM {name} (VM {vmid}) on {node} was ours, and does not carry our mark any more",
        "To manage it again, put this line back into its description: {line}",
    ),
    "name_taken": (
        WARNING,
        "{kind} {vmid} on {node}, which {owner}, has the same name",
        "Rename one of the two; otherwise names in the network are ambiguous",
    ),
    "node_unreadable": (
        ERROR,
        "the node is online but could not be read: {error}",
        "Check the node and the privileges of the token",
    ),
    "wrong_node.ha": (
        ERROR,
        "VM {vmid} is on {there}, and the plan has it on {planned}, and high availability looks after it",
        "Move it there: ha-manager migrate vm:{vmid} {planned}; or remove it from high availability",
    ),
    "wrong_node": (
        ERROR,
        "VM {vmid} is on {there}, and the plan has it on {planned}",
        "Migrate it in Proxmox VE, or set provision_recreate to remove it there with its disks and re-create it",
    ),
    "needs_stop.moved": (
        ERROR,
        "VM {vmid} is on {there}, and the plan has it on {planned}, and it runs",
        "Shut it down, or set provision_allow_stop",
    ),
    "recreated": (
        INFO,
        "VM {vmid} is on {there}, and the plan has it on {planned}",
        "It is removed there with {along}, and re-created here; jobs keep its number",
    ),
    "no_source": (
        WARNING,
        "it has neither template nor image, so it gets an empty disk",
        "Set template or image, unless it installs itself from the network",
    ),
    "template_missing": (ERROR, "there is no template {template} in the cluster", "Make it, or set another template"),
    "template_missing.vm": (
        ERROR,
        "VM {template} is not a template",
        "Turn it into a template, or set another template",
    ),
    "template_elsewhere": (
        ERROR,
        "template {template} is on {there} with disks on {storages}, which {node} does not share",
        "Make a template on {node} and set it as the template of the node, or use a shared storage",
    ),
    "image_path": (
        ERROR,
        "the image {image} is a path on the node, which only root may import, not a token",
        "Put it on a storage with the content import, and name it there",
    ),
    "image_missing.storage": (
        ERROR,
        "the image {image} is on the storage {storage}, which {node} does not have",
        "Set image to one that the node has",
    ),
    "image_missing": (
        ERROR,
        "{node} has no image {image}",
        "Download it there, or set image to one that the node has",
    ),
    "bridge_missing": (
        ERROR,
        "{node} has no bridge {bridge}; it has {known}",
        "Set bridge, or make it and apply the network of the node",
    ),
    "snippet_missing": (ERROR, "{node} has no snippet {snippet}", "Put it there, or take it out of cicustom"),
    "snippet_missing.storage": (
        ERROR,
        "the snippet {snippet} is on the storage {storage}, which {node} does not have",
        "Put it on a storage of the node, or take it out of cicustom",
    ),
    "snippet_missing.content": (
        ERROR,
        "the snippet {snippet} is on the storage {storage}, which takes no snippets",
        "Allow the content snippets there, or put it on another storage",
    ),
    "numa": (
        ERROR,
        "it would not start: {problem}",
        "Remove the numa keys from the VM or its template, or set all of them in config",
    ),
    "template_bios": (
        WARNING,
        "template {template} has the bios {there}, and config says {bios}, with which its disk may not boot",
        "Leave bios out of config, or make a template with it",
    ),
    "root_only": (
        ERROR,
        "{key} can be set only by root, not by an API token",
        "Leave it out, or use the password of root@pam for this cluster",
    ),
    "pool_missing": (ERROR, "there is no pool {pool}; there are {known}", "Make it in Proxmox VE, or set another pool"),
    "cores": (
        ERROR,
        "it has {cores} cores, and {node} has {threads}",
        "Lower cores; Proxmox VE does not start a VM with more than its node has",
    ),
    "gpu_missing": (ERROR, "{node} has no GPU at {gpu}", "Collect the node again and plan again"),
    "gpu_changed": (
        ERROR,
        "the GPU at {gpu} has the {what} {there}, and was planned with {planned}",
        "Collect the node again and plan again",
    ),
    "iommu_off": (
        ERROR,
        "the GPU at {gpu} is in no IOMMU group, so it cannot be passed through",
        "Switch on VT-d or AMD-Vi in the firmware (and intel_iommu=on for an older kernel), and reboot the node",
    ),
    "group_shared": (
        ERROR,
        "IOMMU group {group} of the GPU at {gpu} also holds {other}, which the node would lose when the VM starts",
        "Put the GPU into another slot, or switch on ACS in the firmware",
    ),
    "gpu_pool": (
        WARNING,
        "{holder} takes one GPU of a mapping that the GPU at {gpu} is in",
        "Take the GPU out of that mapping, or starts can fail",
    ),
    "gpu_held.external": (
        ERROR,
        "{holder}, which {owner}, {state} the GPU at {gpu}",
        "Take the GPU from that VM, or collect the node again, so that the plan leaves the GPU alone",
    ),
    "gpu_held.manual": (
        ERROR,
        "the GPU at {gpu} was assigned to {holder} manually",
        "Remove it there: qm set {vmid} --delete {key}; or set provision_strict",
    ),
    "gpu_held.orphan": (
        ERROR,
        "{holder}, which is in no plan any more, has the GPU at {gpu}",
        "Set provision_prune to remove that VM, or take the GPU from it",
    ),
    "gpu_held.kept": (
        ERROR,
        "{holder}, which is kept, has the GPU at {gpu}",
        "See what is said of that VM, or take the GPU from it",
    ),
    "gpu_held.stuck": (
        ERROR,
        "the GPU at {gpu} comes from {holder}, which cannot be changed in this run",
        "Put right what is said of that VM first",
    ),
    "gpu_mdev": (
        ERROR,
        "the GPU at {gpu} offers mediated devices, so its mapping does not match when the VM starts",
        "Stop the driver that makes them on {node}, or set hostpci.mdev to the type that the VM is to have",
    ),
    "needs_stop.holder": (
        ERROR,
        "the GPU at {gpu} comes from {holder}, which runs",
        "Shut that VM down, or set provision_allow_stop",
    ),
    "missing": (INFO, "VM {vmid} is not there", "It is made"),
    "stale": (
        INFO,
        "its config fingerprint is {there}, and the plan has {planned}",
        "Its settings are changed; what needs a restart waits for one",
    ),
    "unknown": (INFO, "its config fingerprint is unknown", "Its settings become those of the plan"),
    "external_device.strict": (INFO, "{key} was added manually", "It is removed"),
    "external_device": (
        WARNING,
        "{key} was added manually and stays",
        "Remove it with: qm set {vmid} --delete {key}; or set provision_strict",
    ),
    "mapping_stale": (INFO, "the mapping {mapping} does not match the GPU as it is now", "It is corrected"),
    "mapping_missing": (INFO, "there is no mapping {mapping} for {node}", "It is made"),
    "doubled": (
        ERROR,
        "VMs {vmids} both carry the mark of {name}",
        "Take the mark out of the description of the clone, or remove that VM",
    ),
    "orphan": (
        WARNING,
        "VM {vmid} on {there} carries our mark and is in no plan",
        "Set provision_prune to remove it with its disks, or take the mark out of its description to keep it",
    ),
    "orphan.pruned": (
        INFO,
        "VM {vmid} on {there} carries our mark and is in no plan",
        "It is removed with {along}",
    ),
    "orphan.lost": (
        WARNING,
        "VM {vmid} on {there} is kept: {what} is wanted, and {missing} of it have no place in the plan",
        "Bring back the GPU or the node and plan again; it is removed only when the catalog does not want it any more",
    ),
    "orphan.moved": (
        WARNING,
        "VM {vmid} on {there} is kept: the plan has it in another cluster",
        "Move its data, then set provision_recreate to remove it here with its disks",
    ),
    "orphan.protected": (
        WARNING,
        "VM {vmid} on {there} is in no plan, and is kept because somebody protected it",
        "Switch off its protection in Proxmox VE, if it may go",
    ),
    "orphan.locked": (
        WARNING,
        "VM {vmid} on {there} is in no plan, and is kept because it is locked ({lock})",
        "Run again when that has ended",
    ),
    "orphan.ha": (
        WARNING,
        "VM {vmid} on {there} is in no plan, and is kept because high availability keeps it {state}",
        "Remove vm:{vmid} from high availability, if it may go",
    ),
    "orphan.unknown": (
        WARNING,
        "VM {vmid} on {there} is in no plan, and is kept because high availability and jobs could not be read",
        "Give the token Sys.Audit on /, and run again",
    ),
    "needs_stop.orphan": (
        ERROR,
        "VM {vmid} on {there} carries our mark and is in no plan, and it runs",
        "Shut it down, or set provision_allow_stop; it is removed with {along}",
    ),
    "prune_refused.layer": (
        ERROR,
        "{count} would be removed, but files of the catalog that the last definitions were made from were not read: {layers}",
        "Give them back; if they are gone for good, remove their lines from layers in the file of definitions",
    ),
    "prune_refused.memory": (
        ERROR,
        "{count} would be removed, but there is no file of definitions that tells what was wanted last time",
        "Run once without provision_prune, which writes the file, and look at what it says of them",
    ),
    "prune_refused.share": (
        ERROR,
        "{count} of {total} VMs would be removed, more than a third",
        "Look at the catalog and the plan; if it is right, set provision_prune_max to {count}",
    ),
    "prune_refused.most": (
        ERROR,
        "{count} VMs would be removed, and provision_prune_max is {most}",
        "Look at the catalog and the plan; if it is right, raise provision_prune_max",
    ),
    "fleet_unknown": (
        ERROR,
        "there are VMs of the fleets {fleets}, and the file of definitions does not say which fleet is yours",
        "Restore the file, or set knaster_fleet to the one that is yours, or to a new name",
    ),
    "storage_missing": (
        ERROR,
        "{node} has no storage {storage}; it has {known}",
        "Set storage, or give the node that storage",
    ),
    "storage_inactive": (
        ERROR,
        "the storage {storage} of {node} is not active",
        "Fix it in Proxmox VE and run again",
    ),
    "storage_content": (
        ERROR,
        "the storage {storage} takes no disks of VMs (content {known})",
        "Set storage to another one, or allow the content images there",
    ),
    "storage_full": (
        ERROR,
        "the new disks of {vms} on {storage} have {asked} GB together, and {free} GB are free",
        "Make room, or lower disk_gb",
    ),
    "storage_full.thin": (
        WARNING,
        "the new disks of {vms} on {storage} have {asked} GB together, and {free} GB are free",
        "It fills up when they are all written to",
    ),
    "memory": (
        ERROR,
        "its VMs have {asked} MiB together{others}, the node itself needs {reserve} MiB, and it has {total} MiB",
        "Stop or shrink other guests, or lower memory_mib in the catalog and plan again",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong or to be known, where, and what to do about it."""

    severity: str
    code: str
    cluster: str = ""
    node: str = ""
    vm: str = ""
    text: str
    remedy: str

    def plain(self) -> dict[str, str]:
        """Return the finding as data, without what it has no value for."""
        return {key: value for key, value in asdict(self).items() if value}

    def line(self) -> str:
        """Return the finding as one line of text."""
        where = self.vm or self.node or self.cluster
        return f"{self.severity.upper()} {f'{where}: ' if where else ''}{self.text}. {self.remedy}."

    def order(self) -> tuple[t.Any, ...]:
        """Return the key by which findings are sorted, the worst first."""
        place = (self.cluster, natural_key(self.node), natural_key(self.vm))
        return SEVERITIES.index(self.severity), *place, self.code, self.text


def make_finding(
    finding: str, /, *, severity: str | None = None, place: Mapping[str, str] | None = None, **facts: object
) -> Finding:
    """Return the finding of that name in the table.

    :param severity: how bad it is, where that is not what the table says
    :param place: ``cluster``, ``node`` and ``vm``, as far as it is about one
    :param facts: what its texts name
    """
    usual, text, remedy = FINDINGS[finding]
    return Finding(
        severity=severity or usual,
        code=finding.partition(".")[0],
        text=text.format(**facts),
        remedy=remedy.format(**facts),
        **(place or {}),
    )
