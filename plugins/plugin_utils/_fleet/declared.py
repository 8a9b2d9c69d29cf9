# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What the inventory declares of nodes, read whenever something is planned, so that a drain needs no collecting."""

from __future__ import annotations

import difflib
import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._pci import parse_address
from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import (
    CORDONED,
    DRAINING,
    GPU_STATES,
    READY,
    label_text,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import shown

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Variables = t.Mapping[str, t.Any]

PREFIX = "knaster_"
STATE, LABELS, FABRICS, RESERVE, GPUS = (
    f"{PREFIX}{name}" for name in ("state", "labels", "fabrics", "reserve_gb", "gpus")
)
# By what engines on the node are reached, which the registry reads.
ADDRESS = f"{PREFIX}address"
# Those that are read when something is planned, and those that only collecting reads.
PLANNED = frozenset((STATE, LABELS, FABRICS, RESERVE, GPUS))
_DECLARED = PLANNED | {ADDRESS} | {f"{PREFIX}{name}" for name in ("weight_dirs", "answer_file")}
STATES = (READY, CORDONED, DRAINING)
# How like one of our names another name must be to be taken for a slip: the plural, a part left out.
_LIKE = 0.8


def find_slips(names: Iterable[str]) -> list[str]:
    """Return a text for each name of a variable that is nearly one of ours, and so is read by nobody."""
    ours = {name.removeprefix(PREFIX): name for name in _DECLARED}
    found = []
    for name in names:
        if name.startswith(PREFIX) and name not in _DECLARED:
            near = difflib.get_close_matches(name.removeprefix(PREFIX), ours, n=1, cutoff=_LIKE)
            found += [f"{name}: nothing reads this variable; did you mean {ours[meant]}?" for meant in near]
    return found


def find_declared_errors(variables: Variables) -> list[str]:
    """Return everything that is wrong with what is declared of one node."""
    errors = []
    state, labels, fabrics = variables.get(STATE), variables.get(LABELS), variables.get(FABRICS)
    reserve, gpus = variables.get(RESERVE), variables.get(GPUS)
    if state is not None and state not in STATES:
        errors.append(f"{STATE}: must be one of {', '.join(STATES)}, not {shown(state)}")
    if labels is not None and not isinstance(labels, dict):
        errors.append(f"{LABELS}: must be a map of names and values, not {shown(labels)}")
    if fabrics is not None and not (isinstance(fabrics, list) and all(isinstance(name, str) for name in fabrics)):
        errors.append(f"{FABRICS}: must be a list of names, not {shown(fabrics)}")
    if reserve is not None and (isinstance(reserve, bool) or not isinstance(reserve, (int, float)) or reserve < 0):
        errors.append(f"{RESERVE}: must be a number of GB, not {shown(reserve)}")
    if gpus is not None and not (isinstance(gpus, list) and all(isinstance(gpu, dict) for gpu in gpus)):
        return [*errors, f"{GPUS}: must be a list of maps, each with pci, not {shown(gpus)}"]
    for at, gpu in enumerate(gpus or ()):
        if parse_address(gpu.get("pci")) is None:
            errors.append(f"{GPUS}[{at}].pci: must be a PCI address such as 0000:41:00.0, not {shown(gpu.get('pci'))}")
        if gpu.get("state") not in (None, *GPU_STATES):
            errors.append(f"{GPUS}[{at}].state: must be one of {', '.join(GPU_STATES)}, not {shown(gpu['state'])}")
    return errors


def with_declared(profile: Mapping[str, t.Any], variables: Variables) -> dict[str, t.Any]:
    """Return a profile with what the inventory declares of its node today.

    What was declared when a profile was collected and is no longer falls away. A profile that was written by hand, which has
    no ``hostname``, keeps what it says where the inventory says nothing. A node that could not be asked stays so, whatever
    state is wished for it.
    """
    made, is_collected = dict(profile), "hostname" in profile
    if (STATE in variables or is_collected) and profile.get("state") in (None, *STATES):
        made["state"] = variables.get(STATE) or READY
    if LABELS in variables or is_collected:
        made["labels"] = {str(name): label_text(value) for name, value in (variables.get(LABELS) or {}).items()}
    if FABRICS in variables or is_collected:
        made["fabrics"] = list(variables.get(FABRICS) or ())
    if variables.get(RESERVE) is not None:
        made["reserve_gb"] = variables[RESERVE]
    elif is_collected:
        made.pop("reserve_gb", None)
    if profile.get("gpus") and (GPUS in variables or is_collected):
        states = {parse_address(gpu["pci"]): gpu.get("state") for gpu in variables.get(GPUS) or ()}
        made["gpus"] = [_with_state(gpu, states) for gpu in profile["gpus"]]
    return made


def _with_state(gpu: t.Any, states: Mapping[t.Any, str | None]) -> t.Any:
    pci = gpu.get("pci") if isinstance(gpu, dict) else None
    address = parse_address(pci.get("address")) if isinstance(pci, dict) else None
    state = states.get(address) or states.get(address.slot) if address is not None else None
    if not isinstance(gpu, dict) or gpu.get("state") == state:
        return gpu
    kept = {key: value for key, value in gpu.items() if key != "state"}
    return kept if state is None else {**kept, "state": state}
