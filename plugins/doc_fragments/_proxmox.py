# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this doc fragment is **PRIVATE** to the collection. It can have breaking changes at any time.

"""How to get to the API of Proxmox VE, with the option names that community.proxmox has."""

from __future__ import annotations


class ModuleDocFragment:
    """The options of every module that talks to Proxmox VE."""

    DOCUMENTATION = r"""
options:
  api_host:
    description:
      - A node of the cluster, or what stands for it.
      - Without it the environment variable E(PROXMOX_HOST) is used.
    type: str
    required: true
  api_port:
    description:
      - The port of the API, 8006 if nothing is said.
      - Without it the environment variable E(PROXMOX_PORT) is used.
    type: int
  api_user:
    description:
      - The user with its realm, such as V(automation@pve). For a token it is the user that the token belongs to.
      - Without it the environment variable E(PROXMOX_USER) is used.
    type: str
    required: true
  api_password:
    description:
      - The password of the user. Prefer a token, which can be given fewer privileges and can be revoked.
      - Without it the environment variable E(PROXMOX_PASSWORD) is used.
    type: str
  api_token_id:
    description:
      - The name of the token, without the user.
      - Without it the environment variable E(PROXMOX_TOKEN_ID) is used.
    type: str
  api_token_secret:
    description:
      - The secret of the token.
      - Without it the environment variable E(PROXMOX_TOKEN_SECRET) is used.
    type: str
  ca_path:
    description:
      - A file with the certificate of the authority to trust, such as a copy of C(/etc/pve/pve-root-ca.pem).
      - Without it the environment variable E(PROXMOX_CA_PATH) is used, and without that the authorities of the system.
      - It is not used with O(validate_certs=false).
    type: path
  validate_certs:
    description:
      - Whether the certificate of the API has to be valid.
      - Without it the environment variable E(PROXMOX_VALIDATE_CERTS) is used.
    type: bool
    default: true
  api_timeout:
    description:
      - How many seconds one call may take. PVE itself waits ten seconds for a lock before it answers, so that less than
        that loses answers.
      - Without it the environment variable E(PROXMOX_API_TIMEOUT) is used.
    type: int
    default: 30
requirements:
  - proxmoxer >= 2.0
  - requests
notes:
  - It runs on the controller or on any host that reaches the API, and never on a node of Proxmox VE itself.
    Use C(delegate_to) or C(hosts) with V(localhost).
  - A task that fails because of a call has its HTTP C(status), its C(path), and in C(errors) what Proxmox VE said of single
    parameters.
  - Reading calls are repeated when the connection or a proxy fails. What changes something is never sent a second time
    before the state was looked at again.
"""

    ACTIONGROUP_PROXMOX = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/knaster.inventory.proxmox) in C(module_defaults) to set the options of the API once.
    support: full
    membership:
      - knaster.inventory.proxmox
"""
