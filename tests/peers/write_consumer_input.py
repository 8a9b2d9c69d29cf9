# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Writes what the check of real consumers reads: ``write_consumer_input.py DIRECTORY PLAN CATALOG...``.

DIRECTORY/rack has the outputs for a plan, DIRECTORY/hostile those for a fleet of hostile names,
DIRECTORY/bare-metal for the same without virtual machines, and
DIRECTORY/asked those for one slot of each engine at an address that the check listens on, and DIRECTORY/proxied those for
one model at two engines that the check starts itself. Each has an
``expected.json`` with the words and variables that every start command is to give its engine.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.files import write_text
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.commands import (
    command_documents,
    folder,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.outputs import Where
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.settings import Settings
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.registry import make_outputs, read_slots
from slots import HOSTILE, KIND_NAMES, apart, fleet


def served_twice() -> list[dict]:
    """One model at two engines that the check starts, stops and holds up."""
    (slot,) = [one for one in fleet(["tiny"]) if "replica_of" in one]
    kept = ("version", "managed_by", "name", "replica_of", "node", "vm", "gpus", "models_fitting", "model", "kind")
    fixed = {key: slot[key] for key in kept} | {
        "engine": "llamacpp",
        "aliases": ["small"],
        "fingerprint": "3fa9c0de12345678",
    }
    return [
        {**fixed, "slot": f"tiny.{number}.tiny", "replica": number, "endpoint": f"http://127.0.0.1:{18101 + number}"}
        for number in range(2)
    ]


def write(folder_of_all: Path, slots: list[dict], settings: Settings | None = None) -> None:
    where = Where(
        slots=folder_of_all / "slots",
        gateway=folder_of_all / "gateway",
        prometheus=folder_of_all / "prometheus",
        engines=folder_of_all / "engines",
    )
    made = make_outputs(slots, where, settings)
    for change in made.written:
        change.write()
    expected = {
        f"{folder(command)}/{command['unit']}": {
            "argv": command["argv"],
            "env": command["env"],
            "compose": command["compose"],
        }
        for command in command_documents(slots)
        if "argv" in command
    }
    write_text(folder_of_all / "expected.json", json.dumps(expected))


def main() -> None:
    directory = Path(sys.argv[1])
    write(directory / "rack", read_slots(Path(sys.argv[2]), sys.argv[3:], None)[0])
    # A name that LiteLLM would take for a variable is refused before anything is written.
    write(
        directory / "hostile",
        fleet([name for name in HOSTILE if not name.startswith("os.environ/")], domain="gpu.example"),
    )
    write(
        directory / "bare-metal",
        fleet(apart(name for name in HOSTILE if not name.startswith("os.environ/")), bare_metal=True),
    )
    asked = [slot for slot in fleet(KIND_NAMES) if "replica_of" in slot]
    for slot in asked:
        slot["endpoint"] = "http://127.0.0.1:18000"
    write(directory / "asked", asked)
    write(directory / "proxied", served_twice(), Settings(request_timeout=3))


if __name__ == "__main__":
    main()
