# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The rows of ``nvidia-smi --query-gpu=... --format=csv``, and what it prints instead of rows.

The tool writes its errors to standard output, sometimes between good rows, and with exit codes of its own. A row is
read by the names of its columns: those of a header, else those of the command. A GPU that the tool has lost is a GPU
with ``health`` and not a gap, so that the others keep their numbers.
"""

from __future__ import annotations

import csv
import re
import typing as t
from dataclasses import dataclass, replace

from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError

COLUMNS = ("index", "name", "memory.total", "compute_cap", "driver_version")
IDENTITY_COLUMNS = ("index", "uuid", "pci.bus_id", "mig.mode.current", "memory.reserved")

_SOURCE = "nvidia-smi"

# Other spellings of the same column.
_ALIASES = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_bus_id": "pci.bus_id",
    "mig.mode": "mig.mode.current",
}

# What stands where a value should be, in lower case and without its brackets: a word for it, and whether the GPU
# itself is in doubt.
_NO_VALUE = {
    "n/a": ("not_available", False),
    "not available": ("not_available", False),
    "not supported": ("unsupported", False),
    "unsupported": ("unsupported", False),
    "not active": ("not_available", False),
    "not found": ("not_available", False),
    "none": ("not_available", False),
    "unknown": ("unknown", False),
    "": ("missing", False),
    "insufficient permissions": ("insufficient_permissions", False),
    "no permission": ("insufficient_permissions", False),
    "unknown error": ("unknown_error", True),
    "err!": ("unknown_error", True),
    "err": ("unknown_error", True),
    "error": ("unknown_error", True),
    "gpu is lost": ("gpu_lost", True),
    "gpu access blocked by the operating system": ("insufficient_permissions", False),
    "gpu requires reset": ("needs_reset", True),
    "reset required": ("needs_reset", True),
}

# Sentences that the tool prints for the whole node, most telling first.
_ERRORS = tuple(
    (code, re.compile("|".join(patterns), re.IGNORECASE))
    for code, *patterns in (
        ("invalid_field", r"^field \"(?P<field>[^\"]*)\" is not a valid field to query"),
        ("driver_library_mismatch", r"driver/library version mismatch"),
        ("driver_not_loaded", r"couldn'?t communicate with the nvidia driver", r"driver (?:is )?not loaded"),
        (
            "nvml_not_found",
            r"couldn'?t find (?:the )?(?:libnvidia-ml|nvml)",
            r"nvml shared library (?:couldn'?t be )?not? ?found",
            r"error while loading shared libraries: libnvidia-ml",
        ),
        ("nvml_init_failed", r"failed to initialize nvml", r"nvidia-smi has failed because you do not have suff?i"),
        (
            "command_not_found",
            r"nvidia-smi\S*: (?:command )?not found",
            r"(?:command )?not found: \S*nvidia-smi",
            r"nvidia-smi\S*:? no such file or directory",
            r"no such file or directory:? \S*nvidia-smi",
            r"nvidia-smi\S* is not recognized as",
        ),
        ("command_failed", r"nvidia-smi\S*: (?:permission denied|cannot execute|exec format error|input/output error)"),
        ("gpu_lost", r"^gpu is lost", r"has fallen off the bus"),
        ("no_devices", r"no devices? (?:were|was) found", r"no (?:nvidia )?(?:gpus?|devices?) found"),
    )
)

# The exit codes that say as much as a sentence.
_EXIT_CODES = {
    4: "nvml_init_failed",
    6: "no_devices",
    9: "driver_not_loaded",
    12: "nvml_not_found",
    15: "gpu_lost",
    18: "driver_library_mismatch",
    127: "command_not_found",
}

# From here on the shell speaks and not the tool: not executable, killed by a signal.
_FIRST_SHELL_CODE = 126

_PCI_ADDRESS = re.compile(r"(?:([0-9a-f]{3,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE)
# "for GPU 0000:0B:00.0: GPU is lost" and, newer, "for GPU0: 0000:0B:00.0: ..." and "for GPU0000:0B:00.0: ...".
_LOST = re.compile(r"unable to determine the device handle for gpu\s*(?P<rest>.*)$", re.IGNORECASE)
_LOST_INDEX = re.compile(r"^(?P<index>[0-9]{1,3}):\s")
_AT_ADDRESS = re.compile(
    r"\b(?:at|for|of) gpu\s*:?\s*(?P<address>[0-9a-f]{3,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", re.IGNORECASE
)

_INTEGER = re.compile(r"[0-9]{1,9}", re.ASCII)
_MEMORY = re.compile(r"([0-9]{1,9})(?:\.[0-9]+)?\s*(mib|mb|gib|kib)?", re.IGNORECASE | re.ASCII)
_COMPUTE_CAP = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})", re.ASCII)
_DRIVER = re.compile(r"[0-9]{2,4}(?:\.[0-9A-Za-z_-]+)+", re.ASCII)
_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]+", re.ASCII)
_FIELD_NAME = re.compile(r"[a-z][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*(?: \[[^\]]*\])?", re.ASCII)
_QUERY = re.compile(r"--query-gpu[= ]+[\"']?([^\s\"'<>]+)")

_KNOWN_FIELDS = frozenset(COLUMNS + IDENTITY_COLUMNS + tuple(_ALIASES) + ("count", "timestamp", "serial", "pstate"))
# Of the longest output that the tool can print; what is longer is not of this tool.
_MAX_CARDS = 4096

Health = t.Tuple[str, str]


@dataclass(frozen=True)
class Card:
    """What the tool says of one GPU; ``None`` where it was not asked or does not know.

    ``memory_mib`` is the printed number. Where the tool was asked and gave none, ``memory_state`` says what stands
    there instead: ``not_available``, ``unified``, ``unsupported``, ``insufficient_permissions``, ``unknown_error``,
    ``gpu_lost``, ``needs_reset``, ``missing`` or ``unreadable``. ``health`` is ``None`` or a code and the words for it.
    ``mig`` is true or false where the GPU has that mode. ``notes`` name each field without a value.
    """

    index: t.Optional[int] = None
    name: t.Optional[str] = None
    memory_mib: t.Optional[int] = None
    memory_state: t.Optional[str] = None
    compute_cap: t.Optional[t.Tuple[int, int]] = None
    driver: t.Optional[str] = None
    uuid: t.Optional[str] = None
    pci_address: t.Optional[str] = None
    mig: t.Optional[bool] = None
    reserved_mib: t.Optional[int] = None
    health: t.Optional[Health] = None
    notes: t.Tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """All that one query gave: its GPUs, lost ones last, and the lines that are no GPU."""

    cards: t.Tuple[Card, ...]
    warnings: t.Tuple[str, ...] = ()


def parse_query(
    stdout: str,
    *,
    stderr: str = "",
    rc: t.Optional[int] = 0,
    command: t.Optional[str] = None,
    columns: t.Sequence[str] = COLUMNS,
) -> t.List[Card]:
    """Read the GPUs of a query whose columns are those of its header, of ``command`` or the given ones.

    A text without any readable row is ``ParseError``. Its ``code`` is ``driver_not_loaded``, ``nvml_not_found``,
    ``driver_library_mismatch``, ``nvml_init_failed``, ``no_devices``, ``gpu_lost``, ``invalid_field``,
    ``command_not_found``, ``command_failed`` or ``unparsable_rows``.
    """
    return list(read_query(stdout, stderr=stderr, rc=rc, command=command, columns=columns).cards)


def read_query(
    stdout: str,
    *,
    stderr: str = "",
    rc: t.Optional[int] = 0,
    command: t.Optional[str] = None,
    columns: t.Sequence[str] = COLUMNS,
) -> Answer:
    """Read a query like ``parse_query``, and keep the warnings that stand around the rows."""
    asked = tuple(columns_of(command) or columns)
    reader = _Reader(asked, named=columns_of(command) is not None)
    for line in _lines(stdout):
        reader.read(line)
    for line in _lines(stderr):
        reader.read(line, is_error=True)
    return reader.answer(rc)


def failure(stdout: str, *, stderr: str = "", rc: t.Optional[int] = 0) -> ParseError:
    """Return the error, with a code of ``parse_query``, for a text of this tool in which nothing was found."""
    reader = _Reader((), named=True)
    for text in (stdout, stderr):
        for line in _lines(text):
            reader.read(line, is_error=True)
    return reader.failure(rc)


def columns_of(command: t.Optional[str]) -> t.Optional[t.Tuple[str, ...]]:
    """Give the columns that a command line asks for, or ``None`` where it does not name them."""
    match = _QUERY.search(command or "")
    return tuple(_canonical(name) for name in match.group(1).split(",") if name) or None if match else None


def normalise_address(text: t.Optional[str]) -> t.Optional[str]:
    """Write a PCI address as the kernel does (``0000:41:00.0``); the tool prints capitals and an 8-digit domain."""
    match = _PCI_ADDRESS.search(text or "")
    if not match:
        return None
    domain = int(match.group(1) or "0", 16)
    return f"{domain:04x}:{match.group(2)}:{match.group(3)}.{match.group(4)}".lower()


class _Reader:
    """Sorts the lines of one answer into rows, lost GPUs, errors and warnings."""

    def __init__(self, columns: t.Sequence[str], *, named: bool) -> None:
        self.columns = tuple(columns)
        self.named = named
        self.has_header = False
        self.cards: t.List[Card] = []
        self.lost: t.List[Card] = []
        self.last_was_lost = False
        self.errors: t.List[ParseError] = []
        self.warnings: t.List[str] = []

    def read(self, line: str, *, is_error: bool = False) -> None:
        """Take one line that is not blank."""
        after_lost, self.last_was_lost = self.last_was_lost, False
        if self._read_lost(line) or self._read_error(line):
            return
        fields = _split(line)
        if not is_error:
            header = _header(fields)
            if header:
                self.columns = header
                self.has_header = True
                return
            if len(self.cards) < _MAX_CARDS and self._read_row(fields, after_lost=after_lost):
                return
        self.warnings.append(line)

    def _read_lost(self, line: str) -> bool:
        match = _LOST.search(line)
        if not match:
            return False
        rest = match.group("rest").strip()
        index = _LOST_INDEX.match(rest)
        reason = _PCI_ADDRESS.sub("", rest).strip(": ")
        code = _NO_VALUE.get(reason.split(".")[0].strip().lower(), ("gpu_lost", True))[0]
        health = ("needs_reset" if code == "needs_reset" else "gpu_lost", line)
        number = int(index.group("index")) if index else None
        self.lost.append(Card(index=number, pci_address=normalise_address(rest), health=health))
        self.last_was_lost = True
        return True

    def _read_error(self, line: str) -> bool:
        for code, pattern in _ERRORS:
            match = pattern.search(line)
            if match:
                field = match.groupdict().get("field")
                self.errors.append(ParseError(_SOURCE, code, detail=line, field=field))
                return True
        return False

    def _read_row(self, fields: t.List[str], *, after_lost: bool) -> bool:
        columns = self.columns
        if not self.named and not self.has_header:
            columns = _without_compute_cap(columns, fields)
        card = _card(columns, fields, lenient=self.has_header)
        if card is None:
            return False
        if after_lost and card.index is None and card.name is None and card.health:
            # The row of the GPU that the line before this one is about: it has nothing to add.
            return True
        self.cards.append(card)
        return True

    def answer(self, rc: t.Optional[int]) -> Answer:
        """Give the GPUs, or say why there are none."""
        if not self.cards:
            raise self.failure(rc)
        cards = [self._with_warning(card) for card in self.cards]
        for lost in self.lost:
            places = [place for place, card in enumerate(cards) if card.pci_address == lost.pci_address]
            if lost.pci_address is None or not places:
                cards.append(lost)
            for place in places if lost.pci_address else ():
                cards[place] = replace(cards[place], health=cards[place].health or lost.health)
        return Answer(tuple(cards), tuple(self.warnings) + tuple(error.detail for error in self.errors))

    def _with_warning(self, card: Card) -> Card:
        """Hang a warning that names the GPU's address on the GPU."""
        notes = []
        for line in self.warnings:
            match = _AT_ADDRESS.search(line)
            if match and card.pci_address and normalise_address(match.group("address")) == card.pci_address:
                notes.append(line)
        return replace(card, notes=card.notes + tuple(notes)) if notes else card

    def failure(self, rc: t.Optional[int]) -> ParseError:
        """Say why there is no GPU."""
        if self.errors:
            order = [code for code, _pattern in _ERRORS]
            return min(self.errors, key=lambda error: order.index(error.code))
        if self.lost:
            lost = self.lost[0]
            return ParseError(_SOURCE, "gpu_lost", detail=(lost.health or ("", ""))[1], pci_address=lost.pci_address)
        detail = self.warnings[0][:200] if self.warnings else ""
        if rc in _EXIT_CODES:
            return ParseError(_SOURCE, _EXIT_CODES[rc], detail=detail)
        if self.warnings and (rc is None or rc < _FIRST_SHELL_CODE):
            return ParseError(_SOURCE, "unparsable_rows", detail=detail)
        return ParseError(_SOURCE, "command_failed" if rc else "no_devices", detail=detail or f"exit code {rc}")


