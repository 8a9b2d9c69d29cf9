# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The lines of ``nvidia-smi --query-gpu=... --format=csv``: rows of values, lost GPUs, errors and other lines.

Format and exit codes: "Selective query options" and "Return value" of https://docs.nvidia.com/deploy/nvidia-smi/; the
sentences are those of drivers 304 to 590. The tool writes its errors to standard output, sometimes between good rows.
A row is read by the names of its columns: those of a header, else those of the command.
"""

from __future__ import annotations

import csv
import re
import typing as t
from dataclasses import dataclass, field

from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError
from ansible_collections.knaster.inventory.plugins.module_utils._pci import (
    Address,
    find_address,
    parse_device_address,
    without_address,
)

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


class Word(t.NamedTuple):
    """Words that stand where a value should be: a code for them, and whether the GPU itself is in doubt."""

    code: str
    in_doubt: bool = False


# By the words in lower case and without their brackets.
_WORDS = {
    "n/a": Word("not_available"),
    "not available": Word("not_available"),
    "not supported": Word("unsupported"),
    "unsupported": Word("unsupported"),
    "not active": Word("not_available"),
    "not found": Word("not_available"),
    "none": Word("not_available"),
    "unknown": Word("unknown"),
    "": Word("missing"),
    "insufficient permissions": Word("insufficient_permissions"),
    "no permission": Word("insufficient_permissions"),
    "gpu access blocked by the operating system": Word("insufficient_permissions"),
    "unknown error": Word("unknown_error", in_doubt=True),
    "err!": Word("unknown_error", in_doubt=True),
    "err": Word("unknown_error", in_doubt=True),
    "error": Word("unknown_error", in_doubt=True),
    "gpu is lost": Word("gpu_lost", in_doubt=True),
    "gpu requires reset": Word("needs_reset", in_doubt=True),
    "reset required": Word("needs_reset", in_doubt=True),
}

# Sentences that the tool prints for the whole node, most telling first.
_ERRORS = {
    code: re.compile("|".join(patterns), re.IGNORECASE)
    for code, *patterns in (
        ("invalid_field", r"^field \"[^\"]*\" is not a valid field to query"),
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
}
_RANKS = {code: rank for rank, code in enumerate(_ERRORS)}

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

# "for GPU 0000:0B:00.0: GPU is lost" and, newer, "for GPU0: 0000:0B:00.0: ..." and "for GPU0000:0B:00.0: ...".
_LOST = re.compile(r"unable to determine the device handle for gpu\s*(?P<rest>.*)$", re.IGNORECASE)
_LOST_INDEX = re.compile(r"^(?P<index>[0-9]{1,3}):\s")

_INTEGER = re.compile(r"([0-9]{1,9})", re.ASCII)
# With and without "nounits"; drivers before 331 write MB and mean the same.
_MEMORY = re.compile(r"([0-9]{1,9})(?:\.[0-9]+)?\s*(?:mi?b)?", re.IGNORECASE | re.ASCII)
_COMPUTE_CAP = re.compile(r"([1-9][0-9]?)\.([0-9]{1,2})", re.ASCII)
_DRIVER = re.compile(r"[0-9]{2,4}(?:\.[0-9A-Za-z_-]+)+", re.ASCII)
_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]+", re.ASCII)
_FIELD_NAME = re.compile(r"[a-z][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*(?: \[[^\]]*\])?", re.ASCII)
_QUERY = re.compile(r"--query-gpu[= ]+[\"']?([^\s\"'<>]+)")

_KNOWN_FIELDS = frozenset(COLUMNS + IDENTITY_COLUMNS + tuple(_ALIASES) + ("count", "timestamp", "serial", "pstate"))


@dataclass(frozen=True)
class Row:
    """One row: of each column its text, and its value or the words in place of one.

    :ivar values: by column, only those that could be read
    :ivar words: by column, only where words stand in place of a value
    :ivar is_short: whether it ends before the last column
    """

    texts: t.Mapping[str, str]
    values: t.Mapping[str, t.Any]
    words: t.Mapping[str, Word]
    is_short: bool = False

    @classmethod
    def of_fields(cls, fields: t.List[str], columns: t.Sequence[str], *, has_header: bool) -> t.Optional[Row]:
        """Return the row that these fields are, or None: a sentence must never become a GPU.

        :param has_header: whether the columns are those of a header
        """
        fields = _with_whole_name(fields, columns)
        is_short = len(fields) < len(columns)
        # Without a number in front a short row cannot be told from a sentence with commas.
        starts_with_number = columns[:1] == ("index",) and len(fields) > 1 and _INTEGER.fullmatch(fields[0])
        if len(fields) > len(columns) or (is_short and not starts_with_number):
            return None
        texts = dict(zip(columns, fields))
        read = {column: _READERS[column](text) for column, text in texts.items() if column in _READERS}
        values = {column: value for column, value in read.items() if value is not None}
        words = {column: _word(text) for column, text in texts.items() if column not in values}
        known = {column: word for column, word in words.items() if word is not None}
        row = cls(texts, values, known, is_short)
        return row if row._is_credible(has_header=has_header) else None

    @property
    def unreadable(self) -> t.List[str]:
        """Return the columns whose text is neither a value nor words that the tool prints in place of one."""
        return [name for name in self.texts if name in _READERS and name not in self.values and name not in self.words]

    @property
    def doubts(self) -> t.Dict[str, Word]:
        """Return the words that put the GPU in doubt, by column.

        Only in what identifies a GPU: a sensor that gives an error is common on GPUs that work.
        """
        return {name: word for name, word in self.words.items() if word.in_doubt and name in _READERS}

    def _is_credible(self, *, has_header: bool) -> bool:
        """Return whether it has something that only a row has: a value of a column whose form is known."""
        if "index" in self.unreadable or len(self.unreadable) > ("index" in self.values):
            return False
        if self.values.keys() - {"name"}:
            return True
        if len(self.words) == len(self.texts):
            # A GPU that gives nothing but errors; one bracketed word alone could come from anywhere.
            return len(self.texts) > 1 and any(word.in_doubt for word in self.words.values())
        # Names only: nothing in them has a form, so a header or brackets in other columns must vouch for the row.
        return "name" in self.values and (has_header or any(self.texts[name].startswith("[") for name in self.words))


@dataclass(frozen=True)
class LostGpu:
    """A GPU that the tool finds and cannot ask: its number and address, where the line says them."""

    line: str
    code: str
    index: t.Optional[int] = None
    address: t.Optional[Address] = None

    @classmethod
    def of_line(cls, line: str) -> t.Optional[LostGpu]:
        """Return the GPU that a line is about, or None where it is about none."""
        match = _LOST.search(line)
        if not match:
            return None
        rest = match.group("rest").strip()
        index = _LOST_INDEX.match(rest)
        reason = without_address(rest).strip(": ").split(".")[0].strip().lower()
        needs_reset = _WORDS.get(reason, Word("gpu_lost")).code == "needs_reset"
        return cls(
            line=line,
            code="needs_reset" if needs_reset else "gpu_lost",
            index=int(index.group("index")) if index else None,
            address=find_address(rest),
        )


@dataclass(frozen=True)
class Lines:
    """The lines of one answer, sorted by what they are; ``others`` are those that are none of the rest."""

    rows: t.List[Row] = field(default_factory=list)
    lost: t.List[LostGpu] = field(default_factory=list)
    errors: t.List[ParseError] = field(default_factory=list)
    others: t.List[str] = field(default_factory=list)

    def failure(self, rc: t.Optional[int]) -> ParseError:
        """Return the error of an answer without a row.

        Its code is ``driver_not_loaded``, ``nvml_not_found``, ``driver_library_mismatch``, ``nvml_init_failed``,
        ``no_devices``, ``gpu_lost``, ``invalid_field``, ``command_not_found``, ``command_failed`` or
        ``unparsable_rows``.
        """
        if self.errors:
            return min(self.errors, key=lambda error: _RANKS[error.code])
        if self.lost:
            return ParseError(_SOURCE, "gpu_lost", detail=self.lost[0].line)
        detail = self.others[0][:200] if self.others else ""
        code = "command_failed" if rc else "no_devices"
        if rc in _EXIT_CODES:
            return ParseError(_SOURCE, _EXIT_CODES[rc], detail=detail)
        if self.others and (rc is None or rc < _FIRST_SHELL_CODE):
            code = "unparsable_rows"
        return ParseError(_SOURCE, code, detail=detail or f"exit code {rc}")


def sort_lines(
    stdout: str, *, stderr: str = "", command: t.Optional[str] = None, columns: t.Sequence[str] = COLUMNS
) -> Lines:
    """Return the lines of an answer whose columns are those of its header, of ``command`` or the given ones."""
    asked = columns_of(command)
    known = tuple(asked or columns)
    has_header = after_lost = False
    found = Lines()
    streams = ((line, is_error) for text, is_error in ((stdout, False), (stderr, True)) for line in split_lines(text))
    for line, is_error in streams:
        lost, error = LostGpu.of_line(line), _error_of(line)
        fields = [] if lost or error or is_error else _split(line)
        header = _header(fields)
        if lost:
            found.lost.append(lost)
        elif error:
            found.errors.append(error)
        elif header:
            known, has_header = header, True
        else:
            in_row = known if asked or has_header else _without_compute_cap(known, fields)
            row = Row.of_fields(fields, in_row, has_header=has_header) if fields else None
            if row is None:
                found.others.append(line)
            elif not (after_lost and row.doubts and not {"index", "name"} & row.values.keys()):
                # Not the row of the GPU that the line before is about: that one has nothing to add.
                found.rows.append(row)
        after_lost = lost is not None
    return found


def failure(stdout: str, *, stderr: str = "", rc: t.Optional[int] = 0) -> ParseError:
    """Return the error, with a code of ``Lines.failure``, for a text of this tool in which nothing was found."""
    return sort_lines("", stderr=f"{stdout}\n{stderr}").failure(rc)


def columns_of(command: t.Optional[str]) -> t.Optional[t.Tuple[str, ...]]:
    """Return the columns that a command line asks for, or None where it does not name them."""
    match = _QUERY.search(command or "")
    return tuple(_canonical(name) for name in match.group(1).split(",") if name) or None if match else None


def split_lines(text: str) -> t.Iterator[str]:
    """Yield the lines of an output of nvidia-smi that are not blank, without the blanks around them."""
    for line in text.replace("\ufeff", "").replace("\r", "\n").replace("\0", "").split("\n"):
        stripped = line.strip()
        if stripped:
            yield stripped


def _error_of(line: str) -> t.Optional[ParseError]:
    code = next((code for code, pattern in _ERRORS.items() if pattern.search(line)), None)
    return ParseError(_SOURCE, code, detail=line) if code else None


def _split(line: str) -> t.List[str]:
    """Split a row. The tool quotes nothing; what passed through other hands may be quoted, field by field or whole."""
    if line.count('"') == 2 and line[0] == line[-1] == '"':
        line = line[1:-1]
    try:
        rows = list(csv.reader([line], skipinitialspace=True, strict=True)) if '"' in line else [line.split(",")]
    except csv.Error:
        # Behind an odd quote it is open what belongs to which field.
        rows = []
    return [field.strip() for field in rows[0]] if rows else []


def _canonical(name: str) -> str:
    bare = name.strip().split(" [")[0]
    return _ALIASES.get(bare, bare)


def _header(fields: t.Sequence[str]) -> t.Optional[t.Tuple[str, ...]]:
    """Return the columns where these fields are the names of columns."""
    if not all(_FIELD_NAME.fullmatch(field) for field in fields):
        return None
    names = tuple(_canonical(field) for field in fields)
    return names if _KNOWN_FIELDS.intersection(names) else None


def _without_compute_cap(columns: t.Tuple[str, ...], fields: t.Sequence[str]) -> t.Tuple[str, ...]:
    """Drop the column that drivers before 510 refuse, where a row of them can be told by its last field."""
    if columns == COLUMNS and len(fields) == len(columns) - 1 and _DRIVER.fullmatch(fields[-1]):
        return tuple(column for column in columns if column != "compute_cap")
    return columns


def _with_whole_name(fields: t.List[str], columns: t.Sequence[str]) -> t.List[str]:
    """Put a name with commas together again: the only column that can hold one."""
    surplus = len(fields) - len(columns)
    if surplus <= 0 or "name" not in columns:
        return fields
    start = columns.index("name")
    end = start + surplus + 1
    return [*fields[:start], ", ".join(fields[start:end]), *fields[end:]]


def _word(text: str) -> t.Optional[Word]:
    """Return what the words in place of a value mean, or None for other text."""
    if text.startswith("[") and text.endswith("]"):
        words = text[1:-1].strip().lower()
        return _WORDS.get(words.rstrip(".!").strip(), _WORDS.get(words, Word("unknown")))
    return _WORDS.get(text.lower())


def _number(pattern: t.Pattern[str]) -> t.Callable[[str], t.Optional[int]]:
    def read(text: str) -> t.Optional[int]:
        match = pattern.fullmatch(text)
        return int(match.group(1)) if match else None

    return read


def _text(pattern: t.Pattern[str]) -> t.Callable[[str], t.Optional[str]]:
    return lambda text: text if pattern.fullmatch(text) else None


def _compute_cap(text: str) -> t.Optional[t.Tuple[int, int]]:
    match = _COMPUTE_CAP.fullmatch(text)
    return (int(match.group(1)), int(match.group(2))) if match else None


_read_mib = _number(_MEMORY)

# How the value of each column is read; None is what cannot be read.
_READERS: t.Dict[str, t.Callable[[str], t.Any]] = {
    "index": _number(_INTEGER),
    "name": lambda text: None if _word(text) else text,
    # No GPU has no memory: a 0 is a number that the tool did not get.
    "memory.total": lambda text: _read_mib(text) or None,
    "compute_cap": _compute_cap,
    "driver_version": _text(_DRIVER),
    "uuid": _text(_UUID),
    "pci.bus_id": parse_device_address,
    "mig.mode.current": lambda text: {"enabled": True, "disabled": False}.get(text.lower()),
    "memory.reserved": _read_mib,
}
