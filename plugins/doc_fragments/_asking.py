# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors


# Note that this doc fragment is **PRIVATE** to the collection. It can have breaking changes at any time.

"""How engines are asked, in the words of every module that asks them."""

from __future__ import annotations


class ModuleDocFragment:
    """The options of every module that asks engines."""

    DOCUMENTATION = r"""
options:
  connect_timeout:
    description:
      - How many seconds a host may take to accept a connection.
    type: float
    default: 3
  timeout:
    description:
      - How many seconds one replica may take in all, whatever it does.
    type: float
    default: 10
  deadline:
    description:
      - How many seconds all replicas may take together. Those that were not queried by then keep the state that they had.
      - Without it the time is enough for all of them, even if none answers.
    type: float
  concurrency:
    description:
      - How many replicas are queried at once, from 1 to 256.
    type: int
    default: 32
  api_key:
    description:
      - The key that engines are queried with. It goes to the endpoint of a slot and nowhere else, and is never part of a result.
    type: str
  api_keys:
    description:
      - Other keys, by the name of a slot, role, model or engine, where the first that is there counts.
    type: dict
    default: {}
  ca_path:
    description:
      - A file with the certificates of the authorities to trust instead of those of the system.
    type: path
  validate_certs:
    description:
      - Whether the certificate of an engine has to be valid.
    type: bool
    default: true
"""