def _lines(text: str) -> t.Iterator[str]:
    for line in text.replace("\ufeff", "").replace("\r", "\n").replace("\0", "").split("\n"):
        stripped = line.strip()
        if stripped:
            yield stripped


def _split(line: str) -> t.List[str]:
    """Split a row. The tool quotes nothing; what passed through other hands may be quoted, field by field or whole."""
    if '"' not in line:
        return [field.strip() for field in line.split(",")]
    if line.count('"') == 2 and line[0] == line[-1] == '"':
        return [field.strip() for field in line[1:-1].split(",")]
    try:
        rows = list(csv.reader([line], skipinitialspace=True, strict=True))
    except csv.Error:
        # Behind an odd quote it is open what belongs to which field.
        rows = []
    return [field.strip() for field in rows[0]] if rows else []


def _canonical(name: str) -> str:
    bare = name.strip().split(" [")[0]
    return _ALIASES.get(bare, bare)


def _header(fields: t.Sequence[str]) -> t.Optional[t.Tuple[str, ...]]:
    """Give the columns where these fields are the names of columns."""
    if not fields or not all(_FIELD_NAME.fullmatch(field) for field in fields):
        return None
    names = tuple(_canonical(field) for field in fields)
    return names if any(name in _KNOWN_FIELDS for name in names) else None


