# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import check
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.vms import vms_of
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.catalog import catalog_of
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.plain import (
    plain_values,
    refusing,
    stop_at,
    to_plain,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.commands import command_documents
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.gateways import make_gateway
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.names import url_host
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.outputs import find_document_errors
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.prometheus import (
    find_window_errors,
    make_rules,
    make_targets,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.settings import (
    REQUEST_TIMEOUT,
    USER,
    Settings,
    find_setting_errors,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.slots import make_slots

if t.TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@refusing("Cannot build the slots")
def slot_documents(
    plan: t.Any,
    catalog: t.Any = None,
    vms: t.Any = None,
    registry_domain: str = "",
    *,
    bare_metal: bool = False,
    addresses: t.Any = None,
) -> list[dict[str, t.Any]]:
    """Return one document for each slot of a plan."""
    given = plain_values(plan=plan or {}, catalog=catalog, vms=vms or [], addresses=addresses or {})
    errors = check(given["plan"], "plan", "plan") if given["plan"] else []
    listed = vms_of(given["vms"], "vms", errors)
    checked = catalog_of(given["catalog"], errors)
    hosts = {str(node): url_host(address) for node, address in given["addresses"].items()}
    errors += [
        f"addresses: {node}: must be an address or the name of a host" for node, host in hosts.items() if host is None
    ]
    stop_at(errors)
    return make_slots(
        given["plan"],
        checked,
        listed,
        registry_domain=registry_domain,
        bare_metal=bool(bare_metal),
        addresses={node: host for node, host in hosts.items() if host is not None},
    )


@refusing("Cannot build the configuration of the gateway")
def gateway_config(
    slots: t.Any,
    format: str = "litellm",  # noqa: A002
    *,
    api_key_env: str = "",
    vm: str = "",
    request_timeout: int = REQUEST_TIMEOUT,
) -> dict[str, t.Any]:
    """Return the configuration of LiteLLM or llama-swap for slots."""
    documents = _checked(slots, find_setting_errors(Settings(api_key_env=api_key_env)))
    return make_gateway(documents, format, api_key_env=api_key_env, vm=vm, request_timeout=request_timeout)


@refusing("Cannot build the scrape targets")
def prometheus_targets(slots: t.Any) -> list[dict[str, t.Any]]:
    """Return the targets of Prometheus for slots, as C(file_sd) reads them."""
    return make_targets(_checked(slots))


@refusing("Cannot build the rules")
def prometheus_rules(slots: t.Any, window: str = "5m") -> dict[str, t.Any]:
    """Return the alerting rules of Prometheus for slots."""
    return make_rules(_checked(slots, find_window_errors(window)), window=window)


@refusing("Cannot build the start commands")
def engine_commands(
    slots: t.Any,
    images: t.Any = None,
    *,
    api_keys: bool = False,
    programs: t.Any = None,
    engine_user: str = USER,
    listen: str = "",
) -> list[dict[str, t.Any]]:
    """Return how the engine of each slot is started, or why that cannot be said."""
    settings = Settings(
        images=to_plain(images, "images") or {},
        programs=to_plain(programs, "programs") or {},
        user=engine_user,
        listen=listen,
        api_keys=bool(api_keys),
    )
    return command_documents(_checked(slots, find_setting_errors(settings)), settings)


def _checked(slots: t.Any, errors: Sequence[str] = ()) -> list[dict[str, t.Any]]:
    documents: list[dict[str, t.Any]] = to_plain(slots, "slots")
    stop_at([*errors, *find_document_errors(documents)])
    return documents


class FilterModule:
    """Slots, and what others need to use them."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters by name."""
        return {
            "slot_documents": slot_documents,
            "gateway_config": gateway_config,
            "prometheus_targets": prometheus_targets,
            "prometheus_rules": prometheus_rules,
            "engine_commands": engine_commands,
        }
