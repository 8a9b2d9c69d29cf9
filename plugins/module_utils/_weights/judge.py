# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Which models a directory holds, complete or not, judged from the listing of its files."""

from __future__ import annotations

import posixpath
import re
import typing as t
from dataclasses import dataclass

if t.TYPE_CHECKING:
    from ansible_collections.knaster.inventory.plugins.module_utils._weights.listing import Listing

COMPLETE = "complete"
PARTIAL = "partial"
UNKNOWN = "unknown"

MAX_MISSING_NAMED = 5
_MAX_PARTS = 10_000

# A transfer that is under way has one of these behind the name that the file will have.
_UNFINISHED_SUFFIXES = (".incomplete", ".part", ".partial", ".tmp", ".download", ".crdownload")
# This one lies beside a file of full size whose content is not there yet.
_CONTROL_SUFFIX = ".aria2"

_FORMATS = {".safetensors": "safetensors", ".gguf": "gguf", ".bin": "pytorch", ".pth": "pytorch", ".pt": "pytorch"}
_FORMAT_ORDER = ("safetensors", "pytorch")

# Files with the ending of weights that are something else: training state, adapters, projectors, statistics.
_NOT_WEIGHTS = re.compile(
    r"^(adapter_model|training_args|optimizer|scheduler|rng_state|random_states|tokenizer|ggml-vocab)|imatrix|mmproj",
    re.IGNORECASE,
)
# The same model in another form, or a layer that its library keeps apart, below the model's own directory.
_OTHER_FORM = re.compile(r"^(original|onnx|openvino|metal|coreml|mlx|\.cache|\d+_[A-Z][A-Za-z]*)$")

_SHARD = re.compile(r"^(?P<stem>.+?)[-_.](?P<part>\d{5})-of-(?P<parts>\d{5})(?P<suffix>\.[a-z]+)$", re.IGNORECASE)
_QUANT = re.compile(
    r"(?:^|[-._])(?P<quant>(?:UD-)?(?:I?Q\d(?:_[0-9A-Z]+)*|TQ[12]_0|BF16|F16|F32|FP16|MXFP4(?:_MOE)?|NVFP4))$",
    re.IGNORECASE,
)
_CACHE = re.compile(r"^(?P<base>(?:.*/)?models--(?P<repo>[^/]+))/(?P<kind>snapshots|blobs|refs)/(?P<rest>.+)$")


@dataclass(frozen=True)
class Weights:
    """One model found in a listing.

    ``parts`` is None where it cannot be known how many files there should be; ``files`` are the finished ones, by their
    names in the model's directory.
    """

    name: str
    path: str
    format: str
    state: str
    have: int
    parts: t.Optional[int]
    size_bytes: int
    repo: t.Optional[str] = None
    revision: t.Optional[str] = None
    refs: t.Tuple[str, ...] = ()
    quant: t.Optional[str] = None
    files: t.Tuple[str, ...] = ()
    missing: t.Tuple[str, ...] = ()


@dataclass(frozen=True)
class _File:
    """A weight file, finished or not, under the name that it has in its model."""

    name: str
    size: int
    finished: bool


@dataclass(frozen=True)
class _View:
    """A listing with what has to be looked up in it for every group of files."""

    listing: Listing
    owners: t.FrozenSet[str]
    repos: t.FrozenSet[str]
    indexed: t.Mapping[str, t.AbstractSet[str]]
    refs: t.Mapping[t.Tuple[str, str], t.Tuple[str, ...]]
    defaults: t.Mapping[str, str]


@dataclass(frozen=True)
class _Place:
    """Where the files of one group lie: the directory, and what a download cache says of it."""

    directory: str
    repo: t.Optional[str] = None
    revision: t.Optional[str] = None
    below: str = ""