def _without_compute_cap(columns: t.Tuple[str, ...], fields: t.Sequence[str]) -> t.Tuple[str, ...]:
    """Drop the column that old drivers refuse, where a row of them can be told by its last field."""
    if columns == COLUMNS and len(fields) == len(columns) - 1 and _DRIVER.fullmatch(fields[-1]):
        return tuple(column for column in columns if column != "compute_cap")
    return columns


def _card(columns: t.Sequence[str], fields: t.List[str], *, lenient: bool) -> t.Optional[Card]:
    """Read one row, or give ``None`` where the fields are none: a sentence must never become a GPU."""
    fields = _fit_name(columns, fields)
    if len(fields) > len(columns):
        return None
    is_short = len(fields) < len(columns)
    # Without a number in front a short row cannot be told from a sentence with commas.
    if is_short and (columns[0] != "index" or len(fields) < 2 or not _INTEGER.fullmatch(fields[0])):
        return None
    row = dict(zip(columns, fields))
    values = {column: _VALUES[column](text) for column, text in row.items() if column in _VALUES}
    doubts = {column: _no_value(text) for column, text in row.items() if values.get(column) is None}
    unreadable = [column for column in values if values[column] is None and doubts[column] is None]
    index_is_read = values.get("index") is not None
    if "index" in unreadable or len(unreadable) > (1 if index_is_read else 0):
        return None
    if not _is_row(columns, row, values, lenient=lenient):
        return None
    return _build(row, values, doubts, unreadable, is_short=is_short)


