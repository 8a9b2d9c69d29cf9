# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Whatever a node prints: a parser gives a value or its own error, and never something that the text does not say."""

from __future__ import annotations

import json
import os
import random
import re
import string
import struct
import typing as t
from urllib.parse import unquote

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._parsers import (
    amd_smi,
    cpuinfo,
    gguf,
    lsblk,
    lscpu,
    meminfo,
    mounts,
    nvidia_smi,
    nvidia_smi_list,
    nvidia_smi_processes,
    pve_guests,
    rocm_smi,
    safetensors,
    sysfs_pci,
    xpu_smi,
)
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.gpu import Gpu
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.nvidia_smi_text import IDENTITY_COLUMNS
from ansible_collections.knaster.inventory.plugins.module_utils._pci import NVIDIA, Address
from ansible_collections.knaster.inventory.tests.peers.limits import cpu_limit
from ansible_collections.knaster.inventory.tests.peers.outputs import OUTPUTS
from ansible_collections.knaster.inventory.tests.peers.weights import gguf_header
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("KNASTER_EXAMPLES") or "300")
quick = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])

# What real outputs are broken with: pieces that mean something to one parser or another.
PIECES = [
    "", "\n", "\r\n", "\ufeff", "\0", " ", "\t", ",", ", ", ":", '"', "[N/A]", "[Unknown Error]", "[", "]", "{", "}", "-",
    "0", "1", "99999999999999999999", "-1", "1e9", "NaN", "null", "true", "0x", "é", "\udcff", "\u2028", "\x1b[31m",
    "No devices were found", "Unable to determine the device handle for GPU 0000:0B:00.0: GPU is lost", "0, ",
    "processor : 0", "MemTotal:", "CPU(s):", "Socket(s): -", "0000:00:00.0/class:0x030000", "\\040", "(", ")", "%s",
]  # fmt: skip

# Text without any digit cannot name a GPU: there is no index, no size and no address in it.
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Nd", "Nl", "No", "Cs")), max_size=200)


# Headers of files of weights, their bytes as characters.
MADE = {
    "gguf": [
        gguf_header(
            {
                "general.architecture": ("text", "llama"),
                "llama.block_count": ("u32", 32),
                "llama.attention.head_count_kv": ("u32s", [8, 0, 8]),
                "tokenizer.ggml.tokens": ("texts", ["a", "bc"]),
                "tokenizer.ggml.add_bos_token": ("flag", True),
            },
            tensors=[("output.weight", [4096, 128256]), ("norm", [4096])],
        )
    ],
    "safetensors": [
        struct.pack("<Q", len(text)) + text
        for text in (
            json.dumps(
                {
                    "__metadata__": {"format": "pt"},
                    "a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]},
                    "b": {"dtype": "F8_E4M3", "shape": [5], "data_offsets": [12, 17]},
                }
            ).encode(),
        )
    ],
}


def fixtures(kind: str) -> list[str]:
    if kind in MADE:
        return [data.decode("latin-1") for data in MADE[kind]]
    found = [path.read_text(encoding="utf-8") for path in sorted(OUTPUTS.glob(f"{kind}-*"))]
    assert found, f"there are no fixtures of {kind}"
    return found


@st.composite
def mutated(draw: st.DrawFn, kind: str) -> str:
    """Draw an output of this kind with some pieces cut out, doubled, moved or put in."""
    text = draw(st.sampled_from(fixtures(kind)))
    for _step in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 60)))
        how = draw(st.sampled_from(("cut", "double", "insert", "replace", "truncate", "lines", "move")))
        if how == "cut":
            text = text[:start] + text[end:]
        elif how == "double":
            text = text[:end] + text[start:]
        elif how == "insert":
            text = text[:start] + draw(st.sampled_from(PIECES)) + text[start:]
        elif how == "replace":
            text = text[:start] + draw(st.text(max_size=8)) + text[end:]
        elif how == "truncate":
            text = text[:start]
        elif how == "move":
            text = text[end:] + text[start:end] + text[:start]
        else:
            lines = text.split("\n")
            draw(st.randoms(use_true_random=False)).shuffle(lines)
            text = "\n".join(lines)
    return text


