# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

r"""Which models a directory holds, judged from a listing of its files.

A listing is text, one line an item, every path relative to the directory that was listed. A tab separates two paths::

    f SIZE PATH            a regular file
    l SIZE PATH\tTARGET    a symbolic link, as it is written
    i PATH\tNAME           the index file PATH names the weight file NAME (one line for each name)
    r PATH\tREVISION       the file PATH of a download cache's ``refs`` names this revision
    p PATH                 a weight file that is only a Git LFS pointer
    end                    the listing is whole; without this line it was cut off

Lines of ``ls -ldn`` stand for ``f`` and ``l`` lines. What is not understood is skipped.
"""

from __future__ import annotations

import json
import posixpath
import re
import typing as t
from dataclasses import dataclass, field

COMPLETE = "complete"
PARTIAL = "partial"
UNKNOWN = "unknown"
ABSENT = "absent"

# What a listing may hold at most: a directory with more is not a directory of models.
MAX_ITEMS = 200_000
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
_LS = re.compile(
    r"^(?P<type>[-l])[-rwxsStT]{9}[.+@]?\s+\d+\s+\d+\s+\d+\s+(?P<size>\d+)\s+\S+\s+\S+\s+\S+ (?P<rest>.+)$"
)
_PLAIN = re.compile(r"^(?P<type>[fl]) (?P<size>\d+) (?P<rest>.+)$")

# Prints the listing of the directory $1, $2 levels deep, or only of what is below $3 in it, in any POSIX shell. It
# reads only indexes, the revisions that a cache notes, and the first line of files too small to be weights; of links
# it follows only those of a cache to its own blobs.
LIST_FUNCTION = r"""
list_weights() {
  cd -- "$1" || return 1
  find "${3:-.}" -maxdepth "${2:-8}" \( -name .git -o -name .no_exist -o -name .locks \) -prune \
    -o \( -type f -o -type l \) \( -name '*.safetensors*' -o -name '*.gguf*' -o -name '*.bin*' -o -name '*.pth*' \
    -o -name '*.pt' -o -path '*/models--*/blobs/*' \) -exec ls -ldn {} +
  walked=$?
  find "${3:-.}" -maxdepth "${2:-8}" \( -name .git -o -name .no_exist -o -name .locks \) -prune \
    -o \( -type f -o -type l \) \( -name '*.index.json' -o -size -2 \( -path '*/models--*/refs/*' \
    -o -name '*.safetensors' -o -name '*.gguf' -o -name '*.bin' \) \) -print |
    head -n 20000 | while IFS= read -r file; do
    if [ -L "$file" ]; then
      case $file in *.index.json) ;; *) continue ;; esac
      case $(readlink "$file") in
      */blobs/*[!0-9a-f]*) continue ;;
      ../../blobs/* | ../../../blobs/*) ;;
      *) continue ;;
      esac
    fi
    case $file in
    *.index.json)
      head -c 33554432 "$file" | grep -o -e '"[^"]*\.safetensors"' -e '"[^"]*\.bin"' | sort -u |
        while IFS= read -r name; do
          name=${name#\"}
          printf 'i %s\t%s\n' "$file" "${name%\"}"
        done ;;
    */refs/*)
      revision=
      IFS= read -r revision <"$file"
      printf 'r %s\t%s\n' "$file" "$revision" ;;
    *)
      first=
      IFS= read -r first <"$file"
      case $first in 'version https://git-lfs'*) printf 'p %s\n' "$file" ;; esac ;;
    esac
  done
  [ "$walked" = 0 ] && echo end
}
"""


@dataclass(frozen=True)
class Listing:
    """What lies below one directory; ``whole`` is false where the listing was cut off or could not be finished."""

    root: str
    files: t.Mapping[str, int] = field(default_factory=dict)
    links: t.Mapping[str, str] = field(default_factory=dict)
    indexes: t.Mapping[str, t.Tuple[str, ...]] = field(default_factory=dict)
    refs: t.Mapping[str, str] = field(default_factory=dict)
    pointers: t.FrozenSet[str] = frozenset()
    whole: bool = True


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

    @property
    def text(self) -> str:
        """The state as people read it: ``complete``, ``partial 1 of 2``."""
        if self.state != PARTIAL:
            return self.state
        return f"{PARTIAL} {self.have} of {'?' if self.parts is None else self.parts}"


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


def index_names(text: str) -> t.Tuple[str, ...]:
    """Return the weight files that the text of an index file names, sorted; none where it is no index."""
    try:
        weight_map = json.loads(text)["weight_map"]
        return tuple(sorted({name for name in weight_map.values() if isinstance(name, str) and name}))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ()


