# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

# ruff: noqa: RUF001

"""The output of ``lscpu``, as text or with ``-J``, as lscpu(1) of util-linux 2.23 to 2.41 prints it in any language."""

from __future__ import annotations

import json
import math
import re
import typing as t

from ansible_collections.knaster.inventory.plugins.module_utils._parsers.cpuinfo import Cpu
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError, command_error

_INTEGER = re.compile(r"[0-9]{1,9}", re.ASCII)
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?(?::([0-9]{1,9}))?", re.ASCII)
_MAX_CPUS = 1 << 20

# The labels of the C locale, then those of other locales: what somebody saved by hand is in their own language.
_LABELS: t.Dict[str, t.Tuple[str, ...]] = {
    "cpus": (
        "cpu(s)", "cpu", "cpu'er", "cpu's", "cpu(-a)", "cpu(er)", "i̇şlemciler", "počet cpu", "processeur(s)",
        "процесори",
    ),
    "online": (
        "on-line cpu(s) list", "danh sách cpu trực tuyến", "lista aktywnych cpu", "lista das cpus online",
        "lista de cpu(s) on-line", "lista de la(s) cpu(s) en línea", "lista över aktiva cpu(er)",
        "liste de processeur(s) en ligne", "liste der online-cpu(s)", "online cpu's-lijst", "popis online cpu-a",
        "seznam zapnutých cpu", "tilkoblet cpu(er) liste", "çevrimiçi işlemci(ler) listesi", "список робочих цп",
        "オンラインになっている cpu のリスト", "在线 cpu 列表",
    ),
    "online_mask": ("on-line cpu(s) mask",),
    "offline": (
        "off-line cpu(s) list", "danh sách cpu ngoại tuyến", "frakoblet cpu(er) liste", "lista das cpus offline",
        "lista de cpu(s) off-line", "lista de la(s) cpu(s) fuera de línea", "lista nieaktywnych cpu",
        "lista över inaktiva cpu(er)", "liste de processeur(s) hors ligne", "liste der offline-cpu(s)",
        "offline cpu's-lijst", "popis offline cpu-a", "seznam vypnutých cpu", "çevrimiçi işlemci listesi",
        "список вимкнених цп", "オフラインになっている cpu のリスト", "离线 cpu 列表",
    ),
    "threads_per_core": (
        "thread(s) per core", "core bakoitzeko hari kopurua", "draden per kern", "dretva po jezgri",
        "hilo(s) de procesamiento por núcleo", "số tuyến mỗi lõi", "thread(s) par cœur", "thread(s) per núcleo",
        "thread(s) pro kern", "thread(s) setiap inti", "tråd(ar) per kärna", "tråde per kerne", "tópicos por núcleo",
        "vláken na jádro", "wątków na rdzeń", "çekirdek başına iş parçacığı", "потоків на ядро",
        "コアあたりのスレッド数", "每个核的线程数", "每核心執行緒數",
    ),
    "cores_per_socket": (
        "core(s) per socket", "cœur(s) par socket", "inti setiap soket", "jader na patici", "jezgra po podnožju",
        "kern(e) pro sockel", "kernen per voet", "kerner per sokkel", "kärn(or) per uttag", "núcleo(s) por soquete",
        "núcleo(s) por «socket»", "núcleos por socket", "rdzeni na gniazdo", "socket bakoitzeko core kopurua",
        "soket başına çekirdek", "số lõi mỗi đế cắm", "ядер на сокет", "ソケットあたりのコア数", "每个座的核数",
        "每通訊端核心數",
    ),
    "cores_per_cluster": (
        "core(s) per cluster", "cœur(s) par cluster", "jader na klastr", "jezgr(a/e) po klasteru",
        "kern(e) pro cluster", "núcleo(s) por cluster", "núcleo(s) por «cluster»", "núcleos por cluster",
        "rdzeni na klaster", "ядер на кластер",
    ),
    "sockets": (
        "socket(s)", "cpu podnožja", "cpu-voeten", "gniazd", "patic", "sockel", "sockets", "soket(ler)", "sokler",
        "soquete(s)", "số đế cắm", "uttag", "«socket(s)»", "сокети", "сокетов", "ソケット数", "座",
    ),
    "clusters": ("cluster(s)", "cluster", "klaster(i)", "klastrów", "klastrů", "«cluster(s)»", "кластери"),
    "sockets_per_book": ("socket(s) per book",),
    "books_per_drawer": ("book(s) per drawer",),
    "books": ("book(s)",),
    "drawers": ("drawer(s)",),
    "model": (
        "model name", "ime modela", "mallinimi", "modellname", "modellnamn", "modelnaam", "modelnavn", "modem ismi",
        "nazwa modelu", "nom de modèle", "nombre del modelo", "nome do modelo", "název modelu", "tên mô hình",
        "имя модели", "назва моделі", "モデル名", "型号名称",
    ),
}  # fmt: skip
_KEY_OF_LABEL = {label: key for key, labels in _LABELS.items() for label in labels}


