# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What the modules for Proxmox VE share: the options of the API, the client made from them, and how they end."""

from __future__ import annotations

import typing as t

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible.module_utils.common.parameters import env_fallback
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.client import (
    Pve,
    PveError,
    Settings,
    import_error,
)


def make_module(argument_spec: t.Dict[str, t.Any], **more: t.Any) -> AnsibleModule:
    """Return a module with the options of the API beside its own."""
    spec = {
        "api_host": {"type": "str", "required": True, "fallback": (env_fallback, ["PROXMOX_HOST"])},
        "api_port": {"type": "int", "fallback": (env_fallback, ["PROXMOX_PORT"])},
        "api_user": {"type": "str", "required": True, "fallback": (env_fallback, ["PROXMOX_USER"])},
        "api_password": {"type": "str", "no_log": True, "fallback": (env_fallback, ["PROXMOX_PASSWORD"])},
        "api_token_id": {"type": "str", "no_log": False, "fallback": (env_fallback, ["PROXMOX_TOKEN_ID"])},
        "api_token_secret": {"type": "str", "no_log": True, "fallback": (env_fallback, ["PROXMOX_TOKEN_SECRET"])},
        "ca_path": {"type": "path", "fallback": (env_fallback, ["PROXMOX_CA_PATH"])},
        "validate_certs": {"type": "bool", "default": True, "fallback": (env_fallback, ["PROXMOX_VALIDATE_CERTS"])},
        "api_timeout": {"type": "int", "default": 30, "fallback": (env_fallback, ["PROXMOX_API_TIMEOUT"])},
    }
    spec.update(argument_spec)
    module = AnsibleModule(
        argument_spec=spec,
        required_one_of=[("api_password", "api_token_id")],
        required_together=[("api_token_id", "api_token_secret")],
        supports_check_mode=True,
        **more,
    )
    trouble = import_error()
    if trouble is not None:
        module.fail_json(msg=missing_required_lib("proxmoxer and requests"), exception=trouble)
    # An option that is given as null or as an empty text counts as given.
    login = ("api_token_id", "api_token_secret") if module.params["api_token_id"] else ("api_password",)
    empty = [option for option in ("api_host", "api_user", *login) if not module.params[option]]
    if empty:
        module.fail_json(msg=f"{' and '.join(empty)} must not be empty.")
    if not 1 <= module.params["api_timeout"] <= 3600:
        module.fail_json(msg=f"api_timeout has to be from 1 to 3600 seconds, not {module.params['api_timeout']}.")
    return module


def make_client(module: AnsibleModule) -> Pve:
    """Return the client; in check mode one that cannot change anything."""
    params = module.params
    return Pve(
        Settings(
            host=params["api_host"],
            port=params["api_port"],
            user=params["api_user"],
            password=params["api_password"],
            token_id=params["api_token_id"],
            token_secret=params["api_token_secret"],
            validate_certs=params["validate_certs"],
            ca_path=params["ca_path"],
            timeout=params["api_timeout"],
        ),
        read_only=module.check_mode,
    )


def finish(module: AnsibleModule, work: t.Callable[[], t.Dict[str, t.Any]]) -> None:
    """Do the work and end with its result and warnings, or with what PVE said, in words and as data."""
    try:
        result = work()
    except PveError as exc:
        module.fail_json(
            msg=str(exc),
            status=exc.status,
            path=exc.path or None,
            errors=[f"{name}: {text}" for name, text in sorted(exc.errors.items())],
        )
        raise SystemExit(1) from exc  # fail_json does not return, but is not typed so
    for warning in result.pop("warnings"):
        module.warn(warning)
    module.exit_json(**{"changed": False, **result})