def judge_weights(listing: Listing) -> t.List[Weights]:
    """Return the models that the listing shows, complete or not, sorted by name and path."""
    groups: t.Dict[_Place, t.Dict[str, _File]] = {}
    for path, size, finished in _weight_files(listing):
        name = posixpath.basename(path)
        found = groups.setdefault(_place(path), {})
        # A finished file hides the remains of an earlier attempt at it.
        if name not in found or finished:
            found[name] = _File(name, size, finished)
    for path in listing.indexes:
        # An index alone is the trace of a download that has not come to the weights yet.
        groups.setdefault(_place(path), {})
    view = _view(listing, groups)
    found_models: t.List[Weights] = []
    for place, files in groups.items():
        if not _is_other_form(view, place):
            found_models.extend(_judge_ggufs(view, place, [f for f in files.values() if _format(f.name) == "gguf"]))
            found_models.extend(_judge_directory(view, place, [f for f in files.values() if _format(f.name) != "gguf"]))
    found_models.extend(_judge_caches_without_weights(view))
    return sorted(_without_doubles(found_models), key=lambda one: (one.name.lower(), one.name, one.path))


def weights_to_plain(one: Weights, *, shared: t.Optional[bool] = None) -> t.Dict[str, t.Any]:
    """Return the entry of a node profile for these weights."""
    known = {"repo": one.repo, "revision": one.revision, "quant": one.quant, "refs": list(one.refs) or None}
    whole = one.state == COMPLETE
    return {
        "name": one.name,
        "path": one.path,
        "size_gb": size_gb(one.size_bytes),
        **({} if shared is None else {"shared": shared}),
        "format": one.format,
        "state": one.state,
        **({} if whole else {"parts": {"have": one.have, "of": one.parts}}),
        **({} if whole or not one.missing else {"missing": list(one.missing)}),
        **{key: value for key, value in known.items() if value is not None},
    }


def size_gb(size_bytes: int) -> t.Optional[float]:
    """Return decimal gigabytes, whole from ten up and with one place below, so that what is small is not zero."""
    if size_bytes <= 0:
        return None
    size = size_bytes / 1e9
    return int(size + 0.5) if size >= 10 else max(0.1, int(size * 10 + 0.5) / 10)


def is_path(source: str) -> bool:
    """Return whether a source is a path of the node and not the id of a repository."""
    return source.startswith(("/", "./", "../", "~"))


def holds(weights: t.Optional[t.Iterable[t.Mapping[str, t.Any]]], source: t.Optional[str]) -> bool:
    """Return whether a node whose profile has these ``weights`` holds the model of this source, whole."""
    return bool(source) and any(
        entry.get("state", COMPLETE) == COMPLETE and _answers_to(entry, str(source)) for entry in weights or ()
    )


def _answers_to(entry: t.Mapping[str, t.Any], source: str) -> bool:
    path, repo, quant = entry.get("path"), entry.get("repo"), entry.get("quant")
    if is_path(source):
        return isinstance(path, str) and posixpath.normpath(path) == posixpath.normpath(source)
    revisions = [one for one in (entry.get("revision"), *(entry.get("refs") or ())) if one]
    names = [entry.get("name")]
    if isinstance(repo, str):
        names += [f"{repo}:{quant}"] if quant else [f"{repo}@{revision}" for revision in revisions]
    return any(isinstance(name, str) and name.casefold() == source.casefold() for name in names)


def _format(name: str) -> t.Optional[str]:
    return _FORMATS.get(posixpath.splitext(name)[1].lower())


def _is_weight_name(name: str) -> bool:
    return _format(name) is not None and _NOT_WEIGHTS.search(name) is None


def _weight_files(listing: Listing) -> t.Iterator[t.Tuple[str, int, bool]]:
    """Yield path, size and whether it is finished of every weight file, each under the path that it will have."""
    under_way = {path[: -len(_CONTROL_SUFFIX)] for path in listing.files if path.endswith(_CONTROL_SUFFIX)}
    for path, size in listing.files.items():
        name = posixpath.basename(path)
        if _is_weight_name(name):
            if _in_blobs(path) is None:
                yield path, size, size > 0 and path not in under_way and path not in listing.pointers
            continue
        for suffix in _UNFINISHED_SUFFIXES:
            if name.endswith(suffix) and _is_weight_name(name[: -len(suffix)]) and ".cache/" not in path:
                yield path[: -len(suffix)], 0, False
    for path, target in listing.links.items():
        if not _is_weight_name(posixpath.basename(path)):
            continue
        blob = _own_blob(path, target)
        if blob is not None:
            size = listing.files.get(blob, 0)
            yield path, size, size > 0 and blob not in listing.pointers and blob not in under_way


def _in_blobs(path: str) -> t.Optional[str]:
    match = _CACHE.match(path)
    return match.group("base") if match is not None and match.group("kind") == "blobs" else None


