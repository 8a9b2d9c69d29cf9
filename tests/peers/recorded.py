# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""What lies beside the project: outputs recorded on real machines, and the schema of a real Proxmox VE.

These are data of others and no part of the project. ``KNASTER_SHARED`` names the folder, which is ``../shared`` without it.
Its manifests list the outputs; the text of one may lie in a folder below, with others of its kind.
"""

from __future__ import annotations

import os
from pathlib import Path

SHARED = Path(os.environ.get("KNASTER_SHARED") or Path(__file__).resolve().parents[3] / "shared")
MANIFESTS = sorted(SHARED.glob("corpus/*/manifest.yaml"))
# By the release of Proxmox VE: all of its API, and of the one before what anybody uses.
SCHEMAS = {"9.1": SHARED / "proxmox" / "apidata.json", "8.4": SHARED / "proxmox" / "apidata-8.4-used.json"}


def recorded(kind: str) -> list[Path]:
    """Return the texts of one kind."""
    return [path for manifest in MANIFESTS for path in sorted((manifest.parent / kind).iterdir()) if path.is_file()]


def missing() -> list[str]:
    """Return what is not there, in the words of somebody who has to bring it."""
    wanted = {str(SHARED / "corpus" / "*" / "manifest.yaml"): bool(MANIFESTS)}
    wanted |= {str(path): path.is_file() for path in SCHEMAS.values()}
    return [path for path, is_there in wanted.items() if not is_there]
