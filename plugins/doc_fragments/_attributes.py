# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this doc fragment is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What users can rely on from every module and action of the collection, said in one place."""

from __future__ import annotations


class ModuleDocFragment:
    """The attributes of a module; each other fragment narrows one of them or adds one."""

    # A module extends this and fills in the support of each attribute, or takes the fragments below that fill it in.
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: In check mode it says what it would change, and changes nothing.
  diff_mode:
    description: In diff mode it shows what it changed, or in check mode would change, as before and after.
  idempotent:
    description:
      - Run again with the same options it reports no change, as long as nothing else changed what it looks after.
"""

    # For modules that only look: the info and facts modules.
    INFO_MODULE = r"""
options: {}
attributes:
  check_mode:
    support: full
    details:
      - It only looks and changes nothing.
  diff_mode:
    support: N/A
    details:
      - It only looks and changes nothing.
  idempotent:
    support: full
    details:
      - It only looks and changes nothing.
"""

    FACTS = r"""
options: {}
attributes:
  facts:
    description: Its result sets facts of the host through C(ansible_facts).
    support: full
"""

    ACTION = r"""
options: {}
attributes:
  action:
    description: An action plugin of the same name does a part of the work on the controller.
  async:
    description: Can be run in the background with the C(async) keyword.
"""

    # For actions from files to files on the controller.
    FILE_ACTION = r"""
options: {}
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
  action:
    support: full
  async:
    support: none
"""

    PLATFORM = r"""
options: {}
attributes:
  platform:
    description: The systems that it can run on.
    support: full
    platforms: posix
"""