def _is_row(
    columns: t.Sequence[str], row: t.Mapping[str, str], values: t.Mapping[str, t.Any], *, lenient: bool
) -> bool:
    """Ask for something that only a row has: a value of a column whose form is known."""
    if any(values.get(column) is not None for column in values if column != "name"):
        return True
    if all(_no_value(text) for text in row.values()):
        # A GPU that gives nothing but errors; one bracketed word alone could come from anywhere.
        return len(columns) > 1 and any(_is_in_doubt(text) for text in row.values())
    # Names only: nothing in them has a form, so a header or brackets in other columns must vouch for the row.
    has_brackets = any(text.startswith("[") and _no_value(text) for text in row.values())
    return values.get("name") is not None and (lenient or has_brackets)


def _build(
    row: t.Mapping[str, str],
    values: t.Mapping[str, t.Any],
    doubts: t.Mapping[str, t.Optional[t.Tuple[str, bool]]],
    unreadable: t.Sequence[str],
    *,
    is_short: bool,
) -> Card:
    notes = []
    health: t.Optional[Health] = None
    for column in values:
        doubt = doubts.get(column)
        # Most GPUs have no MIG mode, and say so in these words.
        if values[column] is None and (column != "mig.mode.current" or column in unreadable):
            notes.append(f"{column}: {row[column]}")
        # Only what identifies a GPU puts it in doubt: a sensor that gives an error is common on GPUs that work.
        if doubt and doubt[1] and (health is None or doubt[0] != "unknown_error"):
            health = (doubt[0], f"{column}: {row[column]}")
    if is_short and health is None:
        health = ("short_row", "the row ends early: " + ", ".join(row.values()))
    memory_state: t.Optional[str] = None
    if "memory.total" in row and values["memory.total"] is None:
        doubt = doubts["memory.total"]
        memory_state = doubt[0] if doubt else "unreadable"
        if memory_state in ("not_available", "unsupported") and _is_unified(values.get("name")):
            memory_state = "unified"
    return Card(
        index=values.get("index"),
        name=values.get("name"),
        memory_mib=values.get("memory.total"),
        memory_state=memory_state,
        compute_cap=values.get("compute_cap"),
        driver=values.get("driver_version"),
        uuid=values.get("uuid"),
        pci_address=values.get("pci.bus_id"),
        mig=values.get("mig.mode.current"),
        reserved_mib=values.get("memory.reserved"),
        health=health,
        notes=tuple(notes),
    )


