# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.check import check_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import CatalogError
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import to_plain
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.options import find_plan_errors
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.commands import command_documents
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.gateways import (
    GatewayError,
    make_gateway,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.outputs import (
    find_document_errors,
    find_option_errors,
    vm_definitions_of,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.prometheus import (
    find_window_errors,
    make_rules,
    make_targets,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.slots import (
    SlotError,
    make_slots,
)

if t.TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def slot_documents(
    plan: t.Any, catalog: t.Any = None, vms: t.Any = None, registry_domain: str = "", *, bare_metal: bool = False
) -> list[dict[str, t.Any]]:
    try:
        document = to_plain(plan, "plan") or {}
        lists = to_plain(catalog, "catalog") or {}
        machines = to_plain(vms, "vms") or []
    except TypeError as exc:
        raise AnsibleFilterError(f"The slots cannot be told: {exc}") from exc
    errors = find_plan_errors(document, "plan")
    machines = vm_definitions_of(machines, errors, "vms")
    if not isinstance(lists, dict):
        errors.append("catalog: expected the lists that the lookup knaster.inventory.catalog returns.")
        lists = {}
    try:
        checked = check_catalog(
            lists.get("models"),
            lists.get("roles"),
            gpus=lists.get("gpus"),
            engines=lists.get("engines"),
            open_engines=lists.get("engines") is None,
        ).catalog
    except CatalogError as exc:
        errors += [str(problem) for problem in exc.errors]
    if errors:
        raise AnsibleFilterError(_message("The slots cannot be told", errors))
    try:
        return make_slots(document, checked, machines, registry_domain=registry_domain, bare_metal=bool(bare_metal))
    except SlotError as exc:
        raise AnsibleFilterError(_message("The slots cannot be told", exc.errors)) from exc


def gateway_config(slots: t.Any, format: str = "litellm", *, api_key_env: str = "", vm: str = "") -> dict[str, t.Any]:  # noqa: A002
    documents = _checked(slots, "The gateway cannot be configured", find_option_errors({}, api_key_env))
    try:
        return make_gateway(documents, format, api_key_env=api_key_env, vm=vm)
    except GatewayError as exc:
        raise AnsibleFilterError(_message("The gateway cannot be configured", exc.errors)) from exc


def prometheus_targets(slots: t.Any) -> list[dict[str, t.Any]]:
    return make_targets(_checked(slots, "The targets cannot be told"))


def prometheus_rules(slots: t.Any, window: str = "5m") -> dict[str, t.Any]:
    return make_rules(_checked(slots, "The rules cannot be made", find_window_errors(window)), window=window)


def engine_commands(slots: t.Any, images: t.Any = None, *, api_keys: bool = False) -> list[dict[str, t.Any]]:
    what = "The start commands cannot be told"
    try:
        named = to_plain(images, "images") or {}
    except TypeError as exc:
        raise AnsibleFilterError(f"{what}: {exc}") from exc
    documents = _checked(slots, what, find_option_errors(named, ""))
    return command_documents(documents, images=named, api_keys=bool(api_keys))


def _checked(slots: t.Any, what: str, errors: Sequence[str] = ()) -> list[dict[str, t.Any]]:
    try:
        documents = to_plain(slots, "slots")
    except TypeError as exc:
        raise AnsibleFilterError(f"{what}: {exc}") from exc
    errors = [*errors, *find_document_errors(documents)]
    if errors:
        raise AnsibleFilterError(_message(what, errors))
    return t.cast("list[dict[str, t.Any]]", documents)


def _message(what: str, errors: Sequence[str]) -> str:
    if len(errors) == 1:
        return f"{what}: {errors[0]}"
    return f"{what}, {len(errors)} errors:\n" + "\n".join(f"- {error}" for error in errors)


class FilterModule:
    """Slots, and what others need to use them."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        return {
            "slot_documents": slot_documents,
            "gateway_config": gateway_config,
            "prometheus_targets": prometheus_targets,
            "prometheus_rules": prometheus_rules,
            "engine_commands": engine_commands,
        }