def _own_blob(path: str, target: str) -> t.Optional[str]:
    """Return what a link of a download cache points to, where it stays within that cache entry."""
    match = _CACHE.match(path)
    if match is None or match.group("kind") != "snapshots" or target.startswith("/"):
        return None
    resolved = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return resolved if _in_blobs(resolved) == match.group("base") else None


def _repo_id(folder: str) -> str:
    owner, sep, name = folder.partition("--")
    return f"{owner}/{name}" if sep else owner


def _place(path: str) -> _Place:
    directory = posixpath.dirname(path)
    match = _CACHE.match(path)
    if match is None or match.group("kind") != "snapshots" or "/" not in match.group("rest"):
        return _Place(directory)
    revision, _sep, inner = match.group("rest").partition("/")
    return _Place(directory, _repo_id(match.group("repo")), revision, posixpath.dirname(inner))


def _view(listing: Listing, groups: t.Iterable[_Place]) -> _View:
    places = tuple(groups)
    indexed: t.Dict[str, t.Set[str]] = {}
    for path, names in listing.indexes.items():
        indexed.setdefault(posixpath.dirname(path), set()).update(names)
    refs: t.Dict[t.Tuple[str, str], t.List[str]] = {}
    main: t.Dict[str, str] = {}
    for path, revision in sorted(listing.refs.items()):
        match = _CACHE.match(path)
        if match is not None and match.group("kind") == "refs":
            repo = _repo_id(match.group("repo"))
            refs.setdefault((repo, revision), []).append(match.group("rest"))
            if match.group("rest") == "main":
                main[repo] = revision
    revisions: t.Dict[str, t.Set[str]] = {}
    for place in places:
        if place.repo is not None and place.revision is not None:
            revisions.setdefault(place.repo, set()).add(place.revision)
    only = {repo: next(iter(seen)) for repo, seen in revisions.items() if len(seen) == 1}
    return _View(
        listing=listing,
        owners=frozenset(place.directory for place in places),
        repos=frozenset(revisions),
        indexed=indexed,
        refs={key: tuple(names) for key, names in refs.items()},
        defaults={**only, **main},
    )


def _is_other_form(view: _View, place: _Place) -> bool:
    """Return whether a directory only holds the model of a directory above it in another form, or a part of it."""
    if place.repo is not None:
        return any(_OTHER_FORM.match(part) for part in place.below.split("/"))
    directory = place.directory
    while directory:
        directory, _sep, last = directory.rpartition("/")
        if _OTHER_FORM.match(last) and directory in view.owners:
            return True
    return False


def _plain_repo(view: _View, directory: str) -> str:
    """Return the name of a plain tree: its last two folders, those of the listed directory where it is that itself."""
    parts = [part for part in (directory or view.listing.root).split("/") if part and part != "."]
    return "/".join(parts[-2:])


def _judge_directory(view: _View, place: _Place, files: t.Sequence[_File]) -> t.Iterator[Weights]:
    """Judge the one model of a directory that is not GGUF; several formats of it are one model."""
    kinds = [kind for kind in _FORMAT_ORDER if any(_format(file.name) == kind for file in files)]
    if not kinds:
        kinds = [kind for kind in _FORMAT_ORDER if _wanted(view, place, (), kind)]
    if not kinds:
        return
    # Engines take the first of the formats that is there, whole or not.
    repo = place.repo if place.repo is not None else _plain_repo(view, place.directory)
    name = posixpath.join(repo, place.below) if place.below else repo
    if place.repo is not None and view.defaults.get(place.repo) != place.revision:
        name = f"{name}@{place.revision}"
    yield _judge(view, place, files, kinds[0], name=name, path=place.directory, repo=repo)


