# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Why a GPU or node was refused: one table for the sentence of a refusal, the label on the page and the guide."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """One reason. ``phrase`` follows a number of GPUs or nodes in a sentence, ``guide`` completes "refused because"."""

    name: str
    phrase: str
    label: str
    guide: str
    of_node: bool = False


# In the order in which the rules are asked: the later one fails, the nearer the miss.
CODES: tuple[Code, ...] = (
    Code(
        name="config",
        phrase="with GPUs, which gpu_nodes would admit",
        label="not allowed by the catalog",
        guide="the node has GPUs, and work without one is not admitted there; ``gpu_nodes: true`` admits it",
        of_node=True,
    ),
    Code(
        name="node_state", phrase="on nodes that are not ready", label="node not ready", guide="its node is not ready"
    ),
    Code(
        name="node_pin",
        phrase="on another node",
        label="another node is named",
        guide="its node is not the one that was asked for",
    ),
    Code(
        name="selector",
        phrase="on nodes without the labels",
        label="labels do not match",
        guide="its node lacks a label",
    ),
    Code(name="no_gpu", phrase="without a GPU", label="node without a GPU", guide="the node has no GPUs", of_node=True),
    Code(
        name="gpus_unknown",
        phrase="with unknown GPUs",
        label="GPUs of the node not known",
        guide="nobody could find out which GPUs the node has",
        of_node=True,
    ),
    Code(
        name="engine",
        phrase="that the engine has no build for",
        label="engine does not run there",
        guide="the engine has no build for it",
    ),
    Code(
        name="kind", phrase="for another kind of model", label="kind of model", guide="it serves another kind of model"
    ),
    Code(name="vendor", phrase="of another vendor", label="vendor", guide="it is of another vendor than asked for"),
    Code(
        name="gpu_class",
        phrase="of another class",
        label="another class",
        guide="it is of another class than asked for",
    ),
    Code(
        name="mig",
        phrase="divided or a part of a GPU",
        label="split into slices",
        guide="it is divided, by MIG or into partitions, or it is a virtual GPU, which no VM can be given",
    ),
    Code(
        name="cc_min",
        phrase="compute capability below",
        label="compute capability too low",
        guide="its compute capability is too low, or not known where a least one is asked for",
    ),
    Code(
        name="cc_max",
        phrase="compute capability above",
        label="compute capability too high",
        guide="its compute capability is too high, or not known where a limit is set",
    ),
    Code(name="vram", phrase="too little VRAM", label="too little memory", guide="it has too little memory"),
    Code(
        name="memory_unknown",
        phrase="whose memory is not known",
        label="memory not known",
        guide="its memory is not known",
    ),
    Code(name="unhealthy", phrase="unhealthy", label="broken", guide="it is broken"),
    Code(
        name="health_unknown",
        phrase="of unknown health",
        label="health not known",
        guide="it is not known to be well: its tool hangs, or does not tell",
    ),
    Code(
        name="gpu_cordoned",
        phrase="cordoned",
        label="cordoned",
        guide="the inventory keeps new work off it",
    ),
    Code(
        name="iommu_group",
        phrase="that cannot be passed through (IOMMU group)",
        label="shares its IOMMU group",
        guide="it is tied to something else on the bus",
    ),
    Code(name="external", phrase="held by others", label="held by others", guide="somebody else holds it"),
    Code(name="in_use", phrase="taken", label="taken", guide="something of this plan has it"),
    Code(
        name="block",
        phrase="on nodes with too few free GPUs together",
        label="fewer GPUs together than needed",
        guide="there are too few free GPUs together on its node",
    ),
    Code(
        name="fabric",
        phrase="on nodes without enough others on one fabric",
        label="not on one fabric",
        guide="there are too few such nodes on one fabric",
    ),
    Code(
        name="spread",
        phrase="where a replica runs already",
        label="spread",
        guide="a replica runs in its domain already, and ``spread`` is hard",
    ),
    Code(
        name="node_memory",
        phrase="without memory left",
        label="node memory too small",
        guide="too little memory is left on its node",
    ),
    Code(
        name="disk",
        phrase="on nodes without enough disk space",
        label="disk too small",
        guide="too little disk space is left on its node",
    ),
)
BY_NAME = {code.name: code for code in CODES}
CODE_RANK = {code.name: rank for rank, code in enumerate(CODES)}