def _fit_name(columns: t.Sequence[str], fields: t.List[str]) -> t.List[str]:
    """Put a name with commas together again: the only column that can hold one."""
    surplus = len(fields) - len(columns)
    if surplus <= 0 or "name" not in columns:
        return fields
    start = list(columns).index("name")
    end = start + surplus + 1
    return [*fields[:start], ", ".join(fields[start:end]), *fields[end:]]


def _no_value(text: str) -> t.Optional[t.Tuple[str, bool]]:
    """Say what the words in place of a value mean, or ``None`` for a value."""
    bare = text.strip()
    if bare.startswith("[") and bare.endswith("]"):
        words = bare[1:-1].strip().lower()
        return _NO_VALUE.get(words.rstrip(".!").strip(), _NO_VALUE.get(words, ("unknown", False)))
    return _NO_VALUE.get(bare.lower())


def _is_in_doubt(text: str) -> bool:
    found = _no_value(text)
    return bool(found and found[1])


def _is_unified(name: t.Optional[str]) -> bool:
    """Tell the parts that share the memory of their host: there is no number to print for them."""
    return bool(re.search(r"\bGB10\b|\b(?:Orin|Thor|Xavier|Tegra|Jetson)\b|\(nvgpu\)", name or "", re.IGNORECASE))


def _index(text: str) -> t.Optional[int]:
    return int(text) if _INTEGER.fullmatch(text) else None


def _name(text: str) -> t.Optional[str]:
    return None if _no_value(text) else text


def _memory(text: str) -> t.Optional[int]:
    match = _MEMORY.fullmatch(text)
    if not match:
        return None
    unit = (match.group(2) or "mib").lower()
    number = int(match.group(1))
    mib = number * 1024 if unit == "gib" else number // 1024 if unit == "kib" else number
    # No GPU has no memory: a 0 is a number that the tool did not get.
    return mib or None


def _reserved(text: str) -> t.Optional[int]:
    match = _MEMORY.fullmatch(text)
    return int(match.group(1)) if match else None


def _compute_cap(text: str) -> t.Optional[t.Tuple[int, int]]:
    match = _COMPUTE_CAP.fullmatch(text)
    pair = (int(match.group(1)), int(match.group(2))) if match else (0, 0)
    return pair if pair[0] else None


def _driver(text: str) -> t.Optional[str]:
    return text if _DRIVER.fullmatch(text) else None


def _uuid(text: str) -> t.Optional[str]:
    return text if _UUID.fullmatch(text) else None


def _address(text: str) -> t.Optional[str]:
    return normalise_address(text) if _PCI_ADDRESS.fullmatch(text) else None


def _mig(text: str) -> t.Optional[bool]:
    return {"enabled": True, "disabled": False}.get(text.lower())


_VALUES: t.Dict[str, t.Callable[[str], t.Any]] = {
    "index": _index,
    "name": _name,
    "memory.total": _memory,
    "compute_cap": _compute_cap,
    "driver_version": _driver,
    "uuid": _uuid,
    "pci.bus_id": _address,
    "mig.mode.current": _mig,
    "memory.reserved": _reserved,
}
