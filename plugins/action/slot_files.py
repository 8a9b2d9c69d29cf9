# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.digests import Written
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.file_action import (
    CATALOG_SPEC,
    FileAction,
    Made,
    Options,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import raw_variables, stop_at, to_plain
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.declared import ADDRESS
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.outputs import (
    Where,
    find_document_errors,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.settings import (
    REQUEST_TIMEOUT,
    USER,
    Settings,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.registry import (
    Outputs,
    make_outputs,
    read_slots,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import listing, plural


class ActionModule(FileAction):
    """Writes the slots of a plan, and what others need to use them."""

    argument_spec: t.ClassVar[dict[str, dict[str, t.Any]]] = {
        "path": {"type": "path", "required": True},
        "plan": {"type": "path"},
        **CATALOG_SPEC,
        "documents": {"type": "list", "elements": "dict"},
        "vms": {"type": "path"},
        "registry_domain": {"type": "str", "default": ""},
        "bare_metal": {"type": "bool", "default": False},
        "gateway": {"type": "path"},
        "prometheus": {"type": "path"},
        "engines": {"type": "path"},
        "images": {"type": "dict", "default": {}},
        "programs": {"type": "dict", "default": {}},
        "engine_user": {"type": "str", "default": USER},
        "listen": {"type": "str", "default": ""},
        "api_key_env": {"type": "str", "default": "", "no_log": False},
        "request_timeout": {"type": "int", "default": REQUEST_TIMEOUT},
        "prune": {"type": "bool", "default": False},
    }
    argument_rules: t.ClassVar[dict[str, t.Any]] = {
        "mutually_exclusive": [("plan", "documents")],
        "required_one_of": [("plan", "documents")],
    }
    refusal = "No slot was written"

    def make(self, options: Options) -> Made:
        """Make the slots and their files."""
        warnings: list[str] = []
        silent: list[str] = []
        catalog: list[str] = []
        if options["plan"] is not None:
            catalog = options["catalog"]
            slots, warnings, silent = read_slots(
                options["plan"],
                catalog,
                options["vms"],
                registry_domain=options["registry_domain"],
                bare_metal=options["bare_metal"],
                variables_of=self._addresses_of,
            )
        else:
            slots = to_plain(options["documents"], "documents")
            stop_at(find_document_errors(slots))
        made = make_outputs(
            slots,
            Where(
                slots=options["path"],
                gateway=options["gateway"],
                prometheus=options["prometheus"],
                engines=options["engines"],
            ),
            Settings(
                images=to_plain(options["images"], "images"),
                programs=to_plain(options["programs"], "programs"),
                user=options["engine_user"],
                listen=options["listen"],
                api_keys=bool(options["api_key_env"]),
                api_key_env=options["api_key_env"],
                request_timeout=options["request_timeout"],
            ),
            prune=options["prune"],
        )
        returned = {
            "path": str(options["path"]),
            "catalog": catalog,
            "catalog_warnings": warnings,
            "files": [str(change.path) for change in made.written],
            "removed": [str(change.path) for change in made.removed],
            "slots": len(made.wanted.slots),
            "file_count": len(made.wanted.texts),
            "without_command": made.wanted.without_command,
            "roles_without_slots": silent,
            "without_image": made.wanted.without_image,
            "summary": _summary(made, silent),
        }
        texts = made.wanted.texts
        documents = [Written(path, "slot", texts[path]) for path in texts if path.parent == options["path"]]
        return Made(returned, [*made.written, *made.removed], documents, swept=options["engines"])

    def _addresses_of(self, node: str) -> dict[str, t.Any]:
        """Return the variables of a host of the inventory by which engines on it may be reached."""
        everything = self.task_vars["hostvars"]
        raw = raw_variables(everything, node) if node in everything else {}
        # Only these go through templates.
        named = {key: everything[node][key] for key in (ADDRESS, "ansible_host") if key in raw}
        found: dict[str, t.Any] = to_plain(named, node)
        return found


def _summary(made: Outputs, silent: list[str]) -> str:
    slots = made.wanted.slots
    serving = [slot["model"] for slot in slots if slot.get("model") is not None]
    models = plural(len(set(serving)), "model")
    lines = [
        f"{plural(len(slots), 'slot')}, {len(serving)} of them with a model ({models} in all).",
        f"{len(made.written)} of {plural(len(made.wanted.texts), 'file')} written, {len(made.removed)} removed.",
    ]
    if silent:
        lines.append(f"Nothing is served there, for these roles have no slot in the catalog: {listing(silent)}")
    for reason, names in sorted(made.wanted.without_command.items()):
        lines.append(f"No start command, {reason}: {listing(names)}")
    for reason, names in sorted(made.wanted.without_image.items()):
        lines.append(f"No compose.yaml, {reason}: {listing(names)}")
    return "\n".join(lines) + "\n"