def parse_listing(root: str, text: str) -> Listing:
    """Return the listing of ``root`` that the text says, as far as it can be read."""
    files: t.Dict[str, int] = {}
    links: t.Dict[str, str] = {}
    indexes: t.Dict[str, t.List[str]] = {}
    refs: t.Dict[str, str] = {}
    pointers: t.Set[str] = set()
    whole = False
    for number, raw in enumerate(text.split("\n")):
        if number >= MAX_ITEMS:
            whole = False
            break
        line = raw.rstrip("\r")
        if line == "end":
            whole = True
            continue
        match = _PLAIN.match(line) or _LS.match(line)
        if match is not None:
            rest = match.group("rest")
            if match.group("type") == "l":
                path, _sep, target = rest.partition("\t" if "\t" in rest else " -> ")
                if target:
                    links[_relative(path)] = target
            else:
                files[_relative(rest)] = int(match.group("size"))
            continue
        kind, _sep, rest = line.partition(" ")
        path, _sep, value = rest.partition("\t")
        if kind == "i" and value:
            indexes.setdefault(_relative(path), []).append(value)
        elif kind == "r" and value:
            refs[_relative(path)] = value.strip()
        elif kind == "p" and path:
            pointers.add(_relative(path))
    return Listing(
        root=root,
        files=files,
        links=links,
        indexes={path: tuple(sorted(set(names))) for path, names in indexes.items()},
        refs=refs,
        pointers=frozenset(pointers),
        whole=whole,
    )


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
    plain: t.Dict[str, t.Any] = {"name": one.name, "path": one.path, "size_gb": size_gb(one.size_bytes)}
    if shared is not None:
        plain["shared"] = shared
    plain["format"] = one.format
    plain["state"] = one.state
    if one.state != COMPLETE:
        plain["parts"] = {"have": one.have, "of": one.parts}
        if one.missing:
            plain["missing"] = list(one.missing)
    for key in ("repo", "revision", "quant"):
        value = getattr(one, key)
        if value is not None:
            plain[key] = value
    if one.refs:
        plain["refs"] = list(one.refs)
    return plain


def size_gb(size_bytes: int) -> t.Optional[float]:
    """Return decimal gigabytes, whole from ten up and with one place below, so that what is small is not zero."""
    if size_bytes <= 0:
        return None
    size = size_bytes / 1e9
    return int(size + 0.5) if size >= 10 else max(0.1, int(size * 10 + 0.5) / 10)


def is_path(source: str) -> bool:
    """Return whether a source is a path of the node and not the id of a repository."""
    return source.startswith(("/", "./", "../", "~"))


def find_weights(
    weights: t.Optional[t.Iterable[t.Mapping[str, t.Any]]], source: t.Optional[str]
) -> t.Optional[t.Mapping[str, t.Any]]:
    """Return the entry of a profile's ``weights`` that is the source, a complete one where there is one, else None."""
    if not source or not weights:
        return None
    partial = None
    for entry in weights:
        if not _answers_to(entry, source):
            continue
        if entry.get("state", COMPLETE) == COMPLETE:
            return entry
        if partial is None:
            partial = entry
    return partial


def holds(weights: t.Optional[t.Iterable[t.Mapping[str, t.Any]]], source: t.Optional[str]) -> bool:
    """Return whether a node with these ``weights`` holds the model of this source, whole."""
    entry = find_weights(weights, source)
    return entry is not None and entry.get("state", COMPLETE) == COMPLETE


def _answers_to(entry: t.Mapping[str, t.Any], source: str) -> bool:
    path = entry.get("path")
    if is_path(source):
        return isinstance(path, str) and posixpath.normpath(path) == posixpath.normpath(source)
    asked = source.casefold()
    name = entry.get("name")
    if not isinstance(name, str):
        return False
    if name.casefold() == asked:
        return True
    repo = entry.get("repo")
    if not isinstance(repo, str):
        return False
    names = [f"{repo}@{one}" for one in (entry.get("revision"), *(entry.get("refs") or ())) if one]
    if entry.get("quant"):
        names = [f"{repo}:{entry['quant']}"]
    return any(one.casefold() == asked for one in names)


def _relative(path: str) -> str:
    return posixpath.normpath(path.lstrip("/") or ".")


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


def without_copies(names: t.Iterable[str]) -> t.List[str]:
    """Return the names without those of the same weights in the form of Mistral, where the common form is there too."""
    names = list(names)
    common = [name for name in names if not name.startswith("consolidated")]
    return common or names


def _wanted(view: _View, place: _Place, files: t.Iterable[_File], kind: str) -> t.Set[str]:
    """Return the names of the files that make up a format here, by the index, the numbering and what is there."""
    wanted = {name for name in view.indexed.get(place.directory, ()) if _format(name) == kind}
    present = [file.name for file in files if _format(file.name) == kind and file.name not in wanted]
    if kind == "safetensors":
        kept = without_copies((*wanted, *present))
        wanted, present = wanted.intersection(kept), [name for name in present if name in kept]
    for name in present:
        shard = _SHARD.match(name)
        if shard is None:
            wanted.add(name)
            continue
        stem, parts, suffix = shard.group("stem"), shard.group("parts"), shard.group("suffix")
        sep = name[len(stem)]
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
    bases = set()
    for path in view.listing.files:
        base = _in_blobs(path)
        if base is not None and path.endswith(".incomplete"):
            bases.add(base)
    for base in bases:
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