def parse(stdout: str, *, stderr: str = "", rc: t.Optional[int] = 0) -> Cpu:
    """Return the processors, with their name where all of them are of one kind.

    :raises ParseError: ``command_not_found``, ``command_failed``, ``not_json`` or ``no_cpus`` where there is no number
    """
    text = stdout.replace("\ufeff", "").replace("\r", "")
    values = _collect(_json_fields(text) if text.lstrip().startswith("{") else _text_fields(text))
    online = _count_list(values.get("online")) or _count_mask(values.get("online_mask"))
    threads = online or _integer(values.get("cpus"))
    if not threads:
        raise command_error("lscpu", text, stderr, rc, code="no_cpus", empty="no_cpus")
    cores = _count_cores(values)
    if cores is None and threads == 1:
        cores = 1
    if cores is not None and not _is_credible(cores, threads, values):
        cores = None
    models = {name for name in values.get("model", ()) if name not in ("-", "", "unknown")}
    return Cpu(models.pop() if len(models) == 1 else None, cores, threads)


_Values = t.Dict[str, t.List[str]]


def _collect(fields: t.Iterable[t.Tuple[str, str]]) -> _Values:
    """Keep all values of a label: on a machine with several kinds of cores each kind has its own block."""
    values: _Values = {}
    for label, value in fields:
        key = _KEY_OF_LABEL.get(label.strip().rstrip(":：").strip().lower())
        if key:
            values.setdefault(key, []).append(value.strip())
    return values


def _text_fields(text: str) -> t.Iterator[t.Tuple[str, str]]:
    for line in text.split("\n"):
        match = re.match(r"\s*([^:：]+)[:：](.*)", line)
        if match:
            yield match.group(1), match.group(2)


def _json_fields(text: str) -> t.List[t.Tuple[str, str]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ParseError("lscpu", "not_json", detail=str(error)) from error
    fields: t.List[t.Tuple[str, str]] = []
    todo = [document.get("lscpu")]
    while todo:
        entries = todo.pop(0)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict):
                # Numbers are strings so far; a later version may type them.
                fields.append((str(entry.get("field", "")), str(entry.get("data", ""))))
                todo.append(entry.get("children"))
    return fields


def _count_cores(values: _Values) -> t.Optional[int]:
    """Return the number of cores; None where the levels do not say.

    Every kind of core has its own "cores per socket", and all kinds sit in the same sockets.
    """
    counts = _integers(values, "sockets")
    sockets = max((count for count in counts if count), default=None) or _sockets_of_drawers(values)
    per_socket = _integers(values, "cores_per_socket")
    if per_socket and None not in per_socket:
        padded = [*counts, *([None] * len(per_socket))]
        return _sum_of_products(per_socket, [count or sockets for count in padded[: len(per_socket)]])
    per_cluster, clusters = _integers(values, "cores_per_cluster"), _integers(values, "clusters")
    return _sum_of_products(per_cluster, clusters) if len(per_cluster) == len(clusters) else None


def _sum_of_products(cores: t.Sequence[t.Optional[int]], counts: t.Sequence[t.Optional[int]]) -> t.Optional[int]:
    if None in (*cores, *counts):
        return None
    return sum(t.cast("int", one) * t.cast("int", count) for one, count in zip(cores, counts)) or None


def _sockets_of_drawers(values: _Values) -> t.Optional[int]:
    """Multiply the levels that stand in for the line of sockets on a mainframe."""
    above = ("books_per_drawer", "drawers") if "books_per_drawer" in values else ("books",)
    levels = [_integer(values.get(name)) for name in ("sockets_per_book", *above)]
    return None if None in levels else math.prod(t.cast("t.List[int]", levels)) or None


def _is_credible(cores: int, threads: int, values: _Values) -> bool:
    """Return whether the product of the levels can be the number of cores that are online.

    With some CPUs offline the levels describe a machine that is not quite there: cores then exceed the threads, or
    one thread on each core makes less than there are.
    """
    if cores > threads:
        return False
    is_partial = bool(values.get("offline"))
    widest = max((count or 0 for count in _integers(values, "threads_per_core")), default=0)
    return not (is_partial and widest and cores * widest < threads)


def _integer(values: t.Optional[t.Sequence[str]]) -> t.Optional[int]:
    """Return the first value where it is a number at all ("-" stands for one that the tool does not know)."""
    return int(values[0]) if values and _INTEGER.fullmatch(values[0]) else None


def _integers(values: _Values, name: str) -> t.List[t.Optional[int]]:
    return [_integer([text]) for text in values.get(name, ())]


def _count_list(values: t.Optional[t.Sequence[str]]) -> int:
    """Return how many a list such as ``0-3,8,10-14:2`` names; 0 for other text."""
    total = 0
    for item in values[0].split(",") if values else ():
        match = _RANGE.fullmatch(item.strip())
        if not match:
            return 0
        first = int(match.group(1))
        last = int(match.group(2) or first)
        step = int(match.group(3) or 1)
        if last < first or not step or last > _MAX_CPUS:
            return 0
        total += (last - first) // step + 1
    return total


def _count_mask(values: t.Optional[t.Sequence[str]]) -> int:
    """Return how many bits a mask such as ``0xff`` or ``ff,ffffffff`` has set; 0 for other text."""
    text = values[0].replace(",", "") if values else ""
    text = text[2:] if text.startswith("0x") else text
    return bin(int(text, 16)).count("1") if re.fullmatch(r"[0-9a-f]{1,5000}", text) else 0
