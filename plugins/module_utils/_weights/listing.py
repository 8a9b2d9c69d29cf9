# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

r"""The listing of the weight files below a directory: what prints it on a node, and what reads it.

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

import posixpath
import re
import typing as t
from dataclasses import dataclass, field

# What a listing may hold at most: a directory with more is not a directory of models.
MAX_ITEMS = 200_000

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


def _relative(path: str) -> str:
    return posixpath.normpath(path.lstrip("/") or ".")
