# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.catalog import catalog_directories
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.file_action import (
    FLEET_SPEC,
    FileAction,
    Made,
    absolute,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import to_plain
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.preflight import Allowed
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.state import (
    Cluster,
    read_state,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.table import (
    format_findings,
    format_machines,
    format_steps,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.vms import (
    VmFiles,
    make_vm_files,
)

_DEFAULT_PORT = 8006
_DATA = ("nodes", "storages", "bridges", "vms", "mappings", "privileges", "devices", "failed", "msg")


class ActionModule(FileAction):
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
        "recreate": {"type": "bool", "default": False},
        "strict": {"type": "bool", "default": False},
    }
    refusal = "No machine was defined. Mistakes in what they are made from"

    def make(self, options: dict[str, t.Any], task_vars: dict[str, t.Any]) -> Made:
        made, clusters = self._make(options, task_vars)
        prepared = made.prepared
        returned: dict[str, t.Any] = {"findings": [one.plain() for one in prepared.findings]}
        findings = format_findings(prepared.findings)
        if prepared.errors:
            count = len(prepared.errors)
            msg = f"Nothing was changed, because {count} thing{'s are' if count > 1 else ' is'} in the way:\n{findings}"
            return Made({**returned, "failed": True, "msg": msg})
        # A run that removes makes no machines, so there is none to show.
        table = format_machines(prepared.definitions.vms, clusters) if options["state"] != "absent" else ""
        steps = format_steps(prepared.steps)
        returned["table"] = "\n".join(part for part in (table, findings, steps) if part) or "Nothing is to be done.\n"
        returned["machines"] = len(prepared.definitions.vms)
        returned["steps"] = {}
        for step in prepared.steps:
            returned["steps"].setdefault(step.host, {}).setdefault(step.phase, []).append(step.plain())
        returned["files"] = [str(path) for path in made.files]
        return Made(returned, made.changes, made.documents)

    def _make(
        self, options: dict[str, t.Any], task_vars: dict[str, t.Any]
    ) -> tuple[VmFiles, dict[str, Cluster] | None]:
        settings = to_plain(options["settings"], "settings")
        nodes = self._node_settings(options["hosts"], task_vars["hostvars"])
        settings["nodes"] = {**nodes, **(settings.get("nodes") or {})}
        clusters = None
        if options["state"] != "rendered":
            clusters = self._clusters(options, task_vars["hostvars"])
        made = make_vm_files(
            Path(options["path"]).absolute(),
            plan=Path(options["plan"]).absolute(),
            profiles=Path(options["profiles"]).absolute(),
            hosts=options["hosts"],
            catalog=catalog_directories(options["catalog"]),
            settings=settings,
            commands=absolute(options["commands"]),
            clusters=clusters,
            allowed=Allowed(
                stop=options["allow_stop"],
                prune=options["prune"],
                recreate=options["recreate"],
                strict=options["strict"],
            ),
            present=options["state"] != "absent",
            only=options["limit"],
        )
        return made, clusters

    @staticmethod
    def _node_settings(hosts: list[str], hostvars: t.Any) -> dict[str, t.Any]:
        """What the host variables say of each node; only these few are templated."""
        found = {}
        for name in hosts:
            values = hostvars[name]
            node = to_plain(values.get("knaster_pve_vm") or {}, f"knaster_pve_vm of {name}")
            if not isinstance(node, dict):
                raise TypeError(f"knaster_pve_vm of {name}: expected a dictionary")
            host = values.get("knaster_pve_api_host")
            if host:
                node["cluster"] = f"{host}:{values.get('knaster_pve_api_port') or _DEFAULT_PORT}"
            if values.get("knaster_pve_node"):
                node["pve_node"] = str(values["knaster_pve_node"])
            found[name] = node
        return found

    @staticmethod
    def _clusters(options: dict[str, t.Any], hostvars: t.Any) -> dict[str, Cluster]:
        """The state of each cluster, from what its first node registered."""
        clusters: dict[str, Cluster] = {}
        for name in options["limit"] if options["limit"] is not None else options["hosts"]:
            # The results as they are: templating thousands of machines would cost more than all the rest.
            raw = hostvars.raw_get(name)
            answer, cards = raw.get(options["cluster_result"]), raw.get(options["pci_result"])
            if not isinstance(answer, dict) or answer.get("skipped"):
                continue
            values = hostvars[name]
            port = values.get("knaster_pve_api_port") or _DEFAULT_PORT
            cluster = f"{values['knaster_pve_api_host']}:{port}"
            user, token = values.get("knaster_pve_api_user"), values.get("knaster_pve_api_token_id")
            identity = f"the token {user}!{token}" if token else f"the user {user}"
            clusters[cluster] = read_state(
                cluster, _data(answer, "cluster_result"), _data(cards or {}, "pci_result"), identity=identity
            )
        return clusters


def _data(result: dict[str, t.Any], name: str) -> dict[str, t.Any]:
    """The data of a result, without what Ansible adds and what is no data."""
    found: dict[str, t.Any] = to_plain({key: result[key] for key in _DATA if key in result}, name)
    return found
