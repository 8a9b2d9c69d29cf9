# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Reads how a model of a hub is built without fetching it: its description, its index, and the headers of its files."""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass

from ansible_collections.knaster.inventory.plugins.module_utils._http import Client, Hub, Limits, SourceError, ask_hub
from ansible_collections.knaster.inventory.plugins.module_utils._models.geometry import (
    geometry_of_config,
    geometry_of_gguf,
)
from ansible_collections.knaster.inventory.plugins.module_utils._models.headers import Found, check_gguf_length
from ansible_collections.knaster.inventory.plugins.module_utils._models.sources import (
    HubFile,
    Source,
    base_of,
    commit_of,
    describe_repo,
    file_url,
    list_files,
    raise_for_status,
    repo_name,
    wanted_files,
)
from ansible_collections.knaster.inventory.plugins.module_utils._parsers import gguf, safetensors
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError
from ansible_collections.knaster.inventory.plugins.module_utils._weights.judge import without_copies

# The description of a large model, its index, or the beginning of a GGUF file with a large vocabulary.
MAX_BYTES = 64 * 1024 * 1024
_GGUF_READS = (16 * 1024 * 1024, MAX_BYTES)
# The header of one safetensors file of usual size.
_FIRST_READ = 256 * 1024
_INDEX = "model.safetensors.index.json"


@dataclass(frozen=True)
class Remote:
    """A model of a hub: its name there, the commit that was read, and what its files say."""

    name: str
    format: str
    found: Found
    revision: t.Optional[str] = None


def read_hub(source: Source, hub: Hub, limits: Limits) -> Remote:
    """Read the model of a repository, or raise a SourceError or ParseError that says why that is not possible."""
    base = base_of(hub)
    return ask_hub(hub, limits, lambda client: _Reader(source, base, hub, client).read())


class _Reader:
    def __init__(self, source: Source, base: str, hub: Hub, client: Client) -> None:
        self._source = source
        self._base = base
        self._hub = hub
        self._client = client
        self._revision: t.Optional[str] = None
        self._files: t.Dict[str, HubFile] = {}

    def read(self) -> Remote:
        model = describe_repo(self._source, self._base, self._hub, self._client)
        self._files = list_files(model)
        self._revision = commit_of(model)
        names = wanted_files(self._source, self._files)
        kind = names[0].rpartition(".")[2]
        form = {"safetensors": "safetensors", "gguf": "gguf"}.get(kind, "pytorch")
        found = self._read_gguf(names) if form == "gguf" else self._read_config(names, form)
        return Remote(repo_name(model) or self._source.repo or "", form, found, self._revision)

    def _get(self, name: str, span: t.Optional[t.Tuple[int, int]] = None) -> bytes:
        url = file_url(self._source, self._base, name, self._revision)
        answer = self._client.request("GET", url, span=span)
        raise_for_status(answer, self._hub)
        return answer.body if span is None else answer.body[: span[1] - span[0]]

    def _get_object(self, name: str) -> t.Dict[str, t.Any]:
        """Return the JSON object of a file; empty where the repository has no such file."""
        if name not in self._files:
            return {}
        try:
            document = json.loads(self._get(name).decode("utf-8"))
        except (ValueError, RecursionError):
            raise ParseError(name, "not_json") from None
        return document if isinstance(document, dict) else {}

    def _read_config(self, names: t.List[str], form: str) -> Found:
        # ModelOpt says how it quantised in a file of its own.
        config = {**self._get_object("hf_quant_config.json"), **self._get_object("config.json")}
        geometry = geometry_of_config(config)
        if form == "safetensors" and _INDEX in self._files:
            text = self._get(_INDEX).decode("utf-8", "replace")
            # The index names what is loaded, and most say how much that is.
            names = without_copies(_index_names(text)) or names
            total = _total_size(text)
            if total is not None:
                return Found(weight_bytes=total, geometry=geometry, values={})
        elif form == "safetensors" and len(names) == 1:
            header = self._read_safetensors(names[0])
            return Found(weight_bytes=header.tensor_bytes, geometry=geometry, values=header.values)
        return Found(weight_bytes=sum(self._size(name) for name in names), geometry=geometry, values={})

    def _size(self, name: str) -> int:
        found = self._files.get(name)
        if found is None or found.size is None:
            raise SourceError("bad_answer", f"no size for {name}")
        return found.size

    def _read_safetensors(self, name: str) -> safetensors.Header:
        size = self._size(name)
        data = self._get(name, (0, min(_FIRST_READ, size)))
        end = safetensors.LENGTH_BYTES + safetensors.header_length(data[: safetensors.LENGTH_BYTES], size)
        if end > len(data):
            data = self._get(name, (0, end))
        return safetensors.parse(data[safetensors.LENGTH_BYTES : end], size)

    def _read_gguf(self, names: t.List[str]) -> Found:
        sizes = [self._size(name) for name in names]
        for limit in _GGUF_READS:
            data = self._get(names[0], (0, min(limit, sizes[0])))
            try:
                header = gguf.parse(data)
            except gguf.MoreNeededError:
                if len(data) >= sizes[0]:
                    raise ParseError("gguf", "truncated", detail=names[0]) from None
                continue
            check_gguf_length(header, sizes[0], names[0])
            # The headers of the other parts of a split file are as good as nothing.
            return Found(
                weight_bytes=max(0, sum(sizes) - header.data_offset), geometry=geometry_of_gguf(header.facts), values={}
            )
        raise ParseError("gguf", "not_gguf", detail=f"a header of more than {MAX_BYTES} bytes in {names[0]}")


def _total_size(text: str) -> t.Optional[int]:
    """Return the bytes of all tensors that an index states; None where it does not."""
    try:
        total = json.loads(text)["metadata"]["total_size"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    # Some tools write it as a number with a point.
    if isinstance(total, float) and total.is_integer():
        total = int(total)
    return total if isinstance(total, int) and not isinstance(total, bool) and 0 < total < 1 << 63 else None


def _index_names(text: str) -> t.Tuple[str, ...]:
    """Return the weight files that the text of an index names, sorted; none where it is not an index."""
    try:
        weight_map = json.loads(text)["weight_map"]
        return tuple(sorted({name for name in weight_map.values() if isinstance(name, str) and name}))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ()