Parser = t.Callable[[str], object]


def attempt(parse: Parser, text: str) -> object:
    """Give what a parser gives, or what its error says."""
    try:
        return parse(text)
    except ParseError as error:
        return error.source, error.code, str(error)


def parse_identity(text: str, **options: t.Any) -> list[Gpu]:
    """Read the second query."""
    return nvidia_smi.parse_query(text, columns=IDENTITY_COLUMNS, **options)


def parse_gguf(text: str) -> gguf.Header:
    """Read a text whose characters stand for bytes."""
    try:
        return gguf.parse(text.encode("latin-1", "replace"))
    except gguf.MoreNeededError:
        raise ParseError("gguf", "more_needed") from None


def parse_safetensors(text: str) -> safetensors.Header:
    """Read such a text as a file without its tensors, whose size the header may promise up to a limit."""
    data = text.encode("latin-1", "replace")
    size = len(data) + 4096
    length = safetensors.header_length(data, size)
    return safetensors.parse(data[safetensors.LENGTH_BYTES : safetensors.LENGTH_BYTES + length], size)


def parse_listing(text: str) -> list[sysfs_pci.Device]:
    """Read the files and links of a saved listing as the gather script prints them."""
    line = re.compile(r"^(?:\S*/)?([^/\s]+)/([a-z_]+)(?::| -> )(\S*)", re.MULTILINE)
    return sysfs_pci.parse_lines("\n".join(f"address={one} {key}={value}" for one, key, value in line.findall(text)))


PARSERS: list[tuple[str, Parser]] = [
    ("nvidia-smi", nvidia_smi.parse_query),
    ("nvidia-smi", parse_identity),
    ("cpuinfo", cpuinfo.parse),
    ("lscpu", lscpu.parse),
    ("meminfo", meminfo.parse),
    ("lsblk", lsblk.parse),
    ("mounts", mounts.parse),
    ("sysfs-pci", parse_listing),
    ("smi-list", nvidia_smi_list.parse),
    ("amd-smi", amd_smi.parse),
    ("rocm-smi", rocm_smi.parse),
    ("xpu-smi", xpu_smi.parse),
    ("pve-guests", pve_guests.parse),
    ("smi-processes", nvidia_smi_processes.parse),
    ("gguf", parse_gguf),
    ("safetensors", parse_safetensors),
]


@pytest.mark.parametrize(("kind", "parse"), PARSERS)
@quick
@given(data=st.data())
def test_nothing_but_its_own_error(kind: str, parse: Parser, data: st.DataObject) -> None:
    text = data.draw(st.one_of(mutated(kind), st.text(max_size=300)))
    assert attempt(parse, text) == attempt(parse, text)


@quick
@given(text=mutated("nvidia-smi"), rc=st.sampled_from((None, 0, 1, 2, 6, 9, 15, 255)))
def test_a_card_says_only_what_its_text_says(text: str, rc: int | None) -> None:
    try:
        cards = nvidia_smi.parse_query(text, rc=rc)
    except ParseError:
        return
    lines = [line for line in re.split(r"[\r\n]", text) if line.strip()]
    assert 1 <= len(cards) <= len(lines)
    plain = text.replace("\0", "").replace("\ufeff", "")
    has = told_by(text)
    for card in cards:
        assert card.index is None or str(card.index) in plain
        assert card.memory_mib is None or card.memory_mib in sizes(plain)
        # A name may have been put together again from pieces around a comma.
        assert all(has(piece.strip()) for piece in (card.name or "").split(","))
        for value in (card.driver, card.uuid):
            assert value is None or value in plain
        assert card != Gpu(NVIDIA)


