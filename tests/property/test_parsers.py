# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Whatever a node prints: a parser gives a value or its own error, and never something that the text does not say."""

from __future__ import annotations

import os
import re
import typing as t
from pathlib import Path

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._parsers import (
    cpuinfo,
    lsblk,
    lscpu,
    meminfo,
    mounts,
    nvidia_smi,
    sysfs_pci,
)
from ansible_collections.knaster.inventory.plugins.module_utils._parsers._errors import ParseError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FIXTURES = Path(__file__).resolve().parents[1] / "unit" / "fixtures" / "outputs"
EXAMPLES = int(os.environ.get("KNASTER_EXAMPLES") or "300")
quick = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])

# What real outputs are broken with: pieces that mean something to one parser or another.
PIECES = [
    "", "\n", "\r\n", "\ufeff", "\0", " ", "\t", ",", ", ", ":", '"', "[N/A]", "[Unknown Error]", "[", "]", "{", "}", "-",
    "0", "1", "99999999999999999999", "-1", "1e9", "NaN", "null", "true", "0x", "é", "\udcff", "\u2028", "\x1b[31m",
    "No devices were found", "Unable to determine the device handle for GPU 0000:0B:00.0: GPU is lost", "0, ",
    "processor : 0", "MemTotal:", "CPU(s):", "Socket(s): -", "0000:00:00.0/class:0x030000", "\\040", "(", ")", "%s",
]  # fmt: skip

# Text without any digit can not name a card: there is no index, no size and no address in it.
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Nd", "Nl", "No", "Cs")), max_size=200)


def fixtures(kind: str) -> list[str]:
    found = [path.read_text(encoding="utf-8") for path in sorted(FIXTURES.glob(f"{kind}-*"))]
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


PARSERS: list[tuple[str, Parser]] = [
    ("nvidia-smi", nvidia_smi.parse_query),
    ("nvidia-smi", nvidia_smi.parse_identity),
    ("cpuinfo", cpuinfo.parse),
    ("lscpu", lscpu.parse),
    ("meminfo", meminfo.parse),
    ("lsblk", lsblk.parse),
    ("lsblk", lsblk.parse_table),
    ("mounts", mounts.parse),
    ("sysfs-pci", sysfs_pci.parse_text),
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
    for card in cards:
        assert card.index is None or str(card.index) in plain
        assert card.memory_mib is None or (card.memory_mib > 0 and str(card.memory_mib).lstrip("0"))
        # A name may have been put together again from pieces around a comma.
        assert all(piece.strip() in plain for piece in (card.name or "").split(","))
        for value in (card.driver, card.uuid):
            assert value is None or value in plain
        assert card != nvidia_smi.Card()


@quick
@given(text=WORDS, rc=st.sampled_from((None, 0, 1, 9)))
def test_no_card_out_of_words(text: str, rc: int | None) -> None:
    with pytest.raises(ParseError):
        nvidia_smi.parse_query(text, rc=rc)
    with pytest.raises(ParseError):
        nvidia_smi.parse_identity(text, rc=rc)


@quick
@given(text=mutated("smi-error"), rc=st.sampled_from((None, 0, 2, 9, 255)))
def test_no_healthy_card_out_of_an_error(text: str, rc: int | None) -> None:
    try:
        cards = nvidia_smi.parse_query(text, rc=rc)
    except ParseError:
        return
    # Only where a piece of a row was put in; what such a row lacks makes it unhealthy.
    assert "0, " in text or "\n1, " in text or "1," in text
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
    assert cpu.sockets is None or 1 <= cpu.sockets <= cpu.threads


@quick
@given(text=mutated("lscpu"))
def test_lscpu_cores_are_never_more_than_threads(text: str) -> None:
    try:
        cpu = lscpu.parse(text)
    except ParseError:
        return
    assert cpu.threads >= 1
    assert cpu.cores is None or 1 <= cpu.cores <= cpu.threads
    assert cpu.sockets is None or cpu.sockets >= 1


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
