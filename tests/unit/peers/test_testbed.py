# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import ipaddress
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.knaster.inventory.tests.peers import testbed
from ansible_collections.knaster.inventory.tests.peers.testbed import NETWORKS, BedError, choose_network

ROOT = Path(__file__).parents[3]
TESTBED = ROOT / "tests/peers/testbed.py"


def used(*networks):
    return [(ipaddress.IPv4Network(network), f"dev{place} has {network}") for place, network in enumerate(networks)]


def test_the_first_network_is_taken_where_nothing_is_used():
    assert choose_network(used("192.0.2.0/24"), None) == NETWORKS[0]


@pytest.mark.parametrize("network", ["10.77.0.0/24", "10.77.0.9/32", "10.0.0.0/8", "10.76.0.0/15"])
def test_a_network_that_overlaps_is_passed_over(network):
    chosen = choose_network(used(network), None)
    assert chosen != "10.77.0"
    assert not ipaddress.IPv4Network(f"{chosen}.0/24").overlaps(ipaddress.IPv4Network(network))


@pytest.mark.parametrize("network", ["10.76.255.0/24", "10.77.1.0/24"])
def test_a_neighbour_is_no_clash(network):
    assert choose_network(used(network), None) == "10.77.0"


def test_a_network_by_force_is_that_or_an_error():
    assert choose_network(used("10.77.0.0/24"), "172.20.1") == "172.20.1"
    with pytest.raises(
        BedError, match=r"^the network 10\.77\.0\.0/24 is taken: dev0 has 10\.77\.0\.0/24\. KNASTER_BED_NETWORK may"
    ):
        choose_network(used("10.77.0.0/24"), "10.77.0")


@pytest.mark.parametrize("text", ["10.77", "10.77.0.0", "10.77.256", "bed", "10.77.0/24"])
def test_a_network_by_force_that_is_none_is_an_error(text):
    with pytest.raises(BedError, match="must be three numbers"):
        choose_network([], text)


def test_where_all_are_taken_each_is_named():
    with pytest.raises(BedError) as caught:
        choose_network(used(*(f"{network}.0/24" for network in NETWORKS)), None)
    assert [network for network in NETWORKS if f"{network}.0/24 is taken" not in str(caught.value)] == []


needs_bed = pytest.mark.skipif(
    testbed.why_unsupported() is not None, reason=f"no test bed: {testbed.why_unsupported()}"
)


def ask_network(setup, **environment):
    """Ask for a network in a namespace that has no interface but those of the set-up."""
    script = f'{setup}; exec "{sys.executable}" "{TESTBED}" network'
    return subprocess.run(
        ["unshare", "--net", "sh", "-ec", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


OTHER = "ip link add other0 type bridge; ip addr add 10.77.0.1/24 dev other0"
ROUTE = "ip link add other0 type bridge; ip link set other0 up; ip route add 10.64.0.0/10 dev other0"
DEFAULT = "ip link add other0 type bridge; ip link set other0 up; ip route add 0.0.0.0/1 dev other0; ip route add default dev other0"


@needs_bed
@pytest.mark.parametrize(
    ("setup", "network"), [("true", "10.77.0"), (OTHER, "10.78.0"), (ROUTE, "172.29.77"), (DEFAULT, "10.77.0")]
)
def test_the_network_is_one_that_the_machine_does_not_use(setup, network):
    assert ask_network(setup, KNASTER_BED_NETWORK="").stdout == network + "\n"


@needs_bed
@pytest.mark.parametrize(
    ("setup", "words"),
    [(OTHER, "other0 has 10.77.0.1/24"), (ROUTE, "there is a route to 10.64.0.0/10 over other0")],
)
def test_a_network_by_force_that_is_used_is_named_with_what_uses_it(setup, words):
    done = ask_network(setup, KNASTER_BED_NETWORK="10.77.0")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"test bed: the network 10.77.0.0/24 is taken: {words}." in done.stderr