@quick
@given(text=WORDS, rc=st.sampled_from((None, 0, 1, 9)))
def test_no_card_out_of_words(text: str, rc: int | None) -> None:
    with pytest.raises(ParseError):
        nvidia_smi.parse_query(text, rc=rc)
    with pytest.raises(ParseError):
        parse_identity(text, rc=rc)


VENDOR_PARSERS: list[tuple[str, t.Callable[..., list[t.Any]]]] = [
    ("amd-smi", amd_smi.parse),
    ("rocm-smi", rocm_smi.parse),
    ("xpu-smi", xpu_smi.parse),
    ("smi-list", nvidia_smi_list.parse),
]


@pytest.mark.parametrize(("kind", "parse"), VENDOR_PARSERS)
@quick
@given(text=WORDS, rc=st.sampled_from((None, 0, 1, 9)))
def test_no_card_of_another_vendor_out_of_words(
    kind: str, parse: t.Callable[..., list[t.Any]], text: str, rc: int | None
) -> None:
    assert fixtures(kind)
    with pytest.raises(ParseError):
        parse(text, rc=rc)


@quick
@given(text=mutated("smi-error"), rc=st.sampled_from((None, 0, 2, 9, 255)))
def test_no_healthy_card_out_of_an_error(text: str, rc: int | None) -> None:
    try:
        cards = nvidia_smi.parse_query(text, rc=rc)
    except ParseError:
        return
    # Only where a piece of a row was put in; what such a row lacks makes it unhealthy.
    for card in cards:
        assert re.search(rf"\b{card.index}\s*,", without_marks(text)) if card.index is not None else card.health
    assert [card for card in cards if card.health is None and card.memory_mib is not None] == []


@quick
@given(text=mutated("cpuinfo"))
def test_cores_are_never_more_than_threads(text: str) -> None:
    try:
        cpu = cpuinfo.parse(text)
    except ParseError:
        return
    assert cpu.threads >= 1
    assert cpu.cores is None or 1 <= cpu.cores <= cpu.threads


@quick
@given(text=mutated("lscpu"))
def test_lscpu_cores_are_never_more_than_threads(text: str) -> None:
    try:
        cpu = lscpu.parse(text)
    except ParseError:
        return
    assert cpu.threads >= 1
    assert cpu.cores is None or 1 <= cpu.cores <= cpu.threads


@quick
@given(text=mutated("lsblk"))
def test_disks_are_rows_in_order(text: str) -> None:
    try:
        rows = lsblk.parse(text)
    except ParseError:
        return
    found = lsblk.disks(rows)
    assert all(disk in rows for disk in found)
    keys = [lsblk.natural_key(disk.name) for disk in found]
    assert keys == sorted(keys)
    assert lsblk.disks(reversed(rows)) == found or len({row.name for row in rows}) < len(rows)


