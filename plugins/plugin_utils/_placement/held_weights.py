# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Which nodes hold the weights of which models, and which models fit which GPUs."""

from __future__ import annotations

import posixpath
import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._weights.judge import (
    holds,
    is_path,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import (
    ask_of_model,
    gpu_refusal,
)

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.entries import (
        Engine,
        Model,
        Role,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._fleet.nodes import (
        Fleet,
        Number,
        Shape,
        WeightsEntry,
    )
    from ansible_collections.knaster.inventory.plugins.plugin_utils._placement.fit import Ask


class Weights:
    """Answers by model and by shape, each computed once."""

    def __init__(self, fleet: Fleet, models: Sequence[Model], engines: Mapping[str, Engine]) -> None:
        self.fleet = fleet
        self.models = models
        self.engines = engines
        self.by_name = {model.name: model for model in models}
        self._holders: dict[str, list[int]] = {}
        self._sets: dict[str, frozenset[int]] = {}
        self._size: dict[str, Number | None] = {}
        self._fits: dict[tuple[str, str | None, int], list[str]] = {}
        self._asks: dict[str, list[tuple[Model, Ask]]] = {}
        self._masks: dict[tuple[str, ...], bytes | None] = {}
        self._columns: dict[str, int] = {}
        self._by_token: dict[str, list[WeightsEntry]] | None = None

    def fitting(self, engine: str, kind: str | None, shape: int) -> list[str]:
        """Names of the models that fit a GPU of this shape under an engine, in catalog order."""
        key = (engine, kind, shape)
        found = self._fits.get(key)
        if found is None:
            found = self._fits[key] = self.fitting_shape(engine, kind, self.fleet.shapes[shape])
        return found

    def fitting_shape(self, engine: str, kind: str | None, shape: Shape) -> list[str]:
        """The same for a GPU that is in no profile."""
        asks = self._asks.get(engine)
        if asks is None:
            asks = self._asks[engine] = [
                (model, ask_of_model(model, engine, self.engines)) for model in self.models if engine in model.engines
            ]
        return [model.name for model, ask in asks if gpu_refusal(ask, shape, engine=engine, kind=kind) is None]

    def wanted(self, role: Role, shape: int) -> list[str]:
        """The models that a role would like to find on a node: those of its slots, else those that fit."""
        fixed = [slot.model for slot in role.slots if slot.model is not None]
        return fixed or self.fitting(role.needs.engine, role.needs.kind, shape)

    def mask(self, role: Role, shape: int) -> bytes | None:
        """For each node 1 where it holds something that the role would like to find; ``None`` where no node does."""
        key = tuple(self.wanted(role, shape))
        if key not in self._masks:
            union = 0
            for name in key:
                union |= self._column(name)
            self._masks[key] = union.to_bytes(len(self.fleet.names), "little") if union else None
        return self._masks[key]

    def _column(self, name: str) -> int:
        found = self._columns.get(name)
        if found is None:
            flags = bytearray(len(self.fleet.names))
            for node in self.holders(name):
                flags[node] = 1
            found = self._columns[name] = int.from_bytes(flags, "little")
        return found

    def holders(self, name: str) -> list[int]:
        """The nodes that hold a model's weights."""
        found = self._holders.get(name)
        if found is None:
            nodes: set[int] = set()
            size: Number | None = None
            for one in self._entries(self.by_name[name].source if name in self.by_name else None):
                nodes.update(one.nodes)
                if size is None:
                    size = one.entry.get("size_gb")
            found = self._holders[name] = sorted(nodes)
            self._sets[name] = frozenset(nodes)
            self._size[name] = size
        return found

    def holder_set(self, name: str) -> frozenset[int]:
        """The nodes that hold a model's weights, as a set."""
        self.holders(name)
        return self._sets[name]

    def state(self, name: str, node: int) -> dict[str, t.Any]:
        """What running a model on a node means for its weights: held there, to be copied, or not known."""
        if node in self.holder_set(name):
            return {"state": "held", "model": name}
        if not self.fleet.asked_weights[node]:
            return {"state": "unknown", "model": name}
        size = self._size[name]
        if size is None:
            model = self.by_name.get(name)
            if model is not None and model.memory is not None and model.memory.weights_gib is not None:
                size = round(model.memory.weights_gib * 1.073741824, 1)
        return {"state": "copy", "model": name} | ({} if size is None else {"gb": size})

    def _entries(self, source: str | None) -> list[WeightsEntry]:
        if not source:
            return []
        if self._by_token is None:
            self._by_token = {}
            for one in self.fleet.weights:
                for token in _tokens_of_entry(one.entry):
                    self._by_token.setdefault(token, []).append(one)
        if is_path(source):
            tokens = {posixpath.normpath(source)}
        else:
            folded = source.casefold()
            tokens = {folded, folded.partition("@")[0], folded.rpartition(":")[0]}
        found = {id(one): one for token in tokens for one in self._by_token.get(token, ())}
        return [one for one in found.values() if holds([one.entry], source)]


def _tokens_of_entry(entry: Mapping[str, t.Any]) -> set[str]:
    """Under what an entry is looked up before ``holds`` decides; only there so that not every pair is compared."""
    tokens = {text.casefold() for text in (entry.get("name"), entry.get("repo")) if isinstance(text, str)}
    path = entry.get("path")
    if isinstance(path, str):
        tokens.add(posixpath.normpath(path))
    return tokens
