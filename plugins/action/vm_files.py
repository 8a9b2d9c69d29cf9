# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.file_action import (
    FLEET_SPEC,
    FileAction,
    Made,
    Options,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import (
    raw_variables,
    to_plain,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.run import Run
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.settings import Allowed
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.state import (
    Cluster,
    read_state,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.table import (
    format_findings,
    format_steps,
    format_vms,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.vms import (
    Sources,
    make_vm_files,
    remember_addresses,
)

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.findings import Finding

_DEFAULT_PORT = 8006
_DATA = ("nodes", "storages", "bridges", "vms", "mappings", "pools", "privileges", "devices", "guests", "failed", "msg")


class ActionModule(FileAction):
    """Defines the VMs of a plan, compares them with the clusters and says what is to be done."""

    argument_spec: t.ClassVar[dict[str, dict[str, t.Any]]] = {
        **FLEET_SPEC,
        "path": {"type": "path", "required": True},
        "plan": {"type": "path", "required": True},
        "state": {"type": "str", "choices": ["present", "rendered", "absent"], "default": "rendered"},
        "settings": {"type": "dict", "default": {}},
        "commands": {"type": "path"},
        "limit": {"type": "list", "elements": "str"},
        "cluster_result": {"type": "str"},
        "pci_result": {"type": "str"},
        "allow_stop": {"type": "bool", "default": False},
        "prune": {"type": "bool", "default": False},
        "prune_max": {"type": "int"},
        "addresses": {"type": "dict"},
        "recreate": {"type": "bool", "default": False},
        "strict": {"type": "bool", "default": False},
    }
    refusal = "No VM was defined"

    def make(self, options: Options) -> Made:
        """Make the definitions and the steps, or only put addresses into definitions that are there."""
        if options["addresses"] is not None:
            addresses = to_plain(options["addresses"], "addresses")
            changes, documents = remember_addresses(options["path"], addresses)
            return Made({"files": [str(options["path"])], "vms": len(addresses)}, changes, documents)
        clusters = None if options["state"] == "rendered" else self._clusters(options)
        sources = Sources(
            vms=options["path"],
            settings=self._settings(options),
            **{key: options[key] for key in ("plan", "profiles", "hosts", "catalog", "commands")},
        )
        run = Run(
            allowed=Allowed(
                stop=options["allow_stop"],
                prune=options["prune"],
                recreate=options["recreate"],
                strict=options["strict"],
            ),
            present=options["state"] != "absent",
            only=None if options["limit"] is None else frozenset(options["limit"]),
            most=options["prune_max"],
        )
        made = make_vm_files(sources, run, clusters)
        prepared = made.prepared
        returned: dict[str, t.Any] = {"findings": [one.plain() for one in prepared.findings]}
        findings = format_findings(prepared.findings)
        steps: dict[str, dict[str, list[t.Any]]] = {}
        for step in prepared.steps:
            steps.setdefault(step.host, {}).setdefault(step.phase, []).append(step.plain())
        # A run that removes makes no VMs, so there is none to show.
        table = format_vms(prepared.definitions.vms, clusters) if run.present else ""
        parts = (table, findings, format_steps(prepared.steps))
        returned |= {
            "table": "\n".join(part for part in parts if part) or "Nothing is to be done.\n",
            "vms": len(prepared.definitions.vms),
            "steps": steps,
            "errors_by_node": self._errors_by_node(prepared.errors, options["hosts"], run),
            "files": [str(path) for path in made.files],
        }
        return Made(returned, made.changes, made.documents)

    def _errors_by_node(self, errors: Sequence[Finding], hosts: Sequence[str], run: Run) -> dict[str, list[str]]:
        """The errors that are in the way at each node; what is about a cluster, or about nothing, is so at all of its nodes."""
        clusters = {}
        for name in hosts:
            values = self.task_vars["hostvars"][name]
            clusters[name] = _cluster_name(values) if values.get("knaster_pve_api_host") else name
        found: dict[str, list[str]] = {}
        for error in errors:
            at = [name for name in hosts if error.node == name]
            at = at or [name for name in hosts if error.cluster in ("", clusters[name])]
            for name in at:
                if run.only is None or name in run.only:
                    found.setdefault(name, []).append(error.line())
        return found

    def _settings(self, options: Options) -> dict[str, t.Any]:
        """The settings of the task, and of each node what its host variables say; only these few are templated."""
        settings: dict[str, t.Any] = to_plain(options["settings"], "settings")
        found = {}
        for name in options["hosts"]:
            values = self.task_vars["hostvars"][name]
            node = to_plain(values.get("knaster_pve_vm") or {}, f"knaster_pve_vm of {name}")
            if not isinstance(node, dict):
                raise InputError([f"knaster_pve_vm of {name}: must be a map"])
            if values.get("knaster_pve_api_host"):
                node["cluster"] = _cluster_name(values)
            if values.get("knaster_pve_node"):
                node["pve_node"] = str(values["knaster_pve_node"])
            found[name] = node
        return {**settings, "nodes": {**found, **(settings.get("nodes") or {})}}

    def _clusters(self, options: Options) -> dict[str, Cluster]:
        """The state of each cluster, from what its first node registered."""
        clusters: dict[str, Cluster] = {}
        for name in options["limit"] if options["limit"] is not None else options["hosts"]:
            raw = raw_variables(self.task_vars["hostvars"], name)
            answer, cards = raw.get(options["cluster_result"]), raw.get(options["pci_result"])
            if not isinstance(answer, dict) or answer.get("skipped"):
                continue
            values = self.task_vars["hostvars"][name]
            user, token = values.get("knaster_pve_api_user"), values.get("knaster_pve_api_token_id")
            identity = f"the token {user}!{token}" if token else f"the user {user}"
            cluster = _cluster_name(values)
            clusters[cluster] = read_state(
                cluster, _data(answer, "cluster_result"), _data(cards or {}, "pci_result"), identity=identity
            )
        return clusters


def _cluster_name(values: t.Any) -> str:
    return f"{values['knaster_pve_api_host']}:{values.get('knaster_pve_api_port') or _DEFAULT_PORT}"


def _data(result: dict[str, t.Any], name: str) -> dict[str, t.Any]:
    """The data of a result, without what Ansible adds and what is not data."""
    found: dict[str, t.Any] = to_plain({key: result[key] for key in _DATA if key in result}, name)
    return found