def _judge_ggufs(view: _View, place: _Place, files: t.Sequence[_File]) -> t.Iterator[Weights]:
    """Judge the models of a directory that are GGUF: each file is one, the parts of a split file together are one."""
    models: t.Dict[t.Tuple[str, str], t.List[_File]] = {}
    for file in files:
        shard = _SHARD.match(file.name)
        key = (file.name, "") if shard is None else (shard.group("stem"), shard.group("parts"))
        models.setdefault(key, []).append(file)
    for parts in models.values():
        first = min(_wanted(view, place, parts, "gguf"))
        parent, _sep, folder = place.directory.rpartition("/")
        inner = posixpath.join(place.below, first)
        repo = place.repo
        if repo is None and parent and _QUANT.match(folder):
            # Each quantisation has a folder of its own below the repository's.
            repo = _plain_repo(view, parent)
            inner = posixpath.join(folder, first)
        elif repo is None and place.directory:
            repo = _plain_repo(view, place.directory)
        yield _judge(
            view,
            place,
            parts,
            "gguf",
            name=inner if repo is None else posixpath.join(repo, inner),
            path=posixpath.join(place.directory, first),
            repo=repo,
            quant=gguf_quant(first),
        )


def _wanted(view: _View, place: _Place, files: t.Iterable[_File], kind: str) -> t.Set[str]:
    """Return the names of the files that make up a format here, by the index, the numbering and what is there."""
    wanted = {name for name in view.indexed.get(place.directory, ()) if _format(name) == kind}
    for file in files:
        if _format(file.name) != kind or file.name in wanted:
            continue
        shard = _SHARD.match(file.name)
        if shard is None:
            wanted.add(file.name)
            continue
        stem, parts, suffix = shard.group("stem"), shard.group("parts"), shard.group("suffix")
        sep = file.name[len(stem)]
        for part in range(1, min(int(parts), _MAX_PARTS) + 1):
            wanted.add(f"{stem}{sep}{part:05d}-of-{parts}{suffix}")
    return wanted


def _judge(
    view: _View,
    place: _Place,
    files: t.Iterable[_File],
    kind: str,
    *,
    name: str,
    path: str,
    repo: t.Optional[str],
    quant: t.Optional[str] = None,
) -> Weights:
    files = tuple(files)
    wanted = sorted(_wanted(view, place, files, kind))
    finished = {file.name: file.size for file in files if file.finished}
    missing = tuple(one for one in wanted if one not in finished)
    return Weights(
        name=name,
        path=posixpath.normpath(posixpath.join(view.listing.root, path)),
        format=kind,
        state=_state(view.listing, whole=not missing),
        have=len(wanted) - len(missing),
        parts=len(wanted),
        size_bytes=sum(finished.get(one, 0) for one in wanted),
        repo=repo,
        revision=place.revision,
        refs=view.refs.get((place.repo or "", place.revision or ""), ()),
        quant=quant,
        files=tuple(one for one in wanted if one in finished),
        missing=missing[:MAX_MISSING_NAMED],
    )


def _state(listing: Listing, *, whole: bool) -> str:
    """Return the state; what a listing does not show may still be there where the listing was cut off."""
    if whole:
        return COMPLETE
    return PARTIAL if listing.whole else UNKNOWN


def gguf_quant(name: str) -> t.Optional[str]:
    """Return the quantisation that the name of a GGUF file ends in, in capitals, or None."""
    shard = _SHARD.match(name)
    match = _QUANT.search(shard.group("stem") if shard is not None else posixpath.splitext(name)[0])
    return match.group("quant").upper() if match is not None else None


def _judge_caches_without_weights(view: _View) -> t.Iterator[Weights]:
    """Yield the cache entries whose blobs are still under way and that show no weight file yet."""
    bases = {_in_blobs(path) for path in view.listing.files if path.endswith(".incomplete")}
    for base in filter(None, bases):
        repo = _repo_id(posixpath.basename(base)[len("models--") :])
        if repo not in view.repos:
            yield Weights(
                name=repo,
                path=posixpath.normpath(posixpath.join(view.listing.root, base)),
                format="unknown",
                state=_state(view.listing, whole=False),
                have=0,
                parts=None,
                size_bytes=0,
                repo=repo,
            )


def _without_doubles(models: t.Iterable[Weights]) -> t.Iterator[Weights]:
    """Yield each name of a cache once: GGUF files appear in every snapshot that was current when they came."""
    best: t.Dict[t.Tuple[str, t.Optional[str]], Weights] = {}
    for one in models:
        key = (one.name, None if one.revision is not None and one.format == "gguf" else one.path)
        other = best.get(key)
        if other is None or _rank(one) < _rank(other):
            best[key] = one
    return iter(best.values())


def _rank(one: Weights) -> t.Tuple[bool, bool, str]:
    return one.state != COMPLETE, "main" not in one.refs, one.path
