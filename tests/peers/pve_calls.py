# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""A client of Proxmox VE that keeps which requests it sent."""

from __future__ import annotations

import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.client import Pve


class CountedPve(Pve):
    """``calls`` has method and path of every request; a login, which changes nothing, is one that reads."""

    def __init__(self, *args: t.Any, **more: t.Any) -> None:
        super().__init__(*args, **more)
        self.calls: list[tuple[str, str]] = []

    @property
    def changing_calls(self) -> list[tuple[str, str]]:
        """Return the requests that change something."""
        return [call for call in self.calls if call[0] != "GET"]

    def _login_with_password(self, common: dict[str, t.Any]) -> t.Any:
        self.calls.append(("GET", "/access/ticket"))
        return super()._login_with_password(common)

    def _send_through(self, session: t.Any, method: str, path: str, values: dict[str, t.Any]) -> t.Any:
        self.calls.append((method, path))
        return super()._send_through(session, method, path, values)