SYSFS = st.fixed_dictionaries(
    {},
    optional={
        "address": st.one_of(
            st.from_regex(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", fullmatch=True), st.text(max_size=12)
        ),
        "vendor": st.sampled_from(("0x10de", "0x1002", "0x8086", "0x1a03", "10de", "", None, "x", 4318)),
        "device": st.sampled_from(("0x27b2", "0x1586", "0x22a3", "0x", None, "27b2", "0x12345")),
        "class": st.sampled_from(("0x030000", "0x030200", "0x038000", "0x068000", "0x120000", "3", None, "0xzz")),
        "driver": st.sampled_from(("vfio-pci", "../drivers/nvidia", "/", "", None)),
        "iommu_group": st.sampled_from(("1", "../iommu_groups/1", 1, -1, "x", True, None)),
        "numa_node": st.sampled_from(("0", "-1", "", None, 1)),
        "physfn": st.sampled_from((None, "../0000:3b:00.0", "x")),
    },
)


@quick
@given(entries=st.lists(SYSFS, max_size=8))
def test_a_gpu_is_a_display_of_a_known_vendor(entries: list[dict[str, t.Any]]) -> None:
    devices = sysfs_pci.parse(entries)
    addresses = [device.address for device in devices]
    assert len(set(addresses)) == len(addresses)
    for gpu in sysfs_pci.gpus(devices):
        assert gpu.vendor_id in ("10de", "1002", "8086")
        assert gpu.class_code is not None
        assert gpu.address in addresses
        assert gpu.address not in [peer.address for peer in gpu.iommu_peers]


# Many plain mutations, where the tests above draw few and shrink them.
MUTATIONS = int(os.environ.get("KNASTER_MUTATIONS") or "20000")
# A text that takes more than this, in seconds of the processor alone, hangs its parser.
HANG_SECONDS = 30
LONGEST = 1500
ALPHABET = string.printable + "\0\ufeff\u2028é"


def change(chance: random.Random, text: str, others: list[str]) -> str:
    """Return a text with one thing changed, of the kind that cut, mixed or broken outputs have."""
    start = chance.randint(0, len(text))
    end = min(len(text), start + chance.choice((1, 1, 4, 30, 200)))
    how = chance.randrange(9)
    if how == 0:
        return text[:start] + text[end:]
    if how == 1:
        return text[:end] + text[start:]
    if how == 2:
        return text[:start] + chance.choice(PIECES) + text[start:]
    if how == 3:
        return text[:start] + "".join(chance.choices(ALPHABET, k=min(8, end - start))) + text[end:]
    if how == 4:
        return text[:start]
    if how == 5:
        lines = text.split("\n")
        chance.shuffle(lines)
        return "\n".join(lines)
    if how == 6:
        other = chance.choice(others)
        return text[:start] + other[chance.randint(0, len(other)) :][:LONGEST]
    if how == 7:
        return re.sub(r"[0-9]", lambda _digit: chance.choice(string.digits), text[start:end]).join(
            (text[:start], text[end:])
        )
    return text.replace(text[start:end] or " ", chance.choice(PIECES), chance.choice((1, 3)))


def mutations(kind: str, parser: str, own: list[str]) -> t.Iterator[str]:
    """Give mutations of texts, the same ones in every run."""
    chance = random.Random(f"{kind} {parser}")
    others = [text for other in {kind for kind, _parse in PARSERS} for text in fixtures(other)]
    others.sort()
    for _count in range(MUTATIONS):
        text = chance.choice(own)
        if len(text) > LONGEST and chance.random() < 0.98:
            # What matters stands at the start of most outputs; the long ones are tried whole now and then.
            start = chance.choice((0, chance.randint(0, len(text) - 1)))
            text = text[start : start + LONGEST]
        for _step in range(chance.choice((1, 1, 2, 3, 6))):
            text = change(chance, text, others)
        yield text


def told_by(text: str) -> t.Callable[[str | None], bool]:
    """Return a check whether a text has a value, in whatever case, plain or as CSV, JSON or a URL write it."""
    plain = without_marks(text)
    forms = [form.lower() for form in (plain, plain.replace('""', '"'), without_escapes(plain), unquote(plain))]
    return lambda value: value is None or any(value.lower() in form for form in forms)


def without_escapes(text: str) -> str:
    """Return a text with the escapes of JSON as the characters that they stand for."""
    short = {"n": "\n", "t": "\t", "b": "\b", "f": "\f", "r": "\r"}
    plain = re.sub(
        r"\\(?:u([0-9a-fA-F]{4})|(.))",
        lambda match: chr(int(match.group(1), 16)) if match.group(1) else short.get(match.group(2), match.group(2)),
        text,
    )
    # A pair of surrogates is one character.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def without_marks(text: str) -> str:
    """Leave out what parsers leave out before they look at a text."""
    return re.sub("[\0\r\ufeff]", "", text)


def has_address(address: Address | None, text: str) -> bool:
    """Tell whether a text has an address without its domain, whose zeros each tool writes in its own way."""
    return address is None or told_by(text)(address.text.partition(":")[2])


def check_gpu(gpu: Gpu, text: str) -> None:
    has = told_by(text)
    assert gpu != Gpu(gpu.vendor_id)
    assert has(gpu.driver)
    assert has(gpu.uuid)
    assert has(gpu.device_id) or has((gpu.device_id or "").lstrip("0"))
    assert has_address(gpu.address, text)
    # A name may have been put together again from pieces around a comma.
    assert all(has(piece.strip()) for piece in (gpu.name or "").split(","))
    assert gpu.memory_mib is None or gpu.memory_mib in sizes(text)
    if gpu.vendor_id != NVIDIA:
        assert has(str(gpu.index)), "an index that the text does not have"
    for part in gpu.slices or ():
        assert has(part.uuid)
        assert has(part.name)
        assert gpu.vendor_id != NVIDIA or str(part.memory_gb) in part.name


def sizes(text: str) -> set[int]:
    """Return every MiB that a number of a text can mean, in any unit."""
    numbers = {
        whole
        for plain in (without_marks(text), text)
        for number in re.findall(r"[0-9]{1,30}(?:\.[0-9]+)?(?:[eE]\+?[0-9]{1,2})?", plain, re.ASCII)
        # A float rounds what is long.
        for whole in (int(float(number)), int(re.split(r"[.eE]", number)[0]))
    }
    return {int(number * unit) for number in numbers for unit in (1, 1024, 1 << 20, 1 / 1024, 1 / (1 << 20))} - {0}


def check_device(device: sysfs_pci.Device, text: str) -> None:
    assert has_address(device.address, text)


def check_guest(guest: pve_guests.Guest, text: str) -> None:
    # The name in a mark is written in JSON, and that as a URL.
    assert told_by(text)(guest.name) or told_by(unquote(text))(guest.name)
    assert str(guest.id) in without_marks(text)
    assert guest.ours <= ("inventory" in text or "%" in text)
    assert all(has_address(address, text) for address in guest.devices)


def check_process(process: nvidia_smi_processes.Process, text: str) -> None:
    has = told_by(text)
    assert has(process.uuid)
    assert has(str(process.pid))
    assert has(process.name)


def check_gguf(header: gguf.Header, text: str) -> None:
    # Every key takes twelve bytes at least, and every tensor 24; the data may begin behind a filling.
    assert 24 + 12 * len(header.facts) + 24 * header.tensors <= len(text)
    assert header.data_offset >= 24


def check_safetensors(header: safetensors.Header, text: str) -> None:
    assert 0 <= header.tensors <= len(text)
    assert 0 <= header.tensor_bytes <= header.tensors * 4096
    assert all(number >= 0 for number in header.values.values())


def check_guests(guests: pve_guests.Guests, text: str) -> None:
    for guest in guests.guests:
        check_guest(guest, text)
    assert guests.whole <= ("end" in without_marks(text))


CHECKS: dict[type, t.Callable[[t.Any, str], None]] = {
    Gpu: check_gpu,
    sysfs_pci.Device: check_device,
    pve_guests.Guests: check_guests,
    nvidia_smi_processes.Process: check_process,
    gguf.Header: check_gguf,
    safetensors.Header: check_safetensors,
}


def check_mutations(kind: str, parse: Parser, own: list[str]) -> None:
    """Read mutations of texts, and look at all that is found in them."""
    read = 0
    for text in mutations(kind, parse.__qualname__, own):
        try:
            with cpu_limit(HANG_SECONDS):
                found = parse(text)
        except ParseError:
            continue
        read += 1
        for item in found if isinstance(found, list) else (found,):
            if type(item) in CHECKS:
                CHECKS[type(item)](item, text)
    # Texts that all fail would say nothing of what a parser makes of broken ones.
    assert read > 0


@pytest.mark.parametrize(("kind", "parse"), PARSERS)
def test_many_mutations(kind: str, parse: Parser) -> None:
    check_mutations(kind, parse, fixtures(kind))
